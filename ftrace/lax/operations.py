"""Elementwise functions of `ftrace.lax` that are no rows: JAX's meaning made of several rows.

Everything elementwise that *is* a row is exported as it is by `__init__.py`.
"""

import enum
from typing import Any, Final, TypeVar

import numpy as np

from ftrace.core.avals import aval, typeof
from ftrace.core.dtypes import bool_
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.tree import tree_flatten, tree_map, tree_unflatten
from ftrace.lax.binding import bind, dtype_of, own
from ftrace.primitives import arithmetic, compare, convert, powers, special
from ftrace.primitives.linear import add

T = TypeVar("T")

# rows that carry NumPy's and SciPy's names in the table
is_finite: Final = compare.isfinite
bessel_i0: Final = special.i0
bessel_i0e: Final = special.i0e
bessel_i1: Final = special.i1
bessel_i1e: Final = special.i1e


class RoundingMethod(enum.IntEnum):
    """What `lax.round` does halfway between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """The nearest integer, as a float. Halves go away from zero, unless told otherwise.

    Args:
        x: an array of real floats.
        rounding_method: `RoundingMethod.TO_NEAREST_EVEN` rounds halves as `numpy.round` does.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.round(np.array([0.5, 1.5, -2.5]))
        array([ 1.,  2., -3.])
    """
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return bind(compare.round, x)
    fraction, whole = bind(arithmetic.modf, x)
    one, half = map(typeof(whole).dtype.type, (1, 0.5))
    up = compare.ge(arithmetic.abs(fraction), half)
    return compare.select(up, add(whole, arithmetic.copysign(one, x)), whole)


def integer_pow(x: Any, y: int) -> Any:
    """x to a power that is a Python integer.

    Args:
        x: an array of numbers.
        y: the exponent; static.

    Example:
        >>> import ftrace.lax as lax
        >>> float(lax.integer_pow(2.0, -2))
        0.25
    """
    return bind(powers.integer_pow, x, y=int(y))


def reciprocal(x: Any) -> Any:
    """1 / x, elementwise.

    Args:
        x: an array of floats or complex numbers.

    Example:
        >>> import ftrace.lax as lax
        >>> float(lax.reciprocal(4.0))
        0.25
    """
    return bind(powers.integer_pow, x, y=-1)


def population_count(x: Any) -> Any:
    """The number of bits set in the two's complement of x, in x's dtype.

    Args:
        x: an array of integers.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.population_count(np.array([7, -1], np.int8))
        array([3, 8], dtype=int8)
    """
    dtype = _integer("population_count", x)
    bits = convert.bitcast_convert_type(_strong(x), new_dtype=np.dtype(f"u{dtype.itemsize}"))
    return convert.convert_element_type(compare.population_count(bits), new_dtype=dtype)


def shift_right_logical(x: Any, y: Any) -> Any:
    """Shift bits to the right, filling with zeros, whatever the sign.

    Args:
        x: an array of integers.
        y: how far; an array of the same dtype.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.shift_right_logical(np.int8(-1), np.int8(4))
        np.int8(15)
    """
    return _shifted("shift_right_logical", "u", x, y)


def shift_right_arithmetic(x: Any, y: Any) -> Any:
    """Shift bits to the right, filling with the highest one.

    Args:
        x: an array of integers.
        y: how far; an array of the same dtype.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.shift_right_arithmetic(np.uint8(255), np.uint8(4))
        np.uint8(255)
    """
    return _shifted("shift_right_arithmetic", "i", x, y)


def _shifted(name: str, kind: str, x: Any, y: Any) -> Any:
    dtype = _integer(name, x)
    if dtype.kind == kind:
        return bind(compare.shift_right, x, y)
    compare.shift_right.type(typeof(x), typeof(y))
    view = np.dtype(f"{kind}{dtype.itemsize}")
    x, y = (convert.bitcast_convert_type(_strong(v, dtype), new_dtype=view) for v in (x, y))
    return convert.bitcast_convert_type(compare.shift_right(x, y), new_dtype=dtype)


def _integer(name: str, x: Any) -> np.dtype[Any]:
    a = typeof(x)
    if a.dtype.kind not in "iu":
        raise DtypeError(
            f"lax.{name} was given {a}, which is no integer array.", "Convert it with astype(int)."
        )
    return a.dtype


def _strong(x: Any, dtype: Any = None) -> Any:
    a = typeof(x)
    return convert.convert_element_type(x, new_dtype=dtype or a.dtype) if a.weak else x


def convert_element_type(operand: Any, new_dtype: Any) -> Any:
    """The values in another dtype; complex to real takes the real part.

    Args:
        operand: an array.
        new_dtype: the dtype wanted.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.convert_element_type(np.array([1.7]), np.int32)
        array([1], dtype=int32)
    """
    return bind(convert.convert_element_type, operand, new_dtype=dtype_of(new_dtype))


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The same bits read as another dtype.

    Args:
        operand: an array; a smaller dtype adds a last axis, a larger one consumes it.
        new_dtype: the dtype wanted.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> hex(lax.bitcast_convert_type(np.float32(1.0), np.uint32))
        '0x3f800000'
    """
    return bind(convert.bitcast_convert_type, operand, new_dtype=dtype_of(new_dtype))


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Round floats to a format of fewer bits, kept in their own dtype.

    Args:
        operand: an array of real floats.
        exponent_bits, mantissa_bits: the format; bfloat16 has 8 and 7.

    Example:
        >>> import ftrace.lax as lax
        >>> float(lax.reduce_precision(1.01, 8, 7))
        1.0078125
    """
    return bind(
        convert.reduce_precision, operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits
    )


def stop_gradient(x: Any) -> Any:
    """The same value, treated as a constant by every derivative.

    Args:
        x: an array, or a container of arrays.

    Example:
        >>> import ftrace
        >>> float(ftrace.grad(lambda x: x * ftrace.lax.stop_gradient(x))(3.0))
        3.0
    """
    return tree_map(lambda leaf: bind(convert.stop_gradient, leaf), x)


def optimization_barrier(operand: T) -> T:
    """The same values, computed together and before anything that uses them.

    A compiled program neither fuses operations across a barrier nor drops some of its values:
    they are all computed if any is used.

    Args:
        operand: an array, or a container of arrays.

    Returns:
        A container like `operand`.

    Example:
        >>> import numpy as np, ftrace
        >>> f = ftrace.jit(lambda x: ftrace.lax.optimization_barrier(x * 2) + 1)
        >>> f(np.array([1.0, 2.0]))
        array([3., 5.])
    """
    leaves, tree = tree_flatten(operand)
    return tree_unflatten(tree, bind(convert.optimization_barrier, *leaves) if leaves else leaves)


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """Elements of one array where a condition holds, of another where it does not.

    Args:
        pred: a boolean array of the others' shape, or a scalar.
        on_true, on_false: arrays of one shape and dtype, or scalars.

    Raises:
        ShapeError, DtypeError: they do not fit each other.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.select(np.array([True, False]), np.ones(2), np.zeros(2))
        array([1., 0.])
    """
    return bind(compare.select, pred, on_true, on_false)


def clamp(min: Any, x: Any, max: Any) -> Any:
    """Elements held between two bounds.

    Args:
        min, max: bounds of the array's shape, or scalars.
        x: an array.

    Raises:
        ShapeError, DtypeError: they do not fit each other.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.clamp(0.0, np.array([-1.0, 0.5, 2.0]), 1.0)
        array([0. , 0.5, 1. ])
    """
    return bind(compare.clamp, min, x, max)


def select_n(which: Any, *cases: Any) -> Any:
    """The elements of one of several arrays, chosen element by element.

    Args:
        which: booleans (for at most two cases) or integers from 0 to the number of cases - 1, of
            the cases' shape or a scalar; False and 0 choose the first case.
        cases: arrays of one shape and dtype.

    Raises:
        ShapeError: no cases.
        DtypeError: `which` is neither boolean nor integer, or boolean with more than two cases.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.select_n(np.array([0, 2, 1]), np.zeros(3), np.ones(3), np.full(3, 2.0))
        array([0., 2., 1.])
    """
    n = len(cases)
    if n == 0:
        raise ShapeError("lax.select_n was given no cases.", "Give at least one array.")
    a = typeof(which)
    if a.dtype.kind not in "biu" or (a.dtype.kind == "b" and n > 2):
        raise DtypeError(
            f"lax.select_n was given {a} to choose among {n} cases.",
            "Use booleans for two cases, integers for more.",
        )
    found = cases[0]
    for i, case in enumerate(cases):
        compare.select.type(aval(a.shape, bool_), typeof(found), typeof(case))
        if i:
            later = which if a.dtype.kind == "b" else compare.ge(which, a.dtype.type(i))
            found = compare.select(later, case, found)
    return own(found, which, *cases)
