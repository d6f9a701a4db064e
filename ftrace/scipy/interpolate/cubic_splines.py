"""Interpolators that are cubic in each interval: splines, PCHIP, Akima, Hermite.

Each finds slopes at the samples in its own way; the polynomials follow from values and slopes.
"""

from typing import Any

import ftrace.numpy as fnp
from ftrace.core.arguments import explained_methods
from ftrace.core.avals import typeof
from ftrace.core.errors import RuleError
from ftrace.numpy.promote import value
from ftrace.scipy.interpolate.piecewise import PPoly, column, registered, samples
from ftrace.scipy.linalg import solve_banded

_PARTS = (("c", "x"), ("extrapolate", "axis"))


def _coefficients(x: Any, y: Any, slopes: Any) -> Any:
    """Those of the cubic polynomials that have values and slopes at breakpoints."""
    dx = column(fnp.diff(x), y)
    steep = fnp.diff(y, axis=0) / dx
    t = (slopes[:-1] + slopes[1:] - 2 * steep) / dx
    return fnp.stack([t / dx, (steep - slopes[:-1]) / dx - t, slopes[:-1], y[:-1]])


@registered(*_PARTS)
@explained_methods
class CubicHermiteSpline(PPoly):
    """The interpolator that has given values and slopes.

    Args:
        x: places, a vector that increases.
        y: values along an axis.
        dydx: slopes, like y.
        axis: the axis of y.
        extrapolate: as in `PPoly`.

    Example:
        >>> from ftrace.scipy.interpolate import CubicHermiteSpline
        >>> float(CubicHermiteSpline([0.0, 1.0], [0.0, 1.0], [0.0, 0.0])(0.5))
        0.5
    """

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, y, axis = samples(x, y, axis)
        slopes = fnp.astype(fnp.moveaxis(value(dydx), axis, 0), typeof(y).dtype)
        super().__init__(_coefficients(x, y, slopes), x, extrapolate, axis)


# ---------------------------------------------------------------------------------- PCHIP, Akima


def _at_end(h: Any, k: Any, m: Any, after: Any) -> Any:
    """PCHIP's slope at an end, from the slopes of the first two intervals."""
    d = ((2 * h + k) * m - h * after) / (h + k)
    turns = fnp.not_equal(fnp.sign(d), fnp.sign(m))
    steep = fnp.not_equal(fnp.sign(m), fnp.sign(after)) & fnp.greater(fnp.abs(d), 3 * fnp.abs(m))
    return fnp.where(turns, 0, fnp.where(steep, 3 * m, d))


@registered(*_PARTS)
@explained_methods
class PchipInterpolator(PPoly):
    """The cubic interpolator that is monotone where the samples are (Fritsch and Butland).

    Args:
        x: places, a vector that increases.
        y: values along an axis.
        axis: the axis of y.
        extrapolate: as in `PPoly`.

    Example:
        >>> from ftrace.scipy.interpolate import PchipInterpolator
        >>> round(float(PchipInterpolator([0.0, 1.0, 2.0], [0.0, 0.0, 1.0])(0.5)), 6)
        0.0
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, y, axis = samples(x, y, axis)
        h = column(fnp.diff(x), y)
        m = fnp.diff(y, axis=0) / h
        if typeof(x).shape[0] == 2:
            slopes = fnp.concatenate([m, m])
        else:
            before, after = m[:-1], m[1:]
            flat = fnp.less_equal(fnp.sign(before) * fnp.sign(after), 0)
            one, two = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
            mean = one / fnp.where(flat, 1, before) + two / fnp.where(flat, 1, after)
            inner = fnp.where(flat, 0, (one + two) / fnp.where(flat, 1, mean))
            first = _at_end(h[:1], h[1:2], m[:1], m[1:2])
            last = _at_end(h[-1:], h[-2:-1], m[-1:], m[-2:-1])
            slopes = fnp.concatenate([first, inner, last])
        super().__init__(_coefficients(x, y, slopes), x, extrapolate, axis)


@registered(*_PARTS)
@explained_methods
class Akima1DInterpolator(PPoly):
    """Akima's cubic interpolator, whose slopes are those of the less curved side.

    Args:
        x: places, a vector that increases.
        y: values along an axis.
        axis: the axis of y.
        method: "akima" or "makima".
        extrapolate: as in `PPoly`; the default is not to.

    Raises:
        RuleError: another method.

    Example:
        >>> from ftrace.scipy.interpolate import Akima1DInterpolator
        >>> float(Akima1DInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])(0.5))
        0.5
    """

    def __init__(
        self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None
    ) -> None:
        if method not in ("akima", "makima"):
            raise RuleError(f"Akima1DInterpolator has no method {method!r}.", 'Use "akima".')
        x, y, axis = samples(x, y, axis)
        m = fnp.diff(y, axis=0) / column(fnp.diff(x), y)
        slopes = _akimas(m, method) if typeof(x).shape[0] > 2 else fnp.concatenate([m, m])
        outside = False if extrapolate is None else extrapolate
        super().__init__(_coefficients(x, y, slopes), x, outside, axis)


def _akimas(m: Any, method: str) -> Any:
    """Akima's slopes at samples, from those of the intervals."""
    m = fnp.concatenate([3 * m[:1] - 2 * m[1:2], 2 * m[:1] - m[1:2], m])
    m = fnp.concatenate([m, 2 * m[-1:] - m[-2:-1], 3 * m[-1:] - 2 * m[-2:-1]])
    turns = fnp.abs(fnp.diff(m, axis=0))
    if method == "makima":
        turns = turns + 0.5 * fnp.abs(m[1:] + m[:-1])
    after, before = turns[2:], turns[:-2]
    both = after + before
    curved = fnp.greater(both, 1e-9 * fnp.max(both, initial=-fnp.inf))
    weighed = (after * m[1:-2] + before * m[2:-1]) / fnp.where(curved, both, 1)
    straight = 0.5 * (m[3:] + m[:-3]) if method == "akima" else 0 * weighed
    return fnp.where(curved, weighed, straight)


# ---------------------------------------------------------------------------------- splines


@registered(*_PARTS)
@explained_methods
class CubicSpline(PPoly):
    """The cubic spline: twice continuously differentiable.

    Args:
        x: places, a vector that increases.
        y: values along an axis.
        axis: the axis of y.
        bc_type: what holds at the ends: "not-a-knot", "clamped", "natural", "periodic", or for each
            end one of these or (order of a derivative: 1 or 2, its value).
        extrapolate: as in `PPoly`; the default is "periodic" for a periodic spline.

    Raises:
        RuleError: another condition.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import CubicSpline
        >>> x = np.arange(5.0)
        >>> round(float(ftrace.grad(CubicSpline(x, x**3))(1.5)), 6)
        6.75
    """

    def __init__(
        self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
    ) -> None:
        x, y, axis = samples(x, y, axis)
        periodic = bc_type == "periodic" if type(bc_type) is str else False
        slopes = _cyclic(x, y) if periodic else _slopes(x, y, _conditions(bc_type, y))
        outside = ("periodic" if periodic else True) if extrapolate is None else extrapolate
        super().__init__(_coefficients(x, y, slopes), x, outside, axis)


def _conditions(bc_type: Any, y: Any) -> list[Any]:
    """For each end None (not a knot), or (order of a derivative, its value)."""
    names = {"not-a-knot": None, "clamped": (1, 0.0), "natural": (2, 0.0)}
    pair = (bc_type, bc_type) if type(bc_type) is str else tuple(bc_type)
    found = []
    for end in pair:
        if type(end) is str and end in names:
            end = names[end]
        if end is not None and (type(end) is str or len(end) != 2 or end[0] not in (1, 2)):
            raise RuleError(
                f"bc_type {end!r} is none of a cubic spline's conditions.",
                f"Use one of {', '.join(names)}, periodic, or (1 or 2, the derivative's value).",
            )
        found.append(end)
    if typeof(y).shape[0] == 2:  # a knot between is missing: the line through both
        line = (1, None)
        found = [line if end is None else end for end in found]
    return found


def _slopes(x: Any, y: Any, ends: list[Any]) -> Any:
    """Slopes such that second derivatives meet, and what holds at the ends."""
    n = typeof(x).shape[0]
    dx = fnp.diff(x)
    h = column(dx, y)
    m = fnp.diff(y, axis=0) / h
    if n == 3 and ends == [None, None]:  # the parabola
        first = (dx[:1] * 0 + 1, dx[:1] * 0 + 1, 2 * m[:1])
        last = (first[0], first[0], 2 * m[-1:])
    else:
        first = _end(x, dx, y, m, ends[0])
        last = _end(-x[::-1], dx[::-1], y[::-1], -m[::-1], _turned(ends[1]))
        last = (last[0], last[1], -last[2])
    inner = 3 * (h[1:] * m[:-1] + h[:-1] * m[1:])
    none = 0 * dx[:1]
    above = fnp.concatenate([none, first[1], dx[:-1]])
    middle = fnp.concatenate([first[0], 2 * (dx[:-1] + dx[1:]), last[0]])
    below = fnp.concatenate([dx[1:], last[1], none])
    b = fnp.reshape(fnp.concatenate([first[2], inner, last[2]]), (n, -1))
    found = solve_banded((1, 1), fnp.stack([above, middle, below]), b)
    return fnp.reshape(found, typeof(y).shape)


def _turned(end: Any) -> Any:
    """A condition at an end, for the mirrored samples."""
    return (1, None if end[1] is None else -end[1]) if end is not None and end[0] == 1 else end


def _end(x: Any, dx: Any, y: Any, m: Any, condition: Any) -> tuple[Any, Any, Any]:
    """The equation at the first sample: the factors of its slope and the next, and a sum."""
    none = 0 * dx[:1]
    if condition is None:
        d = x[2:3] - x[:1]
        h, k = dx[0], dx[1]
        return dx[1:2], d, ((h + 2 * d[0]) * k * m[:1] + h * h * m[1:2]) / d[0]
    order, given = condition
    v = m[:1] if given is None else fnp.broadcast_to(value(given), typeof(y).shape[1:])[None]
    if order == 1:
        return none + 1, none, fnp.astype(v, typeof(y).dtype)
    h = dx[0]
    return 2 * dx[:1], dx[:1], 3 * (y[1:2] - y[:1]) - 0.5 * h * h * v


def _cyclic(x: Any, y: Any) -> Any:
    """Slopes of a periodic spline: the last sample is the first."""
    n = typeof(x).shape[0] - 1
    dx = fnp.diff(x)
    h = column(dx, y)
    m = fnp.diff(y, axis=0) / h
    before, left = fnp.roll(dx, 1), fnp.roll(h, 1, axis=0)
    eye = fnp.eye(n, dtype=typeof(x).dtype)
    a = (
        fnp.diag(2 * (before + dx))
        + column(dx, eye) * fnp.roll(eye, -1, axis=1)
        + column(before, eye) * fnp.roll(eye, 1, axis=1)
    )
    b = 3 * (h * fnp.roll(m, 1, axis=0) + left * m)
    found = fnp.reshape(fnp.linalg.solve(a, fnp.reshape(b, (n, -1))), typeof(m).shape)
    return fnp.concatenate([found, found[:1]])
