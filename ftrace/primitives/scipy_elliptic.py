"""Carlson's and incomplete elliptic integrals and Jacobi's functions, as `Function`s.

Derivatives of first order are SciPy's own functions; those of higher order are integrals of one
form, which is closed under differentiation and has positive terms only.

Source: NIST Digital Library of Mathematical Functions, chapters 19 and 22.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ftrace.primitives import elementwise as e
from ftrace.primitives.elementwise import div, mul, neg, select, square, sub
from ftrace.primitives.linear import add
from ftrace.primitives.scipy_functions import ANY, POSITIVE, UNIT, Function, plus, several, times

# ---------------------------------------------------------------------------------- one integral

_STEP: Final = 1 / 32
_S: Final = np.arange(-4.5, 4.5, _STEP)
_LOG_T: Final = math.pi * np.sinh(_S)
_WEIGHT: Final = _STEP * math.pi * np.cosh(_S)


def _symmetric(p: Any, q: Any, r: Any, s: Any, x: Any, y: Any, z: Any, w: Any) -> Any:
    """Doubly exponential quadrature in log(t), about the geometric mean of what is not 0."""
    powers = [np.asarray(v, float)[..., None] / 2 for v in (p, q, r, s)]
    points = [np.asarray(v, float)[..., None] for v in (x, y, z, w)]
    outside = np.any([v < 0 for v in np.broadcast_arrays(*points)], axis=0)[..., 0]
    logs = [np.log(np.where(v > 0, v, 1.0)) for v in points]
    centre = sum(
        np.where(v > 0, a * g, 0) for v, a, g in zip(points, powers, logs, strict=True)
    ) / np.maximum(sum(np.where(v > 0, a, 0) for v, a in zip(points, powers, strict=True)), 0.5)
    log_t = _LOG_T + centre
    t = np.exp(np.clip(log_t, -700, 700))
    exponent = log_t - sum(a * np.log(t + v) for v, a in zip(points, powers, strict=True))
    found = np.sum(np.exp(np.clip(exponent, -745, 700)) * _WEIGHT, axis=-1)
    return np.where(outside, np.nan, found)[()]


def _by(i: int) -> Any:
    """The derivative by point i: the power there is raised by one."""

    def rule(z: Any, *xs: Any) -> Any:
        raised = [plus(x, 2.0) if k == i else x for k, x in enumerate(xs)]
        return times(carlson(*raised), xs[i], -0.5)

    return rule


carlson: Final = Function(
    "carlson",
    "The integral over t > 0 of (t + x)**(-p/2) ... (t + w)**(-s/2), of p, q, r, s, x, y, z, w.",
    (None, None, None, None, *map(_by, range(4))),
    (1, 1, 3, 0, POSITIVE, POSITIVE, POSITIVE, POSITIVE),
    impl=_symmetric,
    own=True,
)


def _integral(factor: float, powers: Sequence[int], points: Sequence[Any]) -> Any:
    """`carlson` with whole powers, times a factor."""
    missing = 4 - len(points)
    whole = map(np.int64, (*powers, *[0] * missing))
    return mul(carlson(*whole, *points, *[1.0] * missing), factor)


# ---------------------------------------------------------------------------------- Carlson, 19.18

_THREE: Final = (POSITIVE, POSITIVE, POSITIVE)

elliprf: Final = Function(
    "elliprf",
    "Carlson's completely symmetric integral of the first kind.",
    (  # 19.18.1
        lambda f, x, y, z: mul(elliprd(y, z, x), -1 / 6),
        lambda f, x, y, z: mul(elliprd(x, z, y), -1 / 6),
        lambda f, x, y, z: mul(elliprd(x, y, z), -1 / 6),
    ),
    _THREE,
)
elliprd: Final = Function(
    "elliprd",
    "Carlson's symmetric integral of the second kind.",
    (
        lambda f, x, y, z: _integral(-3 / 4, (3, 1, 3), (x, y, z)),
        lambda f, x, y, z: _integral(-3 / 4, (1, 3, 3), (x, y, z)),
        lambda f, x, y, z: _integral(-9 / 4, (1, 1, 5), (x, y, z)),
    ),
    _THREE,
)


def _rg_slope(y: Any, z: Any, x: Any) -> Any:
    """(RF - x RD(y, z, x) / 3) / 4; the second term is 0 where x is."""
    some = e.ne(x, 0.0)
    safe = select(some, x, 1.0)
    rest = times(safe, elliprd(y, z, safe), 1 / 3)
    return mul(sub(elliprf(x, y, z), select(some, rest, mul(x, 0.0))), 0.25)


elliprg: Final = Function(
    "elliprg",
    "Carlson's completely symmetric integral of the second kind.",
    (
        lambda f, x, y, z: _rg_slope(y, z, x),
        lambda f, x, y, z: _rg_slope(x, z, y),
        lambda f, x, y, z: _rg_slope(x, y, z),
    ),
    _THREE,
)
elliprj: Final = Function(
    "elliprj",
    "Carlson's symmetric integral of the third kind; its derivatives are of positive operands.",
    (
        lambda f, x, y, z, p: _integral(-3 / 4, (3, 1, 1, 2), (x, y, z, p)),
        lambda f, x, y, z, p: _integral(-3 / 4, (1, 3, 1, 2), (x, y, z, p)),
        lambda f, x, y, z, p: _integral(-3 / 4, (1, 1, 3, 2), (x, y, z, p)),
        lambda f, x, y, z, p: _integral(-3 / 2, (1, 1, 1, 4), (x, y, z, p)),
    ),
    (*_THREE, POSITIVE),
)


def _rc_by_x(f: Any, x: Any, y: Any) -> Any:
    """By 19.18.1, and in elementary form for the principal value of negative y."""
    some, safe = e.gt(y, 0.0), select(e.gt(y, 0.0), y, 1.0)
    apart = mul(sub(y, select(some, plus(y, 1.0), x)), 2.0)
    elementary = div(sub(f, div(1.0, e.sqrt(select(some, 1.0, x)))), apart)
    return select(some, mul(elliprd(safe, safe, x), -1 / 6), elementary)


def _rc_by_y(f: Any, x: Any, y: Any) -> Any:
    some, safe = e.gt(y, 0.0), select(e.gt(y, 0.0), y, 1.0)
    apart = mul(sub(y, select(some, plus(y, 1.0), x)), 2.0)
    elementary = div(sub(div(e.sqrt(select(some, 1.0, x)), y), f), apart)
    return select(some, mul(elliprd(x, safe, safe), -1 / 3), elementary)


elliprc: Final = Function(
    "elliprc",
    "Carlson's degenerate integral RF(x, y, y).",
    (_rc_by_x, _rc_by_y),
    (POSITIVE, POSITIVE),
)

# ------------------------------------------------------------------- Legendre's, 19.2 and 19.25


def _amplitude(phi: Any, m: Any) -> Any:
    return e.sqrt(sub(1.0, mul(m, square(e.sin(phi)))))


def _by_parameter(phi: Any, m: Any, second: bool) -> Any:
    """The derivative of ellipkinc or ellipeinc by m: half the integral of sin**2 / amplitude**3.

    Or less half that of sin**2 / amplitude. Beyond pi / 2 come integrals over half periods.
    """
    turns = e.round(mul(phi, 1 / math.pi))
    whole = e.ne(turns, 0.0)
    rest = sub(1.0, m)
    half_periods = mul(turns, _third(mul(m, 0.0), select(whole, rest, 1.0), 1.0, second))
    sine, cosine = e.sin(phi), e.cos(phi)
    # in odd half periods the sine has the other sign
    sign = sub(1.0, mul(sub(turns, mul(e.floor(mul(turns, 0.5)), 2.0)), 2.0))
    place = mul(
        times(sine, square(sine), sign),
        _third(square(cosine), sub(1.0, mul(m, square(sine))), 1.0, second),
    )
    return add(place, select(whole, mul(half_periods, 2.0), mul(half_periods, 0.0)))


def _third(c: Any, d: Any, one: float, second: bool) -> Any:
    return mul(elliprd(c, d, one), -1 / 6) if second else mul(elliprd(c, one, d), 1 / 6)


ellipkinc: Final = Function(
    "ellipkinc",
    "The incomplete elliptic integral of the first kind, of phi and m.",
    (
        lambda z, phi, m: div(1.0, _amplitude(phi, m)),
        lambda z, phi, m: _by_parameter(phi, m, second=False),
    ),
    (ANY, UNIT),
)
ellipeinc: Final = Function(
    "ellipeinc",
    "The incomplete elliptic integral of the second kind, of phi and m.",
    (
        lambda z, phi, m: _amplitude(phi, m),
        lambda z, phi, m: _by_parameter(phi, m, second=True),
    ),
    (ANY, UNIT),
)

# ---------------------------------------------------------------------------------- Jacobi, 22.13


def _turn(u: Any, m: Any) -> Any:
    """The derivative of the amplitude by m: u = ellipkinc(amplitude, m) holds."""
    return neg(mul(jacobi_dn(u, m), _by_parameter(jacobi_ph(u, m), m, second=False)))


def _dn_by_m(z: Any, u: Any, m: Any) -> Any:
    sn, cn = jacobi_sn(u, m), jacobi_cn(u, m)
    return div(add(square(sn), times(m, sn, cn, _turn(u, m), 2.0)), mul(z, -2.0))


jacobi_sn, jacobi_cn, jacobi_dn, jacobi_ph = several(
    "ellipj",
    "Jacobi's elliptic functions sn, cn, dn of u and m, and the amplitude.",
    (ANY, UNIT),
    (
        lambda z, u, m: mul(jacobi_cn(u, m), jacobi_dn(u, m)),
        lambda z, u, m: mul(jacobi_cn(u, m), _turn(u, m)),
    ),
    (
        lambda z, u, m: neg(mul(jacobi_sn(u, m), jacobi_dn(u, m))),
        lambda z, u, m: neg(mul(jacobi_sn(u, m), _turn(u, m))),
    ),
    (
        lambda z, u, m: neg(times(m, jacobi_sn(u, m), jacobi_cn(u, m))),
        _dn_by_m,
    ),
    (lambda z, u, m: jacobi_dn(u, m), lambda z, u, m: _turn(u, m)),
)
