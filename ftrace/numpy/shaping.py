"""Changing shapes: reshape, transpose, flip, roll, diagonals and their kin.

Joining and splitting are in `joining.py`, making arrays in `creation.py`. `slice_axis` and
`index_axis` are what the other modules use to take static parts.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.device import free
from ftrace.core.dtypes import int64
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.trace import UNKNOWN, Tracer
from ftrace.numpy import layouts, views
from ftrace.numpy.promote import (
    TRACED,
    broadcast_shape,
    many_axes,
    numpy_function,
    one_axis,
    static_int,
    static_shape,
    stretch,
    strong,
    unsupported,
    value,
)
from ftrace.primitives import shape as rows
from ftrace.primitives.arithmetic import mod, neg
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.convert import copy as copy_row
from ftrace.primitives.dynamic import dynamic_slice
from ftrace.primitives.linear import permuted
from ftrace.primitives.slicing import slice as slice_row


def slice_axis(x: Any, start: int, stop: int, axis: int, step: int = 1) -> Any:
    """`x[..., start:stop:step, ...]` for 0 <= start <= stop <= n and a positive step."""
    shape = typeof(x).shape
    starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return slice_row(
        x, start_indices=tuple(starts), limit_indices=tuple(stops), strides=tuple(steps)
    )


def index_axis(x: Any, i: int, axis: int) -> Any:
    """`x[..., i, ...]` for 0 <= i < n."""
    return rows.squeeze(slice_axis(x, i, i + 1, axis), dimensions=(axis,))


# ---------------------------------------------------------------------------------- reshape


def _arrayed(a: Any) -> Any:
    """The operand of a function that makes an array of a Python number."""
    x = value(a)
    return views.zero_d(strong(x)) if typeof(x).weak else x


@numpy_function
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, copy: bool | None = None) -> Any:
    """The same elements in another shape; one size may be -1."""
    x = _arrayed(a)
    if isinstance(copy, str):
        raise ValueError("strings are not allowed for 'copy' keyword. Use True/False/None instead.")
    sizes = whole_shape(typeof(x).size, static_shape(shape), typeof(x).shape)
    if order == "K":
        raise unsupported("reshape", "order='K'")
    if copy:
        x = views.laid(copy_row(x), layouts.ordered(x, "K"))
    is_c = layouts.by_rows(x, order, "reshape")
    base, wanted = (x, sizes) if is_c else (_reversed(x), sizes[::-1])
    if copy is not None and not copy and isinstance(x, Tracer):
        _check_view(base, wanted)
    found = layouts.reshape(base, new_sizes=wanted)
    return found if is_c else _reversed(found)


def _check_view(x: Any, sizes: tuple[int, ...]) -> None:
    """Raise where NumPy's reshape copies, or where that depends on an unknown layout."""
    is_view = layouts.is_view(x, sizes)
    if is_view is None:
        raise unsupported("reshape", f"copy=False of {typeof(x)!r}, whose memory layout is unknown")
    if not is_view:
        raise ValueError("Unable to avoid creating a copy while reshaping.")


def whole_shape(size: int, sizes: tuple[int, ...], old: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of a reshape, of which one may be -1."""
    rest = math.prod([n for n in sizes if n != -1])
    if sizes.count(-1) == 1 and rest and not size % rest:
        sizes = tuple(size // rest if n == -1 else n for n in sizes)
    if any(n < 0 for n in sizes) or math.prod(sizes) != size:
        raise ShapeError(
            f"cannot reshape array of size {size} (shape {old}) into shape {sizes}.",
            "The number of elements must stay the same; one size may be -1.",
        )
    return sizes


def _reversed(x: Any) -> Any:
    return views.transpose(x, permutation=tuple(range(typeof(x).ndim))[::-1])


@numpy_function
def ravel(a: Any, order: str = "C") -> Any:
    """All elements in one axis."""
    return layouts.ravel(layouts.reading(value(a), order, "ravel"))


@numpy_function
def expand_dims(a: Any, axis: Any) -> Any:
    """New axes of size 1 at these places of the result."""
    x = value(a)
    count = len(axis) if isinstance(axis, tuple | list) else 1
    axes = many_axes((axis,) if axis is None else axis, typeof(x).ndim + count)
    return layouts.expand_dims(x, dimensions=tuple(sorted(axes)))


@numpy_function
def squeeze(a: Any, axis: Any = None) -> Any:
    """Axes of size 1 dropped: all of them, or the named ones."""
    x = _arrayed(a)
    shape = typeof(x).shape
    if axis is None:
        axes = tuple(i for i, n in enumerate(shape) if n == 1)
    else:
        if type(axis) is list:
            raise TypeError("'list' object cannot be interpreted as an integer")
        axes = tuple(sorted(many_axes(axis, len(shape))))
    if any(shape[i] != 1 for i in axes):
        raise ShapeError(
            f"cannot select an axis to squeeze out of shape {shape}: axes {axes}.",
            "Only axes of size 1 can be dropped.",
        )
    return layouts.squeeze(x, dimensions=axes)


def atleast(x: Any, rank: int) -> Any:
    """Leading axes of size 1 up to this rank; atleast_3d puts one behind."""
    shape = typeof(x).shape
    if len(shape) >= rank:
        return x
    if rank == 3 and len(shape) == 2:
        return layouts.reshape(x, new_sizes=(*shape, 1))
    if rank == 3:
        return layouts.reshape(x, new_sizes=(1, *shape, 1) if shape else (1, 1, 1))
    return layouts.reshape(x, new_sizes=(1,) * (rank - len(shape)) + shape)


def _renamed(x: Any) -> Any:
    return views.same(x) if isinstance(x, Tracer) else copy_row(x)


def _atleast(arrays: Sequence[Any], rank: int) -> Any:
    found = tuple(_renamed(x) if (y := atleast(x, rank)) is x else y for x in map(value, arrays))
    return found[0] if len(found) == 1 else found


@numpy_function
def atleast_1d(*arys: Any) -> Any:
    """Each array with at least one axis."""
    return _atleast(arys, 1)


@numpy_function
def atleast_2d(*arys: Any) -> Any:
    """Each array with at least two axes."""
    return _atleast(arys, 2)


@numpy_function
def atleast_3d(*arys: Any) -> Any:
    """Each array with at least three axes."""
    return _atleast(arys, 3)


# ---------------------------------------------------------------------------------- axes


@numpy_function
def transpose(a: Any, axes: Any = None) -> Any:
    """Axes permuted; reversed without `axes`."""
    x = _arrayed(a)
    ndim = typeof(x).ndim
    order = (
        tuple(range(ndim))[::-1]
        if axes is None
        else many_axes(tuple(axes) if np.iterable(axes) else axes, ndim)
    )
    if len(order) != ndim:
        raise ShapeError(
            f"transpose: axes {axes} don't match an array of rank {ndim}.", "Name every axis once."
        )
    return views.transpose(x, permutation=order)


permute_dims = transpose
TRACED[np.permute_dims] = TRACED[np.transpose]


@numpy_function
def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged."""
    if typeof(value(x)).ndim < 2:
        raise ShapeError("matrix_transpose was given fewer than two axes.", "Use a matrix.")
    return swapaxes(x, -1, -2)


@numpy_function
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged."""
    x = value(a)
    order = list(range(typeof(x).ndim))
    i, j = one_axis(axis1, len(order)), one_axis(axis2, len(order))
    order[i], order[j] = order[j], order[i]
    return views.transpose(x, permutation=tuple(order))


@numpy_function
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Axes moved to new places; the others keep their order."""
    x = value(a)
    ndim = typeof(x).ndim
    if source is None or destination is None:
        raise TypeError("moveaxis moves axes from `source` to `destination`: ints, not None")
    old, new = many_axes(source, ndim), many_axes(destination, ndim)
    if len(old) != len(new):
        raise ValueError("`source` and `destination` must have the same number of axes")
    order = [i for i in range(ndim) if i not in old]
    for target, axis in sorted(zip(new, old, strict=True)):
        order.insert(target, axis)
    return views.transpose(x, permutation=tuple(order))


@numpy_function
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """One axis moved back until it lies before `start`."""
    ndim = typeof(value(a)).ndim
    i = one_axis(axis, ndim)
    target = ndim if start == ndim else one_axis(start, ndim)
    return moveaxis(a, i, target - 1 if i < target else target)


# ---------------------------------------------------------------------------------- broadcast


@numpy_function
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """The array repeated to a shape."""
    return _stretched(value(array), static_shape(shape))


def _stretched(x: Any, shape: tuple[int, ...]) -> Any:
    found = stretch(x, shape)
    if found is x and not isinstance(x, Tracer):
        return copy_row(x)
    return views.stepped(x, found, _stretching(shape))


@lru_cache(maxsize=1024)
def _stretching(shape: tuple[int, ...]) -> views.Rows:
    return views.Rows(lambda b: stretch(b, shape), None)


@numpy_function
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    """All arrays at their common shape."""
    xs = [value(x) for x in args]
    shape = broadcast_shape(*(typeof(x).shape for x in xs))
    return tuple(_stretched(x, shape) for x in xs)


# ---------------------------------------------------------------------------------- order


@numpy_function
def flip(m: Any, axis: Any = None) -> Any:
    """The order of elements reversed along axes (default: all)."""
    x = value(m)
    return views.rev(x, dimensions=tuple(sorted(many_axes(axis, typeof(x).ndim))))


@numpy_function
def fliplr(m: Any) -> Any:
    """The second axis reversed."""
    return flip(m, axis=1)


@numpy_function
def flipud(m: Any) -> Any:
    """The first axis reversed."""
    return flip(m, axis=0)


@numpy_function
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """A rotation by k right angles in the plane of two axes."""
    x = value(m)
    first, second = many_axes(tuple(axes), typeof(x).ndim)
    k = static_int(k, "k") % 4
    if k == 0:
        return _renamed(x)
    if k == 2:
        return flip(x, axis=(first, second))
    if k == 1:
        return swapaxes(flip(x, axis=second), first, second)
    return flip(swapaxes(x, first, second), axis=second)


@numpy_function
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Elements moved along axes; what falls off one end comes back at the other."""
    x = value(a)
    if axis is None:
        flat = rows.reshape(x, new_sizes=(typeof(x).size,))
        return rows.reshape(roll(flat, shift, axis=0), new_sizes=typeof(x).shape)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    several = isinstance(shift, tuple | list) or typeof(shift).ndim == 1
    shifts = list(shift) if several else [shift]
    pairs = np.broadcast(np.empty(len(axes)), np.empty(len(shifts))).size
    for i in range(pairs):
        x = _roll_axis(x, shifts[i % len(shifts)], one_axis(axes[i % len(axes)], typeof(x).ndim))
    return copy_row(x) if not pairs else x


def _roll_axis(x: Any, shift: Any, axis: int) -> Any:
    n = typeof(x).shape[axis]
    if isinstance(shift, Tracer) and shift.known(exact=True) is UNKNOWN:
        return _rolled_by(x, shift, axis) if n else copy_row(x)
    cut = -static_int(shift, "shift") % n if n else 0
    if not cut:
        return copy_row(x)
    parts = slice_axis(x, cut, n, axis), slice_axis(x, 0, cut, axis)
    return rows.concatenate(*parts, dimension=axis)


def _rolled_by(x: Any, shift: Any, axis: int) -> Any:
    """By a number of places that is not known."""
    if typeof(shift).shape or typeof(shift).dtype.kind not in "biu":
        raise DtypeError(f"roll was given the shift {typeof(shift)}.", "Give integers.")
    shape = typeof(x).shape
    start = mod(neg(convert_element_type(shift, new_dtype=int64)), np.int64(shape[axis]))
    starts = [start if i == axis else np.int64(0) for i in range(len(shape))]
    return dynamic_slice(rows.concatenate(x, x, dimension=axis), *starts, slice_sizes=shape)


# ---------------------------------------------------------------------------------- diagonals


@numpy_function
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonal of two axes, as the last axis of the result."""
    x = value(a)
    i, j = many_axes((axis1, axis2), typeof(x).ndim)
    offset = static_int(offset, "offset")
    return views.stepped(x, _diagonal(x, offset, i, j), _diagonals(offset, i, j))


@lru_cache(maxsize=1024)
def _diagonals(offset: int, i: int, j: int) -> views.Rows:
    return views.Rows(lambda b: _diagonal(b, offset, i, j), None)


def _diagonal(x: Any, offset: int, i: int, j: int) -> Any:
    order = [k for k in range(typeof(x).ndim) if k not in (i, j)]
    x = permuted(x, (*order, i, j))
    *lead, m, n = typeof(x).shape
    count = max(0, min(m, n - offset) if offset >= 0 else min(m + offset, n))
    start = (offset if offset >= 0 else -offset * n) if count else 0
    flat = rows.reshape(x, new_sizes=(*lead, m * n))
    stop = start + (count - 1) * (n + 1) + 1 if count else start
    return slice_axis(flat, start, stop, len(lead), n + 1)


@numpy_function
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """A new array in another dtype; the array itself for copy=False, where it has that dtype.

    NaN, and floats that an integer dtype does not hold, become NumPy's integers, but for uint32:
    there NumPy's own depend on where in an array they stand, and compiled code gives one of them.
    """
    return layouts.astype(value(x), dtype, copy=copy)


@numpy_function
def resize(a: Any, new_shape: Any) -> Any:
    """The elements repeated to fill a new shape."""
    x = ravel(a)
    shape = static_shape(new_shape)
    size, n = math.prod(shape), typeof(x).size
    if not n or not size:
        return free(np.zeros(shape, typeof(x).dtype))
    whole = rows.concatenate(*[x] * -(-size // n), dimension=0)
    return rows.reshape(slice_axis(whole, 0, size, 0), new_sizes=shape)


# ---------------------------------------------------------------------------------- questions


@numpy_function
def shape(a: Any) -> tuple[int, ...]:
    """The shape."""
    return typeof(value(a)).shape


@numpy_function
def ndim(a: Any) -> int:
    """The number of axes."""
    return typeof(value(a)).ndim


@numpy_function
def size(a: Any, axis: Any = None) -> int:
    """The number of elements, or the size along axes."""
    own = typeof(value(a)).shape
    return math.prod([own[i] for i in many_axes(axis, len(own))])
