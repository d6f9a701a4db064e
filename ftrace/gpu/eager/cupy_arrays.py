"""`cupy.ndarray` as a value of ftrace: its type, who evaluates rows on it, and what it may meet.

`core/device.py` asks for `register` when it first sees that the program has imported CuPy. Rows of
the table go to the device's library (cupy_library.py on a GPU); any other row, one that holds a
jaxpr or one of the user's, runs its own `impl`. Operands are brought together here, once for all
rows: numbers and free arrays move, other NumPy arrays raise. Results of rank 0 stay on the device.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from ftrace.core import device as core
from ftrace.core.avals import TYPEOF, aval, typeof
from ftrace.core.dtypes import canonical
from ftrace.core.errors import BackendError, DeviceError
from ftrace.core.primitive import Primitive
from ftrace.gpu.runtime.current_device import current
from ftrace.primitives.convert import copy
from ftrace.primitives.shape import concatenate, expand_dims
from ftrace.primitives.table import ALL, by_name

_ROWS: Final = frozenset(ALL)
_HOW: Final = ("add", "mul", "min", "max")
_INDICES: Final = {
    by_name["gather"]: 1,
    **{by_name[name]: 2 for name in ("scatter", *(f"scatter_{how}" for how in _HOW))},
}
"""Rows that index, and their first index operand: as in CuPy, indices follow what they index."""
_MOVE: Final = (
    "No array that has a name moves by itself: make it a CuPy array (ftrace.device_put(x)), or the "
    "other a NumPy array (ftrace.device_get(x)). An array that a transformed function makes goes "
    "with what it meets if ftrace.numpy makes it (ftrace.numpy.eye(3))."
)


def _type_of(x: Any) -> Any:
    return aval(x.shape, canonical(x.dtype))


def register() -> None:
    """Enter CuPy's array type."""
    cls = import_module("cupy").ndarray
    TYPEOF[cls] = _type_of
    core.enter(cls, CupyArrays())


def current_library() -> core.Library:
    """The library of CuPy's arrays, which are entered if they are new.

    Raises:
        BackendError: there is no CuPy.
    """
    try:
        cupy = import_module("cupy")
    except ImportError as error:
        raise BackendError(
            f"CuPy, which holds arrays on a GPU, cannot be imported: {error}.",
            "Install it for the driver's CUDA: pip install 'ftrace[cuda13]' or 'ftrace[cuda12]'.",
        ) from error
    core.watch()
    return core.LIBRARIES[cupy.ndarray]


class CupyArrays:
    """Rows on CuPy arrays, by the device that is current for them."""

    def evaluate(self, row: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if row not in _ROWS:
            return row.impl(*args, **params)
        like = next(filter(core.on_device, args))
        operands = [
            a if core.on_device(a) else self._brought(row, i, args, like)
            for i, a in enumerate(args)
        ]
        if any(core.on_device(a) and a.data.device_id != like.data.device_id for a in args):
            raise _on_two_gpus(row.name, args)
        found = current(like).library(row, operands, params)
        return found if row.multiple else found[0]

    def _brought(self, row: Primitive, i: int, args: Sequence[Any], like: Any) -> Any:
        """An operand that is not on the device, as its library takes it."""
        a = args[i]
        if not issubclass(type(a), np.ndarray):
            return a
        if not a.ndim:
            return a[()]
        if core.is_free(a) or i >= _INDICES.get(row, len(args)):
            return current(like).from_host(a)
        raise mixed(row.name, i, args)

    def copy(self, array: Any) -> Any:
        return self.evaluate(copy, (array,), {})

    def stack(self, arrays: Sequence[Any]) -> Any:
        like = next(filter(core.on_device, arrays))
        rows = [
            self.evaluate(expand_dims, (core.follow(a, like),), {"dimensions": (0,)})
            for a in arrays
        ]
        return self.evaluate(concatenate, rows, {"dimension": 0})

    def from_host(self, array: Any) -> Any:
        return current().from_host(np.asarray(array))

    def adopt(self, array: Any) -> Any:
        return import_module("cupy").asarray(array)

    def from_dlpack(self, array: Any) -> Any:
        return import_module("cupy").from_dlpack(array)

    def to_host(self, array: Any) -> Any:
        return current(array).to_host(array)


def _on_two_gpus(what: str, args: Sequence[Any]) -> DeviceError:
    numbers = sorted({a.data.device_id for a in args if core.on_device(a)})
    return DeviceError(
        f"{what} was given CuPy arrays of several GPUs: {', '.join(map(str, numbers))}.",
        "Bring them to one GPU: `with cupy.cuda.Device(0): x = cupy.asarray(x)`.",
    )


def mixed(what: str, i: int, args: Sequence[Any]) -> DeviceError:
    """The error for an operation on a NumPy array of the user (operand i) and CuPy arrays."""
    j = next(j for j, a in enumerate(args) if core.on_device(a))
    return DeviceError(
        f"{what} was given operands of two devices: operand {i} is a NumPy array "
        f"({typeof(args[i])}), operand {j} a CuPy array ({typeof(args[j])}).",
        _MOVE,
    )
