"""How a kernel meets memory: its schedule, and which slots and table entries it reads.

A compiled program calls every kernel with two pointers: `slots`, the base addresses of its
arrays, and `table`, 64-bit integers with everything that depends on sizes. The numbers here are
positions in these two, so that they are part of the code while the sizes are not.
"""

from dataclasses import dataclass

from ftrace.lowering.kernel.ir import Kernel
from ftrace.lowering.kernel.schedule import Schedule


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Launch:
    """One run of a kernel; `operands` are for its buffers, `scalars` table entries of its scalars.

    In the table floats are bit patterns (4-byte ones in the lower half), booleans 0 or 1.
    """

    kernel: Kernel
    schedule: Schedule
    operands: tuple[Operand, ...]
    scalars: tuple[int, ...]
