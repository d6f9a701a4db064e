"""What the functions of scipy.linalg share: operands in one precision, vectors as columns.

`check_finite` and the `overwrite_` options are taken and not looked at: NaN in gives NaN out.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.dtypes import float32, float64
from ftrace.core.errors import MatrixError
from ftrace.numpy.linear_equations import stacked
from ftrace.numpy.promote import cast, common_dtype, strong, value
from ftrace.numpy.refusing import refuse
from ftrace.primitives.shape import expand_dims, reshape
from ftrace.primitives.stacks import check_matrices, check_square, conjugated
from ftrace.primitives.triangular import triangular_solve


def floating(*xs: Any) -> list[Any]:
    """Operands in one dtype that LAPACK has: integers as float64, half precision as float32."""
    found = [strong(value(x)) for x in xs]
    found = [cast(x, float64) if typeof(x).dtype.kind in "biu" else x for x in found]
    dtype = common_dtype(*found)
    return [cast(x, float32 if dtype == np.float16 else dtype) for x in found]


def square(name: str, *xs: Any) -> list[Any]:
    """Operands in one precision, of which the first is a stack of square matrices.

    Raises:
        MatrixError: it is not.
    """
    found = floating(*xs)
    check_square(name, typeof(found[0]))
    return found


def rectangular(name: str, a: Any) -> Any:
    """A stack of matrices in a dtype that LAPACK has."""
    (a,) = floating(a)
    check_matrices(name, typeof(a))
    return a


def as_complex(a: Any) -> Any:
    """Matrices in the complex dtype of their precision."""
    dtype = typeof(a).dtype
    return a if dtype.kind == "c" else cast(a, np.result_type(dtype, np.complex64))


def on_columns(a: Any, b: Any, solve: Callable[[Any, Any], Any]) -> Any:
    """A system for a right-hand side of columns, or of one vector where it has one axis.

    Raises:
        MatrixError: b has no axis.
    """
    if not typeof(b).shape:
        raise MatrixError("The right-hand side is a number.", "It has an entry for each row of a.")
    if typeof(b).ndim > 1:
        return solve(*stacked(a, b))
    x = solve(*stacked(a, expand_dims(b, dimensions=(1,))))
    return reshape(x, new_sizes=typeof(x).shape[:-1])


def triangular(a: Any, b: Any, lower: bool, trans: int = 0, unit: bool = False) -> Any:
    """The solution of a x = b, a^T x = b or a^H x = b (trans 0, 1, 2) for a triangle of a."""
    a = conjugated(a) if trans == 2 else a
    how = {"transpose_a": trans > 0, "conjugate_a": False, "unit_diagonal": unit}
    return triangular_solve(a, b, left_side=True, lower=lower, **how)


def refuse_zeros(diagonal: Any) -> None:
    """Raise `LinAlgError` where a diagonal of a triangular matrix has a zero."""
    if typeof(diagonal).size:
        refuse(diagonal == 0, np.linalg.LinAlgError, "Singular matrix: its diagonal has a zero.")
