"""Where the slots of a program lie during one call.

Steps work with addresses. Arrays stand behind them so that memory lives as long as it is used, and
are made only where somebody outside asks for one: rows that CuPy does, and results. A tape grows
by doubling; a tape of tapes is a list.
"""

from collections.abc import Sequence
from typing import Any

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.tapes import Ragged, is_tape, levels
from ftrace.gpu.runtime.device_interface import Device
from ftrace.lowering.program.program import Slot


class Memory:
    """The slots of a running call.

    Attributes:
        device: where they are.
        addresses: the bases of its words (bases.py): those of slots come first.
        arrays: per slot what keeps its memory, if that is its own: an array, or a list of tapes.
        lengths: the lengths of tapes, by slot.
        stream, captured: as `Device.order` says.
        arena: the memory of all others.
    """

    __slots__ = (
        "_slots",
        "addresses",
        "arena",
        "arrays",
        "captured",
        "device",
        "lengths",
        "stream",
    )

    def __init__(
        self,
        device: Device,
        slots: Sequence[Slot],
        addresses: list[int],
        order: tuple[int, bool] = (0, False),
        arena: Any = None,
    ) -> None:
        self.device = device
        self.addresses = addresses
        self.arrays: list[Any] = [None] * len(slots)
        self.lengths: dict[int, int] = {}
        self.stream, self.captured = order
        self.arena = arena
        self._slots = slots

    def put(self, slot: int, array: Any) -> None:
        """Let a slot be a contiguous array."""
        self.arrays[slot] = array
        self.addresses[slot] = self.device.pointer(array)

    def array(self, slot: int) -> Any:
        """The array of a slot."""
        found = self.arrays[slot]
        if found is None:
            a = self._slots[slot].aval
            place = self.arena + (self.addresses[slot] - self.arena.ptr)
            found = self.device.array(a.shape, a.dtype, place)
        return found

    # --- tapes

    def take(self, slot: int, value: Any) -> None:
        """Let a slot be a tape that was given."""
        if isinstance(value, Ragged):
            self.arrays[slot] = _unpacked(value)
        else:
            self.put(slot, value)
        self.lengths[slot] = len(self.arrays[slot])

    def begin(self, slot: int, room: int) -> None:
        """Make a tape empty, with room for some elements."""
        a = self._slots[slot].aval
        self.lengths[slot] = 0
        if levels(a) > 1:
            self.arrays[slot] = []
        else:
            self.put(slot, self.device.empty((room, *a.shape[1:]), a.dtype))

    def grow(self, slot: int) -> int:
        """Make a tape one element longer; the number of that element."""
        n = self.lengths[slot]
        self.lengths[slot] = n + 1
        old = self.arrays[slot]
        if isinstance(old, list):
            old.append(None)
        elif n == len(old):
            new = self.device.empty((2 * n + 1, *old.shape[1:]), old.dtype)
            if old.nbytes:
                self.device.copy(self.device.pointer(new), self.addresses[slot], old.nbytes)
            self.put(slot, new)
        return n

    def tape(self, slot: int) -> Any:
        """A tape as a value."""
        held = self.arrays[slot]
        if isinstance(held, list):
            return _packed(held, self._slots[slot].aval)
        return held[: self.lengths[slot]]

    # --- windows

    def show(self, slot: int, base: int, i: int, size: int) -> None:
        """Let a window show element i of a slot."""
        held = self.arrays[base]
        if not isinstance(held, list):
            self.addresses[slot] = self.addresses[base] + i * size
            return
        item = held[i]
        self.arrays[slot] = item
        if item is not None:
            self.lengths[slot] = len(item)
            if not isinstance(item, list):
                self.addresses[slot] = self.device.pointer(item)

    def leave(self, slot: int, base: int, i: int) -> None:
        """What a window was made to be stays in the slot that it looks at."""
        held = self.arrays[base]
        if isinstance(held, list):
            item = self.arrays[slot]
            held[i] = item if isinstance(item, list) else item[: self.lengths[slot]]

    def holds_tape(self, slot: int) -> bool:
        """Whether a slot is a tape."""
        return is_tape(self._slots[slot].aval)


def _unpacked(value: Any) -> Any:
    """A tape of tapes as lists, at every level: an array is one already."""
    return [_unpacked(x) for x in value.items] if isinstance(value, Ragged) else value


def _packed(held: Any, a: ShapedArray) -> Any:
    """The tape that `_unpacked` takes apart."""
    if not isinstance(held, list):
        return held
    element = aval(a.shape[1:], a.dtype)
    return Ragged([_packed(x, element) for x in held], element)
