"""Splines as FITPACK has them, in tuples of knots, coefficients and a degree: splrep and splev."""

from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import RuleError
from ftrace.numpy.promote import static_int, value
from ftrace.numpy.refusing import refuse
from ftrace.scipy.borrowing import RefusedError, scipys
from ftrace.scipy.interpolate.basis_splines import BSpline, make_interp_spline


@scipys("scipy.interpolate", asked=False)
def splrep(
    x: Any,
    y: Any,
    w: Any = None,
    xb: Any = None,
    xe: Any = None,
    k: int = 3,
    task: int = 0,
    s: Any = None,
    t: Any = None,
    full_output: int = 0,
    per: int = 0,
    quiet: int = 1,
) -> Any:
    """The spline of a degree through samples, as a tuple for `splev`.

    Args:
        x: places, a vector that increases.
        y: values, one for each.
        w: weights, which count for nothing where all samples are met.
        k: the degree, 1 to 5.
        s: 0: a spline that smooths chooses knots by values. None is 0 without weights.
        quiet: not looked at.
        xb, xe, task, t, full_output, per: as they are by default.

    Returns:
        Knots, coefficients with k + 1 zeros behind, and the degree.

    Raises:
        TypeError: another degree, fewer samples than it needs, or another number of values.
        ValueError: places that do not increase.
        RuleError: a spline that smooths, is periodic, or has knots or ends of its own.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import splev, splrep
        >>> x = np.arange(6.0)
        >>> ftrace.jit(lambda y: splev(1.5, splrep(x, y)))(x**3).round(6)
        np.float64(3.375)
    """
    x, y = (fnp.astype(fnp.atleast_1d(value(v)), np.float64) for v in (x, y))
    m, k = typeof(x).shape[0], static_int(k, "k")
    if typeof(x).shape != (m,) or typeof(y).shape != (m,):
        raise RefusedError("Lengths of the first three arguments (x,y,w) must be equal")
    if not 1 <= k <= 5 or m <= k:
        raise RefusedError("The degree is 1 to 5, and there are more samples.")
    smoothing = w is not None if s is None else float(s) != 0
    others = (xb, xe, t)
    if smoothing or task or per or full_output or any(v is not None for v in others):
        raise RuleError(
            "splrep was asked for a spline that smooths, is periodic, or has ends or knots given.",
            "Pass s=0, or call SciPy's on plain values.",
        )
    if w is not None and typeof(fnp.atleast_1d(value(w))).shape != (m,):
        raise RefusedError(f"len(w) is not equal to {m}")
    refuse(~(fnp.diff(x) > 0), ValueError, "splrep takes places x that increase.")
    spline = make_interp_spline(x, y, k)
    return spline.t, fnp.pad(spline.c, (0, k + 1)), k


@scipys("scipy.interpolate", asked=False)
def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """The values of a spline, or of a derivative of it.

    Args:
        x: places, an array.
        tck: knots, coefficients and degree, as `splrep` gives them: coefficients of several curves
            are a list of vectors. Or a `BSpline` of numbers.
        der: the order of the derivative, at most the degree.
        ext: outside: 0 extrapolates, 1 is zero, 2 an error, and 3 has the value at the end.

    Returns:
        An array of x's shape, in float64; a list of them for several curves.

    Raises:
        ValueError: another order or `ext`; places outside for `ext=2`.
        ShapeError: too few knots or coefficients.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import splev, splrep
        >>> tck = splrep(np.arange(4.0), np.arange(4.0) ** 2)
        >>> ftrace.grad(lambda x: splev(x, tck))(1.5).round(6)
        np.float64(3.0)
    """
    at = fnp.astype(value(x), np.float64)
    if hasattr(tck, "t"):
        if typeof(value(tck.c)).ndim > 1 or ext:
            raise RefusedError("A BSpline has one curve, and extrapolates.")
        return BSpline(tck.t, tck.c, tck.k)(at, der)
    t, c, k = tck
    if typeof(value(c[0])).ndim:
        return [splev.__wrapped__(at, (t, one, k), der, ext) for one in c]  # type: ignore[attr-defined]
    der, k = static_int(der, "der"), static_int(k, "The degree")
    if not 0 <= der <= k:
        raise RefusedError(f"0<=der={der}<=k={k} must hold")
    if ext not in (0, 1, 2, 3):
        raise RefusedError(f"ext = {ext} not in (0, 1, 2, 3)")
    spline = BSpline(t, c, k)
    low, high = spline.t[k], spline.t[typeof(spline.t).shape[0] - k - 1]
    outside = (at < low) | (at > high)
    if ext == 2:
        refuse(outside, ValueError, "Found x value not in the domain")
    if ext == 3 and not der:
        at = fnp.clip(at, low, high)
    found = spline(at, der)
    return fnp.where(outside, 0.0, found) if ext == 1 else found
