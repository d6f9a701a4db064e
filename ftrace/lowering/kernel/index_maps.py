"""Index maps: where in an array an element of a kernel's domain lies.

A coordinate is affine in one loop axis, with numbers that are known when a program is planned and
are run-time operands of its code; or it is `Gathered`, a computed number. An index has one
coordinate per array axis; coordinates on axes of size 1 are `ORIGIN`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ftrace.lowering.kernel.ir import Atom, KernelVar


class Coord(NamedTuple):
    """`scale * axis + offset`, or just `offset` where `axis` is None."""

    axis: KernelVar | None
    scale: int = 1
    offset: int = 0

    def shifted(self, by: int) -> "Coord":
        """The coordinate `by` elements on."""
        return Coord(self.axis, self.scale, self.offset + by)

    def scaled(self, by: int) -> "Coord":
        """The coordinate times a number."""
        return Coord(self.axis, self.scale * by, self.offset * by)

    def flipped(self, size: int) -> "Coord":
        """The coordinate counted from the other end of an axis."""
        return Coord(self.axis, -self.scale, size - 1 - self.offset)


class Gathered(NamedTuple):
    """A coordinate that was computed or loaded."""

    atom: Atom


Index = tuple[Coord | Gathered, ...]
ORIGIN = Coord(None, 0, 0)


def constant(k: int) -> Coord:
    """The coordinate of element k, wherever the loops are."""
    return Coord(None, 0, k)


def identity(index: Sequence[Any], axes: Sequence[KernelVar | None]) -> bool:
    """Whether an index is just these loop axes (None: an axis of size 1)."""
    return len(index) == len(axes) and all(
        type(c) is Coord and c.axis == a and (a is None or (c.scale, c.offset) == (1, 0))
        for c, a in zip(index, axes, strict=True)
    )


def placed(index: Index, place: Mapping[KernelVar, Coord]) -> Index:
    """An index with other coordinates in the place of its axes."""
    return tuple(
        place[c.axis].scaled(c.scale).shifted(c.offset)
        if type(c) is Coord and c.axis is not None
        else c
        for c in index
    )
