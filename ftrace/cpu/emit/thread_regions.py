"""Loops that threads share: the loop becomes a function of a range of iterations.

The kernel describes the loop in a *region*, ten words that are named below, and calls
`ftrace_share` (cpu/threads), which runs ranges of it in several threads, or all of it at once. What
the loop reads of the kernel around it lies in memory. Folds are cut into pieces of a fixed number
of iterations (the blocks of a sum); each leaves its state in a buffer on the stack, and the kernel
joins them in order, so that bits depend neither on the number of threads nor on whether there are
any. Where the buffer is full, the region ends, and another goes on from there.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from ftrace.cpu.emit import interrupts, lane_folds
from ftrace.cpu.emit.counted_loops import ZERO, Cells, counted
from ftrace.cpu.emit.emitter import State
from ftrace.cpu.llvm.text import LLVM_TYPE, Text, Typed, type_of
from ftrace.lowering.kernel.fold_trees import has_tree
from ftrace.lowering.kernel.ir import Block, KernelVar, Loop, While
from ftrace.lowering.kernel.traversal import inside, outs_of, uses_of

SHARE: Final = "ftrace_share"
FUNCTION, SLOTS, TABLE, CAPTURED, PARTIALS, FIRST, STOP, ALIGN, THREADS, IDLE = range(10)
WORDS: Final = 10
PIECE: Final = 1024  # iterations of a fold without blocks that leave one state
ROOM: Final = 1 << 14  # bytes of states before they are joined: some threads have small stacks
NONE: Final = "null"

Part = Callable[[State, Loop, Typed, Typed], list[Cells]]
"""Writes iterations of a loop from one index up to another; gives the states of its folds."""


class PlacedCell(NamedTuple):
    """Where a piece of a fold leaves a value: so many bytes from where its states begin."""

    value: Typed
    offset: int


def is_shared(s: State, stmt: Loop, lanes: int) -> bool:
    """Whether threads share a loop here."""
    named = stmt.axis.id in s.launch.schedule.shared
    return named and not s.in_region and s.lanes == 1 and (lanes > 1 or not stmt.folds)


def write(s: State, stmt: Loop, lanes: int, part: Part) -> Cells:
    """Write the loop, of which so many iterations run at once, and join what its folds leave."""
    region = _Region(s, stmt, part)
    stop = s.scalar(stmt.extent)
    if stmt.folds:
        return region.folded(stop)
    region.run(ZERO, stop, lanes)
    return []


class _Region:
    """A loop as a function, and the calls of it."""

    def __init__(self, s: State, stmt: Loop, part: Part) -> None:
        self.s, self.stmt = s, stmt
        blocks = {f.block for f in stmt.folds if has_tree(f)}
        self.piece = blocks.pop() if blocks else PIECE
        self.captured = self._captured()
        entry = s.scopes[0].lines
        self.words, self.values = (f"%{s.text.fresh(n)}" for n in ("region", "captured"))
        entry.append(f"  {self.words} = alloca [{WORDS} x i64], align 64")
        entry.append(f"  {self.values} = alloca [{max(len(self.captured), 1)} x i64], align 8")
        self.name = f"{s.symbol}_{self.words[1:]}"
        self.idle = interrupts.idle(s.text) if interrupts.polls(Block((stmt,))) else NONE
        self.cells: list[list[PlacedCell]] = []
        self.width = 0
        s.text.declarations[self.name] = self._function(part)

    def _captured(self) -> list[KernelVar]:
        """What the loop reads of the kernel around it, apart from the kernel's operands."""
        own = {self.stmt.axis, *self.stmt.outs}
        for stmt in inside(self.stmt.body):
            own.update(outs_of(stmt))
            if isinstance(stmt, Loop):
                own.update((stmt.axis, *stmt.params))
            elif isinstance(stmt, While):
                own.update(stmt.params)
        read = [a for a in uses_of(self.stmt) if isinstance(a, KernelVar) and a not in own]
        return sorted((v for v in read if self.s.is_value(v)), key=lambda v: v.id)

    # --- the function

    def _function(self, part: Part) -> str:
        """`void name(ptr region, i64 first, i64 stop, i64 worker)`."""
        text = Text(self.s.text.host, self.s.text.declarations)
        inner = State(text, self.s.launch, self.s.run, self.s.symbol)
        inner.in_region = True
        for name, word in (("slots", SLOTS), ("table", TABLE), ("captured", CAPTURED)):
            text.line(f"%{name} = load ptr, ptr {_word(text, '%region', word)}, align 8")
        if self.idle != NONE:
            text.lines.append(interrupts.WORKER)
        inner.push()
        inner.scopes[0].cache["state"] = Typed("%state", "i8", 1)
        for k, var in enumerate(self.captured):
            load = f"load {LLVM_TYPE[var.dtype]}, ptr {_word(text, '%captured', k)}, align 8"
            inner.define(var, text.let(load, var.dtype, 1))
        first, stop = Typed("%first", "i8", 1), Typed("%stop", "i8", 1)
        if self.stmt.folds:
            self._pieces(inner, part, first, stop)
        else:
            part(inner, self.stmt, first, stop)
        inner.pop()
        return inner.function(self.name, "ptr %region, i64 %first, i64 %stop, i64 %worker")

    def _pieces(self, inner: State, part: Part, first: Typed, stop: Typed) -> None:
        """Fold piece by piece, and leave the states where they are joined."""
        text = inner.text
        folds = tuple(replace(f, block=0) for f in self.stmt.folds)
        plain = replace(self.stmt, folds=folds)
        begin = text.let(f"load i64, ptr {_word(text, '%region', FIRST)}, align 8", "i8", 1)
        buffer = text.let(f"load ptr, ptr {_word(text, '%region', PARTIALS)}, align 8", "i8", 1)

        def body(at: Typed, cells: Cells) -> Cells:
            states = part(inner, plain, at, _least(text, at, self.piece, stop))
            self._lay_out(states)
            number = text.op("udiv", text.sub(at, begin), text.const(self.piece, "i8"))
            place = self._place(text, buffer.name, number)
            for cell in (c for group in self.cells for c in group):
                kind, where = _kind(cell.value), _byte(text, place, cell.offset)
                text.line(f"store {kind} {cell.value.name}, ptr {where}, align 8")
            return cells

        counted(inner, (first, stop, self.piece), [], body)

    def _lay_out(self, states: Sequence[Cells]) -> None:
        """Where each value of a piece's states lies."""
        offset = 0
        self.cells = []
        for state in states:
            group: list[PlacedCell] = []
            for value in state:
                group.append(PlacedCell(value, offset))
                offset += -(-value.lanes * int(value.dtype[1:]) // 8) * 8
            self.cells.append(group)
        self.width = -(-offset // 64) * 64  # two threads do not write to one line of a cache

    def _place(self, text: Text, buffer: str, number: Typed) -> str:
        """Where the states of a piece begin."""
        distance = text.mul(number, text.const(self.width, "i8"))
        return text.let(f"getelementptr i8, ptr {buffer}, i64 {distance.name}", "i8", 1).name

    # --- the calls

    def run(self, first: Typed, stop: Typed, align: int, buffer: str = NONE) -> None:
        """Call for a range of iterations; ranges begin at multiples of `align`."""
        s, text = self.s, self.s.text
        for k, var in enumerate(self.captured):
            value = s.scalar(var)
            place = _word(text, self.values, k)
            text.line(f"store {_kind(value)} {value.name}, ptr {place}, align 8")
        pointers = {FUNCTION: f"@{self.name}", SLOTS: "%slots", TABLE: "%table"}
        pointers |= {CAPTURED: self.values, PARTIALS: buffer, IDLE: self.idle}
        numbers = {FIRST: first.name, STOP: stop.name, ALIGN: align}
        numbers |= {THREADS: s.entry(s.launch.threads).name}
        rows = [(w, "ptr", x) for w, x in pointers.items()]
        for word, kind, x in (*rows, *((w, "i64", x) for w, x in numbers.items())):
            text.line(f"store {kind} {x}, ptr {_word(text, self.words, word)}, align 8")
        text.declare(SHARE, f"declare void @{SHARE}(ptr)")
        text.line(f"call void @{SHARE}(ptr {self.words})")

    def folded(self, stop: Typed) -> Cells:
        """Call for as many pieces as the buffer has room for, and join what they leave."""
        s, text, folds = self.s, self.s.text, self.stmt.folds
        many = max(ROOM // self.width, 1)
        buffer = f"%{text.fresh('states')}"
        s.scopes[0].lines.append(f"  {buffer} = alloca [{many * self.width} x i8], align 64")
        given = zip(folds, self.cells, lane_folds.counting(self.stmt), strict=True)
        states = [
            lane_folds.start(text, fold, cells[-1].value.dtype, cells[0].value.lanes, counts)
            for fold, cells, counts in given
        ]

        def regrouped(cells: Cells) -> list[Cells]:
            supply = iter(cells)
            return [[next(supply) for _ in state] for state in states]

        def some(at: Typed, cells: Cells) -> Cells:
            end = _least(text, at, many * self.piece, stop)
            self.run(at, end, self.piece, buffer)
            last = text.add(text.sub(end, at), text.const(self.piece - 1, "i8"))
            count = text.op("udiv", last, text.const(self.piece, "i8"))
            return counted(s, (ZERO, count, 1), cells, join)

        def join(number: Typed, cells: Cells) -> Cells:
            place = self._place(text, buffer, number)
            new: Cells = []
            for fold, group, state in zip(folds, self.cells, regrouped(cells), strict=True):
                found = [_loaded(text, cell, place) for cell in group]
                if fold.block:
                    new += lane_folds.flush(text, [found[0], *state[1:]])
                else:
                    new += lane_folds.follow(text, fold, state, found)
            return new

        flat = [cell for state in states for cell in state]
        cells = counted(s, (ZERO, stop, many * self.piece), flat, some)
        outs: Cells = []
        for fold, state in zip(folds, regrouped(cells), strict=True):
            outs += lane_folds.finish(text, fold, lane_folds.fold_lanes(text, fold, state))
        return outs


def _word(text: Text, base: str, number: int) -> str:
    """The address of a word."""
    return text.let(f"getelementptr i64, ptr {base}, i64 {number}", "i8", 1).name


def _byte(text: Text, base: str, offset: int) -> str:
    return text.let(f"getelementptr i8, ptr {base}, i64 {offset}", "i8", 1).name


def _kind(value: Typed) -> str:
    return type_of(value.dtype, value.lanes)


def _loaded(text: Text, cell: PlacedCell, place: str) -> Typed:
    value = cell.value
    given = f"load {_kind(value)}, ptr {_byte(text, place, cell.offset)}, align 8"
    return text.let(given, value.dtype, value.lanes)


def _least(text: Text, at: Typed, more: int, stop: Typed) -> Typed:
    """The lesser of `at + more` and `stop`."""
    end = text.add(at, text.const(more, "i8"))
    return text.select(text.compare("slt", end, stop), end, stop)
