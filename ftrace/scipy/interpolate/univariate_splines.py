"""Splines of one variable as FITPACK's classes have them: through samples, nearest, and smoothing.

Plain samples are SciPy's to fit. Traced ones are fitted where that is linear in the values: knots
are given or those of the places. A spline that smooths chooses its knots by the values.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.arguments import explained_methods
from ftrace.core.avals import typeof
from ftrace.core.errors import RuleError
from ftrace.core.trace import Tracer
from ftrace.numpy.promote import static_int, value
from ftrace.scipy.interpolate.basis_splines import (
    BSpline,
    between_ends,
    knots_at,
    make_interp_spline,
    make_lsq_spline,
)
from ftrace.scipy.interpolate.fitpack import spalde, splev, splint
from ftrace.scipy.interpolate.piecewise import floats, registered, scipys_own

_OUTSIDE = {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}
_PARTS = (("t", "c", "residual"), ("k", "ext"))


def _mode(ext: Any) -> int:
    """The number of a way to go on outside.

    Raises:
        ValueError: none of them.
    """
    found = _OUTSIDE.get(ext, ext)
    if found not in (0, 1, 2, 3):
        raise ValueError(f"Unknown extrapolation mode {ext}.")
    return int(found)


@registered(*_PARTS)
@explained_methods
class UnivariateSpline:
    """A spline that smooths samples: its weighted squared differences sum up to s at most.

    Args:
        x: places, a vector of m numbers that does not decrease (s=0: that increases).
        y: m values.
        w: m positive weights that differences are multiplied with; None for ones.
        bbox: the ends of the spline, where they are not those of x.
        k: the degree, 1 to 5.
        s: how far from the samples it may be; 0 goes through all of them, None is m.
        ext: outside: 0 or "extrapolate", 1 or "zeros", 2 or "raise", 3 or "const".
        check_finite: whether plain samples are looked at for NaN and infinities.

    Raises:
        ValueError: what SciPy refuses.
        RuleError: traced samples where s is not 0.

    Source:
        P. Dierckx, "Curve and Surface Fitting with Splines", 1993.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import UnivariateSpline
        >>> x = np.arange(6.0)
        >>> f = UnivariateSpline(x, x**3, s=0)
        >>> ftrace.grad(f)(1.5).round(6), f.integral(0.0, 2.0)
        (np.float64(6.75), 4.0)
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        w: Any = None,
        bbox: Sequence[Any] = (None, None),
        k: int = 3,
        s: Any = None,
        ext: Any = 0,
        check_finite: bool = False,
    ) -> None:
        fitted = scipys_own("UnivariateSpline", x, y, w, list(bbox), k, s, ext, check_finite)
        if fitted is not None:
            self._adopt(fitted)
            return
        if isinstance(s, Tracer) or s != 0:
            raise RuleError(
                "UnivariateSpline was asked to choose knots by traced samples (s is not 0).",
                "Pass s=0, or fit with make_smoothing_spline(x, y, lam=...) or "
                "LSQUnivariateSpline, whose knots are given.",
            )
        self._through(x, y, bbox, k, ext)

    def _through(self, x: Any, y: Any, bbox: Any, k: int, ext: Any) -> None:
        """Go through traced samples."""
        x, y = (floats(v) for v in (x, y))
        ends = tuple(bbox)
        self._keep(make_interp_spline(x, y, k, knots_at(x, k, ends)), 0.0, ext)

    def _keep(self, spline: BSpline, residual: Any, ext: Any) -> None:
        self.t, self.c, self.k = spline.t, spline.c, spline.k
        self.residual, self.ext = residual, _mode(ext)

    def _adopt(self, other: Any) -> None:
        """Be what SciPy's spline is."""
        inner, self.c = other.get_knots(), other.get_coeffs()
        self.k = len(self.c) - len(inner) + 1
        self.t = np.pad(inner, self.k, "edge")
        self.residual, self.ext = other.get_residual(), other.ext

    @classmethod
    def from_scipy(cls, other: Any) -> "UnivariateSpline":
        """The same as a spline of SciPy's."""
        made = object.__new__(cls)
        made._adopt(other)
        return made

    @property
    def _tck(self) -> tuple[Any, Any, int]:
        return self.t, self.c, self.k

    def __call__(self, x: Any, nu: int = 0, ext: Any = None) -> Any:
        """The values at places, or derivatives of order nu: an array of x's shape, in float64."""
        if not typeof(value(x)).size:
            return fnp.zeros(0)
        return splev(x, self._tck, nu, self.ext if ext is None else _mode(ext))

    def get_knots(self) -> Any:
        """The knots from end to end, each end once."""
        return self.t[self.k : typeof(self.t).shape[0] - self.k]

    def get_coeffs(self) -> Any:
        """The coefficients of the basis functions."""
        return self.c

    def get_residual(self) -> Any:
        """The sum of weighted squared differences from the samples; None of a derivative."""
        return self.residual

    def integral(self, a: Any, b: Any) -> Any:
        """The integral from a to b of the spline, which is zero outside of its ends."""
        return splint(a, b, self._tck)

    def derivatives(self, x: Any) -> Any:
        """All derivatives at a place, from the value to that of order k."""
        return spalde(x, self._tck)

    def derivative(self, n: int = 1) -> "UnivariateSpline":
        """The derivative of order n, a spline of lower degree."""
        if static_int(n, "n") > self.k:
            raise ValueError(f"Order of derivative (n = {n}) must be <= order of spline ({self.k})")
        return self._other(BSpline(*self._tck).derivative(n), 1 if self.ext == 3 else self.ext)

    def antiderivative(self, n: int = 1) -> "UnivariateSpline":
        """The integral from the first knot, of order n, a spline of higher degree."""
        return self._other(BSpline(*self._tck).antiderivative(n), self.ext)

    def _other(self, spline: BSpline, ext: int) -> "UnivariateSpline":
        made = object.__new__(UnivariateSpline)
        made._keep(spline, None, ext)
        return made

    def roots(self) -> Any:
        """The zeros of a cubic spline of plain coefficients, from the left.

        Raises:
            NotImplementedError: another degree.
            RuleError: traced coefficients: how many zeros there are depends on their values.
        """
        if self.k != 3:
            raise NotImplementedError("finding roots unsupported for non-cubic splines")
        if isinstance(self.c, Tracer) or isinstance(self.t, Tracer):
            raise RuleError(
                "UnivariateSpline.roots was asked of a traced spline.",
                "scipy.optimize.brentq finds one zero between two places, with derivatives.",
            )
        padded = np.pad(self.c, (0, 4))
        return scipys_own("sproot", (self.t, padded, 3), 3 * len(self.t))


@registered(*_PARTS)
@explained_methods
class InterpolatedUnivariateSpline(UnivariateSpline):
    """The spline through samples.

    Args:
        x, y, w, bbox, k, ext, check_finite: as in `UnivariateSpline`; weights count for nothing.

    Raises:
        ValueError: what SciPy refuses.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import InterpolatedUnivariateSpline
        >>> x = np.arange(5.0)
        >>> ftrace.grad(lambda y: InterpolatedUnivariateSpline(x, y, k=1)(1.5))(x**2)
        array([0. , 0.5, 0.5, 0. , 0. ])
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        w: Any = None,
        bbox: Sequence[Any] = (None, None),
        k: int = 3,
        ext: Any = 0,
        check_finite: bool = False,
    ) -> None:
        given = x, y, w, list(bbox), k, ext, check_finite
        fitted = scipys_own("InterpolatedUnivariateSpline", *given)
        if fitted is None:
            self._through(x, y, bbox, k, ext)
        else:
            self._adopt(fitted)


@registered(*_PARTS)
@explained_methods
class LSQUnivariateSpline(UnivariateSpline):
    """The spline of given knots that is nearest to samples, by weighted least squares.

    Args:
        x, y, w, bbox, k, ext, check_finite: as in `UnivariateSpline`.
        t: knots between the ends, a vector that increases.

    Raises:
        ValueError: what SciPy refuses, such as knots with no sample between them.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import LSQUnivariateSpline
        >>> x = np.arange(6.0)
        >>> ftrace.jit(lambda y: LSQUnivariateSpline(x, y, [2.5])(2.0))(x**3).round(6)
        np.float64(8.0)
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        t: Any,
        w: Any = None,
        bbox: Sequence[Any] = (None, None),
        k: int = 3,
        ext: Any = 0,
        check_finite: bool = False,
    ) -> None:
        given = x, y, t, w, list(bbox), k, ext, check_finite
        fitted = scipys_own("LSQUnivariateSpline", *given)
        if fitted is not None:
            self._adopt(fitted)
            return
        x, y, t = (floats(v) for v in (x, y, t))
        weights = fnp.ones_like(x) if w is None else floats(w)
        spline = make_lsq_spline(x, y, between_ends(t, x, k, tuple(bbox)), k, weights)
        self._keep(spline, fnp.sum(fnp.square(weights * (y - spline(x)))), ext)
