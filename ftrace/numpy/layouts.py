"""Memory layouts: whether NumPy's reshape, ravel, asarray and copy give a view or a copy.

What creation functions and copies return lies in a known order, and the layout of a view follows
from that of its base: the view is taken of an empty NumPy array that lies as the base does, and
NumPy is asked. A computed array of rank 2 has no known layout. What may then share memory becomes a
partner (`views.py`); what would read the elements in an unknown order is an error.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.device import on_device
from ftrace.core.dtypes import canonical
from ftrace.core.errors import DtypeError, RuleError, TracerAttributeError
from ftrace.core.trace import EVAL, Tracer, holds_array, run
from ftrace.numpy.promote import cast
from ftrace.numpy.views import (
    C_ORDER,
    UNCERTAIN,
    Chosen,
    Root,
    Rows,
    Shape,
    View,
    ViewLayout,
    Way,
    alias_of,
    c_order,
    fortran,
    is_reachable,
    laid,
    link,
    partner,
    same,
    stepped,
    strided,
    transpose,
    ways_of,
    zero_d,
)
from ftrace.primitives import shape as rows
from ftrace.primitives.convert import copy as copy_row

MEMORY = (
    "may share its memory with the result of a reshape, ravel or asarray, which in NumPy depends "
    "on a memory layout that is not known here"
)

# ---------------------------------------------------------------------------------- layouts


def ordered(x: Any, order: str | None, shape: Shape | None = None) -> ViewLayout | None:
    """The layout of a new array that is made from `x` in an order: C, F, A or K.

    Args:
        x: the array it is made from.
        order: as NumPy's functions take it; None is K.
        shape: of the new array, if not that of `x`.

    Raises:
        ValueError: there is no such order.
    """
    order = _checked("K" if order is None else order)
    own = typeof(x).shape
    shape = own if shape is None else shape
    if order == "F":
        return fortran(len(shape))
    if order == "C" or len(shape) < 2 or (order == "K" and len(shape) != len(own)):
        return C_ORDER
    memory = memory_of(x)
    if memory is None:
        return None
    kept: Any = order
    new = np.empty_like(memory, order=kept, shape=shape)
    if new.flags.c_contiguous:
        return C_ORDER
    return ViewLayout(tuple(sorted(range(new.ndim), key=lambda i: -new.strides[i])))


def kept(x: Any, y: Any, order: str | None = "K") -> Any:
    """Mark a new array that was made from `x` in an order; of rank 0, as what `x` is."""
    if order != "K":
        _checked(order)
    if not typeof(y).shape:
        return zero_d(y) if holds_array(x) else y
    return laid(y, ordered(x, order))


def _checked(order: str | None) -> Any:
    order = "C" if order is None else order.upper() if type(order) is str else order
    if type(order) is not str:
        raise TypeError(f"order must be str, not {type(order).__name__}")
    if order not in ("C", "F", "A", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    return order


def _known_memory(x: Any, what: str, order: str) -> np.ndarray[Any, Any]:
    memory = memory_of(x)
    if memory is None:
        raise RuleError(
            f"{what}(order={order!r}) reads {typeof(x)!r} in the order of its memory, which is not "
            "known of a computed array.",
            "Say order='C' or order='F', or make a copy in a known order first: x.copy().",
        )
    return memory


def by_rows(x: Any, order: str, what: str) -> bool:
    """Whether an order C, F or A reads the last axis first.

    Raises:
        RuleError: A, of an array whose layout is not known.
    """
    if _checked(order) == "A":
        flags = _known_memory(x, what, order).flags
        return not flags.f_contiguous or bool(flags.c_contiguous)
    return order == "C"


def reading(x: Any, order: str, what: str) -> Any:
    """`x` with its axes so that C order reads it as another order does.

    Raises:
        RuleError: A or K, of an array whose layout is not known.
    """
    axes = tuple(range(typeof(x).ndim))
    if order == "K":
        strides = _known_memory(x, what, order).strides
        axes = tuple(sorted(axes, key=lambda i: -abs(strides[i])))
    elif not by_rows(x, order, what):
        axes = axes[::-1]
    return x if axes == tuple(range(len(axes))) else transpose(x, permutation=axes)


def memory_of(x: Any) -> np.ndarray[Any, Any] | None:
    """A NumPy array that lies in memory as `x` would, or None where that is not known."""
    if not isinstance(x, Tracer):
        return _like(x)
    layout = _layout(x)
    gaps = type(layout) is ViewLayout and layout.strides is not None
    if len(_long(x.aval.shape)) < 2 and type(alias_of(x)) not in (View, Chosen) and not gaps:
        return np.empty(x.aval.shape, np.bool_)
    found = [_memory(way) for way in ways_of(x)]
    first = found[0]
    agree = first is not None and all(
        m is not None and m.strides == first.strides for m in found[1:]
    )
    return first if agree else None


def layout_of(ways: Iterable[Way]) -> ViewLayout:
    """How an array lies that is one of these views, and of which nothing else is seen."""
    return _common([_memory(way) for way in ways])


def may_have_gaps(ways: Iterable[Way], shape: Shape) -> bool:
    """Whether an array of one axis, that is one of these views, may not be contiguous."""
    return len(_long(shape)) == 1 and layout_of(ways) is not C_ORDER


def joint_layout(layouts: Iterable[ViewLayout], shape: Shape) -> ViewLayout:
    """How an array lies that a traced decision, or a loop, gives one of several layouts."""
    return _common([layout.memory(shape, np.bool_) for layout in layouts])


def _common(found: list[np.ndarray[Any, Any] | None]) -> ViewLayout:
    """The layout of arrays that lie alike."""
    first, *others = found
    if first is None or any(m is None or _strides(m) != _strides(first) for m in others):
        return UNCERTAIN
    if first.flags.c_contiguous:
        return C_ORDER
    return ViewLayout(None, tuple(s // first.itemsize for s in first.strides))


def _strides(memory: np.ndarray[Any, Any]) -> list[int]:
    """Of the axes that have several places."""
    return [s for s, n in zip(memory.strides, memory.shape, strict=True) if n > 1]


class Flags:
    """What is known of the memory that a traced array would have: whether it is contiguous."""

    __slots__ = ("_x",)
    _ORDERS: Final = ("contiguous", "c_contiguous", "f_contiguous", "fnc", "forc", "fortran")

    def __init__(self, x: Tracer) -> None:
        object.__setattr__(self, "_x", x)

    def __getattr__(self, name: str) -> bool:
        if name not in self._ORDERS:
            raise self._refused(name)
        memory = memory_of(self._x)
        if memory is None:
            raise TracerAttributeError(
                f"Whether {self._x!r} is contiguous was asked: the layout of what is computed, or "
                "was given, is not known while a function is traced.",
                "np.ascontiguousarray(x) copies if need be.",
            )
        return bool(getattr(memory.flags, name))

    def __getitem__(self, key: str) -> bool:
        return getattr(self, {"C": "c_contiguous", "F": "f_contiguous"}.get(key, key.lower()))

    def __setattr__(self, name: str, value: Any) -> None:
        raise self._refused(name)

    def __str__(self) -> str:
        raise self._refused("owndata")

    def _refused(self, name: str) -> TracerAttributeError:
        return TracerAttributeError(
            f"{self._x!r} was asked for flags.{name}, or to set it: a traced value has no memory.",
            "What may be written is decided by tracing; copy with x.copy() to write.",
        )


def _small(x: Any) -> Any:
    """A dtype of few bytes whose arrays have the views of those of `x`."""
    return np.complex64 if typeof(x).dtype.kind == "c" else np.bool_


def _like(x: Any) -> np.ndarray[Any, Any]:
    """A plain value as a NumPy array; for one on a device, another that lies as it does."""
    if not on_device(x):
        return np.asarray(x)
    return strided(x.shape, np.dtype(_small(x)), [s // x.dtype.itemsize for s in x.strides])


def _layout(root: Tracer) -> Any:
    """What is known of how a cell lies in memory."""
    alias = alias_of(root)
    return alias.layout if type(alias) is Root else alias


def _memory(way: Way) -> np.ndarray[Any, Any] | None:
    root = way.base
    shape, dtype = typeof(root).shape, _small(root)
    if not isinstance(root, Tracer):
        memory = _like(root)
    else:
        layout = _layout(root)
        if type(layout) is not ViewLayout:
            if len(_long(shape)) > 1:
                return None
            layout = C_ORDER
        memory = layout.memory(shape, dtype)
        if memory is None:
            return None
    for step in way.steps:
        memory = run(EVAL, getattr(step, "sample", step.get), memory)
    return memory if issubclass(type(memory), np.ndarray) else np.empty((), dtype)


# ---------------------------------------------------------------------------------- arranged


def is_arranged(x: Any, order: str | None) -> bool | None:
    """Whether an array lies in an order as it is; None where that is not known."""
    if order is None or _checked(order) == "K":
        return True
    memory = memory_of(x)
    if memory is None:
        return None
    c, f = bool(memory.flags.c_contiguous), bool(memory.flags.f_contiguous)
    return {"C": c, "F": f, "A": c or f}[order.upper()]


def arranged(x: Any, order: str | None) -> Any:
    """`x` itself if it lies in an order, else a copy that does: what `np.asarray` gives."""
    if not isinstance(x, Tracer) or not any(is_reachable(way.base) for way in ways_of(x)):
        return same(x) if isinstance(x, Tracer) else laid(copy_row(x), ordered(x, order))
    lies = is_arranged(x, order)
    if lies:
        return same(x)
    y = laid(copy_row(x), None if lies is None and order == "A" else ordered(x, order))
    return possibly(x, y) if lies is None else y


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


def astype(
    x: Any, dtype: Any, order: str = "K", casting: Any = "unsafe", *, copy: bool = True
) -> Any:
    """What `x.astype` gives: a new array, or for copy=False perhaps `x` itself.

    Raises:
        DtypeError: a conversion that `casting` does not allow.
    """
    own, target = typeof(x).dtype, canonical(dtype)
    if casting != "unsafe" and not np.can_cast(own, target, casting):
        raise DtypeError(
            f"Cannot cast an array of {own} to {target} according to the rule {casting!r}.",
            "Leave casting out, or take a dtype that holds all values.",
        )
    if not copy and own == target:
        return arranged(x, order)
    found = cast(x, target)
    return kept(x, copy_row(x) if found is x else found, order)


@lru_cache(maxsize=1024)
def _reshaping(shape: Shape, sizes: Shape) -> Rows:
    return Rows(
        lambda b: rows.reshape(b, new_sizes=sizes), lambda b, v: rows.reshape(v, new_sizes=shape)
    )


def flat(x: Any) -> Any:
    """All elements in C order, always written through: what `x.flat` is."""
    a = typeof(x)
    sizes = (a.size,)
    return stepped(x, rows.reshape(x, new_sizes=sizes), _reshaping(a.shape, sizes))


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
    shape, sizes = x.aval.shape, y.aval.shape
    shares = _shares(x, sizes, contiguous)
    if shares is None:
        return possibly(x, y)
    return link(x, y, _reshaping(shape, sizes)) if shares else c_order(y)


def possibly(x: Tracer, y: Any) -> Any:
    """A new array that in NumPy may share its memory with `x`, or may not."""
    for way in ways_of(x):
        partner(way.base, y, MEMORY)
    return y


def _long(shape: Shape) -> Shape:
    return tuple(n for n in shape if n != 1)


def _shares(x: Tracer, sizes: Shape, contiguous: bool) -> bool | None:
    """Whether NumPy's reshape of `x` is a view; None where its layout is not known."""
    if not any(is_reachable(way.base) for way in ways_of(x)):
        return True
    return is_view(x, sizes, contiguous)


def is_view(x: Tracer, sizes: Shape, contiguous: bool = False) -> bool | None:
    """Whether NumPy's reshape of `x` is a view, whoever sees `x`; None as for `_shares`."""
    own = _long(x.aval.shape)
    if 0 in own or (not contiguous and (own == _long(sizes) or len(own) < 2)):
        return True
    memory = memory_of(x)
    if memory is None:
        return None
    if contiguous:
        return bool(memory.flags.c_contiguous)
    return np.may_share_memory(memory, np.reshape(memory, sizes))
