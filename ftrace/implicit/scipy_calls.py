"""SciPy's own solvers where something is traced: their signatures, by the functions beside this.

Lifted code calls these instead of SciPy's (`lifting/substitutes/scipy_names.py`). Derivatives that
a user gives to a solver (`jac=`, `fprime=`, ...) are not needed: it gets exact ones.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import ftrace.numpy as fnp
from ftrace.core.errors import RuleError
from ftrace.core.trace import lifted
from ftrace.implicit import fitting, integrate, linear_systems, optimize
from ftrace.implicit.answer import Answer

solve_ivp = integrate.solve_ivp
odeint = integrate.odeint
quad = integrate.quad


def dblquad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    gfun: Any,
    hfun: Any,
    args: Any = (),
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
) -> Any:
    """`scipy.integrate.dblquad`, an integral of integrals."""
    accuracy: dict[str, Any] = {"epsabs": epsabs, "epsrel": epsrel}
    ends = [lifted(end) if callable(end) else lambda x, end=end: end for end in (gfun, hfun)]

    def inner(x: Any) -> Any:
        limits = [end(x) for end in ends]
        return quad(lambda y: lifted(func)(y, x, *args), *limits, **accuracy)[0]

    return quad(inner, a, b, **accuracy)


minimize_scalar = fitting.minimize_scalar
_FULL: Final = "Read them from a call with plain values, outside of the traced function."


def _no(what: str, **options: Any) -> None:
    """Raise `RuleError` for options that change what is returned."""
    for name, value in options.items():
        if value:
            raise RuleError(
                f"scipy.optimize.{what} of traced values has no {name}=: what it tells is known "
                "only when the solver runs.",
                _FULL,
            )


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    jac: Any = None,
    tol: float | None = None,
    callback: Any = None,
    options: Any = None,
) -> Answer:
    """`scipy.optimize.root`."""
    _no("root", callback=callback)
    fun = _first(fun) if jac is True else fun
    x, value = optimize.root(fun, x0, args, method, tol, options)
    return Answer("root", x=x, fun=value, success=True, status=1, message="A root was found.")


def fsolve(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    fprime: Any = None,
    full_output: Any = 0,
    col_deriv: Any = 0,
    xtol: float = 1.49012e-08,
    **options: Any,
) -> Any:
    """`scipy.optimize.fsolve`."""
    _no("fsolve", full_output=full_output)
    return optimize.root(func, fnp.atleast_1d(fnp.asarray(x0)), args, "hybr", xtol, options).x


def _bracketed(name: str) -> Callable[..., Any]:
    def find(
        f: Callable[..., Any],
        a: Any,
        b: Any,
        args: Any = (),
        xtol: float = 2e-12,
        rtol: float = 8.881784197001252e-16,
        maxiter: int = 100,
        full_output: bool = False,
        disp: bool = True,
    ) -> Any:
        _no(name, full_output=full_output)
        steps = {"xtol": xtol, "rtol": rtol, "maxiter": maxiter}
        return fitting.root_scalar(f, args, name, [a, b], **steps).root

    find.__name__, find.__doc__ = name, f"`scipy.optimize.{name}`."
    return find


brentq = _bracketed("brentq")
brenth = _bracketed("brenth")
ridder = _bracketed("ridder")
bisect = _bracketed("bisect")


def toms748(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    k: int = 1,
    xtol: float = 2e-12,
    rtol: float = 8.881784197001252e-16,
    maxiter: int = 100,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """`scipy.optimize.toms748`."""
    _no("toms748", full_output=full_output)
    steps = {"xtol": xtol, "rtol": rtol, "maxiter": maxiter}
    return fitting.root_scalar(f, args, "toms748", [a, b], **steps).root


def newton(
    func: Callable[..., Any],
    x0: Any,
    fprime: Any = None,
    args: Any = (),
    tol: float = 1.48e-8,
    maxiter: int = 50,
    fprime2: Any = None,
    x1: Any = None,
    rtol: float = 0.0,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """`scipy.optimize.newton`; several unknowns are one system."""
    _no("newton", full_output=full_output)
    if fnp.ndim(x0):
        return optimize.root(func, x0, args, tol=tol).x
    method = (
        "newton" if fprime2 is None and x1 is None else "secant" if fprime2 is None else "halley"
    )
    steps = {"xtol": tol, "rtol": rtol or 1e-15, "maxiter": maxiter}
    return fitting.root_scalar(func, args, method, None, x0, x1, **steps).root


def root_scalar(
    f: Callable[..., Any],
    args: Any = (),
    method: str | None = None,
    bracket: Any = None,
    fprime: Any = None,
    fprime2: Any = None,
    x0: Any = None,
    x1: Any = None,
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
    options: Any = None,
) -> Answer:
    """`scipy.optimize.root_scalar`."""
    f = _first(f) if fprime is True else f
    steps = {"xtol": xtol, "rtol": rtol, "maxiter": maxiter, "options": options}
    given = {k: v for k, v in steps.items() if v is not None}
    return fitting.root_scalar(f, args, method, bracket, x0, x1, **given)


def fixed_point(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    xtol: float = 1e-8,
    maxiter: int = 500,
    method: str = "del2",
) -> Any:
    """`scipy.optimize.fixed_point`."""
    return optimize.fixed_point(func, x0, args, xtol, maxiter, method)


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | None = None,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Any = None,
    options: Any = None,
) -> Answer:
    """`scipy.optimize.minimize`."""
    _no("minimize", callback=callback)
    fun = _first(fun) if jac is True else fun
    x, value = optimize.minimize(fun, x0, args, method, bounds, constraints, tol, options)
    return Answer("minimize", x=x, fun=value, success=True, status=0, message="A minimum.")


def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = "2-point",
    bounds: Any = (-float("inf"), float("inf")),
    method: str = "trf",
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    x_scale: Any = 1.0,
    loss: str = "linear",
    f_scale: float = 1.0,
    diff_step: Any = None,
    tr_solver: Any = None,
    tr_options: Any = None,
    jac_sparsity: Any = None,
    max_nfev: int | None = None,
    verbose: int = 0,
    args: Any = (),
    kwargs: Any = None,
) -> Answer:
    """`scipy.optimize.least_squares`."""
    more = kwargs or {}

    @wraps(fun, updated=())
    def of(x: Any, *args: Any) -> Any:
        return fun(x, *args, **more)

    steps = {"ftol": ftol, "xtol": xtol, "gtol": gtol, "x_scale": x_scale, "max_nfev": max_nfev}
    steps |= {"tr_solver": tr_solver, "tr_options": tr_options or {}, "verbose": verbose}
    user = of if more else fun
    return fitting.least_squares(user, x0, bounds, method, loss, f_scale, args, **steps)


def leastsq(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    Dfun: Any = None,
    full_output: Any = False,
    col_deriv: Any = False,
    ftol: float = 1.49012e-8,
    xtol: float = 1.49012e-8,
    gtol: float = 0.0,
    maxfev: int = 0,
    epsfcn: Any = None,
    factor: float = 100,
    diag: Any = None,
) -> tuple[Any, int]:
    """`scipy.optimize.leastsq`."""
    _no("leastsq", full_output=full_output)
    start = fnp.atleast_1d(fnp.asarray(x0))
    found = least_squares(
        func,
        start,
        method="lm",
        ftol=ftol,
        xtol=xtol,
        gtol=gtol or 1e-15,  # SciPy's least_squares takes no 0
        max_nfev=maxfev or None,
        args=args if isinstance(args, tuple) else (args,),
    )
    return found.x, 1


def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    check_finite: Any = None,
    bounds: Any = (-float("inf"), float("inf")),
    method: str | None = None,
    jac: Any = None,
    full_output: bool = False,
    **options: Any,
) -> tuple[Any, Any]:
    """`scipy.optimize.curve_fit`."""
    _no("curve_fit", full_output=full_output)
    given = {"method": method, **options}
    return fitting.curve_fit(f, xdata, ydata, p0, sigma, absolute_sigma, bounds, **given)


def _first(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The value of a function that returns its derivative, too."""

    @wraps(fun, updated=())
    def value(*args: Any) -> Any:
        return fun(*args)[0]

    return value


# ---------------------------------------------------------------------------------- linear systems


def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    """`scipy.sparse.linalg.spsolve`."""
    return linear_systems.spsolve(A, b)


def _krylov(name: str) -> Callable[..., Any]:
    ours = getattr(linear_systems, name)

    def iterate(A: Any, b: Any, x0: Any = None, *, callback: Any = None, **options: Any) -> Any:
        if callback is not None or x0 is not None:
            raise RuleError(
                f"scipy.sparse.linalg.{name} of traced values starts at 0 and calls nobody back.",
                f"Leave x0= and callback= out, or use ftrace.implicit.{name} with plain values.",
            )
        return ours(A, b, **options)

    iterate.__name__, iterate.__doc__ = name, f"`scipy.sparse.linalg.{name}`."
    return iterate


cg = _krylov("cg")
gmres = _krylov("gmres")
bicgstab = _krylov("bicgstab")
