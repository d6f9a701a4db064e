"""Distances of the vectors that lie along the last axes of two arrays, which are broadcast.

Each has weights, None for none. Where a distance is a root of zero its derivative is zero, as that
of a norm.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.scipy import special
from ftrace.scipy.borrowing import RefusedError


def _dot(x: Any, y: Any) -> Any:
    """The sum of products in their own dtype, as `numpy.dot` takes it; nothing is conjugated."""
    product = x * y
    return fnp.sum(product, axis=-1, dtype=typeof(product).dtype)


def _weighed(x: Any, w: Any) -> Any:
    return x if w is None else w * x


def _root(x: Any, inverse: Any = 0.5) -> Any:
    """A power below 1 whose derivative is zero at zero."""
    zero = x == 0
    held = fnp.where(zero, 1, x)
    return fnp.where(zero, x, fnp.sqrt(held) if inverse == 0.5 else fnp.power(held, inverse))


def minkowski(u: Any, v: Any, w: Any = None, p: Any = 2.0) -> Any:
    """The p-th root of the sum of p-th powers of differences."""
    if p <= 0:
        raise RefusedError("p must be greater than 0")
    away = u - v
    if w is None and p == np.inf:
        return fnp.max(abs(away), axis=-1, initial=0)
    if w is None:
        return fnp.linalg.norm(away, ord=p, axis=-1)
    if p == np.inf:
        return fnp.max((w != 0) * abs(away), axis=-1, initial=0)
    size = fnp.astype(abs(away), np.float64)
    return _root(fnp.sum(w * fnp.power(size, p), axis=-1), 1 / p)


def euclidean(u: Any, v: Any, w: Any = None) -> Any:
    """The root of the sum of squared differences."""
    return minkowski(u, v, w)


def sqeuclidean(u: Any, v: Any, w: Any = None) -> Any:
    """The sum of squared differences."""
    away = u - v
    return _dot(away, _weighed(away, w))


def seuclidean(u: Any, v: Any, V: Any) -> Any:
    """The root of the sum of squared differences, each divided by a variance."""
    return minkowski(u, v, 1 / V)


def mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    """The root of the quadratic form of differences."""
    away = u - v
    return _root(_dot(away @ VI, away))


def cityblock(u: Any, v: Any, w: Any = None) -> Any:
    """The sum of differences."""
    return fnp.sum(_weighed(abs(u - v), w), axis=-1)


def chebyshev(u: Any, v: Any, w: Any = None) -> Any:
    """The largest difference; NaN is none."""
    away = abs(u - v) if w is None else (w > 0) * abs(u - v)
    return fnp.max(fnp.where(fnp.isnan(away), 0, away), axis=-1, initial=0)


def braycurtis(u: Any, v: Any, w: Any = None) -> Any:
    """The sum of differences, divided by that of sums."""
    less, more = (_weighed(abs(x), w) for x in (u - v, u + v))
    return fnp.sum(less, axis=-1) / fnp.sum(more, axis=-1)


def canberra(u: Any, v: Any, w: Any = None, of_nan: Any = np.nan) -> Any:
    """The sum of differences, each divided by the sum of sizes: nothing where both are zero."""
    less, more = abs(u - v), abs(u) + abs(v)
    none = more == 0
    ratio = fnp.where(none, 0, less / fnp.where(none, 1, more))
    lost = fnp.isnan(ratio)
    return fnp.sum(fnp.where(lost, of_nan, _weighed(fnp.where(lost, 0, ratio), w)), axis=-1)


def cosine(u: Any, v: Any, w: Any = None) -> Any:
    """1 less the cosine of the angle between vectors."""
    if w is not None:
        w = w / fnp.sum(w)
    vw, uw = _weighed(v, w), _weighed(u, w)
    ratio = _dot(u, vw) / fnp.sqrt(_dot(u, uw) * _dot(v, vw))
    return fnp.clip(1.0 - ratio, 0.0, 2.0)


def correlation(u: Any, v: Any, w: Any = None) -> Any:
    """1 less the coefficient of correlation."""
    u, v = (x - fnp.average(x, axis=-1, weights=w, keepdims=True) for x in (u, v))
    return cosine(u, v, w)


def hamming(u: Any, v: Any, w: Any = None) -> Any:
    """The share of elements that differ."""
    unlike = u != v
    return fnp.mean(unlike, axis=-1) if w is None else _dot(unlike, w / fnp.sum(w))


def jensenshannon(p: Any, q: Any) -> Any:
    """The root of the Jensen-Shannon divergence; infinite where a vector sums to zero."""
    whole = [fnp.sum(x, axis=-1, keepdims=True) for x in (p, q)]
    empty = (whole[0] == 0) | (whole[1] == 0)
    p, q = (x / fnp.where(empty, 1, s) for x, s in zip((p, q), whole, strict=True))
    return fnp.where(empty[..., 0], np.inf, root_of_divergence(p, q, -1, False, None))


def root_of_divergence(p: Any, q: Any, axis: Any, keepdims: Any, base: Any) -> Any:
    """The root of the Jensen-Shannon divergence of what sums to 1."""
    none = (p == 0) & (q == 0)
    p, q = fnp.where(none, 1, p), fnp.where(none, 1, q)  # where the logarithms have no derivatives
    middle = (p + q) / 2.0
    parts = special.rel_entr(p, middle) + special.rel_entr(q, middle)
    total = fnp.sum(parts, axis=axis, keepdims=keepdims)
    return _root((total if base is None else total / fnp.log(base)) / 2.0)


METRICS: Final[dict[str, tuple[Callable[..., Any], tuple[str, ...]]]] = {
    "braycurtis": (braycurtis, ("w",)),
    "canberra": (canberra, ("w",)),
    "chebyshev": (chebyshev, ("w",)),
    "cityblock": (cityblock, ("w",)),
    "correlation": (correlation, ("w",)),
    "cosine": (cosine, ("w",)),
    "euclidean": (euclidean, ("w",)),
    "hamming": (hamming, ("w",)),
    "jensenshannon": (jensenshannon, ()),
    "mahalanobis": (mahalanobis, ("VI",)),
    "minkowski": (minkowski, ("w", "p")),
    "seuclidean": (seuclidean, ("V",)),
    "sqeuclidean": (sqeuclidean, ("w",)),
}
"""What computes a distance, and the options that it takes in tables of distances."""
ALIASES: Final[dict[str, str]] = {
    **dict.fromkeys(("chebychev", "cheby", "cheb", "ch"), "chebyshev"),
    **dict.fromkeys(("cblock", "cb", "c"), "cityblock"),
    **{"co": "correlation", "cos": "cosine", "js": "jensenshannon"},
    **dict.fromkeys(("euclid", "eu", "e"), "euclidean"),
    **dict.fromkeys(("matching", "hamm", "ha", "h"), "hamming"),
    **dict.fromkeys(("mahal", "mah"), "mahalanobis"),
    **dict.fromkeys(("mi", "m", "pnorm"), "minkowski"),
    **dict.fromkeys(("se", "s"), "seuclidean"),
    **dict.fromkeys(("sqe", "sqeuclid"), "sqeuclidean"),
}
