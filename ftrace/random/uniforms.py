"""Random bits, and what is nearest to them: uniform floats and integers, coins, signs.

Bits, floats and integers are those of `jax.random` with 64-bit types enabled, and the same on
every device: only exact operations lie between them and the words of Threefry.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.dtypes import float32, float64
from ftrace.core.errors import DtypeError
from ftrace.numpy.promote import cast, value
from ftrace.primitives.compare import clamp
from ftrace.primitives.convert import bitcast_convert_type
from ftrace.primitives.shape import reshape
from ftrace.random.parameters import (
    Shape,
    checked_dtype,
    checked_key,
    checked_shape,
    parameter,
)
from ftrace.random.programs import program
from ftrace.random.threefry import Pair, flat_bits, split_words, words

Dtype = np.dtype[Any]
_HALF = np.dtype(np.float16)


def finished(
    finish: Callable[..., Any], flat: Sequence[Any], shape: Shape, parameters: Sequence[Any] = ()
) -> Any:
    """An elementwise function of vectors of samples, brought to a shape, and of parameters.

    The shape comes last where the parameters have none: then all of it is one loop.
    """
    if any(typeof(x).shape for x in parameters):
        return finish(*(reshape(x, new_sizes=shape) for x in flat), *parameters)
    return reshape(finish(*flat, *parameters), new_sizes=shape)


# ---------------------------------------------------------------------------------- bits


def bits(key: Any, shape: Any = (), dtype: Any = np.uint64) -> Any:
    """Uniformly random bits, as unsigned integers.

    Args:
        key: the key, uint32[2].
        shape: the shape of the result.
        dtype: an unsigned dtype.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: `key` is no key, `dtype` is not unsigned, `shape` is no shape.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.random.bits(ftrace.random.PRNGKey(0), (2,), np.uint32)
        array([4070199207, 4202968722], dtype=uint32)
    """
    found = checked_dtype("bits", dtype, "u")
    return _bits(checked_key("bits", key), shape=checked_shape("bits", shape), dtype=found)


@program
def _bits(key: Any, *, shape: Shape, dtype: Dtype) -> Any:
    return reshape(flat_bits(words(key), math.prod(shape), dtype), new_sizes=shape)


# ---------------------------------------------------------------------------------- floats


def unit_floats(key: Pair, size: int, dtype: Dtype) -> Any:
    """A vector of floats in [0, 1): multiples of the spacing of floats between 1 and 2."""
    info = np.finfo(dtype)
    word = np.dtype(f"u{dtype.itemsize}")
    mantissa = flat_bits(key, size, word) >> word.type(info.bits - info.nmant)
    if dtype == _HALF:  # kernels hold its value, not its bits
        return cast(cast(mantissa, float32) * np.float32(2.0**-info.nmant), dtype)
    one = dtype.type(1)
    return bitcast_convert_type(mantissa | one.view(word), new_dtype=dtype) - one


def between(x: Any, low: Any, high: Any) -> Any:
    """Floats in [0, 1) brought to [low, high), rounded as JAX does."""
    return np.maximum(low, x * (high - low) + low)


def uniform(
    key: Any, shape: Any = (), dtype: Any = float64, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Uniform floats in [minval, maxval).

    Args:
        key: the key, uint32[2].
        shape: the shape of the result.
        dtype: a float dtype.
        minval, maxval: the bounds, which broadcast to `shape`; the result is differentiable by
            them. Rounding can give `maxval` itself.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.uniform(ftrace.random.PRNGKey(0), (2,))
        array([0.41845711, 0.21629545])
    """
    found = checked_dtype("uniform", dtype)
    low = parameter("uniform", minval, found, "minval")
    high = parameter("uniform", maxval, found, "maxval")
    sizes = checked_shape("uniform", shape, typeof(low).shape, typeof(high).shape)
    return _uniform(checked_key("uniform", key), low, high, shape=sizes, dtype=found)


@program
def _uniform(key: Any, low: Any, high: Any, *, shape: Shape, dtype: Dtype) -> Any:
    floats = unit_floats(words(key), math.prod(shape), dtype)
    return finished(between, [floats], shape, [low, high])


# ---------------------------------------------------------------------------------- integers


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = np.int64) -> Any:
    """Uniform integers from minval to maxval - 1.

    Twice the bits of a result are reduced modulo the number of values: the probabilities of two
    values differ by less than that number over 2**64 (2**128 for 64 bits), relatively.

    Args:
        key: the key, uint32[2].
        shape: the shape of the result.
        minval: the least value; integers that broadcast to `shape`.
        maxval: one more than the largest value; it may be one more than the dtype holds. Where it
            is not above `minval`, the result is `minval`.
        dtype: an integer dtype.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.randint(ftrace.random.PRNGKey(0), (6,), 1, 7)
        array([4, 6, 6, 6, 4, 2])
    """
    found = checked_dtype("randint", dtype, "iu")
    drawn = found if found.itemsize >= 4 else np.dtype(np.int32)  # shorter ones are cut from it
    least, most = int(np.iinfo(found).min), int(np.iinfo(found).max)
    low, _ = _bound("minval", minval, least, most, drawn)
    high, beyond = _bound("maxval", maxval, least, most + (drawn != found), drawn)
    sizes = checked_shape("randint", shape, typeof(low).shape, typeof(high).shape)
    key = checked_key("randint", key)
    return _randint(key, low, high, beyond, shape=sizes, dtype=found)


def _bound(what: str, x: Any, least: int, most: int, dtype: Dtype) -> tuple[Any, Any]:
    """A bound held between two numbers, and whether it was above them."""
    found = value(x)
    if type(found) is int:
        return dtype.type(min(max(found, least), most)), np.bool_(found > most)
    own = typeof(found).dtype
    if own.kind not in "iu":
        raise DtypeError(
            f"random.randint was given {what}={typeof(found)}, which is no integer.",
            "Convert it with astype(int).",
        )
    lowest, highest = int(np.iinfo(own).min), int(np.iinfo(own).max)
    above = np.bool_(False) if highest <= most else found > own.type(most)
    held = clamp(own.type(max(least, lowest)), found, own.type(min(most, highest)))
    return cast(held, dtype), above


@program
def _randint(key: Any, low: Any, high: Any, beyond: Any, *, shape: Shape, dtype: Dtype) -> Any:
    drawn = typeof(low).dtype
    word = np.dtype(f"u{drawn.itemsize}")
    one = word.type(1)

    def finish(upper: Any, lower: Any, low: Any, high: Any, beyond: Any) -> Any:
        some = high > low
        count = np.where(some, cast(high - low, word) + cast(some & beyond, word), one)
        whole = count == word.type(0)  # as many values as words: it wrapped around
        count = np.where(whole, one, count)
        root = word.type(1 << 4 * word.itemsize) % count
        above = (upper % count) * (root * root % count)  # what the upper words are worth
        offset = np.where(whole, lower, (above + lower % count) % count)
        return cast(low + cast(offset, drawn), dtype)

    both = [flat_bits(k, math.prod(shape), word) for k in split_words(words(key), 2)]
    return finished(finish, both, shape, [low, high, beyond])


# ---------------------------------------------------------------------------------- coins


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Any:
    """Coins that show True with a probability.

    Args:
        key: the key, uint32[2].
        p: the probability of True; floats that broadcast to `shape`. Their dtype decides how
            many bits decide.
        shape: the shape of the result; that of `p` by default.

    Returns:
        A boolean array. It is not differentiable.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.bernoulli(ftrace.random.PRNGKey(0), 0.3, (5,))
        array([False,  True, False, False, False])
    """
    found = value(p)
    if typeof(found).dtype.kind != "f":
        raise DtypeError(
            f"random.bernoulli was given p={typeof(found)}, which is no float.",
            "A probability lies between 0 and 1: convert it with astype(float).",
        )
    sizes = checked_shape("bernoulli", shape, typeof(found).shape)
    return _bernoulli(checked_key("bernoulli", key), found, shape=sizes)


@program
def _bernoulli(key: Any, p: Any, *, shape: Shape) -> Any:
    floats = unit_floats(words(key), math.prod(shape), typeof(p).dtype)
    return finished(lambda x, p: x < p, [floats], shape, [p])


def rademacher(key: Any, shape: Any = (), dtype: Any = np.int64) -> Any:
    """Signs: 1 or -1, equally probable.

    Args:
        key: the key, uint32[2].
        shape: the shape of the result.
        dtype: a signed dtype, or one of floats or complex numbers.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.rademacher(ftrace.random.PRNGKey(0), (5,))
        array([ 1,  1, -1, -1, -1])
    """
    found = checked_dtype("rademacher", dtype, "ifc")
    sizes = checked_shape("rademacher", shape)
    return _rademacher(checked_key("rademacher", key), shape=sizes, dtype=found)


@program
def _rademacher(key: Any, *, shape: Shape, dtype: Dtype) -> Any:
    floats = unit_floats(words(key), math.prod(shape), float64)
    one = dtype.type(1)
    return finished(lambda x: np.where(x < 0.5, one, -one), [floats], shape)
