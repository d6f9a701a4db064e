"""Roots and minima: `root`, `brentq`, `fixed_point`, `minimize`, with SciPy's signatures.

Each is a solver run by SciPy, and the condition that its result fulfils. SciPy gets exact
derivatives of the user's function where a method uses them.
"""

import functools
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

import ftrace.numpy as fnp
from ftrace.api.calls import check_callable, name_of
from ftrace.api.derivatives.autodiff import grad, value_and_grad
from ftrace.api.derivatives.jacobians import hessian, jacfwd
from ftrace.core.errors import RuleError, ShapeError, SolverError
from ftrace.core.lazy import lazy
from ftrace.core.registration import register_record
from ftrace.implicit.solving import Equation, floats, solution

_root = lazy("scipy.optimize", "root")
_brentq = lazy("scipy.optimize", "brentq")
_fixed_point = lazy("scipy.optimize", "fixed_point")
_minimize = lazy("scipy.optimize", "minimize")
_bounds = lazy("scipy.optimize", "Bounds")

_WITH_JACOBIAN = frozenset({"hybr", "lm"})
_WITH_HESSIAN = frozenset(
    {"newton-cg", "dogleg", "trust-ncg", "trust-krylov", "trust-exact", "trust-constr"}
)
_WITHOUT_GRADIENT = frozenset({"nelder-mead", "powell", "cobyla", "cobyqa"})
_FLAT: Final = 1e-6  # the slope of a minimum that rounding hides, in parts of the value
_START = "Start closer to a solution (x0), allow more steps (options), or try another method."


@register_record
class Result(NamedTuple):
    """What `root` and `minimize` found.

    Attributes:
        x: the solution, with its derivatives.
        fun: the function's value there, with its derivatives.
    """

    x: Any
    fun: Any


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    tol: float | None = None,
    options: dict[str, Any] | None = None,
) -> Result:
    """Find x with `fun(x, *args) = 0`, as `scipy.optimize.root`.

    Args:
        fun: a function of x, of shape (n,), to n values.
        x0: shape (n,), where to start; no derivative.
        args: a tuple of further arguments, containers allowed. The root has derivatives with
            respect to these and to traced values that `fun` closes over.
        method, tol, options: SciPy's; "hybr" and "lm" get the exact Jacobian.

    Returns:
        `Result(x, fun)`. Where a derivative is asked for, the Jacobian at x must be regular.

    Raises:
        SolverError: SciPy found no root (its message is quoted), or a derivative does not exist.
        ShapeError: `fun` does not return n values.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda x, a: [x[0] + x[1] - a, x[0] * x[1] - 6.0]
        >>> sides = lambda a: ftrace.implicit.root(f, [1.0, 4.0], args=(a,)).x
        >>> sides(5.0).round(6), ftrace.jacfwd(sides)(5.0).round(6)
        (array([2., 3.]), array([-2.,  3.]))
    """
    x0 = vector("root", x0)
    equation = equation_of("root", fun, x0, args)
    jacobian = equation.derivative(jacfwd) if method in _WITH_JACOBIAN else None

    def solver(params: Any, x0: Any) -> Any:
        f, jac = (g and partial(g, params) for g in (equation, jacobian))
        return found("root", fun, _root(f, x0, method=method, jac=jac, tol=tol, options=options))

    x = solution(equation, solver, equation.params, x0)
    return Result(x, equation(equation.params, x))


def brentq(  # noqa: PLR0913 - SciPy's signature
    f: Callable[..., Any],
    a: float,
    b: float,
    args: Any = (),
    xtol: float = 2e-12,
    rtol: float = 8.881784197001252e-16,
    maxiter: int = 100,
) -> Any:
    """Find the scalar x between a and b with `f(x, *args) = 0`, as `scipy.optimize.brentq`.

    Args:
        f: a function of scalars.
        a, b: an interval at whose ends f has different signs; no derivative.
        args: a tuple of further arguments, as in `root`.
        xtol, rtol, maxiter: SciPy's.

    Returns:
        x.

    Raises:
        SolverError: the signs do not differ, no convergence, or a derivative does not exist.

    Example:
        >>> import ftrace
        >>> cube_root = lambda a: ftrace.implicit.brentq(lambda x: x**3 - a, 0.0, 10.0)
        >>> round(float(ftrace.grad(cube_root)(8.0)), 12)
        0.083333333333
    """
    a, b = (scalar("brentq", name, x) for name, x in (("a", a), ("b", b)))
    equation = equation_of("brentq", f, a, args)

    def solver(params: Any, a: Any, b: Any) -> Any:
        ends = [float(equation(params, x)) for x in (a, b)]
        if ends[0] * ends[1] > 0:
            raise SolverError(
                f"brentq: {name_of(f)} is {ends[0]:.6g} at {a:.6g} and {ends[1]:.6g} at {b:.6g}, "
                "and a root needs different signs.",
                "Choose an interval in which the function changes its sign.",
            )
        options = {"xtol": xtol, "rtol": rtol, "maxiter": maxiter, "full_output": True}
        x, found = _brentq(lambda x: equation(params, np.float64(x)), a, b, disp=False, **options)
        if not found.converged:
            raise failure("brentq", f, f"{found.flag} after {found.iterations} iterations")
        return x

    return solution(equation, solver, equation.params, a, b)


def fixed_point(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    xtol: float = 1e-8,
    maxiter: int = 500,
    method: str = "del2",
) -> Any:
    """Find x with `func(x, *args) = x`, as `scipy.optimize.fixed_point`.

    Args:
        func: a function of x to the same shape.
        x0: where to start; no derivative.
        args: a tuple of further arguments, as in `root`.
        xtol, maxiter, method: SciPy's.

    Returns:
        x, of x0's shape.

    Raises:
        SolverError: no convergence, or a derivative does not exist.
        ShapeError: `func` changes the shape.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda a: ftrace.implicit.fixed_point(lambda x: (x + a / x) / 2, 1.0)
        >>> round(float(f(2.0)), 6), round(float(ftrace.grad(f)(2.0)), 6)
        (1.414214, 0.353553)
    """
    x0 = floats("fixed_point", "x0", x0)
    equation = equation_of("fixed_point", func, x0, args)

    def solver(params: Any, x0: Any) -> Any:
        def f(x: Any) -> Any:
            return equation(params, x)

        try:
            return _fixed_point(f, x0, xtol=xtol, maxiter=maxiter, method=method)
        except RuntimeError as error:
            if not str(error).startswith("Failed to converge"):
                raise
            raise failure("fixed_point", func, str(error)) from error

    def condition(params: Any, x: Any) -> Any:
        return equation(params, x) - x

    return solution(condition, solver, equation.params, x0)


def minimize(  # noqa: PLR0913 - SciPy's signature
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | None = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    options: dict[str, Any] | None = None,
) -> Result:
    """Find x that minimises `fun(x, *args)`, as `scipy.optimize.minimize`.

    The derivative of x is that of the equation "the gradient is zero", and of "x is at its bound"
    for each element held by one: it moves with the bound and with nothing else.

    Args:
        fun: a function of x, of shape (n,), to a scalar.
        x0: shape (n,), where to start; no derivative.
        args: a tuple of further arguments, as in `root`.
        method, tol, options: SciPy's. Methods that use a gradient or Hessian get the exact one.
        bounds: a `scipy.optimize.Bounds`, or n pairs `(lower, upper)` with None for no bound.
        constraints: refused; their multipliers would be needed.

    Returns:
        `Result(x, fun)`. Its derivatives are as exact as x: tighten `tol` for more digits.

    Raises:
        SolverError: SciPy found no minimum (its message is quoted), or the Hessian is singular.
        RuleError: constraints.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda x, a: np.sum((x - a) ** 2) + x[0] * x[1]
        >>> best = lambda a: ftrace.implicit.minimize(f, np.zeros(2), args=(a,)).x
        >>> ftrace.jacrev(best)(np.array([1.0, 2.0])).round(4)
        array([[ 1.3333, -0.6667],
               [-0.6667,  1.3333]])
    """
    if constraints:
        raise _constrained()
    x0 = vector("minimize", x0)
    equation = equation_of("minimize", fun, x0, args, square=False)
    limits = [] if bounds is None else limits_of("minimize", _pair(bounds), x0.shape[0])
    k = len(equation.params)
    functions = _with_derivatives(equation, method)

    def solver(params: Any, x0: Any) -> Any:
        given: dict[str, Any] = {name: partial(f, params[:k]) for name, f in functions.items()}
        given |= {"jac": functions["fun"] is not equation, "method": method, "tol": tol}
        given |= {"bounds": _bounds(*params[k:]) if limits else None, "options": options}
        return found("minimize", fun, _minimize(x0=x0, **given))

    def condition(params: Any, x: Any) -> Any:
        g = grad(lambda v: equation(params[:k], v))(x)
        return held(x, g, *params[k:]) if limits else g

    x = solution(condition, solver, [*equation.params, *limits], x0)
    return Result(x, equation(equation.params, x))


# ---------------------------------------------------------------------------------- pieces


def _with_derivatives(equation: Equation, method: str | None) -> dict[str, Callable[..., Any]]:
    """A function and the derivatives that a method of `minimize` uses, of `(params, x)`."""
    name = str(method).lower()
    if name in _WITHOUT_GRADIENT:
        return {"fun": equation}
    hess = {"hess": equation.derivative(hessian)} if name in _WITH_HESSIAN else {}
    return {"fun": equation.derivative(value_and_grad), **hess}


def held(x: Any, g: Any, lower: Any, upper: Any) -> Any:
    """The gradient, but the distance to a bound where a step downhill would leave it."""
    free = fnp.where(x - g > upper, x - upper, g)
    return fnp.where(x - g < lower, x - lower, free)


def vector(what: str, x0: Any) -> Any:
    """Where to start, of shape (n,)."""
    x0 = floats(what, "x0", x0)
    if x0.ndim > 1:
        raise ShapeError(
            f"{what}: x0 has shape {x0.shape}, and the unknown is a vector.",
            "Flatten it; ftrace.flatten_util.ravel_pytree does so for containers, and back.",
        )
    return x0.reshape(-1)


def scalar(what: str, name: str, x: Any) -> Any:
    """Where to start, of rank 0."""
    x = floats(what, name, x)
    if x.shape:
        raise ShapeError(
            f"{what}: {name} has shape {x.shape}, and the unknown is a scalar.",
            "Use vmap for several intervals, root for systems.",
        )
    return x[()]


def equation_of(
    what: str, fun: Callable[..., Any], x0: Any, args: Any, square: bool = True
) -> Equation:
    """The equation of a function that returns arrays, numbers or lists; `square`: as many as x."""
    check_callable(fun, what)

    @functools.wraps(fun, updated=())
    def array(x: Any, *args: Any) -> Any:
        value = fnp.asarray(fun(x, *args))
        if square and value.shape != x.shape:
            raise ShapeError(
                f"{what}: {name_of(fun)} returns shape {value.shape} for an x of shape {x.shape}.",
                "Return as many values as there are unknowns, in the same shape.",
            )
        return value

    return Equation(array, fun, x0, args)


def _pair(bounds: Any) -> tuple[Any, Any]:
    """Lower and upper bounds, of pairs for each element or an object of SciPy's."""
    if hasattr(bounds, "lb"):
        return bounds.lb, bounds.ub
    rows = [(-np.inf if lo is None else lo, np.inf if hi is None else hi) for lo, hi in bounds]
    lower, upper = (fnp.asarray(list(side)) for side in zip(*rows, strict=True))
    return lower, upper


def limits_of(what: str, pair: tuple[Any, Any], n: int) -> list[Any]:
    """Lower and upper bounds as vectors of length n."""
    limits = [floats(what, "bounds", side) for side in pair]
    for side in limits:
        if side.shape not in ((), (1,), (n,)):
            raise ShapeError(
                f"{what}: x0 has {n} elements, and bounds are given for {side.shape[0]}.",
                "Give one pair (lower, upper) for each element.",
            )
    return [fnp.broadcast_to(side, (n,)) for side in limits]


def _constrained() -> RuleError:
    return RuleError(
        "implicit.minimize takes no constraints: the derivative of a constrained minimum needs "
        "their multipliers.",
        "Use bounds=, or solve the optimality conditions, multipliers among the unknowns, with "
        "ftrace.implicit.root.",
    )


def found(what: str, fun: Callable[..., Any], result: Any) -> Any:
    """The x of a result of SciPy's.

    A minimum that is exact to rounding counts as found, though a line search wanted more.
    """
    if not result.success and not _is_flat(result):
        raise failure(what, fun, result.message)
    return result.x


def _is_flat(result: Any) -> bool:
    """Whether a line search ended where rounding hides the rest of the slope."""
    if "precision loss" not in str(result.message):
        return False
    return bool(np.max(np.abs(result.jac), initial=0.0) <= _FLAT * (1.0 + abs(result.fun)))


def failure(what: str, fun: Callable[..., Any], message: str) -> SolverError:
    """The error where a solver of SciPy's says that it found nothing."""
    words = " ".join(message.split()).rstrip(".")
    return SolverError(f"{what} of {name_of(fun)}: {words}.", _START)
