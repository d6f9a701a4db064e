"""`ftrace.scipy.spatial.distance`: distances between vectors, and of all pairs of points.

Where two points are equal derivatives are those of norms and sizes: finite. Metrics of
boolean vectors have none: call SciPy's on plain values.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.arguments import explain as _explain
from ftrace.core.avals import typeof
from ftrace.core.errors import DtypeError, RuleError
from ftrace.core.jax_names import refusing as _refusing
from ftrace.numpy.cells import write_out
from ftrace.numpy.promote import value
from ftrace.numpy.refusing import refuse
from ftrace.scipy.borrowing import RefusedError, scipys
from ftrace.scipy.spatial import metrics

# ---------------------------------------------------------------------------------- vectors


def _vector(x: Any, dtype: Any = None) -> Any:
    x = value(x)
    if typeof(x).ndim != 1:
        raise RefusedError("Input vector should be 1-D.")
    return x if dtype is None else fnp.astype(x, dtype)


def _weights(w: Any) -> Any:
    if w is None:
        return None
    w = _vector(w, np.float64)
    refuse(w < 0, ValueError, "Input weights should be all non-negative")
    return w


@scipys("scipy.spatial.distance")
def minkowski(u: Any, v: Any, p: Any = 2, w: Any = None) -> Any:
    """The Minkowski distance of two vectors: the p-norm of their difference.

    Args:
        u, v: vectors of numbers.
        p: the order, above 0; `numpy.inf` for the largest difference.
        w: weights of the elements, none below zero; None for 1.

    Returns:
        A number, NaN where an element is; its derivative is zero where the vectors are equal.

    Raises:
        ValueError: what is no vector; p or a weight out of range.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import minkowski
        >>> ftrace.grad(lambda u: minkowski(u, np.array([0.0, 1.0]), 1))(np.array([2.0, 0.0]))
        array([ 1., -1.])
    """
    return metrics.minkowski(_vector(u), _vector(v), _weights(w), p)


@scipys("scipy.spatial.distance")
def euclidean(u: Any, v: Any, w: Any = None) -> Any:
    """The Euclidean distance of two vectors.

    Args:
        u, v, w: as in `minkowski`.

    Returns:
        A number, NaN where an element is; its derivative is zero where the vectors are equal.

    Raises:
        ValueError: as in `minkowski`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import euclidean
        >>> ftrace.grad(lambda u: euclidean(u, np.array([1.0, 0.0])))(np.array([4.0, 4.0]))
        array([0.6, 0.8])
    """
    return metrics.euclidean(_vector(u), _vector(v), _weights(w))


def _inexact(x: Any) -> Any:
    x = _vector(x)
    return x if typeof(x).dtype.kind in "fc" else fnp.astype(x, np.float64)


@scipys("scipy.spatial.distance")
def sqeuclidean(u: Any, v: Any, w: Any = None) -> Any:
    """The squared Euclidean distance of two vectors.

    Args:
        u, v, w: as in `minkowski`.

    Returns:
        A number.

    Raises:
        ValueError: as in `minkowski`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import sqeuclidean
        >>> ftrace.grad(lambda u: sqeuclidean(u, np.array([1.0, 0.0])))(np.array([4.0, 4.0]))
        array([6., 8.])
    """
    return metrics.sqeuclidean(_inexact(u), _inexact(v), _weights(w))


@scipys("scipy.spatial.distance")
def seuclidean(u: Any, v: Any, V: Any) -> Any:
    """The Euclidean distance of two vectors whose elements have variances.

    Args:
        u, v: vectors of numbers.
        V: the variances.

    Returns:
        A number; its derivative is zero where the vectors are equal.

    Raises:
        ValueError: what is no vector.
        TypeError: vectors of different lengths.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import seuclidean
        >>> f = lambda u: seuclidean(u, np.zeros(2), np.array([1.0, 4.0]))
        >>> ftrace.jit(f)(np.array([3.0, 8.0]))
        np.float64(5.0)
    """
    u, v = _vector(u), _vector(v)
    variances = _vector(V, np.float64)
    if not typeof(variances).shape == typeof(u).shape == typeof(v).shape:
        raise TypeError("V must be a 1-D array of the same dimension as u and v.")
    return metrics.minkowski(u, v, _weights(1 / variances))


@scipys("scipy.spatial.distance")
def mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    """The Mahalanobis distance of two vectors.

    Args:
        u, v: vectors of numbers.
        VI: the inverse of a matrix of covariances.

    Returns:
        A number; its derivative is zero where the vectors are equal.

    Raises:
        ValueError: what is no vector; a matrix of another size.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import mahalanobis
        >>> ftrace.jit(lambda u: mahalanobis(u, np.zeros(2), np.eye(2)))(np.array([3.0, 4.0]))
        np.float64(5.0)
    """
    return metrics.mahalanobis(_vector(u), _vector(v), fnp.atleast_2d(value(VI)))


@scipys("scipy.spatial.distance")
def cityblock(u: Any, v: Any, w: Any = None) -> Any:
    """The sum of the differences between two vectors.

    Args:
        u, v, w: as in `minkowski`.

    Returns:
        A number.

    Raises:
        ValueError: as in `minkowski`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import cityblock
        >>> ftrace.grad(lambda u: cityblock(u, np.array([1.0, 0.0])))(np.array([0.0, 4.0]))
        array([-1.,  1.])
    """
    return metrics.cityblock(_vector(u), _vector(v), _weights(w))


@scipys("scipy.spatial.distance")
def chebyshev(u: Any, v: Any, w: Any = None) -> Any:
    """The largest difference between two vectors.

    Args:
        u, v: as in `minkowski`.
        w: elements without a weight do not count; None for all.

    Returns:
        A number; equal largest differences share the derivative.

    Raises:
        ValueError: as in `minkowski`; vectors without elements.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import chebyshev
        >>> ftrace.grad(lambda u: chebyshev(u, np.array([1.0, 0.0])))(np.array([2.0, 4.0]))
        array([0., 1.])
    """
    u, v, w = _vector(u), _vector(v), _weights(w)
    away = u - v
    if not typeof(away).size:
        raise RefusedError("chebyshev takes vectors with elements.")
    found = metrics.chebyshev(u, v, w)
    return (
        fnp.where(fnp.isnan(away[0]), np.nan, found) if typeof(away).dtype.kind in "fc" else found
    )


@scipys("scipy.spatial.distance")
def braycurtis(u: Any, v: Any, w: Any = None) -> Any:
    """The Bray-Curtis distance: the sum of differences, divided by that of sums.

    Args:
        u, v, w: as in `minkowski`.

    Returns:
        A number.

    Raises:
        ValueError: as in `minkowski`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import braycurtis
        >>> ftrace.jit(lambda u: braycurtis(u, np.array([1.0, 0.0])))(np.array([1.0, 2.0]))
        np.float64(0.5)
    """
    return metrics.braycurtis(_vector(u), _vector(v, np.float64), _weights(w))


@scipys("scipy.spatial.distance")
def canberra(u: Any, v: Any, w: Any = None) -> Any:
    """The Canberra distance: the sum of differences, each divided by the sum of both sizes.

    Args:
        u, v, w: as in `minkowski`.

    Returns:
        A number, to which zeros in both vectors and NaN add nothing.

    Raises:
        ValueError: as in `minkowski`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import canberra
        >>> ftrace.jit(lambda u: canberra(u, np.array([1.0, 0.0])))(np.array([3.0, 0.0]))
        np.float64(0.5)
    """
    return metrics.canberra(_vector(u), _vector(v, np.float64), _weights(w), 0)


@scipys("scipy.spatial.distance")
def correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    """1 less the coefficient of correlation of two vectors.

    Args:
        u, v, w: as in `minkowski`.
        centered: whether the means are taken away.

    Returns:
        A number from 0 to 2.

    Raises:
        ValueError: as in `minkowski`.
        TypeError: complex numbers.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import correlation
        >>> ftrace.jit(lambda u: correlation(u, np.array([0.0, 1.0])))(np.array([3.0, 2.0]))
        np.float64(2.0)
    """
    metric = metrics.correlation if centered else metrics.cosine
    return metric(_vector(u), _vector(v), _weights(w))


@scipys("scipy.spatial.distance")
def cosine(u: Any, v: Any, w: Any = None) -> Any:
    """1 less the cosine of the angle between two vectors.

    Args:
        u, v, w: as in `minkowski`.

    Returns:
        A number from 0 to 2.

    Raises:
        ValueError, TypeError: as in `correlation`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import cosine
        >>> ftrace.jit(lambda u: cosine(u, np.array([0.0, 1.0])))(np.array([3.0, 0.0]))
        np.float64(1.0)
    """
    return metrics.cosine(_vector(u), _vector(v), _weights(w))


@scipys("scipy.spatial.distance")
def hamming(u: Any, v: Any, w: Any = None) -> Any:
    """The share of elements in which two vectors differ.

    Args:
        u, v, w: as in `minkowski`.

    Returns:
        A number from 0 to 1. It has a derivative by the weights alone.

    Raises:
        ValueError: as in `minkowski`; vectors of different lengths.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import hamming
        >>> ftrace.jit(lambda u: hamming(u, np.array([0.0, 1.0])))(np.array([3.0, 1.0]))
        np.float64(0.5)
    """
    return metrics.hamming(_vector(u), _vector(v), _weights(w))


@scipys("scipy.spatial.distance")
def jensenshannon(
    p: Any, q: Any, base: Any = None, *, axis: Any = 0, keepdims: bool = False
) -> Any:
    """The Jensen-Shannon distance of two distributions: the root of their divergence.

    Args:
        p, q: arrays of probabilities, which are divided by their sums.
        base: of the logarithm; None for e.
        axis: along which a distribution lies.
        keepdims: whether that axis stays, with one element.

    Returns:
        An array without the axis; its derivative is zero where the distributions are equal.

    Raises:
        ValueError: arrays that cannot be broadcast, another axis.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import jensenshannon
        >>> f = lambda p: jensenshannon(p, np.array([0.0, 1.0]), 2)
        >>> ftrace.jit(f)(np.array([1.0, 0.0]))
        np.float64(1.0)
    """
    p, q = (x / fnp.sum(x, axis=axis, keepdims=True) for x in (value(p), value(q)))
    return metrics.root_of_divergence(p, q, axis, keepdims, base)


# ---------------------------------------------------------------------------------- all pairs


def _name(metric: Any) -> str | None:
    """The name of a metric that is known; None for another function.

    Raises:
        RuleError: a metric that cannot be traced; ValueError, TypeError: one that SciPy has not.
    """
    if callable(metric):
        name = getattr(metric, "__name__", "")
    elif isinstance(metric, str):
        name = metric.lower()
    else:
        raise RefusedError("metric is a name or a function.")
    name = metrics.ALIASES.get(name, name)
    if name in metrics.METRICS:
        return name
    if callable(metric):
        return None
    if name in _OF_BOOLEANS:
        raise RuleError(
            f"{name} compares booleans, and has no rule for traced arrays.",
            f"Use one of {', '.join(metrics.METRICS)}, or SciPy's on plain values.",
        )
    raise RefusedError(f"Unknown Distance Metric: {name}")


_OF_BOOLEANS = frozenset(
    {"dice", "jaccard", "jacc", "ja", "j", "rogerstanimoto", "russellrao", "sokalsneath", "yule"}
)


def _options(name: str, points: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The options of a metric for points that lie in rows: checked, and those that are missing."""
    taken = metrics.METRICS[name][1]
    if unknown := [key for key in given if key not in taken]:
        raise DtypeError(
            f"The metric {name} was given {unknown[0]}.",
            f"It takes {' and '.join(taken) or 'none'}.",
        )
    m, n = typeof(points).shape
    if given.get("w") is not None:
        given["w"] = _weights(given["w"])
    if name == "seuclidean" and given.get("V") is None:
        given["V"] = fnp.var(points, axis=0, ddof=1)
    if name == "mahalanobis":
        if given.get("VI") is None:
            if m <= n:
                raise RefusedError("There are too few points: their covariance is singular.")
            given["VI"] = fnp.linalg.inv(fnp.atleast_2d(fnp.cov(points.T))).T
        given["VI"] = fnp.astype(value(given["VI"]), np.float64)
    sizes = {"w": (n,), "V": (n,), "VI": (n, n)}
    for key, x in given.items():
        if key in sizes and x is not None and typeof(value(x)).shape != sizes[key]:
            raise RefusedError(f"{key} is for {n} columns.")
    return given


def _distances(
    metric: Any, points: list[Any], pairs: Callable[..., Any], out: Any, given: dict[str, Any]
) -> Any:
    """The distances of pairs of rows."""
    if any(typeof(x).dtype.kind == "c" for x in points):
        raise RefusedError("Points have real coordinates.")
    name = _name(metric)
    if name is not None:
        points = [fnp.astype(x, np.float64) for x in points]
        given = _options(name, fnp.concatenate(points), given)
    u, v = pairs(*points)
    shape = np.broadcast_shapes(typeof(u).shape[:-1], typeof(v).shape[:-1])
    if 0 in shape:
        found = fnp.zeros(shape)
    elif callable(metric):
        if metric.__module__ == "scipy.spatial.distance" and name is not None:
            metric = globals()[name]
        each = fnp.vectorize(lambda u, v: metric(u, v, **given), signature="(n),(n)->()")
        found = fnp.astype(each(u, v), np.float64)
    else:
        found = metrics.METRICS[str(name)][0](u, v, **given)
    if out is None:
        return found
    if typeof(out).shape != shape or typeof(out).dtype != np.float64:
        raise RefusedError(f"out is an array of float64 of shape {shape}.")
    return write_out(out, found)


@scipys("scipy.spatial.distance")
def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """The distances of all rows of one matrix from all rows of another.

    Args:
        XA, XB: matrices of real numbers, a point in each row.
        metric: the name of one of this module's functions of vectors, or a function of two vectors
            that has a number. It is traced.
        out: a traced array that the distances are written to.
        kwargs: options of the metric: `w`, `p`, `V` and `VI`. Without the last two they are the
            variances and the inverse covariance of all points.

    Returns:
        A matrix of float64: a row for each of XA's, a column for each of XB's.

    Raises:
        ValueError: what are no matrices with columns for each other; an unknown metric; options
            that do not fit.
        TypeError: an option that the metric has not.
        RuleError: a metric of booleans.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import cdist
        >>> ftrace.jit(lambda x: cdist(x, np.array([[0.0, 0.0]])))(np.array([[3.0, 4.0]]))
        array([[5.]])
    """
    points = [value(XA), value(XB)]
    (*_, n), (*_, k) = (typeof(x).shape or (0,) for x in points)
    if any(typeof(x).ndim != 2 for x in points) or n != k:
        raise RefusedError("XA and XB must be matrices with the same number of columns.")
    return _distances(metric, points, lambda a, b: (a[:, None, :], b[None, :, :]), out, kwargs)


@scipys("scipy.spatial.distance")
def pdist(X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """The distances of the rows of a matrix from each other.

    Args:
        X: a matrix of real numbers, a point in each row.
        metric, out, kwargs: as in `cdist`.

    Returns:
        A vector of float64: the distances of the first row from the second, the third, and so on,
        then of the second from the third. `squareform` makes a matrix of it.

    Raises:
        ValueError, TypeError, RuleError: as in `cdist`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import pdist
        >>> ftrace.jit(pdist)(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 0.0]]))
        array([5., 3., 4.])
    """
    x = value(X)
    if typeof(x).ndim != 2:
        raise RefusedError("A 2-dimensional array must be passed.")
    first, second = np.triu_indices(typeof(x).shape[0], 1)
    return _distances(metric, [x], lambda a: (a[first], a[second]), out, kwargs)


@scipys("scipy.spatial.distance", asked=False)
def squareform(X: Any, force: str = "no", checks: bool = True) -> Any:
    """A matrix of distances from a vector of those of all pairs, or the vector from the matrix.

    Args:
        X: what `pdist` returns, or a symmetric matrix whose diagonal is zero.
        force: "tomatrix" or "tovector" to refuse what is already one.
        checks: whether a matrix is checked, when the function runs.

    Returns:
        An array of the same dtype.

    Raises:
        ValueError: a vector of another length, a matrix that is not square, or is not symmetric,
            or has a diagonal.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.spatial.distance import squareform
        >>> ftrace.jit(squareform)(np.array([5.0, 3.0, 4.0]))
        array([[0., 5., 3.],
               [5., 0., 4.],
               [3., 4., 0.]])
    """
    x = value(X)
    shape = typeof(x).shape
    wanted = {"tomatrix": 1, "tovector": 2}.get(force.lower(), len(shape))
    if len(shape) not in (1, 2) or len(shape) != wanted:
        raise RefusedError("squareform takes a vector or a matrix, as force says.")
    if len(shape) == 1:
        n = int(np.ceil(np.sqrt(2 * shape[0]))) if shape[0] else 1
        if n * (n - 1) != 2 * shape[0]:
            raise RefusedError("Incompatible vector size: it is that of no set of pairs.")
        places = np.zeros((n, n), int)
        places[np.triu_indices(n, 1)] = np.arange(1, shape[0] + 1)
        return fnp.concatenate([fnp.zeros(1, typeof(x).dtype), x])[places + places.T]
    if shape[0] != shape[1]:
        raise RefusedError("The matrix argument must be square.")
    if checks:
        refuse(~(x == x.T), ValueError, "Distance matrix 'X' must be symmetric.")
        refuse(~(fnp.diagonal(x) == 0), ValueError, "Distance matrix 'X' diagonal must be zero.")
    return x[np.triu_indices(shape[0], 1)]


_explain(globals())
__getattr__ = _refusing("scipy.spatial.distance")
