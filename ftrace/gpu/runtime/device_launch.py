"""Compiling and calling a program on a device.

`DeviceProgram` holds the functions of a program's kernels and runs its steps: results and one arena
are allocated from CuPy's pool, everything is put on CuPy's current stream, and nothing waits for it
but a branch or a loop that needs a number to go on. Launches that follow each other are one call,
of machine code or of a CUDA graph (sequences.py), wherever arguments and results lie. A graph of
the user's replays whenever he likes, so what a call that is captured has used is kept.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace.core.avals import SCALAR_AVALS, ShapedArray
from ftrace.core.device import is_free
from ftrace.core.dtypes import canonical
from ftrace.core.errors import BackendError, DeviceError, DtypeError, ShapeError
from ftrace.core.tapes import is_tape
from ftrace.gpu.runtime.bases import Bases
from ftrace.gpu.runtime.copying import contiguous
from ftrace.gpu.runtime.device_interface import Device
from ftrace.gpu.runtime.device_memory import Memory
from ftrace.gpu.runtime.kernels import ALIGNMENT, WORD
from ftrace.gpu.runtime.steps import Steps
from ftrace.lowering.kernel.launching import Launch
from ftrace.lowering.program.program import (
    ARENA,
    ARGUMENT,
    CONSTANT,
    RESULT,
    Accumulate,
    Copy,
    Program,
    Repeat,
    ScatterStep,
    every,
    windows_of,
)


def is_number(x: Any) -> bool:
    """Whether an argument of rank 0 is a number of the host."""
    return type(x) in SCALAR_AVALS or issubclass(type(x), np.ndarray | np.generic)


class DeviceProgram:
    """A program bound to the functions of a device. Call it with a sequence of arguments.

    Args:
        program: which.
        device: where it runs.
        numbers: the positions of the arguments that are numbers of the host.
    """

    def __init__(self, program: Program, device: Device, numbers: Sequence[int] = ()) -> None:
        self._device = device
        self._slots = slots = program.slots
        places = {p: program.of_place(p) for p in (ARGUMENT, CONSTANT, RESULT, ARENA)}
        given = list(enumerate(places[ARGUMENT]))
        turning = {k for k, slot in enumerate(slots) if is_tape(slot.aval)}
        bases = Bases(program, {k for i, k in given if i in numbers})
        steps = Steps(program, device, bases)
        self._run, launches_only = steps.program()
        self._size = bases.size + steps.scratch
        self._arena = bases.arena

        self._count = len(given)
        self._tapes = [(i, k) for i, k in given if k in turning]
        self._arrays = [
            (i, k, slots[k].aval.shape, slots[k].aval.dtype)
            for i, k in given
            if k not in turning and i not in numbers
        ]
        views = [(slot, base, distance) for (slot, distance), base in bases.views.items()]
        self._numbers = [
            (i, slots[k].aval.dtype, [(base, distance) for s, base, distance in views if s == k])
            for i, k in given
            if i in numbers
        ]
        addressed = _addressed(program)
        self._needed = [
            (k, slots[k].aval.shape, slots[k].aval.dtype.type, _bytes(slots[k].aval))
            for k in places[RESULT]
            if k in addressed and k not in turning
        ]
        self._results = [(k, k in turning) for k in places[RESULT]]
        # launches know the places in the arena as distances from its start
        placed = [] if launches_only else [*places[ARENA], *bases.stored]
        self._placed = [(k, bases.offsets.get(k, program.table[slots[k].entry])) for k in placed]
        self._constants = [
            device.from_host(np.ascontiguousarray(constant)) for constant in program.constants
        ]
        self._bases = [0] * (bases.arena + 1 + len(views))
        for k, array in zip(places[CONSTANT], self._constants, strict=True):
            self._bases[k] = device.pointer(array)
        self._known = list(zip(places[CONSTANT], self._constants, strict=True))
        if self._constants:
            device.synchronize()  # other streams will read them
        self._captured: list[Memory] = []

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """Run the program."""
        device = self._device
        if len(args) != self._count:
            raise BackendError(
                f"Code that was compiled for {self._count} arguments was called with {len(args)}.",
                "Compile for these arguments: call the function that jit returned.",
            )
        memory = Memory(device, self._slots, self._bases.copy(), device.order())
        addresses, arrays = memory.addresses, memory.arrays
        if self._size:
            memory.arena = device.allocate(self._size)
            addresses[self._arena] = start = memory.arena.ptr
            for k, distance in self._placed:
                addresses[k] = start + distance
        self._give(memory, args)
        allocate, make = device.allocate, device.array
        for k, shape, scalar, size in self._needed:
            place = allocate(size)
            arrays[k] = make(shape, scalar, place)
            addresses[k] = place.ptr
        self._run(memory)
        if memory.captured:
            self._captured.append(memory)  # the user's graph writes there whenever it runs
        return [memory.tape(k) if turns else arrays[k] for k, turns in self._results]

    def _give(self, memory: Memory, args: Sequence[Any]) -> None:
        """Put the arguments into their slots."""
        addresses, arrays = memory.addresses, memory.arrays
        for k, array in self._known:
            arrays[k] = array
        for i, k in self._tapes:
            memory.take(k, args[i])
        own = self._device.array
        for i, k, shape, dtype in self._arrays:
            x = args[i]
            if type(x) is not own or x.dtype is not dtype or x.shape != shape:
                x = self._accepted(x, k, i)
            place = x.data.ptr
            if place % ALIGNMENT or not x._c_contiguous:
                x = contiguous(x, self._device)
                place = x.data.ptr
            arrays[k] = x
            addresses[k] = place
        for i, dtype, views in self._numbers:
            value = np.asarray(args[i], dtype).tobytes()
            for base, distance in views:
                word = value[distance : distance + WORD]
                addresses[base] = int.from_bytes(word, "little", signed=True)

    def _accepted(self, x: Any, slot: int, position: int) -> Any:
        """An array of the planned type, on the device."""
        if issubclass(type(x), np.ndarray):
            return self._device.from_host(_free(x, position))
        _check(x, self._slots[slot].aval, position)
        return x


def _bytes(a: ShapedArray) -> int:
    return math.prod(a.shape) * a.dtype.itemsize


def _free(x: Any, position: int) -> Any:
    """An array of the host, if it is none of the user's."""
    if not is_free(x):
        raise DeviceError(
            f"Argument {position} of a compiled function is a NumPy array of shape {x.shape}, "
            "but others are CuPy arrays.",
            "Bring all arrays to one device: ftrace.device_put(x), or ftrace.device_get(x).",
        )
    return x


def _check(x: Any, planned: ShapedArray, position: int) -> None:
    """Raise if an array is not of the planned type."""
    if x.dtype != planned.dtype and canonical(x.dtype) != planned.dtype:
        raise DtypeError(
            f"Argument {position} of a compiled function is of {x.dtype}, but the code was "
            f"compiled for {planned.dtype}.",
            "Compile for this argument: call the function that jit returned.",
        )
    if x.shape != planned.shape:
        raise ShapeError(
            f"Argument {position} of a compiled function has shape {x.shape}, but the code was "
            f"compiled for {planned.shape}.",
            "Compile for this argument: call the function that jit returned.",
        )


# --- what a program is made of


def _addressed(program: Program) -> set[int]:
    """The slots that steps write to by address; rows of Python bring memory of their own."""
    found: set[int] = set()
    for step in every(program.steps):
        if isinstance(step, Launch):
            pairs = zip(step.kernel.buffers, step.operands, strict=True)
            found.update(o.slot for b, o in pairs if b.space == "out")
        elif isinstance(step, Copy):
            found.add(step.target)
        elif isinstance(step, ScatterStep | Accumulate):
            found.add(step.out)
        elif isinstance(step, Repeat) and step.count is not None:
            found.add(step.count)
        found.update(w.base for w in windows_of(step) if w.written)
    return found
