"""Which inputs reach which results by derivatives, in one run: a watch over a walk.

It stands over a differentiation, whose tangents say what passes. A row that gives no tangent
though an operand has one is a *cut*; what Python, a branch or a loop decides by is cut there too,
and cuts off whatever runs because of it. `flow.py` asks the same of programs that do not run.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

from ftrace.api.looking.flow import NOTHING, Cut, Cuts, Flow, kind_of
from ftrace.control.forms.walking import Walked
from ftrace.core import source
from ftrace.core.avals import typeof
from ftrace.core.primitive import Primitive
from ftrace.interpreters.jvp import JVPTracer


class Reaching(Cuts):
    """Follows the inputs through every row."""

    def __init__(self, path: list[str]) -> None:
        super().__init__()
        self._path = path

    def step(
        self,
        row: Primitive,
        params: dict[str, Any],
        operands: Sequence[Any],
        results: Sequence[Any],
    ) -> list[Flow]:
        """What is known of each result."""
        flows = [a.note for a in operands if isinstance(a, Walked) and a.note is not None]
        whole = reduce(or_, flows, NOTHING)
        return [
            whole
            if not whole.reach or _passes(y)
            else Flow(0, whole.cuts | {self._cut(row, params, y, whole.reach)})
            for y in results
        ]

    def decided(self, note: Flow | None) -> None:
        """What runs next depends on a value."""
        for number in note.cuts if note is not None else ():
            self.cuts[number] = replace(self.cuts[number], decides=True)

    def _cut(self, row: Primitive, params: dict[str, Any], y: Any, via: int) -> int:
        place = source.location(2)
        cut = Cut(*kind_of(row, params, typeof(y)), place, tuple(self._path))
        return self.number((place, row), via, cut)


def _passes(y: Any) -> bool:
    return type(y) is JVPTracer and y.has_tangent
