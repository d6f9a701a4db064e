"""The pass `roll`: equations that repeat each other become loops.

Python loops are unrolled by a trace; here they are found again, innermost first, round after round.
What comes out computes the same, to the last bit, in as many operations: the equations of one
iteration are the body of a `rolled`, and everything else stays where it is.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ftrace.core.jaxpr import Eqn, Jaxpr, Var
from ftrace.core.kinds import way
from ftrace.core.lower import Product
from ftrace.interpreters.dce import dce_equations
from ftrace.lowering.fusion.fuse import is_costly
from ftrace.lowering.fusion.fusible import is_pulled
from ftrace.lowering.rolling import rolling_notes
from ftrace.lowering.rolling.bodies import Body
from ftrace.lowering.rolling.listing import Naming, Numbered, equations
from ftrace.lowering.rolling.literals import handed_in
from ftrace.lowering.rolling.loop_stacks import PEELED, Stacks, StackWindow, turned, unit_part
from ftrace.lowering.rolling.repeats import Run, Stretch, stretches
from ftrace.lowering.rolling.unify import Listed, Same, Unified, unify

SAVED: Final = 48  # equations that a loop saves at least: fewer compile as fast as they are
BUDGET: Final = 6  # looks at each equation for runs that do not hold
COPIED: Final = 0.05  # bytes copied into arrays, for each byte that iterations write
TERMS: Final = 8  # of a product that take as long as a number that is written
CACHED: Final = 1 << 23  # bytes that iterations may leave before it costs more than registers
SHORT: Final = 400  # equations that compile in less than a second as one kernel
IN_REGISTERS: Final = 1 << 15  # bytes of an array that a loop may read and write in each iteration
LONGEST: Final = 2000  # equations that are compiled as one kernel if need be
SMALL: Final = 1 << 10  # bytes that may be copied anyway


def roll(jaxpr: Jaxpr, least: int) -> Jaxpr:
    """The jaxpr with loops of at least so many iterations where its equations repeat themselves."""
    if not least:
        return jaxpr
    eqns, outs = list(jaxpr.eqns), list(jaxpr.outvars)
    consts = list(zip(jaxpr.constvars, jaxpr.consts, strict=True))
    naming, changed = Naming(), False
    while len(eqns) > least and sum(map(equations, eqns)) > SAVED:
        found = _round(eqns, outs, max(least, 2), naming)
        if found is None or len(found[0]) >= len(eqns):
            break
        changed = True
        eqns, outs, more = found
        consts += more
    if not changed:
        return jaxpr
    return Jaxpr(
        jaxpr.invars, eqns, outs, [v for v, _ in consts], [x for _, x in consts], jaxpr.names
    )


def is_rolled(body: Jaxpr) -> bool:
    """Whether a jaxpr is the body of a loop made here: it has been through the passes before."""
    return "rolled" in body.cache


def _round(
    eqns: Sequence[Eqn], outs: Sequence[Any], least: int, naming: Naming
) -> tuple[list[Eqn], list[Any], list[tuple[Var, Any]]] | None:
    """The equations with loops in them, what stands for the results, and new constants."""
    listing = Numbered(handed_in(eqns, naming), outs, naming)
    chosen = sorted(_chosen(listing, least), key=lambda u: u.run.start)
    if not chosen:
        return None
    work = _Emission(listing, least)
    for unified in chosen:
        work.up_to(unified.run.start)
        work.run(unified)
    work.up_to(len(listing.eqns))
    if not work.loops:
        return None
    results = [work.stacks.atom(a) for a in outs]
    stacks = work.stacks
    written, results = turned(dce_equations(stacks.eqns, results), results, stacks.flipped)
    return written, results, stacks.consts


# ---------------------------------------------------------------------------------- the choice


def _chosen(listing: Numbered, least: int) -> list[Unified]:
    """Runs that hold and do not overlap."""
    choice = _Choice(listing, least)
    for stretch in stretches(listing, least, SAVED):
        choice.push(stretch.run, stretch)
    while choice.heap:
        choice.step()
    choice.tell()
    return choice.found


class _Choice:
    """Runs that are tried, the best first.

    Attributes:
        heap: those that are still to be tried, or that hold and wait for their turn.
        found: those that hold and were taken.
    """

    def __init__(self, listing: Numbered, least: int) -> None:
        self.listing = listing
        self.heap: list[tuple[Any, int, Run, Unified | Stretch | None]] = []
        self.found: list[Unified] = []
        self._least = least
        self._taken = np.zeros(len(listing.eqns), bool)
        self._left = BUDGET * len(listing.eqns)
        self._pushed = 0
        self._worst: tuple[Run, int] | None = None  # the longest that does not hold, and where

    def push(self, run: Run, state: Unified | Stretch | None = None, at: int = 0) -> None:
        """Try a run in its turn, if it would save enough.

        Args:
            run: the run.
            state: what it is if it holds, or where it is still to be cut; None to try it.
            at: its place among equals, if it has been pushed before.
        """
        if run.iterations >= self._least and self.listing.saved(run) >= SAVED:
            self._pushed += 1
            heapq.heappush(self.heap, (run.rank, at or self._pushed, run, state))

    def step(self) -> None:
        """Cut or try the best run, or take it if it holds."""
        _, at, run, state = heapq.heappop(self.heap)
        if isinstance(state, Stretch):
            if self._has_room(state):  # most are multiples of a period whose runs were taken
                self.push(state.cut(self.listing), None, at)
        elif self._taken[run.start : run.end].any():
            for piece in _free(run, self._taken):
                self.push(piece)
        elif state is not None:
            self._taken[run.start : run.end] = True
            self.found.append(state)
        elif self._left > 0:
            self._try(run)

    def _has_room(self, stretch: Stretch) -> bool:
        """Whether a run that is worth it may lie between those that were taken."""
        taken = self._taken[stretch.first : stretch.first + stretch.length]
        longest = np.diff(np.flatnonzero(np.concatenate(([True], taken, [True])))).max() - 1
        room = Run(stretch.first, stretch.period, int(longest) // stretch.period)
        return self.listing.saved(room) >= SAVED

    def _try(self, run: Run) -> None:
        result = unify(self.listing, run)
        if isinstance(result, Unified):
            self.push(run, result)
            return
        self._left -= run.period * (result + 1)
        if self._worst is None or run.saved > self._worst[0].saved:
            self._worst = run, result
        self.push(replace(run, iterations=result))
        self.push(Run(run.start + result * run.period, run.period, run.iterations - result))

    def tell(self) -> None:
        """Say where the longest run breaks that is no loop, nor any part of it."""
        if self._worst is not None:
            run, iteration = self._worst
            if not self._taken[run.start : run.end].any():
                rolling_notes.broken(self.listing, run, iteration)


def _free(run: Run, taken: Any) -> Iterator[Run]:
    """What is left of a run beside what others have taken."""
    edges = np.flatnonzero(np.diff(np.concatenate(([1], taken[run.start : run.end], [1]))))
    for first, last in edges.reshape(-1, 2):
        yield run.within(run.start + int(first), run.start + int(last))


# ---------------------------------------------------------------------------------- writing


class _Emission:
    """Writes the program with loops."""

    def __init__(self, listing: Numbered, least: int) -> None:
        self.listing = listing
        self.least = least
        self.stacks = Stacks()
        self.loops = 0
        self._at = 0

    def up_to(self, end: int) -> None:
        """Write the equations before one as they are."""
        for at in range(self._at, end):
            self.stacks.plain(self.listing.eqns[at], self.listing.parts[at])
        self._at = max(self._at, end)

    def run(self, unified: Unified) -> None:
        """Write a run as a loop, if that pays."""
        windows, front, back = self._windows(unified)
        while front or back:
            run = unified.run
            run = Run(run.start + front * run.period, run.period, run.iterations - front - back)
            if not self._worth(run):
                return
            found = unify(self.listing, run)
            assert isinstance(found, Unified)
            unified = found
            self.up_to(run.start)
            windows, front, back = self._windows(unified)
        if self._worth(unified.run) and self._pays(unified, windows):
            body = Body(self.listing, unified, self.stacks, windows)
            if self._is_one_pass(body):
                what = "one kernel keeps in registers what a loop would write to memory"
                rolling_notes.refused(self.listing, body.run, what)
            else:
                body.write()
                rolling_notes.loop(self.listing, body.run)
                self._at = unified.run.end
                self.loops += 1

    def _worth(self, run: Run) -> bool:
        return run.iterations >= self.least and self.listing.saved(run) >= SAVED

    def _windows(self, unified: Unified) -> tuple[dict[Any, StackWindow], int, int]:
        """Windows for lists and parts, and how many iterations at both ends they leave out."""
        found: dict[Any, StackWindow] = {}
        front = back = 0
        for x in dict.fromkeys(x for x in unified.operands if type(x) is Listed):
            window, low, high = self.stacks.window([self.listing.atom(n) for n in x.numbers])
            if window is not None and low <= PEELED and high <= PEELED:
                found[x.numbers] = window
                front, back = max(front, low), max(back, high)
        for q, starts in unified.starts.items():
            window = self._part(unified, q, starts)
            if window is not None:
                found["part", q] = window
        return found, front, back

    def _part(self, unified: Unified, q: int, starts: Any) -> StackWindow | None:
        """The window of an equation that reads one element after the other of an array."""
        listing, at = self.listing, unified.run.start + q
        first = listing.first_read[at] - listing.first_read[unified.run.start]
        x = unified.operands[int(first)]
        steps = np.diff(starts, axis=0)
        if not unit_part(listing.eqns[at], listing.parts[at]) or type(x) is not Same:
            return None
        if (steps != steps[0]).any():
            return None
        return StackWindow(self.stacks.atom(x.atom), int(starts[0, 0]), int(steps[0, 0]))

    def _pays(self, unified: Unified, windows: dict[Any, StackWindow]) -> bool:
        """Whether little is copied into arrays and out of them, beside what iterations write."""
        listing, run = self.listing, unified.run
        iteration = listing.iteration(run)
        lists = {x for x in unified.operands if type(x) is Listed and x.numbers not in windows}
        bytes_in = sum(_bytes(listing.atom(n)) for x in lists for n in x.numbers)
        end = int(listing.first_made[run.end])
        alone = [
            n
            for n in range(int(listing.first_made[run.start]), end)
            if listing.last_use[n] == len(listing.eqns)
        ]
        results = (end - int(listing.first_made[run.start])) // run.iterations
        alone = [n for n in alone if n < end - results]
        bytes_out = sum(_bytes(listing.atom(n)) for n in alone)
        if listing.saved(run) - 2 * (len(alone) + sum(len(x.numbers) for x in lists)) < SAVED:
            return False
        written = run.iterations * sum(map(_work, iteration))
        if (lists or alone) and run.equations <= SHORT and all(map(is_pulled, iteration)):
            return False  # one kernel as it is, and several with what is copied
        pays = bytes_in + bytes_out <= max(SMALL, COPIED * written)
        if not pays:
            what = "arrays of {} bytes would be copied; pass them as one array and take its rows"
            rolling_notes.refused(listing, run, what, bytes_in + bytes_out)
        return pays

    def _is_one_pass(self, body: Body) -> bool:
        """Whether the iterations are one pass over memory as they are, and as a loop are many.

        A kernel keeps in registers what a loop would write and read again in each iteration, or
        leave in memory for another loop, such as that of the derivative.
        """
        run, iteration = body.run, self.listing.iteration(body.run)
        if run.equations > LONGEST or not all(map(is_pulled, iteration)):
            return False
        largest = max(_bytes(v) for e in iteration for v in e.outvars)
        if run.equations <= SHORT and largest > IN_REGISTERS:
            return True
        return body.bytes_left > CACHED and not any(map(is_costly, iteration))


def _bytes(a: Any) -> int:
    return a.aval.size * a.aval.dtype.itemsize


def _work(e: Eqn) -> int:
    """Bytes that an equation writes; of a product, as if it wrote some of its terms."""
    written = sum(map(_bytes, e.outvars))
    product = way(e.primitive, Product)
    if product is None:
        return written
    (contracted, _), _ = product.dims(**e.params)
    terms = int(np.prod([e.invars[0].aval.shape[i] for i in contracted]))
    return written * max(1, terms // TERMS)
