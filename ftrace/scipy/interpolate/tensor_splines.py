"""Splines of several variables: products of basis functions, of which few are not zero at a place.

`RectBivariateSpline` and the splines of `RegularGridInterpolator` are these.
"""

from collections.abc import Sequence
from typing import Any

import ftrace.numpy as fnp
from ftrace.core.arguments import explained_methods
from ftrace.core.avals import typeof
from ftrace.core.errors import ShapeError
from ftrace.numpy.indexing import getitem
from ftrace.numpy.promote import promote_inexact, static_int, value
from ftrace.scipy.interpolate.basis_splines import make_interp_spline
from ftrace.scipy.interpolate.piecewise import column, registered


def coefficients(places: Sequence[Any], values: Any, knots: Sequence[Any], k: Sequence[int]) -> Any:
    """Those of the spline through values on a grid, whose axes are their first ones."""
    for axis, (x, t, degree) in enumerate(zip(places, knots, k, strict=True)):
        spline = make_interp_spline(x, values, degree, t, None, axis)
        values = fnp.moveaxis(spline.c, 0, axis)
    return values


def local_basis(t: Any, k: int, at: Any, nu: int = 0) -> tuple[Any, Any]:
    """The basis functions that are not zero at places, or their derivatives of order nu.

    Args:
        t: knots.
        k: the degree.
        at: places, a vector of n.

    Returns:
        Which k + 1 functions they are, and their values, both (n, k + 1).
    """
    i = fnp.clip(fnp.searchsorted(t, at, side="right") - 1, k, typeof(t).shape[0] - k - 2)
    found = [1 + 0 * at]
    for d in range(1, k + 1):
        left, right = ([getitem(t, i + j - s) for j in range(d + 1)] for s in (d, -1))
        none = 0 * at
        shares = [none, *(f / (b - a) for f, a, b in zip(found, left[1:], right, strict=False))]
        shares.append(none)
        if d > k - nu:
            found = [d * (shares[j] - shares[j + 1]) for j in range(d + 1)]
        else:
            found = [
                (at - left[j]) * shares[j] + (right[j] - at) * shares[j + 1] for j in range(d + 1)
            ]
    values = fnp.stack(found, -1) if nu <= k else fnp.zeros((typeof(at).size, k + 1))
    return i[:, None] - k + fnp.arange(k + 1), values


def at_points(c: Any, bases: Sequence[tuple[Any, Any]]) -> Any:
    """The values at n points of the spline with coefficients c, by the basis of each axis."""
    d = len(bases)
    key = []
    for axis, (which, _) in enumerate(bases):
        own = typeof(which).shape[1]
        key.append(fnp.reshape(which, (-1, *(own if j == axis else 1 for j in range(d)))))
    found = getitem(c, tuple(key))
    for _, weights in bases:
        found = fnp.sum(found * _beside(weights, typeof(found).ndim), axis=1)
    return found


def on_grid(c: Any, bases: Sequence[tuple[Any, Any]]) -> Any:
    """The values where the places of each axis cross."""
    for axis, (which, weights) in enumerate(bases):
        parts = getitem(fnp.moveaxis(c, axis, 0), which)
        summed = fnp.sum(parts * _beside(weights, typeof(parts).ndim), axis=1)
        c = fnp.moveaxis(summed, 0, axis)
    return c


def _beside(weights: Any, rank: int) -> Any:
    """Weights along the first two axes of an array."""
    return fnp.reshape(weights, (*typeof(weights).shape, *(1,) * (rank - 2)))


@registered(("t", "c"), ("k", "extrapolate"))
@explained_methods
class NdBSpline:
    """A spline of several variables, the sum of products of basis functions.

    Args:
        t: for each of d variables a vector of knots.
        c: coefficients, their first d axes those of the basis functions.
        k: the degree, for all variables or each of them.
        extrapolate: whether the outer polynomials serve outside, else NaN.

    Attributes:
        t, c, k, extrapolate: as above; k is a tuple.

    Raises:
        ShapeError: coefficients that do not fit the knots.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import NdBSpline
        >>> t = np.array([0.0, 0, 1, 1])
        >>> f = NdBSpline((t, t), np.array([[0.0, 1.0], [2.0, 3.0]]), 1)
        >>> ftrace.grad(f)(np.array([0.5, 0.25]))
        array([2., 1.])
    """

    def __init__(self, t: Sequence[Any], c: Any, k: Any, *, extrapolate: Any = None) -> None:
        *knots, self.c = promote_inexact(*map(value, t), value(c))
        self.t = tuple(knots)
        degrees = k if isinstance(k, Sequence) else [k] * len(self.t)
        self.k = tuple(static_int(d, "k") for d in degrees)
        self.extrapolate = True if extrapolate is None else bool(extrapolate)
        sizes = tuple(typeof(v).shape[0] - d - 1 for v, d in zip(self.t, self.k, strict=True))
        if typeof(self.c).shape[: len(sizes)] != sizes:
            raise ShapeError(
                f"A spline of degrees {self.k} was given coefficients {typeof(self.c).shape}, "
                f"where its knots have {sizes} basis functions.",
                "There are k + 1 functions less than knots along each axis.",
            )

    @classmethod
    def from_scipy(cls, other: Any) -> "NdBSpline":
        """The same as a spline of SciPy's."""
        return cls(other.t, other.c, tuple(map(int, other.k)), extrapolate=other.extrapolate)

    def __call__(self, xi: Any, *, nu: Any = None, extrapolate: Any = None) -> Any:
        """The values at points, whose coordinates are last, or derivatives of orders nu.

        Raises:
            ShapeError: points of another number of coordinates.
        """
        d = len(self.t)
        at, c, *knots = promote_inexact(value(xi), self.c, *self.t)
        if typeof(at).shape[-1:] != (d,):
            raise ShapeError(
                f"Points of shape {typeof(at).shape} were asked for of a spline of {d} variables.",
                "The last axis has their coordinates.",
            )
        flat = fnp.reshape(at, (-1, d))
        orders = [0] * d if nu is None else [static_int(n, "nu") for n in nu]
        if min(orders) < 0:
            raise ValueError(f"derivatives must be positive, got nu = {nu}")
        parts = [(t, k, flat[:, i]) for i, (t, k) in enumerate(zip(knots, self.k, strict=True))]
        bases = [local_basis(*part, n) for part, n in zip(parts, orders, strict=True)]
        found = at_points(c, bases)
        if not (self.extrapolate if extrapolate is None else extrapolate):
            for t, k, x in parts:
                inside = fnp.greater_equal(x, t[k]) & fnp.less_equal(x, t[-k - 1])
                found = fnp.where(column(inside, found), found, fnp.nan)
        return fnp.reshape(found, (*typeof(at).shape[:-1], *typeof(c).shape[d:]))
