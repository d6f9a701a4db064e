"""Moving arrays between NumPy and CuPy by hand, and telling a call whose arguments are apart.

Nothing that has a name moves by itself: `device_put` and `device_get` are how it does. What
ftrace makes, and what follows what, is in `core/device.py`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.api.calls import brief, name_of
from ftrace.control.functions import argument_paths, flatten_call
from ftrace.core import device
from ftrace.core.avals import SCALAR_AVALS, typeof
from ftrace.core.errors import DeviceError, DtypeError
from ftrace.core.lazy import lazy
from ftrace.core.trace import Tracer
from ftrace.core.tree import tree_flatten

_captured_arrays = lazy("ftrace.control.guards", "captured_arrays")
_current = lazy("ftrace.gpu.eager.cupy_arrays", "current_library")


def device_put(x: Any) -> Any:
    """Copy arrays to the GPU: every NumPy array and number in a container becomes a CuPy array.

    Args:
        x: arrays and numbers, or containers of them. CuPy arrays stay as they are; what offers
            `__cuda_array_interface__` (a CUDA tensor of PyTorch) is shared, not copied.

    Returns:
        The same containers of `cupy.ndarray`s on CuPy's current device.

    Raises:
        BackendError: there is no CuPy, no driver or no GPU.
        DeviceError: a traced value.

    Example:
        >>> import numpy as np, ftrace
        >>> x = ftrace.device_put(np.ones(3))                                 # doctest: +SKIP
        >>> ftrace.grad(lambda x: np.sum(np.sin(x)))(x)                       # doctest: +SKIP
        array([0.54030231, 0.54030231, 0.54030231])
    """
    leaves, tree = tree_flatten(x)
    library: device.Library = _current()
    return tree.unflatten([_put(leaf, library) for leaf in leaves])


def _put(x: Any, library: device.Library) -> Any:
    _refuse(x, "device_put")
    if device.on_device(x):
        return x
    if hasattr(x, "__cuda_array_interface__"):
        return library.adopt(x)
    if type(x) in SCALAR_AVALS or issubclass(type(x), np.ndarray | np.generic):
        return library.from_host(x)
    raise DtypeError(
        f"device_put was given {brief(x)}, which is not an array or a number.",
        "Pass NumPy arrays, numbers, or containers of them.",
    )


def device_get(x: Any) -> Any:
    """Copy arrays to the host: every CuPy array in a container becomes a NumPy array.

    This waits until they are computed. Everything else stays as it is.

    Args:
        x: arrays and numbers, or containers of them.

    Returns:
        The same containers; an array of rank 0 becomes a NumPy scalar.

    Raises:
        DeviceError: a traced value.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.device_get({"w": np.ones(2)})
        {'w': array([1., 1.])}
    """
    leaves, tree = tree_flatten(x)
    for leaf in leaves:
        _refuse(leaf, "device_get")
    return tree.unflatten(
        [device.to_host(leaf)[()] if device.on_device(leaf) else leaf for leaf in leaves]
    )


def _refuse(x: Any, what: str) -> None:
    if isinstance(x, Tracer):
        raise DeviceError(
            f"{what} was given {x.aval!r}, a traced value.",
            "Move arrays before the transformed function is called, and its results after it.",
        )


def check_on_host(what: str, values: Sequence[Any]) -> None:
    """Raise `DeviceError` where something that runs on the host is given a CuPy array."""
    for x in values:
        if device.on_device(x):
            raise DeviceError(
                f"{what} runs on NumPy arrays, and was given a CuPy array ({typeof(x)}).",
                "Move it before the call: ftrace.device_get(x).",
            )


def check_together(
    fun: Callable[..., Any], call: tuple[Any, Any], captured: Sequence[Any], skipped: Sequence[int]
) -> None:
    """Raise `DeviceError` where a call mixes NumPy and CuPy arrays, by the names of both.

    Args:
        fun: what is called.
        call: its `(args, kwargs)`; the `skipped` positions among args are static.
        captured: arrays that it read from outside.
        skipped: static positions.
    """
    args = tuple(a for i, a in enumerate(call[0]) if i not in skipped)
    leaves, tree = flatten_call(args, call[1])
    operands = [*captured, *leaves]
    there = next((i for i, x in enumerate(operands) if device.on_device(x)), None)
    here = next(
        (
            i
            for i, x in enumerate(operands)
            if issubclass(type(x), np.ndarray) and not device.is_free(x)
        ),
        None,
    )
    if there is None or here is None:
        return
    names = {id(array): name for name, array in _captured_arrays(fun).items()}
    paths = argument_paths(fun, tree, skipped)

    def named(i: int) -> str:
        x = operands[i]
        if i >= len(captured):
            return f"argument {paths[i - len(captured)]} ({typeof(x)})"
        name = names.get(id(x))
        return f"`{name}`, a captured array ({typeof(x)})" if name else f"a captured {typeof(x)}"

    raise DeviceError(
        f"{name_of(fun)} was called with arrays of two devices: {named(here)} is a NumPy array, "
        f"{named(there)} a CuPy array.",
        "No array that has a name moves by itself: bring them to one device with "
        "ftrace.device_put(x) or ftrace.device_get(x).",
    )
