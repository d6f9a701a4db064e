"""`pad`: elements added at the ends of axes, in all of NumPy's modes.

Axes are padded one after the other, so that corners are made of what edges were padded with.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.trace import Tracer
from ftrace.numpy import reductions, statistics, ufuncs
from ftrace.numpy.creation import linspace
from ftrace.numpy.elementary import multiply, round_to
from ftrace.numpy.joining import joined
from ftrace.numpy.promote import (
    cast,
    numpy_function,
    one_axis,
    static_int,
    stretch,
    strong,
    unsupported,
    value,
)
from ftrace.numpy.shaping import flip, slice_axis
from ftrace.numpy.sorting import take
from ftrace.primitives.convert import copy as copy_row
from ftrace.primitives.shape import squeeze
from ftrace.primitives.slicing import pad as pad_row

STATISTICS: Final[dict[str, Callable[..., Any]]] = {
    "maximum": reductions.max,
    "mean": reductions.mean,
    "median": statistics.median,
    "minimum": reductions.min,
}


@numpy_function
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """The array with elements added at both ends of each axis."""
    x = strong(value(array))
    if not isinstance(pad_width, dict) and np.asarray(pad_width).dtype.kind != "i":
        raise TypeError("`pad_width` must be of integral type.")
    widths = _widths(pad_width, typeof(x).ndim)
    if mode == "constant" or mode == "empty":
        return _pad_constant(x, widths, kwargs.get("constant_values", 0))
    if mode in STATISTICS:
        return _pad_statistic(x, widths, STATISTICS[mode], kwargs.get("stat_length"))
    if mode == "linear_ramp":
        return _pad_ramp(x, widths, kwargs.get("end_values", 0))
    if mode in ("reflect", "symmetric") and kwargs.get("reflect_type", "even") == "odd":
        return _pad_odd(x, widths, mode == "symmetric")
    if mode in ("edge", "reflect", "symmetric", "wrap"):
        for axis, (before, after) in enumerate(widths):
            if before or after:
                n = typeof(x).shape[axis]
                places = np.pad(np.arange(n), (before, after), mode, **kwargs)
                x = take(x, places, axis=axis)
        return x if any(b or a for b, a in widths) else copy_row(x)
    raise unsupported("pad", f"mode={mode!r}")


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        full = [(0, 0)] * ndim
        for axis, width in pad_width.items():
            full[one_axis(axis, ndim)] = tuple(np.broadcast_to(width, (2,)).tolist())
        return full
    widths = np.broadcast_to(np.asarray(pad_width), (ndim, 2)).tolist()
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError("index can't contain negative values")
    return [(static_int(b, "a width"), static_int(a, "a width")) for b, a in widths]


def _pad_constant(x: Any, widths: list[tuple[int, int]], fill: Any) -> Any:
    dtype = typeof(x).dtype
    if isinstance(fill, Tracer) or np.ndim(fill) == 0:
        config = tuple((before, after, 0) for before, after in widths)
        return pad_row(x, cast(fill, dtype), padding_config=config)
    fills = np.broadcast_to(np.asarray(fill), (typeof(x).ndim, 2))
    for axis, (before, after) in enumerate(widths):
        for start, width, number in (
            (True, before, fills[axis][0]),
            (False, after, fills[axis][1]),
        ):
            config = [(0, 0, 0)] * typeof(x).ndim
            config[axis] = (width, 0, 0) if start else (0, width, 0)
            x = pad_row(x, dtype.type(number), padding_config=tuple(config))
    return x


def _ends(x: Any, axis: int, before: int, after: int) -> list[tuple[bool, int, Any]]:
    """For both ends of an axis: whether it is the first, how much is added, the last element."""
    n = typeof(x).shape[axis]
    return [
        (True, before, slice_axis(x, 0, 1, axis)),
        (False, after, slice_axis(x, n - 1, n, axis)),
    ]


def _pairs(given: Any, ndim: int) -> Any:
    """An option as NumPy takes it: one value, a pair, or a pair for each axis."""
    return np.broadcast_to(np.asarray(given, object), (ndim, 2))


def _around(x: Any, axis: int, parts: list[Any]) -> Any:
    """The array between what is added before and behind."""
    before, after = parts
    dtype = typeof(x).dtype
    found = [p if p is None else cast(p, dtype) for p in (before, x, after)]
    return joined([p for p in found if p is not None], axis)


def _pad_statistic(
    x: Any, widths: list[tuple[int, int]], fold: Callable[..., Any], length: Any
) -> Any:
    dtype, lengths = typeof(x).dtype, _pairs(length, typeof(x).ndim)
    for axis, pair in enumerate(widths):
        parts = []
        n = typeof(x).shape[axis]
        for (first, width, _), own in zip(_ends(x, axis, *pair), lengths[axis], strict=True):
            m = n if own is None else min(static_int(own, "stat_length"), n)
            if m < 1:
                raise ValueError("stat_length of 0 yields no value for padding")
            part = slice_axis(x, 0, m, axis) if first else slice_axis(x, n - m, n, axis)
            found = fold(part, axis=axis, keepdims=True)
            found = round_to(found, 0) if dtype.kind in "iu" else found
            shape = typeof(found).shape
            wide = (*shape[:axis], width, *shape[axis + 1 :])
            parts.append(stretch(found, wide) if width else None)
        x = _around(x, axis, parts)
    return x


def _pad_ramp(x: Any, widths: list[tuple[int, int]], end_values: Any) -> Any:
    dtype, ends = typeof(x).dtype, _pairs(end_values, typeof(x).ndim)
    for axis, pair in enumerate(widths):
        parts = []
        for (first, width, edge), end in zip(_ends(x, axis, *pair), ends[axis], strict=True):
            edge = squeeze(edge, dimensions=(axis,))
            ramp = linspace(end, edge, width, endpoint=False, dtype=dtype, axis=axis)
            parts.append((ramp if first else flip(ramp, axis)) if width else None)
        x = _around(x, axis, parts)
    return x


def _pad_odd(x: Any, widths: list[tuple[int, int]], with_edge: bool) -> Any:
    """Reflected in the edges' values, too: 2 * edge - x."""
    for axis, pair in enumerate(widths):
        n = typeof(x).shape[axis]
        skip = 0 if with_edge else 1
        if max(pair) > n - skip:
            raise unsupported("pad", "reflect_type='odd' and more than the axis has to reflect")
        parts = []
        for first, width, edge in _ends(x, axis, *pair):
            start = skip if first else n - skip - width
            part = flip(slice_axis(x, start, start + width, axis), axis)
            parts.append(ufuncs.apply(np.subtract, multiply(edge, 2), part) if width else None)
        x = _around(x, axis, parts)
    return x
