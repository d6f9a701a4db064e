"""Functions with users' rules in arms that some members do not take: their loops end there, too."""

from typing import Any

import numpy as np
import pytest

import ftrace

X = np.array([2.0, -1.0, 7.0])


def loop(x: Any) -> Any:
    """Never ends for numbers that are not positive."""
    while x < 30:
        x = x * 2
    return x


def with_jvp() -> Any:
    g = ftrace.custom_jvp(loop)
    g.defjvp(lambda p, t: (loop(*p), 3 * t[0] * loop(p[0]) / loop(p[0])))
    return g


def with_symbolic_jvp() -> Any:
    g = ftrace.custom_jvp(lambda x, y: loop(x) + 0 * y)

    def rule(primals: Any, tangents: Any) -> Any:
        t = tangents[0]
        t = 0.0 if type(t).__name__ == "SymbolicZero" else t
        return loop(primals[0]) + 0 * primals[1], 3 * t

    g.defjvp(rule, symbolic_zeros=True)
    return lambda x: g(x, 1.0)


def with_vjp() -> Any:
    g = ftrace.custom_vjp(loop)

    def fwd(x: Any) -> Any:
        y = loop(x)
        return y, (x, y)

    def bwd(residuals: Any, ct: Any) -> Any:
        x, y = residuals
        return (3 * ct * loop(x) / y,)

    g.defvjp(fwd, bwd)
    return g


def with_closure() -> Any:
    def made(x: Any) -> Any:
        limit = x * 0 + 30.0

        @ftrace.custom_jvp
        def g(y: Any) -> Any:
            while y < ftrace.lax.stop_gradient(limit):
                y = y * 2
            return y

        g.defjvp(lambda p, t: (loop(*p), 3 * t[0]))
        return g(x)

    return made


RULED = [with_jvp, with_symbolic_jvp, with_vjp, with_closure]
VALUES, SLOPES = [32.0, 1.0, 56.0], [3.0, -2.0, 3.0]


@pytest.mark.parametrize("make", RULED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("compiled", [False, True])
def test_members_that_do_not_take_an_arm_do_not_iterate_in_it(make: Any, compiled: bool) -> None:
    g = make()
    once: Any = ftrace.jit if compiled else lambda f: f

    def f(x: Any) -> Any:
        return g(x) * 1.0 if x > 0 else x * x

    def total(v: Any) -> Any:
        return np.sum(ftrace.vmap(f)(v))

    np.testing.assert_allclose(once(ftrace.vmap(f))(X), VALUES)
    np.testing.assert_allclose(once(ftrace.vmap(ftrace.vmap(f)))(X[None]), [VALUES])
    np.testing.assert_allclose(once(ftrace.vmap(ftrace.grad(f)))(X), SLOPES)
    np.testing.assert_allclose(once(ftrace.grad(total))(X), SLOPES)
    if make is not with_vjp:  # whose backward rule is not linear in forward mode's sense
        np.testing.assert_allclose(once(ftrace.jacfwd(ftrace.vmap(f)))(X), np.diag(SLOPES))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("rows", [X, X[1:2], X[:1]], ids=["some", "nobody", "everybody"])
def test_functions_with_rules_for_vmap_end_there(rows: Any, compiled: bool) -> None:
    once: Any = ftrace.jit if compiled else lambda f: f
    g = ftrace.custom_vmap(lambda x, w: loop(x) + w[0])

    @g.def_vmap
    def rule(size: int, mapped: Any, x: Any, w: Any) -> Any:
        return ftrace.vmap(lambda x, w: loop(x) + w[0], in_axes=(0, 0 if mapped[1] else None))(
            x, w
        ), True

    def f(x: Any) -> Any:
        return g(x, np.stack([x * 0, x])) * 1.0 if x > 0 else x * x

    wanted = [v for v, x in zip(VALUES, X, strict=True) if x in rows]
    slopes = [{2.0: 16.0, -1.0: -2.0, 7.0: 8.0}[x] for x in rows]
    np.testing.assert_allclose(once(ftrace.vmap(f))(rows), wanted)
    np.testing.assert_allclose(once(ftrace.jacfwd(ftrace.vmap(f)))(rows), np.diag(slopes))
    np.testing.assert_allclose(once(ftrace.jacrev(ftrace.vmap(f)))(rows), np.diag(slopes))


@pytest.mark.parametrize("compiled", [False, True])
def test_vectorized_functions_do_not_iterate_there_either(compiled: bool) -> None:
    vectorized, partials = ftrace.vectorize(loop), ftrace.elementwise_partials(loop)
    once: Any = ftrace.jit if compiled else lambda f: f

    def f(x: Any) -> Any:
        return vectorized(np.stack([x, x * 2]))[1] if x > 0 else x * x

    def g(x: Any) -> Any:
        return partials(x)[1][0] if x > 0 else x * x

    np.testing.assert_allclose(once(ftrace.vmap(f))(X), VALUES)
    np.testing.assert_allclose(once(ftrace.vmap(ftrace.grad(f)))(X), [16.0, -2.0, 8.0])
    np.testing.assert_allclose(once(ftrace.jacfwd(ftrace.vmap(f)))(X), np.diag([16.0, -2.0, 8.0]))
    np.testing.assert_allclose(once(ftrace.vmap(g))(X), [16.0, 1.0, 8.0])


def test_behind_an_error_that_is_caught_as_well() -> None:
    g = with_jvp()

    def f(x: Any) -> Any:
        try:
            if x < 0:
                raise ValueError
            y = g(x)
        except ValueError:
            y = 0.0
        return y

    np.testing.assert_allclose(ftrace.vmap(f)(X), [32.0, 0.0, 56.0])
