"""Loops: serial ones, and lane loops that run whole vectors of iterations at once.

A lane loop has full vectors and a ragged end, each with a copy of the body.
The end is a vector under a mask on hosts that have them; on others it runs one iteration at a time,
into the accumulator (i mod ways) that the fold's tree demands. Full vectors have no mask: loads and
stores under one take twice the time in memory beyond the second cache, all true though it be.
Blocks of a fold end where the counter reaches a multiple of their length.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from ftrace.cpu.emit import divergent_lanes, interrupts, lane_folds, thread_regions
from ftrace.cpu.emit.counted_loops import ZERO, Body, Bounds, Cells, counted
from ftrace.cpu.emit.emitter import State
from ftrace.cpu.llvm.text import Typed, type_of
from ftrace.cpu.llvm.vector_idioms import iota, part
from ftrace.lowering.kernel.fold_trees import has_tree
from ftrace.lowering.kernel.ir import PAIRS, Fold, Loop, While
from ftrace.lowering.kernel.schedule import LANE
from ftrace.lowering.kernel_passes.uniformity import varying_in

REGISTERS = (
    4  # of values, with which pairs are folded at once; of indices there may be twice as many
)


def loop(s: State, stmt: Loop) -> None:
    """Write a loop."""
    lanes = _lanes(s, stmt)
    if thread_regions.is_shared(s, stmt, lanes):
        outs = thread_regions.write(s, stmt, lanes, partial(_part, lanes))
    else:
        bounds = ZERO, s.scalar(stmt.extent)
        outs = _lane_loop(s, stmt, lanes, bounds) if lanes > 1 else _serial_loop(s, stmt, bounds)
    for var, value in zip(stmt.outs, outs, strict=True):
        s.define(var, value)


def _lanes(s: State, stmt: Loop) -> int:
    """How many iterations run at once: enough for every fold's ways, and dividing its blocks."""
    schedule = s.launch.schedule
    if s.lanes > 1 or schedule.lanes == 1 or stmt.params or schedule.role(stmt) != LANE:
        return 1
    ways = max((f.ways for f in stmt.folds if has_tree(f)), default=1)
    if stmt.folds and all(f.op in PAIRS for f in stmt.folds):  # each step waits for the one before
        size, width = min(int(f.acc[1:]) for f in stmt.folds), s.text.host.vector_bytes
        ways = max(ways, min(REGISTERS * width // size, width))
    for lanes in (max(schedule.lanes, ways), ways):
        if all(f.block % lanes == 0 for f in stmt.folds):
            return lanes
    return 1


def _part(lanes: int, s: State, stmt: Loop, first: Typed, stop: Typed) -> list[Cells]:
    """Some iterations of a loop that threads share: the state of each fold."""
    if lanes > 1:
        return _swept(s, stmt, lanes, (first, stop))
    _serial_loop(s, stmt, (first, stop))
    return []


def _index_types(stmt: Loop) -> list[str]:
    """Per fold, the type of its last result: of the index of a pair."""
    places, first = [], 0
    for fold in stmt.folds:
        first += lane_folds.width(fold)
        places.append(stmt.body.results[first - 1].dtype)
    return places


def _split(stmt: Loop, left: Sequence[Typed]) -> list[Sequence[Typed]]:
    """The values that a body leaves, by fold."""
    found, first = [], 0
    for fold in stmt.folds:
        found.append(left[first : first + lane_folds.width(fold)])
        first += lane_folds.width(fold)
    return found


def _regroup(states: Sequence[Cells], cells: Cells) -> list[Cells]:
    """Cells in groups as long as those of `states`."""
    found, first = [], 0
    for state in states:
        found.append(cells[first : first + len(state)])
        first += len(state)
    return found


def _flushed(s: State, fold: Fold, at: Typed, state: Cells) -> Cells:
    """The state with the block before ended, if one starts here."""
    if not fold.block:
        return state
    text = s.text
    begin, go = text.fresh("block"), text.fresh("go")
    before = text.block
    text.branch(_starts(s, fold, at), begin, go)
    text.label(begin)
    ended = lane_folds.flush(text, state)
    text.jump(go)
    text.label(go)
    both_ways = zip(state, ended, strict=True)
    return [text.phi(a.dtype, a.lanes, [(a, before), (b, begin)]) for a, b in both_ways]


def _starts(s: State, fold: Fold, at: Typed) -> Typed:
    """Whether iteration `at` is the first of a block."""
    text, zero = s.text, Typed("0", "i8", 1)
    if fold.block & (fold.block - 1) == 0:
        rest = text.op("and", at, Typed(str(fold.block - 1), "i8", 1))
    else:
        rest = text.op("urem", at, Typed(str(fold.block), "i8", 1))
    return text.compare("eq", rest, zero)


# --- serial loops


def _serial_loop(s: State, stmt: Loop, bounds: Bounds) -> Cells:
    """One iteration after the other; the values may be vectors of the lanes around us."""
    run = _Serial(s, stmt)
    start = [c for group in (*run.states, run.inits) for c in group]
    watch = interrupts.watch(s, stmt.body) if stmt.params else None
    cells = counted(s, (*bounds, 1), start, run.body, watch)
    *groups, carried = _regroup([*run.states, run.inits], cells)
    outs: Cells = []
    for fold, state, apart in zip(stmt.folds, groups, run.apart, strict=True):
        if apart is not None:
            ended = apart.collect()
        else:
            ended = lane_folds.flush(s.text, state) if fold.block else state
        outs += lane_folds.finish(s.text, fold, ended)
    return outs + carried


class _Serial:
    """The body of a serial loop, and what it carries: folds in registers or apart, variables."""

    def __init__(self, s: State, stmt: Loop) -> None:
        self.s, self.stmt = s, stmt
        self.apart: list[_Apart | None] = []
        self.states: list[Cells] = []
        self.counting = lane_folds.counting(stmt)
        first = 0
        kinds = zip(stmt.folds, _index_types(stmt), self.counting, strict=True)
        for fold, index, counts in kinds:
            wide = s.lanes if stmt.outs[first].id in s.varying else 1
            state = lane_folds.start(s.text, fold, index, wide, counts)
            split = has_tree(fold) and fold.ways > 1
            self.apart.append(_Apart(s, fold, state) if split else None)
            self.states.append([] if split else state)
            first += lane_folds.width(fold)
        pairs = zip(stmt.params, stmt.inits, strict=True)
        self.inits = [s.wide(a) if v.id in s.varying else s.scalar(a) for v, a in pairs]

    def body(self, at: Typed, cells: Cells) -> Cells:
        """One iteration: the next cells."""
        s, stmt = self.s, self.stmt
        *groups, carried = _regroup([*self.states, self.inits], cells)
        for var, value in zip((stmt.axis, *stmt.params), (at, *carried), strict=True):
            s.define(var, value)
        s.push()
        groups = [
            g if apart else _flushed(s, f, at, g)
            for f, g, apart in zip(stmt.folds, groups, self.apart, strict=True)
        ]
        left = s.block(stmt.body)
        given = zip(_split(stmt, left), self.counting, strict=True)
        new: Cells = []
        for fold, (values, counts), state, apart in zip(
            stmt.folds, given, groups, self.apart, strict=True
        ):
            if apart is not None:
                apart.take(at, values)
            else:
                fitting = _fit(s, values, state[0])
                new += lane_folds.step(s.text, fold, state, fitting, None, counts)
        count = len(stmt.outs) - len(stmt.params)
        for value, like in zip(left[count:], self.inits, strict=True):
            new += _fit(s, [value], like)
        s.pop()
        return new


def _fit(s: State, values: Sequence[Typed], like: Typed) -> list[Typed]:
    """Values with as many lanes as another."""
    return [v if v.lanes == like.lanes else s.widen(v) for v in values]


class _Apart:
    """Accumulators of a serial fold with several ways, in the function's frame."""

    def __init__(self, s: State, fold: Fold, state: Cells) -> None:
        self.s, self.fold = s, fold
        self.kind = type_of(state[0].dtype, state[0].lanes)
        self.like = state[0]
        self.places = [self._reserve() for _ in state]
        for way in range(fold.ways):
            self._save(Typed(str(way), "i8", 1), state)

    def _reserve(self) -> str:
        place = self.s.text.fresh("frame")
        given = f"  %{place} = alloca [{self.fold.ways} x {self.kind}], align 64"
        self.s.scopes[0].lines.append(given)
        return f"%{place}"

    def _at(self, place: str, way: Typed) -> str:
        given = f"getelementptr {self.kind}, ptr {place}, i64 {way.name}"
        return self.s.text.let(given, "i8", 1).name

    def _load(self, way: Typed) -> Cells:
        text = self.s.text
        return [
            text.let(f"load {self.kind}, ptr {self._at(p, way)}", v.dtype, v.lanes)
            for p, v in zip(self.places, [self.like] * len(self.places), strict=True)
        ]

    def _save(self, way: Typed, state: Cells) -> None:
        for place, cell in zip(self.places, state, strict=True):
            self.s.text.line(f"store {self.kind} {cell.name}, ptr {self._at(place, way)}")

    def take(self, at: Typed, values: Sequence[Typed]) -> None:
        """Take in one iteration's value; the first of a block ends the one before."""
        s, fold = self.s, self.fold
        if fold.block:
            begin, go = s.text.fresh("block"), s.text.fresh("go")
            s.text.branch(_starts(s, fold, at), begin, go)
            s.text.label(begin)
            self._flush()
            s.text.jump(go)
            s.text.label(go)
        way = s.text.op("and", at, Typed(str(fold.ways - 1), "i8", 1))
        given = _fit(s, values, self.like)
        self._save(way, lane_folds.step(s.text, fold, self._load(way), given, None, False))

    def _flush(self) -> None:
        def body(way: Typed, cells: Cells) -> Cells:
            self._save(way, lane_folds.flush(self.s.text, self._load(way)))
            return cells

        counted(self.s, (Typed("0", "i8", 1), Typed(str(self.fold.ways), "i8", 1), 1), [], body)

    def collect(self) -> Cells:
        """All accumulators as one."""
        if self.fold.block:
            self._flush()
        states = [self._load(Typed(str(way), "i8", 1)) for way in range(self.fold.ways)]
        return lane_folds.fold_list(self.s.text, self.fold, states)


# --- lane loops


def _lane_loop(s: State, stmt: Loop, lanes: int, bounds: Bounds) -> Cells:
    """Many iterations at once, and what they leave."""
    outs: Cells = []
    for fold, state in zip(stmt.folds, _swept(s, stmt, lanes, bounds), strict=False):
        ended = lane_folds.flush(s.text, state) if fold.block else state
        outs += lane_folds.finish(s.text, fold, lane_folds.fold_lanes(s.text, fold, ended))
    return outs


def _swept(s: State, stmt: Loop, lanes: int, bounds: Bounds) -> list[Cells]:
    """Many iterations at once, on accumulators that are vectors of `ways`."""
    text, (start, stop) = s.text, bounds
    ways = [f.ways if has_tree(f) else lanes for f in stmt.folds]
    kinds = zip(stmt.folds, _index_types(stmt), ways, lane_folds.counting(stmt), strict=True)
    states = [lane_folds.start(text, *kind) for kind in kinds]
    cells = [c for state in states for c in state]
    may_leave = divergent_lanes.leaving(s, stmt)
    if may_leave is not None:
        ordered, loop = may_leave
        _Lanes(s, ordered, lanes, states).in_two_rounds(loop, start, stop)
        return []
    run = _Lanes(s, stmt, lanes, states)
    full = text.op("and", stop, Typed(str(-lanes), "i8", 1))
    cells = counted(s, (start, full, lanes), cells, run.full)
    step, end = (lanes, run.ragged(stop)) if text.host.masked else (1, run.single)
    cells = counted(s, (full, stop, step), cells, end)
    return _regroup(states, cells)


class _Lanes:
    """The ways to run the body of a lane loop."""

    def __init__(self, s: State, stmt: Loop, lanes: int, states: list[Cells]) -> None:
        self.s, self.stmt, self.lanes, self.states = s, stmt, lanes, states
        self.counting = lane_folds.counting(stmt)

    def full(self, at: Typed, cells: Cells) -> Cells:
        """A vector of iterations, all of them active."""
        return self._vector(at, cells, None)

    def ragged(self, stop: Typed) -> Body:
        """A vector of iterations of which fewer than all are left."""
        return lambda at, cells: self._vector(at, cells, self._active(at, stop))

    def either(self, stop: Typed) -> Body:
        """A vector of iterations under a mask, which is all true but in the last round."""

        def body(at: Typed, cells: Cells) -> Cells:
            text, lanes = self.s.text, self.lanes
            last, go = text.fresh("last"), text.fresh("go")
            before = text.block
            left = text.sub(stop, at)
            full = text.compare("sge", left, Typed(str(lanes), "i8", 1))
            text.branch(full, go, last)
            text.label(last)
            mask = self._active(at, stop)
            text.jump(go)
            text.label(go)
            true = Typed("splat (i1 true)", "b1", lanes)
            mask = text.phi("b1", lanes, [(true, before), (mask, last)])
            return self._vector(at, cells, mask)

        return body

    def single(self, at: Typed, cells: Cells) -> Cells:
        """One iteration, into the accumulators of its place."""
        s, text = self.s, self.s.text
        s.define(self.stmt.axis, at)
        s.push()
        groups = self._begin(at, cells)
        left = s.block(self.stmt.body)
        s.pop()
        new: Cells = []
        for fold, state, values, counts in self._taken(groups, left):
            ways, mask = state[0].lanes, None
            if ways > 1:
                way = text.op("and", at, text.const(ways - 1, "i8"))
                mask = text.compare("eq", text.splat(way, ways), iota("i8", ways))
            spread = [text.splat(v, ways) for v in values]
            new += lane_folds.step(text, fold, state, spread, mask, counts)
        return new

    def _begin(self, at: Typed, cells: Cells) -> list[Cells]:
        groups = _regroup(self.states, cells)
        return [_flushed(self.s, f, at, g) for f, g in zip(self.stmt.folds, groups, strict=True)]

    def _active(self, at: Typed, stop: Typed) -> Typed:
        """The iterations before the end; fewer than `lanes` are left."""
        text = self.s.text
        kind = "u1" if self.lanes <= 128 else "u2"
        left = text.convert("trunc", text.sub(stop, at), kind)
        return text.compare("ult", iota(kind, self.lanes), text.splat(left, self.lanes))

    def _vector(self, at: Typed, cells: Cells, mask: Typed | None) -> Cells:
        s = self.s
        s.define(self.stmt.axis, at)
        s.push()
        groups = self._begin(at, cells)
        s.lanes, s.axis, s.mask = self.lanes, self.stmt.axis, mask
        s.varying = varying_in(self.stmt.body, self.stmt.axis)
        left = [s.widen(v) for v in s.block(self.stmt.body)]
        new: Cells = []
        for fold, cells, values, counts in self._taken(groups, left):
            state = cells
            for piece, active in self._pieces(values, mask, state[0].lanes):
                state = lane_folds.step(s.text, fold, state, piece, active, counts)
            new += state
        s.lanes, s.axis, s.mask, s.varying = 1, None, None, set()
        s.pop()
        return new

    def in_two_rounds(self, loop: While, start: Typed, stop: Typed) -> None:
        """All lanes, and those that this loop leaves behind together, a vector when there is one.

        One more round than there are vectors runs the last of them.
        """
        s, text, lanes = self.s, self.s.text, self.lanes
        wide = Typed(str(lanes), "i8", 1)
        behind = divergent_lanes.List(s, lanes)

        def body(at: Typed, cells: Cells) -> Cells:
            (count,) = cells
            first, then, again, go = (text.fresh(n) for n in ("first", "then", "again", "go"))
            before, inside = text.block, text.compare("slt", at, stop)
            text.branch(inside, first, then)
            text.label(first)
            s.leaving = loop
            self.either(stop)(at, [])
            s.leaving = None
            assert s.behind is not None
            more, end = behind.add(count, at, s.behind), text.block
            text.jump(then)
            text.label(then)
            count = text.phi("i8", 1, [(count, before), (more, end)])
            full = text.compare("sge", count, wide)
            some = text.compare("sgt", count, Typed("0", "i8", 1))
            before = text.block
            text.branch(text.select(inside, full, some), again, go)
            text.label(again)
            rest = text.select(full, text.sub(count, wide), Typed("0", "i8", 1))
            self._chosen(*behind.take(rest, count))
            end = text.block
            text.jump(go)
            text.label(go)
            return [text.phi("i8", 1, [(count, before), (rest, end)])]

        zero = Typed("0", "i8", 1)
        counted(s, (start, text.add(stop, wide), lanes), [zero], body)

    def _chosen(self, indices: Typed, mask: Typed) -> None:
        """The body for the elements of these indices."""
        s, axis = self.s, self.stmt.axis
        s.define(axis, indices)
        s.push()
        s.lanes, s.apart, s.mask = self.lanes, axis, mask
        s.varying = varying_in(self.stmt.body, axis)
        s.block(self.stmt.body)
        s.lanes, s.apart, s.mask, s.varying = 1, None, None, set()
        s.pop()

    def _taken(
        self, groups: Sequence[Cells], left: Sequence[Typed]
    ) -> Iterator[tuple[Fold, Cells, Sequence[Typed], bool]]:
        """Each fold, its state, what it takes in, and whether its index counts."""
        return zip(self.stmt.folds, groups, _split(self.stmt, left), self.counting, strict=True)

    def _pieces(
        self, values: Sequence[Typed], mask: Typed | None, ways: int
    ) -> Iterator[tuple[list[Typed], Typed | None]]:
        """A vector for each round of the accumulators, and the mask of each."""
        text = self.s.text
        for first in range(0, self.lanes, ways):
            piece = [part(text, v, first, ways) for v in values]
            yield piece, None if mask is None else part(text, mask, first, ways)
