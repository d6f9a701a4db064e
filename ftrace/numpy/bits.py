"""Bits of bytes: packbits and unpackbits."""

from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.device import free
from ftrace.numpy import reductions
from ftrace.numpy.lowerings import truth
from ftrace.numpy.promote import cast, numpy_function, static_int, stretch, strong, value
from ftrace.numpy.shaping import slice_axis
from ftrace.numpy.sorting import flat_or_axis
from ftrace.primitives import elementwise as e
from ftrace.primitives.shape import reshape
from ftrace.primitives.slicing import pad as pad_row

BYTE = np.dtype(np.uint8)


def _weights(rank: int, axis: int, order: str) -> Any:
    """How far each bit of a byte is shifted, along one axis."""
    if order not in ("big", "little"):
        raise ValueError("'order' must be either 'little' or 'big'")
    shifts = np.arange(8, dtype=BYTE)
    shape = [8 if i == axis else 1 for i in range(rank)]
    return free((shifts[::-1] if order == "big" else shifts).reshape(shape).copy())


@numpy_function
def packbits(a: Any, /, axis: Any = None, bitorder: str = "big") -> Any:
    """Eight booleans in each byte, along an axis."""
    x, i = flat_or_axis(strong(value(a)), axis)
    if typeof(x).dtype.kind not in "biu":
        raise TypeError("Expected an input array of integer or boolean data type")
    shape = typeof(x).shape
    bits = cast(truth(x), BYTE)
    more = -shape[i] % 8
    config = tuple((0, more if j == i else 0, 0) for j in range(len(shape)))
    bits = pad_row(bits, BYTE.type(0), padding_config=config) if more else bits
    count = (shape[i] + more) // 8
    bits = reshape(bits, new_sizes=(*shape[:i], count, 8, *shape[i + 1 :]))
    shifts = _weights(len(shape) + 1, i + 1, bitorder)
    shifted = e.shift_left(bits, stretch(shifts, typeof(bits).shape))
    return reductions.sum(shifted, axis=i + 1, dtype=BYTE)


@numpy_function
def unpackbits(a: Any, /, axis: Any = None, count: Any = None, bitorder: str = "big") -> Any:
    """The bits of bytes as zeros and ones, along an axis."""
    x, i = flat_or_axis(strong(value(a)), axis)
    if typeof(x).dtype != BYTE:
        raise TypeError("Expected an input array of unsigned byte data type")
    shape = typeof(x).shape
    wide = (*shape[: i + 1], 8, *shape[i + 1 :])
    whole = stretch(reshape(x, new_sizes=(*shape[: i + 1], 1, *shape[i + 1 :])), wide)
    shifts = stretch(_weights(len(wide), i + 1, bitorder), wide)
    bits = e.bitwise_and(e.shift_right(whole, shifts), BYTE.type(1))
    bits = reshape(bits, new_sizes=(*shape[:i], 8 * shape[i], *shape[i + 1 :]))
    if count is None:
        return bits
    n, size = 8 * shape[i], static_int(count, "count")
    size = size if size >= 0 else n + size
    if size < 0:
        raise ValueError(f"-ve count {count} is larger than the number of bits")
    if size <= n:
        return slice_axis(bits, 0, size, i)
    config = tuple((0, size - n if j == i else 0, 0) for j in range(len(shape)))
    return pad_row(bits, BYTE.type(0), padding_config=config)
