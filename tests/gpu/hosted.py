"""Real `cupy.ndarray`s over host memory, and a device whose library is NumPy: no driver.

Any CuPy function that is called on one of these values needs a driver, and raises. What passes
here therefore reaches arrays through the device alone.
"""

import ctypes
from typing import Any

import cupy
import numpy as np


def on_device(x: Any) -> Any:
    """A `cupy.ndarray` with the elements of a NumPy array."""
    memory = np.array(x, order="C")
    owned = cupy.cuda.UnownedMemory(memory.ctypes.data, max(memory.nbytes, 1), memory, 0)
    pointer = cupy.cuda.MemoryPointer(owned, 0)
    return cupy.ndarray(memory.shape, memory.dtype, memptr=pointer)


def on_host(x: Any) -> Any:
    """A NumPy copy of a `cupy.ndarray` over host memory."""
    if not x.size:
        return np.zeros(x.shape, x.dtype)
    reach = sum((n - 1) * s for n, s in zip(x.shape, x.strides, strict=True) if s > 0)
    back = sum((n - 1) * s for n, s in zip(x.shape, x.strides, strict=True) if s < 0)
    size = reach - back + x.itemsize
    buffer = (ctypes.c_char * size).from_address(x.data.ptr + back)
    return np.ndarray(x.shape, x.dtype, buffer, -back, x.strides).copy()


class Hosted:
    """The part of a device that evaluates rows."""

    arch, processors, shared = "sm_90", 4, 49152

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.read = 0

    def library(self, row: Any, args: Any, params: Any) -> list[Any]:
        assert any(isinstance(a, cupy.ndarray) for a in args), "nothing here is on the device"
        assert not any(isinstance(a, np.ndarray) for a in args), "a NumPy array reached the device"
        self.rows.append(row.name)
        host = [on_host(a)[()] if isinstance(a, cupy.ndarray) else a for a in args]
        found = row.impl(*host, **params)
        return [on_device(y) for y in (found if row.multiple else [found])]

    def to_host(self, x: Any) -> Any:
        self.read += 1
        return on_host(x)

    def from_host(self, x: Any) -> Any:
        return on_device(x)
