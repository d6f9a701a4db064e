"""Which inputs reach which results by derivatives, in one run: a watch over a walk.

It stands over a differentiation, whose tangents say what passes. A row that gives no tangent
though an operand has one is a *cut*; what Python, a branch or a loop decides by is cut there too,
and cuts off whatever runs because of it. `flow.py` asks the same of programs that do not run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any, Final, NamedTuple

from ftrace.api.looking.flow import kind_of
from ftrace.control.walking import Walked
from ftrace.core import source
from ftrace.core.avals import typeof
from ftrace.core.primitive import Primitive
from ftrace.core.source import Location
from ftrace.core.zero import ZERO
from ftrace.interpreters.jvp import JVPTracer
from ftrace.interpreters.origins import Path


class Reach(NamedTuple):
    """What is known of a value.

    Attributes:
        inputs: the inputs (bits) that it depends on by derivatives.
        cuts: the numbers of the cuts on other ways to it.
    """

    inputs: int = 0
    cuts: frozenset[int] = frozenset()


NOTHING: Final = Reach()


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Where derivatives end.

    Attributes:
        what: a sentence.
        place, path: the user's line, and iterations and branches when it ran first.
        via: the inputs whose derivatives end here.
        decides: whether what ran depends on it.
    """

    what: str
    place: Location | None
    path: Path
    via: int
    decides: bool = False


class Reaching:
    """Follows the inputs through every row."""

    def __init__(self, path: list[str]) -> None:
        self.cuts: list[Obstacle] = []
        self._path = path
        self._numbers: dict[Any, int] = {}

    def step(
        self,
        row: Primitive,
        params: dict[str, Any],
        operands: Sequence[Any],
        results: Sequence[Any],
    ) -> list[Reach]:
        """The reach of each result."""
        reaches = [a.note for a in operands if isinstance(a, Walked) and a.note is not None]
        inputs = reduce(or_, (r.inputs for r in reaches), 0)
        cuts = merged(r.cuts for r in reaches)
        return [
            Reach(inputs, cuts)
            if not inputs or _passes(y)
            else Reach(0, cuts | {self._cut(row, params, y, inputs)})
            for y in results
        ]

    def decided(self, note: Reach | None) -> None:
        """What runs next depends on a value."""
        for number in note.cuts if note is not None else ():
            self.cuts[number] = replace(self.cuts[number], decides=True)

    def _cut(self, row: Primitive, params: dict[str, Any], y: Any, via: int) -> int:
        place = source.location(2)
        number = self._numbers.setdefault((place, row), len(self.cuts))
        if number == len(self.cuts):
            what = kind_of(row, params, typeof(y))[1]
            self.cuts.append(Obstacle(what, place, tuple(self._path), 0))
        self.cuts[number] = replace(self.cuts[number], via=self.cuts[number].via | via)
        return number


def merged(cuts: Iterable[frozenset[int]]) -> frozenset[int]:
    """All of these numbers."""
    return frozenset[int]().union(*cuts)


def _passes(y: Any) -> bool:
    return type(y) is JVPTracer and y.tangent is not ZERO
