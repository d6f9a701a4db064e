"""`map_coordinates`: an array read at places between its elements, of order 0 and 1.

Each of SciPy's modes is a way to find a place outside again inside: by the place itself, or by the
indices of the elements around it.
"""

import itertools
from collections.abc import Callable
from typing import Any, Final

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import RuleError, ShapeError
from ftrace.lax.operations import stop_gradient
from ftrace.numpy.indexing import getitem
from ftrace.numpy.promote import inexact, value
from ftrace.scipy.borrowing import scipys


def _clipped(i: Any, n: int) -> Any:
    return fnp.clip(i, 0, n - 1)


def _repeated(i: Any, n: int) -> Any:
    return i % n


def _mirrored(i: Any, n: int) -> Any:
    """d c b | a b c d | c b a."""
    period = max(2 * (n - 1), 1)
    i = i % period
    return fnp.minimum(i, period - i) if n > 1 else 0 * i


def _reflected(i: Any, n: int) -> Any:
    """d c b a | a b c d | d c b a."""
    i = i % (2 * n)
    return fnp.minimum(i, 2 * n - 1 - i)


def _as_it_is(at: Any, n: int) -> Any:
    return at


def _wrapped(at: Any, n: int) -> Any:
    """The first and the last element are one place."""
    period = max(n - 1, 1)
    below, above = fnp.less(at, 0), fnp.greater(at, n - 1)
    return fnp.where(below, period - (-at) % period, fnp.where(above, at % period, at))


_MODES: Final[dict[str, tuple[Callable[[Any, int], Any], Callable[[Any, int], Any]]]] = {
    "constant": (_as_it_is, _clipped),
    "grid-constant": (_as_it_is, _clipped),
    "nearest": (_clipped, _clipped),
    "wrap": (_wrapped, _clipped),
    "grid-wrap": (_as_it_is, _repeated),
    "mirror": (_as_it_is, _mirrored),
    "reflect": (_as_it_is, _reflected),
    "grid-mirror": (_as_it_is, _reflected),
}
"""By mode: what becomes of a place, and of the index of an element."""


@scipys("scipy.ndimage")
def map_coordinates(
    input: Any,
    coordinates: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """The values of an array at places, between which it is interpolated.

    Args:
        input: an array.
        coordinates: places, their coordinates along the first axis, in elements.
        output: only None.
        order: 0 (the nearest element) or 1 (linear); SciPy's default of 3 is not traced.
        mode: what is outside: "constant", "grid-constant", "nearest", "wrap", "grid-wrap",
            "mirror", "reflect" or "grid-mirror".
        cval: the value outside, of the constant modes.
        prefilter: without effect for these orders.

    Returns:
        An array of the input's dtype, of the shape that the coordinates have without the first
        axis.

    Raises:
        RuleError: another order or mode, or an output.
        ShapeError: not as many coordinates as axes.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import map_coordinates
        >>> image = np.array([[0.0, 1.0], [2.0, 3.0]])
        >>> ftrace.grad(lambda at: map_coordinates(image, at, order=1))(np.array([0.5, 0.5]))
        array([2., 1.])
    """
    if order not in (0, 1) or output is not None or mode not in _MODES:
        raise RuleError(
            f"map_coordinates of order {order} and mode {mode!r} is not traced.",
            f"Use order=0 or 1, output=None, and one of {', '.join(_MODES)}.",
        )
    x, at = value(input), inexact(value(coordinates))
    shape = typeof(x).shape
    if typeof(at).shape[:1] != (len(shape),):
        raise ShapeError(
            f"An array of {len(shape)} axes was given coordinates {typeof(at).shape}.",
            "Stack the coordinates along the first axis, one for each axis of the array.",
        )
    place, index = _MODES[mode]
    places = [place(at[i], n) for i, n in enumerate(shape)]
    shift = 0.0 if order else 0.5
    low = [fnp.astype(stop_gradient(fnp.floor(p + shift)), int) for p in places]
    found: Any = 0.0
    for corner in itertools.product((0, 1) if order else (0,), repeat=len(shape)):
        at_corner = [i + c for i, c in zip(low, corner, strict=True)]
        key = tuple(index(i, n) for i, n in zip(at_corner, shape, strict=True))
        element: Any = getitem(x, key)
        if mode == "grid-constant":
            element = fnp.where(_outside(at_corner, shape), cval, element)
        weight: Any = 1
        for c, i, p in zip(corner, low, places, strict=True):
            weight = weight * ((p - i) if c else (1 - (p - i))) if order else 1
        found = found + weight * element
    if mode == "constant":
        found = fnp.where(_outside(places, shape), cval, found)
    kind = typeof(x).dtype
    return fnp.astype(fnp.round(found) if kind.kind in "iu" else found, kind)


def _outside(places: list[Any], shape: tuple[int, ...]) -> Any:
    found: Any = False
    for p, n in zip(places, shape, strict=True):
        found = found | fnp.less(p, 0) | fnp.greater(p, n - 1)
    return found
