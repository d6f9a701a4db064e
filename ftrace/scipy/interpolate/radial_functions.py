"""Interpolation between scattered points by radial functions."""

import itertools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.arguments import explained_methods
from ftrace.core.avals import typeof
from ftrace.numpy.promote import value
from ftrace.scipy.interpolate.piecewise import asked, floats, registered

_KERNELS: Final[dict[str, Callable[[Any], Any]]] = {  # of squared distances, with no slope at 0
    "linear": lambda q: -_root(q),
    "thin_plate_spline": lambda q: 0.5 * q * fnp.log(fnp.where(q > 0, q, 1.0)),
    "cubic": lambda q: q * _root(q),
    "quintic": lambda q: -q * q * _root(q),
    "multiquadric": lambda q: -fnp.sqrt(q + 1),
    "inverse_multiquadric": lambda q: 1 / fnp.sqrt(q + 1),
    "inverse_quadratic": lambda q: 1 / (q + 1),
    "gaussian": lambda q: fnp.exp(-q),
}
_LEAST_DEGREE: Final = {"thin_plate_spline": 1, "cubic": 1, "quintic": 2}


def _root(q: Any) -> Any:
    """A square root that is flat at 0, where a point meets itself."""
    some = q > 0
    return fnp.where(some, fnp.sqrt(fnp.where(some, q, 1.0)), 0.0)


def _squares(a: Any, b: Any) -> Any:
    """The squared distances of the points of two arrays (..., points, d)."""
    return fnp.sum(fnp.square(a[..., :, None, :] - b[..., None, :, :]), axis=-1)


@registered(
    ("y", "d", "smoothing", "epsilon", "_solution"), ("kernel", "neighbors", "degree", "_powers")
)
@explained_methods
class RBFInterpolator:
    """A sum of radial functions about scattered points and a polynomial.

    Args:
        y: points, (n, d).
        d: values at them, (n, ...).
        neighbors: of how many nearest points a value is made; None for all of them.
        smoothing: how little values need to be met, a number or one for each point.
        kernel: "linear", "thin_plate_spline", "cubic", "quintic", "multiquadric",
            "inverse_multiquadric", "inverse_quadratic" or "gaussian".
        epsilon: what distances are multiplied with; the last four kernels need it.
        degree: of the polynomial, -1 for none; None for the least one that the kernel needs.

    Attributes:
        y, d, smoothing, epsilon, kernel, neighbors, degree: as above; epsilon and degree as chosen.

    Raises:
        ValueError: what SciPy refuses.

    Source:
        G. E. Fasshauer, "Meshfree Approximation Methods with MATLAB", 2007.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import RBFInterpolator
        >>> y = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> f = RBFInterpolator(y, y[:, 0] + 2 * y[:, 1])
        >>> ftrace.grad(lambda x: f(x[None])[0])(np.array([0.3, 0.6])).round(6)
        array([1., 2.])
    """

    def __init__(
        self,
        y: Any,
        d: Any,
        neighbors: int | None = None,
        smoothing: Any = 0.0,
        kernel: str = "thin_plate_spline",
        epsilon: Any = None,
        degree: int | None = None,
    ) -> None:
        asked("RBFInterpolator", y, d, neighbors, smoothing, kernel, epsilon, degree)
        self.y, d = floats(y), value(d)
        self.d = fnp.astype(d, complex if typeof(d).dtype.kind == "c" else float)
        n, axes = typeof(self.y).shape
        self.kernel = kernel.lower()
        self.smoothing = fnp.broadcast_to(floats(smoothing), (n,))
        self.epsilon = 1.0 if epsilon is None else floats(epsilon)
        self.degree = _LEAST_DEGREE.get(self.kernel, 0) if degree is None else int(degree)
        self.neighbors = None if neighbors is None else int(min(neighbors, n))
        monomials, most = math.comb(self.degree + axes, axes), self.neighbors or n
        if monomials > most:
            raise ValueError(
                f"At least {monomials} data points are required when `degree` is {self.degree} and "
                f"the number of dimensions is {axes}."
            )
        each = itertools.chain.from_iterable(
            itertools.combinations_with_replacement(range(axes), k) for k in range(self.degree + 1)
        )
        self._powers = tuple(tuple(map(mono.count, range(axes))) for mono in each)
        every = fnp.reshape(self.d, (n, -1))
        self._solution = self._solve(self.y, every, self.smoothing) if neighbors is None else None

    @classmethod
    def from_scipy(cls, other: Any) -> "RBFInterpolator":
        """The same as an interpolator of SciPy's."""
        degree = int(np.sum(other.powers, axis=1).max(initial=-1))
        d = other.d.view(other.d_dtype).reshape((-1, *other.d_shape))
        how = other.neighbors, other.smoothing, other.kernel, other.epsilon, degree
        return cls(other.y, d, *how)

    def _phi(self, a: Any, b: Any) -> Any:
        return _KERNELS[self.kernel](_squares(a * self.epsilon, b * self.epsilon))

    def _monomials(self, x: Any) -> Any:
        """The monomials at points, (..., points, monomials)."""
        columns = [fnp.prod(x ** np.array(powers), axis=-1) for powers in self._powers]
        return fnp.stack(columns, -1) if columns else fnp.zeros((*typeof(x).shape[:-1], 0))

    def _solve(self, y: Any, d: Any, smoothing: Any) -> tuple[Any, Any, Any]:
        """The middle and half the extent of points, and the coefficients of values at them."""
        low, high = fnp.min(y, axis=-2), fnp.max(y, axis=-2)
        shift, half = (high + low) / 2, (high - low) / 2
        scale = fnp.where(half == 0.0, 1.0, half)
        p = self._monomials((y - shift[..., None, :]) / scale[..., None, :])
        *batch, n, r = typeof(p).shape
        upper = self._phi(y, y) + smoothing[..., None] * fnp.eye(n)
        lower = fnp.concatenate([fnp.swapaxes(p, -1, -2), fnp.zeros((*batch, r, r))], -1)
        system = fnp.concatenate([fnp.concatenate([upper, p], -1), lower], -2)
        sums = fnp.concatenate([d, fnp.zeros((*batch, r, typeof(d).shape[-1]), d.dtype)], -2)
        return shift, scale, fnp.linalg.solve(system, sums)

    def _sum(self, x: Any, y: Any, solution: tuple[Any, Any, Any]) -> Any:
        """The values at points (..., points, d)."""
        shift, scale, found = solution
        p = self._monomials((x - shift[..., None, :]) / scale[..., None, :])
        return fnp.concatenate([self._phi(x, y), p], -1) @ found

    def __call__(self, x: Any) -> Any:
        """The values at points, (m, d): an array (m, ...).

        Raises:
            ValueError: points of another rank or number of coordinates.
        """
        x = floats(x)
        if typeof(x).ndim != 2:
            raise ValueError("`x` must be a 2-dimensional array.")
        if typeof(x).shape[1] != typeof(self.y).shape[1]:
            raise ValueError(
                f"Expected the second axis of `x` to have length {typeof(self.y).shape[1]}."
            )
        if self._solution is not None:
            found = self._sum(x, self.y, self._solution)
        else:
            near = fnp.argsort(_squares(x, self.y), axis=-1)[:, : self.neighbors]
            d = fnp.reshape(self.d, (typeof(self.y).shape[0], -1))
            solution = self._solve(self.y[near], d[near], self.smoothing[near])
            found = self._sum(x[:, None], self.y[near], solution)[:, 0]
        return fnp.reshape(found, (typeof(x).shape[0], *typeof(self.d).shape[1:]))
