"""Places: items of dicts, lists and attributes of objects, where a region changes them.

What was changed is put back, and the region is staged once more with the place as a variable of
the function: like the cell of a closure it is set before a region is staged, read afterwards, and
merged or carried as any name is (`d["n"] += 1`, `self.best = v`). Of a dict and of an object each
item is a place, so that what they hold keeps its identity; a list, or a deque, of numbers and
arrays is one.
"""

import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, zip_longest
from typing import Any

from ftrace.core.avals import typeof
from ftrace.core.errors import ConcretizationTypeError, DtypeError, LiftError


class PlaceName(str):
    """The name of a place: the words of a message, and no two are equal."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


class HeldPlace:
    """A place as the cell of a variable.

    Attributes:
        owner: the container or object.
        key: of the item, or the attribute; None for all of a list or deque.
        name: the variable.
    """

    __slots__ = ("key", "name", "owner")

    def __init__(self, owner: Any, key: Any, name: str) -> None:
        self.owner, self.key, self.name = owner, key, PlaceName(name)

    @property
    def cell_contents(self) -> Any:
        """What is there.

        Raises:
            ValueError: nothing, as of an empty cell.
        """
        owner = self.owner
        if isinstance(owner, types.CellType):
            return owner.cell_contents
        if isinstance(owner, list | deque):
            return owner.copy()
        found = _items(owner)
        if self.key not in found:
            raise ValueError("there is no such item or attribute")
        return found[self.key]

    @cell_contents.setter
    def cell_contents(self, value: Any) -> None:
        if isinstance(self.owner, types.CellType):
            self.owner.cell_contents = value
        elif isinstance(self.owner, list | deque):
            _fill(self.owner, value)
        elif isinstance(self.owner, dict):
            self.owner[self.key] = value
        else:
            _ways(self.owner).__setattr__(self.owner, self.key, value)

    @cell_contents.deleter
    def cell_contents(self) -> None:
        if isinstance(self.owner, types.CellType):
            del self.owner.cell_contents
        elif isinstance(self.owner, dict):
            del self.owner[self.key]
        else:
            _ways(self.owner).__delattr__(self.owner, self.key)


def _items(owner: Any) -> dict[Any, Any]:
    """The items of a dict, or the attributes of an object."""
    return owner if isinstance(owner, dict) else fields(owner) or {}


def in_order(places: Iterable[types.CellType | HeldPlace]) -> dict[int, list[HeldPlace]]:
    """Items of dicts and attributes among places, by the id of their owner, in its order."""
    found: dict[int, list[HeldPlace]] = {}
    for place in places:
        if isinstance(place, HeldPlace) and not isinstance(place.owner, types.CellType):
            found.setdefault(id(place.owner), []).append(place)
    for held in found.values():
        keys = list(_items(held[0].owner))
        held.sort(key=lambda place: keys.index(place.key))
    return found


def misplaced(
    one: dict[int, list[HeldPlace]], other: dict[int, list[HeldPlace]]
) -> Iterator[tuple[HeldPlace, HeldPlace]]:
    """Pairs of places that two regions added to the same owner in different orders."""
    for key in one.keys() & other.keys():
        if set(one[key]) == set(other[key]):
            pairs = zip(one[key], other[key], strict=True)
            yield from ((a, b) for a, b in pairs if a is not b)


def _fill(owner: list[Any] | deque[Any], items: Iterable[Any]) -> None:
    """Let a list or deque hold these items."""
    items = tuple(items)
    owner.clear()
    owner.extend(items)


def _ways(owner: Any) -> Any:
    """Who sets and deletes attributes, whatever a class of the user's makes of that."""
    return type if isinstance(owner, type) else object


class Moved(BaseException):  # no handler of the user's sees it
    """A region changed places that were no variables.

    Args:
        places: these.
        error: makes the error for where they cannot be: a LiftError that was made counts as raised.
    """

    def __init__(self, places: list[HeldPlace], error: Callable[[], LiftError]) -> None:
        super().__init__()
        self.places = places
        self.error = error


def fields(x: Any) -> dict[str, Any] | None:
    """The attributes of an object of a user's class, or of that class; None for what is neither."""
    if isinstance(x, type):
        held = {k: v for k, v in vars(x).items() if not k.startswith("__")}
        return {k: v for k, v in held.items() if not callable(v) and not hasattr(v, "__get__")}
    cls = type(x)
    if cls.__module__.startswith(("ftrace", "numpy", "builtins")):
        return None
    found = getattr(x, "__dict__", None)
    slots = [s for c in cls.__mro__ for s in _slots(c)]
    if type(found) is not dict and not slots:
        return None
    held = {s: getattr(x, s) for s in slots if hasattr(x, s)}
    return held if type(found) is not dict else {**found, **held}


def _slots(cls: type) -> Iterator[str]:
    """The attributes of a class that are no items of `__dict__`."""
    for name, member in vars(cls).items():
        if type(member) is types.MemberDescriptorType and name not in ("__dict__", "__weakref__"):
            yield name


def changed_places(path: str, x: Any, before: tuple[Any, ...]) -> list[HeldPlace] | None:
    """The places of `x` that are not what they were; None if it was changed in another way."""
    if isinstance(x, types.CellType):
        return [HeldPlace(x, None, path)]
    if type(x) in (list, deque):
        return [HeldPlace(x, None, path)] if all(map(_is_simple, (*x, *before))) else None
    if not isinstance(x, dict) and fields(x) is None:
        return None
    now, n = dict(_items(x)), len(before) // 2
    old = dict(zip(before[:n], before[n:], strict=True))
    if any(a is not b for a, b in zip_longest(old, islice(now, n))):
        return None  # something is gone, or behind what it was before
    form = "{}[{!r}]" if isinstance(x, dict) else "{}.{}"
    changed = [k for k in now if k not in old or now[k] is not old[k]]
    return [HeldPlace(x, k, form.format(path, k)) for k in changed]


def _is_simple(x: Any) -> bool:
    if type(x) in (str, bool, type(None)):
        return True
    try:
        typeof(x)
    except (DtypeError, ConcretizationTypeError):
        return False
    return True


def put_back(x: Any, before: tuple[Any, ...]) -> None:
    """Let a container or object hold what it held."""
    if isinstance(x, types.CellType):
        if before:
            x.cell_contents = before[0]
        else:
            del x.cell_contents
        return
    if isinstance(x, list | deque):
        _fill(x, before)
        return
    n = len(before) // 2
    old = dict(zip(before[:n], before[n:], strict=True))
    if isinstance(x, dict):
        x.clear()
        x.update(old)
        return
    for k in (fields(x) or {}).keys() - old.keys():
        _ways(x).__delattr__(x, k)
    for k, v in old.items():
        if (fields(x) or {}).get(k, x) is not v:
            _ways(x).__setattr__(x, k, v)
