"""The state of lifted code: local names, cells of closures, writable arrays.

A region sees the values of the names it uses. Names that nested functions share are Python cells,
which a region reads and writes in place: they are set before it is staged, read afterwards and
set back. Writable arrays are cells of another kind (0.5): inside a region each is another
tracer, whose content goes back into the outer one.
"""

import types
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ftrace.core.trace import FROZEN, Tracer, ctx
from ftrace.numpy.views import C_ORDER, Root, View, alias_of, link, root_of


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
    """

    __slots__ = ("exit", "exits", "state", "value")

    def __init__(
        self,
        way: Any,
        state: dict[str, Any],
        value: Any = None,
        exits: frozenset[int] = frozenset(),
    ) -> None:
        self.exits = exits or frozenset({way})
        self.exit = way if len(self.exits) > 1 else min(self.exits)
        self.state = state
        self.value = value


class Frame:
    """The cells and globals of a running function; `state` is what its names are bound to."""

    __slots__ = ("cells", "globals", "state")

    def __init__(self, local: Mapping[str, Any], probe: types.FunctionType) -> None:
        self.globals = probe.__globals__
        pairs = zip(probe.__code__.co_freevars, probe.__closure__ or (), strict=True)
        self.cells = dict(pairs)
        self.state = {n: v for n, v in local.items() if n not in self.cells and is_state(n)}
        self.state.update(self.read())

    def outer(self) -> Iterator[tuple[str, Any]]:
        """The globals that the function names."""
        helper = self.cells.get("_ft")
        for name in () if helper is None else helper.cell_contents.outer:
            if name in self.globals:
                yield name, self.globals[name]

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

    @contextmanager
    def restored(self) -> Generator[None]:
        """The cells are afterwards what they were."""
        before = self.read()
        try:
            yield
        finally:
            self.write(before)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


class Mark:
    """The state before a loop, to which it goes back if it is staged.

    What the native turns have recorded is then dead code; where it has effects it is removed.
    """

    __slots__ = ("_contents", "_recorded", "frame")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._contents = [(x, x.fresh()) for x in _arrays(frame.state) if is_writable(x)]
        self._recorded = [(eqns, len(eqns)) for eqns in _records(ctx.trace)]

    def restore(self) -> Frame:
        """Undo what the turns did so far."""
        for x, before in self._contents:
            x.adopt(before)
        for eqns, n in self._recorded:
            eqns[n:] = [e for e in eqns[n:] if not e.effects]
        self.frame.write(self.frame.state)
        return self.frame


def _records(trace: Any) -> Iterator[list[Any]]:
    """The equations that the running traces have recorded."""
    while trace is not None:
        if trace.stages:
            yield trace.eqns
        trace = trace.parent


def _arrays(state: Mapping[str, Any]) -> list[Tracer]:
    return list({id(v): v for v in state.values() if isinstance(v, Tracer)}.values())


def is_writable(x: Tracer) -> bool:
    """Whether the running transformation may write into this array."""
    root = root_of(x)
    here = (ctx.trace, ctx.trace.home)
    return bool(x.aval.shape) and root.owner in here and alias_of(root) is not FROZEN


class Inner:
    """The writable arrays of a state as tracers of a region.

    Attributes:
        roots: outer arrays that others may be views of.
        copies: the inner tracer of each.
    """

    __slots__ = ("_made", "_outer", "contents", "copies", "roots")

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._outer = [x for x in _arrays(state) if is_writable(x)]
        self.roots = list({id(r): r for r in map(root_of, self._outer)}.values())
        self.copies: list[Any] = []

    def enter(self, copy_of: Callable[[Tracer], Any]) -> None:
        """Make the inner tracers, in the region's trace.

        Args:
            copy_of: outer root -> a new tracer of the region's trace with its content.
        """
        self.copies = []
        self._made: dict[int, Any] = {}
        for root in self.roots:
            new = copy_of(root)
            alias = alias_of(root)
            if alias is C_ORDER or (type(alias) is Root and alias.c_order):
                new.alias = C_ORDER
            self.copies.append(new)
            self._made[id(root)] = new
        self.contents = [x.fresh() for x in self.copies]
        for x in self._outer:
            alias = alias_of(x)
            if type(alias) is View:
                new = self._made[id(alias.base)]
                for step in alias.steps:
                    new = link(new, step.get(new), step)
                self._made[id(x)] = new

    def names_of(self, values: Sequence[Any]) -> list[bool]:
        """Which of some values are arrays that the region has tracers of its own for."""
        known = {id(x) for x in self._outer}
        return [id(x) in known for x in values]

    def inside(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state as the region sees it."""
        return {n: self._made.get(id(v), v) for n, v in state.items()}

    def outside(self) -> dict[int, Any]:
        """id of an inner array -> the outer one it stands for."""
        return {id(self._made[id(x)]): x for x in (*self._outer, *self.roots)}

    def changed(self) -> list[tuple[Any, Any]]:
        """(outer root, its inner tracer) of the arrays that were written."""
        pairs = zip(self.roots, self.copies, self.contents, strict=True)
        return [(root, new) for root, new, old in pairs if new.atom is not old.atom]
