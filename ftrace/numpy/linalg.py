"""`ftrace.numpy.linalg`: norms and products here, systems from `linear_equations.py`.

Norms are guarded: where a vector is zero its norm has derivative zero, not NaN.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.device import free
from ftrace.core.dtypes import real_dtype
from ftrace.core.errors import DtypeError, MatrixError, ShapeError
from ftrace.numpy import matrix_products, reductions, shaping, ufuncs
from ftrace.numpy.linalg_functions import common, inexact_64, linalg_function
from ftrace.numpy.linear_equations import cholesky as cholesky
from ftrace.numpy.linear_equations import det as det
from ftrace.numpy.linear_equations import inv as inv
from ftrace.numpy.linear_equations import inverted
from ftrace.numpy.linear_equations import slogdet as slogdet
from ftrace.numpy.linear_equations import solve as solve
from ftrace.numpy.linear_equations import tensorinv as tensorinv
from ftrace.numpy.linear_equations import tensorsolve as tensorsolve
from ftrace.numpy.precision import product
from ftrace.numpy.promote import (
    cast,
    many_axes,
    one_axis,
    static_int,
    strong,
    value,
)
from ftrace.numpy.rank_functions import lstsq as lstsq
from ftrace.numpy.rank_functions import matrix_rank as matrix_rank
from ftrace.numpy.rank_functions import pinv as pinv
from ftrace.numpy.spectral_functions import eig as eig
from ftrace.numpy.spectral_functions import eigh as eigh
from ftrace.numpy.spectral_functions import eigvals as eigvals
from ftrace.numpy.spectral_functions import eigvalsh as eigvalsh
from ftrace.numpy.spectral_functions import qr as qr
from ftrace.numpy.spectral_functions import svd as svd
from ftrace.numpy.spectral_functions import svdvals as svdvals
from ftrace.numpy.spectral_functions import values_along
from ftrace.primitives import elementwise as e
from ftrace.primitives import systems
from ftrace.primitives.convert import copy as copy_row
from ftrace.primitives.shape import expand_dims, reshape
from ftrace.primitives.stacks import check_matrices, check_square

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv",
    "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose",
    "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip


# ---------------------------------------------------------------------------------- norms


def _size(x: Any) -> Any:
    return ufuncs.apply(np.absolute, x)


def _guarded(x: Any, axes: tuple[int, ...], keepdims: bool, norm: Callable[[Any], Any]) -> Any:
    """A norm of a vector that is nowhere zero, and zero where the vector is."""
    size = _size(x)
    dtype = typeof(size).dtype
    zero = reductions.all(e.eq(size, dtype.type(0)), axis=axes, keepdims=True)
    found = norm(e.select(shaping.broadcast_to(zero, typeof(x).shape), dtype.type(1), size))
    found = e.select(zero, dtype.type(0), found)
    return found if keepdims else _dropped(found, axes)


def _dropped(x: Any, axes: tuple[int, ...]) -> Any:
    shape = typeof(x).shape
    return reshape(x, new_sizes=tuple(n for i, n in enumerate(shape) if i not in axes))


def _vector(x: Any, axes: tuple[int, ...], order: Any, keepdims: bool) -> Any:
    """The norm of vectors that lie along axes."""
    if order in (None, 2, 2.0):
        return _guarded(
            x,
            axes,
            keepdims,
            lambda s: e.sqrt(reductions.sum(e.square(s), axis=axes, keepdims=True)),
        )
    if order == np.inf:
        return reductions.max(_size(x), axis=axes, keepdims=keepdims)
    if order == -np.inf:
        return reductions.min(_size(x), axis=axes, keepdims=keepdims)
    if order == 0:
        dtype = typeof(_size(x)).dtype
        present = e.ne(x, typeof(x).dtype.type(0))
        return reductions.sum(present, axis=axes, keepdims=keepdims, dtype=dtype)
    if order == 1:
        return reductions.sum(_size(x), axis=axes, keepdims=keepdims)
    if isinstance(order, str):
        raise ValueError(f"Invalid norm order '{order}' for vectors")
    if typeof(value(order)).dtype.kind == "c":
        raise TypeError(f"Cannot take the norm of the complex order {order}")

    def general(size: Any) -> Any:
        total = reductions.sum(ufuncs.apply(np.power, size, order), axis=axes, keepdims=True)
        return ufuncs.apply(np.power, total, 1.0 / order)

    return _guarded(x, axes, keepdims, general)


# What norms make of singular values; equal greatest ones share the derivative.
_OF_SINGULAR_VALUES = {"nuc": reductions.sum, 2: reductions.max, -2: reductions.min}


def _matrix(x: Any, axes: tuple[int, int], order: Any, keepdims: bool) -> Any:
    """The norm of matrices that lie in two axes."""
    if order in (None, "fro", "f"):
        return _vector(x, axes, 2, keepdims)
    row, column = axes
    if order in _OF_SINGULAR_VALUES:
        found = _OF_SINGULAR_VALUES[order](values_along(x, axes), axis=-1)
        kept = tuple(1 if i in axes else n for i, n in enumerate(typeof(x).shape))
        return reshape(found, new_sizes=kept) if keepdims else found
    inner, outer = (row, column) if order in (1, -1) else (column, row)
    if order not in (1, -1, np.inf, -np.inf):
        raise ValueError("Invalid norm order for matrices.")
    extreme = reductions.max if order > 0 else reductions.min
    sums = reductions.sum(_size(x), axis=inner, keepdims=True)
    found = extreme(sums, axis=outer, keepdims=True)
    return found if keepdims else _dropped(found, axes)


@linalg_function
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """A norm of vectors or matrices, with derivative zero where they are zero."""
    x = inexact_64(x)
    ndim = typeof(x).ndim
    if type(ord) is int and ord.bit_length() > 64:
        raise DtypeError(f"norm was given ord={ord}, which no dtype holds.", "Pass a float.")
    if axis is None:
        if ord is None or ndim == 1:
            axes = tuple(range(ndim))
            return _vector(x, axes, ord if ndim == 1 else None, keepdims)
        axes = tuple(range(ndim))
    else:
        axes = many_axes(axis, ndim)
    if len(axes) == 1:
        return _vector(x, axes, ord, keepdims)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    return _matrix(x, (axes[0], axes[1]), ord, keepdims)


@linalg_function
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm of vectors along axes; of all elements without an axis."""
    x = inexact_64(x)
    return _vector(x, many_axes(axis, typeof(x).ndim), ord, keepdims)


@linalg_function
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of the matrices in the last two axes."""
    x = inexact_64(x)
    ndim = typeof(x).ndim
    if ndim < 2:
        raise ShapeError("matrix_norm was given fewer than two axes.", "Pass a matrix.")
    return _matrix(x, (ndim - 2, ndim - 1), ord, keepdims)


def _ratio(x: Any, y: Any) -> Any:
    """x / y, infinite where y is zero."""
    zero = e.eq(y, typeof(y).dtype.type(0))
    one, infinite = (typeof(y).dtype.type(c) for c in (1, np.inf))
    return e.select(zero, infinite, e.div(x, e.select(zero, one, y)))


@linalg_function
def cond(x: Any, p: Any = None) -> Any:
    """The condition number in a norm; infinite where a matrix has no inverse.

    Equal greatest (or least) singular values share the derivative.
    """
    x = inexact_64(x)
    check_matrices("cond", typeof(x))
    if 0 in typeof(x).shape[-2:]:
        raise np.linalg.LinAlgError("cond is not defined on empty arrays")
    if p is None or p in (2, -2):
        s = values_along(x, (typeof(x).ndim - 2, typeof(x).ndim - 1))
        high, low = reductions.max(s, axis=-1), reductions.min(s, axis=-1)
        return _ratio(low, high) if p == -2 else _ratio(high, low)
    check_square("cond", typeof(x))
    (double,), dtype = common(x)
    first, second = (norm(y, p, axis=(-2, -1)) for y in (double, systems.inv(double)))
    found = cast(e.mul(first, second), real_dtype(dtype))
    given = reductions.any(ufuncs.apply(np.isnan, x), axis=(-2, -1))
    lost = e.bitwise_and(e.isnan(found), e.bitwise_not(given))
    return e.select(lost, typeof(found).dtype.type(np.inf), found)


# ---------------------------------------------------------------------------------- products


@product
@linalg_function
def matmul(x1: Any, x2: Any, /) -> Any:
    """The matrix product."""
    return matrix_products.matmul(x1, x2)


@product
@linalg_function
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The product of vectors along an axis; the first is conjugated."""
    return matrix_products.vecdot(x1, x2, axis=axis)


@product
@linalg_function
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """The product over any axes."""
    return matrix_products.tensordot(x1, x2, axes)


@linalg_function
def outer(x1: Any, x2: Any, /) -> Any:
    """The outer product of two vectors."""
    if typeof(value(x1)).ndim != 1 or typeof(value(x2)).ndim != 1:
        raise ShapeError("linalg.outer takes two vectors.", "Use numpy.outer, which flattens.")
    return matrix_products.outer(x1, x2)


@linalg_function
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of 3 components."""
    sizes = [typeof(x).shape[one_axis(axis, typeof(x).ndim)] for x in map(value, (x1, x2))]
    if sizes != [3, 3]:
        raise ShapeError(
            f"linalg.cross was given vectors of {sizes[0]} and {sizes[1]} components.",
            "They must have 3 of them: see numpy.cross for 2.",
        )
    return matrix_products.cross(x1, x2, axis=axis)


@linalg_function
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of the matrices in the last two axes."""
    return shaping.diagonal(x, offset, -2, -1)


@linalg_function
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of the matrices in the last two axes."""
    return reductions.trace(x, offset, -2, -1, dtype)


@linalg_function
def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged."""
    return shaping.matrix_transpose(x)


@linalg_function
def matrix_power(a: Any, n: int) -> Any:
    """A square matrix to a power, by repeated squaring; a negative one of its inverse."""
    x = strong(value(a))
    shape = typeof(x).shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise MatrixError(f"matrix_power of shape {shape}.", "The last two axes must be equal.")
    n = static_int(n, "n")
    if n < 0:
        (x,), dtype = common(x)
        x, n = cast(inverted(x), dtype), -n
    if n == 0:
        side = np.broadcast_to(np.eye(shape[-1], dtype=typeof(x).dtype), shape)
        return copy_row(free(np.array(side)))
    if n == 3:  # NumPy's order, and bits
        return matrix_products.matmul(matrix_products.matmul(x, x), x)
    found, square = None, x
    while n:
        if n & 1:
            found = square if found is None else matrix_products.matmul(found, square)
        n >>= 1
        square = matrix_products.matmul(square, square) if n else square
    return copy_row(x) if found is x else found


@linalg_function
def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """The product of a chain of matrices, in the cheapest order."""
    xs = [value(x) for x in arrays]
    if len(xs) < 2:
        raise ValueError("Expecting at least two arrays.")
    first, last = typeof(xs[0]).ndim == 1, typeof(xs[-1]).ndim == 1
    if first:
        xs[0] = expand_dims(xs[0], dimensions=(0,))
    if last:
        xs[-1] = expand_dims(xs[-1], dimensions=(1,))
    sizes = [typeof(x).shape[0] for x in xs] + [typeof(xs[-1]).shape[1]]
    found = _chain(xs, _cuts(sizes), 0, len(xs) - 1)
    shape = typeof(found).shape
    found = reshape(found, new_sizes=shape[first : 2 - last]) if first or last else found
    return ufuncs.finish(np.matmul, found, out)


def _cuts(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split each stretch of a chain so that the fewest products are made."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    cut: dict[tuple[int, int], int] = {}
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            cost[i, j], cut[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return cut


def _chain(xs: list[Any], cut: Any, i: int, j: int) -> Any:
    if i == j:
        return xs[i]
    k = cut[i, j]
    return matrix_products.matmul(_chain(xs, cut, i, k), _chain(xs, cut, k + 1, j))
