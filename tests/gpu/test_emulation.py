"""CUDA C by hand on the emulated device: NumPy's results, in every mode of the emulation."""

from typing import Any

import numpy as np
import pytest
import scipy.special as special

from ftrace.gpu.runtime import current_device as devices
from ftrace.primitives import table
from tests.gpu import by_hand
from tests.gpu.emulation.device import HostDevice, selected


def normal(*shape: int) -> Any:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


# --- one kernel of each class


@pytest.mark.parametrize("n", [0, 1, 4, 7, 1000])
def test_twenty_operations_in_vectors_of_four(each_device: HostDevice, n: int):
    if each_device.memory.place == "end":
        n = n // 4 * 4  # there arrays of other lengths are not aligned for vectors
    x = normal(n)
    source, target = each_device.from_host(x), each_device.empty((n,), np.float32)
    by_hand.run(
        each_device, by_hand.ELEMENTWISE, "elementwise", (3, 1, 1), (64, 1, 1), source, target, n
    )
    v = x.astype(np.float64)
    t, e, log = np.tanh(v), np.exp(-v * v), np.log1p(np.abs(v))
    expected = t * e + np.sin(v) * np.cos(log) - t * t / 2 + np.sqrt(log + 1) / (e + 2)
    np.testing.assert_allclose(each_device.to_host(target), expected + np.maximum(v, t), 1e-5, 1e-6)


@pytest.mark.parametrize(("rows", "n", "block"), [(5, 1000, 256), (3, 7, 64), (1, 0, 32)])
def test_a_block_sums_a_row(each_device: HostDevice, rows: int, n: int, block: int):
    x = normal(rows, n)
    source, target = each_device.from_host(x), each_device.empty((rows,), np.float32)
    by_hand.run(
        each_device, by_hand.ROW_SUM, "row_sum", (rows, 1, 1), (block, 1, 1), source, target, n
    )
    np.testing.assert_allclose(each_device.to_host(target), (np.tanh(x) * x).sum(1), rtol=1e-5)


def test_every_thread_iterates_until_it_is_done(each_device: HostDevice):
    x = np.random.default_rng(0).uniform(0.1, 100.0, size=300)
    source, target = each_device.from_host(x), each_device.empty(x.shape, x.dtype)
    steps = each_device.from_host(np.zeros((), np.int32))
    by_hand.run(
        each_device, by_hand.NEWTON, "newton", (5, 1, 1), (64, 1, 1), source, target, steps, 300
    )
    np.testing.assert_allclose(each_device.to_host(target), np.sqrt(x), rtol=1e-12)
    expected = 0
    for v in x:
        y = 1.0
        while abs(y * y - v) > 1e-12 * v:
            y, expected = 0.5 * (y + v / y), expected + 1
    assert each_device.read(steps.data.ptr, np.int32) == expected


def test_control_decides_which_partial_derivatives_a_cell_has(each_device: HostDevice):
    n = 33
    z = np.random.default_rng(0).integers(0, 3, size=n).astype(np.float32)
    c, f, i, g = normal(4, n, n)
    sources = [each_device.from_host(a) for a in (z, c, f, i, g)]
    targets = [each_device.empty((n, n), np.float32) for _ in range(4)]
    by_hand.run(each_device, by_hand.CELL, "cell", (2, 3, 1), (32, 1, 1), *sources, *targets, n)
    si, sf, tg = special.expit(i), special.expit(f), np.tanh(g)
    copy, update = z == 0, z == 1
    expected = (
        np.where(copy, 1, np.where(update, sf, 0)),
        np.where(update, sf * (1 - sf) * c, 0),
        np.where(copy, 0, si * (1 - si) * tg),
        np.where(copy, 0, si * (1 - tg * tg)),
    )
    for target, values in zip(targets, expected, strict=True):
        np.testing.assert_allclose(each_device.to_host(target), values, rtol=1e-5, atol=1e-7)


def test_columns_are_summed_in_two_stages_beside_a_full_gradient(each_device: HostDevice):
    rows, cols, parts = 50, 70, 3
    x, ct = normal(2, rows, cols)
    w = normal(cols)
    a, b, c = map(each_device.from_host, (x, w, ct))
    dx, dw = each_device.empty((rows, cols), np.float32), each_device.empty((cols,), np.float32)
    part = each_device.empty((parts, cols), np.float32)
    grid = (3, parts, 1)
    by_hand.run(
        each_device, by_hand.COLUMNS, "columns_0", grid, (32, 8, 1), a, b, c, dx, part, rows, cols
    )
    by_hand.run(
        each_device, by_hand.COLUMNS, "columns_1", (1, 1, 1), (96, 1, 1), part, dw, parts, cols
    )
    np.testing.assert_array_equal(each_device.to_host(dx), ct * w)
    np.testing.assert_allclose(each_device.to_host(dw), (ct * x).sum(0), rtol=1e-4, atol=1e-5)


def test_a_warp_holds_a_row_of_softmax(each_device: HostDevice):
    x = normal(7, 50)
    source, target = each_device.from_host(x), each_device.empty(x.shape, np.float32)
    by_hand.run(
        each_device, by_hand.SOFTMAX, "softmax", (2, 1, 1), (128, 1, 1), source, target, 7, 50
    )
    np.testing.assert_allclose(each_device.to_host(target), special.softmax(x, 1), rtol=1e-5)


def test_collectives_tell_each_lane_what_cuda_says(each_device: HostDevice):
    out = each_device.empty((64, 11), np.int64)
    by_hand.run(each_device, by_hand.COLLECTIVES, "collectives", (1, 1, 1), (64, 1, 1), out)
    t = np.arange(64)
    lane, warp, part = t % 32, t // 32 * 32, t % 16
    votes = [sum(1 << k for k in range(32) if (first + k) % 3 == 0) for first in (0, 32)]
    expected = np.stack(
        [
            warp + 5,
            np.where(part >= 3, t - 3, t),
            np.where(part + 3 < 16, t + 3, t),
            t ^ 7,
            np.where(t < 32, *votes),
            t >= 32,
            t < 32,
            np.where(lane < 16, warp + lane // 2, -1),
            np.full(64, 13),
            np.ones(64),
            np.where(lane < 16, t, t ^ 20),  # earlier parts of a warp are read, later ones not
        ],
        axis=1,
    )
    np.testing.assert_array_equal(each_device.to_host(out), expected)


# --- arithmetic and mathematics

OF_DOUBLES = {
    "erfinv": (special.erfinv, np.r_[np.linspace(-1, 1, 201), 1e-300, 1 - 1e-15]),
    "erfcinv": (special.erfcinv, np.r_[np.linspace(0, 2, 201), 1e-300]),
    "normcdf": (lambda x: np.exp(special.log_ndtr(x)), np.linspace(-10, 10, 201)),
    "normcdfinv": (special.ndtri, np.r_[np.linspace(0, 1, 201), 1e-300]),
    "erfcx": (special.erfcx, np.r_[np.linspace(-5, 100, 201), 1e10]),
    "cyl_bessel_i0": (special.i0, np.linspace(-700, 700, 2001)),
    "cyl_bessel_i1": (special.i1, np.linspace(-700, 700, 2001)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), np.linspace(0.1, 9, 100)),
    "rcbrt": (lambda x: 1 / np.cbrt(x), np.linspace(-9, 9, 100)),
    "exp10": (lambda x: 10.0**x, np.linspace(-300, 300, 101)),
    "sinpi": (lambda x: np.sin(np.pi * (x % 2)), np.linspace(-9.9, 9.9, 101)),
    "cospi": (lambda x: np.cos(np.pi * (x % 2)), np.linspace(-9.9, 9.9, 101)),
}


@pytest.mark.parametrize("name", OF_DOUBLES)
def test_functions_that_c_lacks_have_scipys_values(host_device: HostDevice, name: str):
    reference, x = OF_DOUBLES[name]
    doubles, floats = host_device.from_host(x), host_device.from_host(x.astype(np.float32))
    source = by_hand.WORDS + (
        'extern "C" __global__ void each(const Words<2> a) {'
        f"double* x = (double*)a.w[0]; x[blockIdx.x] = {name}(x[blockIdx.x]);"
        f"float* y = (float*)a.w[1]; y[blockIdx.x] = {name}f(y[blockIdx.x]); }}"
    )
    by_hand.run(host_device, source, "each", (x.size, 1, 1), (1, 1, 1), doubles, floats)
    np.testing.assert_allclose(host_device.to_host(doubles), reference(x), rtol=3e-14, atol=1e-14)
    with np.errstate(over="ignore"):
        rounded = reference(x.astype(np.float32).astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(host_device.to_host(floats), rounded, rtol=2e-7, atol=1e-7)


def test_sums_and_products_are_rounded_one_by_one(each_device: HostDevice):
    x = np.random.default_rng(0).normal(size=(3, 1000))
    source = each_device.from_host(x)
    target = each_device.empty((1000,), np.float64)
    code = by_hand.WORDS + (
        'extern "C" __global__ void each(const Words<2> a) {'
        "const double* x = (const double*)a.w[0] + threadIdx.x;"
        "((double*)a.w[1])[threadIdx.x] = x[0] * x[1000] + x[2000]; }"
    )
    by_hand.run(each_device, code, "each", (1, 1, 1), (1000, 1, 1), source, target)
    np.testing.assert_array_equal(each_device.to_host(target), x[0] * x[1] + x[2])


# --- arrays


def test_new_arrays_are_poisoned(each_device: HostDevice):
    import cupy

    assert np.isnan(each_device.to_host(each_device.empty((3, 4), np.float64))).all()
    assert np.isnan(each_device.to_host(cupy.empty((5,), np.float16))).all()
    assert each_device.to_host(cupy.empty((2,), np.int64)).tolist() == [0x7FFF7FFF7FFF7FFF] * 2
    assert cupy.empty((0, 3)).shape == (0, 3)


def test_arrays_are_cupys_and_go_there_and_back(host_device: HostDevice):
    import cupy

    for x in (np.arange(24).reshape(2, 3, 4), np.array(2.5), np.zeros((0, 3)), np.array([True])):
        there = host_device.from_host(x)
        assert type(there) is cupy.ndarray
        back = host_device.to_host(there)
        np.testing.assert_array_equal(back, x)
        assert back.dtype == x.dtype
        assert there.flags.c_contiguous


def test_views_are_read_through_their_strides(host_device: HostDevice):
    x = np.arange(24.0).reshape(2, 3, 4)
    there = host_device.from_host(x)
    np.testing.assert_array_equal(host_device.to_host(there.T), x.T)
    np.testing.assert_array_equal(host_device.to_host(there[:, ::-1, 1:3]), x[:, ::-1, 1:3])
    backwards = there[:, ::-1, 1:3]
    assert host_device.read(host_device.pointer(backwards), np.float64) == x[0, 2, 1]


def test_a_host_array_is_a_copy(host_device: HostDevice):
    there = host_device.from_host(np.zeros(3))
    host_device.to_host(there)[:] = 1.0
    np.testing.assert_array_equal(host_device.to_host(there), np.zeros(3))


def test_bytes_are_copied_by_address(each_device: HostDevice):
    source, target = each_device.from_host(np.arange(4.0)), each_device.empty((3,), np.float64)
    each_device.copy(target.data.ptr, source.data.ptr + 8, 24)
    np.testing.assert_array_equal(each_device.to_host(target), [1.0, 2.0, 3.0])


def test_memory_returns_with_its_array(host_device: HostDevice):
    before = len(host_device.memory.blocks)
    array = host_device.empty((10,), np.float64)
    part = array[2:5]
    del array
    assert len(host_device.memory.blocks) == before + 1
    del part
    assert len(host_device.memory.blocks) == before


def test_the_device_and_cupys_memory_are_this_ones_only_inside(emulation: None):
    import cupy

    device = HostDevice()
    outside = cupy.cuda.get_allocator()
    with selected(device):
        assert devices.current() is device
        assert cupy.cuda.get_allocator() == device.memory.allocate
    assert cupy.cuda.get_allocator() == outside


# --- rows of libraries, recordings


@pytest.mark.parametrize("row", table.ALL, ids=str)
def test_rows_of_libraries_give_arrays_with_numpys_values(host_device: HostDevice, row: Any):
    import cupy

    for sample in list(row.samples())[:2]:
        args = [host_device.from_host(a) if hasattr(a, "dtype") else a for a in sample.args]
        expected = row.impl(*sample.args, **sample.params)
        results = host_device.library(row, args, sample.params)
        for result, value in zip(results, expected if row.multiple else [expected], strict=True):
            assert type(result) is cupy.ndarray
            back = host_device.to_host(result)
            np.testing.assert_array_equal(back, value)
            assert back.dtype == np.asarray(value).dtype
            assert all(result.data.ptr != a.data.ptr for a in args if hasattr(a, "data"))
