"""Keys with one traced mask: parts of an array whose number is not known while a function traces.

`x[mask]` is a `Selection`: all of the indexed axis, and which of its places are taken. Its size is
a traced integer. Of slices it is a view, with masks of one axis or several (`traced_slices.py`).
`x[mask] = v` is a choice at full size. What a selection does as an operand is in `selections.py`.
Values that are given in the order of the taken places are brought there by their rank, so that
other masks, and arrays of as many parts, fit as in NumPy; that the numbers agree is checked when
the function runs.
"""

import math
from collections.abc import Mapping
from functools import reduce
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
from ftrace.primitives.linear import broadcast_in_dim, permuted, reduce_sum
from ftrace.primitives.shape import reshape

Shape = tuple[int, ...]
INDEX: Final = np.dtype(np.int64)


def is_unknown_mask(item: Any) -> bool:
    """Whether an item of a key is a traced mask whose values are not known."""
    return isinstance(item, Tracer) and item.dtype == np.bool_ and item.known(exact=True) is UNKNOWN


def refused(mask: Tracer, what: str = "") -> ConcretizationTypeError:
    """The error for what needs the number of the parts that a mask takes."""
    return ConcretizationTypeError(
        f"A selection, x[mask] or x[:n], has a size that depends on the values of {mask!r}, which "
        f"are not known while {mask.owner.name} traces the function"
        + (f", and {what}." if what else "."),
        "Use a form with a fixed shape: numpy.where(mask, x, other), `x[mask] = value`, `x[:n] = "
        "value`, elementwise functions of selections, folds such as x[mask].sum().",
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
        return permuted(sized(self.basic.get(x), self.flat), self.order)

    def get(self, x: Any) -> "Selection":
        """What the key reads: a copy, as in NumPy."""
        whole = self._whole(x)
        if whole is x:
            whole = x.fresh() if isinstance(x, Tracer) else copy(x)
        return Selection(whole, {self.axis: self.mask})

    def put(self, x: Any, v: Any) -> Any:
        """`x` with `v`, a selection or what NumPy would store, of its dtype, written there."""
        new = Selection(self._whole(x), {self.axis: self.mask}).written(v)
        new = permuted(new, tuple(int(i) for i in np.argsort(self.order)))
        return self.basic.put(x, sized(new, self.basic.shape))


class Selection:
    """What `x[mask]` is where the mask is traced: an array, some of whose sizes are not known.

    Attributes:
        whole: the array with all places along these axes, a cell; of a slice, a view of the array.
            What is at places not taken means nothing.
        masks: which places are taken, a vector for each axis; of a mask there is one, of slices
            there may be several.
        source: of `nonzero(mask)[i]`: the mask, and i.
    """

    __slots__ = ("masks", "source", "whole")

    def __init__(self, whole: Any, masks: Mapping[int, Tracer], source: Any = None) -> None:
        if not isinstance(whole, Tracer) or not (
            is_view(whole) or whole.owner in (ctx.trace, ctx.trace.home)
        ):
            whole = ctx.trace.lift(whole)  # may be written here
        self.whole = whole
        self.masks = masks
        self.source: tuple[Tracer, int] | None = source

    def __repr__(self) -> str:
        return f"a selection of {typeof(self.whole)!r} with mask={self.mask!r}"

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What isinstance asks: an array."""
        return np.ndarray

    @property
    def mask(self) -> Tracer:
        """The mask, or the first one."""
        return next(iter(self.masks.values()))

    @property
    def dtype(self) -> np.dtype[Any]:
        return typeof(self.whole).dtype

    @property
    def ndim(self) -> int:
        return typeof(self.whole).ndim

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes; those of the axes of masks are traced."""
        sizes = enumerate(typeof(self.whole).shape)
        return tuple(count(self.masks[a]) if a in self.masks else n for a, n in sizes)

    @property
    def size(self) -> Any:
        """How many elements there are: a traced Python integer."""
        return math.prod(self.shape)

    @property
    def backs(self) -> dict[int, Tracer]:
        """The masks by their axes, counted from the end."""
        return {self.ndim - axis: mask for axis, mask in self.masks.items()}

    @property
    def taken(self) -> Any:
        """Which elements are taken, in the shape of `whole`."""
        shape = typeof(self.whole).shape
        return reduce(bitwise_and, (along(m, axis, shape) for axis, m in self.masks.items()))

    def filled(self, number: Any) -> Any:
        """The whole array with a number at places that are not taken."""
        return select(self.taken, self.whole, self.dtype.type(number))

    def narrowed(self, mask: Any) -> "Selection":
        """Of these parts those for which another mask holds, too: of the same memory."""
        return Selection(same(self.whole), {0: bitwise_and(self.mask, mask)})

    def with_whole(self, whole: Any) -> "Selection":
        """The same places of what an elementwise function made of `whole`."""
        return selected(whole, self.backs)

    def written(self, v: Any) -> Any:
        """The whole array after `v`, a selection or what NumPy would store, is written there."""
        shape = typeof(self.whole).shape
        v = placed(v, self.backs)
        extra = max(typeof(v).ndim - len(shape), 0)
        v = sized(v, typeof(v).shape[extra:])
        return select(self.taken, stretch(v, shape), self.whole)


def selected(whole: Any, backs: Mapping[int, Tracer]) -> Selection:
    """A selection of a new array, by masks of axes that are counted from the end."""
    ndim = typeof(whole).ndim
    masks = {ndim - back: mask for back, mask in backs.items()}
    return Selection(whole.fresh() if isinstance(whole, Tracer) else whole, masks)


def along(mask: Any, axis: int, shape: Shape) -> Any:
    """A mask of the places of an axis, in a whole shape."""
    if len(shape) == 1:
        return mask
    return broadcast_in_dim(mask, shape=shape, broadcast_dimensions=(axis,))


def sized(x: Any, shape: Shape) -> Any:
    """`x` with this shape; itself if it has it."""
    return x if typeof(x).shape == shape else reshape(x, new_sizes=shape)


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
        Selection(sized(index, size), {0: sized(mask, size)}, (mask, i))
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
    return permuted(found, order) if typeof(index).ndim else found


def placed(v: Any, backs: Mapping[int, Tracer]) -> Any:
    """`v` with its parts at the places that masks take.

    Args:
        v: a selection, or an array that is broadcast or has a part for every place taken.
        backs: where the parts belong: masks of axes, which are counted from the end.

    Raises:
        ConcretizationTypeError: a selection whose parts lie along another axis.
    """
    own: Mapping[int, Tracer] = {}
    if type(v) is Selection:
        own, v = v.backs, v.whole
        if not own.keys() <= backs.keys():
            raise refused(next(iter(own.values())), "it was combined along another axis")
    for back, mask in backs.items():
        given = own.get(back)
        if given is None:
            v = _spread(v, mask, back)
        elif not is_same(given, mask):
            v = _moved_to(v, given, mask, back)
    return v


def _moved_to(x: Any, given: Any, mask: Any, back: int) -> Any:
    """The parts that one mask takes, at the places that another one takes."""
    many, wanted = count(given), count(mask)
    _refuse(bitwise_and(ne(many, wanted), ne(many, 1)))
    index = gather(places(given), rank(mask), axes=(0,), mode="clip")
    first = gather(places(given), INDEX.type(0), axes=(0,), mode="clip")
    index = select(eq(many, 1), stretch(first, typeof(index).shape), index)
    return picked(x, index, typeof(x).ndim - back)


def _spread(v: Any, mask: Any, back: int) -> Any:
    """The parts of an array, which is broadcast or has one for every place that a mask takes."""
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
