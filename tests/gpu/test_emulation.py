"""CUDA C by hand on the emulated device: right results, and every planted bug is found."""

import numpy as np
import pytest

from ftrace.core.errors import BackendError
from tests.gpu.emulation.device import HostDevice

WORDS = "template <int N> struct Words { long long w[N]; };\n"

SCALE = (
    WORDS
    + r"""
extern "C" __global__ void __launch_bounds__(256) scale(const Words<3> a) {
  const float* x = (const float*)a.w[0];
  float* y = (float*)a.w[1];
  const unsigned n = (unsigned)a.w[2], step = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = tanhf(x[i]) * 2.0f;
}
"""
)


def test_a_grid_stride_loop_reaches_every_element(host_device: HostDevice):
    x = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    source, target = host_device.from_host(x), host_device.empty(x.shape, x.dtype)
    kernel = host_device.compile(SCALE, ("scale",))["scale"]
    words = (host_device.pointer(source), host_device.pointer(target), x.size)
    host_device.launch(kernel, (3, 1, 1), (64, 1, 1), 0, words)
    np.testing.assert_allclose(np.tanh(x) * 2, host_device.to_host(target), rtol=1e-6)


def test_new_arrays_are_poisoned(host_device: HostDevice):
    import cupy

    assert np.isnan(host_device.to_host(host_device.empty((3, 4), np.float64))).all()
    assert np.isnan(host_device.to_host(cupy.empty((5,), np.float16))).all()
    assert host_device.to_host(cupy.empty((2,), np.int64)).tolist() == [0x7FFF7FFF7FFF7FFF] * 2


def test_an_access_out_of_bounds_names_the_array(guarded_device: HostDevice):
    if guarded_device.memory.place == "start":
        pytest.skip("the guard page is at the other end")
    x = guarded_device.from_host(np.ones(64, np.float32))
    kernel = guarded_device.compile(SCALE, ("scale",))["scale"]
    pointer = guarded_device.pointer(x)
    with pytest.raises(BackendError, match=r"reads address.*1 bytes behind an array of 256 bytes"):
        guarded_device.launch(kernel, (1, 1, 1), (32, 1, 1), 0, (pointer, pointer, 65))
