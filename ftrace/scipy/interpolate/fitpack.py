"""Splines as FITPACK has them, in tuples of knots, coefficients and a degree.

Made of samples on a line (`splrep`) or along a curve (`splprep`), evaluated (`splev`, `spalde`) and
integrated (`splint`).
"""

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
    if _curves(c):
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


def _curves(c: Any) -> bool:
    """Whether coefficients are those of several curves."""
    return len(c) > 0 and bool(typeof(value(c[0])).ndim)


@scipys("scipy.interpolate", asked=False)
def splint(a: Any, b: Any, tck: Any, full_output: int = 0) -> Any:
    """The integral of a spline, which is zero outside of its ends.

    Args:
        a, b: from where to where, numbers.
        tck: as in `splev`.
        full_output: as it is by default.

    Returns:
        A number; a list of them for several curves.

    Raises:
        RuleError: `full_output`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import splint, splrep
        >>> tck = splrep(np.arange(4.0), np.arange(4.0) ** 2)
        >>> ftrace.grad(lambda b: splint(0.0, b, tck))(1.5).round(6)
        np.float64(2.25)
    """
    if full_output:
        raise RuleError("splint was asked for its full output.", "Call SciPy's on plain values.")
    if typeof(value(a)).size != 1 or typeof(value(b)).size != 1:
        raise RefusedError("The ends of an integral are numbers.")
    t, c, k = (tck.t, tck.c, tck.k) if hasattr(tck, "t") else tck
    if _curves(c):
        return [splint.__wrapped__(a, b, (t, one, k)) for one in c]  # type: ignore[attr-defined]
    return BSpline(t, c, static_int(k, "The degree")).integrate(a, b, False)


@scipys("scipy.interpolate", asked=False)
def spalde(x: Any, tck: Any) -> Any:
    """The values of a spline and of all its derivatives.

    Args:
        x: a place, or a vector of them.
        tck: as in `splev`.

    Returns:
        A vector from the value to the derivative of order k; for a vector of places, or for several
        curves, a list of such.

    Raises:
        ValueError: places outside.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import spalde, splrep
        >>> tck = splrep(np.arange(4.0), np.arange(4.0) ** 2)
        >>> ftrace.jit(lambda x: spalde(x, tck))(1.5)[:3].round(6)
        array([2.25, 3.  , 2.  ])
    """
    t, c, k = (tck.t, tck.c, tck.k) if hasattr(tck, "t") else tck
    if _curves(c):
        return [spalde.__wrapped__(x, (t, one, k)) for one in c]  # type: ignore[attr-defined]
    at = fnp.atleast_1d(fnp.astype(value(x), np.float64))
    orders = range(static_int(k, "The degree") + 1)
    found = fnp.stack([splev.__wrapped__(at, (t, c, k), j, 2) for j in orders], -1)  # type: ignore[attr-defined]
    return list(found) if typeof(at).shape[0] > 1 else found[0]


@scipys("scipy.interpolate", asked=False)
def splprep(
    x: Any,
    w: Any = None,
    u: Any = None,
    ub: Any = None,
    ue: Any = None,
    k: int = 3,
    task: int = 0,
    s: Any = None,
    t: Any = None,
    full_output: int = 0,
    nest: Any = None,
    per: int = 0,
    quiet: int = 1,
) -> Any:
    """The spline curve of a degree through points, as a tuple for `splev`.

    Args:
        x: a list of vectors of m coordinates.
        u: the parameters of the points, m numbers that increase; None takes distances along the
            polygon, from 0 to 1.
        k: the degree, 1 to 5.
        s: 0: a curve that smooths chooses knots by values.
        w, nest, quiet: not looked at.
        ub, ue, task, t, full_output, per: as they are by default.

    Returns:
        A list of knots, a list of coefficients, and the degree; and the parameters.

    Raises:
        TypeError: another degree, or fewer points than it needs.
        RuleError: a curve that smooths, is periodic, or has knots or ends of its own.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import splev, splprep
        >>> a = np.linspace(0.0, np.pi, 7)
        >>> f = lambda r: splev(0.5, splprep([r * np.cos(a), r * np.sin(a)], s=0)[0])[1]
        >>> ftrace.grad(f)(2.0).round(6)
        np.float64(1.0)
    """
    points = fnp.astype(fnp.stack(list(map(value, x))), np.float64)
    m, k = typeof(points).shape[1], static_int(k, "k")
    if not 1 <= k <= 5 or m <= k:
        raise RefusedError("The degree is 1 to 5, and there are more points.")
    others = (ub, ue, t)
    if s is None or float(s) != 0 or task or per or full_output or others != (None,) * 3:
        raise RuleError(
            "splprep was asked for a curve that smooths, is periodic, or has ends or knots given.",
            "Pass s=0, or call SciPy's on plain values.",
        )
    if u is None:
        steps = fnp.sqrt(fnp.sum(fnp.square(fnp.diff(points, axis=1)), axis=0))
        along = fnp.concatenate([fnp.zeros(1), fnp.cumsum(steps)])
        u = along / along[-1]
    u = fnp.astype(value(u), np.float64)
    spline = make_interp_spline(u, points, k, axis=1)
    return [spline.t, list(spline.c.T), k], u
