"""Step 7: chains of tiny kernels, each of which needs the sum that the one before has made."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases.functions import over
from benchmarks.gpu import cuda
from benchmarks.gpu.case import Case, numbers

LENGTHS = {"tiny": (1, 3), "quick": (1, 10, 50), "full": (1, 3, 10, 50)}
COMPILED = {"tiny": (3,), "quick": (10,), "full": (10,)}
SIZE = 1024


def chain(xp: Any, x: Any, length: int) -> Any:
    """Takes a part of its sum from a vector, again and again."""
    for _ in range(length):
        x = x - 0.0005 * xp.sum(x)
    return x


def _compiled(length: int, s: Any) -> Any:
    return s.jit(over(s.np, partial(_turned, length)))


def _turned(length: int, xp: Any, x: Any) -> Any:
    return chain(xp, x, length)


def _eager(length: int, s: Any) -> Any:
    return lambda x: chain(s.np, x, length)


def _by_graphs_of_torch(length: int, s: Any) -> Any:
    """torch.compile's own CUDA graphs, which cannot be captured again."""
    f = s.mod.compile(over(s.np, partial(_turned, length)), mode="reduce-overhead")

    def run(x: Any) -> Any:
        s.mod.compiler.cudagraph_mark_step_begin()
        return f(x)

    run.graphs = False  # type: ignore[attr-defined]
    return run


def _case(length: int, scale: str) -> Case:
    f = partial(_compiled, length)
    torch = {"torchc": f, "torchc: reduce-overhead": partial(_by_graphs_of_torch, length)}
    return Case(
        step=7,
        name=f"launches: {length}",
        inputs=lambda: (numbers((SIZE,), 0, 0.5, 1.5),),
        reference=lambda x: [chain(np, x, length)],
        builds={
            **{f"cuda: {way}": cuda.chain(way, length) for way in ("RawKernel", "function")},
            "cuda: struct": cuda.chain("struct", length),
            "ftrace": f,
            "jax": f,
            "torch": partial(_eager, length),
            **(torch if length in COMPILED[scale] else {}),
        },
        spread=False,
        work=length,
    )


def cases(scale: str) -> Iterator[Case]:
    """By length."""
    for length in LENGTHS[scale]:
        yield _case(length, scale)
