"""Operators of tracers: one table, installed on `Tracer` by `protocols.py`.

The common cases reach their row with one `aval` each and an identity test: two tracers of one
aval, or a float tracer with a Python float. Everything else promotes and broadcasts as NumPy.
Two weak values (Python scalars) stay weak, as Python's operators keep them. In-place operators
are cells' and live in `cells.py`; without them Python falls back to the plain ones.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ftrace.core.avals import SCALAR_AVALS, TYPEOF, typeof
from ftrace.core.device import LIBRARIES, to_host
from ftrace.core.dtypes import float64
from ftrace.core.errors import RuleError
from ftrace.core.primitive import bound
from ftrace.core.trace import UNKNOWN, Tracer, holds_array, stands_for
from ftrace.numpy import ufuncs
from ftrace.numpy.decimals import MOST, nearest_decimal
from ftrace.numpy.dividing import refuse_zero, refuse_zero_base
from ftrace.numpy.elementary import round_to
from ftrace.numpy.integers import as_integer, is_integer, refuse_wide
from ftrace.numpy.lowerings import LOWERINGS, static_power
from ftrace.numpy.matrix_products import matmul
from ftrace.numpy.promote import PYTHON_SCALARS, weak
from ftrace.numpy.scalar_classes import SEVERAL, all_python, computed, is_chosen
from ftrace.numpy.temporaries import release
from ftrace.primitives.convert import convert_element_type

Operator = Callable[[Any, Any], Any]
NUMBERS: Final = "iufc"
INEXACT: Final = "fc"
BITS: Final = "biu"
PYTHON: Final[dict[str, Operator]] = {  # operators that take booleans for integers
    **{"add": operator.add, "subtract": operator.sub, "multiply": operator.mul},
    **{"floor_divide": operator.floordiv, "remainder": operator.mod},
    **{"left_shift": operator.lshift, "right_shift": operator.rshift},
}


def _operand(x: Any, me: Any, repeats: bool = False) -> bool:
    """Whether an operator of `me` understands the other operand; else Python asks that one.

    A list or tuple stands for an array beside arrays and NumPy's scalars, but for `repeats`, which
    asks it to repeat itself by a scalar; beside a number of Python's it is none.
    """
    if LIBRARIES:
        release(x, "operator")
    cls = type(x)
    if cls in TYPEOF or cls in SCALAR_AVALS:
        return True
    if issubclass(cls, list | tuple):
        return not (me.aval.weak or (repeats and not me.ndim and not holds_array(me)))
    return issubclass(cls, np.ndarray | np.generic | int | float | complex)


def _fit(s: tuple[int, ...], t: tuple[int, ...]) -> bool:
    """Whether rows take operands of these shapes as they are."""
    return s == t or not s or not t


def _is_weak(x: Any) -> bool:
    return type(x) in PYTHON_SCALARS or (isinstance(x, Tracer) and x.aval.weak)


def _weak_pair(ufunc: np.ufunc, row: Callable[..., Any], x: Any, y: Any) -> Any:
    """An operator of two Python-scalar values: of Python scalars where the row allows."""
    name = ufunc.__name__
    if name in PYTHON:
        refuse_wide(name, PYTHON[name], x, y)
        x, y = as_integer(x), as_integer(y)
    avals = [typeof(x), typeof(y)]
    loop = ufuncs.loop_dtypes(ufunc, tuple((a.dtype, a.weak) for a in avals), None)
    if ufunc in ufuncs.COMPARISONS:
        found = ufuncs.beyond(ufunc, [as_integer(x), as_integer(y)])
        if found is not None:
            return weak(found)
    operands = [
        v if a.dtype == d else convert_element_type(v, new_dtype=d, weak_type=True)
        for v, a, d in zip((x, y), avals, loop, strict=False)
    ]
    return weak(row(*operands))


def _binary(ufunc: np.ufunc, direct: str, divides: Any = None) -> tuple[Operator, Operator]:
    """An operator and its reflection.

    Args:
        ufunc: what it means.
        direct: kinds of dtypes that its row takes without conversion.
        divides: Python's operator, if it divides.
    """
    row = bound(LOWERINGS[ufunc.__name__])
    python = divides or PYTHON.get(ufunc.__name__)

    def general(x: Any, y: Any) -> Any:
        if _is_weak(x) and _is_weak(y):
            if divides is not None:
                refuse_zero(divides, x, y)
            return _weak_pair(ufunc, row, x, y)
        if SEVERAL and python is not None and is_chosen(x, y):
            if divides is not None and all_python(x, y) is not False:
                refuse_zero(divides, x, y)
            return computed(python, ufuncs.apply(ufunc, x, y), x, y)
        return ufuncs.apply(ufunc, x, y)

    if divides is None:
        repeats = ufunc is np.multiply
        return _forward(row, direct, general, repeats), _reflected(row, general, repeats)

    def checked(x: Any, y: Any) -> Any:
        if _is_weak(y) and _is_weak(x):
            refuse_zero(divides, x, y)
        return row(x, y)

    return _forward(checked, direct, general), _reflected(checked, general)


def _forward(
    row: Callable[..., Any], direct: str, general: Operator, repeats: bool = False
) -> Operator:
    def forward(x: Any, y: Any) -> Any:
        cls = type(y)
        if cls is type(x):
            a, b = x.aval, y.aval
            same = a is b or (a.dtype is b.dtype and _fit(a.shape, b.shape))
            exact = a.dtype.kind in direct and not (a.weak and a.dtype.kind == "i")
            if same and exact and not (SEVERAL and is_chosen(x, y)):
                return row(x, y)
        elif cls is float or cls is int:
            if x.aval.dtype.kind in INEXACT and not (SEVERAL and is_chosen(x)):
                return row(x, float(y))
        elif not _operand(y, x, repeats):
            return NotImplemented
        return general(x, y)

    return forward


def _reflected(row: Callable[..., Any], general: Operator, repeats: bool = False) -> Operator:
    def reflected(y: Any, x: Any) -> Any:
        cls = type(x)
        exact = (cls is float or cls is int) and y.aval.dtype.kind in INEXACT
        if exact and not (SEVERAL and is_chosen(y)):
            return row(float(x), y)
        return general(x, y) if _operand(x, y, repeats) else NotImplemented

    return reflected


def _power(x: Any, y: Any, modulo: Any = None) -> Any:
    if modulo is not None:
        raise RuleError("pow(x, y, modulo) has no rule for traced values.", "Write x**y % modulo.")
    if not _operand(y, x):
        return NotImplemented
    both = _is_weak(x) and _is_weak(y)
    if both:
        x, y = as_integer(x), as_integer(y)
        if type(y) is int and y < 0 and is_integer(x):
            x = convert_element_type(x, new_dtype=float64, weak_type=True)
        refuse_zero_base(x, y)
        refuse_wide("power", operator.pow, x, y)
    elif SEVERAL and all_python(x, y) is not False:
        refuse_zero_base(x, y)
    found = static_power(x, y) if type(y) is int else None
    if found is None:
        square = type(y) is int and y == 2 and typeof(x).dtype.kind == "b" and typeof(x).ndim
        found = ufuncs.apply(np.square, x) if square else ufuncs.apply(np.power, x, y)
    if both:
        return weak(found)
    return computed(operator.pow, found, x, y) if SEVERAL else found


def _rpower(y: Any, x: Any) -> Any:
    return _power(x, y) if _operand(x, y) else NotImplemented


def refuse_division(name: str, x: Any, y: Any) -> None:
    """Raise ZeroDivisionError where an operation of Python numbers divides by zero.

    Args:
        name: of the operation in Python's syntax: Div, FloorDiv, Mod, Pow.
        x, y: its operands.
    """
    if all_python(x, y) is False:
        return
    if name == "Pow":
        refuse_zero_base(x, y)
    else:
        refuse_zero(
            {"Div": operator.truediv, "Mod": operator.mod}.get(name, operator.floordiv), x, y
        )


def _unary(ufunc: np.ufunc) -> Callable[[Any], Any]:
    row = bound(LOWERINGS[ufunc.__name__])
    python = abs if ufunc is np.absolute else operator.neg

    def operate(x: Any) -> Any:
        a = x.aval
        if a.weak:
            return weak(row(as_integer(x)))
        found = row(x) if a.dtype.kind in NUMBERS else ufuncs.apply(ufunc, x)
        return computed(python, found, x) if SEVERAL else found

    return operate


def _divmod(x: Any, y: Any) -> Any:
    if not (_operand(x, y) if isinstance(y, Tracer) else _operand(y, x)):
        return NotImplemented
    if all_python(x, y) is not False:
        refuse_zero(divmod, x, y)
    return x // y, x % y


def _rdivmod(y: Any, x: Any) -> Any:
    return _divmod(x, y)


def _matmul(x: Any, y: Any) -> Any:
    return matmul(x, y) if _operand(y, x) else NotImplemented


def _rmatmul(y: Any, x: Any) -> Any:
    return matmul(x, y) if _operand(x, y) else NotImplemented


def _round(x: Any, ndigits: int | None = None) -> Any:
    a = x.aval
    if a.dtype.kind == "c" or a.shape or holds_array(x):
        kind = "numpy.ndarray" if holds_array(x) else stands_for(x).__name__
        raise TypeError(f"type {kind} doesn't define __round__ method")
    if ndigits is not None and a.weak and a.dtype.kind == "b":
        x = convert_element_type(x, new_dtype=np.dtype(np.int64), weak_type=True)
    if a.weak and a.dtype.kind == "f" and ndigits and ndigits >= -MOST:
        return weak(nearest_decimal(x, min(operator.index(ndigits), MOST)))
    if ndigits is not None:
        found = round_to(x, ndigits)
        return weak(found) if a.weak else found
    if a.dtype.kind != "f":
        return convert_element_type(x, new_dtype=np.dtype(np.int64), weak_type=True)
    value: Any = x.known(exact=False)  # the derivative of rounding is zero
    return int(x) if value is UNKNOWN else int(np.rint(to_host(value)))


def _length(x: Any) -> int:
    shape = x.aval.shape
    if not shape:
        raise TypeError("len() of a traced value of rank 0")
    return shape[0]


def _iterate(x: Any) -> Iterator[Any]:
    if not x.aval.shape:
        raise TypeError("iteration over a traced value of rank 0")
    return (x[i] for i in range(x.aval.shape[0]))


def _contains(x: Any, item: Any) -> bool:
    return bool((x == item).any())


def _table() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = {}
    for name, ufunc, direct, *divides in (
        ("add", np.add, NUMBERS),
        ("sub", np.subtract, NUMBERS),
        ("mul", np.multiply, NUMBERS),
        ("truediv", np.divide, INEXACT, operator.truediv),
        ("floordiv", np.floor_divide, "iuf", operator.floordiv),
        ("mod", np.remainder, "iuf", operator.mod),
        ("and", np.bitwise_and, BITS),
        ("or", np.bitwise_or, BITS),
        ("xor", np.bitwise_xor, BITS),
        ("lshift", np.left_shift, "iu"),
        ("rshift", np.right_shift, "iu"),
    ):
        table[f"__{name}__"], table[f"__r{name}__"] = _binary(ufunc, direct, *divides)
    for name, ufunc in (
        ("eq", np.equal),
        ("ne", np.not_equal),
        ("lt", np.less),
        ("le", np.less_equal),
        ("gt", np.greater),
        ("ge", np.greater_equal),
    ):
        table[f"__{name}__"] = _binary(ufunc, NUMBERS)[0]
    return table


OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    **_table(),
    "__pow__": _power,
    "__rpow__": _rpower,
    "__divmod__": _divmod,
    "__rdivmod__": _rdivmod,
    "__matmul__": _matmul,
    "__rmatmul__": _rmatmul,
    "__neg__": _unary(np.negative),
    "__pos__": _unary(np.positive),
    "__abs__": _unary(np.absolute),
    "__invert__": _unary(np.invert),
    "__round__": _round,
    "__len__": _length,
    "__iter__": _iterate,
    "__contains__": _contains,
}
