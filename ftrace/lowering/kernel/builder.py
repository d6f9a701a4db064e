"""The kernel builder: scopes, hoisting and sharing; what rows' `lower` columns are given.

Statements are shared (the same operation on the same operands is written once) and placed in the
outermost open scope that has their operands, so that nothing in a loop is computed twice; nothing
leaves the arm of an `If` or a loop's condition, where it may not run at all. Numbers that depend
on sizes, and literals, become run-time operands (entries of the table); 0, 1, -1, 2 and 0.5 stay.
Complex scalars are `ComplexParts`; float16 scalars are computed in float32 and rounded after every
operation. Groups of equations become kernels in build.py.
"""

import struct
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final

import numpy as np

from ftrace.core.scalar import OPS
from ftrace.lowering.kernel.complexes import OPERATIONS, ComplexParts
from ftrace.lowering.kernel.index_maps import ORIGIN, Coord, Gathered, Index
from ftrace.lowering.kernel.ir import (
    PAIRS,
    Atom,
    Block,
    Buffer,
    Fold,
    If,
    Kernel,
    KernelVar,
    Let,
    Lit,
    Load,
    Loop,
    Stmt,
    Store,
    While,
)
from ftrace.lowering.kernel.launching import Operand
from ftrace.lowering.kernel.traversal import uses_of

Scalar = Atom | ComplexParts
KEPT: Final = frozenset({0, 1, -1, 2, 0.5})  # literals that stay in the code
COMMUTATIVE: Final = frozenset({"add", "mul", "and", "or", "xor"})  # of NaNs either is kept
BOOLEAN: Final = {"add": "or", "mul": "and", "max": "or", "min": "and"}


@cache
def code(dtype: np.dtype[Any]) -> str:
    """A real dtype as kernel IR writes it."""
    return f"{dtype.kind}{dtype.itemsize}"


@cache
def part_code(dtype: np.dtype[Any]) -> str:
    """The type of a scalar of this dtype, or of its parts."""
    return f"f{dtype.itemsize // 2}" if dtype.kind == "c" else code(dtype)


def bits(value: Any, dtype: str) -> int:
    """A scalar as a table entry."""
    if dtype == "f8":
        return struct.unpack("<q", struct.pack("<d", value))[0]
    if dtype == "f4":
        with np.errstate(over="ignore"):
            return int(np.float32(value).view(np.int32))
    if dtype == "f2":
        return int(np.float16(value).view(np.int16))
    n = int(value)
    return n - (1 << 64) if n >= 1 << 63 else n


def folded(op: str, args: tuple[Atom, ...]) -> Atom | None:
    """The atom that an operation surely gives, if its operands tell."""
    return _unchanged(op, args) or _decided(op, args)


def _unchanged(op: str, args: tuple[Atom, ...]) -> Atom | None:
    """The operand that an operation gives back, whatever it is: x 1, x / 1, x - 0, equal arms."""
    if op == "select" and args[1] == args[2]:
        return args[1]
    if op in ("mul", "div") and _is(args[1], 1):
        return args[0]
    if op == "mul" and _is(args[0], 1):
        return args[1]
    return args[0] if op == "sub" and _is(args[1], 0) else None


def _decided(op: str, args: tuple[Atom, ...]) -> Atom | None:
    """The result of `and` or `or` of which one operand is known."""
    if op not in ("and", "or") or args[0].dtype != "b1":
        return None
    for known, other in (args, args[::-1]):
        if isinstance(known, Lit):
            return other if known.value == (op == "and") else known
    return None


def _in_any_order(args: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """Two operands, the variable that was made first in front."""
    a, b = args
    turned = type(a) is KernelVar and type(b) is KernelVar and a.id > b.id
    return (b, a) if turned else args


def _is(x: Atom, number: int) -> bool:
    return isinstance(x, Lit) and x.value == number and str(x.value)[0] != "-"


class Scope:
    """An open block."""

    __slots__ = ("axis", "cache", "depth", "guarded", "stmts")

    def __init__(self, depth: int, guarded: int) -> None:
        self.stmts: list[Stmt] = []
        self.cache: dict[Any, Any] = {}
        self.depth = depth
        self.guarded = guarded  # depth of the innermost arm it lies in: nothing leaves that


class Builder:
    """Writes one kernel."""

    def __init__(self, name: str, table: list[int]) -> None:
        self.name = name
        self.table = table
        self.scopes = [Scope(0, 0)]
        self.depths: dict[int, int] = {}  # variable -> depth of its scope
        self.scalars: dict[Any, tuple[KernelVar, int]] = {}
        self.constants: dict[Atom, Any] = {}  # run-time operands that are float64 literals
        self.buffers: dict[Any, tuple[Buffer, Operand]] = {}
        self.site: Any = None  # the equation being lowered: names its run-time numbers
        self._ids = 0

    # --- variables, scopes, operands

    def fresh(self, dtype: str, depth: int) -> KernelVar:
        """A new variable of a scope."""
        self._ids += 1
        self.depths[self._ids] = depth
        return KernelVar(self._ids, dtype)

    def find(self, key: Any) -> Any:
        """What an open scope remembers under a key."""
        for scope in reversed(self.scopes):
            found = scope.cache.get(key)
            if found is not None:
                return found
        return None

    def remember(self, key: Any, value: Any) -> None:
        """Remember a value as long as the innermost scope is open."""
        self.scopes[-1].cache[key] = value

    def open(self, *, arm: bool = False) -> Scope:
        """Open a block inside the innermost one."""
        depth = len(self.scopes)
        self.scopes.append(Scope(depth, depth if arm else self.scopes[-1].guarded))
        return self.scopes[-1]

    def close(self, results: Sequence[Atom] = ()) -> Block:
        """Close the innermost block."""
        return Block(tuple(self.scopes.pop().stmts), tuple(results))

    def number(self, key: Any, value: Any, dtype: str = "i8") -> KernelVar:
        """A run-time operand, one per key."""
        found = self.scalars.get(key)
        if found is None:
            self.table.append(bits(value, dtype))
            found = self.scalars[key] = (self.fresh(dtype, 0), len(self.table) - 1)
        return found[0]

    def _home(self, args: Sequence[Any]) -> Scope:
        """The outermost scope in which these operands are known and that is surely run."""
        depth = self.scopes[-1].guarded
        for a in args:
            if type(a) is KernelVar:
                depth = max(depth, self.depths[a.id])
        return self.scopes[depth]

    # --- operations

    def let(self, op: str, args: tuple[Atom, ...], dtype: str) -> Atom:
        """One operation of core/scalar.py on real scalars."""
        if op == "select" or type(args[0]) is Lit or type(args[-1]) is Lit:
            same = folded(op, args)
            if same is not None:
                return same
        key = (op, _in_any_order(args) if op in COMMUTATIVE else args, dtype)
        found = self.find(key)
        if found is not None:
            return found
        home = self._home(args)
        out = self.fresh(dtype, home.depth)
        home.stmts.append(Let(out, op, args))
        home.cache[key] = out
        return out

    def op(self, op: str, *args: Scalar) -> Any:
        """An operation on scalars of one type: real, complex, float16 or boolean."""
        first = args[-1]
        if isinstance(first, ComplexParts):
            return OPERATIONS[op](self, *args)
        atoms: tuple[Any, ...] = args
        if first.dtype == "f2" and op != "cast":
            wide = tuple(self.cast(a, "f4") if a.dtype == "f2" else a for a in atoms)
            # of equal zeros NumPy gives the second operand, of float16 the first
            found = self.op(op, *(wide[::-1] if op in ("max", "min") else wide))
            return self.cast(found, "f2") if OPS[op].result == "same" else found
        if first.dtype == "b1":
            op = BOOLEAN.get(op, op)
        return self.let(op, atoms, "b1" if OPS[op].result == "b1" else first.dtype)

    def cast(self, x: Scalar, dtype: str) -> Atom:
        """A real scalar as another type."""
        assert not isinstance(x, ComplexParts)
        if x.dtype == dtype:
            return x
        if isinstance(x, Lit) and dtype != "b1" and dtype[0] in "f" and x.dtype[0] in "iuf":
            return self.lit(float(x.value), dtype)
        if dtype == "f4" and x in self.constants:
            return self.constant(self.constants[x], np.dtype(np.float32))
        return self.let("cast", (x,), dtype)

    def convert(self, x: Scalar, dtype: np.dtype[Any]) -> Any:
        """A scalar as another dtype, as `astype` does it."""
        to = part_code(dtype)
        if dtype.kind != "c" and not isinstance(x, ComplexParts) and x.dtype == to:
            return x
        if dtype.kind == "c":
            re, im = x if isinstance(x, ComplexParts) else (x, Lit(0.0, to))
            return ComplexParts(self.cast(re, to), self.cast(im, to))
        if not isinstance(x, ComplexParts):
            return self.cast(x, to)
        if to == "b1":
            return self.op("or", self.cast(x.re, "b1"), self.cast(x.im, "b1"))
        return self.cast(x.re, to)

    def complex(self, re: Atom, im: Atom, dtype: np.dtype[Any]) -> ComplexParts:
        """A complex scalar of a dtype."""
        part = part_code(dtype)
        return ComplexParts(self.cast(re, part), self.cast(im, part))

    def lit(self, value: Any, dtype: str) -> Lit:
        """A constant that stays in the code."""
        kind = bool if dtype == "b1" else float if dtype[0] == "f" else int
        return Lit(kind(value), dtype)

    def constant(self, value: Any, dtype: np.dtype[Any]) -> Any:
        """A literal of a program: a run-time operand unless it is one of a few.

        Equal literals are one operand: a program of other values may have other code.
        """
        if dtype.kind == "c":
            half = np.dtype(part_code(dtype))
            number = complex(value)
            return ComplexParts(self.constant(number.real, half), self.constant(number.imag, half))
        to = code(dtype)
        plain = value.item() if issubclass(type(value), np.generic) else value
        if to == "b1" or (plain in KEPT and not (plain == 0 and str(plain)[0] == "-")):
            return self.lit(plain, to)
        found = self.number(("literal", repr(plain), to), plain, to)
        if to == "f8":
            self.constants[found] = plain
        return found

    def when(self, cond: Atom, then: Callable[[], Scalar], orelse: Callable[[], Scalar]) -> Any:
        """One of two values; only the one taken is computed."""
        if isinstance(cond, Lit):
            return then() if cond.value else orelse()
        arms: list[tuple[Block, Any]] = []
        for arm in (then, orelse):
            self.open(arm=True)
            value: Any = arm()
            arms.append((self.close(value if isinstance(value, ComplexParts) else (value,)), value))
        depth = len(self.scopes) - 1
        outs = tuple(self.fresh(r.dtype, depth) for r in arms[0][0].results)
        self.scopes[-1].stmts.append(If(outs, cond, arms[0][0], arms[1][0]))
        return ComplexParts(*outs) if isinstance(arms[0][1], ComplexParts) else outs[0]

    def choose(
        self,
        cond: Atom,
        then: Callable[[], Sequence[Atom]],
        orelse: Callable[[], Sequence[Atom]],
    ) -> list[Atom]:
        """One of two lists of values; only the one taken is computed."""
        depth = len(self.scopes)
        blocks: list[Block] = []
        for arm in (then, orelse):
            self.open(arm=True)
            blocks.append(self.close(arm()))
        make = partial(If, cond=cond, then=blocks[0], orelse=blocks[1])
        return self._placed(make, [a.dtype for a in blocks[0].results], depth)

    def repeat(
        self,
        inits: Sequence[Atom],
        cond: Callable[[Sequence[Atom]], Atom],
        body: Callable[[Sequence[Atom]], Sequence[Atom]],
    ) -> list[Atom]:
        """Values carried through a loop; what never changes in it is computed outside."""
        depth = len(self.scopes)
        params = tuple(self.fresh(a.dtype, depth) for a in inits)
        self.open()
        test = self.close((cond(params),))
        self.open()
        turn = self.close(body(params))
        make = partial(While, params=params, inits=tuple(inits), cond=test, body=turn)
        return self._placed(make, [a.dtype for a in inits], depth)

    def _placed(
        self, make: Callable[..., If | While], dtypes: Sequence[str], depth: int
    ) -> list[Atom]:
        """A statement with blocks, in the outermost scope that has all it reads."""
        used = uses_of(make(()))
        home = self._home(
            [a for a in used if isinstance(a, KernelVar) and self.depths[a.id] < depth]
        )
        outs = tuple(self.fresh(d, home.depth) for d in dtypes)
        home.stmts.append(make(outs))
        return list(outs)

    # --- coordinates

    origin: Final = ORIGIN

    def size(self, value: int, role: Any = None) -> KernelVar:
        """A run-time number of the equation that is being lowered.

        Numbers of different roles stay apart where they are equal by accident.
        """
        return self.number((self.site, role, value), value)

    def position(self, c: Coord | Gathered) -> Atom:
        """A coordinate as an integer."""
        if isinstance(c, Gathered):
            return c.atom
        x: Atom = Lit(0, "i8") if c.axis is None else c.axis
        if c.axis is not None and c.scale == -1:
            x = self.op("neg", x)
        elif c.axis is not None and c.scale != 1:
            x = self.op("mul", x, self.size(c.scale))
        if c.offset == 0:
            return x
        by = self.size(c.offset)
        return by if c.axis is None else self.op("add", x, by)

    def gathered(self, atom: Atom) -> Gathered:
        """A computed number as a coordinate."""
        return Gathered(atom)

    def shift(self, c: Coord | Gathered, by: int) -> Coord | Gathered:
        """The coordinate `by` elements on."""
        if isinstance(c, Gathered):
            return Gathered(self.op("add", c.atom, self.size(by))) if by else c
        return c.shifted(by)

    def scale(self, c: Coord | Gathered, by: int) -> Coord | Gathered:
        """The coordinate times a number."""
        if isinstance(c, Gathered):
            return Gathered(self.op("mul", c.atom, self.size(by))) if by != 1 else c
        return c.scaled(by)

    def flip(self, c: Coord | Gathered, n: int) -> Coord | Gathered:
        """The coordinate counted from the other end of an axis of size n."""
        if isinstance(c, Gathered):
            return Gathered(self.op("sub", self.size(n - 1), c.atom))
        return c.flipped(n)

    def inside(self, c: Coord | Gathered, low: int, high: int) -> Atom:
        """Whether low <= coordinate < high; known where the coordinate is a number."""
        if isinstance(c, Coord) and c.axis is None:
            return Lit(low <= c.offset < high, "b1")
        if isinstance(c, Coord) and c.scale == 1:  # the axis itself, so that its loop can be cut
            low, high, c = low - c.offset, high - c.offset, Coord(c.axis)
        x = self.position(c)
        above = self.op("ge", x, self.size(low, (c, "low")))
        return self.op("and", above, self.op("lt", x, self.size(high, (c, "high"))))

    # --- memory

    def buffer(
        self, slot: int, dtype: str, index: Index, strides: Sequence[int], shift: int, space: str
    ) -> tuple[str, tuple[Atom, ...]]:
        """A buffer for an index map of an array, and the coordinates in it.

        Args:
            slot: where the array lies.
            index: one coordinate per axis.
            strides: elements of `dtype` between neighbours along each axis.
            shift: elements to add (the imaginary parts lie one behind the real ones).
        """
        steps: dict[KernelVar, int] = {}
        offset = shift
        gathered: list[tuple[Atom, int]] = []
        for c, stride in zip(index, strides, strict=True):
            if isinstance(c, Gathered):
                gathered.append((c.atom, stride))
                continue
            offset += c.offset * stride
            if c.axis is not None:
                steps[c.axis] = steps.get(c.axis, 0) + c.scale * stride
        coordinates = [*((a, s) for a, s in steps.items() if s), *gathered]
        # an output that a later pass reads back is one buffer, whatever the loops' variables
        places = tuple(coordinates) if space == "in" else tuple(s for _, s in coordinates)
        key = (slot, dtype, places, offset, space)
        found = self.buffers.get(key)
        if found is None:
            classes = tuple({1: "one", -1: "minus"}.get(s, "any") for _, s in coordinates)
            name = f"{'x' if space == 'in' else 'o'}{len(self.buffers)}"
            size = int(dtype[1])
            entry = len(self.table)
            self.table.append(offset * size)
            self.table.extend(s for _, s in coordinates if s not in (1, -1))
            n_any = classes.count("any")
            operand = Operand(slot, entry, tuple(range(entry + 1, entry + 1 + n_any)))
            found = self.buffers[key] = (Buffer(name, dtype, classes, space), operand)
        return found[0].name, tuple(a for a, _ in coordinates)

    def load(self, buffer: str, dtype: str, at: tuple[Atom, ...]) -> Atom:
        """The element of an input."""
        key = ("load", buffer, at)
        found = self.find(key)
        if found is not None:
            return found
        home = self._home(at)
        out = self.fresh(dtype, home.depth)
        home.stmts.append(Load(out, buffer, at))
        home.cache[key] = out
        return out

    def store(
        self, buffer: str, at: tuple[Atom, ...], value: Atom, combine: str | None = None
    ) -> None:
        """Write an element, or combine it with what is there."""
        self.scopes[-1].stmts.append(Store(buffer, at, value, combine))

    # --- loops

    def carried(self, dtypes: Sequence[str]) -> tuple[KernelVar, ...]:
        """Variables that the innermost open loop carries from one iteration to the next."""
        return tuple(self.fresh(d, len(self.scopes) - 1) for d in dtypes)

    def loop_axis(self) -> KernelVar:
        """Open a loop; its variable."""
        scope = self.open()
        return self.fresh("i8", scope.depth)

    def end_loop(
        self, axis: KernelVar, extent: Atom, folds: Sequence[Fold] = (), values: Sequence[Atom] = ()
    ) -> tuple[KernelVar, ...]:
        """Close a loop that leaves these values to be folded; the folded values."""
        body = self.close(values)
        depth = len(self.scopes) - 1
        outs: list[KernelVar] = []
        for fold in folds:
            outs.append(self.fresh(fold.acc, depth))
            if fold.op in PAIRS:
                outs.append(self.fresh("i8", depth))
        self.scopes[-1].stmts.append(Loop(tuple(outs), axis, extent, body, tuple(folds)))
        return tuple(outs)

    def end_run(
        self,
        axis: KernelVar,
        extent: Atom,
        params: Sequence[KernelVar],
        inits: Sequence[Atom],
        values: Sequence[Atom],
    ) -> tuple[KernelVar, ...]:
        """Close a loop that runs in order and carries values, the next of which it leaves.

        Returns:
            The last ones.
        """
        body = self.close(values)
        outs = tuple(self.fresh(v.dtype, len(self.scopes) - 1) for v in params)
        loop = Loop(outs, axis, extent, body, (), tuple(params), tuple(inits))
        self.scopes[-1].stmts.append(loop)
        return outs

    def kernel(self) -> tuple[Kernel, tuple[Operand, ...], tuple[int, ...]]:
        """The kernel, where its buffers lie, and the table entries of its scalars."""
        pairs = list(self.buffers.values())
        body = Block(tuple(self.scopes[0].stmts))
        used = {a for stmt in body.stmts for a in uses_of(stmt)} if self.constants else set()
        unused = self.constants.keys() - used
        numbers = [pair for pair in self.scalars.values() if pair[0] not in unused]
        kernel = Kernel(self.name, tuple(b for b, _ in pairs), tuple(v for v, _ in numbers), body)
        return kernel, tuple(o for _, o in pairs), tuple(n for _, n in numbers)
