"""Random numbers that Python draws while a function is traced once for many elements or iterations.

In plain Python each element of a batch, and each iteration of a loop, draws its own number. A trace
runs
the function once: one number would stand for all. So the generators that a function reaches are
compared before and after, and put back where it drew. Generators are found by value; the two that
modules share (`np.random`, `random`) are looked at where a module or name says so: to read
their states takes a while.
"""

import dis
import functools
import types
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import numpy as np

from ftrace.control.changing import is_changing, is_ours, may_change, variable
from ftrace.control.freshness.opaque import state_of
from ftrace.control.freshness.values import is_library, is_of_ftrace
from ftrace.core.closure_cells import content
from ftrace.core.errors import LiftError
from ftrace.core.generators import is_generator, is_module, put, shared
from ftrace.core.trace import Tracer
from ftrace.core.weak import dropping

_NAMES: Final = frozenset(("random", "rvs"))
_MOST: Final = 2_000  # values that are looked at
_PLAIN: Final = (
    *(int, float, complex, str, bytes, type(None), np.ndarray, np.generic, np.dtype, np.ufunc),
    *(Tracer, types.CodeType),
)


_ONE: Final = "once for all {}, which would all see the same"
ELEMENTS: Final = _ONE.format("elements")
TURNS: Final = _ONE.format("turns of a loop")
BRANCHES: Final = "whether it runs or not"
REGIONS: Final = (
    "once where a traced value decides whether, or how often, it runs: in Python, each iteration "
    "would "
    "draw, and a branch that is not taken would not"
)


def is_source(x: Any) -> bool:
    """Whether a value is a generator of random numbers, a method of one, or a module of them."""
    kind = type(x)
    if kind is types.ModuleType:
        return is_module(x)
    if kind is types.BuiltinFunctionType or kind is types.MethodType:
        x = x.__self__
    return is_generator(x)


def names_draw(names: Iterable[str]) -> bool:
    """Whether one of the names that code uses may lead to a generator that a module shares."""
    return not _NAMES.isdisjoint(names)


_known: Final[dict[int, tuple[Any, frozenset[str]]]] = {}  # by the id of code: hashing takes longer


def _paths(code: types.CodeType) -> frozenset[str]:
    """The names that code reads such a name of; the name itself where it is a variable."""
    key = id(code)
    found = _known.get(key)
    if found is None:
        found = _known[key] = dropping(code, _known, key), frozenset(_find_paths(code))
    return found[1]


def _find_paths(code: types.CodeType) -> Iterator[str]:
    for inner in code.co_consts:
        if type(inner) is types.CodeType:
            yield from _paths(inner)
    if not names_draw(code.co_names):
        return
    before = ""
    for i in dis.get_instructions(code):
        if i.argval in _NAMES:
            yield before if i.opname in ("LOAD_ATTR", "LOAD_METHOD") else str(i.argval)
        before = str(i.argval) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF") else ""


def may_draw(f: types.FunctionType) -> bool:
    """Whether a function may lead to a generator that a module shares, by what it names."""
    paths = _paths(f.__code__)
    if not paths:
        return False
    return not all(is_ours(variable(f, name)) for name in paths)


def state(generator: Any) -> Any:
    """The state of a generator, to be compared."""
    give = state_of(generator)
    assert give is not None
    return give(generator)


class Draws:
    """The generators that functions reach, and the states that they are in before a trace."""

    __slots__ = ("_before", "changes")

    def __init__(self, functions: Iterable[Any]) -> None:
        found = _Reached(functions)
        self.changes = found.changes  # whether the functions may change what outlives a run
        generators = {id(g): (name, g) for name, g in found.generators}
        if found.shared:
            generators |= {id(g): (name, g) for name, g in shared()}
        self._before = [(name, g, state(g)) for name, g in generators.values()]

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._before)

    def restore(self) -> str:
        """Put back what was drawn; the name of a generator that was drawn from, or nothing."""
        drawn = ""
        for name, g, before in self._before:
            if state(g) != before:
                put(g, before)
                drawn = drawn or name
        return drawn

    def check(self, what: str) -> None:
        """The same, as an error; `what` says how the function is traced.

        Raises:
            LiftError: something was drawn.
        """
        drawn = self.restore()
        if drawn:
            raise drawn_once(drawn, what)


def drawn_once(name: str, what: str) -> LiftError:
    """The error for a random number that is drawn once, where Python would not."""
    return LiftError(
        f"A random number is drawn from `{name}` by code that is traced {what}.",
        "Draw before, with an axis for all (`rng.normal(size=n)`), and pass the numbers as an "
        "argument; or use ftrace.random with a key for each (`ftrace.random.split(key, n)`).",
    )


class _Reached:
    """The generators that functions reach by closures, globals, defaults, attributes and items."""

    def __init__(self, functions: Iterable[Any]) -> None:
        self.generators: list[tuple[str, Any]] = []
        self.shared = self.changes = False
        self._names: set[str] = set()
        queue = deque(("", f) for f in functions)
        seen: set[int] = set()
        while queue and len(seen) < _MOST:
            name, x = queue.popleft()
            if id(x) in seen or issubclass(type(x), _PLAIN):
                continue
            seen.add(id(x))
            self.changes |= is_changing(x)
            if is_generator(x):
                self.generators.append((name, x))
            else:
                queue.extend(islice(self._parts(name, x), _MOST))

    def _parts(self, name: str, x: Any) -> Iterator[tuple[str, Any]]:
        kind = type(x)
        if kind is types.FunctionType:
            yield from self._of_function(x)
        elif kind is types.ModuleType:
            self.shared |= is_module(x)
            if not is_library(x):
                yield from ((n, v) for n, v in vars(x).items() if n in self._names)
        elif kind is types.BuiltinFunctionType or kind is types.MethodType:
            yield f"{name}.__self__", x.__self__
            yield name, getattr(x, "__func__", None)
        elif issubclass(kind, functools.partial):
            yield from ((name, v) for v in (x.func, *x.args, *x.keywords.values()))
        elif issubclass(kind, dict):
            yield from ((f"{name}[{k!r}]", v) for k, v in x.items())
        elif issubclass(kind, list | tuple | set | frozenset):
            yield from ((f"{name}[{i}]", v) for i, v in enumerate(x))
        else:
            yield from self._of_object(name, x)

    def _of_function(self, f: types.FunctionType) -> Iterator[tuple[str, Any]]:
        code = f.__code__
        yield from zip(code.co_freevars, map(content, f.__closure__ or ()), strict=True)
        defaults = *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()
        yield from (("a default", v) for v in defaults)
        yield from f.__dict__.items()
        if is_library(f):
            return
        self.shared |= may_draw(f)
        self.changes |= may_change(f)
        names = _names(code)
        self._names |= names
        yield from ((n, f.__globals__[n]) for n in names if n in f.__globals__)

    def _of_object(self, name: str, x: Any) -> Iterator[tuple[str, Any]]:
        cls = x if issubclass(type(x), type) else type(x)
        if is_of_ftrace(x):
            yield name, getattr(x, "__ftrace__", (None,))[0]
        if not is_library(cls):
            for base in cls.__mro__[:-1]:
                yield from ((n, _function(v)) for n, v in vars(base).items())
        held = getattr(x, "__dict__", None)
        if type(held) is dict:
            yield from ((f"{name}.{n}", v) for n, v in held.items())


def _function(member: Any) -> Any:
    """The function in a member of a class."""
    if isinstance(member, property):
        return member.fget
    return getattr(member, "__func__", getattr(member, "func", member))


def _names(code: types.CodeType) -> set[str]:
    inner = (_names(c) for c in code.co_consts if type(c) is types.CodeType)
    return set(code.co_names).union(*inner)
