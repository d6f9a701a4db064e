"""Images read at places between their elements: along their axes, or anywhere.

Each of SciPy's modes is a way to find a place outside again inside: by the place itself, or by the
indices of the elements around it. SciPy's formulas are kept where the order of roundings decides
which element is the nearest.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.lazy import lazy
from ftrace.core.source import warn
from ftrace.core.trace import Tracer
from ftrace.lax.operations import stop_gradient
from ftrace.numpy.indexing import getitem
from ftrace.numpy.promote import inexact, known, value
from ftrace.numpy.refusing import refuse
from ftrace.scipy import special
from ftrace.scipy.borrowing import RefusedError, scipys
from ftrace.scipy.ndimage.borders import chosen_axes, delivered, each_axis, extended
from ftrace.scipy.ndimage.spline_filters import basis, coefficients, order_of

_cosdg: Final = lazy("scipy.special", "cosdg")
_sindg: Final = lazy("scipy.special", "sindg")
_MARGIN: Final = 12  # elements more, where coefficients have no exact way to go on


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


def _whole(x: Any) -> Any:
    """How many times: without a derivative."""
    return stop_gradient(fnp.floor(x))


def _by_side(below: Callable[..., Any], above: Callable[..., Any]) -> Callable[[Any, int], Any]:
    """A way for places below the first element and one for those above the last."""

    def find(at: Any, n: int) -> Any:
        if n <= 1:
            return 0.0 * at
        low, high = fnp.less(at, 0), fnp.greater(at, n - 1)
        return fnp.where(low, below(at, n), fnp.where(high, above(at, n), at))

    return find


def _mirrored_below(at: Any, n: int) -> Any:
    period = 2 * n - 2
    at = period * _whole(-at / period) + at
    return fnp.where(fnp.less_equal(at, 1 - n), at + period, -at)


def _mirrored_above(at: Any, n: int) -> Any:
    period = 2 * n - 2
    at = at - period * _whole(at / period)
    return fnp.where(fnp.greater_equal(at, n), period - at, at)


def _reflected_below(at: Any, n: int) -> Any:
    period = 2 * n
    at = fnp.where(fnp.less(at, -period), period * _whole(-at / period) + at, at)
    return fnp.where(fnp.less(at, -n), at + period, fnp.where(at > -1e-15, 1e-15, -at) - 1)


def _reflected_above(at: Any, n: int) -> Any:
    period = 2 * n
    at = at - period * _whole(at / period)
    return fnp.where(fnp.greater_equal(at, n), period - at - 1, at)


_Way = Callable[[Any, int], Any]
_wrapped: Final = _by_side(
    lambda at, n: at + (n - 1) * (_whole(-at / (n - 1)) + 1),
    lambda at, n: at - (n - 1) * _whole(at / (n - 1)),
)  # the first and the last element are one place
_MODES: Final[dict[str, tuple[_Way, _Way]]] = {
    "constant": (_as_it_is, _mirrored),
    "grid-constant": (_as_it_is, _clipped),
    "nearest": (_as_it_is, _clipped),
    "wrap": (_wrapped, _mirrored),
    "grid-wrap": (_as_it_is, _repeated),
    "mirror": (_by_side(_mirrored_below, _mirrored_above), _mirrored),
    **dict.fromkeys(
        ("reflect", "grid-mirror"), (_by_side(_reflected_below, _reflected_above), _reflected)
    ),
}
"""By mode: what becomes of a place, and of the index of an element."""


def _as_given(x: Any) -> Any:
    return x


class _Taps:
    """The elements about some places along one axis: their indices, weights, which are outside."""

    def __init__(self, at: Any, n: int, order: int, mode: str) -> None:
        place, index = _MODES[mode]
        place_of = place(at, n)
        half = 0.0 if order % 2 else 0.5
        low = stop_gradient(fnp.floor(place_of + half))
        first = fnp.astype(low, int) - order // 2
        indices = [first + j for j in range(order + 1)]
        self.indices = [index(i, n) for i in indices]
        self.weights: list[Any] = basis(place_of + half - low, order) if order else [1.0]
        self.beyond: list[Any] = [
            fnp.less(i, 0) | fnp.greater(i, n - 1) if mode == "grid-constant" else None
            for i in indices
        ]
        self.outside = fnp.less(at, 0) | fnp.greater(at, n - 1) if mode == "constant" else None


class _Image:
    """An image whose splines have coefficients, to be read at places counted in its elements.

    Where it is a stack of images of fewer axes, `rank`, they are the first ones.
    """

    def __init__(
        self, given: Any, order: int, mode: str, cval: Any, prefilter: bool, rank: int | None = None
    ) -> None:
        if type(mode) is not str or mode not in _MODES:
            raise RefusedError("boundary mode not supported")
        self.order, self.mode, self.cval = order, mode, cval
        x = fnp.astype(given, float)
        self.margin, rank = 0, typeof(x).ndim if rank is None else rank
        if prefilter and order > 1:
            if mode in ("nearest", "grid-constant"):
                self.margin = _MARGIN
                beside = [(0, 0)] * (typeof(x).ndim - rank)
                fill = fnp.astype(value(cval), typeof(given).dtype)  # SciPy extends the input
                x = extended(x, [(_MARGIN, _MARGIN)] * rank + beside, mode, fill)
            x = coefficients(x, order, mode, range(rank))
        self.x, self.shape = x, typeof(x).shape

    def _taps(self, at: Any, axis: int) -> _Taps:
        return _Taps(at + float(self.margin), self.shape[axis], self.order, self.mode)

    def at(self, places: Sequence[Any]) -> Any:
        """The values at places, given by arrays of one shape: one for each axis."""
        taps = [self._taps(p, i) for i, p in enumerate(places)]
        stacked = (..., *(None,) * (len(self.shape) - len(taps)))
        found: Any = 0.0
        for corner in itertools.product(range(self.order + 1), repeat=len(taps)):
            pairs = list(zip(taps, corner, strict=True))
            element: Any = getitem(self.x, tuple(t.indices[j] for t, j in pairs))
            for t, j in pairs:
                if t.beyond[j] is not None:
                    element = fnp.where(t.beyond[j][stacked], self.cval, element)
            weight: Any = 1.0
            for t, j in pairs:
                weight = weight * t.weights[j]
            found = found + (weight[stacked] if self.order else weight) * element
        for t in taps:
            if t.outside is not None:
                found = fnp.where(t.outside[stacked], self.cval, found)
        return found

    def along(self, places: Sequence[Any]) -> Any:
        """The values on a grid, given by vectors: one for each axis, read one after the other."""
        found = self.x
        taps = [self._taps(p, i) for i, p in enumerate(places)]
        beside = [(slice(None), *(None,) * (len(taps) - 1 - i)) for i in range(len(taps))]
        for axis, (t, key) in enumerate(zip(taps, beside, strict=True)):
            read: Any = 0.0
            for index, weight, beyond in zip(t.indices, t.weights, t.beyond, strict=True):
                element = fnp.take(found, index, axis)
                if beyond is not None:
                    element = fnp.where(beyond[key], self.cval, element)
                read = read + (weight[key] if self.order else weight) * element
            found = read
        for t, key in zip(taps, beside, strict=True):
            found = found if t.outside is None else fnp.where(t.outside[key], self.cval, found)
        return found


def _read(
    input: Any,
    how: tuple[Any, ...],
    output: Any,
    read: Callable[[_Image], Any],
    plane: tuple[int, ...] = (),
) -> Any:
    """An image of real or complex numbers read, and the result as it is asked for.

    Where there is a plane, what is read are images on two axes of it.
    """
    x, (order, mode, cval, prefilter) = value(input), how
    order = order_of(order)
    if not typeof(x).ndim:
        raise RefusedError("input and output rank must be > 0")

    def one(part: Callable[[Any], Any]) -> Any:
        image = part(x)
        if not plane:
            return read(_Image(image, order, mode, part(cval), prefilter))
        image = fnp.moveaxis(image, plane, (0, 1))
        found = read(_Image(image, order, mode, part(cval), prefilter, 2))
        return fnp.moveaxis(found, (0, 1), plane)

    whole = typeof(x).dtype.kind == "c"
    found = one(fnp.real) + 1j * one(fnp.imag) if whole else one(_as_given)
    return delivered(found, x, output, rounded=True)


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
    """The values of an array at places, between which it is interpolated by splines.

    Args:
        input: an array.
        coordinates: places, their coordinates along the first axis, in elements.
        output: None, the dtype of the result, or an array to write it into.
        order: of the splines: 0 (the nearest element), 1 (linear), up to 5.
        mode: what is outside: "constant", "grid-constant", "nearest", "wrap", "grid-wrap",
            "mirror", "reflect" or "grid-mirror".
        cval: the value outside, of the constant modes.
        prefilter: False where the input holds coefficients of `spline_filter1d` already.

    Returns:
        An array of the input's dtype, of the shape that the coordinates have without the first
        axis.

    Raises:
        RuntimeError: another order or mode, or not as many coordinates as axes.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import map_coordinates
        >>> image = np.array([[0.0, 1.0], [2.0, 3.0]])
        >>> ftrace.grad(lambda at: map_coordinates(image, at, order=1))(np.array([0.5, 0.5]))
        array([2., 1.])
    """
    at, rank = inexact(value(coordinates)), typeof(value(input)).ndim
    if typeof(at).shape[:1] != (rank,) or typeof(at).dtype.kind == "c":
        raise RefusedError("invalid shape for coordinate array")
    places = [fnp.astype(at[i], float) for i in range(rank)]
    return _read(input, (order, mode, cval, prefilter), output, lambda image: image.at(places))


@scipys("scipy.ndimage")
def shift(
    input: Any,
    shift: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """An array moved along its axes, by parts of elements too.

    Args:
        input, output, order, mode, cval, prefilter: as in `map_coordinates`.
        shift: by how many elements, along all axes or each of them.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError: as in `map_coordinates`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import shift
        >>> image = np.array([0.0, 1.0, 4.0])
        >>> ftrace.jacobian(lambda by: shift(image, by, order=1))(0.5)
        array([-0., -1., -3.])
    """
    shape = typeof(value(input)).shape
    moved = each_axis(shift, shape)
    places = [
        np.arange(n, dtype=float) + -fnp.astype(value(s), float)
        for n, s in zip(shape, moved, strict=True)
    ]
    return _read(input, (order, mode, cval, prefilter), output, lambda image: image.along(places))


@scipys("scipy.ndimage")
def zoom(
    input: Any,
    zoom: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Any:
    """An array of more or fewer elements over the same extent.

    Args:
        input, output, order, mode, cval, prefilter: as in `map_coordinates`.
        zoom: how many times as many elements, along all axes or each of them.
        grid_mode: elements are cells, and the extent reaches to their ends.

    Returns:
        An array.

    Raises:
        RuntimeError: as in `map_coordinates`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import zoom
        >>> ftrace.jit(lambda x: zoom(x, 2, order=1))(np.array([0.0, 3.0]))
        array([0., 1., 2., 3.])
    """
    x, order = value(input), order_of(order)
    shape = typeof(x).shape
    factors = each_axis(zoom, shape)
    sizes = [round(n * f) for n, f in zip(shape, factors, strict=True)]
    if prefilter and all(f == 1 for f in factors):
        return delivered(x, x, output)
    if grid_mode and mode in ("constant", "wrap"):
        warn(
            f"It is recommended to use mode = grid-{mode} instead of {mode} when grid_mode is True."
        )
    ends = 0 if grid_mode else 1
    places = []
    for n, m in zip(shape, sizes, strict=True):
        step = (n - ends) / (m - ends) if m != ends else 1.0
        at = np.arange(m, dtype=float)
        places.append((at + 0.5) * step - 0.5 if grid_mode else at * step)
    return _read(x, (order, mode, cval, prefilter), output, lambda image: image.along(places))


def _transformation(matrix: Any, offset: Any, rank: int) -> tuple[Any, Any]:
    """A matrix, or its diagonal, and an offset, which a homogeneous matrix has in it."""
    matrix = fnp.astype(value(matrix), float)
    shape = typeof(matrix).shape
    if len(shape) == 2 and shape[1] == rank + 1 and shape[0] in (rank, rank + 1):
        if shape[0] == rank + 1:
            last = np.array([0.0] * rank + [1.0])
            words = f"An affine matrix of shape {shape} ends in the row {last}."
            refuse(fnp.any(matrix[rank] != last), ValueError, words)
        return matrix[:rank, :rank], matrix[:rank, rank]
    if len(shape) not in (1, 2) or shape[0] != rank:
        raise RefusedError("affine matrix has wrong number of rows")
    if np.ndim(offset) == 0 and type(offset) not in (list, tuple):
        offset = [offset] * rank
    given = fnp.astype(value(offset), float)
    if typeof(given).shape != (rank,):
        raise RefusedError("no proper offset provided")
    return matrix, given


@scipys("scipy.ndimage")
def affine_transform(
    input: Any,
    matrix: Any,
    offset: Any = 0.0,
    output_shape: Any = None,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """The values of an array at the places matrix @ index + offset.

    Args:
        input, output, order, mode, cval, prefilter: as in `map_coordinates`.
        matrix: (axes of the input, axes of the result), its diagonal, or a homogeneous matrix.
        offset: a place, for all axes of the input or each of them.
        output_shape: of the result; None for that of the output, or the input.

    Returns:
        An array.

    Raises:
        RuntimeError: as in `map_coordinates`, and a matrix of another shape.
        ValueError: a homogeneous matrix whose last row is another one.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import affine_transform
        >>> ftrace.jit(lambda x: affine_transform(x, [0.5], order=1))(np.array([0.0, 2.0, 8.0]))
        array([0., 1., 2.])
    """
    shape = typeof(value(input)).shape
    if output_shape is None:
        is_array = not (output is None or isinstance(output, str | type | np.dtype))
        output_shape = typeof(output).shape if is_array else shape
    wanted = tuple(int(n) for n in output_shape)
    table, by = _transformation(matrix, offset, len(shape))
    how = order, mode, cval, prefilter
    if typeof(table).ndim == 1:
        if len(wanted) != len(shape):
            raise RefusedError("output has another rank")
        starts = by / table
        lines = [(np.arange(n, dtype=float) + starts[i]) * table[i] for i, n in enumerate(wanted)]
        return _read(input, how, output, lambda image: image.along(lines))
    if typeof(table).shape[1] != len(wanted):
        raise RefusedError("affine matrix has wrong number of columns")
    grid = np.ix_(*(np.arange(n, dtype=float) for n in wanted))
    places = []
    for i in range(len(shape)):
        at: Any = 0.0
        for j, line in enumerate(grid):  # not a product of matrices: in SciPy's order
            at = at + line * table[i, j]
        places.append(fnp.broadcast_to(at + by[i], wanted))
    return _read(input, how, output, lambda image: image.at(places))


@scipys("scipy.ndimage")
def geometric_transform(
    input: Any,
    mapping: Callable[..., Any],
    output_shape: Any = None,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
    extra_arguments: tuple[Any, ...] = (),
    extra_keywords: dict[str, Any] | None = None,
) -> Any:
    """The values of an array at places that a function says, which is called for each element.

    Args:
        input, output, order, mode, cval, prefilter: as in `map_coordinates`.
        mapping: from an index, a tuple of integers, to a place, a tuple of numbers.
        output_shape: of the result; None for that of the input.
        extra_arguments, extra_keywords: given to the function, too.

    Returns:
        An array.

    Raises:
        RuntimeError: as in `map_coordinates`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import geometric_transform
        >>> half = lambda index: (index[0] / 2,)
        >>> f = lambda x: geometric_transform(x, half, order=1)
        >>> ftrace.jit(f)(np.array([0.0, 2.0, 8.0]))
        array([0., 1., 2.])
    """
    shape = typeof(value(input)).shape
    wanted = shape if output_shape is None else tuple(int(n) for n in output_shape)
    found = [
        mapping(index, *extra_arguments, **(extra_keywords or {})) for index in np.ndindex(wanted)
    ]
    places = [
        fnp.reshape(fnp.array([place[i] for place in found], dtype=float), wanted)
        for i in range(len(shape))
    ]
    return _read(input, (order, mode, cval, prefilter), output, lambda image: image.at(places))


def _turn(angle: Any) -> Any:
    """The matrix of a rotation by degrees: a plain one, if the angle is plain."""
    if isinstance(angle, Tracer):
        c, s = special.cosdg(angle), special.sindg(angle)
        return fnp.array([[c, s], [-s, c]])
    c, s = _cosdg(angle), _sindg(angle)
    return np.array([[c, s], [-s, c]])


@scipys("scipy.ndimage")
def rotate(
    input: Any,
    angle: Any,
    axes: Any = (1, 0),
    reshape: bool = True,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """An array turned in the plane of two of its axes.

    Args:
        input, output, order, mode, cval, prefilter: as in `map_coordinates`.
        angle: in degrees; it may be traced where `reshape` is False.
        axes: the two axes.
        reshape: the result is as large as it takes to hold all of the input.

    Returns:
        An array.

    Raises:
        RuntimeError, ValueError: as in `map_coordinates`; axes that there are not.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import rotate
        >>> turn = lambda x: rotate(x, 90, order=1)
        >>> ftrace.jit(turn)(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([[2., 4.],
               [1., 3.]])
    """
    shape = typeof(value(input)).shape
    if len(shape) < 2 or len(axes) != 2:
        raise RefusedError("a plane of two axes is turned")
    first, second = sorted(chosen_axes(axes, len(shape)))
    turn = _turn(angle)
    plane = np.array([shape[first], shape[second]])
    sizes = plane
    if reshape:
        corners = known(turn, "The size of a turned image (reshape=True)") @ np.array(
            [[0, 0, plane[0], plane[0]], [0, plane[1], 0, plane[1]]]
        )
        sizes = (np.ptp(corners, axis=1) + 0.5).astype(int)
    by = (plane - 1) / 2 - turn @ ((sizes - 1) / 2)
    p, q = np.ix_(*(np.arange(n, dtype=float) for n in sizes))
    places = [p * turn[i, 0] + q * turn[i, 1] + by[i] for i in (0, 1)]
    how = order, mode, cval, prefilter
    return _read(input, how, output, lambda image: image.at(places), (first, second))
