"""Distribution functions of scipy.special and their inverses in every operand, as `Function`s.

An inverse has the derivatives of the equation it solves: `inverse` of incomplete.py.

Source: NIST Digital Library of Mathematical Functions, chapter 8; Johnson, Kotz and Balakrishnan,
Continuous Univariate Distributions, volume 2, chapters 29 to 31, of noncentral ones.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.core.lazy import lazy
from ftrace.core.primitive import Rule
from ftrace.primitives import elementwise as e
from ftrace.primitives.elementwise import div, exp, log, mul, neg, select, square, sub
from ftrace.primitives.families import Reals
from ftrace.primitives.incomplete import (
    BETA,
    beta_by_first,
    beta_by_second,
    beta_density,
    gamma_by_shape,
    gauss,
    inverse,
    nodes,
    quietly,
)
from ftrace.primitives.linear import add
from ftrace.primitives.scipy_functions import (
    ABOVE,
    ANY,
    POSITIVE,
    UNIT,
    Function,
    half,
    of_integer,
    plus,
    times,
    total,
)
from ftrace.primitives.scipy_gammas import power_slope
from ftrace.primitives.scipy_integrals import hyp0f1, hyp1f1
from ftrace.primitives.special import ROOT_TWO_PI, bessel_ive, gamma_density, lgamma, ndtri

LOW: Final = Reals(0.2, 0.45)

# ---------------------------------------------------------------------------------- slopes


def _t_density(v: Any, t: Any) -> Any:
    rate = half(plus(v, 1.0))
    constant = sub(sub(lgamma(rate), lgamma(half(v))), half(log(mul(v, math.pi))))
    return exp(sub(constant, mul(rate, e.log1p(div(square(t), v)))))


def _t_by_freedom(v: Any, t: Any) -> Any:
    """8.17.4 with t / sqrt(v) held fixed, and the rest of it."""
    share = div(v, add(v, square(t)))
    fixed = times(e.sign(t), beta_by_first(half(v), plus(mul(v, 0.0), 0.5), share), 0.25)
    return neg(add(fixed, div(mul(_t_density(v, t), t), mul(v, 2.0))))


def _f_share(m: Any, n: Any, x: Any) -> tuple[Any, Any, Any, Any]:
    whole = add(mul(m, x), n)
    return half(m), half(n), div(mul(m, x), whole), square(whole)


def _f_by_first(m: Any, n: Any, x: Any) -> Any:
    a, b, w, whole = _f_share(m, n, x)
    return add(half(beta_by_first(a, b, w)), times(beta_density(a, b, w), div(mul(n, x), whole)))


def _f_by_second(m: Any, n: Any, x: Any) -> Any:
    a, b, w, whole = _f_share(m, n, x)
    return sub(half(beta_by_second(a, b, w)), times(beta_density(a, b, w), div(mul(m, x), whole)))


def _f_density(m: Any, n: Any, x: Any) -> Any:
    a, b, w, whole = _f_share(m, n, x)
    return mul(beta_density(a, b, w), div(mul(m, n), whole))


def _binomial(f: Callable[..., Any], k: Any, n: Any, p: Any) -> Any:
    """Of betainc(n - k, k + 1, 1 - p), which bdtr is at whole k."""
    return f(sub(n, k), plus(k, 1.0), sub(1.0, p))


STUDENT: Final = (_t_by_freedom, _t_density)
FISHER: Final = (_f_by_first, _f_by_second, _f_density)
CHI_SQUARE: Final = (
    lambda v, x: half(gamma_by_shape(half(v), half(x))),
    lambda v, x: half(gamma_density(half(v), half(x))),
)
GAMMA_OF_RATE: Final = (
    lambda a, b, x: mul(x, gamma_density(b, mul(a, x))),
    lambda a, b, x: gamma_by_shape(b, mul(a, x)),
    lambda a, b, x: mul(a, gamma_density(b, mul(a, x))),
)
POISSON: Final = (
    lambda k, m: neg(gamma_by_shape(plus(k, 1.0), m)),
    lambda k, m: neg(gamma_density(plus(k, 1.0), m)),
)
BINOMIAL: Final = (
    lambda k, n, p: sub(_binomial(beta_by_second, k, n, p), _binomial(beta_by_first, k, n, p)),
    lambda k, n, p: _binomial(beta_by_first, k, n, p),
    lambda k, n, p: neg(_binomial(beta_density, k, n, p)),
)
NEGATIVE_BINOMIAL: Final = (
    lambda k, n, p: beta_by_second(n, plus(k, 1.0), p),
    lambda k, n, p: beta_by_first(n, plus(k, 1.0), p),
    lambda k, n, p: beta_density(n, plus(k, 1.0), p),
)
_OF_P: Final[tuple[Rule | None, ...]] = (None, None, BINOMIAL[2])
_OF_NEGATIVE_P: Final[tuple[Rule | None, ...]] = (None, None, NEGATIVE_BINOMIAL[2])

# ------------------------------------------------------------------------- distribution functions

stdtr: Final = Function(
    "stdtr",
    "Student's t distribution function of df and t.",
    (lambda z, v, t: _t_by_freedom(v, t), lambda z, v, t: _t_density(v, t)),
    (POSITIVE, ANY),
)
stdtrit: Final = inverse(
    "stdtrit", "The inverse of stdtr(df, t) in t.", STUDENT, 1, (POSITIVE, LOW)
)
stdtridf: Final = inverse(
    "stdtridf",
    "The inverse of stdtr(df, t) in df.",
    STUDENT,
    0,
    (Reals(0.16, 0.2), Reals(-1.3, -1.2)),
)
fdtri: Final = inverse(
    "fdtri", "The inverse of fdtr(dfn, dfd, x) in x.", FISHER, 2, (ABOVE, ABOVE, UNIT)
)
fdtridfd: Final = inverse(
    "fdtridfd",
    "The inverse of fdtr(dfn, dfd, x) in dfd.",
    FISHER,
    1,
    (Reals(2, 3), Reals(0.75, 0.8), Reals(1.9, 2.1)),
)


def _of_counts(name: str, doc: str, slope: Rule, sign: float, whole: int | None) -> Function:
    def rule(z: Any, k: Any, n: Any, p: Any) -> Any:
        return mul(slope(e.floor(k), n, p), sign)

    impl = None if whole is None else of_integer(name, whole)
    return Function(name, doc, (None, None, rule), (2, 5, UNIT), impl=impl)


bdtr: Final = _of_counts(
    "bdtr", "The binomial distribution function of k, n and p.", BINOMIAL[2], 1.0, 1
)
bdtrc: Final = _of_counts("bdtrc", "1 - bdtr(k, n, p).", BINOMIAL[2], -1.0, 1)
nbdtr: Final = _of_counts(
    "nbdtr",
    "The negative binomial distribution function of k, n and p.",
    NEGATIVE_BINOMIAL[2],
    1.0,
    None,
)
nbdtrc: Final = _of_counts("nbdtrc", "1 - nbdtr(k, n, p).", NEGATIVE_BINOMIAL[2], -1.0, None)
inverse(
    "bdtri",
    "The inverse of bdtr(k, n, p) in p.",
    _OF_P,
    2,
    (2, 5, UNIT),
    impl=of_integer("bdtri", 1),
)
inverse(
    "bdtrik", "The inverse of bdtr(k, n, p) in k.", BINOMIAL, 0, (Reals(0.4, 0.6), Reals(7, 9), LOW)
)
inverse(
    "bdtrin", "The inverse of bdtr(k, n, p) in n.", BINOMIAL, 1, (Reals(2, 3), Reals(0.4, 0.6), LOW)
)
inverse("nbdtri", "The inverse of nbdtr(k, n, p) in p.", _OF_NEGATIVE_P, 2, (2, 5, UNIT))
inverse(
    "nbdtrik",
    "The inverse of nbdtr(k, n, p) in k.",
    NEGATIVE_BINOMIAL,
    0,
    (Reals(0.4, 0.6), Reals(4, 5), LOW),
)
inverse(
    "nbdtrin",
    "The inverse of nbdtr(k, n, p) in n.",
    NEGATIVE_BINOMIAL,
    1,
    (Reals(4, 5), Reals(0.4, 0.6), LOW),
)
inverse("btdtria", "The inverse of betainc(a, b, x) in a.", BETA, 0, (UNIT, POSITIVE, UNIT))
inverse("btdtrib", "The inverse of betainc(a, b, x) in b.", BETA, 1, (POSITIVE, UNIT, UNIT))
inverse("chdtriv", "The inverse of chdtr(v, x) in v.", CHI_SQUARE, 0, (UNIT, ABOVE))
inverse(
    "gdtria", "The inverse of gdtr(a, b, x) in a.", GAMMA_OF_RATE, 0, (UNIT, POSITIVE, POSITIVE)
)
inverse(
    "gdtrib", "The inverse of gdtr(a, b, x) in b.", GAMMA_OF_RATE, 1, (POSITIVE, UNIT, POSITIVE)
)
inverse(
    "gdtrix", "The inverse of gdtr(a, b, x) in x.", GAMMA_OF_RATE, 2, (POSITIVE, POSITIVE, UNIT)
)
inverse("pdtri", "The inverse of pdtr(k, m) in m.", (None, POISSON[1]), 1, (3, UNIT))
inverse("pdtrik", "The inverse of pdtr(k, m) in k.", POISSON, 0, (Reals(0.5, 0.8), ABOVE))
tklmbda: Final = Function(
    "tklmbda",
    "Tukey's lambda distribution function of x and lambda.",
    (
        lambda z, x, m: div(1.0, _quantile_density(z, m)),
        lambda z, x, m: neg(div(_quantile_slope(z, m), _quantile_density(z, m))),
    ),
    (Reals(-0.3, 0.3), Reals(0.5, 1.5)),
)


def _quantile_density(p: Any, m: Any) -> Any:
    return add(e.pow(p, plus(m, -1.0)), e.pow(sub(1.0, p), plus(m, -1.0)))


def _quantile_slope(p: Any, m: Any) -> Any:
    """The derivative of (p**m - (1 - p)**m) / m by m."""
    return sub(power_slope(p, m, log(p)), power_slope(sub(1.0, p), m, e.log1p(neg(p))))


# ---------------------------------------------------------------------------------- normal


def _by_p(p: Any) -> Any:
    """The derivative of ndtri."""
    return mul(exp(half(square(ndtri(p)))), ROOT_TWO_PI)


nrdtrimn: Final = Function(
    "nrdtrimn",
    "The mean of a normal distribution, of p, the standard deviation and x.",
    (
        lambda z, p, s, x: neg(mul(s, _by_p(p))),
        lambda z, p, s, x: neg(ndtri(p)),
        lambda z, p, s, x: plus(mul(x, 0.0), 1.0),
    ),
    (UNIT, POSITIVE, ANY),
)
nrdtrisd: Final = Function(
    "nrdtrisd",
    "The standard deviation of a normal distribution, of the mean, p and x.",
    (
        lambda z, m, p, x: div(-1.0, ndtri(p)),
        lambda z, m, p, x: neg(div(mul(z, _by_p(p)), ndtri(p))),
        lambda z, m, p, x: div(1.0, ndtri(p)),
    ),
    (Reals(0, 1), Reals(0.6, 0.9), ABOVE),
)

# ---------------------------------------------------------------------------------- noncentral


def _chi_density(x: Any, v: Any, c: Any) -> Any:
    """The noncentral chi square density, by a Bessel function where that is large."""
    near, place = e.lt(mul(c, x), 1.0), sub(half(v), 1.0)
    one = plus(mul(c, x), 1.0)
    a, b = select(near, one, x), select(near, one, c)
    wave = bessel_ive(place, e.sqrt(mul(a, b)))
    far = times(
        e.pow(div(a, b), half(place)), exp(half(neg(square(sub(e.sqrt(a), e.sqrt(b)))))), wave
    )
    series = hyp0f1(half(v), select(near, times(c, x, 0.25), mul(x, 0.0)))
    start = sub(mul(place, log(half(x))), add(half(add(x, c)), lgamma(half(v))))
    return half(select(near, mul(exp(start), series), far))


CHI_NONCENTRAL: Final[tuple[Rule | None, ...]] = (
    _chi_density,
    None,
    lambda x, v, c: neg(_chi_density(x, plus(v, 2.0), c)),
)
chndtr: Final = Function(
    "chndtr",
    "The noncentral chi square distribution function of x, df and nc.",
    (
        lambda z, x, v, c: _chi_density(x, v, c),
        None,
        lambda z, x, v, c: neg(_chi_density(x, plus(v, 2.0), c)),
    ),
    (POSITIVE, 3, POSITIVE),
)
inverse(
    "chndtrix", "The inverse of chndtr(x, df, nc) in x.", CHI_NONCENTRAL, 0, (UNIT, 3, POSITIVE)
)
inverse(
    "chndtrinc", "The inverse of chndtr(x, df, nc) in nc.", CHI_NONCENTRAL, 2, (Reals(4, 6), 3, LOW)
)
inverse("chndtridf", "The inverse of chndtr(x, df, nc) in df.", (None,) * 3, 1, ())


def _f_noncentral(m: Any, n: Any, c: Any, x: Any) -> Any:
    a, b, w, whole = _f_share(m, n, x)
    sum_of = hyp1f1(add(a, b), a, half(mul(c, w)))
    return times(beta_density(a, b, w), div(mul(m, n), whole), exp(half(neg(c))), sum_of)


def _f_by_shift(m: Any, n: Any, c: Any, x: Any) -> Any:
    """A term of the Poisson mixture leads to the next one."""
    more = plus(m, 2.0)
    return half(sub(ncfdtr(more, n, c, div(mul(x, m), more)), ncfdtr(m, n, c, x)))


F_NONCENTRAL: Final[tuple[Rule | None, ...]] = (None, None, _f_by_shift, _f_noncentral)
ncfdtr: Final = Function(
    "ncfdtr",
    "The noncentral F distribution function of dfn, dfd, nc and f.",
    (None, None, lambda z, *xs: _f_by_shift(*xs), lambda z, *xs: _f_noncentral(*xs)),
    (3, 5, POSITIVE, POSITIVE),
)
inverse("ncfdtri", "The inverse of ncfdtr in f.", F_NONCENTRAL, 3, (3, 5, POSITIVE, UNIT))
inverse("ncfdtrinc", "The inverse of ncfdtr in nc.", F_NONCENTRAL, 2, ())
inverse("ncfdtridfn", "The inverse of ncfdtr in dfn.", (None,) * 4, 0, ())
inverse("ncfdtridfd", "The inverse of ncfdtr in dfd.", (None,) * 4, 1, ())


def _t_moment(k: Any, v: Any, c: Any, t: Any) -> Any:
    k, v, c, t = np.broadcast_arrays(*(np.asarray(x, float) for x in (k, v, c, t)))

    def chi(u: Any, power: Any, v: Any) -> Any:
        return power * u - v / 2 * np.exp(np.minimum(2 * u, 700))

    def whole(u: Any) -> Any:
        deep = chi(u, (v + k)[..., None], v[..., None])
        return deep - (t[..., None] * np.exp(u) - c[..., None]) ** 2 / 2

    mode = np.log((v + k) / v) / 2
    grid, _ = nodes(lambda u: chi(u, v + k, v), mode, np.full_like(v, -np.inf), np.full_like(v, 50))
    fine = np.linspace(grid[..., 0], grid[..., -1], 1000, axis=-1)
    height = whole(fine)
    counts = height > np.max(height, axis=-1, keepdims=True) - 42
    first = np.argmax(counts, axis=-1)
    last = 999 - np.argmax(counts[..., ::-1], axis=-1)
    ends = [
        np.take_along_axis(fine, np.clip(i, 0, 999)[..., None], -1) for i in (first - 1, last + 1)
    ]
    middle, radius = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
    at, weights = gauss(128)
    constant = math.log(2) + v / 2 * np.log(v / 2) - _gammaln(v / 2) - math.log(2 * math.pi) / 2
    density = np.exp(whole(middle + radius * at) + constant[..., None])
    return np.sum(density * radius * weights, axis=-1)


_gammaln: Final = lazy("scipy.special", "gammaln")
t_moment: Final = Function(
    "t_moment",
    "The mean of S**k phi(t S - nc), S**2 being chi square over its freedom; of k, df, nc and t.",
    (
        None,
        None,
        lambda z, k, v, c, t: sub(mul(t, t_moment(plus(k, 1.0), v, c, t)), mul(c, z)),
        lambda z, k, v, c, t: sub(
            mul(c, t_moment(plus(k, 1.0), v, c, t)), mul(t, t_moment(plus(k, 2.0), v, c, t))
        ),
    ),
    (1, 4, ANY, ANY),
    impl=quietly(_t_moment),
    own=True,
)
T_NONCENTRAL: Final[tuple[Rule | None, ...]] = (
    None,
    lambda v, c, t: neg(t_moment(np.int64(0), v, c, t)),
    lambda v, c, t: t_moment(np.int64(1), v, c, t),
)
nctdtr: Final = Function(
    "nctdtr",
    "The noncentral t distribution function of df, nc and t.",
    (
        None,
        lambda z, v, c, t: neg(t_moment(np.int64(0), v, c, t)),
        lambda z, v, c, t: t_moment(np.int64(1), v, c, t),
    ),
    (4, ANY, ANY),
)
inverse("nctdtrit", "The inverse of nctdtr(df, nc, t) in t.", T_NONCENTRAL, 2, (4, ANY, UNIT))
inverse("nctdtrinc", "The inverse of nctdtr(df, nc, t) in nc.", T_NONCENTRAL, 1, (4, UNIT, ANY))
inverse("nctdtridf", "The inverse of nctdtr(df, nc, t) in df.", (None,) * 3, 0, ())

# ------------------------------------------------------------------------- Kolmogorov, Smirnov

_TERMS: Final = range(1, 21)


def _theta_curve(x: Any) -> Any:
    """The second derivative of 2 sum of (-1)**(k - 1) exp(-2 k**2 x**2), which is 0 near 0."""
    low = e.lt(x, 0.2)
    safe = select(low, plus(mul(x, 0.0), 1.0), x)
    u = square(safe)
    parts = [
        mul(
            exp(mul(u, -2.0 * k * k)),
            plus(mul(u, (-1) ** k * -32.0 * k**4), (-1) ** k * 8.0 * k * k),
        )
        for k in _TERMS
    ]
    return select(low, mul(x, 0.0), total(*parts))


kolmogorov_slope: Final = Function(
    "kolmogorov_slope",
    "The derivative of kolmogorov.",
    (lambda z, x: _theta_curve(x),),
    (POSITIVE,),
    impl=lazy("scipy.special._ufuncs", "_kolmogp"),
    own=True,
)
kolmogorov: Final = Function(
    "kolmogorov",
    "The complement of Kolmogorov's distribution function.",
    (lambda z, x: kolmogorov_slope(x),),
    (POSITIVE,),
)
inverse("kolmogi", "The inverse of kolmogorov.", (kolmogorov_slope,), 0, (UNIT,))


smirnov_slope: Final = Function(
    "smirnov_slope",
    "The derivative of smirnov by d.",
    (None, None),
    (),
    impl=lazy("scipy.special._ufuncs", "_smirnovp"),
    own=True,
)
smirnov: Final = Function(
    "smirnov",
    "The complement of the one-sided Kolmogorov-Smirnov distribution function of n and d.",
    (None, lambda z, n, d: smirnov_slope(n, d)),
    (),
)
inverse("smirnovi", "The inverse of smirnov(n, d) in d.", (None, smirnov_slope), 1, ())
