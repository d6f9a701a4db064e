"""The steps of a program on a device: Python runs them, and the device's stream keeps their order.

Nothing here waits for the device but a `BranchStep` and a `Repeat`, which need a number from it to
go on. (Loops that fit one kernel never come here: lowering has made them `While`s inside it.)
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ftrace.core import source
from ftrace.core.errors import JaxprError
from ftrace.core.tapes import is_tape
from ftrace.core.trace import EVAL, ctx
from ftrace.gpu.handwritten.running import PrefixScan
from ftrace.gpu.handwritten.scatter_sums import ScatterSum
from ftrace.gpu.runtime.bases import Bases
from ftrace.gpu.runtime.copying import contiguous, flat, of_number
from ftrace.gpu.runtime.device_interface import AddressWord, Device, Start, start_of
from ftrace.gpu.runtime.device_memory import Memory
from ftrace.gpu.runtime.kernels import (
    ALIGNMENT,
    Planned,
    alignments,
    functions,
    planned,
    starts,
)
from ftrace.lowering.kernel.launching import Launch
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
    every,
)

Run = Callable[[Memory], None]
Windows = Mapping[int, tuple[int, int]]
ROOM: Final = 8  # elements of a tape at first
LONGEST: Final = 4096  # launches of a scan that are written out


class Steps:
    """Turns the steps of a program into functions of its memory.

    Attributes:
        scratch: bytes that the stages of a kernel leave to each other, behind the arena.

    Args:
        program: whose steps these are.
        device: where they run.
        bases: what their words are near to.
    """

    def __init__(self, program: Program, device: Device, bases: Bases) -> None:
        self._program, self._device, self._bases = program, device, bases
        self._asking = False  # whether a step is more than launches
        divisors = alignments(program)
        kernels: dict[int, Planned] = {}
        self._handwritten: dict[int, ScatterSum | PrefixScan] = {}
        for step in every(program.steps):
            if isinstance(step, ScatterStep | Accumulate):
                self._handwritten[id(step)] = _handwritten(step, program, device)
                continue
            if isinstance(step, Launch):
                launch, table = step, program.table
            elif isinstance(step, Copy) and (size := program.table[step.size]):
                divisor = min(divisors.get(k, ALIGNMENT) for k in (step.source, step.target))
                launch, table = flat(step, size, divisor)
            else:
                continue
            kernels[id(step)] = planned(launch, table, divisors, device, bases.words)
        stores = [
            planned(launch, table, {}, device, {k})
            for k in bases.stored
            for launch, table in of_number(k, program.slots[k].aval.dtype.itemsize)
        ]
        every_kernel = [*kernels.values(), *stores]
        pairs = list(zip(every_kernel, functions(every_kernel, device), strict=True))
        self._kernels = dict(zip(kernels, pairs[: len(kernels)], strict=True))
        self._stores = pairs[len(kernels) :]
        rooms = [k.scratch for k in every_kernel] + [h.room for h in self._handwritten.values()]
        self.scratch = max(rooms, default=0)

    def program(self) -> tuple[Run, bool]:
        """A function that runs everything, and whether that is launches and nothing else."""
        pending: list[Start] = []
        for kernel, made in self._stores:
            pending += starts(kernel, made, self._storing)
        return _in_order(self._runs(self._program.steps, pending)), not self._asking

    def _storing(self, slot: int, distance: int) -> tuple[int, int]:
        """Where the store of a number reads and writes: `of_number` writes to the slot behind."""
        if slot >= 0:
            return self._bases.view(slot, distance), 0
        return self._bases.where(-1 - slot, distance)

    def all(self, steps: Sequence[Step]) -> Run:
        """A function that runs steps in order."""
        return _in_order(self._runs(steps, []))

    def _runs(self, steps: Sequence[Step], pending: list[Start]) -> list[Run]:
        """Functions that run steps in order; launches that follow each other are one of them."""
        runs: list[Run] = []
        for step in steps:
            found = self._starts(step, {})
            if found is not None:
                pending += found
                continue
            if pending:
                runs.append(self._device.sequence(pending))
                pending = []
            runs.append(self._one(step))
        if pending:
            runs.append(self._device.sequence(pending))
        return runs

    def _starts(self, step: Step, windows: Windows) -> list[Start] | None:
        """The launches that a step is; None if it is, or may be, anything else.

        Args:
            step: which.
            windows: the slots and distances of the windows around it.
        """

        def where(slot: int, distance: int) -> tuple[int, int]:
            base, start = windows.get(slot, (slot, 0))
            return self._bases.where(base, start + distance)

        if isinstance(step, ScatterStep | Accumulate):
            return self._by_hand(step, where)
        if isinstance(step, Launch | Copy):
            if id(step) not in self._kernels:
                return []  # a copy of nothing
            kernel, made = self._kernels[id(step)]
            return starts(kernel, made, where, (self._bases.arena, self._bases.size))
        if not isinstance(step, Scan) or step.length is None or self._has_tapes(step):
            return None
        table, iterations = self._program.table, self._program.table[step.length]
        found: list[Start] = []
        for i in reversed(range(iterations)) if step.reverse else range(iterations):
            inside = dict(windows)
            for w in step.windows:
                base, start = windows.get(w.base, (w.base, 0))
                inside[w.slot] = base, start + w.element(i, table) * table[w.size]
            for each in step.body:
                launched = self._starts(each, inside)
                if launched is None or len(found) + len(launched) > LONGEST:
                    return None
                found += launched
        return found

    def _by_hand(
        self, step: ScatterStep | Accumulate, where: Callable[[int, int], tuple[int, int]]
    ) -> list[Start]:
        """The launches of kernels that were written by hand."""
        if isinstance(step, ScatterStep):
            slots = [step.out, step.places, step.updates]
        else:
            slots = [step.source, step.out]
        places = [AddressWord(*where(k, 0)) for k in slots]
        scratch = AddressWord(self._bases.arena, self._bases.size)
        # what lines of whole vectors are in begins on a vector, windows too
        launches = self._handwritten[id(step)].launches(places, scratch, aligned=True)
        return [start_of(*launch) for launch in launches]

    def _has_tapes(self, step: Scan) -> bool:
        return any(is_tape(self._program.slots[w.base].aval) for w in step.windows)

    def _one(self, step: Step) -> Run:
        self._asking = True
        if isinstance(step, Callback):
            return _calling(self._program.callbacks[step.number])
        if isinstance(step, BranchStep):
            return self._branch(step)
        if isinstance(step, Repeat):
            return self._repeat(step)
        if isinstance(step, Scan):
            return self._scan(step)
        assert isinstance(step, Look)
        return self._look(step)

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
            iterations = 0
            cond(memory)
            while memory.device.read(memory.addresses[step.predicate], boolean):
                for slot, base, size in record:
                    memory.show(slot, base, memory.grow(base), size)
                body(memory)
                for slot, base, _ in record:
                    memory.leave(slot, base, iterations)
                iterations += 1
                cond(memory)
            if step.count is not None:
                count = memory.device.from_host(np.array(iterations, np.int64))
                memory.device.copy(memory.addresses[step.count], memory.device.pointer(count), 8)

        return run

    def _scan(self, step: Scan) -> Run:
        body = self.all(step.body)
        program = self._program
        windows = [(w, program.table[w.size]) for w in step.windows]
        written = [(w.slot, w.base) for w in step.windows if w.written]
        tapes = [base for _, base in written if is_tape(program.slots[base].aval)]
        fixed = None if step.length is None else program.table[step.length]

        def run(memory: Memory) -> None:
            n = _iterations(step, memory) if fixed is None else fixed
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


def _iterations(step: Scan, memory: Memory) -> int:
    """The number of iterations that a slot knows."""
    assert step.count is not None
    if memory.holds_tape(step.count):
        return memory.lengths[step.count]
    return int(memory.device.read(memory.addresses[step.count], np.dtype(np.int64)))


def _handwritten(
    step: ScatterStep | Accumulate, program: Program, device: Device
) -> ScatterSum | PrefixScan:
    a, b, c = program.table[step.numbers : step.numbers + 3]
    dtype = np.dtype(step.dtype)
    if isinstance(step, ScatterStep):
        return ScatterSum(device, dtype, b, c, a)
    return PrefixScan(device, step.operation, dtype, (a, b, c), step.reverse)


def _in_order(runs: Sequence[Run]) -> Run:
    if len(runs) == 1:
        return runs[0]

    def run(memory: Memory) -> None:
        for each in runs:
            each(memory)

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
