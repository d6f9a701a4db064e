"""The way from Python into a compiled program: one native function that NumPy arrays are given to.

Reading `array.ctypes.data` takes longer than a small program runs. So arrays are handed over as
objects: a native function in the place of a builtin's checks that each is a plain, contiguous,
aligned array of the planned type and shape, takes its address from the object, and calls `main`.
Where the fields lie is NumPy's public struct; it is checked on sample arrays before use, and where
it does not hold NumPy is asked for addresses instead. The other direction is here too: `callback`
calls Python, and what Python raises leaves through the entry. The text is in entry_text.py.
"""

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.core.lazy import once
from ftrace.cpu.llvm.machine_code import Module, compile_module, host
from ftrace.cpu.runtime.entry_text import (
    API,
    CALL_BACK,
    NDARRAY,
    REJECTED,
    ArgumentLayout,
    callback_text,
    entry_text,
)
from ftrace.cpu.runtime.python_rows import call_back

STACK_SLOTS: Final = 4096
STACK_ARENA: Final = 4096
FASTCALL: Final = 0x80  # METH_FASTCALL

Enter = Callable[..., int]


class Item(NamedTuple):
    """An array that a program is given: its slot, and what it must be (None: made by ourselves)."""

    slot: int
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]


class Needs(NamedTuple):
    """What a program needs of its entry.

    Attributes:
        slots: their number.
        arena: bytes to take from the stack; None if the arena is given, behind the items: an
            array of bytes with 64 to spare.
        release: whether it may run so long that other threads should have the GIL. They may keep
            it for milliseconds, so that releasing it costs short programs dearly.
        python: whether it runs callbacks; else the first one asked for ends it.
    """

    slots: int
    arena: int | None
    release: bool
    python: bool


def bind(addresses: tuple[int, int], items: Sequence[Item], needs: Needs) -> Enter:
    """A function of arrays that runs a program.

    Args:
        addresses: of main and of the table; the caller keeps them alive.
        items: the arrays it takes, in order.
        needs: what else to prepare.

    Returns:
        A function that gives FINISHED, or REJECTED where an array is not what was planned, or
        FAILED where a callback is wanted that it does not run. What a callback raises, it raises.
    """
    native = _native()
    if native.make is None or needs.slots > STACK_SLOTS:
        return _portable(addresses, items, needs)
    given = len(items) + (needs.arena is None)
    callback = native.callback if needs.python else native.stop
    words = [*addresses, callback, given, needs.slots, needs.arena or 0, needs.release]
    for slot, dtype, shape in items:
        words += [slot, -1] if dtype is None else [slot, len(shape), id(dtype), *shape]
    return native.make(np.array([*words, -1], np.int64))


def _portable(addresses: tuple[int, int], items: Sequence[Item], needs: Needs) -> Enter:
    """The same with NumPy's own means, and with the GIL."""
    main = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)(addresses[0])
    slots, arena, _, python = needs
    callback = _native().callback if python else _native().stop

    def enter(*arrays: Any) -> int:
        if len(arrays) != len(items) + (arena is None):
            return REJECTED
        words = np.zeros(slots + 2, np.uintp)
        bases = words[1:]
        for item, array in zip(items, arrays, strict=False):
            if item.dtype is not None and not _is_plain(array, item):
                return REJECTED
            bases[item.slot] = array.ctypes.data
        block = arrays[-1] if arena is None else np.empty(arena + 64, np.uint8)
        bases[slots] = -(-block.ctypes.data // 64) * 64
        return main(bases.ctypes.data, addresses[1], callback)

    return enter


def _is_plain(array: Any, item: Item) -> bool:
    return (
        type(array) is np.ndarray
        and array.dtype is item.dtype
        and array.shape == item.shape
        and array.flags.c_contiguous
        and array.flags.aligned
    )


class _Native:
    """Compiled code of this process, and what makes builtins of it."""

    def __init__(self, layout: ArgumentLayout | None) -> None:
        api = ctypes.pythonapi
        symbols = {n: ctypes.cast(getattr(api, n), ctypes.c_void_p).value or 0 for n in API}
        symbols |= {CALL_BACK: id(call_back), NDARRAY: id(np.ndarray)}
        text = callback_text() + (entry_text(layout) if layout else "")
        self._module: Module = compile_module(text, symbols, host())
        self.callback = self._module.address("callback")
        self.stop = self._module.address("stop")
        self.make: Callable[[np.ndarray[Any, Any]], Enter] | None = None
        if layout is None:
            return
        name = ctypes.create_string_buffer(b"enter")
        method = _MethodDef(ctypes.addressof(name), self._module.address("enter"), FASTCALL, None)
        prototype = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
        )
        new: Any = prototype(("PyCFunction_NewEx", api))
        self._kept = (name, method)  # builtins point into them
        self.make = lambda plan: new(ctypes.addressof(method), plan, None)


class _MethodDef(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_void_p),
    )


@once
def _native() -> _Native:
    """The entry of this process: never freed, since builtins point into it."""
    return _Native(measure())


# --- where fields lie


def measure() -> ArgumentLayout | None:
    """The layout of array objects, or None where it is not the one we know."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    head = object.__basicsize__
    layout = ArgumentLayout(head - 8, head, head + 8, head + 16, head + 40, head + 48)
    if np.ndarray.__basicsize__ < layout.flags + 4:
        return None
    grid = np.zeros((3, 5, 7), np.float32)
    bytes_ = np.zeros(17, np.uint8)
    samples = [grid, grid[:, 1:, ::2], grid.T, np.zeros(()), np.zeros((0, 4), np.int16)]
    samples += [bytes_, bytes_[1:].view(np.int64), np.asfortranarray(grid), np.array([1j])]
    return layout if all(_fits(layout, a) for a in samples) else None


def _fits(layout: ArgumentLayout, array: np.ndarray[Any, Any]) -> bool:
    """Whether the fields of an array are where the layout says; pointers are followed last."""
    base = id(array)

    def word(offset: int) -> int:
        return ctypes.c_int64.from_address(base + offset).value

    def half(offset: int) -> int:
        return ctypes.c_int32.from_address(base + offset).value

    plain = (
        word(layout.kind) == id(np.ndarray)
        and word(layout.data) == array.ctypes.data
        and word(layout.descr) == id(array.dtype)
        and half(layout.ndim) == array.ndim
        and half(layout.flags) == array.flags.num
    )
    if not plain:
        return False
    shape = (ctypes.c_int64 * array.ndim).from_address(word(layout.shape)) if array.ndim else ()
    return tuple(shape) == array.shape
