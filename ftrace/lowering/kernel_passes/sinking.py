"""Sinking: what only the last iteration of a loop computes for others moves behind the loop.

`while True: ...; if hit: return g(state)` is a loop that carries a flag, the value of `g`, and a
select between it and nothing in every iteration. What only the exit looks at is computed once
behind the loop, from the state of the iteration that left it. What is carried for further
iterations alone needs no select at all: whatever an iteration that leaves says of it, nobody reads.
And what never changes is no carried value. No operation gets other operands, so results keep
their bits.
"""

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeGuard

from ftrace.lowering.kernel.conditions import ALWAYS, Conditions
from ftrace.lowering.kernel.ir import (
    Atom,
    Block,
    Kernel,
    KernelVar,
    Let,
    Lit,
    Load,
    Stmt,
    Store,
    While,
)
from ftrace.lowering.kernel.traversal import (
    Fresh,
    inside,
    mapped,
    operands_of,
    outs_of,
    place_of,
    substituted,
    uses_of,
)

ZEROS: Final = {"b": False, "f": 0.0}
Carry = tuple[KernelVar, KernelVar, Atom, Atom]  # out, parameter, start, next


def exits(kernel: Kernel) -> Kernel:
    """A kernel whose loops compute in every iteration only what the next one needs."""
    if not any(isinstance(s, While) for s in inside(kernel.body)):
        return kernel
    read = {a for s in inside(kernel.body) for a in (*operands_of(s), *place_of(s))}
    work = _Exits(Fresh(kernel), read)
    return replace(kernel, body=work.around(kernel.body))


class _Exits:
    """What holds for all loops of a kernel.

    Args:
        fresh: new variables.
        read: what anything in the kernel reads.
    """

    def __init__(self, fresh: Fresh, read: set[Atom]) -> None:
        self.fresh = fresh
        self.read = read

    def around(self, block: Block) -> Block:
        """A block with its loops changed, the inner ones first."""
        stmts: list[Stmt] = []
        for stmt in block.stmts:
            stmt = mapped(stmt, self.around)
            if isinstance(stmt, While):
                stmt, behind = _Last(self, _tested(self, stmt)).behind()
                stmts += [*self._settled(stmt, stmts), *behind]
            else:
                stmts.append(stmt)
        return Block(tuple(stmts), block.results)

    def _settled(self, stmt: While, before: Sequence[Stmt]) -> list[Stmt]:
        """A loop without carried values that never change, and what they keep in it before it."""
        carries = _carries(stmt)
        same = {p: init for _, p, init, after in carries if after in (p, init)}
        if not same:
            return [stmt]
        known = {(s.op, s.args, s.out.dtype): s.out for s in before if isinstance(s, Let)}
        own = {p for _, p, _, _ in carries if p not in same}
        out: list[Stmt] = []
        body: list[Stmt] = []
        for inner in stmt.body.stmts:
            inner = substituted(inner, same)
            if isinstance(inner, Let) and own.isdisjoint(inner.args):
                key = (inner.op, inner.args, inner.out.dtype)
                if key in known:
                    same[inner.out] = known[key]
                else:
                    known[key] = inner.out
                    out.append(inner)
            else:
                own.update(outs_of(inner))
                body.append(inner)
        rest = replace(stmt, params=(), inits=(), outs=(), body=Block((), stmt.body.results))
        loop = substituted(rest, same)
        assert isinstance(loop, While)
        changing = [
            (o, p, init, after)
            for (o, p, init, _), after in zip(carries, loop.body.results, strict=True)
            if p in own or o in self.read
        ]
        return [*out, _loop(changing, loop.cond, Block(tuple(body), _nexts(changing)))]


def _carries(stmt: While) -> list[Carry]:
    return list(zip(stmt.outs, stmt.params, stmt.inits, stmt.body.results, strict=True))


def _nexts(carries: Sequence[Carry]) -> tuple[Atom, ...]:
    return tuple(after for _, _, _, after in carries)


def _loop(carries: Sequence[Carry], cond: Block, body: Block) -> While:
    outs, params, inits, _ = zip(*carries, strict=True) if carries else ((), (), (), ())
    return While(outs, params, inits, cond, body)


def _tested(work: _Exits, stmt: While) -> While:
    """A loop that does not test what the rest of its test implies.

    A flag of an error that is set in an iteration that leaves the loop anyway is such a test.
    """
    carries: dict[Atom, tuple[Atom, Atom]] = {
        p: (init, after) for _, p, init, after in _carries(stmt)
    }
    conditions = Conditions({v: s for s in stmt.body.stmts for v in outs_of(s)})
    made: dict[Atom, Let] = {s.out: s for s in stmt.cond.stmts if isinstance(s, Let)}
    parts = _parts(made, stmt.cond.results[0])
    tables: dict[Atom, int] = {}
    for atom in parts:
        negated = atom in made and made[atom].op == "not"
        init, after = carries.get(made[atom].args[0] if negated else atom, (None, None))
        table = None if after is None else conditions.table(after)
        if init == Lit(not negated, "b1") and table is not None:
            tables[atom] = ALWAYS ^ table if negated else table
    for atom in [a for a in parts if a in tables]:
        rest = functools.reduce(operator.and_, (t for a, t in tables.items() if a != atom), ALWAYS)
        if not rest & ~tables[atom]:
            del tables[atom]
            parts.remove(atom)
    cond = _conjunction(work, stmt.cond, parts)
    return stmt if cond is None else replace(stmt, cond=cond)


def _parts(made: Mapping[Atom, Let], test: Atom) -> list[Atom]:
    """What must hold together, each once."""
    if test in made and made[test].op == "and":
        return list(dict.fromkeys(p for a in made[test].args for p in _parts(made, a)))
    return [test]


def _conjunction(work: _Exits, cond: Block, parts: Sequence[Atom]) -> Block | None:
    """The test for these parts; None if it is as short as it was."""
    stmts: list[Stmt] = []
    needed = set(parts)
    for s in reversed(cond.stmts):
        if needed.intersection(outs_of(s)):
            needed.update(uses_of(s))
            stmts.insert(0, s)
    if len(cond.stmts) - len(stmts) < len(parts):
        return None
    test = parts[0]
    for part in parts[1:]:
        both = work.fresh("b1")
        stmts.append(Let(both, "and", (test, part)))
        test = both
    return Block(tuple(stmts), (test,))


class _Last:
    """One loop: what its iterations need of each other, and what is left for behind it.

    Attributes:
        going: when an iteration may be followed by another, as a table of `conditions`.
        told: whether the first iteration is certain, and the last one that for which `going` is
        false.
        turning: the carried values that iterations read, by place.
        kept: the statements that iterations need, by place.
        tests: conditions that choose the start of a value behind the loop if there was no
        iteration.
    """

    def __init__(self, work: _Exits, stmt: While) -> None:
        self.work = work
        self.stmt = stmt
        self.carries = _carries(stmt)
        self.stmts = stmt.body.stmts
        self.places = {p: i for i, p in enumerate(stmt.params)}
        self.made: dict[Atom, int] = {v: k for k, s in enumerate(self.stmts) for v in outs_of(s)}
        self.conditions = Conditions({v: s for s in self.stmts for v in outs_of(s)})
        self.going = self._going()
        self.told = self._is_told()
        self.turning: set[int] = set()
        self.kept: set[int] = set()
        self.tests: set[Atom] = set()

    def _going(self) -> int:
        """When the flags that the test asks for let it go on, as far as that can be told."""
        cond = self.stmt.cond
        made = {s.out: s for s in cond.stmts if isinstance(s, Let)}
        todo, going = list(cond.results), ALWAYS
        while todo:
            atom = todo.pop()
            if atom in made and made[atom].op == "and":
                todo += made[atom].args
            elif atom in self.places:
                table = self.conditions.table(self.carries[self.places[atom]][3])
                going &= ALWAYS if table is None else table
        return going

    def _is_told(self) -> bool:
        """Whether there is a first iteration, and the flag alone says which is the last."""
        (test,) = self.stmt.cond.results
        if test not in self.places:
            return False
        _, _, first, after = self.carries[self.places[test]]
        return first == Lit(True, "b1") and self.conditions.table(after) is not None

    # --- who looks at what?

    def _chosen(self, atom: Atom, when: int) -> Atom:
        """What an atom is under a condition."""
        while atom in self.made:
            stmt = self.stmts[self.made[atom]]
            if not (isinstance(stmt, Let) and stmt.op == "select"):
                break
            cond, a, b = stmt.args
            table = self.conditions.table(cond)
            if table is None or (when & table and when & ~table):
                break
            atom = a if when & table else b
        return atom

    def _next(self, i: int) -> Atom:
        """The next value of a carried value that iterations read."""
        out, _, _, after = self.carries[i]
        return after if out in self.work.read else self._chosen(after, self.going)

    def _look(self, atoms: set[Atom]) -> None:
        """Turns need these values, and what they are made of."""
        todo = list(atoms)
        while todo:
            atom = todo.pop()
            if atom in self.places and self.places[atom] not in self.turning:
                self.turning.add(self.places[atom])
                todo.append(self._next(self.places[atom]))
            elif atom in self.made and self.made[atom] not in self.kept:
                self.kept.add(self.made[atom])
                todo += uses_of(self.stmts[self.made[atom]])

    def _settle(self) -> dict[int, Atom]:
        """Find what iterations need; the other values that are read behind the loop, by place."""
        cond = self.stmt.cond
        self._look(set(cond.results).union(*map(uses_of, cond.stmts)))
        for k, stmt in enumerate(self.stmts):
            if any(isinstance(s, Store) for s in inside(Block((stmt,)))):
                self.kept.add(k)
                self._look(uses_of(stmt))
        while True:
            before = len(self.turning), len(self.kept)
            rest = [
                i
                for i, (out, *_) in enumerate(self.carries)
                if i not in self.turning and out in self.work.read
            ]
            left: dict[int, Atom] = {}
            for i in rest:
                root = self._end(i)
                self._look(self._fixed(root) if root not in left.values() else {root})
                left[i] = root
            if before == (len(self.turning), len(self.kept)):
                return left

    def _end(self, i: int) -> Atom:
        """What is left of a carried value that no iteration reads; after none at all, its start."""
        _, param, init, after = self.carries[i]
        if self.told:
            return self._chosen(after, ALWAYS & ~self.going)
        conds: set[Atom] = set()
        atom = after
        while atom != init:
            stmt = self.stmts[self.made[atom]] if atom in self.made else None
            if not (isinstance(stmt, Let) and stmt.op == "select" and stmt.args[0] in self.made):
                return param
            cond, _, atom = stmt.args
            conds.add(cond)
        self.tests |= conds
        self._look(conds)
        return after

    def _fixed(self, root: Atom) -> set[Atom]:
        """What a value behind the loop is made of that only an iteration can give."""
        found: set[Atom] = set()
        for k in self._sunk([root]):
            stmt = self.stmts[k]
            if any(isinstance(s, Load) for s in inside(Block((stmt,)))):
                found.update(outs_of(stmt))
            found.update(a for a in uses_of(stmt) if a in self.places)
        return found | ({root} if root in self.places else set())

    def _sunk(self, roots: Sequence[Atom]) -> set[int]:
        """The statements that values are made of, but those that iterations need."""
        found: set[int] = set()
        todo = list(roots)
        while todo:
            atom = todo.pop()
            k = self.made.get(atom, -1)
            if k >= 0 and k not in found and k not in self.kept:
                found.add(k)
                todo += uses_of(self.stmts[k])
        return found

    # --- behind the loop

    def behind(self) -> tuple[While, list[Stmt]]:
        """The loop, and what stands behind it."""
        left = self._settle()
        carries = [(*self.carries[i][:3], self._next(i)) for i in sorted(self.turning)]
        sunk = sorted(self._sunk(list(left.values())))
        moved = {v for k in sunk for v in outs_of(self.stmts[k])}
        env: dict[KernelVar, Atom] = {}
        for i, root in left.items():
            out, param, init, _ = self.carries[i]
            if isinstance(root, KernelVar) and root in moved:
                env[root] = out
            else:
                carries.append((out, param, init, root))
        never = Lit(False, "b1")
        ends: dict[Atom, KernelVar] = {
            after: out
            for out, _, init, after in carries
            if after not in self.tests or init == never
        }
        for v in sorted(moved - env.keys(), key=lambda v: v.id):
            env[v] = self.work.fresh(v.dtype)
        needed = {a for k in sunk for a in uses_of(self.stmts[k])} - moved
        for a in sorted((a for a in needed if self._is_inside(a)), key=lambda v: v.id):
            if a not in ends:
                ends[a], param = self.work.fresh(a.dtype), self.work.fresh(a.dtype)
                carries.append((ends[a], param, Lit(ZEROS.get(a.dtype[0], 0), a.dtype), a))
            env[a] = ends[a]
        self.work.read.update(ends.values())
        body = Block(tuple(self.stmts[k] for k in sorted(self.kept)), _nexts(carries))
        behind = [substituted(self.stmts[k], env) for k in sunk]
        return _loop(carries, self.stmt.cond, body), behind

    def _is_inside(self, a: Atom) -> TypeGuard[KernelVar]:
        return a in self.places or a in self.made
