"""JuMP's model with a user-defined function: a Python loop inside, SciPy outside.

    max x1 + x2   subject to   squareroot(x1² + x2²) <= 1

`squareroot` is Newton's method with a native `while`. ftrace gives SciPy the gradient, the
constraint's Jacobian and its Hessian through the loop; JuMP had no second derivatives of such
functions.
"""

import numpy as np
import pytest
import scipy.optimize

import ftrace

HALF = np.sqrt(0.5)


def squareroot(x):
    """Newton's method, started at x, in plain Python."""
    z = x
    while abs(z * z - x) > 1e-13:
        z = z - (z * z - x) / (2 * z)
    return z


def objective(x):
    return -(x[0] + x[1])


def length(x):
    return squareroot(x[0] ** 2 + x[1] ** 2)


def is_the_optimum(found):
    np.testing.assert_allclose(found.x, [HALF, HALF], atol=5e-6)
    np.testing.assert_allclose(-found.fun, 1.41421, atol=1e-5)
    return found.success


@pytest.mark.parametrize("start", [(0.3, 0.6), (0.9, -0.2)])
def test_slsqp_solves_the_model(start):
    constraint = {
        "type": "ineq",
        "fun": lambda x: 1.0 - length(x),
        "jac": lambda x: -ftrace.grad(length)(x),
    }
    assert is_the_optimum(
        scipy.optimize.minimize(
            objective,
            start,
            method="SLSQP",
            jac=ftrace.grad(objective),
            constraints=[constraint],
            tol=1e-10,
        )
    )


@pytest.mark.parametrize("start", [(0.3, 0.6), (0.9, -0.2)])
def test_an_interior_point_method_solves_it_with_second_derivatives(start):
    constraint = scipy.optimize.NonlinearConstraint(
        length,
        -np.inf,
        1.0,
        jac=lambda x: ftrace.grad(length)(x)[None, :],
        hess=lambda x, v: v[0] * ftrace.hessian(length)(x),
    )
    assert is_the_optimum(
        scipy.optimize.minimize(
            objective,
            start,
            method="trust-constr",
            jac=ftrace.grad(objective),
            hess=ftrace.hessian(objective),
            constraints=[constraint],
            options={"gtol": 1e-12, "initial_barrier_parameter": 1e-3},
        )
    )


def test_the_optimum_is_differentiated_through_the_model():
    """The radius as a parameter of the optimality conditions: x = (r, r) / sqrt(2)."""

    def conditions(u, r):
        x, multiplier = u[:2], u[2]
        normal = ftrace.grad(length)(x)
        return [-1.0 + multiplier * normal[0], -1.0 + multiplier * normal[1], length(x) - r]

    def best(r):
        return ftrace.implicit.root(conditions, [0.6, 0.7, 1.0], args=(r,), tol=1e-9).x

    np.testing.assert_allclose(best(1.3), [1.3 * HALF, 1.3 * HALF, np.sqrt(2)], rtol=1e-7)
    np.testing.assert_allclose(ftrace.jacfwd(best)(1.3), [HALF, HALF, 0.0], atol=1e-6)
    np.testing.assert_allclose(ftrace.jacrev(best)(1.3), [HALF, HALF, 0.0], atol=1e-6)


DERIVATIVES = {
    "hessian": ftrace.hessian,
    "forward over forward": lambda f: ftrace.jacfwd(ftrace.jacfwd(f)),
    "reverse over reverse": lambda f: ftrace.grad(ftrace.grad(f)),
    "reverse over forward": lambda f: ftrace.grad(ftrace.jacfwd(f)),
}


@pytest.mark.parametrize("way", DERIVATIVES)
def test_second_derivatives_go_through_the_loop(way):
    second = DERIVATIVES[way](squareroot)
    np.testing.assert_allclose(second(2.0), -0.0883883, atol=1e-7)
    np.testing.assert_allclose(second(2.0), -0.25 * 2.0**-1.5, rtol=1e-9)
    np.testing.assert_allclose(ftrace.grad(squareroot)(2.0), 0.5 / np.sqrt(2.0), rtol=1e-12)


def test_second_derivatives_of_the_constraint():
    x = np.array([0.3, 0.4])
    expected = np.array([[0.16, -0.12], [-0.12, 0.09]]) / 0.125  # (I - n nᵀ) / |x|
    np.testing.assert_allclose(ftrace.hessian(length)(x), expected, rtol=1e-8)
