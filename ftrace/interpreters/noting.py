"""Noting where values come from: `NotingTrace` evaluates, and remembers which row made what.

It stands where evaluation stands, at the bottom, so that whatever runs above it (`linearize`, say)
does exactly what it would do without it. Notes hold arrays weakly: what dies, dies.
"""

from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np

from ftrace.core import source
from ftrace.core.device import is_array, to_host
from ftrace.core.jaxpr import Eqn, Jaxpr
from ftrace.core.primitive import Primitive
from ftrace.core.records import record
from ftrace.core.source import Location
from ftrace.core.trace import EVAL, Trace, ctx


@record
class Note:
    """Where an array comes from.

    Attributes:
        kind: "argument", "captured" (an array of the user, from outside), "named" (by
            `checkpoint_name`) or "intermediate".
        name: the argument's or the given name, or that of the primitive.
        place: the user's line.
    """

    kind: str
    name: str
    place: Location | None = None


class NotingTrace(Trace):
    """Evaluates every primitive, with a note on its results."""

    __slots__ = ("_notes", "foreign")
    name = "inspection"

    def __init__(self) -> None:
        super().__init__(EVAL)
        self._notes: dict[int, tuple[ref[Any], Note]] = {}
        self.foreign: list[tuple[Any, Note]] = []  # arrays of the user

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        place = source.location(2)
        for i, a in enumerate(args):
            if is_array(a) and self.find(a) is None:
                note = Note("captured", "captured array", _read_at(params, i) or place)
                self.enter(a, note)
        ctx.trace = EVAL
        result = EVAL.process(primitive, args, params)
        for i, y in enumerate(result if primitive.multiple else (result,)):
            if is_array(y):
                self._note(y, _made_by(primitive, params, i, place))
        return result

    def lift(self, value: Any) -> Any:
        return value

    def enter(self, array: Any, note: Note) -> None:
        """Note an array of the user."""
        self.foreign.append((array, note))
        self._note(array, note)

    def find(self, array: Any) -> Note | None:
        """The note on an array."""
        holder, note = self._notes.get(id(array), (None, None))
        return note if holder is not None and holder() is array else None

    def origin(self, array: Any) -> Note | None:
        """The note on an array, or on the user's array of which it is a protected copy."""
        found = self.find(array)
        return found if found is not None else _same_content(array, self.foreign)

    def _note(self, array: Any, note: Note) -> None:
        self._notes[id(array)] = (ref(array), note)


def _read_at(params: dict[str, Any], position: int) -> Location | None:
    """The line inside a call that first reads an operand."""
    jaxpr = params.get("jaxpr")
    if not isinstance(jaxpr, Jaxpr):
        return None
    v = jaxpr.invars[position]
    reader = next((e for e in jaxpr.eqns if v in e.invars), None)
    if reader is None:
        return None
    return _read_at(reader.params, reader.invars.index(v)) or reader.source


def _made_by(
    primitive: Primitive, params: dict[str, Any], position: int, place: Location | None
) -> Note:
    """The note on a result; that of a call is what made it inside."""
    jaxpr = params.get("jaxpr")
    if isinstance(jaxpr, Jaxpr):
        v = jaxpr.outvars[position]
        for e in jaxpr.eqns:
            if v in e.outvars:
                return _made_inside(e, e.outvars.index(v), place)
    if primitive.label is not None:
        return Note("named", primitive.label(**params), place)
    return Note("intermediate", primitive.name, place)


def _made_inside(eqn: Eqn, position: int, place: Location | None) -> Note:
    return _made_by(eqn.primitive, eqn.params, position, eqn.source or place)


def _same_content(array: Any, candidates: Sequence[tuple[Any, Note]]) -> Note | None:
    for other, note in candidates:
        if (
            other.shape == array.shape
            and other.dtype == array.dtype
            and np.array_equal(to_host(other), to_host(array), equal_nan=array.dtype.kind in "fc")
        ):
            return note
    return None
