"""Host memory for `cupy.ndarray`s: where it lies, what it holds before it is written.

An array lies in plain memory, or against a guard page that may not be touched: behind it (`end`,
to the byte; `vector_end`, to the vector of 16 bytes, so that vectorised code runs too) or before
it (`start`). What the guard page leaves uncovered is *canary*: a write there is found afterwards.
New memory is poisoned: 0x7fff in every half word is NaN for all floats and a large integer.
"""

import ctypes
import itertools
import mmap
import weakref
from typing import Any, Final

import numpy as np

PLACES: Final = ("plain", "start", "end", "vector_end")
ALIGNMENT: Final = 512  # CuPy's
VECTOR: Final = 16
PAGE: Final = mmap.PAGESIZE
_POISON: Final = np.full(1 << 16, 0x7FFF, "<u2").tobytes()
_canaries = itertools.count(0xC5, 37)  # another byte for each block: a copied one is found too

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_PROT_NONE: Final = 0


class Block:
    """Bytes that one array owns."""

    __slots__ = ("__weakref__", "_around", "_owner", "address", "size")

    def __init__(self, size: int, place: str) -> None:
        self.size = size
        if place == "plain":
            self._owner: Any = np.empty(size + ALIGNMENT, np.uint8)
            self._around: tuple[tuple[int, bytes], ...] = ()
            start = self._owner.ctypes.data
            self.address = start + -start % ALIGNMENT
        else:
            self._guarded(place)
        for at in range(0, size, len(_POISON)):
            ctypes.memmove(self.address + at, _POISON, min(size - at, len(_POISON)))

    def _guarded(self, place: str) -> None:
        middle = max(-(-self.size // PAGE), 1) * PAGE
        self._owner = mmap.mmap(-1, middle + 2 * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        first = np.frombuffer(self._owner, np.uint8).ctypes.data
        for guard in (first, first + PAGE + middle):
            if _libc.mprotect(guard, PAGE, _PROT_NONE) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")
        last = middle - self.size
        before = {"start": 0, "end": last, "vector_end": last - last % VECTOR}[place]
        self.address = first + PAGE + before
        canary = bytes([next(_canaries) % 256])
        behind = self.address + self.size
        self._around = ((first + PAGE, canary * before), (behind, canary * (last - before)))
        for address, content in self._around:
            ctypes.memmove(address, content, len(content))

    def contents(self) -> bytes:
        return ctypes.string_at(self.address, self.size)

    def is_intact(self) -> bool:
        """Whether nothing was written beside the array."""
        return all(ctypes.string_at(at, len(part)) == part for at, part in self._around)

    def __repr__(self) -> str:
        return f"{self.size} bytes at {self.address:#x}"


class Memory:
    """All living blocks, and CuPy's allocator over them."""

    def __init__(self, place: str = "plain") -> None:
        assert place in PLACES, place
        self.place = place
        self.blocks: weakref.WeakSet[Block] = weakref.WeakSet()

    def allocate(self, size: int) -> Any:
        """CuPy's allocator: a `cupy.cuda.MemoryPointer` to new poisoned memory."""
        from cupy.cuda import MemoryPointer, UnownedMemory

        block = Block(size, self.place)
        self.blocks.add(block)
        return MemoryPointer(UnownedMemory(block.address, size, block, 0), 0)

    def around(self, address: int) -> str:
        """Which block is nearest to an address, in words."""
        if not self.blocks:
            return "There is no array."
        block = min(self.blocks, key=lambda b: _distance(b, address))
        distance = _distance(block, address)
        if not distance:
            return f"It lies inside an array of {block}."
        where = "before" if address < block.address else "behind"
        return f"That is {distance} bytes {where} an array of {block}."


def _distance(block: Block, address: int) -> int:
    """Bytes from a block to the address; the first byte behind it is 1 away."""
    if address < block.address:
        return block.address - address
    return max(address - (block.address + block.size) + 1, 0)


class _Interface:
    def __init__(self, address: int, shape: Any, dtype: Any, strides: Any) -> None:
        self.__array_interface__ = {
            "data": (address, False),
            "shape": tuple(shape),
            "typestr": np.dtype(dtype).str,
            "strides": strides,
            "version": 3,
        }


def view(address: int, shape: Any, dtype: Any, strides: Any = None) -> Any:
    """Memory as a NumPy array; the caller keeps it alive."""
    return np.asarray(_Interface(address, shape, dtype, strides))


def host_view(array: Any) -> Any:
    """A `cupy.ndarray` over host memory as the NumPy array of the same elements."""
    interface = _Interface(array.data.ptr, array.shape, array.dtype, array.strides)
    found = np.asarray(interface)
    interface.keep = array  # numpy holds the interface, which holds the array
    return found
