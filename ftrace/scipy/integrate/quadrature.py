"""Integrals of functions by rules: Gauss-Legendre of a fixed order, Gauss-Kronrod as often as need.

`quad` and `quad_vec` are loops of the program: panels are halved until the rule's own estimate of
its error is small enough, all at once, so that smooth functions need few. The result is
differentiated as a sum over the panels that were found.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.errors import RuleError, ShapeError
from ftrace.core.lazy import lazy
from ftrace.core.trace import Tracer, lifted
from ftrace.lax import fori_loop, while_loop
from ftrace.lax.operations import stop_gradient
from ftrace.numpy.promote import promote_inexact, static_int, value
from ftrace.scipy.borrowing import scipys

_legendre = lazy("scipy.special", "roots_legendre")
_plain_newton_cotes = lazy("scipy.integrate", "newton_cotes")

# QUADPACK's pair of 21 and 10 points: nodes from 1 down to 0, their weights, those of Gauss
_NODES: Final = (
    *(0.995657163025808080735527280689003, 0.973906528517171720077964012084452),
    *(0.930157491355708226001207180059508, 0.865063366688984510732096688423493),
    *(0.780817726586416897063717578345042, 0.679409568299024406234327365114874),
    *(0.562757134668604683339000099272694, 0.433395394129247190799265943165784),
    *(0.294392862701460198131126603103866, 0.148874338981631210884826001129720),
    0.0,
)
_KRONROD: Final = (
    *(0.011694638867371874278064396062192, 0.032558162307964727478818972459390),
    *(0.054755896574351996031381300244580, 0.075039674810919952767043140916190),
    *(0.093125454583697605535065465083366, 0.109387158802297641899210590325805),
    *(0.123491976262065851077958109585166, 0.134709217311473325928054001771707),
    *(0.142775938577060080797094273138717, 0.147739104901338491374841515972068),
    0.149445554002916905664936468389821,
)
_GAUSS: Final = (
    *(0.0, 0.066671344308688137593568809893332, 0.0, 0.149451349150580593145863396957698),
    *(0.0, 0.219086362515982043995534934228163, 0.0, 0.269266719309996355091226921569469),
    *(0.0, 0.295524224714752870173815619188769, 0.0),
)


def _both_sides(half: tuple[float, ...], sign: float = 1.0) -> np.ndarray[Any, Any]:
    return np.array([*(sign * v for v in half), *reversed(half[:-1])])


NODES: Final = _both_sides(_NODES, -1.0)
WEIGHTS: Final = np.stack([_both_sides(_KRONROD), _both_sides(_GAUSS)])


@scipys("scipy.integrate")
def fixed_quad(
    func: Callable[..., Any], a: Any, b: Any, args: tuple[Any, ...] = (), n: int = 5
) -> tuple[Any, None]:
    """The integral of a function by Gauss' rule with n points.

    Args:
        func: takes an array of places, and gives the values along its last axis.
        a, b: limits, finite.
        args: what else the function takes.
        n: a Python integer.

    Returns:
        The integral, and None.

    Raises:
        ValueError: infinite limits.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.integrate import fixed_quad
        >>> round(float(ftrace.grad(lambda b: fixed_quad(np.cos, 0.0, b)[0])(1.0)), 4)
        0.5403
    """
    if any(not issubclass(type(v), Tracer) and np.isinf(v).any() for v in (a, b)):
        raise ValueError("Gaussian quadrature is only available for finite limits.")
    x, w = _legendre(static_int(n, "n"))
    y = (b - a) * (np.real(x) + 1) / 2.0 + a
    return (b - a) / 2.0 * fnp.sum(w * lifted(func)(y, *args), axis=-1), None


def newton_cotes(rn: Any, equal: int = 0) -> tuple[Any, float]:
    """Weights of the rule of Newton and Cotes, and the factor of its error.

    Args:
        rn: how many intervals, a Python integer, or places, which are not traced.
        equal: 1 for places that are to be taken as equidistant.

    Example:
        >>> from ftrace.scipy.integrate import newton_cotes
        >>> newton_cotes(2)[0].round(3)
        array([0.333, 1.333, 0.333])
    """
    return _plain_newton_cotes(rn, equal)


# ---------------------------------------------------------------------------------- Kronrod


def _on_finite(f: Callable[..., Any], a: Any, b: Any) -> tuple[Callable[..., Any], Any, Any]:
    """The same integral between finite limits, where one is known to be infinite."""
    low, high = (not issubclass(type(v), Tracer) and bool(np.isinf(v)) for v in (a, b))
    if not low and not high:
        return f, a, b
    if low and high:
        if a == b:
            return (lambda t: 0 * f(t)), 0.0, 1.0
        if a > b:
            return _on_finite(lambda x: -f(x), b, a)

        def on_line(t: Any) -> Any:
            rest = 1 - t * t
            return f(t / rest) * ((1 + t * t) / (rest * rest))

        return on_line, -1.0, 1.0
    end, sign = (a, math.copysign(1.0, b)) if high else (b, math.copysign(1.0, a))
    turned = sign if high else -sign

    def on_half_line(t: Any) -> Any:
        rest = 1 - t
        return f(end + sign * t / rest) * (turned / (rest * rest))

    return on_half_line, 0.0, 1.0


def _sums(f: Callable[..., Any], a: Any, b: Any, n: Any, like: Any) -> tuple[Any, Any]:
    """Kronrod's and Gauss' sums over n equal panels between a and b."""
    width = (b - a) / n
    nodes, weights = (fnp.asarray(v, fnp.result_type(width)) for v in (NODES, WEIGHTS))

    def add(i: Any, sums: Any) -> Any:
        panel, k = i // len(NODES), i % len(NODES)
        y = f(a + width * (panel + (nodes[k] + 1) / 2)) * (width / 2)
        return sums[0] + weights[0, k] * y, sums[1] + weights[1, k] * y

    return fori_loop(0, n * len(NODES), add, (like, like))


def _integral(
    f: Callable[..., Any], a: Any, b: Any, tolerances: tuple[Any, Any], limit: int, norm: Any
) -> tuple[Any, Any]:
    """The integral, and an estimate of its error."""
    a, b = promote_inexact(value(a), value(b))
    f, a, b = _on_finite(f, a, b)
    zero = 0 * f(a + (b - a) / 2) * (b - a)
    like = fnp.where(fnp.isfinite(zero), zero, 0)
    absolute, relative = tolerances

    def estimate(n: Any) -> tuple[Any, Any]:
        kronrod, gauss = _sums(f, a, b, n, like)
        return norm(kronrod - gauss), norm(kronrod)

    def goes_on(state: Any) -> Any:
        n, error, size = state
        bound = fnp.maximum(absolute, relative * size)
        return fnp.logical_and(fnp.greater(error, bound), fnp.less_equal(2 * n, limit))

    def halve(state: Any) -> Any:
        n = 2 * state[0]
        return (n, *map(stop_gradient, estimate(n)))

    one = fnp.asarray(1)
    first = (one, *map(stop_gradient, estimate(one)))
    n, error, _ = while_loop(goes_on, halve, first)
    return _sums(f, a, b, stop_gradient(n), like)[0], error


def _refuse(name: str, **options: Any) -> None:
    given = [key for key, value in options.items() if value]
    if given:
        raise RuleError(
            f"scipy.integrate.{name} has no {given[0]}= in a traced program.",
            "Leave it out, or split the integral where the function is not smooth.",
        )


@scipys("scipy.integrate")
def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: tuple[Any, ...] = (),
    full_output: int = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 1024,
    points: Any = None,
    weight: Any = None,
) -> tuple[Any, Any]:
    """The integral of a smooth function between two limits, and an estimate of its error.

    Gauss-Kronrod's rule of 21 points over 1, 2, 4, ... equal panels. Derivatives by the limits and
    by what the function closes over are those of the last sum.

    Args:
        func: of a number, and of `args`.
        a, b: limits; infinite ones are Python numbers.
        args: what else the function takes, one value or a tuple.
        epsabs, epsrel: which error is small enough, absolute or relative.
        limit: the most panels.
        full_output, points, weight: not in traced programs.

    Returns:
        The integral and the error's estimate.

    Raises:
        RuleError: an option that traced programs do not have.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.integrate import quad
        >>> f = ftrace.jit(lambda k: quad(lambda x: np.exp(-k * x), 0.0, np.inf)[0])
        >>> round(float(ftrace.grad(f)(2.0)), 6)
        -0.25
    """
    _refuse("quad", full_output=full_output, points=points is not None, weight=weight is not None)
    more = args if type(args) is tuple else (args,)
    f = lifted(func)
    tolerances = epsabs, epsrel
    return _integral(lambda x: value(f(x, *more)), a, b, tolerances, limit, fnp.abs)


@scipys("scipy.integrate")
def quad_vec(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    epsabs: float = 1e-200,
    epsrel: float = 1e-8,
    norm: str = "2",
    cache_size: float = 100e6,
    limit: int = 10000,
    *,
    args: tuple[Any, ...] = (),
    **options: Any,
) -> tuple[Any, Any]:
    """The integral of a function of a number that gives an array, and an estimate of its error.

    Args:
        f: of a number, and of `args`.
        a, b, epsabs, epsrel, limit: as in `quad`.
        norm: "2" or "max", of the error.
        cache_size: without effect in traced programs.
        args: what else the function takes.

    Returns:
        The integral and the error's estimate.

    Raises:
        RuleError: an option that traced programs do not have.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.integrate import quad_vec
        >>> quad_vec(lambda x: x ** np.array([0, 1]), 0.0, 1.0)[0]
        array([1. , 0.5])
    """
    _refuse("quad_vec", **options)
    if np.ndim(a) or np.ndim(b):
        raise ShapeError("quad_vec was given an array as a bound.", "Pass two numbers.")
    size = fnp.linalg.norm if norm == "2" else lambda v: fnp.max(fnp.abs(v))
    g = lifted(f)
    whole: Any = _integral(
        lambda x: value(g(x, *args)),
        *(a, b, (epsabs, epsrel), limit),
        lambda v: size(fnp.ravel(v)),
    )
    return whole
