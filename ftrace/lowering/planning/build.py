"""Building: a group of targets becomes a kernel.

Outer loops over the kept axes, and in them the passes in order: loops over the inner axes in
which elementwise targets are computed and stored, and the operands of folds are computed and
folded. Loops that run over memory as one are joined afterwards (`collapse.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ftrace.core.lower import Cumulative, Reduction
from ftrace.lowering.fusion.backward_slice import Producers, SliceReader
from ftrace.lowering.fusion.column_sums import blocked
from ftrace.lowering.fusion.forwarding import Kept, kept
from ftrace.lowering.fusion.fusible import is_fold
from ftrace.lowering.fusion.groups import Group, RowPass, Running, Target
from ftrace.lowering.kernel.builder import Builder, part_code
from ftrace.lowering.kernel.complexes import ComplexParts
from ftrace.lowering.kernel.index_maps import ORIGIN, Coord, Index, placed
from ftrace.lowering.kernel.ir import (
    PAIRS,
    Atom,
    Block,
    Fold,
    KernelVar,
    Loop,
    Stmt,
)
from ftrace.lowering.kernel.launching import Launch, extents_of
from ftrace.lowering.kernel.schedule import LANE, Schedule, schedule
from ftrace.lowering.kernel_passes.collapse import collapse
from ftrace.lowering.kernel_passes.predication import gate
from ftrace.lowering.kernel_passes.sinking import exits
from ftrace.lowering.kernel_passes.splitting import split
from ftrace.lowering.loops.interchange import Interchange
from ftrace.lowering.loops.small_loops import SmallLoop
from ftrace.lowering.machine import Machine

WAYS = 32  # accumulators of a sum over neighbours in memory
BLOCK = 1024  # elements that are summed without keeping the rounding error
WIDE = 1 << 14  # the same where the sum is wider than they are: for threads, which sum up blocks
ROWS = 64  # the same for a sum over rows, one accumulator per column


def build(
    name: str,
    group: Group | Interchange | SmallLoop,
    producers: Producers,
    slots: Mapping[Any, int],
    table: list[int],
    machine: Machine,
) -> Launch:
    """The kernel of a group, or of what one kernel computes of a scan, scheduled.

    Args:
        group: what to compute.
        producers: equations of pulled variables.
        slots: slots of stored variables; targets without one stay in the kernel.
        table: where run-time numbers are appended.
        machine: what it is made for.
    """
    builder = Builder(name, table)
    if not isinstance(group, Group):
        group.write(builder, producers, slots)
    else:
        readable = {v: s for v, s in slots.items() if v not in group.where}
        work = _Work(builder, SliceReader(builder, producers, readable), group, slots, machine.wide)
        work.kept = kept(group, producers, slots)
        work.run()
    kernel, operands, scalars = builder.kernel()
    if isinstance(group, Group) and group.chunk:
        kernel, operands, scalars = blocked(kernel, operands, scalars, table, group.chunk)
    kernel, operands, scalars = collapse(kernel, operands, scalars, table)
    short: frozenset[int] = frozenset()
    if machine.bounds:
        kernel, operands, scalars, short = split(kernel, operands, scalars, table)
    kernel = gate(exits(kernel), lazy=machine.lazy)
    extents = extents_of(kernel, scalars, table) if machine.lanes else {}
    chosen = schedule(kernel, machine.vector_bytes, short, extents)
    kernel = replace(kernel, body=_in_registers(kernel.body, chosen, extents, False))
    if not machine.lanes:
        return Launch(kernel, chosen, operands, scalars)
    table.append(1)  # threads (thread_sharing.py); here, so that equal kernels have it at one place
    return Launch(kernel, chosen, operands, scalars, len(table) - 1)


def _in_registers(block: Block, chosen: Schedule, extents: Mapping[int, int], lanes: bool) -> Block:
    """Folds as the schedule runs them.

    Those of serial loops inside lanes have one accumulator: more would not fit. A fold that ends
    within its first block keeps no errors.
    """
    stmts: list[Stmt] = []
    for stmt in block.stmts:
        if isinstance(stmt, Loop):
            lane = chosen.role(stmt) == LANE
            folds = stmt.folds
            if lanes and not lane:
                kept = (0, ROWS, BLOCK)
                folds = tuple(
                    replace(f, ways=1, block=min(f.block, ROWS) if f.block in kept else 0)
                    for f in folds
                )
            n = extents.get(stmt.axis.id)
            if n is not None:
                folds = tuple(replace(f, block=0) if n <= f.block else f for f in folds)
            body = _in_registers(stmt.body, chosen, extents, lanes or lane)
            stmt = replace(stmt, folds=folds, body=body)
        stmts.append(stmt)
    return Block(tuple(stmts), block.results)


class _Work:
    """Builds one group."""

    def __init__(
        self,
        builder: Builder,
        reader: SliceReader,
        group: Group,
        slots: Mapping[Any, int],
        wide: bool,
    ) -> None:
        self.builder = builder
        self.reader = reader
        self.group = group
        self.slots = slots
        self.wide = wide
        self.outer: list[KernelVar] = []
        self.kept: list[Kept] = []

    def run(self) -> None:
        """Outer loops, passes, and the ends of the loops."""
        outer = self._open(self.group.kept, "kept")
        self.outer = [axis for axis, _ in outer]
        if isinstance(self.group, Running):
            self._run(self.group, outer)
        else:
            for number, sweep in enumerate(self.group.passes):
                self._sweep(number, sweep, outer)
        for axis, extent in reversed(outer):
            self.builder.end_loop(axis, extent)

    def _open(self, sizes: Sequence[int], name: Any) -> list[tuple[KernelVar, Atom]]:
        """Open loops over these sizes."""
        axes: list[tuple[KernelVar, Atom]] = []
        for i, n in enumerate(sizes):
            extent = self.builder.number(("extent", name, tuple(sizes), i), n)
            axes.append((self.builder.loop_axis(), extent))
        return axes

    def _sweep(self, number: int, sweep: RowPass, outer: list[tuple[KernelVar, Atom]]) -> None:
        inner = self._open(sweep.inner, "inner")
        axes = [axis for axis, _ in (*outer, *inner)]
        loops = [Coord(axis) for axis in axes]
        folded: list[tuple[Target, list[Atom]]] = []
        for target in sweep.targets:
            place = self._place(target, loops)
            index = placed(target.index, place)
            for var, where in self._resumed(number, target, index):
                self.reader.at(var, placed(where, place))
            value = self.reader.at(target.source, index)
            for k in self.kept:
                if k.made == number and k.source is target and not k.again:
                    self._store(k.place, index, self.reader.at(k.var, index))
            if target.blocks:
                self._add_up(target, place, value)
            elif is_fold(target.eqn) and target.inner:
                folded.append((target, self._operands(target, value, axes)))
            else:
                self._store(target, index, value)
        self._fold(folded, inner)

    def _add_up(self, target: Target, place: Mapping[KernelVar, Coord], value: Any) -> None:
        """Onto the sum of a block, which `blocked` tells from the others by the first loop."""
        rows = len(self.group.kept)
        at = tuple(place[a] for a in target.axes)
        slot = self.slots[target.var]
        self.reader.store(slot, target.var.aval, (at[0], *at[rows:]), value, combine="sum")

    def _resumed(self, number: int, target: Target, index: Index) -> list[tuple[Any, Index]]:
        """What is computed on the way to a target; from what an earlier pass left, if it did."""
        for k in self.kept:
            if k.used == number and k.target is target:
                value = self.reader.load(self.slots[k.place.var], k.var.aval, index, "out")
                self.builder.remember((k.var, index), value)
                return target.slice[target.slice.index((k.var, target.index)) + 1 :]
        return target.slice

    def _run(self, group: Running, outer: list[tuple[KernelVar, Atom]]) -> None:
        """The pass that runs in order; all that it computes lies at one place of its loops."""
        (sweep,) = group.passes
        ((axis, extent),) = self._open(sweep.inner, "inner")
        along = Coord(axis).flipped(sweep.inner[0]) if group.reverse else Coord(axis)
        loops = [*(Coord(axis) for axis, _ in outer), along]
        params: list[KernelVar] = []
        inits: list[Atom] = []
        left: list[Atom] = []
        for target in sweep.targets:
            place = self._place(target, loops)
            index = placed(target.index, place)
            for var, where in target.slice:
                self.reader.at(var, placed(where, place))
            value = self.reader.at(target.source, index)
            if target.runs:
                start = self._start(target)
                state = self.builder.carried([a.dtype for a in start])
                value, following = self._joined(target, state, value)
                self.builder.remember((target.var, index), value)
                params, inits, left = [*params, *state], [*inits, *start], [*left, *following]
            self._store(target, index, value)
        self.builder.end_run(axis, extent, params, inits, left)

    def _start(self, target: Target) -> Sequence[Atom]:
        """What a cumulative row starts from; real scalars."""
        rule, dtype = target.eqn.primitive.lower, target.var.aval.dtype
        assert isinstance(rule, Cumulative)
        part = part_code(dtype)
        carried = "f4" if part == "f2" else part  # float16 is no type of variables
        start = [self.builder.lit(x, carried) for x in rule.start(dtype)]
        return start * 2 if dtype.kind == "c" else start

    def _joined(
        self, target: Target, state: Sequence[KernelVar], value: Any
    ) -> tuple[Any, Sequence[Atom]]:
        """The element of a cumulative row, and what is carried on."""
        rule = target.eqn.primitive.lower
        assert isinstance(rule, Cumulative)
        if not isinstance(rule.rule, str):
            return rule.rule(self.builder, target.var.aval, state, value)
        if isinstance(value, ComplexParts):
            found = self.builder.op(rule.rule, ComplexParts(*state), value)
            return found, found
        before = self.builder.cast(state[0], value.dtype)
        found = self.builder.op(rule.rule, before, value)
        return found, [self.builder.cast(found, state[0].dtype)]

    def _place(self, target: Target, loops: Sequence[Coord]) -> dict[KernelVar, Coord]:
        """Where in the loops each symbolic axis of a target is."""
        return dict(zip(self.group.loops(target), loops, strict=False))

    def _store(self, target: Target, index: Index, value: Any) -> None:
        slot = self.slots.get(target.var)
        if slot is not None:
            self.reader.store(slot, target.var.aval, index, value)

    # --- folds

    def _operands(self, target: Target, value: Any, loops: Sequence[Any]) -> list[Atom]:
        """What a fold takes at each point: a value (or both parts), and an index for pairs."""
        rule = target.eqn.primitive.lower
        assert isinstance(rule, Reduction)
        if isinstance(value, ComplexParts):
            return [value.re, value.im]
        acc = self._fold_of(target, False).acc
        value = self.builder.cast(value, acc)
        return [value, loops[-1]] if rule.fold in PAIRS else [value]

    def _fold_of(self, target: Target, neighbours: bool) -> Fold:
        """The fold of a reduction; `neighbours` where it runs over neighbours in memory."""
        rule = target.eqn.primitive.lower
        assert isinstance(rule, Reduction)
        dtype = target.source.aval.dtype
        part = part_code(dtype)
        wide = "f4" if part == "f2" else part
        logical = {"sum": "or", "max": "or", "prod": "and", "min": "and"}
        if part == "b1" and rule.fold in logical:
            return Fold(logical[rule.fold], "b1")
        if rule.fold != "sum" or dtype.kind not in "fc":
            return Fold(rule.fold, wide, WAYS if neighbours else 1)
        ways = WAYS if neighbours else 1
        if self.wide and wide == "f4":
            return Fold("sum", "f8", ways, WIDE if neighbours else 0)
        return Fold("sum", wide, ways, BLOCK if neighbours else ROWS)

    def _fold(
        self,
        folded: list[tuple[Target, list[Atom]]],
        inner: list[tuple[KernelVar, Atom]],
    ) -> None:
        """Close the inner loops, folding; what is folded becomes known to later passes."""
        values = [v for _, operands in folded for v in operands]
        for depth, (axis, extent) in enumerate(reversed(inner)):
            folds: list[Fold] = []
            for target, operands in folded:
                neighbours = depth == 0 and target.trailing
                fold = self._fold_of(target, neighbours)
                folds += [fold] * (1 if fold.op in PAIRS else len(operands))
            values = list(self.builder.end_loop(axis, extent, folds, values))
        supply = iter(values)
        for target, operands in folded:
            self._finish(target, [next(supply) for _ in operands])

    def _finish(self, target: Target, values: list[Any]) -> None:
        """The result of a fold, in its dtype; stored if others need it."""
        aval = target.var.aval
        rule = target.eqn.primitive.lower
        assert isinstance(rule, Reduction)
        if aval.dtype.kind == "c":
            result = self.builder.complex(values[0], values[1], aval.dtype)
        elif rule.fold in PAIRS:
            result = self.builder.convert(values[1], aval.dtype)
        else:
            result = self.builder.convert(values[0], aval.dtype)
        self.reader.local[target.var] = result
        axes = iter(self.outer)
        index = tuple(Coord(next(axes)) if n != 1 else ORIGIN for n in aval.shape)
        self._store(target, index, result)
