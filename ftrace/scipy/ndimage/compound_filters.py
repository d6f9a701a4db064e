"""Filters made of others: smoothing, derivatives and their sums, one axis after the other.

What lies between two filters has the dtype of the result, as in SciPy.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.numpy.promote import one_axis, static_int, value
from ftrace.scipy.borrowing import RefusedError, scipys
from ftrace.scipy.ndimage.borders import chosen_axes, delivered, dtype_of, each_axis
from ftrace.scipy.ndimage.linear_filters import correlate1d, uniform_filter1d
from ftrace.scipy.ndimage.spline_filters import order_of, spline_filter1d

_correlated: Callable[..., Any] = correlate1d.__wrapped__  # type: ignore[attr-defined]
_mean: Callable[..., Any] = uniform_filter1d.__wrapped__  # type: ignore[attr-defined]
_splines: Callable[..., Any] = spline_filter1d.__wrapped__  # type: ignore[attr-defined]


def _kernel(sigma: Any, order: int, radius: int) -> Any:
    """A Gaussian, or its derivative of some order, turned round."""
    x = np.arange(-radius, radius + 1)
    variance = sigma * sigma
    bell = fnp.exp(-0.5 / variance * x**2)
    bell = bell / fnp.sum(bell)
    factors: list[Any] = [1.0]  # of the polynomial that the bell is multiplied with
    for _ in range(order):
        slopes = [*(i * f for i, f in enumerate(factors))][1:]
        moved = [0.0, *(-f / variance for f in factors)]
        slopes += [0.0] * (len(moved) - len(slopes))
        factors = [a + b for a, b in zip(slopes, moved, strict=True)]
    return fnp.flip(bell * sum(f * x.astype(float) ** i for i, f in enumerate(factors)))


def _smoothed(x: Any, sigma: Any, axis: int, order: int, output: Any, rest: tuple[Any, ...]) -> Any:
    mode, cval, truncate, radius = rest
    wide = int(truncate * float(sigma) + 0.5) if radius is None else static_int(radius, "A radius")
    order = static_int(order, "An order")
    if wide < 0 or order < 0:
        raise RefusedError("Radius must be a nonnegative integer.")
    return _correlated(x, _kernel(sigma, order, wide), axis, output, mode, cval)


@scipys("scipy.ndimage")
def gaussian_filter1d(
    input: Any,
    sigma: Any,
    axis: int = -1,
    order: int = 0,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: Any = None,
) -> Any:
    """An array smoothed by a Gaussian along one axis.

    Args:
        input, axis, output, mode, cval: as in `correlate1d`.
        sigma: the standard deviation in elements; it may be traced where `radius` is given.
        order: 0, or which derivative of the Gaussian.
        truncate: after how many standard deviations the Gaussian ends.
        radius: after how many elements it ends; None: by `truncate`.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `correlate1d`; a negative order or radius.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import gaussian_filter1d
        >>> f = lambda x: gaussian_filter1d(x, 0.5, radius=1)
        >>> ftrace.jit(f)(np.array([0.0, 1.0, 0.0])).round(3)
        array([0.107, 0.787, 0.107])
    """
    return _smoothed(value(input), sigma, axis, order, output, (mode, cval, truncate, radius))


def _in_turn(x: Any, output: Any, passes: Iterable[Callable[[Any, Any], Any]]) -> Any:
    """Filters one after the other; what they give is of the result's dtype."""
    kind, found = dtype_of(x, output), x
    for step in passes:
        found = step(found, kind)
    return delivered(found, x, output)


@scipys("scipy.ndimage")
def gaussian_filter(
    input: Any,
    sigma: Any,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: Any = None,
    axes: Any = None,
) -> Any:
    """An array smoothed by a Gaussian.

    Args:
        input, output, cval, truncate: as in `gaussian_filter1d`.
        sigma, order, mode, radius: as there, for all axes or each of them.
        axes: along which the array is smoothed; None for all.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `gaussian_filter1d`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import gaussian_filter
        >>> ftrace.grad(lambda x: gaussian_filter(x, 1.0, radius=1)[0])(np.ones(3)).round(3)
        array([0.726, 0.274, 0.   ])
    """
    x = value(input)
    along = chosen_axes(axes, typeof(x).ndim)
    each = [each_axis(given, along) for given in (sigma, order, mode, radius)]
    return _in_turn(
        x,
        output,
        [
            lambda x, kind, a=a, s=s, o=o, m=m, r=r: _smoothed(
                x, s, a, o, kind, (m, cval, truncate, r)
            )
            for a, s, o, m, r in zip(along, *each, strict=True)
            if not float(s) <= 1e-15
        ],
    )


@scipys("scipy.ndimage")
def uniform_filter(
    input: Any,
    size: Any = 3,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The mean of a window about each element.

    Args:
        input, output, cval: as in `correlate1d`.
        size, mode, origin: as in `uniform_filter1d`, for all axes or each of them.
        axes: along which the array is filtered; None for all.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `uniform_filter1d`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import uniform_filter
        >>> ftrace.jit(uniform_filter)(np.array([[1.0, 4.0, 4.0]]))
        array([[2., 3., 4.]])
    """
    x = value(input)
    along = chosen_axes(axes, typeof(x).ndim)
    each = [each_axis(given, along) for given in (size, mode, origin)]
    return _in_turn(
        x,
        output,
        [
            lambda x, kind, a=a, s=s, m=m, o=o: _mean(x, int(s), a, kind, m, cval, o)
            for a, s, m, o in zip(along, *each, strict=True)
            if s > 1
        ],
    )


@scipys("scipy.ndimage")
def spline_filter(
    input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """The coefficients of B-splines through an array's elements, along all axes.

    Args:
        input, order, output, mode: as in `spline_filter1d`; the order is 2 to 5.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `spline_filter1d`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import spline_filter
        >>> ftrace.jit(spline_filter)(np.array([1.0, 4.0, 1.0])).round(6)
        array([-2.,  7., -2.])
    """
    x, order = value(input), order_of(order)
    if order < 2:
        raise RefusedError("spline order not supported")
    return _in_turn(
        x,
        output,
        [lambda x, kind, a=a: _splines(x, order, a, kind, mode) for a in range(typeof(x).ndim)],
    )


def _edges(x: Any, axis: int, across: Any, output: Any, border: tuple[Any, Any]) -> Any:
    """Differences along one axis, smoothed along the others."""
    x, (mode, cval) = value(x), border
    rank = typeof(x).ndim
    axis, modes = one_axis(axis, rank), each_axis(mode, range(rank))
    weights = {i: across for i in range(rank) if i != axis}
    return _in_turn(
        x,
        output,
        [
            lambda x, kind, i=i, w=w: _correlated(x, np.array(w), i, kind, modes[i], cval)
            for i, w in ((axis, [-1, 0, 1]), *weights.items())
        ],
    )


@scipys("scipy.ndimage")
def sobel(
    input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Any:
    """Sobel's filter: differences along one axis, smoothed along the others.

    Args:
        input, axis, output, cval: as in `correlate1d`.
        mode: as in `correlate1d`, for all axes or each of them.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `correlate1d`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import sobel
        >>> ftrace.jit(sobel)(np.array([1.0, 2.0, 4.0]))
        array([1., 3., 2.])
    """
    return _edges(input, axis, [1, 2, 1], output, (mode, cval))


@scipys("scipy.ndimage")
def prewitt(
    input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Any:
    """Prewitt's filter: differences along one axis, summed along the others.

    Args:
        input, axis, output, mode, cval: as in `sobel`.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `correlate1d`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import prewitt
        >>> ftrace.jit(prewitt)(np.array([1.0, 2.0, 4.0]))
        array([1., 3., 2.])
    """
    return _edges(input, axis, [1, 1, 1], output, (mode, cval))


def _summed(
    x: Any, output: Any, mode: Any, axes: Any, second: Callable[[int, Any, Any], Any]
) -> Any:
    """The sum of second derivatives along some axes: `second` of the axis, dtype and mode."""
    along = chosen_axes(axes, typeof(x).ndim)
    kind = dtype_of(x, output)
    parts = [second(a, kind, m) for a, m in zip(along, each_axis(mode, along), strict=True)]
    return delivered(sum(parts[1:], parts[0]) if parts else x, x, output)


@scipys("scipy.ndimage")
def laplace(
    input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None
) -> Any:
    """The sum of second differences.

    Args:
        input, output, cval: as in `correlate1d`.
        mode: as in `correlate1d`, for all axes or each of them.
        axes: along which differences are taken; None for all.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `correlate1d`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import laplace
        >>> ftrace.jit(laplace)(np.array([1.0, 2.0, 4.0]))
        array([ 1.,  1., -2.])
    """
    x, weights = value(input), np.array([1, -2, 1])

    def second(axis: int, kind: Any, mode: Any) -> Any:
        return _correlated(x, weights, axis, kind, mode, cval)

    return _summed(x, output, mode, axes, second)


@scipys("scipy.ndimage")
def gaussian_laplace(
    input: Any,
    sigma: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
    **options: Any,
) -> Any:
    """The sum of second derivatives of an array smoothed by a Gaussian.

    Args:
        input, output, mode, cval, axes: as in `laplace`.
        sigma: the standard deviation in elements, for all axes or each of them.
        options: of `gaussian_filter`.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `gaussian_filter`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import gaussian_laplace
        >>> ftrace.jit(lambda x: gaussian_laplace(x, 1.0))(np.array([0.0, 1.0, 0.0])).round(3)
        array([ 0.164, -0.328,  0.164])
    """
    x = value(input)
    rank = typeof(x).ndim
    along = chosen_axes(axes, rank)
    sigmas = dict(zip(along, each_axis(sigma, along), strict=True))
    smooth: Callable[..., Any] = gaussian_filter.__wrapped__  # type: ignore[attr-defined]

    def second(axis: int, kind: Any, mode: Any) -> Any:
        orders = [2 if i == axis else 0 for i in range(rank)]
        widths = [sigmas.get(i, 0) for i in range(rank)]
        return smooth(x, widths, orders, kind, mode, cval, **options)

    return _summed(x, output, mode, axes, second)
