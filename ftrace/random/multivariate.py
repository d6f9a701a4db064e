"""Samples that are vectors and matrices: multivariate_normal, orthogonal, ball.

The factorisations are loops over columns made of matrix-vector products, differentiable as all
loops are.
"""

import math
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.dtypes import float32, float64
from ftrace.core.errors import ShapeError
from ftrace.lax import fori_loop
from ftrace.numpy.promote import cast, static_int, value
from ftrace.primitives.create import iota
from ftrace.random.continuous import flat_exponentials
from ftrace.random.gammas import log_samples
from ftrace.random.normals import flat_normals
from ftrace.random.parameters import (
    Shape,
    checked_dtype,
    checked_key,
    checked_shape,
    drawn,
    parameter,
)
from ftrace.random.programs import program
from ftrace.random.threefry import Pair, split_words, words
from ftrace.random.uniforms import unit_floats

Dtype = np.dtype[Any]


# ---------------------------------------------------------------------------------- normal


def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = float64
) -> Any:
    """Normal vectors with a covariance matrix.

    Args:
        key: the key, uint32[2].
        mean: the mean, (..., n).
        cov: the covariance, (..., n, n), symmetric and positive definite; the result is
            differentiable by both.
        shape: the shape of the result without its last axis; by default that to which the
            leading axes broadcast.
        dtype: a float dtype.

    Returns:
        An array of shape (*shape, n); NaN where `cov` is not positive definite.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import numpy as np, ftrace
        >>> cov = np.array([[2.0, 0.5], [0.5, 1.0]])
        >>> ftrace.random.multivariate_normal(ftrace.random.PRNGKey(0), np.zeros(2), cov)
        array([-0.29110475, -0.80685735])
    """
    found = checked_dtype("multivariate_normal", dtype)
    wide = max(found, float32, key=lambda d: d.itemsize)
    centre = parameter("multivariate_normal", mean, wide, "mean")
    spread = parameter("multivariate_normal", cov, wide, "cov")
    a, b = typeof(centre).shape, typeof(spread).shape
    if not a or b[-2:] != (a[-1], a[-1]):
        raise ShapeError(
            f"random.multivariate_normal was given mean of shape {a} and cov of shape {b}.",
            "For vectors of n numbers these end with (n,) and (n, n).",
        )
    sizes = checked_shape("multivariate_normal", shape, a[:-1], b[:-2])
    key = checked_key("multivariate_normal", key)
    return cast(_multivariate(key, centre, spread, shape=sizes), found)


@program
def _multivariate(key: Any, mean: Any, cov: Any, *, shape: Shape) -> Any:
    whole = (*shape, mean.shape[-1])
    normals = flat_normals(words(key), math.prod(whole), mean.dtype).reshape(whole)
    return mean + (_root(cov) @ normals[..., None])[..., 0]


def _places(n: int) -> Any:
    return iota(dtype=np.dtype(np.int64), shape=(n,), dimension=0)


def _root(cov: Any) -> Any:
    """Cholesky's factor, one column after the other."""
    n = cov.shape[-1]
    cov = (cov + np.swapaxes(cov, -1, -2)) / 2  # derivatives are symmetric, too

    def column(j: Any, root: Any) -> Any:
        row = np.take(root, j, axis=-2)
        rest = np.take(cov, j, axis=-1) - (root @ row[..., None])[..., 0]
        pivot = np.sqrt(np.take(rest, j, axis=-1))[..., None]
        found = np.where(_places(n) >= j, rest / pivot, 0.0)
        return root + found[..., None] * (_places(n) == j)

    return fori_loop(0, n, column, cov * 0)


# ---------------------------------------------------------------------------------- orthogonal


def orthogonal(
    key: Any, n: int, shape: Any = (), dtype: Any = float64, m: int | None = None
) -> Any:
    """Orthogonal matrices, uniform with respect to the Haar measure.

    Args:
        key: the key, uint32[2].
        n: the number of rows.
        shape: the shape of an array of matrices.
        dtype: a float dtype.
        m: the number of columns; `n` by default. The shorter of rows and columns are orthonormal.

    Returns:
        An array of shape (*shape, n, m).

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.orthogonal(ftrace.random.PRNGKey(0), 2)
        array([[-0.11262267, -0.99363783],
               [ 0.99363783, -0.11262267]])
    """
    columns = static_int(n if m is None else m, "m")
    (rows,) = checked_shape("orthogonal", static_int(n, "n"))
    checked_shape("orthogonal", columns)
    found = checked_dtype("orthogonal", dtype)
    wide = max(found, float32, key=lambda d: d.itemsize)
    sizes = (*checked_shape("orthogonal", shape), rows, columns)
    return cast(_orthogonal(checked_key("orthogonal", key), shape=sizes, dtype=wide), found)


@program
def _orthogonal(key: Any, *, shape: Shape, dtype: Dtype) -> Any:
    long, short = max(shape[-2:]), min(shape[-2:])
    whole = (*shape[:-2], long, short)
    z = flat_normals(words(key), math.prod(whole), dtype).reshape(whole)

    def column(j: Any, q: Any) -> Any:
        rest = np.take(z, j, axis=-1)[..., None]
        for _ in range(2):  # once more for what cancelled
            rest = rest - q @ (np.swapaxes(q, -1, -2) @ rest)
        rest = rest / np.sqrt((rest * rest).sum(axis=-2, keepdims=True))
        return q + rest * (_places(short) == j)

    found = fori_loop(0, short, column, z * 0)
    return np.swapaxes(found, -1, -2) if shape[-2] < shape[-1] else found


# ---------------------------------------------------------------------------------- balls


def generalized_normal(key: Any, p: Any, shape: Any = None, dtype: Any = float64) -> Any:
    """Samples with density proportional to exp(-|x|^p).

    Args:
        key: the key, uint32[2].
        p: the exponent, > 0; the result is differentiable by it.
        shape: the shape of the result; that of `p` by default.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.generalized_normal(ftrace.random.PRNGKey(0), 1.5, (2,))
        array([ 0.39201757, -0.05719008])
    """
    return drawn("generalized_normal", _generalized, key, shape, dtype, p=p)


@program
def _generalized(key: Any, p: Any, *, shape: Shape, dtype: Dtype) -> Any:
    return cast(_signed_powers(words(key), cast(p, float64), shape), dtype)


def _signed_powers(key: Pair, p: Any, shape: Shape) -> Any:
    """Generalised normal samples in float64."""
    first, second = split_words(key, 2)
    sizes = np.exp(log_samples(first, 1.0 / p, shape) / p)
    signs = unit_floats(second, math.prod(shape), np.dtype(float64)).reshape(shape)
    return np.where(signs < 0.5, sizes, -sizes)


def ball(key: Any, d: int, p: Any = 2.0, shape: Any = (), dtype: Any = float64) -> Any:
    """Points of the unit ball of a p-norm, uniformly.

    Args:
        key: the key, uint32[2].
        d: how many dimensions the ball has.
        p: the norm's exponent, > 0, a number; the result is differentiable by it.
        shape: the shape of the result without its last axis.
        dtype: a float dtype.

    Returns:
        An array of shape (*shape, d).

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.ball(ftrace.random.PRNGKey(0), 3)
        array([-0.21927154, -0.69823947,  0.6386086 ])
    """
    exponent = value(p)
    if typeof(exponent).shape:
        raise ShapeError(
            f"random.ball was given p={typeof(exponent)}, which has axes.",
            "The exponent is one number: map over several with ftrace.vmap.",
        )
    (count,) = checked_shape("ball", static_int(d, "d"))
    sizes = (*checked_shape("ball", shape), count)
    return drawn("ball", _ball, key, sizes, dtype, p=exponent)


@program
def _ball(key: Any, p: Any, *, shape: Shape, dtype: Dtype) -> Any:
    first, second = split_words(words(key), 2)
    p = cast(p, float64)
    x = _signed_powers(first, p, shape)
    e = flat_exponentials(second, math.prod(shape[:-1]), np.dtype(float64)).reshape(shape[:-1])
    total = ((abs(x) ** p).sum(axis=-1) + e) ** (1.0 / p)
    return cast(x / total[..., None], dtype)
