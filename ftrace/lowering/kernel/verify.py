"""The checker of kernels and schedules: the rules of ir.py, executable.

`verify` is run after every pass in tests, and `verify_schedule` before code is written. Both raise
`JaxprError`, which is always a bug of ftrace, and name the kernel, the statement and the rule. The
one rule that needs thought is that iterations are independent: a store names every enclosing loop,
and an output is read only where the same iteration wrote it (`_Written`). What kernels mean is
said in reference.py.
"""

from collections.abc import Sequence
from typing import Any, Final, NoReturn

import numpy as np

from ftrace.core.errors import JaxprError
from ftrace.core.scalar import ANY, NUMBER, OPS, ScalarOp
from ftrace.lowering.kernel import show
from ftrace.lowering.kernel.ir import (
    DTYPES,
    FOLDS,
    PAIRS,
    SPACES,
    STEPS,
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
    blocks_of,
    loops_of,
)
from ftrace.lowering.kernel.schedule import LANE, SERIAL, Schedule, is_shareable

_FOLD_KINDS: Final = dict.fromkeys(FOLDS, ANY) | {"sum": NUMBER, "prod": NUMBER}
_FOLD_KINDS.update(dict.fromkeys(("and", "or", "xor"), "biu"))
_LITERALS: Final = {"b": bool, "i": int, "u": int, "f": float}


def verify(kernel: Kernel) -> None:
    """Raise `JaxprError` unless a kernel keeps the rules of ir.py."""
    _Checker(kernel).run()


def verify_schedule(kernel: Kernel, schedule: Schedule) -> None:
    """Raise `JaxprError` unless a schedule fits its (verified) kernel."""
    axes = [loop.axis.id for loop in loops_of(kernel.body)]
    named = [axis for axis, _ in schedule.roles]
    rules = (
        (len(set(named)) == len(named), "a schedule gives a loop two roles"),
        (set(axes) <= set(named), "a schedule gives every loop a role"),
        (set(named) <= set(axes), "a schedule names a loop that the kernel does not have"),
        ({role for _, role in schedule.roles} <= {LANE, SERIAL}, "a role is lane or serial"),
        (_is_power(schedule.lanes), "lanes are a power of two"),
        (set(schedule.shared) <= set(axes), "threads share loops of the kernel"),
    )
    for holds, rule in rules:
        if not holds:
            raise JaxprError(f"kernel {kernel.name}: {rule}: {schedule}.")
    for store, loops in _combining(kernel.body, ()):
        if any(schedule.role(loop) == LANE for loop in loops):
            _fail(kernel, store, "the loops that a combining store does not name are serial")
    for loop in loops_of(kernel.body):
        if schedule.role(loop) == LANE:
            _verify_lanes(kernel, schedule, loop)
        if loop.axis.id in schedule.shared and not is_shareable(loop, schedule):
            _fail(kernel, loop, "threads share a loop whose iterations depend on their order")


def _verify_lanes(kernel: Kernel, schedule: Schedule, loop: Loop) -> None:
    """Raise unless a loop can run in lanes."""
    if any(schedule.role(inner) == LANE for inner in loops_of(loop.body)):
        _fail(kernel, loop, "a loop in lanes lies inside another")
    if loop.params:
        _fail(kernel, loop, "a loop in lanes carries no values")
    if any(fold.ways > schedule.lanes for fold in loop.folds):
        _fail(kernel, loop, "a loop in lanes has at least as many lanes as ways")


def _combining(block: Block, loops: tuple[Loop, ...]) -> list[tuple[Store, list[Loop]]]:
    """Combining stores, with the enclosing loops whose iterations write the same cells."""
    found: list[tuple[Store, list[Loop]]] = []
    for stmt in block.stmts:
        if isinstance(stmt, Store) and stmt.combine is not None:
            found.append((stmt, _missing(stmt, loops)))
        around = (*loops, stmt) if isinstance(stmt, Loop) else loops
        for inner in blocks_of(stmt):
            found += _combining(inner, around)
    return found


def _missing(store: Store, loops: Sequence[Loop]) -> list[Loop]:
    """The loops that a store does not name: their iterations all write the same cell."""
    return [loop for loop in loops if loop.axis not in store.at]


def _is_power(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def _fail(kernel: Kernel, stmt: Stmt | None, rule: str) -> NoReturn:
    place = "" if stmt is None else f" In: {show.statement(kernel, stmt).splitlines()[0]}"
    raise JaxprError(f"kernel {kernel.name}: {rule}.{place}")


class _Span:
    """A coordinate that has run over an extent."""

    __slots__ = ("extent",)

    def __init__(self, extent: Atom) -> None:
        self.extent = extent


_Places = list[tuple[str, tuple[Any, ...]]]


def _finished(places: _Places, loop: Loop) -> _Places:
    """What a loop's body wrote, seen after the loop."""
    span = _Span(loop.extent)
    return [(b, tuple(span if c == loop.axis else c for c in at)) for b, at in places]


class _Checker:
    """One walk over a kernel, with what is in scope."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.stmt: Stmt | None = None
        self.bound: set[int] = set()
        self.scope: dict[int, str] = {}
        self.scalars = {v.id for v in kernel.scalars}
        self.buffers: dict[str, Buffer] = {}
        self.loops: list[Loop] = []
        self.combining = {
            (store.buffer, loop.axis)
            for store, loops in _combining(kernel.body, ())
            for loop in loops
        }
        self.written: _Places = []
        self.guarded = False  # below If or While
        self.testing = False  # in the condition of a While

    def require(self, holds: bool, rule: str) -> None:
        if not holds:
            _fail(self.kernel, self.stmt, rule)

    # --- names, types

    def run(self) -> None:
        for b in self.kernel.buffers:
            self.buffer(b)
        for v in self.kernel.scalars:
            self.bind(v)
        self.block(self.kernel.body)
        self.require(not self.kernel.body.results, "the body of a kernel leaves no values")

    def buffer(self, b: Buffer) -> None:
        self.require(b.name not in self.buffers, f"two buffers are named {b.name}")
        self.require(b.dtype in DTYPES, f"buffer {b.name} has the unknown type {b.dtype}")
        self.require(set(b.steps) <= set(STEPS), f"buffer {b.name} has an unknown class of step")
        self.require(b.space in SPACES, f"buffer {b.name} has the unknown space {b.space}")
        self.buffers[b.name] = b

    def bind(self, v: KernelVar, dtype: str | None = None) -> None:
        self.require(v.dtype in DTYPES, f"a variable has the unknown type {v.dtype}")
        self.require(v.id not in self.bound, "a variable is bound twice")
        self.require(dtype in (None, v.dtype), f"a result of type {dtype} is bound as {v.dtype}")
        self.bound.add(v.id)
        self.scope[v.id] = v.dtype

    def use(self, a: Atom) -> str:
        """The type of an operand."""
        if isinstance(a, Lit):
            self.literal(a)
        else:
            self.require(a.id in self.scope, "a variable is read outside of its scope")
            was = self.scope[a.id]
            self.require(was == a.dtype, f"a variable of type {was} is read as {a.dtype}")
        return a.dtype

    def literal(self, a: Lit) -> None:
        self.require(a.dtype in DTYPES, f"a literal has the unknown type {a.dtype}")
        canonical = type(a.value) is _LITERALS[a.dtype[0]]
        if canonical and a.dtype[0] in "iu":
            bounds = np.iinfo(a.dtype)
            canonical = bounds.min <= a.value <= bounds.max
        self.require(canonical, f"{a.value!r} is not a canonical literal of type {a.dtype}")

    def extent(self, a: Atom) -> None:
        self.require(self.use(a) == "i8", "an extent has type i8")
        if isinstance(a, Lit):
            self.require(a.value >= 0, "an extent is not negative")
        else:
            self.require(a.id in self.scalars, "an extent is a scalar of the kernel or a literal")

    def block(self, block: Block, params: Sequence[KernelVar] = ()) -> list[str]:
        """Check a block in a scope of its own; the types of its results."""
        scope, stmt = dict(self.scope), self.stmt
        for v in params:
            self.bind(v)
        for self.stmt in block.stmts:
            self.statement(self.stmt)
        self.stmt = stmt
        results = [self.use(a) for a in block.results]
        self.scope = scope
        return results

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case Let():
                self.let(stmt)
            case Load():
                self.load(stmt)
            case Store():
                self.store(stmt)
            case Loop():
                self.loop(stmt)
            case If():
                self.choice(stmt)
            case While():
                self.repetition(stmt)

    # --- scalars

    def let(self, stmt: Let) -> None:
        op = OPS.get(stmt.op)
        types = [self.use(a) for a in stmt.args]
        if op is None:
            _fail(self.kernel, stmt, f"there is no operation {stmt.op}")
        self.require(len(types) == op.arity, f"{op.name} takes {op.arity} operands")
        if op.name == "select":
            self.require(types.pop(0) == "b1", "the condition of select has type b1")
        first = types[0]
        self.require(set(types) == {first}, f"the operands of {op.name} differ in type")
        self.require(first[0] in op.kinds, f"{op.name} is not defined for {first}")
        self.require(op.name == "cast" or first != "f2", "float16 is converted, not computed with")
        self.bind(stmt.out, self.result(op, first, stmt.out.dtype))

    def result(self, op: ScalarOp, operand: str, wanted: str) -> str:
        """The type of a result."""
        if op.name == "bitcast":
            same = wanted[1:] == operand[1:] and wanted not in ("b1", "f2")
            self.require(same, f"bitcast from {operand} to {wanted} changes the size")
        return {"same": operand, "b1": "b1", "to": wanted}[op.result]

    # --- memory

    def place(self, name: str, at: tuple[Atom, ...]) -> Buffer:
        found = self.buffers.get(name)
        if found is None:
            _fail(self.kernel, self.stmt, f"there is no buffer {name} here")
        count = len(found.steps)
        self.require(len(at) == count, f"buffer {name} has {count} coordinates, not {len(at)}")
        self.require({self.use(a) for a in at} <= {"i8"}, "a coordinate has type i8")
        return found

    def load(self, stmt: Load) -> None:
        found = self.place(stmt.buffer, stmt.at)
        if found.space == "out":
            known = any(b == found.name and self.covers(p, stmt.at) for b, p in self.written)
            self.require(known, "an output is read where this iteration has not written it")
            busy = any((found.name, loop.axis) in self.combining for loop in self.loops)
            self.require(not busy, "an output is read while a loop still combines into it")
        self.bind(stmt.out, found.dtype)

    def covers(self, place: tuple[Any, ...], at: tuple[Atom, ...]) -> bool:
        """Whether what was written at `place` is what is read at `at`."""
        extents = {loop.axis: loop.extent for loop in self.loops}
        for was, now in zip(place, at, strict=True):
            if isinstance(was, _Span):
                extent = was.extent
                inside = isinstance(now, KernelVar) and extents.get(now) == extent
                if isinstance(now, Lit) and isinstance(extent, Lit):
                    inside = 0 <= now.value < extent.value
                if not inside:
                    return False
            elif was != now:
                return False
        return True

    def store(self, stmt: Store) -> None:
        found = self.place(stmt.buffer, stmt.at)
        self.require(not self.testing, "the condition of a While stores nothing")
        self.require(found.space == "out", "an input is not written")
        value = self.use(stmt.value)
        self.require(value == found.dtype, f"{value} is stored to a buffer of {found.dtype}")
        if stmt.combine is not None:
            self.combine(stmt.combine, found.dtype)
            return
        missing = _missing(stmt, self.loops)
        self.require(not missing, "a store names every enclosing loop, or combines")
        self.written.append((stmt.buffer, stmt.at))

    def combine(self, op: str, dtype: str) -> None:
        known = op in FOLDS and op not in PAIRS
        self.require(known, f"{op} is not a fold that a store can combine with")
        defined = dtype[0] in _FOLD_KINDS[op] and dtype != "f2"
        self.require(defined, f"{op} is not defined for {dtype}")

    # --- nests

    def loop(self, stmt: Loop) -> None:
        self.require(not self.guarded, "there is no loop below If or While")
        self.extent(stmt.extent)
        inits = self.carried(stmt.params, stmt.inits)
        self.bind(stmt.axis)
        self.require(stmt.axis.dtype == "i8", "the axis of a loop has type i8")
        written, self.written = self.written, list(self.written)
        self.loops.append(stmt)
        left = self.block(stmt.body, stmt.params)
        self.loops.pop()
        del self.scope[stmt.axis.id]
        self.written = written + _finished(self.written[len(written) :], stmt)
        wanted = sum(2 if f.op in PAIRS else 1 for f in stmt.folds) + len(inits)
        self.require(len(left) == wanted, f"the body of the loop leaves {wanted} values")
        results = [d for fold in stmt.folds for d in self.fold(fold, left)]
        self.require(left == inits, "carried values keep their types")
        self.outs(stmt.outs, results + inits)

    def carried(self, params: tuple[KernelVar, ...], inits: tuple[Atom, ...]) -> list[str]:
        types = [self.use(a) for a in inits]
        self.require([v.dtype for v in params] == types, "parameters have the types of their inits")
        return types

    def fold(self, fold: Fold, left: list[str]) -> list[str]:
        """Check a fold of the values in front of `left`, and take them; the types of its result."""
        self.require(fold.op in FOLDS, f"there is no fold {fold.op}")
        acc, value = fold.acc, left.pop(0)
        defined = acc in DTYPES and acc[0] in _FOLD_KINDS[fold.op] and acc != "f2"
        self.require(defined, f"fold {fold.op} is not defined for {acc}")
        fits = value != "f2" and np.can_cast(value, acc) and (fold.op not in PAIRS or value == acc)
        self.require(bool(fits), f"a value of type {value} is folded in {acc}")
        self.require(_is_power(fold.ways), "the ways of a fold are a power of two")
        self.require(_is_power(fold.near or 1), "the group of a fold is a power of two")
        whole = fold.block >= 0 and fold.block % (fold.ways * (fold.near or 1)) == 0
        self.require(whole, "the block of a fold is a multiple of its ways")
        plain = not fold.block or (fold.op == "sum" and acc[0] == "f")
        self.require(plain, "only sums of floats have blocks")
        if fold.op not in PAIRS:
            return [acc]
        self.require(left[0][0] in "iu", "the index of a pair is an integer")
        return [acc, left.pop(0)]

    def outs(self, outs: tuple[KernelVar, ...], types: list[str]) -> None:
        self.require(len(outs) == len(types), f"{len(types)} results are bound to {len(outs)}")
        for v, dtype in zip(outs, types, strict=True):
            self.bind(v, dtype)

    def choice(self, stmt: If) -> None:
        self.require(self.use(stmt.cond) == "b1", "the condition of If has type b1")
        then, after_then = self.arm(stmt.then)
        orelse, after_orelse = self.arm(stmt.orelse)
        self.require(then == orelse, "the arms of If leave values of the same types")
        self.written += [place for place in after_then if place in after_orelse]
        self.outs(stmt.outs, then)

    def arm(self, block: Block) -> tuple[list[str], _Places]:
        """Types of what a guarded block leaves, and what it wrote."""
        guarded, written = self.guarded, self.written
        self.guarded, self.written = True, list(written)
        results = self.block(block, ())
        new = self.written[len(written) :]
        self.guarded, self.written = guarded, written
        return results, new

    def repetition(self, stmt: While) -> None:
        inits = self.carried(stmt.params, stmt.inits)
        scope, testing = dict(self.scope), self.testing
        for v in stmt.params:
            self.bind(v)
        self.testing = True
        test, _ = self.arm(stmt.cond)
        self.testing = testing
        self.require(test == ["b1"], "the condition of While leaves one b1")
        left, _ = self.arm(stmt.body)
        self.require(left == inits, "carried values keep their types")
        self.scope = scope
        self.outs(stmt.outs, inits)
