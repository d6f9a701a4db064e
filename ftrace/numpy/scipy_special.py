"""scipy.special's ufuncs on tracers: what each one is, by the ufunc's name.

SciPy is not imported: a user who calls `scipy.special.erf(t)` brings the ufunc along. Rows have
SciPy's values; the others are made of rows, as SciPy makes them.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.core.avals import typeof
from ftrace.numpy import ufuncs
from ftrace.numpy.promote import promote_inexact
from ftrace.primitives import elementwise as e
from ftrace.primitives import (
    incomplete,
    probability,
    scipy_bessel,
    scipy_cdfs,
    scipy_elliptic,
    scipy_errors,
    scipy_gammas,
    scipy_integrals,
    scipy_polynomials,
)
from ftrace.primitives import scipy_waves as waves
from ftrace.primitives import special as s
from ftrace.primitives.linear import add
from ftrace.primitives.scipy_functions import FUNCTIONS, Function, half, scipy_name

# files whose functions are in FUNCTIONS once they are imported
_FILES: Final = (
    *(incomplete, scipy_bessel, scipy_cdfs, scipy_elliptic, scipy_errors, scipy_gammas),
    *(scipy_integrals, scipy_polynomials, waves),
)

# ---------------------------------------------------------------------------------- compositions


def _results(*parts: Function) -> Callable[..., Any]:
    """A ufunc of several results."""
    return lambda *xs: tuple(f(*xs) for f in parts)


def _one(x: Any) -> Any:
    return typeof(x).dtype.type(1)


def _cosm1(x: Any) -> Any:
    return e.mul(e.square(e.sin(half(x))), -2.0)


def _share(a: Any, b: Any, x: Any) -> Any:
    """a x / (b + a x), of the distribution F."""
    return e.div(e.mul(a, x), add(b, e.mul(a, x)))


def _rest(a: Any, b: Any, x: Any) -> Any:
    """b / (b + a x)."""
    return e.div(b, add(b, e.mul(a, x)))


def _steps(k: Any) -> Any:
    return add(e.floor(k), 1.0)


def _agm(a: Any, b: Any) -> Any:
    """The arithmetic-geometric mean by an elliptic integral, which is smooth where a is b."""
    whole = add(a, b)
    p = e.div(e.mul(e.mul(a, b), 4.0), e.square(whole))
    return e.div(e.mul(whole, math.pi / 4), scipy_integrals.ellipkm1(p))


def _chdtri(v: Any, p: Any) -> Any:
    return e.mul(incomplete.gammainccinv(half(v), p), 2.0)


def _kelvin(x: Any) -> Any:
    """ber + i bei, ker + i kei, and their derivatives."""
    pairs = ((waves.ber, waves.bei), (waves.ker, waves.kei))
    slopes = ((waves.berp, waves.beip), (waves.kerp, waves.keip))
    return tuple(e.complex(a(x), b(x)) for a, b in (*pairs, *slopes))


def _modified(parts: list[Function], x: Any) -> Any:
    """Fresnel's modified integrals F and K of their real and imaginary parts."""
    return e.complex(parts[0](x), parts[1](x)), e.complex(parts[2](x), parts[3](x))


def _strongly(made: Callable[..., Any]) -> Callable[..., Any]:
    """A composition of operands of one dtype: in it no number adapts to what it meets."""
    return lambda *xs: made(*promote_inexact(*xs))


_SAME: Final = ("cbrt", "exp2", "expm1", "log1p")
_MADE: Final[dict[str, Callable[..., Any]]] = {
    **{name: getattr(e, name) for name in _SAME},
    "exp10": lambda x: e.pow(_one(x) * 10, x),
    "cosm1": _cosm1,
    "agm": _agm,
    "chdtr": lambda v, x: incomplete.igamma(half(v), half(x)),
    "chdtrc": lambda v, x: incomplete.igammac(half(v), half(x)),
    "chdtri": _chdtri,
    "pdtr": lambda k, m: incomplete.igammac(_steps(k), m),
    "pdtrc": lambda k, m: incomplete.igamma(_steps(k), m),
    "gdtr": lambda a, b, x: incomplete.igamma(b, e.mul(a, x)),
    "gdtrc": lambda a, b, x: incomplete.igammac(b, e.mul(a, x)),
    "fdtr": lambda a, b, x: incomplete.betainc(half(a), half(b), _share(a, b, x)),
    "fdtrc": lambda a, b, x: incomplete.betainc(half(b), half(a), _rest(a, b, x)),
    "kelvin": _kelvin,
    "modfresnelp": lambda x: _modified(scipy_errors.modified_plus, x),
    "modfresnelm": lambda x: _modified(scipy_errors.modified_minus, x),
    "round": e.round,
    "radian": lambda d, m, x: e.mul(add(d, e.div(add(m, e.div(x, 60.0)), 60.0)), waves.DEGREE),
}


def _several() -> dict[str, Callable[..., Any]]:
    """Those that have several results."""
    found: dict[str, list[Function]] = {}
    for f in FUNCTIONS.values():
        if f.position is not None and not f.own:
            found.setdefault(scipy_name(f.name), []).append(f)
    return {name: _results(*parts) for name, parts in found.items()}


# ---------------------------------------------------------------------------------- all of them

ROWS: Final[dict[str, Callable[..., Any]]] = {
    **{name: f for name, f in FUNCTIONS.items() if f.position is None and not f.own},
    **_several(),
    **{name: _strongly(f) for name, f in _MADE.items()},
    **{name: getattr(probability, name) for name in ("ndtr", "logit", "log_expit", "entr")},
    **{name: getattr(probability, name) for name in ("xlog1py", "rel_entr", "kl_div")},
    "erf": s.erf,
    "erfc": s.erfc,
    "erfinv": s.erf_inv,
    "ndtri": s.ndtri,
    "log_ndtr": s.log_ndtr,
    "expit": s.logistic,
    "gamma": s.gamma,
    "gammaln": s.lgamma,
    "psi": s.digamma,
    "digamma": s.digamma,
    "xlogy": s.xlogy,
    "gammainc": incomplete.igamma,
    "gammaincc": incomplete.igammac,
    "zeta": s.zeta,
    "i0": s.i0,
    "i1": s.i1,
    "i0e": s.i0e,
    "i1e": s.i1e,
    "iv": s.bessel_iv,
    "ive": s.bessel_ive,
    "jv": s.bessel_jv,
}


_TOLD: Final = {
    "cosm1": "cos(x) - 1, precise near 0.",
    "exp10": "10**x.",
    "agm": "The arithmetic-geometric mean of a and b.",
    "chdtr": "The chi square distribution function of v and x.",
    "chdtrc": "1 - chdtr(v, x).",
    "chdtri": "The inverse of chdtrc(v, x) in x.",
    "pdtr": "The Poisson distribution function of k and m.",
    "pdtrc": "1 - pdtr(k, m).",
    "gdtr": "The gamma distribution function of a, b and x.",
    "gdtrc": "1 - gdtr(a, b, x).",
    "fdtr": "The F distribution function of dfn, dfd and x.",
    "fdtrc": "1 - fdtr(dfn, dfd, x).",
    "sici": "The integrals of sin(t) / t and of cos(t) / t.",
    "shichi": "The integrals of sinh(t) / t and of cosh(t) / t.",
    "fresnel": "Fresnel's integrals of sin(pi t**2 / 2) and cos(pi t**2 / 2).",
    "airy": "Airy's Ai with its derivative, and Bi with its.",
    "kelvin": "Kelvin's functions: ber + i bei, ker + i kei, and the derivatives of both.",
    "modfresnelp": "Fresnel's modified integrals of exp(i t**2) from x on, F and K.",
    "modfresnelm": "Fresnel's modified integrals of exp(-i t**2) from x on, F and K.",
    "round": "The nearest integer, of two the even one.",
    "radian": "Degrees, minutes and seconds in radians.",
}


def _first_doc(name: str) -> str:
    """That of the first result."""
    first = FUNCTIONS.get(f"{name}_0")
    return name if first is None else first.doc.removesuffix(" Result 0.")


DOCS: Final = {
    name: _TOLD.get(name) or getattr(_MADE.get(name, f), "doc", "") or _first_doc(name)
    for name, f in ROWS.items()
}
"""A sentence about each of them."""


def find(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """The traced implementation of a ufunc of SciPy, if there is one."""
    row = ROWS.get(ufunc.__name__.lstrip("_"))
    return None if row is None else traced(ufunc, row)


def traced(ufunc: np.ufunc, row: Callable[..., Any]) -> Callable[..., Any]:
    """A ufunc of SciPy on traced operands, with all of NumPy's arguments."""

    def function(*xs: Any, **options: Any) -> Any:
        return ufuncs.general(ufunc, xs[: ufunc.nin], xs[ufunc.nin :], options, row)

    return function
