"""Functions that take elements must not compute with their neighbours: inf and NaN stay there."""

import numpy as np
import pytest

from ftrace import grad, jit, vmap

INF, NAN = np.inf, np.nan
ROWS = [
    [INF, -2.0, 0.0],
    [INF, INF, 1.0, INF],
    [-INF, INF, 1.0, 2.0],
    [-INF, INF],
    [INF, INF, INF],
    [1.0, NAN, 3.0, INF],
    [NAN, NAN],
    [1e308, 1.5e308, 1.2e308],
    [4.0, 1.0, 3.0, 2.0],
]
TAKING = ["lower", "higher", "nearest", "inverted_cdf", "closest_observation"]


def agree(function, x):
    with np.errstate(all="ignore"):
        want = function(x)
        for got in (jit(function)(x), vmap(function)(np.stack([x, x]))[1]):
            np.testing.assert_allclose(got, want, rtol=1e-6)
            assert got.dtype == want.dtype


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_medians(row):
    for dtype in (np.float64, np.float32):
        x = np.array(row, dtype)
        agree(np.median, x)
        agree(np.nanmedian, x)
        agree(lambda x: np.median(np.stack([x, x]), axis=1, keepdims=True), x)


def test_the_median_of_float16_does_not_overflow():
    agree(np.median, np.array([4e4, 5e4], np.float16))


@pytest.mark.parametrize("method", TAKING)
def test_quantiles_that_are_elements(method):
    for x in (
        *map(np.array, ROWS[:5]),
        np.array([3, 2**62 + 1, 2**62 + 3]),
        np.array([200, 3, 7, 255], np.uint8),
        np.array([True, False, True]),
    ):
        for q in (0.0, 0.3, 0.5, 0.6, 1.0):
            agree(lambda x, q=q: np.quantile(x, q, method=method), x)


@pytest.mark.parametrize("method", ["midpoint", "averaged_inverted_cdf", "hazen", "linear"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_quantiles_between_elements_keep_the_dtype(method, dtype):
    x = np.array([4, 1, 3, 2], dtype)
    for q in (0.25, 0.5, 0.6):
        agree(lambda x, q=q: np.quantile(x, q, method=method), x)


def test_the_gradient_does_not_read_the_element_between():
    x = np.array([1.0, NAN, 3.0, INF, 5.0])
    agree(lambda x: np.gradient(x), x)
    agree(lambda x: np.gradient(x, 2.0), x)
    agree(lambda x: np.gradient(x, np.arange(5.0) * 3), x)
    agree(lambda x: np.gradient(x, np.array([0.0, 1.0, 3.0, 4.0, 8.0])), x)


def test_the_derivative_of_the_median_beside_infinity():
    np.testing.assert_array_equal(grad(np.median)(np.array([INF, -2.0, 0.0])), [0, 0, 1])
    np.testing.assert_array_equal(
        grad(np.median)(np.array([INF, 1.0, 0.0, -INF])), [0, 0.5, 0.5, 0]
    )


def test_axes_of_an_ellipsis_are_not_summed_in_silence():
    with pytest.raises(ValueError, match="ellipsis"):
        jit(lambda x: np.einsum("i...,i...->i", x, x))(np.ones((2, 3)))
    agree(lambda x: np.einsum("i...,i...->i", x, x), np.ones(3))


def test_histograms_of_complex_numbers_are_refused():
    with pytest.raises(TypeError, match="complex"):
        jit(lambda z: np.histogram(z, 3))(np.array([1j, 2.0]))
