"""Estimates of spectra by averages over windowed segments: csd, welch, periodogram."""

from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import RuleError, ShapeError
from ftrace.core.lazy import lazy
from ftrace.numpy.indexing import getitem
from ftrace.numpy.promote import known, one_axis, promote_inexact, static_int, value
from ftrace.scipy.borrowing import scipys
from ftrace.scipy.signal.filtering import detrend as without_trend

_window = lazy("scipy.signal", "get_window")


def _segments(x: Any, n: int, step: int, detrend: Any) -> Any:
    """Overlapping pieces along the last axis, each without its trend."""
    count = (typeof(x).shape[-1] - n) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(n)
    pieces = getitem(x, (..., places))
    if detrend is False:
        return pieces
    if callable(detrend):
        return detrend(pieces)
    return without_trend.__wrapped__(pieces, -1, detrend)  # type: ignore[attr-defined]


def _mean(spectra: Any, average: str) -> Any:
    """The mean or the median of spectra; the median of a few is biased, and corrected for it."""
    if average == "mean":
        return fnp.mean(spectra, axis=-2)
    n = typeof(spectra).shape[-2]
    even = 2.0 * np.arange(1, (n - 1) // 2 + 1)
    bias = 1 + np.sum(1.0 / (even + 1) - 1.0 / even)
    if typeof(spectra).dtype.kind == "c":
        real = fnp.median(fnp.real(spectra), axis=-2)
        return (real + 1j * fnp.median(fnp.imag(spectra), axis=-2)) / bias
    return fnp.median(spectra, axis=-2) / bias


@scipys("scipy.signal")
def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """The cross power spectral density of two signals, by Welch's method.

    Args:
        x, y: signals of one size along the axis.
        fs: how many samples there are in a unit of time.
        window: a name, a pair of name and parameter, or a vector that is not traced.
        nperseg, noverlap, nfft: the length of segments, of their overlap and of the transform.
        detrend: "constant", "linear", a function, or False.
        return_onesided: of real signals only frequencies from 0.
        scaling: "density" or "spectrum".
        axis: an integer.
        average: "mean" or "median" over segments.

    Returns:
        Frequencies and densities.

    Raises:
        ValueError: another scaling, or an overlap of whole segments.
        ShapeError: signals of different lengths.
        RuleError: a traced window.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.signal import csd
        >>> x = np.cos(np.arange(16.0))
        >>> csd(x, x, nperseg=8)[1].real.argmax()
        np.int64(1)
    """
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"Unknown scaling: {scaling!r}")
    if type(fs) in (int, float) and fs <= 0:
        raise ValueError(f"Sampling frequency fs={fs} must be positive!")
    if average not in ("mean", "median"):
        raise ValueError(f"Parameter average={average!r} must be 'median' or 'mean'!")
    x, y = promote_inexact(value(x), value(y))
    axis = one_axis(axis, typeof(x).ndim)
    x, y = (fnp.moveaxis(v, axis, -1) for v in (x, y))
    n = typeof(x).shape[-1]
    if typeof(y).shape[-1] != n:
        raise ShapeError(f"Signals of {n} and {typeof(y).shape[-1]} samples.", "Cut the longer.")
    w = _weights(window, nperseg, n)
    m = len(w)
    overlap = m // 2 if noverlap is None else static_int(noverlap, "noverlap")
    size = m if nfft is None else static_int(nfft, "nfft")
    if overlap >= m or size < m:
        raise ValueError("noverlap must be less than nperseg, and nfft not less.")
    real = typeof(x).dtype.kind != "c" and return_onesided
    transform = fnp.fft.rfft if real else fnp.fft.fft
    spectra = [
        transform(_segments(v, m, m - overlap, detrend) * w.astype(typeof(v).dtype), size)
        for v in (x, y)
    ]
    scale = 1 / (fs * np.sum(w * w)) if scaling == "density" else 1 / np.sum(w) ** 2
    product = fnp.conj(spectra[0]) * spectra[1] * scale
    if real:
        twice = np.full(typeof(product).shape[-1], 2.0)
        twice[0] = 1
        if size % 2 == 0:
            twice[-1] = 1
        product = product * twice.astype(fnp.real(product).dtype)
    frequencies = (fnp.fft.rfftfreq if real else fnp.fft.fftfreq)(size, 1 / fs)
    return frequencies, fnp.moveaxis(_mean(product, average), -1, axis)


def _weights(window: Any, nperseg: Any, n: int) -> Any:
    """The window, at most as long as the signal."""
    if type(window) in (str, tuple):
        m = min(256 if nperseg is None else static_int(nperseg, "nperseg"), n)
        return np.asarray(_window(window, m))
    w = np.asarray(known(window, "a window"))
    if w.ndim != 1 or len(w) > n:
        raise RuleError(f"A window of shape {w.shape} for {n} samples.", "Pass a shorter vector.")
    return w


@scipys("scipy.signal")
def welch(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """The power spectral density of a signal, by Welch's method.

    Args:
        x: a signal.
        fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average: as
            in `csd`.

    Returns:
        Frequencies and densities.

    Raises:
        ValueError, RuleError: as in `csd`.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.signal import welch
        >>> welch(np.cos(np.arange(16.0)), nperseg=8)[1].argmax()
        np.int64(1)
    """
    found = csd.__wrapped__(  # type: ignore[attr-defined]
        *(x, x, fs, window, nperseg, noverlap, nfft, detrend),
        *(return_onesided, scaling, axis, average),
    )
    return found[0], fnp.real(found[1])


@scipys("scipy.signal")
def periodogram(
    x: Any,
    fs: Any = 1.0,
    window: Any = "boxcar",
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
) -> tuple[Any, Any]:
    """The power spectral density of a signal in one segment.

    Args:
        x: a signal.
        fs, window, nfft, detrend, return_onesided, scaling, axis: as in `csd`; nfft is at least
            the signal's length.

    Returns:
        Frequencies and densities.

    Raises:
        ValueError, RuleError: as in `csd`.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.signal import periodogram
        >>> periodogram(np.cos(np.arange(16.0)))[1].argmax()
        np.int64(3)
    """
    n = typeof(value(x)).shape[axis]
    if type(window) not in (str, tuple) and np.shape(window) != (n,):
        raise ShapeError(f"A window of shape {np.shape(window)} for {n} samples.", "Give one each.")
    return welch.__wrapped__(  # type: ignore[attr-defined]
        *(x, fs, window, n, 0, nfft, detrend, return_onesided, scaling, axis)
    )
