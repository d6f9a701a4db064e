"""Making arrays: array, zeros, arange, linspace, eye, tril, meshgrid and their kin.

Inside a transformation they make traced values, so that `out = fnp.zeros(n); out[i] = f(x)`
works. Sizes are Python ints.
"""

from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import typeof
from ftrace.core.device import free
from ftrace.core.trace import Tracer, holds_array
from ftrace.numpy import layouts, ufuncs
from ftrace.numpy.elementary import multiply
from ftrace.numpy.promote import (
    broadcast_shape,
    cast,
    common_dtype,
    current_library,
    floating,
    new_shape,
    numpy_function,
    one_axis,
    promote_inexact,
    static_int,
    stretch,
    strong,
    unsupported,
    value,
)
from ftrace.numpy.views import C_ORDER, ViewLayout, c_order, fortran, is_view, laid, ways_of
from ftrace.primitives import elementwise as e
from ftrace.primitives.convert import copy as copy_row
from ftrace.primitives.create import iota
from ftrace.primitives.linear import add, move_axis
from ftrace.primitives.shape import concatenate, expand_dims, reshape
from ftrace.primitives.slicing import slice as slice_row

INDEX = np.dtype(np.intp)
CopyMode = np._CopyMode


def filled(shape: tuple[int, ...], number: Any, layout: ViewLayout | None = C_ORDER) -> Any:
    """A new array of one number, in a memory layout."""
    found = stretch(number, shape)
    return laid(copy_row(found) if found is number else found, layout)


def _order(shape: tuple[int, ...], order: str) -> ViewLayout:
    if order not in ("C", "F"):
        raise ValueError("only 'C' or 'F' order is permitted")
    return C_ORDER if order == "C" else fortran(len(shape))


# ---------------------------------------------------------------------------------- from values


def _from(object: Any, dtype: Any = None) -> Any:
    """An array from anything array-like; one made of a list lies in C order."""
    x = value(object, dtype)
    if x is not object:
        return c_order(x)
    return strong(x)


def _copying(mode: bool | CopyMode | None) -> bool | None:
    """Whether to copy: always, never, or (None) if need be; NumPy has two ways to say so."""
    if type(mode) is not CopyMode:
        return mode
    return None if mode is CopyMode.IF_NEEDED else mode is CopyMode.ALWAYS


@numpy_function
def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | CopyMode | None = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
    like: Any = None,
) -> Any:
    """A new array from anything array-like; nested lists may hold traced values."""
    if _copying(copy) is not True:
        found = asarray(object, dtype, order, copy=copy)
    else:
        x = _from(object, dtype)
        found = layouts.astype(x, typeof(x).dtype if dtype is None else dtype, order)
        if found is x or not isinstance(found, Tracer):
            found = laid(copy_row(found), layouts.ordered(x, order))
    missing = ndmin - typeof(found).ndim
    shape = (*(1,) * missing, *typeof(found).shape)
    return layouts.reshape(found, new_sizes=shape) if missing > 0 else found


@numpy_function
def asarray(
    a: Any,
    dtype: Any = None,
    order: Any = None,
    *,
    device: Any = None,
    copy: bool | CopyMode | None = None,
    like: Any = None,
) -> Any:
    """The array itself, or a new one where a conversion, or another memory layout, is needed."""
    x, copy = _from(a, dtype), _copying(copy)
    target = typeof(x).dtype if dtype is None else dtypes.canonical(dtype)
    fits = target == typeof(x).dtype
    if copy is not None and not copy:
        _check_kept(a, x, fits, order)
    if copy or not fits:
        return layouts.astype(x, target, order or "K")
    return layouts.arranged(x, None if order == "A" else order)


def _check_kept(a: Any, x: Any, fits: bool, order: Any) -> None:
    """Raise where NumPy copies, or where that depends on an unknown layout."""
    lies = order == "A" or layouts.is_arranged(x, order)
    if not (fits and holds_array(a)) or lies is False:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    if lies is None:
        raise unsupported("asarray", f"copy=False of {typeof(x)!r}, whose memory layout is unknown")


asanyarray = asarray


@numpy_function
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """An array of at least one axis in C order: the array itself if it is one."""
    x = _from(a)
    return asarray(x if typeof(x).shape else layouts.reshape(x, new_sizes=(1,)), dtype, "C")


@numpy_function
def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """An array of at least one axis in Fortran order: the array itself if it is one."""
    x = _from(a)
    return asarray(x if typeof(x).shape else layouts.reshape(x, new_sizes=(1,)), dtype, "F")


@numpy_function
def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Any:
    """The array itself if it meets the requirements (C, F, A, W, O), else a copy that does."""
    wanted = {_REQUIREMENTS[r.upper()] for r in requirements or ()}
    if {"C", "F"} <= wanted:
        raise ValueError("Cannot specify both 'C' and 'F' order")
    x = _from(a)
    order = "F" if "F" in wanted else "C" if "C" in wanted else None
    found = asarray(x, dtype, order)
    ways = ways_of(found) if "O" in wanted or "W" in wanted else ()
    owned = all(way.base is x or not way.steps for way in ways) and not is_view(x)
    writable = all(step.put is not None for way in ways for step in way.steps)
    if ("O" in wanted and not owned) or ("W" in wanted and not writable):
        found = copy(found, order or "A")
    return found


_REQUIREMENTS = {
    **dict.fromkeys(("C", "C_CONTIGUOUS", "CONTIGUOUS"), "C"),
    **dict.fromkeys(("F", "F_CONTIGUOUS", "FORTRAN"), "F"),
    **dict.fromkeys(("A", "ALIGNED"), "A"),
    **dict.fromkeys(("W", "WRITEABLE"), "W"),
    **dict.fromkeys(("O", "OWNDATA"), "O"),
    **dict.fromkeys(("E", "ENSUREARRAY"), "E"),
}


def from_dlpack(x: Any, /, **options: Any) -> Any:
    """An array over the memory that another library's array offers by DLPack, not copied.

    That of a GPU becomes a CuPy array. Options are those of `numpy.from_dlpack`.
    """
    if isinstance(x, Tracer):
        return x
    offered = getattr(x, "__dlpack_device__", None)  # without it, NumPy says so
    on_host = offered is None or offered()[0] in (1, 3)  # memory of the host, page-locked or not
    return np.from_dlpack(x, **options) if on_host else current_library().from_dlpack(x)


@numpy_function
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """A new array with the same elements."""
    x = strong(_from(a))
    return layouts.kept(x, copy_row(x), order)


@numpy_function
def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    """The array, whose values are checked to be finite where they are known."""
    x = value(a)
    found = x.known(exact=False) if isinstance(x, Tracer) else x
    if issubclass(type(found), np.ndarray | np.generic):
        np.asarray_chkfinite(found)
    return asarray(x, dtype, order)


@numpy_function
def zeros(shape: Any, dtype: Any = float, order: str = "C", **ignored: Any) -> Any:
    """An array of zeros."""
    sizes, kind = new_shape(shape), dtypes.canonical(float if dtype is None else dtype)
    return filled(sizes, kind.type(0), _order(sizes, order))


@numpy_function
def empty(shape: Any, dtype: Any = float, order: str = "C", **ignored: Any) -> Any:
    """An array to be filled; it holds zeros."""
    return zeros(shape, dtype, order)


@numpy_function
def ones(shape: Any, dtype: Any = None, order: str = "C", **ignored: Any) -> Any:
    """An array of ones."""
    sizes, kind = new_shape(shape), dtypes.canonical(float if dtype is None else dtype)
    return filled(sizes, kind.type(1), _order(sizes, order))


@numpy_function
def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **ignored: Any) -> Any:
    """An array of one value, or of values broadcast to a shape."""
    x = value(fill_value)
    target = typeof(x).dtype if dtype is None else dtypes.canonical(dtype)
    sizes = new_shape(shape)
    return filled(sizes, cast(x, target), _order(sizes, order))


def _like(a: Any, number: Any, dtype: Any, order: str, shape: Any) -> Any:
    """A new array of one number, like another one but for what is given."""
    x = value(a)
    own = typeof(x)
    sizes = own.shape if shape is None else new_shape(shape)
    target = own.dtype if dtype is None else dtypes.canonical(dtype)
    return filled(sizes, cast(value(number), target), layouts.ordered(x, order, sizes))


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
    return _like(a, 0, dtype, order, shape)


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
    return _like(prototype, 0, dtype, order, shape)


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
    return _like(a, 1, dtype, order, shape)


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
    return _like(a, fill_value, dtype, order, shape)


# ---------------------------------------------------------------------------------- ranges


@numpy_function
def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: Any = None, **ignored: Any
) -> Any:
    """Evenly spaced values; the count must be known, so the limits are numbers."""
    if stop is None:
        start, stop = 0, start
    if stop is None:
        raise TypeError("arange() requires stop to be specified.")
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
    low, high = value(start), value(stop)
    kind = common_dtype(low, high)
    kind = kind if kind.kind in "fc" else dtypes.float64
    low, high = cast(low, kind), cast(high, kind)
    shape = broadcast_shape(typeof(low).shape, typeof(high).shape)
    low, high = stretch(low, shape), stretch(high, shape)
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
        target = dtypes.canonical(dtype)
        found = cast(e.floor(found) if target.kind in "iu" else found, target)
    return (found, step) if retstep else c_order(found)


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
    base = value(base)
    if typeof(base).ndim:
        rank = max(typeof(x).ndim for x in map(value, (start, stop, base)))
        start, stop, base = (_of_rank(x, rank) for x in (start, stop, base))
        base = expand_dims(base, dimensions=(one_axis(axis, rank + 1),))
    found = ufuncs.apply(np.power, base, linspace(start, stop, num, endpoint, axis=axis))
    return found if dtype is None else cast(found, dtypes.canonical(dtype))


def _of_rank(x: Any, rank: int) -> Any:
    """An operand with leading axes of size 1."""
    x = value(x)
    return reshape(x, new_sizes=(*(1,) * (rank - typeof(x).ndim), *typeof(x).shape))


@numpy_function
def geomspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """Values with a constant ratio from start to stop."""
    kind = dtypes.canonical(float if dtype is None else dtype)
    low, high, _ = promote_inexact(floating(start), floating(stop), kind.type(0))
    ratio = ufuncs.apply(np.divide, high, low)
    n = static_int(num, "num")
    exponents = free(linspace(0.0, 1.0, n, endpoint))
    wide = (n, *(1,) * typeof(ratio).ndim)
    powers = ufuncs.apply(
        np.power, ratio, cast(reshape(exponents, new_sizes=wide), typeof(ratio).dtype)
    )
    found = multiply(low, powers)
    found = move_axis(found, 0, one_axis(axis, typeof(found).ndim))
    return found if dtype is None else cast(found, kind)
