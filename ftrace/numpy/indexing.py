"""NumPy's indexing by rows: every key of `x[key]` as a plan to read and to write.

A key becomes a *plan*: `Basic` (integers, slices, newaxis, Ellipsis) is a slice, a flip and a
change of axes, and is remembered for its shape and key; `Advanced` (integer arrays, masks) is a
`Basic` that leaves the indexed axes whole, then a gather; `MaskedPlan` (a traced mask) is in
`masking.py`. `plan.get(x)` reads; `plan.put(x, v)`
is x with `v` written there. What may be written is in `assigning.py`, `.at` in `updates.py`;
tracers as cells, and views, are in `cells.py`.
"""

import operator
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.device import following, free, is_array, on_device, to_host
from ftrace.core.trace import UNKNOWN, Tracer, holds_array
from ftrace.numpy.index_errors import for_reading, for_writing
from ftrace.numpy.masking import MaskedPlan, is_unknown_mask, masks_of, refused
from ftrace.numpy.promote import check_range, stretch, value
from ftrace.primitives.convert import copy
from ftrace.primitives.index import gather, scatter
from ftrace.primitives.linear import broadcast_in_dim, transpose
from ftrace.primitives.shape import expand_dims, reshape, rev, squeeze
from ftrace.primitives.slicing import slice as slice_row
from ftrace.primitives.slicing import update_slice

Shape = tuple[int, ...]
WHOLE: Final = (None, None, None)  # the slice `:` in a frozen key

_BAD_KEY = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or "
    "boolean arrays are valid indices, not {}"
)


# ---------------------------------------------------------------------------------- basic keys


class Basic:
    """Slices, integers and new axes: `window`, then `flip`, then `drop` and `new` axes.

    Attributes:
        shape: of the result.
        window: params of the slice row, or None where all of the array is taken.
        cut: the shape after the slice.
        flip, drop, new: axes to reverse, to squeeze, to add.
        element: whether only integers were given, so that the result is a copy in NumPy.
    """

    __slots__ = ("cut", "drop", "element", "flip", "new", "shape", "window")
    operands = ()

    shape: Shape
    window: dict[str, Shape] | None
    cut: Shape
    flip: Shape
    drop: Shape
    new: Shape
    element: bool

    def get(self, x: Any) -> Any:
        """What the key reads. `x` itself where nothing changes."""
        if self.window is not None:
            x = slice_row(x, **self.window)
        if self.flip:
            x = rev(x, dimensions=self.flip)
        if self.drop:
            x = squeeze(x, dimensions=self.drop)
        return expand_dims(x, dimensions=self.new) if self.new else x

    def put(self, x: Any, v: Any) -> Any:
        """`x` with `v` (of this plan's shape, or rank 0, and of x's dtype) written there."""
        shape = typeof(v).shape
        u = v
        if shape != self.shape:
            u = broadcast_in_dim(v, shape=self.cut, broadcast_dimensions=())
        elif shape != self.cut:
            u = reshape(v, new_sizes=self.cut)
        if self.flip and shape:
            u = rev(u, dimensions=self.flip)
        if self.window is None:
            return copy(u) if u is v or is_array(v) else u  # plain memory may be written later
        return update_slice(x, u, **self.window)


def _span(part: tuple[Any, Any, Any], n: int) -> tuple[int, int, int, bool]:
    """Start, limit, positive stride of a slice of an axis, and whether it runs backwards."""
    start, stop, step = slice(*part).indices(n)
    count = len(range(start, stop, step))
    if not count:
        return 0, 0, 1, False
    last = start + (count - 1) * step
    return (start, last + 1, step, False) if step > 0 else (last, start + 1, -step, True)


def _integer(i: int, axis: int, n: int) -> int:
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of bounds for axis {axis} with size {n}")
    return i + n if i < 0 else i


def too_many(shape: Shape, given: int) -> IndexError:
    """The error for a key with more indices than the array has axes."""
    return IndexError(
        f"too many indices for array: array is {len(shape)}-dimensional, but {given} were indexed"
    )


def _complete(shape: Shape, items: tuple[Any, ...], used: int) -> list[Any]:
    """The items with Ellipsis spelled out, so that every axis is named."""
    if used > len(shape):
        raise too_many(shape, used)
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    at = dots[0] if dots else len(items)
    return [*items[:at], *[WHOLE] * (len(shape) - used), *items[at + 1 :]]


@lru_cache(maxsize=8192)
def _basic(shape: Shape, items: tuple[Any, ...]) -> Basic:
    """The plan of a frozen key: ints, (start, stop, step), None, Ellipsis."""
    used = sum(item is not None and item is not Ellipsis for item in items)
    windows: list[tuple[int, int, int]] = []
    flip: list[int] = []
    drop: list[int] = []
    new: list[int] = []
    result: list[int] = []
    for item in _complete(shape, items, used):
        axis = len(windows)
        if item is None:
            new.append(len(result))
            result.append(1)
        elif type(item) is tuple:
            start, limit, stride, backwards = _span(item, shape[axis])
            windows.append((start, limit, stride))
            result.append(len(range(start, limit, stride)))
            if backwards:
                flip.append(axis)
        else:
            i = _integer(item, axis, shape[axis])
            windows.append((i, i + 1, 1))
            drop.append(axis)
    plan = Basic()
    plan.cut = tuple(len(range(*w)) for w in windows)
    starts, limits, strides = zip(*windows, strict=True) if windows else ((), (), ())
    full = plan.cut == shape
    plan.window = (
        None if full else {"start_indices": starts, "limit_indices": limits, "strides": strides}
    )
    plan.flip, plan.drop, plan.new, plan.shape = map(tuple, (flip, drop, new, result))
    plan.element = all(type(item) is int for item in items) and not result
    return plan


def _freeze(item: Any) -> Any:
    """A basic item as a hashable: an int, a slice's parts, None or Ellipsis; else UNKNOWN."""
    cls = type(item)
    if cls is int or item is None or item is Ellipsis:
        return item
    if cls is slice:
        start, stop, step = item.start, item.stop, item.step
        if (start is None or type(start) is int) and (stop is None or type(stop) is int):
            return start, stop, step if step is None or type(step) is int else operator.index(step)
        if is_window(item):
            return UNKNOWN
        return tuple(x if x is None else operator.index(x) for x in (start, stop, step))
    if issubclass(type(item), np.integer):
        return int(item)
    return UNKNOWN


def basic(shape: Shape, key: Any) -> Basic | None:
    """The plan of a basic key; None for a key with arrays, lists, booleans or tracers."""
    cls = type(key)
    if cls is int:
        return _basic(shape, (key,))
    if cls is not tuple:
        item = _freeze(key)
        return None if item is UNKNOWN else _basic(shape, (item,))
    items: list[Any] = []
    for k in key:
        item = k if type(k) is int else _freeze(k)
        if item is UNKNOWN:
            return None
        items.append(item)
    return _basic(shape, tuple(items))


# ---------------------------------------------------------------------------------- arrays


class Advanced:
    """A `Basic` that leaves the indexed axes whole, then a gather of them.

    Attributes:
        shape: of the result.
        basic: what comes first.
        axes, indices: the gathered axes and their equally shaped index arrays.
        gathered: the shape of what the gather gives, index axes first.
        permutation: from there to NumPy's order, or None.
    """

    __slots__ = ("axes", "basic", "gathered", "indices", "permutation", "shape")

    def __init__(self, basic: Basic, found: list[tuple[int, Any]], lead: int) -> None:
        shapes = [typeof(i).shape for _, i in found]
        try:
            common = np.broadcast_shapes(*shapes)
        except ValueError:
            raise IndexError(
                "shape mismatch: indexing arrays could not be broadcast together with shapes "
                + " ".join(map(str, shapes))
            ) from None
        self.basic = basic
        self.axes = tuple(axis for axis, _ in found)
        self.indices = tuple(
            i
            if typeof(i).shape == common
            else stretch(i, common)
            if isinstance(i, Tracer) or on_device(i)
            else np.broadcast_to(i, common)
            for _, i in found
        )
        rest = tuple(n for axis, n in enumerate(basic.shape) if axis not in self.axes)
        gathered = common + rest
        k = len(common)
        order = (*range(k, k + lead), *range(k), *range(k + lead, len(gathered)))
        self.gathered = gathered
        self.permutation = order if lead and k else None
        self.shape = tuple(gathered[i] for i in order)

    @property
    def operands(self) -> tuple[Any, ...]:
        """The traced indices."""
        return tuple(i for i in self.indices if isinstance(i, Tracer))

    def renewed(self, operands: Iterable[Any]) -> "Advanced":
        """The same plan with other traced indices."""
        supply = iter(operands)
        return self.at(tuple(next(supply) if isinstance(i, Tracer) else i for i in self.indices))

    def sample(self, x: Any) -> Any:
        """A part of a plain array that lies in memory as what the key reads: with integers 0."""
        inner = self.basic.get(x)
        return inner[tuple(0 if i in self.axes else slice(None) for i in range(inner.ndim))]

    def is_same(self, other: Any) -> bool:
        """Whether another plan names the same places, with the same traced indices."""
        return (
            type(other) is Advanced
            and self.basic is other.basic
            and self.axes == other.axes
            and all(
                a is b or (_is_plain(a) and _is_plain(b) and np.array_equal(a, b))
                for a, b in zip(self.indices, other.indices, strict=True)
            )
        )

    @property
    def is_view(self) -> bool:
        """Whether NumPy gives a view: integers that are no arrays, and an axis that is left."""
        return bool(self.shape) and not any(
            typeof(i).shape or (isinstance(i, Tracer) and holds_array(i)) for i in self.indices
        )

    def at(self, indices: tuple[Any, ...]) -> "Advanced":
        """The same plan with other indices of the same shapes."""
        plan = object.__new__(Advanced)
        for slot in Advanced.__slots__:
            setattr(plan, slot, getattr(self, slot))
        plan.indices = indices
        return plan

    def get(self, x: Any, mode: str = "raise") -> Any:
        """What the key reads."""
        inner, indices = self.basic.get(x), self.indices
        if mode == "raise":
            indices, mode = for_reading(indices, self.axes, self.basic.shape)
        y = gather(inner, *indices, axes=self.axes, mode=mode)
        return y if self.permutation is None else transpose(y, permutation=self.permutation)

    def put(self, x: Any, v: Any, mode: str = "raise", row: Callable[..., Any] = scatter) -> Any:
        """`x` with `v` (of a shape that broadcasts to this plan's) written there."""
        v = stretch(v, self.shape)
        if self.permutation is not None:
            inverse = tuple(int(i) for i in np.argsort(self.permutation))
            v = transpose(v, permutation=inverse)
        inner, indices = self.basic.get(x), self.indices
        if mode == "raise":
            indices, mode = for_writing(indices, self.axes, self.basic.shape)
        changed = row(inner, v, *indices, axes=self.axes, mode=mode)
        return changed if inner is x else self.basic.put(x, changed)


def _is_plain(i: Any) -> bool:
    return issubclass(type(i), np.ndarray)


Plan = Basic | Advanced | MaskedPlan


def is_window(item: Any) -> bool:
    """Whether an item of a key is a slice with traced bounds whose values are not known."""
    return type(item) is slice and (_is_traced(item.start) or _is_traced(item.stop))


def _is_traced(bound: Any) -> bool:
    return (
        isinstance(bound, Tracer)
        and not bound.shape
        and bound.dtype.kind in "iu"
        and bound.known(exact=True) is UNKNOWN
    )


class _Mask:
    """A boolean array in a key, with its values."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array


def _item(item: Any) -> Any:
    """One item of a key: frozen if basic, a `_Mask`, or an integer array or tracer."""
    if on_device(item):
        return _on_device(item, item)
    frozen = _freeze(item)
    if frozen is not UNKNOWN:
        return frozen
    if type(item) is slice:  # with traced bounds, which only arrays that are traced take
        return slice(*map(operator.index, filter(_is_traced, (item.start, item.stop))))
    if isinstance(item, list | tuple):
        item = np.zeros(0, np.intp) if not len(item) else value(item)
    if isinstance(item, Tracer):
        found = item.known(exact=True)
        if on_device(found):
            return _on_device(found, item)
        item = item if found is UNKNOWN else found
    if not isinstance(item, Tracer):
        item = _known_array(item)
    dtype = getattr(item, "dtype", None)
    if dtype is not None and dtype.kind not in "iub":
        raise IndexError(
            f"arrays used as indices must be of integer (or boolean) type, not {dtype}"
        )
    return item


def _on_device(array: Any, item: Any) -> Any:
    """An array of a device in a key: only a mask is read, since its values decide a shape."""
    if array.dtype == np.bool_:
        return _Mask(to_host(array))
    if array.dtype.kind not in "iu":
        raise IndexError(_BAD_KEY.format(typeof(array)))
    return item


def _known_array(item: Any) -> Any:
    if not issubclass(type(item), np.ndarray | bool | np.bool_) and not hasattr(item, "__index__"):
        if issubclass(type(item), np.generic):
            return item
        raise IndexError(_BAD_KEY.format(repr(item)))
    array = np.asarray(item)
    if array.dtype == np.bool_:
        return _Mask(array)
    if not array.ndim and array.dtype.kind in "iu":
        return int(array)
    return following(array)


def check_mask(mask: Any, shape: Shape, axis: int) -> None:
    """Raise `IndexError` unless a mask fits the axes from `axis` on."""
    for i, n in enumerate(mask.shape):
        if n and n != shape[axis + i]:  # an empty mask fits anywhere, as in NumPy
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis + i}; size of axis is "
                f"{shape[axis + i]} but size of corresponding boolean axis is {n}"
            )


def _used(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    if is_unknown_mask(item):
        return item.ndim
    return item.array.ndim if type(item) is _Mask else 1


def _is_array(item: Any) -> bool:
    return type(item) is _Mask or isinstance(item, Tracer) or is_array(item)


def _placed(flags: list[bool], kept: list[int]) -> int:
    """How many kept axes come before the index axes in the result.

    Args:
        flags: per item, whether it counts as an array.
        kept: per item, how many axes of the result it makes if it is no array.
    """
    first = flags.index(True)
    last = len(flags) - flags[::-1].index(True)
    return sum(kept[:first]) if all(flags[first:last]) else 0


def advanced(shape: Shape, key: Any, *, lenient: bool = False) -> Plan:
    """The plan of a key with index arrays.

    Args:
        shape: of the indexed array.
        key: NumPy's key.
        lenient: whether integers out of range are left to the mode (`.at`).
    """
    items = [_item(k) for k in masks_of(key if type(key) is tuple else (key,))]
    used = sum(map(_used, items))
    if used > len(shape):
        raise too_many(shape, used)
    # With an array in the key, an integer counts as an array; Ellipsis only separates.
    flags = [_is_array(i) or type(i) is int for i in items]
    kept = [
        0 if f else len(shape) - used if i is Ellipsis else 1
        for f, i in zip(flags, items, strict=True)
    ]
    lead = _placed(flags, kept)
    unknown = next(filter(is_unknown_mask, items), None)
    if unknown is not None:
        return _masked(shape, _complete(shape, tuple(items), used), unknown, lead)
    first: list[Any] = []  # the key of the basic part
    found: list[tuple[int, Any]] = []  # gathered axes of its result
    axis = place = 0
    for item in _complete(shape, tuple(items), used):
        if type(item) is int and lenient:
            item = np.asarray(item)
        if not _is_array(item):
            first.append(item)
            axis += item is not None
            place += type(item) is not int
            continue
        parts = _parts(item, shape, axis, lenient)
        first.extend([None] if _used(item) == 0 else [WHOLE] * len(parts))
        found.extend((place + i, part) for i, part in enumerate(parts))
        axis += _used(item)
        place += len(parts)
    plain = _basic(shape, tuple(first))
    return Advanced(plain, found, lead) if found else plain  # traced integers that are known


def _masked(shape: Shape, items: list[Any], mask: Tracer, lead: int) -> MaskedPlan:
    """The plan of a key with one traced mask, beside integers, slices and new axes.

    A mask of rank 0 names no axis: all of the array, or nothing, along an axis of its own.
    """
    first: list[Any] = []
    axis = at = 0
    for item in items:
        if item is mask:
            check_mask(mask, shape, axis)
            if mask.shape != shape[axis : axis + mask.ndim]:
                raise refused(mask, f"its shape is {mask.shape}")
            at = sum(type(i) is not int for i in first)
            first.extend([WHOLE] * mask.ndim)
        elif _is_array(item):
            raise refused(mask, "the key has another array, too")
        else:
            first.append(item)
        axis += _used(item)
    return MaskedPlan(_basic(shape, tuple(first)), mask, at, lead)


def _parts(item: Any, shape: Shape, axis: int, lenient: bool) -> list[Any]:
    """The index arrays of one item: one for an array, one an axis for a mask."""
    if type(item) is not _Mask:
        if not lenient:
            check_range(item, axis, shape[axis])
        return [item]
    check_mask(item.array, shape, axis)
    if not item.array.ndim:  # x[True] is x[None][[0]]
        return [np.zeros(int(item.array), np.intp)]
    return [free(i) for i in item.array.nonzero()]


# ---------------------------------------------------------------------------------- both


def plan(shape: Shape, key: Any) -> Plan:
    """How to read and write `key` of an array of this shape.

    Raises:
        IndexError: too many indices, out of range, or of a wrong type.
    """
    found = basic(shape, key)
    return advanced(shape, key) if found is None else found


def getitem(x: Any, key: Any) -> Any:
    """`x[key]` as a value. It may be `x` itself for `x[:]`; cells make a view of it."""
    return plan(typeof(x).shape, key).get(x)
