"""What the rows that move elements share: mapped axes in place, zeros, masks of cotangents.

No rows here; those are in `slicing.py`, `shape.py`, `index.py`, `dynamic.py` and `scatter.py`.
"""

from collections.abc import Sequence
from typing import Any

from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.errors import AxisError
from ftrace.core.primitive import Rule
from ftrace.core.zero import Masked
from ftrace.primitives.compare import select, select_branch
from ftrace.primitives.linear import broadcast_in_dim, broadcast_rank0, move_axis

Ints = tuple[int, ...]


def check_dimensions(name: str, dimensions: Ints, ndim: int, x: ShapedArray) -> None:
    """Raise `AxisError` unless the axes are distinct and in range."""
    if len(set(dimensions)) != len(dimensions) or any(not 0 <= d < ndim for d in dimensions):
        raise AxisError(
            f"{name}: {dimensions} are not distinct axes, for {x}.", f"Use 0 .. {ndim - 1}, once."
        )


def zeros(a: ShapedArray) -> Any:
    """Zeros of an aval (False for booleans); a NumPy scalar for rank 0."""
    zero = a.dtype.type(0)
    return broadcast_rank0(zero, a.shape) if a.shape else zero


def add_axis(axis: Any, x: Any, at: int) -> Any:
    """An unmapped value repeated along a new mapped axis."""
    shape = typeof(x).shape
    kept = tuple(i if i < at else i + 1 for i in range(len(shape)))
    full = (*shape[:at], axis.size, *shape[at:])
    return broadcast_in_dim(x, shape=full, broadcast_dimensions=kept)


def place(axis: Any, x: Any, dim: int | None, at: int) -> Any:
    """A value with its mapped axis at `at`, repeated along it if it has none."""
    return add_axis(axis, x, at) if dim is None else move_axis(x, dim, at)


def bring_together(axis: Any, values: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """Operands of one rank with the mapped axis at one place, and that place."""
    at = next(d for d in dims if d is not None)
    return [place(axis, v, d, at) for v, d in zip(values, dims, strict=True)], at


def inserted(values: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    """Parameters per axis with one for the mapped axis."""
    return (*values[:at], value, *values[at:])


def whole_mask(ct: Masked) -> Any:
    """The mask of a cotangent at the cotangent's shape."""
    shape = typeof(ct.value).shape
    return ct.mask if typeof(ct.mask).shape == shape else broadcast_rank0(ct.mask, shape)


def plain(ct: Any) -> Any:
    """A cotangent without mask: zero where it was masked."""
    if type(ct) is not Masked:
        return ct
    if ct.zeroed:
        return ct.value
    row = select_branch if ct.branch else select
    return row(ct.mask, ct.value, typeof(ct.value).dtype.type(0))


def outside_zero(mask: Any, x: Any) -> Any:
    """Known values as zeros outside of a mask of branches, where they may be infinite."""
    return select_branch(mask, x, typeof(x).dtype.type(0))


def carry(ct: Any, move: Rule) -> Any:
    """A cotangent moved together with its mask."""
    if type(ct) is not Masked:
        return move(ct)
    return ct.with_value(move(ct.value), lambda: move(whole_mask(ct)))
