"""What objects hold beside their fields: an object that is put together again lacks it.

A traced function gets such objects. Whoever asks one for what its original held is told by name
that it is not there, and the trace remembers that: `hasattr(x, name)`, `getattr(x, name, default)`
and a handler of `AttributeError` would take another way than on the original.

The idea: reading a name that an object has not leads to its class. There, for names that some
object had to leave behind, `LeftBehind` knows for which objects this is so; for all others it
answers as if it were not there.
"""

import inspect
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ftrace.core import errors, source
from ftrace.core.errors import TracerAttributeError, TreeError

_NAMES: Final = "__ftrace_left_behind__"  # in the dict of an object: what its original held
AS_A_FIELD: Final = (
    "Make it a field (`{name}: float = field(init=False)`, with `metadata={{'static': True}}` if "
    "it is a setting), or a property that is computed from fields."
)
LACKS: Final = "{!r} object has no attribute {!r}"


def no_field(cls: type, name: str) -> TracerAttributeError:
    """The error for an attribute that an object lacks because only fields are put together."""
    return TracerAttributeError(
        f"`{name}` of a {cls.__name__} was asked for, which is no field: an argument of a "
        "transformed function is taken apart and put together again, and has its fields only, "
        "not what __post_init__ or somebody else has set besides.",
        AS_A_FIELD.format(name=name),
    )


class LeftBehind:
    """An attribute of a class, for objects that lack what their originals held under its name."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, x: Any, cls: type) -> Any:
        if x is None or self._name not in vars(x).get(_NAMES, ()):
            whose = LACKS.format(cls.__name__, self._name)
            whose = whose if x is not None else f"type {whose}"
            raise AttributeError(whose, name=self._name, obj=cls if x is None else x)
        error = no_field(cls, self._name)
        if errors.made is not None:
            errors.made(error)
        raise error


def names_beside(x: Any, others: Iterable[str]) -> tuple[str, ...]:
    """Of the names of what an object holds beside its fields those that nobody else gives again.

    Raises:
        TreeError: its class has something else of such a name, which would be read instead.
    """
    cls, held, found = type(x), vars(x), list[str]()
    for name in others:
        behind = inspect.getattr_static(cls, name, x)
        if name == _NAMES:
            found += held[name]
        elif behind is x or type(behind) is LeftBehind:
            found.append(name)
        elif not (hasattr(type(behind), "__get__") or behind is held[name]):
            raise TreeError(
                f"`{name}` of a {cls.__name__} is no field, so it stays behind where the object is "
                f"taken apart: {behind!r:.80}, which the class has of that name, would be read "
                f"instead of {held[name]!r:.80}.",
                AS_A_FIELD.format(name=name),
            )
    return tuple(sorted(found))


def leave_behind(x: Any, names: tuple[str, ...]) -> None:
    """Make an object and its dict tell who asks for one of these names that it was left behind."""
    cls = type(x)
    for name in names:
        if inspect.getattr_static(cls, name, None) is None:
            type.__setattr__(cls, name, LeftBehind(name))
    held = _Held(vars(x))
    held.cls, held[_NAMES] = cls, names
    object.__setattr__(x, "__dict__", held)


class _Held(dict[str, Any]):
    """The dict of an object that lacks what its original held, as `vars(x)` shows it.

    Attributes are read from it as from any dict. Who asks it for a name that was left behind, or
    from a user's code for all of its names, is told so.
    """

    __slots__ = ("cls",)
    cls: type

    def _ask(self, name: Any) -> None:
        if name in dict.get(self, _NAMES, ()) and not dict.__contains__(self, name):
            error = no_field(self.cls, name)
            if errors.made is not None:
                errors.made(error)
            raise error

    def _show(self) -> None:
        frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
        if not source.is_internal(frame.f_code.co_filename):  # as ours, and `copy`
            for name in dict.get(self, _NAMES, ()):
                self._ask(name)

    def __missing__(self, name: Any) -> Any:
        self._ask(name)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        self._ask(name)
        return dict.__contains__(self, name)

    def get(self, name: Any, default: Any = None, /) -> Any:
        self._ask(name)
        return dict.get(self, name, default)

    def pop(self, name: Any, *default: Any) -> Any:
        self._ask(name)
        return dict.pop(self, name, *default)

    def setdefault(self, name: Any, default: Any = None, /) -> Any:
        self._ask(name)
        return dict.setdefault(self, name, default)

    def __iter__(self) -> Iterator[str]:
        self._show()
        return dict.__iter__(self)

    def __len__(self) -> int:
        self._show()
        return dict.__len__(self)

    def keys(self) -> Any:
        self._show()
        return dict.keys(self)

    def values(self) -> Any:
        self._show()
        return dict.values(self)

    def items(self) -> Any:
        self._show()
        return dict.items(self)
