"""What mapping needs to know of the loops of a kernel, and the two ways in which it changes them.

Two loops around one body are *joined* into one over all pairs of iterations, which threads can
share however long each of the two is. A fold gets as many accumulators as threads share its loop,
each of which adds up its own elements first (`refolded`): the tree is part of the kernel, so that
the reference interpreter gives the device's bits.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from ftrace.gpu.grid.layout import GridLayout
from ftrace.lowering.kernel.fold_trees import has_tree
from ftrace.lowering.kernel.ir import (
    Block,
    Fold,
    If,
    Kernel,
    KernelVar,
    Let,
    Load,
    Loop,
    Stmt,
    Store,
    While,
)
from ftrace.lowering.kernel.traversal import Fresh, inside, rewritten


@dataclass(frozen=True, eq=False)
class Access:
    """A load or store, the loops around it, and whether it is below an `If` or `While`."""

    stmt: Load | Store
    loops: tuple[Loop, ...]
    guarded: bool


def accesses(block: Block, loops: tuple[Loop, ...] = (), guarded: bool = False) -> list[Access]:
    """Every load and store of a block."""
    found: list[Access] = []
    for stmt in block.stmts:
        match stmt:
            case Load() | Store():
                found.append(Access(stmt, loops, guarded))
            case Loop():
                found += accesses(stmt.body, (*loops, stmt), guarded)
            case If():
                found += accesses(stmt.then, loops, True) + accesses(stmt.orelse, loops, True)
            case While():
                found += accesses(stmt.cond, loops, True) + accesses(stmt.body, loops, True)
            case _:
                pass
    return found


def is_free(loop: Loop) -> bool:
    """Whether the iterations of a loop may run at once: none carries or combines into a cell."""
    combining = (s for s in inside(loop.body) if isinstance(s, Store) and s.combine is not None)
    return not loop.params and not any(loop.axis not in s.at for s in combining)


def owners(block: Block) -> tuple[list[Loop], Block]:
    """The outer loops that hold all others, and what is inside the last of them."""
    inner = [s for s in block.stmts if isinstance(s, Loop)]
    if len(inner) != 1 or inner[0].folds or not is_free(inner[0]) or _meets(block):
        return [], block
    below, rest = owners(inner[0].body)
    return [inner[0], *below], rest


def flattened(
    kernel: Kernel, owners: Sequence[int]
) -> tuple[list[tuple[Stmt, tuple[int, ...]]], list[Loop]]:
    """The statements inside the owners' loops, with the owners around each; the loops."""
    loops: dict[int, Loop] = {}

    def walk(block: Block, around: tuple[int, ...]) -> Iterable[tuple[Stmt, tuple[int, ...]]]:
        for stmt in block.stmts:
            if isinstance(stmt, Loop) and stmt.axis.id in owners:
                loops[stmt.axis.id] = stmt
                yield from walk(stmt.body, (*around, stmt.axis.id))
            else:
                yield stmt, around

    found = list(walk(kernel.body, ()))
    return found, [loops[axis] for axis in owners]


def _meets(block: Block) -> bool:
    """Whether what stands beside a block's loop reads what the loop writes, or the other way."""
    beside = Block(tuple(s for s in block.stmts if not isinstance(s, Loop)))
    within = Block(tuple(s for s in block.stmts if isinstance(s, Loop)))
    written = [{s.buffer for s in inside(b) if isinstance(s, Store)} for b in (beside, within)]
    read = [{s.buffer for s in inside(b) if isinstance(s, Load)} for b in (beside, within)]
    return bool(read[0] & (written[0] | written[1]) or read[1] & written[0])


# --- two loops as one


@dataclass(frozen=True, eq=False)
class Piece:
    """A loop that the threads of a team share: one loop, or an outer and an inner one joined."""

    outer: Loop
    inner: Loop

    @property
    def is_joined(self) -> bool:
        return self.outer is not self.inner


def joinable(loop: Loop) -> Loop | None:
    """The loop inside that can be joined with this one: it makes all that this one leaves."""
    inner = [s for s in loop.body.stmts if isinstance(s, Loop)]
    if len(inner) != 1 or not (is_free(loop) and is_free(inner[0])):
        return None
    (below,), before = inner, loop.body.stmts[:-1]
    same = [(f.op, f.acc) for f in loop.folds] == [(f.op, f.acc) for f in below.folds]
    pure = all(not isinstance(s, Store) for s in inside(Block(before)))
    last = loop.body.stmts[-1] is below and loop.body.results == below.outs
    return below if same and pure and last else None


def joined(kernel: Kernel, pieces: Sequence[Piece]) -> tuple[Kernel, dict[int, KernelVar]]:
    """The kernel with its pairs as single loops; the new axis of each, by the old outer one.

    The extents of the new loops are new scalars, in the order of the pairs. The old axes are
    computed from the new one, at the start of its body.
    """
    fresh = Fresh(kernel)
    axes: dict[int, KernelVar] = {}
    extents: list[KernelVar] = []
    loops: dict[KernelVar, Loop] = {}  # by the old outer axis
    for piece in pieces:
        axis, extent = fresh("i8"), fresh("i8")
        axes[piece.outer.axis.id] = axis
        extents.append(extent)
        outer, inner = piece.outer, piece.inner
        stmts = (
            Let(outer.axis, "floor_divide", (axis, inner.extent)),
            Let(inner.axis, "mod", (axis, inner.extent)),
            *outer.body.stmts[:-1],
            *inner.body.stmts,
        )
        body = Block(stmts, inner.body.results)
        loops[outer.axis] = replace(inner, outs=outer.outs, axis=axis, extent=extent, body=body)
    body = rewritten(kernel.body, lambda s: loops.get(s.axis, s) if isinstance(s, Loop) else s)
    return replace(kernel, scalars=(*kernel.scalars, *extents), body=body), axes


# --- sums over rows that a team goes through


def settled(kernel: Kernel, lanes: Sequence[int]) -> tuple[Kernel, list[int]]:
    """The kernel with its sums over rows stored once more, behind the rows; the new loops' axes.

    A team that adds every row to a sum in memory can keep the sum in registers instead, if a loop
    behind the rows stores it: so here is one, which reads and writes the same elements.
    """
    fresh = Fresh(kernel)
    found: list[int] = []

    def again(loop: Loop, sums: Sequence[Store]) -> Loop:
        axis = fresh("i8")
        found.append(axis.id)
        loads = [
            Load(
                fresh(s.value.dtype),
                s.buffer,
                tuple(axis if a == loop.axis else a for a in s.at),
            )
            for s in sums
        ]
        stores = [Store(v.buffer, v.at, v.out) for v in loads]
        return Loop((), axis, loop.extent, Block((*loads, *stores)))

    def behind(block: Block) -> Block:
        stmts: list[Stmt] = []
        for stmt in block.stmts:
            if not isinstance(stmt, Loop) or stmt.axis.id in lanes:
                stmts.append(stmt)
                continue
            stmts.append(replace(stmt, body=behind(stmt.body)))
            for loop in stmt.body.stmts:
                if isinstance(loop, Loop) and loop.axis.id in lanes:
                    sums = [s for s in loop.body.stmts if _adds(s, loop, stmt)]
                    stmts += [again(loop, sums)] if sums else []
        return Block(tuple(stmts), block.results)

    return replace(kernel, body=behind(kernel.body)), found


def _adds(stmt: Stmt, loop: Loop, rows: Loop) -> TypeGuard[Store]:
    """Whether a loop along a row adds to a sum that all rows share."""
    if not isinstance(stmt, Store) or stmt.combine is None:
        return False
    return loop.axis in stmt.at and rows.axis not in stmt.at


# --- folds as threads do them


def refolded(block: Block, layout: GridLayout) -> Block:
    """A block whose folds have an accumulator for each thread of a team."""

    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Loop) and stmt.folds:
            lanes = stmt.axis.id in layout.lanes
            ways, near = (layout.threads * layout.split, layout.width) if lanes else (1, 0)
            plain = lanes and layout.plain
            folds = tuple(_refolded(f, ways, near, plain) for f in stmt.folds)
            stmt = replace(stmt, folds=folds)
        return stmt

    return rewritten(block, change)


def _refolded(fold: Fold, ways: int, near: int, plain: bool) -> Fold:
    if not has_tree(fold):
        return replace(fold, ways=1)
    block = 0 if plain else fold.block // fold.ways * ways * max(near, 1)
    return replace(fold, ways=ways, block=block, near=near)
