"""What can be said about the GPU in this release: there is no backend yet.

The check reports, with the reason, whether this machine has a device; the tests of the backend
come with it.
"""

import importlib.util

import pytest

import ftrace.gpu

pytestmark = pytest.mark.gpu


def devices() -> int:
    """The number of CUDA devices that CuPy sees; 0 without CuPy or without a driver."""
    if importlib.util.find_spec("cupy") is None:
        return 0
    import cupy

    try:
        return cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


def test_the_gpu_folder_is_empty_until_there_is_a_backend():
    names = [name for name in vars(ftrace.gpu) if not name.startswith("__")]
    assert names == []


def test_arrays_of_a_device_can_be_made():
    count = devices()
    if count == 0:
        pytest.skip("no device: the GPU backend is not part of this release yet")
    import cupy

    assert float(cupy.ones(3).sum()) == 3.0
