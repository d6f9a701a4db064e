"""The continuous distributions: their functions of a standardised value, by SciPy's names."""

import math
from typing import Any

import ftrace.numpy as fnp
from ftrace.scipy import special as sp
from ftrace.scipy.stats.distribution import HALF_LINE, LINE, Continuous

ROOT_TWO_PI = math.sqrt(2 * math.pi)


def _normal_log_density(z: Any) -> Any:
    return -0.5 * fnp.square(z) - math.log(ROOT_TWO_PI)


norm = Continuous(
    "norm",
    "The normal distribution.",
    "",
    support=LINE,
    logpdf=_normal_log_density,
    cdf=sp.ndtr,
    sf=lambda z: sp.ndtr(-z),
    logcdf=sp.log_ndtr,
    logsf=lambda z: sp.log_ndtr(-z),
    ppf=sp.ndtri,
    isf=lambda q: -sp.ndtri(q),
)
uniform = Continuous(
    "uniform",
    "The uniform distribution from loc to loc + scale.",
    "",
    support=(0.0, 1.0),
    inside=0.5,
    logpdf=lambda z: z - z,  # NaN stays
    cdf=lambda z: z,
    ppf=lambda q: q,
)
expon = Continuous(
    "expon",
    "The exponential distribution.",
    "",
    support=HALF_LINE,
    logpdf=lambda z: -z,
    cdf=lambda z: -fnp.expm1(-z),
    sf=lambda z: fnp.exp(-z),
    logsf=lambda z: -z,
    ppf=lambda q: -fnp.log1p(-q),
    isf=lambda q: -fnp.log(q),
)
gamma = Continuous(
    "gamma",
    "The gamma distribution of shape a.",
    "a",
    support=HALF_LINE,
    logpdf=lambda z, a: sp.xlogy(a - 1.0, z) - z - sp.gammaln(a),
    cdf=lambda z, a: sp.gammainc(a, z),
    sf=lambda z, a: sp.gammaincc(a, z),
    ppf=lambda q, a: sp.gammaincinv(a, q),
    isf=lambda q, a: sp.gammainccinv(a, q),
)
beta = Continuous(
    "beta",
    "The beta distribution of a and b.",
    "a b",
    support=(0.0, 1.0),
    inside=0.5,
    logpdf=lambda z, a, b: sp.xlog1py(b - 1.0, -z) + sp.xlogy(a - 1.0, z) - sp.betaln(a, b),
    cdf=lambda z, a, b: sp.betainc(a, b, z),
    sf=lambda z, a, b: sp.betaincc(a, b, z),
    ppf=lambda q, a, b: sp.betaincinv(a, b, q),
    isf=lambda q, a, b: sp.betainccinv(a, b, q),
)


def _cauchy_quantile(q: Any) -> Any:
    """The tangent in the middle; towards the ends, where that of pi / 2 is near, its reciprocal."""
    side = q - 0.5
    middle = fnp.less(fnp.abs(side), 0.25)
    tail = fnp.where(middle, 0.25, fnp.where(fnp.less(side, 0), -q, 1 - q))
    near = fnp.tan(math.pi * fnp.where(middle, side, 0.0))
    return fnp.where(middle, near, 1 / fnp.tan(math.pi * tail))


cauchy = Continuous(
    "cauchy",
    "The Cauchy distribution.",
    "",
    support=LINE,
    logpdf=lambda z: -fnp.log1p(fnp.square(z)) - math.log(math.pi),
    cdf=lambda z: fnp.arctan2(1.0, -z) / math.pi,
    sf=lambda z: fnp.arctan2(1.0, z) / math.pi,
    ppf=_cauchy_quantile,
    isf=lambda q: -_cauchy_quantile(q),
)
chi2 = Continuous(
    "chi2",
    "The chi square distribution of df degrees of freedom.",
    "df",
    support=HALF_LINE,
    logpdf=lambda z, df: (
        sp.xlogy(df / 2 - 1.0, z) - z / 2 - sp.gammaln(df / 2) - df * (math.log(2) / 2)
    ),
    cdf=lambda z, df: sp.chdtr(df, z),
    sf=lambda z, df: sp.chdtrc(df, z),
    ppf=lambda q, df: 2 * sp.gammaincinv(df / 2, q),
    isf=lambda q, df: 2 * sp.gammainccinv(df / 2, q),
)
t = Continuous(
    "t",
    "Student's t distribution of df degrees of freedom.",
    "df",
    support=LINE,
    logpdf=lambda z, df: (
        sp.gammaln((df + 1) / 2)
        - sp.gammaln(df / 2)
        - 0.5 * fnp.log(df * math.pi)
        - (df + 1) / 2 * fnp.log1p(fnp.square(z) / df)
    ),
    cdf=lambda z, df: sp.stdtr(df, z),
    sf=lambda z, df: sp.stdtr(df, -z),
    ppf=lambda q, df: sp.stdtrit(df, q),
    isf=lambda q, df: -sp.stdtrit(df, q),
)
f = Continuous(
    "f",
    "The F distribution of dfn and dfd degrees of freedom.",
    "dfn dfd",
    support=HALF_LINE,
    logpdf=lambda z, n, m: (
        m / 2 * fnp.log(m)
        + n / 2 * fnp.log(n)
        + sp.xlogy(n / 2 - 1, z)
        - (n + m) / 2 * fnp.log(m + n * z)
        - sp.betaln(n / 2, m / 2)
    ),
    cdf=lambda z, n, m: sp.fdtr(n, m, z),
    sf=lambda z, n, m: sp.fdtrc(n, m, z),
    ppf=lambda q, n, m: sp.fdtri(n, m, q),
)


def _laplace_cdf(z: Any) -> Any:
    half = 0.5 * fnp.exp(-fnp.abs(z))
    return fnp.where(fnp.greater(z, 0), 1.0 - half, half)


def _laplace_log_cdf(z: Any) -> Any:
    size = fnp.abs(z)
    return fnp.where(fnp.greater(z, 0), fnp.log1p(-0.5 * fnp.exp(-size)), -size - math.log(2))


def _laplace_quantile(q: Any) -> Any:
    above = fnp.greater(q, 0.5)
    size = -fnp.log(2 * fnp.where(above, 1 - q, q))
    return fnp.where(above, size, -size)


laplace = Continuous(
    "laplace",
    "The Laplace distribution.",
    "",
    support=LINE,
    logpdf=lambda z: -fnp.abs(z) - math.log(2),
    cdf=_laplace_cdf,
    sf=lambda z: _laplace_cdf(-z),
    logcdf=_laplace_log_cdf,
    logsf=lambda z: _laplace_log_cdf(-z),
    ppf=_laplace_quantile,
    isf=lambda q: -_laplace_quantile(q),
)
logistic = Continuous(
    "logistic",
    "The logistic distribution.",
    "",
    support=LINE,
    logpdf=lambda z: sp.log_expit(z) + sp.log_expit(-z),
    cdf=sp.expit,
    sf=lambda z: sp.expit(-z),
    logcdf=sp.log_expit,
    logsf=lambda z: sp.log_expit(-z),
    ppf=sp.logit,
    isf=lambda q: -sp.logit(q),
)
lognorm = Continuous(
    "lognorm",
    "The distribution of the exponential of a normal number of deviation s.",
    "s",
    support=HALF_LINE,
    logpdf=lambda z, s: fnp.where(
        fnp.equal(z, 0), -math.inf, _log_normal(fnp.where(fnp.equal(z, 0), 1.0, z), s)
    ),
    cdf=lambda z, s: sp.ndtr(fnp.log(z) / s),
    sf=lambda z, s: sp.ndtr(-fnp.log(z) / s),
    logcdf=lambda z, s: sp.log_ndtr(fnp.log(z) / s),
    logsf=lambda z, s: sp.log_ndtr(-fnp.log(z) / s),
    ppf=lambda q, s: fnp.exp(s * sp.ndtri(q)),
    isf=lambda q, s: fnp.exp(-s * sp.ndtri(q)),
)


def _log_normal(z: Any, s: Any) -> Any:
    return _normal_log_density(fnp.log(z) / s) - fnp.log(s * z)


pareto = Continuous(
    "pareto",
    "The Pareto distribution of exponent b.",
    "b",
    support=(1.0, math.inf),
    inside=2.0,
    logpdf=lambda z, b: fnp.log(b) - (b + 1) * fnp.log(z),
    cdf=lambda z, b: -fnp.expm1(-b * fnp.log(z)),
    sf=lambda z, b: fnp.exp(-b * fnp.log(z)),
    logsf=lambda z, b: -b * fnp.log(z),
    ppf=lambda q, b: fnp.exp(-fnp.log1p(-q) / b),
    isf=lambda q, b: fnp.exp(-fnp.log(q) / b),
)

# ---------------------------------------------------------------------------------- truncated


def _log_mass(a: Any, b: Any) -> Any:
    """The logarithm of the normal probability between a and b, a < b, from the nearer tail."""
    right = fnp.greater(a, 0)
    a, b = fnp.where(right, -b, a), fnp.where(right, -a, b)
    left = fnp.less_equal(b, 0)
    low, high = sp.log_ndtr(fnp.where(left, a, -2.0)), sp.log_ndtr(fnp.where(left, b, -1.0))
    tail = high + fnp.log1p(-fnp.exp(low - high))
    middle = sp.ndtr(fnp.where(left, -1.0, a)) + sp.ndtr(fnp.where(left, -1.0, -b))
    return fnp.where(left, tail, fnp.log1p(-middle))


def _truncated_quantile(q: Any, a: Any, b: Any) -> Any:
    return _from_below(fnp.log(q), fnp.log1p(-q), a, b)


def _from_below(log_q: Any, log_rest: Any, a: Any, b: Any) -> Any:
    """The value below which exp(log_q) of the probability lies."""
    mass, left = _log_mass(a, b), fnp.less(a, 0)
    below = fnp.logaddexp(sp.log_ndtr(a), log_q + mass)
    above = fnp.logaddexp(sp.log_ndtr(-b), log_rest + mass)
    found = sp.ndtri_exp(fnp.where(left, below, above))
    return fnp.where(left, found, -found)


truncnorm = Continuous(
    "truncnorm",
    "The normal distribution between a and b.",
    "a b",
    support=lambda a, b: (a, b),
    inside=lambda a, b: 0.5 * (fnp.maximum(a, -1e30) + fnp.minimum(b, 1e30)),
    valid=lambda a, b: fnp.less(a, b),
    logpdf=lambda z, a, b: _normal_log_density(z) - _log_mass(a, b),
    cdf=lambda z, a, b: fnp.exp(_log_mass(a, z) - _log_mass(a, b)),
    sf=lambda z, a, b: fnp.exp(_log_mass(z, b) - _log_mass(a, b)),
    logcdf=lambda z, a, b: _log_mass(a, z) - _log_mass(a, b),
    logsf=lambda z, a, b: _log_mass(z, b) - _log_mass(a, b),
    ppf=_truncated_quantile,
    isf=lambda q, a, b: _from_below(fnp.log1p(-q), fnp.log(q), a, b),
)

# ---------------------------------------------------------------------------------- extremes

gumbel_r = Continuous(
    "gumbel_r",
    "The Gumbel distribution of maxima.",
    "",
    support=LINE,
    logpdf=lambda z: -z - fnp.exp(-z),
    cdf=lambda z: fnp.exp(-fnp.exp(-z)),
    sf=lambda z: -fnp.expm1(-fnp.exp(-z)),
    logcdf=lambda z: -fnp.exp(-z),
    ppf=lambda q: -fnp.log(-fnp.log(q)),
    isf=lambda q: -fnp.log(-fnp.log1p(-q)),
)
gumbel_l = Continuous(
    "gumbel_l",
    "The Gumbel distribution of minima.",
    "",
    support=LINE,
    logpdf=lambda z: z - fnp.exp(z),
    cdf=lambda z: -fnp.expm1(-fnp.exp(z)),
    sf=lambda z: fnp.exp(-fnp.exp(z)),
    logsf=lambda z: -fnp.exp(z),
    ppf=lambda q: fnp.log(-fnp.log1p(-q)),
    isf=lambda q: fnp.log(-fnp.log(q)),
)
weibull_min = Continuous(
    "weibull_min",
    "The Weibull distribution of minima, of exponent c.",
    "c",
    support=HALF_LINE,
    logpdf=lambda z, c: fnp.log(c) + sp.xlogy(c - 1, z) - fnp.power(z, c),
    cdf=lambda z, c: -fnp.expm1(-fnp.power(z, c)),
    sf=lambda z, c: fnp.exp(-fnp.power(z, c)),
    logsf=lambda z, c: -fnp.power(z, c),
    ppf=lambda q, c: fnp.power(-fnp.log1p(-q), 1 / c),
    isf=lambda q, c: fnp.power(-fnp.log(q), 1 / c),
)


def _general_normal_cdf(z: Any, b: Any) -> Any:
    half = 0.5 * sp.gammaincc(1 / b, fnp.power(fnp.abs(z), b))
    return fnp.where(fnp.greater(z, 0), 1 - half, half)


def _general_normal_quantile(q: Any, b: Any) -> Any:
    above = fnp.greater(q, 0.5)
    size = fnp.power(sp.gammainccinv(1 / b, 2 * fnp.where(above, 1 - q, q)), 1 / b)
    return fnp.where(above, size, -size)


gennorm = Continuous(
    "gennorm",
    "The generalised normal distribution of exponent beta.",
    "beta",
    support=LINE,
    logpdf=lambda z, b: fnp.log(0.5 * b) - sp.gammaln(1 / b) - fnp.power(fnp.abs(z), b),
    cdf=_general_normal_cdf,
    sf=lambda z, b: _general_normal_cdf(-z, b),
    ppf=_general_normal_quantile,
    isf=lambda q, b: -_general_normal_quantile(q, b),
)
invgamma = Continuous(
    "invgamma",
    "The distribution of the inverse of a gamma number of shape a.",
    "a",
    support=HALF_LINE,
    logpdf=lambda z, a: fnp.where(
        fnp.equal(z, 0), -math.inf, _inverse_gamma(fnp.where(fnp.equal(z, 0), 1.0, z), a)
    ),
    cdf=lambda z, a: sp.gammaincc(a, 1 / z),
    sf=lambda z, a: sp.gammainc(a, 1 / z),
    ppf=lambda q, a: 1 / sp.gammainccinv(a, q),
    isf=lambda q, a: 1 / sp.gammaincinv(a, q),
)


def _inverse_gamma(z: Any, a: Any) -> Any:
    return -(a + 1) * fnp.log(z) - sp.gammaln(a) - 1 / z


# ---------------------------------------------------------------------------------- circles

vonmises = Continuous(
    "vonmises",
    "The von Mises distribution of angles, of concentration kappa.",
    "kappa",
    support=LINE,
    valid=lambda kappa: fnp.greater_equal(kappa, 0),
    logpdf=lambda z, kappa: kappa * sp.cosm1(z) - fnp.log(2 * math.pi * sp.i0e(kappa)),
)


def _wrapped_cdf(z: Any, c: Any) -> Any:
    ratio = (1 + c) / (1 - c)
    second = fnp.greater_equal(z, math.pi)
    part = fnp.arctan(ratio * fnp.tan(fnp.where(second, 2 * math.pi - z, z) / 2)) / math.pi
    return fnp.where(second, 1 - part, part)


def _wrapped_quantile(q: Any, c: Any) -> Any:
    ratio = (1 - c) / (1 + c)
    second = fnp.greater_equal(q, 0.5)
    part = 2 * fnp.arctan(ratio * fnp.tan(math.pi * fnp.where(second, 1 - q, q)))
    return fnp.where(second, 2 * math.pi - part, part)


wrapcauchy = Continuous(
    "wrapcauchy",
    "The Cauchy distribution wrapped around a circle, of concentration c.",
    "c",
    support=(0.0, 2 * math.pi),
    valid=lambda c: fnp.logical_and(fnp.greater(c, 0), fnp.less(c, 1)),
    logpdf=lambda z, c: fnp.log((1 - c * c) / (2 * math.pi * (1 + c * c - 2 * c * fnp.cos(z)))),
    cdf=_wrapped_cdf,
    ppf=_wrapped_quantile,
)
