"""What the words of a program's launches are near to, and how far from it.

The bases of a call are the addresses of the slots, then that of the arena, then the words of the
numbers that the host gave: a launch takes such a number out of its argument block. Rows of Python,
branches and the like read memory: what they read of the numbers is stored in the arena first.
"""

from collections.abc import Container, Iterator

from ftrace.gpu.runtime.kernels import ALIGNMENT, WORD
from ftrace.lowering.program.program import (
    ARENA,
    BranchStep,
    Callback,
    Copy,
    Look,
    Program,
    Scan,
    ScatterStep,
    every,
)


class Bases:
    """The bases of a program.

    Attributes:
        arena: the number of the arena's base.
        words: slots whose numbers launches find in their words.
        stored: slots whose numbers are stored first.
        views: the numbers of the bases of numbers: of a slot, from a distance on.
        offsets: the places of slots in the arena.
        size: bytes of the arena, without what the stages of kernels leave to each other.
    """

    def __init__(self, program: Program, numbers: Container[int]) -> None:
        """As above; `numbers` are the slots of arguments that are numbers of the host."""
        self.arena = len(program.slots)
        needed = set(_read(program))
        own = {k for call in program.callbacks for k in call.results}  # memory of their own
        slots = range(len(program.slots))
        self.words = frozenset(k for k in slots if k in numbers and k not in needed)
        self.stored = [k for k in slots if k in numbers and k in needed]
        self.views: dict[tuple[int, int], int] = {}
        self.offsets = {
            k: program.table[program.slots[k].entry]
            for k in program.of_place(ARENA)
            if k not in own
        }
        self.size = -(-program.arena // ALIGNMENT) * ALIGNMENT
        for k in self.stored:
            self.offsets[k] = self.size
            self.size += ALIGNMENT

    def where(self, slot: int, distance: int) -> tuple[int, int]:
        """The base that is near to a place in a slot, and how far the place is from it."""
        if slot in self.words:
            return self.view(slot, distance), 0
        if slot in self.offsets:
            return self.arena, self.offsets[slot] + distance
        return slot, distance

    def view(self, slot: int, distance: int) -> int:
        """The base that holds the word of a number."""
        return self.views.setdefault((slot, distance), self.arena + 1 + len(self.views))


def _read(program: Program) -> Iterator[int]:
    """The slots that something else than a launch reads."""
    for step in every(program.steps):
        match step:
            case Copy():
                if program.table[step.size] > WORD:
                    yield step.source
            case Callback():
                operands = program.callbacks[step.number].operands
                yield from (k for k in operands if k is not None)
            case BranchStep():
                yield step.index
            case Look():
                yield step.number
            case ScatterStep():
                yield from (step.updates, step.places)
            case Scan():
                if step.count is not None:
                    yield step.count
            case _:  # launches, loops whose conditions are computed, and what reads lines
                pass
