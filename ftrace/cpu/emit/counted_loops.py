"""The skeleton of every loop that counts: values carried in registers, and a look for signals."""

from collections.abc import Callable

from ftrace.cpu.emit import interrupts
from ftrace.cpu.emit.emitter import Carried, State
from ftrace.cpu.llvm.text import Typed

Cells = list[Typed]
Body = Callable[[Typed, Cells], Cells]
Bounds = tuple[Typed, Typed]
ZERO = Typed("0", "i8", 1)


def counted(
    s: State,
    bounds: tuple[Typed, Typed, int],
    cells: Cells,
    body: Body,
    watch: interrupts.SignalWatch | None = None,
) -> Cells:
    """`for i in range(start, stop, step)`, with values carried around in registers.

    Args:
        s: where.
        bounds: start, stop and step.
        cells: the first values carried.
        body: writes an iteration; its index and the values to the next values.
        watch: looks for signals, if the loop does.
    """
    text, (start, stop, step) = s.text, bounds
    head, work, done = text.fresh("head"), text.fresh("body"), text.fresh("done")
    counts = [] if watch is None else [watch.begin()]
    s.push()
    before = text.block
    text.jump(head)
    text.label(head)
    around = Carried(text, [*counts, start, *cells], before)
    at, *names = around.values[len(counts) :]
    text.branch(text.compare("slt", at, stop), work, done)
    text.label(work)
    left = body(at, names)
    after = text.add(at, Typed(str(step), "i8", 1))
    interrupts.close(watch, around, [after, *left], head, done)
    s.pop()
    return names
