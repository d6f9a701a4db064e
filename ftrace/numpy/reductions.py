"""Reductions along axes: sum, prod, max, mean, var, argmax and their kin.

Small integers and booleans are summed in 64 bits, means of integers are float64 and float16 is
accumulated in float32, as in NumPy. Cumulative functions are
in `cumulative_functions.py`, the versions that skip NaN are in `nanfunctions.py`, those
that sort (median, quantile) in `statistics.py`.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.core.avals import check_int, typeof
from ftrace.core.dtypes import canonical
from ftrace.numpy import ufuncs
from ftrace.numpy.elementary import multiply, where
from ftrace.numpy.lowerings import constant_like, truth
from ftrace.numpy.promote import (
    PYTHON_SCALARS,
    TRACED,
    cast,
    common_dtype,
    many_axes,
    numpy_function,
    one_axis,
    stretch,
    strong,
    value,
)
from ftrace.numpy.refusing import refuse
from ftrace.numpy.shaping import diagonal
from ftrace.primitives import elementwise as e
from ftrace.primitives import reduce as r
from ftrace.primitives.linear import add, reduce_sum
from ftrace.primitives.linear import transpose as transpose_row
from ftrace.primitives.shape import expand_dims, reshape


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which NumPy adds and multiplies values of a dtype."""
    if dtype.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" else dtype


def reduced(row: Callable[..., Any], x: Any, axis: Any, keepdims: Any) -> Any:
    """A reducing row along axes as NumPy names them."""
    if type(axis) is list:
        raise TypeError("'list' object cannot be interpreted as an integer")
    axes = tuple(sorted(many_axes(axis, typeof(x).ndim)))
    found = row(x, axes=axes)
    return expand_dims(found, dimensions=axes) if keepdims and axes else found


def count_along(x: Any, axis: Any) -> int:
    """How many elements a reduction takes together."""
    shape = typeof(x).shape
    return math.prod([shape[i] for i in many_axes(axis, len(shape))])


def masked(x: Any, mask: Any, otherwise: Any) -> Any:
    """The operand with a neutral number where the `where=` mask is false."""
    if mask is True:
        return x
    if mask is None or type(mask) in PYTHON_SCALARS:
        mask = bool(mask)  # as NumPy takes it
    mask = value(mask)
    if typeof(mask).dtype.kind != "b":
        raise TypeError("`where` must be boolean")
    return where(mask, x, typeof(x).dtype.type(otherwise))


def _initial(number: Any, like: Any) -> Any:
    """What a reduction starts with, in the dtype of what it makes."""
    if np.ndim(number):
        raise ValueError("setting an array element with a sequence.")
    return cast(number, typeof(like).dtype)


def _check_start(ufunc: np.ufunc, initial: Any, where: Any) -> None:
    if initial is None and where is not True:
        raise ValueError(
            f"reduction operation {ufunc.__name__!r} does not have an identity, so to use a where "
            "mask one has to specify 'initial'"
        )


def in_accumulator(a: Any, dtype: Any) -> Any:
    x = value(a)
    return cast(x, accumulator(typeof(x).dtype) if dtype is None else canonical(dtype))


# ---------------------------------------------------------------------------------- sum and prod


@numpy_function
def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = np._NoValue,
    where: Any = True,
) -> Any:
    """The sum along axes."""
    _check_start(np.add, initial, where)
    x = masked(in_accumulator(a, dtype), where, 0)
    found = reduced(reduce_sum, x, axis, keepdims)
    if initial is not None and initial is not np._NoValue:
        found = add(found, _initial(initial, found))
    return ufuncs.finish(np.add, found, out)


@numpy_function
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = np._NoValue,
    where: Any = True,
) -> Any:
    """The product along axes."""
    _check_start(np.multiply, initial, where)
    x = masked(in_accumulator(a, dtype), where, 1)
    found = reduced(r.reduce_prod, x, axis, keepdims)
    if initial is not None and initial is not np._NoValue:
        found = e.mul(found, _initial(initial, found))
    return ufuncs.finish(np.add, found, out)


@numpy_function
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    """The sum of a diagonal."""
    return sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype, out=out)


# ---------------------------------------------------------------------------------- max and min


def _extreme(ufunc: np.ufunc, row: Callable[..., Any]) -> Callable[..., Any]:
    """max or min as NumPy calls it."""

    def extreme(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        x = strong(value(a))
        if initial is not None:
            initial = _initial(initial, x)
        _check_start(ufunc, initial, where)
        x = masked(x, where, initial)
        if not count_along(x, axis):
            if initial is None:
                raise ValueError(
                    f"zero-size array to reduction operation {ufunc.__name__} which has no identity"
                )
            found = sum(x, axis=axis, keepdims=keepdims, dtype=typeof(x).dtype)
            return ufuncs.finish(ufunc, constant_like(found, typeof(x).dtype, initial), out)
        found = reduced(row, x, axis, keepdims)
        if initial is not None:
            found = ufuncs.apply(ufunc, found, initial)
        return ufuncs.finish(ufunc, found, out)

    return extreme


def named(name: str, summary: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    fn.__name__, fn.__qualname__, fn.__doc__ = name, name, summary
    return numpy_function(fn)


max = amax = named("max", "The maximum along axes.", _extreme(np.maximum, r.reduce_max))
min = amin = named("min", "The minimum along axes.", _extreme(np.minimum, r.reduce_min))
TRACED[np.amax], TRACED[np.amin] = TRACED[np.max], TRACED[np.min]


@numpy_function
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """The maximum less the minimum along axes."""
    found = ufuncs.apply(
        np.subtract, max(a, axis=axis, keepdims=keepdims), min(a, axis=axis, keepdims=keepdims)
    )
    return ufuncs.finish(np.subtract, found, out)


def _arg_extreme(row: Callable[..., Any]) -> Callable[..., Any]:
    def arg(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        x = strong(value(a))
        ndim = typeof(x).ndim
        if axis is None:
            x = reshape(x, new_sizes=(typeof(x).size,))
        i = 0 if axis is None else one_axis(axis, ndim)
        if not typeof(x).shape[i]:
            raise ValueError("attempt to get argmax or argmin of an empty sequence")
        found = row(x, axis=i, index_dtype=np.dtype(np.intp))
        if keepdims:
            found = (
                reshape(found, new_sizes=(1,) * ndim)
                if axis is None
                else expand_dims(found, dimensions=(i,))
            )
        return ufuncs.finish(np.add, found, out)

    return arg


argmax = named("argmax", "The index of the first maximum along an axis.", _arg_extreme(r.argmax))
argmin = named("argmin", "The index of the first minimum along an axis.", _arg_extreme(r.argmin))


# ---------------------------------------------------------------------------------- truth


@numpy_function
def all(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    """Whether all elements are true along axes."""
    x = masked(truth(strong(value(a))), where, True)
    return ufuncs.finish(np.add, reduced(r.reduce_and, x, axis, keepdims), out)


@numpy_function
def any(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    """Whether any element is true along axes."""
    x = masked(truth(strong(value(a))), where, False)
    return ufuncs.finish(np.add, reduced(r.reduce_or, x, axis, keepdims), out)


@numpy_function
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """How many elements are not zero along axes."""
    return sum(truth(strong(value(a))), axis=axis, keepdims=keepdims)


# ---------------------------------------------------------------------------------- moments


def _mean_dtypes(x: Any, dtype: Any) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The dtypes in which a mean is computed and returned."""
    own = typeof(x).dtype
    if dtype is not None:
        return canonical(dtype), canonical(dtype)
    if own.kind in "biu":
        return np.dtype(np.float64), np.dtype(np.float64)
    return (np.dtype(np.float32) if own == np.float16 else own), own


@numpy_function
def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    *,
    where: Any = True,
) -> Any:
    """The arithmetic mean along axes."""
    x = value(a)
    inner, outer = _mean_dtypes(x, dtype)
    x = cast(x, inner)
    return ufuncs.finish(np.add, cast(_mean_of(x, axis, where, keepdims), outer), out)


def _mean_of(x: Any, axis: Any, where: Any, keepdims: Any) -> Any:
    total = reduced(reduce_sum, masked(x, where, 0), axis, keepdims)
    return e.div(total, _count(x, axis, where, keepdims))


def _count(x: Any, axis: Any, where: Any, keepdims: Any) -> Any:
    """How many elements a `where=` mask leaves, in the operand's dtype."""
    a = typeof(x)
    if where is True:
        return a.dtype.type(count_along(x, axis))
    taken = stretch(value(where), a.shape)
    return cast(sum(taken, axis=axis, keepdims=keepdims), a.dtype)


@numpy_function
def var(
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
    """The variance along axes."""
    if ddof != 0 and correction is not np._NoValue:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    x = value(a)
    inner, outer = _mean_dtypes(x, dtype)
    x = cast(x, inner)
    center = _mean_of(x, axis, where, True) if mean is np._NoValue else cast(value(mean), inner)
    gap = ufuncs.apply(np.subtract, x, center)
    if typeof(gap).dtype.kind == "c":
        square = add(e.square(e.real(gap)), e.square(e.imag(gap)))
        outer = typeof(square).dtype
    else:
        square = e.square(gap)
    less = ddof if correction is np._NoValue else correction
    if type(less) is int:
        check_int(less, np.iinfo(np.int64).max, "ddof")
    if where is True and np.size(less) != 1:
        raise ValueError("ddof and correction must be numbers unless `where` is given.")
    free = ufuncs.apply(np.subtract, _count(square, axis, where, keepdims), less)
    total = reduced(reduce_sum, masked(square, where, 0), axis, keepdims)
    found = e.div(total, cast(ufuncs.apply(np.maximum, free, 0), typeof(total).dtype))
    return ufuncs.finish(np.add, cast(found, outer), out)


@numpy_function
def std(
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
    """The standard deviation along axes."""
    spread = var(
        a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction
    )
    return ufuncs.finish(np.sqrt, e.sqrt(spread), out)


@numpy_function
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    """The weighted mean along axes."""
    x = value(a)
    if weights is None:
        found = mean(x, axis=axis, keepdims=keepdims)
        scale = constant_like(found, typeof(found).dtype, count_along(x, axis))
    else:
        found, scale = _weighted(x, axis, value(weights), keepdims)
    return (found, scale) if returned else found


def _weighted(x: Any, axis: Any, weights: Any, keepdims: Any) -> tuple[Any, Any]:
    shape = typeof(x).shape
    if typeof(weights).shape != shape and axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    dtype = common_dtype(strong(x), strong(weights))
    if typeof(x).dtype.kind in "biu":
        dtype = canonical(np.promote_types(dtype, np.float64))
    if typeof(weights).shape != shape:
        axes = many_axes(axis, len(shape))
        if tuple(shape[i] for i in axes) != typeof(weights).shape:
            raise ValueError(
                "Shape of weights must be consistent with shape of a along specified axis."
            )
        weights = transpose_row(weights, permutation=tuple(int(i) for i in np.argsort(axes)))
        weights = reshape(
            weights, new_sizes=tuple(n if i in axes else 1 for i, n in enumerate(shape))
        )
    weights = cast(weights, dtype)
    scale = sum(stretch(weights, shape), axis=axis, keepdims=keepdims)
    zero = ufuncs.apply(np.equal, scale, 0)
    refuse(zero, ZeroDivisionError, "Weights sum to zero, can't be normalized")
    total = sum(multiply(cast(x, dtype), weights), axis=axis, keepdims=keepdims)
    return e.div(total, scale), scale
