"""Programs of a device check what they are given and what libraries give; some steps do nothing."""

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ftrace import errors, jit
from ftrace.gpu.runtime import copying, sequences
from ftrace.gpu.runtime.device_launch import DeviceProgram
from tests.gpu import plans
from tests.gpu.emulation.device import HostDevice, selected
from tests.gpu.hosted import here, there


def test_programs_take_arguments_of_the_planned_types_alone(host_device: HostDevice) -> None:
    run = DeviceProgram(plans.planned(lambda x: x + 1, plans.array(4)), host_device)
    (found,) = run([there(np.arange(4, dtype="f4"))])
    np.testing.assert_array_equal(here(found), [1, 2, 3, 4])
    with pytest.raises(errors.DtypeError, match="0 of a compiled function is of int64, but"):
        run([there(np.arange(4))])
    with pytest.raises(errors.ShapeError, match=r"0 of a compiled function has shape \(5,\), but"):
        run([there(np.arange(5, dtype="f4"))])


class Other(HostDevice):
    """Gives results of another dtype than they should have."""

    def library(self, row: Any, args: Any, params: Any) -> list[Any]:
        return [x.view(np.int32) for x in super().library(row, args, params)]


def test_a_library_that_gives_another_dtype_is_found_out(emulation: None) -> None:
    with selected(Other(schedules=["forwards"])) as device:
        x = device.from_host(np.eye(40, dtype="f4"))
        with pytest.raises(errors.JaxprError, match=r"promised .*, but its evaluation gave int32"):
            jit(lambda x: x @ x)(x)


def test_a_result_without_elements_that_is_an_argument_is_not_copied(
    host_device: HostDevice,
) -> None:
    f = jit(lambda x, y: (x, y + 1))
    nothing, more = f(there(np.ones((0, 3))), there(np.arange(3.0)))
    assert here(nothing).shape == (0, 3)
    np.testing.assert_array_equal(here(more), [1, 2, 3])


def test_what_begins_off_a_boundary_is_not_read_in_vectors(
    host_device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the copy begins memory of its own, which is written in vectors."""
    kernels: list[Any] = []
    compiled = copying.functions
    monkeypatch.setattr(
        copying, "functions", lambda some, device: kernels.extend(some) or compiled(some, device)
    )
    x = np.arange(4107, dtype="f4")
    np.testing.assert_array_equal(here(copying.contiguous(there(x)[1:], host_device)), x[1:])
    assert [k.layout.vectors for k in kernels] == [("y",)]


@pytest.mark.parametrize(("platform", "name"), [("linux", "libcuda.so.1"), ("win32", "nvcuda.dll")])
def test_the_driver_is_found_by_the_name_that_a_system_gives_it(
    platform: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    class Library(SimpleNamespace):
        def __getattr__(self, entry: str) -> str:
            return entry

    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", lambda path: loaded.append(path) or Library())
    assert sequences.driver.__wrapped__().replay == "cuGraphLaunch"
    assert loaded == [name]
