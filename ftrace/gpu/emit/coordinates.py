"""The coordinates of an iteration of several loops, from its number."""

from collections.abc import Sequence

from ftrace.gpu.emit.writer import Writer
from ftrace.lowering.kernel.ir import Loop


def product(w: Writer, owners: Sequence[Loop]) -> str:
    """How many iterations loops have together."""
    return " * ".join(w.count(o.extent) for o in owners)


def coordinates(w: Writer, owners: Sequence[Loop], number: str) -> None:
    """Name the coordinates of an iteration, given its number; the first one varies fastest."""
    index = w.layout.index
    for k, loop in enumerate(owners):
        axis = f"i{loop.axis.id}"
        if k == len(owners) - 1:
            w.line(f"const {index} {axis} = {number};")
            continue
        rest, extent = f"r{loop.axis.id}", w.count(loop.extent)
        w.line(f"const {index} {rest} = {number} / ({extent});")
        w.line(f"const {index} {axis} = {number} - {rest} * ({extent});")
        number = rest


def bind(w: Writer, owners: Sequence[Loop]) -> None:
    """Put axes into scope."""
    w.axes.update(o.axis.id for o in owners)
