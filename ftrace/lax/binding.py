"""How `ftrace.lax` applies a row: check the operands' types first, return a value of its own.

Rows themselves trust their callers: evaluating one runs its implementation. Here the type rule
runs before it, so that a mistake is named with shapes and dtypes, eagerly as under `jit`. The
result of an eager call never shares memory with an operand, as it does not under a trace.
"""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.dtypes import canonical
from ftrace.core.errors import AxisError, ConcretizationTypeError, DtypeError, ShapeError
from ftrace.core.primitive import Primitive
from ftrace.core.trace import EVAL, ctx
from ftrace.interpreters.captures import owned
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.linear import PYTHON_SCALARS

Ints = tuple[int, ...]


def bind(row: Primitive, *operands: Any, **params: Any) -> Any:
    """Apply a row to checked operands."""
    row.type(*map(typeof, operands), **params)
    result = row(*operands, **params)
    if ctx.trace is not EVAL:
        return result
    return owned(result, operands) if row.multiple else owned([result], operands)[0]


def shape_of(x: Any) -> Ints:
    """The shape of an array, a scalar or a tracer."""
    return typeof(x).shape


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """A dtype as the user names it (`np.float32`, `"f4"`, `float`), canonical."""
    return canonical(dtype)


def axis_of(name: str, axis: Any, ndim: int) -> int:
    """An axis counted from the front.

    Raises:
        AxisError: there is no such axis.
    """
    found = int_of(axis, f"the axis of lax.{name}")
    if not -ndim <= found < ndim:
        raise AxisError(
            f"lax.{name} was given axis {found} of an array with {ndim} axes.",
            f"Use an axis from {-ndim} to {ndim - 1}." if ndim else "A scalar has no axes.",
        )
    return found % ndim


def axes_of(name: str, axes: Any, ndim: int) -> Ints:
    """Several axes counted from the front; one integer is one axis.

    Raises:
        AxisError: there is no such axis, or one is named twice.
    """
    given = ints(axes, f"the axes of lax.{name}")
    found = tuple(axis_of(name, a, ndim) for a in given)
    if len(set(found)) != len(found):
        raise AxisError(f"lax.{name} was given an axis twice: {given}.", "Name each axis once.")
    return found


def int_of(value: Any, what: str) -> int:
    """One static integer.

    Raises:
        DtypeError: something else, or several.
    """
    found = ints(value, what)
    if len(found) != 1:
        raise DtypeError(f"{what} is one integer, not {value!r}.", "Pass an int.")
    return found[0]


def ints(values: Any, what: str = "a shape, or another static argument,") -> Ints:
    """Static integers as a tuple.

    Raises:
        DtypeError: something else, which is not traced.
    """
    single = issubclass(type(values), int | np.integer)
    try:
        return tuple(operator.index(v) for v in ((values,) if single else values))
    except ConcretizationTypeError:
        raise
    except TypeError:
        raise DtypeError(
            f"{values!r} was given where {what} takes integers.",
            "Give Python ints: one, or a tuple of them.",
        ) from None


def sizes_of(values: Any) -> Ints:
    """A shape.

    Raises:
        DtypeError, ShapeError: no integers; a negative one.
    """
    found = ints(values, "a shape")
    if any(n < 0 for n in found):
        raise ShapeError(f"The shape {found} has a negative size.", "Sizes count from 0.")
    return found


def one_per_axis(name: str, what: str, values: Sequence[Any], ndim: int) -> None:
    """Raise `ShapeError` unless there is one value for each axis, `DtypeError` for no sequence."""
    if not hasattr(type(values), "__len__"):
        raise DtypeError(
            f"lax.{name} was given {values!r} as its {what}.", f"Give a tuple of {ndim}."
        )
    if len(values) != ndim:
        raise ShapeError(
            f"lax.{name} was given {len(values)} {what} for an array with {ndim} axes.",
            f"Give one for each axis: {ndim} in all.",
        )


def own(value: Any, *operands: Any) -> Any:
    """What several rows made of some operands, as `bind` would return it."""
    return value if ctx.trace is not EVAL else owned([value], operands)[0]


def as_dtype(x: Any, dtype: Any) -> Any:
    """A value in a dtype, itself if it has it already; Python scalars become NumPy's."""
    if type(x) in PYTHON_SCALARS:
        return np.dtype(dtype).type(x)
    a = typeof(x)
    return x if a.dtype == dtype and not a.weak else convert_element_type(x, new_dtype=dtype)
