"""Bessel functions of real order on a device: a kernel by hand, against SciPy."""

import cupy
import numpy as np
import pytest
import scipy.special

from ftrace.gpu.eager import bessel
from tests.gpu import sheet

ORDERS = [0, 1, 2, 3, 7, 20, 50, -1, -2, -7, 0.5, 0.3, 1.7, 7.9, 33.3, -0.5, -1.6, -7.9]
POINTS = np.concatenate(
    [[1e-8, 1e-3], np.linspace(0.01, 10, 60), np.linspace(10, 60, 60), np.geomspace(60, 1e4, 40)]
)


def found(device, kind, v, x):
    v, x = np.broadcast_arrays(np.asarray(v, np.float64), np.asarray(x, np.float64))
    given = [device.from_host(np.ascontiguousarray(a)) for a in (v, x)]
    result = bessel.evaluate(kind, *given)
    assert isinstance(result, cupy.ndarray)
    return device.to_host(result)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", bessel.KINDS)
def test_values_are_scipys(kind, order, sign, host_device):
    x = sign * POINTS
    got, expected = found(host_device, kind, order, x), getattr(scipy.special, kind)(order, x)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(expected))
    there = np.isfinite(expected) & (np.abs(expected) > 1e-300)
    size = np.abs(expected)
    if kind == "jv":  # near its zeros what counts is the wave's height
        size = np.where(np.abs(x) > abs(order), np.maximum(size, np.sqrt(0.6 / np.abs(x))), size)
    assert (np.abs(got[there] - expected[there]) <= 2e-11 * size[there]).all()


@pytest.mark.parametrize("kind", bessel.KINDS)
def test_ends_of_the_line(kind, host_device):
    v = np.array([0.0, 1.0, 2.5, -3.0, 0.5, 2.0, np.nan, 1.0])
    x = np.array([0.0, 0.0, 0.0, 0.0, -1.0, np.inf, 1.0, np.nan])
    expected = [1.0, 0.0, 0.0, 0.0, np.nan, np.nan, np.nan, np.nan]
    np.testing.assert_array_equal(found(host_device, kind, v, x), expected)
    assert found(host_device, kind, np.zeros((0, 3)), np.zeros((0, 3))).shape == (0, 3)


def test_large_orders_of_large_numbers_are_added_up_from_the_largest_term(host_device):
    v, x = np.array([100.0, 300.0, 60.0]), np.array([1000.0, 2000.0, 700.0])
    expected = scipy.special.ive(v, x)
    np.testing.assert_allclose(found(host_device, "ive", v, x), expected, rtol=1e-11)


@pytest.mark.parametrize("arch", ["sm_75", "sm_100"])
def test_the_kernel_compiles_for_devices(arch):
    cost = sheet.resources(bessel.SOURCE, arch)["bessel"]
    assert cost.spilled == 0
