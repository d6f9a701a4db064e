"""Tapes that leave a program and enter another: blocks of native code as Python's values.

A tape of arrays becomes an array that shows its block; a tape of tapes a `Ragged` whose items are
looked up when somebody asks for them: a program that takes it only needs the address. The block
is freed with the last of these views. How a block lies in memory is said in native_tapes.py.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import finalize

import numpy as np

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.lazy import once
from ftrace.core.tapes import Ragged, levels
from ftrace.cpu.llvm.machine_code import Module, compile_module, host
from ftrace.cpu.runtime import native_tapes

ADDRESS: Final = np.dtype(np.uintp)


class TapeBlock(Sequence[Any]):
    """A block as the sequence of its items; `root` is the block that it hangs on, if it does."""

    __slots__ = ("__weakref__", "_address", "_aval", "_root")

    def __init__(self, address: int, a: ShapedArray, root: "TapeBlock | None" = None) -> None:
        self._address, self._aval, self._root = address, a, root

    def __len__(self) -> int:
        if not self._address:
            return 0
        return ctypes.c_int64.from_address(self._address - 8).value

    def __getitem__(self, i: Any) -> Any:
        element = aval(self._aval.shape[1:], self._aval.dtype)
        root = self if self._root is None else self._root
        return TapeBlock(int(np.asarray(self)[i]), element, root).value()

    def value(self) -> Any:
        """The tape: an array, or `Ragged`."""
        if levels(self._aval) == 1:
            return np.asarray(self)
        return Ragged(self, aval(self._aval.shape[1:], self._aval.dtype))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The elements; those of a stack of tapes are addresses."""
        a = self._aval
        shape, dtype = (a.shape[1:], a.dtype) if levels(a) == 1 else ((), ADDRESS)
        data = (self._address or _NOWHERE.ctypes.data + native_tapes.HEAD, False)
        return {"version": 3, "shape": (len(self), *shape), "typestr": dtype.str, "data": data}


_NOWHERE: Final = np.zeros(3, np.int64)  # a block of no elements


def taken(address: int, a: ShapedArray) -> Any:
    """What a program gave away, as a value that frees it."""
    block = TapeBlock(address, a)
    if address:
        finalize(block, _free(), address, levels(a) - 1).atexit = False
    return block.value()


def given(value: Any, a: ShapedArray) -> tuple[Any, Any]:
    """A tape as native code reads it.

    Returns:
        An array that begins where the elements of a block do, and what must live as long as it.
    """
    base = value.items if isinstance(value, Ragged) else value.base
    if isinstance(base, TapeBlock):
        return np.asarray(base), base
    kept = None
    if levels(a) > 1:
        element = aval(a.shape[1:], a.dtype)
        kept = [given(item, element) for item in value]
        starts = [array.__array_interface__["data"][0] for array, _ in kept]
        elements = np.array(starts, ADDRESS)
    else:
        elements = np.ascontiguousarray(value, a.dtype)
    # one word more: an array of no elements has no address to rely on
    words = np.empty(native_tapes.HEAD // 8 + elements.nbytes // 8 + 1, np.int64)
    block = words[native_tapes.HEAD // 8 :]
    words[: native_tapes.HEAD // 8] = len(elements)
    block.view(np.uint8)[: elements.nbytes] = elements.reshape(-1).view(np.uint8)
    return block, kept


@once
def _free() -> Callable[[int, int], None]:
    """Frees a block, and what hangs on it so many levels deep."""
    module = compile_module(native_tapes.RUNTIME, native_tapes.symbols(), host())
    function = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(
        module.address(native_tapes.DROP)
    )

    def free(address: int, depth: int, _kept: Module = module) -> None:
        function(address, depth)

    return free
