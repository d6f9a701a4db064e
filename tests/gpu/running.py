"""Running kernels of samples and programs as the device would, on the host."""

import ctypes
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import ftrace
from ftrace.gpu.emit.kernel_source import HEADER, emit
from ftrace.gpu.gpu_backend import MACHINE
from ftrace.gpu.grid.layout import Mapped
from ftrace.gpu.grid.mapping import mapped
from ftrace.gpu.machine_code.cubin import compiled
from ftrace.gpu.prelude.prelude import definitions
from ftrace.lowering.kernel import reference
from ftrace.lowering.kernel.ir import Kernel
from ftrace.lowering.kernel.launching import Launch, Operand
from ftrace.lowering.kernel.schedule import Schedule
from ftrace.lowering.kernel.verify import verify
from ftrace.lowering.planning.plan import plan
from tests.gpu.emulation import driver


@dataclass
class Machine:
    """What mapping asks of a device."""

    processors: int = 4
    shared: int = 48 * 1024


def bits(value: Any, dtype: str) -> int:
    """A scalar as its word."""
    if dtype[0] == "f":
        return int(np.array(value, dtype).view("i" + dtype[1:]))
    return int(np.array(value, dtype).astype("i8"))


def launch_of(kernel: Kernel, operands: dict, scalars: list) -> tuple[Launch, list[int], list[int]]:
    """A launch of a kernel on NumPy memory, its table, and the words of the call."""
    table: list[int] = []
    places: list[Operand] = []
    bases: list[int] = []
    steps: list[int] = []
    for slot, b in enumerate(kernel.buffers):
        memory, offset, numbers = operands[b.name]
        bases.append(memory.ctypes.data + offset * memory.itemsize)
        table.append(offset * memory.itemsize)
        at, mine = len(table) - 1, []
        for kind, step in zip(b.steps, numbers, strict=True):
            if kind == "any":
                table.append(step)
                steps.append(step)
                mine.append(len(table) - 1)
        places.append(Operand(slot, at, tuple(mine)))
    entries = []
    for var, value in zip(kernel.scalars, scalars, strict=True):
        table.append(bits(value, var.dtype))
        entries.append(len(table) - 1)
    launch = Launch(kernel, Schedule((), 1), tuple(places), tuple(entries))
    return launch, table, [*bases, *steps, *(table[e] for e in entries)]


def alignment_of(address: int) -> int:
    return min(256, address & -address) if address else 256


def run_mapped(found: Mapped, words: list[int], back: bool = False) -> str:
    """Run all stages; the text."""
    text = emit(found.kernel, found.layout, "k")
    symbols = re.findall(r"(k_\d+)\(const Words", text)
    assert len(symbols) == len(found.stages)
    words = [*words, *found.extra]
    if found.scratch:
        scratch = np.full(found.scratch + 16, 0xA5, "u1")
        words = [*words, -(-scratch.ctypes.data // 16) * 16]
    functions = host().load(source_of(text), symbols)
    block = (ctypes.c_longlong * len(words))(*words)
    for name, stage in zip(symbols, found.stages, strict=True):
        if stage.grid is not None:
            assert functions[name].size == 8 * len(words)
            dims = (ctypes.c_uint * 6)(*stage.grid, *stage.block)
            host().launch(functions[name], dims, stage.shared, block, driver.Order(back))
    return text


def source_of(text: str) -> str:
    """A complete source."""
    return HEADER + definitions(text) + text


@cache
def host() -> driver.Driver:
    """The host compiler and its runtime."""
    return driver.Driver(driver.compilers()[0])


def mapped_sample(
    sample: Any, operands: Any = None, machine: Machine | None = None, symbol: str = "k"
) -> tuple[Mapped, str, list[int]]:
    """A sample on the grid, its text, and the words of the call."""
    operands = operands or sample.operands()
    launch, table, words = launch_of(sample.kernel, operands, sample.scalars)
    alignment = [alignment_of(base) for base in words[: len(sample.kernel.buffers)]]
    found = mapped(launch, table, alignment, machine or Machine())
    return found, emit(found.kernel, found.layout, symbol), words


def run_sample(
    sample: Any, operands: Any, machine: Machine | None = None, back: bool = False
) -> tuple[Mapped, str]:
    """Run a sample in place."""
    found, _, words = mapped_sample(sample, operands, machine)
    return found, run_mapped(found, words, back)


# --- programs: the launches that `plan` makes of functions


def launches_of(fn: Any, *args: Any) -> list[tuple[Launch, tuple[int, ...], dict[int, np.ndarray]]]:
    """Every launch of a function's program, with its table and the memory of its slots."""
    jaxpr = ftrace.jit(fn).lower(*args).jaxpr
    program = plan(jaxpr, MACHINE)
    assert all(isinstance(step, Launch) for step in program.steps), program.steps
    arena = np.full(program.arena, 0xA5, "u1")
    slots: dict[int, np.ndarray] = {}
    leaves = [np.asarray(x) for x in args]
    for number, slot in enumerate(program.slots):
        size, dtype = slot.aval.size, slot.aval.dtype
        if slot.place == "argument":
            slots[number] = np.ascontiguousarray(leaves[slot.entry], dtype).reshape(-1)
        elif slot.place == "constant":
            slots[number] = np.ascontiguousarray(program.constants[slot.entry], dtype).reshape(-1)
        elif slot.place == "result":
            slots[number] = np.full(size * dtype.itemsize, 0xA5, "u1").view(dtype)
        else:
            start = program.table[slot.entry]
            slots[number] = arena[start : start + size * dtype.itemsize].view(dtype)
    return [(step, program.table, slots) for step in program.launches]


def run_launch(
    launch: Launch, table: Any, slots: dict[int, np.ndarray], machine: Machine | None = None
) -> tuple[Mapped, str]:
    """Run a launch on its slots, and see that the reference leaves the same bits."""
    expected = _operands(launch, table, {k: x.copy() for k, x in slots.items()})
    operands = _operands(launch, table, slots)
    _, _, words = launch_of(launch.kernel, operands, [0] * len(launch.kernel.scalars))
    count = len(launch.kernel.scalars)
    words = [*words[: len(words) - count], *(table[e] for e in launch.scalars)]
    alignment = [alignment_of(base) for base in words[: len(launch.kernel.buffers)]]
    found = mapped(launch, table, alignment, machine or Machine())
    text = run_mapped(found, words)
    if not found.extra:  # a joined loop's stores name the axes that are computed from it
        verify(found.kernel)
    scalars = [
        value_of(table[e], v.dtype)
        for e, v in zip(launch.scalars, launch.kernel.scalars, strict=True)
    ]
    reference.run(found.kernel, expected, [*scalars, *found.extra])
    for b in launch.kernel.buffers:
        got, want = operands[b.name][0], expected[b.name][0]
        if b.space == "out" and got.tobytes() != want.tobytes():
            np.testing.assert_allclose(
                got, want, rtol=4e-6 if b.dtype == "f4" else 1e-13, atol=1e-6, err_msg=text
            )
    return found, text


def value_of(word: int, dtype: str) -> Any:
    if dtype[0] == "f":
        return np.array([word], "i8").view("u1")[: int(dtype[1:])].view(dtype)[0]
    return np.array(word).astype(dtype)[()]


def _operands(launch: Launch, table: Any, slots: dict[int, np.ndarray]) -> dict:
    found = {}
    for b, o in zip(launch.kernel.buffers, launch.operands, strict=True):
        memory = slots[o.slot].reshape(-1).view("f4" if b.dtype == "f4" else b.dtype)
        numbers = iter(o.steps)
        known = {"one": 1, "minus": -1}
        steps = tuple(known[s] if s in known else table[next(numbers)] for s in b.steps)
        found[b.name] = memory, table[o.offset] // memory.itemsize, steps
    return found


def text_of(fn: Any, args: Any, symbol: str, machine: Machine | None = None) -> str:
    """The text of all kernels of a program, as for arrays on boundaries of 256 bytes."""
    texts: list[str] = []
    program = plan(ftrace.jit(fn).lower(*args).jaxpr, MACHINE)
    for number, launch in enumerate(program.launches):
        alignment = [alignment_of(program.table[o.offset]) for o in launch.operands]
        found = mapped(launch, program.table, alignment, machine or Machine())
        texts.append(emit(found.kernel, found.layout, f"{symbol}{number}"))
    return "\n".join(texts)


def registers_of(text: str, arch: str) -> dict[str, tuple[int, int]]:
    """Registers, and bytes that are spilled, of each kernel."""
    log = compiled(source_of(text), arch, more=("-Xptxas", "-v")).log
    found = re.findall(
        r"function '(\w+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers", log, re.DOTALL
    )
    return {name: (int(used), int(spilled)) for name, spilled, used in found}
