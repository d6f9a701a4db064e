"""Bins of arrays narrower than float64: edges, and numbers looked for, have NumPy's types."""

import numpy as np
import pytest

import ftrace

OPTIONS = (
    {},
    {"bins": 3, "range": (-2, 3)},
    {"bins": 4, "range": (-2.0, 3.5)},
    {"bins": 3, "range": (np.float64(-2), 3)},
    {"bins": [0, 1, 2.0]},
    {"bins": 5, "range": (1, 1)},
)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.int8])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_edges(dtype, options):
    x = np.array([0.1, 0.5, 2.0, -1, 3.0]).astype(dtype)
    for found, expected in zip(
        ftrace.jit(lambda x: np.histogram(x, **options))(x), np.histogram(x, **options), strict=True
    ):
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("number", [0.4, 1, np.float64(0.4), np.float32(0.4), [0.4, 0.1]])
def test_numbers_that_are_looked_for(side, number):
    x = np.array([0.1, 0.4, 2.0], np.float32)

    def f(x):
        return np.searchsorted(x, number, side=side)

    np.testing.assert_array_equal(ftrace.jit(f)(x), f(x))
    np.testing.assert_array_equal(ftrace.vmap(f)(x[None]), [f(x)])


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32, np.complex64, complex])
def test_sums_of_weights_keep_the_dtype_and_the_imaginary_part(dtype, density):
    x = np.array([0.1, 0.5, 0.9, 0.2])
    weights = np.array([200, 0, 7, 100j if np.dtype(dtype).kind == "c" else 100]).astype(dtype)

    def counts(x, weights):
        return np.histogram(x, 2, weights=weights, density=density)[0]

    want, got = counts(x, weights), ftrace.jit(counts)(x, weights)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6)
