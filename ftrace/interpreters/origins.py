"""Where a NaN or an infinity comes from: `OriginTrace` evaluates, and remembers who made it first.

Every value carries the origin of what is not finite in it: the row that made it of finite numbers
(or a NaN of infinities), its line and operands. It stands at the bottom, so that it sees what a
derivative computes as well as what the user wrote; an infinity that was given is no finding.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ftrace.core import source
from ftrace.core import trace as core
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.primitive import Primitive
from ftrace.core.source import Location
from ftrace.core.trace import EVAL, Trace, Tracer, ctx

Array = np.ndarray[Any, Any]
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """What made a value that is not finite.

    Attributes:
        number: counts the rows that ran.
        kind: "nan" or "inf".
        row: the primitive's name; "argument" or "captured array" for a NaN that was given.
        element: the first one that is not finite.
        operands: what the row was given there.
        place: the user's line.
        path: turns and branches around it, outermost first.
        cause: the origin of an infinity that a NaN was made of.
    """

    number: int
    kind: str
    row: str
    element: tuple[int, ...]
    operands: tuple[Any, ...]
    place: Location | None
    path: Path
    cause: "Origin | None" = None


class OriginTracer(Tracer):
    """A value, and the origin of what is not finite in it, where that was computed."""

    __slots__ = ("origin", "value")
    slots = ("owner", "value", "origin")

    def __init__(self, trace: Trace, value: Any, origin: Origin | None) -> None:
        self.owner = trace
        self.value = value
        self.origin = origin

    @property
    def aval(self) -> ShapedArray:
        return typeof(self.value)

    def known(self, exact: bool) -> Any:
        return self.value


core.register(OriginTracer)


class OriginTrace(Trace):
    """Evaluates every primitive, and follows what is not finite."""

    __slots__ = ("_count", "_path")
    name = "blame"

    def __init__(self, path: Callable[[], Path]) -> None:
        super().__init__(EVAL)
        self._path = path
        self._count = 0

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        operands = [a if type(a) is OriginTracer else self.lift(a) for a in args]
        self._count += 1
        ctx.trace = EVAL
        result = EVAL.process(primitive, tuple(x.value for x in operands), params)
        if primitive.multiple:
            return [self._made(y, primitive, operands) for y in result]
        return self._made(result, primitive, operands)

    def lift(self, value: Any) -> OriginTracer:
        return OriginTracer(self, value, self.given(value, "captured array"))

    def given(self, value: Any, what: str) -> Origin | None:
        """The origin of a NaN that is there from the start."""
        nan = _is(np.isnan, value)
        if not np.any(nan):
            return None
        return Origin(self._count, "nan", what, (), (), source.location(2), self._path())

    def _made(self, y: Any, row: Primitive, operands: Sequence[OriginTracer]) -> OriginTracer:
        """A result with the origin of what is not finite in it, if anything is."""
        if not np.any(_is_not_finite(y)):
            return OriginTracer(self, y, None)
        kind, test = ("nan", np.isnan) if np.any(_is(np.isnan, y)) else ("inf", np.isinf)
        bad = _is(test, y)
        before = [(x.origin, _at(_is(test, x.value), bad)) for x in operands]
        new = bad & ~_any((b for _, b in before), bad)
        if not new.any():
            return OriginTracer(self, y, _first(o for o, b in before if (b & bad).any()))
        where = tuple(int(i) for i in np.argwhere(new)[0])
        shown = tuple(_element(x.value, where, bad.shape) for x in operands)
        cause = _first(x.origin for x in operands)
        place = source.location(2)
        made = Origin(self._count, kind, row.name, where, shown, place, self._path(), cause)
        return OriginTracer(self, y, made)


def _is(test: Callable[[Any], Any], x: Any) -> Array:
    x = np.asarray(x)
    return test(x) if x.dtype.kind in "fc" else np.zeros(x.shape, bool)


def _is_not_finite(x: Any) -> Array:
    return ~_is(np.isfinite, x) if np.asarray(x).dtype.kind in "fc" else np.zeros((), bool)


def _at(given: Array, made: Array) -> Array:
    """Where operands are bad, by element of the result; anywhere, if they have other elements."""
    return given if given.shape in ((), made.shape) else np.asarray(given.any())


def _any(flags: Iterable[Array], like: Array) -> Array:
    found = np.zeros(like.shape, bool)
    for f in flags:
        found = found | f
    return found


def _first(origins: Iterable[Origin | None]) -> Origin | None:
    return min((o for o in origins if o is not None), key=lambda o: o.number, default=None)


def _element(x: Any, where: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """The element of an operand that belongs to one of the result; its type, if none does."""
    x = np.asarray(x)
    if x.shape == shape:
        return x[where].item()
    return x.item() if x.shape == () else typeof(x)
