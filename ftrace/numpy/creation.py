"""Making arrays: array, zeros, arange, linspace, eye, tril, meshgrid and their kin.

Inside a transformation they make traced values, so that `out = fnp.zeros(n); out[i] = f(x)`
works. Sizes are Python ints.
"""

from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import typeof
from ftrace.core.device import free
from ftrace.core.trace import Tracer
from ftrace.numpy import ufuncs
from ftrace.numpy.elementary import multiply
from ftrace.numpy.promote import (
    broadcast_shape,
    cast,
    current_library,
    numpy_function,
    one_axis,
    promote_inexact,
    static_int,
    static_shape,
    stretch,
    strong,
    value,
)
from ftrace.numpy.views import c_order, kept_order
from ftrace.primitives import elementwise as e
from ftrace.primitives.convert import copy as copy_row
from ftrace.primitives.create import iota
from ftrace.primitives.linear import add, move_axis
from ftrace.primitives.shape import concatenate, expand_dims, reshape
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
    if copy is not True and not ndmin:
        return asarray(object, dtype, order)
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


def from_dlpack(x: Any, /, **options: Any) -> Any:
    """An array over the memory that another library's array offers by DLPack, not copied.

    That of a GPU becomes a CuPy array. Options are those of `numpy.from_dlpack`.
    """
    on_host = x.__dlpack_device__()[0] in (1, 3)  # memory of the host, page-locked or not
    return np.from_dlpack(x, **options) if on_host else current_library().from_dlpack(x)


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
def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **ignored: Any) -> Any:
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
    a: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    **ignored: Any,
) -> Any:
    """Zeros of the shape and dtype of an array."""
    sizes, target = _like(a, dtype, shape)
    return filled(sizes, target.type(0))


@numpy_function
def empty_like(
    prototype: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    **ignored: Any,
) -> Any:
    """An array to be filled, of the shape and dtype of another; it holds zeros."""
    sizes, target = _like(prototype, dtype, shape)
    return filled(sizes, target.type(0))


@numpy_function
def ones_like(
    a: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    **ignored: Any,
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
def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: Any = None, **ignored: Any
) -> Any:
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
    return c_order(copy_row(free(plain)))


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
    shape = broadcast_shape(typeof(low).shape, typeof(high).shape)
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
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
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
    exponents = free(linspace(0.0, 1.0, n, endpoint))
    wide = (n, *(1,) * typeof(ratio).ndim)
    powers = ufuncs.apply(
        np.power, ratio, cast(reshape(exponents, new_sizes=wide), typeof(ratio).dtype)
    )
    found = multiply(low, powers)
    found = move_axis(found, 0, one_axis(axis, typeof(found).ndim))
    return found if dtype is None else cast(found, np.dtype(dtype))
