"""ftrace.scipy.optimize: a minimum found in a program, its derivatives, Rosenbrock's function."""

from typing import Any

import numpy as np
import pytest
import scipy.optimize

import ftrace
from ftrace.core.config import update
from ftrace.core.errors import RuleError, ShapeError
from ftrace.scipy import optimize
from tests.scipy.agreeing import CHECKS

A = np.array([0.5, 0.7, 0.2])


def value_of(x: Any, a: Any) -> Any:
    return optimize.rosen(x) + np.sum((x - a) ** 2)


def nearest(a: Any, tol: float = 1e-9) -> Any:
    return optimize.minimize(value_of, np.zeros(3), (a,), method="BFGS", tol=tol)


def test_the_minimum_compiled_is_scipys_and_its_derivative_the_equations() -> None:
    found = ftrace.jit(nearest)(A)
    expected = scipy.optimize.minimize(value_of, np.zeros(3), (A,), tol=1e-9)
    np.testing.assert_allclose(found.x, expected.x, atol=1e-5)
    assert found.success
    assert found.status == 0
    assert np.max(np.abs(found.jac)) < 1e-9
    h = optimize.rosen_hess(found.x) + 2 * np.eye(3)
    slopes = ftrace.jit(ftrace.jacrev(lambda a: nearest(a).x))(A)
    np.testing.assert_allclose(slopes, 2 * np.linalg.inv(h), rtol=1e-6)
    rows = ftrace.jit(ftrace.vmap(lambda a: nearest(a).x))(np.stack([A, A + 0.1]))
    np.testing.assert_allclose(rows[0], found.x, atol=1e-7)
    np.testing.assert_allclose(rows[1], ftrace.jit(nearest)(A + 0.1).x, atol=1e-7)


def test_failures_are_told_by_status() -> None:
    with update(compile=False):
        few = ftrace.jit(lambda a: optimize.minimize(value_of, a, (a,), options={"maxiter": 2}))(A)
        assert (few.success, few.status, few.nit) == (False, 1, 2)
        rough = ftrace.jit(
            lambda a: optimize.minimize(lambda x: np.sum(np.abs(x - a)), a + 1.0, tol=1e-12)
        )(A)
        assert not rough.success


def test_bad_arguments_are_named() -> None:
    with pytest.raises(RuleError, match="no method 'Powell'"):
        optimize.minimize(value_of, np.zeros(3), (A,), method="Powell")
    with pytest.raises(RuleError, match="no option 'xtol'"):
        optimize.minimize(value_of, np.zeros(3), (A,), options={"xtol": 1.0})
    with pytest.raises(ShapeError, match="Pass a vector"):
        optimize.minimize(value_of, np.zeros((3, 1)), (A,))
    with pytest.raises(ShapeError, match="returns a number"):
        optimize.minimize(lambda x: x * x, np.zeros(3))


@pytest.mark.parametrize("name", ["rosen", "rosen_der", "rosen_hess"])
def test_rosenbrocks_function(name: str) -> None:
    x = np.random.default_rng(0).normal(size=5)
    with update(compile=False):
        for f in (getattr(optimize, name), getattr(scipy.optimize, name)):
            found = ftrace.jit(f)(x)
            np.testing.assert_allclose(found, getattr(scipy.optimize, name)(x), rtol=1e-12)
            for check in CHECKS.values():
                check(f, (x,))
    lower = {"rosen_der": "rosen", "rosen_hess": "rosen_der"}.get(name)
    if lower is not None:
        slope = ftrace.jacfwd(getattr(optimize, lower))(x)
        np.testing.assert_allclose(getattr(optimize, name)(x), slope, rtol=1e-12, atol=1e-12)


def test_the_hessian_times_a_vector() -> None:
    x, p = np.random.default_rng(0).normal(size=(2, 5))
    found = ftrace.jit(optimize.rosen_hess_prod)(x, p)
    np.testing.assert_allclose(found, scipy.optimize.rosen_hess_prod(x, p), rtol=1e-12)
