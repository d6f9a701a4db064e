"""Copies of arrays that programs cannot use as they lie: strided, reversed, or not aligned.

The copy is a kernel like any other. Axes that lie in memory as one are joined, so that few forms
of it exist; elements are copied as integers of their size, those of 16 bytes as two, and those
that do not lie on a multiple of their size as smaller ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import gcd
from typing import Any

from ftrace.gpu.runtime.device_interface import Device, DeviceCall
from ftrace.gpu.runtime.device_memory import Memory
from ftrace.gpu.runtime.kernels import WORD, functions, planned, starts
from ftrace.lowering.kernel.ir import Block, Buffer, Kernel, KernelVar, Load, Loop, Store
from ftrace.lowering.kernel.launching import Launch, Operand
from ftrace.lowering.kernel.schedule import SERIAL, Schedule
from ftrace.lowering.program.program import Copy

Axes = list[tuple[int, int]]  # (size, step in elements)


def contiguous(array: Any, device: Device) -> Any:
    """A new array of the same values, in row-major order and aligned.

    Args:
        array: of the device, with any steps, at any address.
        device: whose.
    """
    new = device.empty(array.shape, array.dtype)
    if array.size:
        size, start = array.dtype.itemsize, device.pointer(array)
        width = gcd(min(size, WORD), start, *array.strides)
        run = _copying(device, array.shape, array.strides, size, width)
        run(Memory(device, (), [start, device.pointer(new)], device.order()))
    return new


@lru_cache(maxsize=256)
def _copying(
    device: Device, shape: tuple[int, ...], strides: tuple[int, ...], size: int, width: int
) -> Callable[[DeviceCall], None]:
    """What copies arrays that lie like this, from the first base to the second."""
    axes = [(n, s // width) for n, s in zip(shape, strides, strict=True)]
    if size > width:
        axes.append((size // width, 1))
    launch, table = _launch(_joined(axes), f"u{width}")
    kernel = planned(launch, table, {0: width}, device)
    (stages,) = functions([kernel], device)
    return device.sequence(starts(kernel, stages, lambda *place: place))


def flat(copy: Copy, size: int, alignment: int) -> tuple[Launch, list[int]]:
    """The launch of a copy between slots, and its table.

    Args:
        copy: from where to where.
        size: bytes, at least one.
        alignment: what divides both addresses.
    """
    width = gcd(size, alignment, WORD)
    axes = [] if size == width else [(size // width, 1)]
    return _launch(axes, f"u{width}", copy.source, copy.target)


def of_number(slot: int, size: int) -> list[tuple[Launch, list[int]]]:
    """The launches that store the words of a number, from slot to slot `-1 - slot`; their tables.

    Args:
        slot: of the number.
        size: bytes.
    """
    found = []
    for distance in range(0, size, WORD):
        launch, table = _launch([], f"u{min(size, WORD)}", slot, -1 - slot)
        moved = tuple(replace(o, offset=len(table)) for o in launch.operands)
        found.append((replace(launch, operands=moved), [*table, distance]))
    return found


def _joined(axes: Axes) -> Axes:
    """The axes that matter, neighbours in memory joined."""
    found: Axes = []
    for n, step in axes:
        if n == 1:
            continue
        if found and found[-1][1] == n * step:
            found[-1] = (found[-1][0] * n, step)
        else:
            found.append((n, step))
    return found


def _launch(axes: Axes, dtype: str, source: int = 0, target: int = 1) -> tuple[Launch, list[int]]:
    """The kernel of a copy between slots, and its numbers."""
    rank = len(axes)
    loops = [(KernelVar(i, "i8"), KernelVar(rank + i, "i8")) for i in range(rank)]
    at = tuple(axis for axis, _ in loops)
    value = KernelVar(2 * rank, dtype)
    sizes = [n for n, _ in axes]
    body: Any = (Load(value, "x", at), Store("y", at, value))
    for axis, extent in reversed(loops):
        body = (Loop((), axis, extent, Block(body)),)
    last = ("one",) if rank else ()
    kernel = Kernel(
        "copy",
        (
            Buffer("x", dtype, ("any",) * rank, "in"),
            Buffer("y", dtype, ("any",) * (rank - 1) + last, "out"),
        ),
        tuple(extent for _, extent in loops),
        Block(body),
    )
    table = [0, *(step for _, step in axes), *_rows(sizes)[:-1], *sizes]
    read = tuple(range(1, rank + 1))
    written = tuple(range(rank + 1, 2 * rank))
    entries = tuple(range(2 * rank, 3 * rank)) if rank else ()
    operands = (Operand(source, 0, read), Operand(target, 0, written))
    schedule = Schedule(tuple((axis.id, SERIAL) for axis, _ in loops), 1)
    return Launch(kernel, schedule, operands, entries), table


def _rows(sizes: Sequence[int]) -> list[int]:
    """The steps of the axes in row-major order."""
    found = [1]
    for n in reversed(sizes[1:]):
        found.append(found[-1] * n)
    return found[::-1]
