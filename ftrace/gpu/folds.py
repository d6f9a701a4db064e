"""Folds: accumulators in registers, and how those of a team's threads become one.

A thread has one accumulator per fold, or one per element that it takes at once where the order
shows. `mapping.py` gave every fold as many ways as there are such accumulators in a team, numbered
as the iterations fall on them; here they are combined as ir.Fold says, the upper half onto the
lower: first the warps of a block, through shared memory, then the lanes of a warp, by shuffles,
then the elements of a thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ftrace.gpu import spelling
from ftrace.gpu.branches import combined
from ftrace.gpu.layout import BLOCK, COLUMN, WARP_LANES, has_tree
from ftrace.gpu.writer import Writer
from ftrace.lowering.folds import identity
from ftrace.lowering.ir import PAIRS, Atom, Fold, Loop

FULL = "0xffffffffu"  # all lanes of a warp


@dataclass
class Cell:
    """One part of an accumulator: a C variable, or an array of one per element."""

    name: str
    dtype: str
    start: str


class Accumulator:
    """The accumulators of one fold in a thread.

    Attributes:
        fold: what is folded.
        cells: value; value and index of a pair; high, low and running sum of a fold in blocks.
        count: accumulators.
    """

    def __init__(self, w: Writer, fold: Fold, name: str, index: str, count: int) -> None:
        self.w, self.fold = w, fold
        self.count = count if has_tree(fold) else 1
        start = spelling.literal(identity(fold.op, fold.acc), fold.acc)
        self.cells = [Cell(f"f{name}", fold.acc, start)]
        if fold.op in PAIRS:
            greatest = identity("min", index)
            self.cells.append(Cell(f"k{name}", index, spelling.literal(greatest, index)))
        if fold.block:
            self.cells += [Cell(f"{c}{name}", fold.acc, start) for c in "ls"]
        for c in self.cells:
            size = f"[{self.count}]" if self.count > 1 else ""
            w.line(f"{w.type(c.dtype)} {c.name}{size};")
        with w.unrolled(self.count) as at:
            for c in self.cells:
                w.line(f"{c.name}{at} = {c.start};")

    def step(self, values: Sequence[Atom], at: str, only: str) -> None:
        """Take in what one iteration leaves; `at` is the element's index."""
        w, fold = self.w, self.fold
        at = at if self.count > 1 else ""
        given = w.value(values[0])
        if values[0].dtype != fold.acc:
            given = f"({spelling.spell('cast', [given], [values[0].dtype], fold.acc)})"
        if fold.op in PAIRS:
            self._take(["", ""], [given, w.value(values[1])], only)
            return
        cell = self.cells[2 if fold.block else 0].name + at
        guard = f"if ({only}) " if only else ""
        w.line(f"{guard}{cell} = {combined(fold.op, [cell, given], fold.acc)};")

    def flush(self) -> None:
        """End a block: the running sums go to the pairs."""
        high, low, running = self.cells
        with self.w.unrolled(self.count) as at:
            self._two_sum(high.name + at, running.name + at, low.name + at, "")
            self.w.line(f"{running.name}{at} = 0;")

    def merge(self, at: Sequence[str], others: Sequence[str]) -> None:
        """Combine an accumulator, at an index of each cell, with the values of another one."""
        w, fold = self.w, self.fold
        if fold.op in PAIRS:
            self._take(at, others, "")
        elif fold.block:
            self._two_sum(
                self.parts[0].name + at[0], others[0], self.parts[1].name + at[1], others[1]
            )
        else:
            cell = self.cells[0].name + at[0]
            w.line(f"{cell} = {combined(fold.op, [cell, others[0]], fold.acc)};")

    @property
    def parts(self) -> list[Cell]:
        """What is combined: running sums have ended before."""
        return self.cells[:2] if self.fold.block else self.cells

    def _two_sum(self, high: str, other: str, low: str, other_low: str) -> None:
        """`(high, e) = two_sum(high, other); low = (low + other_low) + e`."""
        w, kind = self.w, self.w.type(self.fold.acc)
        with w.braces():
            w.line(f"const {kind} b = {other}, s = {high} + b, t = s - {high};")
            error = f"(({high} - (s - t)) + (b - t))"
            w.line(f"{low} = {f'({low} + {other_low})' if other_low else low} + {error};")
            w.line(f"{high} = s;")

    def _take(self, at: Sequence[str], others: Sequence[str], only: str) -> None:
        """A pair: the first NaN, or the extreme with the least index."""
        w, kind = self.w, self.w.type
        value, index = (c.name + a for c, a in zip(self.cells, at, strict=True))
        beats = "gt" if self.fold.op == "argmax" else "lt"
        acc = self.fold.acc
        with w.braces():
            w.line(f"const {kind(acc)} x = {others[0]};")
            w.line(f"const {kind(self.cells[1].dtype)} y = {others[1]};")
            better = spelling.spell(beats, ["x", value], [acc, acc], "b1")
            equal = spelling.spell("eq", ["x", value], [acc, acc], "b1")
            if acc[0] == "f":
                nan = f"({value} != {value})"
                better = f"!{nan} && ({better} || ({equal} && y < {index}))"
                better = f"x != x ? !{nan} || y < {index} : {better}"
            else:
                better = f"{better} || ({equal} && y < {index})"
            guard = f"({only}) && " if only else ""
            w.line(f"if ({guard}({better})) {{ {value} = x; {index} = y; }}")

    # --- the ends of loops

    def own(self) -> None:
        """The accumulators of this thread's elements become one, the first."""
        half = self.count // 2
        while half:
            for k in range(half):
                there = [f"[{k + half}]" for _ in self.parts]
                others = [c.name + a for c, a in zip(self.parts, there, strict=True)]
                self.merge([f"[{k}]" for _ in self.parts], others)
            half //= 2

    def result(self, extent: Atom) -> list[str]:
        """The values of the finished fold."""
        first = [c.name + ("[0]" if self.count > 1 else "") for c in self.parts]
        if self.fold.op in PAIRS:
            return [first[0], f"{self.w.count(extent)} == 0 ? 0 : {first[1]}"]
        if self.fold.block:
            high, low = first
            return [f"({low} - {low} == 0) ? {high} + {low} : {high}"]
        return first


def accumulators(w: Writer, loop: Loop, count: int) -> list[tuple[Accumulator, list[Atom]]]:
    """Start the folds of a loop; each with what the body leaves for it."""
    found: list[tuple[Accumulator, list[Atom]]] = []
    first = 0
    for fold in loop.folds:
        width = 2 if fold.op in PAIRS else 1
        values = list(loop.body.results[first : first + width])
        name = str(loop.outs[first].id)
        found.append((Accumulator(w, fold, name, values[-1].dtype, count), values))
        first += width
    return found


# --- the threads of a team


def together(w: Writer, folded: Accumulator) -> None:
    """The accumulators of all threads of a team become one, which all of them get."""
    if w.layout.team == COLUMN:
        _rows(w, folded)
    elif w.layout.team == BLOCK:
        _block(w, folded)
    else:
        _lanes(w, folded)
        folded.own()
        for c in folded.parts:
            at = "[0]" if folded.count > 1 else ""
            w.line(f"{c.name}{at} = {_shuffled(w, c, at, '__shfl_sync', '0')};")


def _lanes(w: Writer, folded: Accumulator) -> None:
    """Upper lanes of a warp onto lower ones."""
    with w.unrolled(folded.count) as at:
        w.line("#pragma unroll")
        with w.braces("for (int d = 16; d > 0; d >>= 1)"):
            others: list[str] = []
            for k, c in enumerate(folded.parts):
                value = _shuffled(w, c, at, "__shfl_down_sync", "d")
                w.line(f"const {w.type(c.dtype)} o{k} = {value};")
                others.append(f"o{k}")
            folded.merge([at] * len(others), others)


def _shuffled(w: Writer, cell: Cell, at: str, how: str, lane: str) -> str:
    """A cell of another lane."""
    small = cell.dtype == "b1" or cell.dtype[1:] in ("1", "2")
    value = f"{'(int)' if small else ''}{cell.name}{at}"
    return f"({w.type(cell.dtype)}){how}({FULL}, {value}, {lane})"


def _shared(w: Writer, folded: Accumulator, count: int, results: int) -> list[tuple[str, str]]:
    """Places in shared memory for `count` of each cell, and for `results` of them.

    Results lie first, at the same places for every fold: a thread that goes on to the next fold
    may not write where another one still reads a result.
    """
    places: list[tuple[str, str]] = []
    at = 8 * results * 2
    for number, c in enumerate(folded.parts):
        kind = w.type(c.dtype)
        names = f"m{c.name}", f"r{c.name}"
        for name, far in zip(names, (at, 8 * results * number), strict=True):
            w.line(f"{kind}* const {name} = ({kind}*)(shared + {far});")
        at += -(-count * int(c.dtype[1:]) // 16) * 16
        places.append(names)
    w.shared = max(w.shared, at)
    return places


def _block(w: Writer, folded: Accumulator) -> None:
    """Upper warps of a block onto lower ones, then as in a warp."""
    threads = w.layout.threads
    places = _shared(w, folded, threads * folded.count, 1)
    with w.unrolled(folded.count) as at:
        for c, (many, _) in zip(folded.parts, places, strict=True):
            w.line(f"{many}[{_slot(at, threads)}lane] = {c.name}{at};")
    w.line("__syncthreads();")
    with w.braces(f"if (lane < {WARP_LANES})"):
        with w.unrolled(folded.count) as at:
            _halves(w, folded, places, _slot(at, threads) + "lane", threads // WARP_LANES, at)
        _lanes(w, folded)
        folded.own()
        with w.braces("if (lane == 0)"):
            for c, (_, one) in zip(folded.parts, places, strict=True):
                w.line(f"{one}[0] = {c.name}{'[0]' if folded.count > 1 else ''};")
    w.line("__syncthreads();")
    for c, (_, one) in zip(folded.parts, places, strict=True):
        w.line(f"{c.name}{'[0]' if folded.count > 1 else ''} = {one}[0];")


def _slot(at: str, threads: int) -> str:
    return f"e * {threads} + " if at else ""


def _rows(w: Writer, folded: Accumulator) -> None:
    """Upper threads of a column onto lower ones."""
    places = _shared(w, folded, WARP_LANES * w.layout.threads, WARP_LANES)
    for c, (many, _) in zip(folded.parts, places, strict=True):
        w.line(f"{many}[lane * {WARP_LANES} + threadIdx.x] = {c.name};")
    w.line("__syncthreads();")
    with w.braces("if (lane == 0)"):
        _halves(w, folded, places, "threadIdx.x", w.layout.threads, "")
        for c, (_, one) in zip(folded.parts, places, strict=True):
            w.line(f"{one}[threadIdx.x] = {c.name};")
    w.line("__syncthreads();")
    for c, (_, one) in zip(folded.parts, places, strict=True):
        w.line(f"{c.name} = {one}[threadIdx.x];")


def _halves(
    w: Writer, folded: Accumulator, places: list[tuple[str, str]], first: str, count: int, at: str
) -> None:
    """Accumulators that lie a warp apart in shared memory become one, by one thread."""
    if count > 1:
        w.line("#pragma unroll")
        with w.braces(f"for (int h = {count // 2}; h > 0; h >>= 1)"):
            w.line("#pragma unroll")
            with w.braces("for (int k = 0; k < h; ++k)"):
                for c, (many, _) in zip(folded.parts, places, strict=True):
                    w.line(f"{c.name}{at} = {many}[{first} + k * {WARP_LANES}];")
                others = [f"{m}[{first} + (k + h) * {WARP_LANES}]" for m, _ in places]
                folded.merge([at] * len(others), others)
                for c, (many, _) in zip(folded.parts, places, strict=True):
                    w.line(f"{many}[{first} + k * {WARP_LANES}] = {c.name}{at};")
