"""Integrals of samples: the trapezoidal rule, Simpson's and Romberg's, whole and running."""

from itertools import pairwise
from typing import Any

import ftrace.numpy as fnp
from ftrace.core.errors import ShapeError
from ftrace.numpy.promote import inexact, one_axis, promote_inexact, value
from ftrace.scipy.borrowing import scipys


def _lined_up(y: Any, x: Any, dx: Any, axis: int) -> tuple[Any, Any]:
    """Samples with their axis last, and the distances of their places.

    Raises:
        ShapeError: places that are not as many as the samples.
    """
    y = fnp.moveaxis(inexact(value(y)), one_axis(axis, value(y).ndim), -1)
    n = y.shape[-1]
    if x is None:
        d = fnp.broadcast_to(fnp.expand_dims(dx, -1), (*fnp.shape(dx), max(n - 1, 0)))
    else:
        x = value(x)
        d = fnp.diff(x if x.ndim == 1 else fnp.moveaxis(x, axis, -1), axis=-1)
        if d.shape[-1] != n - 1:
            raise ShapeError(
                f"{n} samples along axis {axis} were given {d.shape[-1] + 1} places x.",
                "Give as many places as samples: one vector, or an array like y.",
            )
    return tuple(promote_inexact(y, d))  # type: ignore[return-value]


def _running(parts: Any, initial: Any, axis: int) -> Any:
    """The sums of the first parts, behind an initial value."""
    found = fnp.cumsum(parts, axis=-1)
    if initial is not None:
        first = fnp.broadcast_to(initial, (*found.shape[:-1], 1))
        found = fnp.concatenate([fnp.astype(first, found.dtype), found + initial], axis=-1)
    return fnp.moveaxis(found, -1, axis)


@scipys("scipy.integrate")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral of samples by the trapezoidal rule.

    Args:
        y: samples along an axis.
        x: their places, a vector or an array like y.
        dx: the distance of neighbours where x is None.
        axis: an integer.

    Returns:
        y without that axis.

    Example:
        >>> from ftrace.scipy.integrate import trapezoid
        >>> float(trapezoid([0.0, 1.0, 4.0]))
        3.0
    """
    y, d = _lined_up(y, x, dx, axis)
    return fnp.sum(d * (y[..., 1:] + y[..., :-1]) / 2, axis=-1)


@scipys("scipy.integrate")
def cumulative_trapezoid(
    y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None
) -> Any:
    """The running integral of samples by the trapezoidal rule.

    Args:
        y, x, dx, axis: as in `trapezoid`.
        initial: 0 to begin with 0; without it the result is shorter by one.

    Returns:
        The integral up to each place.

    Raises:
        ValueError: `initial` is neither None nor 0.

    Example:
        >>> from ftrace.scipy.integrate import cumulative_trapezoid
        >>> cumulative_trapezoid([0.0, 1.0, 4.0], initial=0)
        array([0. , 0.5, 3. ])
    """
    if initial is not None and initial != 0:
        raise ValueError("`initial` must be `None` or `0`.")
    y, d = _lined_up(y, x, dx, axis)
    return _running(d * (y[..., 1:] + y[..., :-1]) / 2, initial, axis)


# ---------------------------------------------------------------------------------- Simpson


def _ratio(a: Any, b: Any) -> Any:
    """a / b, and 0 where b is 0: places that coincide."""
    none = fnp.equal(b, 0)
    return fnp.where(none, 0, a / fnp.where(none, 1, b))


def _pairs(y: Any, d: Any) -> Any:
    """Simpson's rule over an even number of intervals, whose lengths may differ."""
    h, k = d[..., ::2], d[..., 1::2]
    left, middle, right = y[..., :-1:2], y[..., 1::2], y[..., 2::2]
    both = h + k
    each = (
        left * (2 - _ratio(k, h)) + middle * _ratio(both * both, h * k) + right * (2 - _ratio(h, k))
    )
    return fnp.sum(both / 6 * each, axis=-1)


@scipys("scipy.integrate")
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral of samples by Simpson's rule; an odd interval at the end is Cartwright's.

    Args:
        y, x, dx, axis: as in `trapezoid`.

    Returns:
        y without that axis.

    Example:
        >>> from ftrace.scipy.integrate import simpson
        >>> round(float(simpson([0.0, 1.0, 4.0])), 6)
        2.666667
    """
    y, d = _lined_up(y, x, dx, axis)
    n = y.shape[-1]
    if n % 2:
        return _pairs(y, d)
    if n == 2:
        return fnp.sum(d * (y[..., 1:] + y[..., :-1]) / 2, axis=-1)
    h, k = d[..., -2], d[..., -1]
    last = (
        _ratio(2 * k * k + 3 * h * k, 6 * (h + k)) * y[..., -1]
        + _ratio(k * k + 3 * h * k, 6 * h) * y[..., -2]
        - _ratio(k * k * k, 6 * h * (h + k)) * y[..., -3]
    )
    return _pairs(y[..., :-1], d[..., :-1]) + last


def _first_of_two(y: Any, d: Any) -> Any:
    """The integral over the first interval of each two, of the parabola through three samples."""
    h, k = d[..., :-1], d[..., 1:]
    part, ratio = h / (h + k), h / k
    whole = (
        (3 - part) * y[..., :-2]
        + (3 + part * ratio + part) * y[..., 1:-1]
        - part * ratio * y[..., 2:]
    )
    return h / 6 * whole


@scipys("scipy.integrate")
def cumulative_simpson(
    y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None
) -> Any:
    """The running integral of samples by Simpson's rule; of two samples by the trapezoidal rule.

    Args:
        y, x, dx, axis: as in `trapezoid`; x increases.
        initial: a value to begin with, which is added to all others.

    Returns:
        The integral up to each place.

    Example:
        >>> from ftrace.scipy.integrate import cumulative_simpson
        >>> cumulative_simpson([0.0, 1.0, 4.0]).round(3)
        array([0.333, 2.667])
    """
    y, d = _lined_up(y, x, dx, axis)
    if y.shape[-1] < 3:
        return _running(d * (y[..., 1:] + y[..., :-1]) / 2, initial, axis)
    ahead = _first_of_two(y, d)
    back = fnp.flip(_first_of_two(fnp.flip(y, -1), fnp.flip(d, -1)), -1)
    n = y.shape[-1] - 1  # intervals: 0, 2, ... with what follows, others with what is before
    parts = [(back if i % 2 or i == n - 1 else ahead) for i in range(n)]
    places = [i - 1 if p is back else i for i, p in enumerate(parts)]
    each = [p[..., j] for p, j in zip(parts, places, strict=True)]
    return _running(fnp.stack(each, axis=-1), initial, axis)


@scipys("scipy.integrate")
def romb(y: Any, dx: Any = 1.0, axis: int = -1, show: bool = False) -> Any:
    """The integral of 2**k + 1 equidistant samples by Romberg's method.

    Args:
        y, dx, axis: as in `trapezoid`.
        show: only False for traced arguments.

    Returns:
        y without that axis.

    Raises:
        ValueError: another number of samples.

    Example:
        >>> from ftrace.scipy.integrate import romb
        >>> round(float(romb([0.0, 1.0, 4.0])), 6)
        2.666667
    """
    y, d = _lined_up(y, None, dx, axis)
    n = y.shape[-1] - 1
    if n < 1 or n & (n - 1):
        raise ValueError("Number of samples must be one plus a non-negative power of 2.")
    levels, step = [], n
    while step:  # trapezoidal rules of halved distances
        s = y[..., ::step]
        whole = fnp.sum(s[..., 1:] + s[..., :-1], axis=-1)
        levels.append(whole * (0.5 * step) * d[..., 0])
        step //= 2
    factor = 4.0
    while len(levels) > 1:
        levels = [fine + (fine - coarse) / (factor - 1) for coarse, fine in pairwise(levels)]
        factor *= 4
    return levels[0]
