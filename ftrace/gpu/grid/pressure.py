"""What the body of a loop asks for, before the compiler says so: registers and work.

They decide how many elements a thread takes. Registers are values that are alive at once: loads
are issued first and stores last, so that their values live as long as the body. With 256 threads
per block, a processor of 64k registers is full where a thread takes 32. Work counts operations;
where there is much, memory waits for the processor and not the other way round, and compiling
several copies takes more than its time: 150 sines take 2.7 s, four copies of them 24 s.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from typing import Final

from ftrace.core.scalar import OPS
from ftrace.lowering.kernel.ir import (
    Block,
    KernelVar,
    Let,
    Load,
    Loop,
    Stmt,
    Store,
    While,
    blocks_of,
)
from ftrace.lowering.kernel.traversal import inside, outs_of, uses_of

COSTLY: Final = 8  # how many cheap operations a costly one counts for


def work(stmts: Iterable[Stmt]) -> int:
    """Operations of some statements and those in them, as if all were cheap."""
    every = inside(Block(tuple(stmts)))
    return sum(COSTLY if isinstance(s, Let) and OPS[s.op].costly else 1 for s in every)


def varying(block: Block, axes: Collection[KernelVar]) -> set[KernelVar]:
    """The variables that differ for neighbours along some axes; others are there once for them."""
    found = set(axes)
    for stmt in inside(block):
        if not found.isdisjoint(a for a in uses_of(stmt) if isinstance(a, KernelVar)):
            found.update(outs_of(stmt))
            found.update(stmt.params if isinstance(stmt, Loop | While) else ())
    return found


def registers(stmts: Sequence[Stmt], left: Sequence[KernelVar] = ()) -> float:
    """The most registers of 4 bytes that values of these statements take at once.

    Args:
        stmts: the body, for one element.
        left: values that are used after it.
    """
    last: dict[int, int] = {v.id: len(stmts) for v in left}
    first: dict[int, tuple[int, KernelVar]] = {}
    inner: dict[int, float] = {}
    for number, stmt in enumerate(stmts):
        for atom in uses_of(stmt):
            if isinstance(atom, KernelVar):
                end = len(stmts) if isinstance(stmt, Store) else number
                last[atom.id] = max(last.get(atom.id, 0), end)
        for var in outs_of(stmt):
            first[var.id] = (0 if isinstance(stmt, Load) else number, var)
        inner[number] = max((_inside(b) for b in blocks_of(stmt)), default=0)
    change = [0.0] * (len(stmts) + 1)
    for start, var in first.values():
        change[start] += _size(var)
        change[min(last.get(var.id, start), len(stmts) - 1) + 1] -= _size(var)
    alive = accumulate(change)
    return max((a + inner[n] for n, a in zip(range(len(stmts)), alive, strict=False)), default=0)


def _inside(block: Block) -> float:
    return registers(block.stmts, [a for a in block.results if isinstance(a, KernelVar)])


def _size(var: KernelVar) -> float:
    return 0.25 if var.dtype == "b1" else max(1, int(var.dtype[1:]) // 4)
