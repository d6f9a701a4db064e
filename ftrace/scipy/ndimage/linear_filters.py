"""Correlations of images with weights, and means of windows: sums over extended arrays.

`gaussian_filter`, `sobel`, `laplace` and their relatives (`compound_filters.py`) are made of these.
"""

from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.lax import add, conv_general_dilated, reduce_window
from ftrace.numpy.promote import one_axis, value
from ftrace.scipy.borrowing import RefusedError, scipys
from ftrace.scipy.ndimage.borders import around, chosen_axes, delivered, on_all


def _real(x: Any, weights: Any, origins: list[int], mode: str, cval: Any) -> Any:
    """The correlation of real numbers in double precision."""
    x, weights = fnp.astype(x, float), fnp.astype(weights, float)
    if np.iscomplexobj(cval):
        raise RefusedError("Cannot provide a complex-valued cval when the input is real.")
    wide = around(x, typeof(weights).shape, origins, mode, cval)
    if not typeof(x).size:
        return x
    rank = len(origins)
    return conv_general_dilated(wide[None, None], weights[None, None], (1,) * rank, "VALID")[0, 0]


def correlated(x: Any, weights: Any, origins: list[int], mode: str, cval: Any) -> Any:
    """The correlation with weights of the same rank, which are not conjugated."""
    if typeof(weights).dtype.kind == "c":
        parts = [
            correlated(x, w, origins, mode, cval) for w in (fnp.real(weights), fnp.imag(weights))
        ]
        return parts[0] + 1j * parts[1]
    if typeof(x).dtype.kind == "c":
        real = _real(fnp.real(x), weights, origins, mode, fnp.real(cval))
        return real + 1j * _real(fnp.imag(x), weights, origins, mode, fnp.imag(cval))
    return _real(x, weights, origins, mode, cval)


@scipys("scipy.ndimage")
def correlate1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """The correlation of an array's lines with weights.

    Args:
        input: an array of numbers.
        weights: a vector; complex ones are conjugated.
        axis: along which the lines are.
        output: None, the dtype of the result, or an array to write it into.
        mode: what is outside: "reflect", "constant", "nearest", "mirror", "wrap", or one of their
            names with "grid-".
        cval: the value outside, for "constant".
        origin: by how many elements the weights are moved.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: another mode or axis, no weights, an origin outside of them.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import correlate1d
        >>> f = lambda x: correlate1d(x, np.array([-1.0, 0.0, 1.0]))
        >>> ftrace.jit(f)(np.array([1.0, 2.0, 4.0]))
        array([1., 3., 2.])
    """
    x, weights = value(input), fnp.conj(value(weights))
    rank = typeof(x).ndim
    axis = one_axis(axis, rank)
    if typeof(weights).ndim != 1:
        raise RefusedError("no filter weights given")
    kernel = fnp.expand_dims(weights, tuple(i for i in range(rank) if i != axis))
    origins = on_all(origin, [axis], rank, 0)
    return delivered(correlated(x, kernel, origins, mode, cval), x, output)


def _windowed(x: Any, weights: Any, axes: Any, origin: Any) -> tuple[Any, list[int]]:
    """Weights of the array's rank, and an origin for each axis."""
    rank = typeof(x).ndim
    along = chosen_axes(axes, rank)
    if typeof(weights).ndim != len(along):
        raise RefusedError("weights have one axis for each axis of the array")
    kernel = fnp.expand_dims(weights, tuple(i for i in range(rank) if i not in along))
    return kernel, [int(o) for o in on_all(origin, along, rank, 0)]


@scipys("scipy.ndimage")
def correlate(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The correlation of an array with weights of any number of axes.

    Args:
        input, output, mode, cval: as in `correlate1d`.
        weights: an array with as many axes as there are `axes`.
        origin: by how many elements the weights are moved, for all axes or each of them.
        axes: along which the array is filtered; None for all.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `correlate1d`, and weights of another rank.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.ndimage import correlate
        >>> correlate(np.eye(3), np.ones((1, 3)), mode="constant")
        array([[1., 1., 0.],
               [1., 1., 1.],
               [0., 1., 1.]])
    """
    x = value(input)
    kernel, origins = _windowed(x, fnp.conj(value(weights)), axes, origin)
    return delivered(correlated(x, kernel, origins, mode, cval), x, output)


@scipys("scipy.ndimage")
def convolve(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The convolution of an array with weights of any number of axes.

    Args:
        input, weights, output, mode, cval, origin, axes: as in `correlate`.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `correlate`.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.ndimage import convolve
        >>> convolve(np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.0, -1.0]))
        array([1., 3., 2.])
    """
    x = value(input)
    kernel, origins = _windowed(x, fnp.flip(value(weights)), axes, origin)
    # the middle of an even number of weights is the other one when they are turned round
    turned = [-o - (k % 2 == 0) for o, k in zip(origins, typeof(kernel).shape, strict=True)]
    if axes is not None:
        along = chosen_axes(axes, typeof(x).ndim)
        turned = [t if i in along else 0 for i, t in enumerate(turned)]
    return delivered(correlated(x, kernel, turned, mode, cval), x, output)


@scipys("scipy.ndimage")
def uniform_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """The mean of a window about each element, along one axis.

    Args:
        input, axis, output, mode, cval, origin: as in `correlate1d`.
        size: how many elements a window has.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `correlate1d`, or a size below 1.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import uniform_filter1d
        >>> ftrace.jit(lambda x: uniform_filter1d(x, 3))(np.array([1.0, 4.0, 4.0]))
        array([2., 3., 4.])
    """
    x = value(input)
    rank = typeof(x).ndim
    along = [one_axis(axis, rank)]
    sizes, origins = on_all(size, along, rank, 1), on_all(origin, along, rank, 0)
    parts = [fnp.real(x), fnp.imag(x)] if typeof(x).dtype.kind == "c" else [x]
    fills = [fnp.real(cval), fnp.imag(cval)] if len(parts) > 1 else [cval]
    sums = [
        reduce_window(
            around(fnp.astype(part, float), sizes, origins, mode, fill),
            *(0.0, add, sizes, (1,) * rank, "VALID"),
        )
        for part, fill in zip(parts, fills, strict=True)
    ]
    found = sums[0] + 1j * sums[1] if len(sums) > 1 else sums[0]
    return delivered(found / size, x, output)
