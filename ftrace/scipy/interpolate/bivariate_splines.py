"""Splines of two variables as FITPACK's classes have them: on a grid, nearest, and smoothing.

Plain samples are SciPy's to fit. Traced ones are fitted where that is linear in the values.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.arguments import explained_methods
from ftrace.core.avals import typeof
from ftrace.core.errors import RuleError
from ftrace.core.trace import Tracer
from ftrace.numpy.promote import static_int
from ftrace.numpy.refusing import refuse
from ftrace.scipy.borrowing import RefusedError, scipys
from ftrace.scipy.interpolate.basis_splines import (
    BSpline,
    design,
    knots_at,
    nearest,
)
from ftrace.scipy.interpolate.piecewise import floats, registered, scipys_own
from ftrace.scipy.interpolate.tensor_splines import at_points, coefficients, local_basis, on_grid

_PARTS = (("tck", "fp"), ("degrees",))
_ENDS = (None,) * 4


@registered(*_PARTS)
@explained_methods
class BivariateSpline:
    """A spline of two variables; what `RectBivariateSpline` and its relatives share.

    Outside of its ends it has the value at the nearest place inside.

    Attributes:
        tck: knots of both variables, and the coefficients as one vector.
        degrees: the degrees.
        fp: the sum of weighted squared differences from the samples; None of a derivative.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import RectBivariateSpline
        >>> x = np.arange(4.0)
        >>> f = RectBivariateSpline(x, x, x[:, None] * x)
        >>> f.integral(0.0, 2.0, 0.0, 1.0).round(6), ftrace.grad(f.ev)(1.5, 2.0).round(6)
        (np.float64(1.0), np.float64(2.0))
    """

    tck: tuple[Any, Any, Any]
    degrees: tuple[int, int]
    fp: Any

    @classmethod
    def from_scipy(cls, other: Any) -> "BivariateSpline":
        """The same as a spline of SciPy's."""
        made = object.__new__(cls)
        made._keep(other.tck, other.degrees, vars(other).get("fp"))
        return made

    def _keep(self, tck: Any, degrees: Any, fp: Any) -> None:
        kx, ky = degrees
        self.tck, self.degrees, self.fp = tuple(tck), (int(kx), int(ky)), fp

    def __call__(self, x: Any, y: Any, dx: int = 0, dy: int = 0, grid: bool = True) -> Any:
        """The values, or partial derivatives of orders dx and dy, in float64.

        Args:
            x, y: places: vectors that do not decrease; without `grid`, arrays that broadcast.
            dx, dy: orders, below the degrees.
            grid: whether places of both vectors cross; the result is (len(x), len(y)) then.

        Raises:
            ValueError: vectors that decrease, or another order.
        """
        x, y = (floats(v) for v in (x, y))
        if not grid:
            x, y = fnp.broadcast_arrays(x, y)
            points = at_points(self._square(), self._bases(x, y, (dx, dy)))
            return fnp.reshape(points, typeof(x).shape)
        for name, v in (("x", x), ("y", y)):
            words = f"{name} must be strictly increasing when `grid` is True"
            refuse(fnp.less(fnp.diff(fnp.ravel(v)), 0), ValueError, words)
        return on_grid(self._square(), self._bases(x, y, (dx, dy)))

    def _bases(self, x: Any, y: Any, orders: Sequence[int]) -> list[tuple[Any, Any]]:
        found = []
        for t, k, at, nu in zip(self.tck, self.degrees, (x, y), orders, strict=False):
            order = static_int(nu, "An order")
            if not 0 <= order <= max(k - 1, 0):
                raise ValueError(f"0 <= {order} < {k} must hold for the order of a derivative")
            inside = fnp.clip(fnp.ravel(at), t[k], t[-k - 1])
            found.append(local_basis(t, k, inside, order))
        return found

    def _square(self) -> Any:
        tx, ty, c = self.tck
        kx, ky = self.degrees
        return fnp.reshape(c, (typeof(tx).shape[0] - kx - 1, typeof(ty).shape[0] - ky - 1))

    def ev(self, xi: Any, yi: Any, dx: int = 0, dy: int = 0) -> Any:
        """The values at points, or partial derivatives: the call without a grid."""
        return self(xi, yi, dx, dy, False)

    def _lines(self) -> tuple[BSpline, Any, int]:
        (tx, ty, _), (kx, ky) = self.tck, self.degrees
        return BSpline(tx, self._square(), kx), ty, ky

    def integral(self, xa: Any, xb: Any, ya: Any, yb: Any) -> Any:
        """The integral over a rectangle of the spline, which is zero outside of its ends."""
        lines, ty, ky = self._lines()
        return BSpline(ty, lines.integrate(xa, xb, False), ky).integrate(ya, yb, False)

    def partial_derivative(self, dx: int, dy: int) -> "BivariateSpline":
        """The partial derivative of orders dx and dy, a spline of lower degrees.

        Raises:
            ValueError: orders that are not below the degrees.
        """
        if not (0 <= dx < self.degrees[0] and 0 <= dy < self.degrees[1]):
            raise ValueError("order of derivative must be less than degree of spline")
        lines, ty, ky = self._lines()
        down = lines.derivative(dx)
        across = BSpline(ty, down.c, ky, axis=1).derivative(dy)
        made, c = object.__new__(BivariateSpline), fnp.ravel(across.c.T)
        made._keep((down.t, across.t, c), (down.k, across.k), None)
        return made

    def get_knots(self) -> Any:
        """The knots of both variables."""
        return self.tck[:2]

    def get_coeffs(self) -> Any:
        """The coefficients, a vector."""
        return self.tck[2]

    def get_residual(self) -> Any:
        """The sum of weighted squared differences from the samples."""
        return self.fp


def _smoothing(name: str, instead: str) -> RuleError:
    return RuleError(
        f"{name} was asked to choose knots by traced samples (s is not 0).", f"Use {instead}."
    )


@registered(*_PARTS)
@explained_methods
class RectBivariateSpline(BivariateSpline):
    """The spline through samples on a grid.

    Args:
        x, y: places of both axes, vectors that increase.
        z: samples, (len(x), len(y)).
        bbox: the ends (of x: first and last, and of y), where they are not those of x and y.
        kx, ky: the degrees, 1 to 5.
        s: how far it may be from plain samples, as in `UnivariateSpline`.
        maxit: how many knots are tried for that.

    Raises:
        ValueError: what SciPy refuses.
        RuleError: traced samples where s is not 0.

    Source:
        P. Dierckx, "Curve and Surface Fitting with Splines", 1993.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import RectBivariateSpline
        >>> x = np.arange(4.0)
        >>> f = lambda z: RectBivariateSpline(x, x, z, kx=1, ky=1)(0.5, 1.0)[0, 0]
        >>> ftrace.grad(f)(np.ones((4, 4)))[:2, :2]
        array([[0. , 0.5],
               [0. , 0.5]])
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        z: Any,
        bbox: Sequence[Any] = _ENDS,
        kx: int = 3,
        ky: int = 3,
        s: Any = 0,
        maxit: int = 20,
    ) -> None:
        fitted = scipys_own("RectBivariateSpline", x, y, z, list(bbox), kx, ky, s, maxit)
        if fitted is not None:
            self._keep(fitted.tck, fitted.degrees, fitted.fp)
            return
        if isinstance(s, Tracer) or s != 0:
            raise _smoothing("RectBivariateSpline", "s=0, or LSQBivariateSpline with given knots")
        places = [fnp.ravel(floats(v)) for v in (x, y)]
        ends = tuple(bbox[:2]), tuple(bbox[2:])
        degrees = kx, ky
        knots = [knots_at(v, k, e) for v, k, e in zip(places, degrees, ends, strict=True)]
        c = coefficients(places, floats(z), knots, degrees)
        self._keep((*knots, fnp.ravel(c)), degrees, 0.0)


@registered(*_PARTS)
@explained_methods
class SmoothBivariateSpline(BivariateSpline):
    """A spline that smooths scattered plain samples; its places may be traced.

    Args:
        x, y, z: places and samples, vectors of one length.
        w: positive weights; None for ones.
        bbox, kx, ky, s: as in `RectBivariateSpline`; s=None is as many as there are samples.
        eps: what counts as zero in its equations.

    Raises:
        ValueError: what SciPy refuses.
        RuleError: traced samples.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import SmoothBivariateSpline
        >>> x, y = np.meshgrid(np.arange(4.0), np.arange(4.0))
        >>> f = SmoothBivariateSpline(x.ravel(), y.ravel(), (x * y).ravel(), kx=1, ky=1)
        >>> ftrace.grad(f.ev)(1.5, 2.0).round(6)
        np.float64(2.0)
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        z: Any,
        w: Any = None,
        bbox: Sequence[Any] = _ENDS,
        kx: int = 3,
        ky: int = 3,
        s: Any = None,
        eps: float = 1e-16,
    ) -> None:
        fitted = scipys_own("SmoothBivariateSpline", x, y, z, w, list(bbox), kx, ky, s, eps)
        if fitted is None:
            raise _smoothing("SmoothBivariateSpline", "LSQBivariateSpline, whose knots are given")
        self._keep(fitted.tck, fitted.degrees, fitted.fp)


@registered(*_PARTS)
@explained_methods
class LSQBivariateSpline(BivariateSpline):
    """The spline of given knots that is nearest to scattered samples, by weighted least squares.

    Args:
        x, y, z, w, bbox, kx, ky, eps: as in `SmoothBivariateSpline`.
        tx, ty: knots between the ends, vectors that increase.

    Raises:
        ValueError: what SciPy refuses.
        RuleError: traced places or knots.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import LSQBivariateSpline
        >>> x, y = (v.ravel() for v in np.meshgrid(np.arange(4.0), np.arange(4.0)))
        >>> f = lambda z: LSQBivariateSpline(x, y, z, [1.5], [1.5], kx=1, ky=1).ev(1.0, 2.0)
        >>> ftrace.jit(f)(x * y).round(6)
        np.float64(2.0)
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        z: Any,
        tx: Any,
        ty: Any,
        w: Any = None,
        bbox: Sequence[Any] = _ENDS,
        kx: int = 3,
        ky: int = 3,
        eps: Any = None,
    ) -> None:
        given = x, y, z, tx, ty, w, list(bbox), kx, ky, eps
        fitted = scipys_own("LSQBivariateSpline", *given)
        if fitted is not None:
            self._keep(fitted.tck, fitted.degrees, fitted.fp)
            return
        ends = scipys_own("LSQBivariateSpline", x, y, np.zeros(len(x)), tx, ty, None, *given[6:])
        if ends is None:
            raise RuleError(
                "LSQBivariateSpline was given traced places or knots.",
                "Pass plain ones; samples and weights may be traced.",
            )
        z = fnp.ravel(floats(z))
        weights = fnp.ones_like(z) if w is None else fnp.ravel(floats(w))
        (tx, ty), degrees = ends.get_knots(), (kx, ky)
        along, across = design(tx, kx, floats(x)), design(ty, ky, floats(y))
        rows = fnp.reshape(along[:, :, None] * across[:, None], (typeof(z).size, -1))
        c = nearest(weights[:, None] * rows, weights * z)
        self._keep((tx, ty, c), degrees, fnp.sum(fnp.square(weights * (rows @ c - z))))


@scipys("scipy.interpolate", asked=False)
def bisplev(x: Any, y: Any, tck: Any, dx: int = 0, dy: int = 0) -> Any:
    """The values of a spline of two variables, or partial derivatives, where places cross.

    Args:
        x, y: places, numbers or vectors that do not decrease.
        tck: knots of both variables, coefficients as one vector and degrees, as SciPy's `bisplrep`
            gives them.
        dx, dy: orders, below the degrees.

    Returns:
        An array (len(x), len(y)) in float64, or the one row or number that it has.

    Raises:
        ValueError: another order, places of another rank, or vectors that decrease.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import RectBivariateSpline, bisplev
        >>> x = np.arange(4.0)
        >>> spline = RectBivariateSpline(x, x, x[:, None] * x)
        >>> tck = (*spline.tck, *spline.degrees)
        >>> ftrace.grad(lambda x: bisplev(x, 2.0, tck))(1.5).round(6)
        np.float64(2.0)
    """
    tx, ty, c, *degrees = tck
    x, y = fnp.atleast_1d(x, y)
    if typeof(x).ndim != 1 or typeof(y).ndim != 1:
        raise RefusedError("First two entries should be rank-1 arrays.")
    made = object.__new__(BivariateSpline)
    made._keep((tx, ty, c), degrees, None)
    found = made(x, y, dx, dy)
    rows, columns = typeof(found).shape
    return found if rows > 1 else found[0] if columns > 1 else found[0, 0]
