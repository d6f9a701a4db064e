"""The state of lifted code: local names, cells of closures, writable arrays.

A region sees the values of the names it uses. Names that nested functions share are Python cells,
which a region reads and writes in place: they are set before it is staged, read afterwards and
set back. Arrays are cells of another kind, wherever they are kept: what a region writes into one
holds for the region only (`Written`), and becomes a result of it.
"""

import types
import weakref
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ftrace.control.rows.raising import noted_in
from ftrace.core.trace import Tracer, ctx, moved
from ftrace.lifting.state.changed_places import HeldPlace, in_order
from ftrace.numpy.cells import journals, put
from ftrace.numpy.views import Chosen, View, alias_of


class _Missing:
    """What a name that is not bound is passed as."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<not bound>"


MISSING: Final = _Missing()


def is_state(name: str) -> bool:
    """Whether a local name matters: the user's, or an operand of a chained comparison."""
    return not name.startswith("_ft_") or name.startswith("_ft_c")


class Outcome:
    """How a region ended, and with what.

    Attributes:
        exit: which one; a traced integer where that is not known.
        exits: all it may be.
        state: the names that are needed there.
        value: what it returns, if it may return.
        chosen: containers that were made, each with those that it may be in Python.
    """

    __slots__ = ("chosen", "exit", "exits", "state", "value")

    def __init__(
        self,
        way: Any,
        state: dict[str, Any],
        value: Any = None,
        exits: frozenset[int] = frozenset(),
        chosen: Sequence[tuple[Any, Sequence[Any]]] = (),
    ) -> None:
        self.chosen = chosen
        self.exits = exits or frozenset({way})
        self.exit = way if len(self.exits) > 1 else min(self.exits)
        self.state = state
        self.value = value


class LocalFrame:
    """The cells and globals of a running function; `state` is what its names are bound to."""

    __slots__ = ("cells", "globals", "state")
    cells: dict[str, Any]

    def __init__(self, local: Mapping[str, Any], probe: types.FunctionType) -> None:
        self.globals = probe.__globals__
        pairs = zip(probe.__code__.co_freevars, probe.__closure__ or (), strict=True)
        self.cells = dict(pairs)
        self.state = {n: v for n, v in local.items() if n not in self.cells and is_state(n)}
        self.state.update(self.read())

    def hold(self, places: Iterable[HeldPlace]) -> None:
        """Make places variables."""
        for place in places:
            if place.name not in self.cells:
                self.cells[place.name] = place
                content = _content(place)
                if content is not MISSING:
                    self.state[place.name] = content

    def added(self) -> dict[int, list[HeldPlace]]:
        """The items and attributes that were not there, by owner, in the order that it has."""
        cells = (c for n, c in self.cells.items() if n not in self.state)
        return in_order(c for c in cells if _content(c) is not MISSING)

    def outer(self) -> Iterator[tuple[str, Any]]:
        """The globals that the function names."""
        for name in self.names():
            if name in self.globals:
                yield name, self.globals[name]

    def names(self) -> tuple[str, ...]:
        """The globals and attributes that the function names."""
        helper = self.cells.get("_ft")
        return () if helper is None else helper.cell_contents.outer

    def read(self) -> dict[str, Any]:
        """What the cells hold."""
        found: dict[str, Any] = {}
        for name, cell in self.cells.items():
            try:
                found[name] = cell.cell_contents
            except ValueError:
                continue
        found.pop("_ft", None)
        return found

    def write(self, state: Mapping[str, Any]) -> None:
        """Set the cells to what a state says."""
        for name, cell in self.cells.items():
            if name == "_ft":
                continue
            value = state.get(name, MISSING)
            if value is not MISSING:
                if _content(cell) is not value:
                    cell.cell_contents = value
            elif _content(cell) is not MISSING:
                del cell.cell_contents

    def copied(self, state: Mapping[str, Any]) -> "LocalFrame":
        """A frame of its own cells, which hold what a state says."""
        new = object.__new__(LocalFrame)
        new.globals, new.state = self.globals, dict(state)
        new.cells = {n: c if n == "_ft" else types.CellType() for n, c in self.cells.items()}
        new.write(state)
        return new

    @contextmanager
    def restored(self) -> Generator[None]:
        """The cells are afterwards what they were."""
        before = self.read()
        try:
            yield
        finally:
            self.write(before)


def _content(cell: types.CellType | HeldPlace) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


class Mark:
    """The state before a loop, to which it goes back if it is staged.

    What the native iterations have recorded is then dead code; where it has effects it is removed.
    """

    __slots__ = ("__weakref__", "_before", "_names", "_recorded", "_watch", "frame", "is_whole")

    def __init__(self, frame: LocalFrame, watch: Any = None, is_whole: bool = False) -> None:
        """Begin.

        Args:
            frame: the state.
            watch: what knows what containers and objects hold, if that is undone, too.
            is_whole: whether nothing else is changed in these.
        """
        self.frame = frame
        self._names = dict(frame.state), dict(frame.cells)
        self._watch = watch
        self.is_whole = is_whole
        self._before: dict[int, tuple[Tracer, Any]] = {}
        self._recorded = [(eqns, len(eqns)) for eqns in _records(ctx.trace)]
        notes = journals.setdefault(ctx.trace, [])
        notes[:] = [note for note in notes if note() is not None]
        notes.append(weakref.WeakMethod(self.note))

    def note(self, x: Tracer) -> None:
        """Remember what a cell holds that is about to be written."""
        if id(x) not in self._before:
            self._before[id(x)] = (x, x.fresh())

    def wrote(self, x: Any) -> bool:
        """Whether a value is a cell that was written since."""
        return id(x) in self._before

    def restore(self) -> LocalFrame:
        """Undo what the iterations did so far."""
        for x, before in self._before.values():
            put(x, before)
        for eqns, n in self._recorded:
            eqns[n:] = [e for e in eqns[n:] if not e.effects]
        self.frame.state, self.frame.cells = map(dict, self._names)
        self.frame.write(self.frame.state)
        if self._watch is not None:
            self._watch.undo()
        return self.frame


def _records(trace: Any) -> Iterator[list[Any]]:
    """The equations that the running traces have recorded."""
    while trace is not None:
        if trace.stages:
            yield trace.eqns
        yield from noted_in(trace)
        trace = trace.parent


class Written:
    """The cells of its surroundings that a region wrote.

    The cells themselves keep what they hold outside: what they hold in the region is in `moved`
    while it runs.
    """

    __slots__ = ("_trace",)

    @contextmanager
    def entered(self) -> Generator[None]:
        """Let the running trace, that of a region, write cells of its surroundings."""
        self._trace = ctx.trace
        cells = self._trace.cells = {}
        try:
            yield
        finally:
            for key, (_, before) in cells.items():
                if before is None:
                    del moved[key]
                else:
                    moved[key] = before

    def roots(self) -> list[Tracer]:
        """Those that are no views of others."""
        return [x for x, _ in self._trace.cells.values() if type(alias_of(x)) not in (View, Chosen)]
