"""Following the steps of a scalar loop with values in place of memory, into one kernel.

Which loops can be followed, and which cells they carry, is scalars.py's knowledge. A `Region` is
a block being written, with the atoms that cells hold there; what a region does not know, the one
around it does, and what nobody has written yet is loaded when the kernel begins.
"""

from collections.abc import Sequence
from typing import Protocol

from ftrace.lowering.exits import exits
from ftrace.lowering.gate import gate
from ftrace.lowering.ir import (
    Atom,
    Block,
    Buffer,
    If,
    Kernel,
    Let,
    Lit,
    Load,
    Stmt,
    Store,
    Var,
    While,
)
from ftrace.lowering.launching import Launch, Operand
from ftrace.lowering.program import Branch, Copy, Repeat, Step
from ftrace.lowering.schedule import schedule

Cell = tuple[int, int, str]  # slot, distance in bytes, dtype


class Cells(Protocol):
    """What is known of the cells of a program."""

    table: list[int]

    def cells(self, slot: int) -> list[Cell]:
        """The parts of a slot's number."""
        ...

    def cell(self, launch: Launch, number: int) -> Cell:
        """What a kernel's buffer is."""
        ...

    def kept(self, steps: Sequence[Step]) -> list[Cell]:
        """What steps write and others may read."""
        ...

    def carried(self, step: Repeat) -> list[Cell]:
        """What a turn of a loop leaves to the next one, or to others."""
        ...


class Region:
    """A block being written, and what cells hold in it."""

    __slots__ = ("around", "stmts", "values")

    def __init__(self, around: "Region | None" = None) -> None:
        self.around = around
        self.stmts: list[Stmt] = []
        self.values: dict[Cell, Atom] = {}

    def find(self, cell: Cell) -> Atom | None:
        """What a cell holds, if it was written or carried here or further out."""
        found = self.values.get(cell)
        if found is None and self.around is not None:
            return self.around.find(cell)
        return found


class Follower:
    """Writes one kernel."""

    def __init__(self, known: Cells, name: str) -> None:
        self._known = known
        self._name = name
        self._ids = 0
        self._loads: dict[Cell, Var] = {}
        self._scalars: dict[tuple[int, str], Var] = {}

    def launch(self, step: Repeat) -> Launch:
        """The kernel that does what a loop does."""
        region = Region()
        self._repeat(step, region)
        ends = [(cell, self._read(cell, region)) for cell in self._known.kept((step,))]
        loads = [Load(v, f"x{i}", ()) for i, v in enumerate(self._loads.values())]
        stores = [Store(f"o{i}", (), value) for i, (_, value) in enumerate(ends)]
        buffers = [Buffer(f"x{i}", c[2], (), "in") for i, c in enumerate(self._loads)]
        buffers += [Buffer(f"o{i}", c[2], (), "out") for i, (c, _) in enumerate(ends)]
        body = Block((*loads, *region.stmts, *stores))
        kernel = Kernel(self._name, tuple(buffers), tuple(self._scalars.values()), body)
        kernel = gate(exits(kernel))
        operands = tuple(map(self._operand, (*self._loads, *(c for c, _ in ends))))
        return Launch(
            kernel, schedule(kernel, 16), operands, tuple(entry for entry, _ in self._scalars)
        )

    def _operand(self, cell: Cell) -> Operand:
        self._known.table.append(cell[1])
        return Operand(cell[0], len(self._known.table) - 1, ())

    def _fresh(self, dtype: str) -> Var:
        self._ids += 1
        return Var(self._ids, dtype)

    def _read(self, cell: Cell, region: Region) -> Atom:
        found = region.find(cell)
        if found is None:
            found = self._loads.get(cell)
        if found is None:
            found = self._loads[cell] = self._fresh(cell[2])
        return found

    # --- steps

    def _follow(self, steps: Sequence[Step], region: Region) -> None:
        for step in steps:
            if isinstance(step, Launch):
                self._kernel(step, region)
            elif isinstance(step, Copy):
                pairs = zip(
                    self._known.cells(step.source), self._known.cells(step.target), strict=True
                )
                moved = [(target, self._read(source, region)) for source, target in pairs]
                region.values.update(moved)
            elif isinstance(step, Branch):
                self._branch(step, region)
            elif isinstance(step, Repeat):
                self._repeat(step, region)

    def _repeat(self, step: Repeat, region: Region) -> None:
        carried = self._known.carried(step)
        params = tuple(self._fresh(c[2]) for c in carried)
        inits = tuple(self._read(c, region) for c in carried)
        around = Region(region)
        around.values.update(zip(carried, params, strict=True))
        cond, body = Region(around), Region(around)
        self._follow(step.cond, cond)
        (predicate,) = self._known.cells(step.predicate)
        more = Block(tuple(cond.stmts), (self._read(predicate, cond),))
        self._follow(step.body, body)
        again = self._end(body, carried)
        outs = tuple(self._fresh(c[2]) for c in carried)
        region.stmts.append(While(outs, params, inits, more, again))
        region.values.update(zip(carried, outs, strict=True))

    def _end(self, region: Region, cells: Sequence[Cell]) -> Block:
        """A region as a block that leaves what cells hold."""
        results = tuple(self._read(c, region) for c in cells)
        return Block(tuple(region.stmts), results)

    def _branch(self, step: Branch, region: Region) -> None:
        written = sorted({c for arm in step.arms for c in self._known.kept(arm)})
        (cell,) = self._known.cells(step.index)
        arms = step.arms[::-1] if step.dtype == "b1" else step.arms
        self._arms(self._read(cell, region), arms, written, region)

    def _arms(
        self,
        index: Atom,
        arms: Sequence[Sequence[Step]],
        written: Sequence[Cell],
        region: Region,
        number: int = 0,
    ) -> None:
        """The arm of an index: the first if it is at most 0, and so on, or the last."""
        if number == len(arms) - 1:
            self._follow(arms[number], region)
            return
        then, orelse = Region(region), Region(region)
        cond = index
        if index.dtype != "b1":
            cond = self._fresh("b1")
            region.stmts.append(Let(cond, "le", (index, Lit(number, index.dtype))))
        self._follow(arms[number], then)
        self._arms(index, arms, written, orelse, number + 1)
        outs = tuple(self._fresh(c[2]) for c in written)
        region.stmts.append(If(outs, cond, self._end(then, written), self._end(orelse, written)))
        region.values.update(zip(written, outs, strict=True))

    # --- kernels

    def _kernel(self, launch: Launch, region: Region) -> None:
        """The statements of a kernel, with loads and stores as values."""
        cells = {b.name: self._known.cell(launch, i) for i, b in enumerate(launch.kernel.buffers)}
        atoms: dict[int, Atom] = {}
        for var, entry in zip(launch.kernel.scalars, launch.scalars, strict=True):
            key = (entry, var.dtype)
            if key not in self._scalars:
                self._scalars[key] = self._fresh(var.dtype)
            atoms[var.id] = self._scalars[key]
        for stmt in launch.kernel.body.stmts:
            if isinstance(stmt, Load):
                atoms[stmt.out.id] = self._read(cells[stmt.buffer], region)
            elif isinstance(stmt, Store):
                region.values[cells[stmt.buffer]] = _renamed(stmt.value, atoms)
            else:
                region.stmts.append(self._copy(stmt, atoms))

    def _copy(self, stmt: Stmt, atoms: dict[int, Atom]) -> Stmt:
        """A statement in the variables of this kernel."""
        if isinstance(stmt, Let):
            args = tuple(_renamed(a, atoms) for a in stmt.args)
            return Let(self._bind((stmt.out,), atoms)[0], stmt.op, args)
        if isinstance(stmt, If):
            cond = _renamed(stmt.cond, atoms)
            then, orelse = self._block(stmt.then, atoms), self._block(stmt.orelse, atoms)
            return If(self._bind(stmt.outs, atoms), cond, then, orelse)
        assert isinstance(stmt, While)
        inits = tuple(_renamed(a, atoms) for a in stmt.inits)
        params = self._bind(stmt.params, atoms)
        cond, body = self._block(stmt.cond, atoms), self._block(stmt.body, atoms)
        return While(self._bind(stmt.outs, atoms), params, inits, cond, body)

    def _block(self, block: Block, atoms: dict[int, Atom]) -> Block:
        stmts = tuple(self._copy(s, atoms) for s in block.stmts)
        return Block(stmts, tuple(_renamed(a, atoms) for a in block.results))

    def _bind(self, old: Sequence[Var], atoms: dict[int, Atom]) -> tuple[Var, ...]:
        new = tuple(self._fresh(v.dtype) for v in old)
        atoms.update((v.id, w) for v, w in zip(old, new, strict=True))
        return new


def _renamed(atom: Atom, atoms: dict[int, Atom]) -> Atom:
    return atoms[atom.id] if isinstance(atom, Var) else atom
