"""Objects of libraries: what their methods, operators and calls may read, which is not walked.

Python objects of the standard library and of array libraries (`os.environ`, `ChainMap`, a spline,
a sparse matrix) keep their state in attributes: these are followed. Some of C give their state if
they are asked (`STATES`): generators of random numbers, buffers. An iterator has given away what it
gave, so that the next call surely finds another state.
"""

import array
import collections.abc
import contextvars
import functools
import gc
import io
import itertools
import types
import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.control.freshness.values import is_library
from ftrace.core.generators import states
from ftrace.core.sameness import SCALARS
from ftrace.core.trace import Tracer

_NO_STATE: Final = (
    type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType,
    types.CodeType, np.ufunc, type(np.sum), type(functools.cache(len)), np.dtype, np.ndarray,
    np.generic, Tracer,
)  # fmt: skip

_SHOWING: Final = (
    types.MappingProxyType,
    *(type(f({})) for f in (dict.keys, dict.values, dict.items)),
)
"""What shows a dict, which may change."""


def _ever(x: Any) -> Any:
    """Not the same twice."""
    return object()


def _of_variable(x: Any) -> Any:
    return id(x.get(None))


def _of_reference(x: Any) -> Any:
    """What a weak reference refers to, by identity; the methods of `WeakMethod` are made anew."""
    return [*map(id, referents(x)), id(getattr(x(), "__func__", None))]


STATES: Final[dict[type, Callable[[Any], Any]]] = {
    array.array: array.array.tobytes,
    bytearray: bytes,
    memoryview: memoryview.tobytes,
    contextvars.ContextVar: _of_variable,
    weakref.ref: _of_reference,
}


def is_opaque(x: Any) -> bool:
    """Whether it is an object of a library, with state of its own."""
    cls = type(x)
    if cls in SCALARS or issubclass(cls, _NO_STATE):
        return False
    return is_library(cls) and not str(cls.__module__).startswith("ftrace")


def state_of(x: Any) -> Callable[[Any], Any] | None:
    """What gives the state of an object that is not in attributes; None if there is none."""
    for cls in type(x).__mro__:
        give = STATES.get(cls) or states().get(cls)
        if give is not None:
            return give
    if issubclass(type(x), io.IOBase):
        return _ever if x.readable() else None
    return _ever if issubclass(type(x), collections.abc.Iterator) else None


class KeptResults:
    """Results that a function of `functools.cache` keeps: known ones stay until it is cleared.

    Args:
        entries: what `entries_of` the function says.
    """

    __slots__ = ("_known",)

    def __init__(self, entries: dict[Any, Any]) -> None:
        self._known: dict[Any, Any] = {}
        self._add(entries)

    def __eq__(self, entries: object) -> bool:
        if not isinstance(entries, dict):
            return NotImplemented
        if any(entries.get(key) is not kept for key, kept in self._known.items()):
            return False
        if len(self._known) < min(len(entries), _FEW):
            self._add(entries)
        return True

    __hash__ = None  # type: ignore[assignment]

    def _add(self, entries: dict[Any, Any]) -> None:
        self._known.update(itertools.islice(reversed(entries.items()), _FEW))


_FEW: Final = 16  # entries: who clears a cache, clears all of them
CACHED: Final = type(functools.cache(len))


def entries_of(x: Any) -> dict[Any, Any]:
    """The results that a function of `functools.cache` keeps, by its arguments."""
    own = x.__dict__
    return next((d for d in gc.get_referents(x) if type(d) is dict and d is not own), {})


def referents(x: Any) -> list[Any]:
    """What a weak reference refers to, the object of a method; nothing of anything else."""
    found = x() if isinstance(x, weakref.ref) else None
    return [] if found is None else [getattr(found, "__self__", found)]


def parts_of(x: Any) -> list[Any]:
    """What an object of a library holds, beside its attributes."""
    if isinstance(x, _SHOWING):
        return gc.get_referents(x)
    if isinstance(x, contextvars.ContextVar):
        return [x.get(None)]
    if isinstance(x, weakref.ref):
        return [x()]
    return []
