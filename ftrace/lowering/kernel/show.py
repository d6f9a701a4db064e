"""Kernels as text: short, for reading; as a Python script, for a bug report; renumbered, as a key.

`text` is the form used in documents and messages, `script` rebuilds a kernel with the constructors
of ir.py and runs it with the reference interpreter, and `canonical` numbers the variables in order
of appearance, so that kernels of equal structure are equal values. Nothing here checks anything:
a malformed kernel prints too, because that is when one wants to see it. Checks are in verify.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np

from ftrace.lowering.kernel import ir
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
)

Operand = tuple[np.ndarray[Any, Any], int, tuple[int, ...]]
_STEPS: Final = {"one": "1", "minus": "-1", "any": "*"}


# --- renumbering


def canonical(kernel: Kernel) -> Kernel:
    """The same kernel with variables numbered from 0 in order of appearance in its text.

    Names of the kernel and of its buffers stay: they are part of the value.
    """
    return _Renumbering().kernel(kernel)


class _Renumbering:
    """New variables for old, made when first seen."""

    def __init__(self) -> None:
        self.known: dict[int, KernelVar] = {}

    def atom(self, a: Atom) -> Any:
        if isinstance(a, Lit):
            return a
        found = self.known.get(a.id)
        if found is None:
            found = self.known[a.id] = KernelVar(len(self.known), a.dtype)
        return found

    def atoms(self, atoms: Sequence[Atom]) -> tuple[Any, ...]:
        return tuple([self.atom(a) for a in atoms])

    def kernel(self, kernel: Kernel) -> Kernel:
        scalars = self.atoms(kernel.scalars)
        return Kernel(kernel.name, kernel.buffers, scalars, self.block(kernel.body))

    def block(self, block: Block) -> Block:
        stmts = tuple([self.stmt(s) for s in block.stmts])
        return Block(stmts, self.atoms(block.results))

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Let):
            return Let(self.atom(stmt.out), stmt.op, self.atoms(stmt.args))
        if isinstance(stmt, Load):
            return Load(self.atom(stmt.out), stmt.buffer, self.atoms(stmt.at))
        if isinstance(stmt, Store):
            return Store(stmt.buffer, self.atoms(stmt.at), self.atom(stmt.value), stmt.combine)
        outs = self.atoms(stmt.outs)
        if isinstance(stmt, If):
            then, orelse = self.block(stmt.then), self.block(stmt.orelse)
            return If(outs, self.atom(stmt.cond), then, orelse, stmt.skips)
        if isinstance(stmt, Loop):
            axis, extent = self.atom(stmt.axis), self.atom(stmt.extent)
            params, inits = self.atoms(stmt.params), self.atoms(stmt.inits)
            return Loop(outs, axis, extent, self.block(stmt.body), stmt.folds, params, inits)
        params, inits = self.atoms(stmt.params), self.atoms(stmt.inits)
        return ir.While(outs, params, inits, self.block(stmt.cond), self.block(stmt.body))


# --- text


def text(kernel: Kernel) -> str:
    """The short readable form.

    Scalars are n0, n1 ..., variables v1, v2 ... in order of appearance. The steps of a buffer are
    printed as 1, -1 and *.

    Example:
        >>> i, v = KernelVar(2, "i8"), KernelVar(3, "f8")
        >>> x, y = Buffer("x", "f8", ("any",), "in"), Buffer("y", "f8", ("one",), "out")
        >>> body = Block((Load(v, "x", (i,)), Store("y", (i,), v)))
        >>> loop = Loop((), i, KernelVar(1, "i8"), body)
        >>> print(text(Kernel("copy", (x, y), (KernelVar(1, "i8"),), Block((loop,)))))
        kernel copy(in x:f8[*], out y:f8[1]; n0:i8):
          for v1 < n0:
            v2:f8 = x[v1]
            y[v1] = v2
    """
    printer = _Printer(kernel)
    buffers = ", ".join(f"{b.space} {_buffer(b)}" for b in kernel.buffers)
    scalars = ", ".join(printer.binder(v) for v in kernel.scalars)
    head = f"kernel {kernel.name}({buffers}{'; ' if scalars else ''}{scalars}):"
    return "\n".join([head, *printer.block(kernel.body, "  ")])


def statement(kernel: Kernel, stmt: Stmt) -> str:
    """One statement as it stands in the text of its kernel."""
    return "\n".join(_Printer(kernel).stmt(stmt, ""))


def _buffer(b: Buffer) -> str:
    return f"{b.name}:{b.dtype}[{', '.join(_STEPS.get(s, s) for s in b.steps)}]"


def _fold(fold: Fold) -> str:
    ways = f", {fold.ways} ways" if fold.ways != 1 else ""
    ways += (
        f" of {fold.near} neighbours" if fold.near > 1 else " of neighbours" if fold.near else ""
    )
    return f"fold {fold.op}<{fold.acc}{ways}{f', blocks of {fold.block}' if fold.block else ''}>"


class _Printer:
    """Lines of blocks and statements, with the names of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        renumbering = _Renumbering()
        renumbering.kernel(kernel)
        scalars = len({v.id for v in kernel.scalars})
        self.names = {
            old: f"n{new.id}" if new.id < scalars else f"v{new.id - scalars + 1}"
            for old, new in renumbering.known.items()
        }

    def atom(self, a: Atom) -> str:
        return repr(a.value) if isinstance(a, Lit) else self.names[a.id]

    def atoms(self, atoms: Sequence[Atom]) -> str:
        return ", ".join(self.atom(a) for a in atoms)

    def binder(self, v: KernelVar) -> str:
        return f"{self.names[v.id]}:{v.dtype}"

    def binders(self, variables: Sequence[KernelVar]) -> str:
        return ", ".join(self.binder(v) for v in variables) + (" = " if variables else "")

    def block(self, block: Block, indent: str) -> list[str]:
        return [line for s in block.stmts for line in self.stmt(s, indent)]

    def stmt(self, stmt: Stmt, indent: str) -> list[str]:
        match stmt:
            case Let():
                words = [stmt.op, *(self.atom(a) for a in stmt.args)]
                return [f"{indent}{self.binder(stmt.out)} = {' '.join(words)}"]
            case Load():
                return [f"{indent}{self.binder(stmt.out)} = {stmt.buffer}[{self.atoms(stmt.at)}]"]
            case Store():
                place = f"{stmt.buffer}[{self.atoms(stmt.at)}]"
                return [f"{indent}{place} {stmt.combine or ''}= {self.atom(stmt.value)}"]
            case _:
                return self.nest(stmt, indent)

    def nest(self, stmt: Loop | If | ir.While, indent: str) -> list[str]:
        """A statement with blocks inside."""
        head, inner = indent + self.binders(stmt.outs), indent + "  "
        if isinstance(stmt, If):
            return [
                f"{head}if {self.atom(stmt.cond)}:",
                *self.block(stmt.then, inner),
                *self.leave("leave", stmt.then.results, inner),
                f"{indent}else:",
                *self.block(stmt.orelse, inner),
                *self.leave("leave", stmt.orelse.results, inner),
            ]
        carried = [f"{self.binder(v)}={self.atom(a)}" for v, a in zip(stmt.params, stmt.inits)]  # noqa: B905 - prints malformed kernels too
        if isinstance(stmt, Loop):
            bound = f"{self.names[stmt.axis.id]} < {self.atom(stmt.extent)}"
            body = self.block(stmt.body, inner)
            return [f"{head}for {', '.join([bound, *carried])}:", *body, *self.folds(stmt, inner)]
        return [
            f"{head}while {', '.join(carried)}:",
            *self.block(stmt.cond, inner),
            *self.leave("test", stmt.cond.results, inner),
            *self.block(stmt.body, inner),
            *self.leave("next", stmt.body.results, inner),
        ]

    def folds(self, loop: Loop, indent: str) -> list[str]:
        """What the body of a loop leaves: a line per fold, and the carried values."""
        rest, lines = list(loop.body.results), []
        for fold in loop.folds:
            count = 2 if fold.op in PAIRS else 1
            lines.append(f"{indent}{_fold(fold)} {self.atoms(rest[:count])}")
            rest = rest[count:]
        return lines + self.leave("next", rest, indent)

    def leave(self, word: str, results: Sequence[Atom], indent: str) -> list[str]:
        return [f"{indent}{word} {self.atoms(results)}"] if results else []


# --- scripts


def script(
    kernel: Kernel,
    buffers: Mapping[str, Operand] | None = None,
    scalars: Sequence[Any] | None = None,
) -> str:
    """A Python script that rebuilds the kernel and runs it with the reference interpreter.

    Args:
        kernel: the kernel; it may be malformed.
        buffers: operands as `reference.run` takes them, small; without them, and without
            `scalars`, sizes are 3, and memory holds small positive numbers.
        scalars: values of the kernel's scalars.
    """
    if buffers is None or scalars is None:
        buffers, scalars = _operands(kernel)
    operands = [f"    {name!r}: {_operand(o)}," for name, o in buffers.items()]
    names = ", ".join(_constructors(kernel))
    return "\n".join([
        f'"""Kernel {kernel.name} on small operands, by the reference interpreter."""',
        "",
        "from math import inf, nan",
        "",
        "import numpy as np",
        "",
        "from ftrace.lowering.kernel import reference, show, verify",
        f"from ftrace.lowering.kernel.ir import {names}",
        "",
        f"kernel = {constructors(kernel)}",
        "buffers = {",
        *operands,
        "}",
        f"scalars = {[np.asarray(s).item() for s in scalars]!r}",
        "",
        "print(show.text(kernel))",
        "verify.verify(kernel)",
        "reference.run(kernel, buffers, scalars)",
        "for name, (memory, offset, steps) in buffers.items():",
        "    print(name, memory)",
        "",
    ])  # fmt: skip


def constructors(value: Any, indent: str = "") -> str:
    """A kernel, or a part of one, as the Python expression that makes it."""
    flat = repr(value)
    if len(flat) + len(indent) <= 90:
        return flat
    inner = indent + "    "
    if is_dataclass(value):
        opening, closing = f"{type(value).__name__}(", ")"
        items = [f"{f.name}={constructors(getattr(value, f.name), inner)}" for f in fields(value)]
    elif isinstance(value, tuple):
        opening, closing = "(", ")"
        items = [constructors(item, inner) for item in value]
    else:
        return flat
    return "\n".join([opening, *(f"{inner}{item}," for item in items), indent + closing])


def _constructors(value: Any) -> list[str]:
    """Names of the classes that a value is made of."""
    if isinstance(value, tuple):
        return sorted({name for item in value for name in _constructors(item)})
    if not is_dataclass(value):
        return []
    parts = _constructors(tuple(getattr(value, f.name) for f in fields(value)))
    return sorted({type(value).__name__, *parts})


def _operand(given: Operand) -> str:
    memory, offset, steps = given
    return f"(np.array({memory.tolist()!r}, {memory.dtype.str[1:]!r}), {offset}, {steps})"


def _operands(kernel: Kernel) -> tuple[dict[str, Operand], list[Any]]:
    """Sizes of 3, and memory with a little more per coordinate, or up to its literals."""
    scalars = [3 if v.dtype == "i8" else np.dtype(v.dtype).type(1.5).item() for v in kernel.scalars]
    length = max([4, *(value + 1 for value in _literals(kernel.body))])
    return {b.name: _memory(b, length) for b in kernel.buffers}, scalars


def _literals(block: Block) -> list[int]:
    """Coordinates and extents that are literals."""
    found: list[int] = []
    for stmt in block.stmts:
        if isinstance(stmt, Load | Store):
            found += [int(a.value) for a in stmt.at if isinstance(a, Lit)]
        elif isinstance(stmt, Loop) and isinstance(stmt.extent, Lit):
            found.append(int(stmt.extent.value))
        for inner in ir.blocks_of(stmt):
            found += _literals(inner)
    return found


def _memory(b: Buffer, length: int) -> Operand:
    steps, size = [0] * len(b.steps), length
    for i in reversed(range(len(b.steps))):
        steps[i] = {"one": 1, "minus": -1}.get(b.steps[i], size)
        size *= length if b.steps[i] == "any" else 1
    count = np.arange(size)
    values = count % 3 if b.dtype[0] in "iub" else 0.5 + count / size
    offset = (length - 1) * b.steps.count("minus")
    return values.astype(b.dtype), offset, tuple(steps)
