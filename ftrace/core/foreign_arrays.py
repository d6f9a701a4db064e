"""Arrays of other libraries as arguments: they become NumPy arrays over the same memory.

An object that has DLPack's methods, `__array_interface__` or `__array__` is looked at only where
its type is no array of ours. What its library must copy or cannot give away (memory of a device,
a tensor that records gradients) is not guessed: its error is quoted.
"""

from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.device import on_device
from ftrace.core.errors import DeviceError, DtypeError

_CPU = (1, 3)  # DLPack's device types whose memory the host reads


def adopted(x: Any) -> Any:
    """A NumPy array over the memory of another library's array; what is none stays as it is.

    Raises:
        DeviceError: it lies on a device.
        DtypeError: its library does not give it away.
    """
    cls: Any = type(x)
    if on_device(x) or issubclass(cls, np.ndarray | np.generic | int | float | complex | type):
        return x
    if hasattr(cls, "__dlpack__") and hasattr(cls, "__dlpack_device__"):
        return _by_dlpack(x)
    if not (hasattr(cls, "__array__") or hasattr(cls, "__array_interface__")):
        return x
    try:
        return np.asarray(x)
    except Exception as error:
        raise _refused(x, error) from error


def _by_dlpack(x: Any) -> Any:
    kind = int(x.__dlpack_device__()[0])
    if kind not in _CPU:
        raise DeviceError(
            f"A {type(x).__name__} lies on a device (DLPack's type {kind}).",
            "Make an array of CuPy of it, cupy.from_dlpack(x), or move it to the host.",
        )
    try:
        return np.from_dlpack(x)
    except Exception as error:
        raise _refused(x, error) from error


def _refused(x: Any, error: Exception) -> DtypeError:
    return DtypeError(
        f"A {type(x).__name__} does not give its memory away: {str(error).rstrip('.')}.",
        "Make a NumPy array of it first: detach it, convert its dtype, or copy it.",
    )


def adopt(leaves: Any) -> bool:
    """Replace other libraries' arrays in a list; whether there was one."""
    found = False
    for i, x in enumerate(leaves):
        try:
            typeof(x)
        except DtypeError:
            made = adopted(x)
            if made is not x:
                leaves[i], found = made, True
    return found
