"""Sorting, searching, and taking by index: sort, argsort, searchsorted, take, repeat, unique.

Results whose shape depends on values (`nonzero`, `unique`, `compress`) need the values known:
under differentiation the primal decides, while `jit` or `vmap` trace they raise.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.control.rows.raising import fail_where, some
from ftrace.core import dtypes
from ftrace.core.avals import typeof
from ftrace.core.device import following
from ftrace.core.errors import ShapeError
from ftrace.core.trace import UNKNOWN, Tracer
from ftrace.numpy import given_sizes, ufuncs
from ftrace.numpy.index_errors import for_reading
from ftrace.numpy.indexing import getitem
from ftrace.numpy.lowerings import truth
from ftrace.numpy.masking import is_unknown_mask, nonzero_of
from ftrace.numpy.promote import (
    cast,
    check_range,
    known,
    numpy_function,
    one_axis,
    promote,
    static_int,
    stretch,
    strong,
    unsupported,
    value,
)
from ftrace.numpy.refusing import refuse
from ftrace.numpy.shaping import index_axis, slice_axis
from ftrace.primitives import elementwise as e
from ftrace.primitives.create import iota
from ftrace.primitives.index import gather, scatter_add
from ftrace.primitives.linear import add
from ftrace.primitives.linear import transpose as transpose_row
from ftrace.primitives.shape import reshape, rev
from ftrace.primitives.sort import sort as sort_row

INDEX = np.dtype(np.intp)
_NONE = np.zeros(0)  # NumPy refuses options for it as for any array


def flat(x: Any) -> Any:
    """All elements in one axis."""
    return reshape(x, new_sizes=(typeof(x).size,))


def flat_or_axis(x: Any, axis: Any) -> tuple[Any, int]:
    """The array and its axis; flat, and axis 0, for None."""
    if axis is None:
        return flat(x), 0
    return x, one_axis(axis, typeof(x).ndim)


# ---------------------------------------------------------------------------------- sorting


@numpy_function
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """The elements in ascending order along an axis, NaN last."""
    if order is not None:
        raise unsupported("sort", "order=")
    x, i = flat_or_axis(strong(value(a)), axis)
    alike = typeof(x).dtype.itemsize == 1  # equal elements are: NumPy counts them, in order
    is_stable = _keeps_order(kind, stable) or alike
    return sort_row(x, dimension=i, is_stable=is_stable, num_keys=1)[0]


@numpy_function
def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    """The indices that sort an axis; equal elements keep their order if that is asked for."""
    if order is not None:
        raise unsupported("argsort", "order=")
    x, i = flat_or_axis(strong(value(a)), axis)
    places = iota(dtype=INDEX, shape=typeof(x).shape, dimension=i)
    return sort_row(x, places, dimension=i, is_stable=_keeps_order(kind, stable), num_keys=1)[1]


def _keeps_order(kind: Any, stable: Any) -> bool:
    """Whether equal elements keep their order: as NumPy, which is several times faster if not."""
    np.sort(_NONE, kind=kind, stable=stable)
    name = kind.decode() if isinstance(kind, bytes) else kind or ""
    return bool(stable) or name[:1].lower() in {"s", "m"}  # stable, mergesort


@numpy_function
def lexsort(keys: Any, axis: int = -1) -> Any:
    """The indices that sort by several keys, the last one first."""
    xs = [strong(value(k)) for k in keys]
    i = one_axis(axis, typeof(xs[0]).ndim)
    places = iota(dtype=INDEX, shape=typeof(xs[0]).shape, dimension=i)
    found = sort_row(*reversed(xs), places, dimension=i, is_stable=True, num_keys=len(xs))
    return found[-1]


@numpy_function
def partition(
    a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None
) -> Any:
    """A sorted copy: every element is in its place."""
    _check_places(a, kth, axis, kind)
    return sort(a, axis=axis, order=order)


@numpy_function
def argpartition(
    a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None
) -> Any:
    """The indices that sort an axis: every element is in its place."""
    _check_places(a, kth, axis, kind)
    return argsort(a, axis=axis, order=order)


def _check_places(a: Any, kth: Any, axis: Any, kind: Any) -> None:
    """NumPy's errors for places that an axis does not have."""
    x, i = flat_or_axis(value(a), axis)
    np.partition(np.zeros(typeof(x).shape[i], np.int8), kth, kind=kind)


@numpy_function
def sort_complex(a: Any) -> Any:
    """The elements sorted as complex numbers."""
    x = value(a)
    return sort(cast(x, dtypes.complex_dtype(dtypes.to_inexact(typeof(x).dtype))))


@numpy_function
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Where elements would have to be put into a sorted array to keep it sorted."""
    np.searchsorted(_NONE, 0, side=side)  # type: ignore[call-overload]
    x, y = promote(strong(value(a)), strong(value(v)))  # NumPy makes an array of a number, too
    if sorter is not None:
        if np.size(sorter) != typeof(x).size:
            raise ValueError("sorter.size must equal a.size")
        x = take(x, sorter)
    n = typeof(x).shape[0]
    shape = typeof(y).shape
    low = stretch(INDEX.type(0), shape)
    high = stretch(INDEX.type(n), shape)
    for _ in range(n.bit_length()):
        middle = e.shift_right(add(low, high), INDEX.type(1))
        probe = gather(x, e.min(middle, INDEX.type(n - 1)), axes=(0,), mode="clip")
        open_ = e.lt(low, high)
        right = e.bitwise_and(open_, _before(probe, y, side))
        left = e.bitwise_and(open_, e.bitwise_not(right))
        low = e.select(right, add(middle, INDEX.type(1)), low)
        high = e.select(left, middle, high)
    return low


def _before(x: Any, y: Any, side: str) -> Any:
    """x < y (left) or x <= y (right), NaN after all numbers."""
    if typeof(x).dtype.kind not in "fc":
        return e.lt(x, y) if side == "left" else e.le(x, y)
    if side == "left":
        late = e.bitwise_and(e.isnan(y), e.bitwise_not(e.isnan(x)))
        return e.bitwise_or(e.lt(x, y), late)
    return e.bitwise_or(e.le(x, y), e.isnan(y))


@numpy_function
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The number of the bin each element falls into."""
    edges = strong(value(bins))
    if typeof(edges).ndim != 1:
        raise ValueError("object of too small depth for desired array: bins are a vector")
    n = typeof(edges).shape[0]
    rising = searchsorted(edges, x, side="left" if right else "right")
    if n < 2:
        return rising
    low, high = (slice_axis(edges, i, n - 1 + i, 0) for i in (0, 1))
    turns = e.bitwise_and(some(e.lt(high, low)), some(e.lt(low, high)))
    refuse(turns, ValueError, "bins must be monotonically increasing or decreasing")
    flipped = searchsorted(rev(edges, dimensions=(0,)), x, side="left" if right else "right")
    falling = e.sub(INDEX.type(n), flipped)
    return e.select(_falls(edges, n), falling, rising)


def _falls(edges: Any, n: int) -> Any:
    """Whether the first of sorted values is greater than the last."""
    return e.gt(index_axis(edges, 0, 0), index_axis(edges, n - 1, 0))


# ---------------------------------------------------------------------------------- taking


def as_index(indices: Any) -> Any:
    """Integer indices as int64."""
    i = strong(value(indices))
    kind = typeof(i).dtype.kind
    if not typeof(i).size and issubclass(type(i), np.ndarray):
        i = np.asarray(i, INDEX)  # an empty list
    elif kind not in "iu":
        raise IndexError("arrays used as indices must be of integer type")
    return cast(i, INDEX)


@numpy_function
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    """The parts of an array at these indices along an axis."""
    x, i = flat_or_axis(strong(value(a)), axis)
    given = value(int(indices) if type(indices) is float else indices)  # as NumPy does
    given = cast(given, INDEX) if typeof(given).dtype.kind == "b" else given
    nothing = type(indices) in (list, tuple) and not typeof(given).size
    if not nothing and typeof(given).dtype.kind not in "biu":
        raise TypeError(f"Cannot cast indices from {typeof(given).dtype} to int64")
    if mode == "raise":
        check_range(given, i, typeof(x).shape[i])
    index = following(as_index(given))
    np.take((0,), 0, mode=mode)  # type: ignore[call-overload] - it says what modes there are
    if mode == "raise":
        (index,), mode = for_reading([index], (i,), typeof(x).shape)
    found = gather(x, index, axes=(i,), mode=mode)
    rank = typeof(index).ndim
    if i:
        order = [*range(rank, rank + i), *range(rank), *range(rank + i, typeof(found).ndim)]
        found = transpose_row(found, permutation=tuple(order))
    return ufuncs.finish(np.add, found, out)


@numpy_function
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """For each place of `indices`, the element of that index along the axis."""
    x, i = flat_or_axis(strong(value(arr)), axis)
    index = following(as_index(indices))
    if typeof(index).ndim != typeof(x).ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    check_range(indices, i, typeof(x).shape[i])
    (index,), mode = for_reading([index], (i,), typeof(x).shape)
    return gather(x, *along_axis(x, index, i), axes=tuple(range(typeof(x).ndim)), mode=mode)


def along_axis(x: Any, index: Any, axis: int) -> list[Any]:
    """Indices of all axes from those of one: the other axes' own places."""
    own, shape = typeof(x).shape, list(typeof(index).shape)
    for j, n in enumerate(own):
        if j != axis and shape[j] == 1:
            shape[j] = n
    if any(j != axis and shape[j] not in (n, 1) and n != 1 for j, n in enumerate(own)):
        raise ShapeError(
            f"indices of shape {typeof(index).shape} do not broadcast to an array of {own}.",
            f"All axes but axis {axis} must agree.",
        )
    places = []
    for j, n in enumerate(own):
        if j == axis:
            places.append(stretch(index, tuple(shape)))
        else:
            at = iota(dtype=INDEX, shape=tuple(shape), dimension=j)
            places.append(at if n != 1 else stretch(INDEX.type(0), tuple(shape)))
    return places


@numpy_function
def repeat(
    a: Any, repeats: Any, axis: Any = None, *, total_repeat_length: int | None = None
) -> Any:
    """Each part repeated along an axis."""
    x, i = flat_or_axis(strong(value(a)), axis)
    counts = known(value(repeats), "numpy.repeat with traced counts")
    places = np.repeat(np.arange(typeof(x).shape[i]), counts)
    if total_repeat_length is not None:
        places = np.pad(places, (0, total_repeat_length), "edge")[:total_repeat_length]
    return take(x, places, axis=i)


@numpy_function
def compress(
    condition: Any,
    a: Any,
    axis: Any = None,
    out: Any = None,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The parts of an array where a condition holds; with `size` the first so many, filled up."""
    x, i = flat_or_axis(strong(value(a)), axis)
    if np.ndim(condition) != 1:
        raise ValueError("condition must be a 1-d array")
    condition = value(condition)
    if size is not None:
        found = given_sizes.taken(x, truth(strong(condition)), size, fill_value, i)
        return ufuncs.finish(np.add, found, out)
    if is_unknown_mask(condition):
        return ufuncs.finish(np.add, getitem(x, (*[slice(None)] * i, condition)), out)
    places = np.flatnonzero(known(condition, "numpy.compress"))
    return ufuncs.finish(np.add, take(x, places, axis=i), out)


@numpy_function
def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The elements where a condition holds; with `size` the first so many, filled up."""
    if size is not None:
        mask = truth(flat(strong(value(condition))))
        return given_sizes.taken(flat(strong(value(arr))), mask, size, fill_value)
    taken = flat(strong(value(condition))) if isinstance(condition, Tracer) else np.ravel(condition)
    return compress(taken, flat(strong(value(arr))))


@numpy_function
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """The array without these known parts."""
    x, i = flat_or_axis(strong(value(arr)), axis)
    index = obj if isinstance(obj, slice) else known(value(obj), "numpy.delete")
    return take(x, np.delete(np.arange(typeof(x).shape[i]), index), axis=i)


# ---------------------------------------------------------------------------------- nonzero


@numpy_function
def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """The indices of the elements that are not zero.

    With `size` of the first so many; where there are fewer, `fill_value` (0, or one for each axis).
    """
    if size is not None:
        return given_sizes.nonzero(a, size, fill_value)
    return nonzero_of(strong(value(a)), "numpy.nonzero")


@numpy_function
def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The flat indices of the elements that are not zero; `size` as for `nonzero`."""
    x = strong(value(a))
    if size is not None:
        return given_sizes.nonzero(flat(x), size, fill_value)[0]
    return nonzero_of(flat(x) if typeof(x).ndim != 1 else x, "numpy.flatnonzero")[0]


@numpy_function
def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The indices of the elements that are not zero, one per row; `size` as for `nonzero`."""
    if size is not None:
        return given_sizes.argwhere(a, size, fill_value)
    return np.argwhere(known(value(a), "numpy.argwhere"))


@numpy_function
def bincount(
    x: Any, /, weights: Any = None, minlength: int = 0, *, length: int | None = None
) -> Any:
    """How often each integer occurs, or the sum of its weights.

    Under `jit` and `vmap` the number of bins is `minlength`, and a greater integer is an error when
    the function runs. `length` is the number of bins whatever there is: greater integers are left
    out.
    """
    x = value(x)
    index = cast(x, INDEX) if typeof(x).dtype.kind == "b" else as_index(x)
    least = static_int(minlength, "minlength")
    if least < 0:
        raise ValueError("'minlength' must not be negative")
    if typeof(index).ndim != 1:
        raise ValueError("object of too small depth for desired array: bincount takes a vector")
    negative = "'list' argument must have no negative elements"
    refuse(e.lt(index, INDEX.type(0)), ValueError, negative)
    unknown = isinstance(index, Tracer) and index.known(exact=False) is UNKNOWN
    if length is None and least and unknown:
        words = f"numpy.bincount(minlength={least}) was traced: no integer may be {least} or more"
        fail_where(some(e.ge(index, INDEX.type(least))), (), _too_great(words))
        length = least
    if length is None:
        values = known(index, "numpy.bincount without minlength=")
        length = max(int(values.max(initial=-1)) + 1, least)
    return counted(index, weights, length)


def _too_great(words: str) -> Callable[[], None]:
    """Raises what NumPy does not: no handler takes it."""

    def throw() -> None:
        raise ShapeError(f"{words}.", "Give a greater minlength=, or length= to leave them out.")

    return throw


def counted(index: Any, weights: Any, length: int) -> Any:
    """How often each of the first integers occurs, or the sum of its weights: not of others."""
    if weights is None:
        addend = stretch(np.int64(1), typeof(index).shape)
    else:
        addend = cast(value(weights), np.dtype(np.float64))
    start = stretch(typeof(addend).dtype.type(0), (length,))
    return scatter_add(start, addend, index, axes=(0,), mode="drop")
