"""The distributions of integers: their functions of a whole number, by SciPy's names."""

import math
from typing import Any

import ftrace.numpy as fnp
from ftrace.scipy import special as sp
from ftrace.scipy.stats.distribution import HALF_LINE, Discrete


def _is_probability(p: Any) -> Any:
    return fnp.logical_and(fnp.greater_equal(p, 0), fnp.less_equal(p, 1))


def _is_count(n: Any) -> Any:
    return fnp.logical_and(fnp.greater_equal(n, 0), fnp.equal(n, fnp.floor(n)))


bernoulli = Discrete(
    "bernoulli",
    "1 with probability p, else 0.",
    "p",
    support=(0.0, 1.0),
    inside=0.0,
    valid=_is_probability,
    logpmf=lambda k, p: sp.xlogy(k, p) + sp.xlog1py(1 - k, -p),
    cdf=lambda k, p: fnp.where(fnp.less(k, 1), 1 - p, 1.0),
    sf=lambda k, p: fnp.where(fnp.less(k, 1), p, 0.0),
)


def _binomial(k: Any, n: Any, p: Any) -> Any:
    ways = sp.gammaln(n + 1) - sp.gammaln(k + 1) - sp.gammaln(n - k + 1)
    return ways + sp.xlogy(k, p) + sp.xlog1py(n - k, -p)


binom = Discrete(
    "binom",
    "The number of successes in n trials of probability p.",
    "n p",
    support=lambda n, p: (0.0, n),
    inside=0.0,
    valid=lambda n, p: fnp.logical_and(_is_count(n), _is_probability(p)),
    logpmf=_binomial,
    cdf=lambda k, n, p: sp.betaincc(k + 1, fnp.maximum(n - k, 0.5), p),
    sf=lambda k, n, p: sp.betainc(k + 1, fnp.maximum(n - k, 0.5), p),
)
nbinom = Discrete(
    "nbinom",
    "The number of failures before n successes of probability p.",
    "n p",
    support=HALF_LINE,
    valid=lambda n, p: fnp.logical_and(
        fnp.greater(n, 0), fnp.logical_and(fnp.greater(p, 0), fnp.less_equal(p, 1))
    ),
    logpmf=lambda k, n, p: (
        sp.gammaln(n + k) - sp.gammaln(k + 1) - sp.gammaln(n) + sp.xlogy(n, p) + sp.xlog1py(k, -p)
    ),
    cdf=lambda k, n, p: sp.betainc(n, k + 1, p),
    sf=lambda k, n, p: sp.betaincc(n, k + 1, p),
)
betabinom = Discrete(
    "betabinom",
    "The number of successes in n trials whose probability has the beta distribution of a and b.",
    "n a b",
    support=lambda n, a, b: (0.0, n),
    inside=0.0,
    valid=lambda n, a, b: fnp.logical_and(
        _is_count(n), fnp.logical_and(fnp.greater(a, 0), fnp.greater(b, 0))
    ),
    logpmf=lambda k, n, a, b: (
        -fnp.log(n + 1)
        - sp.betaln(n - k + 1, k + 1)
        + sp.betaln(k + a, n - k + b)
        - sp.betaln(a, b)
    ),
)
geom = Discrete(
    "geom",
    "The number of trials up to the first success of probability p.",
    "p",
    support=(1.0, math.inf),
    valid=lambda p: fnp.logical_and(fnp.greater(p, 0), fnp.less_equal(p, 1)),
    logpmf=lambda k, p: sp.xlog1py(k - 1, -p) + fnp.log(p),
    cdf=lambda k, p: -fnp.expm1(sp.xlog1py(k, -p)),
    sf=lambda k, p: fnp.exp(sp.xlog1py(k, -p)),
    logsf=lambda k, p: sp.xlog1py(k, -p),
)
poisson = Discrete(
    "poisson",
    "The number of independent events, of which mu are expected.",
    "mu",
    support=HALF_LINE,
    valid=lambda mu: fnp.greater_equal(mu, 0),
    logpmf=lambda k, mu: sp.xlogy(k, mu) - sp.gammaln(k + 1) - mu,
    cdf=lambda k, mu: sp.pdtr(k, mu),
    sf=lambda k, mu: sp.pdtrc(k, mu),
)
