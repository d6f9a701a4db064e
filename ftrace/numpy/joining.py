"""Joining and splitting arrays: concatenate, stack, split, tile, pad and their kin."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.device import is_array
from ftrace.core.dtypes import canonical
from ftrace.core.errors import ShapeError
from ftrace.core.trace import Tracer
from ftrace.numpy import ufuncs
from ftrace.numpy.promote import (
    cast,
    common_dtype,
    known,
    numpy_function,
    one_axis,
    static_int,
    stretch,
    strong,
    value,
)
from ftrace.numpy.shaping import atleast, index_axis
from ftrace.numpy.sorting import take
from ftrace.primitives import shape as rows
from ftrace.primitives.convert import copy as copy_row
from ftrace.primitives.linear import move_axis


def parts(arrays: Any, name: str) -> list[Any]:
    """The arrays of a sequence, or along the first axis of one array."""
    if isinstance(arrays, Tracer) or is_array(arrays):
        x = value(arrays)
        return [index_axis(x, i, 0) for i in range(typeof(x).shape[0])]
    found = [value(x) for x in arrays]
    if not found:
        raise ValueError(f"need at least one array to {name}")
    return found


def joined(xs: Sequence[Any], axis: int, dtype: Any = None) -> Any:
    """Arrays of one rank, promoted and put behind each other along an axis."""
    target = common_dtype(*xs) if dtype is None else canonical(dtype)
    shape = typeof(xs[0]).shape
    for x in xs:
        other = typeof(x).shape
        fits = len(other) == len(shape) and all(
            m == n for i, (m, n) in enumerate(zip(shape, other, strict=True)) if i != axis
        )
        if not fits:
            raise ShapeError(
                f"Arrays of shapes {shape} and {other} cannot be joined along axis {axis}.",
                "All axes but the joined one must have equal sizes.",
            )
    if len(xs) == 1:
        found = cast(xs[0], target)
        return copy_row(found) if found is xs[0] else found
    return rows.concatenate(*[cast(x, target) for x in xs], dimension=axis)


# ---------------------------------------------------------------------------------- joining


@numpy_function
def concatenate(
    arrays: Any,
    /,
    axis: Any = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    """Arrays put behind each other along an axis; flattened for axis=None."""
    xs = parts(arrays, "concatenate")
    if axis is None:
        xs = [rows.reshape(x, new_sizes=(typeof(x).size,)) for x in xs]
    if not typeof(xs[0]).ndim:
        raise ShapeError(
            "zero-dimensional arrays cannot be concatenated.", "Use stack, or give them an axis."
        )
    i = 0 if axis is None else one_axis(axis, typeof(xs[0]).ndim)
    return ufuncs.finish(np.add, joined(xs, i, dtype), out)


concat = concatenate


@numpy_function
def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Arrays of one shape along a new axis."""
    xs = parts(arrays, "stack")
    shape = typeof(xs[0]).shape
    for x in xs:
        if typeof(x).shape != shape:
            raise ShapeError(
                f"stack was given arrays of shapes {shape} and {typeof(x).shape}.",
                "All arrays must have one shape.",
            )
    i = one_axis(axis, len(shape) + 1)
    wide = [rows.expand_dims(x, dimensions=(i,)) for x in xs]
    return ufuncs.finish(np.add, joined(wide, i, dtype), out)


def _along(rank: int, axis: int, arrays: Any, name: str, dtype: Any) -> Any:
    xs = [atleast(x, rank) for x in parts(arrays, name)]
    return joined(xs, axis, dtype)


@numpy_function
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays as rows below each other."""
    return _along(2, 0, tup, "vstack", dtype)


@numpy_function
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays beside each other: along the second axis, or the only one."""
    xs = [atleast(x, 1) for x in parts(tup, "hstack")]
    return joined(xs, 0 if typeof(xs[0]).ndim == 1 else 1, dtype)


@numpy_function
def dstack(tup: Any) -> Any:
    """Arrays along a third axis."""
    return _along(3, 2, tup, "dstack", None)


@numpy_function
def column_stack(tup: Any) -> Any:
    """Vectors as columns beside each other."""
    xs = []
    for x in parts(tup, "column_stack"):
        y = atleast(x, 1)
        n = typeof(y).shape[0]
        xs.append(rows.reshape(y, new_sizes=(n, 1)) if typeof(y).ndim == 1 else y)
    return joined(xs, 1)


@numpy_function
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """Values put behind an array."""
    return concatenate([value(arr), value(values)], axis=axis)


@numpy_function
def block(arrays: Any) -> Any:
    """An array from nested lists of blocks."""
    depth = _depth(arrays)
    return _block(arrays, 1, depth, max(depth, _rank(arrays)))


def _depth(arrays: Any) -> int:
    return 1 + _depth(arrays[0]) if isinstance(arrays, list) else 0


def _rank(arrays: Any) -> int:
    if isinstance(arrays, list):
        return max(_rank(x) for x in arrays)
    return typeof(value(arrays)).ndim


def _block(arrays: Any, level: int, depth: int, rank: int) -> Any:
    if not isinstance(arrays, list):
        x = value(arrays)
        shape = typeof(x).shape
        return rows.reshape(x, new_sizes=(1,) * (rank - len(shape)) + shape)
    inner = [_block(x, level + 1, depth, rank) for x in arrays]
    return joined(inner, rank - depth + level - 1)


@numpy_function
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """Values put into an array before known places."""
    x, v = value(arr), value(values)
    if type(values) is complex and typeof(x).dtype.kind != "c":  # of arrays the real part is taken
        raise TypeError("float() argument must be a string or a real number, not 'complex'")
    if axis is None:
        x, axis = rows.reshape(x, new_sizes=(typeof(x).size,)), 0
    axis = one_axis(axis, typeof(x).ndim)
    n = typeof(x).shape[axis]
    if issubclass(type(obj), Tracer):
        obj = known(obj, "the place of what is inserted")
        obj = obj if obj.shape else int(obj)
    if issubclass(type(obj), int | np.integer):
        if not -n <= obj <= n:  # of several places NumPy does not look at each
            raise IndexError(f"index {obj} is out of bounds for axis {axis} with size {n}")
        missing = typeof(x).ndim - typeof(v).ndim
        v = rows.expand_dims(v, dimensions=tuple(range(missing))) if missing > 0 else v
        v = move_axis(v, 0, axis)
        count = typeof(v).shape[axis]
        order = np.insert(np.arange(n), [obj] * count, np.arange(n, n + count))
    else:
        count = len(np.arange(n)[obj]) if isinstance(obj, slice) else np.size(obj)
        order = np.insert(np.arange(n), obj, np.arange(n, n + count))
    shape = list(typeof(x).shape)
    shape[axis] = count
    whole = joined([x, stretch(cast(v, typeof(x).dtype), tuple(shape))], axis)
    return take(whole, order, axis=axis)


# ---------------------------------------------------------------------------------- splitting


@numpy_function
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Equal parts of an array, or parts cut at indices."""
    x = value(ary)
    n = typeof(x).shape[one_axis(axis, typeof(x).ndim)]
    if np.ndim(indices_or_sections) == 0:
        sections = static_int(indices_or_sections, "sections")
        if sections <= 0:
            raise ShapeError(f"split: {sections} sections.", "Give how many, at least 1.")
        if n % sections:
            raise ValueError("array split does not result in an equal division")
    return array_split(x, indices_or_sections, axis)


@numpy_function
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Nearly equal parts of an array, or parts cut at indices."""
    x = value(ary)
    i = one_axis(axis, typeof(x).ndim)
    n = typeof(x).shape[i]
    if np.ndim(indices_or_sections) == 0:
        sections = static_int(indices_or_sections, "sections")
        if sections <= 0:
            raise ValueError("number sections must be larger than 0.")
        each, extra = divmod(n, sections)
        cuts = np.cumsum([0] + [each + 1] * extra + [each] * (sections - extra)).tolist()
    else:
        inner = [static_int(k, "a split index") for k in indices_or_sections]
        cuts = [0, *inner, n]
    found = []
    for start, stop in pairwise(cuts):
        low, high, _ = slice(start, stop).indices(n)
        found.append(x[(slice(None),) * i + (slice(low, max(low, high)),)])
    return found


def _splitter(name: str, axis: int, rank: int) -> Callable[..., Any]:
    def splitter(ary: Any, indices_or_sections: Any) -> list[Any]:
        ndim = typeof(value(ary)).ndim
        if ndim < rank:
            raise ValueError(f"{name} only works on arrays of {rank} or more dimensions")
        return split(ary, indices_or_sections, 0 if ndim == 1 else axis)

    splitter.__name__ = splitter.__qualname__ = name
    splitter.__doc__ = f"Parts of an array along axis {axis}."
    return numpy_function(splitter)


hsplit = _splitter("hsplit", 1, 1)
vsplit = _splitter("vsplit", 0, 2)
dsplit = _splitter("dsplit", 2, 3)


@numpy_function
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The parts of an array along an axis."""
    x = value(x)
    i = one_axis(axis, typeof(x).ndim)
    return tuple(x[(slice(None),) * i + (k,)] for k in range(typeof(x).shape[i]))


# ---------------------------------------------------------------------------------- repeating


@numpy_function
def tile(A: Any, reps: Any) -> Any:
    """The array repeated along each axis."""
    x = strong(value(A))
    counts = tuple(static_int(r, "a repetition") for r in (reps if np.ndim(reps) else (reps,)))
    shape = typeof(x).shape
    counts = (1,) * (len(shape) - len(counts)) + counts
    shape = (1,) * (len(counts) - len(shape)) + shape
    wide = tuple(n for m in shape for n in (1, m))
    full = tuple(n for r, m in zip(counts, shape, strict=True) for n in (r, m))
    spread = stretch(rows.reshape(x, new_sizes=wide), full)
    return rows.reshape(spread, new_sizes=tuple(r * m for r, m in zip(counts, shape, strict=True)))
