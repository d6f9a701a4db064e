"""Predication: what a `select` does not choose is not computed.

`where(c, f(x), g(x))` computes both sides, as NumPy does. In the body of a loop, statements are
grouped by the condition under which anything looks at their result; a group that is expensive moves
into one `If` under that condition. A side that several `select`s share is computed once, under
the disjunction of their conditions. Nothing in kernel IR traps or has effects but stores, which
stay where they are, so results keep their bits.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import groupby
from typing import Final

from ftrace.core.scalar import OPS
from ftrace.lowering.kernel.conditions import ALWAYS, Conditions
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
    While,
)
from ftrace.lowering.kernel.traversal import (
    Fresh,
    inside,
    mapped,
    outs_of,
    place_of,
    substituted,
    uses_of,
)

ZEROS: Final = {"b": False, "f": 0.0}


def gate(kernel: Kernel, *, lazy: bool = True) -> Kernel:
    """A kernel in whose loops nothing expensive is computed that nothing looks at.

    Without `lazy`, conditions that change in a loop keep nothing there from being loaded.
    """
    if not _selects(inside(kernel.body)):
        return kernel
    return replace(kernel, body=_Gate(Fresh(kernel), lazy).around(kernel.body))


def _selects(stmts: Iterable[Stmt]) -> bool:
    return any(isinstance(s, Let) and s.op == "select" for s in stmts)


class _Gate:
    """What holds for all loops of a kernel."""

    def __init__(self, fresh: Fresh, lazy: bool) -> None:
        self.fresh = fresh
        self.lazy = lazy

    def around(self, block: Block) -> Block:
        """A block with the bodies of its loops gated."""
        stmts: list[Stmt] = []
        for stmt in block.stmts:
            if isinstance(stmt, Loop | While):
                stmt = replace(stmt, body=_Body(self, self.around(stmt.body)).gated())
            else:
                stmt = mapped(stmt, self.around)
            stmts.append(stmt)
        return Block(tuple(stmts), block.results)


class _Body:
    """The body of one loop: who needs what, and when."""

    def __init__(self, work: _Gate, block: Block) -> None:
        self.work = work
        self.block = block
        self.made = {v: i for i, s in enumerate(block.stmts) for v in outs_of(s)}
        self.conditions = Conditions({v: block.stmts[i] for v, i in self.made.items()})

    def gated(self) -> Block:
        """The body with what is expensive under its conditions."""
        if not _selects(self.block.stmts):
            return self.block
        places = self._places(self._demands())
        while any(p != ALWAYS for p in places):
            order = self._scheduled(places)
            if len(order) == len(places):
                return self._written(order, places)
            # a condition may depend on what would be computed under it
            done = set(order)
            places = [p if i in done else ALWAYS for i, p in enumerate(places)]
        return self.block

    # --- when is a result looked at?

    def _demands(self) -> list[int]:
        """When something looks at what each statement leaves."""
        stmts = self.block.stmts
        demands = [0] * len(stmts)

        def look(atoms: Sequence[Atom] | set[Atom], when: int) -> None:
            for a in atoms:
                if isinstance(a, KernelVar) and a in self.made:
                    demands[self.made[a]] |= when

        look(self.block.results, ALWAYS)
        for i in reversed(range(len(stmts))):
            stmt = stmts[i]
            if not demands[i] or not _movable(stmt):
                demands[i] = ALWAYS
            when = demands[i]
            if isinstance(stmt, Let) and stmt.op == "select":
                cond, a, b = stmt.args
                table = self.conditions.table(cond)
                look((cond,), when)
                look((a,), when if table is None else when & table)
                look((b,), when if table is None else when & ~table)
            else:
                look(uses_of(stmt), when)
            for below in _within(stmt):
                look(place_of(below), ALWAYS)  # an address must always be one
        return demands

    # --- what is worth a branch?

    def _places(self, demands: list[int]) -> list[int]:
        """Under which condition each statement is computed."""
        groups: dict[int, list[Stmt]] = {}
        for stmt, demand in zip(self.block.stmts, demands, strict=True):
            groups.setdefault(demand, []).append(stmt)
        groups.pop(ALWAYS, None)
        expensive = sorted((d for d, g in groups.items() if self._dear(d, g)), key=int.bit_count)
        found = [next((p for p in expensive if d & ~p == 0), ALWAYS) for d in demands]
        if not self.work.lazy:
            for i, stmt in enumerate(self.block.stmts):
                if isinstance(stmt, Load) and not self._settled(found[i]):
                    found[i] = ALWAYS
        return found

    def _settled(self, when: int) -> bool:
        """Whether a condition never changes in the loop."""
        return all(v not in self.made for v in self.conditions.support(when))

    def _dear(self, when: int, stmts: Sequence[Stmt]) -> bool:
        """Whether statements are worth a branch: one that never changes in the loop is cheap."""
        if any(map(_costly, stmts)):
            return True
        return self._settled(when) and any(isinstance(s, Load) for s in stmts)

    # --- order

    def _scheduled(self, places: list[int]) -> list[int]:
        """An order in which statements of one condition stand together, as far as there is one."""
        after, missing = self._order(places)
        ready: dict[int, list[int]] = {}
        for i, count in enumerate(missing):
            if not count:
                heappush(ready.setdefault(places[i], []), i)
        order: list[int] = []
        while any(ready.values()):
            now = max((p for p in ready if ready[p]), key=int.bit_count)  # the weakest first
            queue = ready[now]
            while queue:
                i = heappop(queue)
                order.append(i)
                for j in after[i]:
                    missing[j] -= 1
                    if not missing[j]:
                        heappush(ready.setdefault(places[j], []), j)
        return order

    def _written(self, order: Sequence[int], places: Sequence[int]) -> Block:
        """The statements in this order, neighbours of one condition as one `If`."""
        out: list[Stmt] = []
        for place, members in groupby(order, key=lambda i: places[i]):
            out += self._together(place, list(members), places)
        return Block(tuple(out), self.block.results)

    def _order(self, places: list[int]) -> tuple[list[set[int]], list[int]]:
        """For each statement those that wait for it, and for how many it waits."""
        stmts = self.block.stmts
        after: list[set[int]] = [set() for _ in stmts]
        missing = [0] * len(stmts)
        for i, stmt in enumerate(stmts):
            used = uses_of(stmt) | set(self.conditions.support(places[i]))
            before = {self.made[a] for a in used if isinstance(a, KernelVar) and a in self.made}
            if _stores(stmt):
                before |= {j for j in range(i) if _touches(stmts[j])}
            elif _touches(stmt):
                before |= {j for j in range(i) if _stores(stmts[j])}
            for j in before:
                after[j].add(i)
            missing[i] = len(before)
        return after, missing

    def _together(self, when: int, members: Sequence[int], places: Sequence[int]) -> list[Stmt]:
        """Statements under a condition, as one `If`."""
        stmts = [self.block.stmts[i] for i in members]
        if when == ALWAYS or not self._dear(when, stmts):
            return stmts
        inner = set(members)
        elsewhere = set(self.block.results)
        for i, stmt in enumerate(self.block.stmts):
            if i not in inner:
                elsewhere |= uses_of(stmt)
        for place in set(places) - {when, ALWAYS}:  # other branches ask for what decides about them
            elsewhere |= set(self.conditions.support(place))
        outs = tuple(v for s in stmts for v in outs_of(s) if v in elsewhere)
        env = {v: self.work.fresh(v.dtype) for v in outs}
        tests: list[Stmt] = []
        cond = self.conditions.written(when, self.work.fresh, tests)
        then = Block(tuple(substituted(s, env) for s in stmts), tuple(env.values()))
        none = Block((), tuple(Lit(ZEROS.get(v.dtype[0], 0), v.dtype) for v in outs))
        return [*tests, If(outs, cond, then, none, skips=True)]


def _within(stmt: Stmt) -> Iterable[Stmt]:
    """A statement and those in it."""
    return (stmt,) if isinstance(stmt, Let | Load) else inside(Block((stmt,)))


def _movable(stmt: Stmt) -> bool:
    return isinstance(stmt, Let | Load | If | While) and not _stores(stmt)


def _stores(stmt: Stmt) -> bool:
    return any(not isinstance(s, Let | Load | If | While) for s in _within(stmt))


def _touches(stmt: Stmt) -> bool:
    return any(not isinstance(s, Let | If | While) for s in _within(stmt))


def _costly(stmt: Stmt) -> bool:
    """Whether the emitters jump over such a statement where nothing needs it."""
    return any(
        isinstance(s, While) or (isinstance(s, Let) and OPS[s.op].costly) for s in _within(stmt)
    )
