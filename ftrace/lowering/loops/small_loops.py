"""Scalar replacement: a loop over small arrays is one kernel, with their elements in registers.

A filter with two states, a product of small matrices, a particle in space: iterations depend on
each other, and each does too little to pay for kernels of its own. Every element of what is carried
becomes a variable of the loop, and what an iteration computes is written out, element by element.
Source: Callahan, Carr, Kennedy, "Improving register allocation for subscripted variables" (1990).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, Final

from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var
from ftrace.core.kinds import is_reshape
from ftrace.core.lower import Layout, Moving, Pointwise, Reduction
from ftrace.core.tapes import is_tape
from ftrace.lowering.fusion.backward_slice import Producers, row_major
from ftrace.lowering.fusion.fusible import is_fold, is_pulled, is_scalar, iterates
from ftrace.lowering.fusion.weights import EXACT, own
from ftrace.lowering.kernel.builder import Builder
from ftrace.lowering.kernel.index_maps import Coord, Index, constant
from ftrace.lowering.kernel.ir import PAIRS, Atom
from ftrace.lowering.loops.interchange import IterationReader, atoms_of, whole

LARGEST: Final = 64  # elements of an array in the body
CARRIED: Final = 40  # elements that are carried
WORK: Final = 1500  # operations of an iteration, a costly one being many
KERNEL: Final = 128  # operations in the time that a kernel of its own takes to begin and end


class _ElsewhereError(LookupError):
    """An element of what is carried is read at a place that only the run knows."""


class _Reader(IterationReader):
    """Elements of variables in an iteration."""

    def __init__(self, b: Builder, loop: "SmallLoop", slots: Mapping[Any, int]) -> None:
        super().__init__(b, loop.producers, slots, loop.scanned)
        self.inside = loop.inside

    def _compute(self, var: Any, index: Index) -> Any:
        if var in self.inside:
            raise _ElsewhereError
        if var in self.producers and is_reshape(self.producers[var][1]):
            return self._same_place(self.producers[var][1], index)
        return super()._compute(var, index)

    def _same_place(self, eqn: Eqn, index: Index) -> Any:
        """The element that lies where an element of another shape does."""
        known = [c.offset for c in index if isinstance(c, Coord)]
        if len(known) < len(index):
            raise _ElsewhereError
        (x,), out = eqn.invars, eqn.outvars[0].aval
        place = sum(k * n for k, n in zip(known, row_major(out.shape), strict=True))
        steps = zip(row_major(x.aval.shape), x.aval.shape, strict=True)
        return self.at(x, tuple(constant(place // step % n) for step, n in steps))


class SmallLoop:
    """A loop that is one kernel.

    Attributes:
        layout: what it does.
        cond, body: its condition, if it has one, and its body, opened.
        carried: for each of them, the variables of what is carried.
        starts: what it starts from.
        scanned: variable of an element in the body -> array, and (first, step): which element of it
            an iteration reads.
        results: those that are stored, None for others.
        producers: the equations of both.
        reads: stored variables that are read.
        writes: the results that are stored.
    """

    def __init__(
        self, eqn: Eqn, layout: Layout, forms: Sequence[Jaxpr], bound: Any, wanted: Sequence[Any]
    ) -> None:
        n = layout.n_carry
        self.layout = layout
        self.body = forms[-1]
        self.cond = forms[0] if layout.cond is not None else None
        self.carried = [names[:n] for names in bound]
        self.starts = layout.carry(eqn.invars)
        arrays = layout.xs(eqn.invars)
        along = layout.along or ((0, 1),) * len(arrays)
        self.scanned = dict(zip(bound[-1][n:], zip(arrays, along, strict=True), strict=True))
        eqns = [e for form in forms for e in form.eqns]
        self.producers = {v: (i, e, k) for i, e in enumerate(eqns) for k, v in enumerate(e.outvars)}
        self.inside = {v for names in self.carried for v in names}
        self.results = [v if v in wanted else None for v in eqn.outvars]
        self.writes = {v for v in self.results if v is not None}
        read = {a for e in eqns for a in e.invars} | {a for f in forms for a in f.outvars}
        read |= {*self.starts, *arrays}
        known = self.producers.keys() | self.inside | self.scanned.keys()
        self.reads = {a for a in read if type(a) is not Literal and a not in known}

    def write(self, b: Builder, producers: Producers, slots: Mapping[Any, int]) -> None:
        """Write the kernel.

        Args:
            b: the kernel.
            producers: equations of the condition and the body.
            slots: where stored variables lie.
        """
        reader = _Reader(b, self, slots)
        first = [
            a
            for x in self.starts
            for at in _places(x.aval.shape)
            for a in atoms_of(b, reader.at(x, at))
        ]
        outs = iter(
            self._repeated(b, reader, first) if self.cond else self._run(b, reader, first, slots)
        )
        for x, v in zip(self.starts, self.results, strict=False):
            for at in _places(x.aval.shape):
                value = whole(b, outs, x.aval.dtype)
                if v is not None:
                    reader.store(slots[v], v.aval, at, value)

    def _run(
        self, b: Builder, reader: _Reader, first: Sequence[Atom], slots: Mapping[Any, int]
    ) -> Sequence[Atom]:
        """A loop that is counted."""
        n, length = self.layout.n_carry, self.layout.length
        assert length is not None
        extent, axis = b.number("iterations", length), b.loop_axis()
        reader.iteration = Coord(axis).flipped(length) if self.layout.reverse else Coord(axis)
        params = b.carried([a.dtype for a in first])
        (names,) = self.carried
        self._enter(b, reader, names, params, self.body)
        for v, atom in zip(self.results[n:], self.body.outvars[n:], strict=True):
            if v is not None:
                for at in _places(atom.aval.shape):
                    place = (reader.iteration, *at)
                    reader.store(slots[v], v.aval, place, reader.at(atom, at))
        return b.end_run(axis, extent, params, first, self._left(b, reader, self.body))

    def _repeated(self, b: Builder, reader: _Reader, first: Sequence[Atom]) -> Sequence[Atom]:
        """A loop with a condition."""
        assert self.cond is not None
        cond, body = self.cond, self.body

        def test(params: Sequence[Atom]) -> Atom:
            self._enter(b, reader, self.carried[0], params, cond)
            return reader.at(cond.outvars[0], ())

        def turn(params: Sequence[Atom]) -> list[Atom]:
            self._enter(b, reader, self.carried[1], params, body)
            return self._left(b, reader, body)

        return b.repeat(first, test, turn)

    def _enter(
        self,
        b: Builder,
        reader: _Reader,
        names: Sequence[Any],
        params: Sequence[Atom],
        form: Jaxpr,
    ) -> None:
        """What is carried gets its names; then all is computed, operands first: nothing is deep."""
        supply: Iterator[Atom] = iter(params)
        for v in names:
            for at in _places(v.aval.shape):
                b.remember((v, at), whole(b, supply, v.aval.dtype))
        for eqn in form.eqns:
            for v in eqn.outvars:
                for at in _places(v.aval.shape):
                    reader.at(v, at)

    def _left(self, b: Builder, reader: _Reader, form: Jaxpr) -> list[Atom]:
        """What is carried on."""
        ends = form.outvars[: self.layout.n_carry]
        return [
            a for x in ends for at in _places(x.aval.shape) for a in atoms_of(b, reader.at(x, at))
        ]


def _places(shape: Sequence[int]) -> list[Index]:
    """The indices of all elements."""
    return [tuple(map(constant, at)) for at in product(*map(range, shape))]


def small_loop(
    eqn: Eqn,
    loop: Layout,
    forms: Sequence[Jaxpr],
    bound: Sequence[Sequence[Var]],
    wanted: Sequence[Any],
    kernels: Callable[[Jaxpr], int],
) -> SmallLoop | None:
    """A loop as one kernel, if its arrays are small and every iteration does little.

    Args:
        eqn: the loop.
        loop: what it does.
        forms: its condition, if it has one, and its body, opened.
        bound: for each of them, the variables of what is carried and of the elements.
        wanted: the results that somebody reads.
        kernels: how many kernels an opened jaxpr would be.
    """
    eqns = [e for f in forms for e in f.eqns]
    if loop.records or any(is_tape(a.aval) for e in (eqn, *eqns) for a in (*e.invars, *e.outvars)):
        return None
    small = [a.aval.size for e in eqns for a in e.outvars]
    small += [a.aval.size for a in (*forms[-1].outvars, *bound[-1])]
    carried = sum(v.aval.size * (1 + (v.aval.dtype.kind == "c")) for v in bound[-1][: loop.n_carry])
    if max(small, default=0) > LARGEST or min(small, default=1) == 0 or carried > CARRIED:
        return None
    work = sum(map(_work, eqns))
    if not all(map(_is_known, eqns)) or work > WORK:
        return None
    if work > KERNEL and work > KERNEL * sum(map(kernels, forms)):
        return None
    found = SmallLoop(eqn, loop, forms, bound, wanted)
    anywhere = dict.fromkeys((*found.reads, *found.writes), 0)
    try:
        found.write(Builder("", []), found.producers, anywhere)
    except _ElsewhereError:
        return None
    return found


def _is_known(eqn: Eqn) -> bool:
    if is_reshape(eqn):
        return True
    rule = eqn.primitive.lower
    if isinstance(rule, Reduction):
        return is_fold(eqn) and rule.fold not in PAIRS
    return is_scalar(eqn) or (is_pulled(eqn) and not iterates(eqn))


def _work(eqn: Eqn) -> int:
    """Operations of an equation; what only moves elements takes none."""
    rule = eqn.primitive.lower
    if isinstance(rule, Moving):
        return 0
    if is_fold(eqn):
        return prod(eqn.invars[0].aval.shape)
    name = rule.rule if isinstance(rule, Pointwise) and isinstance(rule.rule, str) else ""
    return sum(v.aval.size for v in eqn.outvars) * EXACT.get(name, own(eqn))
