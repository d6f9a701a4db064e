"""Cumulative rows as kernels: loops that run in order, and what is computed in them on the way.

Programs are simulated with independent loops in both directions, and compiled; a running sum,
product, maximum or minimum has NumPy's bits.
"""

from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.core.avals import aval
from ftrace.core.lower import Cumulative
from ftrace.core.primitive import NONDIFFERENTIABLE, Primitive, Unsupported
from ftrace.lowering.kernel.ir import Loop, loops_of
from ftrace.lowering.kernel.schedule import LANE
from ftrace.lowering.kernel.verify import verify, verify_schedule
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from ftrace.lowering.program.program import Accumulate
from ftrace.primitives import cumulative
from tests.lowering.programs import counted, planned
from tests.lowering.simulate import simulate
from tests.lowering.test_plan import checked

RNG = np.random.default_rng(3)
V, W = RNG.normal(size=7), RNG.normal(size=7)
M, S, T = RNG.normal(size=(4, 8)), RNG.normal(size=(8, 8)), RNG.normal(size=(3, 4, 5))
ROWS = {
    row.name: row
    for row in (
        cumulative.cumsum,
        cumulative.cumprod,
        cumulative.cummax,
        cumulative.cummin,
        cumulative.cumlogsumexp,
    )
}
EXACT = [name for name in ROWS if name != "cumlogsumexp"]


def same_bits(found: Any, expected: Any) -> None:
    """Equal values, signs of zeros too."""
    np.testing.assert_array_equal(found, expected, strict=True)
    if np.asarray(expected).dtype.kind == "f":
        there = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found)[there], np.signbit(expected)[there])


def results(f: Any, *args: Any) -> list[list[Any]]:
    """What a program without Python gives: simulated both ways, and compiled."""
    program = planned(f, *args)
    assert not program.callbacks
    for launch in program.launches:
        verify(launch.kernel)
        verify_schedule(launch.kernel, launch.schedule)
    compiled = ftrace.tree_util.tree_leaves(ftrace.jit(f)(*args))
    with np.errstate(all="ignore"):
        return [simulate(program, args), simulate(program, args, reverse=True), compiled]


# ---------------------------------------------------------------------------------- values

SHAPES = [((9,), 0), ((4, 5), 0), ((4, 5), 1), ((3, 4, 5), 1), ((20, 19), 0), ((19, 20), 1)]
SHAPES += [((4, 1, 3), 1), ((0, 3), 0), ((0, 3), 1), ((3, 0), 0), ((1, 4), 1), ((2, 1), 0)]


KINDS = [("f8", *place) for place in SHAPES]
KINDS += [(dtype, (4, 5), axis) for dtype in ("f4", "f2", "i8", "u1", "?") for axis in (0, 1)]


@pytest.mark.sampled(2, each="name")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("dtype", "shape", "axis"), KINDS)
@pytest.mark.parametrize("name", EXACT)
def test_a_row_has_the_bits_of_numpy(name, dtype, shape, axis, reverse):
    x = (RNG.normal(size=shape) * 3).astype(dtype)
    with np.errstate(all="ignore"):
        expected = ROWS[name](x, axis=axis, reverse=reverse)
    for (found,) in results(lambda x: ROWS[name](x, axis=axis, reverse=reverse), x):
        same_bits(found, expected)


SPECIAL = {
    "zeros of one sign": [-0.0, -0.0, 0.0, -0.0],
    "not a number": [1.0, np.nan, 2.0, -np.inf],
    "infinities": [np.inf, 1.0, -np.inf, 3.0],
    "the least first": [-np.inf, -np.inf, 2.0, 1e300],
    "the greatest first": [np.inf, np.inf, np.inf, -1.0],
    "too large": [1e308, 1e308, -1e308, 1e308],
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("values", SPECIAL)
@pytest.mark.parametrize("name", ROWS)
def test_special_values_run_on_as_in_numpy(name, values, reverse):
    for x in (np.array(SPECIAL[values]), np.repeat(np.array(SPECIAL[values])[:, None], 3, 1)):
        with np.errstate(all="ignore"):
            expected = ROWS[name](x, axis=0, reverse=reverse)
        for (found,) in results(lambda x: ROWS[name](x, axis=0, reverse=reverse), x):
            if name in EXACT:
                same_bits(found, expected)
            else:
                np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_complex_sum_runs_in_its_parts(axis):
    x = RNG.normal(size=(4, 3)) + 1j * RNG.normal(size=(4, 3))
    x[1, 1] = complex(-0.0, np.inf)
    for (found,) in results(lambda x: np.cumsum(x, axis=axis), x):
        same_bits(found.view(float), np.cumsum(x, axis=axis).view(float))


def test_a_complex_product_is_left_to_the_library():
    """1 times infinity has a part that is not a number, so there is nothing to start from."""
    x = np.array([complex(np.inf, 1.0), 2.0 + 0j])
    assert counted(np.cumprod, x).callbacks == 1


def test_the_log_of_a_running_sum_of_exponentials_is_as_exact_as_the_definition():
    for x in (RNG.normal(size=200) * 30, np.linspace(0, 5, 300), np.full(100, 1e-20)):
        exact = x.astype(np.longdouble)
        top = np.maximum.accumulate(exact)
        expected = [m + np.log(np.sum(np.exp(exact[: i + 1] - m))) for i, m in enumerate(top)]
        for (found,) in results(lambda x: lax.cumlogsumexp(x, axis=0), x):
            np.testing.assert_allclose(found, np.array(expected, float), rtol=3e-14)
    small = np.array([0.0, -50.0, -60.0])  # log(1 + r) for a small r
    for (found,) in results(lambda x: lax.cumlogsumexp(x, axis=0), small):
        expected = [0.0, np.exp(-50.0), np.exp(-50.0) + np.exp(-60.0)]
        np.testing.assert_allclose(found, expected, rtol=1e-14)


# ---------------------------------------------------------------------------------- kernels


def below(x):
    return np.cumsum(x, axis=1)


def total_and_slope(x):
    return ftrace.jvp(lambda x: 4.0 * np.cumsum(x**2) ** 2, (x,), (x,))


def jacobian(x):
    push = lambda t: ftrace.jvp(lambda x: np.cumsum(x * x) * 3.0, (x,), (t,))[1]  # noqa: E731
    return ftrace.vmap(push, out_axes=1)(fnp.eye(x.size))


# name -> function, arguments, kernels
FUSED = {
    "what it reads": (lambda x: np.cumsum(x * 2 + 1, axis=0), (M,), 1),
    "what reads it": (lambda x: below(x) * x + 1, (M,), 1),
    "both results": (lambda x: (lambda y: (y, y * 2.0, x - y))(below(x)), (M,), 1),
    "transposed": (lambda x: below(x).T * 2.0, (M,), 1),
    "as it is and transposed": (lambda x: (lambda y: (y + 1.0, y.T * 2.0))(below(x)), (M,), 1),
    "of a transposed array": (lambda x: np.cumsum(x.T, axis=1), (M,), 1),
    "three axes in another order": (
        lambda x: np.transpose(np.cumsum(x, axis=1), (2, 0, 1)) * 2.0,
        (T,),
        1,
    ),
    "two along the same axis": (lambda x, y: np.cumsum(x) * np.cumsum(y), (V, W), 1),
    "one after the other": (lambda x: below(below(x) * 0.5), (M,), 1),
    "with a tangent": (total_and_slope, (V,), 1),
    "a Jacobian": (jacobian, (V,), 1),
    "a broadcast operand": (lambda x, y: np.cumsum(x * y[:, None], axis=0), (S, S[0]), 1),
    "along another axis": (lambda x: np.cumsum(below(x), axis=0), (M,), 2),
    "and back": (lambda x: lax.cumsum(below(x), axis=1, reverse=True), (M,), 2),
    "a neighbour": (lambda x: np.diff(below(x), axis=1), (M,), 2),
    "upside down": (lambda x: below(x)[::-1] * 2.0, (M,), 2),
    "part of it": (lambda x: below(x)[:, :4] * 2.0, (M,), 2),
    "one element": (lambda x: np.cumsum(x)[-1] * 2.0, (V,), 2),
    "an axis of size 1": (lambda x: np.cumsum(x[:, :1] * 2.0, axis=1) + 1.0, (M,), 1),
    "its sum": (lambda x: np.sum(below(x) ** 2), (M,), 2),
    "a running sum of sums": (lambda x: np.cumsum(np.sum(x, axis=1)), (M,), 2),
    "costly columns": (lambda x: np.exp(np.cumsum(np.exp(x), axis=0)), (M,), 1),
    "a costly operand of a row": (lambda x: below(np.exp(x)), (M,), 2),
    "a costly reader of a row": (lambda x: np.exp(below(x)), (M,), 2),
    "a softmax": (
        lambda x: below((lambda e: e / np.sum(e, axis=1, keepdims=True))(np.exp(x))),
        (M,),
        2,
    ),
    "a square, transposed and not": (
        lambda x: (lambda y: below(y).T + y)(np.cumsum(x, axis=0)),
        (S,),
        2,
    ),
    "in a loop": (
        lambda x: lax.scan(lambda c, x: (np.cumsum(c) * 0.5 + x, c[0]), x[0], x),
        (M,),
        None,
    ),
    "in a branch": (
        lambda x: lax.cond(x[0, 0] > 0, below, lambda x: x, x),
        (M,),
        None,
    ),
    "no columns": (lambda x: np.cumsum(x, axis=0) * 2.0, (np.zeros((3, 0)),), None),
}


@pytest.mark.parametrize("name", FUSED)
def test_a_loop_in_order_takes_what_lies_at_its_place(name):
    f, args, kernels = FUSED[name]
    assert kernels is None or len(planned(f, *args).launches) == kernels
    expected = ftrace.tree_util.tree_leaves(f(*args))
    for found in results(f, *args):
        for y, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(y, e, rtol=1e-12, atol=1e-12)


def test_a_machine_without_loops_in_order_leaves_them_to_the_library():
    jaxpr = ftrace.make_jaxpr(lambda x: np.cumsum(x * 2.0) + 1.0)(V)
    program = plan(jaxpr, Machine(64, in_order=False))
    assert (len(program.launches), len(program.callbacks)) == (2, 1)
    np.testing.assert_array_equal(simulate(program, (V,))[0], np.cumsum(V * 2.0) + 1.0)


def test_costly_operations_beside_a_row_are_in_a_loop_with_lanes():
    for f in (FUSED["a costly operand of a row"][0], FUSED["a costly reader of a row"][0]):
        roles = []
        for launch in planned(f, M).launches:
            loops: list[Loop] = loops_of(launch.kernel.body)
            costly = any(getattr(s, "op", "") == "exp" for s in loops[-1].body.stmts)
            roles.append((costly, any(launch.schedule.role(loop) == LANE for loop in loops)))
        assert sorted(roles) == [(False, False), (True, True)]


def test_what_is_carried_at_a_price_has_lanes_along_the_other_axis():
    for axis in (0, 1):
        (launch,) = planned(lambda x, axis=axis: lax.cumlogsumexp(x, axis=axis), M).launches
        outer, inner = loops_of(launch.kernel.body)
        assert inner.params
        assert launch.schedule.role(outer) == LANE


def test_a_running_sum_overwrites_what_nobody_reads_again():
    f = lambda x: np.cumsum(np.sort(x, axis=0), axis=0) * 2.0  # noqa: E731
    g = lambda x: np.sort(np.cumsum(np.sort(x, axis=0), axis=0), axis=0)  # noqa: E731
    assert counted(f, M).arena == M.nbytes
    assert counted(g, M).arena == M.nbytes
    checked(g, M)


def test_memory_is_not_reused_where_it_is_passed_in_another_order():
    def f(x):
        y = np.sort(x, axis=1)
        return np.sort(below(y).T + y, axis=1)

    program = checked(f, S)
    assert program.arena == 2 * S.nbytes
    np.testing.assert_array_equal(ftrace.jit(f)(S), f(S))


# ---------------------------------------------------------------------------------- derivatives


def loss(x):
    y = np.cumsum(np.sin(x), axis=0) * np.cumprod(x, axis=0)
    return np.sum(y**2) + np.sum(lax.cumsum(x**3, axis=0, reverse=True) * y)


COMPOSED = {
    "grad": ftrace.grad(loss),
    "jacfwd": ftrace.jacfwd(lambda x: np.cumsum(x * x) ** 2),
    "jacrev": ftrace.jacrev(lambda x: np.cumsum(x * x) ** 2),
    "hessian": ftrace.hessian(loss),
    "vmap of grad": lambda x: ftrace.vmap(ftrace.grad(loss))(x[:, None] * V),
    "vmap along": lambda x: ftrace.vmap(np.cumsum, in_axes=1, out_axes=1)(x[:, None] * V),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_a_compiled_transformation_is_the_transformation(name):
    f = COMPOSED[name]
    np.testing.assert_allclose(ftrace.jit(f)(V), f(V), rtol=1e-12, atol=1e-12)


def test_a_compiled_gradient_is_the_difference_of_values():
    gradient, h = ftrace.jit(ftrace.grad(loss))(V), 1e-6
    for i, e in enumerate(np.eye(V.size)):
        difference = (loss(V + h * e) - loss(V - h * e)) / (2 * h)
        np.testing.assert_allclose(gradient[i], difference, rtol=1e-6, atol=1e-6)


def test_the_jacobian_of_a_recurrence_runs_without_python():
    """Value and partials of the recurrence, its running sum, and one kernel for the Jacobian."""

    def recurrence(x):
        s = 1.0
        for _ in range(4):
            s = s + (x * x + 1.0) / s
        return s

    steps = ftrace.vectorize(recurrence, residuals="cache")

    def run(x):
        value, push = ftrace.linearize(lambda x: 4.0 * fnp.cumsum(steps(x)) ** 2, x)
        return value, ftrace.vmap(push, out_axes=1)(fnp.eye(x.size))

    program = planned(run, V)
    assert (len(program.launches), program.callbacks) == (3, ())
    value, slopes = ftrace.jit(run)(V)
    np.testing.assert_allclose(value, run(V)[0], rtol=1e-13)
    np.testing.assert_allclose(slopes, ftrace.jacrev(lambda x: run(x)[0])(V), rtol=1e-12)


def _accumulating(row, x):
    """How many prefixes of the program are steps of a machine that joins them."""
    machine = Machine(64, in_order=False, accumulates=("add", "mul", "max", "min").__contains__)
    program = plan(ftrace.make_jaxpr(lambda x: row(x, axis=0, reverse=False))(x), machine)
    return sum(isinstance(s, Accumulate) for s in program.steps)


@pytest.mark.parametrize(
    "row", [cumulative.cumsum, cumulative.cumprod, cumulative.cummax, cumulative.cummin]
)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "c16"])
def test_machines_join_prefixes_of_every_dtype(row, dtype):
    """Complex ones, too, most of which are not what a kernel does."""
    assert _accumulating(row, np.ones(5, dtype)) == 1


@pytest.mark.parametrize(("start", "prefixes"), [(-0.0, "add"), (7.0, "")])
def test_machines_join_what_the_row_says_is_only_joined(start, prefixes):
    """A balance that starts somewhere is no sum of prefixes."""
    row = Primitive(
        name="balance",
        impl=lambda x, *, axis, reverse: start + np.cumsum(x, axis),
        type=lambda x, *, axis, reverse: aval(x.shape, x.dtype),
        jvp=NONDIFFERENTIABLE,
        transpose=Unsupported("It is only evaluated."),
        batch=Unsupported("It is only evaluated."),
        lower=Cumulative("add", lambda dtype: (start,), prefixes=prefixes),
        doc="A running balance.",
    )
    assert _accumulating(row, np.ones(5)) == bool(prefixes)
