"""What the iterations of a run have in common, and where they differ: anti-unification.

Every operand of an iteration is one of: the same in all of them; a literal of another value; made
in the iteration; made some iterations before (carried); one of a list of variables that were made
before the run. If an operand is none of these from some iteration on, the run ends there.
"""

from typing import Any

import numpy as np

from ftrace.core.records import record
from ftrace.lowering.rolling.listing import Numbered, Numbers
from ftrace.lowering.rolling.repeats import MEMORY, Run


@record
class Same:
    """The same atom in all iterations."""

    atom: Any


@record
class Literals:
    """A literal of another value in each iteration."""

    atoms: tuple[Any, ...]


@record
class Local:
    """A result of the same iteration, by its number in it."""

    result: int


@record
class Handed:
    """A result of `delay` iterations before.

    Attributes:
        result: its number in an iteration.
        delay: as above.
        inits: what the first `delay` iterations read: numbers of the listing.
    """

    result: int
    delay: int
    inits: tuple[int, ...]


@record
class Listed:
    """One of a list of variables from before the run; the numbers of the listing."""

    numbers: tuple[int, ...]


Operand = Same | Literals | Local | Handed | Listed


@record
class Unified:
    """A run whose iterations are one body.

    Attributes:
        run: the run.
        operands: for each operand of an iteration what it is.
        starts: for each equation with a part, where that lies in each iteration, if it moves.
        read: for each result, for each iteration, whether something behind the run reads it.
    """

    run: Run
    operands: tuple[Operand, ...]
    starts: dict[int, Numbers]
    read: Any


def unify(listing: Numbered, run: Run) -> Unified | int:
    """What the iterations have in common; or the first one that does not fit to those before."""
    first, end = run.start, run.end
    low, high = listing.first_read[first], listing.first_read[end]
    table = listing.reads[low:high].reshape(run.iterations, -1)
    base = int(listing.first_made[first])
    results = (int(listing.first_made[end]) - base) // run.iterations
    inside = table >= base
    steady = table[1:] - table[:-1]
    holds = np.where(inside[:-1], steady == results, True)  # once inside, always so
    fails = np.where(holds.all(0), run.iterations, np.argmin(holds, 0) + 1)
    entered = np.where(inside.any(0), np.argmax(inside, 0), -1)
    for column in np.flatnonzero(entered >= 0):
        at = int(entered[column])
        made = (int(table[at, column]) - base) // results
        if (made, at) != (0, at) or at > MEMORY:
            fails[column] = min(fails[column], max(at, 1))
    if fails.size and fails.min() < run.iterations:
        return int(fails.min())
    operands = tuple(
        _operand(listing, table[:, k], base, results, int(entered[k]))
        for k in range(table.shape[1])
    )
    uses = listing.last_use[base : base + results * run.iterations].reshape(run.iterations, results)
    return Unified(run, operands, _moving(listing, run), uses >= end)


def _operand(listing: Numbered, column: Numbers, base: int, results: int, entered: int) -> Operand:
    if entered >= 0:
        result = int(column[entered]) - base
        return (
            Handed(result, entered, tuple(column[:entered].tolist())) if entered else Local(result)
        )
    if (column == column[0]).all():
        return Same(listing.atom(int(column[0])))
    if column[0] < 0 and column[0] % 2:
        return Literals(tuple(map(listing.atom, column.tolist())))
    return Listed(tuple(column.tolist()))


def _moving(listing: Numbered, run: Run) -> dict[int, Numbers]:
    """Where the parts lie that equations read or write, for those that move."""
    found: dict[int, Numbers] = {}
    for q in range(run.period):
        parts = listing.parts[run.start + q : run.end : run.period]
        if parts[0] is not None:
            starts = np.array([p[0] for p in parts], np.int64).reshape(run.iterations, -1)
            if (starts != starts[0]).any():
                found[q] = starts
    return found
