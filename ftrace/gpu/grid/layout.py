"""How loops fall on the grid, as values: what `mapping.py` chooses and `kernel_source.py` follows.

A kernel is run by *teams* of threads. The loops that its statements share are spread over teams
(`owners`); the loops inside them that are worth it over the threads of a team (`lanes`); all
others run one iteration after the other. A `GridLayout` holds everything that code depends on
beyond the kernel, and no sizes, so that one compiled function serves all sizes of a layout; a
`Geometry` holds what a launch needs beyond the code.
"""

from collections.abc import Sequence
from typing import Final

from ftrace.core.records import record
from ftrace.lowering.kernel.ir import PAIRS, Fold, Kernel

THREAD: Final = "thread"  # every thread is a team; the first owner lies along x, in vectors
WARP: Final = "warp"  # lanes of one warp take neighbouring iterations: all of them, or a part
BLOCK: Final = "block"  # so do the threads of a block
TILE: Final = "tile"  # threads of a block are, too, but read some buffers along the second owner
COLUMN: Final = "column"  # threads of a block with the same x, for one of neighbouring owners
WARP_LANES: Final = 32
BLOCK_THREADS: Final = 256  # of blocks that hold many teams
SMALL: Final = "unsigned"  # types of indices: all offsets lie below 2^31
SIGNED: Final = "int"  # all lie below 2^30 in size, some are negative
LARGE: Final = "long long"


@record
class GridLayout:
    """What code depends on beyond its kernel.

    Attributes:
        team: THREAD, TILE, WARP, BLOCK or COLUMN.
        owners: ids of the axes that are spread over teams; the first one varies fastest.
        lanes: ids of the axes that are spread over the threads of a team.
        threads: threads of a team; a power of two.
        across: neighbouring columns that a block takes, where teams are COLUMNs; threads of a
            block that read and write one row of a TILE.
        width: neighbouring iterations that a thread takes at once, of the first owner (THREAD) or
            of each lane loop.
        batch: iterations, an iteration apart, that a thread of a COLUMN takes at once.
        vectors: names of the buffers that are read and written in vectors of `width`.
        ragged: whether an extent may be no multiple of what is taken at once.
        index: type of offsets: SMALL, SIGNED or LARGE.
        joined: lane loops that stand for two, as ids of three variables: the loop's axis, and the
            quotient and remainder that its body starts with.
        split: blocks that share the iterations of a team's one loop, a power of two. If there is
            more than one, a second function combines what they leave in scratch memory.
        joint: threads of a team there.
        held: pieces of a row that each thread keeps in registers between the passes over it
            (holding.py); 0 if rows are read again.
        plain: whether threads add up so little that rounding errors need not be kept.
        same: buffers that see the same memory in the same steps as one before, with that one.
        tiles: buffers that are read in squares of the first two owners, along the second one
            (in vectors, if they are among those).
        side: of these squares.
    """

    team: str
    owners: tuple[int, ...] = ()
    lanes: tuple[int, ...] = ()
    threads: int = 1
    across: int = WARP_LANES
    width: int = 1
    batch: int = 1
    vectors: tuple[str, ...] = ()
    ragged: bool = False
    index: str = SMALL
    joined: tuple[tuple[int, int, int], ...] = ()
    split: int = 1
    joint: int = 1
    held: int = 0
    plain: bool = False
    same: tuple[tuple[str, str], ...] = ()
    tiles: tuple[str, ...] = ()
    side: int = 0


@record
class Geometry:
    """Grid and block of one launch; no grid where there is nothing to do."""

    grid: tuple[int, int, int] | None
    block: tuple[int, int, int]
    shared: int = 0


@record
class Mapped:
    """A kernel that has its place on the grid.

    Attributes:
        kernel: with its folds as the threads do them: `reference.run` gives the same bits.
        extra: words of the scalars that it has beyond those of the kernel that was mapped; they
            follow the others.
        layout: what the code depends on beyond it.
        stages: one per function.
        scratch: bytes for partial results between the stages.
    """

    kernel: Kernel
    layout: GridLayout
    stages: tuple[Geometry, ...]
    scratch: int = 0
    extra: tuple[int, ...] = ()


def parts(fold: Fold) -> int:
    """Values that an accumulator leaves: value and index, high and low, or one."""
    return 2 if fold.op in PAIRS or fold.block else 1


# --- for people

_TEAMS: Final = {
    THREAD: "one thread for each piece of work",
    TILE: "a block for each square of {side} by {side}, which it reads of {tiles}",
    WARP: "{threads} threads of a warp for each row",
    BLOCK: "a block of {threads} threads for each row",
    COLUMN: "{threads} threads for each column, {across} columns side by side",
}


def described(kernel: Kernel, layout: GridLayout, stages: Sequence[Geometry]) -> str:
    """A line that says how a kernel lies on the grid."""
    names = ", ".join(layout.tiles)
    parts = [
        _TEAMS[layout.team].format(
            threads=layout.threads, across=layout.across, side=layout.side, tiles=names
        )
    ]
    if layout.split > 1:
        parts.append(f"{layout.split} of them share it, a second function adds up")
    if layout.width > 1:
        parts.append(f"{layout.width} elements at once ({', '.join(layout.vectors)} as vectors)")
    if layout.held:
        parts.append("rows stay in registers")
    parts.append(f"{layout.index} indices")
    grids = [f"{_size(s.grid)} blocks of {_size(s.block)}" for s in stages if s.grid is not None]
    return f"{kernel.name}: {'; '.join(parts)}; {', then '.join(grids) or 'nothing to do'}"


def _size(three: tuple[int, int, int]) -> str:
    """The extents of a grid or block, without those that are 1 at its end."""
    x, y, z = three
    return f"{x}" if y == z == 1 else f"{x}x{y}" if z == 1 else f"{x}x{y}x{z}"
