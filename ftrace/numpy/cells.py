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
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.core import source
from ftrace.core.avals import typeof
from ftrace.core.errors import (
    DtypeError,
    MutationError,
    RuleError,
    ShapeError,
    TracerArrayConversionError,
)
from ftrace.core.trace import FROZEN, Tracer, ctx, is_within, leaked
from ftrace.numpy import ufunc_methods, ufuncs
from ftrace.numpy.assigning import setitem_value
from ftrace.numpy.indexing import advanced, basic
from ftrace.numpy.promote import cast, stretch, value
from ftrace.numpy.updates import At
from ftrace.numpy.views import Root, View, alias_of, link, living, root_of
from ftrace.primitives.convert import copy

# ---------------------------------------------------------------------------------- reads


def getitem(x: Tracer, key: Any) -> Any:
    """`x[key]` of a tracer: a view for a basic key, a copy for integers and index arrays."""
    shape = x.aval.shape
    plan = basic(shape, key)
    if plan is None:
        return advanced(shape, key).get(x)
    y = plan.get(x)
    if plan.element:
        return y.fresh() if y is x else y
    return link(x, y, plan)


# ---------------------------------------------------------------------------------- writes


def setitem(x: Tracer, key: Any, v: Any) -> None:
    """`x[key] = v` of a tracer.

    Raises:
        MutationError: where the write would escape the transformation.
        IndexError: a key out of range.
        ShapeError, DtypeError: a value that does not fit.
    """
    check_writable(x)
    if not _is_written(x, key, v):
        store(x, setitem_value(x, key, v))


def _is_written(x: Tracer, key: Any, v: Any) -> bool:
    """Whether `v` is the view `x[key]` itself, as at the end of `x[key] += w`."""
    alias = alias_of(v) if isinstance(v, Tracer) else None
    if type(alias) is not View or alias.base is not root_of(x):
        return False
    plan = alias.steps[-1]
    mine = alias_of(x)
    return (
        alias.steps[:-1] == (mine.steps if type(mine) is View else ())
        and basic(x.aval.shape, key) is plan
    )


def store(x: Tracer, new: Any) -> None:
    """Replace the content of a writable cell: of its root if it is a view, and of all views.

    Args:
        x: the cell.
        new: a tracer of the cell's trace, shape and dtype.
    """
    if type(new) is not type(x):
        raise MutationError(
            "A derivative rule wrote a tangent into an array that does not depend on tangents.",
            "Make the array from the tangent (`out = 0.0 * t`), or put its parts together with "
            "numpy.stack or numpy.concatenate.",
        )
    alias = alias_of(x)
    root = x
    if type(alias) is View:
        root = alias.base
        whole = alias.write(root, new)
        root.adopt(whole)
        alias = alias_of(root)
    x.adopt(new)
    if type(alias) is Root:
        alias.views = living(alias.views)
        for ref in tuple(alias.views):
            view = ref()
            if view is not None and view is not x:
                view.adopt(view.alias.read(root))


def replace(x: Tracer, new: Any, what: str) -> Tracer:
    """Write a whole result into `x`, converted and broadcast as NumPy's `out=` does.

    Raises:
        ShapeError: a result that does not broadcast to the cell's shape.
        DtypeError: a conversion that is not of the same kind.
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
    store(x, new if isinstance(new, Tracer) and new.owner is x.owner else copy(new))
    return x


def write_out(out: Any, result: Any) -> Any:
    """Deliver a result to an `out=` argument; gives `out`.

    Raises:
        TracerArrayConversionError: `out` is a plain array and the result is traced.
    """
    if isinstance(out, Tracer):
        return replace(out, result, "The operation")
    if isinstance(result, Tracer):
        raise TracerArrayConversionError(
            f"A traced result ({result.aval}) was to be written into a plain array (out=).",
            "Make the output with ftrace.numpy.zeros or empty inside the function, or leave out= "
            "out.",
        )
    out[...] = result
    return out


# ---------------------------------------------------------------------------------- ufunc.at

SCATTERS: Final = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
    "true_divide": "divide",
    "minimum": "min",
    "maximum": "max",
}


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
    if basic(x.aval.shape, indices) is not None:
        return True
    parts = indices if type(indices) is tuple else (indices,)
    if any(isinstance(p, Tracer) for p in parts):
        return False
    touched = np.arange(x.aval.size).reshape(x.aval.shape)[indices]
    return np.unique(touched).size == touched.size


ufuncs.write_out = write_out
ufunc_methods.write_at = ufunc_at


# ---------------------------------------------------------------------------------- permission


def check_writable(x: Tracer) -> None:
    """Raise `MutationError` unless a write to `x` stays inside the running transformation."""
    alias = alias_of(x)
    root = x
    if type(alias) is View:
        if alias.read_only:
            raise _refused(x, root, "is a read-only view, as in NumPy, and was")
        root = alias.base
        alias = alias_of(root)
    trace = ctx.trace
    here = (trace, trace.home)
    if x.owner not in here or root.owner not in here:
        owner = root.owner if root.owner not in here else x.owner
        if not owner.alive or not is_within(owner, trace):
            raise leaked(x, "A write")
        raise _refused(
            x, root, f"belongs to code outside the function that {trace.name} runs, and was"
        )
    if alias is FROZEN:
        raise _refused(x, root, f"is an argument of the function that {trace.name} runs, and was")
    if type(alias) is Root and alias.partners:
        alias.partners = living(alias.partners)
        if alias.partners:
            raise _refused(
                x,
                root,
                "may share its memory with the result of a reshape or ravel, which in NumPy "
                "depends on a memory layout that is not known here, and was",
                "Reshape a copy",
            )


def _refused(x: Tracer, root: Tracer, why: str, advice: str = "Write to a copy") -> MutationError:
    name = _name_of(x)
    base = None if root is x else _name_of(root)
    through = "" if root is x else f" through its view `{name}`" if name else " through a view"
    subject = f"`{base}`" if base else f"`{name}`" if name and root is x else "An array"
    copied = name or base or "x"
    return MutationError(
        f"{subject} {why} written{through}.", f"{advice}: `{copied} = {copied}.copy()`."
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


# ---------------------------------------------------------------------------------- operators


def _in_place(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    name = operate.__name__

    def write(x: Tracer, y: Any) -> Any:
        if not x.aval.shape:  # NumPy's scalars are values: `loss += term` makes a new one
            return operate(x, y)
        check_writable(x)
        return replace(x, operate(x, value(y)), name)

    return write


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
    "__getitem__": getitem,
    "__setitem__": setitem,
    "at": property(At, doc="Functional updates: `x.at[key].set(v)`, as in JAX."),
    **INPLACE,
}
