"""What the functions of numpy.linalg share: their public form and their operands.

The public module is `linalg.py`; norms and products are there, systems in `linear_equations.py`.
"""

from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.dtypes import complex128, float64
from ftrace.numpy import ufuncs
from ftrace.numpy.promote import cast, common_dtype, member_of, strong, value

linalg_function = member_of(np.linalg)


def inexact_64(x: Any) -> Any:
    """The operand as float or complex; integers as float64, as numpy.linalg does."""
    x = strong(value(x))
    return ufuncs.apply(np.add, x, 0.0) if typeof(x).dtype.kind in "biu" else x


def common(*xs: Any) -> tuple[list[Any], np.dtype[Any]]:
    """Operands in double precision, in which numpy.linalg computes, and the dtype of its result.

    Raises:
        TypeError: half precision, with NumPy's words.
    """
    found = [strong(value(x)) for x in xs]
    found = [cast(x, float64) if typeof(x).dtype.kind in "biu" else x for x in found]
    dtype = common_dtype(*found)
    if dtype == np.float16:
        raise TypeError("array type float16 is unsupported in linalg")
    double = float64 if dtype.kind == "f" else complex128
    return [cast(x, double) for x in found], dtype
