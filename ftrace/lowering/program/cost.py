"""What a program costs, counted on the plan: kernels, bytes across their borders, operations.

Bytes are those of the elements that kernels load and store, each element of a buffer once per
kernel; operations are scalar operations, those of an `If` counted in both arms and those of a
`While` once. Loops that `Repeat` a list of steps are counted once, too.
"""

from math import prod
from typing import Any

from ftrace.core.kinds import way
from ftrace.core.lower import Refusal
from ftrace.core.records import record
from ftrace.lowering.kernel.ir import Block, KernelVar, Let, Load, Loop, Store, blocks_of
from ftrace.lowering.kernel.launching import Launch
from ftrace.lowering.program.program import Program


@record
class Cost:
    """Counts of a program.

    Attributes:
        kernels: how many run, each once.
        callbacks: rows that Python runs in between.
        products: matrix products that a library does.
        loops: rows that a compiled loop of NumPy's does.
        bytes: read and written by the kernels.
        operations: scalar operations of the kernels.
        arena: bytes of scratch memory of a call.
    """

    kernels: int
    callbacks: int
    products: int
    loops: int
    bytes: int
    operations: int
    arena: int

    @property
    def library_rows(self) -> int:
        """Rows that no kernel does."""
        return self.callbacks + self.products + self.loops


def cost(program: Program) -> Cost:
    """Count a program."""
    counted = [_launch(launch, program.table) for launch in program.launches]
    loops = program.loops
    failing = sum(1 for loop in loops if loop.fails)  # these are called back where they do
    failing += sum(1 for call in program.callbacks if way(call.eqn.primitive, Refusal))
    return Cost(
        len(counted),
        len(program.callbacks) - failing,
        len(program.products),
        len(loops),
        sum(b for b, _ in counted),
        sum(o for _, o in counted),
        program.arena,
    )


def _launch(launch: Launch, table: tuple[int, ...]) -> tuple[int, int]:
    kernel = launch.kernel
    sizes = dict(zip(kernel.scalars, (table[e] for e in launch.scalars), strict=True))
    found: dict[Any, int] = {}
    where = {b.name: o for b, o in zip(kernel.buffers, launch.operands, strict=True)}
    width = {b.name: int(b.dtype[1:]) for b in kernel.buffers}
    operations = 0

    def walk(block: Block, iterations: dict[KernelVar, int]) -> None:
        nonlocal operations
        for stmt in block.stmts:
            if isinstance(stmt, Let):
                operations += prod(iterations.values())
            elif isinstance(stmt, Load | Store) and stmt.buffer in where:
                elements = prod(iterations.get(a, 1) for a in stmt.at if isinstance(a, KernelVar))
                operand = where[stmt.buffer]
                key = (operand.slot, table[operand.offset], tuple(table[e] for e in operand.steps))
                size = elements * width[stmt.buffer]
                found[key] = max(found.get(key, 0), size)
            inner = iterations
            if isinstance(stmt, Loop):
                extent = (
                    sizes[stmt.extent] if isinstance(stmt.extent, KernelVar) else stmt.extent.value
                )
                inner = {**iterations, stmt.axis: int(extent)}
            for below in blocks_of(stmt):
                walk(below, inner)

    walk(kernel.body, {})
    return sum(found.values()), operations
