"""What each NumPy ufunc becomes: a row, or a few rows.

The functions here receive operands that `ufuncs.py` has already converted to the dtypes NumPy
computes in, and broadcast to one shape (or rank 0). Most entries are rows themselves; the others
say in rows what NumPy does for integers, booleans and units.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.dtypes import bool_
from ftrace.core.trace import Tracer
from ftrace.numpy.integers import power
from ftrace.numpy.promote import cast, stretch
from ftrace.primitives import elementwise as e
from ftrace.primitives.convert import copy
from ftrace.primitives.linear import add, broadcast_in_dim

MAX_STATIC_POWER = 64  # beyond it the general power asks whether the dtype holds the exponent


def constant_like(x: Any, dtype: np.dtype[Any], number: Any) -> Any:
    """An array of one number with the shape of an operand."""
    shape = typeof(x).shape
    scalar = dtype.type(number)
    if not shape:
        return copy(scalar)
    return broadcast_in_dim(scalar, shape=shape, broadcast_dimensions=())


def _exact_or(row: Callable[..., Any]) -> Callable[..., Any]:
    """Rounding: the operand itself where the dtype has no fractions."""

    def rounding(x: Any) -> Any:
        return row(x) if typeof(x).dtype.kind in "fc" else copy(x)

    return rounding


def _float_test(row: Callable[..., Any], otherwise: bool) -> Callable[..., Any]:
    """isnan and its like: one answer for all integers."""

    def test(x: Any) -> Any:
        if typeof(x).dtype.kind in "fc":
            return row(x)
        return constant_like(x, bool_, otherwise)

    return test


def truth(x: Any) -> Any:
    """The operand as a boolean: x != 0."""
    dtype = typeof(x).dtype
    return x if dtype == bool_ else e.ne(x, dtype.type(0))


def _logical(row: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: row(truth(x), truth(y))


def _absolute(x: Any) -> Any:
    return copy(x) if typeof(x).dtype == bool_ else e.abs(x)


def _conjugate(x: Any) -> Any:
    return e.conj(x) if typeof(x).dtype.kind == "c" else copy(x)


def _reciprocal(x: Any) -> Any:
    dtype = typeof(x).dtype
    one = dtype.type(1)
    if dtype.kind in "fc":
        return e.div(one, x)
    unit = e.eq(x, one)
    if dtype.kind == "i":
        unit = e.bitwise_or(unit, e.eq(x, dtype.type(-1)))
    zero = dtype.type(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        infinity = np.reciprocal(zero)  # what the C of this machine makes of it
    found = e.select(unit, x, zero)
    return e.select(e.eq(x, zero), infinity, found)


def _times(number: float) -> Callable[[Any], Any]:
    return lambda x: e.mul(x, typeof(x).dtype.type(number))


def _divmod(x: Any, y: Any) -> tuple[Any, Any]:
    return e.floor_divide(x, y), e.mod(x, y)


def _compare(row: Callable[..., Any], signed_below: bool, flipped: bool) -> Callable[..., Any]:
    """A comparison that is exact between int64 and uint64, as NumPy's.

    Args:
        row: the comparison.
        signed_below: its answer for a negative signed left operand and an unsigned right one.
        flipped: its answer for an unsigned left and a negative signed right operand.
    """

    def compare(x: Any, y: Any) -> Any:
        kinds = typeof(x).dtype.kind + typeof(y).dtype.kind
        if kinds == "iu":
            return _mixed(row, x, x, y, signed_below)
        if kinds == "ui":
            return _mixed(row, y, x, y, flipped)
        return row(x, y)

    return compare


def _mixed(row: Callable[..., Any], signed: Any, x: Any, y: Any, answer: bool) -> Any:
    unsigned = np.dtype(np.uint64)
    same = row(cast(x, unsigned), cast(y, unsigned))
    negative = e.lt(signed, typeof(signed).dtype.type(0))
    shape = typeof(same).shape
    negative = stretch(negative, shape)
    return e.bitwise_or(negative, same) if answer else e.bitwise_and(e.bitwise_not(negative), same)


def static_power(x: Any, y: Any) -> Any:
    """x**n for a Python int n as a product; None where it is no such power."""
    if type(y) is not int or not isinstance(x, Tracer):
        return None
    kind = typeof(x).dtype.kind
    if kind == "b" or abs(y) > MAX_STATIC_POWER:
        return None
    if kind in "iu" and y < 0:
        typeof(x).dtype.type(y)  # NumPy's error for unsigned ones
        raise ValueError("Integers to negative integer powers are not allowed.")
    if y == 2:
        return e.square(x)
    return copy(x) if y == 1 else e.integer_pow(x, y=y)


LOWERINGS: Final[dict[str, Callable[..., Any]]] = {
    # arithmetic
    "add": add,
    "subtract": e.sub,
    "multiply": e.mul,
    "divide": e.div,
    "floor_divide": e.floor_divide,
    "remainder": e.mod,
    "fmod": e.rem,
    "divmod": _divmod,
    "power": power,
    "float_power": e.pow,
    "negative": e.neg,
    "positive": copy,
    "absolute": _absolute,
    "fabs": e.abs,
    "sign": e.sign,
    "square": e.square,
    "sqrt": e.sqrt,
    "cbrt": e.cbrt,
    "reciprocal": _reciprocal,
    "maximum": e.max,
    "minimum": e.min,
    "fmax": e.fmax,
    "fmin": e.fmin,
    "copysign": e.copysign,
    "nextafter": e.nextafter,
    "spacing": e.spacing,
    "heaviside": e.heaviside,
    "ldexp": e.ldexp,
    "frexp": lambda x: tuple(e.frexp(x)),
    "modf": lambda x: tuple(e.modf(x)),
    "hypot": e.hypot,
    "gcd": e.gcd,
    "lcm": e.lcm,
    "conjugate": _conjugate,
    # elementary functions
    "sin": e.sin,
    "cos": e.cos,
    "tan": e.tan,
    "arcsin": e.asin,
    "arccos": e.acos,
    "arctan": e.atan,
    "arctan2": e.atan2,
    "sinh": e.sinh,
    "cosh": e.cosh,
    "tanh": e.tanh,
    "arcsinh": e.asinh,
    "arccosh": e.acosh,
    "arctanh": e.atanh,
    "exp": e.exp,
    "exp2": e.exp2,
    "expm1": e.expm1,
    "log": e.log,
    "log2": e.log2,
    "log10": e.log10,
    "log1p": e.log1p,
    "logaddexp": e.logaddexp,
    "logaddexp2": e.logaddexp2,
    "degrees": _times(180 / np.pi),
    "rad2deg": _times(180 / np.pi),
    "radians": _times(np.pi / 180),
    "deg2rad": _times(np.pi / 180),
    # rounding
    "floor": _exact_or(e.floor),
    "ceil": _exact_or(e.ceil),
    "trunc": _exact_or(e.trunc),
    "rint": _exact_or(e.round),
    # tests and comparisons
    "isnan": _float_test(e.isnan, False),
    "isinf": _float_test(e.isinf, False),
    "isfinite": _float_test(e.isfinite, True),
    "signbit": e.signbit,
    "equal": _compare(e.eq, False, False),
    "not_equal": _compare(e.ne, True, True),
    "less": _compare(e.lt, True, False),
    "less_equal": _compare(e.le, True, False),
    "greater": _compare(e.gt, False, True),
    "greater_equal": _compare(e.ge, False, True),
    "logical_and": _logical(e.bitwise_and),
    "logical_or": _logical(e.bitwise_or),
    "logical_xor": _logical(e.bitwise_xor),
    "logical_not": lambda x: e.bitwise_not(truth(x)),
    # bits
    "bitwise_and": e.bitwise_and,
    "bitwise_or": e.bitwise_or,
    "bitwise_xor": e.bitwise_xor,
    "invert": e.bitwise_not,
    "left_shift": e.shift_left,
    "right_shift": e.shift_right,
    "bitwise_count": e.population_count,
}
