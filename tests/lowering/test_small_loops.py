"""Loops over small arrays are one kernel, with the arrays' elements in registers."""

from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.lowering.kernel.ir import While, loops_of
from ftrace.lowering.kernel.traversal import inside
from ftrace.lowering.kernel.verify import verify, verify_schedule
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from ftrace.lowering.program.program import Repeat, Scan
from tests.lowering.simulate import simulate

RNG = np.random.default_rng(8)
A = RNG.normal(size=(3, 3)) / 2.0
XS = RNG.normal(size=(7, 3))


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in ftrace.tree.leaves(tree)]


def kalman(xs):
    turn = np.array([[1.0, 0.5], [0.0, 1.0]])

    def step(state, row):
        m, p = state
        m, p = turn @ m, turn @ p @ turn.T + 0.1 * np.eye(2)
        v, f = row[0] - m[0], p[0, 0] + 0.3
        gain = p[:, 0] / f
        return (m + gain * v, p - gain[:, None] * p[0][None, :]), np.log(f) + v * v / f

    return lax.scan(step, (np.zeros(2) + xs[0, 0], np.eye(2)), xs)


def matrices(xs):
    def step(m, row):
        m = (A + np.diag(row)) @ m
        return m / np.sqrt(np.sum(m * m)), np.max(m, axis=1)

    return lax.scan(step, np.eye(3) + 0.0 * xs[0, 0], xs)


def complexes(xs):
    def step(z, row):
        turn = (np.cos(row[0]) + 1j * np.sin(row[0])) * np.array([[1.0, 0.5j], [0.5j, 1.0]])
        return turn @ z, np.real(np.sum(z * np.conj(z)))

    return lax.scan(step, np.array([1.0, 0.0]) + 0j * xs[0, 0], xs)


def moves(xs):
    """Concatenation, padding, choice, reversal, views, integers and booleans."""

    def step(state, row):
        x, n, late = state
        y = np.concatenate([x[1:], row[:1]])
        y = np.where(y > 0.5, y, np.pad(x[:2], (1, 0)))
        return (y[::-1] * 1.0, n + np.arange(3), late | (x > row)), (np.stack([x, y]), n.T)

    return lax.scan(step, (xs[0], np.array([1, 2, 3]), np.zeros(3, bool)), xs)


def reductions(xs):
    def step(x, row):
        ends = np.stack([np.sum(x), np.prod(x), np.max(x * row)])
        flags = np.stack([np.any(x > 0), np.all(x > row), np.min(row) > 0])
        return np.tanh(ends) + np.where(flags, 0.5, 0.0), np.mean(x[:, None] * row[None, :], axis=0)

    return lax.scan(step, xs[0], xs)


def swapped(xs):
    return lax.scan(
        lambda s, row: ((s[1], s[0], np.ones(2)), s[0] + s[2]),
        (xs[0, :2], xs[1, :2], xs[2, 1:]),
        xs,
    )


def backwards(xs):
    return lax.scan(lambda s, row: (A @ s + row, s), np.zeros(3), xs, reverse=True)


def indexed(xs):
    """An element of an array that lies outside, at the number of the iteration."""
    table = np.linspace(0.0, 1.0, 50)
    return lax.fori_loop(
        0,
        9,
        lambda i, s: A @ s + lax.dynamic_index_in_dim(table, 3 * i + 1, 0, False) + xs[0],
        xs[1],
    )


SCANS = {
    f.__name__: f
    for f in (kalman, matrices, complexes, moves, reductions, swapped, backwards, indexed)
}


def planned(f: Any, *args: Any) -> Any:
    return plan(ftrace.make_jaxpr(f)(*args), Machine(64))


def is_one_kernel(program: Any) -> bool:
    """Whether no step is done once for each iteration, and a kernel loops in order."""
    again = any(isinstance(s, Repeat | Scan) for s in program.steps)
    kernels = [launch.kernel for launch in program.launches]
    in_order = [
        k
        for k in kernels
        if any(loop.params for loop in loops_of(k.body))
        or any(isinstance(s, While) for s in inside(k.body))
    ]
    return not again and len(in_order) == 1


@pytest.mark.parametrize("name", SCANS)
def test_a_scan_is_one_kernel_with_the_values_of_its_steps(name: str) -> None:
    f = SCANS[name]
    program = planned(f, XS)
    assert is_one_kernel(program)
    for launch in program.launches:
        verify(launch.kernel)
        verify_schedule(launch.kernel, launch.schedule)
    expected = leaves(f(XS))
    for found in (leaves(ftrace.jit(f)(XS)), simulate(program, [XS])):
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u4", "i8", "c8", "c16", "?"])
def test_carries_of_every_dtype(dtype: str) -> None:
    x = (RNG.integers(0, 3, (5, 2)) / (2 if dtype[0] in "fc" else 1)).astype(dtype)

    def f(x):
        def step(s, row):
            t = np.stack([s[1] + row[0], s[0] * row[1]])
            return t.astype(dtype), np.sum(t) + (row[0] if dtype[0] == "c" else np.max(row))

        return lax.scan(step, x[0], x)

    assert is_one_kernel(planned(f, x))
    for a, b in zip(leaves(ftrace.jit(f)(x)), leaves(f(x)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-3 if dtype == "f2" else 1e-6)


DERIVATIVES = {
    "grad": ftrace.grad,
    "jacfwd": ftrace.jacfwd,
    "hessian": ftrace.hessian,
    "forward over reverse": lambda f: ftrace.jacfwd(ftrace.grad(f)),
    "vmap": lambda f: lambda x: ftrace.vmap(f)(np.stack([x, 2.0 * x])),
    "vmap of grad": lambda f: lambda x: ftrace.vmap(ftrace.grad(f))(np.stack([x, 2.0 * x])),
}


@pytest.mark.sampled(2, each="change")
@pytest.mark.parametrize("change", DERIVATIVES)
@pytest.mark.parametrize("name", ["kalman", "matrices", "reductions", "indexed"])
def test_derivatives_and_batches(name: str, change: str) -> None:
    def total(xs):
        return sum(fnp.sum(x) for x in ftrace.tree.leaves(SCANS[name](xs)))

    f, xs = DERIVATIVES[change](total), XS[:3]
    np.testing.assert_allclose(ftrace.jit(f)(xs), f(xs), rtol=1e-10, atol=1e-12)


# ------------------------------------------------------------------------- loops with conditions


def halley(x):
    """A system of two equations, until it changes little."""

    def step(state):
        v, _, k = state
        jacobian = np.stack([np.stack([2.0 * v[0], 1.0 + 0.0 * v[0]]), np.stack([-v[1], -v[0]])])
        residual = np.stack([v[0] ** 2 + v[1] - x[0], 1.0 - v[0] * v[1]])
        det = jacobian[0, 0] * jacobian[1, 1] - jacobian[0, 1] * jacobian[1, 0]
        inverse = np.stack(
            [
                np.stack([jacobian[1, 1], -jacobian[0, 1]]),
                np.stack([-jacobian[1, 0], jacobian[0, 0]]),
            ]
        )
        change = inverse @ residual / det
        return v - change, np.max(np.abs(change)), k + 1

    return lax.while_loop(lambda s: (s[1] > 1e-12) & (s[2] < 50), step, (x * 1.0, 1.0, 0))


def projectile(angle):
    """Position and speed in two dimensions, until it falls."""

    def step(state):
        x, v = state
        return x + 0.01 * v, v + 0.01 * (np.array([0.0, -9.8]) - 0.1 * v * np.sqrt(np.sum(v * v)))

    start = (np.array([0.0, 0.01]), 5.0 * np.stack([np.cos(angle), np.sin(angle)]))
    return lax.while_loop(lambda s: s[0][1] > 0.0, step, start)[0][0]


def test_a_while_over_small_arrays_is_one_kernel() -> None:
    x = np.array([2.5, 0.4])
    assert is_one_kernel(planned(halley, x))
    for a, b in zip(leaves(ftrace.jit(halley)(x)), leaves(halley(x)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    assert is_one_kernel(planned(projectile, 0.7))
    assert ftrace.jit(projectile)(0.7) == pytest.approx(float(projectile(0.7)), rel=1e-13)


def picked(x):
    """An arm that loads what the loop changes."""

    def body(c):
        i, a, b = c
        (one,) = lax.dynamic_slice(np.stack([a, b]), (i % 2,), (1,))
        return i + 1, one * 1.5, a + b

    return lax.while_loop(lambda c: c[0] < 9, body, (0, x, x * 2.0))


def test_an_element_of_two_that_are_carried() -> None:
    assert is_one_kernel(planned(picked, 0.5))
    for a, b in zip(leaves(ftrace.jit(picked)(0.5)), leaves(picked(0.5)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_tangents_of_a_while_are_in_the_same_kernel() -> None:
    f = lambda a: ftrace.jvp(projectile, (a,), (1.0,))  # noqa: E731
    assert is_one_kernel(planned(f, 0.7))
    np.testing.assert_allclose(ftrace.jit(f)(0.7), f(0.7), rtol=1e-12)
    steps = lambda v: lax.while_loop(lambda s: s < 30.0, lambda s: s * v[0] + v[1], v[1])  # noqa: E731
    v = np.array([1.3, 0.7])
    assert is_one_kernel(planned(ftrace.jacfwd(steps), v))
    np.testing.assert_allclose(ftrace.jit(ftrace.jacfwd(steps))(v), ftrace.grad(steps)(v))


def test_no_iteration_at_all() -> None:
    none = XS[:0]
    step = lambda s, row: (A @ s + row, s)  # noqa: E731
    last, ys = ftrace.jit(lambda xs: lax.scan(step, np.ones(3), xs))(none)
    np.testing.assert_array_equal(last, np.ones(3))
    assert ys.shape == (0, 3)
    never = lambda x: lax.while_loop(lambda s: s[0] > 9.0, lambda s: s / 0.0, x)  # noqa: E731
    np.testing.assert_array_equal(ftrace.jit(never)(np.ones(2)), np.ones(2))


def test_results_that_nobody_reads_are_not_stored() -> None:
    program = planned(lambda xs: kalman(xs)[0][0], XS)
    assert is_one_kernel(program)
    (kernel,) = [
        x.kernel for x in program.launches if any(k.params for k in loops_of(x.kernel.body))
    ]
    assert sum(b.space == "out" for b in kernel.buffers) == 2


# ------------------------------------------------------------------------- what stays as it was


def repeated(f: Any, *args: Any) -> bool:
    return any(isinstance(s, Repeat | Scan) for s in planned(f, *args).steps)


def carried_at_its_own_place(xs):
    """An element whose place is carried."""

    def step(s, row):
        x, k = s
        return (x * 0.5 + row, (k + 1) % 3), lax.dynamic_index_in_dim(x, k, 0, False)

    return lax.scan(step, (xs[0], 0), xs)


def carried_in_another_shape(xs):
    """The same of what is another shape of what is carried."""

    def step(s, row):
        x, k = s
        flat = np.reshape(x[:, None] * row[:2], (6,))
        return (x * 0.5 + row, (k + 1) % 6), lax.dynamic_index_in_dim(flat, k, 0, False)

    return lax.scan(step, (xs[0], 0), xs)


def with_a_loop_inside(xs):
    def step(s, row):
        return lax.while_loop(lambda v: np.sum(v * v) < 9.0, lambda v: v * 1.5 + 0.1, s * row), None

    return lax.scan(step, xs[0], np.abs(xs) + 0.5)[0]


def of_an_extreme(xs):
    return lax.scan(lambda s, row: (A @ s + row, np.argmax(s)), xs[0], xs)


def of_large_arrays(xs):
    w = np.linspace(0.0, 0.1, 400).reshape(20, 20)
    return lax.scan(lambda s, row: (np.tanh(w @ s) + row[0], s[0]), np.ones(20), xs)


def of_much_work(xs):
    def step(s, row):
        for _ in range(20):
            s = np.sin(s[::-1]) + row
        return s, s[0]

    return lax.scan(step, xs[0], xs)


@pytest.mark.parametrize(
    "f",
    [
        carried_at_its_own_place,
        carried_in_another_shape,
        of_an_extreme,
        of_large_arrays,
        of_much_work,
        with_a_loop_inside,
    ],
)
def test_other_loops_are_steps(f: Any) -> None:
    assert repeated(f, XS)
    for a, b in zip(leaves(ftrace.jit(f)(XS)), leaves(f(XS)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_what_a_loop_inside_left_for_its_derivative_is_no_number() -> None:
    f = ftrace.grad(lambda xs: np.sum(with_a_loop_inside(xs)))
    assert repeated(f, XS)
    np.testing.assert_allclose(ftrace.jit(f)(XS), f(XS), rtol=1e-12)


def test_long_bodies_are_no_deep_expressions() -> None:
    def step(s, row):
        for _ in range(150):
            s = s * 0.4 + np.sum(s) * 0.1 + row[:2]
        return s, None

    f = lambda xs: lax.scan(step, xs[0, :2], xs)[0]  # noqa: E731
    with ftrace.config.update(roll=0):
        assert is_one_kernel(planned(f, XS))
        np.testing.assert_allclose(ftrace.jit(f)(XS), f(XS), rtol=1e-12)


def test_callbacks_and_errors_in_a_body_stay_steps() -> None:
    seen: list[Any] = []

    def told(xs):
        def step(s, row):
            ftrace.debug.callback(seen.append, s[0])
            return A @ s + row, None

        return lax.scan(step, xs[0], xs)[0]

    np.testing.assert_allclose(ftrace.jit(told)(XS), told(XS))
    assert len(seen) == 2 * len(XS)


def test_small_complex_products_call_no_library() -> None:
    a, b = RNG.normal(size=(2, 4, 4)) + 1j * RNG.normal(size=(2, 4, 4))
    f = lambda a, b: np.tensordot(a, b.reshape(4, 2, 2), ((1,), (0,)))  # noqa: E731
    assert not planned(f, a, b).callbacks
    np.testing.assert_allclose(ftrace.jit(f)(a, b), f(a, b), rtol=1e-14)
