"""Waves of forms that are said piece by piece."""

import math
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.numpy.promote import promote_inexact, value
from ftrace.scipy.borrowing import scipys


@scipys("scipy.signal")
def sawtooth(t: Any, width: Any = 1) -> Any:
    """A wave of period 2 pi that rises in straight lines from -1 to 1, and falls back.

    Args:
        t: times.
        width: which part of a period it rises, between 0 and 1; it broadcasts with t.

    Returns:
        An array; NaN for another width.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.signal import sawtooth
        >>> ftrace.jit(sawtooth)(np.array([0.0, np.pi / 2, np.pi]))
        array([-1. , -0.5,  0. ])
    """
    t, width, _ = promote_inexact(value(t), value(width), np.float64(0))  # as SciPy's result
    t, width = fnp.broadcast_arrays(t, width)
    phase = fnp.mod(t, 2 * math.pi)
    rises = fnp.less(phase, width * 2 * math.pi)
    up = phase / fnp.where(rises, math.pi * width, 1.0) - 1
    down = (math.pi * (width + 1) - phase) / fnp.where(rises, 1.0, math.pi * (1 - width))
    valid = fnp.greater_equal(width, 0) & fnp.less_equal(width, 1)
    return fnp.where(valid, fnp.where(rises, up, down), math.nan)
