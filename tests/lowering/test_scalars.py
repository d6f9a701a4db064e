"""Loops over scalars as one kernel: what is replaced, and that it computes the same."""

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.control.rows.cond import cond_call
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.lowering.kernel.verify import verify, verify_schedule
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from ftrace.lowering.program.program import BranchStep, Repeat
from tests.lowering.simulate import simulate


def planned(jaxpr):
    """The program of a jaxpr."""
    return plan(jaxpr, Machine(64))


def repeats(steps):
    """How many loops are left among steps."""
    found = 0
    for step in steps:
        if isinstance(step, Repeat):
            found += 1 + repeats(step.cond) + repeats(step.body)
        elif isinstance(step, BranchStep):
            found += sum(map(repeats, step.arms))
    return found


def fibonacci(n):
    return lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, c[2], c[1] + c[2]), (n, 0, 1))


def collatz(n):
    return lax.while_loop(
        lambda c: c[0] != 1,
        lambda c: (lax.cond(c[0] % 2 == 0, lambda k: k // 2, lambda k: 3 * k + 1, c[0]), c[1] + 1),
        (n, 0),
    )


def triangle(n):
    def row(c):
        i, total = c
        inner = lax.while_loop(
            lambda d: d[0] < i, lambda d: (d[0] + 1, d[1] + d[0] * i), (0, total)
        )
        return i + 1, inner[1]

    return lax.while_loop(lambda c: c[0] < n, row, (0, 0))


def mandelbrot(z):
    return lax.while_loop(
        lambda c: (c[0].real ** 2 + c[0].imag ** 2 < 4.0) & (c[1] < 50),
        lambda c: (c[0] * c[0] + z, c[1] + 1),
        (z * 0, 0),
    )


def flags(x):
    return lax.while_loop(
        lambda c: ~c[0], lambda c: (c[1] > 20.0, c[1] * 1.5, ~c[2]), (x > 1e9, x, x > 0)
    )


def three_arms(n):
    arms = (lambda k: k + 1, lambda k: k * 2, lambda k: k + 5)
    branches = tuple(ftrace.make_jaxpr(f)(np.int32(0)) for f in arms)
    return lax.while_loop(
        lambda k: k < 1000, lambda k: cond_call(k % 4 - 1, k, branches=branches)[0], n
    )


def one_in_an_arm(x):
    """A cell that one arm writes and the other leaves as it was."""
    return lax.while_loop(
        lambda c: c[0] < 9,
        lambda c: (c[0] + 1, lax.cond(c[0] % 3 == 0, lambda y: y * 2.0, lambda y: y, c[1]), c[1]),
        (0, x, x),
    )


def searching_condition(x):
    """The condition has a loop of its own."""
    return lax.while_loop(
        lambda y: lax.while_loop(lambda z: z > 1.0, lambda z: z * 0.5, y) > 0.75,
        lambda y: y + 1.0,
        x,
    )


def from_outside(x):
    """A number that every turn reads, in the condition and twice in the body."""
    return lax.while_loop(lambda c: c[0] < 40.0 * x, lambda c: (c[0] + x, c[1] * x), (x, 1.0))


def unused_results(x):
    out = lax.while_loop(
        lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] + 1.0, c[2] * 2.0), (0, x, x)
    )
    return out[2] * 2.0


SCALAR = {
    "fibonacci": (fibonacci, np.int64(30)),
    "no turn": (fibonacci, np.int64(0)),
    "collatz": (collatz, np.int64(27)),
    "triangle": (triangle, np.int64(9)),
    "complex": (mandelbrot, np.complex128(-0.4 + 0.6j)),
    "flags": (flags, np.float32(3)),
    "three arms": (three_arms, np.int32(1)),
    "one in an arm": (one_in_an_arm, np.float64(1.5)),
    "condition with a loop": (searching_condition, np.float64(2.25)),
    "from outside": (from_outside, np.float64(1.5)),
    "unused results": (unused_results, np.float64(3)),
    "float16": (
        lambda x: lax.while_loop(lambda y: y < 9.0, lambda y: y * 1.7, x),
        np.float16(1.25),
    ),
}


@pytest.mark.parametrize("name", SCALAR)
def test_a_loop_over_scalars_becomes_a_kernel_that_computes_the_same(name):
    fn, x = SCALAR[name]
    jaxpr = ftrace.make_jaxpr(fn)(x)
    program = planned(jaxpr)
    (launch,) = program.steps
    verify(launch.kernel)
    verify_schedule(launch.kernel, launch.schedule)
    expected = eval_jaxpr(jaxpr, [x])
    for got, wanted in zip(simulate(program, [x]), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_loops_over_arrays_stay_and_those_inside_them_do_not():
    def fn(x):
        def body(c):
            i, y = c
            n = lax.while_loop(lambda k: k < 10, lambda k: k * 2 + 1, i)
            return i + 1, y * n

        return lax.while_loop(lambda c: c[0] < 3, body, (0, x))

    x = np.ones(70)
    jaxpr = ftrace.make_jaxpr(fn)(x)
    program = planned(jaxpr)
    assert repeats(program.steps) == 1
    np.testing.assert_array_equal(simulate(program, [x])[1], eval_jaxpr(jaxpr, [x])[1])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: lax.while_loop(lambda y: y < 9.0, lambda y: y + np.sort(np.stack([y, y]))[0], x),
        lambda x: lax.while_loop(lambda y: y.sum() < 9.0, lambda y: y + 1.0, np.stack([x] * 70)),
    ],
)
def test_what_is_not_scalar_arithmetic_is_a_loop_of_steps(fn):
    jaxpr = ftrace.make_jaxpr(fn)(np.float64(1))
    assert repeats(planned(jaxpr).steps) == 1


@pytest.mark.parametrize("name", ["fibonacci", "collatz", "triangle", "complex", "float16"])
def test_a_mapped_loop_over_scalars_is_one_kernel(name):
    fn, x = SCALAR[name]
    xs = np.stack([x, x - x.dtype.type(1)])
    jaxpr = ftrace.make_jaxpr(ftrace.vmap(fn))(xs)
    program = planned(jaxpr)
    (_,) = program.steps
    for got, wanted in zip(simulate(program, [xs]), eval_jaxpr(jaxpr, [xs]), strict=True):
        # NumPy may contract products of complex arrays, and not those of complex numbers
        np.testing.assert_allclose(got, wanted, rtol=1e-12 if xs.dtype.kind == "c" else 0)
