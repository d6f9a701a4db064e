"""Rows that CuPy computes differently from NumPy, by the kernels that compiled functions have.

CuPy adds at places by atomics, whose order is any. Its `x // y` is floor(x / y), which rounds a
quotient up to the next whole number, and gives NaN beside infinities; integers go through doubles.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.jaxpr import Eqn, Jaxpr, Var
from ftrace.core.lazy import lazy
from ftrace.core.primitive import Primitive
from ftrace.gpu.handwritten.running import PrefixScan
from ftrace.gpu.handwritten.scatter_sums import ScatterSum
from ftrace.gpu.runtime.copying import contiguous
from ftrace.gpu.runtime.current_device import current

_backend = lazy("ftrace.gpu.gpu_backend", "gpu_backend")


def evaluate(row: Primitive, *operands: Any) -> Any:
    """A row without parameters, of one result, on operands of which one is on a device."""
    return _program(row, tuple(map(typeof, operands)))(operands)[0]


@lru_cache(maxsize=1024)
def _program(
    row: Primitive, types: tuple[ShapedArray, ...]
) -> Callable[[Sequence[Any]], list[Any]]:
    """The row as a program."""
    given, made = [Var(a) for a in types], Var(row.type(*types))
    backend = _backend()
    return backend.compile(backend.plan(Jaxpr(given, [Eqn(row, given, {}, [made], None)], [made])))


def added(rows: Any, places: Any, values: Any) -> Any:
    """Rows with what was added to each.

    Args:
        rows: a matrix of a type that `scatter_sums.can_add` knows.
        places: rows' numbers, as int64; a number that is none adds nothing.
        values: for each place a row of the same type.
    """
    device = current(rows)
    rows, places, values = (
        x if x.flags.c_contiguous else contiguous(x, device) for x in (rows, places, values)
    )
    out = device.empty(rows.shape, rows.dtype)
    device.copy(device.pointer(out), device.pointer(rows), rows.nbytes)
    count, width = rows.shape
    add = ScatterSum(device, rows.dtype, count, width, len(values))
    add(*map(device.pointer, (out, places, values)))
    return out


def accumulated(operation: str, x: Any, axis: int, reverse: bool) -> Any:
    """All prefixes along an axis, joined.

    Args:
        operation: what joins two elements, one of `running.OPERATIONS`.
        x: an array.
        axis: along which.
        reverse: whether they are suffixes.
    """
    device = current(x)
    x = x if x.flags.c_contiguous else contiguous(x, device)
    out = device.empty(x.shape, x.dtype)
    inner = prod(x.shape[axis + 1 :])
    sizes = (prod(x.shape[:axis]) * inner, x.shape[axis], inner)
    PrefixScan(device, operation, x.dtype, sizes, reverse)(*map(device.pointer, (x, out)))
    return out
