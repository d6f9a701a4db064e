"""How deep decisions of traced values are nested: recursion is refused before it runs away."""

import operator
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ftrace.core.errors import LiftError
from ftrace.lifting.state.changed_places import HeldPlace, Moved
from ftrace.lifting.state.local_state import LocalFrame, Outcome
from ftrace.lifting.state.watching import are_bound, note_chosen

LIMIT = 500
_CHOICES = 200
T = TypeVar("T")


class _Active(threading.local):
    def __init__(self) -> None:
        self.sites: list[Any] = []
        self.depth = 0
        # containers that decisions made, each with those that it may be: the last ones
        self.choices: deque[tuple[Any, Sequence[Any]]] = deque(maxlen=_CHOICES)
        self.places: dict[tuple[int, Any], tuple[int, HeldPlace]] = {}  # changed, and found where


_active = _Active()


@contextmanager
def entered(template: Any, node: Any) -> Generator[None]:
    """While a site of a function is staged.

    Raises:
        LiftError: it is being staged many times over: a recursion that a traced value ends.
    """
    sites = _active.sites
    if sites.count(node) >= LIMIT:
        raise _endless(template, node, LIMIT)
    sites.append(node)
    try:
        with nested():
            yield
    except RecursionError:
        depth = sites.count(node)
        if depth == 1:
            raise
        raise _endless(template, node, depth) from None
    finally:
        sites.pop()


@contextmanager
def nested() -> Generator[None]:
    """While something is staged: the places that are found to be changed in it are known.

    They are found again by what is staged around it, unless that is where they come from.
    """
    _active.depth += 1
    try:
        yield
    finally:
        _active.depth -= 1
        if not _active.depth:
            _active.choices.clear()
        for key, (depth, _) in list(_active.places.items()):
            if depth > _active.depth:
                del _active.places[key]


def retried(frame: LocalFrame, stage: Callable[[], T], may_hold: bool = True) -> T:
    """What a way to stage something gives: once more where it changes items and attributes.

    Args:
        frame: the state that it starts from.
        stage: the way.
        may_hold: whether these may be variables.
    """
    while True:
        held = known_places()
        frame.hold(held)
        try:
            return stage()
        except Moved as found:
            more = remember(found.places)
            if not may_hold or any(p in held for p in more):
                raise found.error() from None


def known_places() -> list[HeldPlace]:
    """The places that what is being staged is known to change."""
    return [place for _, place in _active.places.values()]


def remember(places: Iterable[HeldPlace]) -> list[HeldPlace]:
    """Make places known."""
    depth = _active.depth
    return [_active.places.setdefault((id(p.owner), p.key), (depth, p))[1] for p in places]


def proceed(frame: LocalFrame, outcome: Outcome) -> None:
    """Go on from an outcome, with the places that its regions were found to change.

    Containers that it made, and those that these may be, are not to be changed where that shows.
    """
    frame.hold(known_places())
    frame.state = {**frame.state, **outcome.state}
    frame.write(frame.state)
    for copy, sides in outcome.chosen:
        shows = frame.state if outcome.value is copy else outcome.state
        if are_bound(sides, shows.values()) or _is_shared(copy, sides, outcome.chosen):
            _note(copy, sides)
    _active.choices.extend(outcome.chosen)
    outcome.chosen = ()
    values = outcome.state.values()
    for copy, sides in _active.choices:
        if are_bound([copy], values) and are_bound(sides, values):
            _note(copy, sides)


def _note(copy: Any, sides: Sequence[Any]) -> None:
    for x in (copy, *sides):
        note_chosen(x)


def _is_shared(
    copy: Any, sides: Sequence[Any], chosen: Sequence[tuple[Any, Sequence[Any]]]
) -> bool:
    """Whether another container is the same on one side, and not on the other."""
    return any(
        other is not copy and any(map(operator.is_, sides, found)) for other, found in chosen
    )


def _endless(template: Any, node: Any, depth: int) -> LiftError:
    return template.error(
        node,
        f"{template.name} calls itself under a condition that a traced value decides: tracing it "
        f"never ends, or goes deeper than Python's recursion limit allows ({depth} calls deep).",
        "Write the recursion as a loop (while), which may depend on traced values; if the number "
        "of calls is known, raise the limit (sys.setrecursionlimit).",
    )
