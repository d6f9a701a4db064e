"""Devices for the tests of the GPU backend: emulated ones, which every machine with CuPy has."""

import importlib.util
from collections.abc import Callable, Iterator

import pytest

from tests.gpu.emulation import driver
from tests.gpu.emulation.device import HostDevice, selected


def without() -> str:
    """Why there is no emulation here; empty if there is."""
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed: pip install 'ftrace[gpu-static]'"
    if not driver.compilers():
        return "no C++ compiler: neither `c++` nor the wheel ziglang is installed"
    return ""


@pytest.fixture(scope="session")
def emulation() -> None:
    """Skip where nothing can be emulated."""
    if reason := without():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def _plain_device(emulation: None) -> HostDevice:
    return HostDevice()


@pytest.fixture
def host_device(_plain_device: HostDevice) -> Iterator[HostDevice]:
    """The device of this test: launches run in both schedules, arrays lie in plain memory."""
    with selected(_plain_device) as device:
        yield device


@pytest.fixture(params=["start", "end", "vector_end"])
def guarded_device(request: pytest.FixtureRequest, emulation: None) -> Iterator[HostDevice]:
    """The same with arrays against guard pages, at either end in turn."""
    with selected(HostDevice(place=request.param)) as device:
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
    return {}


@pytest.fixture(params=MODES)
def each_device(
    request: pytest.FixtureRequest, _made: dict[str, HostDevice]
) -> Iterator[HostDevice]:
    """A device of each compiler, each switch of fibres, and each place of arrays in turn."""
    mode: str = request.param
    if mode == "zig" and "ziglang" not in driver.compilers()[-1].command:
        pytest.skip("the wheel ziglang is not installed")
    if mode not in _made:
        _made[mode] = MODES[mode]()
    with selected(_made[mode]) as device:
        yield device
