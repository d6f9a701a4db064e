"""Objects of plain classes as containers of their attributes, where a derivative is asked by them.

A class that is neither a dataclass nor registered is a leaf of trees: nobody said that its objects
may be taken apart and made again. Who asks for a gradient by such an object says it: `opened` puts
stand-ins in the place of plain objects, whose structures give objects of the class back.
"""

import functools
from collections.abc import Generator
from numbers import Number
from typing import Any, Final

from ftrace.core.errors import TreeError
from ftrace.core.nodes import GetAttrKey, NodeKind, is_registered, kind_of, register
from ftrace.core.records import record
from ftrace.core.tree import tree_flatten
from ftrace.core.unrolled import unrolled

# what says that an object is a value: an array, or a number
_VALUES: Final = (
    *("__array__", "__array_interface__", "__dlpack__", "__float__", "__complex__", "__index__"),
    "__ftrace__",
)
_HEAP: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE: of a class that a `class` statement made


@record(eq=False)
class TakenApart:
    """The stand-in for an object: its class, and its attributes, opened themselves."""

    cls: type
    names: tuple[str, ...]
    values: tuple[Any, ...]


def is_plain(cls: type) -> bool:
    """Whether objects of a class are nothing but attributes, and no tree looks into them."""
    if cls is object or kind_of(cls) is not None or is_registered(cls):
        return False
    if not all(base.__flags__ & _HEAP for base in cls.__mro__[:-1]) or issubclass(cls, Number):
        return False
    if cls.__module__.partition(".")[0] == "ftrace" or cls.__new__ is not object.__new__:
        return False
    return not any(hasattr(cls, name) for name in _VALUES)


def opened(x: Any, path: str) -> Any:
    """A tree whose plain objects are `TakenApart`; others are as they are.

    Raises:
        TreeError: an object that holds itself.
    """
    return _opened(x, path, ()) if kind_of(type(x)) or is_plain(type(x)) else x


@unrolled
def _opened(x: Any, path: str, outer: tuple[int, ...]) -> Generator[Any, Any, Any]:
    if is_plain(type(x)):
        if id(x) in outer:
            raise TreeError(
                f"{path} is an object of {type(x).__name__} that holds itself.",
                "Differentiate by the parts that are meant, by their paths: argnums='self.w'.",
            )
        held = attributes(x)
        values: list[Any] = []
        for name, value in held.items():
            values.append((yield _opened.deep(value, f"{path}.{name}", (*outer, id(x)))))
        return TakenApart(type(x), tuple(held), tuple(values))
    leaves, tree = tree_flatten(x)
    if not any(is_plain(type(leaf)) for leaf in leaves):
        return x
    found: list[Any] = []
    for leaf in leaves:
        found.append((yield _opened.deep(leaf, path, outer)))  # noqa: PERF401
    return tree.unflatten(found)


def attributes(x: Any) -> dict[str, Any]:
    """What an object holds, by name."""
    slots = [s for s in _all_slots(type(x)) if hasattr(x, s)]
    return {**{s: getattr(x, s) for s in slots}, **getattr(x, "__dict__", {})}


@functools.cache
def _all_slots(cls: type) -> tuple[str, ...]:
    return tuple(s for base in cls.__mro__ for s in _slots(base))


def _slots(cls: type) -> tuple[str, ...]:
    """The names of a class's slots, as attributes have them: `__w` of a class A is `_A__w`."""
    named: Any = vars(cls).get("__slots__", ())
    names = (named,) if isinstance(named, str) else tuple(named)
    owner = cls.__name__.lstrip("_")
    private = [n.startswith("__") and not n.endswith("__") for n in names]
    full = (f"_{owner}{n}" if p else n for n, p in zip(names, private, strict=True))
    return tuple(n for n in full if n not in ("__dict__", "__weakref__"))


def _parts(x: Any) -> tuple[Any, Any]:
    """Of a stand-in, or of an object that was made of one."""
    if type(x) is TakenApart:
        return x.values, (x.cls, x.names)
    held = attributes(x)
    return tuple(held.values()), (type(x), tuple(held))


def _made(data: Any, values: Any) -> Any:
    cls, names = data
    x = object.__new__(cls)
    for name, value in zip(names, values, strict=True):
        object.__setattr__(x, name, value)
    return x


register(
    NodeKind(
        TakenApart,
        _parts,
        _made,
        lambda data, _: [GetAttrKey(name) for name in data[1]],
        label="object",
    ),
    TakenApart,
)
