"""Devices for the tests of the GPU backend: emulated ones, which every machine with CuPy has."""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gpu.devices import some_device as some_device
from tests.gpu.devices import without_gpu
from tests.gpu.emulation import driver
from tests.gpu.emulation.device import HostDevice, selected

# Not in fast runs: they compile much, for this machine or for devices.
SLOW = {
    *("test_benchmarks", "test_bessel", "test_emit", "test_emulation", "test_emulation_bugs"),
    *("test_emulation_header", "test_bad_input", "test_compile", "test_eager", "test_mapping"),
    *("test_lacking", "test_laws", "test_library", "test_names_of_rows", "test_other_signs"),
    *("test_random", "test_sheet"),
    *("test_spelling", "test_tiles"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = {str(Path(__file__).with_name(f"{name}.py")) for name in SLOW}
    for item in items:
        if str(item.path) in here:
            item.add_marker(pytest.mark.slow)


def without() -> str:
    """Why there is no emulation here; empty if there is.

    Arrays of emulated devices hold addresses of the host, which a GPU must never get.
    """
    if sys.platform != "linux":
        return "shared variables are found by the names that linkers for Linux give"
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed: pip install 'ftrace[gpu-static]'"
    if not driver.compilers():
        return "no C++ compiler: neither `c++` nor the wheel ziglang is installed"
    if not without_gpu():
        return "CuPy uses a GPU here; an emulated one runs where CUDA_VISIBLE_DEVICES is empty"
    return ""


@pytest.fixture(scope="session")
def emulation() -> None:
    """Skip where nothing can be emulated."""
    if reason := without():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def _device(emulation: None) -> HostDevice:
    return HostDevice(place=os.environ.get("FTRACE_EMULATION", "vector_end"))


@pytest.fixture
def host_device(_device: HostDevice) -> Iterator[HostDevice]:
    """The device of this test: launches run in both schedules, guard pages follow arrays.

    `FTRACE_EMULATION=start` puts them before the arrays, `plain` leaves them out.
    """
    with selected(_device) as device:
        yield device


MODES: dict[str, Callable[[], HostDevice]] = {
    "c++": lambda: HostDevice(driver.compilers()[0]),
    "zig": lambda: HostDevice(driver.compilers()[-1]),
    "ucontext": lambda: HostDevice(fibres="ucontext"),
    "start": lambda: HostDevice(place="start"),
    "end": lambda: HostDevice(place="end"),
    "vector_end": lambda: HostDevice(place="vector_end"),
}


@pytest.fixture(scope="session")
def _made(emulation: None) -> dict[str, HostDevice]:
    return {}  # by mode


@pytest.fixture(params=MODES)
def each_device(
    request: pytest.FixtureRequest, _made: dict[str, HostDevice]
) -> Iterator[HostDevice]:
    """A device of each compiler, each switch of fibres, and each place of arrays in turn.

    At `end` arrays are aligned to their elements only, which no GPU does: for kernels by hand.
    """
    mode: str = request.param
    if mode == "zig" and "ziglang" not in driver.compilers()[-1].command:
        pytest.skip("the wheel ziglang is not installed")
    if mode not in _made:
        _made[mode] = MODES[mode]()
    with selected(_made[mode]) as device:
        yield device
