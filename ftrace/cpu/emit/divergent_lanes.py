"""Divergent lanes: batch elements that iterate much longer than others are run together later.

Several vectors of lanes iterate at once; where a few lanes go on long after the rest, all of them
would turn along. So such lanes are left behind: what they have done is forgotten, their indices go
to a list in the function's frame, and when a vector is full they are run from the beginning, all
of them long ones. Lanes are left behind only after as many iterations again as it took most of them
to end, so that what is done twice is always less than what was done.
"""

from dataclasses import replace

from ftrace.cpu.emit.emitter import State
from ftrace.cpu.llvm.text import Text, Typed, type_of
from ftrace.cpu.llvm.vector_idioms import invert, iota
from ftrace.lowering.kernel.ir import Block, KernelVar, Loop, Store, While
from ftrace.lowering.kernel.traversal import inside
from ftrace.lowering.kernel_passes.uniformity import varying_in

SHARE = 8  # few: less than one lane in so many
ONE, NONE = Typed("1", "i8", 1), Typed("0", "i8", 1)
NEVER = Typed(str(1 << 62), "i8", 1)


def leaving(s: State, stmt: Loop) -> tuple[Loop, While] | None:
    """A lane loop that may leave lanes behind in a loop of its body, and that loop.

    A store may replace what the body reads where it lies, so all of them stand behind the loop: a
    lane that begins anew finds its operands as they were.
    """
    varying = varying_in(stmt.body, stmt.axis)
    loops = [x for x in stmt.body.stmts if isinstance(x, While) and differs(x, varying)]
    once = not any(isinstance(x, Store) and x.combine for x in inside(stmt.body))
    wide = s.text.host.masked and s.text.host.vector_bytes == 64
    if not (wide and once and len(loops) == 1) or stmt.folds:
        return None
    at = stmt.body.stmts.index(loops[0])
    before, after = stmt.body.stmts[:at], stmt.body.stmts[at + 1 :]
    stores = tuple(x for x in before if isinstance(x, Store))
    rest = tuple(x for x in before if not isinstance(x, Store))
    if any(isinstance(x, Store) for x in inside(Block(rest))):
        return None
    body = replace(stmt.body, stmts=(*rest, loops[0], *stores, *after))
    return replace(stmt, body=body), loops[0]


def differs(stmt: While, varying: set[int]) -> bool:
    """Whether lanes end a loop at different times."""
    return any(isinstance(a, KernelVar) and a.id in varying for a in stmt.cond.results)


def _count(text: Text, mask: Typed) -> Typed:
    """How many lanes of a mask are true."""
    kind = f"i{mask.lanes}"
    bits = text.let(f"bitcast <{mask.lanes} x i1> {mask.name} to {kind}", "b1", 1)
    name = f"llvm.ctpop.{kind}"
    text.declare(name, f"declare {kind} @{name}({kind})")
    found = text.let(f"call {kind} @{name}({kind} {bits.name})", "b1", 1)
    if mask.lanes == 64:
        return Typed(found.name, "i8", 1)
    way = "zext" if mask.lanes < 64 else "trunc"
    return text.let(f"{way} {kind} {found.name} to i64", "i8", 1)


class Deadline:
    """When the wide loop stops for the lanes that are left, once they are few.

    Attributes:
        counts: the iterations so far, and with how many of them it stops.
    """

    def __init__(self, s: State) -> None:
        self.s = s
        self.counts = [NONE, NEVER]

    def _few(self, mask: Typed) -> Typed:
        limit = Typed(str(max(mask.lanes // SHARE, 2)), "i8", 1)
        return self.s.text.compare("slt", _count(self.s.text, mask), limit)

    def first(self, mask: Typed) -> Typed:
        """Whether the loop iterates at all."""
        return invert(self.s.text, self._few(mask))

    def turned(self) -> Typed:
        """Count an iteration; whether these are all."""
        text, (count, last) = self.s.text, self.counts
        count = text.add(count, ONE)
        self.counts = [count, last]
        return text.compare("sge", count, last)

    def goes_on(self, mask: Typed) -> Typed:
        """Whether the loop goes on with these lanes: from when they are few, for as long again."""
        text, (count, last) = self.s.text, self.counts
        twice = text.add(count, count)
        sooner = text.select(text.compare("slt", twice, last), twice, last)
        last = text.select(self._few(mask), sooner, last)
        self.counts = [count, last]
        return text.op("and", text.any(mask), text.compare("slt", count, last))


class List:
    """Indices of the lanes left behind, in the frame."""

    def __init__(self, s: State, lanes: int) -> None:
        self.s, self.lanes = s, lanes
        self.place = f"%{s.text.fresh('behind')}"
        s.scopes[0].lines.append(f"  {self.place} = alloca [{2 * lanes} x i64], align 64")

    def _at(self, k: Typed) -> str:
        given = f"getelementptr i64, ptr {self.place}, i64 {k.name}"
        return self.s.text.let(given, "i8", 1).name

    def add(self, count: Typed, first: Typed, mask: Typed) -> Typed:
        """Append the indices of some lanes; the new length."""
        text, lanes = self.s.text, mask.lanes
        kind, flags = type_of("i8", lanes), type_of("b1", lanes)
        indices = text.add(text.splat(first, lanes), iota("i8", lanes))
        name = f"llvm.masked.compressstore.v{lanes}i64"
        text.declare(name, f"declare void @{name}({kind}, ptr, {flags})")
        given = f"{kind} {indices.name}, ptr {self._at(count)}, {flags} {mask.name}"
        text.line(f"call void @{name}({given})")
        return text.add(count, _count(text, mask))

    def take(self, first: Typed, count: Typed) -> tuple[Typed, Typed]:
        """The indices from `first` to `count`, and which lanes have one."""
        text, lanes = self.s.text, self.lanes
        kind = type_of("i8", lanes)
        found = text.let(f"load {kind}, ptr {self._at(first)}, align 8", "i8", lanes)
        left = text.splat(text.sub(count, first), lanes)
        mask = text.compare("slt", iota("i8", lanes), left)
        return text.select(mask, found, text.like(found, 0)), mask
