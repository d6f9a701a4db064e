"""The device that tests take which any device will do for: a GPU, else an emulated one."""

from functools import cache
from typing import Any

import pytest

from ftrace.core.errors import BackendError
from ftrace.gpu.runtime.cupy_device import device_of


@cache
def without_gpu() -> str:
    """Why there is no GPU here; empty if there is."""
    try:
        device_of()
    except BackendError as error:
        return str(error).splitlines()[0]
    return ""


@pytest.fixture
def some_device(request: pytest.FixtureRequest) -> Any:
    """The GPU, where there is one; else an emulated one (conftest.py)."""
    return request.getfixturevalue("host_device") if without_gpu() else device_of()
