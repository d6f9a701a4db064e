"""Gamma, beta, distributions, losses and power transforms of scipy.special, as `Function`s.

Source: NIST Digital Library of Mathematical Functions, chapters 5 and 8.
"""

import math
from typing import Any, Final

import numpy as np

from ftrace.core.lazy import lazy
from ftrace.core.primitive import Rule
from ftrace.primitives import elementwise as e
from ftrace.primitives.elementwise import div, exp, log, mul, neg, square, sub
from ftrace.primitives.families import Reals
from ftrace.primitives.linear import add
from ftrace.primitives.probability import xlog1py
from ftrace.primitives.scipy_functions import (
    ABOVE,
    ANY,
    POSITIVE,
    UNIT,
    Function,
    either,
    half,
    of_integer,
    plus,
)
from ftrace.primitives.scipy_integrals import hyp1f1, hyp2f1
from ftrace.primitives.special import (
    digamma,
    gamma,
    gamma_density,
    lgamma,
    xlogy,
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
    impl=lambda x, k: _lambertw(x, np.real(k).astype(np.int64)),
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
betaln: Final = Function(
    "betaln",
    "The logarithm of the absolute value of beta(a, b).",
    (
        lambda z, a, b: sub(digamma(a), digamma(add(a, b))),
        lambda z, a, b: sub(digamma(b), digamma(add(a, b))),
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
gammaincinv: Final = Function(
    "gammaincinv",
    "The inverse of gammainc(a, x) in x.",
    (None, lambda z, a, y: div(1.0, gamma_density(a, z))),
    (2, UNIT),
)
gammainccinv: Final = Function(
    "gammainccinv",
    "The inverse of gammaincc(a, x) in x.",
    (None, lambda z, a, y: div(-1.0, gamma_density(a, z))),
    (2, UNIT),
)


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    """The derivative of betainc(a, b, x) by x."""
    ones = xlogy(plus(a, -1.0), x), xlog1py(plus(b, -1.0), neg(x))
    return exp(sub(add(*ones), betaln(a, b)))


def _of_beta(name: str, doc: str, rule: Rule) -> Function:
    return Function(name, doc, (None, None, rule), (2, 3, UNIT))


betainc: Final = _of_beta(
    "betainc",
    "The regularised incomplete beta function of a, b and x.",
    lambda z, a, b, x: _beta_density(a, b, x),
)
betaincc: Final = _of_beta(
    "betaincc",
    "1 - betainc(a, b, x).",
    lambda z, a, b, x: neg(_beta_density(a, b, x)),
)
betaincinv: Final = _of_beta(
    "betaincinv",
    "The inverse of betainc(a, b, x) in x.",
    lambda z, a, b, y: div(1.0, _beta_density(a, b, z)),
)
betainccinv: Final = _of_beta(
    "betainccinv",
    "The inverse of betaincc(a, b, x) in x.",
    lambda z, a, b, y: div(-1.0, _beta_density(a, b, z)),
)

# ---------------------------------------------------------------------------------- distributions


def _t_density(v: Any, t: Any) -> Any:
    rate = half(plus(v, 1.0))
    constant = sub(sub(lgamma(rate), lgamma(half(v))), half(log(mul(v, math.pi))))
    return exp(sub(constant, mul(rate, e.log1p(div(square(t), v)))))


def _f_density(m: Any, n: Any, x: Any) -> Any:
    whole = add(mul(m, x), n)
    place = _beta_density(half(m), half(n), div(mul(m, x), whole))
    return mul(place, div(mul(m, n), square(whole)))


def _binomial_slope(k: Any, n: Any, p: Any) -> Any:
    k = e.floor(k)
    return _beta_density(sub(n, k), plus(k, 1.0), sub(1.0, p))


def _negative_slope(k: Any, n: Any, p: Any) -> Any:
    return _beta_density(n, plus(e.floor(k), 1.0), p)


stdtr: Final = Function(
    "stdtr",
    "Student's t distribution function of df and t.",
    (None, lambda z, v, t: _t_density(v, t)),
    (3, ANY),
)
stdtrit: Final = Function(
    "stdtrit",
    "The inverse of stdtr(df, t) in t.",
    (None, lambda z, v, p: div(1.0, _t_density(v, z))),
    (3, UNIT),
)
fdtri: Final = Function(
    "fdtri",
    "The inverse of fdtr(dfn, dfd, x) in x.",
    (None, None, lambda z, m, n, p: div(1.0, _f_density(m, n, z))),
    (3, 5, UNIT),
)
bdtr: Final = Function(
    "bdtr",
    "The binomial distribution function of k, n and p.",
    (None, None, lambda z, k, n, p: neg(_binomial_slope(k, n, p))),
    (2, 5, UNIT),
    impl=of_integer("bdtr", 1),
)
bdtrc: Final = Function(
    "bdtrc",
    "1 - bdtr(k, n, p).",
    (None, None, lambda z, k, n, p: _binomial_slope(k, n, p)),
    (2, 5, UNIT),
    impl=of_integer("bdtrc", 1),
)
nbdtr: Final = Function(
    "nbdtr",
    "The negative binomial distribution function of k, n and p.",
    (None, None, lambda z, k, n, p: _negative_slope(k, n, p)),
    (2, 3, UNIT),
)
nbdtrc: Final = Function(
    "nbdtrc",
    "1 - nbdtr(k, n, p).",
    (None, None, lambda z, k, n, p: neg(_negative_slope(k, n, p))),
    (2, 3, UNIT),
)
tklmbda: Final = Function(
    "tklmbda",
    "Tukey's lambda distribution function of x and lambda.",
    (
        lambda z, x, m: div(1.0, add(e.pow(z, plus(m, -1.0)), e.pow(sub(1.0, z), plus(m, -1.0)))),
        None,
    ),
    (Reals(-0.3, 0.3), 2),
)


def _power_slope(x: Any, m: Any, log_x: Any) -> Any:
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
        lambda z, x, m: _power_slope(x, m, log(x)),
    ),
    (POSITIVE, ANY),
)
boxcox1p: Final = Function(
    "boxcox1p",
    "boxcox(1 + x, lambda).",
    (
        lambda z, x, m: e.pow(plus(x, 1.0), plus(m, -1.0)),
        lambda z, x, m: _power_slope(x, m, e.log1p(x)),
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
