"""`solve_ivp`, `odeint` and `quad`: derivatives against formulas and differences of the values."""

import numpy as np
import pytest
import scipy.integrate

import ftrace
from ftrace import errors, implicit
from tests.api.ways import GRADIENTS, HESSIANS, differences

TIGHT = {"method": "DOP853", "rtol": 1e-9, "atol": 1e-9}
T = np.array([0.0, 0.3, 0.6, 1.1, 1.7])
TWICE = np.array([0.0, 0.3, 0.3, 1.1, 1.7])
P = np.array([1.3, 0.7])
W = np.array([1.0, -2.0, 0.5, 0.7, 1.5])


def close(actual, expected, tol=1e-7):
    np.testing.assert_allclose(actual, expected, rtol=tol, atol=tol)


def swing(t, y, p):
    """A damped pendulum whose string becomes shorter."""
    return [y[1], -(p[0] + t) * np.sin(y[0]) - p[1] * y[1]]


def total(y):
    return np.sum(W * np.sin(y[0])) + y[1, 3] ** 2


def start(p):
    return np.array([0.8, 0.1]) * p


SOLVED = {
    "solve_ivp": lambda p, s: total(
        s.solve_ivp(swing, (0.0, 2.0), start(p), t_eval=T, args=(p,), **TIGHT).y
    ),
    "to the past": lambda p, s: total(
        s.solve_ivp(swing, (1.9, -0.5), start(p), t_eval=T[::-1], args=(p,), **TIGHT).y
    ),
    "odeint": lambda p, s: total(
        s.odeint(swing, start(p), TWICE, args=(p,), tfirst=True, rtol=1e-9, atol=1e-9).T
    ),
    "quad": lambda p, s: s.quad(
        lambda x, p: np.exp(-p[0] * x) * np.sin(p[1] * x), 0.0, 3.0, args=(p,)
    )[0],
    "quad of limits": lambda p, s: s.quad(
        lambda x, p: p[0] * np.sin(x * p[1]) / (1 + x), p[0], 4.0 * p[1], args=(p,)
    )[0],
    "quad to infinity": lambda p, s: s.quad(
        lambda x, p: np.exp(-p[0] * x * x), -p[1], np.inf, args=(p,)
    )[0],
}


def traced(name):
    return lambda p: SOLVED[name](p, implicit)


def plainly(name):
    return lambda p: SOLVED[name](p, scipy.integrate)


@pytest.mark.parametrize("name", SOLVED)
def test_values_and_first_derivatives(name):
    f = traced(name)
    slope = differences(plainly(name), P, 1e-4)
    close(f(P), plainly(name)(P), 1e-13)  # SciPy's own
    close(ftrace.jit(f)(P), plainly(name)(P), 1e-9)
    for way in (ftrace.grad, ftrace.jacfwd, lambda f: ftrace.jit(ftrace.grad(f))):
        close(way(f)(P), slope)
    stack = np.stack([P, 1.2 * P])
    slopes = [slope, differences(plainly(name), stack[1], 1e-4)]
    close(ftrace.vmap(ftrace.grad(f))(stack), slopes)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["linearize", "grad of cond", "jit of vmap of grad"])
@pytest.mark.parametrize("name", ["solve_ivp", "quad of limits"])
def test_gradients_every_way(name, way):
    close(GRADIENTS[way](traced(name))(P), differences(plainly(name), P, 1e-4))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["solve_ivp", "quad of limits"])
def test_second_derivatives(name):
    f = traced(name)
    close(ftrace.hessian(f)(P), differences(ftrace.grad(f), P, 1e-4), 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["jit of hessian", "jacrev of jacrev"])
@pytest.mark.parametrize("name", ["odeint", "quad of limits"])
def test_second_derivatives_every_way(name, way):
    f = traced(name)
    close(HESSIANS[way](f)(P), differences(ftrace.grad(f), P, 1e-4), 1e-5)


@pytest.mark.slow
def test_a_third_derivative():
    def end(k):
        return implicit.solve_ivp(lambda t, y: -k * y, (0.0, 2.0), [3.0], **TIGHT).y[0, -1]

    third = ftrace.grad(ftrace.grad(ftrace.grad(end)))
    close(third(0.5), -8 * 3 * np.exp(-1.0), 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["RK45", "RK23", "DOP853", "Radau", "BDF", "LSODA"])
def test_every_method_is_as_exact_as_its_tolerance(method):
    def f(p):
        sol = implicit.solve_ivp(swing, (0, 1), start(p), method, [1.0], args=(p,), rtol=1e-6)
        return sol.y[0, 0]

    def exact(p):
        sol = scipy.integrate.solve_ivp(swing, (0, 1), start(p), t_eval=[1.0], args=(p,), **TIGHT)
        return sol.y[0, 0]

    slope = differences(exact, P, 1e-4)
    close(ftrace.grad(f)(P), slope, 3e-5)
    close(ftrace.jacfwd(f)(P), slope, 3e-5)


def test_the_adjoint_of_a_stiff_equation_is_not_solved_backwards():
    """Backwards in time, y would grow by exp(2000)."""

    def end(k):
        def rate(t, y):
            return -1000.0 * (y - k * np.cos(t))

        return implicit.solve_ivp(rate, (0, 2), [0.0], "Radau", [2.0], rtol=1e-8, atol=1e-8).y[0, 0]

    exact = (1000.0**2 * np.cos(2.0) + 1000.0 * np.sin(2.0)) / (1 + 1000.0**2)
    close(ftrace.grad(end)(1.0), exact, 1e-6)


def test_small_derivatives_are_as_exact_as_large_ones():
    """An atol made for y says nothing about derivatives in other units."""

    def end(k, scale):
        def rate(t, y):
            return -(k * scale) * y

        return scale * implicit.solve_ivp(rate, (0, 2), [1.0], t_eval=[2.0], rtol=1e-6).y[0, 0]

    for scale in (1e-9, 1e9):
        exact = -2.0 * scale**2 * np.exp(-1.0)
        for way in (ftrace.grad, ftrace.jacfwd):
            np.testing.assert_allclose(way(end)(0.5 / scale, scale), exact, rtol=1e-4)
    area = ftrace.grad(lambda k: 1e-9 * implicit.quad(lambda x: 1e-9 * np.exp(-k * x), 0, 1)[0])
    np.testing.assert_allclose(area(1.0), -1e-18 * (1 - 2 * np.exp(-1.0)), rtol=1e-7)


def test_arguments_may_be_containers_and_closed_over():
    a, b = np.array([[0.0, 1.0], [-1.0, 0.0]]), np.array([0.3, -0.2])

    def by_args(params, n):
        def rate(t, y, params, n):
            return params["a"] @ y**n + params["b"]

        given = {"t_eval": [1.0], "args": (params, n), **TIGHT}
        return implicit.solve_ivp(rate, (0, 1), [1.0, 0.5], **given).y.sum()

    def by_closure(params, n):
        def rate(t, y):
            return params["a"] @ y**n + params["b"]

        return implicit.solve_ivp(rate, (0, 1), [1.0, 0.5], t_eval=[1.0], **TIGHT).y.sum()

    params = {"a": a, "b": b}
    one, two = (ftrace.grad(f)(params, 3) for f in (by_args, by_closure))
    close(one["a"], two["a"], 1e-12)
    close(one["b"], two["b"], 1e-12)
    close(one["b"], differences(lambda b: by_args({"a": a, "b": b}, 3), b, 1e-4), 1e-6)


def test_steps_are_the_solvers_own_where_they_can_be_asked():
    def end(k):
        sol = implicit.solve_ivp(lambda t, y: -k * y, (0.0, 2.0), [3.0], **TIGHT)
        assert sol.success
        assert len(sol.t) == sol.y.shape[1] > 3
        return sol.y[0, -1]

    close(ftrace.grad(end)(0.5), -6.0 * np.exp(-1.0))
    with pytest.raises(errors.RuleError, match="t_eval="):
        ftrace.jit(end)(0.5)


def test_nothing_traced_is_scipys_own():
    def crossing(x):
        def event(t, y):
            return y[0] - 0.5

        sol = implicit.solve_ivp(lambda t, y: -y, (0, 2), [1.0], events=event, **TIGHT)
        area, _, told = implicit.quad(np.cos, 0.0, 1.0, full_output=True)
        return x * sol.t_events[0][0] * area + told["neval"]

    for way in (ftrace.grad, lambda f: ftrace.jit(ftrace.grad(f))):
        close(way(crossing)(3.0), np.log(2.0) * np.sin(1.0))


def test_a_traced_function_is_traced_once():
    seen = []

    def rate(t, y, k):
        seen.append(1)
        return -k * y

    def end(k):
        return implicit.odeint(rate, 1.0, np.linspace(0, 1, 4), args=(k,), tfirst=True)[-1, 0]

    ftrace.grad(end)(0.5)
    count = len(seen)
    ftrace.grad(end)(0.7)
    assert len(seen) == count == 1


def fails(error, words, fun, x=1.0):
    with pytest.raises(error, match=words) as caught:
        ftrace.grad(fun)(x)
    assert __file__ in caught.value.where
    return caught.value.fix


def test_mistakes():
    def solved(**options):
        def f(k):
            given = {"t_eval": [1.0], "y0": [1.0], **options}
            return implicit.solve_ivp(lambda t, y: -k * y, (0.0, 2.0), **given).y.sum()

        return f

    assert "t_eval=" in fails(errors.RuleError, "no events=", solved(events=lambda t, y: y[0]))
    fails(errors.RuleError, "no dense_output=", solved(dense_output=True))
    assert "ravel_pytree" in fails(errors.ShapeError, r"shape \(1, 1\)", solved(y0=[[1.0]]))
    fails(errors.DtypeError, "y0 is c128", solved(y0=[1j]))
    fails(errors.DtypeError, "args is a float", solved(args=2.0))
    with pytest.raises(errors.DomainError, match="not in order"):
        ftrace.grad(solved(t_eval=[3.0]))(1.0)
    fails(errors.RuleError, "full_output",
          lambda k: implicit.quad(lambda x: k * x, 0, 1, full_output=1)[0])  # fmt: skip
    fails(errors.ShapeError, r"returns shape \(2,\)",
          lambda k: implicit.quad(lambda x: k * np.ones(2), 0, 1)[0])  # fmt: skip
    fails(errors.ShapeError, r"returns shape \(2,\), and shape \(1,\)",
          lambda k: implicit.odeint(lambda y, t: k * np.ones(2), 1.0, T)[0, 0])  # fmt: skip
    fix = fails(errors.RuleError, "respect to times",
                lambda k: implicit.odeint(lambda y, t: -y, 1.0, k * T)[1, 0])  # fmt: skip
    assert "scaled time" in fix
    with pytest.raises(errors.SolverError, match="step size"):
        ftrace.grad(
            lambda k: implicit.solve_ivp(lambda t, y: k * y**2, (0, 2), [1.0], t_eval=[2.0]).y.sum()
        )(1.0)
    with pytest.raises(AttributeError, match=r"no 'nfev'.*y, "):
        ftrace.grad(
            lambda k: implicit.solve_ivp(lambda t, y: k * y, (0, 1), [1.0], t_eval=[1.0]).nfev
        )(1.0)


def test_times_may_be_traced_where_no_derivative_is_asked():
    def end(k, t):
        return implicit.odeint(lambda y, t: -k * y, 1.0, t)[-1, 0]

    close(ftrace.jit(ftrace.grad(end))(0.5, T), -T[-1] * np.exp(-0.5 * T[-1]))
