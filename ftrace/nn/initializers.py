"""`ftrace.nn.initializers`: first values of parameters, functions of a key, a shape and a dtype.

`zeros` and `ones` are such functions themselves; the others make one.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

import ftrace.numpy as fnp
from ftrace import random
from ftrace.core.arguments import explain as _explain
from ftrace.core.arguments import reworded as _named_errors
from ftrace.core.dtypes import canonical
from ftrace.core.errors import DomainError, ShapeError
from ftrace.core.jax_names import refusing as _refusing
from ftrace.numpy.promote import new_shape

__all__ = (  # pyright: ignore[reportUnsupportedDunderAll]
    "constant",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
)

Shape = tuple[int, ...]
Initializer = Callable[..., Any]  # (key, shape, dtype) -> array
Axes = int | Sequence[int]
TRUNCATED = 0.87962566103423978  # the deviation of a normal sample between -2 and 2


def zeros(key: Any, shape: Any, dtype: Any = float) -> Any:
    """An array of zeros.

    Args:
        key: not looked at.
        shape: of the array.
        dtype: of the array.

    Example:
        >>> import ftrace
        >>> ftrace.nn.initializers.zeros(None, (2,))
        array([0., 0.])
    """
    return fnp.zeros(new_shape(shape), dtype)


def ones(key: Any, shape: Any, dtype: Any = float) -> Any:
    """An array of ones.

    Args:
        key: not looked at.
        shape: of the array.
        dtype: of the array.

    Example:
        >>> import ftrace
        >>> ftrace.nn.initializers.ones(None, (2,))
        array([1., 1.])
    """
    return fnp.ones(new_shape(shape), dtype)


def constant(value: Any, dtype: Any = float) -> Initializer:
    """An initializer that gives one number.

    Args:
        value: the number.
        dtype: of the array, by default.

    Example:
        >>> import ftrace
        >>> ftrace.nn.initializers.constant(3.0)(None, (2,))
        array([3., 3.])
    """

    @_named_errors
    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        shape = new_shape(shape)
        return fnp.full(shape, value, canonical(dtype))

    return init


def uniform(scale: Any = 1e-2, dtype: Any = float) -> Initializer:
    """An initializer of uniform numbers from 0 to `scale`.

    Args:
        scale: the upper end.
        dtype: of the array, by default.

    Example:
        >>> import ftrace
        >>> ftrace.nn.initializers.uniform()(ftrace.random.key(0), (2,)).shape
        (2,)
    """

    @_named_errors
    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        shape = new_shape(shape)
        return random.uniform(key, shape, canonical(dtype)) * _as(scale, dtype)

    return init


def normal(stddev: Any = 1e-2, dtype: Any = float) -> Initializer:
    """An initializer of normal numbers.

    Args:
        stddev: their standard deviation.
        dtype: of the array, by default.

    Example:
        >>> import ftrace
        >>> ftrace.nn.initializers.normal()(ftrace.random.key(0), (2,)).shape
        (2,)
    """

    @_named_errors
    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        shape = new_shape(shape)
        return random.normal(key, shape, canonical(dtype)) * _as(stddev, dtype)

    return init


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = float, lower: Any = -2.0, upper: Any = 2.0
) -> Initializer:
    """An initializer of normal numbers that lie between bounds.

    Args:
        stddev: the standard deviation before they are cut off.
        dtype: of the array, by default.
        lower, upper: the bounds, in standard deviations.

    Example:
        >>> import ftrace
        >>> ftrace.nn.initializers.truncated_normal()(ftrace.random.key(0), (2,)).shape
        (2,)
    """

    @_named_errors
    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        shape = new_shape(shape)
        found = random.truncated_normal(key, lower, upper, shape, canonical(dtype))
        return found * _as(stddev, dtype)

    return init


def _as(x: Any, dtype: Any) -> Any:
    return canonical(dtype).type(x) if issubclass(type(x), int | float) else x


def _sizes(shape: Shape, axes: Axes) -> int:
    return math.prod(shape[a] for a in np.atleast_1d(axes))


def _fans(shape: Shape, in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    """How many inputs an output has, and how many outputs an input."""
    if len(shape) < 2:
        raise ShapeError(
            f"An initializer that knows of inputs and outputs was given the shape {shape}.",
            "It needs two axes at least; use nn.initializers.normal for a vector.",
        )
    n_in, n_out = _sizes(shape, in_axis), _sizes(shape, out_axis)
    field = math.prod(shape) / n_in / n_out / _sizes(shape, batch_axis)
    return n_in * field, n_out * field


def variance_scaling(
    scale: Any,
    mode: Literal["fan_in", "fan_out", "fan_avg", "fan_geo_avg"],
    distribution: Literal["truncated_normal", "normal", "uniform"],
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = float,
) -> Initializer:
    """An initializer whose variance falls with the number of inputs or outputs.

    Args:
        scale: the variance for one of them.
        mode: what is counted: inputs, outputs, or their arithmetic or geometric mean.
        distribution: of the numbers.
        in_axis, out_axis: the axes of inputs and outputs; all others are a receptive field.
        batch_axis: axes that are not.
        dtype: of the array, by default.

    Example:
        >>> import ftrace
        >>> init = ftrace.nn.initializers.variance_scaling(1.0, "fan_avg", "uniform")
        >>> init(ftrace.random.key(0), (3, 2)).shape
        (3, 2)
    """
    means: dict[str, Callable[[float, float], float]] = {
        "fan_in": lambda n, m: n,
        "fan_out": lambda n, m: m,
        "fan_avg": lambda n, m: (n + m) / 2,
        "fan_geo_avg": lambda n, m: math.sqrt(n * m),
    }
    drawn: dict[str, Callable[..., Any]] = {
        "normal": lambda key, shape, dtype: random.normal(key, shape, dtype),
        "uniform": lambda key, shape, dtype: (
            random.uniform(key, shape, dtype, -1) * dtype.type(math.sqrt(3))
        ),
        "truncated_normal": lambda key, shape, dtype: (
            random.truncated_normal(key, -2, 2, shape, dtype) / dtype.type(TRUNCATED)
        ),
    }
    for what, names in ((mode, means), (distribution, drawn)):
        if what not in names:
            raise DomainError(
                f"nn.initializers.variance_scaling was given {what!r}.",
                f"It is one of {', '.join(names)}.",
            )

    @_named_errors
    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        shape = new_shape(shape)
        n, m = _fans(shape, in_axis, out_axis, batch_axis)
        found = canonical(dtype)
        deviation = np.sqrt(scale / max(1.0, means[mode](n, m)))
        return drawn[distribution](key, shape, found) * _as(float(deviation), found)

    return init


def _named(scale: float, mode: Any, distribution: Any, name: str, doc: str) -> Any:
    def make(
        in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = float
    ) -> Initializer:
        axes = in_axis, out_axis, batch_axis
        return variance_scaling(scale, mode, distribution, *axes, dtype=dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""{doc}

    Args:
        in_axis, out_axis, batch_axis, dtype: as in `variance_scaling`.

    Example:
        >>> import ftrace
        >>> ftrace.nn.initializers.{name}()(ftrace.random.key(0), (3, 2)).shape
        (3, 2)
    """
    return make


glorot_uniform = xavier_uniform = _named(
    1.0, "fan_avg", "uniform", "glorot_uniform", "Glorot's initializer of uniform numbers."
)
glorot_normal = xavier_normal = _named(
    1.0, "fan_avg", "truncated_normal", "glorot_normal", "Glorot's initializer of normal numbers."
)
lecun_uniform = _named(
    1.0, "fan_in", "uniform", "lecun_uniform", "LeCun's initializer of uniform numbers."
)
lecun_normal = _named(
    1.0, "fan_in", "truncated_normal", "lecun_normal", "LeCun's initializer of normal numbers."
)
he_uniform = kaiming_uniform = _named(
    2.0, "fan_in", "uniform", "he_uniform", "He's initializer of uniform numbers."
)
he_normal = kaiming_normal = _named(
    2.0, "fan_in", "truncated_normal", "he_normal", "He's initializer of normal numbers."
)


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = float) -> Initializer:
    """An initializer of matrices with orthonormal columns, or rows if these are fewer.

    Args:
        scale: a factor.
        column_axis: the axis of columns; all others together are rows.
        dtype: of the array, by default.

    Example:
        >>> import numpy as np, ftrace
        >>> w = ftrace.nn.initializers.orthogonal()(ftrace.random.key(0), (3, 2))
        >>> np.round(w.T @ w, 12) + 0.0
        array([[1., 0.],
               [0., 1.]])
    """

    @_named_errors
    def init(key: Any, shape: Any, dtype: Any = dtype) -> Any:
        shape = new_shape(shape)
        if len(shape) < 2:
            raise ShapeError(
                f"nn.initializers.orthogonal was given the shape {tuple(shape)}.",
                "It needs two axes at least.",
            )
        columns = shape[column_axis]
        rows = math.prod(shape) // columns
        found = random.orthogonal(key, rows, (), canonical(dtype), columns)
        rest = [n for a, n in enumerate(shape) if a != column_axis % len(shape)]
        whole = fnp.moveaxis(fnp.reshape(found, (*rest, columns)), -1, column_axis)
        return whole * _as(scale, dtype)

    return init


_explain(globals())
__getattr__ = _refusing("nn.initializers")
