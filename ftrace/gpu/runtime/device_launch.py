"""Compiling and calling a program on a device.

`DeviceProgram` holds the functions of a program's kernels and runs its steps: results and one arena
are allocated from CuPy's pool, everything is put on CuPy's current stream, and nothing waits for it
but a branch or a loop that needs a number to go on. A program of some launches and nothing else
becomes a CUDA graph once everything lies where it did in one of the last calls. A graph holds
addresses and no memory: only what is free can lie in the same places again. A graph of the user's
replays whenever he likes, so what a call that is captured has used is kept.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from ftrace.core.avals import SCALAR_AVALS, ShapedArray
from ftrace.core.device import is_free
from ftrace.core.dtypes import canonical
from ftrace.core.errors import BackendError, DeviceError, DtypeError, ShapeError
from ftrace.core.tapes import has_turns
from ftrace.gpu.runtime.copying import contiguous
from ftrace.gpu.runtime.device_interface import Device
from ftrace.gpu.runtime.device_memory import BYTES, Memory
from ftrace.gpu.runtime.kernels import ALIGNMENT, functions, plan_kernels
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
    Scan,
    ScatterStep,
    Step,
    every,
    windows_of,
)

GRAPH: Final = 3  # launches from which a graph is quicker
LONGEST: Final = 4096  # launches of a graph
KEPT: Final = 4  # graphs of a program, and calls that are remembered
CELL: Final = 16  # bytes for a number that was given by the host


class DeviceProgram:
    """A program bound to the functions of a device. Call it with a sequence of arguments."""

    def __init__(self, program: Program, device: Device) -> None:
        self._program = program
        self._device = device
        slots = program.slots
        places = {p: program.of_place(p) for p in (ARGUMENT, CONSTANT, RESULT, ARENA)}
        self._arguments = [(k, slots[k].aval, has_turns(slots[k].aval)) for k in places[ARGUMENT]]
        self._constants = [
            (k, device.from_host(np.ascontiguousarray(c)))
            for k, c in zip(places[CONSTANT], program.constants, strict=True)
        ]
        self._results = [(k, slots[k].aval, has_turns(slots[k].aval)) for k in places[RESULT]]
        addressed = _addressed(program)
        self._needed = [(k, a) for k, a, turns in self._results if k in addressed and not turns]
        self._scratch = places[ARENA]
        kernels = plan_kernels(program, device)
        self._room = max((k.scratch for k in kernels), default=0)
        self._arena = -(-program.arena // ALIGNMENT) * ALIGNMENT
        pairs = list(zip(kernels, functions(kernels, device), strict=True))
        self._run = Steps(program, device, pairs).all(program.steps)
        launches = _launches(program.steps, program)
        self._graphs: dict[tuple[int, ...], Callable[[], None]] | None = (
            {} if launches is not None and GRAPH <= launches <= LONGEST else None
        )
        self._captured: list[Memory] = []
        self._recent: deque[tuple[int, ...]] = deque(maxlen=KEPT)

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """Run the program."""
        device = self._device
        if len(args) != len(self._arguments):
            raise BackendError(
                f"Code that was compiled for {len(self._arguments)} arguments was called with "
                f"{len(args)}.",
                "Compile for these arguments: call the function that jit returned.",
            )
        size = self._arena + self._room
        arena = device.empty((size,), BYTES) if size else None
        memory = Memory(device, self._program.slots, self._program.table, arena)
        if self._room:
            memory.scratch = device.pointer(arena) + self._arena
        self._give(memory, args)
        for k, array in self._constants:
            memory.put(k, array)
        for k, a in self._needed:
            memory.put(k, device.empty(a.shape, a.dtype))
        for k in self._scratch:
            memory.place(k)
        if self._graphs is None:
            self._run(memory)
        else:
            self._replay(memory, self._graphs)
        results = [memory.tape(k) if turns else memory.array(k) for k, _, turns in self._results]
        if device.capturing():
            self._captured.append(memory)  # the user's graph writes there whenever it runs
        return results

    # --- arguments

    def _give(self, memory: Memory, args: Sequence[Any]) -> None:
        """Put the arguments into their slots; numbers of the host go over together."""
        numbers: list[tuple[int, Any]] = []
        for i, (x, (k, a, turns)) in enumerate(zip(args, self._arguments, strict=True)):
            if turns:
                memory.take(k, x)
            elif issubclass(type(x), np.ndarray) and x.ndim:
                memory.put(k, self._device.from_host(_free(x, i)))
            elif type(x) in SCALAR_AVALS or issubclass(type(x), np.ndarray | np.generic):
                numbers.append((k, np.asarray(x, a.dtype)))
            else:
                memory.put(k, _plain(x, a, i, self._device))
        if not numbers:
            return
        cells = np.zeros(CELL * len(numbers), BYTES)
        for n, (_, value) in enumerate(numbers):
            cells[CELL * n : CELL * n + value.nbytes] = np.frombuffer(value.tobytes(), BYTES)
        there = self._device.from_host(cells)
        for n, (k, value) in enumerate(numbers):
            memory.put(k, there[CELL * n : CELL * n + value.nbytes].view(value.dtype).reshape(()))

    # --- graphs

    def _replay(self, memory: Memory, graphs: dict[tuple[int, ...], Callable[[], None]]) -> None:
        """Run as a graph where everything lies where it did in one of the last calls.

        In a loop results take turns between few places: the old one is still there when the new
        one is made.
        """
        key = (*memory.addresses, memory.scratch)
        graph = graphs.get(key)
        if graph is None and key in self._recent:
            graph = self._device.record(partial(self._run, memory.places()))
            if len(graphs) >= KEPT:
                del graphs[next(iter(graphs))]
            graphs[key] = graph
        if graph is None:
            self._recent.append(key)
            self._run(memory)
        else:
            graph()


def _free(x: Any, position: int) -> Any:
    """An array of the host, if it is none of the user's."""
    if not is_free(x):
        raise DeviceError(
            f"Argument {position} of a compiled function is a NumPy array of shape {x.shape}, "
            "but others are CuPy arrays.",
            "Bring all arrays to one device: ftrace.device_put(x), or ftrace.device_get(x).",
        )
    return x


def _plain(x: Any, planned: ShapedArray, position: int, device: Device) -> Any:
    """An array as programs want it: of the planned type, row-major and aligned."""
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
    if x.flags.c_contiguous and not device.pointer(x) % ALIGNMENT:
        return x
    return contiguous(x, device)


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


def _launches(steps: Sequence[Step], program: Program) -> int | None:
    """How many launches and copies a program is; None if it is anything else."""
    total = 0
    for step in steps:
        if isinstance(step, Launch | Copy | ScatterStep | Accumulate):
            total += 1
        elif isinstance(step, Scan) and step.length is not None and not _tapes(step, program):
            inside = _launches(step.body, program)
            if inside is None:
                return None
            total += inside * program.table[step.length]
        else:
            return None
    return total


def _tapes(step: Scan, program: Program) -> bool:
    return any(has_turns(program.slots[w.base].aval) for w in step.windows)
