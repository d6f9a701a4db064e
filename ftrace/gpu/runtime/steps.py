"""The steps of a program on a device: Python runs them, and the device's stream keeps their order.

Nothing here waits for the device but a `BranchStep` and a `Repeat`, which need a number from it to
go on. (Loops that fit one kernel never come here: lowering has made them `While`s inside it.)
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ftrace.core import source
from ftrace.core.errors import JaxprError
from ftrace.core.tapes import has_turns
from ftrace.core.trace import EVAL, ctx
from ftrace.gpu.handwritten.running import Running
from ftrace.gpu.handwritten.scatter_sums import ScatterSum
from ftrace.gpu.runtime.copying import contiguous
from ftrace.gpu.runtime.device_interface import Device
from ftrace.gpu.runtime.device_memory import Memory
from ftrace.gpu.runtime.kernels import ALIGNMENT, Planned
from ftrace.lowering.program.program import (
    Accumulate,
    BranchStep,
    Callback,
    CallStep,
    Copy,
    Look,
    Program,
    Repeat,
    Scan,
    ScatterStep,
    Step,
)

Run = Callable[[Memory], None]
ROOM = 8  # elements of a tape at first


class Steps:
    """Turns the steps of a program into functions of its memory.

    Args:
        program: whose steps these are.
        device: where they run.
        kernels: per launch, in the order of the code, how it runs and its functions.
    """

    def __init__(
        self,
        program: Program,
        device: Device,
        kernels: Sequence[tuple[Planned, Sequence[Any]]],
    ) -> None:
        self._program = program
        self._device = device
        self._kernels = iter(kernels)

    def all(self, steps: Sequence[Step]) -> Run:
        """A function that runs steps in order."""
        runs = [self._one(step) for step in steps]
        if len(runs) == 1:
            return runs[0]

        def run(memory: Memory) -> None:
            for each in runs:
                each(memory)

        return run

    def _one(self, step: Step) -> Run:
        if isinstance(step, Copy):
            return _copying(step, self._program.table[step.size])
        if isinstance(step, Callback):
            return _calling(self._program.callbacks[step.number])
        if isinstance(step, ScatterStep | Accumulate):
            return self._handwritten(step)
        if isinstance(step, BranchStep):
            return self._branch(step)
        if isinstance(step, Repeat):
            return self._repeat(step)
        if isinstance(step, Scan):
            return self._scan(step)
        if isinstance(step, Look):
            return self._look(step)
        return _launching(*next(self._kernels))

    def _handwritten(self, step: ScatterStep | Accumulate) -> Run:
        a, b, c = self._program.table[step.numbers : step.numbers + 3]
        dtype = np.dtype(step.dtype)
        if isinstance(step, ScatterStep):
            places, updates = step.places, step.updates
            add = ScatterSum(self._device, dtype, b, c, a)
            return lambda memory: add(*(memory.addresses[k] for k in (step.out, places, updates)))
        source, join = step.source, Running(self._device, step.row, dtype, (a, b, c), step.reverse)
        return lambda memory: join(memory.addresses[source], memory.addresses[step.out])

    def _branch(self, step: BranchStep) -> Run:
        arms = [self.all(arm) for arm in step.arms]
        last = len(arms) - 1

        def run(memory: Memory) -> None:
            index = int(memory.device.read(memory.addresses[step.index], np.dtype(step.dtype)))
            arms[min(max(index, 0), last)](memory)

        return run

    def _repeat(self, step: Repeat) -> Run:
        cond, body = self.all(step.cond), self.all(step.body)
        table = self._program.table
        record = [(w.slot, w.base, table[w.size]) for w in step.record]
        boolean = np.dtype(bool)

        def run(memory: Memory) -> None:
            for _, base, _ in record:
                memory.begin(base, ROOM)
            turns = 0
            cond(memory)
            while memory.device.read(memory.addresses[step.predicate], boolean):
                for slot, base, size in record:
                    memory.show(slot, base, memory.grow(base), size)
                body(memory)
                for slot, base, _ in record:
                    memory.leave(slot, base, turns)
                turns += 1
                cond(memory)
            if step.count is not None:
                count = memory.device.from_host(np.array(turns, np.int64))
                memory.device.copy(memory.addresses[step.count], memory.device.pointer(count), 8)

        return run

    def _scan(self, step: Scan) -> Run:
        body = self.all(step.body)
        program = self._program
        windows = [(w, program.table[w.size]) for w in step.windows]
        written = [(w.slot, w.base) for w in step.windows if w.written]
        tapes = [base for _, base in written if has_turns(program.slots[base].aval)]
        fixed = None if step.length is None else program.table[step.length]

        def run(memory: Memory) -> None:
            n = _turns(step, memory) if fixed is None else fixed
            for base in tapes:
                memory.begin(base, n)
                for _ in range(n):
                    memory.grow(base)
            for i in reversed(range(n)) if step.reverse else range(n):
                for w, size in windows:
                    memory.show(w.slot, w.base, w.element(i, program.table), size)
                body(memory)
                for slot, base in written:
                    memory.leave(slot, base, i)

        return run

    def _look(self, step: Look) -> Run:
        table = self._program.table
        windows = [(w.slot, w.base, table[w.size]) for w in step.windows]

        def run(memory: Memory) -> None:
            i = int(memory.device.read(memory.addresses[step.number], np.dtype(np.int64)))
            for slot, base, size in windows:
                memory.show(slot, base, i, size)

        return run


def _turns(step: Scan, memory: Memory) -> int:
    """The number of iterations that a slot knows."""
    assert step.count is not None
    if memory.holds_tape(step.count):
        return memory.lengths[step.count]
    return int(memory.device.read(memory.addresses[step.count], np.dtype(np.int64)))


def _launching(kernel: Planned, functions: Sequence[Any]) -> Run:
    pointers, numbers = kernel.pointers, kernel.numbers
    runs = [(s.grid, s.block, s.shared) for s in kernel.stages if s.grid is not None]
    stages = list(zip(functions, runs, strict=True))
    scratch = bool(kernel.scratch)

    def run(memory: Memory) -> None:
        addresses = memory.addresses
        words = [addresses[slot] + distance for slot, distance in pointers]
        words += numbers
        if scratch:
            words.append(memory.scratch)
        for function, (grid, block, shared) in stages:
            memory.device.launch(function, grid, block, shared, words)

    return run


def _copying(step: Copy, size: int) -> Run:
    def run(memory: Memory) -> None:
        if size:
            at = memory.addresses
            memory.device.copy(at[step.target], at[step.source], size)

    return run


def _calling(call: CallStep) -> Run:
    """A row that CuPy does; its results take the places of their slots."""
    eqn = call.eqn
    row = eqn.primitive
    atoms = list(zip(eqn.invars, call.operands, strict=True))

    def run(memory: Memory) -> None:
        operands = [
            a.value if slot is None else memory.array(slot).reshape(a.aval.shape)
            for a, slot in atoms
        ]
        before, place = ctx.trace, source.here.place
        ctx.trace, source.here.place = EVAL, eqn.source
        try:
            found = memory.device.library(row, operands, eqn.params)
        finally:
            ctx.trace, source.here.place = before, place
        held = {id(x.data.mem) for x, (_, k) in zip(operands, atoms, strict=True) if k is not None}
        for value, var, slot in zip(found, eqn.outvars, call.results, strict=True):
            if value.shape != var.aval.shape or value.dtype != var.aval.dtype:
                got = f"{value.dtype}{list(value.shape)}"
                raise JaxprError(
                    f"{row.name} promised {var.aval!r}, but its evaluation gave {got}."
                )
            memory.put(slot, _own(value, held, memory.device))
            held.add(id(value.data.mem))

    return run


def _own(value: Any, held: Collection[int], device: Device) -> Any:
    """A result of CuPy as memory that nobody else uses; `held` has the ids of what others use."""
    alone = id(value.data.mem) not in held
    if alone and value.flags.c_contiguous and not device.pointer(value) % ALIGNMENT:
        return value
    return contiguous(value, device)
