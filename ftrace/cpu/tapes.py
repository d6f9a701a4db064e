"""Tapes in native code: memory that grows while a loop records, and is freed when the program ends.

The slot of a tape holds the address of a block of the C library, or null. A block is used again
when its loop runs again, so that a loop in a loop allocates a few times only. How long the block
is stays with the loop that records, in a variable on the stack.
"""

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Final

from ftrace.cpu.text import Text, Value
from ftrace.lowering.program import TAPE, Program, Window

EXHAUSTED: Final = -1  # the number with which native code reports that there is no memory
FIRST: Final = 64  # elements of a new block; it grows to twice its size, and this
_REALLOC: Final = "ftrace_realloc"
_FREE: Final = "ftrace_free"
PREFIX: Final = f"@{_REALLOC}"


@functools.cache
def symbols() -> Mapping[str, int]:
    """The C library's functions by the names used here."""
    library = ctypes.pythonapi  # of the same C library as the process
    found = {_REALLOC: library.PyMem_RawRealloc, _FREE: library.PyMem_RawFree}
    return {name: ctypes.cast(f, ctypes.c_void_p).value or 0 for name, f in found.items()}


class Tapes:
    """Writes what the tapes of one program need."""

    def __init__(self, program: Program, text: Text) -> None:
        self._text = text
        self._slots = program.of_place(TAPE)
        self._capacities: list[str] = []
        self._first = len(text.lines)
        if self._slots:
            text.line("")  # replaced by `close`
            text.declare(_REALLOC, f"declare ptr @{_REALLOC}(ptr, i64)")
            text.declare(_FREE, f"declare void @{_FREE}(ptr)")
        for slot in self._slots:
            text.line(f"store ptr null, ptr {self._place(slot)}, align 8")

    def _place(self, slot: int) -> str:
        place = self._text.fresh()
        self._text.line(f"%{place} = getelementptr ptr, ptr %slots, i64 {slot}")
        return f"%{place}"

    def close(self) -> None:
        """Write the variables that were asked for."""
        if self._slots:
            rows = [f"  {c} = alloca i64\n  store i64 0, ptr {c}" for c in self._capacities]
            self._text.lines[self._first] = "\n".join(rows)

    def free(self) -> None:
        """Give the memory back."""
        for slot in self._slots:
            block = self._text.fresh()
            self._text.line(f"%{block} = load ptr, ptr {self._place(slot)}, align 8")
            self._text.line(f"call void @{_FREE}(ptr %{block})")

    def capacity(self) -> str:
        """A new variable on the stack, 0 at first."""
        self._capacities.append(f"%{self._text.fresh('room')}")
        return self._capacities[-1]

    def reserve(self, windows: Sequence[tuple[Window, str]], count: Value, room: str) -> None:
        """Make room for element `count` of tapes, given with the bytes of an element."""
        text = self._text
        full, grow, after = text.fresh(), text.fresh("grow"), text.fresh("room")
        now = text.let(f"load i64, ptr {room}", "i8", 1)
        text.line(f"%{full} = icmp eq i64 {count.name}, {now.name}")
        text.line(f"br i1 %{full}, label %{grow}, label %{after}")
        text.label(grow)
        double = text.add(now, now)
        more = text.add(double, text.like(now, FIRST))
        for window, size in windows:
            self.allocate(window.base, more, size)
        text.line(f"store i64 {more.name}, ptr {room}")
        text.jump(after)
        text.label(after)

    def allocate(self, slot: int, count: Value, size: str) -> None:
        """A block for `count` elements; what the slot holds is kept."""
        text = self._text
        place = self._place(slot)
        after = text.fresh("got")
        old, new, none = text.fresh(), text.fresh(), text.fresh()
        bytes_ = text.mul(count, Value(size, "i8", 1))
        text.line(f"%{old} = load ptr, ptr {place}, align 8")
        text.line(f"%{new} = call ptr @{_REALLOC}(ptr %{old}, i64 {bytes_.name})")
        text.line(f"%{none} = icmp eq ptr %{new}, null")
        text.line(f"br i1 %{none}, label %exhausted, label %{after}")
        text.label(after)
        text.line(f"store ptr %{new}, ptr {place}, align 8")
