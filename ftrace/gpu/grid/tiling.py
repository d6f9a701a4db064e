"""Tiles: squares of two axes that a block reads along one of them and writes along the other.

Where an array is stored along one axis and another one lies along a second, threads that are
neighbours in one are far apart in the other. A block then reads a square of the second array row
by row into shared memory, and goes on from there: all traffic is in rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ftrace.gpu.grid.nests import Access
from ftrace.lowering.kernel.ir import Atom, Buffer, KernelVar, Load, Loop, Store

ROW_BYTES: Final = 128  # of a tile, which neighbouring threads read at once
NEAR: Final = 16  # bytes between neighbours that one request still serves
APART: Final = 32  # bytes between neighbours that need a request each
LEAST: Final = 16  # iterations of both axes
ROWS: Final = 32  # of a tile, at least


@dataclass(frozen=True, eq=False)
class Plane:
    """The axis that is stored along, the axis that is read along, and the buffers that are."""

    first: Loop
    second: Loop
    buffers: tuple[str, ...]


def plane(
    owners: Sequence[Loop],
    accesses: Sequence[Access],
    buffers: Mapping[str, Buffer],
    steps: Mapping[str, Sequence[int]],
    size: Callable[[Atom], int],
) -> Plane | None:
    """Two axes of a kernel whose squares are worth reading as tiles, if there are any.

    Args:
        owners: loops whose iterations are independent of each other.
        accesses: every access of the kernel.
        buffers: by name.
        steps: the numbers of their steps, by name.
        size: the number of a loop's extent.
    """
    long = [o for o in owners if size(o.extent) >= LEAST]
    near = [(a, _near(a, long, buffers, steps)) for a in accesses]
    stored = [loop for a, loop in near if isinstance(a.stmt, Store) and loop is not None]
    if not stored:
        return None
    first = max(stored, key=lambda loop: sum(loop is other for other in stored))
    votes: dict[int, list[str]] = {}
    for access, second in near:
        name = access.stmt.buffer
        if second is None or not _tiled(access, owners, buffers[name]):
            continue
        apart = _step(access, first, steps) * _bytes(buffers[name]) >= APART
        alike = all(a.stmt.at == access.stmt.at for a in accesses if a.stmt.buffer == name)
        if apart and alike:
            names = votes.setdefault(long.index(second), [])
            names += [name] if name not in names else []
    if not votes:
        return None
    second = max(votes, key=lambda k: len(votes[k]))
    return Plane(first, long[second], tuple(votes[second]))


def side(size: int) -> int:
    """The side of tiles of elements of a size: whole rows, and as many as threads take."""
    return max(ROW_BYTES // size, ROWS)


def _near(
    access: Access,
    loops: Sequence[Loop],
    buffers: Mapping[str, Buffer],
    steps: Mapping[str, Sequence[int]],
) -> Loop | None:
    """The loop along which an access goes through neighbours."""
    along = [o for o in loops if _step(access, o, steps)]
    if not along:
        return None
    best = min(along, key=lambda o: _step(access, o, steps))
    near = _step(access, best, steps) * _bytes(buffers[access.stmt.buffer]) <= NEAR
    return best if near else None


def _step(access: Access, loop: Loop, steps: Mapping[str, Sequence[int]]) -> int:
    """How far neighbours along a loop lie apart."""
    pairs = zip(access.stmt.at, steps[access.stmt.buffer], strict=True)
    return abs(sum(step for atom, step in pairs if atom == loop.axis))


def _tiled(access: Access, owners: Sequence[Loop], buffer: Buffer) -> bool:
    """Whether it is a load that may come before anything else, at a place that owners know."""
    if not isinstance(access.stmt, Load) or access.guarded or buffer.space != "in":
        return False
    known = {o.axis for o in owners}
    return all(a in known for a in access.stmt.at if isinstance(a, KernelVar))


def _bytes(buffer: Buffer) -> int:
    return int(buffer.dtype[1:])
