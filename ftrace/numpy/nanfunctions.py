"""Reductions that skip NaN: nansum, nanmean, nanmax and their kin.

NaN is replaced by the number that changes nothing (0, 1, infinity) and counted; the replaced
elements get exactly zero derivative.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import check_int, typeof
from ftrace.numpy import cumulative_functions, reductions, ufuncs
from ftrace.numpy.promote import cast, floating, many_axes, numpy_function, strong, value
from ftrace.primitives import elementwise as e
from ftrace.primitives.shape import reshape


def replaced(a: Any, number: Any) -> tuple[Any, Any]:
    """The array with a number in place of NaN, and where NaN was (None for integers)."""
    x = strong(value(a))
    dtype = typeof(x).dtype
    if dtype.kind not in "fc":
        return x, None
    hole = e.isnan(x)
    return e.select(hole, dtype.type(number), x), hole


@numpy_function
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = np._NoValue,
    where: Any = True,
) -> Any:
    """The sum without NaN."""
    return reductions.sum(replaced(a, 0)[0], axis, dtype, out, keepdims, initial, where)


@numpy_function
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = np._NoValue,
    where: Any = True,
) -> Any:
    """The product without NaN."""
    return reductions.prod(replaced(a, 1)[0], axis, dtype, out, keepdims, initial, where)


@numpy_function
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Cumulative sums that pass over NaN."""
    return cumulative_functions.cumsum(replaced(a, 0)[0], axis, dtype, out)


@numpy_function
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Cumulative products that pass over NaN."""
    return cumulative_functions.cumprod(replaced(a, 1)[0], axis, dtype, out)


def _nan_extreme(
    name: str, summary: str, reduce: Callable[..., Any], neutral: float
) -> Callable[..., Any]:
    def extreme(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        x, hole = replaced(a, neutral)
        found = reduce(x, axis, None, keepdims, initial, where)
        if hole is not None and initial is None:
            empty = reductions.all(hole, axis=axis, keepdims=keepdims)
            found = e.select(empty, typeof(found).dtype.type(np.nan), found)
        return ufuncs.finish(np.add, found, out)

    extreme.__name__ = extreme.__qualname__ = name
    extreme.__doc__ = summary
    return numpy_function(extreme)


nanmax = _nan_extreme("nanmax", "The maximum without NaN.", reductions.max, -np.inf)
nanmin = _nan_extreme("nanmin", "The minimum without NaN.", reductions.min, np.inf)


def _nan_arg(
    name: str, summary: str, arg: Callable[..., Any], neutral: float
) -> Callable[..., Any]:
    def nanarg(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        found = arg(replaced(a, neutral)[0], axis, keepdims=keepdims)
        return ufuncs.finish(np.add, found, out)

    nanarg.__name__ = nanarg.__qualname__ = name
    nanarg.__doc__ = summary
    return numpy_function(nanarg)


nanargmax = _nan_arg(
    "nanargmax", "The index of the maximum without NaN.", reductions.argmax, -np.inf
)
nanargmin = _nan_arg(
    "nanargmin", "The index of the minimum without NaN.", reductions.argmin, np.inf
)


def _counted(a: Any, axis: Any) -> tuple[Any, Any, Any]:
    """The array with 0 for NaN, whether elements count, and how many do (kept axes)."""
    x, hole = replaced(floating(a), 0)
    present = e.bitwise_not(hole)
    count = reductions.sum(present, axis=axis, keepdims=True)
    return x, present, cast(count, dtypes.real_dtype(typeof(x).dtype))


def _drop(x: Any, axis: Any, keepdims: Any) -> Any:
    """A reduction's kept axes of size 1 dropped again."""
    if keepdims:
        return x
    shape = typeof(x).shape
    axes = many_axes(axis, len(shape))
    return reshape(x, new_sizes=tuple(n for i, n in enumerate(shape) if i not in axes))


def _at(a: Any, dtype: Any) -> Any:
    """An array at the dtype in which a mean is taken."""
    if dtype is None:
        return floating(a)
    x, dtype = value(a), dtypes.canonical(dtype)
    if dtypes.is_inexact(typeof(x).dtype) and not dtypes.is_inexact(dtype):
        raise TypeError("If a is inexact, then dtype must be inexact")
    return cast(x, dtype)


@numpy_function
def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    *,
    where: Any = True,
) -> Any:
    """The mean without NaN."""
    x = _at(a, dtype)
    if where is not True:
        x = reductions.masked(x, where, np.nan)
    x, _, count = _counted(x, axis)
    total = reductions.sum(x, axis=axis, keepdims=True)
    found = _drop(ufuncs.apply(np.divide, total, count), axis, keepdims)
    return ufuncs.finish(np.add, found, out)


@numpy_function
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = np._NoValue,
    correction: Any = np._NoValue,
) -> Any:
    """The variance without NaN."""
    x = _at(a, dtype)
    if where is not True:
        x = reductions.masked(x, where, np.nan)
    x, present, count = _counted(x, axis)
    total = reductions.sum(x, axis=axis, keepdims=True)
    center = ufuncs.apply(np.divide, total, count) if mean is np._NoValue else value(mean)
    gap = ufuncs.apply(np.subtract, x, center)
    gap = e.select(present, gap, typeof(gap).dtype.type(0))
    size = (
        e.square(ufuncs.apply(np.absolute, gap))
        if typeof(gap).dtype.kind == "c"
        else (e.square(gap))
    )
    less = ddof if correction is np._NoValue else correction
    if type(less) is int:
        check_int(less, np.iinfo(np.int64).max, "ddof")
    free = ufuncs.apply(np.subtract, count, less)
    nothing = e.le(free, typeof(free).dtype.type(0))
    spread = e.div(reductions.sum(size, axis=axis, keepdims=True), free)
    found = e.select(nothing, typeof(spread).dtype.type(np.nan), spread)
    return ufuncs.finish(np.add, _drop(found, axis, keepdims), out)


@numpy_function
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = np._NoValue,
    correction: Any = np._NoValue,
) -> Any:
    """The standard deviation without NaN."""
    spread = nanvar(
        a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction
    )
    return ufuncs.finish(np.sqrt, e.sqrt(spread), out)
