"""`lax.fft`: Fourier transforms along the last axes, with JAX's arguments."""

import enum
from collections.abc import Sequence
from typing import Any

from ftrace.core.avals import typeof
from ftrace.core.errors import DomainError, DtypeError, ShapeError
from ftrace.lax.binding import as_dtype, bind, ints, own
from ftrace.numpy.fft import taken
from ftrace.primitives.convert import copy
from ftrace.primitives.fourier import KINDS
from ftrace.primitives.fourier import fft as fft_row


class FftType(enum.IntEnum):
    """What `lax.fft` does: `RFFT` and `IRFFT` go between real numbers and half a spectrum."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def fft(x: Any, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Any:
    """The discrete Fourier transform along the last axes.

    Args:
        x: an array of floats, real ones for `RFFT`.
        fft_type: an `FftType`, or its name: `IFFT` and `IRFFT` divide by the number of points.
        fft_lengths: the sizes of the last axes; for `IRFFT` those of the result.

    Returns:
        complex numbers in the shape of x, half of them along the last axis for `RFFT`; real ones
        for `IRFFT`, with `fft_lengths` as their last sizes.

    Raises:
        ShapeError: x has other sizes.
        DtypeError: complex numbers for `RFFT`.
        DomainError: another type of transform than there is.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.fft(np.array([1.0, 2.0, 3.0, 2.0]), lax.FftType.RFFT, (4,))
        array([ 8.+0.j, -2.+0.j,  0.+0.j])
    """
    kind = _named(fft_type).name.lower()
    lengths = ints(fft_lengths, "the lengths of lax.fft")
    if kind == "rfft" and typeof(x).dtype.kind == "c":
        raise DtypeError(f"lax.fft: RFFT was given {typeof(x)}.", "Use FFT, or the real part.")
    x = as_dtype(x, taken(typeof(x).dtype, KINDS[kind]))
    a, first = typeof(x), typeof(x).ndim - len(lengths)
    wanted = (*lengths[:-1], lengths[-1] // 2 + 1) if kind == "irfft" and lengths else lengths
    if first < 0 or a.shape[first:] != wanted:
        raise ShapeError(
            f"lax.fft was given {a} for lengths {lengths}.", f"Its last axes must be {wanted}."
        )
    if not lengths:
        return bind(copy, x)
    steps = [*enumerate(lengths, first)]
    back = kind in ("ifft", "irfft")
    inner = "ifft" if back else "fft"
    real = kind in ("rfft", "irfft")
    kinds = [inner] * (len(steps) - real) + [kind] * real
    order = [*zip(kinds, steps, strict=True)]
    given = x
    for name, (axis, n) in order if back else reversed(order):
        x = fft_row(x, kind=name, length=n, axis=axis, scale="1/n" if back else "1")
    return own(x, given)


def _named(fft_type: Any) -> FftType:
    try:
        return FftType[fft_type] if type(fft_type) is str else FftType(fft_type)
    except (KeyError, ValueError):
        names = ", ".join(FftType.__members__)
        raise DomainError(f"lax.fft was given the type {fft_type!r}.", f"Use {names}.") from None
