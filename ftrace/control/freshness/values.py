"""What a value may be, for the reader of functions (`reading.py`).

A `Value` lists the objects of the outside that a place on the stack or a local variable may hold.
Beside real objects there are stand-ins for what only a run would make: a function (`Made`), an
instance (`Instance`), a method of an array or a container (`Method`).
"""

import functools
import operator
import os
import sys
import types
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.core import source
from ftrace.core.primitive import Primitive

MAPPINGS: Final = (dict,)
SEQUENCES: Final = (list, tuple, deque)
SETS: Final = (set, frozenset)
UNCHANGING: Final = (tuple, frozenset)
MAX_REFS: Final = 10_000


class Value(NamedTuple):
    """What may be in one place.

    Attributes:
        refs: the objects of the outside that may be there, each once.
        complete: nothing else can be there.
        traced: it is a traced value, surely.
        bag: an object may also be anywhere within it: it was put together from the refs.
        origin: the fact it was read by and where, if it comes directly from there.
    """

    refs: tuple[Any, ...] = ()
    complete: bool = False
    traced: bool = False
    bag: bool = False
    origin: Any = None

    @property
    def exact(self) -> bool:
        """Whether it is one known object."""
        return self.complete and len(self.refs) == 1


NOTHING: Final = Value()
TRACED: Final = Value(traced=True)
NULL: Final = Value(complete=True)  # what Python puts beside a function that is no method


def constant(x: Any) -> Value:
    """Surely this object."""
    return Value((x,), complete=True)


def bag(refs: Iterable[Any], *, traced: bool = False) -> Value:
    """Something put together from these."""
    return Value(_once(refs), traced=traced, bag=True)


def joined(a: Value | None, b: Value) -> Value:
    """What is one or the other."""
    if a is None or a is b:
        return b
    refs = _union((a.refs, b.refs))
    return Value(refs, a.complete and b.complete, a.traced and b.traced, a.bag or b.bag)


def united(values: Sequence[Value]) -> Value:
    """What is one of several: as `joined` of them in turn, which would be quadratic."""
    if len(values) < 2:
        return values[0] if values else NOTHING
    refs = _union(v.refs for v in values)
    complete, traced = all(v.complete for v in values), all(v.traced for v in values)
    return Value(refs, complete, traced, any(v.bag for v in values))


def _union(parts: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """All that is in some refs; one of them itself if it has everything, which is often."""
    different = list({id(p): p for p in parts}.values())
    most = max(different, key=len)
    if len(different) == 1:
        return most
    known = set(map(id, most))
    others = [p for p in different if p is not most and not known.issuperset(map(id, p))]
    more = {id(x): x for p in others for x in p if id(x) not in known}
    return (*most, *more.values())[:MAX_REFS] if more else most


def _once(refs: Iterable[Any]) -> tuple[Any, ...]:
    refs = tuple(refs)
    return tuple(dict(zip(map(id, refs), refs, strict=True)).values())[:MAX_REFS]


def same(a: Value | None, b: Value) -> bool:
    """Whether two descriptions are the same."""
    if a is None or len(a.refs) != len(b.refs) or a[1:4] != b[1:4]:
        return False
    if a.refs is b.refs or all(map(operator.is_, a.refs, b.refs)):
        return True
    return set(map(id, a.refs)) == set(map(id, b.refs))


def covers(a: Value, known: set[int], b: Value) -> bool:
    """Whether one of two bags says all that the other does: whether `joined` is the first.

    Args:
        a: what may be more; `known` are the ids of its refs.
        b: what may be less.
    """
    flags = a.complete <= b.complete and a.traced <= b.traced
    return flags and (a.refs is b.refs or known.issuperset(map(id, b.refs)))


class Made:
    """A function that a run makes: its code, the frame it is made in, its defaults."""

    __slots__ = ("code", "defaults", "frame")

    def __init__(self, code: types.CodeType, frame: Any, defaults: Value) -> None:
        self.code, self.frame, self.defaults = code, frame, defaults


class Container:
    """A list, tuple, set or dictionary that a run makes.

    Attributes:
        contents: what may be in it.
        parts: the same by place, while that is known.
        some: whether something traced is surely in it, from when it is made.
        full: whether something is in it, and all of that is surely traced.
    """

    __slots__ = ("contents", "parts", "some")

    def __init__(self) -> None:
        self.contents = TRACED  # of nothing, all is traced
        self.parts: list[Value] | None = None
        self.some = False

    def hold(self, values: Iterable[Value], parts: list[Value] | None = None) -> bool:
        """Let it also hold values; returns whether that is new."""
        before = self.contents
        for v in values:
            self.contents = joined(self.contents, v._replace(complete=False, bag=True))
        self.parts = parts
        return not same(before, self.contents)

    @property
    def full(self) -> bool:
        return self.contents is not TRACED and self.contents.traced

    def make(self, values: list[Value], parts: list[Value] | None) -> bool:
        """Let it be made of values, or of what it was made of; returns whether that is new."""
        first, some = self.contents is TRACED, any(map(is_traced, values))
        known, self.some = self.some, some and (first or self.some)
        new = self.hold(values, parts if first or self.parts is not None else None)
        return new or known != self.some


def is_traced(v: Value) -> bool:
    """Whether a value is traced, or something in it."""
    made = v.refs if v.complete else ()
    return v.traced or (
        bool(made) and all(isinstance(x, Container) and (x.some or x.full) for x in made)
    )


class Held:
    """What a transformation makes of functions, at one place."""

    __slots__ = ("functions",)

    def __init__(self) -> None:
        self.functions: tuple[Any, ...] = ()


class Instance:
    """An instance that a run makes: its class, and what its attributes may be."""

    __slots__ = ("attributes", "cls")

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.attributes: dict[Any, Value] = {}  # by name; `...`: by one that is not known


def class_of(ref: Any) -> type:
    """The class of an object, or of the instances that one stands for."""
    return ref.cls if isinstance(ref, Instance) else type(ref)


class Above:
    """`super(cls, instance)` for an instance that a run makes."""

    __slots__ = ("__self__", "__self_class__", "__thisclass__")

    def __init__(self, cls: type, me: Instance) -> None:
        self.__thisclass__, self.__self__, self.__self_class__ = cls, me, me.cls


class Method:
    """A method of an array, or of a builtin container."""

    __slots__ = ("holder", "name")

    def __init__(self, holder: Any, name: str) -> None:
        self.holder, self.name = holder, name


class Getter:
    """A getter of the module `operator`: its class, and what that got."""

    __slots__ = ("given", "kind")

    def __init__(self, kind: type, given: tuple[Value, ...]) -> None:
        self.kind, self.given = kind, given


STAND_INS: Final = (Made, Container, Held, Instance, Above, Method, Getter)


def inside(x: Any) -> tuple[Any, ...]:
    """What a stand-in holds."""
    if isinstance(x, Container):
        return x.contents.refs
    if isinstance(x, Made):
        return x.defaults.refs
    if isinstance(x, Held):
        return x.functions
    if isinstance(x, Getter):
        return tuple(ref for v in x.given for ref in v.refs)
    return ()


_LIBRARIES: Final = frozenset(
    """
    numpy scipy cupy cupyx ftrace jax jaxlib jaxtyping torch pandas matplotlib sklearn IPython
    tqdm llvmlite numba beartype typeguard pytest _pytest pluggy hypothesis
    """.split()  # noqa: SIM905 - a table
)
_STANDARD: Final = (source.STANDARD, "<f")
_INSTALLED: Final = tuple(f"{os.sep}{p}-packages{os.sep}" for p in ("site", "dist"))


_OF_PYTHON: Final = 1 << 9


@functools.cache
def is_library_file(name: str) -> bool:
    """Whether code of this file is not followed: that of Python, of ftrace, of array libraries."""
    if name.startswith(source.PACKAGE):
        return True
    for part in _INSTALLED:
        if part in name:
            return name.partition(part)[2].partition(os.sep)[0] in _LIBRARIES
    return name.startswith(_STANDARD)


def is_library(x: Any) -> bool:
    """Whether a function, class or module is not followed."""
    if isinstance(x, types.FunctionType):
        return is_library_file(x.__code__.co_filename)
    if isinstance(x, type) and x.__module__ == "builtins" and x.__flags__ & _OF_PYTHON:
        return False  # of code that has no module
    root = str(getattr(x, "__module__" if isinstance(x, type) else "__name__", "")).partition(".")[
        0
    ]
    return root in _LIBRARIES or (root in sys.stdlib_module_names and root != "__main__")


def is_ndarray(x: Any) -> bool:
    """Whether it is a NumPy array; a traced value stands for one and is none."""
    return issubclass(type(x), np.ndarray)


def is_of_ftrace(f: Any) -> bool:
    """Whether a callable is ftrace's own."""
    if isinstance(f, types.FunctionType):
        return f.__code__.co_filename.startswith(source.PACKAGE)
    return type(f) is Held or str(type(f).__module__).startswith("ftrace.")


def is_own(x: Any) -> bool:
    """Whether it is one of ftrace's rows: nobody changes what ftrace is made of."""
    return type(x) is Primitive and x.own


def rules_of(x: Any) -> tuple[str, ...]:
    """The attributes in which an object of ftrace's keeps functions that may be set again."""
    found: tuple[str, ...] = getattr(type(x), "__closes_over__", ())
    return found


def is_container(x: Any) -> bool:
    """Whether it is one of Python's containers, with their methods."""
    base = builtin(x)
    if base is None:
        return False
    cls = type(x)
    names = ("__iter__",) if base in SETS else ("__getitem__", "__iter__")
    return cls is base or not any(
        isinstance(getattr(cls, name), types.FunctionType) for name in names
    )


def builtin(x: Any) -> Any:
    """The container of Python's that it is, or None."""
    for base in (*MAPPINGS, *SEQUENCES, *SETS):
        if issubclass(type(x), base):
            return base
    return None


def held_in(x: Any) -> tuple[Any, ...]:
    """All that a container holds, whatever a class of the user's makes of reading it."""
    base = builtin(x)
    if base in MAPPINGS:
        return (*x, *x.values()) if is_container(x) else (*base.keys(x), *base.values(x))
    return tuple(x if is_container(x) else base.__iter__(x))
