"""Tiles of a kernel's plane: read along one axis into shared memory, used along the other.

Elements of a row lie there in another order for each row: threads that go along a row and threads
that go along a column meet all banks of the memory. Beyond the ends of an axis, a tile repeats
the last elements, so that nothing that reads it needs to know where the array ends.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

from ftrace.gpu.emit import cuda_spelling
from ftrace.gpu.emit.coordinates import bind, coordinates, product
from ftrace.gpu.emit.regions import elements
from ftrace.gpu.emit.writer import Writer
from ftrace.gpu.grid.layout import BLOCK_THREADS
from ftrace.gpu.grid.tiling import ROW_BYTES
from ftrace.lowering.kernel.ir import Block, Load, Loop, Stmt
from ftrace.lowering.kernel.traversal import inside

TOGETHER: Final = 4  # reads of a thread that are under way at once
PLACE: Final = """\
template <unsigned SIDE, unsigned WIDTH, unsigned SIZE>
inline unsigned tile_place(unsigned row, unsigned column) {
  constexpr unsigned bank = SIZE > 4 ? SIZE : 4, banks = 128 / bank;
  constexpr unsigned each = WIDTH * SIZE > bank ? WIDTH * SIZE / bank : 1;
  const unsigned turned = (row / WIDTH * each + row % each) % banks;
  return row * SIDE + (column ^ turned * (bank / SIZE));
}
"""  # of an element of `SIZE` bytes, in tiles whose threads take `WIDTH` neighbours each


def tiled(w: Writer, stmts: Sequence[Stmt], owners: Sequence[Loop]) -> None:
    """Write the body of a kernel for every tile of the first two owners."""
    first, second, *rows = owners
    index, side, f, s = w.layout.index, w.layout.side, first.axis.id, second.axis.id
    loads = _loads(w, stmts)
    for number, load in enumerate(loads):
        w.line(f"__shared__ {_memory(w, load)} t{number}[{side**2}];")
    w.line(f"const {index} a{f} = ({index})blockIdx.x * {side};")
    w.line(f"const {index} tiles = ({w.count(second.extent)} + {side - 1}) / {side};")
    count = f"tiles * {product(w, rows)}" if rows else "tiles"
    with w.braces(f"for ({index} row = blockIdx.y; row < {count}; row += gridDim.y)"):
        if rows:
            w.line(f"const {index} rest = row / tiles;")
            coordinates(w, rows, "rest")
            bind(w, rows)
        w.line(f"const {index} a{s} = {'(row - rest * tiles)' if rows else 'row'} * {side};")
        for number, load in enumerate(loads):
            _fill(w, number, load, first, second)
        w.line("__syncthreads();")
        _use(w, stmts, first, second, [load.buffer for load in loads])
        w.line("__syncthreads();")


def _loads(w: Writer, stmts: Sequence[Stmt]) -> list[Load]:
    """One load of each tile."""
    found = [s for s in inside(Block(tuple(stmts))) if isinstance(s, Load)]
    return list({load.buffer: load for load in found if load.buffer in w.layout.tiles}.values())


def _fill(w: Writer, number: int, load: Load, first: Loop, second: Loop) -> None:
    """Read a tile: rows of the second axis, all of a thread's elements before any is stored."""
    width, f, s = w.layout.width, first.axis.id, second.axis.id
    pack = f"Pack<{_memory(w, load)}, {width}>"
    with _groups(w):
        w.line(f"{pack} r{number}[{_together(w)}];")
        with _passes(w, s, f), w.inside(first.axis):
            _clamped(w, f"i{f}", f"a{f} + l{f}", f"{w.count(first.extent)} - 1")
            if width > 1 and load.buffer in w.layout.vectors:  # the extent is a multiple of it
                _clamped(w, f"b{s}", f"a{s} + l{s}", f"{w.count(second.extent)} - {width}")
                w.line(f"r{number}[c] = *(const {pack}*)&{w.place(load, s)};")
            else:
                with w.unrolled(width) as e, w.inside(second.axis):
                    at = f"a{s} + l{s} + e" if e else f"a{s} + l{s}"
                    _clamped(w, f"i{s}", at, f"{w.count(second.extent)} - 1")
                    w.line(f"r{number}[c].v[{'e' if e else 0}] = {w.place(load)};")
        with _passes(w, s, f), w.unrolled(width) as e:
            place = _place(w, number, f"l{f}", f"l{s} + e" if e else f"l{s}")
            w.line(f"{place} = r{number}[c].v[{'e' if e else 0}];")


def _clamped(w: Writer, name: str, at: str, last: str) -> None:
    w.line(f"const {w.layout.index} {name} = {at} < {last} ? {at} : {last};")


def _use(
    w: Writer, stmts: Sequence[Stmt], first: Loop, second: Loop, buffers: Sequence[str]
) -> None:
    """Do the kernel's work in rows of the first axis."""
    f, s = first.axis.id, second.axis.id
    for load in inside(Block(tuple(stmts))):
        if isinstance(load, Load) and load.buffer in buffers:
            row = f"l{f} + e" if w.layout.width > 1 else f"l{f}"
            number = buffers.index(load.buffer)
            w.tiled[id(load)] = _place(w, number, row, f"l{s}")
    with _groups(w), _passes(w, f, s):
        w.line(f"const {w.layout.index} b{f} = a{f} + l{f}, i{s} = a{s} + l{s};")
        bind(w, [second])
        exists = f"b{f} < {w.count(first.extent)} && i{s} < {w.count(second.extent)}"
        with w.braces(f"if ({exists})"):
            elements(w, first, stmts)


@contextmanager
def _groups(w: Writer) -> Generator[None]:
    """A loop over what a thread takes of a tile, in groups of passes that are under way at once."""
    w.line("#pragma unroll 1")
    with w.braces(f"for (unsigned g = 0; g < {_count(w)}; g += {_together(w)})"):
        yield


@contextmanager
def _passes(w: Writer, along: int, across: int) -> Generator[None]:
    """A loop over a group; `l` of both axes are the places in the tile."""
    width, index = w.layout.width, w.layout.index
    reach, down = w.layout.across * width, BLOCK_THREADS // w.layout.across
    each = w.layout.side // reach
    w.line("#pragma unroll")
    with w.braces(f"for (unsigned c = 0; c < {_together(w)}; ++c)"):
        w.line(f"const {index} l{along} = (g + c) % {each} * {reach} + threadIdx.x * {width};")
        w.line(f"const {index} l{across} = (g + c) / {each} * {down} + threadIdx.y;")
        yield


def _count(w: Writer) -> int:
    """How often a thread takes neighbours of a tile."""
    return w.layout.side**2 // (BLOCK_THREADS * w.layout.width)


def _together(w: Writer) -> int:
    return min(TOGETHER, _count(w))


def _memory(w: Writer, load: Load) -> str:
    return cuda_spelling.MEMORY[w.buffers[load.buffer][0].dtype]


def _place(w: Writer, number: int, row: str, column: str) -> str:
    """An element of a tile; the order is that of the kernel's largest elements."""
    size = ROW_BYTES // (w.layout.width * w.layout.across)
    return f"t{number}[tile_place<{w.layout.side}, {w.layout.width}, {size}>({row}, {column})]"
