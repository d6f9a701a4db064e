"""`lax.custom_root`: roots and their derivatives against formulas."""

from functools import partial

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import errors, lax
from ftrace.control.rules.host_calls import solver_call
from ftrace.core.avals import typeof
from tests.api.ways import GRADIENTS, HESSIANS, differences

P = np.array([1.7, 0.6])
W = np.array([1.0, -2.0])


def close(actual, expected, tol=1e-10):
    np.testing.assert_allclose(actual, expected, rtol=tol, atol=tol)


def newton(f, x):
    """A Python loop: runs on the host."""
    while np.max(np.abs(f(x))) > 1e-13:
        x = x - np.linalg.solve(ftrace.jacfwd(f)(x), f(x))
    return x


def fixed_steps(f, x):
    """Traceable: damped steps, contracting for the functions below."""
    return repeated(lambda x: x - 0.1 * f(x), x, 200)


def repeated(step, x, times):
    return lax.while_loop(lambda c: c[0] < times, lambda c: (c[0] + 1, step(c[1])), (0, x))[1]


def two_by_two(g, y):
    """Cramer's rule, traceable and linear in y."""
    (a, c), (b, d) = g(np.array([1.0, 0.0])), g(np.array([0.0, 1.0]))
    det = a * d - b * c
    return fnp.stack([(d * y[0] - b * y[1]) / det, (a * y[1] - c * y[0]) / det])


SOLVERS = {"newton": newton, "fixed steps": fixed_steps}


def value(solve, p):
    def f(x):  # closes over p
        return fnp.stack(
            [x[0] ** 3 + x[0] * p[1] - p[0] + 0.3 * x[1], 2 * x[1] + p[0] * x[0] - 1.0]
        )

    return np.sum(W * np.sin(lax.custom_root(f, np.array([1.0, 0.5]), solve, two_by_two)))


def plain(p):
    """The same by Newton's method in NumPy."""
    x = np.array([1.0, 0.5])
    for _ in range(40):
        r = [x[0] ** 3 + x[0] * p[1] - p[0] + 0.3 * x[1], 2 * x[1] + p[0] * x[0] - 1.0]
        x = x - np.linalg.solve([[3 * x[0] ** 2 + p[1], 0.3], [p[0], 2.0]], r)
    return x


def reference(p):
    return np.sum(W * np.sin(plain(p)))


def analytic(p):
    """The gradient by the implicit function theorem, by hand."""
    x = plain(p)
    jacobian = np.array([[3 * x[0] ** 2 + p[1], 0.3], [p[0], 2.0]])
    moved = np.array([[-1.0, x[0]], [x[0], 0.0]])  # df/dp
    return -np.linalg.solve(jacobian.T, W * np.cos(x)) @ moved


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_root_is_found_everywhere(solver):
    def f(p):
        return value(SOLVERS[solver], p)

    close(f(P), reference(P))
    close(ftrace.jit(f)(P), reference(P))
    stack = np.stack([P, 1.1 * P, P + 0.2])
    close(ftrace.vmap(f)(stack), [reference(p) for p in stack])
    close(ftrace.jit(ftrace.vmap(f))(stack), [reference(p) for p in stack])


@pytest.mark.parametrize("way", GRADIENTS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_first_derivatives(solver, way):
    close(GRADIENTS[way](lambda p: value(SOLVERS[solver], p))(P), analytic(P))


def test_the_formula_of_the_gradient_agrees_with_differences():
    close(analytic(P), differences(reference, P), 1e-8)


@pytest.mark.parametrize("way", HESSIANS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_second_derivatives(solver, way):
    close(HESSIANS[way](lambda p: value(SOLVERS[solver], p))(P), differences(analytic, P), 1e-7)


def test_compiled_programs_call_the_solver():
    with ftrace.config.update(compile=True):
        for solve in SOLVERS.values():
            close(ftrace.jit(ftrace.grad(partial(value, solve)))(P), analytic(P))


def scalar_tangents(g, y):
    return y / g(1.0)


def cube_root(a, guess=1.0, solve=None):
    def bisect(f, x):
        low, high = 0.0, 10.0
        while high - low > 1e-15 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if f(middle) < 0 else (low, middle)
            if middle in (0.0, 10.0) or (low + high) / 2 in (low, high):
                break
        return np.float64(high)

    return lax.custom_root(lambda x: x**3 - a, guess, solve or bisect, scalar_tangents)


def test_scalar_roots_to_third_order():
    close(cube_root(8.0), 2.0)
    close(ftrace.grad(cube_root)(8.0), 1 / 12)
    close(ftrace.grad(ftrace.grad(cube_root))(8.0), -2 / 9 * 8.0 ** (-5 / 3))
    third = ftrace.grad(ftrace.grad(ftrace.grad(cube_root)))
    close(third(8.0), 10 / 27 * 8.0 ** (-8 / 3))
    close(ftrace.jit(third)(8.0), 10 / 27 * 8.0 ** (-8 / 3))


def test_the_guess_has_no_derivative():
    def f(a, x0):
        return cube_root(a, x0, lambda f, x: newton_steps(f, x))

    def newton_steps(f, x):
        for _ in range(40):
            x = x - f(x) / ftrace.grad(f)(x)
        return x

    assert ftrace.grad(f, 1)(8.0, 1.5) == 0.0
    close(ftrace.grad(f, 0)(8.0, 1.5), 1 / 12)
    close(ftrace.jvp(lambda x0: f(8.0, x0), (1.5,), (1.0,))[1], 0.0)


def test_what_the_solver_captures_has_no_derivative():
    def f(a):
        return lax.custom_root(lambda x: 2.0 * x - a, 1.0, lambda f, x: a / 2.0, scalar_tangents)

    close(ftrace.grad(f)(3.0), 0.5)

    def g(a):  # a wrong "root" that depends on a: only the equation is differentiated
        return lax.custom_root(lambda x: 2.0 * x - 4.0, 1.0, lambda f, x: a * a, scalar_tangents)

    assert g(3.0) == 9.0
    assert ftrace.grad(g)(3.0) == 0.0


def test_containers_and_aux():
    def solve(f, x):
        def step(x):
            r = f(x)
            return {k: x[k] - 0.2 * r[k] for k in x}

        x = repeated(step, x, 200)
        return x, (200, x["u"])

    def tangent_solve(g, y):
        def matvec_solve(matvec, b):
            def step(x):
                r = matvec(x)
                return {k: x[k] + 0.2 * (b[k] - r[k]) for k in x}

            return repeated(step, {k: 0 * b[k] for k in b}, 300)

        return lax.custom_linear_solve(g, y, matvec_solve, matvec_solve)

    def f(a, b):
        def residual(x):
            return {"u": 2.0 * x["u"] - a + 0.5 * x["v"].sum(), "v": 3.0 * x["v"] - b * x["u"]}

        start = {"u": 0.0, "v": np.zeros(2)}
        x, (steps, u) = lax.custom_root(residual, start, solve, tangent_solve, has_aux=True)
        return x["u"] ** 2 + x["v"][1], (steps, u)

    b = np.array([0.4, -1.5])

    def formula(a, b):
        u = a / (2 + b.sum() / 6)
        return u**2 + b[1] * u / 3

    (y, (steps, u)), g = ftrace.value_and_grad(f, (0, 1), has_aux=True)(1.2, b)
    assert steps == 200
    close(y, formula(1.2, b))
    close(u, 1.2 / (2 + b.sum() / 6))
    expected = ftrace.grad(formula, (0, 1))(1.2, b)
    close(g[0], expected[0])
    close(g[1], expected[1])
    close(ftrace.jacfwd(lambda b: f(1.2, b)[0])(b), expected[1])
    h = ftrace.hessian(lambda b: f(1.2, b)[0])(b)
    close(h, ftrace.hessian(lambda b: formula(1.2, b))(b))
    close(ftrace.jit(ftrace.hessian(lambda b: f(1.2, b)[0]))(b), h)


def test_a_residual_with_a_python_loop_differentiates_eagerly():
    """f needs plain values, so nothing traced may be captured: the root is a constant here."""

    def f(x):
        while x > 10.0:
            x = x / 2
        return x - 3.0

    def solve(f, x):
        return x - f(x)

    def g(a):
        return a * lax.custom_root(f, 5.0, solve, scalar_tangents)

    assert ftrace.grad(g)(2.0) == 3.0


def test_a_solver_of_plain_values_runs_once_per_member_and_call():
    seen = []

    def solve(f, x):
        start = float(x)  # asks for a plain value
        seen.append(start)
        return x - f(x)

    def root(a, x0):
        return lax.custom_root(lambda x: x - a, x0, solve, scalar_tangents)

    starts = np.array([1.0, 2.0, 3.0])
    values, slopes = ftrace.vmap(ftrace.value_and_grad(root))(np.array([5.0, 6.0, 7.0]), starts)
    assert seen == [1.0, 2.0, 3.0]
    close(values, [5.0, 6.0, 7.0])
    close(slopes, 1.0)
    jitted = ftrace.jit(root)
    jitted(1.0, 4.0)
    jitted(1.0, 8.0)
    assert seen[3:] == [4.0, 8.0]


# ---------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("f", "solve", "tangent", "error", "words"),
    [
        (3.0, newton, scalar_tangents, errors.DtypeError, "f of custom_root must be a function"),
        (
            np.sin,
            3.0,
            scalar_tangents,
            errors.DtypeError,
            "solve of custom_root must be a function",
        ),
        (
            np.sin,
            newton,
            None,
            errors.DtypeError,
            "tangent_solve of custom_root must be a function",
        ),
        (
            np.sin,
            lambda f, x: [x],
            scalar_tangents,
            errors.TreeError,
            "solve must return the containers of initial_guess",
        ),
        (
            np.sin,
            lambda f, x: np.zeros(2),
            scalar_tangents,
            errors.ShapeError,
            r"solve returns f64\[2\] for result, and initial_guess has f64\[\]",
        ),
    ],
)
def test_wrong_functions_are_named(f, solve, tangent, error, words):
    def run(a):
        return a * lax.custom_root(f, 1.0, solve, tangent)

    for call in (run, ftrace.grad(run), ftrace.jit(run)):
        with pytest.raises(error, match=words):
            call(2.0)


def test_wrong_residuals_and_tangents_are_named():
    def good(f, x):
        return x

    def residual(a):
        return lax.custom_root(lambda x: x[:1] * a, np.ones(2), good, scalar_tangents).sum()

    with pytest.raises(
        errors.ShapeError, match=r"f returns f64\[1\] for result, and initial_guess"
    ):
        ftrace.grad(residual)(2.0)

    def tangent(a):
        return lax.custom_root(lambda x: x - a, 1.0, good, lambda g, y: (y, y))

    with pytest.raises(errors.TreeError, match="tangent_solve must return the containers of"):
        ftrace.grad(tangent)(2.0)


def test_an_integer_guess_is_named():
    with pytest.raises(errors.DtypeError, match=r"initial_guess is i64\[\], and an unknown is"):
        lax.custom_root(np.sin, 3, newton, scalar_tangents)


def test_a_solver_by_itself_has_no_derivative():
    def f(x):
        return solver_call(x, fun=lambda v: [np.sqrt(v)], out_avals=(typeof(x),))[0]

    np.testing.assert_array_equal(f(np.array([4.0, 9.0])), [2.0, 3.0])
    np.testing.assert_array_equal(ftrace.jit(f)(np.array([4.0, 9.0])), [2.0, 3.0])
    with pytest.raises(errors.RuleError, match="a solver that runs on the host") as caught:
        ftrace.grad(lambda x: f(x).sum())(np.ones(2))
    assert "custom_root or custom_linear_solve" in caught.value.fix


def test_only_what_finds_no_solution_is_nan():
    def solved(error):
        def solver(v):
            if v < 0:
                raise error
            return [np.sqrt(v)]

        return ftrace.vmap(lambda x: solver_call(x, fun=solver, out_avals=(typeof(1.0),))[0])

    x = np.array([4.0, -1.0])
    np.testing.assert_array_equal(solved(errors.SolverError("none", "."))(x), [2.0, np.nan])
    with pytest.raises(ZeroDivisionError):
        solved(ZeroDivisionError())(x)
