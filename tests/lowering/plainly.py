"""The meaning of kernels once more: one iteration after the other, one scalar at a time.

Slow, short, and written from ir.py alone: what the interpreter in lockstep is compared with.
"""

from typing import Any

import numpy as np

from ftrace.core.scalar import apply
from ftrace.lowering.kernel.ir import (
    PAIRS,
    Atom,
    Block,
    Fold,
    If,
    Kernel,
    Let,
    Lit,
    Load,
    Loop,
    Stmt,
    Store,
    While,
)
from ftrace.lowering.kernel.reference import Operand

COMBINE = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


class Plain:
    def __init__(self, kernel: Kernel, buffers: dict[str, Operand], scalars: list[Any]) -> None:
        self.buffers = dict(buffers)
        self.values = {
            v.id: np.dtype(v.dtype).type(s) for v, s in zip(kernel.scalars, scalars, strict=True)
        }
        with np.errstate(all="ignore"):
            self.block(kernel.body)

    def atom(self, a: Atom) -> Any:
        return np.dtype(a.dtype).type(a.value) if isinstance(a, Lit) else self.values[a.id]

    def block(self, block: Block) -> list[Any]:
        for stmt in block.stmts:
            self.stmt(stmt)
        return [self.atom(a) for a in block.results]

    def cell(self, buffer: str, at: tuple[Atom, ...]) -> tuple[np.ndarray, int]:
        memory, offset, steps = self.buffers[buffer]
        place = offset + sum(int(self.atom(a)) * s for a, s in zip(at, steps, strict=True))
        assert 0 <= place < memory.size
        return memory, place

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Let(out, op, args):
                self.values[out.id] = apply(op, tuple(self.atom(a) for a in args), out.dtype)
            case Load(out, buffer, at):
                memory, place = self.cell(buffer, at)
                self.values[out.id] = memory[place]
            case Store(buffer, at, value, combine):
                memory, place = self.cell(buffer, at)
                new = self.atom(value)
                memory[place] = COMBINE[combine](memory[place], new) if combine else new
            case Loop():
                self.bind(stmt.outs, self.loop(stmt))
            case If(outs, cond, then, orelse):
                self.bind(outs, self.block(then if self.atom(cond) else orelse))
            case While(outs, params, inits, cond, body):
                self.bind(params, [self.atom(a) for a in inits])
                while self.block(cond)[0]:
                    self.bind(params, self.block(body))
                self.bind(outs, [self.values[p.id] for p in params])

    def bind(self, variables: tuple[Any, ...], values: list[Any]) -> None:
        self.values.update((v.id, x) for v, x in zip(variables, values, strict=True))

    def loop(self, loop: Loop) -> list[Any]:
        carried, left = [self.atom(a) for a in loop.inits], []
        for i in range(self.atom(loop.extent)):
            self.values[loop.axis.id] = np.int64(i)
            self.bind(loop.params, carried)
            results = self.block(loop.body)
            count = len(results) - len(carried)
            left.append(results[:count])
            carried = results[count:]
        folded, column = [], 0
        for fold in loop.folds:
            values = [np.dtype(fold.acc).type(row[column]) for row in left]
            if fold.op in PAIRS:
                folded += extreme(fold, values, [row[column + 1] for row in left])
            else:
                folded.append(tree(fold, values))
            column += 2 if fold.op in PAIRS else 1
        return folded + carried


def identity(fold: Fold) -> Any:
    kind = np.dtype(fold.acc).type
    if fold.op in ("sum", "prod", "or", "xor"):
        return kind(fold.op == "prod")
    if fold.op == "and":
        return ~kind(0)
    if fold.acc == "b1":
        return kind(fold.op == "min")
    info = np.finfo(fold.acc) if fold.acc[0] == "f" else np.iinfo(fold.acc)
    least = fold.op in ("max", "argmax")
    if fold.acc[0] == "f":
        return kind(-np.inf if least else np.inf)
    return kind(info.min if least else info.max)


def tree(fold: Fold, values: list[Any]) -> Any:
    """The tree of `Fold`, as its documentation tells it."""
    op, zero = COMBINE[fold.op], identity(fold)
    high, low = [zero] * fold.ways, [zero] * fold.ways
    if fold.near:
        values = grouped(fold, values)
    length = fold.block // max(fold.near, 1) or len(values)
    for start in range(0, len(values), max(length, 1)):
        running = [zero] * fold.ways
        for i, value in enumerate(values[start : start + length]):
            running[i % fold.ways] = op(running[i % fold.ways], value)
        if not fold.block:
            high = running
            continue
        for way in range(fold.ways):
            high[way], error = two_sum(high[way], running[way])
            low[way] = low[way] + error
    while len(high) > 1:
        half = len(high) // 2
        for i in range(half):
            a, b = (2 * i, 2 * i + 1) if fold.near else (i, i + half)
            if fold.block:
                high[i], error = two_sum(high[a], high[b])
                low[i] = (low[a] + low[b]) + error
            else:
                high[i] = op(high[a], high[b])
        high, low = high[:half], low[:half]
    return high[0] + low[0] if fold.block and np.isfinite(low[0]) else high[0]


def grouped(fold: Fold, values: list[Any]) -> list[Any]:
    """What groups of `near` neighbours leave; the last one is filled up."""
    found: list[Any] = []
    for start in range(0, len(values), fold.near):
        group = values[start : start + fold.near]
        group += [identity(fold)] * (fold.near - len(group))
        while len(group) > 1:
            pairs = zip(group[::2], group[1::2], strict=True)
            group = [COMBINE[fold.op](a, b) for a, b in pairs]
        found += group
    return found


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def extreme(fold: Fold, values: list[Any], index: list[Any]) -> list[Any]:
    if not values:
        return [identity(fold), 0]
    best, at = values[0], index[0]
    for value, i in zip(values[1:], index[1:], strict=True):
        if np.isnan(value) != np.isnan(best):
            better = np.isnan(value)
        elif value == best or np.isnan(value):
            better = i < at
        else:
            better = value > best if fold.op == "argmax" else value < best
        if better:
            best, at = value, i
    return [best, at]
