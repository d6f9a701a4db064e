"""The staging of one loop: what it carries, and the `while` row.

The body is staged until what is carried, and its types, stay as they are: names that a turn binds
and others need, less those it leaves alone; arrays that it writes; the number of the turn of a
`for`; a flag where it may be left early. Names that are bound only in the loop start as zeros,
if whoever reads them knows that the loop turned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ftrace.control.while_loop import while_call
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.dtypes import bool_, int64
from ftrace.core.errors import LiftError
from ftrace.core.jaxpr import Jaxpr, Var, eval_jaxpr
from ftrace.core.trace import Tracer, ctx
from ftrace.core.tree import PyTreeDef, tree_words
from ftrace.interpreters.dce import dce_equations
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import hoist_consts, trace_closed, trace_to_jaxpr
from ftrace.lifting import names
from ftrace.lifting.items import Items
from ftrace.lifting.leaves import (
    INSIDE,
    Leaf,
    Part,
    array_type,
    converted,
    filler,
    flatten,
    joined,
    same,
    take_apart,
    truth,
)
from ftrace.lifting.merging import EXIT, VALUE, common_inputs
from ftrace.lifting.names import BREAK, CONTINUE, NEXT, RAISE, RETURN, Names
from ftrace.lifting.state import Frame, Inner, Outcome, is_writable
from ftrace.lifting.watching import Watch
from ftrace.numpy.cells import replace
from ftrace.numpy.views import partner
from ftrace.primitives.compare import and_, eq, lt, ne, select
from ftrace.primitives.linear import add

ITEM = "_ft_item"
_PASSES = 20


@dataclass(slots=True)
class Slot:
    """A name that the loop carries.

    Attributes:
        leaves: what it is bound to before the loop, taken apart.
        types: the type of each leaf that is carried; None for one that stays what it is.
    """

    leaves: list[Any]
    tree: PyTreeDef
    types: list[ShapedArray | None]


class Turning:
    """The staging of one loop: what is carried, then the row.

    Args:
        site: the loop.
        frame: the state before it.
        items: what a `for` runs over.
    """

    def __init__(self, site: Any, frame: Frame, items: Items | None) -> None:
        self.site = site
        self.frame = frame
        self.items = items
        self.inner = Inner(frame.state)
        self.watch = Watch(frame)
        self.roots: list[Any] = []  # arrays that a turn writes
        self.slots: dict[str, Slot] = {}
        self.pinned: set[tuple[str, int]] = set()  # leaves that are known to change
        self.jaxpr = Jaxpr((), (), ())  # one turn: (captured, carried) -> leaves
        self.captured: list[Any] = []
        self.parts: dict[str, Part] = {}  # what a turn binds
        self.contents: dict[int, int] = {}  # id of an array -> the output with its content
        self.unbound: dict[str, str] = {}
        for name in site.candidates:
            if name in frame.state:
                self.add(name)

    def add(self, name: str) -> None:
        """Carry a name that is bound before the loop."""
        leaves, tree = flatten(self.frame.state[name])
        writable = self.inner.names_of(leaves)
        types = [None if w else array_type(x) for x, w in zip(leaves, writable, strict=True)]
        self.slots[name] = Slot(leaves, tree, types)

    # ------------------------------------------------------------------ tracing

    @property
    def avals(self) -> list[ShapedArray]:
        """The types of what is carried: leaves, arrays, the number of the turn."""
        leaves = [a for s in self.slots.values() for a in s.types if a is not None]
        number = [] if self.items is None else [typeof(0)]
        return [*leaves, *(typeof(r) for r in self.roots), *number]

    def state(self, ins: Sequence[Any]) -> dict[str, Any]:
        """The state at the start of a turn, in the region's trace."""
        supply = iter([x.fresh() for x in ins])
        state = dict(self.frame.state)
        for name, slot in self.slots.items():
            leaves = [
                x if a is None else next(supply)
                for x, a in zip(slot.leaves, slot.types, strict=True)
            ]
            state[name] = slot.tree.unflatten(leaves)
        mine = {id(r): next(supply) for r in self.roots}
        self.inner.enter(lambda r: mine[id(r)] if id(r) in mine else ctx.trace.lift(r))
        state = self.inner.inside(state)
        if self.items is not None:
            state[ITEM] = self.items.at(next(supply))
        return state

    def trace_body(self) -> Outcome:
        """Stage one turn; `self.jaxpr`, `self.parts` and `self.contents` are what it gives."""
        results: list[Outcome] = []

        def flat(*ins: Any) -> list[Any]:
            state = self.state(ins)
            with self.frame.restored(), self.watch.unchanged():
                outcome = self.site.body.run(self.frame, state)
            results.append(outcome)
            outs: list[Any] = []
            values = dict(outcome.state)
            if RETURN in outcome.exits:
                values[VALUE] = outcome.value
            if isinstance(outcome.exit, Tracer):
                values[EXIT] = outcome.exit
            outer = self.inner.outside()
            before = self.frame.state
            self.parts = {
                n: take_apart(v, outs, outer, every=True)
                for n, v in values.items()
                if n in self.slots or n not in before or v is not before[n]
            }
            self.contents = {id(r): len(outs) + i for i, r in enumerate(self.inner.roots)}
            return [*outs, *self.inner.copies]

        jaxpr, tracers = trace_to_jaxpr(flat, self.avals)
        self.jaxpr, arrays = hoist_consts(jaxpr)
        self.captured = [*arrays, *tracers]
        return results[0]

    def settle(self) -> Outcome:
        """Stage turns until what is carried, and its types, stay as they are."""
        for _ in range(_PASSES):
            outcome = self.trace_body()
            if not self._revise(outcome):
                return outcome
        raise self.site.error(
            "The types of what the loop carries change with every turn.",
            "Start from values of the types that the body gives.",
        )

    def _revise(self, turn: Outcome) -> bool:
        """Adapt what is carried to what one turn did; whether anything changed."""
        changed = False
        needed = self.site.after if BREAK in turn.exits else names.NONE
        if turn.exits & {NEXT, CONTINUE}:
            needed |= self.site.head
        own = self.jaxpr.invars[len(self.captured) :]
        position = iter(own)
        for name, slot in self.slots.items():
            part = self.parts.get(name)
            mine = [None if a is None else next(position) for a in slot.types]
            if part is not None:
                changed |= self._revise_slot(name, slot, part, mine)
            elif name in needed:
                raise self._changes(name, "bound", "not bound")
        for root in self.inner.roots:
            out = self.jaxpr.outvars[self.contents[id(root)]]
            if not any(r is root for r in self.roots) and not self._is_captured(out, root):
                self.roots.append(root)
                changed = True
        cells = [n for n in self.parts if n in self.frame.cells and n not in self.slots]
        for name in cells:
            if name in self.frame.state:
                self.add(name)
                changed = True
        return changed

    def _is_captured(self, out: Any, root: Any) -> bool:
        """Whether an output is the array as it was before the loop."""
        pairs = zip(self.jaxpr.invars, self.captured, strict=False)
        return any(v is out and x is root for v, x in pairs)

    def _revise_slot(self, name: str, slot: Slot, part: Part, mine: Sequence[Any]) -> bool:
        if part.tree != slot.tree:
            raise self._changes(name, tree_words(slot.tree), tree_words(part.tree))
        changed = False
        for i, (leaf, old, a) in enumerate(zip(part.leaves, slot.leaves, slot.types, strict=True)):
            if a is None:
                if same(leaf.value, old):
                    continue
                a = array_type(old)
                if a is None or leaf.aval is None:
                    raise self._changes(name, repr(old), repr(leaf.value))
                self.pinned.add((name, i))
            elif self.jaxpr.outvars[leaf.index or 0] is mine[i] and (name, i) not in self.pinned:
                slot.types[i] = None
                changed = True
                continue
            if leaf.aval is None:
                raise self._changes(name, repr(a), repr(leaf.value))
            wanted = joined(a, leaf.aval)
            if wanted is None:
                raise self._changes(name, repr(a), repr(leaf.aval))
            if wanted != slot.types[i]:
                slot.types[i] = wanted
                changed = True
        return changed

    def _changes(self, name: str, before: str, after: str) -> LiftError:
        return self.site.error(
            f"`{name}` is {before} before a loop that a traced value ends, and {after} after a "
            "turn of it.",
            "Keep the containers and shapes that it starts with: make arrays as large as they "
            "will be, and write into them.",
        )

    # ------------------------------------------------------------------ the row

    @cached_property
    def turns(self) -> bool:
        """Whether the loop is known to turn at least once."""
        return self.site.turns(self.frame, self.items)

    def outcome(self) -> Outcome:
        """Stage the loop and bind the row."""
        turn = self.settle()
        late = self._late()
        kinds = turn.exits - {NEXT, CONTINUE, RAISE}
        n = len(self.avals)
        avals: list[Any] = [*self.avals, *(leaf.aval for _, leaf in late)]
        if len(kinds) > 1:
            avals.append(aval((), int64))
        if kinds:
            avals.append(aval((), bool_))
        body = self._body_jaxpr(turn, late, kinds, avals)
        test, captured = self._test_jaxpr(avals, n, kinds)
        start = self._start(late, kinds, avals)
        used = [*self._read_later(), *(True for _ in avals[n:])]
        body, test, used = _without_unread(body, test, used)
        consts, (cond, body) = common_inputs([(test, captured), (body, self.captured)])
        carry = [x for x, u in zip(start, used, strict=True) if u]
        with quietly():
            outs = while_call(
                *consts, *carry, cond=cond, body=body, n_consts=len(consts), record=False, each=None
            )
        supply = iter(outs)
        return self._after([next(supply) if u else None for u in used], late, kinds)

    @cached_property
    def later(self) -> Names:
        """The names that are read after the loop."""
        return self.site.after | self.site.done | self.frame.cells.keys()

    def _read_later(self) -> list[bool]:
        """Which of the leaves, arrays and the number of the turn are read after the loop."""
        leaves = [n in self.later for n, s in self.slots.items() for a in s.types if a is not None]
        number = [] if self.items is None else [False]
        return [*leaves, *(True for _ in self.roots), *number]

    def _late(self) -> list[tuple[str, Leaf]]:
        """The leaves of names that are not bound before the loop, but after it."""
        found: list[tuple[str, Leaf]] = []
        unbound: dict[str, str] = {}
        for name, part in sorted(self.parts.items()):
            if name in self.slots or name == EXIT:
                continue
            if name != VALUE and name in self.site.done and not self.turns:
                unbound[name] = (
                    f"`{name}` is bound only in the loop of line {self.site.node.lineno}, which "
                    "may not turn at all"
                )
                continue
            found += [(name, leaf) for leaf in part.leaves if leaf.value is INSIDE]
        self.site.template.helper.unbind(unbound)
        self.unbound = unbound
        return found

    def _body_jaxpr(
        self,
        turn: Outcome,
        late: Sequence[tuple[str, Leaf]],
        kinds: frozenset[int],
        avals: Sequence[ShapedArray],
    ) -> Jaxpr:
        """(captured, carry) -> carry."""
        picks: list[int] = []
        for name, slot in self.slots.items():
            leaves = self.parts[name].leaves if name in self.parts else None
            for i, a in enumerate(slot.types):
                if a is not None:
                    picks.append(-1 if leaves is None else leaves[i].index or 0)
        n = len(self.avals)
        more = [Var(a) for a in avals[n:]]
        jaxpr = self.jaxpr
        base = Jaxpr([*jaxpr.invars, *more], jaxpr.eqns, jaxpr.outvars)
        first = len(self.captured)

        def carried(*args: Any) -> list[Any]:
            outs = eval_jaxpr(base, args)
            own = args[first:]
            values = [outs[p] if p >= 0 else own[i] for i, p in enumerate(picks)]
            values += [outs[self.contents[id(r)]] for r in self.roots]
            if self.items is not None:
                values.append(add(own[n - 1], 1))
            values += [outs[leaf.index or 0] for _, leaf in late]
            if kinds:
                way = (
                    outs[self.parts[EXIT].leaves[0].index or 0] if EXIT in self.parts else turn.exit
                )
                values += _flags(way, turn.exits, kinds)
            return [converted(v, a) for v, a in zip(values, avals, strict=True)]

        return trace_closed(carried, base.in_avals)

    def _test_jaxpr(
        self, avals: Sequence[ShapedArray], n: int, kinds: frozenset[int]
    ) -> tuple[Jaxpr, list[Any]]:
        """(captured, carry) -> whether to go on; and what it captured."""
        site = self.site

        def flat(*ins: Any) -> list[Any]:
            tests: list[Any] = []
            if kinds:
                tests.append(ins[-1])
            if self.items is not None:
                tests.append(lt(*_alike(ins[n - 1], self.items.length)))
            if site.test is not None:
                tests.append(self._tested(ins[:n], tests))
            last = tests[0]
            for t in tests[1:]:
                last = and_(last, t)
            return [last]

        jaxpr, tracers = trace_to_jaxpr(flat, avals)
        jaxpr, arrays = hoist_consts(jaxpr)
        return jaxpr, [*arrays, *tracers]

    def _tested(self, ins: Sequence[Any], before: Sequence[Any]) -> Any:
        state = self.state(ins)
        with self.frame.restored():
            return truth(self.site.test.run(self.frame, state).value)

    def _start(
        self, late: Sequence[tuple[str, Leaf]], kinds: frozenset[int], avals: Sequence[ShapedArray]
    ) -> list[Any]:
        """The first carry."""
        values = [
            x
            for slot in self.slots.values()
            for x, a in zip(slot.leaves, slot.types, strict=True)
            if a is not None
        ]
        values += self.roots
        if self.items is not None:
            values.append(0)
        values += [filler(leaf.aval) for _, leaf in late if leaf.aval is not None]
        if kinds:
            values += [True] if len(kinds) == 1 else [NEXT, True]
        return [converted(v, a) for v, a in zip(values, avals, strict=True)]

    def _after(
        self, outs: Sequence[Any], late: Sequence[tuple[str, Leaf]], kinds: frozenset[int]
    ) -> Outcome:
        """The state after the loop."""
        supply = iter(outs)
        state = dict(self.frame.state)
        for name, slot in self.slots.items():
            leaves = [
                x if a is None else next(supply)
                for x, a in zip(slot.leaves, slot.types, strict=True)
            ]
            if name in self.later:
                state[name] = slot.tree.unflatten(leaves)
        contents = [next(supply) for _ in self.roots]
        if self.items is not None:
            next(supply)
        for root, new in zip(self.roots, contents, strict=True):
            replace(root, new, "The loop")
        self._partner(state)
        found = {id(leaf): next(supply) for _, leaf in late}
        for name, part in self.parts.items():
            if name not in self.slots and name != EXIT and name not in self.unbound:
                leaves = [found.get(id(leaf), leaf.value) for leaf in part.leaves]
                state[name] = part.tree.unflatten(leaves)
        value = state.pop(VALUE, None)
        way: Any = NEXT
        if len(kinds) == 1:
            (kind,) = kinds
            way = select(outs[-1], np.int64(NEXT), np.int64(kind))
        elif kinds:
            way = outs[-2]
        return Outcome(way, state, value, frozenset({NEXT} | kinds))

    def _partner(self, state: Mapping[str, Any]) -> None:
        """Names that were bound to arrays, and have been bound to others, may now be either."""
        moved = [
            (x, y)
            for name, slot in self.slots.items()
            for x, y, a in zip(slot.leaves, flatten(state[name])[0], slot.types, strict=True)
            if a is not None and y is not x and isinstance(x, Tracer) and is_writable(x)
        ]
        for x, _ in moved:
            for _, y in moved:
                partner(x, y)


def _without_unread(
    body: Jaxpr, test: Jaxpr, used: Sequence[bool]
) -> tuple[Jaxpr, Jaxpr, list[bool]]:
    """The loop without what only keeps itself up to date.

    Args:
        body, test: (captured, carry) -> carry, and whether to go on.
        used: which of the carry are read after the loop.

    Returns:
        Both without the rest, and which of the carry are left.
    """
    n = len(used)
    own, asked = body.invars[len(body.invars) - n :], test.invars[len(test.invars) - n :]
    read = {v for e in test.eqns for v in e.invars} | set(test.outvars)
    now = [u or v in read for u, v in zip(used, asked, strict=True)]
    while True:
        outs = [v for v, u in zip(body.outvars, now, strict=True) if u]
        eqns = dce_equations(body.eqns, outs)
        read = {v for e in eqns for v in e.invars} | set(outs)
        new = [u or v in read for u, v in zip(now, own, strict=True)]
        if new == now:
            break
        now = new

    def kept(invars: Sequence[Var], mine: Sequence[Var]) -> list[Var]:
        return [*invars[: len(invars) - n], *(v for v, u in zip(mine, now, strict=True) if u)]

    body = Jaxpr(kept(body.invars, own), eqns, outs)
    return body, Jaxpr(kept(test.invars, asked), test.eqns, test.outvars), now


def _flags(way: Any, exits: frozenset[int], kinds: frozenset[int]) -> list[Any]:
    """What the carry says about the end: whether to go on, after which exit if there are some."""
    if len(kinds) == 1:
        (kind,) = kinds
        return [ne(way, kind)]
    if CONTINUE in exits:
        way = select(eq(way, CONTINUE), np.int64(NEXT), way)
    return [way, eq(way, NEXT)]


def _alike(k: Any, length: Any) -> tuple[Any, Any]:
    a = joined(typeof(k), typeof(length))
    return (k, length) if a is None else (converted(k, a), converted(length, a))
