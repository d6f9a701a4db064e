"""Compiled loops of NumPy's gufuncs, and of NumPy's and SciPy's ufuncs, by address.

A ufunc is an object of a public C struct, `PyUFuncObject`, whose tables give for each combination
of types `void loop(char **args, npy_intp const *dims, npy_intp const *steps, void *data)`. Which
gufuncs there are is private to NumPy: each is looked up by its name, signature and types when a
program first asks, and the struct is compared with what the object says itself. What is not found
so is left to the public function. A loop that fails raises the floating-point flag "invalid";
whether that can be seen here is tried on one.
"""

import ctypes
import functools
import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.core.errors import BackendError
from ftrace.core.lazy import MAKING, once
from ftrace.cpu.foreign import sort_loops
from ftrace.lowering.machine import InnerLoop
from ftrace.lowering.planning.loop_numbers import core_names

INVALID: Final = 1  # FE_INVALID of x86 and ARM
OTHERS: Final[dict[str, Callable[[str, str], int]]] = {}
"""What finds loops that are none of NumPy's, by what stands for a module in their names:
(name, types) -> the address, 0 where there is none."""
DATA: Final = ":data"  # ends the name of what a loop is given last


class Found(NamedTuple):
    """Addresses of a loop and of what it is given last (0: nothing, or: it is written as text)."""

    loop: int
    data: int


class _UFunc(ctypes.Structure):
    """What follows an object's head in PyUFuncObject."""

    _fields_ = (
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_byte)),
    )


def has_loop(loop: InnerLoop, fails: bool) -> bool:
    """Whether there is such a loop, and (`fails`) its failures can be seen."""
    return find(loop) is not None and (not fails or flags_tell())


def symbols(used: Iterable[InnerLoop]) -> dict[str, int]:
    """The addresses of some loops and of their data, by the names that LLVM's text has for them."""
    addresses: dict[str, int] = {}
    for loop in used:
        found = known(loop)
        if found.loop:
            addresses[symbol(loop)] = found.loop
        else:
            addresses.update(sort_loops.symbols())
        if found.data:
            addresses[symbol(loop) + DATA] = found.data
    return addresses


def symbol(loop: InnerLoop) -> str:
    """The name of a loop in LLVM's text, without spaces: names lie in a list of them."""
    return f"loop:{loop.module}.{loop.name}:{loop.types}"


def known(loop: InnerLoop) -> Found:
    """Where a loop is that a program was planned with.

    Raises:
        BackendError: this process has none.
    """
    found = find(loop)
    if found is None:
        raise BackendError(
            f"The program calls the loop {loop.types} of {loop.module}.{loop.name}, which NumPy "
            f"{np.__version__} does not have. Plan it for this process: then the public function "
            "is called."
        )
    return found


@functools.cache
def find(loop: InnerLoop) -> Found | None:
    """Where a loop is; None where this NumPy has none that is known to be it."""
    if loop.module == "numpy" and loop.name in sort_loops.SORTS:
        function = sort_loops.address(loop)
        return Found(0, function) if function else None
    if loop.module in OTHERS:
        at = OTHERS[loop.module](loop.name, loop.types)
        return Found(at, 0) if at else None
    try:
        with MAKING:
            ufunc: Any = getattr(importlib.import_module(loop.module), loop.name, ())
    except ImportError:
        return None
    if not issubclass(type(ufunc), np.ufunc):
        return None
    if _cores(_signature(ufunc)) != _cores(loop.signature):
        return None
    fields = _fields(ufunc)
    if fields is None or loop.types not in ufunc.types:
        return None
    at = ufunc.types.index(loop.types)
    address = fields.functions[at]
    return Found(address, (fields.data[at] or 0) if fields.data else 0) if address else None


def _cores(signature: str) -> list[tuple[int, ...]]:
    """The core axes of each argument, by numbers in the place of names."""
    numbers: dict[str, int] = {}
    return [
        tuple(numbers.setdefault(n, len(numbers)) for n in names) for names in core_names(signature)
    ]


def _signature(ufunc: Any) -> str:
    """The signature of a gufunc; that of a ufunc has no core axes."""
    found: str | None = ufunc.signature
    return found or f"{','.join(['()'] * ufunc.nin)}->{','.join(['()'] * ufunc.nout)}"


def _fields(ufunc: Any) -> _UFunc | None:
    """The fields of a ufunc, if they are where NumPy's header has them."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    head = object.__basicsize__
    if type(ufunc).__basicsize__ < head + ctypes.sizeof(_UFunc):
        return None
    found = _UFunc.from_address(id(ufunc) + head)
    counts = found.nin, found.nout, found.nargs, found.ntypes
    if counts != (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes) or not found.functions:
        return None
    if found.name != ufunc.__name__.encode():
        return None
    chars = [c for types in ufunc.types for c in types.replace("->", "")]
    numbers = [np.dtype(c).num for c in chars]
    return found if found.types[: len(numbers)] == numbers else None


@once
def flags_tell() -> bool:
    """Whether a loop that fails raises the flag, and one that does not leaves it alone."""
    inverse = find(InnerLoop("numpy.linalg._umath_linalg", "inv", "(m,m)->(m,m)", "d->d"))
    try:
        system = ctypes.CDLL(None)
        clear, test = system.feclearexcept, system.fetestexcept
    except (AttributeError, OSError, TypeError):  # no such functions, or not found so
        return False
    if inverse is None:
        return False
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
    raised = []
    for value in (1.0, 0.0):
        arrays = np.full((1, 1), value), np.zeros((1, 1))
        args = np.array([a.ctypes.data for a in arrays], np.uintp)
        numbers = np.array([1, 1, 0, 0, 8, 8, 8, 8], np.intp)
        clear(INVALID)
        kind(inverse.loop)(args.ctypes.data, numbers.ctypes.data, numbers[2:].ctypes.data, None)
        raised.append(bool(test(INVALID)))
        clear(INVALID)
    return raised == [False, True]
