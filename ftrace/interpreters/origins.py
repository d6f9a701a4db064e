"""Where a NaN or an infinity comes from: `OriginTrace` evaluates, and remembers who made it first.

Every element that is not finite has the number of its origin: the row that made it of finite
numbers (or a NaN of infinities), its line and operands. Rows that move elements move the numbers by
their own implementation, elementwise rows hand them on, others give all results the first one. The
trace stands at the bottom, so that it sees what a derivative computes as well as what the user
wrote; an infinity that was given has no origin.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.core import source
from ftrace.core import trace as core
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.lower import Moving
from ftrace.core.primitive import Primitive
from ftrace.core.records import record
from ftrace.core.source import Location
from ftrace.core.trace import EVAL, Trace, Tracer, ctx

Array = np.ndarray[Any, Any]
Path = tuple[str, ...]


@record
class Origin:
    """What made a value that is not finite.

    Attributes:
        number: counts origins, in the order of the rows that ran.
        kind: "nan" or "inf".
        row: the primitive's name; "argument" or "captured array" for a NaN that was given.
        element: the first one that is not finite.
        operands: what the row was given there.
        place: the user's line.
        path: iterations and branches around it, outermost first.
        cause: the number of the origin of an infinity that a NaN was made of; 0 for none.
    """

    number: int
    kind: str
    row: str
    element: tuple[int, ...]
    operands: tuple[Any, ...]
    place: Location | None
    path: Path
    cause: int = 0


class OriginTracer(Tracer):
    """A value, and the numbers of the origins of its elements: 0, or no array, for none."""

    __slots__ = ("numbers", "value")
    slots = ("owner", "value", "numbers")

    def __init__(self, trace: Trace, value: Any, numbers: Array | None) -> None:
        self.owner = trace
        self.value = value
        self.numbers = numbers

    @property
    def aval(self) -> ShapedArray:
        return typeof(self.value)

    def known(self, exact: bool) -> Any:
        return self.value


core.register(OriginTracer)


class OriginTrace(Trace):
    """Evaluates every primitive, and follows what is not finite."""

    __slots__ = ("_path", "found")
    name = "blame"

    def __init__(self, path: Callable[[], Path]) -> None:
        super().__init__(EVAL)
        self._path = path
        self.found: list[Origin] = []

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        operands = [a if type(a) is OriginTracer else self.lift(a) for a in args]
        ctx.trace = EVAL
        found = EVAL.process(primitive, tuple(x.value for x in operands), params)
        results = found if primitive.multiple else (found,)
        if not any(_is_not_finite(y).any() for y in results):
            made = [OriginTracer(self, y, None) for y in results]
        elif _moves(primitive):
            made = self._moved(primitive, params, operands, results)
        else:
            made = [self._made(y, primitive, operands) for y in results]
        return made if primitive.multiple else made[0]

    def lift(self, value: Any) -> OriginTracer:
        return self.given(value, "captured array")

    def given(self, value: Any, what: str) -> OriginTracer:
        """A value from outside: its NaNs come from there."""
        nan = _is(np.isnan, value)
        if not nan.any():
            return OriginTracer(self, value, None)
        return OriginTracer(self, value, nan * self._new("nan", what, (), ()))

    def origins(self, x: Any) -> list[Origin]:
        """Where what is not finite in a value comes from; with their causes."""
        if type(x) is not OriginTracer or x.numbers is None:
            return []
        left = list(np.unique(x.numbers))
        found: dict[int, Origin] = {}
        while left:
            number = int(left.pop())
            if number and number not in found:
                found[number] = self.found[number - 1]
                left.append(found[number].cause)
        return [found[n] for n in sorted(found)]

    def _new(self, kind: str, row: str, element: Any, operands: Any, cause: int = 0) -> int:
        """The number of a new origin, at the user's line."""
        number, place = len(self.found) + 1, source.location(2)
        self.found.append(Origin(number, kind, row, element, operands, place, self._path(), cause))
        return number

    def _moved(
        self, row: Primitive, params: dict[str, Any], operands: Any, results: Sequence[Any]
    ) -> list[OriginTracer]:
        """Results of a row that moves elements: it moves the numbers too."""
        found = row.impl(*map(_as_moved, operands), **params)
        numbers = found if row.multiple else (found,)
        return [
            OriginTracer(self, y, np.asarray(n).astype(int))
            for y, n in zip(results, numbers, strict=True)
        ]

    def _made(self, y: Any, row: Primitive, operands: Sequence[OriginTracer]) -> OriginTracer:
        """A result whose elements have the numbers of what they come from, or new ones."""
        nan, bad = _is(np.isnan, y), _is_not_finite(y)
        numbers = np.zeros(bad.shape, int)
        for kind, wanted, test in (("nan", nan, np.isnan), ("inf", bad & ~nan, _infinite)):
            new = wanted
            for x in operands:
                here, handed = _handed(x, test, bad.shape)
                numbers = np.where(wanted & (numbers == 0), handed, numbers)
                new = new & ~here
            if new.any():
                where = tuple(int(i) for i in np.argwhere(new)[0])
                shown = tuple(_element(x.value, where, bad.shape) for x in operands)
                causes = (int(_handed(x, _infinite, bad.shape)[1][where]) for x in operands)
                cause = min(filter(None, causes), default=0)
                number = self._new(kind, row.name, where, shown, cause)
                numbers = np.where(new, number, numbers)
        return OriginTracer(self, y, numbers)


def _moves(row: Primitive) -> bool:
    """Whether its results are elements of its operands, in places that no float chooses."""
    return isinstance(row.lower, Moving) or (row.calm and bool(row.linear_in))


def _as_moved(x: OriginTracer) -> Any:
    """The numbers of an operand's elements in its place; what is no float chooses or places."""
    return _numbers(x).astype(float)[()] if np.asarray(x.value).dtype.kind in "fc" else x.value


def _numbers(x: OriginTracer) -> Array:
    return np.zeros(np.shape(x.value), int) if x.numbers is None else x.numbers


def _is(test: Callable[[Any], Any], x: Any) -> Array:
    x = np.asarray(x)
    return np.asarray(test(x)) if x.dtype.kind in "fc" else np.zeros(x.shape, bool)


def _infinite(x: Any) -> Any:
    return ~np.isfinite(x)


def _is_not_finite(x: Any) -> Array:
    return _is(_infinite, x)


def _handed(
    x: OriginTracer, test: Callable[[Any], Any], shape: tuple[int, ...]
) -> tuple[Array, Array]:
    """By element of the result, whether the operand's is bad, and its number.

    An operand with other elements counts as a whole: its first number is that of all.
    """
    bad = _is(test, x.value)
    numbers = np.where(bad, _numbers(x), 0)
    if bad.shape not in ((), shape):
        known = numbers[numbers > 0]
        bad, numbers = bad.any(), known.min() if known.size else 0
    return np.broadcast_to(bad, shape), np.broadcast_to(numbers, shape)


def _element(x: Any, where: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """The element of an operand that belongs to one of the result; its type, if none does."""
    x = np.asarray(x)
    if x.shape == shape:
        return x[where].item()
    return x.item() if x.shape == () else typeof(x)
