"""The slots of a program that is being planned, the numbers that they need, and constants."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.jaxpr import Literal
from ftrace.core.tapes import is_tape
from ftrace.lowering.memory.arena import Arena
from ftrace.lowering.program.program import (
    ARENA,
    CONSTANT,
    TAPE,
    WINDOW,
    Copy,
    PartOf,
    Slot,
    Step,
    Window,
)


class SlotTable:
    """What is known of memory while a program is planned.

    Attributes:
        slots: every array so far.
        table: numbers that depend on sizes.
        constants: captured arrays.
        arena: the places of one call.
    """

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.table: list[int] = []
        self.constants: list[Any] = []
        self.arena = Arena()
        self._known: dict[int, int] = {}  # id of a constant -> slot

    def new(self, place: str, a: ShapedArray, entry: int) -> int:
        """One more slot."""
        self.slots.append(Slot(place, a, entry))
        return len(self.slots) - 1

    def entry(self, value: int) -> int:
        """One more number of the table."""
        self.table.append(value)
        return len(self.table) - 1

    def entries(self, values: Sequence[int]) -> int:
        """The first of new numbers."""
        self.table.extend(values)
        return len(self.table) - len(values)

    def scratch(self, a: ShapedArray) -> int:
        """A new place in the arena, or a new tape."""
        if is_tape(a):
            return self.new(TAPE, a, 0)
        return self.new(ARENA, a, self.entry(self.arena.take(bytes_of(a))))

    def free(self, slot: int) -> None:
        """Give a place in the arena back."""
        if self.slots[slot].place == ARENA:
            self.arena.give(self.table[self.slots[slot].entry], bytes_of(self.slots[slot].aval))

    def constant(self, array: Any) -> int:
        """The slot of a captured array, or of a literal."""
        found = self._known.get(id(array))
        if found is None:
            self.constants.append(array)
            a = aval(np.shape(array), np.asarray(array).dtype)
            found = self.new(CONSTANT, a, len(self.constants) - 1)
            self._known[id(array)] = found
        return found

    def of(self, atom: Any, slots: Mapping[Any, int]) -> int:
        """The slot of an atom."""
        if type(atom) is not Literal:
            return slots[atom]
        return self.constant(np.asarray(atom.value, atom.aval.dtype))

    # --- copies and windows

    def copy(self, source: int, target: int) -> Copy:
        """A copy from one slot to another."""
        return Copy(source, target, self.entry(bytes_of(self.slots[target].aval)))

    def copies(self, sources: Sequence[int], targets: Sequence[int]) -> list[Step]:
        """Copies between slots that are not the same."""
        pairs = zip(sources, targets, strict=True)
        return [self.copy(a, b) for a, b in pairs if a != b]

    def window(self, base: int, element: ShapedArray, written: bool) -> Window:
        """A window on a slot."""
        slot = self.new(WINDOW, element, 0)
        return Window(slot, base, self.entry(bytes_of(element)), written)

    def read(self, xs: Sequence[Any], elements: Sequence[Any], slots: Any) -> list[Window]:
        """Windows on arrays, given with the variables of their elements."""
        pairs = zip(xs, elements, strict=True)
        return [self.window(self.of(x, slots), v.aval, False) for x, v in pairs]

    def written(self, ys: Sequence[Any], elements: Sequence[ShapedArray], slots: Any) -> Any:
        """Windows on results, given with the types of their elements."""
        return [self.window(slots[y], a, True) for y, a in zip(ys, elements, strict=True)]

    def part(self, base: int, a: ShapedArray, start: int) -> PartOf:
        """The step that lets a new window be part of a slot, from a byte on."""
        return PartOf(self.new(WINDOW, a, 0), base, self.entry(start))


def bytes_of(a: ShapedArray) -> int:
    """What an element of a stack takes; of a tape, its address."""
    return 8 if is_tape(a) else a.size * a.dtype.itemsize
