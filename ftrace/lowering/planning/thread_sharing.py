"""Threads: which loops of a kernel are shared by threads, by an estimate of their time.

Waking a thread takes some ten microseconds, so that only loops of several times as many are shared.
Where threads still look for work, inside of loops over kernels and in a sequence of kernels that
together take as long, shorter loops are worth it.
The time of an iteration is estimated from its operations and accesses; that of the whole is a
product with sizes that the plan knows. Which thread runs which iterations changes no result: only
loops whose iterations write different cells are shared, and sums only where their fold has blocks,
whose sums are combined in order. The choice is noted in the kernel's schedule. Loops of NumPy's are
shared along the batch, where they know neither Python nor threads of their own; those of ours that
say how many operations they have share them by themselves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, prod
from typing import Final

import numpy as np

from ftrace.core.scalar import OPS
from ftrace.lowering.kernel.ir import Block, Kernel, Let, Load, Loop, Stmt, Store, While, blocks_of
from ftrace.lowering.kernel.launching import Launch, extents_of
from ftrace.lowering.kernel.schedule import LANE, Schedule, is_shareable
from ftrace.lowering.planning.loop_numbers import core_names
from ftrace.lowering.program.program import Apply, BranchStep, Program, Repeat, Scan, Step

WORTH: Final = 40_000.0  # nanoseconds of a loop that is shared
AWAKE: Final = 12_000.0  # the same inside a loop, where the others have hardly fallen asleep
EACH: Final = 6_000.0  # nanoseconds that a thread should have to do
FEWEST: Final = 8  # ranges of a loop that is shared rather than loops inside it
UNKNOWN: Final = 16  # iterations of a loop whose number only the run knows
SCALAR, VECTOR = 0.3, 0.005  # nanoseconds of an operation, by itself and per byte in lanes
COSTLY: Final = 15.0  # how much longer a function or a quotient takes
ELEMENT: Final = 3.0  # nanoseconds of NumPy's loops for each element of an argument
POINT: Final = 1.5  # the same of Fourier transforms
TRANSFORMS: Final = "numpy.fft._pocketfft_umath"
INEXACT: Final = frozenset("efdgFDG->")  # types of loops that tell nobody what went wrong
ACCESS, GATHER = 1.5, 12.0  # the same of a load or store in a row, and of one at other places


def share(program: Program, threads: int) -> Program:
    """The program with loops that threads share, where that is worth it; `threads`: at most."""
    if threads < 2:
        return program
    table = list(program.table)
    steps = _steps(program.steps, table, threads, WORTH)
    return replace(program, steps=steps, table=tuple(table))


def _steps(steps: Sequence[Step], table: list[int], threads: int, worth: float) -> tuple[Step, ...]:
    found: list[Step] = []
    for step, enough in zip(steps, _worths(steps, table, worth), strict=True):
        match step:
            case Launch():
                found.append(_launch(step, table, threads, enough))
            case Apply():
                found.append(_loop(step, table, threads, enough))
            case Repeat():
                cond, body = (_steps(s, table, threads, AWAKE) for s in (step.cond, step.body))
                found.append(replace(step, cond=cond, body=body))
            case Scan():
                found.append(replace(step, body=_steps(step.body, table, threads, AWAKE)))
            case BranchStep():
                arms = tuple(_steps(arm, table, threads, worth) for arm in step.arms)
                found.append(replace(step, arms=arms))
            case _:
                found.append(step)
    return tuple(found)


def _worths(steps: Sequence[Step], table: Sequence[int], worth: float) -> list[float]:
    """For each step, the nanoseconds of a loop in it that is shared.

    Steps one after another whose shared loops take WORTH together share them from AWAKE on: the
    first wakes the threads, which the others find looking for work.
    """
    found: list[float] = []
    times: list[float] = []  # of the sequence that is not over
    for step in steps:
        shared, alone = _times_of(step, table)
        if alone < AWAKE:
            times.append(shared)
            continue
        found += [AWAKE if sum(times) >= WORTH else worth] * len(times) + [worth]
        times = []
    return found + [AWAKE if sum(times) >= WORTH else worth] * len(times)


def _times_of(step: Step, table: Sequence[int]) -> tuple[float, float]:
    """Nanoseconds of a step's loops that are worth awake threads, and of what one thread does."""
    if isinstance(step, Launch):
        extents = extents_of(step.kernel, step.scalars, table)
        times = _Times(step.kernel, step.schedule, extents)
        shared = sum(time for _, time in times.shared(step.kernel.body, AWAKE))
        return shared, times.whole() - shared
    time = _loop_time(step, table) if isinstance(step, Apply) else 0.0
    if not time:
        return 0.0, inf  # nobody knows
    return (time, 0.0) if time >= AWAKE else (0.0, time)


def _launch(launch: Launch, table: list[int], threads: int, worth: float) -> Launch:
    """A launch with the loops that take so many nanoseconds shared; their threads in the table."""
    extents = extents_of(launch.kernel, launch.scalars, table)
    times = _Times(launch.kernel, launch.schedule, extents)
    found = times.shared(launch.kernel.body, worth)
    if not found:
        return launch
    most = max(time for _, time in found)
    assert launch.threads >= 0, "a kernel for a machine without lanes"
    table[launch.threads] = min(threads, int(most / EACH))
    schedule = replace(launch.schedule, shared=tuple(axis for axis, _ in found))
    return replace(launch, schedule=schedule)


def _loop(step: Apply, table: list[int], threads: int, worth: float) -> Apply:
    """A compiled loop, shared if it takes so many nanoseconds; its threads in the table."""
    time = _loop_time(step, table)
    if not time or time < worth:
        return step
    table.append(min(threads, int(time / EACH)))
    return replace(step, threads=len(table) - 1)


def _loop_time(step: Apply, table: Sequence[int]) -> float:
    """Nanoseconds of a loop that can be shared, 0 for others.

    Not shared are products, systems and sorts: BLAS has threads itself, and the others tell Python
    or the flags of their thread what went wrong. So do SciPy's functions, and powers of integers.
    """
    if step.operations:
        return step.operations * VECTOR * int(np.dtype(step.loop.types[0]).itemsize)
    loop, cores = step.loop, core_names(step.loop.signature)
    plain = loop.module == "numpy" and not any(cores) and set(loop.types) <= INEXACT
    if step.depth or step.fails or not (plain or loop.module == TRANSFORMS):
        return 0.0
    count, *sizes = table[step.numbers : step.numbers + 1 + step.cores]
    size = dict(zip(dict.fromkeys(n for names in cores for n in names), sizes, strict=True))
    each = POINT if loop.module == TRANSFORMS else ELEMENT
    return count * each * sum(prod(size[n] for n in names) for names in cores) if count > 1 else 0.0


class _Times:
    """Estimates of how long the statements of a kernel take."""

    def __init__(self, kernel: Kernel, schedule: Schedule, extents: Mapping[int, int]) -> None:
        self._schedule, self._extents, self._body = schedule, extents, kernel.body
        self._steps = {b.name: b.steps for b in kernel.buffers}

    def whole(self) -> float:
        """Nanoseconds of the kernel."""
        return sum(self._time(stmt, None) for stmt in self._body.stmts)

    def shared(self, block: Block, worth: float) -> list[tuple[int, float]]:
        """The outermost loops that are worth it and can be shared, with their times."""
        found: list[tuple[int, float]] = []
        for stmt in block.stmts:
            if not isinstance(stmt, Loop):
                continue
            time = self._time(stmt, None)
            if time < worth:
                continue
            ranges = self._ranges(stmt) if is_shareable(stmt, self._schedule) else 0
            inside = self._schedule.role(stmt) != LANE and ranges < FEWEST
            inner = self.shared(stmt.body, worth) if inside else []
            found += inner or ([(stmt.axis.id, time)] if ranges > 1 else [])
        return found

    def _ranges(self, loop: Loop) -> int:
        """How many ranges of iterations threads can have of a loop at most."""
        lanes = self._schedule.lanes if self._schedule.role(loop) == LANE else 1
        return self._extents.get(loop.axis.id, 0) // max([lanes, *(f.block for f in loop.folds)])

    def _time(self, stmt: Stmt, lanes: Loop | None) -> float:
        """Nanoseconds of a statement, per iteration of the loop in lanes around it."""
        if isinstance(stmt, Let):
            each = VECTOR * int(stmt.out.dtype[1:]) if lanes is not None else SCALAR
            return each * (COSTLY if OPS[stmt.op].costly else 1.0)
        if isinstance(stmt, Load | Store):
            return self._access(stmt, lanes)
        if isinstance(stmt, Loop):
            if lanes is None and self._schedule.role(stmt) == LANE:
                lanes = stmt
            each = sum(self._time(inner, lanes) for inner in stmt.body.stmts)
            return self._extents.get(stmt.axis.id, UNKNOWN) * (each + len(stmt.folds) * VECTOR)
        inner = sum(self._time(s, lanes) for block in blocks_of(stmt) for s in block.stmts)
        return UNKNOWN * inner if isinstance(stmt, While) else inner

    def _access(self, stmt: Load | Store, lanes: Loop | None) -> float:
        if lanes is None:
            return SCALAR
        size = 8 if isinstance(stmt, Store) else int(stmt.out.dtype[1:])
        steps = self._steps.get(stmt.buffer, ())
        apart = [s for a, s in zip(stmt.at, steps, strict=False) if a == lanes.axis and s == "any"]
        return size * VECTOR * (GATHER if apart else ACCESS)
