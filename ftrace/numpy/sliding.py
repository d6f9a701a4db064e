"""Windows that slide over an array: numpy.lib.stride_tricks.sliding_window_view.

A window is no gather: w copies of a vector, one after the other, read with one more place per copy,
are its windows. Padding, reshaping and slicing move elements only, so kernels compute with them
directly. As NumPy's, the result is a view that cannot be written.
"""

from functools import lru_cache, update_wrapper
from typing import Any

import numpy as np
from numpy.lib import stride_tricks

from ftrace.core.avals import typeof
from ftrace.numpy.promote import TRACED, door, many_axes, static_int, stretch, strong, value
from ftrace.numpy.shaping import slice_axis
from ftrace.numpy.views import Rows, stepped
from ftrace.primitives.linear import permuted
from ftrace.primitives.shape import reshape
from ftrace.primitives.slicing import pad


def _windows(x: Any, axis: int, w: int) -> Any:
    """Windows of `w` elements along one axis; the elements of a window are the last axis."""
    shape = typeof(x).shape
    rank, n = len(shape), shape[axis]
    last = permuted(x, (*(i for i in range(rank) if i != axis), axis))
    rest = typeof(last).shape[:-1]
    copies = stretch(reshape(last, new_sizes=(*rest, 1, n)), (*rest, w, n))
    flat = reshape(copies, new_sizes=(*rest, w * n))
    zero = typeof(x).dtype.type(0)
    flat = pad(flat, zero, padding_config=(*((0, 0, 0) for _ in rest), (0, w, 0)))
    skewed = slice_axis(reshape(flat, new_sizes=(*rest, w, n + 1)), 0, n - w + 1, rank)
    order = (*range(axis), rank, *range(axis, rank - 1), rank - 1)
    return permuted(skewed, order)


@lru_cache(maxsize=256)
def _sliding(axes: tuple[int, ...], sizes: tuple[int, ...]) -> Rows:
    def get(x: Any) -> Any:
        for axis, w in zip(axes, sizes, strict=True):
            x = _windows(x, axis, w)
        return x

    return Rows(get, None)


def _traced(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """All windows of a shape, each at the place of its first element, as further axes.

    A write through it is refused, `writeable=True` or not: windows share their elements.
    """
    x = strong(value(x))
    shape = typeof(x).shape
    sizes = tuple(window_shape) if np.iterable(window_shape) else (window_shape,)
    sizes = tuple(static_int(n, "a size of a window") for n in sizes)
    axes = many_axes_again(axis, len(shape))
    if any(n < 0 for n in sizes):
        raise ValueError("`window_shape` cannot contain negative values")
    if len(sizes) != len(axes):
        words = "all dimensions of `x`" if axis is None else "every axis"
        raise ValueError(f"Must provide a window size for {words}: {len(sizes)} for {len(axes)}.")
    left = list(shape)
    for i, n in zip(axes, sizes, strict=True):
        if left[i] < n:
            raise ValueError("window shape cannot be larger than input array shape")
        left[i] -= n - 1
    step = _sliding(axes, sizes)
    return stepped(x, step.get(x), step)


def many_axes_again(axis: Any, rank: int) -> tuple[int, ...]:
    """Axes from None (all), an int or a tuple, in which one may come several times."""
    if axis is None or not isinstance(axis, tuple | list):
        return many_axes(axis, rank)
    return tuple(many_axes(i, rank)[0] for i in axis)


_traced.__name__ = _traced.__qualname__ = "sliding_window_view"
TRACED[stride_tricks.sliding_window_view] = _traced
sliding_window_view = door(stride_tricks.sliding_window_view, _traced)
update_wrapper(sliding_window_view, _traced)
