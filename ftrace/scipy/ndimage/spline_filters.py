"""B-splines through the elements of an image: their coefficients, and their values between them.

The coefficients are the image filtered by a recursion forwards and backwards, which is linear: a
matrix for a short axis. The response to one element dies away, so that along a long axis the filter
is a correlation of the extended image with that response. Both are SciPy's own coefficients of
single elements.
"""

from functools import lru_cache
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.lazy import lazy
from ftrace.numpy.promote import one_axis, static_int, value
from ftrace.scipy.borrowing import RefusedError, scipys
from ftrace.scipy.ndimage.borders import delivered
from ftrace.scipy.ndimage.linear_filters import correlated

_scipys: Final = lazy("scipy.ndimage", "spline_filter1d")
_FAR: Final = 64  # elements, after which a response of order 5 is below 1e-23
_EXTENSIONS: Final = {
    **dict.fromkeys(("constant", "grid-constant", "mirror", "wrap"), "mirror"),
    **dict.fromkeys(("nearest", "reflect", "grid-mirror"), "reflect"),
    "grid-wrap": "wrap",
}
"""By mode: how the image goes on for its coefficients; what has no exact way is mirrored."""


@lru_cache
def _response(order: int) -> Any:
    """The coefficients of one element: symmetric, without what is below rounding."""
    impulse = np.zeros(2 * _FAR + 1)
    impulse[_FAR] = 1.0
    found = _scipys(impulse, order)
    size = np.flatnonzero(abs(found) > 1e-18)[-1] - _FAR
    return found[_FAR - size : _FAR + size + 1]


@lru_cache(maxsize=256)
def _matrix(n: int, order: int, mode: str) -> Any:
    """The coefficients of each element of a short axis, in columns."""
    return _scipys(np.eye(n), order, 0, mode=mode)


def coefficients(x: Any, order: int, mode: str, axes: Any) -> Any:
    """The coefficients of an image along some axes, of order 2 or more.

    Raises:
        RefusedError: another mode.
    """
    if mode not in _EXTENSIONS:
        raise RefusedError("boundary mode not supported")
    rank = typeof(x).ndim
    for axis in axes:
        n = typeof(x).shape[axis]
        if n <= _FAR:
            filtered = fnp.tensordot(_matrix(n, order, mode), x, (1, axis))
            x = fnp.moveaxis(filtered, 0, axis)
        else:
            kernel = np.expand_dims(_response(order), [i for i in range(rank) if i != axis])
            x = correlated(x, kernel, [0] * rank, _EXTENSIONS[mode], 0.0)
    return x


def order_of(order: Any) -> int:
    """The order of a spline.

    Raises:
        RefusedError: none of 0 to 5.
    """
    found = static_int(order, "The order of a spline")
    if not 0 <= found <= 5:
        raise RefusedError("spline order not supported")
    return found


def basis(t: Any, order: int) -> list[Any]:
    """The values of the B-splines that are not 0 at a fraction of the way between two knots."""
    found = [1.0 + 0.0 * t]
    for d in range(1, order + 1):
        known = [0.0, *found, 0.0]
        found = [
            ((t + (d - j)) * known[j] + ((1 + j) - t) * known[j + 1]) / d for j in range(d + 1)
        ]
    return found


@scipys("scipy.ndimage")
def spline_filter1d(
    input: Any, order: int = 3, axis: int = -1, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """The coefficients of B-splines through an array's elements, along one axis.

    Args:
        input: an array of numbers.
        order: of the splines, 0 to 5.
        axis: along which the lines are.
        output: the dtype of the result, or an array to write it into.
        mode: what is outside, as in `map_coordinates`.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: another order, mode or axis.

    Source:
        M. Unser, "Splines: a perfect fit for signal and image processing", 1999.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import spline_filter1d
        >>> ftrace.jit(spline_filter1d)(np.array([1.0, 4.0, 1.0])).round(6)
        array([-2.,  7., -2.])
    """
    x, order = value(input), order_of(order)
    wide = fnp.astype(x, complex if typeof(x).dtype.kind == "c" else float)
    axes = [] if order < 2 else [one_axis(axis, typeof(x).ndim)]
    return delivered(coefficients(wide, order, mode, axes) if axes else wide, x, output)
