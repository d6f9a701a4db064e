"""Stacking, unstacking and tiling with JAX's signatures, each made of a few rows."""

from collections.abc import Sequence
from typing import Any

from ftrace.core.avals import typeof
from ftrace.core.errors import ShapeError
from ftrace.lax.binding import axis_of, bind, ints, one_per_axis, shape_of
from ftrace.lax.making import concatenate, expand_dims, split, squeeze
from ftrace.primitives import linear, shape


def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Put arrays of one shape side by side along a new axis.

    Args:
        arrays: arrays of one shape and dtype.
        axis: which axis of the result is new.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.stack([np.array([1, 2]), np.array([3, 4])], axis=1)
        array([[1, 3],
               [2, 4]])
    """
    parts = tuple(arrays)
    if not parts:
        raise ShapeError("lax.stack was given no arrays.", "Give at least one.")
    at = axis_of("stack", axis, len(shape_of(parts[0])) + 1)
    for x in parts:
        if shape_of(x) != shape_of(parts[0]):
            raise ShapeError(
                f"lax.stack was given {typeof(parts[0])} and {typeof(x)}.",
                "Stacked arrays have one shape.",
            )
    return concatenate([expand_dims(x, (at,)) for x in parts], at)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The members of an array along an axis, without that axis.

    Args:
        x: an array.
        axis: the axis.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.unstack(np.array([[1, 2], [3, 4]]), 1)
        (array([1, 3]), array([2, 4]))
    """
    at = axis_of("unstack", axis, len(shape_of(x)))
    return tuple(squeeze(part, (at,)) for part in split(x, (1,) * shape_of(x)[at], at))


def tile(operand: Any, reps: Sequence[int]) -> Any:
    """An array repeated as a whole along its axes.

    Args:
        operand: an array.
        reps: how often, for each axis.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.tile(np.array([[1, 2]]), (2, 2))
        array([[1, 2, 1, 2],
               [1, 2, 1, 2]])
    """
    sizes, counts = shape_of(operand), ints(reps)
    one_per_axis("tile", "repetitions", counts, len(sizes))
    if any(r < 0 for r in counts):
        raise ShapeError(f"lax.tile was given {counts} repetitions.", "They are at least 0.")
    pairs = tuple(n for pair in zip(counts, sizes, strict=True) for n in pair)
    inner = tuple(range(1, len(pairs), 2))
    repeated = bind(linear.broadcast_in_dim, operand, shape=pairs, broadcast_dimensions=inner)
    whole = tuple(r * n for r, n in zip(counts, sizes, strict=True))
    return bind(shape.reshape, repeated, new_sizes=whole)
