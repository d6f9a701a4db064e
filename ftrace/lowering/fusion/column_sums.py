"""Sums over rows, added up while a kernel has the rows in hand for something else.

The gradient of a layernorm goes along every row, and sums two arrays over all rows. As a kernel of
its own the sums would read the large arrays again. Here the rows are cut into blocks; the kernel
adds up those of a block, element by element, and a small kernel adds up the blocks. `with_columns`
says so in groups, `blocked` cuts the loop over rows of the kernel that build.py writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final

from ftrace.core.avals import aval
from ftrace.core.jaxpr import Eqn, Var
from ftrace.core.lower import Reduction
from ftrace.lowering.fusion.groups import Group, RowPass, Running, Target
from ftrace.lowering.kernel import ir
from ftrace.lowering.kernel.launching import Operand
from ftrace.lowering.kernel.traversal import Fresh, inside, rewritten, substituted, uses_of

ROWS: Final = 32  # rows that a block of single rows has at most, and rows have to add up
FEWEST: Final = 8
MOST: Final = 128  # where rows have several axes, and a block is what the first one leaves
WIDEST: Final = 1 << 17  # bytes of a block's sums, which lie in a cache

Items = list[Any]


def with_columns(items: Sequence[Any], blocks: int, least: int) -> Items:
    """The items, with sums over rows in the groups that go along the rows.

    Args:
        items: groups and single equations.
        blocks: of rows there should be, if there are enough rows.
        least: rows of no more elements are left out: lanes lie across them.
    """
    found = list(items)
    for group in items:
        if _sums(group):
            for rows in found:
                if (
                    rows is not group
                    and isinstance(rows, Group)
                    and prod(group.kept) > least
                    and _fits(group, rows, found, blocks)
                ):
                    found = _joined(group, rows, found, blocks)
                    break
    return found


def _sums(item: Any) -> bool:
    """Whether an item sums floats over all but the last axes; what else it does is for columns."""
    if not isinstance(item, Group) or isinstance(item, Running) or item.order is None:
        return False
    first, *rest = item.passes
    return all(map(_is_sum, first.targets)) and all(not p.inner for p in rest)


def _is_sum(target: Target) -> bool:
    rule, a = target.eqn.primitive.lower, target.var.aval
    over_first = target.inner == tuple(range(len(target.inner)))
    adds = isinstance(rule, Reduction) and rule.fold == "sum" and target.folds
    return adds and over_first and a.dtype.char in "fd" and a.shape == _column(target)


def _column(target: Target) -> tuple[int, ...]:
    return target.sizes(target.kept)


def _chunk(rows: Sequence[int], blocks: int) -> int:
    """How many iterations of the first axis a block has; 0 if rows cannot be cut well."""
    if len(rows) > 1:
        return 1 if FEWEST <= prod(rows[1:]) <= MOST else 0
    fits = [n for n in range(FEWEST, ROWS + 1) if rows[0] % n == 0 and rows[0] > n]
    many = [n for n in fits if rows[0] // n >= blocks]
    return max(many, default=min(fits, default=0))


def _fits(group: Group, rows: Group, items: Items, blocks: int) -> bool:
    """Whether a group's sums can be done by another one, and save something."""
    if isinstance(rows, Running) or rows.order is not None or rows.chunk:
        return False
    kept, inner = group.passes[0].inner, group.kept
    along = rows.kept == kept and any(p.inner == inner for p in rows.passes)
    sums = group.passes[0].targets
    width = prod(inner) * sum(t.var.aval.dtype.itemsize for t in sums)
    if not (
        along and any(t.folds for t in rows.targets) and _chunk(kept, blocks) and width <= WIDEST
    ):
        return False
    read = {v for t in sums for v in t.reads}
    shared = read & (rows.where.keys() | {v for t in rows.targets for v in t.reads})
    large = any(v.aval.size == prod(kept) * prod(inner) for v in shared)
    known = all(_when(t, rows) is not None for t in sums)
    return large and known and _in_time(group, rows, items)


def _in_time(group: Group, rows: Group, items: Items) -> bool:
    """Whether what the sums read is there before the rows, and nobody wants the sums sooner."""
    here, there = items.index(group), items.index(rows)
    sums = group.passes[0].targets
    read = {v for t in sums for v in t.reads} - rows.where.keys()
    sooner = any(read & _made(item) for item in items[there:])
    later = any(_read(item) & group.where.keys() for item in items[here + 1 : there + 1])
    return not sooner and not later


def _made(item: Any) -> set[Any]:
    return set(item.where) if isinstance(item, Group) else set(item.outvars)


def _read(item: Any) -> set[Any]:
    if isinstance(item, Group):
        return {v for t in item.targets for v in t.reads}
    return {v for v in item.invars if type(v) is Var}


def _when(target: Target, rows: Group) -> int | None:
    """The first pass over rows in which all that a sum reads is known; there may be none yet."""
    inner = _column(target)
    first = rows.first_pass(target, inner)
    if first is None:
        return None
    fits = (p for p in range(first, len(rows.passes)) if rows.passes[p].inner == inner)
    return next(fits, len(rows.passes))


def _joined(group: Group, rows: Group, items: Items, blocks: int) -> Items:
    """The items with a group's sums in another one, and the sums of its blocks after it."""
    sums, kept = group.passes[0].targets, group.passes[0].inner
    rows.chunk = _chunk(kept, blocks)
    new: list[Target] = []
    for target in sums:
        when = _when(target, rows)
        assert when is not None
        if when == len(rows.passes):
            rows.passes.append(RowPass(_column(target)))
        a, eqn = target.var.aval, target.eqn
        part = Var(aval((kept[0] // rows.chunk, *a.shape), a.dtype))
        adds = Target(part, eqn)
        adds.reads, adds.slice, adds.blocks = target.reads, target.slice, True
        rows.add(adds, when)
        end = Target(
            target.var, Eqn(eqn.primitive, [part], {"axes": (0,)}, [target.var], eqn.source)
        )
        end.reads = {part: {end.index: True}}
        new.append(end)
    ends = Group(new[0])
    for target in (*new[1:], *(t for t in group.targets if t not in sums)):
        added = ends.try_add(target)
        assert added, target.eqn
    here, there = items.index(group), items.index(rows)
    found = [item for item in items if item is not group]
    found.insert(max(here, there), ends)  # the group is gone: this is behind whatever came last
    return found


# ---------------------------------------------------------------------------------- the kernel


Parts3 = tuple[ir.Kernel, tuple[Operand, ...], tuple[int, ...]]


def blocked(
    kernel: ir.Kernel,
    operands: tuple[Operand, ...],
    scalars: tuple[int, ...],
    table: list[int],
    chunk: int,
) -> Parts3:
    """A kernel whose first loop adds up in blocks of `chunk` iterations.

    The loop becomes two, of which the outer one is over blocks; at its beginning the sums are zero.
    """
    at = next(i for i, s in enumerate(kernel.body.stmts) if isinstance(s, ir.Loop))
    loop = kernel.body.stmts[at]
    assert isinstance(loop, ir.Loop)
    sums = [s for s in inside(loop.body) if isinstance(s, ir.Store) and s.combine is not None]
    fresh = Fresh(kernel)
    if chunk > 1:
        work = _Cutting(kernel, operands, scalars, table, chunk, fresh)
        loop = work.cut(loop, {s.buffer for s in sums})
        kernel, operands, scalars = work.kernel, work.operands, work.scalars
    stmts = (*_zeros(fresh, loop, sums), *loop.body.stmts)
    loop = replace(loop, body=ir.Block(stmts, loop.body.results))
    body = (*kernel.body.stmts[:at], loop, *kernel.body.stmts[at + 1 :])
    return replace(kernel, body=ir.Block(body)), operands, scalars


def _zeros(fresh: Fresh, loop: ir.Loop, sums: Sequence[ir.Store]) -> list[ir.Stmt]:
    """Loops that make the sums of a block zero; those over the same axes are one."""
    extents = {s.axis: s.extent for s in inside(loop.body) if isinstance(s, ir.Loop)}
    found: dict[tuple[ir.Atom, ...], list[ir.Store]] = {}
    for s in sums:
        found.setdefault(tuple(extents[a] for a in s.at if a in extents), []).append(s)
    stmts: list[ir.Stmt] = []
    for sizes, stores in found.items():
        axes = [fresh("i8") for _ in sizes]
        inner: tuple[ir.Stmt, ...] = tuple(
            ir.Store(s.buffer, (loop.axis, *axes), ir.Lit(0.0, s.value.dtype)) for s in stores
        )
        for axis, extent in reversed(list(zip(axes, sizes, strict=True))):
            inner = (ir.Loop((), axis, extent, ir.Block(inner)),)
        stmts += inner
    return stmts


class _Cutting:
    """Cuts the first loop of a kernel: its axis becomes one over blocks and one inside them."""

    def __init__(
        self,
        kernel: ir.Kernel,
        operands: tuple[Operand, ...],
        scalars: tuple[int, ...],
        table: list[int],
        chunk: int,
        fresh: Fresh,
    ) -> None:
        self.kernel, self.operands, self.scalars = kernel, operands, scalars
        self._table, self._chunk = table, chunk
        new = (fresh("i8") for _ in range(6))
        self._block, self._row, self._blocks, self._rows, self._before, self._whole = new

    def cut(self, loop: ir.Loop, sums: set[str]) -> ir.Loop:
        """The two loops; `sums` are the buffers that have one row per block."""
        total = self._table[self.scalars[self.kernel.scalars.index(loop.extent)]]
        touched = self._positions(loop.body, loop.axis, sums)
        body = rewritten(loop.body, lambda s: self._moved(s, loop.axis, touched, sums))
        if any(loop.axis in uses_of(s) for s in body.stmts):
            mul = ir.Let(self._before, "mul", (self._block, self._rows))
            add = ir.Let(self._whole, "add", (self._before, self._row))
            names = {loop.axis: self._whole}
            body = ir.Block((mul, add, *(substituted(s, names) for s in body.stmts)))
        self._widen(touched)
        self._table += [total // self._chunk, self._chunk]
        entries = (len(self._table) - 2, len(self._table) - 1)
        scalars = (*self.kernel.scalars, self._blocks, self._rows)
        self.kernel = replace(self.kernel, scalars=scalars)
        self.scalars = (*self.scalars, *entries)
        inner = ir.Loop((), self._row, self._rows, body)
        return ir.Loop((), self._block, self._blocks, ir.Block((inner,)))

    def _positions(self, block: ir.Block, axis: ir.KernelVar, sums: set[str]) -> dict[str, int]:
        """Per buffer which coordinate the axis is."""
        return {
            s.buffer: s.at.index(axis)
            for s in inside(block)
            if isinstance(s, ir.Load | ir.Store) and axis in s.at and s.buffer not in sums
        }

    def _moved(
        self, stmt: ir.Stmt, axis: ir.KernelVar, touched: Mapping[str, int], sums: set[str]
    ) -> ir.Stmt:
        """An access with two coordinates in the place of one."""
        if not isinstance(stmt, ir.Load | ir.Store):
            return stmt
        k = touched.get(stmt.buffer)
        if k is not None:
            whole = stmt.at[k] == axis
            new = (self._block, self._row) if whole else (ir.Lit(0, "i8"), stmt.at[k])
            return replace(stmt, at=(*stmt.at[:k], *new, *stmt.at[k + 1 :]))
        if stmt.buffer in sums:
            return replace(stmt, at=tuple(self._block if a == axis else a for a in stmt.at))
        return stmt

    def _widen(self, touched: Mapping[str, int]) -> None:
        """Buffers with a step for blocks before that for the rows in them."""
        buffers: list[ir.Buffer] = []
        operands: list[Operand] = []
        for b, o in zip(self.kernel.buffers, self.operands, strict=True):
            k = touched.get(b.name)
            if k is not None:
                before = b.steps[:k].count("any")
                known = {"one": 1, "minus": -1}
                step = known[b.steps[k]] if b.steps[k] in known else self._table[o.steps[before]]
                self._table.append(step * self._chunk)
                steps = (*o.steps[:before], len(self._table) - 1, *o.steps[before:])
                b = replace(b, steps=(*b.steps[:k], "any", *b.steps[k:]))
                o = replace(o, steps=steps)
            buffers.append(b)
            operands.append(o)
        self.kernel = replace(self.kernel, buffers=tuple(buffers))
        self.operands = tuple(operands)
