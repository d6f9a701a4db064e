"""Static and dynamic slices with JAX's signatures.

Static bounds are Python integers. A dynamic start is a value: a negative one counts from the end,
and it is then clamped so that the slice lies inside the array, as in JAX.
"""

from collections.abc import Sequence
from typing import Any

from ftrace.core.avals import typeof
from ftrace.core.errors import DtypeError
from ftrace.core.trace import Tracer
from ftrace.lax.binding import axis_of, bind, int_of, ints, one_per_axis, shape_of
from ftrace.lax.making import expand_dims, squeeze
from ftrace.primitives import compare, dynamic, slicing
from ftrace.primitives.linear import add


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """x[start:limit:stride] along every axis.

    Args:
        operand: an array.
        start_indices, limit_indices: bounds for each axis.
        strides: steps for each axis, at least 1 (default: 1).

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.slice(np.arange(6), (1,), (6,), (2,))
        array([1, 3, 5])
    """
    ndim = len(shape_of(operand))
    bounds = {
        "start_indices": ints(start_indices),
        "limit_indices": ints(limit_indices),
        "strides": (1,) * ndim if strides is None else ints(strides),
    }
    for what, values in bounds.items():
        one_per_axis("slice", what, values, ndim)
    return bind(slicing.slice, operand, **bounds)


def slice_in_dim(
    operand: Any,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Any:
    """A slice along one axis; negative bounds count from the end, None means "to the end".

    Args:
        operand: an array.
        start_index, limit_index, stride: the slice.
        axis: the axis.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.slice_in_dim(np.arange(5), 1, -1)
        array([1, 2, 3])
    """
    sizes = shape_of(operand)
    axis = axis_of("slice_in_dim", axis, len(sizes))
    n = sizes[axis]
    start = 0 if start_index is None else start_index + n * (start_index < 0)
    limit = n if limit_index is None else limit_index + n * (limit_index < 0)
    starts, limits, steps = [0] * len(sizes), list(sizes), [1] * len(sizes)
    starts[axis], limits[axis], steps[axis] = start, limit, stride
    return slice(operand, starts, limits, steps)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """One element of an axis, by a static index.

    Args:
        operand: an array.
        index: which; a negative one counts from the end.
        axis: the axis.
        keepdims: keep it with size 1.

    Raises:
        IndexError: there is no such element.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.index_in_dim(np.arange(3), -1, keepdims=False)
        np.int64(2)
    """
    sizes = shape_of(operand)
    axis = axis_of("index_in_dim", axis, len(sizes))
    index = int_of(index, "the index of lax.index_in_dim")
    if not -sizes[axis] <= index < sizes[axis]:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {sizes[axis]}")
    index %= sizes[axis]
    found = slice_in_dim(operand, index, index + 1, 1, axis)
    return found if keepdims else squeeze(found, (axis,))


# ---------------------------------------------------------------------------------- dynamic


def _start(index: Any, size: int) -> Any:
    """A dynamic start counted from the front."""
    if typeof(index).dtype.kind not in "iu" or typeof(index).shape:
        raise DtypeError(
            f"A dynamic slice was to start at {typeof(index)}.", "Give integer scalars."
        )
    if not isinstance(index, Tracer):
        return index + size if index < 0 else index
    if typeof(index).dtype.kind == "u":
        return index
    return compare.select(compare.lt(index, 0), add(index, size), index)


def dynamic_slice(operand: Any, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> Any:
    """A slice of static size that begins at values.

    Args:
        operand: an array.
        start_indices: one integer scalar for each axis, traced or not.
        slice_sizes: the result's shape.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.dynamic_slice(np.arange(5), (3,), (3,))
        array([2, 3, 4])
    """
    sizes, wanted = shape_of(operand), ints(slice_sizes)
    one_per_axis("dynamic_slice", "start_indices", start_indices, len(sizes))
    starts = [_start(i, n) for i, n in zip(start_indices, sizes, strict=True)]
    return bind(dynamic.dynamic_slice, operand, *starts, slice_sizes=wanted)


def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0) -> Any:
    """A slice of static size along one axis that begins at a value.

    Args:
        operand: an array.
        start_index: an integer scalar, traced or not.
        slice_size: the size.
        axis: the axis.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.dynamic_slice_in_dim(np.arange(5), 1, 2)
        array([1, 2])
    """
    sizes = list(shape_of(operand))
    axis = axis_of("dynamic_slice_in_dim", axis, len(sizes))
    starts: list[Any] = [0] * len(sizes)
    starts[axis], sizes[axis] = start_index, slice_size
    return dynamic_slice(operand, starts, sizes)


def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Any:
    """One element of an axis, by a value.

    Args:
        operand: an array.
        index: an integer scalar, traced or not.
        axis: the axis.
        keepdims: keep it with size 1.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.dynamic_index_in_dim(np.arange(3), 1, keepdims=False)
        np.int64(1)
    """
    found = dynamic_slice_in_dim(operand, index, 1, axis)
    if keepdims:
        return found
    return squeeze(found, (axis_of("dynamic_index_in_dim", axis, len(shape_of(operand))),))


def dynamic_update_slice(operand: Any, update: Any, start_indices: Sequence[Any]) -> Any:
    """A copy of an array with another written into it, from values on.

    Args:
        operand: an array.
        update: an array of the same rank, no larger.
        start_indices: one integer scalar for each axis, traced or not.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.dynamic_update_slice(np.zeros(4), np.ones(2), (1,))
        array([0., 1., 1., 0.])
    """
    sizes = shape_of(operand)
    one_per_axis("dynamic_update_slice", "start_indices", start_indices, len(sizes))
    starts = [_start(i, n) for i, n in zip(start_indices, sizes, strict=True)]
    return bind(dynamic.dynamic_update_slice, operand, update, *starts)


def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int) -> Any:
    """A copy of an array with another written into it, from a value on, along one axis.

    Args:
        operand: an array.
        update: an array of the same rank, no larger.
        start_index: an integer scalar, traced or not.
        axis: the axis.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.dynamic_update_slice_in_dim(np.zeros(3), np.ones(1), -1, 0)
        array([0., 0., 1.])
    """
    ndim = len(shape_of(operand))
    starts: list[Any] = [0] * ndim
    starts[axis_of("dynamic_update_slice_in_dim", axis, ndim)] = start_index
    return dynamic_update_slice(operand, update, starts)


def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int) -> Any:
    """A copy of an array with one element of an axis replaced.

    Args:
        operand: an array.
        update: an array without that axis, or with size 1 there.
        index: an integer scalar, traced or not.
        axis: the axis.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.dynamic_update_index_in_dim(np.zeros(3), 5.0, 1, 0)
        array([0., 5., 0.])
    """
    sizes = shape_of(operand)
    axis = axis_of("dynamic_update_index_in_dim", axis, len(sizes))
    if len(shape_of(update)) != len(sizes):
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(operand, update, index, axis)
