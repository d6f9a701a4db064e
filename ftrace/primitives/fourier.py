"""`fft`: discrete Fourier transforms along one axis, of complex numbers, to and from real ones.

`kind` is `fft`, `ifft`, `rfft` or `irfft`; `length` is the number of points, for which the operand
is cut or filled with zeros; `scale` is the factor of the sum, written as what it is for n points.
All are linear, and the row is closed: the transpose of `fft` and of `ifft` is itself, that of
`rfft` is `irfft` and the reverse. A real transform keeps half of a spectrum: what stands for two
coefficients counts twice, which the transposes of these two do.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.dtypes import complex_dtype, int64, real_dtype
from ftrace.core.errors import AxisError, DtypeError, ShapeError
from ftrace.core.lower import Cores, Gufunc, GufuncCall
from ftrace.core.primitive import LINEAR, ErrorSample, Primitive, Sample
from ftrace.primitives.arithmetic import conj, mul
from ftrace.primitives.compare import bitwise_or, eq, select
from ftrace.primitives.create import iota
from ftrace.primitives.linear import add
from ftrace.primitives.movement import zeros
from ftrace.primitives.slicing import pad
from ftrace.primitives.slicing import slice as slice_row

KINDS: Final = {"fft": "c", "ifft": "c", "rfft": "f", "irfft": "c"}  # kind -> of its operand
SCALES: Final = {"1": None, "1/sqrt(n)": "ortho", "1/n": "forward"}  # NumPy's norm, of fft and rfft
_BACK: Final = {"1": "forward", "1/sqrt(n)": "ortho", "1/n": None}  # of ifft and irfft

# ---------------------------------------------------------------------------------- type


def made(kind: str, length: int) -> int:
    """How many numbers a transform makes."""
    return length // 2 + 1 if kind == "rfft" else length


def _type(x: ShapedArray, *, kind: str, length: int, axis: int, scale: str) -> ShapedArray:
    if not 0 <= axis < x.ndim:
        raise AxisError(f"{kind}: {axis} is not an axis of {x}.", "Use 0 .. ndim - 1.")
    if length < 1:
        raise ShapeError(f"{kind} of {length} points.", "A transform has at least one.")
    if x.dtype.kind != KINDS[kind] or x.dtype.char not in "fdFD":
        wanted = "complex64 or complex128" if KINDS[kind] == "c" else "float32 or float64"
        raise DtypeError(f"{kind} was given {x}.", f"Convert it to {wanted}.")
    shape = (*x.shape[:axis], made(kind, length), *x.shape[axis + 1 :])
    change = {"rfft": complex_dtype, "irfft": real_dtype}.get(kind)
    return aval(shape, change(x.dtype) if change else x.dtype)


# ---------------------------------------------------------------------------------- evaluation


def norm_of(kind: str, scale: str) -> str | None:
    """The factor of a transform as `norm` of NumPy's function."""
    return (_BACK if kind in ("ifft", "irfft") else SCALES)[scale]


def _impl(x: Any, kind: str, length: int, axis: int, scale: str) -> Any:
    return getattr(np.fft, kind)(x, n=length, axis=axis, norm=norm_of(kind, scale))


def factor(dtype: np.dtype[Any], length: int, scale: str) -> Any:
    """The factor of a transform, rounded as NumPy does.

    Args:
        dtype: of the factor.
        length: the number of points.
        scale: of `SCALES`.
    """
    if scale == "1":
        return dtype.type(1)
    root = np.sqrt(length, dtype=dtype) if scale == "1/sqrt(n)" else length
    return np.reciprocal(root, dtype=dtype)


def _call(
    avals: Sequence[ShapedArray], kind: str, length: int, axis: int, scale: str
) -> GufuncCall:
    name = f"rfft_n_{'odd' if length % 2 else 'even'}" if kind == "rfft" else kind
    number = factor(real_dtype(avals[0].dtype), length, scale)
    along = Cores(0, (axis,))
    return GufuncCall("numpy.fft._pocketfft_umath", name, "(n),()->(m)", (along, number), (along,))


# ---------------------------------------------------------------------------------- derivatives


def _twice(x: Any, axis: int, length: int, *, edges: bool) -> Any:
    """Half a spectrum with what stands for one coefficient doubled, or what stands for two."""
    shape = typeof(x).shape
    place = iota(dtype=int64, shape=shape, dimension=axis)
    single = eq(place, int64.type(0))
    if length % 2 == 0:
        single = bitwise_or(single, eq(place, int64.type(length // 2)))
    twice = add(x, x)
    return select(single, twice, x) if edges else select(single, x, twice)


def resized(x: Any, axis: int, size: int) -> Any:
    """x cut or filled with zeros at the end of an axis."""
    shape = typeof(x).shape
    if shape[axis] == size:
        return x
    if shape[axis] > size:
        limits = (*shape[:axis], size, *shape[axis + 1 :])
        ndim = len(shape)
        return slice_row(x, start_indices=(0,) * ndim, limit_indices=limits, strides=(1,) * ndim)
    config = tuple((0, size - n if i == axis else 0, 0) for i, n in enumerate(shape))
    return pad(x, zeros(aval((), typeof(x).dtype)), padding_config=config)


def _transpose(ct: Any, x: Any, *, kind: str, length: int, axis: int, scale: str) -> Any:
    how = {"length": length, "axis": axis, "scale": scale}
    if kind == "rfft":
        found = fft(conj(_twice(ct, axis, length, edges=True)), kind="irfft", **how)
        found = mul(found, typeof(found).dtype.type(0.5))
    elif kind == "irfft":
        found = conj(_twice(fft(ct, kind="rfft", **how), axis, length, edges=False))
    else:
        found = fft(ct, kind=kind, **how)
    return (resized(found, axis, x.aval.shape[axis]),)


def _batch(mapped: Any, values: Any, dims: Any, *, axis: int, **how: Any) -> Any:
    (d,) = dims
    return fft(*values, axis=axis if axis < d else axis + 1, **how), d


# ---------------------------------------------------------------------------------- the row


def _samples() -> Iterable[Sample]:
    rng = np.random.default_rng(37)

    def numbers(shape: tuple[int, ...], dtype: str) -> Any:
        x = rng.normal(size=shape)
        return (x + 1j * rng.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)

    for kind, shape, length, axis, scale in (
        ("fft", (8,), 8, 0, "1"),
        ("fft", (2, 5), 7, 1, "1/n"),
        ("fft", (5, 2), 3, 0, "1/sqrt(n)"),
        ("fft", (0,), 2, 0, "1"),
        ("fft", (0, 3), 3, 1, "1"),
        ("ifft", (2, 6, 3), 6, 1, "1/n"),
        ("ifft", (1,), 1, 0, "1/sqrt(n)"),
        ("rfft", (6,), 6, 0, "1"),
        ("rfft", (5, 2), 7, 0, "1/n"),
        ("rfft", (2, 5), 4, 1, "1/sqrt(n)"),
        ("rfft", (2, 3), 1, 1, "1"),
        ("irfft", (4,), 6, 0, "1/n"),
        ("irfft", (4, 2), 7, 0, "1"),
        ("irfft", (2, 5), 4, 1, "1/sqrt(n)"),
        ("irfft", (2, 2), 8, 1, "1/n"),
        ("irfft", (2,), 1, 0, "1/n"),
    ):
        x = numbers(shape, "f8" if kind == "rfft" else "c16")
        yield Sample((x,), {"kind": kind, "length": length, "axis": axis, "scale": scale})
    x = numbers((6, 4), "c16")
    yield Sample((x.T[::-1, ::2],), {"kind": "fft", "length": 4, "axis": 0, "scale": "1"})
    for kind, real in KINDS.items():
        x = numbers((4, 2), "f4" if real == "f" else "c8")
        yield Sample((x,), {"kind": kind, "length": 4, "axis": 0, "scale": "1"})


def _errors() -> Iterable[ErrorSample]:
    x, how = np.ones(4), {"kind": "rfft", "length": 4, "axis": 0, "scale": "1"}
    yield ErrorSample((x,), {**how, "axis": 1}, AxisError, "1 is not an axis")
    yield ErrorSample((np.float64(1),), how, AxisError, "0 is not an axis")
    yield ErrorSample((x,), {**how, "length": 0}, ShapeError, "rfft of 0 points")
    yield ErrorSample((x,), {**how, "kind": "fft"}, DtypeError, "complex64 or complex128")
    yield ErrorSample((x + 1j,), how, DtypeError, "float32 or float64")
    yield ErrorSample((x.astype("f2"),), how, DtypeError, "float32 or float64")


fft = Primitive(
    name="fft",
    impl=_impl,
    type=_type,
    jvp=LINEAR,
    transpose=_transpose,
    batch=_batch,
    lower=Gufunc(_call),
    linear_in=(0,),
    samples=_samples,
    errors=_errors,
    doc="The discrete Fourier transform of `length` points along an axis: `fft`, `ifft`, `rfft` or "
    "`irfft`, times `scale`.",
)
