"""Filters and the removal of trends: lfilter, sosfilt, medfilt, detrend."""

import math
from itertools import pairwise
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import ShapeError
from ftrace.core.source import warn
from ftrace.lax import scan
from ftrace.numpy.promote import inexact, known, one_axis, promote_inexact, static_int, value
from ftrace.scipy.borrowing import RefusedError, scipys
from ftrace.scipy.ndimage.borders import each_axis
from ftrace.scipy.ndimage.order_filters import rank_filter


def _padded(c: Any, n: int) -> Any:
    return fnp.pad(c, (0, n - typeof(c).shape[0]))


@scipys("scipy.signal")
def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """A recursive filter along an axis, as a loop over its elements.

    Args:
        b, a: coefficients of the numerator and the denominator, vectors; a[0] is not 0.
        x: a signal.
        axis: an integer.
        zi: the state before, of max(len(a), len(b)) - 1 elements along the axis.

    Returns:
        The filtered signal, like x; with `zi` a pair of it and the state behind.

    Raises:
        ShapeError: coefficients that are no vectors, or a state of another size.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.signal import lfilter
        >>> lfilter([1.0], [1.0, -0.5], np.array([1.0, 0.0, 0.0]))
        array([1.  , 0.5 , 0.25])
    """
    b, a, x = promote_inexact(fnp.atleast_1d(b), fnp.atleast_1d(a), value(x))
    if typeof(b).ndim != 1 or typeof(a).ndim != 1:
        raise ShapeError(
            f"lfilter was given coefficients {typeof(b).shape} and {typeof(a).shape}.",
            "Both are vectors.",
        )
    axis = one_axis(axis, typeof(x).ndim)
    n = max(typeof(b).shape[0], typeof(a).shape[0])
    b, a = _padded(b / a[0], n), _padded(a / a[0], n)
    along = fnp.moveaxis(x, axis, 0)
    shape = (n - 1, *typeof(along).shape[1:])
    if zi is None:
        state = fnp.zeros(shape, typeof(x).dtype)
    else:
        state = fnp.moveaxis(fnp.astype(value(zi), typeof(x).dtype), axis, 0)
        if typeof(state).shape != shape:
            raise ShapeError(
                f"lfilter was given a state of shape {typeof(value(zi)).shape}.",
                f"It has {n - 1} elements along axis {axis}, and the sizes of x along others.",
            )

    def step(z: Any, given: Any) -> tuple[Any, Any]:
        if n == 1:
            return z, b[0] * given
        y = b[0] * given + z[0]
        after = fnp.concatenate([z[1:], 0 * z[:1]])
        column = (n - 1, *(1,) * typeof(given).ndim)
        moved = fnp.reshape(b[1:], column) * given - fnp.reshape(a[1:], column) * y
        return after + moved, y

    last, found = scan(step, state, along)
    found = fnp.moveaxis(found, 0, axis)
    return found if zi is None else (found, fnp.moveaxis(last, 0, axis))


@scipys("scipy.signal")
def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """A filter as a cascade of sections of second order.

    Args:
        sos: sections, one a row of three coefficients of the numerator and of the denominator.
        x: a signal.
        axis: an integer.
        zi: states before, one for each section, of two elements along the axis.

    Returns:
        The filtered signal, like x; with `zi` a pair of it and the states behind.

    Raises:
        ShapeError: no rows of six.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.signal import sosfilt
        >>> sosfilt(np.array([[1.0, 0, 0, 1.0, -0.5, 0]]), np.array([1.0, 0.0, 0.0]))
        array([1.  , 0.5 , 0.25])
    """
    sos = value(sos)
    if typeof(sos).ndim != 2 or typeof(sos).shape[1] != 6:
        raise ShapeError(f"sos has the shape {typeof(sos).shape}.", "It has rows of six numbers.")
    behind = []
    for i in range(typeof(sos).shape[0]):
        before = None if zi is None else value(zi)[i]
        found = lfilter.__wrapped__(  # type: ignore[attr-defined]
            sos[i, :3], sos[i, 3:], x, axis, before
        )
        x, after = (found, None) if zi is None else found
        behind.append(after)
    return x if zi is None else (x, fnp.stack(behind))


@scipys("scipy.signal")
def lfilter_zi(b: Any, a: Any) -> Any:
    """The state of a filter in which it answers a constant 1 with a constant.

    Args:
        b, a: coefficients of the numerator and the denominator, vectors; a[0] is not 0.

    Returns:
        The state, of max(len(a), len(b)) - 1 numbers, for `lfilter`.

    Raises:
        ValueError: arrays of another rank.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.signal import lfilter_zi
        >>> ftrace.jit(lfilter_zi)(np.array([0.5]), np.array([1.0, -0.5]))
        array([0.5])
    """
    b, a = map(fnp.atleast_1d, promote_inexact(value(b), value(a)))
    if typeof(b).ndim != 1 or typeof(a).ndim != 1:
        raise RefusedError("Numerator and denominator are vectors.")
    n = max(typeof(b).size, typeof(a).size)
    b, a = (fnp.pad(v, (0, n - typeof(v).size)) / a[0] for v in (b, a))
    shifts = fnp.eye(n - 1, dtype=typeof(a).dtype) - fnp.eye(n - 1, k=1, dtype=typeof(a).dtype)
    first = fnp.astype(fnp.arange(n - 1) == 0, typeof(a).dtype)
    return fnp.linalg.solve(shifts + a[1:, None] * first, b[1:] - a[1:] * b[0])


@scipys("scipy.signal")
def medfilt(volume: Any, kernel_size: Any = None) -> Any:
    """The median of a window about each element, with zeros outside.

    Args:
        volume: an array of integers or floats.
        kernel_size: how many elements a window has along all axes, or each of them: odd numbers.
            None for 3.

    Returns:
        An array of the same dtype, of rank 1 at least.

    Raises:
        ValueError: a size that is even or below 1; booleans, complex numbers or float16.
        RuntimeError: another number of sizes.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.signal import medfilt
        >>> ftrace.jit(medfilt)(np.array([5.0, 1.0, 2.0, 4.0]))
        array([1., 2., 2., 2.])
    """
    x = fnp.atleast_1d(value(volume))
    shape, dtype = typeof(x).shape, typeof(x).dtype
    if dtype.kind not in "iu" and dtype.char not in "fd":
        raise RefusedError(f"dtype={dtype} is not supported by medfilt")
    given = 3 if kernel_size is None else kernel_size
    sizes = [static_int(k, "A size") for k in each_axis(given, range(len(shape)))]
    if any(k % 2 != 1 for k in sizes):
        raise RefusedError("Each element of kernel_size should be odd.")
    if any(k > n for k, n in zip(sizes, shape, strict=True)):
        warn("kernel_size exceeds volume extent: the volume is padded.")
    middle = math.prod(sizes) // 2
    return rank_filter.__wrapped__(x, middle, sizes, mode="constant")  # type: ignore[attr-defined]


@scipys("scipy.signal")
def medfilt2d(input: Any, kernel_size: Any = 3) -> Any:
    """The median of a window about each element of an image, with zeros outside.

    Args:
        input: an image; of another dtype than uint8, float32 or float64 as `medfilt` takes it.
        kernel_size: how many elements a window has along both axes, or each of them: odd numbers.

    Returns:
        An image of the same dtype.

    Raises:
        ValueError: a size that is even; another dtype or rank.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.signal import medfilt2d
        >>> f = lambda x: medfilt2d(x, (1, 3))
        >>> ftrace.jit(f)(np.array([[5.0, 1.0, 2.0], [3.0, 4.0, 9.0]]))
        array([[1., 2., 1.],
               [3., 4., 4.]])
    """
    x = value(input)
    if typeof(x).dtype.char in "Bfd" and typeof(x).ndim != 2:
        raise RefusedError("object of too small depth for desired array")
    return medfilt.__wrapped__(x, kernel_size)  # type: ignore[attr-defined]


@scipys("scipy.signal")
def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False
) -> Any:
    """Samples without their linear trend, or without their mean.

    Args:
        data: an array of numbers.
        axis: an integer.
        type: "linear" or "constant".
        bp: where a new line begins, one index or several that are known.
        overwrite_data: only False.

    Returns:
        An array like data, of floats.

    Raises:
        ValueError: another type, or an index outside.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.signal import detrend
        >>> detrend(np.array([1.0, 2.0, 4.0])).round(3)
        array([ 0.167, -0.333,  0.167])
    """
    if type not in ("linear", "l", "constant", "c"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    x = inexact(value(data))
    axis = one_axis(axis, typeof(x).ndim)
    x = fnp.moveaxis(x, axis, 0)
    if type in ("constant", "c"):
        return fnp.moveaxis(x - fnp.mean(x, axis=0, keepdims=True), 0, axis)
    n = typeof(x).shape[0]
    cuts = sorted({0, n, *(int(i) for i in np.ravel(known(bp, "where a line begins")))})
    if cuts[-1] > n:
        raise ValueError("Breakpoints must be less than length of data along given axis.")
    parts = [_off_line(x[i:j]) for i, j in pairwise(cuts)]
    return fnp.moveaxis(fnp.concatenate(parts), 0, axis)


def _off_line(x: Any) -> Any:
    """What is left of samples beside the line of least squares."""
    n = typeof(x).shape[0]
    places = fnp.arange(n, dtype=fnp.result_type(x).char.lower()) - (n - 1) / 2
    places = fnp.reshape(places, (n, *(1,) * (typeof(x).ndim - 1)))
    level = fnp.mean(x, axis=0, keepdims=True)
    size = max(n * (n * n - 1) / 12, 1e-300)
    slope = fnp.sum(places * x, axis=0, keepdims=True) / size
    return x - level - slope * places
