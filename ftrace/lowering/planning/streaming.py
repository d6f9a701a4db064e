"""Streaming: results so large that no cache keeps them are written past the caches.

An ordinary store reads the line that it will write. Where a kernel writes many megabytes that it
does not look at again, nor does the rest of the program, that is a third of its traffic for
nothing. The choice is made for a whole program, and noted in the schedules of its kernels.
"""

from dataclasses import replace
from typing import Final

from ftrace.lowering.kernel.ir import Load
from ftrace.lowering.kernel.launching import Launch
from ftrace.lowering.kernel.traversal import inside
from ftrace.lowering.program.program import (
    RESULT,
    Accumulate,
    Apply,
    BranchStep,
    Callback,
    Copy,
    Multiply,
    Program,
    ScatterStep,
    Step,
    every,
    windows_of,
)

LARGE: Final = 1 << 25  # bytes that a kernel writes; of less, much is still in a cache


def stream(program: Program) -> Program:
    """The program with streaming where it is worth it; its loops and branches are left alone."""
    read = {k for step in every(program.steps) for k in _read(step, program)}
    steps = tuple(
        _streamed(step, program, read) if isinstance(step, Launch) else step
        for step in program.steps
    )
    return replace(program, steps=steps)


def _read(step: Step, program: Program) -> list[int]:
    """The slots that a step reads."""
    if isinstance(step, Launch):
        pairs = zip(step.kernel.buffers, step.operands, strict=True)
        return [o.slot for b, o in pairs if b.space == "in"]
    if isinstance(step, Copy | Accumulate):
        return [step.source]
    if isinstance(step, Callback):
        return [k for k in program.callbacks[step.number].operands if k is not None]
    if isinstance(step, Multiply):
        return [step.lhs, step.rhs]
    if isinstance(step, ScatterStep):
        return [step.out, step.updates, step.places]
    if isinstance(step, Apply):
        return [*step.inputs]
    if isinstance(step, BranchStep):
        return [step.index]
    return [w.base for w in windows_of(step)]


def _streamed(launch: Launch, program: Program, read: set[int]) -> Launch:
    kernel = launch.kernel
    again = {s.buffer for s in inside(kernel.body) if isinstance(s, Load)}
    written = {
        b.name: program.slots[o.slot]
        for b, o in zip(kernel.buffers, launch.operands, strict=True)
        if b.space == "out" and b.name not in again and o.slot not in read
    }
    names = [name for name, slot in written.items() if slot.place == RESULT]
    total = sum(written[n].aval.size * written[n].aval.dtype.itemsize for n in names)
    if total < LARGE:
        return launch
    return replace(launch, schedule=replace(launch.schedule, streams=tuple(names)))
