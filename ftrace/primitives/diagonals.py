"""What rules of decompositions are written with, beyond products: diagonals, scalings, real parts.

Operands are stacks of matrices, or of the vectors that go with them; all are made of rows.
"""

from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.primitives.arithmetic import mul, real
from ftrace.primitives.compare import eq, gt, lt, select
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.create import iota
from ftrace.primitives.linear import broadcast_in_dim, reduce_sum


def real_of(a: ShapedArray, shape: tuple[int, ...]) -> ShapedArray:
    """The type of real numbers that go with an operand."""
    return aval(shape, dtypes.real_dtype(a.dtype))


def epsilon(dtype: np.dtype[Any]) -> float:
    """The rounding unit of a floating or complex dtype."""
    return float(np.finfo(dtype).eps)


def real_part(x: Any) -> Any:
    """The real part; real numbers as they are."""
    return real(x) if typeof(x).dtype.kind == "c" else x


def like(w: Any, x: Any) -> Any:
    """Numbers in the dtype of others."""
    dtype = typeof(x).dtype
    return w if typeof(w).dtype == dtype else convert_element_type(w, new_dtype=dtype)


def along_rows(w: Any, shape: tuple[int, ...]) -> Any:
    """Vectors as matrices of a shape: element j in column j."""
    n = len(shape) - 2
    return broadcast_in_dim(w, shape=shape, broadcast_dimensions=(*range(n), n + 1))


def along_columns(w: Any, shape: tuple[int, ...]) -> Any:
    """Vectors as matrices of a shape: element i in row i."""
    n = len(shape) - 2
    return broadcast_in_dim(w, shape=shape, broadcast_dimensions=(*range(n), n))


def scaled(x: Any, w: Any) -> Any:
    """Column j of matrices times element j of vectors, which may be real."""
    return mul(x, along_rows(like(w, x), typeof(x).shape))


def where_places(compare: Any, shape: tuple[int, ...]) -> Any:
    """Where row and column of a place compare so, in matrices of a shape."""
    n = len(shape) - 2
    row, column = (iota(dtype=dtypes.int64, shape=shape[-2:], dimension=i) for i in (0, 1))
    found = compare(row, column)
    return broadcast_in_dim(found, shape=shape, broadcast_dimensions=(n, n + 1)) if n else found


def diagonal(x: Any) -> Any:
    """The diagonals of square matrices."""
    a = typeof(x)
    only = select(where_places(eq, a.shape), x, a.dtype.type(0))
    return reduce_sum(only, axes=(a.ndim - 1,))


def half(x: Any, low: bool) -> Any:
    """A triangle with half of the diagonal: with its adjoint it is the Hermitian matrix."""
    a = typeof(x)
    on = select(where_places(eq, a.shape), mul(x, a.dtype.type(0.5)), a.dtype.type(0))
    return select(where_places(gt if low else lt, a.shape), x, on)
