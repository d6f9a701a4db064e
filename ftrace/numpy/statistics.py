"""Order statistics and moments of several variables: median, quantile, cov, histogram."""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.device import on_device
from ftrace.core.dtypes import canonical, float64
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.trace import Tracer
from ftrace.numpy import reductions, ufuncs
from ftrace.numpy.elementary import clip, imag, multiply, real, where
from ftrace.numpy.joining import joined
from ftrace.numpy.lowerings import LOWERINGS
from ftrace.numpy.matrix_products import contract
from ftrace.numpy.numerics import divide
from ftrace.numpy.promote import (
    cast,
    common_dtype,
    floating,
    many_axes,
    numpy_function,
    stretch,
    strong,
    unsupported,
    value,
)
from ftrace.numpy.refusing import refuse
from ftrace.numpy.shaping import atleast, diagonal, index_axis
from ftrace.numpy.sorting import take_along_axis
from ftrace.primitives import elementwise as e
from ftrace.primitives.linear import permuted, transpose
from ftrace.primitives.shape import expand_dims, reshape
from ftrace.primitives.sort import sort as sort_row

INDEX: Final = np.dtype(np.int64)


# ---------------------------------------------------------------------------------- quantiles


def _flattened(x: Any, axis: Any) -> tuple[Any, tuple[int, ...]]:
    """The array with the reduced axes merged into the last one, and which they were."""
    shape = typeof(x).shape
    axes = tuple(sorted(many_axes(axis, len(shape))))
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    x = permuted(x, (*kept, *axes))
    n = math.prod([shape[i] for i in axes])
    return reshape(x, new_sizes=(*(shape[i] for i in kept), n)), axes


def _positions(method: str, q: Any, count: Any) -> tuple[Any, Any, Any]:
    """The indices below and above a quantile, and the weight of the upper one."""
    last = ufuncs.apply(np.subtract, count, 1.0)
    if method == _MIDDLE:
        place = multiply(last, 0.5)
        ends = (ufuncs.apply(f, place) for f in (np.floor, np.ceil))
        return *(cast(i, INDEX) for i in ends), place
    if method in _PLOTTED or method in _DISCRETE:
        return _of_positions(method, q, count, last)
    place = multiply(q, last)
    low = ufuncs.apply(np.floor, place)
    high = ufuncs.apply(np.minimum, ufuncs.apply(np.add, low, 1.0), last)
    weight = ufuncs.apply(np.subtract, place, low)
    if method == "lower":
        weight = multiply(weight, 0.0)
    elif method == "higher":
        weight = cast(ufuncs.apply(np.greater, weight, 0.0), typeof(weight).dtype)
    elif method == "nearest":
        weight = cast(_nearest_is_upper(weight, low), typeof(weight).dtype)
    elif method == "midpoint":
        weight = cast(where(ufuncs.apply(np.greater, weight, 0.0), 0.5, 0.0), typeof(q).dtype)
    return cast(low, INDEX), cast(high, INDEX), weight


# Of Hyndman and Fan (1996): by what a sample's positions are moved, and discrete ones
_PLOTTED: Final = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3.0, 1 / 3.0),
    "normal_unbiased": (3 / 8.0, 3 / 8.0),
}
_DISCRETE: Final = ("inverted_cdf", "averaged_inverted_cdf", "closest_observation")
# Those that give elements, and never anything between two; and what the median is
_TAKING: Final = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")
_MIDDLE: Final = "middle"


def _of_positions(method: str, q: Any, count: Any, last: Any) -> tuple[Any, Any, Any]:
    """The same where positions do not go from the first to the last element."""
    place = multiply(count, q)
    if method in _PLOTTED:
        alpha, beta = _PLOTTED[method]
        moved = ufuncs.apply(np.add, alpha, multiply(q, 1 - alpha - beta))
        place = ufuncs.apply(np.add, place, moved)
    place = ufuncs.apply(np.subtract, place, 1.0)
    if method == "closest_observation":
        place = ufuncs.apply(np.subtract, place, 0.5)
    low = ufuncs.apply(np.floor, place)
    weight = ufuncs.apply(np.subtract, place, low)
    high = ufuncs.apply(np.add, low, 1.0)
    if method in _DISCRETE:
        exact = ufuncs.apply(np.equal, weight, 0.0)
        if method == "averaged_inverted_cdf":
            weight = cast(where(exact, 0.5, 1.0), typeof(q).dtype)
        else:
            odd = ufuncs.apply(np.equal, ufuncs.apply(np.remainder, low, 2.0), 1.0)
            exact = e.bitwise_and(exact, odd) if method == "closest_observation" else exact
            low = high = where(exact, low, high)
            weight = multiply(weight, 0.0)
    low, high = (
        ufuncs.apply(np.maximum, ufuncs.apply(np.minimum, i, last), 0.0) for i in (low, high)
    )
    return cast(low, INDEX), cast(high, INDEX), weight


def _nearest_is_upper(weight: Any, low: Any) -> Any:
    """Whether the upper neighbour is nearer; of two equally near ones the even index."""
    odd = ufuncs.apply(np.equal, ufuncs.apply(np.remainder, low, 2.0), 1.0)
    tie = e.bitwise_and(ufuncs.apply(np.equal, weight, 0.5), odd)
    return e.bitwise_or(ufuncs.apply(np.greater, weight, 0.5), tie)


def _blend(below: Any, above: Any, weight: Any) -> Any:
    gap = ufuncs.apply(np.subtract, above, below)
    low = ufuncs.apply(np.add, below, multiply(gap, weight))
    high = ufuncs.apply(np.subtract, above, multiply(gap, ufuncs.apply(np.subtract, 1.0, weight)))
    return where(ufuncs.apply(np.greater_equal, weight, 0.5), high, low)


def _one_quantile(x: Any, q: Any, count: Any, method: str) -> Any:
    """A quantile of the sorted last axis; `count` elements of it are numbers."""
    low, high, weight = (_column(i) for i in _positions(method, q, count))
    shape = (*typeof(x).shape[:-1], 1)
    below, above = (take_along_axis(x, stretch(i, shape), axis=-1) for i in (low, high))
    if method in _TAKING:
        found = where(ufuncs.apply(np.greater_equal, weight, 0.5), above, below)
    elif method == _MIDDLE:
        found = where(ufuncs.apply(np.equal, low, high), below, _mean(below, above))
    else:
        found = _blend(below, above, stretch(weight, shape))
    return reshape(found, new_sizes=shape[:-1])


def _mean(x: Any, y: Any) -> Any:
    """The mean of two, of float16 by way of float32 as NumPy takes it."""
    dtype = typeof(x).dtype
    if dtype.char == "e":
        x, y = cast(x, np.dtype(np.float32)), cast(y, np.dtype(np.float32))
    return cast(multiply(ufuncs.apply(np.add, x, y), 0.5), dtype)


def _column(x: Any) -> Any:
    return reshape(x, new_sizes=(*typeof(x).shape, 1))


def _quantiles(a: Any, q: Any, axis: Any, keepdims: Any, how: tuple[str, bool]) -> Any:
    """Quantiles along axes; `how` is the method and whether NaN is skipped."""
    method, skip_nan = how
    x = strong(value(a))
    whole = typeof(x).dtype.kind in "biu"
    if whole and method not in _TAKING:
        x = cast(x, float64 if typeof(q).weak else common_dtype(x, q))
    q = cast(q, common_dtype(x, q)) if typeof(q).weak else strong(q)
    shape = typeof(x).shape
    x, axes = _flattened(x, axis)
    rank, n = typeof(x).ndim - 1, typeof(x).shape[-1]
    if not n:
        raise ShapeError("A quantile of an empty axis was asked for.", "Take one of some elements.")
    (x,) = sort_row(x, dimension=rank, is_stable=False, num_keys=1)
    present = ufuncs.apply(np.logical_not, ufuncs.apply(np.isnan, x))
    count = typeof(q).dtype.type(n)
    if skip_nan:
        numbers = cast(reductions.sum(present, axis=-1), typeof(q).dtype)
        count = ufuncs.apply(np.maximum, numbers, 1.0)
    flat = reshape(q, new_sizes=(typeof(q).size,))
    each = []
    for k in range(typeof(q).size):
        found = _one_quantile(x, index_axis(flat, k, 0), count, method)
        if not (skip_nan or whole):
            found = where(reductions.all(present, axis=-1), found, np.nan)
        each.append(expand_dims(found, dimensions=(0,)))
    kept = [1 if i in axes else m for i, m in enumerate(shape) if keepdims or i not in axes]
    return reshape(joined(each, 0), new_sizes=(*typeof(q).shape, *kept))


_OUTSIDE: Final[dict[float, str]] = {
    1: "Quantiles must be in the range [0, 1]",
    100: "Percentiles must be in the range [0, 100]",
}


def _quantile(name: str, summary: str, scale: float, skip_nan: bool) -> Callable[..., Any]:
    """quantile, percentile and their versions that skip NaN."""

    def quantile(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Any = False,
        *,
        weights: Any = None,
    ) -> Any:
        if weights is not None:
            raise unsupported(name, "weights=")
        part: Any = value(q)
        unknown = isinstance(part, Tracer) or on_device(part)
        if typeof(part).dtype.kind == "u" and method != "linear":
            raise DtypeError(f"{name} was given unsigned q.", "Pass numbers from 0 to 1 as floats.")
        if typeof(part).dtype.kind in "biu":
            if typeof(part).weak and not unknown:
                part = float(part)
            else:
                part = cast(part, np.dtype(float)) if unknown else np.asarray(part, float)
        asked = part
        if unknown:
            asked = 0.5  # NumPy is asked about the method alone
            limits = (np.greater_equal, 0), (np.less_equal, scale)
            inside = e.bitwise_and(*(ufuncs.apply(f, part, limit) for f, limit in limits))
            refuse(e.bitwise_not(inside), ValueError, _OUTSIDE[scale])
        getattr(np, name)(0.0, asked, method=method)
        if scale != 1:
            part = part / scale  # pyright: ignore[reportOperatorIssue]
        found = _quantiles(a, part, axis, keepdims, (method, skip_nan))
        return ufuncs.finish(np.add, found, out)

    quantile.__name__ = quantile.__qualname__ = name
    quantile.__doc__ = summary
    return numpy_function(quantile)


quantile = _quantile("quantile", "Quantiles along axes.", 1, False)
percentile = _quantile("percentile", "Percentiles along axes.", 100, False)
nanquantile = _quantile("nanquantile", "Quantiles without NaN.", 1, True)
nanpercentile = _quantile("nanpercentile", "Percentiles without NaN.", 100, True)


@numpy_function
def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False
) -> Any:
    """The median along axes."""
    return ufuncs.finish(np.add, _quantiles(a, 0.5, axis, keepdims, (_MIDDLE, False)), out)


@numpy_function
def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False
) -> Any:
    """The median without NaN."""
    return ufuncs.finish(np.add, _quantiles(a, 0.5, axis, keepdims, (_MIDDLE, True)), out)


# ---------------------------------------------------------------------------------- covariance


@numpy_function
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """The covariance matrix of variables."""
    x = _variables(m, rowvar)
    if y is not None:
        x = joined([x, _variables(y, rowvar)], 0)
    found = np.promote_types(typeof(x).dtype, np.float64) if dtype is None else dtype
    x = floating(cast(x, canonical(found)))
    free = (0 if bias else 1) if ddof is None else ddof
    if free != int(free):
        raise ValueError("ddof must be integer")
    weights = None
    for each in (fweights, aweights):
        if each is not None:
            allowed = "iu" if each is fweights else "biuf"
            if np.ndim(each) != 1 or typeof(value(each)).dtype.kind not in allowed:
                raise DtypeError(
                    "cov was given weights of another kind.", "Pass vectors of numbers."
                )
            weights = value(each) if weights is None else multiply(weights, each)
    count, scale = _freedom(typeof(x).shape[1], weights, aweights, free)
    weighted = x if weights is None else multiply(x, weights)
    total = reductions.sum(weighted, axis=1, keepdims=True)
    gap = ufuncs.apply(np.subtract, x, divide(total, count))
    other = gap if weights is None else multiply(gap, weights)
    found = contract(gap, LOWERINGS["conjugate"](other), (1,), (1,))
    found = divide(found, scale)
    side = typeof(found).shape[0]
    return reshape(found, new_sizes=()) if side == 1 else found


def _variables(m: Any, rowvar: bool) -> Any:
    x = atleast(strong(value(m)), 2)
    if typeof(x).ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    flip = not rowvar and typeof(value(m)).ndim != 1
    return transpose(x, permutation=(1, 0)) if flip else x


def _freedom(n: int, weights: Any, aweights: Any, ddof: int) -> tuple[Any, Any]:
    """The sum of the weights, and the divisor of the covariance."""
    if weights is None:
        return float(n), float(max(n - ddof, 0))
    total = reductions.sum(weights)
    if ddof == 0 or aweights is None:
        return total, ufuncs.apply(np.subtract, total, ddof)
    squares = reductions.sum(multiply(weights, aweights))
    return total, ufuncs.apply(np.subtract, total, divide(multiply(squares, ddof), total))


@numpy_function
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """The matrix of correlation coefficients."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not typeof(c).ndim:
        return divide(c, c)
    size = ufuncs.apply(np.sqrt, real(diagonal(c)))
    n = typeof(size).shape[0]
    c = divide(divide(c, reshape(size, new_sizes=(n, 1))), size)
    if typeof(c).dtype.kind == "c":
        return e.complex(clip(real(c), -1, 1), clip(imag(c), -1, 1))
    return clip(c, -1, 1)
