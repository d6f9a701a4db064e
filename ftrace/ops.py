"""`ftrace.ops`: reductions of segments, under JAX's names."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.core.arguments import explain as _explain
from ftrace.core.avals import typeof
from ftrace.numpy.elementary import where as _where
from ftrace.numpy.promote import known, new_shape, stretch, strong, value
from ftrace.numpy.updates import At


def _segments(
    method: str, empty: Callable[[np.dtype[Any]], Any], data: Any, ids: Any, num_segments: Any
) -> Any:
    x, index = strong(value(data)), strong(value(ids))
    if num_segments is None:
        values = known(index, f"segment_{method} without num_segments=")
        num_segments = int(values.max(initial=-1)) + 1
    sizes = new_shape((num_segments, *typeof(x).shape[typeof(index).ndim :]))
    start = stretch(empty(typeof(x).dtype), sizes)
    return getattr(At(start)[_positive(index, sizes[0])], method)(x, mode="drop")


def _positive(index: Any, n: int) -> Any:
    """The indices, with negative ones out of range: they are left out."""
    return _where(index < 0, n, index)


def _least(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return np.False_
    return dtype.type(-np.inf if dtype.kind == "f" else np.iinfo(dtype).min)


def _greatest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return np.True_
    return dtype.type(np.inf if dtype.kind == "f" else np.iinfo(dtype).max)


def segment_sum(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    **without_effect: Any,
) -> Any:
    """The sum of the rows of each segment.

    Args:
        data: an array; its leading axes are those of `segment_ids`.
        segment_ids: integers: to which segment each row belongs; others are left out.
        num_segments: how many there are; without it the greatest integer must be known.
        without_effect: JAX's indices_are_sorted, unique_indices, bucket_size and mode.

    Returns:
        An array with `num_segments` rows.

    Raises:
        ConcretizationTypeError: traced integers without `num_segments`.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.ops.segment_sum(np.array([1.0, 2.0, 4.0]), np.array([0, 1, 0]), 3)
        array([5., 2., 0.])
    """
    return _segments("add", lambda d: d.type(0), data, segment_ids, num_segments)


def segment_prod(
    data: Any, segment_ids: Any, num_segments: int | None = None, **without_effect: Any
) -> Any:
    """The product of the rows of each segment; 1 where there is none. Arguments as `segment_sum`.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.ops.segment_prod(np.array([3.0, 2.0, 4.0]), np.array([0, 1, 0]), 3)
        array([12.,  2.,  1.])
    """
    return _segments("multiply", lambda d: d.type(1), data, segment_ids, num_segments)


def segment_max(
    data: Any, segment_ids: Any, num_segments: int | None = None, **without_effect: Any
) -> Any:
    """The greatest of each segment; the least number where there is none. As `segment_sum`.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.ops.segment_max(np.array([3.0, 2.0, 4.0]), np.array([0, 1, 0]), 3)
        array([  4.,   2., -inf])
    """
    return _segments("max", _least, data, segment_ids, num_segments)


def segment_min(
    data: Any, segment_ids: Any, num_segments: int | None = None, **without_effect: Any
) -> Any:
    """The least of each segment; the greatest number where there is none. As `segment_sum`.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.ops.segment_min(np.array([3.0, 2.0, 4.0]), np.array([0, 1, 0]), 3)
        array([ 3.,  2., inf])
    """
    return _segments("min", _greatest, data, segment_ids, num_segments)


_explain(globals())
