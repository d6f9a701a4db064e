"""Kernels of programs as functions of a device: emitted, compiled together, kept by their text.

The text of a kernel depends on its structure and on how its loops lie on the grid, not on sizes:
a program of another size finds its functions here. What a program still needs is compiled as one
module, since the compiler's start costs more than most kernels.
"""

import hashlib
from collections.abc import Callable, Container, Mapping, Sequence
from math import gcd
from typing import Any, Final

from ftrace.core.lazy import forkable_lock
from ftrace.core.records import record
from ftrace.gpu.emit.kernel_source import emit
from ftrace.gpu.grid.layout import Geometry, GridLayout
from ftrace.gpu.grid.mapping import DeviceLimits, mapped
from ftrace.gpu.prelude.cuda_source import source
from ftrace.gpu.runtime.device_interface import Device, Start
from ftrace.lowering.kernel.ir import Kernel
from ftrace.lowering.kernel.launching import Launch
from ftrace.lowering.program.program import WINDOW, Program, every, windows_of

ALIGNMENT: Final = 16  # bytes: of arguments (others are copied), results and places in the arena
WORD: Final = 8  # bytes of a word of the argument block
_NAME: Final = "ftrace_kernel"
_LOCK: Final = forkable_lock()
_functions: Final[dict[tuple[Any, str], Any]] = {}  # (device, symbol) -> function


@record
class Planned:
    """A kernel as a device runs it.

    Attributes:
        kernel: with its folds as the device's threads do them.
        layout: how its loops fall on the grid.
        text: the functions, whose names begin with `symbol`.
        symbol: their name without the number of the stage.
        stages: what each is launched with.
        scratch: bytes for what they leave to each other.
        pointers: per buffer its slot and the distance of coordinates 0 from there, in bytes.
        numbers: the other words of the argument block.
    """

    kernel: Kernel
    layout: GridLayout
    text: str
    symbol: str
    stages: tuple[Geometry, ...]
    scratch: int
    pointers: tuple[tuple[int, int], ...]
    numbers: tuple[int, ...]

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of the functions that are launched."""
        return tuple(f"{self.symbol}_{i}" for i, s in enumerate(self.stages) if s.grid is not None)


def planned(
    launch: Launch,
    table: Sequence[int],
    windows: Mapping[int, int],
    device: DeviceLimits,
    numbers: Container[int] = frozenset(),
) -> Planned:
    """A launch for a device.

    Args:
        launch: the kernel and where its operands are.
        table: the program's numbers.
        windows: per slot whose address differs from iteration to iterate, what divides it.
        device: what it is made for.
        numbers: slots whose one element is in the words, instead of its address.
    """
    pointers = tuple((o.slot, table[o.offset]) for o in launch.operands)
    alignment = [
        WORD if slot in numbers else gcd(windows.get(slot, ALIGNMENT), distance)
        for slot, distance in pointers
    ]
    found = mapped(launch, table, alignment, device)
    pairs = zip(found.kernel.buffers, launch.operands, strict=True)
    given = frozenset(b.name for b, o in pairs if o.slot in numbers)
    text = emit(found.kernel, found.layout, _NAME, given)
    symbol = "k" + hashlib.sha256(text.encode()).hexdigest()[:20]
    steps = [table[e] for o in launch.operands for e in o.steps]
    others = (*steps, *(table[e] for e in launch.scalars), *found.extra)
    return Planned(
        found.kernel,
        found.layout,
        text.replace(_NAME, symbol),
        symbol,
        found.stages,
        found.scratch,
        pointers,
        others,
    )


def alignments(program: Program) -> dict[int, int]:
    """What divides the addresses that windows show, by slot."""
    found: dict[int, int] = {}
    for step in every(program.steps):
        for window in windows_of(step):
            assert program.slots[window.slot].place == WINDOW
            size = program.table[window.size]
            outer = found.get(window.base, ALIGNMENT)
            found[window.slot] = gcd(found.get(window.slot, outer), size)
    return found


def plan_kernels(program: Program, device: DeviceLimits) -> list[Planned]:
    """The kernels of a program as a device runs them, in the order of the code."""
    windows = alignments(program)
    return [planned(launch, program.table, windows, device) for launch in program.launches]


def functions(kernels: Sequence[Planned], device: Device) -> list[list[Any]]:
    """The functions of kernels, one per stage that is launched; what is missing is compiled."""
    with _LOCK:
        missing: dict[str, Planned] = {}
        for k in kernels:
            if any((device, name) not in _functions for name in k.entries):
                missing[k.symbol] = k
        if missing:
            entries = tuple(name for k in missing.values() for name in k.entries)
            text = source([k.text for k in missing.values()])
            made = device.compile(text, entries)
            _functions.update(((device, name), made[name]) for name in entries)
    return [[_functions[device, name] for name in k.entries] for k in kernels]


def starts(
    kernel: Planned,
    functions: Sequence[Any],
    where: Callable[[int, int], tuple[int, int]],
    scratch: tuple[int, int] = (0, 0),
) -> list[Start]:
    """The launches of a kernel.

    Args:
        kernel: which.
        functions: of its stages that are launched.
        where: for a slot and a distance, the base that is near, and how far it is from there.
        scratch: the same for what the stages leave to each other.
    """
    places = [where(slot, distance) for slot, distance in kernel.pointers]
    words = (*(distance for _, distance in places), *kernel.numbers)
    moving = tuple(enumerate(base for base, _ in places))
    if kernel.scratch:
        base, distance = scratch
        words, moving = (*words, distance), (*moving, (len(words), base))
    launched = [s for s in kernel.stages if s.grid is not None]
    return [
        Start(function, s.grid, s.block, s.shared, words, moving)
        for function, s in zip(functions, launched, strict=True)
        if s.grid is not None
    ]


def module(kernels: Sequence[Planned]) -> str:
    """What the compiler is given for kernels."""
    return source(list({k.symbol: k.text for k in kernels}.values()))
