"""Splines by their basis: `BSpline` of knots and coefficients, and the one through samples."""

from typing import Any

import ftrace.numpy as fnp
from ftrace.core.arguments import explained_methods
from ftrace.core.avals import typeof
from ftrace.core.errors import RuleError, ShapeError
from ftrace.numpy.indexing import getitem
from ftrace.numpy.promote import one_axis, promote_inexact, static_int, value
from ftrace.scipy.interpolate.piecewise import column, placed, registered, samples


@registered(("t", "c"), ("k", "extrapolate", "axis"))
@explained_methods
class BSpline:
    """A spline as a sum of basis functions, evaluated by de Boor's recurrence.

    Args:
        t: knots, a vector that does not decrease, of at least 2 k + 2 numbers.
        c: coefficients along an axis; those after the first len(t) - k - 1 do not count.
        k: the degree.
        extrapolate: whether the outer polynomials serve outside, else NaN; or "periodic".
        axis: the axis of c.

    Attributes:
        t, k, extrapolate, axis: as above.
        c: the coefficients, their axis first.

    Raises:
        ShapeError: too few knots or coefficients.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.interpolate import BSpline
        >>> float(BSpline(np.arange(4.0), np.array([1.0, 2.0]), 1)(1.5))
        1.5
    """

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> None:
        self.t, c = promote_inexact(value(t), value(c))
        self.axis = one_axis(axis, typeof(c).ndim)
        self.c = fnp.moveaxis(c, self.axis, 0)
        self.k = static_int(k, "k")
        self.extrapolate = extrapolate
        n = typeof(self.t).shape[0] - self.k - 1
        if typeof(self.t).ndim != 1 or n <= self.k or typeof(self.c).shape[0] < n:
            raise ShapeError(
                f"A spline of degree {self.k} was given knots {typeof(self.t).shape} and "
                f"{typeof(self.c).shape[0]} coefficients.",
                "It has at least 2 k + 2 knots, and a coefficient for all but k + 1 of them.",
            )

    @classmethod
    def from_scipy(cls, other: Any) -> "BSpline":
        """The same as a spline of SciPy's."""
        c = fnp.moveaxis(other.c, 0, other.axis)
        return BSpline(other.t, c, other.k, other.extrapolate, other.axis)

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """The value at places, or the derivative of order nu."""
        nu = static_int(nu, "nu")
        if nu:
            return self.derivative(nu)(x, 0, extrapolate)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        at, t, c = promote_inexact(value(x), self.t, self.c)
        k, n = self.k, typeof(t).shape[0] - self.k - 1
        low, high = t[k], t[n]
        if extrapolate == "periodic":
            at = low + (at - low) % (high - low)
        flat = fnp.ravel(at)
        i = fnp.clip(fnp.searchsorted(t, flat, side="right") - 1, k, n - 1)
        d = [getitem(c, i - k + j) for j in range(k + 1)]
        for r in range(1, k + 1):
            for j in range(k, r - 1, -1):
                left, right = getitem(t, j + i - k), getitem(t, j + 1 + i - r)
                share = column((flat - left) / (right - left), d[j])
                d[j] = (1 - share) * d[j - 1] + share * d[j]
        found = d[k]
        if not extrapolate:
            inside = fnp.greater_equal(flat, low) & fnp.less_equal(flat, high)
            found = fnp.where(column(inside, found), found, fnp.nan)
        found = fnp.reshape(found, (*typeof(at).shape, *typeof(c).shape[1:]))
        return placed(found, typeof(at).ndim, self.axis)

    def derivative(self, nu: int = 1) -> "BSpline":
        """The derivative of order nu, a spline of lower degree."""
        t, c, k, nu = self.t, self.c, self.k, static_int(nu, "nu")
        if nu < 0:
            raise RuleError(f"BSpline.derivative was given nu={nu}.", "Its order is 0 or more.")
        c = c[: typeof(t).shape[0] - k - 1]
        for _ in range(nu):
            if not k:
                c = 0 * c
                continue
            width = t[k + 1 : -1] - t[1 : -k - 1]
            some = fnp.greater(width, 0)
            inverse = fnp.where(some, k / fnp.where(some, width, 1), 0)
            c = fnp.diff(c, axis=0) * column(inverse, c)
            t, k = t[1:-1], k - 1
        c = fnp.moveaxis(c, 0, self.axis)
        return BSpline(t, c, k, self.extrapolate, self.axis)


def _knots(x: Any, k: int) -> Any:
    """Knots at samples, without those next to the ends; of an even degree in the middle between."""
    inner = x if k % 2 else (x[1:] + x[:-1]) / 2
    cut = (k + 1) // 2 if k % 2 else k // 2
    inner = inner[cut : typeof(inner).shape[0] - cut]
    ends = fnp.zeros(k + 1, typeof(x).dtype)
    return fnp.concatenate([ends + x[0], inner, ends + x[-1]])


def make_interp_spline(
    x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0
) -> BSpline:
    """The spline of degree k through samples.

    Args:
        x: places, a vector that increases.
        y: values along an axis.
        k: the degree, at least 1.
        t: knots; None takes SciPy's.
        bc_type: only None (not-a-knot); of a cubic spline `CubicSpline` has others.
        axis: the axis of y.

    Returns:
        A `BSpline`.

    Raises:
        RuleError: another condition at the ends, or a degree below 1.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.interpolate import make_interp_spline
        >>> x = np.arange(6.0)
        >>> round(float(make_interp_spline(x, x**3)(1.5)), 6)
        3.375
    """
    if (bc_type is not None and bc_type != "not-a-knot") or k < 1:
        raise RuleError(
            f"make_interp_spline has no bc_type={bc_type!r} of degree {k}.",
            "Use CubicSpline, which has conditions at the ends.",
        )
    x, y, axis = samples(x, y, axis)
    knots = _knots(x, k) if t is None else value(t)
    n = typeof(x).shape[0]
    basis = BSpline(knots, fnp.eye(n, dtype=typeof(x).dtype), k)(x)
    c = fnp.reshape(fnp.linalg.solve(basis, fnp.reshape(y, (n, -1))), typeof(y).shape)
    return BSpline(knots, fnp.moveaxis(c, 0, axis), k, True, axis)
