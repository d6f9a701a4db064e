"""Kernels over scalars, run for every element of arrays: a mapped loop as one kernel.

A `while` under `vmap` is planned for one member first. Where that is one kernel over scalars, a
loop over the members goes around it, and each lane of a vector takes its own number of turns.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from ftrace.lowering.ir import Block, Kernel, Load, Loop, Store, Var
from ftrace.lowering.launching import Launch, Operand
from ftrace.lowering.schedule import schedule
from ftrace.lowering.traversal import variables_of


def over_lanes(
    launch: Launch,
    places: Mapping[int, tuple[int, bool]],
    entry: Callable[[int], int],
    table: tuple[int, ...],
    members: int,
    vector_bytes: int,
) -> Launch:
    """The kernel of one member as the kernel of all.

    Args:
        launch: a kernel over scalars.
        places: for each slot of one member the slot of all, and whether it has one per member.
        entry: makes a table entry for a number.
        table: the numbers of one member's program.
        members: how many.
        vector_bytes: of the host.
    """
    kernel = launch.kernel
    ids = max(v.id for v in variables_of(kernel))
    axis, extent = Var(ids + 1, "i8"), Var(ids + 2, "i8")
    mapped = {
        b.name for b, o in zip(kernel.buffers, launch.operands, strict=True) if places[o.slot][1]
    }
    once = [s for s in kernel.body.stmts if isinstance(s, Load) and s.buffer not in mapped]
    each = [
        replace(s, at=(axis,)) if isinstance(s, Load | Store) and s.buffer in mapped else s
        for s in kernel.body.stmts
        if s not in once
    ]
    new = Kernel(
        kernel.name,
        tuple(replace(b, steps=("one",)) if b.name in mapped else b for b in kernel.buffers),
        (*kernel.scalars, extent),
        Block((*once, Loop((), axis, extent, Block(tuple(each))))),
    )
    operands = tuple(
        Operand(places[o.slot][0], entry(table[o.offset]), ()) for o in launch.operands
    )
    scalars = (*(entry(table[e]) for e in launch.scalars), entry(members))
    return Launch(new, schedule(new, vector_bytes), operands, scalars)
