"""What a `for` runs over, when the loop may be staged: a length, and an item for a traced number.

`range`, `zip`, `enumerate` and `reversed` of a `for` become `Items` while something is traced.
Those of a known length still run natively, item by item as Python does; one whose length is
traced cannot.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ftrace.control.rows.raising import fail_where
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.device import is_array
from ftrace.core.errors import DtypeError, LiftError, TreeError
from ftrace.core.trace import UNKNOWN, Tracer
from ftrace.core.tree import tree_flatten
from ftrace.lifting.state.iterators import references, taken
from ftrace.lifting.state.leaves import array_type, converted, joined, one_of, same
from ftrace.lifting.state.watching import put_together
from ftrace.numpy.cells import getitem
from ftrace.numpy.indexing import advanced
from ftrace.numpy.joining import stack
from ftrace.numpy.masking import Selection, places
from ftrace.numpy.sorting import take
from ftrace.numpy.ufuncs import equal, minimum
from ftrace.numpy.views import stepped


class Items:
    """The items of a loop.

    Attributes:
        native: what the loop runs over natively; None if the length is traced.
    """

    native: Any = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.native)

    @property
    def length(self) -> Any:
        """How many there are: an int, or a traced integer."""
        raise NotImplementedError

    def values(self) -> Iterable[Any]:
        """The items of Python's containers that are gone over, without what is computed."""
        return ()

    def prepared(self) -> "Items":
        """The same, ready for `at`; called outside of what is staged."""
        return self

    def alone(self, most: int | None = None) -> None:
        """Take what iterators still give, at most so many items (None: all): Python may take fewer.

        Raises:
            LiftError: somebody could tell.
        """

    def at(self, k: Any) -> Any:
        """The item of a traced number."""
        raise NotImplementedError


class Range(Items):
    """`range`."""

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        self.start, self.stop, self.step = (_integer(x) for x in (start, stop, step))
        if not any(_is_unknown(x) for x in (start, stop, step)):
            self.native = range(int(start), int(stop), int(step))
        self._length = self._counted() if self.native is None else len(self.native)

    def _counted(self) -> Any:
        """The traced length: computed before the loop, whose test cannot raise."""
        distance = self.stop if _is(self.start, 0) else self.stop - self.start
        if _is(self.step, 1):
            return distance
        if _is_unknown(self.step):
            fail_where(equal(self.step, 0), (0, 1, self.step), range, ValueError)
        return -(-distance // self.step)

    @property
    def length(self) -> Any:
        return self._length

    def at(self, k: Any) -> Any:
        offset = k if _is(self.step, 1) else k * self.step
        return offset if _is(self.start, 0) else self.start + offset


def _is(x: Any, number: int) -> bool:
    return type(x) is int and x == number


def _is_unknown(x: Any) -> bool:
    return isinstance(x, Tracer) and x.known(exact=False) is UNKNOWN


def _integer(x: Any) -> Any:
    """A bound of a range, as Python takes it."""
    if _is_unknown(x):
        a = typeof(x)
        if a.shape or a.dtype.kind not in "iu":
            raise DtypeError(
                f"range() needs integers, and was given {a}.", "Convert it: `x.astype(int)`."
            )
        return x
    return x.__index__()


class _Counting(Items):
    """The numbers from `start` on: the first part of `enumerate`."""

    def __init__(self, start: Any) -> None:
        self.start = start
        self.native = itertools.count(start)

    @property
    def length(self) -> None:
        return None

    def at(self, k: Any) -> Any:
        return k if _is(self.start, 0) else self.start + k


class Sequential(Items):
    """An array, a list, a tuple, or anything else that can be iterated over."""

    def __init__(self, source: Any) -> None:
        self._stacked: Any = None
        self._sides: list[Any] = []
        if isinstance(source, Tracer | Sequence | dict) or is_array(source):
            self.native = source
        else:
            self.native = _Recorder(source)

    @property
    def length(self) -> int:
        return len(self.native)

    def values(self) -> Iterable[Any]:
        return () if isinstance(self.native, Tracer) or is_array(self.native) else self.native

    def alone(self, most: int | None = None) -> None:
        if type(self.native) is _Recorder:
            self.native.alone(most)

    def prepared(self) -> "Items":
        self.alone()
        source = self.native
        if isinstance(source, range):
            return Range(source.start, source.stop, source.step)
        if not (isinstance(source, Tracer) or is_array(source)):
            self._sides = list(source)
            self._stacked = _stacked(self._sides)
        return self

    def at(self, k: Any) -> Any:
        if self._stacked is None:
            y, shape = _element(self.native, k), typeof(self.native).shape
            return stepped(self.native, y, advanced(shape, k)) if len(shape) > 1 else y
        tree, leaves = self._stacked
        chosen = (x if c is None else one_of(c, k, _element(x, k)) for x, c in leaves)
        return put_together(tree, chosen, self._sides)


def _element(array: Any, k: Any) -> Any:
    return take(array, k, axis=0, mode="clip")


class _Recorder:
    """An iterator whose items can be had again."""

    def __init__(self, source: Iterable[Any]) -> None:
        self._source = iter(source)
        self._seen: list[Any] = []
        self._alone = False

    def __iter__(self) -> Iterator[Any]:
        for k in itertools.count():
            if k == len(self._seen):
                x = _END if self._alone else next(self._source, _END)
                if x is _END:
                    return
                self._seen.append(x)
            yield self._seen[k]

    def __len__(self) -> int:
        if not self._alone:
            self._seen.extend(self._source)
        return len(self._seen)

    def alone(self, most: int | None) -> None:
        """What is left, taken as `Items.alone` says."""
        if not self._alone:
            left = None if most is None else most - len(self._seen)
            self._seen += taken(self._source, _OWN, left)
            self._alone = True

    def counted(self) -> int:
        """The references to an iterator that this alone holds."""
        return references(self._source)


_END: Final = object()
_OWN: Final = _Recorder(()).counted()


def _stacked(values: list[Any]) -> Any:
    """Equal trees as one tree of stacked arrays: (tree, [(leaf, what was stacked)])."""
    if not values:
        return tree_flatten(())[1], []
    try:
        flat = [tree_flatten(v) for v in values]
    except TreeError:
        flat = []
    trees = {tree for _, tree in flat}
    if len(trees) != 1:
        raise _not_alike(values)
    (tree,) = trees
    columns = list(zip(*(leaves for leaves, _ in flat), strict=True))
    return tree, [_column(list(c), values) for c in columns]


def _column(parts: list[Any], values: list[Any]) -> tuple[Any, list[Any] | None]:
    if all(same(parts[0], p) for p in parts):
        return parts[0], None
    wanted: ShapedArray | None = array_type(parts[0])
    for p in parts[1:]:
        a = array_type(p)
        wanted = None if a is None or wanted is None else joined(wanted, a)
    if wanted is None:
        raise _not_alike(values)
    return stack([converted(p, wanted) for p in parts]), parts


def _not_alike(values: list[Any]) -> LiftError:
    return LiftError(
        f"A traced value decides when a loop over {len(values)} items ends, and the items have "
        "different types.",
        "Loop over arrays of one shape, or numbers.",
    )


class Parts(Items):
    """The parts of a selection, `x[mask]` or `x[:n]`: views, as those of an array."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._length = source.shape[0]
        self._places: Any = None
        if type(self._length) is int:
            self.native = [source[i] for i in range(self._length)]

    @property
    def length(self) -> Any:
        return self._length

    def prepared(self) -> "Items":
        if 0 in self._source.masks:
            self._places = places(self._source.masks[0])
        return self

    def at(self, k: Any) -> Any:
        if self._places is None:
            return self._source[k]
        place = take(self._places, k, mode="clip")
        key = (place, *[slice(None)] * (self._source.ndim - 1))
        masks = {axis - 1: mask for axis, mask in self._source.masks.items() if axis}
        found = getitem(self._source.whole, key)
        return Selection(found, masks) if masks else found


class Zip(Items):
    """`zip`, and `enumerate`."""

    def __init__(self, parts: Sequence[Items], strict: bool = False) -> None:
        self.parts = parts
        self.strict = strict
        if all(p.native is not None for p in parts):
            self.native = _Recorder(zip(*parts, strict=strict))

    @property
    def length(self) -> Any:
        lengths = [p.length for p in self.parts]
        known = [n for n in lengths if type(n) is int]
        if self.strict and len(set(known)) > 1:
            raise ValueError(f"zip() arguments have lengths {known}, with strict=True")
        unknown = [n for n in lengths if isinstance(n, Tracer)]
        shortest = [min(known)] if known else []
        first, *others = [*shortest, *unknown]
        for n in others:
            first = minimum(first, n)
        return first

    def values(self) -> Iterable[Any]:
        return itertools.chain.from_iterable(p.values() for p in self.parts)

    def alone(self, most: int | None = None) -> None:
        others = (p for p in self.parts if type(p.native) is not _Recorder)
        known = [n for n in (most, *(p.length for p in others)) if type(n) is int]
        for p in self.parts:
            p.alone(min(known, default=None))

    def prepared(self) -> "Items":
        self.alone()
        self.parts = [p.prepared() for p in self.parts]
        return self

    def at(self, k: Any) -> Any:
        return tuple(p.at(k) for p in self.parts)


class Reversed(Items):
    """`reversed`."""

    def __init__(self, part: Items) -> None:
        self.part = part
        if part.native is not None:
            self.native = _Recorder(reversed(part.native))

    @property
    def length(self) -> Any:
        return self.part.length

    def values(self) -> Iterable[Any]:
        return self.part.values()

    def alone(self, most: int | None = None) -> None:
        self.part.alone(most)

    def prepared(self) -> "Items":
        self.part = self.part.prepared()
        return self

    def at(self, k: Any) -> Any:
        return self.part.at(self.part.length - 1 - k)


def items_of(x: Any) -> Items:
    """Anything that can be iterated over."""
    if isinstance(x, Items):
        return x
    return Parts(x) if type(x) is Selection else Sequential(x)


def ranged(*args: Any) -> Items:
    """`range(...)`."""
    start, stop, step = {1: (0, *args, 1), 2: (*args, 1), 3: args}[len(args)]
    return Range(start, stop, step)


def zipped(*args: Any, strict: bool = False) -> Items:
    """`zip(...)`."""
    return Zip([items_of(x) for x in args], strict)


def enumerated(x: Any, start: Any = 0) -> Items:
    """`enumerate(...)`."""
    return Zip([_Counting(start), items_of(x)])


def backwards(x: Any) -> Items:
    """`reversed(...)`."""
    return Reversed(items_of(x))
