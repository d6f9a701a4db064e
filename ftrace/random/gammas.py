"""The gamma distribution and what is made of it: beta, dirichlet, chisquare, t, f.

Samples come by rejection in float64. They are differentiable by the parameter *implicitly*: the
derivative is that of the quantile at the sample's own probability, whatever was rejected before.
Everything is computed for the logarithm of a sample, which no parameter makes underflow.

Sources: G. Marsaglia, W. Tsang, A Simple Method for Generating Gamma Variables (2000);
M. Figurnov et al., Implicit Reparameterization Gradients (2018).
"""

import math
from typing import Any

import numpy as np

from ftrace.control.rules.custom_derivatives import custom_jvp_call
from ftrace.core.avals import typeof
from ftrace.core.dtypes import float64
from ftrace.core.errors import ShapeError
from ftrace.lax import while_loop
from ftrace.numpy.promote import cast, stretch, value
from ftrace.primitives.elementwise import mul
from ftrace.primitives.special import digamma
from ftrace.random.normals import flat_normals
from ftrace.random.parameters import Shape, drawn
from ftrace.random.programs import program
from ftrace.random.quantiles import log
from ftrace.random.threefry import WORD, Pair, random_words, split_words, words
from ftrace.random.trials import deviate, everywhere, open_unit

Dtype = np.dtype[Any]

# ---------------------------------------------------------------------------------- samples


def _log_gamma(k0: Any, k1: Any, a: Any) -> Any:
    """The logarithm of a gamma sample, for one element; NaN where `a` is."""
    key = k0, k1
    large = a >= 1.0
    d = np.where(large, a, a + 1.0) - 1.0 / 3.0  # below 1 by way of a + 1
    c = (1.0 / 3.0) / np.sqrt(d)

    def rejected(state: tuple[Any, Any, Any, Any]) -> Any:
        _, x, v, u = state
        y = x * x
        tall = log(u) >= 0.5 * y + d * (1.0 - v + log(np.where(v > 0.0, v, 1.0)))
        return (v <= 0.0) | ((u >= 1.0 - 0.0331 * y * y) & tall)

    def turn(state: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        trial = state[0]
        x = deviate(key, trial)
        w = 1.0 + c * x
        return trial + WORD.type(1), x, w * w * w, open_unit(key, trial, 1)

    start = WORD.type(0), np.float64(0), np.float64(-1), np.float64(1)
    v = while_loop(rejected, turn, start)[2]
    boost = log(open_unit(key, WORD.type(0), 2)) / np.where(large, 1.0, a)
    return np.where(a > 0.0, log(d * v) + np.where(large, 0.0, boost), _at_edge(a))


def _at_edge(a: Any) -> Any:
    """What is left of the distribution at 0, and below it, where there is none."""
    return np.where(a == 0.0, -np.inf, np.nan)


def log_gammas(k0: Any, k1: Any, a: Any) -> Any:
    """Logarithms of gamma samples under keys, for float64 parameters of the same shape."""

    def rule(k0: Any, k1: Any, a: Any, t: Any, *, active: tuple[bool, ...]) -> list[Any]:
        y = log_gammas(k0, k1, a)
        return [y, mul(t, everywhere(log_slope, a, y, digamma(a + 1.0)))]

    found = custom_jvp_call(
        *(k0, k1, a), fun=lambda *xs: [everywhere(_log_gamma, *xs)], rule=rule, symbolic=True
    )
    return found[0]


def log_samples(key: Pair, a: Any, shape: Shape) -> Any:
    """Logarithms of gamma samples of a shape, in float64."""
    k0, k1 = (w.reshape(shape) for w in random_words(key, math.prod(shape)))
    return log_gammas(k0, k1, stretch(cast(a, float64), shape))


# ---------------------------------------------------------------------------------- derivative

_MOST = 1_000_000  # iterations of a series: they grow as the root of the parameter
_TINY = 1e-30


def log_slope(a: Any, y: Any, psi: Any) -> Any:
    """The derivative of y = log x by a, where the probability of x is held; for one element.

    The probability is a series, or a continued fraction, that is differentiated by a term by term
    and divided by the density times x. `psi` is digamma(a + 1).
    """
    x = np.exp(y)
    low = (x <= a) | (x <= 1.0)
    below = _series(a, np.where(low, x, 0.0))
    above = _fraction(a, np.where(low, a + 2.0, x))
    smaller = -((y - psi) * below[0] + below[1]) / a
    larger = (y - psi + 1.0 / a) * above[0] + above[1]
    return np.where(low, smaller, larger)


def _series(a: Any, x: Any) -> tuple[Any, Any]:
    """The sum of x^n / ((a + 1) ... (a + n)), and its derivative by a."""

    def more(state: Any) -> Any:
        n, term, _, total, _ = state  # |slope| <= term log n: it ends with the term
        return (n < _MOST) & (term > 1e-18 * total)

    def turn(state: Any) -> Any:
        n, term, slope, total, change = state
        n = n + 1.0
        factor = x / (a + n)
        slope = (slope - term / (a + n)) * factor
        term = term * factor
        return n, term, slope, total + term, change + slope

    zero, one = np.float64(0), np.float64(1)
    return while_loop(more, turn, (zero, one, zero, one, zero))[3:]


def _fraction(a: Any, x: Any) -> tuple[Any, Any]:
    """The continued fraction 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)), and its derivative.

    Lentz's method: the value is the product of d c, and each has its derivative by a.
    """

    def more(state: Any) -> Any:
        n, *_, step, push = state
        return (n < _MOST) & ((abs(step - 1.0) > 1e-15) | (abs(push) > 1e-15))

    def turn(state: Any) -> Any:
        n, c, dc, d, dd, value, slope, _, _ = state
        n = n + 1.0
        an, b = -n * (n - a), x + 1.0 - a + 2.0 * n
        divisor = an * d + b
        dd = -(n * d + an * dd - 1.0) / (divisor * divisor)
        dc = n / c - an * dc / (c * c) - 1.0
        d, c = 1.0 / divisor, b + an / c
        step, push = c * d, dc * d + c * dd
        return n, c, dc, d, dd, value * step, slope * step + value * push, step, push

    first = 1.0 / (x + 1.0 - a)
    zero = np.float64(0)
    start = zero, np.float64(1 / _TINY), zero, first, first * first, first, first * first
    return while_loop(more, turn, (*start, zero, zero))[5:7]


# ---------------------------------------------------------------------------------- functions


def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = float64) -> Any:
    """Logarithms of gamma samples; precise also where the samples are too small for floats.

    Args:
        key: the key, uint32[2].
        a: the parameter, > 0; the result is differentiable by it.
        shape: the shape of the result; that of `a` by default.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype; NaN where `a` is negative.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.loggamma(ftrace.random.PRNGKey(0), 0.001, (2,))
        array([ -580.59517334, -1063.34725479])
    """
    return drawn("loggamma", _loggamma, key, shape, dtype, a=a)


@program
def _loggamma(key: Any, a: Any, *, shape: Shape, dtype: Dtype) -> Any:
    return cast(log_samples(words(key), a, shape), dtype)


def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = float64) -> Any:
    """Samples of the gamma distribution, with density x^(a - 1) exp(-x) / Gamma(a).

    Args:
        key: the key, uint32[2].
        a: the parameter, > 0; the result is differentiable by it.
        shape: the shape of the result; that of `a` by default.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype; NaN where `a` is negative.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.gamma(ftrace.random.PRNGKey(0), 2.5, (2,))
        array([6.27936584, 0.68960523])
    """
    return drawn("gamma", _gamma, key, shape, dtype, a=a)


@program
def _gamma(key: Any, a: Any, *, shape: Shape, dtype: Dtype) -> Any:
    return cast(np.exp(log_samples(words(key), a, shape)), dtype)


def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = float64) -> Any:
    """Samples of the chi-square distribution.

    Args:
        key: the key, uint32[2].
        df: the degrees of freedom, > 0; the result is differentiable by them.
        shape: the shape of the result; that of `df` by default.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.chisquare(ftrace.random.PRNGKey(0), 3.0, (2,))
        array([9.20671215, 0.42685706])
    """
    return drawn("chisquare", _chisquare, key, shape, dtype, df=df)


@program
def _chisquare(key: Any, df: Any, *, shape: Shape, dtype: Dtype) -> Any:
    return cast(2.0 * np.exp(log_samples(words(key), df / 2.0, shape)), dtype)


def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = float64) -> Any:
    """Samples of the F distribution.

    Args:
        key: the key, uint32[2].
        dfnum, dfden: the degrees of freedom of numerator and denominator, > 0; the result is
            differentiable by them.
        shape: the shape of the result; by default that to which the parameters broadcast.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.f(ftrace.random.PRNGKey(0), 3.0, 4.0, (2,))
        array([0.32063569, 0.58610245])
    """
    return drawn("f", _f, key, shape, dtype, dfnum=dfnum, dfden=dfden)


@program
def _f(key: Any, above: Any, below: Any, *, shape: Shape, dtype: Dtype) -> Any:
    first, second = split_words(words(key), 2)
    ratio = np.exp(log_samples(first, above / 2.0, shape) - log_samples(second, below / 2.0, shape))
    return cast(ratio * (below / above), dtype)


def t(key: Any, df: Any, shape: Any = (), dtype: Any = float64) -> Any:
    """Samples of Student's t distribution.

    Args:
        key: the key, uint32[2].
        df: the degrees of freedom, > 0; the result is differentiable by them.
        shape: the shape of the result; that of `df` by default.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.t(ftrace.random.PRNGKey(0), 3.0, (2,))
        array([ 2.17896394, -0.33244807])
    """
    return drawn("t", _t, key, shape, dtype, df=df)


@program
def _t(key: Any, df: Any, *, shape: Shape, dtype: Dtype) -> Any:
    first, second = split_words(words(key), 2)
    half = cast(df, float64) / 2.0
    normals = flat_normals(first, math.prod(shape), float64).reshape(shape)
    return cast(normals * np.sqrt(half * np.exp(-log_samples(second, half, shape))), dtype)


def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = float64) -> Any:
    """Samples of the beta distribution, with density proportional to x^(a - 1) (1 - x)^(b - 1).

    Args:
        key: the key, uint32[2].
        a, b: the parameters, > 0; the result is differentiable by them.
        shape: the shape of the result; by default that to which the parameters broadcast.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.beta(ftrace.random.PRNGKey(0), 2.0, 3.0, (2,))
        array([0.20825039, 0.30244685])
    """
    return drawn("beta", _beta, key, shape, dtype, a=a, b=b)


@program
def _beta(key: Any, a: Any, b: Any, *, shape: Shape, dtype: Dtype) -> Any:
    first, second = split_words(words(key), 2)
    odds = log_samples(first, a, shape) - log_samples(second, b, shape)
    e = np.exp(-abs(odds))  # the smaller of the two, by the larger
    return cast(np.where(odds < 0.0, e, 1.0) / (1.0 + e), dtype)


def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = float64) -> Any:
    """Samples of the Dirichlet distribution: vectors of probabilities.

    Args:
        key: the key, uint32[2].
        alpha: the parameters, > 0, along the last axis; the result is differentiable by them.
        shape: the shape of the result without its last axis; that of `alpha` by default.
        dtype: a float dtype.

    Returns:
        An array of shape (*shape, n), whose last axis sums to 1.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.random.dirichlet(ftrace.random.PRNGKey(0), np.array([1.0, 2.0, 3.0]))
        array([0.49272663, 0.05801157, 0.4492618 ])
    """
    parameters = value(alpha)
    own = typeof(parameters)
    if not own.ndim:
        raise ShapeError(
            f"random.dirichlet was given alpha={own}, which has no axes.",
            "Its last axis holds one parameter for each probability.",
        )
    whole = None if shape is None else (*np.atleast_1d(shape).tolist(), own.shape[-1])
    return drawn("dirichlet", _dirichlet, key, whole, dtype, alpha=parameters)


@program
def _dirichlet(key: Any, alpha: Any, *, shape: Shape, dtype: Dtype) -> Any:
    logs = log_samples(words(key), alpha, shape)
    parts = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return cast(parts / parts.sum(axis=-1, keepdims=True), dtype)
