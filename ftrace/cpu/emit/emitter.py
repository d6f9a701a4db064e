"""What an emitter knows while it walks a kernel: values, scopes, lanes and the mask.

No optimisation pass runs after us, so invariants are put outside loops as they are written. A
scope is a loop, its body or an arm; it owns a place in the text just before it, and whatever
depends only on values from further out is written there once (`hoisted`). Inside a lane loop a
value with `lanes == 1` is uniform, a vector differs between lanes; `wide` makes vectors of
uniform values where they were defined. lane_loops.py, lane_branches.py and lane_memory.py write the
statements.
"""

from collections.abc import Callable, Hashable, Sequence

from ftrace.core.errors import BackendError
from ftrace.cpu.llvm.text import Text, Typed, memory_type, type_of
from ftrace.cpu.llvm.vector_idioms import iota
from ftrace.lowering.kernel.ir import Atom, Block, KernelVar, Lit, While
from ftrace.lowering.kernel.launching import Launch
from ftrace.lowering.kernel.traversal import inside, operands_of, place_of

REGISTERS = 8  # kernel scalars that are kept in vector registers


class Bound:
    """A region of the text, and the lines that stand before it."""

    __slots__ = ("cache", "lines", "mark")

    def __init__(self, mark: int) -> None:
        self.mark = mark
        self.lines: list[str] = []
        self.cache: dict[Hashable, Typed] = {}


class Carried:
    """Values that go around a loop: phis at its head, completed at its end."""

    def __init__(self, text: Text, firsts: Sequence[Typed], before: str) -> None:
        self.text, self._firsts, self._before = text, firsts, before
        self.values = [text.same(v, f"%{text.fresh()}") for v in firsts]
        self._mark = len(text.lines)
        text.lines.extend([""] * len(firsts))

    def close(self, lasts: Sequence[Typed]) -> None:
        """Give the next values; the current block is the one that jumps back."""
        rows = zip(self.values, self._firsts, lasts, strict=True)
        for k, (phi, first, last) in enumerate(rows):
            kind = type_of(phi.dtype, phi.lanes)
            ends = f"[ {first.name}, %{self._before} ], [ {last.name}, %{self.text.block} ]"
            self.text.lines[self._mark + k] = f"  {phi.name} = phi {kind} {ends}"


class State:
    """The walk over one kernel.

    Attributes:
        lanes: iterations that run at once here; 1 outside of lane loops.
        axis: the variable of the lane loop around us; its value is the first lane's.
        mask: the active lanes, None for all. At least one is active wherever memory is touched.
        loading: the lanes whose elements exist: those, and what an `If` that `skips` leaves out.
        varying: ids of the variables that differ between lanes.
        read: the variables that something reads.
        divisors: those with several quotients, once shared_divisors.py has looked.
        run: writes a block.
        symbol: the name of the kernel's function.
        in_region: whether this is a part of a loop that threads share.
    """

    def __init__(
        self, text: Text, launch: Launch, run: Callable[["State", Block], None], symbol: str
    ) -> None:
        self.text = text
        self.launch = launch
        self.run = run
        self.symbol = symbol
        self.in_region = False
        self.buffers = {
            b.name: (b, o) for b, o in zip(launch.kernel.buffers, launch.operands, strict=True)
        }
        self._entries = {
            v.id: entry for v, entry in zip(launch.kernel.scalars, launch.scalars, strict=True)
        }
        self._values: dict[int, Typed] = {}
        self._depths: dict[int, int] = {}
        self.scopes: list[Bound] = []
        self.lanes = 1
        self.axis: KernelVar | None = None
        self.loading: Typed | None = None
        self._mask: Typed | None = None
        self.varying: set[int] = set()
        self.leaving: While | None = None
        self.behind: Typed | None = None
        self.apart: KernelVar | None = None
        self.read = {a for s in inside(launch.kernel.body) for a in (*operands_of(s), *place_of(s))}
        self.divisors: set[Atom] | None = None
        self._in_registers = 0

    def block(self, block: Block) -> list[Typed]:
        """Write a block's statements; the values it leaves, uniform ones as scalars."""
        self.run(self, block)
        return [self.value(a) for a in block.results]

    def function(self, name: str, parameters: str) -> str:
        """What has been written as a function, with its end."""
        text = self.text
        if self.launch.schedule.streams:
            text.line("fence seq_cst")  # what was written past the caches is there for others
        text.line("ret void")
        body = "\n".join(line for line in text.lines if line)
        # the frame pointer lets LLVM align the frame: else spilled registers lie across cache lines
        attributes = 'nounwind "frame-pointer"="all"'
        return f"define internal void @{name}({parameters}) {attributes} {{\nentry:\n{body}\n}}\n"

    @property
    def mask(self) -> Typed | None:
        """The active lanes."""
        return self._mask

    @mask.setter
    def mask(self, mask: Typed | None) -> None:
        self._mask = self.loading = mask

    # --- scopes

    def push(self) -> None:
        """Begin a scope here."""
        self.scopes.append(Bound(len(self.text.lines)))
        self.text.lines.append("")

    def pop(self) -> None:
        """End the innermost scope: its invariants go to where it began."""
        scope = self.scopes.pop()
        self.text.lines[scope.mark] = "\n".join(scope.lines)

    @property
    def depth(self) -> int:
        """Index of the innermost scope."""
        return len(self.scopes) - 1

    def hoisted(self, depth: int, key: Hashable, make: Callable[[], Typed]) -> Typed:
        """A value that depends on values of scope `depth` and further out, written once."""
        scope = self.scopes[min(depth + 1, self.depth)]
        found = scope.cache.get(key)
        if found is not None:
            return found
        if depth >= self.depth:  # of this scope itself: it cannot stand before it
            found = make()
        else:
            lines, self.text.lines = self.text.lines, scope.lines
            found = make()
            self.text.lines = lines
        scope.cache[key] = found
        return found

    # --- values

    def define(self, var: KernelVar, value: Typed) -> None:
        """Bind a variable here."""
        self._values[var.id] = value
        self._depths[var.id] = self.depth

    def is_value(self, var: KernelVar) -> bool:
        """Whether a variable is bound here, not an operand of the kernel."""
        return var.id in self._values

    def depth_of(self, atom: Atom) -> int:
        """The scope in which an atom is known; -1 for literals and operands."""
        return -1 if isinstance(atom, Lit) else self._depths.get(atom.id, -1)

    def entry(self, position: int, dtype: str = "i8") -> Typed:
        """An entry of the operand table, read when the kernel begins."""
        return self.hoisted(-1, ("entry", position, dtype), lambda: self._read(position, dtype))

    def _read(self, position: int, dtype: str) -> Typed:
        place = self.text.fresh()
        self.text.line(f"%{place} = getelementptr i64, ptr %table, i64 {position}")
        kind, size = memory_type(dtype), int(dtype[1:])
        got = self.text.let(f"load {kind}, ptr %{place}, align {size}", dtype, 1)
        if dtype != "b1":
            return got
        return self.text.let(f"trunc i8 {got.name} to i1", "b1", 1)

    def scalar(self, atom: Atom) -> Typed:
        """A uniform atom; for the lane axis its first lane."""
        if isinstance(atom, Lit):
            return self.text.const(atom.value, atom.dtype)
        if atom.id in self._entries:
            return self.entry(self._entries[atom.id], atom.dtype)
        return self._values[atom.id]

    def value(self, atom: Atom) -> Typed:
        """An atom as it is: a vector where it differs between lanes."""
        if self.lanes > 1 and atom == self.axis:
            return self.wide(atom)
        return self.scalar(atom)

    def wide(self, atom: Atom) -> Typed:
        """An atom in every lane."""
        if self.lanes == 1:
            return self.scalar(atom)
        if isinstance(atom, Lit):
            return self.text.const(atom.value, atom.dtype, self.lanes)
        if atom == self.axis:
            return self.hoisted(self.depth_of(atom), ("axis", atom.id), self._axis)
        if atom.id in self._entries:
            return self._operand(atom)
        got = self.scalar(atom)
        if got.lanes == self.lanes:
            return got
        return self.spread(got, self.depth_of(atom))

    def _operand(self, var: KernelVar) -> Typed:
        """A kernel scalar in every lane: in a register for the first few, else read at each use.

        A broadcast from memory is part of the instruction that uses it; hundreds of values that
        live across a loop would cost the register allocator far more than they save.
        """
        key = ("operand", var.id, self.lanes)
        found = self.scopes[0].cache.get(key)
        if found is not None:
            return found
        if self._in_registers < REGISTERS:
            self._in_registers += 1
            return self.hoisted(-1, key, lambda: self.text.splat(self.scalar(var), self.lanes))
        entry = self._entries[var.id]
        return self.hoisted(
            self.depth, key, lambda: self.text.splat(self._read(entry, var.dtype), self.lanes)
        )

    def spread(self, v: Typed, depth: int) -> Typed:
        """A scalar known in scope `depth`, in every lane."""
        lanes = self.lanes
        if v.lanes == lanes or not v.name.startswith("%"):
            return self.text.splat(v, lanes)
        return self.hoisted(depth, ("splat", v.name, lanes), lambda: self.text.splat(v, lanes))

    def widen(self, v: Typed) -> Typed:
        """A value that was just computed, in every lane."""
        return self.text.splat(v, self.lanes)

    def _axis(self) -> Typed:
        assert self.axis is not None
        first = self.text.splat(self.scalar(self.axis), self.lanes)
        return self.text.add(first, iota("i8", self.lanes))

    def fail(self, what: str) -> BackendError:
        """An error that names the kernel."""
        return BackendError(f"Kernel {self.launch.kernel.name} cannot be compiled: {what}.")
