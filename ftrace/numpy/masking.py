"""Keys with one traced mask: parts of an array whose number is not known while a function traces.

`x[mask]` is a `Selection`: all of the indexed axis, and which of its places are taken. Its size is
a traced integer. `x[mask] = v` is a choice at full size. What a selection does as an operand is in
`selections.py`. Values that are given in the order of the taken places are brought there by their
rank, so that other masks, and arrays of as many parts, fit as in NumPy; that the numbers agree is
checked when the function runs.
"""

import math
from typing import Any, Final

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.device import following
from ftrace.core.errors import ConcretizationTypeError
from ftrace.core.trace import UNKNOWN, Tracer, ctx
from ftrace.numpy.lowerings import truth
from ftrace.numpy.promote import known, stretch, strong, weak
from ftrace.numpy.provenance import is_same
from ftrace.numpy.refusing import refuse
from ftrace.numpy.views import is_view, same
from ftrace.primitives.convert import convert_element_type, copy
from ftrace.primitives.create import iota
from ftrace.primitives.cumulative import cumsum
from ftrace.primitives.elementwise import bitwise_and, clamp, eq, ne, select, sub
from ftrace.primitives.index import gather, scatter
from ftrace.primitives.linear import broadcast_in_dim, reduce_sum, transpose
from ftrace.primitives.shape import reshape

Shape = tuple[int, ...]
INDEX: Final = np.dtype(np.int64)


def is_unknown_mask(item: Any) -> bool:
    """Whether an item of a key is a traced mask whose values are not known."""
    return isinstance(item, Tracer) and item.dtype == np.bool_ and item.known(exact=True) is UNKNOWN


def refused(mask: Tracer, what: str = "") -> ConcretizationTypeError:
    """The error for what needs the number of the parts that a mask takes."""
    return ConcretizationTypeError(
        f"x[mask] has a shape that depends on the values of {mask!r}, which are not known "
        f"while {mask.owner.name} traces the function" + (f", and {what}." if what else "."),
        "Use a form with a fixed shape: numpy.where(mask, x, other), `x[mask] = value`, "
        "elementwise functions of x[mask], folds such as x[mask].sum().",
    )


class MaskedPlan:
    """The plan of a key with one traced mask: a `Basic` that leaves its axes whole, then a choice.

    Args:
        basic: what comes first.
        mask: the boolean tracer.
        at: the first of its axes in what `basic` gives.
        lead: where NumPy puts the axis of the parts.
    """

    __slots__ = ("axis", "basic", "flat", "mask", "order")
    operands = ()
    is_view = False

    def __init__(self, basic: Any, mask: Tracer, at: int, lead: int) -> None:
        shape, k = basic.shape, mask.ndim
        self.basic = basic
        self.flat = (*shape[:at], math.prod(mask.shape), *shape[at + k :])
        rest = [i for i in range(len(self.flat)) if i != at]
        self.order = (*rest[:lead], at, *rest[lead:])
        self.axis = lead
        self.mask = sized(mask.fresh(), (self.flat[at],))

    def _whole(self, x: Any) -> Any:
        """The indexed part of `x`, with the mask's axes made one."""
        return moved(sized(self.basic.get(x), self.flat), self.order)

    def get(self, x: Any) -> "Selection":
        """What the key reads: a copy, as in NumPy."""
        whole = self._whole(x)
        if whole is x:
            whole = x.fresh() if isinstance(x, Tracer) else copy(x)
        return Selection(whole, self.mask, self.axis)

    def put(self, x: Any, v: Any) -> Any:
        """`x` with `v`, a selection or what NumPy would store, of its dtype, written there."""
        new = Selection(self._whole(x), self.mask, self.axis).written(v)
        new = moved(new, tuple(int(i) for i in np.argsort(self.order)))
        return self.basic.put(x, sized(new, self.basic.shape))


class Selection:
    """What `x[mask]` is where the mask is traced: an array, one of whose sizes is not known.

    Attributes:
        whole: the array with all places along `axis`, a cell; of a slice, a view of the array. What
            is at places not taken means nothing.
        mask: which places are taken, a vector.
        axis: that of the parts.
        source: of `nonzero(mask)[i]`: the mask, and i.
    """

    __slots__ = ("axis", "mask", "source", "whole")

    def __init__(self, whole: Any, mask: Tracer, axis: int, source: Any = None) -> None:
        if not isinstance(whole, Tracer) or not (
            is_view(whole) or whole.owner in (ctx.trace, ctx.trace.home)
        ):
            whole = ctx.trace.lift(whole)  # may be written here
        self.whole = whole
        self.mask = mask
        self.axis = axis
        self.source: tuple[Tracer, int] | None = source

    def __repr__(self) -> str:
        return f"x[mask] of {typeof(self.whole)!r} with mask={self.mask!r}"

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What isinstance asks: an array."""
        return np.ndarray

    @property
    def dtype(self) -> np.dtype[Any]:
        return typeof(self.whole).dtype

    @property
    def ndim(self) -> int:
        return typeof(self.whole).ndim

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes; that of the axis of the parts is traced."""
        sizes = typeof(self.whole).shape
        return (*sizes[: self.axis], count(self.mask), *sizes[self.axis + 1 :])

    @property
    def size(self) -> Any:
        """How many elements there are: a traced Python integer."""
        return math.prod(self.shape)

    @property
    def taken(self) -> Any:
        """The mask in the shape of `whole`."""
        return along(self.mask, self.axis, typeof(self.whole).shape)

    def filled(self, number: Any) -> Any:
        """The whole array with a number at places that are not taken."""
        return select(self.taken, self.whole, self.dtype.type(number))

    def narrowed(self, mask: Any) -> "Selection":
        """Of these parts those for which another mask holds, too: of the same memory."""
        return Selection(same(self.whole), bitwise_and(self.mask, mask), self.axis)

    def with_whole(self, whole: Any) -> "Selection":
        """The same places of what an elementwise function made of `whole`."""
        axis = self.axis - self.ndim + typeof(whole).ndim
        return Selection(whole.fresh() if isinstance(whole, Tracer) else whole, self.mask, axis)

    def written(self, v: Any) -> Any:
        """The whole array after `v`, a selection or what NumPy would store, is written there."""
        shape = typeof(self.whole).shape
        v = placed(v, self.mask, len(shape) - self.axis)
        extra = max(typeof(v).ndim - len(shape), 0)
        v = sized(v, typeof(v).shape[extra:])
        return select(self.taken, stretch(v, shape), self.whole)


def along(mask: Any, axis: int, shape: Shape) -> Any:
    """A mask of the places of an axis, in a whole shape."""
    if len(shape) == 1:
        return mask
    return broadcast_in_dim(mask, shape=shape, broadcast_dimensions=(axis,))


def sized(x: Any, shape: Shape) -> Any:
    """`x` with this shape; itself if it has it."""
    return x if typeof(x).shape == shape else reshape(x, new_sizes=shape)


def moved(x: Any, order: Shape) -> Any:
    """`x` with its axes in this order; itself if they are."""
    return x if order == tuple(range(len(order))) else transpose(x, permutation=order)


def nonzero_of(x: Any, wanted: str) -> tuple[Any, ...]:
    """The indices of the elements that are not zero; of traced ones, selections.

    Args:
        x: an array.
        wanted: the function that asks, for the error where its rank is 0.
    """
    mask = truth(strong(x))
    if not is_unknown_mask(mask) or not mask.ndim:
        return np.nonzero(known(x, wanted))
    mask = mask.fresh()
    size = (mask.size,)
    indices = (iota(dtype=INDEX, shape=mask.shape, dimension=i) for i in range(mask.ndim))
    return tuple(
        Selection(sized(index, size), sized(mask, size), 0, (mask, i))
        for i, index in enumerate(indices)
    )


def masks_of(parts: tuple[Any, ...]) -> list[Any]:
    """The items of a key, with the mask itself in the place of its indices."""
    found: list[Any] = []
    left = list(parts)
    while left:
        item = left.pop(0)
        if type(item) is Selection:
            mask = item.mask if item.source is None else item.source[0]
            run = [item, *left[: mask.ndim - 1]]
            if len(run) < mask.ndim or not all(_is_index(x, mask, i) for i, x in enumerate(run)):
                raise refused(item.mask, "it was used as an index")
            del left[: mask.ndim - 1]
            item = mask
        found.append(item)
    return found


def _is_index(x: Any, mask: Tracer, i: int) -> bool:
    return (
        type(x) is Selection and x.source is not None and x.source[0] is mask and x.source[1] == i
    )


# ---------------------------------------------------------------------------------- ranks


def count(mask: Any) -> Any:
    """How many places a mask takes: a traced Python integer."""
    return weak(reduce_sum(convert_element_type(mask, new_dtype=INDEX), axes=(0,)))


def rank(mask: Any) -> Any:
    """For every place how many places before it are taken."""
    ones = convert_element_type(mask, new_dtype=INDEX)
    return sub(cumsum(ones, axis=0, reverse=False), ones)


def places(mask: Any) -> Any:
    """The places that are taken, in their order; then zeros."""
    n = typeof(mask).shape[0]
    here = iota(dtype=INDEX, shape=(n,), dimension=0)
    at = select(mask, rank(mask), INDEX.type(n))
    return scatter(following(np.zeros(n, INDEX)), here, at, axes=(0,), mode="drop")


def picked(x: Any, index: Any, axis: int) -> Any:
    """The parts of `x` at these places of an axis."""
    found = gather(x, index, axes=(axis,), mode="clip")
    order = (*range(1, axis + 1), 0, *range(axis + 1, typeof(found).ndim))
    return moved(found, order) if typeof(index).ndim else found


def placed(v: Any, mask: Tracer, back: int) -> Any:
    """`v` with its parts at the places that `mask` takes.

    Args:
        v: a selection, or an array that is broadcast or has a part for every place taken.
        mask: where the parts belong.
        back: the axis of the parts, counted from the end.

    Raises:
        ConcretizationTypeError: a selection whose parts lie along another axis.
    """
    if type(v) is Selection:
        if v.ndim - v.axis != back:
            raise refused(v.mask, "it was combined with an array along another axis")
        if is_same(v.mask, mask):
            return v.whole
        given, wanted = count(v.mask), count(mask)
        one = eq(given, 1)
        _refuse(bitwise_and(ne(given, wanted), ne(given, 1)))
        index = gather(places(v.mask), rank(mask), axes=(0,), mode="clip")
        first = gather(places(v.mask), INDEX.type(0), axes=(0,), mode="clip")
        return picked(v.whole, select(one, stretch(first, typeof(index).shape), index), v.axis)
    axis = typeof(v).ndim - back
    if axis < 0 or typeof(v).shape[axis] == 1:
        return v
    n = typeof(v).shape[axis]
    _refuse(ne(count(mask), n))
    if not n:
        shape = list(typeof(v).shape)
        shape[axis] = 1
        return np.zeros(tuple(shape), typeof(v).dtype)
    return picked(v, clamp(0, rank(mask), n - 1), axis)


def _refuse(differ: Any) -> None:
    refuse(
        differ,
        ValueError,
        "shape mismatch: the number of values is not that of the places where the mask is true",
    )
