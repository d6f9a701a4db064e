"""Kernels compiled for a host and run on a sample's memory, as a test of the emitter needs it."""

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ftrace.cpu.emit.kernel_text import emit
from ftrace.cpu.llvm.machine_code import compile_module
from ftrace.cpu.llvm.text import Processor
from ftrace.cpu.threads import thread_pool
from ftrace.lowering.kernel.ir import Kernel, loops_of
from ftrace.lowering.kernel.launching import Launch, Operand
from ftrace.lowering.kernel.schedule import Schedule, is_shareable, schedule
from tests.lowering.nests import Sample

THREADS = 3
ENTRY = "define void @entry(ptr %s, ptr %t) {\n call void @kernel(ptr %s, ptr %t)\n ret void\n}\n"


def launch(kernel: Kernel, chosen: Schedule) -> Launch:
    """Slots in the order of the buffers; table entries in the order of `table`."""
    operands, entry = [], 0
    for k, buffer in enumerate(kernel.buffers):
        steps = buffer.steps.count("any")
        operands.append(Operand(k, entry, tuple(range(entry + 1, entry + 1 + steps))))
        entry += 1 + steps
    scalars = tuple(range(entry, entry + len(kernel.scalars)))
    return Launch(kernel, chosen, tuple(operands), scalars, entry + len(kernel.scalars))


def table(kernel: Kernel, operands: dict[str, Any], scalars: Sequence[Any]) -> np.ndarray:
    """The operand table: byte offsets, `any` steps, scalars as bit patterns, and threads."""
    entries: list[int] = []
    for buffer in kernel.buffers:
        memory, offset, steps = operands[buffer.name]
        entries.append(offset * memory.itemsize)
        entries += [s for s, c in zip(steps, buffer.steps, strict=True) if c == "any"]
    entries += [_bits(v, var.dtype) for v, var in zip(scalars, kernel.scalars, strict=True)]
    return np.array([*entries, THREADS], "i8")


def _bits(value: Any, dtype: str) -> int:
    given = np.asarray(value, dtype)
    if dtype[0] == "f":
        given = given.view(f"u{given.itemsize}")
    return int(given.astype("u8").view("i8")) if dtype == "u8" else int(given.astype("i8"))


class Compiled:
    """A kernel as machine code; called with operands and scalars as `reference.run` is."""

    def __init__(self, kernel: Kernel, chosen: Schedule, host: Processor) -> None:
        self.kernel = kernel
        declarations: dict[str, str] = {}
        text = emit(launch(kernel, chosen), "kernel", host, declarations)
        self.text = "\n".join([*declarations.values(), text, ENTRY])
        thread_pool.start(THREADS)
        self.module = compile_module(self.text, thread_pool.symbols(), host)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
        self.entry = kind(self.module.address("entry"))

    def __call__(self, operands: dict[str, Any], scalars: Sequence[Any]) -> None:
        bases = [operands[b.name][0].ctypes.data for b in self.kernel.buffers]
        never = np.array([1 << 62, 0, 0, 0])  # no signals are looked for
        never[3] = never.ctypes.data + 8
        slots = np.array([never.ctypes.data, *bases])
        entries = table(self.kernel, operands, scalars)
        self.entry(slots.ctypes.data + 8, entries.ctypes.data)


def with_lanes(kernel: Kernel, lanes: int) -> Schedule:
    """The usual roles with another number of lanes."""
    return Schedule(schedule(kernel, 64).roles, lanes)


def shared(kernel: Kernel, chosen: Schedule) -> Schedule:
    """A schedule by which threads share every loop that they can."""
    loops = [loop.axis.id for loop in loops_of(kernel.body) if is_shareable(loop, chosen)]
    return replace(chosen, shared=tuple(loops))


def run(sample: Sample, host: Processor, chosen: Schedule | None = None) -> dict[str, Any]:
    """Compile and run; the whole memory of every buffer afterwards."""
    operands = {
        name: (_aligned(memory), *place) for name, (memory, *place) in sample.operands().items()
    }
    chosen = schedule(sample.kernel, host.vector_bytes) if chosen is None else chosen
    Compiled(sample.kernel, chosen, host)(operands, sample.scalars)
    return operands


def _aligned(array: np.ndarray) -> np.ndarray:
    """The same elements where vectors may begin, so that what is streamed can be."""
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    new = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    new[...] = array
    return new


def differences(got: np.ndarray, want: np.ndarray, ulp: int = 0) -> str:
    """Which elements differ: NaN equals NaN, and 0.0 equals -0.0 as folds allow."""
    equal = got == want
    if got.dtype.kind == "f":
        equal |= (got != got) & (want != want)
    if ulp and got.size:
        with np.errstate(all="ignore"):
            size = np.maximum(np.abs(got), np.abs(want))
            equal |= np.abs(got - want) <= ulp * np.spacing(size)
    return "" if equal.all() else f"{got[~equal][:5]}, not {want[~equal][:5]}"
