"""Making arrays: array, zeros, arange, linspace, eye, tril, meshgrid and their kin.

Inside a transformation they make traced values, so that `out = fnp.zeros(n); out[i] = f(x)`
works. Sizes are Python ints.
"""

import math
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import typeof
from ftrace.core.errors import DtypeError
from ftrace.core.trace import EVAL, Tracer, ctx
from ftrace.numpy import ufuncs
from ftrace.numpy.elementary import multiply, where
from ftrace.numpy.promote import (
    cast,
    common_dtype,
    document,
    nested,
    numpy_function,
    one_axis,
    promote_inexact,
    static_int,
    static_shape,
    stretch,
    strong,
    value,
)
from ftrace.numpy.shaping import diagonal, swapaxes
from ftrace.numpy.views import c_order, kept_order
from ftrace.primitives import elementwise as e
from ftrace.primitives.convert import copy as copy_row
from ftrace.primitives.create import iota
from ftrace.primitives.linear import add, move_axis
from ftrace.primitives.shape import concatenate, expand_dims, reshape
from ftrace.primitives.slicing import pad as pad_row
from ftrace.primitives.slicing import slice as slice_row

INDEX = np.dtype(np.intp)


def filled(shape: tuple[int, ...], number: Any) -> Any:
    """A new array of one number, laid out in C order."""
    found = stretch(number, shape)
    return c_order(copy_row(found) if found is number else found)


# ---------------------------------------------------------------------------------- from values


@numpy_function
def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
    like: Any = None,
) -> Any:
    """A new array from anything array-like; nested lists may hold traced values."""
    x = value(object)
    target = typeof(x).dtype if dtype is None else dtypes.canonical(dtype)
    found = cast(x, target)
    if found is x or not isinstance(found, Tracer):
        found = copy_row(found)
    if order == "K":
        found = kept_order(x, found)
    missing = ndmin - typeof(found).ndim
    if missing > 0:
        found = expand_dims(found, dimensions=tuple(range(missing)))
    return c_order(found) if order == "C" or x is not object else kept_order(x, found)


@numpy_function
def asarray(
    a: Any,
    dtype: Any = None,
    order: Any = None,
    *,
    device: Any = None,
    copy: bool | None = None,
    like: Any = None,
) -> Any:
    """The array itself, or a new one where a conversion is needed."""
    x = value(a)
    target = typeof(x).dtype if dtype is None else dtypes.canonical(dtype)
    found = cast(x, target)
    if copy or not isinstance(found, Tracer):
        return kept_order(found, copy_row(found))
    return found


asanyarray = ascontiguousarray = asfortranarray = asarray


@numpy_function
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """A new array with the same elements."""
    x = strong(value(a))
    found = copy_row(x)
    return c_order(found) if order == "C" else kept_order(x, found)


@numpy_function
def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    """The array, whose values are checked to be finite where they are known."""
    x = value(a)
    found = x.known(exact=False) if isinstance(x, Tracer) else x
    if isinstance(found, np.ndarray | np.generic):
        np.asarray_chkfinite(found)
    return asarray(x, dtype)


@numpy_function
def zeros(shape: Any, dtype: Any = float, order: str = "C", **ignored: Any) -> Any:
    """An array of zeros."""
    return filled(static_shape(shape), dtypes.canonical(dtype or float).type(0))


@numpy_function
def empty(shape: Any, dtype: Any = float, order: str = "C", **ignored: Any) -> Any:
    """An array to be filled; it holds zeros."""
    return filled(static_shape(shape), dtypes.canonical(dtype or float).type(0))


@numpy_function
def ones(shape: Any, dtype: Any = None, order: str = "C", **ignored: Any) -> Any:
    """An array of ones."""
    return filled(static_shape(shape), dtypes.canonical(dtype or float).type(1))


@numpy_function
def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **ignored: Any
) -> Any:
    """An array of one value, or of values broadcast to a shape."""
    x = value(fill_value)
    target = typeof(x).dtype if dtype is None else dtypes.canonical(dtype)
    return filled(static_shape(shape), cast(x, target))


def _like(a: Any, dtype: Any, shape: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    own = typeof(value(a))
    return (
        own.shape if shape is None else static_shape(shape),
        own.dtype if dtype is None else dtypes.canonical(dtype),
    )


@numpy_function
def zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **ignored: Any
) -> Any:
    """Zeros of the shape and dtype of an array."""
    sizes, target = _like(a, dtype, shape)
    return filled(sizes, target.type(0))


@numpy_function
def empty_like(
    prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **ignored: Any
) -> Any:
    """An array to be filled, of the shape and dtype of another; it holds zeros."""
    sizes, target = _like(prototype, dtype, shape)
    return filled(sizes, target.type(0))


@numpy_function
def ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **ignored: Any
) -> Any:
    """Ones of the shape and dtype of an array."""
    sizes, target = _like(a, dtype, shape)
    return filled(sizes, target.type(1))


@numpy_function
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    **ignored: Any,
) -> Any:
    """One value in the shape and dtype of an array."""
    sizes, target = _like(a, dtype, shape)
    return filled(sizes, cast(value(fill_value), target))


# ---------------------------------------------------------------------------------- ranges


@numpy_function
def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None, **ignored: Any) -> Any:
    """Evenly spaced values; the count must be known, so the limits are numbers."""
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    for limit in (start, stop, step):
        if isinstance(limit, Tracer):
            float(limit)  # raises with the fix unless it is a known constant
    low, high, by = (v.item() if isinstance(v, Tracer) else v for v in (start, stop, step))
    plain = np.arange(low, high, by, dtype=dtype)
    if plain.dtype.kind in "iu":
        return c_order(_arithmetic(len(plain), plain.dtype, low, by))
    return c_order(copy_row(plain))


def _arithmetic(n: int, dtype: np.dtype[Any], start: Any, step: Any) -> Any:
    found = iota(dtype=dtype, shape=(n,), dimension=0)
    if step != 1:
        found = e.mul(found, dtype.type(step))
    return add(found, dtype.type(start)) if start != 0 else found


@numpy_function
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Evenly spaced values from start to stop."""
    n = static_int(num, "num")
    if n < 0:
        raise ValueError(f"Number of samples, {n}, must be non-negative.")
    low, high = promote_inexact(*_floats(start, stop))
    shape = np.broadcast_shapes(typeof(low).shape, typeof(high).shape)
    low, high = stretch(low, shape), stretch(high, shape)
    kind = typeof(low).dtype
    parts = n - 1 if endpoint else n
    step = e.div(e.sub(high, low), kind.type(parts)) if parts else kind.type(np.nan)
    place = cast(iota(dtype=INDEX, shape=(n,), dimension=0), kind)
    place = reshape(place, new_sizes=(n, *(1,) * len(shape)))
    found = ufuncs.apply(np.add, multiply(place, step if parts else kind.type(0)), low)
    if endpoint and n > 1:
        last = expand_dims(high, dimensions=(0,))
        head = slice_row(
            found,
            start_indices=(0,) * (len(shape) + 1),
            limit_indices=(n - 1, *shape),
            strides=(1,) * (len(shape) + 1),
        )
        found = concatenate(head, last, dimension=0)
    found = move_axis(found, 0, one_axis(axis, len(shape) + 1))
    if dtype is not None:
        target = np.dtype(dtype)
        found = cast(e.floor(found) if target.kind in "iu" else found, target)
    return (found, step) if retstep else c_order(found)


def _floats(*xs: Any) -> list[Any]:
    """Operands, at least in double precision for numbers and integers, as linspace has them."""
    return [
        cast(x, np.dtype(np.float64)) if typeof(x).dtype.kind in "biu" else x
        for x in map(value, xs)
    ]


@numpy_function
def logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Any:
    """base to the power of evenly spaced values."""
    found = ufuncs.apply(np.power, base, linspace(start, stop, num, endpoint, axis=axis))
    return found if dtype is None else cast(found, np.dtype(dtype))


@numpy_function
def geomspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """Values with a constant ratio from start to stop."""
    low, high = promote_inexact(*_floats(start, stop))
    ratio = ufuncs.apply(np.divide, high, low)
    n = static_int(num, "num")
    exponents = linspace(0.0, 1.0, n, endpoint)
    wide = (n, *(1,) * typeof(ratio).ndim)
    powers = ufuncs.apply(
        np.power, ratio, cast(reshape(exponents, new_sizes=wide), typeof(ratio).dtype)
    )
    found = multiply(low, powers)
    found = move_axis(found, 0, one_axis(axis, typeof(found).ndim))
    return found if dtype is None else cast(found, np.dtype(dtype))


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
    keep = _band(*shape[-2:], static_int(k, "k"), e.le if below else e.ge)
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
    n = typeof(x).shape[0] if N is None else static_int(N, "N")
    if typeof(x).dtype.kind in "biu":
        x = cast(x, np.dtype(np.int64))
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
        y = reshape(x, new_sizes=wide)
        y = y if sparse else stretch(y, sizes)
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
    return function(*[grid[i] for i in range(len(static_shape(shape)))], **kwargs)
