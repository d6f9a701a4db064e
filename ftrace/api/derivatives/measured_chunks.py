"""The number of directions of a pass that is fastest: measured once for a program and a machine.

How many fit in registers and caches, and what is computed once for all of them, depends on the
function: of two functions of 12,000 numbers one is fastest by single directions, the other by
hundreds. A loop over some passes is compiled for a few sizes and timed on random numbers. What was
found is kept beside compiled code on disk, under a name made of the program and the machine.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final

import numpy as np

from ftrace.control.rows.jit import jit_call
from ftrace.core import disk_cache
from ftrace.core import trace as core
from ftrace.core.avals import ShapedArray
from ftrace.core.config import config
from ftrace.core.device import LIBRARIES
from ftrace.core.dtypes import is_inexact
from ftrace.core.jaxpr import Jaxpr, subjaxprs
from ftrace.core.kinds import layout
from ftrace.core.primitive import RAISES
from ftrace.core.trace import Tracer

SIZES: Final = (1, 4, 16, 64, 256)
DIRECTIONS: Final = 1024  # of a measured loop, where there are as many
ROUNDS: Final = 3

# a loop over passes of some size: its program, and the values of outer traces that it captured
Loop = tuple[Jaxpr, Sequence[Tracer]]
_known: Final[dict[str, int]] = {}


def fastest(loop: Callable[[int, int], Loop], total: int, otherwise: int) -> int:
    """The size of passes that takes least time for each direction.

    Args:
        loop: (directions of a pass, number of passes) -> the program of a loop over passes.
        total: how many directions there are.
        otherwise: what to take where nothing can be measured: where results must not depend on
            a measurement (`config.deterministic`), and of programs that end when their values
            say so, act on the outside, or run on a device.
    """
    if config.deterministic or not config.compile or config.disable_jit:
        return otherwise
    sizes = [n for n in SIZES if n <= total]
    first = _made(loop, sizes[0], total)
    if not _is_measurable(first[0]):
        return otherwise
    name = disk_cache.name_of("chunk", str(first[0]), total, config.threads, _machine())
    if name not in _known:
        kept = disk_cache.read(name)
        _known[name] = int(kept) if kept else _measured(loop, sizes, total, otherwise)
        if not kept:
            disk_cache.write(name, str(_known[name]).encode())
    return _known[name]


def _made(loop: Callable[[int, int], Loop], size: int, total: int) -> Loop:
    return loop(size, max(1, min(total, DIRECTIONS) // size))


def _machine() -> tuple[str, str, int | None]:
    return platform.node(), platform.machine(), os.cpu_count()


def _is_measurable(jaxpr: Jaxpr) -> bool:
    """Whether a program ends, acts on nothing, and stays on the host, whatever its operands are."""
    if jaxpr.effects - {RAISES} or (LIBRARIES and any(type(c) in LIBRARIES for c in jaxpr.consts)):
        return False
    loops = filter(None, map(layout, jaxpr.eqns))
    if any(loop.length is None for loop in loops):
        return False
    return all(_is_measurable(inner) for e in jaxpr.eqns for _, inner in subjaxprs(e.params))


def _measured(
    loop: Callable[[int, int], Loop], sizes: Sequence[int], total: int, otherwise: int
) -> int:
    seconds: dict[int, float] = {}
    for size in sizes:
        jaxpr, captured = _made(loop, size, total)
        rng = np.random.default_rng(0)
        values = [_drawn(rng, t.aval) for t in captured]
        passes = max(1, min(total, DIRECTIONS) // size)
        try:
            least = core.run(core.EVAL, _seconds, jaxpr, values)
        except Exception:  # of random numbers: a singular matrix, an index out of range
            return otherwise
        seconds[size] = least / (passes * size)
    return min(seconds, key=seconds.__getitem__)


def _drawn(rng: np.random.Generator, a: ShapedArray) -> Any:
    if not is_inexact(a.dtype):
        return np.zeros(a.shape, a.dtype)[()]
    return rng.uniform(0.5, 1.5, a.shape).astype(a.dtype)[()]


def _seconds(jaxpr: Jaxpr, values: Sequence[Any]) -> float:
    """The least time of some runs after a first one, which compiles."""
    times: list[float] = []
    for _ in range(ROUNDS + 1):
        start = perf_counter()
        jit_call(*values, jaxpr=jaxpr, name="chunks")
        times.append(perf_counter() - start)
    return min(times[1:])
