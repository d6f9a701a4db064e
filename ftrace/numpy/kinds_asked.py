"""Questions about dtypes that are asked of arrays: result_type, can_cast, common_type and kin.

A traced value answers with what it stands for: an array or a NumPy scalar with its dtype, a Python
number with its kind, as NumPy's promotion has it.
"""

from typing import Any, Final

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.trace import Tracer
from ftrace.numpy.promote import known, numpy_function

_PYTHON: Final = {"b": False, "i": 0, "f": 0.0, "c": 0j}


def _kind(x: Any) -> Any:
    """A dtype, or a Python number, in the place of a traced operand."""
    if not isinstance(x, Tracer):
        return x
    return _PYTHON[x.aval.dtype.kind] if x.aval.weak else x.aval.dtype


def _empty(x: Any) -> Any:
    """An array without elements in the place of a traced one."""
    return np.empty(0, typeof(x).dtype) if isinstance(x, Tracer) else x


@numpy_function
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype in which operands meet."""
    return np.result_type(*map(_kind, arrays_and_dtypes))


@numpy_function
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether a dtype, or that of an array, may be converted to another."""
    return np.can_cast(_kind(from_), _kind(to), casting)


@numpy_function
def common_type(*arrays: Any) -> Any:
    """The inexact scalar type in which arrays meet."""
    return np.common_type(*map(_empty, arrays))


@numpy_function
def min_scalar_type(a: Any) -> np.dtype[Any]:
    """The dtype of an array; the smallest one that holds the value of a scalar that is known."""
    of_value = typeof(a).shape == () and typeof(a).dtype.kind in "biufc"
    return np.min_scalar_type(known(a, "numpy.min_scalar_type") if of_value else _empty(a))
