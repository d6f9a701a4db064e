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

from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

from ftrace.core.records import record
from ftrace.gpu.eager.running_source import SHORT, TILES, Joining, joining, source
from ftrace.gpu.runtime.copying import contiguous
from ftrace.gpu.runtime.current_device import current
from ftrace.gpu.runtime.device_interface import Device

WARP: Final = 32
THREADS: Final = 256  # of a block of short lines
MOST: Final = 512  # of a block of one tile
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


def accumulated(kind: str, x: Any, axis: int, reverse: bool) -> Any:
    """All prefixes along an axis, joined.

    Args:
        kind: "add", "mul", "max", "min" or "logaddexp".
        x: an array of a device.
        axis: along which.
        reverse: whether they are suffixes.
    """
    device = current(x)
    if not x.flags.c_contiguous:
        x = contiguous(x, device)
    out = device.empty(x.shape, x.dtype)
    if not x.size:
        return out
    count, inner = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
    _run(device, joining(kind, x.dtype), (x, out), (count * inner, x.shape[axis], inner), reverse)
    return out


def _run(
    device: Device, how: Joining, arrays: tuple[Any, Any], sizes: tuple[int, int, int], back: bool
) -> None:
    lines, n, inner = sizes
    size = arrays[0].dtype.itemsize
    plan = along(n, size, how.bytes) if inner == 1 else across(n, lines, how.bytes)
    pointers = list(map(device.pointer, arrays))
    aligned = inner == 1 and n % plan.pack == 0 and not any(p % VECTOR for p in pointers)
    tiles = 1 if plan.short else -(-n // plan.length)
    function = _function(device, how, plan, (back, aligned, inner > 1, tiles == 1))
    if plan.short:
        blocks = -(-lines // (plan.threads // plan.lanes))
        words = [*pointers, n, lines]
        device.launch(function, (blocks, 1, 1), (plan.threads, 1, 1), 0, words)
        return
    blocks = tiles * -(-lines // plan.across)
    block = (plan.across, plan.threads // plan.across, 1) if inner > 1 else (plan.threads, 1, 1)
    words = [*pointers, n, lines, inner, tiles]
    if tiles == 1:
        device.launch(function, (blocks, 1, 1), block, 0, [*words, 0, 0])
        return
    groups = -(-tiles // (plan.threads // plan.across * plan.reach))
    cells = lines * (tiles + groups)
    states = device.empty((cells * how.bytes,), np.uint8)
    flags = device.empty((1 + cells,), np.uint32)
    _clear(device, flags)
    words += [device.pointer(states), device.pointer(flags)]
    device.launch(function, (blocks, 1, 1), block, 0, words)


def _clear(device: Device, flags: Any) -> None:
    blocks = min(-(-flags.size // THREADS), 1024)
    words = [device.pointer(flags), flags.size]
    device.launch(_clearing(device), (blocks, 1, 1), (THREADS, 1, 1), 0, words)


def along(n: int, size: int, state: int) -> Tiling:
    """A plan for lines whose elements are neighbours in memory.

    Args:
        n: elements of a line.
        size, state: bytes of an element, and of what is joined.
    """
    pack = VECTOR // size
    packs = max(1, _held(state) // pack)
    if n <= 2 * WARP * pack * packs:
        lanes = min(WARP, _up(-(-n // pack)))
        return Tiling(True, lanes, pack, min(packs, -(-n // (lanes * pack))), THREADS)
    threads = min(MOST, _up(-(-n // (pack * packs))))
    return Tiling(False, WARP, pack, packs, threads, length=threads * pack * packs)


def across(n: int, lines: int, state: int) -> Tiling:
    """A plan for lines of which neighbours lie side by side in memory."""
    held = min(_held(state), _up(n))
    deep = min(NARROW if lines >= WARP else DEEP, _up(-(-n // held)))
    wide = min(_up(lines), max(WARP, THREADS // deep))
    reach = max(1, GROUP // deep)
    return Tiling(False, 1, held, 1, deep * wide, wide, reach, deep * held)


def _held(state: int) -> int:
    """Elements that a thread has in registers."""
    return 16 if state <= 8 else 8


def _up(n: int) -> int:
    """The least power of two that is no smaller."""
    return 1 << max(n - 1, 0).bit_length()


@lru_cache(maxsize=1024)
def _function(
    device: Device, how: Joining, plan: Tiling, flags: tuple[bool, bool, bool, bool]
) -> Any:
    name = SHORT if plan.short else TILES
    return device.compile(source(how, plan, *flags), (name,))[name]


@lru_cache(maxsize=64)
def _clearing(device: Device) -> Any:
    return device.compile(CLEAR, ("clear",))["clear"]


CLEAR: Final = """
template <int N> struct Words { long long w[N]; };
extern "C" __global__ void __launch_bounds__(256) clear(const Words<2> a) {
  for (long long i = blockIdx.x * 256LL + threadIdx.x; i < a.w[1]; i += gridDim.x * 256LL)
    ((unsigned*)a.w[0])[i] = 0;
}
"""
