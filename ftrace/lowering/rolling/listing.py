"""Equations as numbers, in which repeats can be looked for.

Each equation has a *name*, a number for what it does: row, params, types of operands and results.
Left out are the values of literals, and where in an array a part of it lies (its start): these may
differ between iterations. Each operand and result has a number too; in iterations that repeat each
other the numbers of results grow by one step, so that comparing columns of numbers says what an
iteration reads. Here is no search (repeats.py) and no decision.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, cached_on_jaxpr, subjaxprs
from ftrace.core.kinds import way
from ftrace.core.lower import Moving, Refusal
from ftrace.core.primitive import Primitive
from ftrace.core.sameness import Static
from ftrace.core.source import Location, line_of
from ftrace.core.tapes import is_tape

Numbers = np.ndarray[Any, np.dtype[np.int64]]
PLAIN: Final = frozenset((int, bool, str, type(None)))  # equal ones of a type mean the same
OWN: Final = -1  # the name of what is never rolled
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
        before: how many equations lie before each, with those in arms and bodies, and an end.
    """

    def __init__(self, eqns: Sequence[Eqn], outs: Sequence[Any], naming: "Naming") -> None:
        self.eqns = eqns
        self.outs = outs
        named = naming.of(eqns)
        self.parts = [part for _, part in named]
        self.names: Numbers = np.array([name for name, _ in named], np.int64)
        self._literals: dict[Any, int] = {}
        self._before: dict[Any, int] = {}
        self._made: dict[Any, int] = {}
        self._atoms: dict[int, Any] = {}
        self._results: list[Any] = []
        made, read = [0], [0]
        reads: list[int] = []
        numbers, results = self._made, self._results
        for e in eqns:
            for a in e.invars:
                found = numbers.get(a)
                reads.append(self._read(a) if found is None else found)
            for v in e.outvars:
                numbers[v] = len(results)
                results.append(v)
            read.append(len(reads))
            made.append(len(results))
        self.reads: Numbers = np.array(reads, np.int64)
        self.first_read: Numbers = np.array(read, np.int64)
        self.first_made: Numbers = np.array(made, np.int64)
        self.last_use = self._last_uses()
        self.before: Numbers = np.cumsum([0, *map(equations, eqns)])

    def _read(self, atom: Any) -> int:
        """The number of what no equation made."""
        if type(atom) is Literal:
            key = value_key(atom.value), atom.aval
            found = self._literals.setdefault(key, -1 - 2 * len(self._literals))
        else:
            found = self._before.setdefault(atom, -2 - 2 * len(self._before))
        self._atoms.setdefault(found, atom)
        return found

    def atom(self, number: int) -> Any:
        """The variable or literal of a number."""
        return self._results[number] if number >= 0 else self._atoms[number]

    def saved(self, run: Any) -> int:
        """How many equations less there are if a run is rolled, with those in arms and bodies."""
        whole = int(self.before[run.end] - self.before[run.start])
        return whole - whole // max(run.iterations, 1)

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


def equations(e: Eqn) -> int:
    """How many equations one is, with those in its jaxprs."""
    return 1 + (sum(_size(j) for _, j in subjaxprs(e.params)) if e.params else 0)


@cached_on_jaxpr
def _size(jaxpr: Jaxpr) -> int:
    return sum(map(equations, jaxpr.eqns))


def _part(row: Primitive) -> Any:
    moving = way(row, Moving)
    return None if moving is None else moving.part


class Naming:
    """Gives equal numbers to equations that do the same, in one list of them after the other."""

    def __init__(self) -> None:
        self._names: dict[Any, int] = {}  # by what equations do; OWN for those that are alone
        self._jaxprs: dict[Any, int] = {}
        self._known: dict[int, int] = {}
        self._part_of = cache(_part)
        self._found: dict[Eqn, tuple[int, Any]] = {}
        self._lines: dict[tuple[int, int], tuple[str, int]] = {}
        self._count = 0

    def of(self, eqns: Sequence[Eqn]) -> list[tuple[int, Any]]:
        """The number of each equation, and (starts, sizes) of the part it reads or writes."""
        found = self._found
        for e in eqns:
            if e not in found:
                found[e] = self._name(e)
        return [found[e] for e in eqns]

    def _name(self, e: Eqn) -> tuple[int, Any]:
        row = e.primitive
        rule = self._part_of(row)
        part = None if rule is None else rule(**e.params)
        meaning = part[1] if part else self.meaning(e.params) if e.params else None
        literals = tuple([type(a) is Literal for a in e.invars])
        types = tuple([a.aval for a in e.invars])
        made = tuple([v.aval for v in e.outvars])
        refuses = row.effects is not None and way(row, Refusal) is not None
        place = self._line(e.source) if refuses and e.source else None  # which the error names
        key = row, meaning, literals, types, made, place
        name = self._names.get(key)
        if name is None:
            alone = row.effects is not None and bool(e.effects) and not refuses
            alone = alone or any(map(is_tape, (*types, *made)))
            name = self._names[key] = OWN if alone else self._next()
        return self._next() if name == OWN else name, part

    def _line(self, place: Location) -> tuple[str, int]:
        """The user's line; the instruction is another one once the interpreter has adapted it."""
        code, instruction = place
        key = id(code), instruction
        if key not in self._lines:
            self._lines[key] = code.co_filename, line_of(place)
        return self._lines[key]

    def _next(self) -> int:
        self._count += 1
        return self._count - 1

    def meaning(self, params: dict[str, Any]) -> Any:
        """A key that params have in common which mean the same."""
        return tuple([(k, self._param(params[k])) for k in sorted(params)])

    def _param(self, value: Any) -> Any:
        if isinstance(value, Jaxpr):
            return Jaxpr, self.structure(value)
        if isinstance(value, tuple) and not PLAIN.issuperset(map(type, value)):
            return type(value), *map(self._param, value)
        try:
            return value_key(value)
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
                meaning = self.meaning(e.params)
                rows.append((id(e.primitive), meaning, operands, tuple(v.aval for v in e.outvars)))
            rows.append(tuple(_atom(a, number) for a in jaxpr.outvars))
            found = self._jaxprs.setdefault(tuple(rows), len(self._jaxprs))
            self._known[id(jaxpr)] = found
        return found


def value_key(value: Any) -> Any:
    """A key that values have in common which mean the same."""
    kind = type(value)
    if kind in PLAIN:
        return kind, value
    if kind is float or kind is np.float64:
        return kind, float.hex(value)  # 0.0 is not -0.0, and NaN is NaN
    if kind is tuple and {*map(type, value)} == {int}:
        return value
    return Static(value)


def _atom(a: Any, number: dict[Any, int]) -> Any:
    return (value_key(a.value), a.aval) if type(a) is Literal else number[a]
