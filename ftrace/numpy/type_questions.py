"""NumPy's questions of type on traced values: what would an operation of them give?

They depend on types alone, so the answer is NumPy's own, of stand-ins: a Python number for a weak
scalar, a dtype for everything else.
"""

from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.trace import Tracer
from ftrace.numpy.promote import numpy_function


def _stand_in(x: Any) -> Any:
    """What has the type of a traced value: a Python number, or a dtype."""
    if not issubclass(type(x), Tracer):
        return x
    own = typeof(x)
    return own.dtype.type(0).item() if own.weak else own.dtype


@numpy_function
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype to which NumPy promotes operands and dtypes."""
    return np.result_type(*map(_stand_in, arrays_and_dtypes))


@numpy_function
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether a value or dtype may be converted to a dtype under a rule for casting."""
    if issubclass(type(from_), Tracer):
        from_ = typeof(from_).dtype
    return np.can_cast(from_, to, casting)


@numpy_function
def common_type(*arrays: Any) -> type:
    """The inexact type of numbers that holds what arrays hold."""
    return np.common_type(*(np.empty(0, typeof(a).dtype) for a in arrays))


@numpy_function
def min_scalar_type(a: Any, /) -> np.dtype[Any]:
    """The dtype of a value; that of a number that is not traced is the smallest that holds it."""
    return typeof(a).dtype if issubclass(type(a), Tracer) else np.min_scalar_type(a)
