"""Cells: in-place operations of tracers, computed functionally.

A tracer object is a cell. A write computes the new value by rows and copies the new tracer's
slots into the object; nothing that a trace has recorded changes. A write needs the running trace
to be the cell's own, and a cell that is no argument: else it would escape the transformation.
What is a view of what is told in `views.py`, keys are turned into rows by `indexing.py`, NumPy's
functions that write into an argument are in `writers.py`. Reads of cells cost nothing. `CELLS` is
what is installed on `Tracer`.
"""

import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakMethod

import numpy as np

from ftrace.core import hooks, source
from ftrace.core.avals import typeof
from ftrace.core.errors import (
    DtypeError,
    MutationError,
    RuleError,
    ShapeError,
    TracerArrayConversionError,
    TracerAttributeError,
)
from ftrace.core.trace import Frozen, Tracer, ctx, is_cell, is_within, leaked, moved, now
from ftrace.numpy import indexing, ufuncs
from ftrace.numpy.assigning import assignable, setitem_value
from ftrace.numpy.indexing import Advanced, Basic, advanced, basic
from ftrace.numpy.masking import Selection
from ftrace.numpy.promote import cast, static_shape, stretch, value
from ftrace.numpy.provenance import is_same
from ftrace.numpy.shaping import whole_shape
from ftrace.numpy.traced_slices import opened
from ftrace.numpy.updates import SCATTERS, At
from ftrace.numpy.views import (
    C_ORDER,
    Chosen,
    Root,
    View,
    ViewLayout,
    Way,
    alias_of,
    chosen,
    content,
    is_reachable,
    link,
    nowhere_else,
    same,
    ways_of,
    zero_d,
)
from ftrace.primitives.compare import select
from ftrace.primitives.convert import copy
from ftrace.primitives.shape import reshape

# trace -> those that want to know of a cell before it is written
# (lifting/state/local_state.py: Mark)
journals: Final[WeakKeyDictionary[Any, list[WeakMethod[Any]]]] = WeakKeyDictionary()

# ---------------------------------------------------------------------------------- reads


def getitem(x: Tracer, key: Any) -> Any:
    """`x[key]` of a tracer: a view for a basic key, a copy for elements and index arrays."""
    shape = x.aval.shape
    if x.aval.weak:
        raise TypeError(f"{x.__class__.__name__!r} object is not subscriptable")
    plan = basic(shape, key)
    y: Any
    if plan is None:
        left = opened(x, key)
        if left is not None:
            return read(*left)
        found = advanced(shape, key)
        y = found.get(x)
        if not isinstance(found, Basic):
            return link(x, y, found) if found.is_view else y
        plan = found
    else:
        y = plan.get(x)
    if plan.element:
        return y.fresh() if y is x else y
    return link(x, y, plan) if shape else zero_d(link(x, y, plan))


def read_plain(x: Any, key: Any) -> Any:
    """`x[key]` of a plain array and a traced key, which NumPy would ask for its values."""
    left = opened(x, key)
    return indexing.getitem(x, key) if left is None else read(*left)


def read(x: Tracer, key: Any, masks: Any) -> Any:
    """What `traced_slices.opened` left of a key, read: a view, or a selection that is one."""
    found = getitem(x, key) if key else x
    return Selection(same(found) if found is x else found, masks) if masks else found


# ---------------------------------------------------------------------------------- writes


def setitem(x: Tracer, key: Any, v: Any) -> None:
    """`x[key] = v` of a tracer.

    Raises:
        MutationError: where the write would escape the transformation.
        IndexError: a key out of range.
        ShapeError, DtypeError: a value that does not fit.
    """
    check_writable(x)
    left = opened(x, key)
    if left is not None:
        part = read(*left)
        if type(part) is Selection:
            select_into(part, v)
        elif not shows_same(part, v):
            setitem(part, ..., v)
    elif not _is_written(x, key, v):
        store(x, setitem_value(x, key, v))


def select_into(s: Selection, v: Any) -> None:
    """`s[...] = v` of a selection: the places that are taken change, of what it is a view of, too.

    Raises:
        MutationError: where the write would escape the transformation.
    """
    check_writable(s.whole)
    if type(v) is Selection and shows_same(s.whole, v.whole) and _same_masks(s, v):
        return
    store(s.whole, s.written(assignable(v, s.dtype)))


def _same_masks(s: Selection, t: Selection) -> bool:
    return s.masks.keys() == t.masks.keys() and all(
        is_same(mask, t.masks[axis]) for axis, mask in s.masks.items()
    )


def shows_same(x: Any, y: Any) -> bool:
    """Whether two arrays are views of the same places of the same arrays."""
    mine, theirs = ways_of(x), ways_of(y)
    return len(mine) == len(theirs) and all(
        a.base is b.base
        and len(a.steps) == len(b.steps)
        and all(_is_same_step(s, t) for s, t in zip(a.steps, b.steps, strict=True))
        for a, b in zip(mine, theirs, strict=True)
    )


def _is_same_step(s: Any, t: Any) -> bool:
    return s is t or (hasattr(s, "is_same") and s.is_same(t))


def _is_written(x: Tracer, key: Any, v: Any) -> bool:
    """Whether `v` is the view `x[key]` itself, as at the end of `x[key] += w`."""
    if not isinstance(v, Tracer) or type(alias_of(v)) not in (View, Chosen):
        return False
    step = ways_of(v)[0].steps[-1:]
    mine, theirs = ways_of(x), ways_of(v)
    if (
        not step
        or len(mine) != len(theirs)
        or not all(
            a.base is b.base and (*a.steps, *step) == b.steps
            for a, b in zip(mine, theirs, strict=True)
        )
    ):
        return False
    plan = basic(x.aval.shape, key)
    if plan is not None:
        return plan is step[0]
    return type(step[0]) is Advanced and step[0].is_same(advanced(x.aval.shape, key))


def _is_here(x: Tracer) -> bool:
    return x.owner is ctx.trace or x.owner is ctx.trace.home


def put(x: Tracer, new: Tracer) -> None:
    """Let a cell hold something else, in the region that runs; its views are left alone."""
    trace = ctx.trace
    if type(new) is type(x) and new.owner is x.owner is trace and not (journals or moved):
        x.adopt(new)
        return
    new = _own(new)
    for ref in journals.get(trace, ()) if journals else ():
        note = ref()
        if note is not None:
            note(x)
    if _is_here(x):
        x.adopt(new)
        return
    trace.cells.setdefault(id(x), (x, moved.get(id(x))))
    moved[id(x)] = new.fresh()


def _own(v: Any) -> Tracer:
    """A value as the running trace holds it."""
    found = now(v)
    return found if isinstance(found, Tracer) and _is_here(found) else ctx.trace.lift(v)


def store(x: Tracer, new: Any) -> None:
    """Replace the content of a writable cell: of its root if it is a view, and of all views.

    Args:
        x: the cell.
        new: a tracer of the cell's trace, shape and dtype.
    """
    if (type(new) is not type(x)) if _is_here(x) else new.owner is not ctx.trace:
        raise MutationError(
            "A derivative rule wrote a tangent into an array that does not depend on tangents.",
            "Make the array from the tangent (`out = 0.0 * t`), or put its parts together with "
            "numpy.stack or numpy.concatenate.",
        )
    alias = alias_of(x)
    if type(alias) is ViewLayout or alias is None:
        put(x, new)
        return
    ways = ways_of(x)
    for way in ways:
        if way.steps or way.when is not None:
            put(way.base, way.write(new))
    put(x, new)
    push([way.base for way in ways], x)


def push(roots: Iterable[Tracer], but: Tracer | None = None) -> None:
    """Give fresh content to the views of cells that were written, except one that has it."""
    views: dict[int, Tracer] = {}
    for root in roots:
        alias = alias_of(root)
        if type(alias) is Root:
            views.update((id(v), v) for v in alias.living())
    for view in views.values():
        if view is not but:
            put(view, content(view))


def replace(x: Tracer, new: Any, what: str, where: Any = True) -> Tracer:
    """Write a result into `x`, or where a mask is true, as NumPy's `out=` and `where=` do.

    Raises:
        ShapeError: a result that does not broadcast to the cell's shape.
        DtypeError: a conversion that is not of the same kind, a mask that is not of bool.
    """
    check_writable(x)
    a, b = x.aval, typeof(new)
    if not b.weak and not np.can_cast(b.dtype, a.dtype, "same_kind"):
        raise DtypeError(
            f"{what} gives {b.dtype}, which cannot be stored in an array of {a.dtype}.",
            "Make the array of the wider dtype, or convert the result with `.astype`.",
        )
    if len(b.shape) > len(a.shape) or any(
        n not in (1, m) for n, m in zip(b.shape[::-1], a.shape[::-1], strict=False)
    ):
        raise ShapeError(
            f"{what} gives shape {b.shape}, which does not fit an array of shape {a.shape}.",
            "The array written to must have the shape of the result.",
        )
    new = stretch(cast(new, a.dtype), a.shape)
    if where is not True:
        mask = value(bool(where) if where is None or type(where) in (int, float) else where)
        if typeof(mask).dtype != np.bool_:
            raise DtypeError(
                f"{what} was given a mask (where=) of {typeof(mask).dtype}, not of bool.",
                "Compare: `where=x != 0`.",
            )
        new = select(stretch(mask, a.shape), new, x)
    owner = x.owner if _is_here(x) else ctx.trace
    fits = isinstance(new, Tracer) and new.owner is owner
    # A new object: the result may be a cell that shows what is written here.
    store(x, new.fresh() if fits else copy(new))
    return x


def write_out(out: Any, result: Any, where: Any = True) -> Any:
    """Deliver a result to an `out=` argument, or where a mask is true; gives `out`.

    Raises:
        TracerArrayConversionError: `out` is a plain array and the result is traced.
    """
    if isinstance(out, Tracer):
        return replace(out, result, "The operation", where)
    if isinstance(result, Tracer):
        raise TracerArrayConversionError(
            f"A traced result ({result.aval}) was to be written into a plain array (out=).",
            "Make the output with ftrace.numpy.zeros or empty inside the function, or leave out= "
            "out.",
        )
    np.copyto(out, result, where=where)
    return out


# ---------------------------------------------------------------------------------- ufunc.at


def cell(x: Any, what: str) -> Tracer:
    """The target of a write, which must be a traced array that may be written.

    Raises:
        TracerArrayConversionError: it is a plain array.
    """
    if not isinstance(x, Tracer):
        raise TracerArrayConversionError(
            f"{what} was to write a traced value into a plain array.",
            "Make the array with ftrace.numpy.zeros or ftrace.numpy.array inside the function.",
        )
    check_writable(x)
    return x


def ufunc_at(ufunc: np.ufunc, x: Any, indices: Any, v: Any = None) -> None:
    """`ufunc.at(x, indices, v)`: unbuffered, so an element indexed twice changes twice.

    Raises:
        RuleError: a ufunc other than the arithmetic ones, with an element indexed twice.
        DtypeError: a result that is not of the array's kind.
    """
    x = cell(x, f"np.{ufunc.__name__}.at")
    dtype = x.aval.dtype
    values = () if v is None else (value(v),)
    operands = [(dtype, False), *((a.dtype, a.weak) for a in map(typeof, values))]
    result = ufuncs.loop_dtypes(ufunc, tuple(operands), None)[-1]
    if not np.can_cast(result, dtype, "same_kind"):
        raise DtypeError(
            f"np.{ufunc.__name__}.at gives {result}, which an array of {dtype} cannot hold.",
            "Make the array of the wider dtype, or convert the values.",
        )
    method = SCATTERS.get(ufunc.__name__)
    if method is not None and dtype.kind != "b":
        store(x, getattr(At(x)[indices], method)(*values, mode="raise"))
        return
    if not _distinct(x, indices):
        raise RuleError(
            f"np.{ufunc.__name__}.at on a traced array needs indices that are known to differ.",
            "Use one of the arithmetic ufuncs, or x[i] = ufunc(x[i], v) for different indices.",
        )
    setitem(x, indices, ufunc(getitem(x, indices), *values))


def _distinct(x: Tracer, indices: Any) -> bool:
    """Whether no element is indexed twice, as far as is known."""
    parts = indices if type(indices) in (tuple, list) else (indices,)
    if any(isinstance(p, Tracer) for p in parts):
        return False
    touched = np.arange(x.aval.size).reshape(x.aval.shape)[indices]
    return np.unique(touched).size == touched.size


hooks.write_out.give(write_out)
hooks.write_at.give(ufunc_at)


# ---------------------------------------------------------------------------------- permission


def is_writable(x: Any) -> bool:
    """Whether a value is an array that the running function may write, or shows one."""
    if not isinstance(x, Tracer) or not is_cell(x):
        return False
    return all(is_reachable(way.base) for way in ways_of(x))


def check_writable(x: Tracer) -> None:
    """Raise `MutationError` unless a write to `x` stays inside the running transformation."""
    trace = ctx.trace
    if alias_of(x) is None and x.owner is trace:
        return
    for way in ways_of(x):
        _check_way(x, way)


def _check_way(x: Tracer, way: Way) -> None:
    root, trace = way.base, ctx.trace
    if any(step.put is None for step in way.steps):
        raise _refused(x, x, "is a read-only view, and was")
    chosen = alias_of(x)
    may = f"may by {chosen.place} be " if type(chosen) is Chosen else ""
    if not isinstance(root, Tracer):
        raise _refused(x, x, f"{may}an array from outside the traced function, and was")
    alias = alias_of(root)
    if type(alias) is Frozen:
        is_ = f"{may}or show" if may else "is"
        raise _refused(
            x, root, f"{is_} an argument of the function that {trace.name} runs, and was"
        )
    owner = root.owner if x.owner in (trace, trace.home) else x.owner
    if not is_reachable(root) or not owner.alive:
        if not owner.alive or not is_within(owner, trace):
            raise leaked(x, "A write")
        raise _refused(
            x, root, f"belongs to code outside the function that {trace.name} runs, and was"
        )
    if type(alias) is Root:
        partners = alias.living_partners()
        if partners:
            raise _refused(x, root, f"{partners[0][1]}, and was")


def _refused(x: Tracer, root: Tracer, why: str) -> MutationError:
    name, base = _name_of(x), _name_of(root)
    through = "" if root is x else f" through its view `{name}`" if name else " through a view"
    subject = f"`{base}`" if base else "An array"
    copied = name or base or "x"
    return MutationError(
        f"{subject} {why} written{through}.", f"Write to a copy: `{copied} = {copied}.copy()`."
    )


def _name_of(x: Tracer) -> str | None:
    """The user's name for an object, looked up in the frame of the user's line."""
    place = source.location()
    frame = sys._getframe(1)
    while place is not None and frame.f_code is not place[0] and frame.f_back is not None:
        frame = frame.f_back
    for names in (frame.f_locals, frame.f_globals):
        for name, found in names.items():
            if found is x:
                return name
    return None


# ---------------------------------------------------------------------------------- shape


def set_shape(x: Tracer, shape: Any) -> None:
    """`x.shape = shape`: the same elements, in C order, in another shape.

    Raises:
        TracerAttributeError: an argument, a view, an array with views, or one of code around.
    """
    alias = alias_of(x)
    shared = type(alias) in (View, Chosen) or (type(alias) is Root and alias.living())
    if shared or not _is_here(x) or not is_writable(x):
        raise TracerAttributeError(
            f"The shape of {x!r} was to be set, in place.", "Use x = x.reshape(shape)."
        )
    put(x, reshape(x, new_sizes=whole_shape(x.aval.size, static_shape(shape), x.aval.shape)))
    x.alias = C_ORDER


# ---------------------------------------------------------------------------------- operators


def _in_place(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    name = operate.__name__

    def write(x: Tracer, y: Any) -> Any:
        if not is_cell(x):  # NumPy's scalars are values: `loss += term` makes a new one
            alias, new = alias_of(x), operate(x, y)
            return _where_it_is_an_array(x, new, alias) if type(alias) is Chosen else new
        check_writable(x)
        return replace(x, operate(x, value(y)), name)

    return write


def _where_it_is_an_array(x: Tracer, new: Any, alias: Chosen) -> Any:
    """`x += y` of an array of rank 0 or a number, as a traced value decides: the array changes."""
    arrays = [way for way in alias.ways if is_cell(way.base)]
    check_writable(x)
    if new.aval.dtype != x.aval.dtype:
        raise DtypeError(
            f"A value that is by {alias.place} an array of rank 0 or a number was changed in place "
            f"from {x.aval.dtype} to {new.aval.dtype}, which the array would not hold.",
            "Make it one of them on both sides, `float(x)` or `numpy.asarray(x)`.",
        )
    for way in arrays:
        put(way.base, way.write(new))
    push([way.base for way in arrays])
    return chosen(new.fresh(), [*arrays, Way(new, (), nowhere_else(arrays))], alias.place)


INPLACE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    f"__i{operate.__name__.rstrip('_')}__": _in_place(operate)
    for operate in (
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.floordiv,
        operator.mod,
        operator.pow,
        operator.matmul,
        operator.and_,
        operator.or_,
        operator.xor,
        operator.lshift,
        operator.rshift,
    )
}

CELLS: Final[dict[str, Any]] = {
    "shape": property(Tracer.shape.fget, set_shape),  # pyright: ignore
    "__getitem__": getitem,
    "__setitem__": setitem,
    "at": property(At, doc="Functional updates: `x.at[key].set(v)`, as in JAX."),
    **INPLACE,
}
