"""Choosing among things: categories, members of an array, orders."""

import math
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.errors import ShapeError
from ftrace.lax.reducing import sort_key_val, top_k
from ftrace.numpy.promote import cast, inexact, one_axis, value
from ftrace.primitives.create import iota
from ftrace.primitives.shape import reshape
from ftrace.random.continuous import standard_gumbel
from ftrace.random.parameters import Shape, checked_key, checked_shape, refuse
from ftrace.random.programs import program
from ftrace.random.threefry import WORD, Pair, flat_bits, split_words, words
from ftrace.random.uniforms import randint, unit_floats

_INDEX = np.dtype(np.int64)
_ROUNDS = 3  # sorts by 32 bits are repeated until ties are rarer than 1 / size^2


def categorical(
    key: Any, logits: Any, axis: int = -1, shape: Any = None, replace: bool = True
) -> Any:
    """Indices of categories, with probabilities softmax(logits).

    Args:
        key: the key, uint32[2].
        logits: logarithms of the probabilities, up to a constant.
        axis: the axis of `logits` along which the categories lie.
        shape: the shape of the result; it ends with the other axes of `logits`, which are its
            default.
        replace: whether a category may come twice; without, the leading axes of `shape` hold
            different categories.

    Returns:
        An array of int64.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape; more samples than
            categories without replacement.

    Example:
        >>> import numpy as np, ftrace
        >>> logits = np.log(np.array([0.1, 0.2, 0.7]))
        >>> ftrace.random.categorical(ftrace.random.PRNGKey(0), logits, shape=(6,))
        array([2, 2, 2, 1, 1, 2])
    """
    x = inexact(logits)
    if typeof(x).dtype.kind != "f" or not typeof(x).ndim:
        raise ShapeError(
            f"random.categorical was given logits={typeof(x)}.",
            "Give a real array with an axis of categories.",
        )
    own = list(typeof(x).shape)
    at = one_axis(axis, len(own))
    count = own.pop(at)
    sizes = checked_shape("categorical", shape, tuple(own))
    leading = sizes[: len(sizes) - len(own)]
    if not replace and math.prod(leading) > count:
        raise ShapeError(
            f"random.categorical was asked for {math.prod(leading)} of {count} categories.",
            "Draw with replace=True, or fewer.",
        )
    body = _categorical if replace else _different
    return body(checked_key("categorical", key), x, axis=at, shape=sizes, leading=leading)


def _gumbels(key: Any, shape: Shape, dtype: Any) -> Any:
    return standard_gumbel(unit_floats(words(key), math.prod(shape), dtype)).reshape(shape)


@program
def _categorical(key: Any, logits: Any, *, axis: int, shape: Shape, leading: Shape) -> Any:
    behind = list(shape[len(leading) :])
    behind.insert(axis, logits.shape[axis])
    scores = _gumbels(key, (*leading, *behind), logits.dtype) + logits
    return np.argmax(scores, axis=len(leading) + axis)


@program
def _different(key: Any, logits: Any, *, axis: int, shape: Shape, leading: Shape) -> Any:
    scores = np.moveaxis(logits + _gumbels(key, logits.shape, logits.dtype), axis, -1)
    found = top_k(scores, math.prod(leading))[1]
    return cast(np.moveaxis(found, -1, 0).reshape(shape), _INDEX)


# ---------------------------------------------------------------------------------- orders


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """A random order of the elements of an array, or of 0 .. x - 1.

    Args:
        key: the key, uint32[2].
        x: an array, or a Python int.
        axis: the axis along which parts are reordered.
        independent: whether the vectors along the axis get orders of their own.

    Returns:
        An array like `x`, or of int64. It is differentiable by `x`.

    Raises:
        DtypeError, ShapeError: `key` is no key, `x` a scalar array or negative.

    Example:
        >>> import ftrace
        >>> ftrace.random.permutation(ftrace.random.PRNGKey(0), 6)
        array([0, 1, 5, 4, 3, 2])
    """
    key = checked_key("permutation", key)
    found = value(x)
    if type(found) is int:
        (size,) = checked_shape("permutation", found)
        return _order(key, size=size)
    if not typeof(found).ndim:
        raise ShapeError(
            f"random.permutation was given x={typeof(found)}, which has no axes.",
            "Give an array, or how many as a Python int.",
        )
    at = one_axis(axis, typeof(found).ndim)
    return _permuted(key, found, axis=at, independent=independent)


@program
def _order(key: Any, *, size: int) -> Any:
    return _shuffled(words(key), iota(dtype=_INDEX, shape=(size,), dimension=0), 0)


@program
def _permuted(key: Any, x: Any, *, axis: int, independent: bool) -> Any:
    if independent or x.ndim == 1:
        return _shuffled(words(key), x, axis)
    order = iota(dtype=_INDEX, shape=(x.shape[axis],), dimension=0)
    return np.take(x, _shuffled(words(key), order, 0), axis=axis)


def _shuffled(key: Pair, x: Any, axis: int) -> Any:
    shape = typeof(x).shape
    size = math.prod(shape)
    rounds = math.ceil(_ROUNDS * math.log(max(1, size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, sub = split_words(key, 2)
        x = sort_key_val(reshape(flat_bits(sub, size, WORD), new_sizes=shape), x, axis)[1]
    return x


def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0
) -> Any:
    """Members of an array, or of 0 .. a - 1, chosen at random.

    Args:
        key: the key, uint32[2].
        a: an array, or a Python int.
        shape: the shape of what is chosen, in place of the axis.
        replace: whether a member may be chosen twice.
        p: probabilities of the members, a vector; equal ones by default.
        axis: the axis of `a` along which the members lie.

    Returns:
        An array of a's dtype, or of int64. It is differentiable by `a`.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape; nothing to choose from;
            more members than there are without replacement.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.random.choice(ftrace.random.PRNGKey(0), np.array([1.5, 2.5, 3.5]), (4,))
        array([1.5, 3.5, 3.5, 3.5])
    """
    key, members = checked_key("choice", key), value(a)
    whole = type(members) is int
    if not whole and not typeof(members).ndim:
        raise ShapeError(
            f"random.choice was given a={typeof(members)}, which has no axes.",
            "Give an array, or how many as a Python int.",
        )
    at = 0 if whole else one_axis(axis, typeof(members).ndim)
    count = members if whole else typeof(members).shape[at]
    sizes = checked_shape("choice", shape)
    wanted = math.prod(sizes)
    if (wanted and count <= 0) or (not replace and wanted > count):
        how = "" if replace else " without replacement"
        raise ShapeError(
            f"random.choice was asked for {wanted} of {count} members{how}.",
            "Choose fewer, or with replace=True." if count > 0 else "Give at least one member.",
        )
    chosen = _indices(key, count, sizes, replace, p)
    return chosen if whole else _taken(members, chosen, axis=at)


def _indices(key: Any, count: int, shape: Shape, replace: bool, p: Any) -> Any:
    if p is None:
        if replace:
            return randint(key, shape, 0, count)
        return _first(key, size=count, shape=shape)
    weights = inexact(p)
    if typeof(weights).shape != (count,) or typeof(weights).dtype.kind != "f":
        raise ShapeError(
            f"random.choice was given p={typeof(weights)} for {count} members.",
            "Give a vector with one probability for each member.",
        )
    refuse("choice", "p", weights, lambda v: ~(v >= 0), "negative or NaN")
    return (_weighted if replace else _weighted_different)(key, weights, shape=shape)


@program
def _taken(x: Any, chosen: Any, *, axis: int) -> Any:
    return np.take(x, chosen, axis=axis)


@program
def _first(key: Any, *, size: int, shape: Shape) -> Any:
    order = _shuffled(words(key), iota(dtype=_INDEX, shape=(size,), dimension=0), 0)
    return order[: math.prod(shape)].reshape(shape)


@program
def _weighted(key: Any, p: Any, *, shape: Shape) -> Any:
    sums = np.cumsum(p)
    floats = unit_floats(words(key), math.prod(shape), p.dtype)
    return cast(np.searchsorted(sums, sums[-1] * (1 - floats)), _INDEX).reshape(shape)


@program
def _weighted_different(key: Any, p: Any, *, shape: Shape) -> Any:
    scores = _gumbels(key, p.shape, p.dtype) + np.log(p)
    return cast(top_k(scores, math.prod(shape))[1], _INDEX).reshape(shape)
