"""Planning: a jaxpr becomes a program of kernels, library rows, branches and loops.

Calls are opened, equations are gathered into groups, and groups become kernels, by the passes of
pipeline.py; every variable that has to be stored gets a slot: a result's, or a place in the
arena that is free from the last use of what lay there. `cond` and `while` are planned like
programs of their own that share slots with the one around them.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final

import numpy as np

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.binomial import ADVANCE, BACK, KEEP, RESTORE
from ftrace.core.config import config
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var
from ftrace.core.kinds import branches, gufunc_call, layout, way
from ftrace.core.lower import (
    Cores,
    Cumulative,
    GufuncCall,
    Layout,
    Pointwise,
    Product,
    Refusal,
    Replay,
    Scattering,
)
from ftrace.core.scan_layout import ScanHalves, cut
from ftrace.core.tapes import TURNS, is_tape
from ftrace.lowering.fusion.fuse import Item
from ftrace.lowering.fusion.groups import Group
from ftrace.lowering.kernel.builder import code
from ftrace.lowering.kernel.verify import verify, verify_schedule
from ftrace.lowering.loops.interchange import Interchange
from ftrace.lowering.loops.small_loops import SmallLoop
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning import liveness
from ftrace.lowering.planning.arena import Arena
from ftrace.lowering.planning.contraction import Dims, contraction
from ftrace.lowering.planning.liveness import Slots
from ftrace.lowering.planning.loop_kernels import loop_kernels
from ftrace.lowering.planning.loop_numbers import inner_loop, loop_numbers, operand_types
from ftrace.lowering.planning.pipeline import Pipeline, alive
from ftrace.lowering.planning.replay import table, zero_sums
from ftrace.lowering.planning.streaming import stream
from ftrace.lowering.planning.thread_sharing import share
from ftrace.lowering.program.program import (
    ARENA,
    ARGUMENT,
    CONSTANT,
    RESULT,
    TAPE,
    WINDOW,
    Accumulate,
    Apply,
    BranchStep,
    Callback,
    CallStep,
    Copy,
    Look,
    Multiply,
    Program,
    Repeat,
    Scan,
    ScatterStep,
    Slot,
    Step,
    Window,
)

BOOLEAN: Final = aval((), np.dtype(bool))
INTEGER: Final = aval((), np.dtype(np.int64))


def plan(jaxpr: Jaxpr, machine: Machine) -> Program:
    """Plan a program.

    Args:
        jaxpr: what it computes.
        machine: what it is planned for.
    """
    return share(stream(_Planner(machine).program(jaxpr)), machine.threads)


class _Planner:
    """What one program needs while it is planned."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.slots: list[Slot] = []
        self.table: list[int] = []
        self.calls: list[CallStep] = []
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
        return Program(
            tuple(self.slots),
            tuple(self.table),
            tuple(steps),
            tuple(self.calls),
            tuple(self.constants),
            self.arena.size,
            tuple(a.weak for a in jaxpr.out_avals),
            self.passes.changing,
        )

    # --- slots

    def _slot(self, place: str, a: ShapedArray, entry: int) -> int:
        self.slots.append(Slot(place, a, entry))
        return len(self.slots) - 1

    def _entry(self, value: int) -> int:
        self.table.append(value)
        return len(self.table) - 1

    def _entries(self, values: Sequence[int]) -> int:
        """The first of new entries."""
        self.table.extend(values)
        return len(self.table) - len(values)

    def _scratch(self, a: ShapedArray) -> int:
        """A new place in the arena, or a new tape."""
        if is_tape(a):
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
        aliases = liveness.aliases_of(items)
        made = {v for item in items for v in liveness.made(item)} - aliases.keys()
        last = liveness.last_uses(items, outs, aliases)
        into, beside = self._beside(items, form, into, carried, slots, (last, aliases))
        for k, (out, slot) in enumerate(zip(outs, into, strict=True)):
            for v in liveness.written_as(items, out, made, {} if k < carried else aliases):
                slots.setdefault(v, slot)
        slots.update(liveness.starts(items, slots, made, last, aliases))
        steps: list[Step] = []
        places: list[tuple[int, int]] = []  # (last use, slot) of what lies in the arena
        for number, item in enumerate(items):
            dying = {slot for end, slot in places if end == number}
            for v in liveness.made(item):
                if v in made and v not in slots and last.get(v, -1) > number:
                    found = liveness.in_place(item, v, slots, dying, aliases)
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
        return [*steps, *map(self._empty_tape, unmade)]

    def _beside(
        self,
        items: Sequence[Item],
        form: Jaxpr,
        into: Sequence[int],
        carried: int,
        slots: Slots,
        lives: tuple[dict[Any, int], dict[Any, Any]],
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Where results are made, and what is copied at the end: results that are inputs too.

        Only where nobody reads the input any more, its slot can take the result at once.
        """
        last, aliases = lives
        places, copies = [*into], []
        for k, (out, slot) in enumerate(zip(form.outvars[:carried], into, strict=False)):
            holders = [v for v in form.invars if slots[v] == slot]
            if out in holders or liveness.overwrites(items, out, holders, last, aliases):
                continue
            places[k] = self._scratch(out.aval)
            copies.append((places[k], slot))
        return places, copies

    def _made_of(self, form: Jaxpr, into: Sequence[int]) -> tuple[Jaxpr, list[int]]:
        """A jaxpr without the tapes that another branch leaves (here empty), and their slots."""
        pairs = list(zip(form.outvars, into, strict=True))
        unmade = [k for v, k in pairs if is_tape(self.slots[k].aval) and not is_tape(v.aval)]
        if not unmade:
            return form, unmade
        outs = [v for v, k in pairs if k not in unmade]
        return alive(Jaxpr(form.invars, form.eqns, outs, form.constvars, form.consts)), unmade

    def _empty_tape(self, tape: int) -> Step:
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

    def _loop_kernels(self, eqn: Eqn, loop: Layout, slots: Slots) -> list[Step] | None:
        """A loop that kernels do as a whole."""
        found = loop_kernels(eqn, loop, slots, self.passes, self._constant, self.machine)
        if found is None:
            return None
        return [self._launch(one, found.producers, found.slots) for one in found.kernels]

    def _launch(self, group: Group | Interchange | SmallLoop, producers: Any, slots: Slots) -> Step:
        self.kernels += 1
        name = f"k{self.kernels}"
        launch = self.passes.kernel(name, group, producers, slots, self.table)
        if config.settings.check_jaxprs:
            verify(launch.kernel)
            verify_schedule(launch.kernel, launch.schedule)
        return launch

    def _step(self, eqn: Eqn, slots: Slots) -> list[Step]:
        """An equation: every result has a slot from here on, but of a scan that is kernels."""
        loop = layout(eqn)
        found = None if loop is None else self._loop_kernels(eqn, loop, slots)
        if found is not None:
            return found
        unused: list[int] = []
        for v in eqn.outvars:
            if v not in slots:
                slots[v] = self._scratch(v.aval)
                unused.append(slots[v])
        steps = self._steps(eqn, loop, slots)
        for slot in unused:
            self._free(slot)
        return steps

    def _steps(self, eqn: Eqn, loop: Layout | None, slots: Slots) -> list[Step]:
        """What computes the results of an equation that is no kernel."""
        if loop is not None:
            return self._while(eqn, loop, slots) if loop.cond else self._scan(eqn, loop, slots)
        arms = branches(eqn)
        if arms:
            return self._cond(eqn, arms, slots)
        product, replay = way(eqn.primitive, Product), way(eqn.primitive, Replay)
        if product is not None:
            return self._product(eqn, product.dims(**eqn.params), slots)
        if replay is not None:
            halves, advance, back = replay.halves(**eqn.params)
            return self._replay(eqn, halves, advance, back, slots)
        if way(eqn.primitive, Pointwise) and all(is_tape(a.aval) for a in eqn.invars):
            return self._tapes(eqn, slots)
        if way(eqn.primitive, Refusal):
            flag = self._slot_of(eqn.invars[0], slots)
            return [BranchStep(flag, "b1", ((), tuple(self._callback(eqn, slots))))]
        scattering = way(eqn.primitive, Scattering)
        if scattering is not None:
            return self._scatter(eqn, scattering.combine(**eqn.params), slots)
        return self._otherwise(eqn, slots)

    def _otherwise(self, eqn: Eqn, slots: Slots) -> list[Step]:
        """A row of a library."""
        cumulative = way(eqn.primitive, Cumulative)
        if cumulative is not None and self.machine.accumulates(cumulative.prefixes):
            return [self._accumulate(eqn, cumulative.prefixes, slots)]
        call = gufunc_call(eqn)
        return self._callback(eqn, slots) if call is None else self._apply(eqn, call, slots)

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
        self.calls.append(CallStep(eqn, operands, tuple(beside[k] for k in results)))
        return [*before, Callback(len(self.calls) - 1), *after]

    def _scatter(self, eqn: Eqn, combine: str, slots: Slots) -> list[Step]:
        """Updates of what lies in the result's slot, where that is no copy."""
        base, updates, places = eqn.invars
        if not self.machine.scatters(combine, base.aval.dtype):
            return self._callback(eqn, slots)
        source, out = self._slot_of(base, slots), slots[eqn.outvars[0]]
        shape, lead = base.aval.shape, base.aval.ndim - (updates.aval.ndim - places.aval.ndim)
        first = len(self.table)
        self.table.extend([places.aval.size, prod(shape[:lead]), prod(shape[lead:])])
        step = ScatterStep(
            out,
            self._slot_of(updates, slots),
            self._slot_of(places, slots),
            code(base.aval.dtype),
            combine,
            first,
        )
        return [*self._copies([source], [out]), step]

    def _accumulate(self, eqn: Eqn, operation: str, slots: Slots) -> Step:
        """All prefixes of lines of an array, where no kernel joins them."""
        (x,) = eqn.invars
        axis, shape, first = eqn.params["axis"], x.aval.shape, len(self.table)
        inner = prod(shape[axis + 1 :])
        self.table.extend([prod(shape[:axis]) * inner, shape[axis], inner])
        return Accumulate(
            self._slot_of(x, slots),
            slots[eqn.outvars[0]],
            operation,
            code(x.aval.dtype),
            eqn.params["reverse"],
            first,
        )

    def _apply(self, eqn: Eqn, call: GufuncCall, slots: Slots) -> list[Step]:
        """A row that a compiled loop of NumPy's does, where this process has it."""
        loop = inner_loop(eqn, call)
        found = loop_numbers(eqn, call)
        if loop is None or found is None or not self.machine.loops(loop, call.fails):
            return self._callback(eqn, slots)
        operands = [
            slots[a] if type(a) is not Literal else self._constant(np.asarray(a.value, dtype))
            for a, dtype in zip(eqn.invars, operand_types(eqn, call), strict=True)
        ]
        results = [slots[v] for v in eqn.outvars]
        inputs: list[int] = []
        copies: list[Step] = []
        for x in call.inputs:
            if not isinstance(x, Cores):
                inputs.append(self._constant(x))
            elif x.into is None:
                inputs.append(operands[x.at])
            else:
                inputs.append(results[x.into])
                copies.append(self._copy(operands[x.at], results[x.into]))
        first = len(self.table)
        self.table.extend(found.numbers)
        spare = [self._scratch(x) for x in call.outputs if not isinstance(x, Cores)]
        rest = iter(spare)
        outputs = tuple(results[x.at] if isinstance(x, Cores) else next(rest) for x in call.outputs)
        fails = tuple(self._callback(eqn, slots)) if call.fails else ()
        for slot in spare:
            self._free(slot)
        step = Apply(loop, tuple(inputs), outputs, found.depth, found.cores, first, fails)
        if call.operations:
            step = replace(step, operations=call.operations)
        return [*copies, step]

    def _product(self, eqn: Eqn, dims: Dims, slots: Slots) -> list[Step]:
        found = contraction(eqn, dims, self.machine.longest())
        if found is None:
            return self._otherwise(eqn, slots)
        operands = [self._slot_of(a, slots) for a in eqn.invars]
        lhs, rhs = operands[::-1] if found.swapped else operands
        out = slots[eqn.outvars[0]]
        first = len(self.table)
        self.table.extend(found.numbers)
        dtype = code(eqn.outvars[0].aval.dtype)
        return [Multiply(lhs, rhs, out, dtype, found.vector, found.transposed, first)]

    def _cond(self, eqn: Eqn, jaxprs: Sequence[Jaxpr], slots: Slots) -> list[Step]:
        index, *operands = eqn.invars
        into = [slots[v] for v in eqn.outvars]
        arms = [tuple(self.region(b, operands, slots, into)) for b in jaxprs]
        return [BranchStep(self._slot_of(index, slots), code(index.aval.dtype), tuple(arms))]

    def _while(self, eqn: Eqn, loop: Layout, slots: Slots) -> list[Step]:
        """The results' slots hold the carried values; the body leaves the next ones beside them."""
        consts, n = loop.consts(eqn.invars), loop.n_carry
        carry, rest = [slots[v] for v in eqn.outvars[:n]], eqn.outvars[n:]
        steps = self._copies([self._slot_of(a, slots) for a in loop.carry(eqn.invars)], carry)
        record = self._written(rest[1:], loop.body.out_avals[n:], slots)
        count = slots[rest[0]] if rest else None
        state = [Var(a) for a in loop.body.out_avals[:n]]
        inside = {**slots, **dict(zip(state, carry, strict=True))}
        predicate = self._scratch(BOOLEAN)
        cond = self.region(loop.cond, [*consts, *state], inside, [predicate])
        body = self._iteration(loop.body, [*consts, *state], inside, carry, record)
        self._free(predicate)
        return [*steps, Repeat(tuple(cond), predicate, tuple(body), tuple(record), count)]

    def _iteration(
        self,
        body: Jaxpr,
        args: Sequence[Any],
        inside: Slots,
        carry: Sequence[int],
        left: Sequence[Window],
    ) -> list[Step]:
        """One iteration of a loop."""
        into = [*carry, *(w.slot for w in left)]
        return self.region(body, args, inside, into, len(carry))

    def _scan(self, eqn: Eqn, loop: Layout, slots: Slots) -> list[Step]:
        """As a `while`, with windows on what is scanned and on what the iterations leave."""
        n, body = loop.n_carry, loop.body
        consts = loop.consts(eqn.invars)
        carry = [slots[v] for v in eqn.outvars[:n]]
        steps = self._copies([self._slot_of(a, slots) for a in loop.carry(eqn.invars)], carry)
        bound = [Var(a) for a in body.in_avals[len(consts) :]]
        read = self._read(loop.xs(eqn.invars), bound[n:], slots)
        if loop.along is not None:
            pairs = zip(read, loop.along, strict=True)
            read = [replace(w, along=self._entries(numbers)) for w, numbers in pairs]
        left = self._written(eqn.outvars[n:], body.out_avals[n:], slots)
        inside = {**slots, **dict(zip(bound, (*carry, *(w.slot for w in read)), strict=True))}
        iteration = self._iteration(body, [*consts, *bound], inside, carry, left)
        length = None if loop.length is None else self._entry(loop.length)
        count = self._slot_of(eqn.invars[0], slots) if loop.first else None
        return [*steps, Scan(length, count, loop.reverse, (*read, *left), tuple(iteration))]

    def _replay(
        self, eqn: Eqn, halves: ScanHalves, advance: Jaxpr, back: Jaxpr, slots: Slots
    ) -> list[Step]:
        """A loop backwards with few of its states: a scan over its schedule."""
        found = table(halves)
        if found is None:
            return self._callback(eqn, slots)
        n_consts, n_carry, n_xs, m_consts, m_carry, _ = halves.sizes
        sizes = (n_consts, n_carry, n_xs, m_carry, len(eqn.invars))
        consts, start, xs, cts, ct_ys = cut(eqn.invars, sizes)
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
        iteration = [*consts, *v_state, *v_xs]
        arms: dict[int, list[Step]] = {
            ADVANCE: [
                Look(number.slot, tuple(read)),
                *self._iteration(advance, iteration, inside, state, ()),
            ],
            BACK: [
                Look(number.slot, (*read, *read_ys, *left)),
                *self._iteration(back, [*consts, *bound], inside, carry, left),
            ],
            KEEP: self._moved(number.slot, state, kept, True),
            RESTORE: self._moved(number.slot, state, kept, False),
        }
        for slot in (*state, *kept):
            self._free(slot)
        branch = BranchStep(action.slot, "i8", tuple(tuple(arms[k]) for k in sorted(arms)))
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

    def _tapes(self, eqn: Eqn, slots: Slots) -> list[Step]:
        """A pointwise row on tapes: element by element."""
        out = eqn.outvars[0].aval
        avals = [aval(v.aval.shape[1:], v.aval.dtype) for v in (*eqn.invars, *eqn.outvars)]
        *args, result = map(Var, avals)
        read = self._read(eqn.invars, args, slots)
        left = self._written(eqn.outvars, avals[-1:], slots)
        body = Jaxpr(args, [Eqn(eqn.primitive, args, eqn.params, [result], eqn.source)], [result])
        inside = {v: w.slot for v, w in zip(args, read, strict=True)}
        iteration = self.region(body, args, inside, [left[0].slot])
        length = None if out.shape[0] is TURNS else self._entry(out.shape[0])
        count = None if length is not None else self._slot_of(eqn.invars[0], slots)
        return [Scan(length, count, False, (*read, *left), tuple(iteration))]

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
    return 8 if is_tape(a) else a.size * a.dtype.itemsize
