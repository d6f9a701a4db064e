"""Operators of tracers: one table, installed on `Tracer` by `protocols.py`.

The common cases reach their row with one `aval` each and an identity test: two tracers of one
aval, or a float tracer with a Python float. Everything else promotes and broadcasts as NumPy.
Two weak values (Python scalars) stay weak, as Python's operators keep them. In-place operators
are cells' and live in `cells.py`; without them Python falls back to the plain ones.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ftrace.core.avals import SCALAR_AVALS, TYPEOF, typeof
from ftrace.core.device import LIBRARIES
from ftrace.core.trace import Tracer
from ftrace.numpy import ufuncs
from ftrace.numpy.elementary import round_to
from ftrace.numpy.lowerings import LOWERINGS, static_power
from ftrace.numpy.products import matmul
from ftrace.numpy.promote import PYTHON_SCALARS
from ftrace.numpy.temporaries import release
from ftrace.primitives.convert import convert_element_type, copy

Operator = Callable[[Any, Any], Any]
NUMBERS: Final = "iufc"
INEXACT: Final = "fc"
BITS: Final = "biu"


def _operand(x: Any) -> bool:
    """Whether an operator understands the other operand; else Python asks that one."""
    if LIBRARIES:
        release(x, "operator")
    cls = type(x)
    return (
        cls in TYPEOF
        or cls in SCALAR_AVALS
        or isinstance(x, np.ndarray | np.generic | int | float | complex | list | tuple)
    )


def _fit(s: tuple[int, ...], t: tuple[int, ...]) -> bool:
    """Whether rows take operands of these shapes as they are."""
    return s == t or not s or not t


def _is_weak(x: Any) -> bool:
    return type(x) in PYTHON_SCALARS or (isinstance(x, Tracer) and x.aval.weak)


def _weak_pair(ufunc: np.ufunc, row: Callable[..., Any], x: Any, y: Any) -> Any:
    """An operator of two Python-scalar values: of Python scalars where the row allows."""
    avals = [typeof(x), typeof(y)]
    loop = ufuncs.loop_dtypes(ufunc, tuple((a.dtype, a.weak) for a in avals), None)
    operands = [
        v if a.dtype == d else convert_element_type(v, new_dtype=d, weak_type=True)
        for v, a, d in zip((x, y), avals, loop, strict=False)
    ]
    return _weak_again(row(*operands))


def _weak_again(x: Any) -> Any:
    """The result of an operator on Python scalars as a Python scalar again."""
    a = typeof(x)
    if a.weak or a.dtype.kind == "b":
        return x
    return convert_element_type(x, new_dtype=a.dtype, weak_type=True)


def _binary(ufunc: np.ufunc, direct: str) -> tuple[Operator, Operator]:
    """An operator and its reflection.

    Args:
        ufunc: what it means.
        direct: kinds of dtypes that its row takes without conversion.
    """
    row = LOWERINGS[ufunc.__name__]

    def general(x: Any, y: Any) -> Any:
        if _is_weak(x) and _is_weak(y):
            return _weak_pair(ufunc, row, x, y)
        return ufuncs.apply(ufunc, x, y)

    return _forward(row, direct, general), _reflected(row, general)


def _forward(row: Callable[..., Any], direct: str, general: Operator) -> Operator:
    def forward(x: Any, y: Any) -> Any:
        cls = type(y)
        if cls is type(x):
            a, b = x.aval, y.aval
            same = a is b or (a.dtype is b.dtype and _fit(a.shape, b.shape))
            if same and a.dtype.kind in direct:
                return row(x, y)
        elif cls is float or cls is int:
            if x.aval.dtype.kind in INEXACT:
                return row(x, float(y))
        elif not _operand(y):
            return NotImplemented
        return general(x, y)

    return forward


def _reflected(row: Callable[..., Any], general: Operator) -> Operator:
    def reflected(y: Any, x: Any) -> Any:
        cls = type(x)
        if (cls is float or cls is int) and y.aval.dtype.kind in INEXACT:
            return row(float(x), y)
        return general(x, y) if _operand(x) else NotImplemented

    return reflected


def _power(x: Any, y: Any) -> Any:
    if not _operand(y):
        return NotImplemented
    found = static_power(x, y) if type(y) is int else None
    if found is None:
        found = ufuncs.apply(np.power, x, y)
    return _weak_again(found) if _is_weak(x) and _is_weak(y) else found


def _rpower(y: Any, x: Any) -> Any:
    if not _operand(x):
        return NotImplemented
    found = ufuncs.apply(np.power, x, y)
    return _weak_again(found) if _is_weak(x) and _is_weak(y) else found


def _unary(ufunc: np.ufunc) -> Callable[[Any], Any]:
    row = LOWERINGS[ufunc.__name__]

    def operate(x: Any) -> Any:
        a = x.aval
        if a.weak:
            return _weak_again(row(x))
        return row(x) if a.dtype.kind in NUMBERS else ufuncs.apply(ufunc, x)

    return operate


def _divmod(x: Any, y: Any) -> Any:
    return (x // y, x % y) if _operand(y) else NotImplemented


def _rdivmod(y: Any, x: Any) -> Any:
    return (x // y, x % y) if _operand(x) else NotImplemented


def _matmul(x: Any, y: Any) -> Any:
    return matmul(x, y) if _operand(y) else NotImplemented


def _rmatmul(y: Any, x: Any) -> Any:
    return matmul(x, y) if _operand(x) else NotImplemented


def _round(x: Any, ndigits: int | None = None) -> Any:
    if ndigits is None and x.aval.dtype.kind in "biu":
        return copy(x)
    return round_to(x, 0 if ndigits is None else ndigits)


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
    for name, ufunc, direct in (
        ("add", np.add, NUMBERS),
        ("sub", np.subtract, NUMBERS),
        ("mul", np.multiply, NUMBERS),
        ("truediv", np.divide, INEXACT),
        ("floordiv", np.floor_divide, "iuf"),
        ("mod", np.remainder, "iuf"),
        ("and", np.bitwise_and, BITS),
        ("or", np.bitwise_or, BITS),
        ("xor", np.bitwise_xor, BITS),
        ("lshift", np.left_shift, "iu"),
        ("rshift", np.right_shift, "iu"),
    ):
        table[f"__{name}__"], table[f"__r{name}__"] = _binary(ufunc, direct)
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
