"""Cosine and sine transforms, of types 1 to 4, by Fourier transforms of real numbers.

Types 2 and 3 take one transform of as many points: the elements of even places, then those of odd
ones backwards, have a spectrum that a rotation makes the cosine transform's (J. Makhoul, 1980).
Type 1 mirrors its operand, type 4 is a complex transform of twice as many points. A sine transform
of type 2 or 3 is the cosine transform of the operand with alternating signs, read backwards.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.device import free
from ftrace.core.dtypes import complex_dtype
from ftrace.numpy.fft import SCALES, taken
from ftrace.numpy.promote import cast, static_int, strong, value
from ftrace.primitives.arithmetic import complex as complex_row
from ftrace.primitives.arithmetic import imag, real
from ftrace.primitives.fourier import fft, resized
from ftrace.scipy.fft.fourier_transforms import (
    all_axes,
    check_norm,
    check_points,
    one_of,
    transforming,
)

_ROOT: Final = np.sqrt(2)
_INVERSE: Final = {1: 1, 2: 3, 3: 2, 4: 4}

# ---------------------------------------------------------------------------------- last axis


def _along(numbers: Any, x: Any) -> Any:
    """Constants for the last axis, in the precision of x."""
    dtype = typeof(x).dtype
    kind = complex_dtype(dtype) if numbers.dtype.kind == "c" else dtype
    return free(numbers.astype(kind))


def _transform(kind: str, x: Any, length: int) -> Any:
    return fft(x, kind=kind, length=length, axis=typeof(x).ndim - 1, scale="1")


def _mirrored(x: Any) -> Any:
    """DCT-I: the transform of an even sequence."""
    n = typeof(x).shape[-1]
    whole = fnp.concatenate([x, x[..., n - 2 : 0 : -1]], axis=-1)
    return real(_transform("rfft", whole, 2 * (n - 1)))


def _mirrored_with_signs(x: Any) -> Any:
    """DST-I: the transform of an odd sequence."""
    n = typeof(x).shape[-1]
    zero = fnp.zeros_like(x[..., :1])
    whole = fnp.concatenate([zero, x, zero, -x[..., ::-1]], axis=-1)
    return -imag(_transform("rfft", whole, 2 * (n + 1)))[..., 1 : n + 1]


def _cosines(x: Any) -> Any:
    """DCT-II."""
    n = typeof(x).shape[-1]
    folded = fnp.concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], axis=-1)
    turn = 2 * np.exp(-0.5j * np.pi / n * np.arange(n // 2 + 1))
    z = _transform("rfft", folded, n) * _along(turn, x)
    back = -imag(z)[..., 1 : (n + 1) // 2][..., ::-1]
    return fnp.concatenate([real(z), back], axis=-1)


def _cosines_back(x: Any) -> Any:
    """DCT-III."""
    n = typeof(x).shape[-1]
    half = n // 2 + 1
    zero = fnp.zeros_like(x[..., :1])
    mirror = fnp.concatenate([zero, x[..., ::-1]], axis=-1)[..., :half]
    turn = np.exp(0.5j * np.pi / n * np.arange(half))
    z = complex_row(x[..., :half], -mirror) * _along(turn, x)
    folded = _transform("irfft", z, n)
    even, odd = folded[..., : (n + 1) // 2], folded[..., (n + 1) // 2 :][..., ::-1]
    both = fnp.stack([even[..., : n // 2], odd], axis=-1)
    found = both.reshape(*typeof(x).shape[:-1], 2 * (n // 2))
    return fnp.concatenate([found, even[..., -1:]], axis=-1) if n % 2 else found


def _shifted(x: Any) -> Any:
    """A complex number of which DCT-IV is the real and DST-IV minus the imaginary part."""
    n = typeof(x).shape[-1]
    place = np.arange(n)
    inner = x * _along(np.exp(-0.5j * np.pi / n * place), x)
    outer = 2 * np.exp(-0.25j * np.pi / n * (2 * place + 1))
    return _transform("fft", inner, 2 * n)[..., :n] * _along(outer, x)


def _signs(x: Any) -> Any:
    return x * _along(1 - 2.0 * (np.arange(typeof(x).shape[-1]) % 2), x)


_PLAIN: Final[dict[tuple[str, int], Callable[[Any], Any]]] = {
    ("dct", 1): _mirrored,
    ("dct", 2): _cosines,
    ("dct", 3): _cosines_back,
    ("dct", 4): lambda x: real(_shifted(x)),
    ("dst", 1): _mirrored_with_signs,
    ("dst", 2): lambda x: _cosines(_signs(x))[..., ::-1],
    ("dst", 3): lambda x: _signs(_cosines_back(x[..., ::-1])),
    ("dst", 4): lambda x: -imag(_shifted(x)),
}
_LOGICAL: Final = {("dct", 1): -1, ("dst", 1): 1}  # half the number of points, beyond n


def _scaled(x: Any, places: tuple[int, ...], by: float) -> Any:
    """x with the elements of some places of the last axis multiplied."""
    factors = np.ones(typeof(x).shape[-1])
    factors[list(places)] = by
    return x * _along(factors, x)


def _last(name: str, kind: int, x: Any, scale: str, orthogonal: bool) -> Any:
    """One transform along the last axis."""
    n = typeof(x).shape[-1]
    edge = 0 if name == "dct" else n - 1
    places = {("dct", 1): (0, n - 1), (name, 2): (edge,), (name, 3): (edge,)}.get((name, kind), ())
    if orthogonal and places and kind in (1, 3):
        x = _scaled(x, places, _ROOT)
    found = _PLAIN[name, kind](x)
    if orthogonal and places and kind in (1, 2):
        found = _scaled(found, places, 1 / _ROOT)
    points = 2 * (n + _LOGICAL.get((name, kind), 0))
    by = {"1": 1.0, "1/sqrt(n)": points**-0.5, "1/n": 1 / points}[scale]
    return found if by == 1 else found * typeof(found).dtype.type(by)


# ---------------------------------------------------------------------------------- functions


def _type_of(name: str, type: Any, inverse: bool) -> int:
    kind = static_int(type, "type")
    if kind not in _INVERSE:
        raise ValueError(f"invalid {name.upper()} type")
    return _INVERSE[kind] if inverse else kind


def _one(name: str, kind: int, x: Any, n: int, axis: int, scale: str, orthogonal: bool) -> Any:
    check_points(n)
    if (name, kind) == ("dct", 1) and n < 2:
        raise RuntimeError("zero-length FFT requested")
    if typeof(x).dtype.kind == "c":
        parts = (_one(name, kind, p(x), n, axis, scale, orthogonal) for p in (real, imag))
        return complex_row(*parts)
    moved = fnp.moveaxis(resized(x, axis, n), axis, -1)
    return fnp.moveaxis(_last(name, kind, moved, scale, orthogonal), -1, axis)


def _prepared(x: Any) -> Any:
    x = strong(value(x))
    dtype = typeof(x).dtype
    return cast(x, dtype if dtype.kind == "c" else taken(dtype, "f"))


def _transformed(
    name: str, x: Any, type: Any, n: Any, axis: Any, norm: Any, orthogonalize: Any, inverse: bool
) -> Any:
    """A transform along one axis."""
    check_norm(norm)
    x = _prepared(x)
    axis = one_of(x, axis)
    kind = _type_of(name, type, inverse)
    n = typeof(x).shape[axis] if n is None else static_int(n, "n")
    orthogonal = norm == "ortho" if orthogonalize is None else bool(orthogonalize)
    return _one(name, kind, x, n, axis, SCALES[inverse][norm], orthogonal)


def _transformed_n(
    name: str, x: Any, type: Any, s: Any, axes: Any, norm: Any, orthogonalize: Any, inverse: bool
) -> Any:
    """A transform along several axes, one after the other."""
    check_norm(norm)
    x = _prepared(x)
    kind = _type_of(name, type, inverse)
    orthogonal = norm == "ortho" if orthogonalize is None else bool(orthogonalize)
    points, found = all_axes(x, s, axes)
    for n, axis in zip(points, found, strict=True):
        x = _one(name, kind, x, n, axis, SCALES[inverse][norm], orthogonal)
    return x


@transforming
def dct(
    x: Any, type: Any = 2, n: Any = None, axis: Any = -1, norm: Any = None,
    overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
) -> Any:  # fmt: skip
    """The discrete cosine transform of type 1, 2, 3 or 4 along an axis.

    Args:
        x: real numbers, or complex ones, whose parts are transformed.
        type, n, axis, norm, orthogonalize: as in `scipy.fft.dct`.
        overwrite_x, workers: not looked at.

    Returns:
        an array of the floating dtype of x with n elements along the axis.

    Raises:
        ValueError: a type, norm or number of points that there is not.
        AxisError: there is no such axis.

    Example:
        >>> import numpy as np, ftrace.scipy.fft
        >>> ftrace.scipy.fft.dct(np.array([1.0, 2.0, 4.0]), norm="ortho").round(3)
        array([ 4.041, -2.121,  0.408])
    """
    return _transformed("dct", x, type, n, axis, norm, orthogonalize, False)


@transforming
def idct(
    x: Any, type: Any = 2, n: Any = None, axis: Any = -1, norm: Any = None,
    overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
) -> Any:  # fmt: skip
    """The inverse of `dct` of the same type.

    Args, returns and errors are those of `dct`.

    Example:
        >>> import numpy as np, ftrace.scipy.fft as fft
        >>> fft.idct(fft.dct(np.array([1.0, 2.0, 3.0])))
        array([1., 2., 3.])
    """
    return _transformed("dct", x, type, n, axis, norm, orthogonalize, True)


@transforming
def dst(
    x: Any, type: Any = 2, n: Any = None, axis: Any = -1, norm: Any = None,
    overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
) -> Any:  # fmt: skip
    """The discrete sine transform of type 1, 2, 3 or 4 along an axis.

    Args, returns and errors are those of `dct`.

    Example:
        >>> import numpy as np, ftrace.scipy.fft as fft
        >>> fft.dst(np.array([1.0, 2.0, 3.0]), type=1, norm="ortho").round(3)
        array([ 3.414, -1.414,  0.586])
    """
    return _transformed("dst", x, type, n, axis, norm, orthogonalize, False)


@transforming
def idst(
    x: Any, type: Any = 2, n: Any = None, axis: Any = -1, norm: Any = None,
    overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
) -> Any:  # fmt: skip
    """The inverse of `dst` of the same type.

    Args, returns and errors are those of `dct`.

    Example:
        >>> import numpy as np, ftrace.scipy.fft as fft
        >>> fft.idst(fft.dst(np.array([1.0, 2.0, 3.0])))
        array([1., 2., 3.])
    """
    return _transformed("dst", x, type, n, axis, norm, orthogonalize, True)


@transforming
def dctn(
    x: Any, type: Any = 2, s: Any = None, axes: Any = None, norm: Any = None,
    overwrite_x: bool = False, workers: int | None = None, *, orthogonalize: bool | None = None,
) -> Any:  # fmt: skip
    """The discrete cosine transform along several axes.

    Args:
        x: real numbers, or complex ones, whose parts are transformed.
        type, s, axes, norm, orthogonalize: as in `scipy.fft.dctn`.
        overwrite_x, workers: not looked at.

    Returns:
        an array of the floating dtype of x, with s elements along the axes.

    Raises:
        ValueError: a type, norm or number of points that there is not, or an axis twice.

    Example:
        >>> import numpy as np, ftrace.scipy.fft as fft
        >>> fft.idctn(fft.dctn(np.eye(2))).round(12)
        array([[1., 0.],
               [0., 1.]])
    """
    return _transformed_n("dct", x, type, s, axes, norm, orthogonalize, False)


@transforming
def idctn(
    x: Any, type: Any = 2, s: Any = None, axes: Any = None, norm: Any = None,
    overwrite_x: bool = False, workers: int | None = None, *, orthogonalize: bool | None = None,
) -> Any:  # fmt: skip
    """The inverse of `dctn` of the same type; arguments and errors are its own."""
    return _transformed_n("dct", x, type, s, axes, norm, orthogonalize, True)


@transforming
def dstn(
    x: Any, type: Any = 2, s: Any = None, axes: Any = None, norm: Any = None,
    overwrite_x: bool = False, workers: int | None = None, *, orthogonalize: bool | None = None,
) -> Any:  # fmt: skip
    """The discrete sine transform along several axes; arguments and errors are those of `dctn`."""
    return _transformed_n("dst", x, type, s, axes, norm, orthogonalize, False)


@transforming
def idstn(
    x: Any, type: Any = 2, s: Any = None, axes: Any = None, norm: Any = None,
    overwrite_x: bool = False, workers: int | None = None, *, orthogonalize: bool | None = None,
) -> Any:  # fmt: skip
    """The inverse of `dstn` of the same type; arguments and errors are those of `dctn`."""
    return _transformed_n("dst", x, type, s, axes, norm, orthogonalize, True)
