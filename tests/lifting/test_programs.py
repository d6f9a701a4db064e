"""Every program of the grid, lifted, is the program: under each transformation, orders 0, 1, 2."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace
from tests.lifting.programs import POINTS, PROGRAMS

each = pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
TRANSFORMED = {
    "jit": lambda f: lambda xs: [ftrace.jit(f)(x) for x in xs],
    "vmap": lambda f: ftrace.vmap(f),
    "jit(vmap)": lambda f: ftrace.jit(ftrace.vmap(f)),
    "vectorize": ftrace.vectorize,
}
DERIVED = {
    "grad": lambda f: lambda xs: [ftrace.grad(f)(x) for x in xs],
    "grad(jit)": lambda f: lambda xs: [ftrace.grad(ftrace.jit(f))(x) for x in xs],
    "jvp(jit)": lambda f: lambda xs: [ftrace.jvp(ftrace.jit(f), (x,), (1.0,))[1] for x in xs],
    "jit(vmap(grad))": lambda f: ftrace.jit(ftrace.vmap(ftrace.grad(f))),
    "grad(vectorize)": lambda f: ftrace.grad(lambda xs: ftrace.vectorize(f)(xs).sum()),
}
TWICE = {
    "hessian": lambda f: lambda xs: [ftrace.hessian(f)(x) for x in xs],
    "hessian(jit)": lambda f: lambda xs: [ftrace.hessian(ftrace.jit(f))(x) for x in xs],
    "jit(vmap(grad(grad)))": lambda f: ftrace.jit(ftrace.vmap(ftrace.grad(ftrace.grad(f)))),
    "hessian(vectorize)": lambda f: (
        lambda xs: np.diag(ftrace.hessian(lambda v: ftrace.vectorize(f)(v).sum())(xs))
    ),
}


def _close(expected: Any, actual: Any) -> None:
    np.testing.assert_allclose(np.array(actual, float), np.array(expected, float), rtol=1e-9)


@each
def test_on_known_values_it_is_python(f: Callable[..., Any]) -> None:
    lifted = ftrace.lift(f)
    for x in map(np.float64, POINTS):
        expected, actual = f(x), lifted(x)
        assert expected == actual
        assert type(expected) is type(actual)


@pytest.mark.sampled(2, each="f")
@each
@pytest.mark.parametrize("name", TRANSFORMED)
def test_values(f: Callable[..., Any], name: str) -> None:
    xs = np.array(POINTS)
    _close([f(x) for x in xs], TRANSFORMED[name](ftrace.lift(f))(xs))


@pytest.mark.sampled(3, each="f")
@each
@pytest.mark.parametrize("name", DERIVED)
def test_first_derivatives(f: Callable[..., Any], name: str) -> None:
    xs = np.array(POINTS)
    step = 1e-6
    expected = [ftrace.grad(f)(x) for x in xs]
    numeric = [(f(x + step) - f(x - step)) / (2 * step) for x in xs]
    np.testing.assert_allclose(
        np.array(expected, float), np.array(numeric, float), rtol=1e-5, atol=1e-6
    )
    _close(expected, DERIVED[name](ftrace.lift(f))(xs))


@pytest.mark.sampled(4, each="f")
@pytest.mark.slow
@each
@pytest.mark.parametrize("name", TWICE)
def test_second_derivatives(f: Callable[..., Any], name: str) -> None:
    xs = np.array(POINTS)
    _close([ftrace.hessian(f)(x) for x in xs], TWICE[name](ftrace.lift(f))(xs))


@pytest.mark.sampled(2)
@pytest.mark.slow
@each
def test_compiled_kernels(f: Callable[..., Any]) -> None:
    """Machine code of values and derivatives, with all points in one vector and alone."""
    xs, kernel = np.array(POINTS), ftrace.vectorize(f)
    slope = ftrace.jit(ftrace.grad(lambda v: kernel(v).sum()))
    _close([f(x) for x in xs], kernel(xs))
    _close([f(x) for x in xs], [kernel(x) for x in xs])
    _close([ftrace.grad(f)(x) for x in xs], slope(xs))
