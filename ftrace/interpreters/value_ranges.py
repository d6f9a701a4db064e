"""Value ranges: between which numbers an integer of a trace lies, whatever the arguments are.

An index that a program chooses among its own counters (`if x[j] < x[best]: best = j`) is in range;
where that is known, nothing has to look at it when the program runs. The ranges of what equations
leave follow from those of their operands, on demand. (Harrison, Compiler analysis of the value
ranges for variables, 1977.)
"""

from collections.abc import Callable, Sequence
from itertools import islice
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.core import trace as core
from ftrace.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from ftrace.core.kinds import way
from ftrace.core.lower import Moving, Pointwise, Reduction
from ftrace.core.scalar import OPS
from ftrace.core.trace import Tracer
from ftrace.interpreters.abstract import AbstractInterpreter
from ftrace.interpreters.partial import PartialTracer
from ftrace.interpreters.staging import JaxprTracer
from ftrace.primitives import elements

DEEP: Final = 2000  # equations that one question follows, and as many within calls and branches


class ValueRange(NamedTuple):
    """All whole numbers from `low` to `high`."""

    low: int
    high: int


def value_range(x: Any) -> ValueRange | None:
    """The range of an integer or boolean, or of all elements of an array; None of what is neither.

    What is not known has the range of its dtype, or none.
    """
    return _of_value(core.now(x) if core.moved else x)


def _of_value(x: Any) -> ValueRange | None:
    """The range of a value as it is, whatever the running region wrote into it."""
    while isinstance(x, Tracer) and not isinstance(x, JaxprTracer):
        if isinstance(x, PartialTracer):
            return None  # an unknown, even if its value is computed beside it: recordings agree
        x = getattr(x, x.slots[1], None)  # the value that is traced
    if isinstance(x, JaxprTracer):
        if type(x.atom) is Literal:
            return _of_constant(x.atom.value)
        trace = x.owner
        if trace.ranges is None:
            trace.ranges = TraceRanges(trace)
        return trace.ranges.of(x.atom)  # type: ignore[no-any-return]
    return _of_constant(x)


def range_of_result(operation: str, *operands: ValueRange | None) -> ValueRange | None:
    """The range of an operation on whole numbers of these ranges; None where none is known."""
    if operation not in _RULES or None in operands:
        return None
    return _RULES[operation](*operands)


class TraceRanges:
    """What is known of the variables of one trace.

    Args:
        trace: a `JaxprTrace`, whose equations are read as it records them.
    """

    __slots__ = ("_found", "_hoisted", "_last", "_made", "_read", "_trace")

    def __init__(self, trace: Any) -> None:
        self._trace = trace
        self._read = self._hoisted = 0  # how many of each were looked at
        self._last: Eqn | None = None
        self._made: dict[Var, Eqn] = {}
        self._found: dict[Var, ValueRange | None] = {}

    def of(self, atom: Atom) -> ValueRange | None:
        """The range of an atom."""
        if type(atom) is Literal:
            return _of_constant(atom.value)
        self._look()
        assert type(atom) is Var
        todo, steps, interpreter = [atom], 0, _Ranges()
        while todo:
            var = todo[-1]
            eqn = self._made.get(var)
            if var in self._found or eqn is None:
                self._found.setdefault(var, None)
                todo.pop()
                continue
            missing = [a for a in eqn.invars if type(a) is Var and a not in self._found]
            steps += 1
            if missing and steps <= DEEP:
                todo += missing
                continue
            operands = [
                self._found.get(a) if type(a) is Var else _of_constant(a.value) for a in eqn.invars
            ]
            results = interpreter.through(eqn, operands, None)
            self._found.update(zip(eqn.outvars, results, strict=True))
        return self._found[atom]

    def _look(self) -> None:
        hoisted = self._trace.hoisted
        for tracer, var in islice(hoisted.values(), self._hoisted, None):
            if tracer.aval.dtype.kind in "iub":
                self._found[var] = _of_value(tracer)
        self._hoisted = len(hoisted)
        eqns = self._trace.eqns
        if self._read and (len(eqns) < self._read or eqns[self._read - 1] is not self._last):
            self._read = 0  # some were taken back
        for eqn in eqns[self._read :]:
            if any(v.aval.dtype.kind in "iub" for v in eqn.outvars):
                self._made.update((v, eqn) for v in eqn.outvars)
        self._read, self._last = len(eqns), eqns[-1] if eqns else None


class _Ranges(AbstractInterpreter["ValueRange | None"]):
    """Ranges of whole numbers; None says no more than the dtype."""

    def __init__(self) -> None:
        self._left = DEEP  # equations that are followed within calls and branches

    def constant(self, value: Any) -> ValueRange | None:
        return _of_constant(value)

    def jaxpr(
        self, jaxpr: Jaxpr, inputs: Sequence[ValueRange | None], place: Any = None
    ) -> list[ValueRange | None]:
        self._left -= len(jaxpr.eqns)
        if self._left < 0:
            return [None] * len(jaxpr.outvars)
        return super().jaxpr(jaxpr, inputs, place)

    def equation(
        self, eqn: Eqn, operands: list[ValueRange | None], place: Any
    ) -> list[ValueRange | None]:
        if len(eqn.outvars) != 1:
            return [None] * len(eqn.outvars)
        pairs = zip(operands, eqn.invars, strict=True)
        known = [_of_dtype(a.aval.dtype) if r is None else r for r, a in pairs]
        found, limits = _result(eqn, known), _of_dtype(eqn.outvars[0].aval.dtype)
        fits = found is not None and limits is not None and _is_within(found, limits)
        return [found if fits else limits]

    def chosen(
        self, index: ValueRange | None, results: tuple[ValueRange | None, ...]
    ) -> ValueRange | None:
        return _hull(results)


def _of_constant(value: Any) -> ValueRange | None:
    if issubclass(type(value), bool | int | np.integer | np.bool_):
        return ValueRange(int(value), int(value))
    return None


def _of_dtype(dtype: np.dtype[Any]) -> ValueRange | None:
    """All numbers of a dtype; None where these are not whole."""
    if dtype.kind == "b":
        return ValueRange(0, 1)
    if dtype.kind not in "iu":
        return None
    limits = np.iinfo(dtype)
    return ValueRange(int(limits.min), int(limits.max))


def _is_within(found: ValueRange, limits: ValueRange) -> bool:
    return limits.low <= found.low and found.high <= limits.high


def _hull(ranges: Sequence[ValueRange | None]) -> ValueRange | None:
    """The least range that holds some others."""
    known = [r for r in ranges if r is not None]
    if not known or len(known) < len(ranges):
        return None
    return ValueRange(min(r.low for r in known), max(r.high for r in known))


def _result(eqn: Eqn, operands: list[ValueRange | None]) -> ValueRange | None:
    """The range of the only result of an equation."""
    moving = way(eqn.primitive, Moving)
    if moving is not None:
        return None if moving.reads == "computed" else _hull(operands)
    reduction = way(eqn.primitive, Reduction)
    if reduction is not None:
        return _reduced(eqn, reduction.fold, operands)
    pointwise = way(eqn.primitive, Pointwise)
    if pointwise is None:
        return None
    rule = pointwise.rule
    if isinstance(rule, str) and OPS[rule].chooses:
        return _hull(operands[1:])
    known = [r for r in operands if r is not None]
    if len(known) < len(operands):
        return None
    if rule is elements.convert or rule is elements.same:
        return known[0]
    if rule is elements.clamp:
        low, x, high = known
        return _min(_max(x, low), high)
    return range_of_result(rule, *known) if isinstance(rule, str) else None


def _reduced(eqn: Eqn, fold: str, operands: list[ValueRange | None]) -> ValueRange | None:
    shape = eqn.invars[0].aval.shape
    if fold in ("argmax", "argmin"):
        return ValueRange(0, max(shape[eqn.params["axis"]] - 1, 0))
    if fold in ("max", "min") and prod(shape):
        return operands[0]
    return None


def _min(x: ValueRange, y: ValueRange) -> ValueRange:
    return ValueRange(min(x.low, y.low), min(x.high, y.high))


def _max(x: ValueRange, y: ValueRange) -> ValueRange:
    return ValueRange(max(x.low, y.low), max(x.high, y.high))


def _mul(x: ValueRange, y: ValueRange) -> ValueRange:
    corners = [a * b for a in x for b in y]
    return ValueRange(min(corners), max(corners))


def _mod(x: ValueRange, y: ValueRange) -> ValueRange | None:
    return ValueRange(0, y.high - 1) if y.low > 0 else None


def _floor_divide(x: ValueRange, y: ValueRange) -> ValueRange | None:
    if y.low <= 0:
        return None
    corners = [a // b for a in x for b in y]
    return ValueRange(min(corners), max(corners))


def _answer(yes: bool, no: bool) -> ValueRange:
    """The range of a comparison that surely holds, or surely does not."""
    return ValueRange(1, 1) if yes else ValueRange(0, 0) if no else ValueRange(0, 1)


def _and(x: ValueRange, y: ValueRange) -> ValueRange | None:
    return ValueRange(0, min(x.high, y.high)) if min(x.low, y.low) >= 0 else None


def _or(x: ValueRange, y: ValueRange) -> ValueRange | None:
    bits = max(x.high, y.high).bit_length()
    return ValueRange(max(x.low, y.low), (1 << bits) - 1) if min(x.low, y.low) >= 0 else None


_RULES: Final[dict[str, Callable[..., ValueRange | None]]] = {
    "add": lambda x, y: ValueRange(x.low + y.low, x.high + y.high),
    "sub": lambda x, y: ValueRange(x.low - y.high, x.high - y.low),
    "mul": _mul,
    "neg": lambda x: ValueRange(-x.high, -x.low),
    "abs": lambda x: ValueRange(max(x.low, -x.high, 0), max(-x.low, x.high)),
    "max": _max,
    "min": _min,
    "mod": _mod,
    "floor_divide": _floor_divide,
    "and": _and,
    "or": _or,
    "lt": lambda x, y: _answer(x.high < y.low, x.low >= y.high),
    "le": lambda x, y: _answer(x.high <= y.low, x.low > y.high),
    "gt": lambda x, y: _answer(x.low > y.high, x.high <= y.low),
    "ge": lambda x, y: _answer(x.low >= y.high, x.high < y.low),
    "eq": lambda x, y: _answer(
        x.low == x.high == y.low == y.high, x.high < y.low or y.high < x.low
    ),
}
