"""Samples of the normal distribution, and of those that are a step away from it.

A normal sample is the quantile of a uniform one: the uniforms are JAX's, the quantile is exact
arithmetic (quantiles.py), so that both devices give the same bits and JAX the same to rounding.
"""

import math
from typing import Any

import numpy as np

from ftrace.control.rules.custom_derivatives import custom_jvp_call
from ftrace.core.dtypes import float64, real_dtype
from ftrace.numpy.promote import stretch
from ftrace.primitives.arithmetic import complex as complex_row
from ftrace.primitives.elementwise import mul, nextafter
from ftrace.primitives.special import erf, erf_inv, log_ndtr
from ftrace.random.parameters import (
    Shape,
    checked_dtype,
    checked_key,
    checked_shape,
    drawn,
)
from ftrace.random.programs import program
from ftrace.random.quantiles import normal_quantile
from ftrace.random.threefry import Pair, split_words, words
from ftrace.random.uniforms import between, finished, unit_floats

Dtype = np.dtype[Any]


def flat_normals(key: Pair, size: int, dtype: Dtype) -> Any:
    """A vector of standard normal floats."""
    one = dtype.type(1)
    return normal_quantile(between(unit_floats(key, size, dtype), -np.nextafter(one, 0 * one), one))


def standard_normal(key: Any, shape: Any, dtype: Any) -> Any:
    """Standard normal samples of one shape, real or complex."""
    found = checked_dtype("normal", dtype, "fc")
    if found.kind == "f":
        return drawn("normal", _normal, key, shape, found)
    sizes = checked_shape("normal", shape)
    return _complex_normal(checked_key("normal", key), shape=sizes, dtype=real_dtype(found))


@program
def _normal(key: Any, *, shape: Shape, dtype: Dtype) -> Any:
    return finished(lambda x: x, [flat_normals(words(key), math.prod(shape), dtype)], shape)


@program
def _complex_normal(key: Any, *, shape: Shape, dtype: Dtype) -> Any:
    parts = [flat_normals(k, math.prod(shape), dtype) for k in split_words(words(key), 2)]
    scale = dtype.type(0.5**0.5)
    return finished(lambda re, im: complex_row(re * scale, im * scale), parts, shape)


def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = float64
) -> Any:
    """Standard normal samples between two bounds.

    Args:
        key: the key, uint32[2].
        lower, upper: the bounds; the result is differentiable by them.
        shape: the shape of the result; by default that to which the bounds broadcast.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype, whose elements lie strictly between the bounds.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.truncated_normal(ftrace.random.PRNGKey(0), 0.0, 1.0, (2,))
        array([0.36605541, 0.18613695])
    """
    return drawn("truncated_normal", _truncated, key, shape, dtype, lower=lower, upper=upper)


@program
def _truncated(key: Any, lower: Any, upper: Any, *, shape: Shape, dtype: Dtype) -> Any:
    root_two, infinity = dtype.type(2**0.5), dtype.type(np.inf)

    def finish(x: Any, lower: Any, upper: Any) -> Any:
        found = root_two * erf_inv(between(x, erf(lower / root_two), erf(upper / root_two)))
        inside = [nextafter(a, b) for a, b in ((lower, infinity), (upper, -infinity))]
        return np.clip(found, *inside)

    floats = unit_floats(words(key), math.prod(shape), dtype)
    return finished(finish, [floats], shape, [lower, upper])


def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = float64) -> Any:
    """Samples whose logarithm is normal, with mean 0.

    Args:
        key: the key, uint32[2].
        sigma: the standard deviation of the logarithm; the result is differentiable by it.
        shape: the shape of the result; that of `sigma` by default.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.lognormal(ftrace.random.PRNGKey(0), 0.5, (2,))
        array([0.90219818, 0.67544544])
    """
    return drawn("lognormal", _lognormal, key, shape, dtype, sigma=sigma)


@program
def _lognormal(key: Any, sigma: Any, *, shape: Shape, dtype: Dtype) -> Any:
    flat = flat_normals(words(key), math.prod(shape), dtype)
    return finished(lambda x, sigma: np.exp(x * sigma), [flat], shape, [sigma])


def maxwell(key: Any, shape: Any = (), dtype: Any = float64) -> Any:
    """Samples of the Maxwell distribution: lengths of standard normal vectors in three dimensions.

    Args:
        key: the key, uint32[2].
        shape: the shape of the result.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.maxwell(ftrace.random.PRNGKey(0), (2,))
        array([1.98906991, 0.42460738])
    """
    return drawn("maxwell", _maxwell, key, shape, dtype)


@program
def _maxwell(key: Any, *, shape: Shape, dtype: Dtype) -> Any:
    return _lengths(words(key), shape, dtype)


def _lengths(key: Pair, shape: Shape, dtype: Dtype) -> Any:
    """Lengths of normal vectors in three dimensions."""
    parts = flat_normals(key, 3 * math.prod(shape), dtype).reshape((*shape, 3))
    return np.sqrt((parts * parts).sum(axis=-1))


def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Any = None, dtype: Any = float64
) -> Any:
    """Samples of the Maxwell distribution with random signs, scaled and moved.

    Args:
        key: the key, uint32[2].
        loc, scale: the parameters; the result is differentiable by them.
        shape: the shape of the result (in JAX: without the axes of the parameters); by default
            that to which the parameters broadcast.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.double_sided_maxwell(ftrace.random.PRNGKey(0), 0.0, 1.0, (2,))
        array([ 1.98461204, -2.4782074 ])
    """
    given = {"loc": loc, "scale": scale}
    return drawn("double_sided_maxwell", _double_sided, key, shape, dtype, **given)


@program
def _double_sided(key: Any, loc: Any, scale: Any, *, shape: Shape, dtype: Dtype) -> Any:
    first, second = split_words(words(key), 2)
    signs = unit_floats(second, math.prod(shape), float64).reshape(shape)
    lengths = _lengths(first, shape, dtype)
    return np.where(signs < 0.5, lengths, -lengths) * scale + loc


def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = float64) -> Any:
    """Samples of the Wald (inverse Gaussian) distribution with scale 1.

    Args:
        key: the key, uint32[2].
        mean: the mean, > 0; the result is differentiable by it.
        shape: the shape of the result; that of `mean` by default.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.wald(ftrace.random.PRNGKey(0), 2.0, (2,))
        array([0.22327945, 3.90085525])
    """
    return drawn("wald", _wald, key, shape, dtype, mean=mean)


@program
def _wald(key: Any, mean: Any, *, shape: Shape, dtype: Dtype) -> Any:
    first, second = split_words(words(key), 2)
    x = flat_normals(first, math.prod(shape), dtype).reshape(shape)
    u = unit_floats(second, math.prod(shape), dtype).reshape(shape)
    return _walds(x, u, stretch(mean, shape))


def _walds(x: Any, u: Any, mean: Any) -> Any:
    """Samples from normals and uniforms, by one of two roots of a square.

    Which root is taken depends on the mean, so the derivative is the quantile's: the derivative of
    the distribution function by the mean over the density is a Mills ratio.
    """

    def rule(x: Any, u: Any, mean: Any, t: Any, *, active: tuple[bool, ...]) -> list[Any]:
        y = _walds(x, u, mean)
        b = (y / mean + 1) / np.sqrt(y)
        mills = np.exp(log_ndtr(-b) + b * b / 2 + _LOG_ROOT_TWO_PI)
        return [y, mul(t, 2 * y * np.sqrt(y) / (mean * mean) * mills)]

    return custom_jvp_call(x, u, mean, fun=_wald_root, rule=rule, symbolic=True)[0]


def _wald_root(x: Any, u: Any, mean: Any) -> list[Any]:
    y = mean * x * x
    root = mean * (1 + (y - np.sqrt(y * (y + 4))) / 2)
    return [np.where(u <= mean / (mean + root), root, mean * mean / root)]


_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
