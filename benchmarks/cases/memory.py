"""The peak resident set of a long recurrence's gradient, plain and with checkpoints."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Case, random

STEPS, SEGMENT, SIZE = 1000, 25, 100_000


def _gradient(s, checkpointed):
    def step(x, _):
        return s.np.sin(x) * 0.999 + 0.01

    def segment(x):
        return s.scan(step, x, SEGMENT)

    def loss(x):
        if not checkpointed:
            return s.np.sum(s.scan(step, x, STEPS))
        kept = s.checkpoint(segment)
        return s.np.sum(s.scan(lambda x, _: kept(x), x, STEPS // SEGMENT))

    return s.grad(loss)


def _reference(x):
    slope = np.ones_like(x)
    for _ in range(STEPS):
        slope *= 0.999 * np.cos(x)
        x = np.sin(x) * 0.999 + 0.01
    return [slope]


CASES = [
    Case(
        name=f"peak RSS, {STEPS}-step recurrence, {'checkpoint' if checkpointed else 'plain'} 1e5",
        inputs=lambda: random((SIZE,)),
        reference=_reference,
        body=lambda s, checkpointed=checkpointed: _gradient(s, checkpointed),
        skip=("torchc",),
        kind="memory",
    )
    for checkpointed in (False, True)
]
