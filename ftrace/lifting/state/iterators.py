"""Iterators of which more is taken than Python would take: refused where somebody could tell.

`any(it)` stops at the first true item. Where that is traced all items are taken, which nobody sees
unless he holds the iterator, or one that it goes over, and goes on with it; or taking an item
changes something, as a generator may. Who holds what is told by counts of references: what an
expression has just made is held by the call alone that it is given to.
"""

import functools
import gc
import itertools
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from ftrace.core.closure_cells import content
from ftrace.core.errors import LiftError
from ftrace.core.trace import Tracer
from ftrace.lifting.state.changed_places import Moved
from ftrace.lifting.state.local_state import LocalFrame, Mark
from ftrace.lifting.state.watching import RegionWatch

FEW: Final = 100_000  # items: an iterator that gives more may never end
_MOST: Final = 10_000  # objects that are looked at
_FUNCTIONS: Final = (types.FunctionType, types.MethodType, functools.partial)
_WALKED: Final = (Iterator, tuple, list, dict, types.CellType, Tracer, *_FUNCTIONS)


def taken(
    x: Iterator[Any],
    own: int,
    most: int | None = None,
    is_last: Callable[[Any], bool] = lambda item: False,
) -> list[Any]:
    """The items that are left of an iterator, of which Python might take fewer.

    Args:
        x: the iterator.
        own: what `references` says of one that nobody else holds.
        most: how many are wanted; None: all.
        is_last: whether Python takes none behind an item.

    Raises:
        LiftError: somebody could tell how many were taken, or there is no end of them.
    """
    parts = _held_elsewhere(x, own)
    if any(isinstance(part, Iterator) for part in parts):
        raise LiftError(
            "A traced value decides how many items are taken of an iterator that others hold: who "
            "goes on with it would not find what is left.",
            "Make a list of it before, `items = list(it)`, and ask that.",
        )
    frame = LocalFrame(_state(x, parts), lambda: None)
    mark = Mark(frame)
    found: list[Any] = []
    try:
        with RegionWatch(frame).unchanged():
            for item in itertools.islice(x, FEW if most is None else most):
                found.append(item)
                if is_last(item):
                    break
    except Moved as moved:
        raise moved.error() from None
    if any(map(mark.wrote, parts)):
        raise LiftError(
            "An array is written where the items of an iterator are computed, and a traced value "
            "decides how many of them are taken.",
            "Write a `while` loop that computes what the iterator gives.",
        )
    if most is None and len(found) == FEW:
        raise LiftError(
            f"A traced value decides how many items are taken of an iterator, which gives {FEW:,} "
            "and more: all of them are wanted while the function is traced.",
            "Count in a `while` loop, or say how many there may be: itertools.islice(it, n).",
        )
    return found


def _state(x: Iterator[Any], parts: list[Any]) -> dict[str, Any]:
    """What taking an item may change, by name: what others hold, and globals of a generator."""
    names: dict[int, str] = {}
    state: dict[str, Any] = {}
    if isinstance(x, types.GeneratorType) and x.gi_frame is not None:
        names.update((id(v), n) for n, v in x.gi_frame.f_locals.items())
        scope = x.gi_frame.f_globals
        state = {n: scope[n] for n in x.gi_code.co_names if n in scope}
    for k, part in enumerate(sorted(parts, key=lambda p: not isinstance(p, types.CellType))):
        inner = content(part) if isinstance(part, types.CellType) else part
        if not isinstance(part, Tracer):
            state.setdefault(names.get(id(inner), f"part {k} of the iterator"), part)
    return state


def references(x: Any) -> int:
    """How many references to an object there are where it is handed on."""
    return sys.getrefcount(x)


def _held_elsewhere(x: Iterator[Any], own: int) -> list[Any]:
    """What others hold of an iterator, of those that it goes over, and of what their code reads."""
    parts: dict[int, Any] = {id(x): x}
    inside: dict[int, list[int]] = {}
    ours = Counter({id(x): own})
    queue = [id(x)]
    while queue and len(parts) < _MOST:
        key = queue.pop()
        found = [h for h in _held_by(parts[key]) if isinstance(h, _WALKED)]
        inside[key] = list(map(id, found))
        ours.update(inside[key])
        queue += set(inside[key]) - parts.keys()
        parts.update((id(h), h) for h in found)
        del found
    queue = [key for key in parts if references(parts[key]) > ours[key] + _OURS]
    shared = dict.fromkeys(queue)
    while queue:
        more = [key for key in inside.get(queue.pop(), ()) if key not in shared]
        shared |= dict.fromkeys(more)
        queue += more
    return [parts[key] for key in shared]


_OURS: Final = (lambda parts: references(parts[0]))([object()])
"""References to a part where they are counted; of the first one, two parameters in its place."""


def _held_by(x: Any) -> list[Any]:
    if isinstance(x, types.FunctionType):
        return [*(x.__closure__ or ()), *(x.__defaults__ or ())]
    return [] if isinstance(x, Tracer) else gc.get_referents(x)
