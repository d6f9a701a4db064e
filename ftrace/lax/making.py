"""Making and reshaping arrays with JAX's signatures: iota, full, broadcast, reshape, pad, split.

Each is one row or two. Slices are in `slices.py`, reductions in `reducing.py`.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.errors import ShapeError
from ftrace.lax.binding import (
    axes_of,
    axis_of,
    bind,
    dtype_of,
    ints,
    one_per_axis,
    shape_of,
    sizes_of,
)
from ftrace.primitives import convert, create, linear, shape, slicing


def iota(dtype: Any, size: int) -> Any:
    """0, 1, 2, ... as a vector.

    Args:
        dtype: of the result.
        size: how many.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.iota(np.float32, 3)
        array([0., 1., 2.], dtype=float32)
    """
    return bind(create.iota, dtype=dtype_of(dtype), shape=sizes_of(size), dimension=0)


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int) -> Any:
    """An array that counts 0, 1, 2, ... along one axis.

    Args:
        dtype, shape: of the result.
        dimension: the axis along which it counts.

    Example:
        >>> import ftrace.lax as lax
        >>> lax.broadcasted_iota(int, (2, 3), 1)
        array([[0, 1, 2],
               [0, 1, 2]])
    """
    sizes = ints(shape)
    dimension = axis_of("broadcasted_iota", dimension, len(sizes))
    return bind(create.iota, dtype=dtype_of(dtype), shape=sizes, dimension=dimension)


def full(shape: Sequence[int], fill_value: Any, dtype: Any = None) -> Any:
    """An array of one repeated scalar.

    Args:
        shape: of the result.
        fill_value: a scalar, traced or not.
        dtype: of the result (default: the scalar's).

    Example:
        >>> import ftrace.lax as lax
        >>> lax.full((2,), 1.5)
        array([1.5, 1.5])
    """
    a = typeof(fill_value)
    if a.shape:
        raise ShapeError(
            f"lax.full was given a fill value of shape {a.shape}.",
            "Give a scalar; lax.broadcast repeats arrays.",
        )
    wanted = a.dtype if dtype is None else dtype_of(dtype)
    if a.weak or wanted != a.dtype:
        fill_value = convert.convert_element_type(fill_value, new_dtype=wanted)
    return bind(linear.broadcast_in_dim, fill_value, shape=ints(shape), broadcast_dimensions=())


def full_like(
    x: Any, fill_value: Any, dtype: Any = None, shape: Sequence[int] | None = None
) -> Any:
    """An array of one repeated scalar, like another array.

    Args:
        x: gives shape and dtype where they are not given.
        fill_value: a scalar.
        dtype, shape: of the result.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.full_like(np.ones(2, np.float32), 3)
        array([3., 3.], dtype=float32)
    """
    a = typeof(x)
    return full(a.shape if shape is None else shape, fill_value, dtype or a.dtype)


def zeros_like_array(x: Any) -> Any:
    """Zeros of the shape and dtype of an array.

    Args:
        x: an array.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.zeros_like_array(np.ones(2, np.float32))
        array([0., 0.], dtype=float32)
    """
    return full_like(x, 0)


def empty(shape: Sequence[int], dtype: Any) -> Any:
    """An array whose values do not matter; they are zeros.

    Args:
        shape, dtype: of the result.

    Example:
        >>> import ftrace.lax as lax
        >>> lax.empty((2, 3), float).shape
        (2, 3)
    """
    return full(shape, 0, dtype)


def broadcast(operand: Any, sizes: Sequence[int]) -> Any:
    """Repeat an array along new leading axes.

    Args:
        operand: an array.
        sizes: of the new axes.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.broadcast(np.array([1, 2]), (2,))
        array([[1, 2],
               [1, 2]])
    """
    new, old = ints(sizes), shape_of(operand)
    kept = tuple(range(len(new), len(new) + len(old)))
    return bind(linear.broadcast_in_dim, operand, shape=(*new, *old), broadcast_dimensions=kept)


def broadcast_in_dim(
    operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Any:
    """Repeat an array along new axes, or along its axes of size 1.

    Args:
        operand: an array.
        shape: of the result.
        broadcast_dimensions: for each axis of the operand, where it is in the result.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.broadcast_in_dim(np.array([1, 2]), (2, 3), (0,))
        array([[1, 1, 1],
               [2, 2, 2]])
    """
    sizes, kept = ints(shape), ints(broadcast_dimensions)
    return bind(linear.broadcast_in_dim, operand, shape=sizes, broadcast_dimensions=kept)


def reshape(operand: Any, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None) -> Any:
    """The same elements, in C order, in another shape.

    Args:
        operand: an array.
        new_sizes: the shape wanted; unlike NumPy's it has no -1.
        dimensions: a permutation of the axes to apply first.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.reshape(np.arange(4), (2, 2))
        array([[0, 1],
               [2, 3]])
    """
    if dimensions is not None:
        operand = transpose(operand, dimensions)
    return bind(shape.reshape, operand, new_sizes=ints(new_sizes))


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """Merge neighbouring axes into one.

    Args:
        operand: an array.
        start_dimension: the first axis to merge.
        stop_dimension: the axis after the last (default: all that follow).

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.collapse(np.ones((2, 3, 4)), 0, 2).shape
        (6, 4)
    """
    sizes = shape_of(operand)
    start, stop, _ = slice(start_dimension, stop_dimension).indices(len(sizes))
    if start >= stop:
        raise ShapeError(
            f"lax.collapse was given the axes {start_dimension} to {stop_dimension} of shape "
            f"{sizes}.",
            "Name at least one axis: start_dimension < stop_dimension.",
        )
    merged = (*sizes[:start], prod(sizes[start:stop]), *sizes[stop:])
    return bind(shape.reshape, operand, new_sizes=merged)


def transpose(operand: Any, permutation: Sequence[int]) -> Any:
    """Permute the axes of an array.

    Args:
        operand: an array.
        permutation: for each axis of the result the axis of the operand that it is.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.transpose(np.ones((2, 3)), (1, 0)).shape
        (3, 2)
    """
    axes = axes_of("transpose", permutation, len(shape_of(operand)))
    return bind(linear.transpose, operand, permutation=axes)


def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """Drop axes of size 1.

    Args:
        array: an array.
        dimensions: the axes to drop.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.squeeze(np.ones((1, 3)), (0,)).shape
        (3,)
    """
    axes = axes_of("squeeze", dimensions, len(shape_of(array)))
    return bind(shape.squeeze, array, dimensions=tuple(sorted(axes)))


def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """Add axes of size 1.

    Args:
        array: an array.
        dimensions: which axes of the result are new.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.expand_dims(np.ones(3), (0, 2)).shape
        (1, 3, 1)
    """
    new = ints(dimensions)
    axes = axes_of("expand_dims", new, len(shape_of(array)) + len(new))
    return bind(shape.expand_dims, array, dimensions=tuple(sorted(axes)))


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """Reverse the order of the elements along axes.

    Args:
        operand: an array.
        dimensions: the axes.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.rev(np.arange(3), (0,))
        array([2, 1, 0])
    """
    axes = axes_of("rev", dimensions, len(shape_of(operand)))
    return bind(shape.rev, operand, dimensions=axes)


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """Join arrays along an axis.

    Args:
        operands: arrays of one dtype.
        dimension: the axis.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.concatenate([np.zeros(1), np.ones(2)], 0)
        array([0., 1., 1.])
    """
    arrays = tuple(operands)
    if not arrays:
        raise ShapeError("lax.concatenate was given no arrays.", "Give at least one.")
    axis = axis_of("concatenate", dimension, len(shape_of(arrays[0])))
    return bind(shape.concatenate, *arrays, dimension=axis)


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Cut an array along an axis into parts of given sizes.

    Args:
        operand: an array.
        sizes: of the parts; they add up to the size of the axis.
        axis: the axis.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.split(np.arange(3), (1, 2))
        [array([0]), array([1, 2])]
    """
    axis = axis_of("split", axis, len(shape_of(operand)))
    return bind(shape.split, operand, sizes=ints(sizes), axis=axis)


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """Put a value around and between the elements of an array.

    Args:
        operand: an array.
        padding_value: a scalar of the operand's dtype.
        padding_config: for each axis how many to put before, after and between; the first two
            may be negative, which removes elements.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.pad(np.array([1.0, 2.0]), 0.0, [(1, 0, 1)])
        array([0., 1., 0., 2.])
    """
    one_per_axis("pad", "paddings", padding_config, len(shape_of(operand)))
    config = tuple(ints(entry, "padding_config of lax.pad") for entry in padding_config)
    if any(len(entry) != 3 for entry in config):
        raise ShapeError(
            f"lax.pad was given padding_config={config}.",
            "Give three numbers for each axis: how many before, after and between.",
        )
    value = padding_value
    if typeof(value).weak:
        value = convert.convert_element_type(value, new_dtype=typeof(operand).dtype)
    return bind(slicing.pad, operand, value, padding_config=config)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that NumPy's broadcasting gives to arrays of these shapes.

    Raises:
        ShapeError: they do not broadcast.

    Example:
        >>> import ftrace.lax as lax
        >>> lax.broadcast_shapes((2, 1), (3,))
        (2, 3)
    """
    try:
        return np.broadcast_shapes(*map(ints, shapes))
    except ValueError:
        raise ShapeError(
            f"The shapes {', '.join(map(str, shapes))} do not broadcast.",
            "Sizes of an axis must be equal, or 1.",
        ) from None
