"""Splitting loops where conditions change: no test is left inside.

Padding and concatenating read different things in different ranges of an index. An innermost loop
that compares its axis with numbers known when the program is planned becomes one loop per range;
in each of them every such comparison is decided, its `If`s are gone and nothing is masked. Short
ranges, the borders of a stencil, are left to scalar code. Loops that fold stay whole, so that
the tree of the fold does not depend on where the conditions change.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from ftrace.lowering.kernel.builder import folded
from ftrace.lowering.kernel.ir import (
    Atom,
    Block,
    If,
    Kernel,
    KernelVar,
    Let,
    Lit,
    Load,
    Loop,
    Stmt,
    Store,
    While,
)
from ftrace.lowering.kernel.launching import Operand
from ftrace.lowering.kernel.traversal import Fresh, inside, operands_of, place_of, rewritten

LONG: Final = 256  # iterations from which a loop is split
SHORT: Final = 64  # iterations up to which a range runs one after the other
RANGES: Final = 6  # copies of a loop's body at most
COMPARISONS: Final = {"ge": lambda a, b: a >= b, "lt": lambda a, b: a < b}

Found = tuple[Kernel, tuple[Operand, ...], tuple[int, ...], frozenset[int]]


def split(
    kernel: Kernel, operands: tuple[Operand, ...], scalars: tuple[int, ...], table: list[int]
) -> Found:
    """Split the loops of a kernel.

    Returns:
        The kernel, its operands and scalars, and the ids of the axes of short ranges.
    """
    work = _Splitter(kernel, operands, scalars, table)
    body = work.block(kernel.body)
    if not work.changed:
        return kernel, operands, scalars, frozenset()
    return (*work.finish(body), frozenset(work.short))


class _Splitter:
    """The kernel's operands, which grow as loops are split."""

    def __init__(
        self,
        kernel: Kernel,
        operands: tuple[Operand, ...],
        scalars: tuple[int, ...],
        table: list[int],
    ) -> None:
        self.kernel = kernel
        self.table = table
        self.buffers = {b.name: (b, o) for b, o in zip(kernel.buffers, operands, strict=True)}
        self.scalars = dict(zip(kernel.scalars, scalars, strict=True))
        self.short: set[int] = set()
        self.changed = False
        self.fresh = Fresh(kernel)

    def number(self, value: int) -> KernelVar:
        """A new run-time operand."""
        self.table.append(value)
        var = self.fresh("i8")
        self.scalars[var] = len(self.table) - 1
        return var

    def known(self, atom: Atom) -> int | None:
        """The number of an atom, if it is one."""
        if isinstance(atom, Lit):
            return int(atom.value)
        entry = self.scalars.get(atom)
        return None if entry is None else self.table[entry]

    def block(self, block: Block) -> Block:
        """A block with its innermost loops split."""
        stmts: list[Stmt] = []
        for stmt in block.stmts:
            if not isinstance(stmt, Loop):
                stmts.append(stmt)
            elif any(isinstance(s, Loop) for s in stmt.body.stmts):
                stmts.append(replace(stmt, body=self.block(stmt.body)))
            else:
                stmts.extend(self.loop(stmt))
        return Block(tuple(stmts), block.results)

    def loop(self, loop: Loop) -> list[Stmt]:
        """One loop, or one per range."""
        extent = self.known(loop.extent)
        if extent is None or extent < LONG or loop.folds or loop.params:
            return [loop]
        cuts = {0, extent}
        for stmt in inside(loop.body):  # arms too: their conditions are decided as well
            if isinstance(stmt, Let) and stmt.op in COMPARISONS and stmt.args[0] == loop.axis:
                at = self.known(stmt.args[1])
                if at is None:
                    return [loop]
                cuts.add(min(max(at, 0), extent))
        if not 2 < len(cuts) <= RANGES + 1:
            return [loop]
        self.changed = True
        return [self._range(loop, low, high) for low, high in pairwise(sorted(cuts))]

    def _range(self, loop: Loop, low: int, high: int) -> Loop:
        axis = self.fresh("i8")
        if high - low <= SHORT:
            self.short.add(axis.id)
        copy = _Copy(self, loop.axis, axis, low)
        body = copy.block(loop.body)
        body = _alive(Block((*copy.before, *body.stmts)))
        return Loop((), axis, self.number(high - low), body)

    def moved(self, name: str, at: tuple[Atom, ...], axis: KernelVar, low: int) -> str:
        """A buffer whose coordinate along an axis starts at `low`."""
        buffer, operand = self.buffers[name]
        entries = iter(operand.steps)
        distance = 0
        for atom, step in zip(at, buffer.steps, strict=True):
            number = {"one": 1, "minus": -1}.get(step) or self.table[next(entries)]
            distance += number if atom == axis else 0
        new = f"{name}_{low}"
        if new not in self.buffers:
            size = int(buffer.dtype[1:])
            self.table.append(self.table[operand.offset] + low * distance * size)
            place = replace(operand, offset=len(self.table) - 1)
            self.buffers[new] = (replace(buffer, name=new), place)
        return new

    def finish(self, body: Block) -> tuple[Kernel, tuple[Operand, ...], tuple[int, ...]]:
        """The kernel with the buffers and scalars that it still uses."""
        used = _uses(body)
        kept = [(b, o) for b, o in self.buffers.values() if b.name in used]
        names = {b.name: f"{b.space[0].replace('i', 'x')}{i}" for i, (b, _) in enumerate(kept)}
        numbers = [(v, e) for v, e in self.scalars.items() if v in used]

        def renamed(stmt: Stmt) -> Stmt:
            memory = isinstance(stmt, Load | Store)
            return replace(stmt, buffer=names[stmt.buffer]) if memory else stmt

        kernel = Kernel(
            self.kernel.name,
            tuple(replace(b, name=names[b.name]) for b, _ in kept),
            tuple(v for v, _ in numbers),
            rewritten(body, renamed),
        )
        return kernel, tuple(o for _, o in kept), tuple(e for _, e in numbers)


class _Copy:
    """Copies the body of a loop for one range, deciding what the range decides."""

    def __init__(self, work: _Splitter, old: KernelVar, new: KernelVar, low: int) -> None:
        self.work = work
        self.old, self.new, self.low = old, new, low
        self.env: dict[KernelVar, Atom] = {}
        self.before: list[Stmt] = []
        self._shifted: Atom | None = None
        self._done: dict[Any, KernelVar] = {}  # what was computed, outside of arms
        self._arms = 0

    def value(self, atom: Atom) -> Atom:
        """What an atom is in the copy."""
        if isinstance(atom, Lit):
            return atom
        if atom != self.old:
            return self.env.get(atom, atom)
        if self._shifted is None:
            out = self.work.fresh("i8")
            self.before.append(Let(out, "add", (self.new, self.work.number(self.low))))
            self._shifted = out
        return self._shifted

    def block(self, block: Block) -> Block:
        """A block of the copy."""
        stmts: list[Stmt] = []
        for stmt in block.stmts:
            self.stmt(stmt, stmts)
        return Block(tuple(stmts), tuple(self.value(a) for a in block.results))

    def stmt(self, stmt: Stmt, out: list[Stmt]) -> None:
        """Copy a statement, or find that it is decided."""
        match stmt:
            case Let():
                self._let(stmt, out)
            case Load():
                name, at = self._place(stmt)
                key = (name, at) if self.work.buffers[name][0].space == "in" else stmt
                self._once(key, stmt.out, lambda var: out.append(Load(var, name, at)))
            case Store():
                out.append(Store(*self._place(stmt), self.value(stmt.value), stmt.combine))
            case If():
                self._if(stmt, out)
            case While():
                inits = tuple(self.value(a) for a in stmt.inits)
                params = tuple(self._bind(v) for v in stmt.params)
                self._arms += 1
                cond, body = self.block(stmt.cond), self.block(stmt.body)
                self._arms -= 1
                outs = tuple(self._bind(v) for v in stmt.outs)
                out.append(While(outs, params, inits, cond, body))
            case _:
                out.append(stmt)

    def _bind(self, var: KernelVar) -> KernelVar:
        new = self.work.fresh(var.dtype)
        self.env[var] = new
        return new

    def _let(self, stmt: Let, out: list[Stmt]) -> None:
        if stmt.op in COMPARISONS and stmt.args[0] == self.old:
            at = self.work.known(stmt.args[1])
            assert at is not None
            self.env[stmt.out] = Lit(COMPARISONS[stmt.op](self.low, at), "b1")
            return
        args = tuple(self.value(a) for a in stmt.args)
        known = folded(stmt.op, args)
        if known is not None:
            self.env[stmt.out] = known
            return
        key = (stmt.op, args, stmt.out.dtype)
        self._once(key, stmt.out, lambda var: out.append(Let(var, stmt.op, args)))

    def _once(self, key: Any, var: KernelVar, write: Callable[[KernelVar], None]) -> None:
        """Write a statement, unless the same one stands before it."""
        found = self._done.get(key)
        if found is not None:
            self.env[var] = found
            return
        new = self._bind(var)
        write(new)
        if not self._arms:
            self._done[key] = new

    def _if(self, stmt: If, out: list[Stmt]) -> None:
        cond = self.value(stmt.cond)
        if isinstance(cond, Lit):
            taken = self.block(stmt.then if cond.value else stmt.orelse)
            out.extend(taken.stmts)
            self.env.update(zip(stmt.outs, taken.results, strict=True))
            return
        self._arms += 1
        then, orelse = self.block(stmt.then), self.block(stmt.orelse)
        self._arms -= 1
        out.append(If(tuple(self._bind(v) for v in stmt.outs), cond, then, orelse))

    def _place(self, stmt: Load | Store) -> tuple[str, tuple[Atom, ...]]:
        """Buffer and coordinates of an access."""
        name = stmt.buffer
        if self.old in stmt.at:
            name = self.work.moved(name, stmt.at, self.old, self.low)
        return name, tuple(self.new if a == self.old else self.value(a) for a in stmt.at)


def _uses(block: Block) -> set[Any]:
    """Variables and names of buffers that a block reads or writes."""
    used: set[Any] = set(block.results)
    for stmt in inside(block):
        used.update(operands_of(stmt), place_of(stmt))
        if isinstance(stmt, Load | Store):
            used.add(stmt.buffer)
    return used


def _alive(block: Block) -> Block:
    """A block without operations and loads that nothing uses any more."""
    while True:
        used = _uses(block)
        kept = tuple(s for s in block.stmts if not isinstance(s, Let | Load) or s.out in used)
        if len(kept) == len(block.stmts):
            return block
        block = Block(kept, block.results)
