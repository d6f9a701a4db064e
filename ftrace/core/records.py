"""`record`: frozen dataclasses with slots that cost little to declare.

`dataclasses` writes and compiles six methods of each class when it is declared, half a millisecond
of every process, for some hundred classes of which one function needs a third. Here `__init__` is
compiled when the first instance is made, and the other methods are shared closures. Otherwise a
record is a dataclass: `fields`, `replace`, patterns and type checkers take it for one.
"""

import operator
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(*, eq: bool = True) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[Any] | None = None, /, *, eq: bool = True) -> Any:
    """As `dataclass(frozen=True, slots=True, eq=eq)`, declared in a sixth of its time.

    Args:
        cls: the class; without it, `record(eq=False)` is a decorator.
        eq: compare and hash by the fields; else by identity.

    Example:
        >>> from ftrace.core.records import record
        >>> @record
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1), Point(1) == Point(1, 0)
        (Point(x=1, y=0), True)
    """
    if cls is None:
        return lambda cls: record(cls) if eq else _declared(cls, eq)
    return _declared(cls, eq)


def _declared(cls: type[Any], eq: bool) -> type[Any]:
    own = cls.__dict__
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    found = fields(made)
    methods: dict[str, Any] = {
        "__init__": _first_init(made),
        "__repr__": _repr(tuple(f.name for f in found if f.repr)),
        "__setattr__": _refuse_set,
        "__delattr__": _refuse_delete,
        "__getstate__": lambda self: [getattr(self, f.name) for f in found],
        "__setstate__": _setstate(tuple(f.name for f in found)),
    }
    if eq:
        key = _key(tuple(f.name for f in found if f.compare))
        methods |= {"__eq__": _eq(key), "__hash__": lambda self: hash(key(self))}
    for name, method in methods.items():
        if name not in own or (name == "__hash__" and own[name] is None):
            setattr(made, name, method)
    return made


def _first_init(cls: type[Any]) -> Any:
    """Makes the first instance of a class, and compiles `__init__` for all others."""

    def first(self: Any, *args: Any, **kwargs: Any) -> None:
        if cls.__init__ is first:  # another thread may have been faster
            cls.__init__ = _init(cls)
        cls.__init__(self, *args, **kwargs)

    return first


def _init(cls: type[Any]) -> Any:
    """`__init__` with a class's fields as parameters."""
    scope: dict[str, Any] = {"_set": object.__setattr__, "_absent": object()}
    parameters = ["self"]
    body: list[str] = []
    for f in fields(cls):
        value = f.name
        if f.default is not MISSING:
            scope[f"_default_{f.name}"] = f.default
        elif f.default_factory is not MISSING:
            scope[f"_make_{f.name}"] = f.default_factory
            value = f"{_made(f)} if {f.name} is _absent else {f.name}"
        if f.init:
            parameters.append(f"{f.name}{_assigned(f)}")
        elif f.default is not MISSING or f.default_factory is not MISSING:
            value = _made(f)
        else:
            continue
        body.append(f"_set(self, {f.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    text = f"def make({', '.join(scope)}):\n def __init__({', '.join(parameters)}):\n  "
    text += "\n  ".join(body or ["pass"]) + "\n return __init__"
    home: dict[str, Any] = {}
    exec(text, sys.modules[cls.__module__].__dict__, home)
    made = home["make"](**scope)
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _assigned(f: Field[Any]) -> str:
    if f.default is not MISSING:
        return f"=_default_{f.name}"
    return "=_absent" if f.default_factory is not MISSING else ""


def _made(f: Field[Any]) -> str:
    return f"_default_{f.name}" if f.default is not MISSING else f"_make_{f.name}()"


def _key(names: tuple[str, ...]) -> Callable[[Any], Any]:
    """What two instances are compared by: a tuple of fields."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _eq(key: Callable[[Any], Any]) -> Any:
    def equal(self: Any, other: Any) -> Any:
        return key(self) == key(other) if type(other) is type(self) else NotImplemented

    return equal


def _repr(names: tuple[str, ...]) -> Any:
    def represent(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({shown})"

    return represent


def _setstate(names: tuple[str, ...]) -> Any:
    def restore(self: Any, state: Any) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return restore


def _refuse_set(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
