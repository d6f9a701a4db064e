"""Convolutions and correlations of any number of dimensions: direct, or by Fourier transforms."""

import math
from typing import Any, Final

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.lax import conv_general_dilated
from ftrace.numpy.promote import inexact, one_axis, promote, value
from ftrace.scipy.borrowing import scipys

_MODES: Final = ("full", "valid", "same")
_LARGE: Final = 1 << 16  # products of elements from which transforms are less work


def _checked(a: Any, b: Any, mode: str, axes: Any = None) -> tuple[Any, Any]:
    """Two arrays of one dtype and rank, the larger first where only what overlaps is asked for.

    Raises:
        ValueError: another mode; arrays of different rank, or neither at least as large.
    """
    if mode not in _MODES:
        raise ValueError("Acceptable mode flags are 'valid', 'same', or 'full'.")
    a, b = promote(value(a), value(b))
    if typeof(a).ndim != typeof(b).ndim:
        raise ShapeError(
            f"Arrays of shapes {typeof(a).shape} and {typeof(b).shape} were to be convolved.",
            "Both have the same number of axes.",
        )
    along = range(typeof(a).ndim) if axes is None else axes
    if mode == "valid":
        pairs = [(typeof(a).shape[i], typeof(b).shape[i]) for i in along]
        if any(n < k for n, k in pairs):
            if any(n > k for n, k in pairs):
                raise ValueError(
                    "For 'valid' mode, one must be at least as large as the other in every "
                    "dimension"
                )
            return b, a
    return a, b


def _cut(full: Any, a: Any, b: Any, mode: str, axes: Any, late: int = 1) -> Any:
    """What of the full convolution a mode asks for; `late`: 0 rounds the middle up, 1 down."""
    key = [slice(None)] * typeof(full).ndim
    for i in axes:
        n, k = typeof(a).shape[i], typeof(b).shape[i]
        if mode == "same":
            key[i] = slice((k - late) // 2, (k - late) // 2 + n)
        elif mode == "valid":
            key[i] = slice(k - 1, n)
    return full[tuple(key)]


def _direct(a: Any, b: Any) -> Any:
    """The full convolution of real arrays as a sum of products."""
    rank = typeof(a).ndim
    kernel = fnp.flip(b)[None, None]
    padding = [(k - 1, k - 1) for k in typeof(b).shape]
    return conv_general_dilated(a[None, None], kernel, (1,) * rank, padding)[0, 0]


def _full(a: Any, b: Any) -> Any:
    if not typeof(a).ndim:
        return a * b
    if typeof(a).dtype.kind != "c":
        return _direct(a, b)
    ar, ai, br, bi = fnp.real(a), fnp.imag(a), fnp.real(b), fnp.imag(b)
    real = _direct(ar, br) - _direct(ai, bi)
    return real + 1j * (_direct(ar, bi) + _direct(ai, br))


def _by_transforms(a: Any, b: Any, axes: list[int]) -> Any:
    sizes = [typeof(a).shape[i] + typeof(b).shape[i] - 1 for i in axes]
    if typeof(a).dtype.kind == "c":
        whole = fnp.fft.fftn(a, sizes, axes) * fnp.fft.fftn(b, sizes, axes)
        return fnp.fft.ifftn(whole, sizes, axes)
    whole = fnp.fft.rfftn(a, sizes, axes) * fnp.fft.rfftn(b, sizes, axes)
    return fnp.fft.irfftn(whole, sizes, axes)


def _convolved(a: Any, b: Any, mode: str, method: str) -> Any:
    if method not in ("auto", "direct", "fft"):
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    axes = list(range(typeof(a).ndim))
    inexactly = typeof(a).dtype.kind in "fc"
    many = math.prod(typeof(a).shape) * math.prod(typeof(b).shape) > _LARGE
    if axes and (method == "fft" or (method == "auto" and many and inexactly)):
        full = _by_transforms(inexact(a), inexact(b), axes)
        full = full if inexactly else fnp.astype(fnp.round(full), typeof(a).dtype)
    else:
        full = _full(a, b)
    return _cut(full, a, b, mode, axes)


@scipys("scipy.signal")
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """The convolution of two arrays of one rank.

    Args:
        in1, in2: arrays of numbers.
        mode: "full", "valid" (where they overlap wholly) or "same" (as large as in1).
        method: "direct", "fft", or "auto", which takes transforms for many elements.

    Returns:
        An array of their common dtype.

    Raises:
        ValueError: another mode or method, or "valid" where neither array is the larger one.
        ShapeError: arrays of different rank.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.signal import convolve
        >>> convolve(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
        array([1., 3., 2.])
    """
    a, b = _checked(in1, in2, mode)
    return _convolved(a, b, mode, method)


@scipys("scipy.signal")
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """The cross-correlation of two arrays: the sum of in1[l + k] conj(in2[l]).

    Args:
        in1, in2, mode, method: as in `convolve`.

    Returns:
        An array of their common dtype.

    Raises:
        ValueError, ShapeError: as in `convolve`.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.signal import correlate
        >>> correlate(np.array([1.0, 2.0]), np.array([0.0, 1.0]))
        array([1., 2., 0.])
    """
    return convolve.__wrapped__(  # type: ignore[attr-defined]
        in1, fnp.conj(fnp.flip(value(in2))), mode, method
    )


def _along(a: Any, axes: Any) -> list[int]:
    rank = typeof(value(a)).ndim
    given = range(rank) if axes is None else axes if type(axes) in (list, tuple) else (axes,)
    return [one_axis(i, rank) for i in given]


@scipys("scipy.signal")
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """The convolution of two arrays by Fourier transforms.

    Args:
        in1, in2, mode: as in `convolve`.
        axes: along which; the others are broadcast.

    Returns:
        An array of floats or complex numbers.

    Raises:
        ValueError, ShapeError: as in `convolve`.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.signal import fftconvolve
        >>> fftconvolve(np.array([1.0, 2.0]), np.array([1.0, 1.0])).round(6)
        array([1., 3., 2.])
    """
    along = _along(in1, axes)
    a, b = map(inexact, _checked(in1, in2, mode, along))
    if not along:
        return a * b
    return _cut(_by_transforms(a, b, along), a, b, mode, along)


@scipys("scipy.signal")
def oaconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """The same as `fftconvolve`: SciPy's way to compute it differs.

    Args:
        in1, in2, mode, axes: as in `fftconvolve`.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.signal import oaconvolve
        >>> oaconvolve(np.array([1.0, 2.0]), np.array([1.0, 1.0])).round(6)
        array([1., 3., 2.])
    """
    return fftconvolve.__wrapped__(in1, in2, mode, axes)  # type: ignore[attr-defined]


_BOUNDARIES: Final = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}


@scipys("scipy.signal")
def convolve2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0
) -> Any:
    """The convolution of two matrices.

    Args:
        in1, in2, mode: as in `convolve`.
        boundary: what is outside of in1: "fill", "wrap" or "symm".
        fillvalue: the value outside, for "fill".

    Returns:
        A matrix of their common dtype.

    Raises:
        ValueError: another mode or boundary.
        DtypeError: what is no matrix.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.signal import convolve2d
        >>> convolve2d(np.ones((2, 2)), np.array([[1.0, 2.0]]))
        array([[1., 3., 2.],
               [1., 3., 2.]])
    """
    return _of_matrices(in1, in2, mode, (boundary, fillvalue), 1)


def _of_matrices(in1: Any, in2: Any, mode: str, outside: tuple[str, Any], late: int) -> Any:
    a, b = _checked(in1, in2, mode)
    boundary, fill = outside
    if boundary not in _BOUNDARIES:
        raise ValueError("Acceptable boundary flags are 'fill', 'wrap' and 'symm'.")
    if typeof(a).ndim != 2:
        raise DtypeError("convolve2d takes matrices.", "Use convolve for another rank.")
    if mode == "valid":
        return _convolved(a, b, mode, "auto")
    margin = [(k - 1, k - 1) for k in typeof(b).shape]
    options = {"constant_values": fill} if boundary == "fill" else {}
    wide = fnp.pad(a, margin, _BOUNDARIES[boundary], **options)
    full = _convolved(wide, b, "valid", "auto")
    return _cut(full, a, b, mode, (0, 1), late)


@scipys("scipy.signal")
def correlate2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0
) -> Any:
    """The cross-correlation of two matrices.

    Args:
        in1, in2, mode, boundary, fillvalue: as in `convolve2d`.

    Returns:
        A matrix of their common dtype.

    Raises:
        ValueError, DtypeError: as in `convolve2d`.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.signal import correlate2d
        >>> correlate2d(np.ones((1, 2)), np.array([[1.0, 2.0]]))
        array([[2., 3., 1.]])
    """
    return _of_matrices(in1, fnp.conj(fnp.flip(value(in2))), mode, (boundary, fillvalue), 0)
