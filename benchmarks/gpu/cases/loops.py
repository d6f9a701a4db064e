"""Step 6: Kepler's equation by Newton's method in every thread, and its derivatives.

Elements need different numbers of turns; a framework whose loops are over arrays passes through
memory once a turn, or until the slowest is done. Read next: `launches.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.gpu.case import Case, ends, numbers

COUNT = {"tiny": 1000, "quick": 1 << 24, "full": 1 << 24}
CLOSE = 2e-5
TURNS = 8  # of Newton's method with a fixed number
CHECKED = 1 << 16


def anomaly(m, e):
    """Solves x - e sin x = m, of two numbers."""
    x = m + e * math.sin(m)
    step = 1.0
    turns = 0
    while abs(step) > CLOSE and turns < 50:
        step = (x - e * math.sin(x) - m) / (1.0 - e * math.cos(x))
        x = x - step
        turns = turns + 1
    return x


def of_arrays(xp: Any, m: Any, e: Any, turns: int) -> Any:
    """The same with a fixed number of turns."""
    x = m + e * xp.sin(m)
    for _ in range(turns):
        x = x - (x - e * xp.sin(x) - m) / (1.0 - e * xp.cos(x))
    return x


def solution(m: Any, e: Any) -> list[Any]:
    """Value and both partials in float64."""
    x = of_arrays(np, m, e, 30)
    slope = 1.0 / (1.0 - e * np.cos(x))
    return [x, slope, np.sin(x) * slope]


def _looped(s: Any) -> Any:
    def one(m: Any, e: Any) -> Any:
        def more(state: Any) -> Any:
            _, step, turns = state
            return (s.np.abs(step) > CLOSE) & (turns < 50)

        def turn(state: Any) -> Any:
            x, _, turns = state
            step = (x - e * s.np.sin(x) - m) / (1.0 - e * s.np.cos(x))
            return x - step, step, turns + 1

        start = m + e * s.np.sin(m)
        return s.while_loop(more, turn, (start, s.np.ones_like(start), 0))[0]

    return one


def _partials_of_jax(s: Any) -> Any:
    one = _looped(s)

    def twice(m: Any, e: Any) -> Any:
        x = one(m, e)
        return x, x

    both = s.mod.jacfwd(twice, (0, 1), has_aux=True)
    return s.jit(lambda m, e: s.vmap(both)(m, e)[::-1])


def _partials_of_torch(s: Any) -> Any:
    both = s.value_and_pull(lambda m, e: of_arrays(s.np, m, e, TURNS))
    return s.jit(lambda m, e: both(s.np.zeros_like(m) + 1.0, m, e))


def _inputs(count: int) -> tuple[Any, ...]:
    return numbers((count,), 0, 0.0, 6.2), numbers((count,), 1, 0.0, 0.8)


def cases(scale: str) -> Iterator[Case]:
    """Value, and value with partials."""
    count = COUNT[scale]
    common: Any = {
        "step": 6,
        "inputs": lambda: _inputs(count),
        "part": ends(CHECKED),
        "unit": 4 * count,
    }
    yield Case(
        name="loop: Kepler's equation",
        builds={
            "ftrace": lambda s: s.vectorize(anomaly),
            "jax": lambda s: s.jit(s.vmap(_looped(s))),
            "torchc: 8 turns": lambda s: s.jit(lambda m, e: of_arrays(s.np, m, e, TURNS)),
        },
        reference=lambda m, e: solution(m, e)[:1],
        moved=12 * count,
        tolerance=1e-4,
        **common,
    )
    yield Case(
        name="loop: Kepler's equation with partials",
        builds={
            "ftrace": lambda s: s.mod.elementwise_partials(anomaly),
            "jax": _partials_of_jax,
            "torchc: 8 turns": _partials_of_torch,
        },
        reference=solution,
        moved=20 * count,
        tolerance=1e-3,
        **common,
    )
