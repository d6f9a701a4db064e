"""The arena: one block of memory per call, in which places are free after their last use.

Places are planned when the program is, first fit, aligned for any vector. Nothing is ever moved.
"""

from typing import Final

ALIGNMENT: Final = 64


class Arena:
    """Plans offsets in a block; `size` is what the block must have."""

    __slots__ = ("_holes", "size")

    def __init__(self) -> None:
        self.size = 0
        self._holes: list[tuple[int, int]] = []  # (offset, bytes), sorted, never adjacent

    def take(self, wanted: int) -> int:
        """The offset of a free place."""
        wanted = _rounded(wanted)
        for i, (offset, free) in enumerate(self._holes):
            if free >= wanted:
                rest = [(offset + wanted, free - wanted)] if free > wanted else []
                self._holes[i : i + 1] = rest
                return offset
        offset = self.size
        if self._holes and sum(self._holes[-1]) == self.size:  # grow the last hole
            offset = self._holes.pop()[0]
        self.size = offset + wanted
        return offset

    def give(self, offset: int, used: int) -> None:
        """Free a place."""
        holes = sorted([*self._holes, (offset, _rounded(used))])
        merged: list[tuple[int, int]] = []
        for start, free in holes:
            if merged and sum(merged[-1]) == start:
                start, free = merged[-1][0], merged[-1][1] + free
                merged.pop()
            merged.append((start, free))
        self._holes = merged


def _rounded(n: int) -> int:
    return max(ALIGNMENT, -(-n // ALIGNMENT) * ALIGNMENT)
