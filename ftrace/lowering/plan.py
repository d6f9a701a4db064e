"""Planning: a jaxpr becomes a program of kernels, library rows, branches and loops.

Calls are opened, equations are gathered into groups, and groups become kernels, by the passes of
passes.py; every variable that has to be stored gets a slot: a result's, or a place in the
arena that is free from the last use of what lay there. `cond` and `while` are planned like
programs of their own that share slots with the one around them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.binomial import ADVANCE, BACK, KEEP, RESTORE
from ftrace.core.config import config
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var
from ftrace.core.loops import Each, Halves, Loop, cut, parts
from ftrace.core.tapes import TURNS, has_turns
from ftrace.lowering import uses
from ftrace.lowering.arena import Arena
from ftrace.lowering.builder import code
from ftrace.lowering.contraction import contraction
from ftrace.lowering.fuse import Item
from ftrace.lowering.groups import Group
from ftrace.lowering.lanes import over_lanes
from ftrace.lowering.launching import Launch
from ftrace.lowering.machine import Machine
from ftrace.lowering.passes import Pipeline, alive
from ftrace.lowering.program import (
    ARENA,
    ARGUMENT,
    CONSTANT,
    RESULT,
    TAPE,
    WINDOW,
    Branch,
    Call,
    Callback,
    Copy,
    Look,
    Product,
    Program,
    Repeat,
    Scan,
    Slot,
    Step,
    Window,
)
from ftrace.lowering.replay import table, zero_sums
from ftrace.lowering.scalars import roll
from ftrace.lowering.streams import stream
from ftrace.lowering.turning import Turning, turning
from ftrace.lowering.uses import Slots
from ftrace.lowering.verify import verify, verify_schedule

BOOLEAN: Final = aval((), np.dtype(bool))
INTEGER: Final = aval((), np.dtype(np.int64))


def plan(jaxpr: Jaxpr, machine: Machine) -> Program:
    """Plan a program.

    Args:
        jaxpr: what it computes.
        machine: what it is planned for.
    """
    return stream(roll(_Planner(machine).program(jaxpr)))


class _Planner:
    """What one program needs while it is planned."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.slots: list[Slot] = []
        self.table: list[int] = []
        self.calls: list[Call] = []
        self.constants: list[Any] = []
        self.known: dict[int, int] = {}  # id of a constant -> slot
        self.arena = Arena()
        self.passes = Pipeline(machine)
        self.kernels = 0

    def program(self, jaxpr: Jaxpr) -> Program:
        """The whole program."""
        args = [Var(a) for a in jaxpr.in_avals]
        slots: Slots = {v: self._slot(ARGUMENT, v.aval, i) for i, v in enumerate(args)}
        results = [self._slot(RESULT, a, i) for i, a in enumerate(jaxpr.out_avals)]
        steps = self.region(jaxpr, args, slots, results)
        return self._finished(steps, [a.weak for a in jaxpr.out_avals])

    def _finished(self, steps: Sequence[Step], weak: Sequence[bool]) -> Program:
        return Program(
            tuple(self.slots),
            tuple(self.table),
            tuple(steps),
            tuple(self.calls),
            tuple(self.constants),
            self.arena.size,
            tuple(weak),
            self.passes.changing,
        )

    # --- slots

    def _slot(self, place: str, a: ShapedArray, entry: int) -> int:
        self.slots.append(Slot(place, a, entry))
        return len(self.slots) - 1

    def _entry(self, value: int) -> int:
        self.table.append(value)
        return len(self.table) - 1

    def _scratch(self, a: ShapedArray) -> int:
        """A new place in the arena, or a new tape."""
        if has_turns(a):
            return self._slot(TAPE, a, 0)
        return self._slot(ARENA, a, self._entry(self.arena.take(_bytes(a))))

    def _free(self, slot: int) -> None:
        if self.slots[slot].place == TAPE:
            return
        self.arena.give(self.table[self.slots[slot].entry], _bytes(self.slots[slot].aval))

    def _constant(self, array: Any) -> int:
        """The slot of a captured array, or of a literal."""
        found = self.known.get(id(array))
        if found is None:
            self.constants.append(array)
            a = aval(np.shape(array), np.asarray(array).dtype)
            found = self._slot(CONSTANT, a, len(self.constants) - 1)
            self.known[id(array)] = found
        return found

    def _slot_of(self, atom: Any, slots: Slots) -> int:
        if type(atom) is not Literal:
            return slots[atom]
        return self._constant(np.asarray(atom.value, atom.aval.dtype))

    def _copy(self, source: int, target: int) -> Copy:
        return Copy(source, target, self._entry(_bytes(self.slots[target].aval)))

    def _copies(self, sources: Sequence[int], targets: Sequence[int]) -> list[Step]:
        pairs = zip(sources, targets, strict=True)
        return [self._copy(a, b) for a, b in pairs if a != b]

    # --- regions

    def region(
        self,
        jaxpr: Jaxpr,
        args: Sequence[Any],
        outer: Slots,
        into: Sequence[int],
        carried: int = 0,
    ) -> list[Step]:
        """The steps of a jaxpr.

        Args:
            jaxpr: what to compute.
            args: atoms for its inputs.
            outer: slots of the variables around it.
            into: slots for its results.
            carried: how many of these, the first ones, are inputs too.
        """
        form, unmade = self._made_of(self.passes.jaxpr(jaxpr, args), into)
        outs, into = form.outvars, [k for k in into if k not in unmade]
        consts = zip(form.constvars, form.consts, strict=True)
        slots = {**outer, **{v: self._constant(array) for v, array in consts}}
        items, producers = self.passes.groups(form)
        aliases = uses.aliases_of(items)
        made = {v for item in items for v in uses.made(item)} - aliases.keys()
        last = uses.last_uses(items, outs, aliases)
        into, beside = self._beside(items, form, into, carried, slots, last)
        for out, slot in zip(outs, into, strict=True):
            if type(out) is not Literal and out in made:
                slots.setdefault(out, slot)
        slots.update(uses.starts(items, slots, made, last, aliases))
        steps: list[Step] = []
        places: list[tuple[int, int]] = []  # (last use, slot) of what lies in the arena
        for number, item in enumerate(items):
            dying = {slot for end, slot in places if end == number}
            for v in uses.made(item):
                if v in made and v not in slots and last.get(v, -1) > number:
                    found = uses.in_place(item, v, slots, dying, aliases)
                    if found is None:
                        found = self._scratch(v.aval)
                    else:
                        dying.discard(found)
                        places.remove((number, found))
                    slots[v] = found
                    places.append((last[v], found))
            steps += self._item(item, producers, slots, aliases)
            places = self._release(places, number)
        for out, slot in zip(outs, into, strict=True):
            if self._slot_of(out, slots) != slot:
                steps.append(self._copy(self._slot_of(out, slots), slot))
        self._release(places, len(items))
        for source, target in beside:
            steps.append(self._copy(source, target))
            self._free(source)
        return [*steps, *map(self._no_turns, unmade)]

    def _beside(
        self,
        items: Sequence[Item],
        form: Jaxpr,
        into: Sequence[int],
        carried: int,
        slots: Slots,
        last: dict[Any, int],
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Where results are made, and what is copied at the end: results that are inputs too.

        Only where nobody reads the input any more, its slot can take the result at once.
        """
        places, copies = [*into], []
        for k, (out, slot) in enumerate(zip(form.outvars[:carried], into, strict=False)):
            holders = [v for v in form.invars if slots[v] == slot]
            if out in holders or uses.overwrites(items, out, holders, last):
                continue
            places[k] = self._scratch(out.aval)
            copies.append((places[k], slot))
        return places, copies

    def _made_of(self, form: Jaxpr, into: Sequence[int]) -> tuple[Jaxpr, list[int]]:
        """A jaxpr without the tapes that another branch leaves (here empty), and their slots."""
        pairs = list(zip(form.outvars, into, strict=True))
        unmade = [k for v, k in pairs if has_turns(self.slots[k].aval) and not has_turns(v.aval)]
        if not unmade:
            return form, unmade
        outs = [v for v, k in pairs if k not in unmade]
        return alive(Jaxpr(form.invars, form.eqns, outs, form.constvars, form.consts)), unmade

    def _no_turns(self, tape: int) -> Step:
        """Leaves an empty tape."""
        a = self.slots[tape].aval
        window = self._window(tape, aval(a.shape[1:], a.dtype), True)
        return Scan(self._entry(0), None, False, (window,), ())

    def _release(self, places: list[tuple[int, int]], number: int) -> list[tuple[int, int]]:
        """Free the places that no later item reads; the others."""
        for last, slot in places:
            if last <= number:
                self._free(slot)
        return [(last, slot) for last, slot in places if last > number]

    def _item(
        self, item: Item, producers: Any, slots: Slots, aliases: dict[Any, Any]
    ) -> list[Step]:
        if isinstance(item, Group):
            return [self._launch(item, producers, slots)]
        if item.outvars and item.outvars[0] in aliases:
            slots[item.outvars[0]] = self._slot_of(item.invars[0], slots)
            return []
        return self._step(item, slots)

    def _launch(self, group: Group | Turning, producers: Any, slots: Slots) -> Step:
        self.kernels += 1
        name = f"k{self.kernels}"
        launch = self.passes.kernel(name, group, producers, slots, self.table)
        if config.settings.check_jaxprs:
            verify(launch.kernel)
            verify_schedule(launch.kernel, launch.schedule)
        return launch

    def _step(self, eqn: Eqn, slots: Slots) -> list[Step]:
        """An equation: every result has a slot from here on, but of a scan that is kernels."""
        turned = self._turned(eqn, slots) if eqn.primitive.op == "scan" else None
        if turned is not None:
            return turned
        unused: list[int] = []
        for v in eqn.outvars:
            if v not in slots:
                slots[v] = self._scratch(v.aval)
                unused.append(slots[v])
        name = eqn.primitive.op
        known = {
            "cond": self._cond,
            "while": self._while,
            "scan": self._scan,
            "revolve": self._replay,
            "add": self._sum,
            "dot_general": self._product,
        }
        steps = known.get(name, self._callback)(eqn, slots)
        for slot in unused:
            self._free(slot)
        return steps

    def _callback(self, eqn: Eqn, slots: Slots) -> list[Step]:
        """A row of Python; it knows arrays, so that windows are copied from and to the arena."""
        places = [None if type(a) is Literal else slots[a] for a in eqn.invars]
        results = [slots[v] for v in eqn.outvars]
        beside = {k: k for k in (*places, *results) if k is not None}
        for k in beside:
            if self.slots[k].place == WINDOW:
                beside[k] = self._scratch(self.slots[k].aval)
        read = [k for k in beside if k in places]
        before = [self._copy(k, beside[k]) for k in read if beside[k] != k]
        after = [self._copy(beside[k], k) for k in results if beside[k] != k]
        for k, copy in beside.items():
            if copy != k:
                self._free(copy)
        operands = tuple(None if k is None else beside[k] for k in places)
        self.calls.append(Call(eqn, operands, tuple(beside[k] for k in results)))
        return [*before, Callback(len(self.calls) - 1), *after]

    def _product(self, eqn: Eqn, slots: Slots) -> list[Step]:
        found = contraction(eqn, self.machine.longest())
        if found is None:
            return self._callback(eqn, slots)
        operands = [self._slot_of(a, slots) for a in eqn.invars]
        lhs, rhs = operands[::-1] if found.swapped else operands
        out = slots[eqn.outvars[0]]
        first = len(self.table)
        self.table.extend(found.numbers)
        dtype = code(eqn.outvars[0].aval.dtype)
        return [Product(lhs, rhs, out, dtype, found.vector, found.transposed, first)]

    def _cond(self, eqn: Eqn, slots: Slots) -> list[Step]:
        index, *operands = eqn.invars
        into = [slots[v] for v in eqn.outvars]
        arms = [tuple(self.region(b, operands, slots, into)) for b in eqn.params["branches"]]
        return [Branch(self._slot_of(index, slots), code(index.aval.dtype), tuple(arms))]

    def _while(self, eqn: Eqn, slots: Slots) -> list[Step]:
        """The results' slots hold the carried values; the body leaves the next ones beside them."""
        n = eqn.params["n_consts"]
        consts, inits = eqn.invars[:n], eqn.invars[n:]
        m = len(inits)
        carry, rest = [slots[v] for v in eqn.outvars[:m]], eqn.outvars[m:]
        steps = self._copies([self._slot_of(a, slots) for a in inits], carry)
        each = self._each(eqn, slots, carry)
        if each is not None:
            return [*steps, each]
        record = self._written(rest[1:], eqn.params["body"].out_avals[m:], slots)
        pair = Each(eqn.params["cond"], eqn.params["body"])
        count = slots[rest[0]] if rest else None
        return [*steps, self._turns(pair, consts, carry, slots, record, count)]

    def _turns(
        self,
        pair: Each,
        consts: Sequence[Any],
        carry: Sequence[int],
        slots: Slots,
        record: Sequence[Window] = (),
        count: int | None = None,
    ) -> Repeat:
        """A loop whose carried values lie in slots."""
        avals = pair.body.out_avals[: len(carry)]
        state = [Var(a) for a in avals]
        inside = {**slots, **dict(zip(state, carry, strict=True))}
        predicate = self._scratch(BOOLEAN)
        cond = self.region(pair.cond, [*consts, *state], inside, [predicate])
        body = self._turn(pair.body, [*consts, *state], inside, carry, record)
        self._free(predicate)
        return Repeat(tuple(cond), predicate, tuple(body), tuple(record), count)

    def _turn(
        self,
        body: Jaxpr,
        args: Sequence[Any],
        inside: Slots,
        carry: Sequence[int],
        left: Sequence[Window],
    ) -> list[Step]:
        """One turn of a loop."""
        into = [*carry, *(w.slot for w in left)]
        return self.region(body, args, inside, into, len(carry))

    def _each(self, eqn: Eqn, slots: Slots, carry: Sequence[int]) -> Launch | None:
        """A mapped loop over numbers as one kernel, in which each member turns by itself."""
        each: Each | None = eqn.params["each"]
        if each is None:
            return None
        avals = each.body.in_avals
        if any(a.shape or a.dtype.kind == "c" for a in avals):
            return None
        one = _Planner(self.machine)
        one.passes = self.passes
        n = len(avals) - len(carry)
        consts = [Var(a) for a in avals[:n]]
        inner: Slots = {v: one._slot(ARGUMENT, v.aval, i) for i, v in enumerate(consts)}
        held = [one._slot(RESULT, a, i) for i, a in enumerate(avals[n:])]
        loop = one._turns(each, consts, held, inner)
        rolled = roll(one._finished((loop,), ()))
        if len(rolled.steps) != 1 or not isinstance(rolled.steps[0], Launch) or rolled.constants:
            return None
        launch = rolled.steps[0]
        outer = [self._slot_of(a, slots) for a in eqn.invars[:n]]
        places = {
            k: (slot, bool(self.slots[slot].aval.shape))
            for k, slot in zip((*inner.values(), *held), (*outer, *carry), strict=True)
        }
        self.kernels += 1
        kernel = replace(launch.kernel, name=f"k{self.kernels}")
        (members,) = eqn.outvars[0].aval.shape
        found = over_lanes(
            replace(launch, kernel=kernel),
            places,
            self._entry,
            rolled.table,
            members,
            self.machine.vector_bytes,
        )
        if config.settings.check_jaxprs:
            verify(found.kernel)
            verify_schedule(found.kernel, found.schedule)
        return found

    def _turned(self, eqn: Eqn, slots: Slots) -> list[Step] | None:
        """A scan whose members turn by themselves, as kernels."""
        loop: Loop = eqn.params["loop"]
        body: Jaxpr = eqn.params["body"]
        consts = parts(eqn.invars, loop).consts
        bound = [Var(a) for a in body.in_avals[len(consts) :]]
        form = self.passes.jaxpr(body, [*consts, *bound])
        wanted = [v for v in eqn.outvars if v in slots]
        found = turning(eqn, form, bound, wanted, self.machine)
        if found is None:
            return None
        arrays = zip(form.constvars, form.consts, strict=True)
        inside = {**slots, **{v: self._constant(array) for v, array in arrays}}
        written: set[int] = set()
        for one in found[0]:
            if not written.isdisjoint(inside[v] for v in one.reads):
                return None
            written.update(inside[v] for v in one.writes)
        return [self._launch(one, found[1], inside) for one in found[0]]

    def _scan(self, eqn: Eqn, slots: Slots) -> list[Step]:
        """As a `while`, with windows on what is scanned and on what the turns leave."""
        loop: Loop = eqn.params["loop"]
        n = loop.n_carry
        turns, consts, inits, xs = parts(eqn.invars, loop)
        carry = [slots[v] for v in eqn.outvars[:n]]
        steps = self._copies([self._slot_of(a, slots) for a in inits], carry)
        body: Jaxpr = eqn.params["body"]
        bound = [Var(a) for a in body.in_avals[len(consts) :]]
        read = self._read(xs, bound[n:], slots)
        left = self._written(eqn.outvars[n:], body.out_avals[n:], slots)
        inside = {**slots, **dict(zip(bound, (*carry, *(w.slot for w in read)), strict=True))}
        turn = self._turn(body, [*consts, *bound], inside, carry, left)
        length = None if loop.length is None else self._entry(loop.length)
        count = self._slot_of(turns[0], slots) if turns else None
        return [*steps, Scan(length, count, loop.reverse, (*read, *left), tuple(turn))]

    def _replay(self, eqn: Eqn, slots: Slots) -> list[Step]:
        """A loop backwards with few of its states: a scan over its schedule."""
        halves: Halves = eqn.params["halves"]
        found = table(halves)
        if found is None:
            return self._callback(eqn, slots)
        n_consts, n_carry, n_xs, m_consts, m_carry, _ = halves.sizes
        sizes = (n_consts, n_carry, n_xs, m_carry, len(eqn.invars))
        consts, start, xs, cts, ct_ys = cut(eqn.invars, sizes)
        back: Jaxpr = eqn.params["back"]
        carry = [slots[v] for v in eqn.outvars[: m_consts + m_carry]]  # sums, and cotangents
        steps = self.region(zero_sums(back, m_consts), (), slots, carry[:m_consts])
        state = [self._scratch(a.aval) for a in start]
        kept = [self._scratch(aval((found.places, *a.aval.shape), a.aval.dtype)) for a in start]
        first = [self._slot_of(a, slots) for a in (*start, *cts)]
        steps += self._copies(first, (*state, *carry[m_consts:]))
        bound = [Var(a) for a in back.in_avals[n_consts:]]
        v_state, v_xs, v_carry, v_ys = cut(bound, (n_carry, n_xs, len(carry), len(bound)))
        read, read_ys = self._read(xs, v_xs, slots), self._read(ct_ys, v_ys, slots)
        left = self._written(eqn.outvars[len(carry) :], back.out_avals[len(carry) :], slots)
        pairs = [(v_state, state), (v_carry, carry)]
        pairs += [(v, [w.slot for w in ws]) for v, ws in ((v_xs, read), (v_ys, read_ys))]
        inside = {**slots, **{v: k for vs, ks in pairs for v, k in zip(vs, ks, strict=True)}}
        columns = [self._constant(c) for c in (found.actions, found.numbers)]
        action, number = (self._window(c, INTEGER, False) for c in columns)
        turn = [*consts, *v_state, *v_xs]
        arms: dict[int, list[Step]] = {
            ADVANCE: [
                Look(number.slot, tuple(read)),
                *self._turn(eqn.params["advance"], turn, inside, state, ()),
            ],
            BACK: [
                Look(number.slot, (*read, *read_ys, *left)),
                *self._turn(back, [*consts, *bound], inside, carry, left),
            ],
            KEEP: self._moved(number.slot, state, kept, True),
            RESTORE: self._moved(number.slot, state, kept, False),
        }
        for slot in (*state, *kept):
            self._free(slot)
        branch = Branch(action.slot, "i8", tuple(tuple(arms[k]) for k in sorted(arms)))
        length = self._entry(len(found.actions))
        return [*steps, Scan(length, None, False, (action, number), (branch,))]

    def _moved(
        self, number: int, state: Sequence[int], kept: Sequence[int], keep: bool
    ) -> list[Step]:
        """A state put into the place of a number, or taken from there."""
        windows = [
            self._window(k, self.slots[s].aval, keep) for s, k in zip(state, kept, strict=True)
        ]
        places = [w.slot for w in windows]
        copies = self._copies(state, places) if keep else self._copies(places, state)
        return [Look(number, tuple(windows)), *copies]

    def _sum(self, eqn: Eqn, slots: Slots) -> list[Step]:
        """Tapes are added up element by element."""
        a = eqn.outvars[0].aval
        if not has_turns(a):
            return self._callback(eqn, slots)
        element = aval(a.shape[1:], a.dtype)
        x, y, out = (Var(element) for _ in range(3))
        read = self._read(eqn.invars, (x, y), slots)
        left = self._written(eqn.outvars, (element,), slots)
        body = Jaxpr((x, y), (Eqn(eqn.primitive, [x, y], eqn.params, [out], eqn.source),), (out,))
        inside = {x: read[0].slot, y: read[1].slot}
        turn = self.region(body, (x, y), inside, [left[0].slot])
        length = None if a.shape[0] is TURNS else self._entry(a.shape[0])
        count = None if length is not None else self._slot_of(eqn.invars[0], slots)
        return [Scan(length, count, False, (*read, *left), tuple(turn))]

    def _read(self, xs: Sequence[Any], elements: Sequence[Any], slots: Slots) -> list[Window]:
        """Windows on arrays, given with the variables of their elements."""
        pairs = zip(xs, elements, strict=True)
        return [self._window(self._slot_of(x, slots), v.aval, False) for x, v in pairs]

    def _written(
        self, ys: Sequence[Any], elements: Sequence[ShapedArray], slots: Slots
    ) -> list[Window]:
        """Windows on results, given with the types of their elements."""
        return [self._window(slots[y], a, True) for y, a in zip(ys, elements, strict=True)]

    def _window(self, base: int, element: ShapedArray, written: bool) -> Window:
        slot = self._slot(WINDOW, element, 0)
        return Window(slot, base, self._entry(_bytes(element)), written)


def _bytes(a: ShapedArray) -> int:
    """What an element of a stack takes; of a tape, its address."""
    return 8 if has_turns(a) else a.size * a.dtype.itemsize
