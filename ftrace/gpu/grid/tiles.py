"""What a kernel reads along one axis and writes along another: tiles of both, in shared memory.

Where neighbours along the axis of the stores lie far apart in what is loaded, each of them costs a
transaction of its own. A block then reads a square of elements along the other axis, and writes
it along the first.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ftrace.core.records import record
from ftrace.gpu.grid.nests import Access
from ftrace.lowering.kernel.ir import Buffer, Lit, Load, Loop

NEAR: Final = 16  # bytes between neighbours that are read together
FAR: Final = 32  # bytes between neighbours that are not: a sector
LEAST: Final = 16  # iterations of both axes that are worth a tile
SIDE: Final = {1: 64, 2: 64}  # elements of a tile's side by their size, else:
WIDE: Final = 32
ROWS: Final = 8  # of threads


@record
class Tile:
    """What is read by tiles.

    Attributes:
        first, second: the loops along the stores, and along the loads.
        staged: the variables that hold what was read by tiles.
        side: elements of a tile along each loop.
        shared: bytes of shared memory.
    """

    first: Loop
    second: Loop
    staged: tuple[int, ...]
    side: int
    shared: int


def tile(
    owners: Sequence[Loop],
    accesses: Sequence[Access],
    buffers: Mapping[str, Buffer],
    steps: Mapping[str, Sequence[int]],
    sizes: Mapping[int, int],
) -> Tile | None:
    """The tile of a kernel, if it has something to read by tiles.

    Args:
        owners: the loops around everything.
        accesses: all loads and stores.
        buffers, steps: by their names.
        sizes: of the owners' axes, by id.
    """

    def apart(access: Access, loop: Loop) -> int:
        """Bytes between neighbours along a loop."""
        buffer = access.stmt.buffer
        found = sum(s for a, s in zip(access.stmt.at, steps[buffer], strict=True) if a == loop.axis)
        return abs(found) * _bytes(buffers[buffer])

    wide = [o for o in owners if sizes[o.axis.id] >= LEAST]
    stores = [a for a in accesses if not isinstance(a.stmt, Load)]
    along = [o for o in wide if all(0 < apart(a, o) <= NEAR for a in stores)]
    if not along or not stores:
        return None
    first = min(along, key=lambda o: max(apart(a, o) for a in stores))
    axes = {o.axis for o in owners}
    far = [
        a
        for a in accesses
        if isinstance(a.stmt, Load)
        and buffers[a.stmt.buffer].space == "in"
        and not a.guarded
        and axes.issuperset(loop.axis for loop in a.loops)
        and all(isinstance(x, Lit) or x in axes for x in a.stmt.at)
        and apart(a, first) >= FAR
    ]
    found = {o.axis.id: [a for a in far if 0 < apart(a, o) <= NEAR] for o in wide}
    second = max(wide, key=lambda o: len(found[o.axis.id]))
    staged = [a.stmt for a in found[second.axis.id] if isinstance(a.stmt, Load)]
    if not staged:
        return None
    widths = [_bytes(buffers[s.buffer]) for s in staged]
    side = SIDE.get(max(widths), WIDE)
    shared = sum(side * (side + pad(w)) * w for w in widths)
    return Tile(first, second, tuple(s.out.id for s in staged), side, shared)


def pad(size: int) -> int:
    """Elements of some bytes behind each row of a tile, so that a column lies in all banks."""
    return max(1, 4 // size)


def _bytes(buffer: Buffer) -> int:
    return int(buffer.dtype[1:])
