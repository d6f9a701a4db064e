"""`least_squares`, `curve_fit`, `root_scalar` and `minimize_scalar`, with SciPy's signatures.

As in `optimize.py`, each is a solver run by SciPy and the condition that its result fulfils.
"""

import functools
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.api.calls import check_callable
from ftrace.api.derivatives.autodiff import grad
from ftrace.api.derivatives.jacobians import jacfwd
from ftrace.core.errors import RuleError, ShapeError
from ftrace.core.lazy import lazy
from ftrace.implicit.answer import Answer
from ftrace.implicit.linear_systems import solve
from ftrace.implicit.optimize import equation_of, failure, found, held, limits_of, scalar, vector
from ftrace.implicit.solving import Equation, floats, solution

_least_squares = lazy("scipy.optimize", "least_squares")
_curve_fit = lazy("scipy.optimize", "curve_fit")
_root_scalar = lazy("scipy.optimize", "root_scalar")
_minimize_scalar = lazy("scipy.optimize", "minimize_scalar")

_LOSSES: Final[dict[str, Callable[[Any], Any]]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2.0 * (fnp.sqrt(1.0 + z) - 1.0),
    "huber": lambda z: fnp.where(z <= 1.0, z, 2.0 * fnp.sqrt(fnp.where(z <= 1.0, 1.0, z)) - 1.0),
    "cauchy": lambda z: fnp.log1p(z),
    "arctan": lambda z: fnp.arctan(z),
}


def least_squares(  # noqa: PLR0913 - SciPy's signature
    fun: Callable[..., Any],
    x0: Any,
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    loss: str = "linear",
    f_scale: float = 1.0,
    args: Any = (),
    **options: Any,
) -> Answer:
    """Find x that minimises half the sum of squares of fun(x), as `scipy.optimize.least_squares`.

    The derivative of x is that of the equation "the gradient of the cost is zero", second
    derivatives of `fun` included, so that it is exact where residuals remain; an element held by a
    bound moves with the bound and with nothing else.

    Args:
        fun: a function of x, of shape (n,), to m residuals.
        x0: shape (n,), where to start; no derivative.
        bounds: SciPy's: a pair of lower and upper bounds, or a `scipy.optimize.Bounds`.
        method, loss, f_scale: SciPy's; the loss by name. The method gets the exact Jacobian.
        args: a tuple of further arguments, containers allowed.
        **options: SciPy's: `ftol`, `xtol`, `gtol`, `x_scale`, `max_nfev`, ...

    Returns:
        An object with `x`, `cost`, `fun` (the residuals), `jac`, `success`, `status`, `message`.

    Raises:
        SolverError: SciPy found no minimum, or a derivative does not exist.
        RuleError: the loss is a function.

    Example:
        >>> import numpy as np, ftrace
        >>> t = np.arange(4.0)
        >>> def rate(data):
        ...     residuals = lambda p: p[0] * np.exp(-p[1] * t) - data
        ...     return ftrace.implicit.least_squares(residuals, [1, 1]).x[1]
        >>> ftrace.grad(rate)(3.0 * np.exp(-0.5 * t)).round(4)
        array([ 0.1766, -0.104 , -0.1912, -0.1936])
    """
    what = "least_squares"
    if loss not in _LOSSES:
        raise RuleError(
            f"least_squares knows no derivative of loss={loss!r}.", f"Losses are {list(_LOSSES)}."
        )
    x0 = vector(what, x0)
    equation = equation_of(what, fun, x0, args, square=False)
    jacobian = equation.derivative(jacfwd)
    lower, upper = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    limits = limits_of(what, (lower, upper), x0.shape[0])
    k = len(equation.params)

    def cost(params: Any, x: Any) -> Any:
        z = (equation(params, x) / f_scale) ** 2
        return 0.5 * f_scale**2 * fnp.sum(_LOSSES[loss](z))

    def solver(params: Any, x0: Any) -> Any:
        f, jac = (partial(g, params[:k]) for g in (equation, jacobian))
        given = {"method": method, "loss": loss, "f_scale": f_scale, **options}
        return found(what, fun, _least_squares(f, x0, jac, tuple(params[k:]), **given))

    def condition(params: Any, x: Any) -> Any:
        g = grad(lambda v: cost(params[:k], v))(x)
        return held(x, g, *params[k:])

    x = solution(condition, solver, [*equation.params, *limits], x0)
    params = equation.params
    return Answer(
        what, x=x, cost=cost(params, x), fun=equation(params, x), jac=jacobian(params, x),
        success=True, status=1, message="A minimum was found.",
    )  # fmt: skip


def curve_fit(  # noqa: PLR0913 - SciPy's signature
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    bounds: Any = (-np.inf, np.inf),
    **options: Any,
) -> tuple[Any, Any]:
    """Fit the parameters of f(xdata, *params) to ydata, as `scipy.optimize.curve_fit`.

    Args:
        f: a function of `xdata` and n scalars.
        xdata: what `f` takes first.
        ydata: shape (m,).
        p0: n values to start at; no derivative.
        sigma: errors of ydata, a scalar or of shape (m,).
        absolute_sigma: SciPy's.
        bounds: SciPy's: a pair of lower and upper bounds, or a `scipy.optimize.Bounds`.
        **options: SciPy's: `method`, `maxfev`, ... The method gets the exact Jacobian.

    Returns:
        The parameters, of shape (n,), and their covariance matrix; with derivatives with respect
        to all data, sigma, bounds, and what `f` closes over.

    Raises:
        SolverError: the fit failed, or a derivative does not exist.
        ShapeError: sigma is a matrix, or ydata no vector.

    Example:
        >>> import numpy as np, ftrace
        >>> t = np.arange(4.0)
        >>> def slope(y):
        ...     return ftrace.implicit.curve_fit(lambda t, a, b: a * t + b, t, y)[0][0]
        >>> ftrace.grad(slope)(np.array([1.0, 3.0, 5.0, 8.0])).round(6)
        array([-0.3, -0.1,  0.1,  0.3])
    """
    what = "curve_fit"
    check_callable(f, what)
    ydata = floats(what, "ydata", ydata)
    weight = fnp.ones(()) if sigma is None else floats(what, "sigma", sigma)
    if ydata.ndim != 1 or weight.shape not in ((), (1,), ydata.shape):
        raise ShapeError(
            f"curve_fit: ydata has shape {ydata.shape} and sigma {weight.shape}.",
            "Both are vectors; flatten ydata, and multiply by the Cholesky factor of a covariance.",
        )
    if issubclass(type(xdata), list | tuple | np.ndarray):
        xdata = floats(what, "xdata", xdata)
    start = _start(f, p0, bounds)

    @functools.wraps(f, updated=())
    def residual(p: Any, x: Any, y: Any, s: Any) -> Any:
        return (fnp.asarray(f(x, *p)) - y) / s

    equation = equation_of(what, residual, start, (xdata, ydata, weight), square=False)
    jacobian = equation.derivative(jacfwd)
    lower, upper = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    limits = limits_of(what, (lower, upper), start.shape[0])
    k = len(equation.params)

    def solver(params: Any, start: Any) -> Any:
        zeros = np.zeros(ydata.shape)

        def model(_: Any, *p: Any) -> Any:
            return equation(params[:k], np.array(p))

        def slope(_: Any, *p: Any) -> Any:
            return jacobian(params[:k], np.array(p))

        given = {"bounds": tuple(params[k:]), "jac": slope, "check_finite": False, **options}
        return _curve_fit(model, zeros, zeros, start, **given)[0]

    def condition(params: Any, x: Any) -> Any:
        g = grad(lambda v: 0.5 * fnp.sum(equation(params[:k], v) ** 2))(x)
        return held(x, g, *params[k:])

    x = solution(condition, solver, [*equation.params, *limits], start)
    slope = jacobian(equation.params, x)
    covariance = solve(slope.T @ slope, fnp.eye(start.shape[0]))
    if not (absolute_sigma and sigma is not None):
        rest = equation(equation.params, x)
        covariance = covariance * (fnp.sum(rest**2) / (ydata.shape[0] - start.shape[0]))
    return x, covariance


def _start(f: Callable[..., Any], p0: Any, bounds: Any) -> Any:
    """Where a fit starts: SciPy's choice."""
    if p0 is not None:
        return vector("curve_fit", fnp.atleast_1d(fnp.asarray(p0)))
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    n = sum(p.kind in kinds for p in inspect.signature(f).parameters.values()) - 1
    if n < 1:
        raise ValueError("Unable to determine number of fit parameters.")
    lower, upper = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    if np.ndim(lower) or np.ndim(upper) or np.isfinite([lower, upper]).any():
        raise ShapeError("curve_fit: with bounds, traced data need a place to start.", "Give p0=.")
    return fnp.ones(n)


def root_scalar(
    f: Callable[..., Any],
    args: Any = (),
    method: str | None = None,
    bracket: Any = None,
    x0: Any = None,
    x1: Any = None,
    **options: Any,
) -> Answer:
    """Find the scalar x with f(x, *args) = 0, as `scipy.optimize.root_scalar`.

    Args:
        f: a function of scalars.
        args: a tuple of further arguments, containers allowed.
        method: SciPy's; "newton" and "halley" get exact derivatives.
        bracket, x0, x1: where to look; no derivative.
        **options: SciPy's: `xtol`, `rtol`, `maxiter`.

    Returns:
        An object with `root` and `converged`.

    Raises:
        SolverError: no convergence, or a derivative does not exist.

    Example:
        >>> import ftrace
        >>> find = lambda a: ftrace.implicit.root_scalar(lambda x: x**3 - a, x0=1.0).root
        >>> round(float(ftrace.grad(find)(8.0)), 9)
        0.083333333
    """
    what = method or "root_scalar"
    if x0 is None and bracket is None:
        raise ValueError("Unable to select a solver as neither bracket nor starting point provided")
    starts = [scalar(what, "x0", x) for x in (x0, x1) if x is not None]
    ends = [scalar(what, "bracket", x) for x in (() if bracket is None else bracket)]
    guess = [*starts, *ends]
    equation = equation_of(what, f, guess[0], args)
    if method is None and bracket is None and len(starts) == 1:
        method = "newton"

    def solver(params: Any, *guess: Any) -> Any:
        def of(g: Callable[..., Any]) -> Callable[[Any], Any]:
            return lambda x: float(g(params, np.float64(x)))

        where: dict[str, Any] = dict(
            zip(("x0", "x1"), map(float, guess[: len(starts)]), strict=False)
        )
        if ends:
            where["bracket"] = [float(x) for x in guess[len(starts) :]]
        slopes = {name: of(g) for name, g in _slopes(method, equation).items()}
        return _found_root(what, f, of(equation), method=method, **where, **slopes, **options)

    return Answer(
        what,
        root=solution(equation, solver, equation.params, *guess),
        converged=True,
        flag="converged",
    )


def _slopes(method: str | None, equation: Equation) -> dict[str, Callable[..., Any]]:
    """The derivatives that a method uses."""
    one = {"fprime": equation.derivative(grad)} if method in ("newton", "halley") else {}
    return one | ({"fprime2": equation.derivative(_twice)} if method == "halley" else {})


def _twice(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return grad(grad(g))


def _found_root(what: str, user: Callable[..., Any], f: Any, **given: Any) -> Any:
    try:
        sol = _root_scalar(f, **given)
    except ValueError as error:
        if "different signs" not in str(error):
            raise
        raise failure(what, user, str(error)) from error
    if not sol.converged:
        raise failure(what, user, f"{sol.flag} after {sol.iterations} iterations")
    return sol.root


def minimize_scalar(  # noqa: PLR0913 - SciPy's signature
    fun: Callable[..., Any],
    bracket: Any = None,
    bounds: Any = None,
    args: Any = (),
    method: str | None = None,
    tol: float | None = None,
    options: dict[str, Any] | None = None,
) -> Answer:
    """Find the scalar x that minimises fun(x, *args), as `scipy.optimize.minimize_scalar`.

    Args:
        fun: a function of scalars.
        bracket, bounds: where to look. A minimum at a bound moves with it.
        args: a tuple of further arguments, containers allowed.
        method, tol, options: SciPy's.

    Returns:
        An object with `x`, `fun` and `success`. Its derivatives are as exact as x: tighten `tol`
        for more digits.

    Raises:
        SolverError: no minimum was found, or a derivative does not exist.

    Example:
        >>> import numpy as np, ftrace
        >>> best = lambda a: ftrace.implicit.minimize_scalar(lambda x: (x - a) ** 2 + a * x).x
        >>> round(float(ftrace.grad(best)(1.0)), 6)
        0.5
    """
    what = "minimize_scalar"
    given = [scalar(what, "bracket", x) for x in (bracket or ())]
    limits = [scalar(what, "bounds", x) for x in (() if bounds is None else bounds)]
    start = fnp.zeros(())[()] if not given else given[0]
    equation = equation_of(what, fun, start, args)
    k = len(equation.params)

    def solver(params: Any, _: Any, *given: Any) -> Any:
        more: dict[str, Any] = {"method": method, "tol": tol, "options": options}
        if limits:
            more["bounds"] = tuple(map(float, params[k:]))
        more["bracket"] = tuple(map(float, given)) or None
        f = partial(equation, params[:k])
        return found(what, fun, _minimize_scalar(lambda x: float(f(np.float64(x))), **more))

    def condition(params: Any, x: Any) -> Any:
        g = grad(lambda v: equation(params[:k], v))(x)
        return held(x, g, *params[k:]) if limits else g

    x = solution(condition, solver, [*equation.params, *limits], start, *given)
    return Answer(what, x=x, fun=equation(equation.params, x), success=True, message="")
