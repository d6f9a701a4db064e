"""Convolutions as kernels: few products for an element, or few elements."""

from functools import partial

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.numpy import numerics
from ftrace.primitives.conv import MOST, TERMS

rng = np.random.default_rng(8)


def compiled(f, *args):
    """The result, by code that calls no Python."""
    run = ftrace.jit(f)
    assert not run.lower(*args).cost().callbacks
    return run(*args)


@pytest.fixture(params=[False, True])
def slices(request, monkeypatch):
    """Whether products are written out for few of them, too."""
    if request.param:
        monkeypatch.setattr(numerics, "FEW", 0)
        monkeypatch.setattr(numerics, "MANY", 0)
    return request.param


@pytest.mark.sampled(3, each="m")
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("m", [1, 2, TERMS - 1, TERMS, TERMS + 1, 2 * TERMS, 2 * TERMS + 3])
def test_convolutions_of_vectors_call_no_python(slices, m, mode):
    x, w = rng.normal(size=300), rng.normal(size=m)
    for f in (fnp.convolve, fnp.correlate):
        got = compiled(partial(f, mode=mode), x, w)
        np.testing.assert_allclose(got, getattr(np, f.__name__)(x, w, mode), atol=1e-12)
    got = compiled(lambda x, w: fnp.convolve(x, w, mode), w, x)
    np.testing.assert_allclose(got, np.convolve(w, x, mode), atol=1e-12)


@pytest.mark.parametrize("m", [5, TERMS + 1])
def test_their_gradients_call_none(slices, m):
    x, w, c = rng.normal(size=300), rng.normal(size=m), rng.normal(size=300 + m - 1)
    dx, dw = compiled(ftrace.grad(lambda x, w: (fnp.convolve(x, w) * c).sum(), (0, 1)), x, w)
    np.testing.assert_allclose(dx, np.correlate(c, w, "valid"), atol=1e-12)
    np.testing.assert_allclose(dw, np.correlate(c, x, "valid"), atol=1e-12)


@pytest.mark.parametrize("dtype", ["i8", "u1", "?", "f2", "f4", "c16"])
def test_every_dtype_is_convolved_as_by_numpy(dtype):
    x = (rng.normal(size=90) * 3).astype(dtype)
    w = (rng.normal(size=7) * 3).astype(dtype)
    got, want = compiled(fnp.convolve, x, w), np.convolve(x, w)
    assert got.dtype == want.dtype
    exact = x.dtype.kind in "iub"
    small = {"f2": 2e-2, "f4": 1e-5}.get(dtype, 1e-13)
    np.testing.assert_allclose(got, want, rtol=0 if exact else small, atol=0 if exact else small)


def test_what_is_not_finite_reaches_its_windows_only(slices):
    x = rng.normal(size=40)
    x[[3, 20]] = np.inf, np.nan
    got = compiled(lambda x: fnp.convolve(x, np.array([1.0, 0.0, 2.0])), x)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(np.convolve(x, [1.0, 0.0, 2.0])))


@pytest.mark.parametrize(
    ("x", "k", "options", "kernels"),
    [
        ((2, 1, 9, 8), (MOST, 1, 3, 3), {}, True),
        ((2, 1, 9, 8), (MOST + 1, 1, 3, 3), {}, False),
        ((2, 3, 9, 8), (1, 3, 2, 3), {"window_strides": (2, 3)}, False),
        ((2, 3, 9, 8), (1, 3, 2, 3), {"rhs_dilation": (2, 1), "padding": "VALID"}, False),
        ((2, 4, 9, 8), (2, 2, 3, 3), {"feature_group_count": 2}, True),
        ((2, 8, 9, 8), (2, 8, 3, 3), {}, False),  # more products than are written out
        ((1, 2, 30, 9), (2, 2, 28, 8), {"padding": "VALID"}, True),  # few elements
        ((1, 2, 9, 8), (1, 2, 8, 7), {"padding": ((4, 5), (4, 3))}, False),
    ],
)
def test_images_of_few_channels_are_kernels(x, k, options, kernels):
    options = {"window_strides": (1, 1), "padding": "SAME"} | options
    x, k = rng.normal(size=x), rng.normal(size=k)

    def f(x, k):
        return lax.conv_general_dilated(x, k, **options)

    run = ftrace.jit(f)
    lowered = run.lower(x, k)
    assert not lowered.cost().callbacks
    assert (not lowered.program.loops) == kernels
    np.testing.assert_allclose(run(x, k), f(x, k), atol=1e-12)


def test_derivatives_of_small_convolutions_call_no_python():
    a, b = rng.normal(size=20), rng.normal(size=5)
    for f, args in (
        (ftrace.jacrev(fnp.poly), (a[:8],)),
        (ftrace.jacfwd(fnp.convolve, 1), (a, b)),
        (ftrace.hessian(lambda a, b: (fnp.convolve(a, b) ** 2).sum(), (0, 1)), (a, b)),
        (ftrace.vmap(fnp.convolve, (None, 0)), (a, rng.normal(size=(6, 5)))),
    ):
        assert not ftrace.jit(f).lower(*args).cost().callbacks


def test_halves_are_added_up_in_float32():
    x, y = np.full(300, 400, "f2"), np.full(200, 4, "f2")
    y[100:] *= -1
    got = compiled(lambda x, y: fnp.correlate(x, y, "valid"), x, y)
    np.testing.assert_array_equal(got, np.zeros(101, "f2"))
