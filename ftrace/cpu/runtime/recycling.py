"""Large arrays in memory that large arrays had before.

Fresh memory costs a page fault for each page at its first use, often more than a kernel takes to
fill it. NumPy lets an allocator be set (NEP 49, `PyDataMem_SetHandler`), and an array remembers the
one it came from. So ours (recycling_text.py) is set just while a large result is made: the array
owns its data like any other, and when NumPy frees it, from wherever, its block waits here for the
next. `config.recycled_memory` bounds what waits; where the means are missing, all is as ever.
"""

import ctypes
import importlib
import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from ftrace.core.config import config
from ftrace.core.errors import BackendError
from ftrace.core.lazy import once
from ftrace.cpu.llvm.machine_code import compile_module, host
from ftrace.cpu.runtime.recycling_text import (
    BOUND,
    COUNT,
    KEPT,
    LIMIT,
    LOCK,
    NUMPY,
    STATE,
    TAPES,
    WORDS,
    allocator_text,
)

Array = np.ndarray[Any, Any]
Maker = Callable[[], Array]
SET_HANDLER: Final = 304  # its place in NumPy's table of functions, which is part of NumPy's ABI
ABI: Final = 2  # of NumPy
WORTH: Final = 1 << 18  # bytes of results for which exchanging the allocator, 0.7 us, is little
CGROUPS: Final = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def maker(shape: Sequence[int], dtype: np.dtype[Any]) -> Maker:
    """A function that makes uninitialised arrays of a type, recycling memory if they are large."""
    plain = partial(np.empty, shape, dtype)
    worth = math.prod(shape) * dtype.itemsize >= WORTH
    return partial(_one, [plain]) if worth else plain


def together(plain: Sequence[Maker], sizes: Sequence[int]) -> Callable[[], list[Array]] | None:
    """A function that makes the results of a program, or None if few bytes are large ones'.

    NumPy's allocator is exchanged once for all of them.

    Args:
        plain: functions that make one each.
        sizes: their bytes.
    """
    if sum(n for n in sizes if n >= LIMIT) < WORTH:
        return None
    rows = [(make, n >= LIMIT) for make, n in zip(plain, sizes, strict=True)]
    large = [make for make, is_large in rows if is_large]
    return partial(_all, large) if len(large) == len(rows) else partial(_mixed, rows, large)


def _all(large: Sequence[Maker]) -> list[Array]:
    recycler = _recycler()
    if recycler is None or not recycler.is_on():
        return [make() for make in large]
    before = recycler.exchange(recycler.handler)
    try:
        return [make() for make in large]
    finally:
        recycler.exchange(before)


def _one(large: Sequence[Maker]) -> Array:
    return _all(large)[0]


def _mixed(rows: Sequence[tuple[Maker, bool]], large: Sequence[Maker]) -> list[Array]:
    made = iter(_all(large))
    return [next(made) if is_large else make() for make, is_large in rows]


def tape_functions() -> tuple[int, ...] | None:
    """Addresses of `ptr realloc(ptr, i64)` and `void free(ptr)` for tapes, if there are any."""
    recycler = _recycler()
    return recycler.of_tapes if recycler is not None and recycler.is_on() else None


def release_memory() -> int:
    """Give the memory back that compiled functions keep for their next results.

    Large arrays that compiled functions returned leave their memory behind when they are freed,
    for later results: at most `config.recycled_memory` bytes. Arrays that are alive stay as they
    are.

    Returns:
        How many bytes were given back to the system.

    Example:
        >>> import ftrace
        >>> import numpy as np
        >>> f = ftrace.jit(lambda x: x * x + 1.0)
        >>> y = f(np.ones(1_000_000))
        >>> del y
        >>> released = ftrace.release_memory()  # about 8 MB
        >>> ftrace.release_memory()
        0
    """
    recycler = next(iter(_recycler.made), None)
    return 0 if recycler is None else recycler.release()


class MemoryHandler(ctypes.Structure):
    """PyDataMem_Handler."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


class Recycler:
    """An allocator for NumPy and the blocks that it keeps.

    Arrays point to it for as long as they live, and the last may be freed after every Python
    object that could keep it: so it is never freed.

    Attributes:
        state: its words, named in recycling_text.py.
        handler: the object that NumPy is given.
        exchange: makes NumPy use a handler in this thread, and gives the one before.
        of_tapes: addresses of realloc and free for tapes.
    """

    def __init__(self) -> None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        self.state = (ctypes.c_int64 * WORDS)()
        self._bound = 0
        self._most = machine_memory() // 4
        place = ctypes.addressof(self.state)
        self._module = compile_module(
            allocator_text(), _symbols() | {STATE: place}, host(), level=0
        )
        found = {n: self._module.address(f"recycling_{n}") for n in (*NUMPY, *TAPES, "trim")}
        self._struct = MemoryHandler(b"ftrace", 1, place, *(found[n] for n in NUMPY))
        self._name = ctypes.create_string_buffer(b"mem_handler")
        new = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * 3)(
            ("PyCapsule_New", ctypes.pythonapi)
        )
        self.handler = new(ctypes.addressof(self._struct), ctypes.addressof(self._name), None)
        self.exchange = _exchange()
        self.of_tapes = tuple(found[n] for n in TAPES)
        self._trim = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(found["trim"])
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """In a copy of the process: what a thread that is not in it was doing is lost."""
        if self.state[LOCK]:
            self.state[KEPT] = self.state[COUNT] = self.state[LOCK] = 0

    def is_on(self) -> bool:
        """Whether `config.recycled_memory` allows any; it is looked at here."""
        bound = config.settings.recycled_memory
        if bound != self._bound:
            self._limit(bound)
        return bound > 0

    def _limit(self, bound: int) -> None:
        """Keep at most so many bytes from now on, and a quarter of the machine's memory."""
        self._bound = bound
        self.state[BOUND] = min(max(bound, 0), self._most)
        self._trim(self.state, self.state[BOUND])

    def release(self) -> int:
        """Give back what is kept."""
        kept = self.state[KEPT]
        self._trim(self.state, 0)
        return kept


@once
def _recycler() -> Recycler | None:
    """The one of this process, or None where something is missing."""
    try:
        return Recycler()
    except (AttributeError, BackendError, ImportError, OSError):
        return None


def _symbols() -> dict[str, int]:
    names = ("PyMem_RawMalloc", "PyMem_RawFree")
    found = {n: ctypes.cast(getattr(ctypes.pythonapi, n), ctypes.c_void_p).value for n in names}
    return {n: address or 0 for n, address in found.items()}


def _exchange() -> Callable[[Any], Any]:
    """NumPy's function that sets the allocator and gives the one before.

    Raises:
        AttributeError: this NumPy's functions are not where we know them.
    """
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    numpy_c = importlib.import_module("numpy._core._multiarray_umath")
    table = get(numpy_c._ARRAY_API, None)
    functions = (ctypes.c_void_p * (SET_HANDLER + 1)).from_address(table)
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(functions[0] or 0)()
    if version >> 24 != ABI:
        raise AttributeError(f"NumPy has the ABI {version:#x}.")
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(functions[SET_HANDLER] or 0)


def machine_memory() -> int:
    """Bytes of memory that this process may use at most, as far as the system says."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for place in CGROUPS:
        try:
            sizes.append(int(Path(place).read_text()))
        except (OSError, ValueError):  # there is none, or it is "max"
            continue
    return min(sizes)
