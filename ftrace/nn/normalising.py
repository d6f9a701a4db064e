"""Functions that normalise along axes: softmax and its kin, standardize, one_hot."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.dtypes import canonical
from ftrace.lax.operations import stop_gradient
from ftrace.numpy.promote import inexact, one_axis, static_int, value
from ftrace.scipy.special.composed_functions import log_sum_exp

Axes = int | Sequence[int] | None


def _greatest(x: Any, axis: Any, where: Any) -> Any:
    given = x if where is None else fnp.where(where, x, -np.inf)
    return stop_gradient(fnp.max(given, axis=axis, keepdims=True, initial=-np.inf))


def softmax(x: Any, axis: Axes = -1, where: Any = None) -> Any:
    """Exponentials divided by their sum along axes.

    Args:
        x: an array of real numbers.
        axis: an axis or several; None: all.
        where: which elements take part; the others give 0.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.nn.softmax(np.array([1.0, 1.0, 5.0]), where=np.array([True, True, False]))
        array([0.5, 0.5, 0. ])
    """
    x = inexact(x)
    taken = x if where is None else fnp.where(where, x, -np.inf)
    e = fnp.exp(taken - _greatest(x, axis, where))
    found = e / fnp.sum(e, axis=axis, keepdims=True)
    return found if where is None else fnp.where(where, found, 0.0)


def log_softmax(x: Any, axis: Axes = -1, where: Any = None) -> Any:
    """The logarithm of softmax(x, axis).

    Args:
        x: an array of real numbers.
        axis: an axis or several; None: all.
        where: which elements take part; the others give -inf.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.nn.log_softmax(np.array([0.0, 1000.0]))
        array([-1000.,     0.])
    """
    x = inexact(x)
    taken = x if where is None else fnp.where(where, x, -np.inf)
    below = taken - _greatest(x, axis, where)
    found = below - fnp.log(fnp.sum(fnp.exp(below), axis=axis, keepdims=True))
    return found if where is None else fnp.where(where, found, -np.inf)


def logsumexp(
    a: Any,
    axis: Axes = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """The logarithm of a sum of exponentials, without overflow.

    Args:
        a: an array of real numbers.
        axis: an axis or several; None: all.
        b: factors of the exponentials.
        keepdims: keep axes that are summed over, with size 1.
        return_sign: give a pair, the logarithm of the absolute value and the sign.
        where: which elements take part.

    Example:
        >>> import numpy as np, ftrace
        >>> float(ftrace.nn.logsumexp(np.array([1000.0, -1000.0])))
        1000.0
    """
    found, sign = log_sum_exp(a, axis, b, keepdims, where)
    if return_sign:
        return found, sign
    return found if b is None else fnp.where(fnp.less(sign, 0), np.nan, found)


def logmeanexp(a: Any, axis: Axes = None, where: Any = None, keepdims: bool = False) -> Any:
    """The logarithm of a mean of exponentials.

    Args:
        a: an array of real numbers.
        axis: an axis or several; None: all.
        where: which elements take part.
        keepdims: keep axes that are summed over, with size 1.

    Example:
        >>> import numpy as np, ftrace
        >>> float(ftrace.nn.logmeanexp(np.array([1000.0, 1000.0])))
        1000.0
    """
    found = logsumexp(a, axis, keepdims=keepdims, where=where)
    if where is None:
        counted = math.prod(np.shape(a)) // max(math.prod(np.shape(found)), 1)
        return found - (math.log(counted) if counted else -math.inf)
    ones = fnp.broadcast_to(where, np.shape(a)).astype(found.dtype)
    return found - fnp.log(fnp.sum(ones, axis=axis, keepdims=keepdims))


def standardize(
    x: Any,
    axis: Axes = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
) -> Any:
    """Shift and scale along axes to mean 0 and variance 1.

    Args:
        x: an array of numbers.
        axis: an axis or several.
        mean: a mean to take instead of the axes' own.
        variance: a variance to take instead.
        epsilon: added to the variance.
        where: which elements the mean and the variance are those of.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.nn.standardize(np.array([1.0, 3.0]), epsilon=0.0)
        array([-1.,  1.])
    """
    x = inexact(x)
    taken = True if where is None else where
    own = mean is None
    if own:
        mean = fnp.mean(x, axis, keepdims=True, where=taken)
    if variance is None:
        centred = fnp.abs(x - mean) if own else fnp.abs(x)
        variance = fnp.mean(fnp.square(centred), axis, keepdims=True, where=taken)
        if not own:
            variance = variance - fnp.square(fnp.abs(mean))
    return (x - mean) / fnp.sqrt(variance + epsilon)


def one_hot(x: Any, num_classes: int, *, dtype: Any = float, axis: int = -1) -> Any:
    """1 at the place that an integer says along a new axis, 0 elsewhere; all 0 out of range.

    Args:
        x: an array of integers.
        num_classes: the size of the new axis.
        dtype: that of the result.
        axis: where the new axis is.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.nn.one_hot(np.array([0, 2, 5]), 3)
        array([[1., 0., 0.],
               [0., 0., 1.],
               [0., 0., 0.]])
    """
    x, n = value(x), static_int(num_classes, "num_classes")
    place = one_axis(axis, np.ndim(x) + 1)
    shape = [1] * (np.ndim(x) + 1)
    shape[place] = n
    classes = np.arange(n).reshape(shape)
    return fnp.equal(fnp.expand_dims(x, place), classes).astype(canonical(dtype))
