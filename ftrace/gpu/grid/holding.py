"""Rows in registers: what a pass over a row leaves there for the passes after it.

Where a team goes over a row several times, and each thread takes the same few elements each time,
an element that was loaded or stored in one pass is not loaded again in the next, and a store that
a later pass repeats at the same place is left out. An element is known by its buffer and its
coordinates apart from the loop's axis. A sum to which every row is added stays in registers as
well, from the loop that starts it to the one that stores it (`nests.settled`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ftrace.lowering.kernel.ir import Atom, Block, Load, Loop, Stmt, Store
from ftrace.lowering.kernel.traversal import inside

Key = tuple[str, tuple[Atom | None, ...]]


@dataclass
class HeldRow:
    """What is held, by number, and which statements have to do with it, by their `id`.

    Attributes:
        dtypes: of what is held.
        saved: loads and stores whose elements are held from there on.
        taken: loads that need no memory.
        dead: stores that need none either.
        registers: the most that are taken between two passes, for one element of a thread.
        sums: how many sums over rows are held.
    """

    dtypes: list[str] = field(default_factory=list)
    saved: dict[int, int] = field(default_factory=dict)
    taken: dict[int, int] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    registers: int = 0
    sums: int = 0


def held(
    stmts: Sequence[Stmt], lanes: Sequence[int], same: Mapping[str, str], dtypes: Mapping[str, str]
) -> HeldRow:
    """What the lane loops among the statements of a team can leave for each other.

    Args:
        stmts: the statements of a team.
        lanes: ids of the axes that are spread over its threads.
        same: buffers that are the same memory in the same steps, each with the first of them.
        dtypes: of the buffers.
    """
    found = HeldRow()
    every = [s for s in inside(Block(tuple(stmts))) if isinstance(s, Loop) and s.axis.id in lanes]
    if any(s.extent != every[0].extent for s in every):
        return found
    touched: dict[str, list[Load | Store]] = {}
    for stmt in inside(Block(tuple(stmts))):
        if isinstance(stmt, Load | Store):
            touched.setdefault(same.get(stmt.buffer, stmt.buffer), []).append(stmt)
    _hold_sums(found, stmts, lanes, dtypes, touched)
    for row in _rows(stmts, lanes):
        passes = [s for s in row if isinstance(s, Loop) and s.axis.id in lanes]
        _hold(found, passes, same, dtypes, touched)
    return found


def _rows(stmts: Sequence[Stmt], lanes: Sequence[int]) -> Iterator[Sequence[Stmt]]:
    """The lists of statements that a team goes through: its own, and those that it repeats."""
    yield stmts
    for stmt in stmts:
        if isinstance(stmt, Loop) and stmt.axis.id not in lanes:
            yield from _rows(stmt.body.stmts, lanes)


def _hold(
    found: HeldRow,
    passes: Sequence[Loop],
    same: Mapping[str, str],
    dtypes: Mapping[str, str],
    touched: Mapping[str, Sequence[Load | Store]],
) -> None:
    """Enter what the passes over one row leave for each other."""
    uses: dict[Key, list[tuple[int, Load | Store]]] = {}
    for number, one in enumerate(passes):
        for stmt in one.body.stmts:
            if isinstance(stmt, Load | Store) and one.axis in stmt.at:
                at = tuple(None if a == one.axis else a for a in stmt.at)
                uses.setdefault((same.get(stmt.buffer, stmt.buffer), at), []).append((number, stmt))
    alive = [0] * len(passes)
    for (buffer, _), accesses in uses.items():
        loads = [n for n, s in accesses if isinstance(s, Load)]
        all_of = touched[buffer]
        written = any(isinstance(s, Store) for s in all_of)
        if not loads or loads[-1] == accesses[0][0] or (written and len(all_of) > len(accesses)):
            continue
        if any(isinstance(s, Store) and s.combine is not None for s in all_of):
            continue
        _enter(found, accesses, dtypes[buffer])
        for number in range(accesses[0][0], loads[-1]):  # between this pass and the next
            alive[number] += max(1, int(dtypes[buffer][1:]) // 4)
    found.registers += max(alive, default=0)


def _hold_sums(
    found: HeldRow,
    stmts: Sequence[Stmt],
    lanes: Sequence[int],
    dtypes: Mapping[str, str],
    touched: Mapping[str, Sequence[Load | Store]],
) -> None:
    """Enter sums that one loop starts, every row adds to, and another loop reads and stores."""
    own, inner = _places(stmts, lanes), dict[int, Key]()
    for rows in stmts:
        if isinstance(rows, Loop) and rows.axis.id not in lanes:
            inner |= _places(rows.body.stmts, lanes)
    for accesses in touched.values():
        if len(accesses) < 4:
            continue
        start, *adds, load, store = accesses
        key = own.get(id(start))
        ends = _is_plain(start) and isinstance(load, Load) and _is_plain(store)
        adding = all(isinstance(s, Store) and s.combine is not None for s in adds)
        here = all(own.get(id(s)) == key for s in (load, store))
        if not (key and ends and adding and here and all(inner.get(id(s)) == key for s in adds)):
            continue
        number, dtype = len(found.dtypes), dtypes[start.buffer]
        found.dtypes.append(dtype)
        found.saved.update({id(s): number for s in (start, *adds)})
        found.dead.update(id(s) for s in (start, *adds))
        found.taken[id(load)] = number
        found.registers += max(1, int(dtype[1:]) // 4)
        found.sums += 1


def _places(stmts: Sequence[Stmt], lanes: Sequence[int]) -> dict[int, Key]:
    """The accesses in lane loops among some statements, each with its place."""
    return {
        id(s): (s.buffer, tuple(None if a == one.axis else a for a in s.at))
        for one in stmts
        if isinstance(one, Loop) and one.axis.id in lanes
        for s in one.body.stmts
        if isinstance(s, Load | Store) and one.axis in s.at
    }


def _is_plain(access: Load | Store) -> bool:
    return isinstance(access, Store) and access.combine is None


def _enter(found: HeldRow, accesses: Sequence[tuple[int, Load | Store]], dtype: str) -> None:
    """Hold what some accesses have in common."""
    number = len(found.dtypes)
    found.dtypes.append(dtype)
    last = max(k for k, (_, s) in enumerate(accesses) if isinstance(s, Load))
    stores = [k for k, (_, s) in enumerate(accesses) if isinstance(s, Store)]
    for k, (_, stmt) in enumerate(accesses):
        if isinstance(stmt, Load) and k:
            found.taken[id(stmt)] = number
        elif k < last:
            found.saved[id(stmt)] = number
        if isinstance(stmt, Store) and k < stores[-1]:
            found.dead.add(id(stmt))
