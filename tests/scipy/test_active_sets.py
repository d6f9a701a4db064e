"""Assignments, non-negative fits and Riccati equations: SciPy's solutions, and derivatives."""

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

import ftrace
from ftrace.core.errors import RuleError
from tests.scipy.agreeing import CHECKS

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(3, 3)), RNG.normal(size=(3, 2))
Q, R = np.eye(3) + 0.1, np.eye(2) + 0.2
TABLE, SUMS = RNG.normal(size=(7, 4)), RNG.normal(size=7)
ARES = (scipy.linalg.solve_continuous_are, scipy.linalg.solve_discrete_are)


@pytest.mark.parametrize("solve", ARES)
@pytest.mark.parametrize("check", CHECKS)
def test_riccati_equations(check: str, solve: Any) -> None:
    def f(a: Any, b: Any, q: Any, r: Any) -> Any:
        return solve(a, b, q + q.T, r + r.T)

    def by_system(a: Any) -> Any:
        return np.sum(f(a, B, Q, R) ** 2)

    CHECKS[check](f, (A, B, Q, R))
    CHECKS[check](ftrace.grad(by_system), (A,))
    one = np.eye(3)
    np.testing.assert_allclose(ftrace.jit(f)(A, B, Q, R), f(A, B, Q, R), rtol=1e-9)
    with pytest.raises(RuleError, match="e= or s="):
        ftrace.jit(lambda a: solve(a, B, Q, R, one))(A)
    with pytest.raises((ValueError, RuleError)):
        ftrace.jit(lambda a: solve(a, B[:2], Q, R))(A)


@pytest.mark.parametrize("check", CHECKS)
def test_fits_without_negative_parts(check: str) -> None:
    f = scipy.optimize.nnls
    assert np.count_nonzero(f(TABLE, SUMS)[0]) < 4
    CHECKS[check](lambda a, b: f(a, b), (TABLE, SUMS))
    CHECKS[check](ftrace.grad(lambda b: np.sum(f(TABLE, b)[0] ** 3)), (SUMS,))
    with pytest.raises(ValueError, match=r"expected|shape|dimension"):
        ftrace.jit(lambda b: f(TABLE, b))(SUMS[:3])


@pytest.mark.parametrize("solve", ARES)
def test_riccati_equations_in_single_precision(solve: Any) -> None:
    args = [v.astype("f4") for v in (A, B, Q, R)]
    found, expected = ftrace.jit(solve)(*args), solve(*args)
    assert found.dtype == expected.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert ftrace.grad(lambda a: np.sum(solve(a, *args[1:])))(args[0]).dtype == np.float32


def test_a_fit_to_a_column() -> None:
    np.testing.assert_allclose(
        ftrace.jit(lambda b: scipy.optimize.nnls(TABLE, b)[0])(SUMS[:, None]),
        scipy.optimize.nnls(TABLE, SUMS)[0],
    )


@pytest.mark.parametrize("check", CHECKS)
def test_assignments(check: str) -> None:
    for maximize in (False, True):
        CHECKS[check](
            lambda c, m=maximize: c[scipy.optimize.linear_sum_assignment(c, m)] ** 2, (TABLE,)
        )
    with pytest.raises(ValueError, match="2-D"):
        ftrace.jit(scipy.optimize.linear_sum_assignment)(SUMS)


@pytest.mark.parametrize("check", CHECKS)
def test_leastsq(check: str) -> None:
    x = np.linspace(0.0, 1.0, 7)

    def fitted(y: Any, c: Any) -> Any:
        def f(p: Any, x: Any) -> Any:
            return p[0] * np.exp(p[1] * x) + c - y

        return scipy.optimize.leastsq(f, [1.0, 0.5], x, ftol=1e-15, xtol=1e-15)[0]

    if check != "vmap":  # iterations end elsewhere
        CHECKS[check](fitted, (1.3 * np.exp(0.6 * x) + 0.1, 0.1))
