"""`minimize`: the method of Broyden, Fletcher, Goldfarb and Shanno as a loop of the program.

The line search halves a step until the value falls enough (Armijo); an update that would lose
positive curvature is left out. What is found is a root of the gradient: its derivatives are those
of the equation, whatever the iterations were.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import RuleError, ShapeError
from ftrace.core.registration import register_record
from ftrace.core.trace import lifted
from ftrace.interpreters.linearize import linearize_flat
from ftrace.lax import custom_root, stop_gradient, while_loop
from ftrace.lax import map as each
from ftrace.numpy.promote import inexact, value

_OPTIONS = {"gtol": 1e-5, "maxiter": None, "norm": fnp.inf, "line_search_maxiter": 40}


class OptimizeResults(NamedTuple):
    """What `minimize` returns.

    Attributes:
        x: the place of the minimum.
        success: whether the gradient is small there.
        status: 0 for success, 1 after too many iterations, 2 where no step lowers the value.
        fun, jac: value and gradient there.
        hess_inv: the method's approximation of the inverse of the Hessian.
        nfev, njev, nit: how many values, gradients, iterations were computed.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


class _State(NamedTuple):
    x: Any
    f: Any
    g: Any
    h: Any  # of the inverse Hessian
    n: Any  # iterations
    nfev: Any
    failed: Any


for _record in (OptimizeResults, _State):
    register_record(_record)


def _value_and_gradient(fun: Callable[..., Any], x: Any) -> tuple[Any, Any]:
    (f,), tape = linearize_flat(lambda x: [value(fun(x))], [x], outlives=False)
    if typeof(f).shape:
        raise ShapeError(
            f"minimize needs a function that returns a number, not an array {typeof(f).shape}.",
            "Return its sum, or what else is to be small.",
        )
    (g,) = tape.pull([typeof(f).dtype.type(1)])
    return f, fnp.zeros_like(x) if g is None else g


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    method: str = "BFGS",
    tol: float | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResults:
    """A local minimum of a function of a vector, found by BFGS inside of the program.

    Args:
        fun: of a vector and of `args`, returns a number; traceable.
        x0: where to begin, a vector of real numbers; no derivative.
        args: what else the function takes; derivatives by these, and by what the function closes
            over, are those of the equation `gradient = 0`.
        method: "BFGS".
        tol: the size of the gradient that is small enough.
        options: `gtol` as `tol`, `maxiter` (200 for each variable), `norm` of the gradient,
            `line_search_maxiter`.

    Returns:
        The minimum and how it was found. Only x, fun and jac have derivatives.

    Raises:
        RuleError: another method, or another option.
        ShapeError: x0 is no vector, or the function's value no number.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.optimize import minimize
        >>> def nearest(a):
        ...     return minimize(lambda x: np.sum((x - a) ** 2), np.zeros(2), method="BFGS").x
        >>> ftrace.jit(ftrace.jacrev(nearest))(np.array([1.0, 2.0])).diagonal().round(6)
        array([1., 1.])
    """
    if method.lower() != "bfgs":
        raise RuleError(
            f"ftrace.scipy.optimize.minimize has no method {method!r}.",
            "Use method='BFGS', or ftrace.implicit.minimize, which runs SciPy's methods.",
        )
    options = {} if options is None else options
    unknown = {*options.keys()} - set(_OPTIONS)
    if unknown:
        raise RuleError(
            f"minimize has no option {min(unknown)!r}.", f"Options are {', '.join(_OPTIONS)}."
        )
    x0 = stop_gradient(inexact(value(x0)))
    if typeof(x0).ndim != 1:
        raise ShapeError(f"x0 has the shape {typeof(x0).shape}.", "Pass a vector: x0.ravel().")
    settings = _OPTIONS | ({} if tol is None else {"gtol": tol}) | options
    user = lifted(fun)

    def of_place(x: Any) -> Any:
        return user(x, *args)

    def gradient(x: Any) -> Any:
        return _value_and_gradient(of_place, x)[1]

    found = custom_root(
        *(gradient, x0, lambda _, x: _found(of_place, x, settings), _solved), has_aux=True
    )
    x, (success, status, h, nfev, nit) = found
    f, g = _value_and_gradient(of_place, x)
    return OptimizeResults(x, success, status, f, g, h, nfev, nfev, nit)


def _solved(g: Callable[[Any], Any], y: Any) -> Any:
    """The solution of a linear equation, by its matrix."""
    columns = each(g, fnp.eye(typeof(y).shape[0], dtype=typeof(y).dtype))
    return fnp.linalg.solve(columns.T, y)


def _found(fun: Callable[..., Any], x: Any, settings: dict[str, Any]) -> tuple[Any, Any]:
    n = typeof(x).shape[0]
    most = 200 * n if settings["maxiter"] is None else settings["maxiter"]

    def small(g: Any) -> Any:
        return fnp.less(fnp.linalg.norm(g, ord=settings["norm"]), settings["gtol"])

    def goes_on(s: _State) -> Any:
        return ~small(s.g) & fnp.less(s.n, most) & ~s.failed

    def step(s: _State) -> _State:
        return _iterated(fun, s, settings["line_search_maxiter"])

    f, g = _value_and_gradient(fun, x)
    one, no = fnp.asarray(1), fnp.asarray(False)
    first = _State(x, f, g, fnp.eye(n, dtype=typeof(x).dtype), 0 * one, one, no)
    last = while_loop(goes_on, step, first)
    success = small(last.g)
    status = fnp.where(success, 0, fnp.where(last.failed, 2, 1))
    return last.x, (success, status, last.h, last.nfev, last.n)


def _iterated(fun: Callable[..., Any], s: _State, most: int) -> _State:
    """One step along the line that the approximate Hessian says, and its update."""
    direction = -(s.h @ s.g)
    slope = fnp.dot(s.g, direction)
    first = fnp.where(fnp.equal(s.n, 0), fnp.minimum(1.0, 1 / fnp.sum(fnp.abs(s.g))), 1.0)

    def too_far(state: Any) -> Any:
        t, f, tries = state
        return ~fnp.less_equal(f, s.f + 1e-4 * t * slope) & fnp.less(tries, most)

    def halve(state: Any) -> Any:
        t, _, tries = state
        return t / 2, fun(s.x + t / 2 * direction), tries + 1

    t = first.astype(typeof(s.x).dtype)
    start = t, value(fun(s.x + t * direction)), fnp.asarray(0)
    t, f, tries = while_loop(too_far, halve, start)
    failed = ~fnp.less_equal(f, s.f + 1e-4 * t * slope)
    x = fnp.where(failed, s.x, s.x + t * direction)
    f, g = _value_and_gradient(fun, x)
    h = _updated(s.h, x - s.x, g - s.g, s.n)
    return _State(x, f, g, h, s.n + 1, s.nfev + tries + 2, failed)


def _updated(h: Any, dx: Any, dg: Any, n: Any) -> Any:
    """The approximation of the inverse Hessian after a step; before the first it is scaled."""
    curvature = fnp.dot(dx, dg)
    fine = fnp.greater(curvature, 1e-12 * fnp.linalg.norm(dx) * fnp.linalg.norm(dg))
    rho = 1 / fnp.where(fine, curvature, 1)
    h = fnp.where(fnp.equal(n, 0) & fine, h * (curvature / fnp.where(fine, fnp.dot(dg, dg), 1)), h)
    v = fnp.eye(typeof(dx).shape[0], dtype=typeof(dx).dtype) - rho * fnp.outer(dx, dg)
    return fnp.where(fine, v @ h @ v.T + rho * fnp.outer(dx, dx), h)
