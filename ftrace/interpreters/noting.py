"""Noting where values come from: `NotingTrace` evaluates, and remembers which row made what.

It stands where evaluation stands, at the bottom, so that whatever runs above it (`linearize`, say)
does exactly what it would do without it. Notes hold arrays weakly: what dies, dies. Numbers, which
know no weak references, are held.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from weakref import ref

import numpy as np

from ftrace.core import source
from ftrace.core.device import is_array, to_host
from ftrace.core.jaxpr import Eqn, Jaxpr
from ftrace.core.primitive import Primitive
from ftrace.core.records import record
from ftrace.core.source import Location
from ftrace.core.trace import EVAL, Trace, ctx
from ftrace.interpreters.captures import owner

UNNAMED: Final = "captured array"


@record
class Note:
    """Where an array comes from.

    Attributes:
        kind: "argument", "captured" (an array of the user, from outside), "named" (by
            `checkpoint_name`) or "intermediate".
        name: the argument's or the given name, that of the primitive, or the captured variable's.
        place: the user's line.
    """

    kind: str
    name: str
    place: Location | None = None


class NotingTrace(Trace):
    """Evaluates every primitive, with a note on its results.

    Args:
        variables: names of arrays that may be captured, by the arrays' ids.
    """

    __slots__ = ("_notes", "_variables", "foreign")
    name = "inspection"

    def __init__(self, variables: Mapping[int, str]) -> None:
        super().__init__(EVAL)
        self._variables = variables
        self._notes: dict[int, tuple[Callable[[], Any], Note]] = {}
        self.foreign: list[tuple[Any, Note]] = []  # arrays of the user

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        place = source.location(2)
        for i, a in enumerate(args):
            if is_array(a) and self.find(a) is None:
                variable = self._variables.get(id(owner(a)), UNNAMED)
                note = Note("captured", variable, _read_at(params, i) or place)
                self.enter(a, note)
        ctx.trace = EVAL
        result = EVAL.process(primitive, args, params)
        for i, y in enumerate(result if primitive.multiple else (result,)):
            if is_array(y) or is_number(y):
                self._note(y, _made_by(primitive, params, i, place))
        return result

    def lift(self, value: Any) -> Any:
        return value

    def enter(self, value: Any, note: Note) -> None:
        """Note an array or a number of the user."""
        if is_array(value):
            self.foreign.append((value, note))
        self._note(value, note)

    def find(self, array: Any) -> Note | None:
        """The note on an array or a number."""
        holder, note = self._notes.get(id(array), (None, None))
        return note if holder is not None and holder() is array else None

    def origin(self, array: Any) -> Note | None:
        """The note on an array, or on the user's array of which it is a protected copy."""
        found = self.find(array)
        return (
            found
            if found is not None or not is_array(array)
            else _same_content(array, self.foreign)
        )

    def _note(self, array: Any, note: Note) -> None:
        self._notes[id(array)] = (ref(array) if is_array(array) else lambda: array, note)


def is_number(x: Any) -> bool:
    """Whether a value is a float or complex number, which a backward pass may keep."""
    return issubclass(type(x), (float, complex, np.inexact))


def own(x: Any) -> Any:
    """A Python number as an object of its own: the same constant elsewhere is another one."""
    if type(x) is float:
        return x * 1.0
    return complex(x.real, x.imag) if type(x) is complex else x


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
