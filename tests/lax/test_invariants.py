"""What is the same in all iterations is computed before the loop, with all derivatives."""

from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.core.jaxpr import Eqn
from ftrace.interpreters.invariants import moved_before

C = np.array([0.4, 0.7, -0.3])
XS = np.linspace(0.1, 1.0, 6)


def loop_of(f: Any, *args: Any) -> Eqn:
    (eqn,) = (e for e in ftrace.make_jaxpr(f)(*args).eqns if e.primitive.name in ("scan", "while"))
    return eqn


def inside(f: Any, *args: Any) -> list[str]:
    """Names of the primitives in the body of the one loop of a function."""
    return [e.primitive.name for e in loop_of(f, *args).params["body"].eqns]


def scanned(step: Any) -> Any:
    def f(c, xs):
        return lax.scan(lambda s, x: (step(c, s, x), None), 0.5, xs)[0]

    return f


def by_hand(step: Any) -> Any:
    def f(c, xs):
        s = 0.5
        for i in range(len(xs)):
            s = step(c, s, xs[i])
        return s

    return f


STEPS = {
    "an element": lambda c, s, x: c[1] * s + x,
    "a polynomial": lambda c, s, x: (c[0] * c[1] + np.sin(c[2])) * s + x * c[0],
    "a sum": lambda c, s, x: np.sum(c * c) * s + x,
    "a product": lambda c, s, x: (c @ c) * s - x,
    "all of them": lambda c, s, x: np.tanh(s * c[-1] + np.max(c)) + np.sum(s * c) * x,
    "through views": lambda c, s, x: np.sum(c[::-1][:2]) * s + c[None, 1][0] * x,
    "nothing": lambda c, s, x: s * x,
}


@pytest.mark.parametrize("name", STEPS)
def test_values_and_derivatives_are_those_of_the_python_loop(name: str) -> None:
    f, wanted = scanned(STEPS[name]), by_hand(STEPS[name])
    for change in (
        lambda g: g,
        ftrace.jit,
        lambda g: ftrace.grad(g, (0, 1)),
        lambda g: ftrace.jit(ftrace.grad(g, (0, 1))),
        lambda g: ftrace.jacfwd(g, (0, 1)),
        lambda g: ftrace.jit(ftrace.hessian(g)),
        lambda g: lambda c, xs: ftrace.vmap(g, (0, None))(np.stack([c, 2 * c]), xs),
        lambda g: lambda c, xs: ftrace.jit(ftrace.vmap(ftrace.grad(g), (None, 0)))(c, xs[:, None]),
    ):
        found, right = change(f)(C, XS), change(wanted)(C, XS)
        for a, b in zip(ftrace.tree.leaves(found), ftrace.tree.leaves(right), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_body_that_reads_elements_of_an_array_takes_numbers() -> None:
    f = scanned(STEPS["a polynomial"])
    assert {"slice", "squeeze"}.isdisjoint(inside(f, C, XS))
    assert all(not v.aval.shape for v in loop_of(f, C, XS).params["body"].invars)


def test_its_derivative_is_two_kernels_without_arrays_that_are_carried() -> None:
    gradient = ftrace.make_jaxpr(ftrace.grad(scanned(STEPS["an element"])))(C, XS)
    scans = [e for e in gradient.eqns if e.primitive.name == "scan"]
    assert len(scans) == 2
    assert all(not v.aval.shape for e in scans for v in e.params["body"].invars)


def test_conditions_and_bodies_of_while() -> None:
    def f(c, x):
        return lax.while_loop(
            lambda s: s[0] < c[0] * 50.0 + c[1],
            lambda s: (s[0] * (c[1] + 1.0), s[1] + c[2]),
            (x, x),
        )

    def wanted(c, x):
        a, b = x, x
        while a < c[0] * 50.0 + c[1]:
            a, b = a * (c[1] + 1.0), b + c[2]
        return a, b

    for change in (lambda g: g, ftrace.jit, ftrace.jacrev, lambda g: ftrace.jit(ftrace.jacfwd(g))):
        found, right = change(f)(C, 1.5), change(wanted)(C, 1.5)
        for a, b in zip(ftrace.tree.leaves(found), ftrace.tree.leaves(right), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)
    assert inside(f, C, 1.5) == ["mul", "add"]
    assert [e.primitive.name for e in loop_of(f, C, 1.5).params["cond"].eqns] == [
        "mul",
        "add",
        "lt",
    ]
    assert inside(lambda c, x: wanted(c, x)[0], C, 1.5) == ["mul"]  # the Python loop, lifted


def test_no_iteration_at_all() -> None:
    f = scanned(STEPS["all of them"])
    assert f(C, XS[:0]) == ftrace.jit(f)(C, XS[:0]) == 0.5
    np.testing.assert_array_equal(ftrace.grad(f)(C, XS[:0]), np.zeros(3))
    alone = lambda c, x: lax.while_loop(lambda s: s < c[0], lambda s: s * (1.0 / c[1]), x)  # noqa: E731
    with np.errstate(all="raise"):
        assert ftrace.jit(alone)(np.zeros(3), 2.0) == 2.0


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("broadcast_in_dim", lambda c, s, x: s + np.sum(c[:, None] * np.ones((3, 40)) * x)),
        ("integer_pow", lambda c, s, x: s * x),
    ],
)
def test_what_would_take_more_memory_stays(name: str, step: Any) -> None:
    f = scanned(step)
    assert (name in inside(f, C, XS)) == (name == "broadcast_in_dim")
    np.testing.assert_allclose(ftrace.jit(f)(C, XS), by_hand(step)(C, XS), rtol=1e-13)


def test_transposes_and_reshapes_of_the_same_size_stay() -> None:
    w = np.arange(9.0).reshape(3, 3) / 20.0

    def f(w, xs):
        step = lambda s, x: (np.tanh(w.T @ s + x), None)  # noqa: E731
        return np.sum(lax.scan(step, np.ones(3), xs)[0])

    assert "transpose" in inside(f, w, XS)


def test_what_has_a_derivative_of_its_own_stays() -> None:
    """A root of zero that no iteration takes has no derivative."""
    f = lambda c, xs: lax.scan(lambda s, x: (s + np.sqrt(c[0]) * x, None), 1.0, xs)[0]  # noqa: E731
    assert "sqrt" in inside(f, C, XS)
    for change in (ftrace.grad, lambda g: ftrace.jit(ftrace.grad(g)), ftrace.jacfwd):
        np.testing.assert_array_equal(change(f)(np.zeros(3), XS[:0]), np.zeros(3))


def test_what_may_raise_stays() -> None:
    def f(n, x):
        return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + n[0] ** n[1]), (0, x))

    assert "pow" in inside(f, np.array([2, 3]), 1)
    assert ftrace.jit(f)(np.array([2, 3]), 1) == (3, 25)
    with pytest.raises(ValueError, match="negative integer powers"):
        ftrace.jit(f)(np.array([2, -3]), 1)


def test_callbacks_are_called_in_each_iteration() -> None:
    calls: list[float] = []

    def seen(x):
        calls.append(float(x))
        return x

    def f(c, xs):
        def step(s, x):
            y = ftrace.pure_callback(seen, ftrace.ShapeDtypeStruct((), np.float64), c[0])
            return s + y * x, None

        return lax.scan(step, 0.0, xs)[0]

    np.testing.assert_allclose(ftrace.jit(f)(C, XS), 0.4 * np.sum(XS))
    assert len(calls) == len(XS)


def test_captured_arrays_and_constants() -> None:
    a = np.arange(12.0).reshape(4, 3)

    def f(c, xs):
        return lax.scan(lambda s, x: (s + np.sum(a @ c) * x, None), 0.0, xs)[0]

    np.testing.assert_allclose(ftrace.jit(f)(C, XS), np.sum(a @ C) * np.sum(XS))


def test_a_constant_that_bodies_read_no_more_is_no_operand() -> None:
    big = np.ones(1000)
    f = lambda c, xs: lax.fori_loop(0, 3, lambda i, s: s + c[5] * xs[0], 0.0)  # noqa: E731
    sizes = {a.aval.size for a in loop_of(f, big, XS).invars}
    assert 1000 not in sizes
    assert 6 not in sizes
    np.testing.assert_allclose(ftrace.jit(ftrace.grad(f))(big, XS)[5], 3 * XS[0])


@pytest.mark.parametrize("y", [lambda c: c[0] * 2.0, lambda c: c[0], lambda c: c, lambda c: -c])
def test_results_that_are_constants_stay_results(y: Any) -> None:
    f = lambda c, xs: lax.scan(lambda s, x: (s + x * c[1], y(c)), 0.0, xs)  # noqa: E731
    for g in (f, ftrace.jit(f)):
        last, ys = g(C, XS)
        np.testing.assert_allclose(last, np.sum(XS) * C[1])
        np.testing.assert_array_equal(ys, np.stack([y(C)] * 6))


MOVED = {  # what a body computes of its constant -> what leaves it, what stays
    "a part": (lambda c, x: c[1:] * x, {"slice"}, {"mul"}),
    "a negative": (lambda c, x: -c * x, {"neg"}, {"mul"}),
    "another shape of a sum": (lambda c, x: (c + c)[:, None] * x, {"add"}, {"expand_dims"}),
    "a sum and a maximum": (
        lambda c, x: np.sum(c) * x + np.max(c),
        {"reduce_sum"},
        {"reduce_max"},
    ),
    "a product": (lambda c, x: c * c[0] * x, {"slice"}, {"mul"}),
    "sums of copies": (
        lambda c, x: (np.broadcast_to(c, (40, 3)) + c) * x,
        set(),
        {"broadcast_in_dim", "add"},
    ),
    "numbers of no array": (
        lambda c, x: lax.iota(np.float64, 3) * x + c[0],
        {"slice"},
        {"iota"},
    ),
}


@pytest.mark.parametrize("name", MOVED)
def test_what_leaves_a_body_and_what_stays(name: str) -> None:
    take, gone, stays = MOVED[name]
    step = lambda c, s, x: s * np.prod(np.tanh(take(c, x)))  # noqa: E731
    names = set(inside(scanned(step), C, XS))
    assert names.isdisjoint(gone)
    assert names >= stays
    wanted = by_hand(step)(C, XS)
    np.testing.assert_allclose(ftrace.jit(scanned(step))(C, XS), wanted, rtol=1e-13)
    np.testing.assert_allclose(scanned(step)(C, XS), wanted, rtol=1e-13)


def test_a_body_without_invariants_is_the_same_object() -> None:
    body = ftrace.make_jaxpr(lambda c, s, x: s * c + x)(1.0, 2.0, 3.0)
    consts, (same,) = moved_before([1.0], body)
    assert same is body
    assert consts == [1.0]


def test_the_bodies_of_two_calls_are_one_object() -> None:
    """What is derived from a body is remembered on it."""
    body = ftrace.make_jaxpr(lambda c, s, x: s * c[0] + x)(C, 2.0, 3.0)
    first, second = (moved_before([c], body) for c in (C, 2.0 * C))
    assert first[1][0] is second[1][0] is not body
    assert [float(x) for x in (*first[0], *second[0])] == [0.4, 0.8]
