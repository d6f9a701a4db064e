"""Continuous distributions whose quantile has a formula: one uniform number makes one sample.

Logarithms are those of quantiles.py, so that what has no other function is the same on every
device: exponential, gumbel, laplace, logistic, rayleigh, triangular. JAX's samples differ by
rounding.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.core.dtypes import float64
from ftrace.random.parameters import Shape, drawn
from ftrace.random.programs import program
from ftrace.random.quantiles import log
from ftrace.random.threefry import Pair, words
from ftrace.random.uniforms import between, finished, unit_floats

Dtype = np.dtype[Any]


def _quantile(finish: Callable[..., Any]) -> Callable[..., Any]:
    """The program that applies `finish` to floats in [0, 1) and parameters."""

    @program
    def samples(key: Any, *parameters: Any, shape: Shape, dtype: Dtype) -> Any:
        floats = unit_floats(words(key), math.prod(shape), dtype)
        return finished(finish, [floats], shape, parameters)

    return samples


def _open(x: Any) -> Any:
    """Floats in [0, 1) without 0."""
    return between(x, np.finfo(x.dtype).tiny, x.dtype.type(1))


def flat_exponentials(key: Pair, size: int, dtype: Dtype) -> Any:
    """A vector of exponential samples."""
    return _exponential(unit_floats(key, size, dtype))


def _exponential(x: Any) -> Any:
    return -log(x.dtype.type(1) - x)


def exponential(key: Any, shape: Any = (), dtype: Any = float64) -> Any:
    """Samples of the exponential distribution with rate 1.

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
        >>> ftrace.random.exponential(ftrace.random.PRNGKey(0), (2,))
        array([0.54207056, 0.24372319])
    """
    return drawn("exponential", _exponentials, key, shape, dtype)


_exponentials = _quantile(_exponential)


def gumbel(key: Any, shape: Any = (), dtype: Any = float64) -> Any:
    """Samples of the Gumbel distribution, with distribution function exp(-exp(-x)).

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
        >>> ftrace.random.gumbel(ftrace.random.PRNGKey(0), (2,))
        array([ 0.13790566, -0.42599294])
    """
    return drawn("gumbel", _gumbels, key, shape, dtype)


def standard_gumbel(x: Any) -> Any:
    """Gumbel samples from floats in [0, 1)."""
    return -log(-log(_open(x)))


_gumbels = _quantile(standard_gumbel)


def laplace(key: Any, shape: Any = (), dtype: Any = float64) -> Any:
    """Samples of the Laplace distribution, with density exp(-|x|) / 2.

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
        >>> ftrace.random.laplace(ftrace.random.PRNGKey(0), (2,))
        array([0.17803369, 0.83796278])
    """
    return drawn("laplace", _laplaces, key, shape, dtype)


def _laplace(x: Any) -> Any:
    one = x.dtype.type(1)
    u = between(x, np.finfo(x.dtype).epsneg - one, one)
    size = log(one - abs(u))  # negative: the sign is JAX's
    return np.where(u < 0, -size, size)


_laplaces = _quantile(_laplace)


def logistic(key: Any, shape: Any = (), dtype: Any = float64) -> Any:
    """Samples of the logistic distribution, with distribution function 1 / (1 + exp(-x)).

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
        >>> ftrace.random.logistic(ftrace.random.PRNGKey(0), (2,))
        array([-0.32911032, -1.28738678])
    """
    return drawn("logistic", _logistics, key, shape, dtype)


def _logistic(x: Any) -> Any:
    u = _open(x)
    return log(u) - log(x.dtype.type(1) - u)


_logistics = _quantile(_logistic)


def cauchy(key: Any, shape: Any = (), dtype: Any = float64) -> Any:
    """Samples of the Cauchy distribution, with density 1 / (pi (1 + x^2)).

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
        >>> ftrace.random.cauchy(ftrace.random.PRNGKey(0), (2,))
        array([-0.26192951, -1.23784602])
    """
    return drawn("cauchy", _cauchies, key, shape, dtype)


def _cauchy(x: Any) -> Any:
    number = x.dtype.type
    u = between(x, np.finfo(x.dtype).eps, number(1))
    return np.tan(number(np.pi) * (u - number(0.5)))


_cauchies = _quantile(_cauchy)


def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = float64) -> Any:
    """Samples of the Pareto distribution, with density b / x^(b + 1) from 1 on.

    Args:
        key: the key, uint32[2].
        b: the exponent; the result is differentiable by it.
        shape: the shape of the result; that of `b` by default.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.pareto(ftrace.random.PRNGKey(0), 3.0, (2,))
        array([1.19804395, 1.08463233])
    """
    return drawn("pareto", _pareto, key, shape, dtype, b=b)


_pareto = _quantile(lambda x, b: np.exp(_exponential(x) / b))


def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = float64) -> Any:
    """Samples of the Rayleigh distribution: lengths of normal vectors in two dimensions.

    Args:
        key: the key, uint32[2].
        scale: the standard deviation of the parts; the result is differentiable by it.
        shape: the shape of the result; that of `scale` by default.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.rayleigh(ftrace.random.PRNGKey(0), 2.0, (2,))
        array([2.63997102, 3.49983995])
    """
    return drawn("rayleigh", _rayleigh, key, shape, dtype, scale=scale)


_rayleigh = _quantile(lambda x, scale: scale * np.sqrt(log(_open(x)) * x.dtype.type(-2)))


def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = None, dtype: Any = float64
) -> Any:
    """Samples of the Weibull distribution of minima.

    Args:
        key: the key, uint32[2].
        scale, concentration: the parameters; the result is differentiable by them.
        shape: the shape of the result; by default that to which the parameters broadcast.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.weibull_min(ftrace.random.PRNGKey(0), 2.0, 3.0, (2,))
        array([1.63072953, 1.24928716])
    """
    given = {"scale": scale, "concentration": concentration}
    return drawn("weibull_min", _weibull, key, shape, dtype, **given)


_weibull = _quantile(lambda x, scale, c: scale * _exponential(x) ** (x.dtype.type(1) / c))


def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = float64
) -> Any:
    """Samples of the triangular distribution.

    Args:
        key: the key, uint32[2].
        left, mode, right: where the density begins, is largest, and ends; the result is
            differentiable by them.
        shape: the shape of the result; by default that to which the parameters broadcast.
        dtype: a float dtype.

    Returns:
        An array of the shape and dtype.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.

    Example:
        >>> import ftrace
        >>> ftrace.random.triangular(ftrace.random.PRNGKey(0), 0.0, 1.0, 3.0, (2,))
        array([1.13204461, 0.80553483])
    """
    given = {"left": left, "mode": mode, "right": right}
    return drawn("triangular", _triangular, key, shape, dtype, **given)


@_quantile
def _triangular(x: Any, left: Any, mode: Any, right: Any) -> Any:
    width = right - left
    rising = left + np.sqrt(x * width * (mode - left))
    falling = right - np.sqrt((x.dtype.type(1) - x) * width * (right - mode))
    return np.where(x * width < mode - left, rising, falling)
