"""The staging of one loop: what it carries, and the `while` row.

The body is staged until what is carried, and its types, stay as they are: names that an iteration
binds and others need, less those it leaves alone; arrays that it writes; the number of the
iteration of a `for`; a flag where it may be left early. Names that are bound only in the loop start
as zeros, if whoever reads them knows that the loop turned.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ftrace.control.rows.raising import (
    Errors,
    Noted,
    bind_again,
    in_region,
    pending,
    some,
    without_errors,
)
from ftrace.control.rows.while_loop import without_unread
from ftrace.control.user_loops import bind_while
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.dtypes import bool_, int64
from ftrace.core.errors import LiftError
from ftrace.core.jaxpr import Jaxpr, Var, eval_jaxpr
from ftrace.core.primitive import RAISES
from ftrace.core.trace import Tracer, ctx
from ftrace.core.tree import PyTreeDef
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import hoist_consts, trace_closed, trace_to_jaxpr
from ftrace.lifting.staging.items import Items
from ftrace.lifting.staging.merging import EXIT, VALUE, common_inputs
from ftrace.lifting.state import names
from ftrace.lifting.state.changed_places import PlaceName
from ftrace.lifting.state.leaves import (
    INSIDE,
    LEAF,
    Leaf,
    Part,
    array_type,
    built_alike,
    converted,
    difference,
    filler,
    flatten,
    joined,
    same,
    scalar_classes,
    take_apart,
    truth,
)
from ftrace.lifting.state.local_state import LocalFrame, Outcome, Written
from ftrace.lifting.state.names import BREAK, CONTINUE, NEXT, RAISE, RETURN, Names
from ftrace.lifting.state.sharing import Key, Sharing
from ftrace.lifting.state.watching import RegionWatch, are_bound, check_chosen, held_by, note_chosen
from ftrace.numpy.cells import is_writable, push, put
from ftrace.numpy.scalar_classes import Classes, either, marked
from ftrace.primitives.compare import and_, bitwise_not, eq, lt, ne, select
from ftrace.primitives.linear import add

ITEM = "_ft_item"
_PASSES = 20
_NO = -2  # the output of a flag that never holds


@dataclass(slots=True)
class CarrySlot:
    """A name that the loop carries.

    Attributes:
        leaves: what it is bound to before the loop, taken apart.
        types: the type of each leaf that is carried; None for one that stays what it is.
        classes: that each scalar may be of.
    """

    leaves: list[Any]
    tree: PyTreeDef
    types: list[ShapedArray | None]
    classes: list[Classes]


class TestFailed(Exception):  # noqa: N818 - no error: the loop is staged in another way
    """The test of a loop may raise an error."""


class StagedLoop:
    """The staging of one loop: what is carried, then the row.

    Args:
        site: the loop.
        frame: the state before it.
        items: what a `for` runs over.
    """

    def __init__(self, site: Any, frame: LocalFrame, items: Items | None) -> None:
        self.site = site
        self.frame = frame
        self.items = items
        self.watch = RegionWatch(frame)
        self.roots: list[Any] = []  # arrays from outside that an iteration writes
        self.sharing = Sharing(self)
        self.slots: dict[str, CarrySlot] = {}
        self.pinned: set[tuple[str, int]] = set()  # leaves that are known to change
        self.errors: list[Errors] = []  # of one iteration
        self.followed = False
        self.jaxpr = Jaxpr((), (), ())  # one iteration: (captured, carried) -> leaves
        self.captured: list[Any] = []
        self.parts: dict[str, Part] = {}  # what an iteration binds
        self.written: list[Any] = []
        self.contents: list[int] = []  # which output each root's content is
        self.unbound: dict[str, str] = {}
        for name in site.candidates:
            if name in frame.state:
                self.add(name)

    def add(self, name: str) -> None:
        """Carry a name that is bound before the loop."""
        leaves, tree = flatten(self.frame.state[name])
        types = [None if is_writable(x) else array_type(x) for x in leaves]
        classes = [scalar_classes(x, array_type(x)).within() for x in leaves]
        self.slots[name] = CarrySlot(leaves, tree, types, classes)
        for i, (x, a) in enumerate(zip(leaves, types, strict=True)):
            if a is not None:
                self.sharing.start((name, i), x)

    # ------------------------------------------------------------------ tracing

    @property
    def carried(self) -> list[Key]:
        """The leaves that are carried."""
        return [
            (name, i)
            for name, slot in self.slots.items()
            for i, a in enumerate(slot.types)
            if a is not None
        ]

    @property
    def avals(self) -> list[ShapedArray]:
        """The types of what is carried: leaves, what they are views of, arrays, the number."""
        leaves = [a for s in self.slots.values() for a in s.types if a is not None]
        flags = [aval((), bool_) for key in self.carried for _ in self.sharing.views[key]]
        number = [] if self.items is None else [typeof(0)]
        return [*leaves, *flags, *(typeof(r) for r in self.roots), *number]

    def state(self, ins: Sequence[Any]) -> dict[str, Any]:
        """The state at the start of an iteration, in the region's trace."""
        supply = iter([x.fresh() for x in ins])
        heads = {key: next(supply) for key in self.carried}
        flags = {key: [next(supply) for _ in self.sharing.views[key]] for key in heads}
        for root in self.roots:
            put(root, next(supply))
        push(self.roots)
        bound = self.sharing.enter(heads, flags)
        state = dict(self.frame.state)
        for name, slot in self.slots.items():
            leaves = [bound.get((name, i), x) for i, x in enumerate(slot.leaves)]
            state[name] = slot.tree.unflatten(map(marked, leaves, slot.classes))
        if self.items is not None:
            state[ITEM] = self.items.at(next(supply))
        return state

    def _end(self, outcome: Outcome, outs: list[Any]) -> None:
        """Take apart what an iteration binds; what it computed is appended to `outs`."""
        values = dict(outcome.state)
        if RETURN in outcome.exits:
            values[VALUE] = outcome.value
        if isinstance(outcome.exit, Tracer):
            values[EXIT] = outcome.exit
        before = self.frame.state
        self.parts = {
            n: take_apart(v, outs, every=True)
            for n, v in values.items()
            if n in self.slots or n not in before or v is not before[n]
        }
        older = set(map(id, before.values()))
        for part in self.parts.values():
            part.is_older = part.tree != LEAF and id(part.whole) in older

    def _containers(self) -> list[str]:
        """The names that are carried as containers."""
        return [name for name, slot in self.slots.items() if slot.tree != LEAF]

    def _starts(self, state: dict[str, Any]) -> dict[str, list[tuple[Any, Any]]]:
        """Name -> the container before the loop and that of an iteration, and what they hold."""
        pairs = ((n, (self.frame.state[n], state[n])) for n in self._containers())
        return {n: [(x, held_by(x)) for x in pair] for n, pair in pairs}

    def _is_shown(self, name: str) -> bool:
        """Whether others show the container that a name may be bound to in an iteration."""
        part, start = self.parts.get(name), self.frame.state[name]
        others = [x for n, x in self.frame.state.items() if n != name]
        return (part is not None and part.is_older) or are_bound([start], others)

    def _chosen(self, state: dict[str, Any]) -> list[tuple[Any, list[Any]]]:
        """The containers of the state after the loop, and those that they may be."""
        sides: dict[str, list[Any]] = {n: [self.frame.state[n]] for n in self._containers()}
        for name, part in self.parts.items():
            if part.is_older:
                sides.setdefault(name, []).append(part.whole)
        return [(state[n], found) for n, found in sides.items() if n in state]

    def trace_body(self) -> Outcome:
        """Stage one iteration; `self.jaxpr`, `self.parts` and `self.contents` are what it gives."""
        results: list[Outcome] = []
        written = Written()

        def turn(ins: Sequence[Any]) -> list[Any]:
            state = self.state(ins)
            outs: list[Any] = []
            with self.watch.unchanged(), self.frame.restored():
                self.frame.write(state)
                starts = self._starts(state)
                outcome, self.followed = in_region(lambda: self.site.body.run(self.frame, state))
                self.watch.check()
                self._end(outcome, outs)  # what containers hold is put back after that
                check_chosen([x for n in starts for x in starts[n][: 1 + self._is_shown(n)]])
            results.append(outcome)
            self.sharing.leave(self._leaving(), outs, outcome.exits <= {NEXT, CONTINUE})
            self.written = self.sharing.changed(written.roots())
            roots = list({id(r): r for r in (*self.roots, *self.written)}.values())
            self.contents = [len(outs) + i for i in range(len(roots))]
            for x in outs:
                note_chosen(x)
            return [ctx.trace.lift(x) for x in (*outs, *roots)]

        def flat(*ins: Any) -> list[Any]:
            with written.entered():
                return turn(ins)

        jaxpr, tracers = trace_to_jaxpr(flat, self.avals)
        jaxpr, arrays = hoist_consts(jaxpr)
        self.jaxpr, self.errors = without_errors(jaxpr)
        self.captured = [*arrays, *tracers]
        return results[0]

    def _leaving(self) -> dict[Key, Leaf]:
        """The arrays that an iteration binds anew."""
        return {
            (name, i): leaf
            for name, part in self.parts.items()
            for i, leaf in enumerate(part.leaves)
            if leaf.ways and not (name in self.slots and self._is_kept(name, i, leaf))
        }

    def _is_kept(self, name: str, i: int, leaf: Leaf) -> bool:
        slot = self.slots[name]
        return i < len(slot.types) and slot.types[i] is None and same(leaf.value, slot.leaves[i])

    def settle(self) -> Outcome:
        """Stage the loop again until what is carried, and its types, stay as they are."""
        for _ in range(_PASSES):
            outcome = self.trace_body()
            if not self._revise(outcome):
                return outcome
        raise self.site.error(
            "The types of what the loop carries change with every iteration.",
            "Start from values of the types that the body gives.",
        )

    def _revise(self, turn: Outcome) -> bool:
        """Adapt what is carried to what one iteration did; whether anything changed."""
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
        if set(map(id, self.written)) != set(map(id, self.roots)):
            self.roots = self.written
            changed = True
        changed |= self.sharing.revise()
        cells = [n for n in self.parts if n in self.frame.cells and n not in self.slots]
        for name in cells:
            if name in self.frame.state:
                self.add(name)
                changed = True
            elif name in self.places:
                raise self._changes(name, "not there", "there")
        return changed

    def _revise_slot(self, name: str, slot: CarrySlot, part: Part, mine: Sequence[Any]) -> bool:
        if not built_alike(part.tree, slot.tree):
            raise self._changes(name, *difference(slot.tree, part.tree))
        changed = False
        for i, (leaf, old, a) in enumerate(zip(part.leaves, slot.leaves, slot.types, strict=True)):
            if a is None:
                if same(leaf.value, old):
                    continue
                a = array_type(old)
                if a is None or leaf.aval is None:
                    raise self._changes(name, repr(old), repr(leaf.value))
                self.pinned.add((name, i))
                self.sharing.start((name, i), old)
            elif self.jaxpr.outvars[leaf.index or 0] is mine[i] and (name, i) not in self.pinned:
                slot.types[i] = None
                changed = True
                continue
            if leaf.aval is None:
                raise self._changes(name, repr(a), repr(leaf.value))
            wanted = joined(a, leaf.aval)
            if wanted is None:
                raise self._changes(name, repr(a), repr(leaf.aval))
            classes = either(slot.classes[i], leaf.classes.within())
            if wanted != slot.types[i] or classes != slot.classes[i]:
                slot.types[i], slot.classes[i] = wanted, classes
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
        """Whether the loop is known to iterate at least once."""
        return self.site.turns(self.frame, self.items)

    def outcome(self) -> Outcome:
        """Stage the loop and bind the row."""
        turn = self.settle()
        for name, i in self.carried:  # what is there after no iteration at all
            note_chosen(self.slots[name].leaves[i])
        late = self._late()
        kinds = turn.exits - {NEXT, CONTINUE}
        if RAISE not in self.site.live.jumps:
            kinds -= {RAISE}
        n = len(self.avals)
        avals: list[Any] = [*self.avals]
        for key, leaf in late:
            avals += [leaf.aval, *(aval((), bool_) for _ in self.sharing.views[key])]
        self.errors_at = len(avals)
        avals += (a for e in self.errors for a in e.avals)
        if len(kinds) > 1:
            avals.append(aval((), int64))
        if kinds:
            avals.append(aval((), bool_))
        body = self._body_jaxpr(turn, late, kinds, avals)
        test, captured = self._test_jaxpr(avals, n, kinds)
        start = self._start(late, kinds, avals)
        used = [*self._read_later(), *(True for _ in avals[n:])]
        body, test, used = without_unread(body, test, used)
        consts, (cond, body) = common_inputs([(test, captured), (body, self.captured)])
        carry = [x for x, u in zip(start, used, strict=True) if u]
        with quietly():
            outs = bind_while(consts, carry, cond, body)
        supply = iter(outs)
        return self._after([next(supply) if u else None for u in used], late, kinds)

    @cached_property
    def places(self) -> Names:
        """The variables that are items and attributes."""
        return frozenset(n for n in self.frame.cells if isinstance(n, PlaceName))

    @property
    def awake(self) -> Names:
        """What a turn reads before it binds it."""
        return self.site.awake | self.places

    @property
    def head(self) -> Names:
        """What is needed before each turn."""
        return self.site.head | self.places

    @cached_property
    def later(self) -> Names:
        """The names that are read after the loop."""
        caught = self.site.live.jumps.get(RAISE, names.NONE)
        return self.site.after | self.site.done | caught | self.frame.cells.keys()

    def _read_later(self) -> list[bool]:
        """Which of the leaves, arrays and the number of the iteration are read after the loop."""
        behind = self.sharing.is_read_behind
        leaves = [key[0] in self.later or behind(key) for key in self.carried]
        flags = [
            u for key, u in zip(self.carried, leaves, strict=True) for _ in self.sharing.views[key]
        ]
        number = [] if self.items is None else [False]
        return [*leaves, *flags, *(True for _ in self.roots), *number]

    def _late(self) -> list[tuple[Key, Leaf]]:
        """The leaves of names that are not bound before the loop, but after it."""
        found: list[tuple[Key, Leaf]] = []
        unbound: dict[str, str] = {}
        for name, part in sorted(self.parts.items()):
            if name in self.slots or name == EXIT:
                continue
            if name != VALUE and name in self.site.done and not self.turns:
                unbound[name] = (
                    f"`{name}` is bound only in the loop of line {self.site.node.lineno}, which "
                    "may not iterate at all"
                )
                continue
            found += [((name, i), x) for i, x in enumerate(part.leaves) if x.value is INSIDE]
        self.site.template.helper.unbind(unbound)
        self.unbound = unbound
        return found

    def _body_jaxpr(
        self,
        turn: Outcome,
        late: Sequence[tuple[Key, Leaf]],
        kinds: frozenset[int],
        avals: Sequence[ShapedArray],
    ) -> Jaxpr:
        """(captured, carry) -> carry."""
        picks = [
            self.parts[name].leaves[i].index or 0 if name in self.parts else -1
            for name, i in self.carried
        ]
        for key in self.carried:
            ends = self.sharing.ends.get(key, {})
            kept = key[0] not in self.parts
            picks += [-1 if kept else ends.get(view, _NO) for view in self.sharing.views[key]]
        n = len(self.avals)
        more = [Var(a) for a in avals[n:]]
        jaxpr = self.jaxpr
        base = Jaxpr([*jaxpr.invars, *more], jaxpr.eqns, jaxpr.outvars)
        first = len(self.captured)

        def carried(*args: Any) -> list[Any]:
            outs = eval_jaxpr(base, args)
            own = args[first:]
            values = [
                outs[p] if p >= 0 else False if p == _NO else own[i] for i, p in enumerate(picks)
            ]
            values += [outs[i] for i in self.contents]
            if self.items is not None:
                values.append(add(own[n - 1], 1))
            for key, leaf in late:
                ends = self.sharing.ends.get(key, {})
                flags = [ends.get(view, _NO) for view in self.sharing.views[key]]
                values += [outs[leaf.index or 0], *(i != _NO and outs[i] for i in flags)]
            values += [outs[e.first + i] for e in self.errors for i in range(len(e.avals))]
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
            with Written().entered():
                return tested(ins)

        def tested(ins: Sequence[Any]) -> list[Any]:
            tests: list[Any] = []
            if kinds:
                tests.append(ins[-1])
            tests += [bitwise_not(some(bad)) for bad in (*self._failed(ins), *pending())]
            if self.items is not None:
                tests.append(lt(*_alike(ins[n - 1], self.items.length)))
            if site.test is not None:
                tests.append(self._tested(ins[:n], tests))
            last = tests[0]
            for t in tests[1:]:
                last = and_(last, t)
            return [last]

        jaxpr, tracers = trace_to_jaxpr(flat, avals)
        if RAISES in jaxpr.effects:
            raise TestFailed
        jaxpr, arrays = hoist_consts(jaxpr)
        return jaxpr, [*arrays, *tracers]

    def _failed(self, ins: Sequence[Any]) -> list[Any]:
        """Whether the last iteration had an error: there is no other then."""
        found: list[Any] = []
        place = self.errors_at
        for e in self.errors:
            found.append(ins[place])
            place += len(e.avals)
        return found

    def _tested(self, ins: Sequence[Any], before: Sequence[Any]) -> Any:
        state = self.state(ins)
        with self.frame.restored():
            found = truth(self.site.test.run(self.frame, state).value)
        if self.sharing.has_written():
            raise self.site.error(
                "The test of a loop that a traced value ends writes into an array.",
                "Write into it in the body.",
            )
        return found

    def _start(
        self, late: Sequence[tuple[Key, Leaf]], kinds: frozenset[int], avals: Sequence[ShapedArray]
    ) -> list[Any]:
        """The first carry."""
        values = [
            x
            for slot in self.slots.values()
            for x, a in zip(slot.leaves, slot.types, strict=True)
            if a is not None
        ]
        for key, x in zip(self.carried, tuple(values), strict=True):
            values += self.sharing.begin(key, x)
        values += self.roots
        if self.items is not None:
            values.append(0)
        for key, leaf in late:
            if leaf.aval is not None:
                values += [filler(leaf.aval), *(False for _ in self.sharing.views[key])]
        values += [filler(a) for e in self.errors for a in e.avals]
        if kinds:
            values += [True] if len(kinds) == 1 else [NEXT, True]
        return [converted(v, a) for v, a in zip(values, avals, strict=True)]

    def _after(
        self, outs: Sequence[Any], late: Sequence[tuple[Key, Leaf]], kinds: frozenset[int]
    ) -> Outcome:
        """The state after the loop."""
        supply = iter(outs)
        results = {key: next(supply) for key in self.carried}
        flags = {key: [next(supply) for _ in self.sharing.views[key]] for key in results}
        contents = [next(supply) for _ in self.roots]
        if self.items is not None:
            next(supply)
        for key, _ in late:
            results[key] = next(supply)
            flags[key] = [next(supply) for _ in self.sharing.views[key]]
        for root, new in zip(self.roots, contents, strict=True):
            put(root, new)
        push(self.roots)
        errors = [
            Noted(next(supply), [next(supply) for _ in e.avals[1:]], e.thrower) for e in self.errors
        ]
        bind_again(errors, self.followed and RAISE in self.site.live.jumps)
        state = self._bound(results, flags)
        value = state.pop(VALUE, None)
        way: Any = NEXT
        if len(kinds) == 1:
            (kind,) = kinds
            way = select(outs[-1], np.int64(NEXT), np.int64(kind))
        elif kinds:
            way = outs[-2]
        return Outcome(way, state, value, frozenset({NEXT} | kinds), self._chosen(state))

    def _bound(self, results: dict[Key, Any], flags: dict[Key, list[Any]]) -> dict[str, Any]:
        """The state after the loop, from the leaves and what they show."""
        # what only the test reads comes out of the row, without what it shows
        results = {k: x for k, x in results.items() if x is not None and None not in flags[k]}
        results = self.sharing.after(results, flags)
        state = dict(self.frame.state)
        for name, slot in self.slots.items():
            if name in self.later:
                leaves = [results.get((name, i), x) for i, x in enumerate(slot.leaves)]
                state[name] = slot.tree.unflatten(map(marked, leaves, slot.classes))
        for name, part in self.parts.items():
            if name not in self.slots and name != EXIT and name not in self.unbound:
                leaves = [
                    marked(results.get((name, i), x.value), x.classes.within())
                    for i, x in enumerate(part.leaves)
                ]
                state[name] = part.tree.unflatten(leaves)
        return state


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
