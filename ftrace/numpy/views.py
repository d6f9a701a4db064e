"""Views of cells: which tracer shares memory with which, as NumPy would have it.

A tracer's `alias` slot is unset, Frozen (it may not be written), a `ViewLayout` (how its memory is
laid out is known), a `Root` (it has views), a `View` (base, and the steps from base to view) or
`Chosen` (a traced decision chose between several such views). Views of views go straight to the
root. Nothing here is consulted by a read: a write goes up to the root by the steps' `put`, and the
root pushes fresh content to its living views (`cells.py`).

Two arrays that may share memory, or may not, are *partners*: while both live, writing either is an
error. So are the result of a reshape and its operand where the layout is not known (`layouts.py`),
and two arrays of which a loop does not tell whether they are one.
"""

import weakref
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from ftrace.core.trace import Frozen, Tracer, ctx, holds_array, is_cell
from ftrace.primitives import linear
from ftrace.primitives import shape as rows
from ftrace.primitives.compare import bitwise_not, bitwise_or, select
from ftrace.primitives.convert import convert_element_type

Shape = tuple[int, ...]
MEMORY: Final = (
    "may share its memory with the result of a reshape or ravel, which in NumPy depends on a "
    "memory layout that is not known here"
)


class ViewLayout:
    """How a cell without views lies in memory.

    Args:
        axes: from the outermost to the innermost, without gaps; None: C order.
        strides: in elements, where there are gaps, or neighbours lie backwards.
    """

    __slots__ = ("axes", "strides")
    holds_array = True

    def __init__(self, axes: Shape | None, strides: Shape | None = None) -> None:
        self.axes, self.strides = axes, strides

    def memory(self, shape: Shape, dtype: Any) -> np.ndarray[Any, Any] | None:
        """A NumPy array that lies so; None where that is not known."""
        if self is UNCERTAIN:
            return None
        if self.strides is not None:
            return strided(shape, np.dtype(dtype), self.strides)
        if self.axes is None:
            return np.empty(shape, dtype)
        whole = np.empty([shape[i] for i in self.axes], dtype)
        return whole.transpose(np.argsort(self.axes))


def strided(shape: Shape, dtype: np.dtype[Any], strides: Sequence[int]) -> np.ndarray[Any, Any]:
    """A NumPy array with these strides, in elements."""
    size = dtype.itemsize
    ends = [s * size * (n - 1) for s, n in zip(strides, shape, strict=True)] if all(shape) else []
    first = -sum(min(end, 0) for end in ends)
    memory = np.empty(first + sum(max(end, 0) for end in ends) + size, np.uint8)
    return np.ndarray(shape, dtype, memory.data, first, [s * size for s in strides])


def lies_like(y: Tracer, x: np.ndarray[Any, Any]) -> Tracer | None:
    """Mark a new array as laid out as a plain one; None where its strides are no whole elements."""
    if np.empty_like(x).strides == x.strides or not x.size:
        return y
    if any(s % x.itemsize for s in x.strides):
        return None
    y.alias = ViewLayout(None, tuple(s // x.itemsize for s in x.strides))
    return y


C_ORDER: Final = ViewLayout(None)
UNCERTAIN: Final = ViewLayout(None, ())  # traced values decide; also of one axis it may have gaps


class Step(Protocol):
    """One way from an array to a view of it."""

    @property
    def get(self) -> Any:
        """`array -> the view's content`."""

    @property
    def put(self) -> Any:
        """`(array, v) -> array` with the view's content replaced, or None: read-only."""

    @property
    def operands(self) -> Any:
        """Traced indices that say where; `renewed(operands)` is the step with others."""


class Rows:
    """A step of two functions; without `put` the view is read-only.

    Steps that do the same must be the same object: `lru_cache` what makes them.
    """

    __slots__ = ("get", "put")
    operands = ()

    def __init__(self, get: Any, put: Any) -> None:
        self.get = get
        self.put = put


class Root:
    """The alias of a cell that has, or had, views.

    Attributes:
        views: weak references to them; dead ones are dropped when the list has doubled.
        partners: weak references to cells that may share memory with this one, and why.
        layout: how the memory is laid out, if that is known.
    """

    __slots__ = ("layout", "limit", "partners", "views")

    def __init__(self, layout: ViewLayout | None) -> None:
        self.views: list[weakref.ref[Tracer]] = []
        self.partners: list[tuple[weakref.ref[Tracer], str]] = []
        self.limit = 16
        self.layout = layout

    @property
    def holds_array(self) -> bool:
        """Of rank 0: whether it is an array."""
        return self.layout is not None

    def add(self, view: Tracer) -> None:
        """Remember a view, weakly."""
        views = self.views
        if len(views) >= self.limit:
            views = self.views = [r for r in views if r() is not None]
            self.limit = max(16, 2 * len(views))
        views.append(weakref.ref(view))

    def living(self) -> list[Tracer]:
        """The views that somebody may still read."""
        found = [v for r in self.views if (v := r()) is not None and v.owner.alive]
        if len(found) < len(self.views):
            self.views = [weakref.ref(v) for v in found]
        return found

    def living_partners(self) -> list[tuple[Tracer, str]]:
        """The cells that may share memory with this one and may still be read, and why."""
        found = [(x, why) for r, why in self.partners if (x := r()) is not None and x.owner.alive]
        if len(found) < len(self.partners):
            self.partners = [(weakref.ref(x), why) for x, why in found]
        return found


class View:
    """The alias of a view."""

    __slots__ = ("base", "steps")

    def __init__(self, base: Tracer, steps: tuple[Step, ...]) -> None:
        self.base = base
        self.steps = steps

    @property
    def holds_array(self) -> bool:
        """Of rank 0: whether it is an array, which views of arrays are."""
        return holds_array(self.base)


class Way(NamedTuple):
    """One of the views that an array may be.

    Attributes:
        base: the cell whose memory it shows; a plain array of the user's cannot be written.
        steps: from there to the view.
        when: a traced boolean that tells whether it is this one; None: it always is.
    """

    base: Any
    steps: tuple[Step, ...]
    when: Any

    def read(self) -> Any:
        """The view's content, from the base's."""
        return read(self.steps, self.base)

    def write(self, v: Any) -> Any:
        """The base's content after the view's became `v`."""
        inner = [self.base]
        for step in self.steps[:-1]:
            inner.append(step.get(inner[-1]))
        for step in reversed(self.steps):
            v = step.put(inner.pop(), v)
        return v if self.when is None else select(self.when, v, self.base)

    def converted(self, own: Any, wanted: Any) -> "Way":
        """The same view, in another dtype than its own: a traced decision promotes numbers."""
        return (
            self
            if own == wanted
            else Way(self.base, (*self.steps, _converting(own, wanted)), self.when)
        )


class Chosen:
    """The alias of an array that a traced decision chose: one of several views.

    Attributes:
        ways: the views; exactly one of them holds.
        place: which decision it was, for messages.
    """

    __slots__ = ("place", "ways")

    def __init__(self, ways: tuple[Way, ...], place: str) -> None:
        self.ways = ways
        self.place = place

    @property
    def holds_array(self) -> bool:
        """Of rank 0: whether it is an array."""
        return all(holds_array(way.base) for way in self.ways)


@lru_cache(maxsize=256)
def _converting(own: Any, wanted: Any) -> Rows:
    return Rows(
        lambda b: convert_element_type(b, new_dtype=wanted),
        lambda b, v: convert_element_type(v, new_dtype=own),
    )


def read(steps: Iterable[Step], x: Any) -> Any:
    """What steps lead to from an array."""
    for step in steps:
        x = step.get(x)
    return x


def alias_of(x: Tracer) -> Any:
    """The alias slot, or None if it is unset."""
    return getattr(x, "alias", None)


def ways_of(x: Any) -> tuple[Way, ...]:
    """The views that an array may be: of one cell, which may be itself, or of several."""
    alias = getattr(x, "alias", None)
    if type(alias) is View:
        return (Way(alias.base, alias.steps, None),)
    return alias.ways if type(alias) is Chosen else (Way(x, (), None),)


def may_be_cell(x: Any) -> bool:
    """Whether `x += 1` writes into a value, or does if a traced value decides so."""
    return any(is_cell(way.base) for way in ways_of(x))


def content(x: Tracer) -> Any:
    """What a view shows, from its bases."""
    *others, last = ways_of(x)
    found = last.read()
    for way in reversed(others):
        found = select(way.when, way.read(), found)
    return found


def record_of(root: Tracer) -> Root:
    """The record of a cell's views, made when first needed."""
    alias = alias_of(root)
    if type(alias) is not Root:
        alias = root.alias = Root(alias)
    return alias


def is_reachable(root: Any) -> bool:
    """Whether the running function may write a cell: its own, or, lifted, one of those around it.

    Args:
        root: a cell, no view.
    """
    if type(root) is np.ndarray or not isinstance(root, Tracer):
        return False
    if type(alias_of(root)) is Frozen:
        return False
    trace, owner = ctx.trace, root.owner
    while owner is not trace and owner is not trace.home:
        if getattr(trace, "cells", None) is None:
            return False
        trace = trace.parent
    return True


def link(x: Tracer, y: Any, step: Step) -> Any:
    """Make `y` a view of `x`.

    Args:
        x: the array.
        y: `step.get(x)`; where that is `x` itself, a new object is made.
        step: how to read and write it.

    Returns:
        The view. Views of frozen arrays, and of arrays that cannot be written here, are not
        followed.
    """
    if y is x:
        y = x.fresh()
    alias = getattr(x, "alias", None)
    if type(alias) is View:
        base, steps = alias.base, (*alias.steps, step)
        alias = getattr(base, "alias", None)
    elif type(alias) is Chosen:
        ways = [Way(w.base, (*w.steps, step), w.when) for w in alias.ways]
        return chosen(y, ways, alias.place)
    else:
        base, steps = x, (step,)
    y.alias = View(base, steps)
    if is_reachable(base):
        (alias if type(alias) is Root else record_of(base)).add(y)
    return y


def combined(ways: Iterable[Way]) -> tuple[Way, ...]:
    """The same views, each once: several decisions may lead to one."""
    by_base: dict[int, list[Way]] = {}
    for way in ways:
        alike = by_base.setdefault(id(way.base), [])
        for i, other in enumerate(alike):
            if other.steps == way.steps and other.when is not None and way.when is not None:
                alike[i] = other._replace(when=bitwise_or(other.when, way.when))
                break
        else:
            alike.append(way)
    return tuple(way for alike in by_base.values() for way in alike)


def chosen(y: Tracer, ways: Iterable[Way], place: str) -> Tracer:
    """Make `y` an array that is one of several views."""
    ways = combined(ways)
    first = ways[0]
    if all(w.base is first.base and w.steps == first.steps for w in ways) and first.steps:
        y.alias = View(first.base, first.steps)
    else:
        y.alias = Chosen(ways, place)
    for base in {id(w.base): w.base for w in ways}.values():
        if is_reachable(base):
            record_of(base).add(y)
    return y


def nowhere_else(ways: Iterable[Way]) -> Any:
    """A traced boolean: none of these ways holds."""
    some = None
    for way in ways:
        some = way.when if some is None else bitwise_or(some, way.when)
    return bitwise_not(some)


def stepped(x: Any, y: Any, step: Step) -> Any:
    """Make `y = step.get(x)` a view of `x`, as NumPy's function does, if both are traced."""
    return link(x, y, step) if isinstance(x, Tracer) and isinstance(y, Tracer) else y


_SAME: Final = Rows(lambda b: b, lambda b, v: v)


def is_within(y: Tracer, x: Tracer) -> bool:
    """Whether `y` is certainly a view of memory that `x` shows, too."""
    return {id(way.base) for way in ways_of(y)} <= {id(way.base) for way in ways_of(x)}


def is_view(x: Any) -> bool:
    """Whether an array shows memory that is not its own."""
    return any(way.base is not x for way in ways_of(x))


def same(x: Any) -> Any:
    """A new name for all of `x`: what `np.asarray(x)` is."""
    return stepped(x, x, _SAME)


# ---------------------------------------------------------------------------------- layouts


def fortran(rank: int) -> ViewLayout:
    """Fortran order: the first axis is innermost."""
    return ViewLayout(tuple(range(rank))[::-1])


def laid(y: Any, layout: ViewLayout | None) -> Any:
    """Mark a new array, if its layout is known."""
    return as_cell(y, layout) if isinstance(y, Tracer) and y.aval.shape else y


def as_cell(y: Tracer, layout: ViewLayout | None) -> Tracer:
    """Mark the content of a cell as a cell that is laid out alike; of rank 0 it is an array."""
    if layout is not None and alias_of(y) is None:
        y.alias = layout
    return y


def c_order(y: Any) -> Any:
    """Mark a new array as laid out in C order."""
    return laid(y, C_ORDER)


def zero_d(y: Any) -> Any:
    """Mark a result as an array, which of rank 0 is no NumPy scalar: `y += 1` writes into it."""
    if type(y) is tuple:
        return tuple(map(zero_d, y))
    if isinstance(y, Tracer) and not holds_array(y):
        y = y.fresh()
        y.alias = C_ORDER
    return y


# ---------------------------------------------------------------------------------- rows that view


@lru_cache(maxsize=1024)
def _transposing(permutation: Shape) -> Rows:
    inverse = tuple(int(i) for i in np.argsort(permutation))
    return Rows(
        lambda b: linear.transpose(b, permutation=permutation),
        lambda b, v: linear.transpose(v, permutation=inverse),
    )


def transpose(x: Any, *, permutation: Shape) -> Any:
    """The transpose row; a view of a cell."""
    y = linear.transpose(x, permutation=permutation)
    return stepped(x, y, _transposing(tuple(permutation)))


@lru_cache(maxsize=1024)
def _reversing(dimensions: Shape) -> Rows:
    return Rows(
        lambda b: rows.rev(b, dimensions=dimensions),
        lambda b, v: rows.rev(v, dimensions=dimensions),
    )


def rev(x: Any, *, dimensions: Shape) -> Any:
    """The rev row; a view of a cell."""
    return stepped(x, rows.rev(x, dimensions=dimensions), _reversing(tuple(dimensions)))


def partner(x: Any, y: Any, why: str) -> None:
    """Let two cells of unknown relation keep each other from being written."""
    if not is_reachable(x) or not is_reachable(y) or x is y:
        return
    for other, reason in [(x, why), *record_of(x).living_partners()]:
        if other is not y:
            record_of(other).partners.append((weakref.ref(y), reason))
            record_of(y).partners.append((weakref.ref(other), reason))
