"""`ftrace.numpy.fft`: discrete Fourier transforms, as `numpy.fft` has them.

Every transform is the row `fft` along one axis after the other, real ones along the last first.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import typeof
from ftrace.core.device import free
from ftrace.core.errors import DtypeError
from ftrace.core.source import warn
from ftrace.core.trace import Tracer
from ftrace.numpy import ufuncs, views
from ftrace.numpy.promote import (
    cast,
    member_of,
    one_axis,
    static_int,
    strong,
    value,
)
from ftrace.numpy.shaping import roll
from ftrace.primitives.arithmetic import conj
from ftrace.primitives.convert import copy as copy_row
from ftrace.primitives.fourier import KINDS
from ftrace.primitives.fourier import fft as fft_row

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

SCALES: Final[tuple[dict[Any, str], ...]] = (  # by norm; of transforms, and of transforms back
    {None: "1", "backward": "1", "ortho": "1/sqrt(n)", "forward": "1/n"},
    {None: "1/n", "backward": "1/n", "ortho": "1/sqrt(n)", "forward": "1"},
)


fft_function = member_of(np.fft)


# ---------------------------------------------------------------------------------- one axis


def transform(
    kind: str, a: Any, n: Any, axis: Any, norm: Any, *, backward: bool | None = None
) -> Any:
    """A transform along one axis.

    Args:
        kind: of the row.
        a: anything array-like.
        n: the number of points; None for all there are.
        axis, norm: as NumPy has them.
        backward: whether `norm` is that of a transform back; by default as the kind is.

    Raises:
        ValueError: fewer points than one, or another norm than there is.
        AxisError: there is no such axis.
    """
    x = strong(value(a))
    shape, given = typeof(x).shape, typeof(x).dtype
    if n is None:
        size = shape[one_axis(axis, len(shape))]
        n = 2 * (size - 1) if kind == "irfft" else size
    if type(n) is bool:
        raise DtypeError("A number of points must be an integer, not a bool.", "Pass an int.")
    length = static_int(n, "n")
    if length < 1:
        raise ValueError(f"Invalid number of FFT data points ({length}) specified.")
    scales = SCALES[kind in ("ifft", "irfft") if backward is None else backward]
    if type(norm) not in (str, type(None)) or norm not in scales:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    x = cast(x, taken(given, KINDS[kind]))
    along = one_axis(axis, len(shape))
    found = fft_row(x, kind=kind, length=length, axis=along, scale=scales[norm])
    return cast(found, given) if kind == "irfft" and given == np.float16 else found


def taken(dtype: np.dtype[Any], kind: str) -> np.dtype[Any]:
    """What a transform computes in, given a dtype.

    Args:
        dtype: of the operand.
        kind: of the numbers that the transform takes, "c" or "f".
    """
    found = np.dtype(np.float64) if dtype.kind in "biu" else dtype
    if kind == "c":
        return dtypes.complex_dtype(found)
    return np.dtype(np.float32) if found == np.float16 else found


@fft_function
def fft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """The discrete Fourier transform along an axis."""
    return _put(transform("fft", a, n, axis, norm), out)


@fft_function
def ifft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """The inverse of the discrete Fourier transform along an axis."""
    return _put(transform("ifft", a, n, axis, norm), out)


@fft_function
def rfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """The first half of the discrete Fourier transform of real numbers."""
    return _put(transform("rfft", a, n, axis, norm), out)


@fft_function
def irfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """The real numbers whose transform begins so: the inverse of `rfft`."""
    return _put(transform("irfft", a, n, axis, norm), out)


@fft_function
def hfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """The transform, which is real, of numbers of which the second half mirrors the first."""
    x = strong(value(a))
    x = conj(x) if typeof(x).dtype.kind == "c" else x
    return _put(transform("irfft", x, n, axis, norm, backward=False), out)


@fft_function
def ihfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
    """The inverse of `hfft`: the first half of what it is given."""
    return _put(conj(transform("rfft", a, n, axis, norm, backward=True)), out)


def _put(found: Any, out: Any) -> Any:
    """A result, in an array of its shape if one is given."""
    if out is not None and np.shape(out) != typeof(found).shape:
        raise ValueError("output array has wrong shape.")
    return ufuncs.finish(np.conjugate, found, out)


# ---------------------------------------------------------------------------------- several axes


def _all_axes(x: Any, s: Any, axes: Any) -> tuple[list[Any], list[int]]:
    """The number of points along each of some axes."""
    shape = typeof(x).shape
    if axes is None:
        axes = range(-len(shape if s is None else s), 0)
        if s is not None:
            _deprecated("`axes` should not be `None` if `s` is not `None`")
    axes = [static_int(a, "an axis") for a in axes]
    whole = [shape[one_axis(a, len(shape))] for a in axes]
    if s is None:
        return whole, axes
    if len(s) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    if None in s:
        _deprecated("Passing an array containing `None` values to `s`")
    return [m if n in (None, -1) else n for n, m in zip(s, whole, strict=True)], axes


def _deprecated(what: str) -> None:
    warn(f"{what} is deprecated in NumPy 2.0.", DeprecationWarning)


def _along(kind: str, x: Any, points: Sequence[int], axes: Sequence[int], norm: Any) -> Any:
    """A transform along several axes, one after the other."""
    for n, axis in zip(points, axes, strict=True):
        x = transform(kind, x, n, axis, norm)
    return x


def _backwards(kind: str, a: Any, s: Any, axes: Any, norm: Any) -> Any:
    """A transform along several axes, the last first."""
    x = strong(value(a))
    points, axes = _all_axes(x, s, axes)
    if not axes:
        return views.same(x) if isinstance(x, Tracer) else copy_row(x)
    return _along(kind, x, points[::-1], axes[::-1], norm)


@fft_function
def fftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """The discrete Fourier transform along several axes."""
    return _put(_backwards("fft", a, s, axes, norm), out)


@fft_function
def ifftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """The inverse of the discrete Fourier transform along several axes."""
    return _put(_backwards("ifft", a, s, axes, norm), out)


@fft_function
def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """The discrete Fourier transform along two axes."""
    return fftn(a, s, axes, norm, out)


@fft_function
def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """The inverse of the discrete Fourier transform along two axes."""
    return ifftn(a, s, axes, norm, out)


@fft_function
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """The transform of real numbers along several axes; half of it along the last."""
    x = strong(value(a))
    points, axes = _all_axes(x, s, axes)
    found = transform("rfft", x, points[-1], axes[-1], norm)
    return _put(_along("fft", found, points[-2::-1], axes[-2::-1], norm), out)


@fft_function
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """The real numbers whose transform along several axes begins so: the inverse of `rfftn`."""
    x = strong(value(a))
    points, axes = _all_axes(x, s, axes)
    last = None if s is None or s[-1] is None else points[-1]
    found = _along("ifft", x, points[:-1], axes[:-1], norm)
    return _put(transform("irfft", found, last, axes[-1], norm), out)


@fft_function
def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """The transform of real numbers along two axes; half of it along the last."""
    return rfftn(a, s, axes, norm, out)


@fft_function
def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """The real numbers whose transform along two axes begins so: the inverse of `rfft2`."""
    return irfftn(a, s, axes, norm, out)


# ---------------------------------------------------------------------------------- frequencies


def _frequencies(numbers: Any, n: int, d: Any) -> Any:
    step = ufuncs.apply(np.divide, 1.0, ufuncs.apply(np.multiply, n, d))
    return ufuncs.apply(np.multiply, free(numbers), step)


def _count(n: Any) -> int:
    if not issubclass(type(n), int | np.integer):
        raise ValueError("n should be an integer")
    return int(n)


@fft_function
def fftfreq(n: Any, d: Any = 1.0, device: Any = None) -> Any:
    """The frequencies of the points of a transform: from zero up, then those below zero."""
    half = (_count(n) - 1) // 2 + 1
    numbers = np.concatenate([np.arange(half), np.arange(-(n // 2), 0)])
    return _frequencies(numbers, n, d)


@fft_function
def rfftfreq(n: Any, d: Any = 1.0, device: Any = None) -> Any:
    """The frequencies of the points of half a transform."""
    return _frequencies(np.arange(_count(n) // 2 + 1), n, d)


@fft_function
def fftshift(x: Any, axes: Any = None) -> Any:
    """The frequency zero moved to the middle."""
    return _shifted(value(x), axes, lambda n: n // 2)


@fft_function
def ifftshift(x: Any, axes: Any = None) -> Any:
    """The inverse of `fftshift`."""
    return _shifted(value(x), axes, lambda n: -(n // 2))


def _shifted(x: Any, axes: Any, places: Callable[[int], int]) -> Any:
    shape = typeof(x).shape
    if axes is None:
        axes = tuple(range(len(shape)))
    elif issubclass(type(axes), int | np.integer):
        axes = (axes,)
    axes = tuple(one_axis(a, len(shape)) for a in axes)
    return roll(x, tuple(places(shape[a]) for a in axes), axes)
