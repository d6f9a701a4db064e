"""Splines by their basis: `BSpline` of knots and coefficients, and those made of samples."""

from typing import Any

import ftrace.numpy as fnp
from ftrace.core.arguments import explained_methods
from ftrace.core.avals import typeof
from ftrace.core.errors import RuleError, ShapeError
from ftrace.numpy.indexing import getitem
from ftrace.numpy.promote import one_axis, promote_inexact, static_int, value
from ftrace.scipy.interpolate.piecewise import (
    asked,
    column,
    placed,
    registered,
    samples,
    scipys_own,
)


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
        return self._like(t, c, k)

    def antiderivative(self, nu: int = 1) -> "BSpline":
        """The integral from the first knot, of order nu, a spline of higher degree."""
        t, c, k, nu = self.t, self.c, self.k, static_int(nu, "nu")
        if nu < 0:
            return self.derivative(-nu)
        c = c[: typeof(t).shape[0] - k - 1]
        for _ in range(nu):
            whole = fnp.cumsum(c * column(t[k + 1 :] - t[: -k - 1], c), axis=0) / (k + 1)
            c = fnp.concatenate([0 * whole[:1], whole])
            t, k = fnp.concatenate([t[:1], t, t[-1:]]), k + 1
        return self._like(t, c, k, self.extrapolate != "periodic" and self.extrapolate)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """The integral from a to b; without extrapolation the spline is zero outside.

        Raises:
            RuleError: a periodic spline.
        """
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if extrapolate == "periodic":
            raise RuleError(
                "BSpline.integrate was asked of a periodic spline.",
                "Integrate over one period with extrapolate=False, and count periods.",
            )
        if not extrapolate:
            ends = self.t[self.k], self.t[typeof(self.t).shape[0] - self.k - 1]
            a, b = fnp.clip(a, *ends), fnp.clip(b, *ends)
        whole = self.antiderivative()
        return whole(b, 0, True) - whole(a, 0, True)

    def _like(self, t: Any, c: Any, k: int, extrapolate: Any = None) -> "BSpline":
        """Another spline along the same axis."""
        outside = self.extrapolate if extrapolate is None else extrapolate
        return BSpline(t, fnp.moveaxis(c, 0, self.axis), k, outside, self.axis)


def design(t: Any, k: int, x: Any, nu: int = 0) -> Any:
    """The basis functions of some knots at places, in columns; or their derivatives."""
    n = typeof(t).shape[0] - k - 1
    return BSpline(t, fnp.eye(n, dtype=typeof(x).dtype), k)(x, nu)


def knots_at(x: Any, k: int, ends: tuple[Any, Any] = (None, None)) -> Any:
    """Knots at samples, without those next to the ends; of an even degree in the middle between."""
    inner = x if k % 2 else (x[1:] + x[:-1]) / 2
    cut = (k + 1) // 2 if k % 2 else k // 2
    return between_ends(inner[cut : typeof(inner).shape[0] - cut], x, k, ends)


def between_ends(inner: Any, x: Any, k: int, ends: tuple[Any, Any] = (None, None)) -> Any:
    """Knots with k + 1 of them at either end, which is that of the samples where none is given."""
    some = fnp.zeros(k + 1, typeof(x).dtype)
    first, last = (x[i] if end is None else end for i, end in zip((0, -1), ends, strict=True))
    return fnp.concatenate([some + first, inner, some + last])


_CONDITIONS = {"not-a-knot": (), "clamped": ((1, 0.0),), "natural": ((2, 0.0),)}


def _conditions(bc_type: Any) -> list[Any]:
    """For each end, orders of derivatives and their values."""
    pair = (bc_type, bc_type) if bc_type is None or type(bc_type) is str else tuple(bc_type)
    found = [
        _CONDITIONS.get(end or "not-a-knot") if not isinstance(end, list | tuple) else end
        for end in pair
    ]
    if len(found) != 2 or None in found:
        raise RuleError(
            f"make_interp_spline has no bc_type={bc_type!r}.",
            f"Use one of {', '.join(_CONDITIONS)}, or for each end [(order, value)]; of a periodic "
            "cubic spline CubicSpline.",
        )
    return found


def make_interp_spline(
    x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0
) -> BSpline:
    """The spline of degree k through samples.

    Args:
        x: places, a vector that increases.
        y: values along an axis.
        k: the degree, at least 1.
        t: knots; None takes SciPy's.
        bc_type: what holds at the ends: None or "not-a-knot", "clamped", "natural", or for each end
            one of these or a list of (order of a derivative, its value).
        axis: the axis of y.

    Returns:
        A `BSpline`.

    Raises:
        RuleError: another condition at the ends, or a degree below 1.
        ShapeError: more conditions than knots leave free, or fewer.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.interpolate import make_interp_spline
        >>> x = np.arange(6.0)
        >>> round(float(make_interp_spline(x, x**3)(1.5)), 6)
        3.375
    """
    if k < 1:
        raise RuleError(f"make_interp_spline has no degree {k}.", "The degree is 1 or more.")
    ends = _conditions(bc_type)
    x, y, axis = samples(x, y, axis)
    count = sum(map(len, ends))
    inner = between_ends(x[1:-1], x, k) if count else knots_at(x, k)
    knots = inner if t is None else value(t)
    free = typeof(knots).shape[0] - k - 1 - typeof(x).shape[0]
    if free != count:
        raise ShapeError(
            f"make_interp_spline was given {count} derivatives at the ends, where knots leave "
            f"{free} free.",
            "A cubic spline with knots at all samples has one at each end.",
        )
    rows, sums = [design(knots, k, x)], [y]
    for place, end in zip((x[:1], x[-1:]), ends, strict=True):
        for order, given in end:
            rows.append(design(knots, k, place, order))
            level = fnp.asarray(given, dtype=typeof(y).dtype)
            sums.append(fnp.broadcast_to(level, (1, *typeof(y).shape[1:])))
    return _solved(fnp.linalg.solve, (rows, sums), knots, k, axis)


def _solved(solve: Any, equations: Any, knots: Any, k: int, axis: int) -> BSpline:
    """The spline whose coefficients solve equations, in blocks of rows and of sums."""
    a, b = map(fnp.concatenate, equations)
    found = solve(a, fnp.reshape(b, (typeof(b).shape[0], -1)))
    c = fnp.reshape(found, (typeof(a).shape[1], *typeof(b).shape[1:]))
    return BSpline(knots, fnp.moveaxis(c, 0, axis), k, True, axis)


def nearest(a: Any, b: Any) -> Any:
    """The solution of a system with more equations than unknowns, by least squares."""
    return fnp.linalg.lstsq(a, b, rcond=None)[0]


def make_lsq_spline(
    x: Any,
    y: Any,
    t: Any,
    k: int = 3,
    w: Any = None,
    axis: int = 0,
    check_finite: bool = True,
    *,
    method: str = "qr",
) -> BSpline:
    """The spline of some knots that is nearest to samples, by least squares.

    Args:
        x: places, a vector of m numbers that does not decrease.
        y: m values along an axis.
        t: knots, with k + 1 at either end, as for `BSpline`.
        k: the degree.
        w: weights that differences are multiplied with, m positive numbers.
        axis: the axis of y.
        check_finite, method: without effect, but those that SciPy does not know are refused.

    Returns:
        A `BSpline`.

    Raises:
        ValueError: what SciPy refuses, such as knots with no sample between them.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import make_lsq_spline
        >>> x, t = np.arange(6.0), np.array([0.0, 0, 2, 5, 5])
        >>> f = lambda y: make_lsq_spline(x, y, t, 1)(2.0)
        >>> ftrace.grad(f)(x**2).round(3)
        array([-0.123,  0.246,  0.614,  0.351,  0.088, -0.175])
    """
    asked("make_lsq_spline", x, y, t, k, w, axis, check_finite, method=method)
    x, y, axis = samples(x, y, axis)
    knots, k = value(t), static_int(k, "k")
    weights = 1 if w is None else fnp.astype(value(w), typeof(x).dtype)
    rows = design(knots, k, x)
    equations = [column(weights, rows) * rows], [column(weights, y) * y]
    return _solved(nearest, equations, knots, k, axis)


def make_smoothing_spline(x: Any, y: Any, w: Any = None, lam: Any = None, *, axis: int = 0) -> Any:
    """The natural cubic spline that balances its distance from samples and its bending.

    Args:
        x: places, a vector of n numbers, 5 at least, that increases.
        y: n values along an axis.
        w: weights of squared differences, n positive numbers.
        lam: the factor of the integral of the squared second derivative; None chooses it by
            generalised cross-validation, of plain values only.
        axis: the axis of y.

    Returns:
        A `BSpline` of degree 3.

    Raises:
        RuleError: traced samples without `lam`.
        ValueError: what SciPy refuses.

    Source:
        P. J. Green and B. W. Silverman, "Nonparametric Regression and Generalized Linear Models",
        1994, section 2.3: Reinsch's equations.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import make_smoothing_spline
        >>> x = np.arange(6.0)
        >>> f = lambda lam: make_smoothing_spline(x, x**2, lam=lam)(2.0)
        >>> ftrace.grad(f)(0.5).round(4)
        np.float64(0.7757)
    """
    plain = scipys_own("make_smoothing_spline", x, y, w, lam, axis=axis)
    if plain is not None:
        return BSpline.from_scipy(plain)
    if lam is None:
        raise RuleError(
            "make_smoothing_spline was asked to choose lam by traced samples.",
            "Pass lam, or choose it on plain values.",
        )
    x, y, axis = samples(x, y, axis)
    n = typeof(x).shape[0]
    h = fnp.diff(x)
    eye = fnp.eye(n, dtype=typeof(x).dtype)
    bends = fnp.diff(fnp.diff(eye, axis=0) / column(h, eye), axis=0)  # second differences
    hats = fnp.diag((h[1:] + h[:-1]) / 3) + fnp.diag(h[1:-1] / 6, 1) + fnp.diag(h[1:-1] / 6, -1)
    weights = fnp.ones(n, typeof(x).dtype) if w is None else value(w)
    stiff = fnp.diag(weights) + lam * bends.T @ fnp.linalg.solve(hats, bends)
    sums = fnp.reshape(column(weights, y) * y, (n, -1))
    smooth = fnp.reshape(fnp.linalg.solve(stiff, sums), typeof(y).shape)
    return make_interp_spline(x, fnp.moveaxis(smooth, 0, axis), 3, None, "natural", axis)
