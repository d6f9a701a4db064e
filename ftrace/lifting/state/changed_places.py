"""Places: items of dicts, lists and attributes of objects, where a region changes them.

What was changed is put back, and the region is staged once more with the place as a variable of
the function: like the cell of a closure it is set before a region is staged, read afterwards, and
merged or carried as any name is (`d["n"] += 1`, `self.best = v`). Of a dict and of an object each
item is a place, so that what they hold keeps its identity; a list of numbers and arrays is one.
"""

import types
from collections.abc import Callable, Iterator
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
        key: of the item, or the attribute; None for all of a list.
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
        if isinstance(owner, list):
            return list(owner)
        found = owner if isinstance(owner, dict) else fields(owner) or {}
        if self.key not in found:
            raise ValueError("there is no such attribute")
        return found[self.key]

    @cell_contents.setter
    def cell_contents(self, value: Any) -> None:
        if isinstance(self.owner, types.CellType):
            self.owner.cell_contents = value
        elif isinstance(self.owner, list):
            self.owner[:] = value
        elif isinstance(self.owner, dict):
            self.owner[self.key] = value
        else:
            _ways(self.owner).__setattr__(self.owner, self.key, value)

    @cell_contents.deleter
    def cell_contents(self) -> None:
        if isinstance(self.owner, types.CellType):
            del self.owner.cell_contents
        else:
            _ways(self.owner).__delattr__(self.owner, self.key)


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
    if type(x) is list:
        return [HeldPlace(x, None, path)] if all(map(_is_simple, (*x, *before))) else None
    if not isinstance(x, dict) and fields(x) is None:
        return None
    now = dict(x) if isinstance(x, dict) else fields(x) or {}
    n = len(before) // 2
    old = dict(zip(before[:n], before[n:], strict=True))
    if isinstance(x, dict):
        if list(old) != list(now) or any(a is not b for a, b in zip(old, now, strict=True)):
            return None
        return [HeldPlace(x, k, f"{path}[{k!r}]") for k in now if now[k] is not old[k]]
    if not old.keys() <= now.keys():
        return None
    return [HeldPlace(x, k, f"{path}.{k}") for k in now if k not in old or now[k] is not old[k]]


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
    if isinstance(x, list):
        x[:] = before
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
