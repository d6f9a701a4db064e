"""Gamma, beta, distributions, losses and power transforms of scipy.special, as `Function`s.

Source: NIST Digital Library of Mathematical Functions, chapters 5 and 8.
"""

import math
from typing import Any, Final

import numpy as np

from ftrace.core.lazy import lazy
from ftrace.primitives import elementwise as e
from ftrace.primitives.elementwise import div, exp, log, mul, neg, square, sub
from ftrace.primitives.families import Reals
from ftrace.primitives.linear import add
from ftrace.primitives.scipy_functions import (
    ABOVE,
    ANY,
    POSITIVE,
    Function,
    either,
    half,
    plus,
)
from ftrace.primitives.scipy_integrals import hyp1f1, hyp2f1
from ftrace.primitives.special import (
    digamma,
    gamma,
)


def _rgamma(z: Any, x: Any) -> Any:
    """Below 1/2 by reflection: there are gamma's poles, where 1 / gamma is smooth."""

    def left(x: Any) -> Any:
        turn, y = mul(x, math.pi), sub(1.0, x)
        wave = mul(mul(e.sin(turn), digamma(y)), 1 / math.pi)
        return mul(gamma(y), sub(e.cos(turn), wave))

    def right(x: Any) -> Any:
        return neg(mul(rgamma(x), digamma(x)))

    return either(e.lt(x, 0.5), x, (left, 0.0), (right, 1.0))


rgamma: Final = Function("rgamma", "1 / gamma(x).", (_rgamma,), (Reals(-1.4, 3),))
loggamma: Final = Function(
    "loggamma",
    "The principal branch of the logarithm of gamma.",
    (lambda z, x: digamma(x),),
    (POSITIVE,),
    kinds="fc",
)
gammasgn: Final = Function(
    "gammasgn", "The sign of gamma(x).", (lambda z, x: sub(z, z),), (POSITIVE,)
)
lambertw: Final = Function(
    "lambertw",
    "The branch k of the solution w of w exp(w) = x, of complex numbers.",
    (lambda z, x, k: div(1.0, mul(exp(z), plus(z, 1.0))), None),
    (POSITIVE, 0),
    kinds="c",
    impl=lambda x, k: _lambertw(x, np.asarray(np.real(k)).astype(np.int64)),
)
_lambertw: Final = lazy("scipy.special", "lambertw")
beta: Final = Function(
    "beta",
    "The beta function gamma(a) gamma(b) / gamma(a + b).",
    (
        lambda z, a, b: mul(z, sub(digamma(a), digamma(add(a, b)))),
        lambda z, a, b: mul(z, sub(digamma(b), digamma(add(a, b)))),
    ),
    (POSITIVE, POSITIVE),
)
poch: Final = Function(
    "poch",
    "The rising factorial gamma(x + m) / gamma(x).",
    (
        lambda z, x, m: mul(z, sub(digamma(add(x, m)), digamma(x))),
        lambda z, x, m: mul(z, digamma(add(x, m))),
    ),
    (POSITIVE, POSITIVE),
)
binom: Final = Function(
    "binom",
    "The binomial coefficient of real numbers.",
    (
        lambda z, n, k: mul(z, sub(digamma(plus(n, 1.0)), digamma(plus(sub(n, k), 1.0)))),
        lambda z, n, k: mul(z, sub(digamma(plus(sub(n, k), 1.0)), digamma(plus(k, 1.0)))),
    ),
    (Reals(3, 5), Reals(1, 2)),
)


def power_slope(x: Any, m: Any, log_x: Any) -> Any:
    """The derivative of (x**m - 1) / m by m, also at 0."""
    return half(mul(square(log_x), hyp1f1(2.0, 3.0, mul(m, log_x))))


def _root_slope(y: Any, m: Any) -> Any:
    """The derivative of log(1 + m y) / m by m, also at 0."""
    return mul(half(square(y)), neg(hyp2f1(2.0, 2.0, 3.0, neg(mul(m, y)))))


boxcox: Final = Function(
    "boxcox",
    "(x**lambda - 1) / lambda, and log(x) where lambda is 0.",
    (
        lambda z, x, m: e.pow(x, plus(m, -1.0)),
        lambda z, x, m: power_slope(x, m, log(x)),
    ),
    (POSITIVE, ANY),
)
boxcox1p: Final = Function(
    "boxcox1p",
    "boxcox(1 + x, lambda).",
    (
        lambda z, x, m: e.pow(plus(x, 1.0), plus(m, -1.0)),
        lambda z, x, m: power_slope(x, m, e.log1p(x)),
    ),
    (POSITIVE, ANY),
)
inv_boxcox: Final = Function(
    "inv_boxcox",
    "The inverse of boxcox(x, lambda) in x.",
    (
        lambda z, y, m: div(z, plus(mul(m, y), 1.0)),
        lambda z, y, m: mul(z, _root_slope(y, m)),
    ),
    (POSITIVE, POSITIVE),
)
inv_boxcox1p: Final = Function(
    "inv_boxcox1p",
    "The inverse of boxcox1p(x, lambda) in x.",
    (
        lambda z, y, m: div(plus(z, 1.0), plus(mul(m, y), 1.0)),
        lambda z, y, m: mul(plus(z, 1.0), _root_slope(y, m)),
    ),
    (POSITIVE, POSITIVE),
)
powm1: Final = Function(
    "powm1",
    "x**y - 1, precise where that is small.",
    (
        lambda z, x, y: mul(y, e.pow(x, plus(y, -1.0))),
        lambda z, x, y: mul(plus(z, 1.0), log(x)),
    ),
    (POSITIVE, ANY),
)
huber: Final = Function(
    "huber",
    "Huber's loss of delta and r.",
    (
        lambda z, d, r: e.max(sub(e.abs(r), d), 0.0),
        lambda z, d, r: e.min(e.max(r, neg(d)), d),
    ),
    (ABOVE, ANY),
)


def _pseudo_huber_width(z: Any, d: Any, r: Any) -> Any:
    u = square(div(r, d))
    s = e.sqrt(plus(u, 1.0))
    return mul(mul(d, u), div(plus(s, -1.0), mul(s, plus(s, 1.0))))


pseudo_huber: Final = Function(
    "pseudo_huber",
    "The smooth form of Huber's loss of delta and r.",
    (
        _pseudo_huber_width,
        lambda z, d, r: div(r, e.sqrt(plus(square(div(r, d)), 1.0))),
    ),
    (POSITIVE, ANY),
)
