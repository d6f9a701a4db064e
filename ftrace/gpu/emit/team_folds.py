"""Folds: accumulators in registers, and how those of a team's threads become one.

A thread has one accumulator per fold, or one per element that it takes at once where the order
shows. `mapping.py` gave every fold as many ways as there are such accumulators in a team, numbered
as the iterations fall on them; here they are combined as ir.Fold says, the upper half onto the
lower: first the warps of a block, through shared memory, then the lanes of a warp, by shuffles,
then the elements of a thread.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ftrace.gpu.emit import cuda_spelling
from ftrace.gpu.emit.thread_branches import combined
from ftrace.gpu.emit.writer import Writer
from ftrace.gpu.grid.layout import BLOCK, COLUMN, WARP_LANES, has_tree, parts
from ftrace.lowering.kernel.fold_trees import identity
from ftrace.lowering.kernel.ir import PAIRS, Atom, Fold, Loop

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
        first: index of the first one.
        cell: number of the first cell among those of a loop's folds.
    """

    def __init__(self, w: Writer, fold: Fold, names: tuple[str, str], count: int) -> None:
        """Declare and start; `names` are a name and the dtype of a pair's index."""
        self.w, self.fold, (name, index) = w, fold, names
        self.count = count if has_tree(fold) else 1
        self.first = "[0]" if self.count > 1 else ""
        self.cell = 0
        start = cuda_spelling.literal(identity(fold.op, fold.acc), fold.acc)
        self.cells = [Cell(f"f{name}", fold.acc, start)]
        if fold.op in PAIRS:
            greatest = identity("min", index)
            self.cells.append(Cell(f"k{name}", index, cuda_spelling.literal(greatest, index)))
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
            given = f"({cuda_spelling.spell('cast', [given], [values[0].dtype], fold.acc)})"
        if fold.op in PAIRS:
            self._take(self.names(""), [given, w.value(values[1])], only)
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

    def merge(self, cells: Sequence[str], others: Sequence[str]) -> None:
        """Combine the cells of an accumulator with those of another one."""
        w, fold = self.w, self.fold
        if fold.op in PAIRS:
            self._take(cells, others, "")
        elif fold.block:
            self._two_sum(cells[0], others[0], cells[1], others[1])
        else:
            w.line(f"{cells[0]} = {combined(fold.op, [cells[0], others[0]], fold.acc)};")

    def names(self, at: str) -> list[str]:
        """The cells that are combined, at an index."""
        return [c.name + at for c in self.parts]

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

    def _take(self, cells: Sequence[str], others: Sequence[str], only: str) -> None:
        """A pair: the first NaN, or the extreme with the least index."""
        w, kind = self.w, self.w.type
        value, index = cells
        beats = "gt" if self.fold.op == "argmax" else "lt"
        acc = self.fold.acc
        with w.braces():
            w.line(f"const {kind(acc)} x = {others[0]};")
            w.line(f"const {kind(self.cells[1].dtype)} y = {others[1]};")
            better = cuda_spelling.spell(beats, ["x", value], [acc, acc], "b1")
            equal = cuda_spelling.spell("eq", ["x", value], [acc, acc], "b1")
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
                self.merge(self.names(f"[{k}]"), self.names(f"[{k + half}]"))
            half //= 2

    def result(self, extent: Atom) -> list[str]:
        """The values of the finished fold."""
        first = self.names(self.first)
        if self.fold.op in PAIRS:
            return [first[0], f"{self.w.count(extent)} == 0 ? 0 : {first[1]}"]
        if self.fold.block:
            high, low = first
            return [f"({low} - {low} == 0) ? {high} + {low} : {high}"]
        return first


def accumulators(w: Writer, loop: Loop, count: int) -> list[tuple[Accumulator, list[Atom]]]:
    """Start the folds of a loop; each with what the body leaves for it."""
    found: list[tuple[Accumulator, list[Atom]]] = []
    first = cell = 0
    for fold in loop.folds:
        width = 2 if fold.op in PAIRS else 1
        values = list(loop.body.results[first : first + width])
        names = str(loop.outs[first].id), values[-1].dtype
        found.append((Accumulator(w, fold, names, count), values))
        found[-1][0].cell = cell
        first, cell = first + width, cell + parts(fold)
    return found


# --- the threads of a team


def together(w: Writer, folded: Accumulator) -> None:
    """The accumulators of all threads of a team become one, which all of them get.

    In the first function of a split loop those of a block go to scratch memory; in the second one
    they come from there.
    """
    if w.layout.split > 1 and not w.partial:
        _from_scratch(w, folded)
    if w.layout.team == COLUMN:
        _rows(w, folded)
    elif w.layout.team == BLOCK:
        _block(w, folded)
    else:
        _lanes(w, folded, w.threads)
        folded.own()
        for c, name in zip(folded.parts, folded.names(folded.first), strict=True):
            w.line(f"{name} = {_shuffled(c, w, name, '__shfl_sync', '0', w.threads)};")


def _lanes(w: Writer, folded: Accumulator, count: int) -> None:
    """Upper ones of some neighbouring lanes onto lower ones."""
    with w.unrolled(folded.count) as at:
        w.line("#pragma unroll")
        with w.braces(f"for (int d = {count // 2}; d > 0; d >>= 1)"):
            others: list[str] = []
            for c, name in zip(folded.parts, folded.names(at), strict=True):
                value = _shuffled(c, w, name, "__shfl_down_sync", "d", count)
                w.line(f"const {w.type(c.dtype)} o{len(others)} = {value};")
                others.append(f"o{len(others)}")
            folded.merge(folded.names(at), others)


def _shuffled(cell: Cell, w: Writer, name: str, how: str, lane: str, count: int) -> str:
    """A cell of another one of `count` lanes."""
    among = f", {count}" if count < WARP_LANES else ""
    small = "(int)" if cell.dtype[1:] in ("1", "2") else ""
    return f"({w.type(cell.dtype)}){how}({FULL}, {small}{name}, {lane}{among})"


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
    threads = w.threads
    places = _shared(w, folded, threads * folded.count, 1)
    with w.unrolled(folded.count) as at:
        for (many, _), name in zip(places, folded.names(at), strict=True):
            w.line(f"{many}[{_slot(at, threads)}lane] = {name};")
    w.line("__syncthreads();")
    with w.braces(f"if (lane < {WARP_LANES})"):
        with w.unrolled(folded.count) as at:
            slots = [f"{many}[{_slot(at, threads)}lane + " for many, _ in places]
            _halves(w, folded, slots, (threads // WARP_LANES, WARP_LANES), at)
        if w.partial:
            _to_scratch(w, folded)
        else:
            _lanes(w, folded, WARP_LANES)
            folded.own()
            with w.braces("if (lane == 0)"):
                for (_, one), name in zip(places, folded.names(folded.first), strict=True):
                    w.line(f"{one}[0] = {name};")
    w.line("__syncthreads();")
    if not w.partial:
        for (_, one), name in zip(places, folded.names(folded.first), strict=True):
            w.line(f"{name} = {one}[0];")


def _slot(at: str, threads: int) -> str:
    return f"e * {threads} + " if at else ""


def _rows(w: Writer, folded: Accumulator) -> None:
    """Upper threads of a column onto lower ones."""
    across = w.layout.across
    places = _shared(w, folded, across * w.threads, across)
    for (many, _), name in zip(places, folded.names(""), strict=True):
        w.line(f"{many}[lane * {across} + threadIdx.x] = {name};")
    w.line("__syncthreads();")
    with w.braces("if (lane == 0)"):
        slots = [f"{many}[threadIdx.x + " for many, _ in places]
        _halves(w, folded, slots, (w.threads, across), "")
        if w.partial:
            _to_scratch(w, folded)
        for (_, one), name in zip(places, folded.names(""), strict=True):
            w.line(f"{one}[threadIdx.x] = {name};")
    w.line("__syncthreads();")
    for (_, one), name in zip(places, folded.names(""), strict=True):
        w.line(f"{name} = {one}[threadIdx.x];")


def _halves(
    w: Writer, folded: Accumulator, slots: Sequence[str], lie: tuple[int, int], at: str
) -> None:
    """So many accumulators, so far apart in shared memory, become one, by one thread."""
    (count, apart), names = lie, folded.names(at)
    with _tree(w, count):
        for slot, name in zip(slots, names, strict=True):
            w.line(f"{name} = {slot}k * {apart}];")
        folded.merge(names, [f"{slot}(k + h) * {apart}]" for slot in slots])
        for slot, name in zip(slots, names, strict=True):
            w.line(f"{slot}k * {apart}] = {name};")


@contextmanager
def _tree(w: Writer, count: int) -> Generator[None]:
    """Loops over what is combined pairwise, k + h onto k; nothing for one."""
    w.line("#pragma unroll")
    with w.braces(f"for (int h = {count // 2}; h > 0; h >>= 1)"):
        w.line("#pragma unroll")
        with w.braces("for (int k = 0; k < h; ++k)"):
            yield


# --- between the two functions of a split loop


def _place(w: Writer, cell: int, kind: str, part: str, at: str) -> str:
    """Where a part's accumulator lies in scratch memory.

    One after the other lie the cells of all folds, each with room for 8 bytes of everything; there
    the parts of a column lie a row apart, the lanes and elements of a block's warp together.
    """
    split, width = w.layout.split, w.layout.width
    if w.layout.team == COLUMN:
        count, where = f"{split} * {w.teams}", f"({part}) * {w.teams} + {w.team}"
    else:
        count = f"{split * width * WARP_LANES} * {w.teams}"
        element = f" + {'e' if at else '0'}) * {WARP_LANES} + lane % {WARP_LANES}"
        where = f"(({w.team} * {split} + ({part})) * {width}{element}"
    return f"(({kind}*)(scratch + {8 * cell} * ({count})))[{where}]"


def _to_scratch(w: Writer, folded: Accumulator) -> None:
    with w.unrolled(folded.count) as at:
        for k, (c, name) in enumerate(zip(folded.parts, folded.names(at), strict=True)):
            place = _place(w, folded.cell + k, w.type(c.dtype), "part", at)
            w.line(f"{'if (valid) ' if w.layout.team == COLUMN else ''}{place} = {name};")


def _from_scratch(w: Writer, folded: Accumulator) -> None:
    """What a thread of the second function starts with: some parts, upper ones onto lower ones."""
    rows = w.threads if w.layout.team == COLUMN else w.threads // WARP_LANES
    row = "lane" if w.layout.team == COLUMN else f"lane / {WARP_LANES}"
    each = w.layout.split // rows
    with w.unrolled(folded.count) as at:
        for c in folded.parts:
            w.line(f"{w.type(c.dtype)} t{c.name}[{each}];")
        w.line("#pragma unroll")
        with w.braces(f"for (int k = 0; k < {each}; ++k)"):
            for k, c in enumerate(folded.parts):
                place = _place(w, folded.cell + k, w.type(c.dtype), f"k * {rows} + {row}", at)
                w.line(f"t{c.name}[k] = {place};")
        with _tree(w, each):
            cells = [[f"t{c.name}[{k}]" for c in folded.parts] for k in ("k", "k + h")]
            folded.merge(*cells)
        for c, name in zip(folded.parts, folded.names(at), strict=True):
            w.line(f"{name} = t{c.name}[0];")
