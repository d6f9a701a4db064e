"""Which functions may change what outlives their run, as far as their code tells.

Stores into globals, closures, attributes and items do, and methods such as `append`; not those into
what the function itself has just made (`out = np.zeros(n)`, `parts = []`). The instructions of one
target or call are found by where they begin in the source.
"""

import builtins
import dis
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.core.closure_cells import content
from ftrace.core.weak import dropping

_CHANGING: Final = frozenset(
    (
        *("append", "extend", "insert", "pop", "popleft", "appendleft", "extendleft", "rotate"),
        *("remove", "clear", "sort", "reverse", "update", "setdefault", "popitem", "add"),
        *("discard", "move_to_end", "subtract", "next", "send", "throw", "set", "reset"),
        *("setattr", "delattr", "heappush", "heappop", "heapreplace", "heappushpop", "put"),
        *("write", "seek", "read", "readline", "__next__", "__setattr__", "__setitem__"),
        *("setitem", "delitem"),
    )
)
"""Names of what changes an object."""
_REBINDING: Final = ("STORE_DEREF", "DELETE_DEREF")
_OUTSIDE: Final = ("STORE_GLOBAL", "DELETE_GLOBAL", *_REBINDING)
_INSIDE: Final = frozenset(
    f"{verb}_{where}" for verb in ("STORE", "DELETE") for where in ("ATTR", "SUBSCR", "SLICE")
)
_BETWEEN: Final = ("COPY", "SWAP", "BINARY_OP")  # of `x[i] += 1`
_LOADS: Final = ("LOAD_ATTR", "LOAD_METHOD")
_MAKERS: Final = frozenset(
    (
        *("zeros", "empty", "ones", "full", "array", "arange", "linspace", "eye", "stack"),
        *("zeros_like", "empty_like", "ones_like", "full_like", "concatenate"),
    )
)
"""Functions of array modules whose results are new."""
_CLASSES: Final = frozenset(("list", "dict", "set", "bytearray"))
_ANY: Final = ""  # no variable: whatever it is that changes


class _Facts(NamedTuple):
    """What code may change."""

    paths: frozenset[str]
    rebinds: bool


_known: Final[dict[int, tuple[Any, _Facts]]] = {}  # by the id of code


def may_change(f: types.FunctionType) -> bool:
    """Whether a function may change what outlives its run, by its instructions and names."""
    paths = _paths(f.__code__)
    return bool(paths) and not all(n and _only_computes(f, n) for n in paths)


def _only_computes(f: types.FunctionType, name: str) -> bool:
    """Whether a variable is a module whose `add` and `sort` change nothing, or such a class."""
    x = variable(f, name)
    if name in _CLASSES:
        return x is None or x is getattr(builtins, name)
    return x is np or is_ours(x)


def is_ours(x: Any) -> bool:
    """Whether a value is a module of ftrace."""
    return type(x) is types.ModuleType and x.__name__.partition(".")[0] == "ftrace"


def variable(f: types.FunctionType, name: str) -> Any:
    """What a variable holds that is none of a function's own; None where that is not known."""
    if name in f.__code__.co_freevars:
        return content((f.__closure__ or ())[f.__code__.co_freevars.index(name)])
    return f.__globals__.get(name)


def is_changing(x: Any) -> bool:
    """Whether a value changes by its use: an iterator, or a method such as `append` of a list."""
    kind = type(x)
    if kind is types.BuiltinFunctionType:
        return x.__name__ in _CHANGING and type(x.__self__) is not types.ModuleType
    return hasattr(kind, "__next__") and not issubclass(kind, type)


def rebinds(code: types.CodeType) -> bool:
    """Whether code, or that inside it, gives a variable of an enclosing function another value."""
    return _facts(code).rebinds


def _paths(code: types.CodeType) -> frozenset[str]:
    """The variables whose functions or methods may change something; `_ANY` for others."""
    return _facts(code).paths


def _facts(code: types.CodeType) -> _Facts:
    key = id(code)
    found = _known.get(key)
    if found is None:
        inner = [c for c in code.co_consts if type(c) is types.CodeType]
        cells = [i for i in dis.get_instructions(code) if i.opname in _REBINDING]
        outer = any(i.argval in code.co_freevars for i in cells) or any(map(rebinds, inner))
        facts = _Facts(frozenset(_find_paths(code)), outer)
        found = _known[key] = dropping(code, _known, key), facts
    return found[1]


def _find_paths(code: types.CodeType) -> Iterator[str]:
    for inner in code.co_consts:
        if type(inner) is types.CodeType:
            yield from _paths(inner)
    own = _Own(code)
    before: Any = None
    for i in own.listing:
        if i.opname in _OUTSIDE and (i.argval in code.co_freevars or "DEREF" not in i.opname):
            yield _ANY
        elif i.opname in _INSIDE:
            yield from own.needed(own.target(i))
        elif i.argval in _CHANGING and i.argval in code.co_names:
            plain = i.opname in _LOADS and not i.is_jump_target
            yield from own.needed(before) if plain else (_ANY,)
        before = i


class _Own:
    """What a function makes: the variables that only ever hold what it has made itself."""

    def __init__(self, code: types.CodeType) -> None:
        self.listing = list(dis.get_instructions(code))
        self._at: dict[Any, list[dis.Instruction]] = defaultdict(list)
        for i in self.listing:
            self._at[_start(i)].append(i)
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4)
        given = code.co_varnames[: count + bool(code.co_flags & 8)]
        self._made: dict[str, set[str]] = {n: {_ANY} for n in given}
        if code.co_name == "__init__" and given:
            self._made[given[0]] = set()
        before = None
        for i in self.listing:
            if i.opname.startswith("STORE_FAST"):
                alone = i.opname == "STORE_FAST" and not i.is_jump_target
                for name in (i.argval,) if type(i.argval) is str else i.argval:
                    makers = self._makers(before) if alone else (_ANY,)
                    self._made.setdefault(name, set()).update(makers)
            before = i

    def needed(self, load: Any) -> Iterable[str]:
        """The variables that must be known modules or classes for a holder to be its own."""
        name = str(load.argval) if load else _ANY
        if name and load.opname == "LOAD_FAST":
            return self._made.get(name, (_ANY,))
        known = name and name not in _CLASSES and load.opname in ("LOAD_GLOBAL", "LOAD_DEREF")
        return (name if known else _ANY,)

    def target(self, store: dis.Instruction) -> Any:
        """The instruction that gives the holder, if that is a variable."""
        at = _start(store)
        first, *more = [i for i in self._at[at] if i.opname not in _BETWEEN]
        plain = at is not None and all(i.positions == store.positions for i in more)
        return first if plain else None

    def _makers(self, last: Any) -> Iterable[str]:
        """The same for a value, by the instruction that gives it."""
        name = str(last.opname) if last else ""
        if name.startswith("BUILD_") or name in ("LIST_EXTEND", "DICT_UPDATE", "SET_UPDATE"):
            return ()
        if name == "BINARY_OP":  # `+=` gives what was there, or a new one
            return ()
        if not name.startswith("CALL") or _start(last) is None:
            return (_ANY,)
        first, *more = [i for i in self._at[_start(last)] if i.opname != "PUSH_NULL"]
        if first.opname == "LOAD_CONST" and type(first.argval) is types.CodeType:
            return () if first.argval.co_name.endswith("comp>") else (_ANY,)
        if first.opname != "LOAD_GLOBAL":
            return (_ANY,)
        attributes = [i.argval for i in more if i.opname in _LOADS]
        made = attributes[0] in _MAKERS if len(attributes) == 1 else first.argval in _CLASSES
        return (str(first.argval),) if made else (_ANY,)


def _start(i: dis.Instruction) -> Any:
    """Where an instruction begins in the source, or None."""
    p = i.positions
    return None if p is None or p.col_offset is None else (p.lineno, p.col_offset)
