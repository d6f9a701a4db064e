"""Equations as numbers, in which repeats can be looked for.

Each equation has a *name*, a number for what it does: row, params, types of operands and results.
Left out are the values of literals, and where in an array a part of it lies (its start): these may
differ between iterations. Each operand and result has a number too; in iterations that repeat each
other the numbers of results grow by one step, so that comparing columns of numbers says what an
iteration reads. Here is no search (repeats.py) and no decision.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ftrace.core.jaxpr import Eqn, Jaxpr, Literal
from ftrace.core.kinds import way
from ftrace.core.lower import Moving
from ftrace.core.sameness import Static
from ftrace.core.tapes import has_turns

Numbers = np.ndarray[Any, np.dtype[np.int64]]
WIDTH: Final = 3  # operands by which runs are looked for; matching looks at all of them


class Numbered:
    """A list of equations as numbers.

    Attributes:
        eqns, outs: the equations, and what is read behind them.
        names: of each equation.
        reads: of each operand, one equation after the other: the number of the result it is; below
            0 for what was made before: even for variables, odd for literals.
        first_read, first_made: where each equation's operands and results begin, and an end.
        last_use: for each number the last equation that reads it; -1 for none.
        parts: for each equation (starts, sizes) of the part it reads or writes, or None.
    """

    def __init__(self, eqns: Sequence[Eqn], outs: Sequence[Any]) -> None:
        self.eqns = eqns
        self.outs = outs
        self.parts = [_part(e) for e in eqns]
        naming = _Naming()
        names = [naming.name(e, part) for e, part in zip(eqns, self.parts, strict=True)]
        self.names: Numbers = np.array(names, np.int64)
        self._literals: dict[Any, int] = {}
        self._before: dict[Any, int] = {}
        self._made: dict[Any, int] = {}
        self._atoms: dict[int, Any] = {}
        self._results: list[Any] = []
        made, read, reads = [0], [0], []
        for e in self.eqns:
            reads += map(self._read, e.invars)
            self._results += e.outvars
            for v in e.outvars:
                self._made[v] = len(self._made)
            read.append(len(reads))
            made.append(len(self._made))
        self.reads: Numbers = np.array(reads, np.int64)
        self.first_read: Numbers = np.array(read, np.int64)
        self.first_made: Numbers = np.array(made, np.int64)
        self.last_use = self._last_uses()

    def _read(self, atom: Any) -> int:
        found = self._made.get(atom)
        if found is None:
            if type(atom) is Literal:
                found = self._literals.setdefault(
                    (Static(atom.value), atom.aval), -1 - 2 * len(self._literals)
                )
            else:
                found = self._before.setdefault(atom, -2 - 2 * len(self._before))
            self._atoms.setdefault(found, atom)
        return found

    def atom(self, number: int) -> Any:
        """The variable or literal of a number."""
        return self._results[number] if number >= 0 else self._atoms[number]

    def iteration(self, run: Any) -> Sequence[Eqn]:
        """The equations of the first iteration of a run."""
        return self.eqns[run.start : run.start + run.period]

    def _last_uses(self) -> Numbers:
        """By number; those below 0 count from the end."""
        before = 2 * (len(self._before) + len(self._literals)) + 2
        uses = np.full(len(self._made) + before, -1, np.int64)
        readers = np.repeat(np.arange(len(self.eqns)), np.diff(self.first_read))
        np.maximum.at(uses, self.reads, readers)
        for a in self.outs:
            if type(a) is not Literal:
                uses[self._made.get(a, self._before.get(a, -1))] = len(self.eqns)
        return uses

    def makers(self) -> list[Numbers]:
        """For each of the first operands the equation that made it; below 0 as in `reads`."""
        total = np.arange(len(self.eqns))
        owner = np.repeat(total, np.diff(self.first_made))
        counts = np.diff(self.first_read)
        found: list[Numbers] = []
        for k in range(WIDTH):
            has = counts > k
            column = np.full(len(self.eqns), -1, np.int64)
            numbers = self.reads[self.first_read[:-1][has] + k]
            made = numbers >= 0
            numbers[made] = owner[numbers[made]]
            column[has] = np.where(numbers % 2 == 1, np.where(made, numbers, -1), numbers)
            found.append(column)
        return found


def _part(e: Eqn) -> Any:
    moving = way(e.primitive, Moving)
    return None if moving is None or moving.part is None else moving.part(**e.params)


class _Naming:
    """Gives equal numbers to equations that do the same."""

    def __init__(self) -> None:
        self._names: dict[Any, int] = {}
        self._params: dict[int, Any] = {}
        self._jaxprs: dict[Any, int] = {}
        self._known: dict[int, int] = {}

    def name(self, e: Eqn, part: Any) -> int:
        """The number of an equation."""
        types = (*[(type(a) is Literal, a.aval) for a in e.invars], *[v.aval for v in e.outvars])
        alone = e.primitive.effects is not None and bool(e.effects)
        if alone or any(has_turns(a.aval) for a in (*e.invars, *e.outvars)):
            key: Any = object()
        else:
            key = id(e.primitive), part[1] if part else self._meaning(e.params), types
        return self._names.setdefault(key, len(self._names))

    def _meaning(self, params: dict[str, Any]) -> Any:
        if not params:
            return None
        found = self._params.get(id(params))
        if found is None:
            found = tuple((k, self._value(params[k])) for k in sorted(params))
            self._params[id(params)] = found
        return found

    def _value(self, value: Any) -> Any:
        if isinstance(value, Jaxpr):
            return Jaxpr, self.structure(value)
        if isinstance(value, tuple):
            return type(value), *map(self._value, value)
        try:
            return Static(value)
        except TypeError:  # it has no hash
            return object()

    def structure(self, jaxpr: Jaxpr) -> int:
        """A number that jaxprs have in common which do the same; constants are the same arrays."""
        found = self._known.get(id(jaxpr))
        if found is None:
            number: dict[Any, int] = {}
            for v in (*jaxpr.constvars, *jaxpr.invars):
                number[v] = len(number)
            rows: list[Any] = [tuple(map(id, jaxpr.consts)), jaxpr.in_avals]
            for e in jaxpr.eqns:
                operands = tuple(_atom(a, number) for a in e.invars)
                for v in e.outvars:
                    number[v] = len(number)
                meaning = self._meaning(e.params)
                rows.append((id(e.primitive), meaning, operands, tuple(v.aval for v in e.outvars)))
            rows.append(tuple(_atom(a, number) for a in jaxpr.outvars))
            found = self._jaxprs.setdefault(tuple(rows), len(self._jaxprs))
            self._known[id(jaxpr)] = found
        return found


def _atom(a: Any, number: dict[Any, int]) -> Any:
    return (Static(a.value), a.aval) if type(a) is Literal else number[a]
