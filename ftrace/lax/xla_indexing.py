"""`gather` and the scatters as XLA has them: windows at index vectors, by dimension numbers.

Each index vector is where a window of an array begins. What the axes of the indices, the windows
and the result are is said by `GatherDimensionNumbers` and `ScatterDimensionNumbers`. All of it is
put in terms of the rows of `primitives/index.py`, which take one index array for each axis: these
are made here by broadcasting starts and places in a window.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.lax.binding import Ints, bind, ints, shape_of
from ftrace.numpy.promote import broadcast_shape, stretch
from ftrace.numpy.updates import filler
from ftrace.primitives import elementwise as e
from ftrace.primitives import index
from ftrace.primitives import scatter as rows
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.create import iota
from ftrace.primitives.linear import add, transpose
from ftrace.primitives.shape import reshape, squeeze
from ftrace.primitives.slicing import slice as slice_row

INDEX: Final = np.dtype(np.int64)


class GatherScatterMode(enum.Enum):
    """What is read or written for a window that is not inside the array."""

    CLIP = 0
    FILL_OR_DROP = 1
    PROMISE_IN_BOUNDS = 2
    ONE_HOT = 3

    @staticmethod
    def from_any(s: Any) -> "GatherScatterMode":
        """The mode of this name; None is FILL_OR_DROP."""
        if isinstance(s, GatherScatterMode):
            return s
        found = _MODES.get(s)
        if found is None:
            raise DtypeError(
                f"lax.gather and the scatters have no mode {s!r}.",
                f"Modes are {', '.join(m for m in _MODES if m)}, and None.",
            )
        return found


_MODES: Final = {
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    None: GatherScatterMode.FILL_OR_DROP,
}


class GatherDimensionNumbers(NamedTuple):
    """Which axes are which in `lax.gather`.

    Attributes:
        offset_dims: axes of the result that are axes of windows.
        collapsed_slice_dims: axes of the operand whose windows have size 1 and are left out.
        start_index_map: to which axis of the operand each part of an index vector belongs.
        operand_batching_dims, start_indices_batching_dims: axes that go together.
    """

    offset_dims: Ints
    collapsed_slice_dims: Ints
    start_index_map: Ints
    operand_batching_dims: Ints = ()
    start_indices_batching_dims: Ints = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axes are which in `lax.scatter` and its kin.

    Attributes:
        update_window_dims: axes of the updates that are axes of windows.
        inserted_window_dims: axes of the operand whose windows have size 1, and that the updates
            have not.
        scatter_dims_to_operand_dims: to which axis of the operand each part of an index vector
            belongs.
        operand_batching_dims, scatter_indices_batching_dims: axes that go together.
    """

    update_window_dims: Ints
    inserted_window_dims: Ints
    scatter_dims_to_operand_dims: Ints
    operand_batching_dims: Ints = ()
    scatter_indices_batching_dims: Ints = ()


class _Windows(NamedTuple):
    """Windows of an array.

    Attributes:
        places: one index array for each axis, of the shape of batches, then windows.
        inside: whether a window is inside, of the shape of batches with axes of size 1 behind.
        batch, window: these shapes.
    """

    places: list[Any]
    inside: Any
    batch: Ints
    window: Ints


def _windows(shape: Ints, starts: Any, sizes: Ints, numbers: Any, clipped: bool) -> _Windows:
    """Where the elements of windows are.

    Args:
        shape: of the array.
        starts: the index vectors, in the last axis.
        sizes: of windows along each axis of the array.
        numbers: of a gather.
        clipped: whether windows are moved inside.
    """
    starts = convert_element_type(starts, new_dtype=INDEX)
    batch = shape_of(starts)[:-1]
    kept = [
        a
        for a in range(len(shape))
        if a not in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    ]
    window = tuple(sizes[a] for a in kept)
    rank = len(batch) + len(window)
    places, inside = [], np.True_
    for a, n in enumerate(shape):
        at: Any = INDEX.type(0)
        if a in numbers.start_index_map:
            at = _part(starts, numbers.start_index_map.index(a), rank)
            last = INDEX.type(n - sizes[a])
            if clipped:
                at = e.clamp(INDEX.type(0), at, last)
            else:
                fits = e.bitwise_and(e.ge(at, INDEX.type(0)), e.le(at, last))
                inside = _together(e.bitwise_and, inside, fits)
        elif a in numbers.operand_batching_dims:
            axis = numbers.start_indices_batching_dims[numbers.operand_batching_dims.index(a)]
            at = _along(batch[axis], axis, rank)
        if a in kept:
            at = _together(add, at, _along(sizes[a], len(batch) + kept.index(a), rank))
        places.append(stretch(at, (*batch, *window)))
    return _Windows(places, inside, batch, window)


def _part(starts: Any, i: int, rank: int) -> Any:
    """One part of all index vectors, with axes of size 1 for windows."""
    shape = shape_of(starts)
    low = (*(0 for _ in shape[:-1]), i)
    found = slice_row(
        starts,
        start_indices=low,
        limit_indices=(*shape[:-1], i + 1),
        strides=(1,) * len(shape),
    )
    found = squeeze(found, dimensions=(len(shape) - 1,))
    return reshape(found, new_sizes=(*shape[:-1], *(1,) * (rank - len(shape) + 1)))


def _along(n: int, axis: int, rank: int) -> Any:
    """0, 1, ... along one axis."""
    shape = tuple(n if a == axis else 1 for a in range(rank))
    return iota(dtype=INDEX, shape=shape, dimension=axis)


def _together(row: Callable[..., Any], x: Any, y: Any) -> Any:
    shape = broadcast_shape(shape_of(x), shape_of(y))
    return row(*(stretch(v, shape) if shape_of(v) else v for v in (x, y)))


def gather(operand: Any, *arguments: Any, **options: Any) -> Any:
    """Elements or windows of an array at integer indices.

    Args:
        operand: an array.
        arguments: as JAX: start_indices, dimension_numbers, slice_sizes. Otherwise those of the
            row: one array of indices for each of the `axes`, as NumPy indexes.
        options: of JAX `mode`, `fill_value`, and hints without effect; of the row `axes`, `mode`.

    Returns:
        What is at these places.

    Raises:
        ShapeError: sizes of windows that do not fit the array.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> numbers = lax.GatherDimensionNumbers((1,), (), (0,))
        >>> lax.gather(np.arange(5.0), np.array([[1], [3]]), numbers, (2,))
        array([[1., 2.], [3., 4.]])
        >>> lax.gather(np.arange(5.0), np.array([1, 3]), axes=(0,), mode="clip")
        array([1., 3.])
    """
    if "axes" in options:
        return bind(index.gather, operand, *arguments, **options)
    return _gathered(operand, *arguments, **options)


def _gathered(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    **options: Any,
) -> Any:
    mode = GatherScatterMode.from_any(options.pop("mode", None))
    fill = options.pop("fill_value", None)
    _check_hints("gather", options)
    numbers, shape = GatherDimensionNumbers(*dimension_numbers), shape_of(operand)
    sizes = ints(slice_sizes, "slice_sizes of lax.gather")
    if len(sizes) != len(shape) or any(not 0 <= w <= n for w, n in zip(sizes, shape, strict=False)):
        raise ShapeError(
            f"lax.gather was given slice_sizes {sizes} for an array of shape {shape}.",
            "Give one size for each axis, at most that of the axis.",
        )
    filling = mode is GatherScatterMode.FILL_OR_DROP
    found = _windows(shape, start_indices, sizes, numbers, not filling)
    axes = tuple(range(len(shape)))
    y = index.gather(operand, *found.places, axes=axes, mode="clip") if shape else operand
    whole = (*found.batch, *found.window)
    y = stretch(y, whole)
    if filling:
        dtype = typeof(y).dtype
        y = e.select(stretch(found.inside, whole), y, filler(dtype, fill))
    rank = len(whole)
    offsets = tuple(numbers.offset_dims)
    rest = iter(range(len(found.batch)))
    behind = iter(range(len(found.batch), rank))
    order = tuple(next(behind) if a in offsets else next(rest) for a in range(rank))
    return transpose(y, permutation=order)


def _check_hints(name: str, options: dict[str, Any]) -> None:
    for key in options:
        if key not in ("indices_are_sorted", "unique_indices"):
            raise TypeError(f"{name}() got an unexpected keyword argument {key!r}")


def _scatter(row: Any, doc: str) -> Callable[..., Any]:
    """A scatter as XLA has it, or the row's."""

    def scattering(operand: Any, *arguments: Any, **options: Any) -> Any:
        if "axes" in options:
            return bind(row, operand, *arguments, **options)
        return _scattered(row, operand, *arguments, **options)

    scattering.__name__ = scattering.__qualname__ = row.name
    scattering.__doc__ = (
        f"{doc}\n\nArgs:\n    operand: an array.\n    arguments: as JAX: scatter_indices, updates,"
        " dimension_numbers. Otherwise those\n        of the row: the values, then one array of "
        "indices for each of the `axes`.\n    options: of JAX `mode`, and hints without effect; of "
        "the row `axes`, `mode`."
    )
    return scattering


def _scattered(
    row: Any,
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    **options: Any,
) -> Any:
    mode = GatherScatterMode.from_any(options.pop("mode", None))
    _check_hints(row.name, options)
    numbers, shape = ScatterDimensionNumbers(*dimension_numbers), shape_of(operand)
    given, windows = shape_of(updates), tuple(numbers.update_window_dims)
    collapsed = tuple(numbers.inserted_window_dims)
    batching = tuple(numbers.operand_batching_dims)
    widths = iter(given[a] for a in windows)
    sizes = tuple(1 if a in (*collapsed, *batching) else next(widths) for a in range(len(shape)))
    as_gather = GatherDimensionNumbers(
        windows,
        collapsed,
        tuple(numbers.scatter_dims_to_operand_dims),
        batching,
        tuple(numbers.scatter_indices_batching_dims),
    )
    clipped = mode is not GatherScatterMode.FILL_OR_DROP
    found = _windows(shape, scatter_indices, sizes, as_gather, clipped)
    rest = [a for a in range(len(given)) if a not in windows]
    values = transpose(updates, permutation=(*rest, *windows))
    places = found.places
    if not clipped and places:
        whole = (*found.batch, *found.window)
        out = e.bitwise_not(stretch(found.inside, whole))
        places = [e.select(out, INDEX.type(n), p) for p, n in zip(places, shape, strict=True)]
    return row(operand, values, *places, axes=tuple(range(len(shape))), mode="drop")


scatter = _scatter(index.scatter, "An array with updates written into windows of it.")
scatter_add = _scatter(index.scatter_add, "An array with updates added to windows of it.")
scatter_mul = _scatter(rows.scatter_mul, "An array with windows multiplied by updates.")
scatter_min = _scatter(rows.scatter_min, "The smaller of windows of an array and updates.")
scatter_max = _scatter(rows.scatter_max, "The larger of windows of an array and updates.")


def scatter_sub(
    operand: Any, scatter_indices: Any, updates: Any, *rest: Any, **options: Any
) -> Any:
    """An array with updates subtracted from windows of it; arguments as of `scatter_add`.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> lax.scatter_sub(np.zeros(3), np.array([[1]]), np.array([2.0]), numbers)
        array([ 0., -2.,  0.])
    """
    return scatter_add(operand, scatter_indices, e.neg(updates), *rest, **options)
