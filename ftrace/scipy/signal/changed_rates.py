"""Changes of the rate of samples: upfirdn and resample_poly."""

import math
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import ShapeError
from ftrace.core.lazy import lazy
from ftrace.core.trace import Tracer
from ftrace.numpy.promote import one_axis, static_int, value
from ftrace.scipy.borrowing import RefusedError, scipys

_SAMPLES: Final = {
    **{"wrap": "wrap", "edge": "edge", "symmetric": "symmetric", "reflect": "reflect"},
    **{"antisymmetric": "symmetric", "antireflect": "reflect"},
}
"""By mode: the mode of `numpy.pad` that says which samples are outside."""
_MODES: Final = (*_SAMPLES, "constant", "smooth", "line")
_BY_SLOPES: Final = ("smooth", "reflect", "antireflect", "line")
_OF_SAMPLES: Final = {
    "mean": fnp.mean,
    "median": fnp.median,
    "minimum": fnp.min,
    "maximum": fnp.max,
}


def _extended(x: Any, before: int, behind: int, mode: str, cval: Any) -> Any:
    """A signal along a last axis, with samples outside as a mode says.

    Raises:
        ShapeError: too few samples for the mode.
    """
    n, sides = typeof(x).shape[-1], (before, behind)
    margins = [*[(0, 0)] * (typeof(x).ndim - 1), sides]
    if mode == "constant":
        return fnp.pad(x, margins, constant_values=cval)
    if n < 1 + (mode in _BY_SLOPES):
        raise ShapeError(f"upfirdn was given {n} samples.", f"Mode {mode} needs more.")
    places, dtype = np.arange(-before, n + behind), typeof(x).dtype
    first, last = x[..., :1], x[..., -1:]
    if mode in ("smooth", "line"):
        whole = (last - first) / max(n - 1, 1)
        rise, fall = (
            (whole, whole) if mode == "line" else (x[..., 1:2] - first, last - x[..., -2:-1])
        )
        left, right = (p.astype(dtype) for p in (places[:before], places[n + before :] - n + 1))
        return fnp.concatenate([first + rise * left, x, last + fall * right], axis=-1)
    pad: Any = np.pad
    found = x[..., pad(np.arange(n), sides, _SAMPLES[mode])]
    if not mode.startswith("anti"):
        return found
    turn = places // (n if mode == "antisymmetric" else n - 1)
    odd = turn % 2 == 1
    found = fnp.where(odd, -found, found)
    if mode == "antisymmetric":
        return found
    # each turn goes on where the one before has ended; what counts nowhere may be NaN
    for times, end in ((turn + odd, last), (odd - turn, first)):
        found = found + fnp.where(times == 0, 0, times.astype(dtype) * end)
    return found


@scipys("scipy.signal")
def upfirdn(
    h: Any,
    x: Any,
    up: int = 1,
    down: int = 1,
    axis: int = -1,
    mode: str = "constant",
    cval: Any = 0,
) -> Any:
    """A signal with zeros put in, filtered, of which every so manieth sample is kept.

    Args:
        h: the filter's coefficients, a vector.
        x: a signal.
        up: of how many samples each is to be followed by zeros, all but one.
        down: of how many samples the first is kept.
        axis: along which.
        mode: what is outside of the signal: "constant", "wrap", "edge", "smooth", "symmetric",
            "reflect", "antisymmetric", "antireflect" or "line".
        cval: the constant.

    Returns:
        An array of floats or complex numbers.

    Raises:
        ValueError: coefficients that are no vector; rates below 1; another mode.
        ShapeError: fewer samples than the mode needs.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.signal import upfirdn
        >>> ftrace.jit(lambda x: upfirdn([1.0, 0.5], x, 2))(np.array([2.0, 4.0]))
        array([2., 1., 4., 2.])
    """
    h, x, mode = value(h), value(x), mode.lower()
    if typeof(h).ndim != 1 or not typeof(h).size:
        raise RefusedError("h must be 1-D with non-zero length")
    up, down = int(up), int(down)
    if up < 1 or down < 1:
        raise RefusedError("Both up and down must be >= 1")
    if mode not in _MODES:
        raise RefusedError(f"Unknown mode: {mode}")
    dtype = np.result_type(typeof(h).dtype, typeof(x).dtype, np.float32)
    axis = one_axis(axis, typeof(x).ndim)
    h, x = fnp.astype(h, dtype), fnp.moveaxis(fnp.astype(x, dtype), axis, -1)
    # sample m is the sum over j of h[phase + j * up] * x[base - j]
    k, n = typeof(h).size, typeof(x).shape[-1]
    base, phase = np.divmod(np.arange(((n - 1) * up + k - 1) // down + 1) * down, up)
    taps = -(-k // up)
    behind = max(int(base[-1]) - n + 1, 0) if base.size else 0
    wide = _extended(x, taps - 1, behind, mode, cval)
    table = fnp.flip(fnp.reshape(fnp.pad(h, (0, taps * up - k)), (taps, up)).T, -1)
    windows = fnp.sliding_window_view(wide, taps, axis=-1)
    return fnp.moveaxis(fnp.sum(windows[..., base, :] * table[phase], axis=-1), -1, axis)


def _rate(x: Any, name: str) -> int:
    if isinstance(x, Tracer):
        return static_int(x, name)
    if x != int(x):
        raise RefusedError(f"{name} must be an integer")
    return int(x)


@scipys("scipy.signal")
def resample_poly(
    x: Any,
    up: Any,
    down: Any,
    axis: int = 0,
    window: Any = ("kaiser", 5.0),
    padtype: str = "constant",
    cval: Any = None,
) -> Any:
    """A signal at up/down times the rate of its samples, by a filter without a shift of phase.

    Args:
        x: a signal.
        up, down: integers above 0.
        axis: along which.
        window: the name and parameters of a window from which the filter is designed, or a
            vector: the filter's coefficients.
        padtype: a mode of `upfirdn`; or "mean", "median", "minimum" or "maximum" of the samples,
            which are then outside.
        cval: the constant outside, for padtype "constant".

    Returns:
        An array of floats or complex numbers.

    Raises:
        ValueError: rates that are no integers above 0; another padtype; a window that is no
            vector, or has a name that SciPy does not know.
        ShapeError: as in `upfirdn`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.signal import resample_poly
        >>> f = lambda x: resample_poly(x, 1, 2, padtype="line")
        >>> ftrace.jit(f)(np.arange(6.0)).round(6)
        array([0., 2., 4.])
    """
    x = value(x)
    up, down = _rate(up, "up"), _rate(down, "down")
    if up < 1 or down < 1:
        raise RefusedError("up and down must be >= 1")
    if cval is not None and padtype != "constant":
        raise RefusedError("cval has no effect for this padtype")
    if padtype not in _OF_SAMPLES and padtype not in _MODES:
        raise RefusedError(f"There is no padtype {padtype}.")
    common = math.gcd(up, down)
    up, down = up // common, down // common
    if up == down == 1:
        return fnp.copy(x)
    axis = one_axis(axis, typeof(x).ndim)
    n = typeof(x).shape[axis]
    count = -(-n * up // down)
    if isinstance(window, list | np.ndarray | Tracer):
        h = value(window)
        if typeof(h).ndim != 1:
            raise RefusedError("window must be 1-D")
        half = (typeof(h).size - 1) // 2
    else:
        half = 10 * max(up, down)
        h = lazy("scipy.signal", "firwin")(2 * half + 1, 1.0 / max(up, down), window=window)
        h = h.astype(typeof(x).dtype) if typeof(x).dtype.kind in "fc" else h
    # zeros before the filter put its middle on a sample that is kept; those behind add samples
    before = down - half % down
    skipped = (half + before) // down
    least = (skipped + count - 1) * down - (n - 1) * up + 1  # coefficients for as many samples
    behind = max(least - typeof(h).size - before, 0)
    h = fnp.pad(h * up, (before, behind))
    level = _OF_SAMPLES[padtype](x, axis=axis, keepdims=True) if padtype in _OF_SAMPLES else None
    mode = padtype if level is None else "constant"
    x = x if level is None else x - level
    y = upfirdn.__wrapped__(  # type: ignore[attr-defined]
        h, x, up, down, axis, mode, 0 if cval is None else cval
    )
    kept = y[(slice(None),) * axis + (slice(skipped, skipped + count),)]
    return kept if level is None else kept + level
