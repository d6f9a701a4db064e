"""Running sums, products, extrema and logs of sums of exponentials: kernels that read once.

An array is *lines* of one length. A line is cut into tiles; a block of threads takes a tile of one
line whose elements are neighbours, or of neighbouring lines whose elements are not. A tile tells
what it adds up to, and *looks back*: it joins the tiles before it, back to the last whole group of
tiles, whose end the last tile of a group tells. Tiles are numbered in the order in which blocks
start, so that a block waits for such as run already. Lines of a few hundred elements have some
lanes of a warp each, and need none of that.

What is joined with what depends on dtype and sizes, and on nothing else: a sum has the same bits
at every run and on every device. An element is joined with those before it in its thread; what
lanes have is joined by pairs; then come rounds of a warp, warps, tiles and groups, one after the
other. Sums of float16 are float32 until they are stored.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ftrace.core.records import record
from ftrace.gpu.handwritten.launch_protocol import Launching
from ftrace.gpu.handwritten.running_source import SHORT, TILES, Joining, joining, source

Triple = tuple[int, int, int]
Started = tuple[Any, Triple, Triple, tuple[Any, ...]]  # function, grid, block, words
OPERATIONS: Final = ("add", "mul", "max", "min", "logaddexp")
WARP: Final = 32
THREADS: Final = 256  # of a block of short lines
MOST: Final = 512  # of a block of one tile; twice as many of small states, as NARROW
VECTOR: Final = 16  # bytes that a thread reads at once
DEEP: Final = 64  # threads that share the tile of a line across memory
NARROW: Final = 16  # such threads where lines fill warps
GROUP: Final = 128  # tiles of a group, of lines across memory


@record
class Tiling:
    """How lines fall on threads, in tiles.

    Attributes:
        short: whether a few lanes have a line.
        lanes: threads side by side that share what they read at once.
        pack: neighbours that a thread has.
        packs: how many such; a thread's elements are lanes * pack apart.
        threads: of a block.
        across: neighbouring lines of a block.
        reach: tiles before that one thread joins.
        length: elements of a line in a tile.
    """

    short: bool
    lanes: int
    pack: int
    packs: int
    threads: int
    across: int = 1
    reach: int = 1
    length: int = 0


class PrefixScan:
    """What joins all prefixes of the lines of an array.

    Args:
        device: where it is.
        operation: what joins two elements, one of `OPERATIONS`.
        dtype: of the elements.
        sizes: the number of lines, elements of a line, and how far apart these lie.
        reverse: whether prefixes are suffixes.
    """

    def __init__(
        self,
        device: Launching,
        operation: str,
        dtype: np.dtype[Any],
        sizes: tuple[int, int, int],
        reverse: bool,
    ) -> None:
        lines, n, inner = sizes
        how = joining(operation, dtype)
        size = dtype.itemsize
        tiling = along(n, size, how.bytes) if inner == 1 else across(n, lines, how.bytes)
        tiles = 1 if tiling.short else -(-n // tiling.length)
        groups = -(-tiles // (tiling.threads // tiling.across * tiling.reach))
        self._device, self._how, self._tiling, self._reverse = device, how, tiling, reverse
        self._sizes = (n, lines) if tiling.short else (n, lines, inner, tiles)
        self._vectors = inner == 1 and n % tiling.pack == 0
        self._forms = (inner > 1, tiles == 1)
        self._cells = 0 if tiles == 1 else lines * (tiles + groups)
        high = tiling.threads // tiling.across if inner > 1 else 1
        self._block = (tiling.threads // high, high, 1)
        teams = tiling.threads // tiling.lanes if tiling.short else tiling.across
        self._grid = (tiles * -(-lines // teams), 1, 1)
        if lines * n:
            self._function(self._vectors)

    @property
    def room(self) -> int:
        """Bytes of the scratch memory."""
        return self._states() + 4 * (1 + self._cells) if self._cells else 0

    def _states(self) -> int:
        """Bytes of what tiles have, before the flags that say so."""
        return -(-self._cells * self._how.bytes // VECTOR) * VECTOR

    def __call__(self, x: int, out: int) -> None:
        """Join; the arrays, given by their addresses, are contiguous."""
        scratch = self._device.empty((self.room,), np.uint8) if self.room else None
        states = 0 if scratch is None else self._device.pointer(scratch)
        launches = self.launches((x, out), states, aligned=not (x | out) % VECTOR)
        for function, grid, block, words in launches:
            self._device.launch(function, grid, block, 0, words)

    def launches(self, arrays: Sequence[Any], states: Any, *, aligned: bool) -> list[Started]:
        """What is launched.

        Args:
            arrays: addresses, or what stands for them, of the array and the result.
            states: that of the scratch memory.
            aligned: whether both arrays begin on a multiple of `VECTOR`.
        """
        if not self._grid[0] * self._sizes[0]:
            return []
        function = self._function(self._vectors and aligned)
        words = (*arrays, *self._sizes)
        if self._tiling.short:
            return [(function, self._grid, self._block, words)]
        if not self._cells:
            return [(function, self._grid, self._block, (*words, 0, 0))]
        flags, size = states + self._states(), 1 + self._cells
        blocks = min(-(-size // THREADS), 1024)
        return [
            (_clearing(self._device), (blocks, 1, 1), (THREADS, 1, 1), (flags, size)),
            (function, self._grid, self._block, (*words, states, flags)),
        ]

    def _function(self, aligned: bool) -> Any:
        forms = (self._reverse, aligned, *self._forms)
        return _function(self._device, self._how, self._tiling, forms)


def along(n: int, size: int, state: int) -> Tiling:
    """A plan for lines whose elements are neighbours in memory.

    Args:
        n: elements of a line.
        size, state: bytes of an element, and of what is joined.
    """
    pack = VECTOR // size
    packs = max(1, min(_held(state), 16) // pack)
    if n <= 2 * WARP * pack * packs:
        lanes = min(WARP, _up(-(-n // pack)))
        return Tiling(True, lanes, pack, min(packs, -(-n // (lanes * pack))), THREADS)
    packs = max(1, _held(state) // pack)
    threads = min(MOST * (2 if state <= 4 else 1), _up(-(-n // (pack * packs))))
    return Tiling(False, WARP, pack, packs, threads, length=threads * pack * packs)


def across(n: int, lines: int, state: int) -> Tiling:
    """A plan for lines of which neighbours lie side by side in memory."""
    held = min(_held(state), _up(n))
    narrow = NARROW * (2 if state <= 4 else 1)
    deep = min(narrow if lines >= WARP else DEEP, _up(-(-n // held)))
    wide = min(_up(lines), max(WARP, THREADS // deep))
    reach = max(1, GROUP // deep)
    return Tiling(False, 1, held, 1, deep * wide, wide, reach, deep * held)


def _held(state: int) -> int:
    """Elements that a thread has in registers."""
    return 32 if state <= 4 else 16 if state <= 8 else 8


def _up(n: int) -> int:
    """The least power of two that is no smaller."""
    return 1 << max(n - 1, 0).bit_length()


@lru_cache(maxsize=1024)
def _function(
    device: Launching, how: Joining, plan: Tiling, flags: tuple[bool, bool, bool, bool]
) -> Any:
    name = SHORT if plan.short else TILES
    return device.compile(source(how, plan, *flags), (name,))[name]


@lru_cache(maxsize=64)
def _clearing(device: Launching) -> Any:
    return device.compile(CLEAR, ("clear",))["clear"]


CLEAR: Final = """
template <int N> struct Words { long long w[N]; };
extern "C" __global__ void __launch_bounds__(256) clear(const Words<2> a) {
  for (long long i = blockIdx.x * 256LL + threadIdx.x; i < a.w[1]; i += gridDim.x * 256LL)
    ((unsigned*)a.w[0])[i] = 0;
}
"""
