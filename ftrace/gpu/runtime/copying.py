"""Copies of arrays that programs cannot use as they lie: strided, reversed, or not aligned.

The copy is a kernel like any other. Axes that lie in memory as one are joined, so that few forms
of it exist; elements are copied as integers of their size, those of 16 bytes as two, and those
that do not lie on a multiple of their size as smaller ones.
"""

from collections.abc import Sequence
from math import gcd
from typing import Any

from ftrace.gpu.runtime.device_interface import Device
from ftrace.gpu.runtime.kernels import functions, planned
from ftrace.lowering.kernel.ir import Block, Buffer, Kernel, KernelVar, Load, Loop, Store
from ftrace.lowering.kernel.launching import Launch, Operand
from ftrace.lowering.kernel.schedule import SERIAL, Schedule

Axes = list[tuple[int, int]]  # (size, step in elements)


def contiguous(array: Any, device: Device) -> Any:
    """A new array of the same values, in row-major order and aligned.

    Args:
        array: of the device, with any steps, at any address.
        device: whose.
    """
    new = device.empty(array.shape, array.dtype)
    if array.size:
        _copy(array, new, device)
    return new


def _copy(array: Any, new: Any, device: Device) -> None:
    size = array.dtype.itemsize
    width = gcd(min(size, 8), device.pointer(array), *array.strides)
    axes = [(n, s // width) for n, s in zip(array.shape, array.strides, strict=True)]
    if size > width:
        axes.append((size // width, 1))
    launch, table = _launch(_joined(axes), f"u{width}")
    kernel = planned(launch, table, {0: width}, device)
    (stages,) = functions([kernel], device)
    words = [device.pointer(array), device.pointer(new), *kernel.numbers]
    for function, stage in zip(stages, kernel.stages, strict=True):
        assert stage.grid is not None
        device.launch(function, stage.grid, stage.block, stage.shared, words)


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


def _launch(axes: Axes, dtype: str) -> tuple[Launch, list[int]]:
    """The kernel of a copy, and its numbers."""
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
    operands = (Operand(0, 0, read), Operand(1, 0, written))
    schedule = Schedule(tuple((axis.id, SERIAL) for axis, _ in loops), 1)
    return Launch(kernel, schedule, operands, entries), table


def _rows(sizes: Sequence[int]) -> list[int]:
    """The steps of the axes in row-major order."""
    found = [1]
    for n in reversed(sizes[1:]):
        found.append(found[-1] * n)
    return found[::-1]
