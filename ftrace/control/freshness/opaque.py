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
import types
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


def _ever(x: Any) -> Any:
    """Not the same twice."""
    return object()


def _of_variable(x: Any) -> Any:
    return id(x.get(None))


STATES: Final[dict[type, Callable[[Any], Any]]] = {
    array.array: array.array.tobytes,
    bytearray: bytes,
    memoryview: memoryview.tobytes,
    contextvars.ContextVar: _of_variable,
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


def parts_of(x: Any) -> list[Any]:
    """What an object of a library holds, beside its attributes."""
    if isinstance(x, types.MappingProxyType):
        return gc.get_referents(x)
    if isinstance(x, contextvars.ContextVar):
        return [x.get(None)]
    return []
