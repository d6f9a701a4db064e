"""Complex operations of kernels: NumPy's values at every corner, and no call of the library."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp

SMALL = [0.0, -0.0, 1.0, -1.0, 2.5, 1e5, np.inf, -np.inf, np.nan]
PARTS = {
    np.complex128: [*SMALL, 710.0, -710.0, 1420.0, -760.0, 1e300, -1e300, 1e-300, 5e-324],
    np.complex64: [*SMALL, 89.0, -89.0, 178.0, -104.0, 1e38, -1e38, 1e-38, 1e-45],
}


def corners(dtype):
    """All pairs of special parts."""
    parts = np.array(PARTS[dtype])
    z = np.empty(parts.size**2, dtype)
    z.real, z.imag = np.repeat(parts, parts.size), np.tile(parts, parts.size)
    return z


def assert_native(f, *args):
    cost = f.lower(*args).cost()
    assert (cost.callbacks, cost.library_rows) == (0, 0)


@pytest.mark.parametrize("dtype", PARTS)
def test_quotients_are_numpys_bit_for_bit(dtype):
    z = corners(dtype)
    x, y = np.repeat(z, z.size), np.tile(z, z.size)
    f = ftrace.jit(lambda x, y: x / y)
    assert_native(f, x, y)
    with np.errstate(all="ignore"):
        expected = x / y
    found = f(x, y)
    for a, b in ((found.real, expected.real), (found.imag, expected.imag)):
        np.testing.assert_array_equal(a, b)
        numbers = ~np.isnan(b)
        np.testing.assert_array_equal(np.signbit(a)[numbers], np.signbit(b)[numbers])


@pytest.mark.parametrize("dtype", PARTS)
def test_exponentials_are_numpys_at_every_corner(dtype):
    z = corners(dtype)
    f = ftrace.jit(fnp.exp)
    assert_native(f, z)
    with np.errstate(all="ignore"):
        expected = np.exp(z)
    found = f(z)
    size = np.finfo(dtype).eps
    for a, b in ((found.real, expected.real), (found.imag, expected.imag)):
        np.testing.assert_allclose(a, b, rtol=6 * size, atol=0)
        signs = (b == 0) | ((z.imag != 0) & ~np.isnan(b) & np.isfinite(z.imag))
        np.testing.assert_array_equal(np.signbit(a)[signs], np.signbit(b)[signs])


@pytest.mark.parametrize("dtype", PARTS)
def test_moduli_are_numpys(dtype):
    z = corners(dtype)
    f = ftrace.jit(fnp.abs)
    assert_native(f, z)
    with np.errstate(all="ignore"):
        expected = np.abs(z)
    np.testing.assert_allclose(f(z), expected, rtol=4 * np.finfo(dtype).eps)


def test_errors_are_of_a_few_roundings():
    rng = np.random.default_rng(0)
    z = rng.normal(size=20_000) * 5 + 1j * rng.normal(size=20_000) * 20
    exact = np.exp(z.astype(np.clongdouble))
    found = ftrace.jit(fnp.exp)(z)
    for a, b in ((found.real, exact.real), (found.imag, exact.imag)):
        assert np.max(np.abs((a - b) / b)) < 3 * np.finfo(float).eps


def test_derivatives_of_a_phase_are_one_kernel():
    def f(x, y):
        z = fnp.exp(1j * x) / (2.0 + 1j * y)
        return fnp.sum(fnp.abs(z) ** 2 + z.real)

    x, y = np.random.default_rng(1).normal(size=(2, 50))
    g = ftrace.jit(ftrace.grad(f, argnums=(0, 1)))
    assert_native(g, x, y)
    for found, expected in zip(g(x, y), ftrace.grad(f, argnums=(0, 1))(x, y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)
