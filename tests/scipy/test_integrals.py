"""ftrace.scipy.integrate: SciPy's values, derivatives, and limits that are not finite."""

from typing import Any

import numpy as np
import pytest
import scipy.integrate

import ftrace
from ftrace.core.config import update
from ftrace.core.errors import RuleError, ShapeError
from ftrace.scipy import integrate
from tests.scipy.agreeing import CHECKS

RNG = np.random.default_rng(0)
PLACES = {n: np.sort(RNG.uniform(size=n)) for n in (2, 3, 5, 6, 9)}
SAMPLED = ("trapezoid", "cumulative_trapezoid", "simpson", "cumulative_simpson")


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    """Staged programs are interpreted: what is compiled has tests of its own."""
    with update(compile=False):
        yield


@pytest.mark.parametrize("n", PLACES)
@pytest.mark.parametrize("name", SAMPLED)
def test_integrals_of_samples_are_scipys(name: str, n: int) -> None:
    y = RNG.normal(size=(2, n))
    ours, theirs = getattr(integrate, name), getattr(scipy.integrate, name)
    for options in ({}, {"x": PLACES[n]}, {"dx": 0.3}):
        found = ftrace.jit(lambda y: ours(y, **options))(y)  # noqa: B023 - called at once
        np.testing.assert_allclose(found, theirs(y, **options), rtol=1e-12, atol=1e-14)
    found = ftrace.jit(lambda y: ours(y, axis=0))(y.T)
    np.testing.assert_allclose(found, theirs(y.T, axis=0), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", SAMPLED)
def test_they_have_derivatives_by_samples_and_places(name: str) -> None:
    ours, y = getattr(integrate, name), RNG.normal(size=6)
    for check in CHECKS.values():
        check(lambda y, x: ours(y, x=x), (y, PLACES[6]))


def test_running_integrals_begin_with_an_initial_value() -> None:
    y = RNG.normal(size=(2, 5))
    for name in ("cumulative_trapezoid", "cumulative_simpson"):
        found = ftrace.jit(lambda y: getattr(integrate, name)(y, initial=0))(y)  # noqa: B023
        np.testing.assert_allclose(found, getattr(scipy.integrate, name)(y, initial=0), rtol=1e-12)
    with pytest.raises(ValueError, match="must be `None` or `0`"):
        ftrace.jit(lambda y: integrate.cumulative_trapezoid(y, initial=1))(y)


def test_places_that_coincide_have_no_weight() -> None:
    x, y = np.array([0.0, 0.0, 1.0]), np.array([1.0, 2.0, 4.0])
    assert np.isfinite(ftrace.grad(lambda x: integrate.simpson(y, x))(x)).all()
    np.testing.assert_allclose(
        ftrace.jit(integrate.simpson)(y, x), scipy.integrate.simpson(y, x), rtol=1e-12
    )


def test_rombergs_method() -> None:
    y = RNG.normal(size=(2, 9))
    np.testing.assert_allclose(ftrace.jit(integrate.romb)(y, 0.2), scipy.integrate.romb(y, 0.2))
    with pytest.raises(ValueError, match="one plus a non-negative power of 2"):
        ftrace.jit(integrate.romb)(y[:, :4])


def test_samples_and_places_must_be_as_many() -> None:
    with pytest.raises(ShapeError, match="3 samples along axis -1 were given 2 places"):
        ftrace.jit(integrate.simpson)(np.ones(3), np.ones(2))


# ---------------------------------------------------------------------------------- functions


LIMITS = [
    *((np.cos, 0.0, 2.0), (lambda x: np.exp(-x * x), -np.inf, np.inf)),
    *((lambda x: np.exp(-x * x), np.inf, -np.inf), (lambda x: 1 / (1 + x * x), 0.3, np.inf)),
    *((np.exp, -np.inf, 0.5), (np.exp, 0.5, -np.inf)),
]


@pytest.mark.parametrize(("f", "a", "b"), LIMITS)
def test_adaptive_integrals_are_scipys(f: Any, a: float, b: float) -> None:
    value, error = ftrace.jit(lambda k: integrate.quad(lambda x: k * f(x), a, b))(1.5)
    expected = 1.5 * scipy.integrate.quad(f, a, b)[0]
    assert abs(value - expected) <= max(error, 1e-12) * 2
    slope = ftrace.grad(lambda k: integrate.quad(lambda x: k * f(x), a, b)[0])(1.5)
    np.testing.assert_allclose(slope, expected / 1.5, rtol=1e-8)


def test_limits_and_what_is_closed_over_have_derivatives() -> None:
    def f(b: Any, k: Any) -> Any:
        return integrate.quad(lambda x: np.cos(k * x), 0.0, b)[0]

    for check in CHECKS.values():
        check(f, (1.2, 0.7))
    np.testing.assert_allclose(ftrace.grad(ftrace.grad(f))(1.2, 0.7), -0.7 * np.sin(0.84))


def test_integrals_of_functions_with_arrays() -> None:
    def f(b: Any, a: Any) -> Any:
        return integrate.quad_vec(lambda x, p: x**p * a, 0.0, b, args=(np.arange(3),))[0]

    a = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(ftrace.jit(f)(2.0, a), a * 2.0 ** np.arange(1, 4) / np.arange(1, 4))
    check = CHECKS["vjp"]
    check(f, (2.0, a))


def test_what_traced_integrals_lack_is_told() -> None:
    with pytest.raises(RuleError, match="quad has no weight="):
        ftrace.jit(lambda b: integrate.quad(np.cos, 0.0, b, weight="cos")[0])(1.0)
    with pytest.raises(ValueError, match="finite limits"):
        ftrace.jit(lambda k: integrate.fixed_quad(lambda x: k * x, 0.0, np.inf)[0])(1.0)


def test_an_integral_compiled() -> None:
    with update(compile=True):
        f = ftrace.jit(ftrace.grad(lambda k: integrate.quad(lambda x: np.exp(-k * x), 0, 3.0)[0]))
        exact = 4 * np.exp(-3.0) - 1
        np.testing.assert_allclose(f(1.0), exact, rtol=1e-10)
