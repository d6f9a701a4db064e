"""Times of functions that do the same work: medians of calls that take turns.

Taking turns lets a busy machine slow all of them alike. The first call of each is not counted here:
it is where a jitted function is traced and compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

import ftrace


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    start = perf_counter()
    call()
    return perf_counter() - start


def medians(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median time of each call in seconds, after one call that is not counted."""
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return {name: median(found) for name, found in times.items()}


def uncompiled(jitted: Callable[..., object], *args: object) -> object:
    """A call of a jitted function with `jit` switched off, inside it too."""
    with ftrace.disable_jit():
        return jitted(*args)
