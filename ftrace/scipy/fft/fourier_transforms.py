"""The Fourier transforms of scipy.fft on traced arrays: NumPy's, with SciPy's arguments and errors.

SciPy makes float32 of half precision, names its errors otherwise, and takes several axes by rules
of its own. `workers`, `overwrite_x` and `plan` are about how it computes, and are not looked at.
"""

import functools
import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.errors import AxisError
from ftrace.numpy.fft import SCALES, transform
from ftrace.numpy.promote import cast, static_int, strong, value
from ftrace.primitives.arithmetic import conj
from ftrace.primitives.convert import copy as copy_row
from ftrace.primitives.stacks import conjugated
from ftrace.scipy.borrowing import scipys

F = TypeVar("F", bound=Callable[..., Any])


def check_norm(norm: Any) -> None:
    """Raise `ValueError` for what is no norm."""
    if type(norm) not in (str, type(None)) or norm not in SCALES[0]:
        raise ValueError(f'Invalid norm value {norm!r}, should be "backward", "ortho" or "forward"')


def transforming(fn: F) -> F:
    """A decorator: `scipys`, which looks at how many `workers` there are."""
    place = fn.__code__.co_varnames.index("workers")  # type: ignore[attr-defined]

    @functools.wraps(fn)
    def call(*args: Any, **options: Any) -> Any:
        workers = args[place] if len(args) > place else options.get("workers")
        lowest = -(os.cpu_count() or 1)
        if workers is not None and (not workers or not lowest <= workers < 1 << 31):
            raise ValueError(f"workers must not be zero, or below {lowest}: {workers}")
        return fn(*args, **options)

    return scipys("scipy.fft")(call)  # type: ignore[return-value]


def check_points(n: int) -> None:
    """Raise `ValueError` for a transform of nothing."""
    if n < 1:
        raise ValueError(f"invalid number of data points ({n}) specified")


def one_of(x: Any, axis: Any) -> int:
    """An axis of x, from 0 on.

    Raises:
        AxisError: there is no such axis.
    """
    ndim, found = typeof(x).ndim, static_int(axis, "axis")
    if not -ndim <= found < ndim:
        raise AxisError(
            f"axis {found} is out of bounds for an array of dimension {ndim}.", "Use an axis of it."
        )
    return found % ndim


def all_axes(x: Any, s: Any, axes: Any) -> tuple[list[int], list[int]]:
    """Numbers of points and axes of a transform along several axes: all of them by default.

    Raises:
        ValueError: numbers and axes do not go together.
        AxisError: there is no such axis.
    """
    shape = typeof(x).shape
    sizes = None if s is None else _ints(s, "shape")
    if axes is None:
        if sizes is not None and len(sizes) > len(shape):
            raise ValueError("shape requires more axes than are present")
        count = len(shape) if sizes is None else len(sizes)
        found = [*range(len(shape) - count, len(shape))]
    else:
        found = [one_of(x, a) for a in _ints(axes, "axes")]
    if sizes is not None and len(sizes) != len(found):
        raise ValueError("when given, axes and shape arguments have to be of the same length")
    if len(set(found)) != len(found):
        raise ValueError("all axes must be unique")
    whole = [shape[a] for a in found]
    points = [m if n == -1 else n for n, m in zip(sizes or whole, whole, strict=True)]
    if any(n < 1 for n in points):
        raise ValueError(f"invalid number of data points ({points}) specified")
    return points, found


def _ints(given: Any, what: str) -> list[int]:
    items = given if issubclass(type(given), Iterable) else [given]
    if any(x is None for x in items):
        raise ValueError(f"{what} must be a scalar or iterable of integers")
    return [static_int(x, what) for x in items]


# ---------------------------------------------------------------------------------- one axis


def _prepared(x: Any, plan: Any, norm: Any) -> Any:
    if plan is not None:
        raise NotImplementedError(
            "Passing a precomputed plan is not yet supported by scipy.fft functions"
        )
    check_norm(norm)
    x = strong(value(x))
    return cast(x, np.dtype(np.float32)) if typeof(x).dtype == np.float16 else x


def _real(x: Any) -> Any:
    if typeof(x).dtype.kind == "c":
        raise TypeError("x must be a real sequence")
    return x


def _one(kind: str, x: Any, n: Any, axis: Any, norm: Any, backward: bool | None = None) -> Any:
    """A transform along one axis, with SciPy's errors."""
    size = typeof(x).shape[one_of(x, axis)]
    n = (2 * (size - 1) if kind == "irfft" else size) if n is None else static_int(n, "n")
    check_points(n)
    return transform(kind, x, n, axis, norm, backward=backward)


@transforming
def fft(
    x: Any, n: Any = None, axis: Any = -1, norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The discrete Fourier transform along an axis.

    Args:
        x: numbers.
        n, axis, norm: as in `scipy.fft.fft`.
        overwrite_x, workers: not looked at.
        plan: None.

    Returns:
        complex numbers, n along the axis.

    Raises:
        ValueError: a norm or number of points that there is not.
        AxisError: there is no such axis.

    Example:
        >>> import numpy as np, ftrace.scipy.fft
        >>> ftrace.scipy.fft.fft(np.array([1.0, 0.0, 0.0]))
        array([1.-0.j, 1.+0.j, 1.-0.j])
    """
    return _one("fft", _prepared(x, plan, norm), n, axis, norm)


@transforming
def ifft(
    x: Any, n: Any = None, axis: Any = -1, norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The inverse of `fft`, whose arguments and errors it has."""
    return _one("ifft", _prepared(x, plan, norm), n, axis, norm)


@transforming
def rfft(
    x: Any, n: Any = None, axis: Any = -1, norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The first half of the transform of real numbers; arguments and errors are those of `fft`."""
    return _one("rfft", _real(_prepared(x, plan, norm)), n, axis, norm)


@transforming
def irfft(
    x: Any, n: Any = None, axis: Any = -1, norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The inverse of `rfft`: real numbers; arguments and errors are those of `fft`."""
    return _one("irfft", _prepared(x, plan, norm), n, axis, norm)


@transforming
def hfft(
    x: Any, n: Any = None, axis: Any = -1, norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The transform, which is real, of numbers of which the second half mirrors the first."""
    return _one("irfft", conjugated(_prepared(x, plan, norm)), n, axis, norm, backward=False)


@transforming
def ihfft(
    x: Any, n: Any = None, axis: Any = -1, norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The inverse of `hfft`: the first half of what it is given."""
    return conj(_one("rfft", _real(_prepared(x, plan, norm)), n, axis, norm, backward=True))


# ---------------------------------------------------------------------------------- several axes


def _all(kind: str, x: Any, s: Any, axes: Any, norm: Any) -> Any:
    """A complex transform along several axes, the last first."""
    points, found = all_axes(x, s, axes)
    if not found:
        return copy_row(x)
    for n, axis in zip(reversed(points), reversed(found), strict=True):
        x = transform(kind, x, n, axis, norm)
    return x


def _halved(x: Any, s: Any, axes: Any, norm: Any, backward: bool = False) -> Any:
    """Half a spectrum along the last axis, whole ones along the others."""
    points, found = all_axes(x, s, axes)
    if not found:
        raise ValueError("at least 1 axis must be transformed")
    x = transform("rfft", x, points[-1], found[-1], norm, backward=backward)
    for n, axis in zip(points[-2::-1], found[-2::-1], strict=True):
        x = transform("fft", x, n, axis, norm, backward=backward)
    return x


def _whole(x: Any, s: Any, axes: Any, norm: Any, backward: bool = True) -> Any:
    """The inverse of `_halved`."""
    points, found = all_axes(x, s, axes)
    if not found:
        raise ValueError("at least 1 axis must be transformed")
    for n, axis in zip(points[:-1], found[:-1], strict=True):
        x = transform("ifft", x, n, axis, norm, backward=backward)
    return _one("irfft", x, None if s is None else points[-1], found[-1], norm, backward)


@transforming
def fftn(
    x: Any, s: Any = None, axes: Any = None, norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The discrete Fourier transform along several axes.

    Args:
        x: numbers.
        s, axes, norm: as in `scipy.fft.fftn`.
        overwrite_x, workers: not looked at.
        plan: None.

    Returns:
        complex numbers, s along the axes.

    Raises:
        ValueError: numbers of points and axes that do not go together, or an axis twice.
        AxisError: there is no such axis.

    Example:
        >>> import numpy as np, ftrace.scipy.fft
        >>> ftrace.scipy.fft.fftn(np.ones((2, 2))).real
        array([[4., 0.],
               [0., 0.]])
    """
    return _all("fft", _prepared(x, plan, norm), s, axes, norm)


@transforming
def ifftn(
    x: Any, s: Any = None, axes: Any = None, norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The inverse of `fftn`, whose arguments and errors it has."""
    return _all("ifft", _prepared(x, plan, norm), s, axes, norm)


@transforming
def rfftn(
    x: Any, s: Any = None, axes: Any = None, norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The transform of real numbers along several axes; half of it along the last."""
    return _halved(_real(_prepared(x, plan, norm)), s, axes, norm)


@transforming
def irfftn(
    x: Any, s: Any = None, axes: Any = None, norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The inverse of `rfftn`: real numbers; arguments and errors are those of `fftn`."""
    return _whole(_prepared(x, plan, norm), s, axes, norm)


@transforming
def hfftn(
    x: Any, s: Any = None, axes: Any = None, norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The transform, which is real, of numbers that mirror themselves along the last axis."""
    return _whole(conjugated(_prepared(x, plan, norm)), s, axes, norm, backward=False)


@transforming
def ihfftn(
    x: Any, s: Any = None, axes: Any = None, norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The inverse of `hfftn`; arguments and errors are those of `fftn`."""
    return conj(_halved(_real(_prepared(x, plan, norm)), s, axes, norm, backward=True))


# ---------------------------------------------------------------------------------- two axes


@transforming
def fft2(
    x: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The discrete Fourier transform along two axes; the rest is that of `fftn`."""
    return _all("fft", _prepared(x, plan, norm), s, axes, norm)


@transforming
def ifft2(
    x: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The inverse of `fft2`."""
    return _all("ifft", _prepared(x, plan, norm), s, axes, norm)


@transforming
def rfft2(
    x: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The transform of real numbers along two axes; half of it along the last."""
    return _halved(_real(_prepared(x, plan, norm)), s, axes, norm)


@transforming
def irfft2(
    x: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The inverse of `rfft2`."""
    return _whole(_prepared(x, plan, norm), s, axes, norm)


@transforming
def hfft2(
    x: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The transform, which is real, of numbers that mirror themselves along the last axis."""
    return _whole(conjugated(_prepared(x, plan, norm)), s, axes, norm, backward=False)


@transforming
def ihfft2(
    x: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, overwrite_x: bool = False,
    workers: int | None = None, *, plan: Any = None,
) -> Any:  # fmt: skip
    """The inverse of `hfft2`."""
    return conj(_halved(_real(_prepared(x, plan, norm)), s, axes, norm, backward=True))
