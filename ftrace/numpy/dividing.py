"""Division of Python numbers by zero, which Python refuses and NumPy does not.

What an operator means is decided by what its operands are where nothing is traced. Of an array or
NumPy scalar the result is infinite or NaN. Of two Python numbers (weak values) Python's error is
raised where Python decides by values: in rewritten functions, and where a `try` may catch it, which
is why such a function is rewritten. Elsewhere IEEE 754 holds, as for `numpy.where` under `grad`;
but of `//` and `%` of integers, whose results have no infinity, the error is raised everywhere.
Where traced values decide whether an operand is one of Python's, so they do whether it is an error;
behind a loop, which does not carry classes, zero is refused where a `try` may catch the error.
"""

import operator
from collections.abc import Callable
from typing import Any

from ftrace.control.rows.raising import fail_where, may_be_caught
from ftrace.control.rows.trying import is_in_try
from ftrace.core.avals import typeof
from ftrace.core.errors import LiftError
from ftrace.core.trace import UNKNOWN, Tracer, ctx
from ftrace.numpy.integers import is_integer
from ftrace.numpy.scalar_classes import ONE, SEVERAL, all_python, as_python, asked, classes_of
from ftrace.primitives.compare import bitwise_and, eq, lt


def refuse_zero(divide: Callable[[Any, Any], Any], x: Any, y: Any) -> None:
    """Raise ZeroDivisionError where the divisor of two Python numbers is zero."""
    if not classes_of(y).may_be_zero:
        return
    known = y.known(exact=False) if isinstance(y, Tracer) else y
    if known is UNKNOWN:
        _refuse(eq(y, typeof(y).dtype.type(0)), divide, x, y)
    elif known == 0:
        _refuse(True, divide, x, getattr(known, "item", lambda: known)())


def refuse_zero_base(x: Any, y: Any) -> None:
    """Raise ZeroDivisionError where zero, a Python number, has a negative exponent."""
    if not classes_of(x).may_be_zero:
        return
    if typeof(y).dtype.kind == "c" or not (isinstance(y, Tracer) or y < 0):
        return
    zero = eq(x, typeof(x).dtype.type(0))
    if isinstance(y, Tracer):
        zero = bitwise_and(zero, lt(y, typeof(y).dtype.type(0)))
    _refuse(zero, operator.pow, x, y)


def _refuse(bad: Any, divide: Callable[[Any, Any], Any], x: Any, y: Any) -> None:
    exact = divide is not operator.truediv and is_integer(x) and is_integer(y)
    if not (exact or ctx.lift is not None or is_in_try()):
        return
    if bad is True and all_python(x, y) is True:
        divide(typeof(x).dtype.type(1).item(), y)  # raises, whatever x is
    if not SEVERAL:
        fail_where(bad, (x, y), divide, ZeroDivisionError)
        return
    classes = classes_of(x), classes_of(y)
    is_python = all_python(x, y)
    if is_python is UNKNOWN:
        if may_be_caught():
            fail_where(bad, (x, y), _undecided)
    elif is_python is not False:
        bad = bad if is_python is True else bitwise_and(bad, asked(is_python))

        def thrown(*values: Any) -> None:
            divide(*map(as_python, classes, values))

        fail_where(bad, (x, y), thrown, ZeroDivisionError)


def _undecided(x: Any, y: Any) -> None:
    raise LiftError(
        f"{x!r} was divided by {y!r}, or a zero raised to a negative power, behind a loop after "
        "which a number may be of Python, whose division by zero is an error, or of NumPy, whose "
        "is not.",
        ONE,
    )
