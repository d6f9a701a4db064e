"""Loops over scalars: a `Repeat` whose steps touch single elements becomes one kernel.

Planned step by step, every turn of such a loop would call kernels that load and store a number
or two. Here the turn is followed with values in place of memory: loads and stores of a *cell* (an
element of a slot) become variables, `Repeat` becomes a `While` that carries the cells it changes,
`Branch` becomes `If`. What others may read is stored when the loop has ended. A loop that holds
anything else (an axis, a row of Python) is left as it is, and the loops inside it are tried.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ftrace.lowering.builder import code
from ftrace.lowering.following import Cell, Follower
from ftrace.lowering.ir import Block, Kernel, Load, Store, blocks_of, loops_of
from ftrace.lowering.launching import Launch
from ftrace.lowering.program import (
    ARENA,
    Branch,
    Callback,
    Copy,
    Look,
    Product,
    Program,
    Repeat,
    Scan,
    Step,
    every,
)

Cells = frozenset[Cell]


def roll(program: Program) -> Program:
    """The program with its loops over scalars as kernels."""
    work = _Work(program)
    steps = work.steps(program.steps)
    return replace(program, steps=steps, table=tuple(work.table))


class _Work:
    """What is known of the program while its loops are looked at."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.table = list(program.table)
        self.count = 0
        self._uses = _uses(program.steps, program)

    def steps(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        """Steps with their loops replaced where they can be."""
        found: list[Step] = []
        for step in steps:
            if isinstance(step, Branch):
                found.append(replace(step, arms=tuple(self.steps(arm) for arm in step.arms)))
            elif isinstance(step, Repeat):
                found.append(self._loop(step))
            elif isinstance(step, Scan):
                found.append(replace(step, body=self.steps(step.body)))
            else:
                found.append(step)
        return tuple(found)

    def _loop(self, step: Repeat) -> Step:
        if self.is_scalar(step):
            self.count += 1
            return Follower(self, f"w{self.count}").launch(step)
        return replace(step, cond=self.steps(step.cond), body=self.steps(step.body))

    # --- which loops can be replaced

    def is_scalar(self, step: Step) -> bool:
        """Whether a step does nothing but compute numbers from numbers."""
        if isinstance(step, Launch):
            numbers = all(map(self._is_number, _slots(step))) and _is_plain(step.kernel)
            return numbers and all(
                self.cell(step, i) in self.cells(slot) for i, slot in enumerate(_slots(step))
            )
        if isinstance(step, Copy):
            return self._is_number(step.source) and self._is_number(step.target)
        if isinstance(step, Branch):
            inside = [s for arm in step.arms for s in arm]
            return self._is_number(step.index) and all(map(self.is_scalar, inside))
        if isinstance(step, Repeat):
            inside = all(map(self.is_scalar, (*step.cond, *step.body)))
            return step.count is None and inside and self.is_closed(step)
        return False

    def _is_number(self, slot: int) -> bool:
        a = self.program.slots[slot].aval
        return a.size == 1 and a.dtype.char != "e"  # float16 is no type of variables

    def is_closed(self, step: Repeat) -> bool:
        """Whether what the condition writes is read by nobody else."""
        written = {cell[0] for cell in self.written(step.cond)}
        inside = _uses(step.cond, self.program)
        inside[step.predicate] = inside.get(step.predicate, 0) + 1
        return all(self._local(k, inside) for k in written)

    def _local(self, slot: int, inside: dict[int, int]) -> bool:
        """Whether a slot is scratch that is used nowhere else."""
        return self.program.slots[slot].place == ARENA and self._uses[slot] == inside.get(slot, 0)

    # --- cells

    def cells(self, slot: int) -> list[Cell]:
        """The parts of a number, as kernels see them: two of a complex one."""
        dtype = self.program.slots[slot].aval.dtype
        if dtype.kind != "c":
            return [(slot, 0, code(dtype))]
        half = dtype.itemsize // 2
        return [(slot, 0, f"f{half}"), (slot, half, f"f{half}")]

    def cell(self, launch: Launch, number: int) -> Cell:
        """What a kernel's buffer is."""
        operand, buffer = launch.operands[number], launch.kernel.buffers[number]
        return operand.slot, self.table[operand.offset], buffer.dtype

    def written(self, steps: Iterable[Step]) -> Cells:
        """What steps may write."""
        found: set[Cell] = set()
        for step in steps:
            if isinstance(step, Launch):
                outs = [i for i, b in enumerate(step.kernel.buffers) if b.space == "out"]
                found.update(self.cell(step, i) for i in outs)
            elif isinstance(step, Copy):
                found.update(self.cells(step.target))
            elif isinstance(step, Branch):
                found.update(*(self.written(arm) for arm in step.arms))
            elif isinstance(step, Repeat):
                found |= self.written(step.cond) | self.written(step.body)
                if step.count is not None:
                    found.update(self.cells(step.count))
            elif isinstance(step, Product):
                found.update(self.cells(step.out))
            elif isinstance(step, Scan):
                bases = [w.base for w in step.windows if w.written]
                found |= self.written(step.body).union(*map(self.cells, bases))
            elif isinstance(step, Look):
                found.update(*(self.cells(w.base) for w in step.windows if w.written))
        return frozenset(found)

    def kept(self, steps: Sequence[Step]) -> list[Cell]:
        """What steps write and others may read, in an order that structure alone decides."""
        inside = _uses(steps, self.program)
        return sorted(c for c in self.written(steps) if not self._local(c[0], inside))

    def carried(self, step: Repeat) -> list[Cell]:
        """What a turn leaves: scratch of its own is written before it is read in every turn."""
        written = self.written(step.body)
        return [c for c in self.kept((step,)) if c in written]


def _uses(steps: Iterable[Step], program: Program) -> dict[int, int]:
    """How often each slot is mentioned."""
    found: dict[int, int] = {}

    def use(*slots: int) -> None:
        for k in slots:
            found[k] = found.get(k, 0) + 1

    for step in every(steps):
        if isinstance(step, Launch):
            use(*_slots(step))
        elif isinstance(step, Copy):
            use(step.source, step.target)
        elif isinstance(step, Branch):
            use(step.index)
        elif isinstance(step, Product):
            use(step.lhs, step.rhs, step.out)
        elif isinstance(step, Callback):
            call = program.callbacks[step.number]
            use(*(k for k in call.operands if k is not None), *call.results)
        else:
            use(*_around(step))
    return found


def _around(step: Repeat | Scan | Look) -> list[int]:
    """The slots that a loop mentions beyond those of its steps."""
    if isinstance(step, Repeat):
        own, windows = (step.predicate, step.count), step.record
    else:
        own, windows = (step.number if isinstance(step, Look) else step.count,), step.windows
    return [k for k in (*own, *(k for w in windows for k in (w.slot, w.base))) if k is not None]


def _slots(launch: Launch) -> list[int]:
    return [o.slot for o in launch.operands]


def _is_plain(kernel: Kernel) -> bool:
    """Whether a kernel is a list of statements on single elements."""
    inner = [b for stmt in kernel.body.stmts for b in blocks_of(stmt)]
    return (
        not any(b.steps for b in kernel.buffers)
        and not loops_of(kernel.body)
        and not any(map(_touches_memory, inner))
        and not any(isinstance(s, Store) and s.combine for s in kernel.body.stmts)
    )


def _touches_memory(block: Block) -> bool:
    return any(
        isinstance(s, Load | Store) or any(map(_touches_memory, blocks_of(s))) for s in block.stmts
    )
