"""Interpolation between samples on a line (`interp1d`) or a grid (`RegularGridInterpolator`)."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.arguments import explained_methods
from ftrace.core.avals import typeof
from ftrace.core.errors import DtypeError, RuleError, ShapeError
from ftrace.numpy.indexing import getitem
from ftrace.numpy.promote import inexact, promote_inexact, value
from ftrace.numpy.refusing import refuse
from ftrace.scipy.interpolate.basis_splines import BSpline, knots_at, make_interp_spline
from ftrace.scipy.interpolate.piecewise import column, interval, placed, registered, samples
from ftrace.scipy.interpolate.tensor_splines import at_points, coefficients, local_basis

_DEGREES = {"quadratic": 2, "cubic": 3}
_KINDS = ("linear", "nearest", "previous", "next", *_DEGREES)


def check_fill(given: Any, values: Any) -> None:
    """Raise `DtypeError` for what is given outside, if it has no place among the values."""
    if given is None:
        return
    own, dtype = typeof(value(given)).dtype, typeof(values).dtype
    if own.kind not in "biufc" or not np.can_cast(own, dtype, "same_kind"):
        raise DtypeError(
            f"fill_value={given!r} was given for values of dtype {dtype}.",
            "Outside of the samples there are numbers of the same kind.",
        )


@registered(("x", "y", "fill_value", "spline"), ("kind", "axis", "bounds_error"))
@explained_methods
class interp1d:  # noqa: N801 - SciPy's name
    """A function through samples on a line.

    Args:
        x: places, a vector that increases.
        y: values along an axis.
        kind: "linear", "nearest", "previous", "next", "quadratic" or "cubic".
        axis: the axis of y.
        copy, assume_sorted: without effect; x is sorted.
        bounds_error: whether places outside raise a ValueError; the default is to, unless there is
            a `fill_value`.
        fill_value: what is given outside, for both sides or (below, above); or "extrapolate".

    Raises:
        RuleError: another kind.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import interp1d
        >>> f = interp1d(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 4.0]))
        >>> float(f(1.5)), float(ftrace.grad(f)(1.5))
        (2.5, 3.0)
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        kind: str = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: bool | None = None,
        fill_value: Any = None,
        assume_sorted: bool = True,
    ) -> None:
        kind = {"slinear": "linear", "zero": "previous"}.get(kind, kind)
        if kind not in _KINDS:
            raise RuleError(f"interp1d has no kind {kind!r}.", f"Use one of {', '.join(_KINDS)}.")
        self.x, self.y, self.axis = samples(x, y, axis)
        self.kind = kind
        self.spline: BSpline | None = None
        if kind in _DEGREES:
            self.spline = make_interp_spline(self.x, self.y, _DEGREES[kind])
        extrapolates = type(fill_value) is str
        self.bounds_error = fill_value is None if bounds_error is None else bounds_error
        self.bounds_error = self.bounds_error and not extrapolates
        filled = fnp.nan if fill_value is None else fill_value
        below, above = filled if type(filled) is tuple else (filled, filled)
        self.fill_value = None if extrapolates else (below, above)
        for v in self.fill_value or ():
            check_fill(v, self.y)
            rest, own = typeof(self.y).shape[1:], np.shape(v)
            if own != (1,) and np.broadcast_shapes(own, rest) != rest:
                raise ValueError(f"fill_value of shape {own} does not broadcast to {rest}")

    @classmethod
    def from_scipy(cls, other: Any) -> "interp1d":
        """The same as an interpolator of SciPy's."""
        if hasattr(other, "_spline"):
            kind = ("previous", "linear", "quadratic", "cubic")[other._spline.k]
        else:
            kind = other._kind
        return cls(other.x, other.y, kind, other.axis, True, other.bounds_error, other.fill_value)

    def __call__(self, x: Any) -> Any:
        """The value at places."""
        if typeof(value(x)).dtype.kind == "c":
            raise DtypeError("interp1d was asked for complex places.", "Places are real numbers.")
        at, places, y = promote_inexact(value(x), self.x, self.y)
        flat = fnp.ravel(at)
        found = self._inside(flat, places, y)
        below, above = fnp.less(flat, places[0]), fnp.greater(flat, places[-1])
        if self.bounds_error:
            refuse(below, ValueError, "A value in x_new is below the interpolation range.")
            refuse(above, ValueError, "A value in x_new is above the interpolation range.")
        elif self.fill_value is not None:
            low, high = self.fill_value
            found = fnp.where(column(below, found), low, found)
            found = fnp.where(column(above, found), high, found)
        found = fnp.reshape(found, (*typeof(at).shape, *typeof(y).shape[1:]))
        return placed(found, typeof(at).ndim, self.axis)

    def _inside(self, at: Any, x: Any, y: Any) -> Any:
        if self.spline is not None:
            return self.spline(at)
        last = typeof(x).shape[0] - 1
        if self.kind == "linear":
            i = interval(x, at)
            left, low = getitem(x, i), getitem(y, i)
            share = column((at - left) / (getitem(x, i + 1) - left), y)
            return low + share * (getitem(y, i + 1) - low)
        if self.kind == "nearest":
            i = fnp.searchsorted((x[1:] + x[:-1]) / 2, at, side="left")
        elif self.kind == "previous":
            i = fnp.searchsorted(x, at, side="right") - 1
        else:
            i = fnp.searchsorted(x, at, side="left")
        found = getitem(y, fnp.clip(i, 0, last))
        return fnp.where(column(fnp.isnan(at), found), fnp.nan, found)


_SPLINES = {"slinear": 1, "cubic": 3, "quintic": 5}


@registered(("grid", "values", "fill_value"), ("method", "bounds_error"))
@explained_methods
class RegularGridInterpolator:
    """A function through samples on a grid of any number of dimensions.

    Args:
        points: for each dimension a vector of places, that increases.
        values: samples, their first axes those of the grid.
        method: "linear", "nearest", or the splines "slinear", "cubic" and "quintic".
        bounds_error: whether places outside raise a ValueError.
        fill_value: what is given outside; None extrapolates.

    Raises:
        RuleError: another method.
        ShapeError: vectors that do not fit the axes of the values.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import RegularGridInterpolator
        >>> x = np.arange(3.0)
        >>> f = RegularGridInterpolator((x, x), x[:, None] * x)
        >>> ftrace.grad(lambda p: f(p)[0])(np.array([0.5, 1.5]))
        array([1.5, 0.5])
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: Any = fnp.nan,
        **options: Any,
    ) -> None:
        if method not in ("linear", "nearest", *_SPLINES):
            raise RuleError(
                f"RegularGridInterpolator has no method {method!r}.",
                f'Use "linear", "nearest" or one of {", ".join(_SPLINES)}.',
            )
        self.values = inexact(value(values))
        self.grid = tuple(inexact(value(p)) for p in points)
        sizes = tuple(typeof(p).size for p in self.grid)
        if sizes != typeof(self.values).shape[: len(sizes)]:
            raise ShapeError(
                f"A grid of {sizes} places was given values {typeof(self.values).shape}.",
                "Give a vector of places for each of the first axes.",
            )
        if min(sizes) <= _SPLINES.get(method, 0):
            raise ShapeError(
                f"A grid of {sizes} places was given for method {method!r}.",
                f"It needs {_SPLINES[method] + 1} places along each axis.",
            )
        check_fill(fill_value, self.values)
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value

    @classmethod
    def from_scipy(cls, other: Any) -> "RegularGridInterpolator":
        """The same as an interpolator of SciPy's."""
        return cls(other.grid, other.values, other.method, other.bounds_error, other.fill_value)

    def __call__(self, xi: Any, method: str | None = None) -> Any:
        """The values at points: an array with their coordinates last, or a tuple of coordinates.

        Raises:
            ShapeError: points of another number of coordinates.
            ValueError: points outside, with `bounds_error`.
        """
        method = self.method if method is None else method
        d = len(self.grid)
        at = fnp.stack(fnp.broadcast_arrays(*xi), -1) if type(xi) is tuple else value(xi)
        at = fnp.reshape(at, (-1, d)) if typeof(at).ndim <= 1 and not typeof(at).size % d else at
        if typeof(at).shape[-1:] != (d,):
            raise ShapeError(
                f"Points of shape {typeof(at).shape} were asked for on a grid of {d} dimensions.",
                "The last axis has their coordinates.",
            )
        at, values = promote_inexact(at, self.values)
        flat = fnp.reshape(at, (-1, d))
        among = self._on_splines if method in _SPLINES else self._between
        found = among(flat, values, method)
        outside = self._outside(flat)
        if not self.bounds_error and self.fill_value is not None:
            found = fnp.where(column(outside, found), self.fill_value, found)
        found = fnp.where(column(fnp.any(fnp.isnan(flat), axis=-1), found), fnp.nan, found)
        return fnp.reshape(found, (*typeof(at).shape[:-1], *typeof(values).shape[d:]))

    def _on_splines(self, at: Any, values: Any, method: str) -> Any:
        k = _SPLINES[method]
        grid = [fnp.astype(p, typeof(at).dtype) for p in self.grid]
        knots = [knots_at(p, k) for p in grid]
        c = coefficients(grid, values, knots, [k] * len(grid))
        bases = [local_basis(t, k, at[:, i]) for i, t in enumerate(knots)]
        return at_points(c, bases)

    def _outside(self, at: Any) -> Any:
        found: Any = False
        for i, p in enumerate(self.grid):
            away = fnp.less(at[:, i], p[0]) | fnp.greater(at[:, i], p[-1])
            if self.bounds_error:
                words = f"One of the requested xi is out of bounds in dimension {i}"
                refuse(away, ValueError, words)
            found = found | away
        return found

    def _between(self, at: Any, values: Any, method: str) -> Any:
        places, shares = [], []
        for i, p in enumerate(self.grid):
            if typeof(p).size == 1:
                places.append(fnp.zeros(typeof(at).shape[:1], int))
                shares.append(0 * at[:, i])
                continue
            k = interval(p, at[:, i])
            places.append(k)
            left = getitem(p, k)
            shares.append((at[:, i] - left) / (getitem(p, k + 1) - left))
        if method == "nearest":
            key = (k + fnp.greater(s, 0.5) for k, s in zip(places, shares, strict=True))
            return getitem(values, tuple(key))
        found: Any = 0
        for corner in itertools.product((0, 1), repeat=len(places)):
            if any(c and typeof(p).size == 1 for c, p in zip(corner, self.grid, strict=True)):
                continue
            weight: Any = 1
            for c, s in zip(corner, shares, strict=True):
                weight = weight * (s if c else 1 - s)
            key = tuple(k + c for k, c in zip(places, corner, strict=True))
            at_corner = getitem(values, key)
            found = found + column(weight, at_corner) * at_corner
        return found


def interpn(
    points: Sequence[Any],
    values: Any,
    xi: Any,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Any = fnp.nan,
) -> Any:
    """Values at points between samples on a grid: `RegularGridInterpolator` at once.

    Args:
        points, values, method, bounds_error, fill_value: as in `RegularGridInterpolator`.
        xi: points.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.interpolate import interpn
        >>> interpn((np.arange(3.0),), np.array([0.0, 1.0, 4.0]), np.array([1.5]))
        array([2.5])
    """
    found = RegularGridInterpolator(points, values, method, bounds_error, fill_value)
    return found(xi)
