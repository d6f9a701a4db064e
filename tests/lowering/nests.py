"""A small hand to write kernels with, and to give them arrays.

`Nest` collects statements as a program would run them: no folding, no sharing, no checks, so that
wrong kernels can be written too. `Sample` is a kernel with NumPy arrays as its buffers and what
it should leave in them. See kernels.py for kernels written so.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ftrace.core.scalar import OPS
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
from ftrace.lowering.kernel.reference import Operand

NO_AXIS = KernelVar(-1, "i8")


@dataclass
class Part:
    """A block being written; `outs` are known when its statement is finished."""

    stmts: list[Stmt] = field(default_factory=list)
    results: tuple[Atom, ...] = ()
    axis: KernelVar = NO_AXIS
    params: tuple[KernelVar, ...] = ()
    outs: tuple[KernelVar, ...] = ()

    def leave(self, *results: Atom) -> None:
        self.results = results

    def block(self) -> Block:
        return Block(tuple(self.stmts), self.results)


class Nest:
    """A kernel being written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.buffers: list[Buffer] = []
        self.known: dict[str, Buffer] = {}
        self.scalars: list[KernelVar] = []
        self.parts = [Part()]
        self.count = 0

    def fresh(self, dtype: str) -> KernelVar:
        self.count += 1
        return KernelVar(self.count, dtype)

    def add(self, stmt: Stmt) -> None:
        self.parts[-1].stmts.append(stmt)

    def kernel(self) -> Kernel:
        return Kernel(self.name, tuple(self.buffers), tuple(self.scalars), self.parts[0].block())

    # --- operands

    def buffer(self, name: str, dtype: str, steps: Sequence[str], space: str = "in") -> str:
        self.known[name] = Buffer(name, dtype, tuple(steps), space)
        self.buffers.append(self.known[name])
        return name

    def scalar(self, dtype: str = "i8") -> KernelVar:
        self.scalars.append(self.fresh(dtype))
        return self.scalars[-1]

    # --- statements

    def let(self, op: str, *args: Atom, to: str = "") -> KernelVar:
        result = OPS[op].result
        out = self.fresh(to if result == "to" else "b1" if result == "b1" else args[-1].dtype)
        self.add(Let(out, op, args))
        return out

    def load(self, buffer: str, *at: Atom) -> KernelVar:
        out = self.fresh(self.known[buffer].dtype)
        self.add(Load(out, buffer, at))
        return out

    def store(
        self, buffer: str, at: Sequence[Atom], value: Atom, combine: str | None = None
    ) -> None:
        self.add(Store(buffer, tuple(at), value, combine))

    @contextmanager
    def part(self, *params: KernelVar) -> Iterator[Part]:
        part = Part(params=params)
        self.parts.append(part)
        yield part
        assert self.parts.pop() is part

    @contextmanager
    def loop(self, extent: Atom, *folds: Fold, inits: Sequence[Atom] = ()) -> Iterator[Part]:
        with self.part(*(self.fresh(a.dtype) for a in inits)) as part:
            part.axis = self.fresh("i8")
            yield part
        dtypes: list[str] = []
        for fold in folds:
            dtypes.append(fold.acc)
            if fold.op in PAIRS:
                dtypes.append(part.results[len(dtypes)].dtype)
        part.outs = tuple(self.fresh(d) for d in (*dtypes, *(a.dtype for a in inits)))
        self.add(Loop(part.outs, part.axis, extent, part.block(), folds, part.params, tuple(inits)))

    def branch(self, cond: Atom, then: Part, orelse: Part) -> tuple[KernelVar, ...]:
        outs = tuple(self.fresh(a.dtype) for a in then.results)
        self.add(If(outs, cond, then.block(), orelse.block()))
        return outs

    def repeat(self, inits: Sequence[Atom], cond: Part, body: Part) -> tuple[KernelVar, ...]:
        outs = tuple(self.fresh(a.dtype) for a in inits)
        self.add(While(outs, body.params, tuple(inits), cond.block(), body.block()))
        return outs


def f8(value: float) -> Lit:
    return Lit(float(value), "f8")


def f4(value: float) -> Lit:
    return Lit(float(value), "f4")


def i8(value: int) -> Lit:
    return Lit(value, "i8")


@dataclass
class Sample:
    """A kernel and its operands.

    Attributes:
        kernel: the kernel.
        arrays: one array per buffer, with as many axes as the buffer has coordinates; views of
            all kinds are welcome. Arrays of `out` buffers give the size and what is there before.
        scalars: values of the kernel's scalars.
        expected: what the `out` arrays should hold afterwards, by plain NumPy.
        exact: whether every operation is exact, so that results may be compared bit for bit.
    """

    kernel: Kernel
    arrays: dict[str, np.ndarray]
    scalars: list[Any]
    expected: dict[str, Any] = field(default_factory=dict)
    exact: bool = False

    def operands(self) -> dict[str, Operand]:
        """Fresh memory, offset and steps of every buffer: what `reference.run` takes."""
        return {name: operand(array) for name, array in self.arrays.items()}

    def results(self, operands: dict[str, Operand]) -> dict[str, np.ndarray]:
        """The `out` arrays as they stand in the operands' memory."""
        return {
            b.name: view(operands[b.name], self.arrays[b.name].shape)
            for b in self.kernel.buffers
            if b.space == "out"
        }


def operand(array: np.ndarray) -> Operand:
    """A copy of the memory an array lies in, with the array's offset and steps in elements."""
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert base.flags.c_contiguous
    offset = (array.ctypes.data - base.ctypes.data) // array.itemsize
    steps = tuple(s // array.itemsize for s in array.strides)
    return base.reshape(-1).copy(), offset, steps


def view(given: Operand, shape: Sequence[int]) -> np.ndarray:
    """The array of a shape at an operand's place in its memory."""
    memory, offset, steps = given
    strides = [s * memory.itemsize for s in steps]
    return np.lib.stride_tricks.as_strided(memory[offset:], shape, strides)


SAMPLES: dict[str, Callable[[], Sample]] = {}


def sample(make: Callable[[], Sample]) -> Callable[[], Sample]:
    """Make a sample known by the name of its function."""
    SAMPLES[make.__name__] = make
    return make


def random(*shape: int, dtype: str = "f8", seed: int = 0) -> np.ndarray:
    """Normal numbers, the same every time."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
