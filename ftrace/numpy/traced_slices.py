"""Slices with traced bounds: views whose size is known, and selections where it is not.

`x[i:i + 3]` has three elements whatever `i` is: a view, whose start is traced. `x[:i]` is a
`Selection` (`masking.py`), of a mask of consecutive places. Which of the two it is, is guessed from
what the bounds are computed of (`provenance.difference`); that the guess holds, and that NumPy
would not cut the slice at an end of the axis, is checked when the function runs.
"""

import operator
from typing import Any, Final

import numpy as np

from ftrace.control.rows.raising import fail_where
from ftrace.core.avals import typeof
from ftrace.core.device import is_array
from ftrace.core.errors import ConcretizationTypeError, ShapeError
from ftrace.core.trace import Tracer, ctx
from ftrace.numpy.indexing import Shape, is_window, too_many
from ftrace.numpy.masking import INDEX, is_unknown_mask
from ftrace.numpy.promote import cast, strong
from ftrace.numpy.provenance import difference, is_same
from ftrace.numpy.views import Rows, link
from ftrace.primitives.compare import (
    bitwise_and,
    bitwise_not,
    eq,
    ge,
    gt,
    le,
    lt,
    select,
)
from ftrace.primitives.create import iota
from ftrace.primitives.dynamic import dynamic_slice, dynamic_update_slice
from ftrace.primitives.elementwise import add, rem, sub
from ftrace.primitives.slicing import slice as slice_row

FURTHEST: Final = (1 << 63) - 1
_READ_ONLY: Final = Rows(lambda x: x, None)  # from a plain array to all of it as a traced one


class SliceStep:
    """The step from an array to consecutive places of an axis, of which the first is traced.

    Args:
        axis: of the array.
        start: the first place, an int64 in range.
        size: how many there are.
    """

    __slots__ = ("axis", "operands", "size")

    def __init__(self, axis: int, start: Any, size: int) -> None:
        self.axis, self.size = axis, size
        self.operands = (start,)

    def is_same(self, other: Any) -> bool:
        """Whether another step leads to the same places."""
        return (
            type(other) is SliceStep
            and self.axis == other.axis
            and self.size == other.size
            and is_same(self.operands[0], other.operands[0])
        )

    def renewed(self, operands: Any) -> "SliceStep":
        """The same step with another start."""
        (start,) = operands
        return SliceStep(self.axis, start, self.size)

    def _starts(self, x: Any) -> list[Any]:
        starts = [INDEX.type(0)] * typeof(x).ndim
        starts[self.axis] = self.operands[0]
        return starts

    def get(self, x: Any) -> Any:
        """What the slice reads."""
        sizes = _replaced(typeof(x).shape, self.axis, self.size)
        return dynamic_slice(x, *self._starts(x), slice_sizes=sizes)

    def put(self, x: Any, v: Any) -> Any:
        """`x` with `v` written there."""
        return dynamic_update_slice(x, v, *self._starts(x))

    def sample(self, x: Any) -> Any:
        """A part of a plain array that lies in memory as what the slice reads."""
        zeros = (0,) * x.ndim
        ends = _replaced(x.shape, self.axis, self.size)
        return slice_row(x, start_indices=zeros, limit_indices=ends, strides=(1,) * x.ndim)


def _replaced(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


# ---------------------------------------------------------------------------------- keys


def opened(x: Any, key: Any) -> tuple[Any, Any, dict[int, Any]] | None:
    """What is left of a key when its slices with traced bounds have been applied.

    Args:
        x: an array; a plain one gives views that cannot be written.
        key: NumPy's key.

    Returns:
        The array or a view of it, what is left of the key, and masks by axes of the result; None
        if no slice has traced bounds.

    Raises:
        ConcretizationTypeError: a slice of unknown size beside an array or a mask.
        ShapeError: when the function runs, a slice of known size that NumPy would cut.
    """
    items = list(key) if type(key) is tuple else [key]
    if not any(map(is_window, items)):
        return None
    if not isinstance(x, Tracer):
        plain, x = x, ctx.trace.lift(x)
        x = link(plain, x, _READ_ONLY)
    masks: dict[int, Any] = {}
    for at, axis in _axes_of(items, typeof(x).ndim):
        if not is_window(items[at]):
            continue
        n, part = typeof(x).shape[axis], items[at]
        size = _size(part, n)
        items[at] = slice(None, None, _step(part))
        if size is None:
            items[at] = slice(None, None, -1 if _step(part) < 0 else None)
            masks[at] = _mask(part, n)
        else:
            step = _window(part, n, axis, size)
            x = link(x, step.get(x), step)
    if masks and any(map(_is_many, items)):
        raise _refused()
    missing = typeof(x).ndim - sum(map(_used, items))
    kept = [missing if i is Ellipsis else i is None or type(i) is slice for i in items]
    rest = () if all(type(i) is slice and i == slice(None) for i in items) else tuple(items)
    return x, rest, {sum(kept[:at]): mask for at, mask in masks.items()}


def _axes_of(items: list[Any], ndim: int) -> list[tuple[int, int]]:
    """The axis of each item of a key that is a slice."""
    used = [_used(item) for item in items]
    if sum(used) > ndim:
        raise too_many((0,) * ndim, sum(used))
    found, axis = [], 0
    for at, item in enumerate(items):
        if type(item) is slice:
            found.append((at, axis))
        axis += ndim - sum(used) if item is Ellipsis else used[at]
    return found


def _used(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    if is_unknown_mask(item) or (is_array(item) and item.dtype == np.bool_):
        return item.ndim
    return 1


def _is_many(item: Any) -> bool:
    """Whether an item names places by an array."""
    if item is None or item is Ellipsis or type(item) is slice:
        return False
    return bool(np.ndim(item)) or getattr(item, "dtype", np.dtype(int)).kind not in "iu"


def _refused() -> ConcretizationTypeError:
    return ConcretizationTypeError(
        "A slice whose size depends on traced values stands in a key with an array.",
        "Index twice, `x[i][:n]`, choose with numpy.where, or make the bounds static "
        "(static_argnums).",
    )


# ---------------------------------------------------------------------------------- sizes


def _step(part: Any) -> int:
    step = 1 if part.step is None else operator.index(part.step)
    if not step:
        raise ValueError("slice step cannot be zero")
    return step


def _size(part: Any, n: int) -> int | None:
    """How many places a slice spans, strides aside, if its bounds seem to differ by one number."""
    if part.start is None or part.stop is None:
        return None
    between = difference(part.start, part.stop, n)
    size = None if between is None else max(_ahead(part) * between, 0)
    return None if size is None or size > n else size


def _ahead(part: Any) -> int:
    return 1 if _step(part) > 0 else -1


# ---------------------------------------------------------------------------------- places


def _bound(x: Any) -> Any:
    """A bound as an int64; those beyond it are beyond every axis."""
    if not isinstance(x, Tracer):
        return INDEX.type(min(max(operator.index(x), -FURTHEST), FURTHEST))
    x = strong(x)
    if x.dtype == np.uint64:
        furthest = np.uint64(FURTHEST)
        x = select(gt(x, furthest), furthest, x)
    return cast(x, INDEX)


def _forward(x: Any, n: int) -> Any:
    """A bound counted from the front."""
    return select(lt(x, INDEX.type(0)), add(x, INDEX.type(n)), x)


def _window(part: Any, n: int, axis: int, size: int) -> SliceStep:
    """The step of a slice of known size, which is checked."""
    start, stop, ahead = _bound(part.start), _bound(part.stop), _ahead(part)
    zero = INDEX.type(0)
    before, after = lt(start, zero), lt(stop, zero)
    good = eq(before, after)
    lowest = start if ahead > 0 else add(stop, INDEX.type(1))
    first = select(before, add(lowest, INDEX.type(n)), lowest)
    if size:
        fits = bitwise_and(ge(first, zero), le(first, INDEX.type(n - size)))
        same = eq(sub(stop, start), INDEX.type(ahead * size))
        good = bitwise_and(good, bitwise_and(fits, same))
    else:
        moved = sub(stop, start) if ahead > 0 else sub(start, stop)
        good = bitwise_and(good, le(moved, zero))
        first = zero

    def throw(start: Any, stop: Any) -> None:
        own = len(range(n)[int(start) : int(stop) : ahead])
        raise ShapeError(
            f"A slice from {start} to {stop} of an axis of size {n} has {own} elements, and by its "
            f"bounds the function was traced for {size}.",
            "Pad the array; or bound the end, `x[i:min(i + 3, len(x))]`, whose size is not taken "
            "for known.",
        )

    fail_where(bitwise_not(good), (part.start, part.stop), throw)
    return SliceStep(axis, first, size)


def _mask(part: Any, n: int) -> Any:
    """Which places of an axis, or of the reversed axis for a negative stride, a slice takes."""
    step = _step(part)
    here = iota(dtype=INDEX, shape=(n,), dimension=0)
    if step < 0:
        here = sub(INDEX.type(n - 1), here)
    taken: Any = None
    if part.stop is not None:
        taken = (lt if step > 0 else gt)(here, _forward(_bound(part.stop), n))
    first: Any = INDEX.type(0 if step > 0 else n - 1)
    if part.start is not None:
        first = _forward(_bound(part.start), n)
        inside = (ge if step > 0 else le)(here, first)
        taken = inside if taken is None else bitwise_and(taken, inside)
        edge = INDEX.type(0 if step > 0 else n - 1)
        first = select((lt if step > 0 else gt)(first, edge), edge, first)
    if abs(step) > 1:
        ahead = sub(here, first) if step > 0 else sub(first, here)
        on = eq(rem(ahead, INDEX.type(abs(step))), INDEX.type(0))
        taken = bitwise_and(taken, on)
    return taken
