"""Python's integers, which have no limit, as traced int64: what does not fit is an error.

A traced Python integer is a weak int64. Where an operator of two of them gives more, the number
would wrap in silence: the same operator on float64 says so, well within what it rounds by, since
results are to stay `core.avals.LIMIT` below 2**63. So the sums of counters, which add less than
SMALL, need no such question, nor does what is small as its operands are (interpreters/
value_ranges.py). NumPy's integers wrap, as in NumPy. Booleans of Python are integers.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ftrace.control.rows.raising import fail_where, some
from ftrace.core.avals import LIMIT, check_int, typeof
from ftrace.core.dtypes import float64, int64
from ftrace.core.errors import DtypeError
from ftrace.core.trace import UNKNOWN, Tracer
from ftrace.interpreters.value_ranges import range_of_result, value_range
from ftrace.primitives import elementwise as e
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.linear import add

SMALL: Final = 1 << 16
_ROWS: Final[dict[str, Callable[..., Any]]] = {
    "add": add,
    "subtract": e.sub,
    "multiply": e.mul,
    "power": e.pow,
    "left_shift": lambda x, n: e.mul(x, e.exp2(n)),
}

_OPERATIONS: Final = {"add": "add", "subtract": "sub", "multiply": "mul"}  # of scalars


def is_integer(x: Any) -> bool:
    """Whether a Python number is an integer or a boolean."""
    return typeof(x).dtype.kind in "bi"


def as_integer(x: Any) -> Any:
    """A Python number, an integer in the place of a boolean: True + True is 2."""
    if typeof(x).dtype.kind != "b":
        return x
    return convert_element_type(x, new_dtype=int64, weak_type=True)


def refuse_wide(name: str, plain: Callable[..., Any], *operands: Any) -> None:
    """Raise where an operator of traced Python integers gives more than 64 bits.

    Args:
        name: NumPy's name of the operator.
        plain: Python's operator.
        *operands: Python numbers; of others than integers nothing is asked.

    Raises:
        DtypeError: now if an operand is too large, else when the function runs.
    """
    if not all(map(is_integer, operands)):
        return
    for x in operands:
        if type(x) is int:
            check_int(x, np.iinfo(int64).max, "An operand of a traced int")
    if _is_no_question(name, operands):
        return
    operands = tuple(map(as_integer, operands))
    if name in ("left_shift", "right_shift"):
        count = operands[1]
        if isinstance(count, Tracer) or count < 0:
            fail_where(e.lt(count, 0), operands, plain, ValueError)
    if name == "power" and isinstance(operands[1], Tracer):
        fail_where(e.lt(operands[1], 0), operands, _no_integer)
    if name not in _ROWS:
        return
    wide = [convert_element_type(x, new_dtype=float64) for x in operands]

    def throw(*values: Any) -> None:
        raise DtypeError(
            f"{plain.__name__}{values} is an int of more than 64 bits; a traced Python int has 64.",
            "Make the arguments floats, or static (static_argnums), which keeps Python's integers; "
            "NumPy integers (numpy.int64(n)) wrap around.",
        )

    fail_where(e.gt(e.abs(_ROWS[name](*wide)), float(LIMIT)), operands, throw)


def power(x: Any, y: Any) -> Any:
    """x ** y of one dtype; where integers have a negative exponent, with NumPy's error."""
    unknown = isinstance(y, Tracer) and y.known(exact=False) is UNKNOWN
    if unknown and typeof(y).dtype.kind == "i":
        zero = typeof(y).dtype.type(0)
        fail_where(some(e.lt(y, zero)), (), _no_power, ValueError)
        y = e.max(y, zero)
    return e.pow(x, y)


def _no_power() -> None:
    raise ValueError("Integers to negative integer powers are not allowed.")


def _no_integer(x: int, y: int) -> None:
    raise DtypeError(
        f"{x} ** {y} is {x**y}, no int: the type of a traced value cannot depend on the exponent.",
        "Make the base a float, or the exponent static (static_argnums).",
    )


def _is_no_question(name: str, operands: Sequence[Any]) -> bool:
    """Whether a result surely fits."""
    if name in ("add", "subtract") and any(map(_is_small, operands)):
        return True
    found = range_of_result(_OPERATIONS.get(name, ""), *map(value_range, operands))
    return found is not None and found.low >= -LIMIT and found.high <= LIMIT


def _is_small(x: Any) -> bool:
    return -SMALL < x < SMALL if type(x) is int else typeof(x).dtype.kind == "b"


def refuse_unfit(x: Any, dtype: np.dtype[Any]) -> None:
    """Raise OverflowError, as NumPy, where a traced Python integer does not fit into a dtype."""
    found: Any = x.known(exact=False)
    if found is not UNKNOWN:
        dtype.type(found)
        return
    limits, known = np.iinfo(dtype), value_range(x)
    if known is not None and limits.min <= known.low and known.high <= limits.max:
        return
    least = limits.min if limits.min > np.iinfo(int64).min else None
    most = limits.max if limits.max < np.iinfo(int64).max else None
    bad: Any = False
    if least is not None:
        bad = e.lt(x, least)
    if most is not None:
        bad = e.bitwise_or(bad, e.gt(x, most))
    if bad is not False:
        fail_where(bad, (x,), lambda value: dtype.type(value), OverflowError)
