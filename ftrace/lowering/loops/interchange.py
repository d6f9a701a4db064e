"""Interchange of scan and map: an elementwise scan is one kernel, its carry in registers.

Where the body of a `scan` reads, for an element of what it gives, one element of each carry, no
member of a carry waits for others. The kernel loops over the members, and inside over the
iterations,
in order, with the elements of the carries as variables: nothing of them is in memory between
iterations. The results of one shape are one kernel; what a smaller carry is at a member (a number
that all of them read, say) is carried along by each of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var
from ftrace.core.kinds import branches, layout
from ftrace.core.lower import Layout, Moving
from ftrace.core.tapes import is_tape
from ftrace.lowering.fusion.backward_slice import Places, Producers, SliceReader, reads
from ftrace.lowering.fusion.fuse import is_costly
from ftrace.lowering.fusion.fusible import is_pulled, is_scalar, iterates
from ftrace.lowering.fusion.groups import AXES, OPERANDS
from ftrace.lowering.fusion.scalar_jaxprs import evaluate
from ftrace.lowering.kernel.builder import Builder, part_code
from ftrace.lowering.kernel.complexes import ComplexParts
from ftrace.lowering.kernel.index_maps import ORIGIN, Coord, Index, placed
from ftrace.lowering.kernel.ir import Atom
from ftrace.lowering.machine import Machine

PAGE: Final = 4096  # bytes


class Carry:
    """A carried array, of which each member reads one element.

    Attributes:
        var: its variable in the body.
        index: the element, in symbolic axes of the members.
        start, end: what it starts from, and what an iteration leaves.
    """

    __slots__ = ("end", "index", "start", "var")

    def __init__(self, var: Any, index: Index, start: Any, end: Any) -> None:
        self.var = var
        self.index = index
        self.start = start
        self.end = end


class Interchange:
    """The results of a scan that one kernel computes.

    Attributes:
        shape: of the members.
        length, reverse: of the scan.
        carries: what a member carries from iteration to iteration.
        scanned: variable of an element in the body -> array, and (first, step): which element of it
            an iteration reads.
        results: result and variable, of the carries that are stored when the iterations are over.
        left: result and what an iteration leaves in it.
        slice: (variable, index) to compute on the way, operands first.
        reads: stored variables that are read.
    """

    __slots__ = ("carries", "left", "length", "reads", "results", "reverse", "scanned", "slice")

    def __init__(self, length: int, reverse: bool, scanned: Mapping[Any, Any]) -> None:
        self.length = length
        self.reverse = reverse
        self.scanned = scanned
        self.carries: list[Carry] = []
        self.results: list[tuple[Any, Any]] = []
        self.left: list[tuple[Any, Any]] = []
        self.slice: list[tuple[Any, Index]] = []
        self.reads: set[Any] = set()

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the members."""
        if self.results:
            return self.results[0][0].aval.shape
        return self.left[0][0].aval.shape[1:]

    @property
    def index(self) -> Index:
        """A member, in symbolic axes."""
        return tuple(Coord(AXES[i]) if n != 1 else ORIGIN for i, n in enumerate(self.shape))

    @property
    def along(self) -> set[Any]:
        """What has an element for each iteration."""
        return {*(v for v, _ in self.scanned.values()), *(v for v, _ in self.left)}

    @property
    def writes(self) -> set[Any]:
        """The results that are stored."""
        return {v for v, _ in (*self.results, *self.left)}

    def write(self, b: Builder, producers: Producers, slots: Mapping[Any, int]) -> None:
        """Write the loops over members and iterations.

        Args:
            b: the kernel.
            producers: equations of the body.
            slots: where stored variables lie.
        """
        reader = IterationReader(b, producers, slots, self.scanned)
        sizes = [n for n in self.shape if n != 1]
        outer = [(b.number(("member", i), n), b.loop_axis()) for i, n in enumerate(sizes)]
        axes = iter(axis for _, axis in outer)
        place = {AXES[i]: Coord(next(axes)) for i, n in enumerate(self.shape) if n != 1}
        index = placed(self.index, place)
        where = [placed(c.index, place) for c in self.carries]
        starts = [reader.at(c.start, at) for c, at in zip(self.carries, where, strict=True)]
        inits = [a for x in starts for a in atoms_of(b, x)]
        length, axis = b.number("iterations", self.length), b.loop_axis()
        reader.iteration = Coord(axis).flipped(self.length) if self.reverse else Coord(axis)
        params = b.carried([a.dtype for a in inits])
        supply = iter(params)
        for c, at in zip(self.carries, where, strict=True):
            b.remember((c.var, at), whole(b, supply, c.var.aval.dtype))
        for var, at in self.slice:
            reader.at(var, placed(at, place))
        for result, atom in self.left:
            reader.store(
                slots[result], result.aval, (reader.iteration, *index), reader.at(atom, index)
            )
        ends = [reader.at(c.end, at) for c, at in zip(self.carries, where, strict=True)]
        outs = iter(
            b.end_run(axis, length, params, inits, [a for x in ends for a in atoms_of(b, x)])
        )
        final = {c.var: whole(b, outs, c.var.aval.dtype) for c in self.carries}
        for result, var in self.results:
            reader.store(slots[result], result.aval, index, final[var])
        for extent, axis in reversed(outer):
            b.end_loop(axis, extent)


def interchanged(
    eqn: Eqn,
    loop: Layout,
    form: Jaxpr,
    bound: Sequence[Any],
    wanted: Sequence[Any],
    machine: Machine,
) -> tuple[list[Interchange], Producers] | None:
    """The kernels of a scan, if its members iterate by themselves.

    Args:
        eqn: the scan.
        loop: what it does.
        form: its body, opened.
        bound: the variables in it of the carries and elements.
        wanted: the results that somebody reads.
        machine: what they are made for.

    Returns:
        What each kernel computes, in an order in which none reads what one before has written, and
        the producers of what is computed on the way.
    """
    atoms = (*eqn.invars, *eqn.outvars, *form.outvars)
    if loop.length is None or any(is_tape(a.aval) for a in atoms):
        return None
    if not any(all(map(known, form.eqns)) for known in (is_scalar, _is_elementwise)):
        return None
    n = loop.n_carry
    arrays = loop.xs(eqn.invars)
    along = loop.along or ((0, 1),) * len(arrays)
    scanned = dict(zip(bound[n:], zip(arrays, along, strict=True), strict=True))
    starts = loop.carry(eqn.invars)
    carries = {
        v: (start, end) for v, start, end in zip(bound[:n], starts, form.outvars, strict=False)
    }
    producers = {v: (i, e, k) for i, e in enumerate(form.eqns) for k, v in enumerate(e.outvars)}
    found: dict[tuple[int, ...], Interchange] = {}
    inside = (*bound[:n], *form.outvars[n:])
    for number, (result, atom) in enumerate(zip(eqn.outvars, inside, strict=True)):
        if result in wanted:
            one = found.setdefault(atom.aval.shape, Interchange(loop.length, loop.reverse, scanned))
            (one.results if number < n else one.left).append((result, atom))
    every = sorted(found.values(), key=lambda one: -len(one.shape))
    known = all(_followed(one, carries, producers) and pays(one, form, machine) for one in every)
    return (every, producers) if known else None


def _is_elementwise(eqn: Eqn) -> bool:
    """Whether an equation is computed element by element, in as many steps for each of them."""
    rule = eqn.primitive.lower
    stays = not isinstance(rule, Moving) or rule.reads == "axes"
    return is_pulled(eqn) and not iterates(eqn) and stays


def _followed(
    one: Interchange, carries: Mapping[Any, tuple[Any, Any]], producers: Producers
) -> bool:
    """Find out what a member carries; false where it reads a carry at two places."""
    index = one.index
    where = {v: index for _, v in one.results}
    seen = -1
    found: Places = {}
    while len(where) != seen:
        seen = len(where)
        pairs = [(atom, index) for _, atom in one.left]
        pairs += [(carries[v][1], at) for v, at in where.items()]
        found, one.slice = reads(pairs, producers, lambda v: v not in producers)
        for v in found.keys() & carries.keys():
            (at, *others) = found[v]
            if others or where.setdefault(v, at) != at:
                return False
    one.carries = [Carry(v, where[v], *carries[v]) for v in carries if v in where]
    starts = {c.start for c in one.carries if type(c.start) is not Literal}
    elsewhere = found.keys() - carries.keys()
    one.reads = starts | {one.scanned[v][0] if v in one.scanned else v for v in elsewhere}
    return len(one.reads) + len(one.writes) <= OPERANDS


# ---------------------------------------------------------------------------------- the choice


def pays(one: Interchange, form: Jaxpr, machine: Machine) -> bool:
    """Whether iterations inside of members are faster than members inside of iterations.

    Members that fill no more than two vectors save what every iteration costs. With more of them,
    iterations inside of members save the carries' way through memory; but what iterations read and
    leave is then passed in long steps, each to another page, and where an iteration takes the
    result of a long computation to begin another one, there is nothing to do while it waits.
    """
    if machine.pages is None:
        return True
    members = prod(one.shape)
    widest = max(v.aval.dtype.itemsize for v in (*one.reads, *one.writes))
    if members * widest <= 2 * machine.vector_bytes:
        return True
    along = [v.aval for v in (*one.reads, *one.writes) if v in one.along]
    touched = sum(min(one.length, -(-a.size * a.dtype.itemsize // PAGE)) for a in along)
    return touched <= machine.pages and not _waits({c.var for c in one.carries}, form.eqns)


def _waits(late: set[Any], eqns: Sequence[Eqn]) -> bool:
    """Whether what carries go through holds an operation that takes long."""
    for eqn in eqns:
        if not late.isdisjoint(eqn.invars):
            late.update(eqn.outvars)
            if is_costly(eqn):
                return True
    return False


# ---------------------------------------------------------------------------------- the kernel


class IterationReader(SliceReader):
    """Elements of variables in an iteration: of what is scanned, those of the iteration.

    Args:
        builder: the kernel.
        producers: the equations of the body.
        slots: where stored variables lie.
        scanned: variable of an element in the body -> array, and (first, step): which element of it
            an iteration reads.
    """

    def __init__(
        self,
        builder: Builder,
        producers: Producers,
        slots: Mapping[Any, int],
        scanned: Mapping[Any, Any],
    ) -> None:
        super().__init__(builder, producers, slots)
        self.scanned = scanned
        self.iteration = ORIGIN

    def _compute(self, var: Any, index: Index) -> Any:
        if var in self.scanned:
            array, (first, step) = self.scanned[var]
            return self.at(array, (self.iteration.scaled(step).shifted(first), *index))
        if var not in self.slots:
            _, eqn, position = self.producers[var]
            if branches(eqn) or layout(eqn) is not None:  # over numbers
                return self._evaluated(eqn, position)
        return super()._compute(var, index)

    def _evaluated(self, eqn: Eqn, position: int) -> Any:
        """A result of a loop or branch over numbers."""
        args, outs = ([Var(a.aval) for a in atoms] for atoms in (eqn.invars, eqn.outvars))
        alone = Jaxpr(args, [Eqn(eqn.primitive, args, eqn.params, outs, eqn.source)], outs)
        found = evaluate(self.builder, alone, [self.at(a, ()) for a in eqn.invars])
        for v, x in zip(eqn.outvars, found, strict=True):
            self.builder.remember((v, ()), x)
        return found[position]


def atoms_of(b: Builder, value: Any) -> list[Atom]:
    """A scalar as variables: both parts, and float16, which is no type of them, as float32."""
    if isinstance(value, ComplexParts):
        return [*value]
    return [b.cast(value, "f4") if value.dtype == "f2" else value]


def whole(b: Builder, supply: Iterator[Atom], dtype: np.dtype[Any]) -> Any:
    """The scalar of a dtype that variables carry."""
    if dtype.kind == "c":
        return ComplexParts(next(supply), next(supply))
    return b.cast(next(supply), part_code(dtype))
