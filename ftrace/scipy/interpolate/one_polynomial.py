"""The polynomial through samples, by the products of Lagrange's form."""

from typing import Any

import ftrace.numpy as fnp
from ftrace.core.arguments import explained_methods
from ftrace.core.avals import typeof
from ftrace.core.errors import RuleError
from ftrace.numpy.promote import inexact, one_axis, promote_inexact, static_int, value
from ftrace.scipy.borrowing import scipys
from ftrace.scipy.interpolate.piecewise import placed, registered, samples


@registered(("xi", "yi", "wi"), ("axis",))
@explained_methods
class BarycentricInterpolator:
    """The polynomial of least degree through samples.

    Values are sums of products, not SciPy's quotients, so that slopes are right at samples, too.

    Args:
        xi: places, n different numbers.
        yi: values along an axis.
        axis: the axis of yi.
        wi: the weights of the places, of another interpolator; None computes them.
        rng: without effect.

    Attributes:
        xi, axis: as above.
        yi: the values, their axis first.
        wi: the weights, in units of a quarter of the places' extent.

    Raises:
        RuleError: no values: they are given at once.
        ShapeError: another number of values.

    Source:
        N. J. Higham, "The numerical stability of barycentric Lagrange interpolation", 2004.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import BarycentricInterpolator
        >>> x = np.arange(4.0)
        >>> ftrace.grad(BarycentricInterpolator(x, x**3))(2.0).round(6)
        np.float64(12.0)
    """

    def __init__(
        self, xi: Any, yi: Any = None, axis: int = 0, *, wi: Any = None, rng: Any = None
    ) -> None:
        if yi is None:
            raise RuleError("BarycentricInterpolator was given no values.", "Pass yi at once.")
        self.xi, self.yi, self.axis = samples(xi, yi, axis)
        self.wi = _weights(self.xi) if wi is None else inexact(value(wi))

    @classmethod
    def from_scipy(cls, other: Any) -> "BarycentricInterpolator":
        """The same as an interpolator of SciPy's."""
        axis = one_axis(other._y_axis, len(other._y_extra_shape) + 1)
        yi = fnp.moveaxis(other.yi.reshape((-1, *other._y_extra_shape)), 0, axis)
        return cls(other.xi, yi, axis)

    def __call__(self, x: Any) -> Any:
        """The values at places."""
        at, xi, yi, wi = promote_inexact(value(x), self.xi, self.yi, self.wi)
        unit = (fnp.max(xi) - fnp.min(xi)) / 4
        away = (fnp.ravel(at)[:, None] - xi) / unit
        one = fnp.ones_like(away[:, :1])
        before = fnp.cumprod(fnp.concatenate([one, away[:, :-1]], 1), axis=1)
        behind = fnp.flip(fnp.concatenate([away[:, 1:], one], 1), 1)
        shares = wi * before * fnp.flip(fnp.cumprod(behind, axis=1), 1)
        found = fnp.tensordot(shares, yi, 1)
        found = fnp.reshape(found, (*typeof(at).shape, *typeof(yi).shape[1:]))
        return placed(found, typeof(at).ndim, self.axis)

    def derivative(self, x: Any, der: int = 1) -> Any:
        """The derivative of order der at places."""
        y = self.yi
        for _ in range(static_int(der, "der")):
            y = fnp.tensordot(_slopes(self.xi, self.wi), y, 1)
        return self._through(y)(x)

    def derivatives(self, x: Any, der: int | None = None) -> Any:
        """The values and derivatives of orders below der (None: all), along a new first axis."""
        n = typeof(self.xi).shape[0] if der is None else static_int(der, "der")
        return fnp.stack([self.derivative(x, k) for k in range(n)])

    def _through(self, y: Any) -> "BarycentricInterpolator":
        return BarycentricInterpolator(
            self.xi, fnp.moveaxis(y, 0, self.axis), self.axis, wi=self.wi
        )


def _weights(x: Any) -> Any:
    """The reciprocal of the product of a place's distances from the others."""
    n, unit = typeof(x).shape[0], (fnp.max(x) - fnp.min(x)) / 4
    away = (x[:, None] - x) / unit
    return 1 / fnp.prod(fnp.where(fnp.eye(n, dtype=bool), 1, away), axis=1)


def _slopes(x: Any, w: Any) -> Any:
    """The matrix that takes values at places to the polynomial's slopes there."""
    own = fnp.eye(typeof(x).shape[0], dtype=bool)
    away = fnp.where(own, 1, x[:, None] - x)
    others = fnp.where(own, 0, w / w[:, None] / away)
    return others - fnp.diag(fnp.sum(others, axis=1))


@scipys("scipy.interpolate")
def barycentric_interpolate(
    xi: Any, yi: Any, x: Any, axis: int = 0, *, der: Any = 0, rng: Any = None
) -> Any:
    """The polynomial of least degree through samples, at places.

    Args:
        xi, yi, axis, rng: as in `BarycentricInterpolator`.
        x: places.
        der: the order of the derivative.

    Returns:
        An array with the axes of x in the place of the values' axis.

    Raises:
        ShapeError: another number of values.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import barycentric_interpolate
        >>> x = np.arange(3.0)
        >>> ftrace.grad(lambda y: barycentric_interpolate(x, y, 0.5))(x)
        array([ 0.375,  0.75 , -0.125])
    """
    return BarycentricInterpolator(xi, yi, axis).derivative(x, der)
