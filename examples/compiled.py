"""Plain functions, compiled: what one native program makes of work that NumPy does step by step.

Each `Case` is a jitted function beside the same work written by hand in NumPy or Python, without
ftrace; their results must agree. NumPy runs one loop over memory per operation and Python one step
per turn, the compiled program one loop over vectors with everything inside. Both sides use one
thread. The comparison is printed by `demo.py` and drawn by `pictures.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import projectile
import timing

import ftrace

SIZE = 1_000_000
ROUNDS = 9


def f(x):
    y = np.sin(x)
    z = x * y
    return z + np.exp(-x)


def slope_by_hand(x):
    """The derivative of `f`, on paper."""
    return np.sin(x) + x * np.cos(x) - np.exp(-x)


def rosenbrock(x):
    """The optimisers' banana valley in any number of dimensions."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_slope_by_hand(x):
    """The gradient of `rosenbrock`, on paper."""
    step = x[1:] - x[:-1] ** 2
    out = np.zeros_like(x)
    out[1:] += 200.0 * step
    out[:-1] -= 400.0 * x[:-1] * step + 2.0 * (1.0 - x[:-1])
    return out


def softmax(scores):
    """Every row as probabilities."""
    exps = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exps / exps.sum(axis=1, keepdims=True)


def standardised(x):
    """Every row with mean 0 and variance 1."""
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5)


slope = ftrace.jit(ftrace.vmap(ftrace.grad(f)))


@dataclass
class Case:
    """One piece of work: a jitted function, the same by hand, and the arguments of both."""

    name: str
    jitted: Callable[..., object]
    by_hand: Callable[..., object]
    args: tuple[object, ...]


@dataclass
class Result:
    """Seconds of one case (medians; `first` is the call that traces and compiles), and counts."""

    name: str
    by_hand: float
    uncompiled: float
    compiled: float
    first: float
    kernels: int
    library_rows: int
    difference: float


def cases() -> list[Case]:
    """What is compared."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 2.0, SIZE)
    rows = rng.normal(size=(1000, SIZE // 1000))
    gradient = ftrace.jit(ftrace.grad(rosenbrock))
    return [
        Case("slope of f", slope, slope_by_hand, (x,)),
        Case("Rosenbrock gradient", gradient, rosenbrock_slope_by_hand, (x,)),
        Case("softmax of rows", ftrace.jit(softmax), softmax, (rows,)),
        Case("standardised rows", ftrace.jit(standardised), standardised, (rows,)),
        Case("aiming by Newton", projectile.aim, projectile.aim_by_hand, (0.08,)),
    ]


def compare(case: Case) -> Result:
    """Measure one case; all three ways take turns."""
    first = timing.seconds(partial(case.jitted, *case.args))
    calls = {
        "by hand": partial(case.by_hand, *case.args),
        "uncompiled": partial(timing.uncompiled, case.jitted, *case.args),
        "compiled": partial(case.jitted, *case.args),
    }
    times = timing.medians(calls, ROUNDS)
    expected, found = (np.asarray(calls[name]()) for name in ("by hand", "compiled"))
    cost = case.jitted.lower(*case.args).cost()
    return Result(
        name=case.name,
        by_hand=times["by hand"],
        uncompiled=times["uncompiled"],
        compiled=times["compiled"],
        first=first,
        kernels=cost.kernels,
        library_rows=cost.library_rows,
        difference=float(np.max(np.abs(found - expected)) / np.max(np.abs(expected))),
    )
