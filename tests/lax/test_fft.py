"""`lax.fft` against NumPy, with JAX's arguments."""

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.core.errors import DomainError, DtypeError, ShapeError
from ftrace.lax import FftType

rng = np.random.default_rng(9)
X = rng.normal(size=(2, 3, 4, 6))


@pytest.mark.parametrize("wrap", [lambda f: f, ftrace.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_transforms_are_those_of_numpy_along_the_last_axes(rank, wrap):
    axes = tuple(range(-rank, 0))
    sizes = X.shape[X.ndim - rank :]

    def run(x, kind, lengths):
        return wrap(lambda v: lax.fft(v, kind, lengths))(x)

    if not rank:
        np.testing.assert_array_equal(run(X, FftType.FFT, ()), X.astype(complex))
        return
    whole, half = np.fft.fftn(X, axes=axes), np.fft.rfftn(X, axes=axes)
    for kind, x, want in (
        (FftType.FFT, X, whole),
        ("IFFT", whole, X.astype(complex)),
        (2, X, half),
        (FftType.IRFFT, half, X),
    ):
        got = run(x, kind, sizes)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_mistakes_are_named():
    for args, error, phrase in (
        ((X, FftType.FFT, (5,)), ShapeError, "must be \\(5,\\)"),
        ((X, FftType.FFT, (1, 1, 1, 1, 1)), ShapeError, "for lengths"),
        ((X + 1j, FftType.RFFT, (6,)), DtypeError, "RFFT was given"),
        ((X, FftType.IRFFT, (6,)), ShapeError, "must be \\(4,\\)"),
        ((X, "DCT", (6,)), DomainError, "Use FFT, IFFT, RFFT, IRFFT"),
        ((X, 7, (6,)), DomainError, "given the type 7"),
    ):
        for call in (lax.fft, lambda x, *rest: ftrace.jit(lambda v: lax.fft(v, *rest))(x)):
            with pytest.raises(error, match=phrase):
                call(*args)


def test_nothing_is_shared_with_the_operand():
    z = X + 1j
    assert lax.fft(z, "FFT", ()) is not z
    assert not np.shares_memory(lax.fft(z, "FFT", ()), z)
