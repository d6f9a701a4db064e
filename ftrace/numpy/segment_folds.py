"""`ufunc.reduceat`: folds of the segments of an axis that indices cut.

Segment i goes from `indices[i]` to `indices[i + 1]`, and is one element where that is not further
on. A few segments that are known are parts that are folded one by one, many are scattered; where
the indices are traced, each segment is a mask over the axis, so that no shape depends on them.
"""

from typing import Any, Final

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.errors import RuleError
from ftrace.core.trace import UNKNOWN, Tracer
from ftrace.numpy import ufunc_methods, ufuncs
from ftrace.numpy.joining import joined
from ftrace.numpy.promote import known, one_axis, stretch
from ftrace.numpy.refusing import refuse
from ftrace.numpy.shaping import slice_axis
from ftrace.numpy.sorting import INDEX, as_index, take
from ftrace.numpy.updates import SCATTERS, At
from ftrace.primitives import elementwise as e
from ftrace.primitives.create import iota
from ftrace.primitives.linear import add
from ftrace.primitives.shape import concatenate, expand_dims, reshape

FEW: Final = 32  # segments that are folded one by one
IDEMPOTENT: Final = frozenset({"maximum", "minimum", "fmax", "fmin"})


def reduceat(
    ufunc: np.ufunc, array: Any, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None
) -> Any:
    """`ufunc.reduceat`: each segment's reduction.

    Raises:
        IndexError: an index that is not in the axis.
        RuleError: traced indices, and a ufunc without identity.
    """
    x = ufunc_methods.accumulating(ufunc, array, dtype)
    i = one_axis(axis, typeof(x).ndim)
    index = as_index(indices)
    if typeof(index).ndim != 1:
        raise ValueError("indices of reduceat are a vector")
    n = typeof(x).shape[i]
    words = f"index out-of-bounds in {ufunc.__name__}.reduceat [0, {n})"
    if isinstance(index, Tracer) and index.known(exact=False) is UNKNOWN:
        outside = e.bitwise_or(e.lt(index, INDEX.type(0)), e.ge(index, INDEX.type(n)))
        refuse(outside, IndexError, words)
        found = _by_masks(ufunc, x, index, i)
    else:
        starts = known(index, f"{ufunc.__name__}.reduceat")
        if np.any((starts < 0) | (starts >= n)):
            raise IndexError(words)
        found = _by_parts(ufunc, x, starts, i)
    return ufuncs.finish(ufunc, found, out)


def _by_parts(ufunc: np.ufunc, x: Any, starts: Any, axis: int) -> Any:
    """Segments that are known."""
    stops = np.maximum([*starts[1:], typeof(x).shape[axis]], starts + 1)
    if not len(starts):
        return slice_axis(x, 0, 0, axis)
    if len(starts) > FEW and ufunc.__name__ in SCATTERS and typeof(x).dtype.kind != "b":
        lengths = stops - starts - 1
        segments = np.repeat(np.arange(len(starts)), lengths)
        others = np.concatenate([np.arange(a + 1, b) for a, b in zip(starts, stops, strict=True)])
        method = getattr(
            At(take(x, starts, axis))[(slice(None),) * axis + (segments,)], SCATTERS[ufunc.__name__]
        )
        return method(take(x, others, axis), mode="raise")
    parts = [slice_axis(x, int(a), int(b), axis) for a, b in zip(starts, stops, strict=True)]
    return joined([ufunc_methods.reduce(ufunc, p, axis, keepdims=True) for p in parts], axis)


def _by_masks(ufunc: np.ufunc, x: Any, index: Any, axis: int) -> Any:
    """Segments of traced indices."""
    shape, k = typeof(x).shape, typeof(index).shape[0]
    n, name = shape[axis], ufunc.__name__
    if ufunc.identity is None and name not in IDEMPOTENT:
        raise RuleError(
            f"{name}.reduceat of traced indices has no rule: {name} has no identity.",
            "Give indices that are known, or fold each segment by itself.",
        )
    end = INDEX.type(n)
    next_ = concatenate(slice_axis(index, 1, k, 0), stretch(end, (1,)), dimension=0) if k else index
    stop = e.max(next_, add(index, INDEX.type(1)))
    at = iota(dtype=INDEX, shape=(k, n), dimension=1)
    low, high = (stretch(reshape(v, new_sizes=(k, 1)), (k, n)) for v in (index, stop))
    inside = e.bitwise_and(e.ge(at, low), e.lt(at, high))
    wide = (*shape[:axis], k, n, *shape[axis + 1 :])
    inside = stretch(reshape(inside, new_sizes=(k, n, *(1,) * (len(shape) - axis - 1))), wide)
    all_ = stretch(expand_dims(x, dimensions=(axis,)), wide)
    if name in IDEMPOTENT:
        first = expand_dims(take(x, index, axis), dimensions=(axis + 1,))
        return ufunc_methods.reduce(ufunc, e.select(inside, all_, stretch(first, wide)), axis + 1)
    masked = ufunc_methods.masked(ufunc, all_, inside, None)
    return ufunc_methods.reduce(ufunc, masked, axis + 1)


def install() -> None:
    """Tell `ufunc_methods` of this one."""
    ufunc_methods.METHODS["reduceat"] = reduceat
