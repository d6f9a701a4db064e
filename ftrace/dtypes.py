"""`ftrace.dtypes`: questions about dtypes, which are NumPy's, under JAX's names."""

from typing import Any, Final

import numpy as np
from numpy import finfo as finfo
from numpy import iinfo as iinfo
from numpy import issubdtype as issubdtype

from ftrace.core.dtypes import canonical
from ftrace.core.errors import DtypeError
from ftrace.core.jax_names import refusing as _refusing

_SCALARS: Final = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> np.dtype[Any]:
    """The dtype that arrays of this one have: itself.

    Example:
        >>> import ftrace.dtypes
        >>> ftrace.dtypes.canonicalize_dtype("int64")
        dtype('int64')
    """
    return canonical(dtype)


def result_type(*args: Any) -> np.dtype[Any]:
    """The dtype in which arrays, numbers and dtypes meet, as `numpy.result_type` says.

    Example:
        >>> import numpy as np, ftrace.dtypes
        >>> ftrace.dtypes.result_type(np.float32, 1.0)
        dtype('float32')
    """
    return np.result_type(*args)


def scalar_type_of(x: Any) -> type:
    """The Python type of numbers of an array's dtype.

    Raises:
        DtypeError: what has none.

    Example:
        >>> import numpy as np, ftrace.dtypes
        >>> ftrace.dtypes.scalar_type_of(np.zeros(2, np.float32))
        <class 'float'>
    """
    try:
        return _SCALARS[np.result_type(x).kind]
    except (TypeError, KeyError):
        raise DtypeError(
            f"{x!r} has no dtype of numbers.", "Pass an array, a number or a dtype of numbers."
        ) from None


def itemsize_bits(dtype: Any) -> int:
    """The bits of an element of a dtype.

    Example:
        >>> import ftrace.dtypes
        >>> ftrace.dtypes.itemsize_bits("float32")
        32
    """
    return canonical(dtype).itemsize * 8


__getattr__ = _refusing("dtypes")
