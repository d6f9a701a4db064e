"""Folds: accumulators in registers, and how those of a team's threads become one.

A thread has one accumulator per fold. What the elements that it takes at once leave is combined
before. At the end those of its team are combined as ir.Fold says, neighbours first: the lanes of a
warp, by shuffles, then the warps of a block, through shared memory, then what blocks left in
scratch memory. The threads of a column lie in different warps: they meet in shared memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ftrace.gpu.emit import cuda_spelling
from ftrace.gpu.emit.thread_branches import combined
from ftrace.gpu.emit.writer import Writer
from ftrace.gpu.grid.layout import BLOCK, COLUMN, WARP_LANES, parts
from ftrace.lowering.kernel.fold_trees import identity
from ftrace.lowering.kernel.ir import PAIRS, Atom, Fold, Loop

FULL = "0xffffffffu"  # all lanes of a warp


@dataclass
class Cell:
    """One part of an accumulator: a C variable."""

    name: str
    dtype: str
    start: str


class Accumulator:
    """The accumulator of one fold in a thread.

    Attributes:
        fold: what is folded.
        cells: value; value and index of a pair; high, low and running sum of a fold in blocks.
        cell: number of the first cell among those of a loop's folds.
    """

    def __init__(self, w: Writer, fold: Fold, names: tuple[str, str], cell: int) -> None:
        """Declare and start; `names` are a name and the dtype of a pair's index."""
        self.w, self.fold, self.cell, (name, index) = w, fold, cell, names
        start = cuda_spelling.literal(identity(fold.op, fold.acc), fold.acc)
        self.cells = [Cell(f"f{name}", fold.acc, start)]
        if fold.op in PAIRS:
            greatest = identity("min", index)
            self.cells.append(Cell(f"k{name}", index, cuda_spelling.literal(greatest, index)))
        if fold.block:
            self.cells += [Cell(f"{c}{name}", fold.acc, start) for c in "ls"]
        self.group = f"e{name}" if fold.near > 1 else ""
        for c in self.cells:
            w.line(f"{w.type(c.dtype)} {c.name} = {c.start};")

    def open(self) -> None:
        """Make room for what a group of elements leaves."""
        if self.group:
            self.w.line(f"{self.w.type(self.fold.acc)} {self.group}[{self.fold.near}];")

    def step(self, values: Sequence[Atom], at: str, only: str) -> None:
        """Take in what one iteration leaves; `at` is the element's index."""
        w, fold = self.w, self.fold
        given = w.value(values[0])
        if values[0].dtype != fold.acc:
            given = f"({cuda_spelling.spell('cast', [given], [values[0].dtype], fold.acc)})"
        if fold.op in PAIRS:
            self._take(self.names, [given, w.value(values[1])], only)
        elif self.group:
            start = self.cells[0].start
            w.line(f"{self.group}{at} = {f'{only} ? {given} : {start}' if only else given};")
        else:
            self._add(given, only)

    def close(self) -> None:
        """Take in what a group of elements left, neighbours first."""
        if self.group:
            values = [f"{self.group}[{k}]" for k in range(self.fold.near)]
            while len(values) > 1:
                pairs = zip(values[::2], values[1::2], strict=True)
                values = [f"({combined(self.fold.op, pair, self.fold.acc)})" for pair in pairs]
            self._add(values[0], "")

    def _add(self, value: str, only: str) -> None:
        cell = self.cells[2 if self.fold.block else 0].name
        guard = f"if ({only}) " if only else ""
        self.w.line(f"{guard}{cell} = {combined(self.fold.op, [cell, value], self.fold.acc)};")

    def flush(self) -> None:
        """End a block: the running sum goes to the pair."""
        high, low, running = (c.name for c in self.cells)
        self.w.line(f"ft_add_exact({high}, {low}, {running}, {self.cells[1].start});")
        self.w.line(f"{running} = {self.cells[2].start};")

    def merge(self, cells: Sequence[str], others: Sequence[str]) -> None:
        """Combine the cells of an accumulator with those of another one."""
        w, fold = self.w, self.fold
        if fold.op in PAIRS:
            self._take(cells, others, "")
        elif fold.block:
            w.line(f"ft_add_exact({', '.join((*cells, *others))});")
        else:
            w.line(f"{cells[0]} = {combined(fold.op, [cells[0], others[0]], fold.acc)};")

    @property
    def names(self) -> list[str]:
        """The cells that are combined."""
        return [c.name for c in self.parts]

    @property
    def parts(self) -> list[Cell]:
        """What is combined: running sums have ended before."""
        return self.cells[:2] if self.fold.block else self.cells

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

    def result(self, extent: Atom) -> list[str]:
        """The values of the finished fold."""
        first = self.names
        if self.fold.op in PAIRS:
            return [first[0], f"{self.w.count(extent)} == 0 ? 0 : {first[1]}"]
        if self.fold.block:
            high, low = first
            return [f"({low} - {low} == 0) ? {high} + {low} : {high}"]
        return first


def accumulators(w: Writer, loop: Loop) -> list[tuple[Accumulator, list[Atom]]]:
    """Start the folds of a loop; each with what the body leaves for it."""
    found: list[tuple[Accumulator, list[Atom]]] = []
    first = cell = 0
    for fold in loop.folds:
        width = 2 if fold.op in PAIRS else 1
        values = list(loop.body.results[first : first + width])
        names = str(loop.outs[first].id), values[-1].dtype
        found.append((Accumulator(w, fold, names, cell), values))
        first, cell = first + width, cell + parts(fold)
    return found


# --- the threads of a team


def together(w: Writer, folded: Sequence[Accumulator]) -> None:
    """The accumulators of all threads of a team become one each, which all of them get.

    In the first function of a split loop those of a block go to scratch memory; in the second one
    they come from there.
    """
    if w.layout.split > 1 and not w.partial:
        for one in folded:
            _from_scratch(w, one)
    if w.layout.team == COLUMN:
        for one in folded:
            _rows(w, one)
    elif w.layout.team == BLOCK:
        _block(w, folded)
    else:
        for one in folded:
            _lanes(w, one, w.threads)
            _from_first(w, one, w.threads)


def _lanes(w: Writer, folded: Accumulator, count: int) -> None:
    """Some neighbouring lanes become one, the first."""
    if count == 1:
        return
    w.line("#pragma unroll")
    with w.braces(f"for (int d = 1; d < {count}; d <<= 1)"):
        others: list[str] = []
        for c in folded.parts:
            value = _shuffled(c, w, "__shfl_down_sync", "d", count)
            w.line(f"const {w.type(c.dtype)} o{len(others)} = {value};")
            others.append(f"o{len(others)}")
        folded.merge(folded.names, others)


def _from_first(w: Writer, folded: Accumulator, count: int) -> None:
    """All of some neighbouring lanes get what the first one has."""
    for c in folded.parts if count > 1 else ():
        w.line(f"{c.name} = {_shuffled(c, w, '__shfl_sync', '0', count)};")


def _shuffled(cell: Cell, w: Writer, how: str, lane: str, count: int) -> str:
    """A cell of another one of `count` lanes."""
    among = f", {count}" if count < WARP_LANES else ""
    small = "(int)" if cell.dtype[1:] in ("1", "2") else ""
    return f"({w.type(cell.dtype)}){how}({FULL}, {small}{cell.name}, {lane}{among})"


def _shared(w: Writer, folded: Sequence[Accumulator], count: int) -> list[list[str]]:
    """Places in shared memory for `count` of each cell.

    There are two of each, used by turns: a thread that goes on to the next fold writes where
    nobody reads any more, since all have met in between.
    """
    at = 0
    places: list[list[str]] = []
    w.line("phase ^= 1;")
    for one in folded:
        places.append([])
        for c in one.parts:
            kind, name = w.type(c.dtype), f"m{c.name}"
            w.line(f"{kind}* const {name} = ({kind}*)(shared[phase] + {at});")
            at += -(-count * int(c.dtype[1:]) // 16) * 16
            places[-1].append(name)
    w.shared = max(w.shared, at)
    return places


def _block(w: Writer, folded: Sequence[Accumulator]) -> None:
    """The lanes of every warp become one, then all warps do the same with those of the warps.

    In a second function there may be fewer parts than lanes: then there are copies of them.
    """
    count = min(w.layout.split, WARP_LANES) if w.stage else WARP_LANES
    warps = w.threads // WARP_LANES
    for one in folded:
        _lanes(w, one, count)
    if warps > 1:
        places = _shared(w, folded, warps)
        with w.braces(f"if (lane % {WARP_LANES} == 0)"):
            for one, names in zip(folded, places, strict=True):
                for name, c in zip(names, one.parts, strict=True):
                    w.line(f"{name}[lane / {WARP_LANES}] = {c.name};")
        w.line("__syncthreads();")
        for one, names in zip(folded, places, strict=True):
            for name, c in zip(names, one.parts, strict=True):
                w.line(f"{c.name} = {name}[lane % {warps}];")
            _lanes(w, one, warps)
    if w.partial:
        with w.braces("if (lane == 0)"):
            for one in folded:
                _to_scratch(w, one)
        return
    for one in folded:
        _from_first(w, one, warps if warps > 1 else count)


def _rows(w: Writer, folded: Accumulator) -> None:
    """The threads of a column become one: in every step neighbours of those that are left."""
    across = w.layout.across
    (places,) = _shared(w, [folded], across * w.threads)
    here = f"[lane * {across} + threadIdx.x]"
    for name, c in zip(places, folded.parts, strict=True):
        w.line(f"{name}{here} = {c.name};")
    w.line("__syncthreads();")
    if w.threads > 1:
        with w.braces(f"for (unsigned d = 1; d < {w.threads}; d <<= 1)"):
            with w.braces("if (lane % (2 * d) == 0)"):
                others = [f"{name}[(lane + d) * {across} + threadIdx.x]" for name in places]
                folded.merge(folded.names, others)
                for name, c in zip(places, folded.parts, strict=True):
                    w.line(f"{name}{here} = {c.name};")
            w.line("__syncthreads();")
    if w.partial:
        with w.braces("if (valid && lane == 0)"):
            _to_scratch(w, folded)
        return
    for name, c in zip(places, folded.parts, strict=True):
        w.line(f"{c.name} = {name}[threadIdx.x];")


# --- between the two functions of a split loop


def _place(w: Writer, cell: int, kind: str, part: str) -> str:
    """Where a part's accumulator lies in scratch memory.

    One after the other lie the cells of all folds, each with room for 8 bytes of everything; there
    the parts of a column lie a row apart, those of a block together.
    """
    split = w.layout.split
    count = f"{split} * {w.teams}"
    where = f"({part}) * {w.teams} + {w.team}"
    if w.layout.team == BLOCK:
        where = f"{w.team} * {split} + ({part})"
    return f"(({kind}*)(scratch + {8 * cell} * ({count})))[{where}]"


def _to_scratch(w: Writer, folded: Accumulator) -> None:
    for k, c in enumerate(folded.parts):
        w.line(f"{_place(w, folded.cell + k, w.type(c.dtype), 'part')} = {c.name};")


def _from_scratch(w: Writer, folded: Accumulator) -> None:
    """What a thread of the second function starts with: neighbouring parts, combined."""
    each = max(w.layout.split // w.threads, 1)
    first = f"lane * {each}" if w.layout.team == COLUMN else f"lane % {w.layout.split}"
    for c in folded.parts:
        w.line(f"{w.type(c.dtype)} t{c.name}[{each}];")
    w.line("#pragma unroll")
    with w.braces(f"for (int k = 0; k < {each}; ++k)"):
        for k, c in enumerate(folded.parts):
            place = _place(w, folded.cell + k, w.type(c.dtype), f"{first} + k")
            w.line(f"t{c.name}[k] = {place};")
    if each > 1:
        w.line("#pragma unroll")
        with w.braces(f"for (int d = 1; d < {each}; d <<= 1)"):
            w.line("#pragma unroll")
            with w.braces(f"for (int k = 0; k < {each}; k += 2 * d)"):
                cells = [[f"t{c.name}[{k}]" for c in folded.parts] for k in ("k", "k + d")]
                folded.merge(*cells)
    for c in folded.parts:
        w.line(f"{c.name} = t{c.name}[0];")
