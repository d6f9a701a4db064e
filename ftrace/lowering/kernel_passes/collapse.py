"""Joining loops: two nested loops that walk through memory as one become one loop.

Axes a and b are one axis if every access uses both or neither, the step along a is the step
along b times the extent of b wherever it uses them, nothing else looks at either number, and
they are folded alike. Extents and steps are known when a program is planned, so the joined kernel
has other table entries, not other code for other sizes.
"""

from collections import Counter
from dataclasses import replace

from ftrace.lowering.kernel.ir import (
    Atom,
    Block,
    Buffer,
    Kernel,
    KernelVar,
    Load,
    Loop,
    Stmt,
    Store,
    blocks_of,
)
from ftrace.lowering.kernel.launching import Operand
from ftrace.lowering.kernel.traversal import Fresh, inside, operands_of, rewritten, uses_of

Parts3 = tuple[Kernel, tuple[Operand, ...], tuple[int, ...]]


def collapse(
    kernel: Kernel, operands: tuple[Operand, ...], scalars: tuple[int, ...], table: list[int]
) -> Parts3:
    """Join the loops of a kernel until none can be joined."""
    while True:
        found = _first(kernel.body, kernel, operands, scalars, table)
        if found is None:
            return kernel, operands, scalars
        kernel, operands, scalars = _joined(kernel, operands, scalars, table, *found)


def _steps(buffer: Buffer, operand: Operand, table: list[int]) -> list[int]:
    """The step of every coordinate, as a number."""
    numbers = iter(operand.steps)
    plain = {"one": 1, "minus": -1}
    return [table[next(numbers)] if c == "any" else plain[c] for c in buffer.steps]


def _extent(kernel: Kernel, scalars: tuple[int, ...], table: list[int], extent: Atom) -> int:
    if not isinstance(extent, KernelVar):
        return int(extent.value)
    return table[scalars[kernel.scalars.index(extent)]]


def _first(
    block: Block,
    kernel: Kernel,
    operands: tuple[Operand, ...],
    scalars: tuple[int, ...],
    table: list[int],
) -> tuple[Loop, Loop] | None:
    """A pair of loops that can be joined."""
    for stmt in block.stmts:
        if isinstance(stmt, Loop):
            inner = _only_inner(stmt)
            if inner is not None and _one_axis(stmt, inner, kernel, operands, scalars, table):
                return stmt, inner
        for below in blocks_of(stmt):
            found = _first(below, kernel, operands, scalars, table)
            if found is not None:
                return found
    return None


def _only_inner(loop: Loop) -> Loop | None:
    """The loop that is all of a loop's body, and is folded as it is."""
    stmts = loop.body.stmts
    if len(stmts) != 1 or not isinstance(stmts[0], Loop) or loop.params or stmts[0].params:
        return None
    inner = stmts[0]
    if loop.body.results != inner.outs:
        return None
    alike = [(f.op, f.acc) for f in loop.folds] == [(f.op, f.acc) for f in inner.folds]
    pairs = len(inner.outs) != len(inner.folds)
    return inner if alike and not pairs else None


def _one_axis(
    outer: Loop,
    inner: Loop,
    kernel: Kernel,
    operands: tuple[Operand, ...],
    scalars: tuple[int, ...],
    table: list[int],
) -> bool:
    extent = _extent(kernel, scalars, table, inner.extent)
    memory = {b.name: _steps(b, o, table) for b, o in zip(kernel.buffers, operands, strict=True)}
    pair = {outer.axis, inner.axis}
    joined: set[str] = set()
    for stmt in inside(inner.body):
        if isinstance(stmt, Load | Store):
            at = stmt.at
            used = [a for a in at if a in pair]
            if not used:
                continue
            if len(used) != 2 or used[0] == used[1]:
                return False
            steps = memory[stmt.buffer]
            if steps[at.index(outer.axis)] != extent * steps[at.index(inner.axis)]:
                return False
            if isinstance(stmt, Store) and stmt.value in pair:
                return False
            joined.add(stmt.buffer)
        elif pair & set(operands_of(stmt)):
            return False
    if pair & set(inner.body.results):
        return False
    here, all_in_all = _uses(inner.body), _uses(kernel.body)
    return all(here[b] == all_in_all[b] for b in joined)  # else other loops go along them, too


def _uses(block: Block) -> Counter[str]:
    """How many loads and stores of each buffer there are."""
    return Counter(s.buffer for s in inside(block) if isinstance(s, Load | Store))


def _joined(
    kernel: Kernel,
    operands: tuple[Operand, ...],
    scalars: tuple[int, ...],
    table: list[int],
    outer: Loop,
    inner: Loop,
) -> Parts3:
    """The kernel with two loops as one over the inner axis, and a new extent."""
    n = _extent(kernel, scalars, table, outer.extent) * _extent(
        kernel, scalars, table, inner.extent
    )
    table.append(n)
    extent = Fresh(kernel)("i8")
    touched: dict[str, int] = {}

    def without(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Load | Store) or outer.axis not in stmt.at:
            return stmt
        gone = touched[stmt.buffer] = stmt.at.index(outer.axis)
        return replace(stmt, at=tuple(a for i, a in enumerate(stmt.at) if i != gone))

    body = rewritten(inner.body, without)
    loop = replace(inner, outs=outer.outs, extent=extent, body=body)
    buffers: list[Buffer] = []
    places: list[Operand] = []
    for b, o in zip(kernel.buffers, operands, strict=True):
        gone = touched.get(b.name)
        if gone is None:
            buffers.append(b)
            places.append(o)
            continue
        numbers = iter(o.steps)
        entries = [next(numbers) if c == "any" else None for c in b.steps]
        kept = [i for i in range(len(b.steps)) if i != gone]
        buffers.append(replace(b, steps=tuple(b.steps[i] for i in kept)))
        steps = tuple(e for i in kept if (e := entries[i]) is not None)
        places.append(replace(o, steps=steps))
    new = Kernel(
        kernel.name,
        tuple(buffers),
        (*kernel.scalars, extent),
        rewritten(kernel.body, lambda s: loop if s is outer else s),
    )
    return _pruned(new, tuple(places), (*scalars, len(table) - 1))


def _pruned(kernel: Kernel, operands: tuple[Operand, ...], scalars: tuple[int, ...]) -> Parts3:
    """The kernel without extents that no loop has any more."""
    used = {a for stmt in kernel.body.stmts for a in uses_of(stmt)}
    kept = [i for i, v in enumerate(kernel.scalars) if v in used]
    slim = replace(kernel, scalars=tuple(kernel.scalars[i] for i in kept))
    return slim, operands, tuple(scalars[i] for i in kept)
