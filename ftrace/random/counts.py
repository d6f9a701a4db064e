"""Discrete distributions of counts: poisson, geometric, binomial, multinomial.

Small means are counted: gaps between events are added up. Large ones come by transformed
rejection. All computation is in float64; nothing here has a derivative by its parameters.

Sources: W. Hormann, The Transformed Rejection Method for Generating Poisson Random Variables
(1993); W. Hormann, The Generation of Binomial Random Variates (1993).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.dtypes import float64
from ftrace.core.errors import ShapeError
from ftrace.lax import scan, while_loop
from ftrace.numpy.promote import cast, stretch, value
from ftrace.primitives.special import lgamma
from ftrace.random.parameters import (
    Shape,
    checked_dtype,
    checked_key,
    checked_shape,
    parameter,
    refuse,
)
from ftrace.random.programs import program
from ftrace.random.quantiles import log
from ftrace.random.threefry import WORD, Pair, random_words, words
from ftrace.random.trials import everywhere, open_unit, unit
from ftrace.random.uniforms import finished, unit_floats

Dtype = np.dtype[Any]
_FEW = 10.0  # the mean up to which events are counted


def _counts(
    name: str, body: Any, key: Any, shape: Any, dtype: Any, kinds: str, **given: Any
) -> Any:
    """Samples of a program of a key and float64 parameters, whose arguments are checked."""
    found = checked_dtype(name, dtype, kinds)
    wide = [parameter(name, x, float64, what) for what, x in given.items()]
    sizes = checked_shape(name, shape, *(typeof(x).shape for x in wide))
    return body(checked_key(name, key), *wide, shape=sizes, dtype=found)


def _each(fun: Callable[..., Any], key: Any, shape: Shape, *parameters: Any) -> Any:
    """A function of the words of a key of its own and parameters, for each element of a shape."""
    own = (w.reshape(shape) for w in random_words(words(key), math.prod(shape)))
    return everywhere(fun, *own, *(stretch(x, shape) for x in parameters))


def _accepted(trial: Callable[[Any], tuple[Any, Any]], wanted: Any) -> Any:
    """The value of the first trial that is accepted; none is made where none is wanted."""

    def turn(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        found, good = trial(state[0])
        return state[0] + WORD.type(1), found, ~good

    start = WORD.type(0), np.float64(0), wanted
    return while_loop(lambda state: state[2], turn, start)[1]


# ---------------------------------------------------------------------------------- poisson


def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = np.int64) -> Any:
    """Samples of the Poisson distribution.

    Args:
        key: the key, uint32[2].
        lam: the mean, >= 0.
        shape: the shape of the result; that of `lam` by default.
        dtype: an integer dtype.

    Returns:
        An array of the shape and dtype; -1 where `lam` is NaN, or traced and negative.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.poisson(ftrace.random.PRNGKey(0), 3.0, (5,))
        array([0, 2, 1, 2, 3])
    """
    refuse("poisson", "lam", parameter("poisson", lam, float64, "lam"), lambda v: v < 0, "negative")
    return _counts("poisson", _poisson, key, shape, dtype, "iu", lam=lam)


@program
def _poisson(key: Any, lam: Any, *, shape: Shape, dtype: Dtype) -> Any:
    return cast(_each(_one_poisson, key, shape, lam), dtype)


def _one_poisson(k0: Any, k1: Any, lam: Any) -> Any:
    key = k0, k1
    few, many = lam < _FEW, lam >= _FEW
    counted = _gaps(key, np.where(few, lam, -1.0))
    found = np.where(few, counted, _transformed(key, np.where(many, lam, _FEW), many))
    return np.where(lam >= 0.0, found, -1.0)


def _gaps(key: Pair, lam: Any) -> Any:
    """How many exponential gaps fit into a length; -1 for a negative one."""

    def turn(state: tuple[Any, Any]) -> tuple[Any, Any]:
        count, total = state
        return count + WORD.type(1), total - log(open_unit(key, count))

    start = WORD.type(0), np.float64(0)
    count = while_loop(lambda state: state[1] <= lam, turn, start)[0]
    return cast(count, float64) - 1.0


def _transformed(key: Pair, lam: Any, wanted: Any) -> Any:
    """Hormann's PTRS, for means of at least 10."""
    b = 0.931 + 2.53 * np.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    limit = 0.9277 - 3.6224 / (b - 2.0)

    def trial(t: Any) -> tuple[Any, Any]:
        u, v = unit(key, t, 1) - 0.5, open_unit(key, t, 2)
        us = 0.5 - abs(u)
        k = np.floor((2.0 * a / us + b) * u + lam + 0.43)
        height = log(v * inverse_alpha / (a / (us * us) + b))
        density = k * log(lam) - lam - lgamma(np.maximum(k, 0.0) + 1.0)
        outside = (k < 0.0) | ((us < 0.013) & (v > us))
        return k, ((us >= 0.07) & (v <= limit)) | (~outside & (height <= density))

    return _accepted(trial, wanted)


# ---------------------------------------------------------------------------------- geometric


def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = np.int64) -> Any:
    """Samples of the geometric distribution: how many trials until the first success.

    Args:
        key: the key, uint32[2].
        p: the probability of success, 0 < p <= 1.
        shape: the shape of the result; that of `p` by default.
        dtype: an integer dtype.

    Returns:
        An array of the shape and dtype, from 1 on.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.geometric(ftrace.random.PRNGKey(0), 0.3, (5,))
        array([3, 5, 1, 2, 2])
    """
    return _counts("geometric", _geometric, key, shape, dtype, "iu", p=p)


@program
def _geometric(key: Any, p: Any, *, shape: Shape, dtype: Dtype) -> Any:
    def finish(x: Any, p: Any) -> Any:
        u = np.where(x == 0.0, 1.0, x)
        return cast(np.floor(log(u) / np.log1p(-p)) + 1.0, dtype)

    return finished(finish, [unit_floats(words(key), math.prod(shape), float64)], shape, [p])


# ---------------------------------------------------------------------------------- binomial


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = float64) -> Any:
    """Samples of the binomial distribution: how many of n trials succeed.

    Args:
        key: the key, uint32[2].
        n: how many trials, >= 0.
        p: the probability of success, 0 <= p <= 1.
        shape: the shape of the result; by default that to which the parameters broadcast.
        dtype: a float dtype, as in JAX.

    Returns:
        An array of the shape and dtype; NaN where a parameter is out of range.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.binomial(ftrace.random.PRNGKey(0), 10, 0.3, (5,))
        array([1., 2., 3., 2., 3.])
    """
    return _counts("binomial", _binomial, key, shape, dtype, "f", n=n, p=p)


@program
def _binomial(key: Any, n: Any, p: Any, *, shape: Shape, dtype: Dtype) -> Any:
    return cast(_each(_one_binomial, key, shape, n, p), dtype)


def _one_binomial(k0: Any, k1: Any, n: Any, p: Any) -> Any:
    key = k0, k1
    valid = (n >= 0.0) & (p >= 0.0) & (p <= 1.0) & (n < np.inf)
    n = np.floor(np.where(valid, n, 0.0))
    q = np.where(valid, np.minimum(p, 1.0 - p), 0.0)
    few = n * q <= _FEW
    many = ~few  # what is not valid is 0 by now
    counted = _successes(key, np.where(few, n, -1.0), np.where(few, q, 0.5))
    rejected = _btrs(key, np.where(many, n, 100.0), np.where(many, q, 0.5), many)
    found = np.where(few, counted, rejected)
    return np.where(valid, np.where(p <= 0.5, found, n - found), np.nan)


def _successes(key: Pair, n: Any, q: Any) -> Any:
    """How many geometric gaps fit into n trials; -1 for a negative number."""
    rate = np.log1p(-q)

    def turn(state: tuple[Any, Any]) -> tuple[Any, Any]:
        count, total = state
        gap = np.floor(log(open_unit(key, count)) / rate) + 1.0  # infinite where q is 0
        return count + WORD.type(1), total + np.where(q > 0.0, gap, np.inf)

    start = WORD.type(0), np.float64(0)
    count = while_loop(lambda state: state[1] <= n, turn, start)[0]
    return cast(count, float64) - 1.0


def _btrs(key: Pair, n: Any, p: Any, wanted: Any) -> Any:
    """Hormann's BTRS, for n p of at least 10 and p up to 1/2."""
    deviation = np.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    limit = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * deviation
    mode = np.floor((n + 1.0) * p)
    odds = log(p / (1.0 - p))
    top = lgamma(mode + 1.0) + lgamma(n - mode + 1.0)

    def trial(t: Any) -> tuple[Any, Any]:
        u, v = unit(key, t, 1) - 0.5, open_unit(key, t, 2)
        us = 0.5 - abs(u)
        k = np.floor((2.0 * a / us + b) * u + n * p + 0.5)
        inside = (k >= 0.0) & (k <= n)
        held = np.clip(k, 0.0, n)
        height = log(v * alpha / (a / (us * us) + b))
        density = top - lgamma(held + 1.0) - lgamma(n - held + 1.0) + (held - mode) * odds
        return k, inside & (((us >= 0.07) & (v <= limit)) | (height <= density))

    return _accepted(trial, wanted)


def multinomial(key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = float64) -> Any:
    """Samples of the multinomial distribution: how often each outcome comes in n trials.

    Args:
        key: the key, uint32[2].
        n: how many trials; it broadcasts to the shape of the result without its last axis.
        p: probabilities of the outcomes, along the last axis.
        shape: the shape of the result, whose last axis is that of `p`; that of `p` by default.
        dtype: a float dtype, as in JAX.

    Returns:
        An array of the shape and dtype, whose last axis sums to `n`.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.random.multinomial(ftrace.random.PRNGKey(0), 10, np.array([0.2, 0.3, 0.5]))
        array([2., 4., 4.])
    """
    found = checked_dtype("multinomial", dtype)
    trials = parameter("multinomial", n, float64, "n")
    weights = parameter("multinomial", value(p), float64, "p")
    if not typeof(weights).ndim:
        raise ShapeError(
            f"random.multinomial was given p={typeof(weights)}, which has no axes.",
            "Its last axis holds one probability for each outcome.",
        )
    sizes = checked_shape("multinomial", shape, typeof(weights).shape)
    checked_shape("multinomial", sizes[:-1], typeof(trials).shape)
    key = checked_key("multinomial", key)
    return _multinomial(key, trials, weights, shape=sizes, dtype=found)


@program
def _multinomial(key: Any, n: Any, p: Any, *, shape: Shape, dtype: Dtype) -> Any:
    p = np.moveaxis(stretch(p, shape), -1, 0)
    left = np.cumsum(p[::-1], axis=0)[::-1]
    shares = np.clip(p / np.where(left == 0.0, 1.0, left), 0.0, 1.0)
    keys = np.stack(random_words(words(key), shape[-1]), axis=1)

    def outcome(rest: Any, given: tuple[Any, Any]) -> tuple[Any, Any]:
        count = _each(_one_binomial, given[1], shape[:-1], rest, given[0])
        return rest - count, count

    counts = scan(outcome, stretch(n, shape[:-1]), (shares, keys))[1]
    return cast(np.moveaxis(counts, 0, -1), dtype)
