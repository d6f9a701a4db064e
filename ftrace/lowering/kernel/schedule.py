"""Schedules: how the loops of a kernel run, as a value beside it.

A schedule gives every loop a role, by the loop's axis variable: it is total, because a loop that
nobody thought of would run one element at a time, correctly and silently. `lane` loops run many
iterations at once in the lanes of vectors, `serial` loops one after the other. This is the only
file that makes such choices.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ftrace.core.records import record
from ftrace.core.scalar import OPS
from ftrace.lowering.kernel.fold_trees import has_tree
from ftrace.lowering.kernel.ir import (
    Atom,
    Block,
    Kernel,
    KernelVar,
    Let,
    Load,
    Loop,
    Store,
    While,
    blocks_of,
    loops_of,
)
from ftrace.lowering.kernel.traversal import inside, operands_of, outs_of

LANE = "lane"
SERIAL = "serial"
TURNS = 8  # how much more an access in an inner loop counts
EXPENSIVE = 1000  # what lanes are worth around a loop in order that computes what is costly
FEW = 8  # values carried by a loop that stay in registers for four vectors
SHORT = 24  # iterations that lanes lie across, not along, where the loop around has many
TINY = 2  # iterations that are done one after the other
FEWER = 7  # the same where a loop inside has many that can be done at once
MANY = 32  # iterations of a loop around short ones from which it gets the lanes
LONG = 128  # statements from which values would not stay in registers if there were two of each


@record
class Schedule:
    """How a kernel runs.

    Attributes:
        roles: (axis id, role) of every loop, in the order of `loops_of`.
        lanes: iterations of a `lane` loop that run at once: a power of two, at least the `ways`
            of every fold of such a loop.
        streams: buffers that are written past the caches, where whole vectors are (streaming.py).
        shared: axis ids of loops whose iterations are shared by threads (thread_sharing.py).
    """

    roles: tuple[tuple[int, str], ...]
    lanes: int
    streams: tuple[str, ...] = ()
    shared: tuple[int, ...] = ()

    def role(self, loop: Loop) -> str:
        """The role of a loop."""
        for axis, role in self.roles:
            if axis == loop.axis.id:
                return role
        raise KeyError(loop.axis.id)


class _Facts(NamedTuple):
    """Of a kernel: classes of steps by buffer, axes without lanes, extents by axis."""

    classes: Mapping[str, tuple[str, ...]]
    without: frozenset[int]
    extents: Mapping[int, int]

    def has_many(self, loops: Sequence[Loop]) -> bool:
        """Whether one of the loops has many iterations, which many accumulators can share."""
        return any(
            self.extents.get(x.axis.id, 0) >= LONG
            and all(f.ways > 1 or not has_tree(f) for f in x.folds)
            for x in loops
        )

    def is_across(self, loop: Loop) -> bool:
        """Whether a loop has many iterations, and all those inside it are short."""
        inner = [self.extents.get(inner.axis.id, LONG) for inner in loops_of(loop.body)]
        few = bool(inner) and max(inner) <= SHORT
        return few and self.extents.get(loop.axis.id, 0) >= MANY


def schedule(
    kernel: Kernel,
    vector_bytes: int,
    without: frozenset[int] = frozenset(),
    extents: Mapping[int, int] | None = None,
) -> Schedule:
    """Choose roles and lanes for a host whose vectors have so many bytes.

    Args:
        kernel: what runs.
        vector_bytes: of the host's vectors.
        without: axes of ranges that get no lanes, because they are short.
        extents: of axes, where they may decide.
    """
    facts = _Facts({b.name: b.steps for b in kernel.buffers}, without, extents or {})
    roles: dict[int, str] = {loop.axis.id: SERIAL for loop in loops_of(kernel.body)}
    lanes = [lane for top in _top(kernel.body) for lane in _best(top, facts)[1]]
    for loop in lanes:
        roles[loop.axis.id] = LANE
    return Schedule(tuple(roles.items()), _lanes(lanes, facts, vector_bytes))


def _top(block: Block) -> list[Loop]:
    """The outermost loops of a block."""
    return [s for s in block.stmts if isinstance(s, Loop)]


def _best(loop: Loop, facts: _Facts) -> tuple[int, list[Loop]]:
    """The best score, and the loops that get lanes for it: this one, or some inside it."""
    inner = [_best(child, facts) for child in _top(loop.body)]
    below = (TURNS * sum(s for s, _ in inner), [x for _, found in inner for x in found])
    in_order = bool(loop.params) or combines(loop.body, loop.axis)
    tiny = 0 < facts.extents.get(loop.axis.id, 0) <= (FEWER if facts.has_many(below[1]) else TINY)
    if in_order or tiny or loop.axis.id in facts.without:
        return below
    if any(map(_is_dear, _top(loop.body))):
        return EXPENSIVE, [loop]
    here = sum(
        weight * _score(at, facts.classes[b], loop.axis)
        for b, at, weight in _accesses(loop.body)
        if b in facts.classes
    )
    if facts.is_across(loop):
        return here, [loop]
    return below if inner and below[0] >= here else (here, [loop])


def _is_dear(loop: Loop) -> bool:
    """Whether a loop that runs in order computes something costly from what it carries."""
    late = set(loop.params)
    for stmt in inside(loop.body):
        if late and not late.isdisjoint(operands_of(stmt)):
            late.update(outs_of(stmt))
            if isinstance(stmt, Let) and OPS[stmt.op].costly:
                return True
    return False


def is_shareable(loop: Loop, chosen: Schedule) -> bool:
    """Whether threads may run iterations of a loop in any order, with the same result.

    They write different cells; what floats are summed up to is joined block by block, and what
    else is folded does not depend on the order.
    """
    if loop.params or combines(loop.body, loop.axis):
        return False
    lengths = {f.block for f in loop.folds if has_tree(f)}
    return not loop.folds or (chosen.role(loop) == LANE and 0 not in lengths and len(lengths) < 2)


def combines(block: Block, axis: KernelVar) -> bool:
    """Whether iterations along an axis combine into the same cells."""
    return any(
        (isinstance(s, Store) and s.combine is not None and axis not in s.at)
        or any(combines(inner, axis) for inner in blocks_of(s))
        for s in block.stmts
    )


def _accesses(block: Block, weight: int = 1) -> list[tuple[str, tuple[Atom, ...], int]]:
    """Buffer, coordinates and weight of every load and store in a block."""
    found: list[tuple[str, tuple[Atom, ...], int]] = []
    for stmt in block.stmts:
        if isinstance(stmt, Load | Store):
            found.append((stmt.buffer, stmt.at, weight))
        for inner in blocks_of(stmt):
            found.extend(_accesses(inner, weight * TURNS if isinstance(stmt, Loop) else weight))
    return found


def _score(at: Sequence[Atom], steps: tuple[str, ...], axis: KernelVar) -> int:
    """What lanes along an axis are worth to one access: whole vectors, a splat, or a gather."""
    classes = [step for atom, step in zip(at, steps, strict=True) if atom == axis]
    if not classes:
        return 1
    return {"one": 4, "minus": 3, "any": -4}[classes[0]] if len(classes) == 1 else -4


def _lanes(lane_loops: Sequence[Loop], facts: _Facts, vector_bytes: int) -> int:
    """Vectors of two registers; more where latency would show or a column is summed."""
    if not lane_loops:
        return 1
    widest, registers, ways = 4, 2, 1
    for loop in lane_loops:
        ways = max([ways, *(f.ways for f in loop.folds)])
        widest = max([widest, *(_size(d) for d in _dtypes(loop.body))])
        if facts.is_across(loop):
            continue
        if any(inner.folds for inner in loops_of(loop.body)):
            few = facts.extents.get(loop.axis.id, LONG) * widest // vector_bytes
            registers = max(registers, 1 << few.bit_length()) if few < 8 else 8
        elif any(inner.params for inner in loops_of(loop.body)):
            registers = 2 if any(map(_is_dear, loops_of(loop.body))) else 4
        elif _carried(loop.body):
            registers = max(registers, 2) if _carried(loop.body) > FEW else 4
        elif _length(loop.body) > LONG:
            registers = 1
    return max(ways, registers * vector_bytes // widest)


def _length(block: Block) -> int:
    """How many statements a block has, with those inside it."""
    return sum(1 + sum(map(_length, blocks_of(s))) for s in block.stmts)


def _size(dtype: str) -> int:
    return int(dtype[1:])


def _dtypes(block: Block) -> set[str]:
    """Types of the values that a block computes, coordinates aside."""
    found: set[str] = set()
    for stmt in block.stmts:
        if isinstance(stmt, Let | Load) and stmt.out.dtype != "i8":
            found.add(stmt.out.dtype)
        for inner in blocks_of(stmt):
            found |= _dtypes(inner)
    return found


def _carried(block: Block) -> int:
    """The most values that a `While` of a block carries; 0 without one."""
    inner = (_carried(b) for s in block.stmts for b in blocks_of(s))
    here = (len(s.params) for s in block.stmts if isinstance(s, While))
    return max((*inner, *here), default=0)
