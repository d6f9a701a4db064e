"""Step 0, what the memory gives, and of step 1 that arithmetic has NumPy's bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.cases.functions import over
from benchmarks.gpu import cuda
from benchmarks.gpu.case import Case, ends, numbers

COPIES = {"tiny": (1 << 12,), "quick": (1 << 30,), "full": (1 << 30, 1 << 32)}  # bytes
SIDES = {"tiny": (64,), "quick": (2048, 8192), "full": (512, 1024, 2048, 4096, 8192)}
STREAMS = ((1, 1), (5, 4), (3, 2))  # besides the cell's four and four


def arithmetic(xp, x, y):
    """What IEEE 754 fixes to the last bit."""
    return xp.sqrt(x * y + x) / (y + 2.0 * x) - y * y, x + y * x


def _sums(reads: int, writes: int):
    def reference(*arrays):
        total = sum(arrays)
        return [total + j + 1.0 for j in range(writes)]

    return reference


def _streams(n: int, reads: int, writes: int) -> Case:
    return Case(
        step=0,
        name=f"floor: {reads} in, {writes} out, n={n}",
        inputs=lambda: tuple(numbers((n, n), k) for k in range(reads)),
        builds={"cuda": cuda.streams(reads, writes)},
        reference=_sums(reads, writes),
        moved=4 * n * n * (reads + writes),
        unit=4 * n * n,
        part=ends(4),
    )


def cases(scale: str) -> Iterator[Case]:
    """Copies, streams, and bits."""
    for size in COPIES[scale]:
        yield Case(
            step=0,
            name=f"floor: copy of {size >> 20} MB",
            inputs=lambda size=size: (numbers((size // 4096, 1024)),),
            builds={"cuda": cuda.copied},
            reference=lambda x: [x],
            moved=2 * size,
            part=ends(4),
        )
    for n in SIDES[scale]:
        yield _streams(n, 4, 4)
    for reads, writes in STREAMS:
        yield _streams(max(SIDES[scale]), reads, writes)
    yield Case(
        step=0,
        name="floor: 50 empty kernels",
        inputs=lambda: (numbers((1024,)),),
        builds={"cuda": cuda.nothing(50)},
        reference=lambda x: [x],
        work=50,
    )
    yield Case(
        step=1,
        name="bits of + - * / sqrt",
        inputs=lambda: (numbers((33, 129)), numbers((129,), 1, 1.0, 3.0)),
        builds={"ftrace": lambda s: s.jit(over(s.np, arithmetic))},
        reference=lambda x, y: arithmetic(np, x, y),
        exact=True,
    )
