"""Whose a callable is, and which functions of the user's a library's callable holds."""

import functools
import gc
import operator
import types
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from ftrace.control.freshness.opaque import CACHED
from ftrace.control.freshness.values import (
    NOTHING,
    Getter,
    Held,
    Made,
    Method,
    Value,
    class_of,
    covers,
    is_container,
    is_library,
    is_ndarray,
    is_of_ftrace,
    is_own,
    joined,
    rules_of,
    same,
)
from ftrace.core.closure_cells import is_filled
from ftrace.core.sameness import SCALARS
from ftrace.core.trace import Tracer

GETTERS: Final = (operator.attrgetter, operator.itemgetter, operator.methodcaller, Getter)
_MAX_HELD: Final = 300


class Assumed:
    """A callable of the user's that somebody may call, with anything that they may have.

    Attributes:
        given: what it may get.
        result: what it may return, as far as that is known.
        seen: whether it was walked in this round.
        relied: whether its result was taken since.
    """

    __slots__ = ("_ids", "callable", "given", "relied", "result", "seen")

    def __init__(self, f: Any) -> None:
        self.callable = f
        self.given = self.result = NOTHING
        self.seen = self.relied = False
        self._ids: set[int] | None = None

    def get(self, more: Value) -> bool:
        """Let it get more; returns whether that is new."""
        if self._ids is None:
            new = more
        elif covers(self.given, self._ids, more):
            return False
        else:
            new = joined(self.given, more)
            if same(self.given, new):  # there are as many as are looked at
                return False
        self.given, self._ids = new, set(map(id, new.refs))
        return True


def owner_of(f: Any) -> Any:
    """What says whether a callable that is not walked belongs to a library."""
    return f if isinstance(f, type) else type(f)


def is_users(x: Any) -> bool:
    """Whether it is a function of the user's, or one around such a function."""
    if isinstance(x, types.FunctionType):
        return not is_library(x) or is_of_ftrace(x) or "__wrapped__" in x.__dict__
    if isinstance(x, types.MethodType):
        return not is_method_of_library(x)
    if isinstance(x, (functools.partial, Made, Method, Held, *GETTERS)):
        return True
    if isinstance(x, type) or type(x) in SCALARS or is_container(x) or is_ndarray(x):
        return False
    if is_own(x):
        return False
    call = call_of(x)
    return call is not None and (not is_library(call) or is_of_ftrace(call))


def is_method_of_library(x: types.MethodType) -> bool:
    """Whether it is a library's, of an object of its own; it may be one that `exec` made."""
    f = x.__func__
    of_function = is_library(f) or _is_made_by_exec(f)
    return is_library(type(x.__self__)) and (
        of_function if isinstance(f, types.FunctionType) else is_library(type(f))
    )


def _is_made_by_exec(f: Any) -> bool:
    return isinstance(f, types.FunctionType) and f.__code__.co_filename == "<string>"


def gives_arrays(f: Any) -> bool:
    """Whether it is a function that computes arrays, of NumPy or one like it."""
    module = str(getattr(f, "__module__", ""))
    return module.partition(".")[0] in _OF_ARRAYS


_OF_ARRAYS: Final = ("numpy", "scipy", "cupy", "ftrace")


def call_of(x: Any) -> types.FunctionType | None:
    """The `__call__` that a class defines in Python, or None."""
    call = getattr(class_of(x), "__call__", None)  # noqa: B004
    return call if isinstance(call, types.FunctionType) else None


def held_functions(f: Any) -> list[Any]:
    """The user's functions that a library's callable holds."""
    found: list[Any] = []
    seen: dict[int, Any] = {}
    queue = _parts(f)
    while queue and len(seen) < _MAX_HELD:
        x = queue.pop()
        if id(x) in seen or type(x) in SCALARS or isinstance(x, type | types.ModuleType | Tracer):
            continue
        seen[id(x)] = x
        if isinstance(x, types.FunctionType):
            if not is_library(x):
                found.append(x)
                continue
        elif isinstance(x, functools.partial | Made) or rules_of(x):
            found.append(x)
            continue
        elif isinstance(x, types.MethodType):
            if not is_method_of_library(x):
                found.append(x)
                continue
        else:
            call = call_of(x)
            if call is not None and not is_library(call):
                found.append(x)
                continue
        queue.extend(_parts(x))
    return found


def users_among(refs: Iterable[Any]) -> Iterator[Any]:
    """The user's functions among objects, and those that methods of a library's hold."""
    for x in refs:
        if is_users(x):
            yield x
        elif isinstance(x, types.MethodType):
            yield from held_functions(x)


def _parts(x: Any) -> list[Any]:
    """What a library's function or object is made of."""
    if isinstance(x, Held):
        return list(x.functions)
    if isinstance(x, types.FunctionType):
        cells = [c.cell_contents for c in x.__closure__ or () if is_filled(c)]
        return [*cells, *x.__dict__.values()]
    if isinstance(x, types.MethodType):
        made = is_method_of_library(x) and _is_made_by_exec(x.__func__)
        return [x.__self__] if made else [x.__func__, x.__self__]
    if isinstance(x, functools.partial):
        return [x.func, *x.args, *x.keywords.values()]
    if isinstance(x, dict):
        return list(x.values())
    if isinstance(x, list | tuple):
        return list(x)
    root = str(type(x).__module__).partition(".")[0]
    if root in ("ftrace", "functools", "numpy") and not issubclass(
        type(x), np.ndarray | np.generic
    ):
        own = getattr(x, "__dict__", None)
        wrapped = [x.__wrapped__] if isinstance(x, CACHED) else []
        if type(x) is np.ufunc:  # of `np.frompyfunc`
            wrapped = gc.get_referents(x)
        return [*wrapped, *(own.values() if isinstance(own, dict) else ())]
    return []
