"""Views of cells: which tracer shares memory with which, as NumPy would have it.

A tracer's `alias` slot is unset, FROZEN (it may not be written), C_ORDER (its memory layout is
known), a `Root` (it has views) or a `View` (base, and the steps from base to view).
Views of views go straight to the root. Nothing here is consulted by a read: a write goes up to
the root by the steps' `put`, and the root pushes fresh content to its living views (`cells.py`).

Whether `reshape` and `ravel` give a view or a copy depends on memory layout, which a computed
array of rank 2 does not show. Then the two become *partners*: while both live, writing either
is an error.
"""

import weakref
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.trace import EVAL, FROZEN, Tracer, ctx, run
from ftrace.primitives import linear, slicing
from ftrace.primitives import shape as rows

Shape = tuple[int, ...]


class _Mark:
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


C_ORDER: Final = _Mark("C_ORDER")  # a cell without views whose memory NumPy lays out in C order


class Step(Protocol):
    """One way from an array to a view of it."""

    @property
    def get(self) -> Any:
        """`array -> the view's content`."""

    @property
    def put(self) -> Any:
        """`(array, v) -> array` with the view's content replaced, or None: read-only."""


class Rows:
    """A step of two functions; without `put` the view is read-only."""

    __slots__ = ("get", "put")

    def __init__(self, get: Any, put: Any) -> None:
        self.get = get
        self.put = put


class Root:
    """The alias of a cell that has, or had, views.

    Attributes:
        views: weak references to them; dead ones are dropped when the list has doubled.
        partners: weak references to cells that may share memory with this one.
        c_order: whether the memory is known to be in C order.
    """

    __slots__ = ("c_order", "limit", "partners", "views")

    def __init__(self, c_order: bool) -> None:
        self.views: list[weakref.ref[Tracer]] = []
        self.partners: list[weakref.ref[Tracer]] = []
        self.limit = 16
        self.c_order = c_order

    def add(self, view: Tracer) -> None:
        """Remember a view, weakly."""
        views = self.views
        if len(views) >= self.limit:
            views = self.views = [r for r in views if r() is not None]
            self.limit = max(16, 2 * len(views))
        views.append(weakref.ref(view))


class View:
    """The alias of a view."""

    __slots__ = ("base", "steps")

    def __init__(self, base: Tracer, steps: tuple[Step, ...]) -> None:
        self.base = base
        self.steps = steps

    @property
    def read_only(self) -> bool:
        """Whether some step of it cannot be written."""
        return any(step.put is None for step in self.steps)

    def read(self, root: Any) -> Any:
        """The view's content, from the root's."""
        for step in self.steps:
            root = step.get(root)
        return root

    def write(self, root: Any, v: Any) -> Any:
        """The root's content after the view's became `v`."""
        inner = [root]
        for step in self.steps[:-1]:
            inner.append(step.get(inner[-1]))
        for step in reversed(self.steps):
            v = step.put(inner.pop(), v)
        return v


def alias_of(x: Tracer) -> Any:
    """The alias slot, or None if it is unset."""
    return getattr(x, "alias", None)


def root_of(x: Tracer) -> Tracer:
    """The cell a tracer is a view of, or itself."""
    alias = alias_of(x)
    return alias.base if type(alias) is View else x


def record_of(root: Tracer) -> Root:
    """The record of a cell's views, made when first needed."""
    alias = alias_of(root)
    if type(alias) is not Root:
        alias = root.alias = Root(alias is C_ORDER)
    return alias


def link(x: Tracer, y: Any, step: Step) -> Any:
    """Make `y` a view of `x`.

    Args:
        x: the array.
        y: `step.get(x)`; where that is `x` itself, a new object is made.
        step: how to read and write it.

    Returns:
        The view. Views of frozen arrays, and of arrays of an enclosing region, are not followed:
        neither can be written.
    """
    if y is x:
        y = x.fresh()
    alias = getattr(x, "alias", None)
    if type(alias) is View:
        base, steps = alias.base, (*alias.steps, step)
        alias = getattr(base, "alias", None)
    else:
        base, steps = x, (step,)
    y.alias = View(base, steps)
    if alias is not FROZEN and base.owner is ctx.trace:
        (alias if type(alias) is Root else record_of(base)).add(y)
    return y


def as_view(
    x: Any, y: Any, get: Callable[[Any], Any], put: Callable[[Any, Any], Any] | None
) -> Any:
    """Make `y = get(x)` a view of `x`, as NumPy's function of the same name does.

    Args:
        x: the operand. If it is no tracer nothing happens.
        y: the result.
        get: the result from the operand, by rows.
        put: `(x, v) -> x` with the view's content replaced by `v`, by rows; None: read-only.

    Returns:
        The view.
    """
    if isinstance(x, Tracer) and isinstance(y, Tracer):
        return link(x, y, Rows(get, put))
    return y


def read_only(x: Any, y: Any, get: Callable[[Any], Any]) -> Any:
    """Make `y = get(x)` a view that cannot be written, as `broadcast_to` and `diagonal` give."""
    return as_view(x, y, get, None)


def same(x: Any) -> Any:
    """A new name for all of `x`: what `np.asarray(x)` is."""
    return as_view(x, x, lambda b: b, lambda b, v: v)


def kept_order(x: Any, y: Any) -> Any:
    """Mark a new array that keeps the layout of `x` (`np.copy`), where that is known."""
    if isinstance(x, Tracer):
        return c_order(y) if _is_contiguous(x) else y
    return c_order(y) if np.ndim(x) < 2 or x.flags.c_contiguous else y


def c_order(y: Any) -> Any:
    """Mark a new array as laid out in C order: what creation functions and `copy` return."""
    if isinstance(y, Tracer) and alias_of(y) is None:
        y.alias = C_ORDER
    return y


# ---------------------------------------------------------------------------------- rows that view


def transpose(x: Any, *, permutation: Shape) -> Any:
    """The transpose row; a view of a cell."""
    y = linear.transpose(x, permutation=permutation)
    inverse = tuple(int(i) for i in np.argsort(permutation))
    return as_view(
        x,
        y,
        lambda b: linear.transpose(b, permutation=permutation),
        lambda b, v: linear.transpose(v, permutation=inverse),
    )


def rev(x: Any, *, dimensions: Shape) -> Any:
    """The rev row; a view of a cell."""
    y = rows.rev(x, dimensions=dimensions)
    return as_view(
        x,
        y,
        lambda b: rows.rev(b, dimensions=dimensions),
        lambda b, v: rows.rev(v, dimensions=dimensions),
    )


def slice(x: Any, **window: Shape) -> Any:
    """The slice row; a view of a cell."""
    y = slicing.slice(x, **window)
    return as_view(
        x,
        y,
        lambda b: slicing.slice(b, **window),
        lambda b, v: slicing.update_slice(b, v, **window),
    )


def squeeze(x: Any, *, dimensions: Shape) -> Any:
    """The squeeze row; a view of a cell."""
    return reshaped(x, rows.squeeze(x, dimensions=dimensions))


def expand_dims(x: Any, *, dimensions: Shape) -> Any:
    """The expand_dims row; a view of a cell."""
    return reshaped(x, rows.expand_dims(x, dimensions=dimensions))


def reshape(x: Any, *, new_sizes: Shape) -> Any:
    """The reshape row; a view of a cell where NumPy gives one."""
    return reshaped(x, rows.reshape(x, new_sizes=new_sizes))


def ravel(x: Any) -> Any:
    """All elements in one axis; a view of a cell whose memory is contiguous."""
    return reshaped(x, rows.reshape(x, new_sizes=(typeof(x).size,)), contiguous=True)


def flat(x: Any) -> Any:
    """All elements in C order, always written through: what `x.flat` is."""
    a = typeof(x)
    return as_view(
        x,
        rows.reshape(x, new_sizes=(a.size,)),
        lambda b: rows.reshape(b, new_sizes=(a.size,)),
        lambda b, v: rows.reshape(v, new_sizes=a.shape),
    )


# ---------------------------------------------------------------------------------- reshape


def reshaped(x: Any, y: Any, *, contiguous: bool = False) -> Any:
    """Make `y`, `x` in another shape, a view of `x` where NumPy's reshape gives one.

    Args:
        x: the operand.
        y: the result.
        contiguous: whether the result must be contiguous, as that of `ravel`.

    Returns:
        A view, a cell of its own, or, where that depends on an unknown layout, a partner.
    """
    if not isinstance(x, Tracer) or not isinstance(y, Tracer):
        return y
    if y is x:
        y = x.fresh()
    shape = x.aval.shape
    shares = _shares(x, y.aval.shape, contiguous)
    if shares is None:
        partner(root_of(x), y)
        return y
    if not shares:
        return c_order(y)
    sizes = y.aval.shape
    step = Rows(
        lambda b: rows.reshape(b, new_sizes=sizes), lambda b, v: rows.reshape(v, new_sizes=shape)
    )
    return link(x, y, step)


def _long(shape: Shape) -> Shape:
    return tuple(n for n in shape if n != 1)


def _shares(x: Tracer, sizes: Shape, contiguous: bool) -> bool | None:
    """Whether NumPy's reshape of `x` is a view; None where its layout is not known."""
    root = root_of(x)
    alias = alias_of(root)
    own = _long(x.aval.shape)
    if alias is FROZEN or root.owner is not ctx.trace or 0 in own:
        return True
    if not contiguous and (own == _long(sizes) or len(own) < 2):
        return True
    memory = _memory(x, root)
    if memory is None:
        return None
    if not isinstance(memory, np.ndarray):  # one element
        return True
    if contiguous:
        return memory.flags.c_contiguous
    return np.may_share_memory(memory, np.reshape(memory, sizes))


def _memory(x: Tracer, root: Tracer) -> Any:
    """A NumPy array laid out as `x` would be, or None where the root's layout is not known."""
    alias = alias_of(root)
    known = alias is C_ORDER or (type(alias) is Root and alias.c_order)
    if not known and len(_long(root.aval.shape)) > 1:
        return None
    memory: Any = np.empty(root.aval.shape, np.bool_)
    mine = alias_of(x)
    return run(EVAL, mine.read, memory) if type(mine) is View else memory


def _is_contiguous(x: Tracer) -> bool:
    """Whether `x` is known to be in C order."""
    root = root_of(x)
    if alias_of(root) is FROZEN or root.owner is not ctx.trace:
        return len(x.aval.shape) < 2
    memory = _memory(x, root)
    return not isinstance(memory, np.ndarray | None) or (
        memory is not None and memory.flags.c_contiguous
    )


def partner(x: Tracer, y: Tracer) -> None:
    """Let two arrays of unknown relation keep each other from being written."""
    mine, other = record_of(x), record_of(y)
    for ref in [weakref.ref(x), *living(mine.partners)]:
        partner = ref()
        if partner is not None:
            record_of(partner).partners.append(weakref.ref(y))
            other.partners.append(ref)


def living(refs: list[weakref.ref[Tracer]]) -> list[weakref.ref[Tracer]]:
    """The references whose objects are alive."""
    return [r for r in refs if r() is not None]
