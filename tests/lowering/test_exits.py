"""What only the exit of a loop looks at stands behind it, and keeps its bits."""

import numpy as np
import pytest

from ftrace.lowering.kernel.ir import While
from ftrace.lowering.kernel.reference import run
from ftrace.lowering.kernel.traversal import inside
from ftrace.lowering.kernel.verify import verify
from ftrace.lowering.kernel_passes.sinking import exits
from tests.lowering.kernels import SAMPLES
from tests.lowering.repetitions import repetition


def results(kernel, sample):
    operands = sample.operands()
    with np.errstate(all="ignore"):
        run(kernel, operands, sample.scalars)
    return {name: memory.tobytes() for name, (memory, _, _) in operands.items()}


def changed(sample):
    new = exits(sample.kernel)
    verify(new)
    return new


@pytest.mark.sampled(2)
@pytest.mark.parametrize("block", range(40))
def test_random_loops_keep_their_bits(block):
    for seed in range(20 * block, 20 * block + 20):
        sample = repetition(seed)
        verify(sample.kernel)
        assert results(changed(sample), sample) == results(sample.kernel, sample), seed


@pytest.mark.parametrize("name", SAMPLES)
def test_kernels_written_by_hand_keep_their_bits(name):
    sample = SAMPLES[name]()
    assert results(changed(sample), sample) == results(sample.kernel, sample)


def loops(kernel):
    return [s for s in inside(kernel.body) if isinstance(s, While)]


def test_random_loops_are_changed_in_many_ways():
    counts = {"behind": 0, "dropped": 0, "fewer": 0, "new": 0}
    for seed in range(200):
        sample = repetition(seed)
        (old,), (new,) = loops(sample.kernel), loops(changed(sample))
        counts["fewer"] += len(new.body.stmts) < len(old.body.stmts)
        counts["dropped"] += len(set(old.params) - set(new.params)) > 0
        counts["new"] += len(set(new.params) - set(old.params)) > 0
        made = {v for s in old.body.stmts for v in (getattr(s, "out", None),)}
        lane = next(s for s in exits(sample.kernel).body.stmts if hasattr(s, "body"))
        at = lane.body.stmts.index(new)
        counts["behind"] += any(
            getattr(s, "out", None) in made or getattr(s, "out", None) in old.outs
            for s in lane.body.stmts[at:]
        )
    assert min(counts.values()) >= 20, counts
