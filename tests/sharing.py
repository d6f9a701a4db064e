"""All loops that threads can share are shared, and leave the bits of one thread.

`FTRACE_CPU=sse2 pytest --shared tests/laws tests/programs` compiles every program twice: as three
threads share it, whatever that costs, and for one thread. Where no Python runs in the middle both
run at each call, and every byte must be the same. Short vectors make many ranges of few elements.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ftrace.core.config import set_default
from ftrace.core.tapes import is_tape
from ftrace.cpu.cpu_backend import CpuBackend
from ftrace.lowering.kernel.launching import Launch
from ftrace.lowering.planning import thread_sharing
from ftrace.lowering.program.program import Apply, BranchStep, Program, Repeat, Scan, Step

THREADS = 3


def share_everything() -> None:
    """As above, for the rest of the process."""
    thread_sharing.WORTH = thread_sharing.AWAKE = 0.0
    thread_sharing.EACH, thread_sharing.FEWEST = 1e-3, 1
    set_default(threads=THREADS)
    compiled = CpuBackend.compile

    def compile_twice(self: Any, program: Program) -> Callable[[Sequence[Any]], list[Any]]:
        run = compiled(self, program)
        tapes = any(is_tape(slot.aval) for slot in program.slots)
        if tapes or program.callbacks or not program.sharing:
            return run
        alone = compiled(self, replace(program, steps=_alone(program.steps)))

        def both(args: Sequence[Any]) -> list[Any]:
            found, want = run(args), alone(args)
            for a, b in zip(found, want, strict=True):
                assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), (a, b)
            return found

        return both

    CpuBackend.compile = compile_twice  # type: ignore[method-assign]


def _alone(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps of which one thread runs all."""
    found: list[Step] = []
    for step in steps:
        match step:
            case Launch():
                found.append(replace(step, schedule=replace(step.schedule, shared=())))
            case Apply():
                found.append(replace(step, threads=-1))
            case Repeat():
                found.append(replace(step, cond=_alone(step.cond), body=_alone(step.body)))
            case Scan():
                found.append(replace(step, body=_alone(step.body)))
            case BranchStep():
                found.append(replace(step, arms=tuple(map(_alone, step.arms))))
            case _:
                found.append(step)
    return tuple(found)
