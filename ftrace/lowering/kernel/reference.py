"""What a kernel means: an interpreter in plain NumPy, the oracle of every backend.

All iterations of the independent loops run in lockstep: an enclosing loop is an axis of every
value, `If` and `While` run under masks, and a store writes all iterations at once. Loops with
carried values run one iteration after the other. The memory needed is iterations times living
values, so sizes should be small. `run(..., reverse=True)` takes the iterations of independent
loops from last to first: a kernel whose result then differs has iterations that depend on each
other (float `combine` stores differ by rounding). The fold trees are spelled out in `ir.Fold`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ftrace.core.errors import JaxprError
from ftrace.core.scalar import apply
from ftrace.lowering.kernel import fold_trees
from ftrace.lowering.kernel.ir import (
    Atom,
    Block,
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

Array = np.ndarray[Any, Any]
Operand = tuple[Array, int, tuple[int, ...]]


class _Memory(NamedTuple):
    """A buffer at run time."""

    base: Array
    offset: int
    steps: tuple[int, ...]


def run(
    kernel: Kernel,
    buffers: Mapping[str, Operand],
    scalars: Sequence[Any],
    *,
    reverse: bool = False,
) -> None:
    """Run a kernel in place.

    Args:
        kernel: a kernel that `verify` accepts.
        buffers: for each buffer its memory (one axis, the buffer's dtype), the offset of the
            element at coordinates 0, and one step per coordinate, in elements (1 for the class
            `one`, -1 for `minus`).
        scalars: values of the kernel's scalars.
        reverse: take the iterations of independent loops in reverse order.

    Raises:
        JaxprError: an active iteration reads or writes outside of a buffer's memory.
    """
    state = _Run(kernel, reverse)
    for buffer in kernel.buffers:
        base, offset, steps = buffers[buffer.name]
        state.memory[buffer.name] = _Memory(base, offset, tuple(steps))
    for var, value in zip(kernel.scalars, scalars, strict=True):
        state.values[var.id] = np.asarray(value, var.dtype)
    with np.errstate(all="ignore"):
        state.block(kernel.body)


class _Run:
    """Values of the variables, and the iterations that are running.

    A value has at most one axis per enclosing loop that runs in lockstep, outermost first, and
    length 1 where it does not depend on the loop.
    """

    def __init__(self, kernel: Kernel, reverse: bool) -> None:
        self.kernel = kernel
        self.reverse = reverse
        self.values: dict[int, Array] = {}
        self.memory: dict[str, _Memory] = {}
        self.lanes: tuple[int, ...] = ()  # extents of the enclosing loops in lockstep
        self.mask: Array | None = None  # active iterations, inside If and While

    def atom(self, a: Atom) -> Array:
        """The value of an atom, with one axis per enclosing loop."""
        value = np.asarray(a.value, a.dtype) if isinstance(a, Lit) else self.values[a.id]
        return self.deepened(value)

    def deepened(self, x: Array) -> Array:
        """A value with an axis for each enclosing loop: those of inner ones have length 1."""
        missing = len(self.lanes) - x.ndim
        return x.reshape(x.shape + (1,) * missing) if missing else x

    def block(self, block: Block) -> list[Array]:
        """Run a block; what it leaves."""
        for stmt in block.stmts:
            self.stmt(stmt)
        return [self.atom(a) for a in block.results]

    def stmt(self, stmt: Stmt) -> None:
        """Run one statement."""
        match stmt:
            case Let():
                args = tuple(self.atom(a) for a in stmt.args)
                self.values[stmt.out.id] = np.asarray(apply(stmt.op, args, stmt.out.dtype))
            case Load():
                self.values[stmt.out.id] = self.load(stmt)
            case Store():
                self.store(stmt)
            case Loop():
                outs = self.carried(stmt) if stmt.params else self.lockstep(stmt)
                self.values.update((v.id, x) for v, x in zip(stmt.outs, outs, strict=True))
            case If():
                self.choose(stmt)
            case While():
                self.repeat(stmt)

    # --- memory

    def index(self, buffer: str, at: tuple[Atom, ...]) -> Array:
        """Place of an element in its buffer's memory, for each iteration."""
        memory = self.memory[buffer]
        place = self.deepened(np.asarray(memory.offset))
        for a, step in zip(at, memory.steps, strict=True):
            place = place + self.atom(a) * step
        return place

    def inside(self, buffer: str, places: Array) -> None:
        """Raise unless all places lie in a buffer's memory."""
        size = self.memory[buffer].base.size
        if places.size and (places.min() < 0 or places.max() >= size):
            outside = places[(places < 0) | (places >= size)]
            raise JaxprError(
                f"kernel {self.kernel.name}: element {outside.flat[0]} of buffer {buffer} lies "
                f"outside of its memory of {size} elements."
            )

    def full(self, x: Array) -> Array:
        """A value, for every iteration apart."""
        return x if x.shape == self.lanes else np.broadcast_to(x, self.lanes)

    def load(self, stmt: Load) -> Array:
        """Read; inactive iterations read nothing and get zero."""
        base, place = self.memory[stmt.buffer].base, self.index(stmt.buffer, stmt.at)
        if self.mask is None:
            self.inside(stmt.buffer, place)
            return np.asarray(base[place])
        place, mask = self.full(place), self.full(self.mask)
        self.inside(stmt.buffer, place[mask])
        value = np.zeros(place.shape, base.dtype)
        value[mask] = base[place[mask]]
        return value

    def store(self, stmt: Store) -> None:
        """Write the active iterations, in order."""
        base, places = self.memory[stmt.buffer].base, self.full(self.index(stmt.buffer, stmt.at))
        value = self.full(self.atom(stmt.value))
        if self.mask is not None:
            active = self.full(self.mask)
            places, value = places[active], value[active]
        self.inside(stmt.buffer, places)
        if stmt.combine is None:
            base[places] = value
        else:
            fold_trees.UFUNCS[stmt.combine].at(base, places, value)

    # --- loops

    def lockstep(self, loop: Loop) -> list[Array]:
        """Run all iterations of an independent loop at once; the folded values."""
        extent, outer = int(self.atom(loop.extent).flat[0]), self.lanes
        if extent == 0:
            return self.nothing(loop)
        order = np.arange(extent)[:: -1 if self.reverse else 1]
        self.lanes = (*outer, extent)
        self.values[loop.axis.id] = order.reshape((1,) * len(outer) + (extent,))
        left = [np.broadcast_to(x, (*x.shape[:-1], extent)) for x in self.block(loop.body)]
        self.lanes = outer
        if self.reverse:
            left = [x[..., ::-1] for x in left]
        return fold_trees.fold_all(loop.folds, left)

    def carried(self, loop: Loop) -> list[Array]:
        """Run the iterations of a loop with carried values in order."""
        extent, carries = int(self.atom(loop.extent).flat[0]), [self.atom(a) for a in loop.inits]
        kept: list[list[Array]] = []
        for i in range(extent):
            self.values[loop.axis.id] = np.asarray(i)
            self.values.update((v.id, x) for v, x in zip(loop.params, carries, strict=True))
            left = self.block(loop.body)
            count = len(left) - len(carries)
            kept.append(left[:count])
            carries = left[count:]
        if not extent:
            return self.nothing(loop)
        columns = [np.stack(np.broadcast_arrays(*c), -1) for c in zip(*kept, strict=True)]
        return fold_trees.fold_all(loop.folds, columns) + carries

    def nothing(self, loop: Loop) -> list[Array]:
        """What a loop of no iterations gives."""
        shape = (1,) * len(self.lanes) + (0,)
        dtypes = [a.dtype for a in loop.body.results][: len(loop.outs) - len(loop.inits)]
        empty = [np.empty(shape, d) for d in dtypes]
        return fold_trees.fold_all(loop.folds, empty) + [self.atom(a) for a in loop.inits]

    # --- branches

    def choose(self, stmt: If) -> None:
        """Run both arms under masks and pick."""
        cond, outer = self.atom(stmt.cond), self.mask
        self.mask = cond if outer is None else outer & cond
        then = self.block(stmt.then)
        self.mask = ~cond if outer is None else outer & ~cond
        orelse = self.block(stmt.orelse)
        self.mask = outer
        for out, a, b in zip(stmt.outs, then, orelse, strict=True):
            self.values[out.id] = np.where(cond, a, b)

    def repeat(self, stmt: While) -> None:
        """Run until no iteration is active; a finished one keeps its values."""
        outer, carries = self.mask, [self.atom(a) for a in stmt.inits]
        active = np.ones((1,) * len(self.lanes), bool) if outer is None else outer
        while True:
            self.values.update((v.id, x) for v, x in zip(stmt.params, carries, strict=True))
            self.mask = active
            (more,) = self.block(stmt.cond)
            active = active & more
            if not active.any():
                break
            self.mask = active
            left = self.block(stmt.body)
            carries = [np.where(active, x, c) for x, c in zip(left, carries, strict=True)]
        self.mask = outer
        self.values.update((v.id, x) for v, x in zip(stmt.outs, carries, strict=True))
