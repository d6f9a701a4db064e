"""SciPy's own solvers in transformed functions: what they find has derivatives."""

import inspect
import re
import sys

import numpy as np
import pytest
import scipy.integrate as si
import scipy.optimize as so
import scipy.sparse as sp
from scipy.integrate import quad

import ftrace
from ftrace import errors
from ftrace.core.printed import keep_from_printing
from tests.api.ways import differences

T = np.linspace(0.0, 3.0, 8)
Y = 2 * np.exp(-0.7 * T) + 0.1 * np.sin(9 * T)
TIGHT = {"rtol": 1e-9, "atol": 1e-9}
EXACT = {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14}


def cube(x, a):
    return x**3 - a


def filled(t, y, theta):
    """A rate written as users write it."""
    dy = np.zeros(2)
    dy[0] = y[1]
    dy[1] = -theta[0] * y[0] ** 3 + theta[1] * np.cos(t)
    if y[0] > 5.0:
        dy[1] -= 1.0
    return dy


def oscillator(theta):
    sol = si.solve_ivp(filled, (0, 1), [1.0, theta[1]], t_eval=T / 3, args=(theta,), **TIGHT)
    assert sol.success
    return np.sum(sol.y**2) + sol["y"][0, -1]


def pair(x, a):
    return [x[0] ** 2 - a[0], x[0] * x[1] - a[1]]


def decay(t, a, b):
    return a * np.exp(-b * t)


def misfit(p, t, y):
    return decay(t, *p) - y


def with_errors(y):
    p, covariance = so.curve_fit(decay, T, y, p0=[1, 1], **EXACT, method="trf")
    return 2 * p[0] + p[1] + np.sqrt(np.diag(covariance)).sum()


A = np.array([2.0, 3.0])
CALLS = {
    "solve_ivp": (oscillator, np.array([1.2, 0.3])),
    "solve_ivp of a closure": (
        lambda k: np.sum(si.solve_ivp(lambda t, y: -k * y, (0, 1), [1.0], t_eval=[0.5, 1]).y),
        0.5,
    ),
    "odeint": (lambda k: si.odeint(lambda y, t, k: -k * y, k, T, args=(k,), **TIGHT).sum(), 1.3),
    "quad": (lambda k: quad(lambda x: np.exp(-k * x) * np.sin(x), 0, 2 * k)[0], 1.3),
    "dblquad": (
        lambda k: si.dblquad(
            lambda y, x: k * x * np.exp(-k * y), 0, k, lambda x: 0.0, lambda x: k * x
        )[0],
        1.3,
    ),
    "toms748": (lambda a: so.toms748(lambda x: x**3 - a, 0, 10), 5.0),
    "brentq": (lambda a: so.brentq(lambda x: x**3 - a, 0, 10), 5.0),
    "bisect": (lambda a: so.bisect(cube, 0, 10, args=(a,), xtol=1e-13), 5.0),
    "newton": (lambda a: so.newton(lambda x: x**3 - a, 1.5), 5.0),
    "newton with a slope": (
        lambda a: so.newton(cube, 1.5, fprime=lambda x, a: 3 * x * x, args=(a,)),
        5.0,
    ),
    "root_scalar": (lambda a: so.root_scalar(cube, (a,), bracket=[0, 10]).root, 5.0),
    "root": (lambda a: so.root(lambda x: pair(x, a), [1.0, 1.0]).x @ a, A),
    "fsolve": (lambda a: so.fsolve(pair, [1.0, 1.0], args=(a,)) @ a, A),
    "minimize": (
        lambda a: (
            so.minimize(
                lambda x: np.sum((x - a) ** 2) + x[0] ** 2 * x[1], np.ones(2), method="BFGS"
            ).fun
        ),
        A,
    ),
    "minimize with its slope": (
        lambda a: (
            so.minimize(
                lambda x, a: (np.sum((x - a) ** 2), 2 * (x - a)), np.ones(2), args=(a,), jac=True
            ).x
            @ a
        ),
        A,
    ),
    "minimize_scalar": (
        lambda a: so.minimize_scalar(lambda x: (x - a) ** 2 + a * np.cos(x), tol=1e-11).x,
        2.0,
    ),
    "least_squares": (
        lambda y: so.least_squares(misfit, [1.0, 1.0], args=(T, y), **EXACT).x @ A,
        Y,
    ),
    "least_squares of a closure, robust": (
        lambda y: so.least_squares(
            lambda p: misfit(p, T, y), [1.0, 1.0], loss="soft_l1", f_scale=0.1, **EXACT
        ).x.sum(),
        Y,
    ),
    "least_squares with bounds": (
        lambda y: so.least_squares(
            misfit, [1.0, 1.0], bounds=([0.0, 0.0], [0.9 * y[0], 9.0]), args=(T, y), **EXACT
        ).x.sum(),
        Y,
    ),
    "curve_fit": (with_errors, Y),
    "curve_fit of more": (
        lambda y: np.sum(
            so.curve_fit(
                lambda t, a, b: a + b * t[0] * t[1],
                (T, T + y[0]),
                y,
                sigma=0.1 + y**2,
                absolute_sigma=True,
                bounds=(-9.0, 9.0),
                p0=[0.5, 0.5],
                xtol=1e-14,
            )[1]
        ),
        Y,
    ),
}
STEPS = {"minimize_scalar": (1e-2, 1e-4), "solve_ivp of a closure": (1e-2, 1e-3)}
ROUGH = {
    "least_squares with bounds": 1e-4,
    "curve_fit of more": 1e-4,
    "least_squares": 1e-4,
    "least_squares of a closure, robust": 1e-4,
    "curve_fit": 1e-4,
}


@pytest.mark.parametrize("name", CALLS)
def test_what_scipy_finds_is_differentiated(name):
    f, x = CALLS[name]
    step, tol = STEPS.get(name, (1e-4, ROUGH.get(name, 1e-6)))
    slope = differences(f, x, step)
    for way in (ftrace.grad, ftrace.jacfwd, lambda f: ftrace.jit(ftrace.grad(f))):
        np.testing.assert_allclose(way(f)(x), slope, rtol=tol, atol=tol)
    np.testing.assert_allclose(ftrace.jit(f)(x), f(x), rtol=1e-7)


@pytest.mark.slow
def test_a_fit_of_an_equations_parameters():
    """A plain program: the parameters of an oscillator found again from its course."""
    times = np.linspace(0.0, 4.0, 15)

    def rate(t, y, k, c):
        return [y[1], -k * y[0] - c * y[1]]

    def course(theta):
        k, c = theta
        return si.solve_ivp(rate, (0, 4), [1.0, 0.0], t_eval=times, args=(k, c), rtol=1e-6).y[0]

    data = course([2.0, 0.3])
    loss = ftrace.value_and_grad(lambda theta: np.sum((course(theta) - data) ** 2))
    found = so.minimize(loss, [1.5, 0.1], jac=True, method="BFGS")
    np.testing.assert_allclose(found.x, [2.0, 0.3], atol=1e-4)
    again = so.least_squares(
        lambda theta: course(theta) - data, [1.5, 0.1], ftrace.jacfwd(course), method="lm"
    )
    np.testing.assert_allclose(again.x, [2.0, 0.3], atol=1e-6)


@pytest.mark.slow
def test_solvers_in_solvers():
    """The parameters of an equation fit data; a derivative of the fit by the data's errors."""

    def course(k, t):
        return si.odeint(lambda y, t: -k * y, 1.0, t, rtol=1e-11, atol=1e-11)[:, 0]

    def fitted(shift):
        def residuals(p, t, y):
            return course(p[0], t) - y

        y = np.exp(-0.7 * T) + shift * np.sin(T)
        return so.least_squares(residuals, [0.5], args=(T, y), **EXACT).x[0]

    slope = differences(fitted, 0.1, 1e-3)
    for way in (ftrace.grad(fitted), ftrace.jit(ftrace.grad(fitted))):
        np.testing.assert_allclose(way(0.1), slope, rtol=1e-5)


def test_calls_where_nothing_is_traced_are_scipys_own():
    def f(x):
        sol = so.root_scalar(lambda x: x**2 - 2.0, bracket=[0.0, 2.0])
        area, error = quad(np.sin, 0.0, 1.0)
        return x * sol.root + sol.iterations + area + error

    root = np.sqrt(2.0)
    for way in (ftrace.grad, lambda f: ftrace.jit(ftrace.grad(f))):
        np.testing.assert_allclose(way(f)(3.0), root)

    def decides(x):  # traced values decide: lifted, with SciPy's calls in it
        return f(x) if x > 0 else x

    np.testing.assert_allclose(ftrace.jit(ftrace.grad(decides))(3.0), root)
    with pytest.raises(ZeroDivisionError):
        ftrace.jit(lambda x: decides(x) * so.brentq(lambda y: 1 / 0, 0.0, 1.0))(3.0)


def test_what_traced_solvers_refuse():
    def f(a):
        return so.brentq(lambda x: x**3 - a, 0.0, 5.0, full_output=True)[0]

    with pytest.raises(errors.RuleError, match="no full_output=") as caught:
        ftrace.grad(f)(2.0)
    assert "outside of the traced function" in caught.value.fix
    with pytest.raises(errors.SolverError, match="brentq"):
        ftrace.grad(lambda a: so.brentq(lambda x: x**2 + a, 0.0, 5.0))(2.0)
    with pytest.raises(errors.RuleError, match="loss="):
        ftrace.grad(lambda a: so.least_squares(lambda x: x - a, [1.0], loss=np.sin).x[0])(2.0)


def test_errors_inside_of_scipy_tell_the_users_line_and_what_to_call():
    def solved(k):
        return si.solve_ivp(lambda t, y: -k * y, (0, 1), [1.0], t_eval=[1.0]).y.sum()

    def programmed(k):
        return so.linprog(np.stack([k, k]), A_ub=np.eye(2), b_ub=np.ones(2)).fun

    def product(k):
        return (sp.csr_array(np.eye(2)) @ np.stack([k, k])).sum()

    for f, words in (
        (solved, "ftrace.implicit.solve_ivp takes traced arrays"),
        (programmed, "linprog.*plain values.*ftrace.external"),
        (product, "ftrace.sparse.as_sparse"),
    ):
        with pytest.raises(errors.TracerArrayConversionError) as caught:
            ftrace.grad(f, lift=f is programmed)(1.0)
        note = caught.value.__notes__[-1]  # the first tells the error's number
        assert re.search(words, note, re.DOTALL)
        line = inspect.getsource(f).splitlines()[-1].strip()
        assert f"called at {__file__}:" in note
        assert line in note


def test_a_minimum_that_rounding_hides_is_one():
    """There SciPy reports a loss of precision, and no success."""

    def best(a, **options):
        def f(x):
            return np.sum((x - a) ** 4 + (x - 1) ** 2)

        return so.minimize(f, np.zeros(2), method="BFGS", tol=1e-14, options=options).x

    a = np.array([2.0, 3.0])
    curvature = 12 * (best(a) - a) ** 2
    expected = np.diag(curvature / (curvature + 2))
    np.testing.assert_allclose(ftrace.jacfwd(best)(a), expected, rtol=1e-5)
    with pytest.raises(errors.SolverError, match="iterations"):
        ftrace.jacfwd(lambda a: best(a, maxiter=2))(a)


SOLVED = {
    "fsolve": lambda a: so.fsolve(lambda x: x**2 - a, np.ones(2)),
    "leastsq": lambda a: so.leastsq(lambda x: x**2 - a, np.ones(2))[0],
    "curve_fit": lambda a: so.curve_fit(lambda t, k: k * t * a, T, 2.0 * T)[0],
}


@pytest.mark.parametrize("name", SOLVED)
@pytest.mark.parametrize("lift", [True, False], ids=["lifted", "as it is"])
def test_minpack_prints_no_error_of_a_tracer(name, lift, capsys):
    """Its wrapper prints why what a function gave is no array, and then raises it."""
    before = sys.excepthook
    f = SOLVED[name]
    if lift:
        assert np.isfinite(ftrace.jvp(f, (2.0,), (1.0,))[1]).all()
    else:
        with pytest.raises(errors.FtraceError):
            ftrace.jvp(f, (2.0,), (1.0,), lift=False)
    assert capsys.readouterr().err == ""
    assert sys.excepthook is before


def test_other_errors_are_printed(capsys):
    error, another = errors.TracerArrayConversionError("an error", "fix"), ValueError("another one")
    call, before = compile("asked()", "scipy/optimize/_minpack_py.py", "exec"), sys.excepthook

    def asked():  # as a tracer's __array__, called by MINPACK
        keep_from_printing(error)

    for told in (another, error):
        exec(call, {"asked": asked})
        sys.excepthook(type(told), told, None)
        assert ("another one" in capsys.readouterr().err) == (told is another)
        assert sys.excepthook is before
