"""Histograms of one variable and of several."""

from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.errors import DtypeError
from ftrace.numpy import reductions, ufuncs
from ftrace.numpy.creation import linspace
from ftrace.numpy.elementary import where
from ftrace.numpy.numerics import divide
from ftrace.numpy.promote import cast, numpy_function, strong, value
from ftrace.numpy.refusing import refuse
from ftrace.numpy.shaping import index_axis, slice_axis
from ftrace.numpy.sorting import INDEX, counted, searchsorted
from ftrace.primitives import elementwise as e
from ftrace.primitives.linear import add
from ftrace.primitives.shape import reshape


@numpy_function
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges of the bins of a histogram."""
    if weights is not None and np.shape(weights) != np.shape(a):
        raise ValueError("weights should have the same shape as a.")
    if not issubclass(type(bins), int | np.integer):
        edges = strong(value(bins))
        value(a)  # refuses what is no array of numbers
        if typeof(edges).ndim != 1:
            raise ValueError("`bins` must be 1d, when an array")
        n = typeof(edges).shape[0]
        falls = ufuncs.apply(np.less, slice_axis(edges, 1, n, 0), slice_axis(edges, 0, n - 1, 0))
        refuse(falls, ValueError, "`bins` must increase monotonically, when an array")
        return edges
    if bins < 1:
        raise ValueError("`bins` must be positive, when an integer")
    x = strong(value(a))
    if range is not None:
        low, high = range
        falls = ufuncs.apply(np.greater, low, high)
        refuse(falls, ValueError, "max must be larger than min in range parameter.")
    elif typeof(x).size:
        low, high = reductions.min(x), reductions.max(x)
    else:
        low, high = 0.0, 1.0
    dtype = _edge_type(low, high, x)
    finite = ufuncs.apply(np.isfinite, ufuncs.apply(np.subtract, high, low))
    refuse(ufuncs.apply(np.logical_not, finite), ValueError, "the range of the bins is not finite")
    same = ufuncs.apply(np.equal, low, high)
    low = where(same, ufuncs.apply(np.subtract, low, 0.5), low)
    high = where(same, ufuncs.apply(np.add, high, 0.5), high)
    return linspace(low, high, int(bins) + 1, dtype=dtype)


def _edge_type(*given: Any) -> np.dtype[Any]:
    """The dtype of edges between two values, which is no integer."""
    avals = [typeof(value(x)) for x in given]
    found = np.result_type(*(a.dtype.type(0).item() if a.weak else a.dtype for a in avals))
    return found if found.kind in "fc" else np.result_type(found, float)


@numpy_function
def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    """How many elements fall into each bin, and the edges of the bins."""
    x = strong(value(a))
    x = reshape(x, new_sizes=(typeof(x).size,))
    if typeof(x).dtype.kind == "c":
        raise DtypeError("histogram was given complex numbers.", "Pass real ones: np.abs(z).")
    edges = histogram_bin_edges(x, bins, range)
    n = typeof(edges).shape[0] - 1
    at = _bins(edges, x)
    own = None if weights is None else reshape(value(weights), new_sizes=typeof(x).shape)
    counts = counted(at, None, n) if own is None else _weighted(at, own, n)
    if density:
        counts = divide(divide(counts, _widths(edges)), reductions.sum(counts))
    return counts, edges


def _weighted(at: Any, weights: Any, n: int) -> Any:
    """Sums of weights in bins, which keep the dtype of the weights."""
    dtype = typeof(weights).dtype
    if dtype.kind != "c":
        return cast(counted(at, weights, n), dtype)
    parts = (counted(at, part(weights), n) for part in (e.real, e.imag))
    return cast(e.complex(*parts), dtype)


def _widths(edges: Any) -> Any:
    n = typeof(edges).shape[0] - 1
    return e.sub(slice_axis(edges, 1, n + 1, 0), slice_axis(edges, 0, n, 0))


def _bins(edges: Any, x: Any) -> Any:
    """The number of the bin of each element, and that of bins for one that is in none."""
    n = typeof(edges).shape[0] - 1
    at = e.sub(searchsorted(edges, x, side="right"), INDEX.type(1))
    last = ufuncs.apply(np.equal, x, index_axis(edges, n, 0))
    at = e.select(last, INDEX.type(n - 1), at)
    return e.select(ufuncs.apply(np.less, at, 0), INDEX.type(n), at)


@numpy_function
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    """How many points fall into each bin of several axes, and the edges of the bins."""
    columns = _columns(sample)
    rank = len(columns)
    each = list(bins) if np.ndim(bins) or type(bins) in (list, tuple) else [bins] * rank
    if len(each) != rank:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    ranges = [None] * rank if range is None else list(range)
    if len(ranges) != rank:
        raise ValueError("range argument must have one entry per dimension")
    edges = [histogram_bin_edges(x, *o) for x, *o in zip(columns, each, ranges, strict=True)]
    sizes = [typeof(x).shape[0] - 1 for x in edges]
    total = int(np.prod(sizes))
    flat, outside = INDEX.type(0), np.False_
    for x, own, n in zip(columns, edges, sizes, strict=True):
        at = _bins(own, x)
        outside = e.bitwise_or(outside, e.eq(at, INDEX.type(n)))
        flat = add(e.mul(flat, INDEX.type(n)), at)
    flat = e.select(outside, INDEX.type(total), flat)
    counts = cast(counted(flat, weights, total), np.dtype(np.float64))
    found = reshape(counts, new_sizes=tuple(sizes))
    if density:
        whole = reductions.sum(found)
        for i, own in enumerate(edges):
            wide = tuple(n if j == i else 1 for j, n in enumerate(sizes))
            found = divide(found, reshape(_widths(own), new_sizes=wide))
        found = divide(found, whole)
    return found, edges


def _columns(sample: Any) -> list[Any]:
    """The coordinates of points: the columns of a matrix, or one vector for each axis."""
    if type(sample) in (list, tuple):
        vectors = [strong(value(x)) for x in sample]
        return [reshape(x, new_sizes=(typeof(x).size,)) for x in vectors]
    x = strong(value(sample))
    if typeof(x).ndim != 2:
        return [reshape(x, new_sizes=(typeof(x).size,))]
    return [index_axis(x, i, 1) for i in np.arange(typeof(x).shape[1]).tolist()]


@numpy_function
def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    """How many points of a plane fall into each bin, and the edges of the bins."""
    if len(x) != len(y):
        raise ValueError("x and y must have the same length.")
    is_edges = (np.ndim(bins) or type(bins) in (list, tuple)) and len(bins) != 2
    found, edges = histogramdd([x, y], [bins, bins] if is_edges else bins, range, density, weights)
    return found, edges[0], edges[1]
