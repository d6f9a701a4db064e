"""What one un-jitted derivative of a scalar program costs: fifty operations, no array work."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Case
from benchmarks.cases.functions import over

ROUNDS = 10


def _fifty(xp, x):
    y = x
    for _ in range(ROUNDS):
        y = xp.sin(y) * x
        y = y + xp.cos(y) * 0.5
    return y


def _slope(x):
    y, d = x, 1.0
    for _ in range(ROUNDS):
        y, d = np.sin(y) * x, np.cos(y) * d * x + np.sin(y)
        y, d = y + np.cos(y) * 0.5, d - np.sin(y) * d * 0.5
    return [np.asarray(d)]


CASES = [
    Case(
        name="un-jitted grad of 50 scalar ops",
        inputs=lambda: (np.float64(0.7),),
        reference=_slope,
        body=lambda s: s.grad(over(s.np, _fifty)),
        skip=("torchc",),
        quick=True,
    )
]
