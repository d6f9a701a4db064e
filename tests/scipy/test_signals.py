"""ftrace.scipy.signal, ndimage and cluster: SciPy's values in all modes, and derivatives."""

from typing import Any

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.ndimage
import scipy.signal

import ftrace
from ftrace.core.config import update
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.scipy import cluster, ndimage, signal
from tests.scipy.agreeing import CHECKS

RNG = np.random.default_rng(0)
N = RNG.normal
B, A = scipy.signal.butter(3, 0.3)
SOS = scipy.signal.butter(4, 0.3, output="sos")
MODES = ("full", "same", "valid")
SIZES = (((5,), (3,)), ((3,), (5,)), ((4, 5), (2, 3)), ((6, 3, 4), (2, 2, 2)))


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    """Staged programs are interpreted: what is compiled has tests of its own."""
    with update(compile=False):
        yield


def agree(ours: Any, theirs: Any, name: str, *args: Any, **options: Any) -> None:
    """The function staged, of its arrays, and SciPy's."""
    f, moving = getattr(ours, name), [isinstance(a, np.ndarray) for a in args]

    def program(*xs: Any) -> Any:
        given = iter(xs)
        return f(*(next(given) if m else a for m, a in zip(moving, args, strict=True)), **options)

    found = ftrace.jit(program)(*(a for m, a in zip(moving, args, strict=True) if m))
    expected = getattr(theirs, name)(*args, **options)
    several = isinstance(expected, tuple)
    for a, b in zip(found, expected, strict=True) if several else ((found, expected),):
        assert a.dtype == b.dtype
        single = np.finfo(b.dtype).eps > 1e-10 if b.dtype.kind in "fc" else False
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-6 if single else 1e-11)


def signals(name: str, *args: Any, **options: Any) -> None:
    agree(signal, scipy.signal, name, *args, **options)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve"])
def test_convolutions(name: str, mode: str) -> None:
    for a, b in SIZES:
        signals(name, N(size=a), N(size=b), mode=mode)
    signals(name, N(size=5) + 1j * N(size=5), N(size=3) + 1j * N(size=3), mode=mode)
    signals(name, N(size=5).astype("f4"), N(size=3).astype("f4"), mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_convolutions_of_integers_and_of_many_elements(mode: str) -> None:
    big = np.array([1 << 61, 3, 1])
    signals("convolve", big, np.array([1, 2]), mode=mode)
    signals("convolve", N(size=400), N(size=300), mode=mode)
    signals("convolve", N(size=5), N(size=3), mode=mode, method="fft")


@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_convolutions_of_matrices(name: str, boundary: str) -> None:
    a, b = N(size=(5, 4)), N(size=(3, 2))
    for mode in MODES:
        signals(name, a, b, mode=mode, boundary=boundary)
    signals(name, a, b, fillvalue=2.0)


def test_convolutions_along_axes() -> None:
    signals("fftconvolve", N(size=(3, 5)), N(size=(3, 2)), axes=1)
    signals("oaconvolve", N(size=20), N(size=3))


def test_filters() -> None:
    x = N(size=(2, 9))
    signals("lfilter", B, A, x)
    signals("lfilter", B, A, x.T.copy(), axis=0)
    signals("lfilter", B, A, x, zi=N(size=(2, 3)))
    for b, a in ((B, np.array([2.0])), (np.array([0.5]), A), (np.array([2.0]), np.array([3.0]))):
        signals("lfilter", b, a, x)
    signals("sosfilt", SOS, x)
    signals("sosfilt", SOS, x[0], zi=N(size=(2, 2)))
    for options in ({}, {"type": "constant"}, {"bp": [3, 6]}, {"axis": 0}):
        signals("detrend", N(size=(9, 9)), **options)


SPECTRA: list[dict[str, Any]] = [
    {"nperseg": 16},
    {"nperseg": 15, "noverlap": 3, "average": "median"},
    {"nperseg": 16, "scaling": "spectrum", "fs": 10.0, "nfft": 20, "detrend": "linear"},
    {"nperseg": 16, "detrend": False, "return_onesided": False, "window": "hamming"},
    {"window": np.hanning(16)},
]


@pytest.mark.parametrize("options", SPECTRA)
def test_spectra(options: dict[str, Any]) -> None:
    x, y = N(size=(2, 64)), N(size=(2, 64))
    signals("csd", x, y, **options)
    signals("welch", x, **options)
    signals("periodogram", x, window="hann", fs=3.0, nfft=128)
    signals("csd", x + 1j * y, y, nperseg=16)


IMAGE_MODES = (
    *("constant", "grid-constant", "nearest", "wrap", "grid-wrap", "mirror", "reflect"),
    "grid-mirror",
)


@pytest.mark.parametrize("mode", IMAGE_MODES)
def test_images_between_pixels(mode: str) -> None:
    image, at = N(size=(5, 4)), RNG.uniform(-7, 9, size=(2, 6, 5))
    at[:, 0] = np.round(at[:, 0])
    for order in (0, 1):
        agree(
            *(ndimage, scipy.ndimage, "map_coordinates", image, at),
            order=order,
            mode=mode,
            cval=0.7,
        )
    whole = np.arange(20).reshape(5, 4)
    agree(ndimage, scipy.ndimage, "map_coordinates", whole, at, order=1, mode=mode)
    agree(ndimage, scipy.ndimage, "map_coordinates", image[:1], at, order=1, mode=mode)


def test_nearest_centroids() -> None:
    agree(cluster.vq, scipy.cluster.vq, "vq", N(size=(6, 3)), N(size=(2, 3)))


DIFFERENTIATED: list[tuple[Any, tuple[Any, ...]]] = [
    (signal.convolve, (N(size=5), N(size=3))),
    (signal.correlate, (N(size=(4, 3)), N(size=(2, 2)))),
    (signal.fftconvolve, (N(size=5), N(size=3))),
    (lambda a, b: signal.convolve2d(a, b, boundary="symm"), (N(size=(4, 3)), N(size=(2, 2)))),
    (signal.lfilter, (B, A, N(size=9))),
    (lambda x: signal.sosfilt(SOS, x), (N(size=9),)),
    (signal.detrend, (N(size=7),)),
    (lambda x, y: signal.csd(x, y, nperseg=8)[1], (N(size=32), N(size=32))),
    (lambda x: signal.welch(x, nperseg=8)[1], (N(size=32),)),
    (lambda x, b: cluster.vq.vq(x, b)[1], (N(size=(6, 3)), N(size=(2, 3)))),
    *(
        (
            lambda x, at, m=mode: ndimage.map_coordinates(x, at, order=1, mode=m),
            (N(size=(5, 4)), RNG.uniform(-3, 6, size=(2, 7))),
        )
        for mode in ("constant", "mirror", "grid-wrap", "wrap")
    ),
]


@pytest.mark.parametrize(("f", "xs"), DIFFERENTIATED)
def test_derivatives_and_maps(f: Any, xs: tuple[Any, ...]) -> None:
    for name in ("jvp", "vjp", "vmap"):
        CHECKS[name](f, xs)


def test_bad_arguments_are_named() -> None:
    x = np.ones((2, 3))
    with pytest.raises(ShapeError, match="were to be convolved"):
        ftrace.jit(signal.convolve)(x, x[0])
    with pytest.raises(ValueError, match="Acceptable mode flags"):
        ftrace.jit(lambda x: signal.convolve(x, x, "some"))(x)
    with pytest.raises(ValueError, match="at least as large as the other"):
        ftrace.jit(lambda x: signal.convolve(x, np.ones((1, 5)), "valid"))(x)
    with pytest.raises(DtypeError, match="takes matrices"):
        ftrace.jit(signal.convolve2d)(x[0], x[0])
    with pytest.raises(ShapeError, match="given a state of shape"):
        ftrace.jit(lambda x: signal.lfilter(B, A, x, zi=np.ones((2, 9))))(x)
    with pytest.raises(ShapeError, match="vq was given observations"):
        ftrace.jit(cluster.vq.vq)(x, np.ones((2, 2)))


def test_a_filter_compiled() -> None:
    x = N(size=50)
    with update(compile=True):
        f = ftrace.jit(ftrace.grad(lambda b: np.sum(signal.lfilter(b, A, x) ** 2)))
        found = f(B)
    np.testing.assert_allclose(
        found,
        2
        * np.array(
            [
                np.sum(scipy.signal.lfilter(B, A, x) * scipy.signal.lfilter(e, A, x))
                for e in np.eye(4)
            ]
        ),
    )


def test_sawtooth_and_medfilt2d_have_dtypes_of_scipys() -> None:
    for dtype in ("f4", "i4", "f8"):
        t, image = np.arange(6).astype(dtype), np.arange(12).reshape(3, 4).astype(dtype) ** 2 % 7
        widths: Any = (1, 0.5, np.float32(0.25))
        for width in widths:
            found = ftrace.jit(lambda t, w=width: scipy.signal.sawtooth(t, w))(t)
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, scipy.signal.sawtooth(t, width), atol=1e-6)
        found, expected = ftrace.jit(scipy.signal.medfilt2d)(image), scipy.signal.medfilt2d(image)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
