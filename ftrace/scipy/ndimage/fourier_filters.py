"""Filters of images that were taken to frequencies: products with what a filter is there."""

from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.numpy.cells import write_out
from ftrace.numpy.promote import one_axis, static_int, value
from ftrace.scipy import special
from ftrace.scipy.borrowing import RefusedError, scipys
from ftrace.scipy.ndimage.borders import each_axis


def _cycles(x: Any, n: Any, axis: int, each: Any) -> list[Any]:
    """What a number for each axis is times the cycles per element, along each axis of an array.

    Args:
        x: an image at frequencies.
        n: how long its axis was before a transform of real numbers; negative for another one.
        axis: along which that was.
        each: numbers, for all axes or each of them.
    """
    shape = typeof(x).shape
    half, n = one_axis(axis, len(shape)), static_int(n, "n")
    found = []
    for i, (size, given) in enumerate(zip(shape, each_axis(each, shape), strict=True)):
        whole = n < 0 or i != half
        cycles = np.fft.fftfreq(size) if whole and size else np.arange(size) / n
        along = np.expand_dims(cycles, [j for j in range(len(shape)) if j != i])
        found.append(along * fnp.astype(fnp.asarray(given), float))
    return found


def _product(x: Any, factors: list[Any], output: Any, wide: Any = np.float64) -> Any:
    """An image times factors along its axes, in its own dtype or the one that is asked for."""
    own = typeof(x).dtype
    kinds = [t for t in ("f4", "f8", "c8", "c16") if np.dtype(t).kind == "c" or wide is np.float64]
    kind = own if own in map(np.dtype, kinds) else np.dtype(wide)
    is_array = not (output is None or isinstance(output, type))
    if output is not None:
        kind = typeof(output).dtype if is_array else np.dtype(output)
        named = is_array or issubclass(output, np.generic)  # SciPy does not take Python's float
        if not named or kind not in map(np.dtype, kinds) or (own.kind == "c" and kind.kind != "c"):
            raise RefusedError("output type not supported")
    found = x
    for factor in factors:
        found = found * factor
    found = fnp.astype(found, kind)
    return write_out(output, found) if is_array else found


@scipys("scipy.ndimage")
def fourier_gaussian(
    input: Any, sigma: Any, n: int = -1, axis: int = -1, output: Any = None
) -> Any:
    """What smoothing by a Gaussian is at frequencies.

    Args:
        input: the transform of an image.
        sigma: the standard deviation, for all axes or each of them; it may be traced.
        n: how long the axis was if `rfft` made the transform; negative for `fft`.
        axis: along which that was.
        output: None, the dtype of the result, or an array to write it into.

    Returns:
        An array of the input's shape; float64, float32 or complex as the input is.

    Raises:
        RuntimeError, ValueError: another output or axis.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import fourier_gaussian
        >>> ftrace.grad(lambda s: fourier_gaussian(np.ones(4), s)[1])(0.5).round(4)
        np.float64(-0.9063)
    """
    x = value(input)
    factors = [fnp.exp(-2 * (np.pi * c) ** 2) for c in _cycles(x, n, axis, sigma)]
    return _product(x, factors, output)


@scipys("scipy.ndimage")
def fourier_uniform(input: Any, size: Any, n: int = -1, axis: int = -1, output: Any = None) -> Any:
    """What the mean of a window is at frequencies.

    Args:
        input, n, axis, output: as in `fourier_gaussian`.
        size: the window's size, for all axes or each of them; it may be traced.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `fourier_gaussian`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import fourier_uniform
        >>> ftrace.jit(lambda x: fourier_uniform(x, 2.0))(np.ones(4)).round(3)
        array([1.   , 0.637, 0.   , 0.637])
    """
    x = value(input)
    shape = typeof(x).shape
    factors = []
    for i, (c, given) in enumerate(
        zip(_cycles(x, n, axis, size), each_axis(size, shape), strict=True)
    ):
        first = np.arange(shape[i]) == 0
        first = np.expand_dims(first, [j for j in range(len(shape)) if j != i])
        factors.append(fnp.where(fnp.greater(given, 0), fnp.sinc(c), first * 1.0))
    return _product(x, factors, output)


@scipys("scipy.ndimage")
def fourier_ellipsoid(
    input: Any, size: Any, n: int = -1, axis: int = -1, output: Any = None
) -> Any:
    """What the mean of an ellipsoid is at frequencies.

    Args:
        input, n, axis, output: as in `fourier_gaussian`; the input has at most three axes.
        size: the ellipsoid's extents, for all axes or each of them; it may be traced.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `fourier_gaussian`.
        NotImplementedError: more axes.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import fourier_ellipsoid
        >>> ftrace.jit(lambda x: fourier_ellipsoid(x, 2.0))(np.ones((2, 2))).round(3)
        array([[ 1.   ,  0.181],
               [ 0.181, -0.097]])
    """
    x = value(input)
    if typeof(x).ndim > 3:
        raise NotImplementedError("Only 1d, 2d and 3d inputs are supported")
    square: Any = 0.0
    for c in _cycles(x, n, axis, size):
        square = square + (np.pi * c) ** 2
    some = fnp.greater(square, 0)
    t = fnp.sqrt(fnp.where(some, square, 1.0))
    shapes = (
        lambda: fnp.sin(t) / t,
        lambda: 2 * special.j1(t) / t,
        lambda: 3 * (fnp.sin(t) - t * fnp.cos(t)) / t**3,
    )
    return _product(x, [fnp.where(some, shapes[max(typeof(x).ndim, 1) - 1](), 1.0)], output)


@scipys("scipy.ndimage")
def fourier_shift(input: Any, shift: Any, n: int = -1, axis: int = -1, output: Any = None) -> Any:
    """What a shift is at frequencies.

    Args:
        input, n, axis, output: as in `fourier_gaussian`.
        shift: by how many elements, along all axes or each of them; it may be traced.

    Returns:
        A complex array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `fourier_gaussian`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import fourier_shift
        >>> move = lambda x: np.fft.ifft(fourier_shift(np.fft.fft(x), 1)).real
        >>> ftrace.jit(move)(np.array([1.0, 2.0, 4.0])).round(6)
        array([4., 1., 2.])
    """
    x = value(input)
    factors = [fnp.exp(-2j * np.pi * c) for c in _cycles(x, n, axis, shift)]
    return _product(x, factors, output, np.complex128)
