"""The text of products of windows: a matrix product whose right operand is gathered on the way.

The result is (group, batch, out, place...). For a group it is the product of the weights, (out,
inside), and the windows, (inside, batch and place), of which no more is ever written out than a
*panel*: some vectors of neighbouring places by `DEPTH` elements inside. Elements of the result are
kept in registers, `rows` of them for each vector, while a panel passes; each is summed in the order
of the elements inside, wherever it stands, so that bits depend on no size of a batch and no number
of threads. Weights are read as they lie.

`loop(args, dims, steps, threads)` takes arrays that lie densely by rows, in the form of a gufunc's
loops; its data is the number of threads that may share panels (cpu/emit/thread_regions.py).
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ftrace.cpu.emit.emitter import Carried
from ftrace.cpu.emit.thread_regions import (
    ALIGN,
    CAPTURED,
    FUNCTION,
    SHARE,
    STOP,
    THREADS,
    WORDS,
)
from ftrace.cpu.llvm.text import LLVM_TYPE, Processor, Text, Typed, type_of

DEPTH: Final = 128  # elements inside windows that a panel has: it stays in the first cache
VECTORS: Final = 3  # of places in a panel
ROWS: Final = {64: 8}  # of a block of the result, by bytes of a vector: there are 32 registers
FEWER_ROWS: Final = 4  # else: there may be 16
ZERO, ONE = Typed("0", "i8", 1), Typed("1", "i8", 1)

Body = Callable[[Typed, list[Typed]], Sequence[Typed]]


def windows_text(
    strides: Sequence[int], dilation: Sequence[int], dtype: str, host: Processor, *, shared: bool
) -> str:
    """The module: `void loop(ptr args, ptr dims, ptr steps, ptr threads)`.

    Args:
        strides, dilation: from a window to the next, and inside of one, in each axis of places.
        dtype: of all arrays: real numbers of at least 4 bytes, or integers.
        host: what the code is made for.
        shared: whether there is a pool of threads.
    """
    return _Windows(tuple(strides), tuple(dilation), dtype, host, shared).text()


class _Windows:
    """Writes the functions."""

    def __init__(
        self,
        strides: tuple[int, ...],
        dilation: tuple[int, ...],
        dtype: str,
        host: Processor,
        shared: bool,
    ) -> None:
        self.strides, self.dilation = strides, dilation
        self.rank = len(strides)
        self.dtype, self.scalar = dtype, LLVM_TYPE[dtype]
        self.size = int(dtype[1:])
        self.host, self.shared = host, shared
        self.lanes = host.vector_bytes // self.size
        self.width = VECTORS * self.lanes
        self.rows = ROWS.get(host.vector_bytes, FEWER_ROWS)
        self.declarations: dict[str, str] = {}

    def text(self) -> str:
        """All of them."""
        blocks = [self._block(1 + k) for k in range(self.rows)]
        parts = [*blocks, self._range(), self._loop()]
        return "\n\n".join([*self.declarations.values(), *parts])

    def _new(self) -> Text:
        return Text(self.host, self.declarations)

    # --- a block of the result

    def _block(self, rows: int) -> str:
        """`block<rows>(weights, from row to row, panel, depth, result, from row to row, more)`.

        With `more` products are added to what is there.
        """
        t = self._new()
        places = [(r, v) for r in range(rows) for v in range(VECTORS)]
        inside = [
            t.let(_at(self.scalar, "%w", self._times(t, "%lda", r)), "i8", 1) for r in range(rows)
        ]
        out = {
            (r, v): t.let(
                _at(self.scalar, "%c", t.add(self._times(t, "%ldc", r), _number(v * self.lanes))),
                "i8",
                1,
            ).name
            for r, v in places
        }
        before = t.block
        t.line("br i1 %more, label %add, label %go")
        t.label("add")
        old = [self._load_vector(t, out[k], self.size) for k in places]
        t.jump("go")
        t.label("go")
        zero = t.const(0, self.dtype, self.lanes)
        firsts = [t.phi(self.dtype, self.lanes, [(zero, before), (v, "add")]) for v in old]

        def body(k: Typed, cells: list[Typed]) -> list[Typed]:
            place = t.mul(k, _number(self.width))
            panel = [
                self._load_vector(
                    t,
                    t.let(
                        _at(self.scalar, "%panel", t.add(place, _number(v * self.lanes))), "i8", 1
                    ).name,
                    self.host.vector_bytes,
                )
                for v in range(VECTORS)
            ]
            found: list[Typed] = []
            for r in range(rows):
                at = t.let(_at(self.scalar, inside[r].name, k), "i8", 1)
                spread = t.splat(self._element(t, at.name), self.lanes)
                sums = cells[r * VECTORS : (r + 1) * VECTORS]
                found += [self._added(t, spread, x, c) for x, c in zip(panel, sums, strict=True)]
            return found

        for k, value in zip(
            places, self._for(t, ZERO, Typed("%depth", "i8", 1), 1, firsts, body), strict=True
        ):
            kind = type_of(self.dtype, self.lanes)
            t.line(f"store {kind} {value.name}, ptr {out[k]}, align {self.size}")
        given = "ptr %w, i64 %lda, ptr %panel, i64 %depth, ptr %c, i64 %ldc, i1 %more"
        return _function(f"block{rows}", given, t)

    def _added(self, t: Text, a: Typed, b: Typed, c: Typed) -> Typed:
        return t.fma(a, b, c) if self.dtype[0] == "f" else t.add(t.mul(a, b), c)

    def _times(self, t: Text, name: str, number: int) -> Typed:
        return t.mul(Typed(name, "i8", 1), _number(number))

    def _load_vector(self, t: Text, place: str, align: int) -> Typed:
        kind = type_of(self.dtype, self.lanes)
        return t.let(f"load {kind}, ptr {place}, align {align}", self.dtype, self.lanes)

    # --- a range of panels

    def _range(self) -> str:
        """`range(region, first, stop, worker)`: some panels of all groups, one behind the other."""
        t = self._new()
        room = DEPTH * self.width
        t.line(f"%panel = alloca [{room} x {self.scalar}], align {self.host.vector_bytes}")
        t.line(f"%spare = alloca [{self.rows * self.width} x {self.scalar}], align 64")
        t.line(f"%inside = alloca [{DEPTH} x i64], align 8")
        t.line(f"%from = alloca [{self.width} x i64], align 8")
        t.line(f"%to = alloca [{self.width} x i64], align 8")
        words = t.let(f"load ptr, ptr {_word(t, '%region', CAPTURED)}, align 8", "i8", 1).name
        arrays = [t.let(f"load ptr, ptr {_word(t, words, k)}, align 8", "i8", 1) for k in range(3)]
        dims = t.let(f"load ptr, ptr {_word(t, words, 3)}, align 8", "i8", 1).name
        n = _Numbers(self, t, dims)
        first, stop = Typed("%first", "i8", 1), Typed("%stop", "i8", 1)

        def group(at: Typed, _: list[Typed]) -> list[Typed]:
            """Its panels in the range; gives where the next one begins."""
            number, begin = t.op("udiv", at, n.panels), t.op("urem", at, n.panels)
            rest, left = t.sub(n.panels, begin), t.sub(stop, at)
            count = t.select(t.compare("slt", rest, left), rest, left)
            mine = [
                t.let(_at(self.scalar, a.name, t.mul(number, size)), "i8", 1)
                for a, size in zip(arrays, n.sizes, strict=True)
            ]
            self._group(t, n, mine, begin, count)
            return [t.add(at, count)]

        self._while(t, [first], lambda cells: t.compare("slt", cells[0], stop), group)
        ranges = "ptr %region, i64 %first, i64 %stop, i64 %worker"
        return _function("range", ranges, t)

    def _group(
        self, t: Text, n: "_Numbers", arrays: Sequence[Typed], begin: Typed, count: Typed
    ) -> None:
        """`count` panels of a group: `DEPTH` elements inside of all, then the next ones.

        Where there is nothing inside there is one turn, which writes zeros.
        """
        x, w, out = arrays
        none = t.compare("eq", n.inside, ZERO)
        turns = t.select(none, ONE, n.inside)

        def deep(k: Typed, _: list[Typed]) -> list[Typed]:
            left, most = t.sub(n.inside, k), _number(DEPTH)
            depth = t.select(t.compare("slt", left, most), left, most)
            self._insides(t, n, k, depth)
            weights = t.let(_at(self.scalar, w.name, k), "i8", 1)
            to = _Target(weights, out, depth, t.compare("ne", k, ZERO))
            place = t.mul(begin, _number(self.width))

            def panel(_: Typed, cells: list[Typed]) -> list[Typed]:
                after = self._places(t, n, cells)
                self._gather(t, x, depth)
                self._products(t, n, to, cells[0])
                return after

            self._for(t, ZERO, count, 1, [place, *n.coordinates(place)], panel)
            return []

        self._for(t, ZERO, turns, DEPTH, [], deep)

    def _insides(self, t: Text, n: "_Numbers", k: Typed, depth: Typed) -> None:
        """How far elements inside of a window lie from its first one."""

        def one(i: Typed, cells: list[Typed]) -> list[Typed]:
            t.line(f"store i64 {n.far(cells, n.inner).name}, ptr {_word(t, '%inside', i)}, align 8")
            return n.next(cells, n.kernel)

        self._for(t, ZERO, depth, 1, n.split(k, n.kernel), one)

    def _places(self, t: Text, n: "_Numbers", cells: list[Typed]) -> list[Typed]:
        """Where windows of a panel begin, and results stand; behind the last, the first."""

        def one(i: Typed, cells: list[Typed]) -> list[Typed]:
            number, *at = cells
            there = t.compare("slt", number, n.places)
            for name, steps in (("%from", n.outer), ("%to", n.result)):
                far = t.select(there, n.far(at, steps), ZERO)
                t.line(f"store i64 {far.name}, ptr {_word(t, name, i)}, align 8")
            return [t.add(number, ONE), *n.next(at, n.space)]

        return self._for(t, ZERO, _number(self.width), 1, cells, one)

    def _gather(self, t: Text, x: Typed, depth: Typed) -> None:
        """Write a panel: vectors of neighbours are copied, others gathered."""

        def vector(first: Typed, _: list[Typed]) -> list[Typed]:
            fars = [
                _value(t, _word(t, "%from", t.add(first, _number(j)))) for j in range(self.lanes)
            ]
            span = t.sub(fars[-1], fars[0])
            row, apart, done = (t.fresh(name) for name in ("row", "apart", "gathered"))
            t.branch(t.compare("eq", span, _number(self.lanes - 1)), row, apart)
            t.label(row)
            kind = type_of(self.dtype, self.lanes)

            def copied(k: Typed, _: list[Typed]) -> list[Typed]:
                far = t.add(fars[0], _value(t, _word(t, "%inside", k)))
                source = t.let(_at(self.scalar, x.name, far), "i8", 1)
                value = self._load_vector(t, source.name, self.size)
                target = self._in_panel(t, k, first)
                t.line(f"store {kind} {value.name}, ptr {target}, align {self.host.vector_bytes}")
                return []

            self._for(t, ZERO, depth, 1, [], copied)
            t.jump(done)
            t.label(apart)

            def gathered(k: Typed, _: list[Typed]) -> list[Typed]:
                inside = _value(t, _word(t, "%inside", k))
                base = t.let(_at(self.scalar, x.name, inside), "i8", 1)
                target = self._in_panel(t, k, first)
                for j, far in enumerate(fars):
                    source = t.let(_at(self.scalar, base.name, far), "i8", 1)
                    value = self._element(t, source.name)
                    to = t.let(_at(self.scalar, target, _number(j)), "i8", 1)
                    self._put(t, value, to.name)
                return []

            self._for(t, ZERO, depth, 1, [], gathered)
            t.jump(done)
            t.label(done)
            return []

        self._for(t, ZERO, _number(self.width), self.lanes, [], vector)

    def _in_panel(self, t: Text, k: Typed, place: Typed) -> str:
        far = t.add(t.mul(k, _number(self.width)), place)
        return t.let(_at(self.scalar, "%panel", far), "i8", 1).name

    def _element(self, t: Text, place: str) -> Typed:
        return t.let(f"load {self.scalar}, ptr {place}, align {self.size}", self.dtype, 1)

    def _put(self, t: Text, value: Typed, place: str) -> None:
        t.line(f"store {self.scalar} {value.name}, ptr {place}, align {self.size}")

    def _products(self, t: Text, n: "_Numbers", to: "_Target", place: Typed) -> None:
        """All rows of the result in a panel."""
        left, width = t.sub(n.places, place), _number(self.width)
        whole = t.compare("sge", left, width)
        real = t.select(whole, width, left)
        first, last = (_value(t, _word(t, "%to", k)) for k in (0, self.width - 1))
        row = t.compare("eq", t.sub(last, first), _number(self.width - 1))
        panel = _Panel(first, real, t.op("and", whole, row))
        full = t.sub(n.outs, t.op("urem", n.outs, _number(self.rows)))

        def some(o: Typed, _: list[Typed]) -> list[Typed]:
            self._multiply(t, n, to, panel, self.rows, o)
            return []

        self._for(t, ZERO, full, self.rows, [], some)
        names = [t.fresh("rest") for _ in range(self.rows)]
        cases = " ".join(f"i64 {k}, label %{names[k]}" for k in range(1, self.rows))
        t.line(f"switch i64 {t.sub(n.outs, full).name}, label %{names[0]} [ {cases} ]")
        for rows in range(1, self.rows):
            t.label(names[rows])
            self._multiply(t, n, to, panel, rows, full)
            t.jump(names[0])
        t.label(names[0])

    def _multiply(
        self, t: Text, n: "_Numbers", to: "_Target", panel: "_Panel", rows: int, o: Typed
    ) -> None:
        """Some rows; what is no row of memory goes by way of spare memory."""
        w = t.let(_at(self.scalar, to.weights.name, t.mul(o, n.inside)), "i8", 1)
        base = t.let(_at(self.scalar, to.out.name, t.mul(o, n.area)), "i8", 1)
        given = f"ptr {w.name}, i64 {n.inside.name}, ptr %panel, i64 {to.depth.name}"

        def multiply(c: str, ldc: str) -> None:
            t.line(f"call void @block{rows}({given}, ptr {c}, i64 {ldc}, i1 {to.more.name})")

        straight, aside, done = (t.fresh(name) for name in ("straight", "aside", "multiplied"))
        fetch, go = t.fresh("fetch"), t.fresh("go")
        t.branch(panel.straight, straight, aside)
        t.label(straight)
        multiply(t.let(_at(self.scalar, base.name, panel.first), "i8", 1).name, n.area.name)
        t.jump(done)
        t.label(aside)
        t.branch(to.more, fetch, go)
        t.label(fetch)
        self._spare(t, n, base, rows, panel.real, fetched=True)
        t.jump(go)
        t.label(go)
        multiply("%spare", str(self.width))
        self._spare(t, n, base, rows, panel.real, fetched=False)
        t.jump(done)
        t.label(done)

    def _spare(
        self, t: Text, n: "_Numbers", base: Typed, rows: int, real: Typed, *, fetched: bool
    ) -> None:
        """Copy results of a panel to spare memory, or back."""

        def place(p: Typed, _: list[Typed]) -> list[Typed]:
            far = _value(t, _word(t, "%to", p))
            for r in range(rows):
                there = t.add(far, t.mul(n.area, _number(r)))
                result = t.let(_at(self.scalar, base.name, there), "i8", 1).name
                spare = t.let(
                    _at(self.scalar, "%spare", t.add(p, _number(r * self.width))), "i8", 1
                ).name
                source, target = (result, spare) if fetched else (spare, result)
                self._put(t, self._element(t, source), target)
            return []

        self._for(t, ZERO, real, 1, [], place)

    # --- all of it

    def _loop(self) -> str:
        t = self._new()
        t.line("%words = alloca [4 x ptr], align 8")
        t.line(f"%region = alloca [{WORDS} x i64], align 64")
        for k in range(3):
            base = t.let(f"load ptr, ptr {_pointer(t, '%args', k)}, align 8", "i8", 1)
            t.line(f"store ptr {base.name}, ptr {_pointer(t, '%words', k)}, align 8")
        t.line(f"store ptr %dims, ptr {_pointer(t, '%words', 3)}, align 8")
        n = _Numbers(self, t, "%dims")
        stop = t.mul(n.groups, n.panels)
        t.line(f"store ptr %words, ptr {_word(t, '%region', CAPTURED)}, align 8")
        if self.shared:
            threads = t.let("ptrtoint ptr %threads to i64", "i8", 1)
            given = dict.fromkeys(range(WORDS), "i64 0") | {
                FUNCTION: "ptr @range",
                CAPTURED: "ptr %words",
                STOP: f"i64 {stop.name}",
                ALIGN: "i64 1",
                THREADS: f"i64 {threads.name}",
            }
            self.declarations[SHARE] = f"declare void @{SHARE}(ptr)"
            t.branch(t.compare("sgt", threads, ONE), "several", "alone")
            t.label("several")
            for k, value in given.items():
                t.line(f"store {value}, ptr {_word(t, '%region', k)}, align 8")
            t.line(f"call void @{SHARE}(ptr %region)")
            t.line("ret void")
            t.label("alone")
        t.line(f"call void @range(ptr %region, i64 {ZERO.name}, i64 {stop.name}, i64 0)")
        return _function("loop", "ptr %args, ptr %dims, ptr %steps, ptr %threads", t, own=False)

    # --- loops

    def _for(
        self, t: Text, start: Typed, stop: Typed, step: int, cells: Sequence[Typed], body: Body
    ) -> list[Typed]:
        """`for i in range(start, stop, step)` with values carried around."""

        def one(at: Typed, rest: list[Typed]) -> list[Typed]:
            left = body(at, rest)
            return [t.add(at, _number(step)), *left]

        found = self._while(t, [start, *cells], lambda now: t.compare("slt", now[0], stop), one)
        return found[1:]

    def _while(
        self,
        t: Text,
        cells: Sequence[Typed],
        cond: Callable[[list[Typed]], Typed],
        body: Body,
    ) -> list[Typed]:
        """Values carried around as long as something holds of them."""
        head, work, done = t.fresh("head"), t.fresh("body"), t.fresh("done")
        before = t.block
        t.jump(head)
        t.label(head)
        around = Carried(t, cells, before)
        t.branch(cond(around.values), work, done)
        t.label(work)
        around.close(list(body(around.values[0], around.values[1:])))
        t.jump(head)
        t.label(done)
        return around.values


class _Target(NamedTuple):
    """Where products of a range of elements inside windows go.

    Attributes:
        weights: the first that are multiplied.
        out: the result of the group.
        depth: how many elements there are.
        more: whether others were added up before.
    """

    weights: Typed
    out: Typed
    depth: Typed
    more: Typed


class _Panel(NamedTuple):
    """Where results of a panel stand.

    Attributes:
        first: how far the first one lies from the row's first.
        real: how many there are.
        straight: whether they lie one behind the other, and are as many as fit.
    """

    first: Typed
    real: Typed
    straight: Typed


class _Numbers:
    """Sizes and distances of elements, from the sizes of the core axes.

    The order is that of the signature: batch, channels, the axes of the left operand, out channels,
    the axes of windows, the axes of places; the number of groups comes first.
    """

    def __init__(self, w: _Windows, t: Text, dims: str) -> None:
        self.t = t
        sizes = [_value(t, _word(t, dims, k)) for k in range(4 + 3 * w.rank)]
        self.groups, batch, channels, *rest = sizes
        across, self.outs, windows, space = (
            rest[: w.rank],
            rest[w.rank],
            rest[w.rank + 1 : 2 * w.rank + 1],
            rest[2 * w.rank + 1 :],
        )
        self.kernel, self.space = [channels, *windows], [batch, *space]
        strides = self._strides(across)  # of the axes of the left operand, channels in front
        self.inner = [
            strides[0],
            *(t.mul(s, _number(d)) for s, d in zip(strides[1:], w.dilation, strict=True)),
        ]
        self.outer = [
            t.mul(strides[0], channels),
            *(t.mul(s, _number(d)) for s, d in zip(strides[1:], w.strides, strict=True)),
        ]
        own = self._strides(space)
        self.area = own[0]
        self.result = [t.mul(self.area, self.outs), *own[1:]]
        self.inside, self.places = self._all(self.kernel), self._all(self.space)
        self.sizes = (
            t.mul(batch, self.outer[0]),
            t.mul(self.outs, self.inside),
            t.mul(batch, self.result[0]),
        )
        more = t.add(self.places, _number(w.width - 1))
        self.panels = t.op("udiv", more, _number(w.width))

    def _all(self, sizes: Sequence[Typed]) -> Typed:
        total = ONE
        for size in sizes:
            total = self.t.mul(total, size)
        return total

    def _strides(self, sizes: Sequence[Typed]) -> list[Typed]:
        """Distances of neighbours along an axis in front, and along each of these."""
        found = [ONE]
        for size in reversed(sizes):
            found.insert(0, self.t.mul(found[0], size))
        return found

    def far(self, at: Sequence[Typed], steps: Sequence[Typed]) -> Typed:
        """How far an element lies."""
        total = ZERO
        for i, step in zip(at, steps, strict=True):
            total = self.t.add(total, self.t.mul(i, step))
        return total

    def split(self, number: Typed, sizes: Sequence[Typed]) -> list[Typed]:
        """The coordinates of an element, counted by rows; the first axis goes on without end."""
        found: list[Typed] = []
        for size in reversed(sizes[1:]):
            found.insert(0, self.t.op("urem", number, size))
            number = self.t.op("udiv", number, size)
        return [number, *found]

    def coordinates(self, place: Typed) -> list[Typed]:
        """Those of a place."""
        return self.split(place, self.space)

    def next(self, at: Sequence[Typed], sizes: Sequence[Typed]) -> list[Typed]:
        """Those of the next element."""
        t, carry, found = self.t, ONE, list[Typed]()
        for i, size in reversed([*zip(at, sizes, strict=True)][1:]):
            more = t.add(i, carry)
            over = t.compare("eq", more, size)
            found.insert(0, t.select(over, ZERO, more))
            carry = t.convert("zext", over, "i8")
        return [t.add(at[0], carry), *found]


def _number(value: int) -> Typed:
    return Typed(str(value), "i8", 1)


def _at(scalar: str, base: str, far: Typed) -> str:
    return f"getelementptr {scalar}, ptr {base}, i64 {far.name}"


def _word(t: Text, base: str, at: Typed | int) -> str:
    """The address of an integer in an array of them."""
    far = at if isinstance(at, Typed) else _number(at)
    return t.let(_at("i64", base, far), "i8", 1).name


def _pointer(t: Text, base: str, at: int) -> str:
    return t.let(_at("ptr", base, _number(at)), "i8", 1).name


def _value(t: Text, place: str) -> Typed:
    return t.let(f"load i64, ptr {place}, align 8", "i8", 1)


def _function(name: str, given: str, t: Text, *, own: bool = True) -> str:
    lines = "\n".join(t.lines)
    linkage = "internal " if own else ""
    return f"define {linkage}void @{name}({given}) {{\nentry:\n{lines}\n  ret void\n}}"
