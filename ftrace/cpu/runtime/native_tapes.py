"""Tapes in native code: memory that grows while a loop records.

A tape is a *block* of memory (of recycling.py, where there is one): its capacity and its length in
elements (two words), then the elements. An element that is a tape itself is the address of its
block, or null, so that one block owns all that hangs on it. Every tape of a program has a *place*,
the word with its address: the slot, or, where the slot is a window or belongs to the caller, what
the slot points to. A block is used again when its loop runs again. Blocks that leave are the
caller's (blocks.py); all others are freed on every way out of the program.
"""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Final

from ftrace.core.lazy import once
from ftrace.core.tapes import is_tape, levels
from ftrace.cpu.llvm.text import Text, Typed
from ftrace.cpu.runtime.recycling import tape_functions
from ftrace.lowering.program.program import ARGUMENT, RESULT, TAPE, Program, Window

EXHAUSTED: Final = -1  # the number with which native code reports that there is no memory
OTHER: Final = -2  # that a tape has not the elements that the loop wants that reads it
FIRST: Final = 8  # elements of a new block; it grows to twice its size, and this
HEAD: Final = 16  # bytes before the elements
_REALLOC: Final = "ftrace_realloc"
_FREE: Final = "ftrace_free"
DROP: Final = "ftrace_tape_free"
PREFIX: Final = f"@{_REALLOC}"


@once
def symbols() -> Mapping[str, int]:
    """Functions by the names used here: of recycled memory, or the C library's."""
    recycled = tape_functions()
    if recycled is not None:
        return dict(zip((_REALLOC, _FREE), recycled, strict=True))
    library = ctypes.pythonapi  # of the same C library as the process
    found = {_REALLOC: library.PyMem_RawRealloc, _FREE: library.PyMem_RawFree}
    return {name: ctypes.cast(f, ctypes.c_void_p).value or 0 for name, f in found.items()}


class Tapes:
    """Writes what the tapes of one program need."""

    def __init__(self, program: Program, text: Text) -> None:
        self._text = text
        self._slots = program.slots
        self._own = program.of_place(TAPE)
        self._given = [k for k in program.of_place(RESULT) if is_tape(self._slots[k].aval)]
        if self:
            text.declare(_REALLOC, RUNTIME)
        for slot in self._own:
            text.line(f"store ptr null, ptr {self.place(slot)}, align 8")

    def __bool__(self) -> bool:
        """Whether the program has tapes."""
        return any(is_tape(s.aval) for s in self._slots)

    def place(self, slot: int) -> str:
        """Where the address of a tape is kept."""
        at = self._text.fresh()
        self._text.line(f"%{at} = getelementptr ptr, ptr %slots, i64 {slot}")
        if self._slots[slot].place in (TAPE, ARGUMENT):
            return f"%{at}"
        place = self._text.fresh()
        self._text.line(f"%{place} = load ptr, ptr %{at}, align 8")
        return f"%{place}"

    def free(self, *, failed: bool) -> None:
        """Give the memory back; results only where the program has failed."""
        for slot in (*self._own, *(self._given if failed else ())):
            block, depth = self._text.fresh(), levels(self._slots[slot].aval) - 1
            self._text.line(f"%{block} = load ptr, ptr {self.place(slot)}, align 8")
            self._text.line(f"call void @{DROP}(ptr %{block}, i64 {depth})")

    def reserve(self, windows: Sequence[tuple[Window, str]], count: Typed, room: Typed) -> Typed:
        """Make room for element `count` of tapes, given with the bytes of an element.

        Args:
            windows, count: as above.
            room: for how many elements there is room.

        Returns:
            For how many there is room now.
        """
        text = self._text
        grow, after = text.fresh("grow"), text.fresh("room")
        before = text.block
        text.branch(text.compare("eq", count, room), grow, after)
        text.label(grow)
        more = text.add(text.add(room, room), text.like(room, FIRST))
        for window, size in windows:
            self.allocate(window, more, size)
        last = text.block
        text.jump(after)
        text.label(after)
        return text.phi("i8", 1, [(room, before), (more, last)])

    def allocate(self, window: Window, count: Typed, size: str) -> None:
        """Room for `count` elements; what there is is kept."""
        text = self._text
        good, after = text.fresh(), text.fresh("got")
        nested = str(is_tape(self._slots[window.slot].aval)).lower()
        words = f"ptr {self.place(window.base)}, i64 {count.name}, i64 {size}, i1 {nested}"
        text.line(f"%{good} = call i1 @ftrace_tape_room({words})")
        text.line(f"br i1 %{good}, label %{after}, label %exhausted")
        text.label(after)

    def end(self, slot: int, count: Typed) -> None:
        """Note how many elements a tape has."""
        words = f"ptr {self.place(slot)}, i64 {count.name}"
        self._text.line(f"call void @ftrace_tape_end({words})")

    def length(self, slot: int) -> Typed:
        """How many elements a tape has."""
        return self._text.let(f"call i64 @ftrace_tape_length(ptr {self.place(slot)})", "i8", 1)

    def check(self, slot: int, count: Typed, *, exact: bool) -> None:
        """Go to `other` if a tape has fewer elements, or others than just so many.

        It may have more: a loop goes on for members whose results nobody takes.
        """
        after = self._text.fresh("read")
        right = self._text.compare("eq" if exact else "sge", self.length(slot), count)
        self._text.branch(right, after, "other")
        self._text.label(after)


RUNTIME: Final = f"""declare ptr @{_REALLOC}(ptr, i64)
declare void @{_FREE}(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg)

define i1 @ftrace_tape_room(ptr %place, i64 %count, i64 %size, i1 %nested) {{
entry:
  %block = load ptr, ptr %place, align 8
  %head = getelementptr i8, ptr %block, i64 -{HEAD}
  %new = icmp eq ptr %block, null
  br i1 %new, label %grow, label %look
look:
  %capacity = load i64, ptr %head, align 8
  %enough = icmp ule i64 %count, %capacity
  br i1 %enough, label %good, label %grow
grow:
  %old = phi ptr [ null, %entry ], [ %head, %look ]
  %had = phi i64 [ 0, %entry ], [ %capacity, %look ]
  %bytes = mul i64 %count, %size
  %all = add i64 %bytes, {HEAD}
  %got = call ptr @{_REALLOC}(ptr %old, i64 %all)
  %none = icmp eq ptr %got, null
  br i1 %none, label %bad, label %keep
keep:
  store i64 %count, ptr %got, align 8
  %elements = getelementptr i8, ptr %got, i64 {HEAD}
  store ptr %elements, ptr %place, align 8
  br i1 %nested, label %clear, label %good
clear:
  %start = mul i64 %had, %size
  %fresh = getelementptr i8, ptr %elements, i64 %start
  %rest = sub i64 %bytes, %start
  call void @llvm.memset.p0.i64(ptr align 8 %fresh, i8 0, i64 %rest, i1 false)
  br label %good
good:
  ret i1 true
bad:
  ret i1 false
}}

define i64 @ftrace_tape_length(ptr %place) {{
entry:
  %block = load ptr, ptr %place, align 8
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %look
look:
  %at = getelementptr i8, ptr %block, i64 -8
  %length = load i64, ptr %at, align 8
  br label %done
done:
  %has = phi i64 [ 0, %entry ], [ %length, %look ]
  ret i64 %has
}}

define void @ftrace_tape_end(ptr %place, i64 %count) {{
  %block = load ptr, ptr %place, align 8
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %note
note:
  %length = getelementptr i8, ptr %block, i64 -8
  store i64 %count, ptr %length, align 8
  br label %done
done:
  ret void
}}

define void @{DROP}(ptr %block, i64 %depth) {{
entry:
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %begin
begin:
  %head = getelementptr i8, ptr %block, i64 -{HEAD}
  %flat = icmp eq i64 %depth, 0
  %capacity = load i64, ptr %head, align 8
  %below = sub i64 %depth, 1
  %count = select i1 %flat, i64 0, i64 %capacity
  br label %turn
turn:
  %i = phi i64 [ 0, %begin ], [ %next, %inside ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %inside, label %last
inside:
  %at = getelementptr ptr, ptr %block, i64 %i
  %inner = load ptr, ptr %at, align 8
  call void @{DROP}(ptr %inner, i64 %below)
  %next = add i64 %i, 1
  br label %turn
last:
  call void @{_FREE}(ptr %head)
  br label %done
done:
  ret void
}}"""
