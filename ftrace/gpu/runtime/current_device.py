"""Which device does the work: CuPy's current one, that of an array, or one that a test chose."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ftrace.gpu.runtime.cupy_device import device_of
from ftrace.gpu.runtime.device_interface import Device


class _Chosen(threading.local):
    device: Device | None = None


_chosen = _Chosen()


def current(array: Any = None) -> Device:
    """The device that does the work: the one of `using`, else the one that holds `array`.

    Args:
        array: a `cupy.ndarray`; without one, CuPy's current device is meant.

    Raises:
        BackendError: there is no CuPy, no driver, or no GPU.
    """
    device = _chosen.device
    if device is not None:
        return device
    return device_of(array)


@contextmanager
def using(device: Device) -> Generator[Device]:
    """Let `current` answer `device` in this thread, inside a `with` block (for tests)."""
    before = _chosen.device
    _chosen.device = device
    try:
        yield device
    finally:
        _chosen.device = before
