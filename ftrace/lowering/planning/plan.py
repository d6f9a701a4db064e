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

from ftrace.core.avals import aval
from ftrace.core.binomial import ADVANCE, BACK, KEEP, RESTORE
from ftrace.core.config import config
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var
from ftrace.core.kinds import branches, gufunc_call, is_joined, layout, way
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
from ftrace.lowering.memory import liveness
from ftrace.lowering.memory.liveness import Lives, Slots
from ftrace.lowering.memory.slot_table import SlotTable, bytes_of
from ftrace.lowering.planning.contraction import Dims, contraction
from ftrace.lowering.planning.loop_kernels import loop_kernels
from ftrace.lowering.planning.loop_numbers import inner_loop, loop_numbers, operand_types
from ftrace.lowering.planning.pipeline import Pipeline, alive
from ftrace.lowering.planning.replay import table, zero_sums
from ftrace.lowering.planning.streaming import stream
from ftrace.lowering.planning.thread_sharing import share
from ftrace.lowering.program.program import (
    ARGUMENT,
    RESULT,
    WINDOW,
    Accumulate,
    Apply,
    BranchStep,
    Callback,
    CallStep,
    Look,
    Multiply,
    Program,
    Repeat,
    Scan,
    ScatterStep,
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


class _Planner(SlotTable):
    """What one program needs while it is planned."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self.calls: list[CallStep] = []
        self.passes = Pipeline(machine)
        self.parts: set[int] = set()  # slots that are parts of others
        self.kernels = 0

    def program(self, jaxpr: Jaxpr) -> Program:
        """The whole program."""
        args = [Var(a) for a in jaxpr.in_avals]
        slots: Slots = {v: self.new(ARGUMENT, v.aval, i) for i, v in enumerate(args)}
        results = [self.new(RESULT, a, i) for i, a in enumerate(jaxpr.out_avals)]
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
        slots = {**outer, **{v: self.constant(array) for v, array in consts}}
        items, producers = self.passes.groups(form)
        lives = Lives.of(items, outs)
        into, beside = self._beside(items, form, into, carried, slots, lives)
        for k, (out, slot) in enumerate(zip(outs, into, strict=True)):
            aliases = {} if k < carried else lives.aliases
            for v in liveness.written_as(items, out, lives.made, aliases):
                slots.setdefault(v, slot)
        slots.update(liveness.starts(items, slots, lives.made, lives.last, lives.memory))
        steps: list[Step] = []
        for number, item in enumerate(items):
            steps += self._place(number, item, slots, lives)
            steps += self._item(item, producers, slots, lives)
            self._release(lives, number)
        for out, slot in zip(outs, into, strict=True):
            if self.of(out, slots) != slot:
                steps.append(self.copy(self.of(out, slots), slot))
        self._release(lives, len(items))
        for source, target in beside:
            steps.append(self.copy(source, target))
            self.free(source)
        return [*steps, *map(self._empty_tape, unmade)]

    def _place(self, number: int, item: Item, slots: Slots, lives: Lives) -> list[Step]:
        """Give what an item makes places, where somebody reads it."""
        steps: list[Step] = []
        places = lives.places
        dying = {slot for end, slot in places if end == number}
        for v in liveness.made(item):
            if v in lives.parts and v not in slots:
                steps += self._place_part(v, slots, lives)
            elif v in lives.made and v not in slots and lives.last.get(v, -1) > number:
                found = liveness.in_place(item, v, slots, dying, lives.memory)
                if found is None:
                    found = self.scratch(v.aval)
                else:
                    dying.discard(found)
                    places.remove((number, found))
                slots[v] = found
                places.append((lives.last[v], found))
        return steps

    def _place_part(self, var: Any, slots: Slots, lives: Lives) -> list[Step]:
        """Give a variable its part of another one, which has a place from here on."""
        whole, start = lives.parts[var]
        steps: list[Step] = []
        if whole not in slots:
            if whole in lives.parts:
                steps = self._place_part(whole, slots, lives)
            else:
                slots[whole] = self.scratch(whole.aval)
                lives.places.append((lives.last[whole], slots[whole]))
        part = self.part(slots[whole], var.aval, start)
        slots[var] = part.slot
        self.parts.add(part.slot)
        return [*steps, part]

    def _copies_into(self, eqn: Eqn, slots: Slots, lives: Lives) -> list[Step]:
        """Copies of the operands of a `joined` that were not made in its result."""
        (out,), start = eqn.outvars, 0
        steps: list[Step] = []
        for a in eqn.invars:
            source = self.of(a, slots)
            if source not in self.parts or lives.parts.get(a) != (out, start):
                part = self.part(slots[out], a.aval, start)
                steps += [part, self.copy(source, part.slot)]
            start += bytes_of(a.aval)
        return steps

    def _beside(
        self,
        items: Sequence[Item],
        form: Jaxpr,
        into: Sequence[int],
        carried: int,
        slots: Slots,
        lives: Lives,
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Where results are made, and what is copied at the end: results that are inputs too.

        Only where nobody reads the input any more, its slot can take the result at once.
        """
        places, copies = [*into], []
        for k, (out, slot) in enumerate(zip(form.outvars[:carried], into, strict=False)):
            holders = [v for v in form.invars if slots[v] == slot]
            if out in holders or liveness.overwrites(items, out, holders, lives.last, lives.memory):
                continue
            places[k] = self.scratch(out.aval)
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
        window = self.window(tape, aval(a.shape[1:], a.dtype), True)
        return Scan(self.entry(0), None, False, (window,), ())

    def _release(self, lives: Lives, number: int) -> None:
        """Free the places that no later item reads."""
        for last, slot in lives.places:
            if last <= number:
                self.free(slot)
        lives.places[:] = [(last, slot) for last, slot in lives.places if last > number]

    def _item(self, item: Item, producers: Any, slots: Slots, lives: Lives) -> list[Step]:
        if isinstance(item, Group):
            return [self._launch(item, producers, slots)]
        if is_joined(item):
            return self._copies_into(item, slots, lives)
        if item.outvars and item.outvars[0] in lives.aliases:
            slots[item.outvars[0]] = self.of(item.invars[0], slots)
            return []
        return self._step(item, slots)

    def _loop_kernels(self, eqn: Eqn, loop: Layout, slots: Slots) -> list[Step] | None:
        """A loop that kernels do as a whole."""
        found = loop_kernels(eqn, loop, slots, self.passes, self.constant, self.machine)
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
                slots[v] = self.scratch(v.aval)
                unused.append(slots[v])
        steps = self._steps(eqn, loop, slots)
        for slot in unused:
            self.free(slot)
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
            flag = self.of(eqn.invars[0], slots)
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
                beside[k] = self.scratch(self.slots[k].aval)
        read = [k for k in beside if k in places]
        before = [self.copy(k, beside[k]) for k in read if beside[k] != k]
        after = [self.copy(beside[k], k) for k in results if beside[k] != k]
        for k, copy in beside.items():
            if copy != k:
                self.free(copy)
        operands = tuple(None if k is None else beside[k] for k in places)
        self.calls.append(CallStep(eqn, operands, tuple(beside[k] for k in results)))
        return [*before, Callback(len(self.calls) - 1), *after]

    def _scatter(self, eqn: Eqn, combine: str, slots: Slots) -> list[Step]:
        """Updates of what lies in the result's slot, where that is no copy."""
        base, updates, places = eqn.invars
        if not self.machine.scatters(combine, base.aval.dtype):
            return self._callback(eqn, slots)
        source, out = self.of(base, slots), slots[eqn.outvars[0]]
        shape, lead = base.aval.shape, base.aval.ndim - (updates.aval.ndim - places.aval.ndim)
        first = len(self.table)
        self.table.extend([places.aval.size, prod(shape[:lead]), prod(shape[lead:])])
        step = ScatterStep(
            out,
            self.of(updates, slots),
            self.of(places, slots),
            code(base.aval.dtype),
            combine,
            first,
        )
        return [*self.copies([source], [out]), step]

    def _accumulate(self, eqn: Eqn, operation: str, slots: Slots) -> Step:
        """All prefixes of lines of an array, where no kernel joins them."""
        (x,) = eqn.invars
        axis, shape, first = eqn.params["axis"], x.aval.shape, len(self.table)
        inner = prod(shape[axis + 1 :])
        self.table.extend([prod(shape[:axis]) * inner, shape[axis], inner])
        return Accumulate(
            self.of(x, slots),
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
            slots[a] if type(a) is not Literal else self.constant(np.asarray(a.value, dtype))
            for a, dtype in zip(eqn.invars, operand_types(eqn, call), strict=True)
        ]
        results = [slots[v] for v in eqn.outvars]
        inputs: list[int] = []
        copies: list[Step] = []
        for x in call.inputs:
            if not isinstance(x, Cores):
                inputs.append(self.constant(x))
            elif x.into is None:
                inputs.append(operands[x.at])
            else:
                inputs.append(results[x.into])
                copies.append(self.copy(operands[x.at], results[x.into]))
        first = len(self.table)
        self.table.extend(found.numbers)
        spare = [self.scratch(x) for x in call.outputs if not isinstance(x, Cores)]
        rest = iter(spare)
        outputs = tuple(results[x.at] if isinstance(x, Cores) else next(rest) for x in call.outputs)
        fails = tuple(self._callback(eqn, slots)) if call.fails else ()
        for slot in spare:
            self.free(slot)
        step = Apply(loop, tuple(inputs), outputs, found.depth, found.cores, first, fails)
        if call.operations:
            step = replace(step, operations=call.operations)
        return [*copies, step]

    def _product(self, eqn: Eqn, dims: Dims, slots: Slots) -> list[Step]:
        found = contraction(eqn, dims, self.machine.longest())
        if found is None:
            return self._otherwise(eqn, slots)
        operands = [self.of(a, slots) for a in eqn.invars]
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
        return [BranchStep(self.of(index, slots), code(index.aval.dtype), tuple(arms))]

    def _while(self, eqn: Eqn, loop: Layout, slots: Slots) -> list[Step]:
        """The results' slots hold the carried values; the body leaves the next ones beside them."""
        consts, n = loop.consts(eqn.invars), loop.n_carry
        carry, rest = [slots[v] for v in eqn.outvars[:n]], eqn.outvars[n:]
        steps = self.copies([self.of(a, slots) for a in loop.carry(eqn.invars)], carry)
        record = self.written(rest[1:], loop.body.out_avals[n:], slots)
        count = slots[rest[0]] if rest else None
        state = [Var(a) for a in loop.body.out_avals[:n]]
        inside = {**slots, **dict(zip(state, carry, strict=True))}
        predicate = self.scratch(BOOLEAN)
        cond = self.region(loop.cond, [*consts, *state], inside, [predicate])
        body = self._iteration(loop.body, [*consts, *state], inside, carry, record)
        self.free(predicate)
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
        steps = self.copies([self.of(a, slots) for a in loop.carry(eqn.invars)], carry)
        bound = [Var(a) for a in body.in_avals[len(consts) :]]
        read = self.read(loop.xs(eqn.invars), bound[n:], slots)
        if loop.along is not None:
            pairs = zip(read, loop.along, strict=True)
            read = [replace(w, along=self.entries(numbers)) for w, numbers in pairs]
        left = self.written(eqn.outvars[n:], body.out_avals[n:], slots)
        inside = {**slots, **dict(zip(bound, (*carry, *(w.slot for w in read)), strict=True))}
        iteration = self._iteration(body, [*consts, *bound], inside, carry, left)
        length = None if loop.length is None else self.entry(loop.length)
        count = self.of(eqn.invars[0], slots) if loop.first else None
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
        state = [self.scratch(a.aval) for a in start]
        kept = [self.scratch(aval((found.places, *a.aval.shape), a.aval.dtype)) for a in start]
        first = [self.of(a, slots) for a in (*start, *cts)]
        steps += self.copies(first, (*state, *carry[m_consts:]))
        bound = [Var(a) for a in back.in_avals[n_consts:]]
        v_state, v_xs, v_carry, v_ys = cut(bound, (n_carry, n_xs, len(carry), len(bound)))
        read, read_ys = self.read(xs, v_xs, slots), self.read(ct_ys, v_ys, slots)
        left = self.written(eqn.outvars[len(carry) :], back.out_avals[len(carry) :], slots)
        pairs = [(v_state, state), (v_carry, carry)]
        pairs += [(v, [w.slot for w in ws]) for v, ws in ((v_xs, read), (v_ys, read_ys))]
        inside = {**slots, **{v: k for vs, ks in pairs for v, k in zip(vs, ks, strict=True)}}
        columns = [self.constant(c) for c in (found.actions, found.numbers)]
        action, number = (self.window(c, INTEGER, False) for c in columns)
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
            self.free(slot)
        branch = BranchStep(action.slot, "i8", tuple(tuple(arms[k]) for k in sorted(arms)))
        length = self.entry(len(found.actions))
        return [*steps, Scan(length, None, False, (action, number), (branch,))]

    def _moved(
        self, number: int, state: Sequence[int], kept: Sequence[int], keep: bool
    ) -> list[Step]:
        """A state put into the place of a number, or taken from there."""
        windows = [
            self.window(k, self.slots[s].aval, keep) for s, k in zip(state, kept, strict=True)
        ]
        places = [w.slot for w in windows]
        copies = self.copies(state, places) if keep else self.copies(places, state)
        return [Look(number, tuple(windows)), *copies]

    def _tapes(self, eqn: Eqn, slots: Slots) -> list[Step]:
        """A pointwise row on tapes: element by element."""
        out = eqn.outvars[0].aval
        avals = [aval(v.aval.shape[1:], v.aval.dtype) for v in (*eqn.invars, *eqn.outvars)]
        *args, result = map(Var, avals)
        read = self.read(eqn.invars, args, slots)
        left = self.written(eqn.outvars, avals[-1:], slots)
        body = Jaxpr(args, [Eqn(eqn.primitive, args, eqn.params, [result], eqn.source)], [result])
        inside = {v: w.slot for v, w in zip(args, read, strict=True)}
        iteration = self.region(body, args, inside, [left[0].slot])
        length = None if out.shape[0] is TURNS else self.entry(out.shape[0])
        count = None if length is not None else self.of(eqn.invars[0], slots)
        return [Scan(length, count, False, (*read, *left), tuple(iteration))]
