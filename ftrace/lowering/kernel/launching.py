"""How a kernel meets memory: its schedule, and which slots and table entries it reads.

A compiled program calls every kernel with two pointers: `slots`, the base addresses of its
arrays, and `table`, 64-bit integers with everything that depends on sizes. The numbers here are
positions in these two, so that they are part of the code while the sizes are not.
"""

from collections.abc import Sequence
from dataclasses import replace

from ftrace.core.records import record
from ftrace.lowering.kernel.ir import Kernel, Lit, loops_of
from ftrace.lowering.kernel.schedule import Schedule


@record
class Operand:
    """Where a buffer lies.

    Attributes:
        slot: position of its base address in `slots`.
        offset: table entry with the distance of coordinates 0 from there, in bytes.
        steps: table entries with the steps of class `any`, in order, in elements.
    """

    slot: int
    offset: int
    steps: tuple[int, ...]


@record
class Launch:
    """One run of a kernel; `operands` are for its buffers, `scalars` table entries of its scalars.

    `threads` is the entry with the number of threads that may share its loops, -1 on machines
    without lanes. In the table floats are bit patterns (4-byte ones in the lower half), booleans 0
    or 1.
    """

    kernel: Kernel
    schedule: Schedule
    operands: tuple[Operand, ...]
    scalars: tuple[int, ...]
    threads: int = -1


@record
class SharedLaunch:
    """A launch in numbers of its own, so that equal kernels are equal.

    Attributes:
        launch: the kernel without its name, on slots 0, 1, ... and table entries from 0 on.
        slots: which slots these are.
        first: which entry of the table the first is.
    """

    launch: Launch
    slots: tuple[int, ...]
    first: int


def shared(launch: Launch) -> SharedLaunch:
    """A launch apart from where its memory lies."""
    slots = tuple(dict.fromkeys(o.slot for o in launch.operands))
    entries = [*launch.scalars, *(e for o in launch.operands for e in (o.offset, *o.steps))]
    shares = launch.threads >= 0
    first = min([*entries, launch.threads] if shares else entries, default=0)
    operands = tuple(
        Operand(slots.index(o.slot), o.offset - first, tuple(e - first for e in o.steps))
        for o in launch.operands
    )
    scalars = tuple(e - first for e in launch.scalars)
    kernel = replace(launch.kernel, name="")
    threads = launch.threads - first if shares else -1
    return SharedLaunch(Launch(kernel, launch.schedule, operands, scalars, threads), slots, first)


def repeated(launches: Sequence[Launch]) -> list[tuple[int, SharedLaunch | None]]:
    """For each launch the number of the first with an equal kernel, and the launch as shared.

    None in the place of that where its kernel runs nowhere else.
    """
    own = [shared(launch) for launch in launches]
    number: dict[Launch, int] = {}
    same = [number.setdefault(one.launch, k) for k, one in enumerate(own)]
    often = {k for k, n in enumerate(same) if n != k} | {n for k, n in enumerate(same) if n != k}
    return [
        (n, one if k in often else None) for k, (n, one) in enumerate(zip(same, own, strict=True))
    ]


def extents_of(kernel: Kernel, scalars: Sequence[int], table: Sequence[int]) -> dict[int, int]:
    """How many iterations the loops of a kernel have, by axis, where the table says so."""
    known = {v: table[entry] for v, entry in zip(kernel.scalars, scalars, strict=True)}
    found: dict[int, int] = {}
    for loop in loops_of(kernel.body):
        extent = loop.extent
        n = int(extent.value) if isinstance(extent, Lit) else known.get(extent)
        if n is not None:
            found[loop.axis.id] = n
    return found
