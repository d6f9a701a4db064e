"""Matrices and grids: eye, tril, diag, vander, meshgrid, indices and their kin."""

import math
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import typeof
from ftrace.core.dtypes import canonical
from ftrace.core.trace import lifted
from ftrace.numpy import layouts, ufuncs
from ftrace.numpy.creation import INDEX, filled
from ftrace.numpy.promote import (
    cast,
    numpy_function,
    static_int,
    static_shape,
    stretch,
    strong,
    value,
)
from ftrace.numpy.refusing import refuse
from ftrace.numpy.shaping import broadcast_to, diagonal, swapaxes
from ftrace.numpy.views import c_order
from ftrace.primitives import elementwise as e
from ftrace.primitives.convert import copy as copy_row
from ftrace.primitives.create import iota
from ftrace.primitives.linear import add
from ftrace.primitives.shape import concatenate, expand_dims, reshape
from ftrace.primitives.slicing import pad as pad_row

# ---------------------------------------------------------------------------------- matrices


def _band(n: int, m: int, k: int, row: Any) -> Any:
    """A comparison of `column` with `row + k` on an n x m grid."""
    rows = iota(dtype=INDEX, shape=(n, m), dimension=0)
    columns = iota(dtype=INDEX, shape=(n, m), dimension=1)
    return row(columns, add(rows, INDEX.type(k)) if k else rows)


@numpy_function
def eye(
    N: Any, M: Any = None, k: int = 0, dtype: Any = float, order: str = "C", **ignored: Any
) -> Any:
    """Ones on a diagonal, zeros elsewhere."""
    n = static_int(N, "N")
    m = n if M is None else static_int(M, "M")
    return c_order(cast(_band(n, m, static_int(k, "k"), e.eq), dtypes.canonical(dtype)))


@numpy_function
def identity(n: Any, dtype: Any = None, **ignored: Any) -> Any:
    """The identity matrix."""
    return eye(n, dtype=dtype or float)


@numpy_function
def tri(N: Any, M: Any = None, k: int = 0, dtype: Any = float, **ignored: Any) -> Any:
    """Ones on and below a diagonal."""
    n = static_int(N, "N")
    m = n if M is None else static_int(M, "M")
    return c_order(cast(_band(n, m, static_int(k, "k"), e.le), dtypes.canonical(dtype)))


def _triangle(m: Any, k: Any, below: bool) -> Any:
    x = strong(value(m))
    shape = typeof(x).shape
    if len(shape) < 2:
        x = stretch(x, (*shape, *shape)) if shape else x
        shape = typeof(x).shape
    rows, columns = shape[-2:]
    keep = _band(rows, columns, static_int(k, "k"), e.le if below else e.ge)
    return e.select(stretch(keep, shape), x, typeof(x).dtype.type(0))


@numpy_function
def tril(m: Any, k: int = 0) -> Any:
    """The part of matrices on and below a diagonal."""
    return _triangle(m, k, True)


@numpy_function
def triu(m: Any, k: int = 0) -> Any:
    """The part of matrices on and above a diagonal."""
    return _triangle(m, k, False)


@numpy_function
def diag(v: Any, k: int = 0) -> Any:
    """The diagonal of a matrix, or the matrix with a diagonal."""
    x = strong(value(v))
    if typeof(x).ndim == 2:
        return diagonal(x, k)
    if typeof(x).ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    return _diagonal_matrix(x, static_int(k, "k"))


def _diagonal_matrix(x: Any, k: int) -> Any:
    n = typeof(x).shape[0]
    side = n + abs(k)
    zero = typeof(x).dtype.type(0)
    if not side:
        return filled((0, 0), zero)
    start = k if k >= 0 else -k * side
    spread = max(n - 1, 0) * (side + 1) + min(n, 1)
    flat = pad_row(x, zero, padding_config=((start, side * side - start - spread, side),))
    return reshape(flat, new_sizes=(side, side))


@numpy_function
def diagflat(v: Any, k: int = 0) -> Any:
    """The matrix with all elements of an array on a diagonal."""
    x = strong(value(v))
    return _diagonal_matrix(reshape(x, new_sizes=(typeof(x).size,)), static_int(k, "k"))


@numpy_function
def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    """Powers of a vector's elements, one row each."""
    x = strong(value(x))
    if type(N) is bool:
        raise TypeError("an integer is required")
    if typeof(x).ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    n = typeof(x).shape[0] if N is None else static_int(N, "N")
    if n < 0:
        raise ValueError("negative dimensions are not allowed")
    x = cast(x, canonical(np.promote_types(typeof(x).dtype, np.int64)))
    exponents = range(n) if increasing else range(n - 1, -1, -1)
    columns = [expand_dims(ufuncs.apply(np.power, x, p), dimensions=(1,)) for p in exponents]
    if not columns:
        return filled((typeof(x).shape[0], 0), typeof(x).dtype.type(0))
    return concatenate(*columns, dimension=1)


# ---------------------------------------------------------------------------------- grids


@numpy_function
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """Coordinate arrays of a grid from coordinate vectors."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    rank = len(xi)
    vectors = [strong(value(x)) for x in xi]
    sizes = tuple(typeof(x).size for x in vectors)
    found = []
    for i, x in enumerate(vectors):
        wide = tuple(n if j == i else 1 for j, n in enumerate(sizes))
        if copy:
            y = reshape(copy_row(x) if sparse else x, new_sizes=wide)
            y = y if sparse else stretch(y, sizes)
        else:
            y = layouts.reshape(x, new_sizes=wide)
            y = y if sparse else broadcast_to(y, sizes)
        swapped = indexing == "xy" and rank > 1
        found.append(swapaxes(y, 0, 1) if swapped else y)
    return tuple(found)


@numpy_function
def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """The indices of a grid, one array per axis."""
    shape = static_shape(dimensions)
    target = dtypes.canonical(dtype)
    if sparse:
        return tuple(
            cast(
                iota(
                    dtype=INDEX,
                    shape=tuple(n if j == i else 1 for j, n in enumerate(shape)),
                    dimension=i,
                ),
                target,
            )
            for i in range(len(shape))
        )
    grids = [
        expand_dims(cast(iota(dtype=INDEX, shape=shape, dimension=i), target), dimensions=(0,))
        for i in range(len(shape))
    ]
    return concatenate(*grids, dimension=0) if grids else filled((0,), target.type(0))


@numpy_function
def fromfunction(function: Any, shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """A function of a grid's indices."""
    grid = indices(shape, dtype=dtype)
    return lifted(function)(*[grid[i] for i in range(len(static_shape(shape)))], **kwargs)


def _flat(x: Any) -> Any:
    """Integer indices as int64."""
    found = strong(value(x))
    if typeof(found).dtype.kind not in "biu":
        raise TypeError("only int indices permitted")
    return cast(found, INDEX)


def _outside(i: Any, n: int) -> Any:
    return e.bitwise_or(e.lt(i, INDEX.type(0)), e.ge(i, INDEX.type(n)))


def _is_by_rows(order: Any) -> bool:
    if order not in ("C", "F"):
        raise ValueError("only 'C' or 'F' order is permitted")
    return order == "C"


@numpy_function
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """The index along each axis from flat indices."""
    rest, sizes = _flat(indices), static_shape(shape)
    by_rows, size = _is_by_rows(order), math.prod(sizes)
    words = f"an index is out of bounds for array with size {size}"
    refuse(_outside(rest, size), ValueError, words)
    found = []
    for n in reversed(sizes) if by_rows else sizes:
        found.append(e.mod(rest, INDEX.type(n)))
        rest = e.floor_divide(rest, INDEX.type(n))
    return tuple(reversed(found)) if by_rows else tuple(found)


@numpy_function
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """Flat indices from the index along each axis."""
    sizes = static_shape(dims)
    modes = (mode,) * len(sizes) if isinstance(mode, str) else tuple(mode)
    found = INDEX.type(0)
    triples = list(zip(multi_index, sizes, modes, strict=True))
    for index, n, how in triples if _is_by_rows(order) else reversed(triples):
        i = _flat(index)
        if how == "wrap":
            i = e.mod(i, INDEX.type(n))
        elif how == "clip":
            i = e.clamp(INDEX.type(0), i, INDEX.type(n - 1))
        elif how == "raise":
            refuse(_outside(i, n), ValueError, "invalid entry in coordinates array")
        else:
            raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {how!r})")
        found = ufuncs.apply(np.add, e.mul(found, INDEX.type(n)), i)
    return found
