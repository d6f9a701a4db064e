"""Running kernels of samples and programs as the device would, on the host."""

import ctypes
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ftrace.gpu.emit import HEADER, emit
from ftrace.gpu.layout import Mapped
from ftrace.gpu.mapping import mapped
from ftrace.gpu.prelude import definitions
from ftrace.lowering.ir import Kernel
from ftrace.lowering.launching import Launch, Operand
from ftrace.lowering.schedule import Schedule
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
