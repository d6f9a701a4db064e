"""Activation functions: elementwise, of any real floats, with JAX's names and derivatives.

Where a function has a kink its derivative is that of one side, the one JAX takes: at 0 that of
`relu` is 0. Nothing here leaves the dtype of its operand.
"""

import math
from typing import Any

import ftrace.numpy as fnp
from ftrace.core.errors import ShapeError
from ftrace.numpy.promote import inexact, one_axis, value
from ftrace.scipy.special import expit, ndtr

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def identity(x: Any) -> Any:
    """The operand.

    Example:
        >>> import ftrace
        >>> ftrace.nn.identity(2.0)
        2.0
    """
    return x


def relu(x: Any) -> Any:
    """max(x, 0), with derivative 0 at 0.

    Args:
        x: an array of real numbers.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.nn.relu(np.array([-1.0, 2.0]))
        array([0., 2.])
    """
    return fnp.where(fnp.less_equal(x, 0), 0, value(x))


def relu6(x: Any) -> Any:
    """min(max(x, 0), 6), with derivative 0 at both ends.

    Args:
        x: an array of real numbers.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.nn.relu6(np.array([-1.0, 2.0, 7.0]))
        array([0., 2., 6.])
    """
    return fnp.where(fnp.greater_equal(x, 6), 6, relu(x))


def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Any:
    """x where it is not negative, else `negative_slope` times x.

    Args:
        x: an array of real floats.
        negative_slope: the slope below 0.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.nn.leaky_relu(np.array([-1.0, 2.0]))
        array([-0.01,  2.  ])
    """
    x = inexact(x)
    return fnp.where(fnp.greater_equal(x, 0), x, x * negative_slope)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)).

    Args:
        x: an array of real numbers.

    Example:
        >>> import ftrace
        >>> float(ftrace.nn.sigmoid(0.0))
        0.5
    """
    return expit(x)


def log_sigmoid(x: Any) -> Any:
    """The logarithm of sigmoid(x).

    Args:
        x: an array of real numbers.

    Example:
        >>> import ftrace
        >>> float(ftrace.nn.log_sigmoid(-1000.0))
        -1000.0
    """
    return -softplus(-inexact(x))


def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6.

    Args:
        x: an array of real numbers.

    Example:
        >>> import ftrace
        >>> float(ftrace.nn.hard_sigmoid(0.0))
        0.5
    """
    return relu6(inexact(x) + 3) / 6


def sparse_sigmoid(x: Any) -> Any:
    """0 below -1, 1 above 1, and a line between.

    Args:
        x: an array of real numbers.

    Example:
        >>> import ftrace
        >>> float(ftrace.nn.sparse_sigmoid(0.5))
        0.75
    """
    return 0.5 * fnp.clip(inexact(x) + 1.0, 0.0, 2.0)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), without overflow.

    Args:
        x: an array of real numbers.

    Example:
        >>> import ftrace
        >>> float(ftrace.grad(ftrace.nn.softplus)(0.0))
        0.5
    """
    return fnp.logaddexp(inexact(x), 0.0)


def sparse_plus(x: Any) -> Any:
    """0 below -1, x above 1, and a parabola between.

    Args:
        x: an array of real numbers.

    Example:
        >>> import ftrace
        >>> float(ftrace.nn.sparse_plus(0.0))
        0.25
    """
    x = inexact(x)
    between = 0.25 * fnp.square(x + 1.0)
    return fnp.where(fnp.less_equal(x, -1), 0.0, fnp.where(fnp.greater_equal(x, 1), x, between))


def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + sqrt(x**2 + b)) / 2.

    Args:
        x: an array of real numbers.
        b: how far from relu it is.

    Example:
        >>> import ftrace
        >>> float(ftrace.nn.squareplus(0.0))
        1.0
    """
    x = inexact(x)
    return 0.5 * (x + fnp.sqrt(fnp.square(x) + b))


def soft_sign(x: Any) -> Any:
    """x / (1 + |x|).

    Args:
        x: an array of real numbers.

    Example:
        >>> import ftrace
        >>> float(ftrace.nn.soft_sign(1.0))
        0.5
    """
    x = inexact(x)
    return x / (fnp.abs(x) + 1)


def silu(x: Any) -> Any:
    """x sigmoid(x).

    Args:
        x: an array of real numbers.

    Example:
        >>> import ftrace
        >>> float(ftrace.grad(ftrace.nn.silu)(0.0))
        0.5
    """
    x = inexact(x)
    return x * expit(x)


def hard_silu(x: Any) -> Any:
    """x hard_sigmoid(x).

    Args:
        x: an array of real numbers.

    Example:
        >>> import ftrace
        >>> float(ftrace.nn.hard_silu(4.0))
        4.0
    """
    return inexact(x) * hard_sigmoid(x)


swish = silu
hard_swish = hard_silu


def mish(x: Any) -> Any:
    """x tanh(softplus(x)).

    Args:
        x: an array of real numbers.

    Example:
        >>> import ftrace
        >>> float(ftrace.nn.mish(0.0))
        0.0
    """
    x = inexact(x)
    return x * fnp.tanh(softplus(x))


def tanh(x: Any) -> Any:
    """The hyperbolic tangent.

    Args:
        x: an array of numbers.

    Example:
        >>> import ftrace
        >>> float(ftrace.nn.tanh(0.0))
        0.0
    """
    return fnp.tanh(x)


def hard_tanh(x: Any) -> Any:
    """x between -1 and 1, and constant outside.

    Args:
        x: an array of real numbers.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.nn.hard_tanh(np.array([-3.0, 0.5]))
        array([-1. ,  0.5])
    """
    return fnp.where(fnp.greater(x, 1), 1, fnp.where(fnp.less(x, -1), -1, value(x)))


def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x where it is positive, else alpha (exp(x) - 1).

    Args:
        x: an array of real numbers.
        alpha: the depth below 0.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.nn.elu(np.array([-np.inf, 2.0]))
        array([-1.,  2.])
    """
    x = inexact(x)
    positive = fnp.greater(x, 0)
    return fnp.where(positive, x, alpha * fnp.expm1(fnp.where(positive, 0.0, x)))


def celu(x: Any, alpha: Any = 1.0) -> Any:
    """x where it is positive, else alpha (exp(x / alpha) - 1).

    Args:
        x: an array of real numbers.
        alpha: the depth below 0.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.nn.celu(np.array([-np.inf, 2.0]), 2.0)
        array([-2.,  2.])
    """
    x = inexact(x)
    positive = fnp.greater(x, 0)
    return fnp.where(positive, x, alpha * fnp.expm1(fnp.where(positive, 0.0, x) / alpha))


def selu(x: Any) -> Any:
    """The scaled elu that keeps mean 0 and variance 1.

    Args:
        x: an array of real numbers.

    Example:
        >>> import ftrace
        >>> round(float(ftrace.nn.selu(1.0)), 6)
        1.050701
    """
    return SELU_SCALE * elu(x, SELU_ALPHA)


def gelu(x: Any, approximate: bool = True) -> Any:
    """x times the normal distribution function of x.

    Args:
        x: an array of real numbers.
        approximate: by the hyperbolic tangent, to three digits.

    Example:
        >>> import ftrace
        >>> round(float(ftrace.nn.gelu(1.0, approximate=False)), 6)
        0.841345
    """
    x = inexact(x)
    if not approximate:
        return x * ndtr(x)
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
    return x * (0.5 * (1.0 + fnp.tanh(inner)))


def glu(x: Any, axis: int = -1) -> Any:
    """The first half of an axis times the sigmoid of its second half.

    Args:
        x: an array of real numbers.
        axis: the axis, of even size.

    Raises:
        ShapeError: the size is odd.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.nn.glu(np.array([3.0, 0.0]))
        array([1.5])
    """
    x = inexact(x)
    size = x.shape[one_axis(axis, x.ndim)]
    if size % 2:
        raise ShapeError(
            f"nn.glu was given an axis of size {size}, which has no halves.",
            "The size of the axis must be even.",
        )
    first, second = fnp.split(x, 2, axis)
    return first * expit(second)


def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)), precise for small and for large x.

    Args:
        x: an array of positive real numbers.

    Example:
        >>> import ftrace
        >>> round(float(ftrace.nn.log1mexp(1.0)), 6)
        -0.458675
    """
    x = inexact(x)
    near = fnp.less(x, math.log(2.0))
    small, large = fnp.where(near, x, 1.0), fnp.where(near, 1.0, x)
    return fnp.where(near, fnp.log(-fnp.expm1(-small)), fnp.log1p(-fnp.exp(-large)))
