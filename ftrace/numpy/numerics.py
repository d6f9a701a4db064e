"""Differences, integrals, interpolation, convolution, comparison of whole arrays."""

from typing import Any, Final

import numpy as np

from ftrace.core.arguments import shown
from ftrace.core.avals import typeof
from ftrace.core.device import following
from ftrace.core.errors import DomainError, DtypeError
from ftrace.core.trace import Tracer
from ftrace.numpy import cumulative_functions, reductions, ufuncs, views
from ftrace.numpy.elementary import chosen, isclose, multiply
from ftrace.numpy.joining import joined
from ftrace.numpy.lowerings import LOWERINGS
from ftrace.numpy.promote import (
    cast,
    common_dtype,
    floating,
    known,
    many_axes,
    numpy_function,
    one_axis,
    promote,
    promote_inexact,
    stretch,
    strong,
    value,
    weak,
)
from ftrace.numpy.shaping import slice_axis
from ftrace.numpy.sorting import searchsorted, take
from ftrace.primitives import elementwise as e
from ftrace.primitives.conv import TERMS, conv
from ftrace.primitives.dot import dot_general
from ftrace.primitives.index import gather
from ftrace.primitives.linear import add
from ftrace.primitives.shape import reshape, rev
from ftrace.primitives.slicing import pad as pad_row
from ftrace.primitives.special import i0 as i0_row


def subtract(x: Any, y: Any) -> Any:
    """x - y for any operands, as the ufunc."""
    return ufuncs.apply(np.subtract, x, y)


def divide(x: Any, y: Any) -> Any:
    """x / y for any operands, as the ufunc."""
    return ufuncs.apply(np.divide, x, y)


def _part(x: Any, start: int | None, stop: int | None, axis: int) -> Any:
    """`x[start:stop]` along an axis, with Python's meaning of negative numbers."""
    low, high, _ = slice(start, stop).indices(typeof(x).shape[axis])
    return slice_axis(x, low, max(low, high), axis)


# ---------------------------------------------------------------------------------- differences


@numpy_function
def diff(
    a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue, append: Any = np._NoValue
) -> Any:
    """The n-th difference of neighbours along an axis."""
    x = strong(value(a))
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    if not n:
        return views.same(x) if isinstance(x, Tracer) else x
    if not typeof(x).ndim:
        raise ValueError("diff requires input that is at least one dimensional")
    i = one_axis(axis, typeof(x).ndim)
    given = [v for v in (prepend, x, append) if v is not np._NoValue]
    if len(given) > 1:
        x = joined([v if v is x else _end(v, x, i) for v in given], i)
    for _ in range(n):
        later, earlier = _part(x, 1, None, i), _part(x, None, -1, i)
        is_bool = typeof(x).dtype == np.bool_
        x = e.ne(later, earlier) if is_bool else e.sub(later, earlier)
    return x


def _end(v: Any, x: Any, axis: int) -> Any:
    v = value(v)
    if typeof(v).ndim:
        return v
    shape = list(typeof(x).shape)
    shape[axis] = 1
    return stretch(strong(v), tuple(shape))


@numpy_function
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours of the flat array, with parts put around them."""
    x = strong(value(ary))
    x = reshape(x, new_sizes=(typeof(x).size,))
    found = e.sub(_part(x, 1, None, 0), _part(x, None, -1, 0))
    dtype = typeof(found).dtype
    for name, v in (("to_begin", to_begin), ("to_end", to_end)):
        if type(v) is int and v.bit_length() > 64:
            raise TypeError(f"`{name}` is an int that no dtype holds")
        if v is not None and not np.can_cast(typeof(value(v)).dtype, typeof(x).dtype, "same_kind"):
            raise TypeError(
                f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule."
            )
    around = [None if v is None else cast(value(v), dtype) for v in (to_begin, to_end)]
    flat = [v if v is None else reshape(v, new_sizes=(typeof(v).size,)) for v in around]
    return joined([v for v in (flat[0], found, flat[1]) if v is not None], 0)


@numpy_function
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Derivatives of sampled values by central differences."""
    x = floating(f)
    axes = many_axes(axis, typeof(x).ndim)
    steps = list(varargs) or [1.0]
    steps = steps * len(axes) if len(steps) == 1 else steps
    if len(steps) != len(axes):
        raise TypeError("invalid number of arguments")
    if edge_order not in (1, 2):
        raise DomainError(f"gradient was given edge_order={edge_order!r}.", "Pass 1 or 2.")
    if edge_order == 2 and any(type(h) in (int, float) and not h for h in steps):
        raise ZeroDivisionError("float division by zero")
    found = tuple(
        _gradient_axis(x, value(h), i, edge_order) for h, i in zip(steps, axes, strict=True)
    )
    return found[0] if len(found) == 1 else found


def _gradient_axis(x: Any, h: Any, axis: int, edge_order: int) -> Any:
    n = typeof(x).shape[axis]
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least "
            "(edge_order + 1) elements are required."
        )
    wide = tuple(-1 if i == axis else 1 for i in range(typeof(x).ndim))
    uniform = not typeof(h).ndim
    if not uniform:
        if typeof(h).shape != (n,):
            raise ValueError("when 1d, distances must match the length of the dimension")
        gaps = diff(h)
        uniform = issubclass(type(h), np.ndarray) and len(set(np.diff(h).tolist())) == 1
    else:
        gaps = stretch(strong(h), (n - 1,))
    if typeof(gaps).dtype.kind == "c" and typeof(x).dtype.kind != "c":
        raise DtypeError("gradient of real samples was given complex distances.", "Give real ones.")
    gaps = cast(gaps, typeof(x).dtype)

    def gap(start: int | None, stop: int | None) -> Any:
        part = _part(gaps, start, stop, 0)
        return reshape(part, new_sizes=tuple(typeof(part).size if k == -1 else 1 for k in wide))

    left, right = gap(None, -1), gap(1, None)
    before, here, after = (_part(x, i, n - 2 + i, axis) for i in range(3))
    total = add(left, right)
    if uniform:  # the element between does not count: it may be NaN
        inner = divide(subtract(after, before), total)
    else:
        low, high = divide(right, multiply(left, total)), divide(left, multiply(right, total))
        middle = divide(subtract(right, left), multiply(left, right))
        inner = subtract(add(multiply(middle, here), multiply(high, after)), multiply(low, before))
    first, last = (_edge(x, gap, axis, edge_order, end) for end in (False, True))
    return joined([first, inner, last], axis)


def _edge(x: Any, gap: Any, axis: int, edge_order: int, end: bool) -> Any:
    """The one-sided derivative at an end, of first or second order."""
    n = typeof(x).shape[axis]

    def at(i: int) -> Any:
        i = n - 1 - i if end else i
        return _part(x, i, i + 1, axis)

    def step(i: int) -> Any:
        m = n - 1
        i = m - 1 - i if end else i
        return gap(i, i + 1)

    sign = -1.0 if end else 1.0
    slope = multiply(divide(subtract(at(1), at(0)), step(0)), sign)
    if edge_order == 1:
        return slope
    next_slope = multiply(divide(subtract(at(2), at(1)), step(1)), sign)
    bend = divide(subtract(next_slope, slope), add(step(0), step(1)))
    return subtract(slope, multiply(bend, step(0)))


@numpy_function
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule."""
    f = strong(value(y))
    i = one_axis(axis, typeof(f).ndim)
    if x is None:
        step = value(dx)
    else:
        points = strong(value(x))
        if typeof(points).ndim == 1:
            gaps = diff(points)
            step = reshape(
                gaps,
                new_sizes=tuple(typeof(gaps).size if k == i else 1 for k in range(typeof(f).ndim)),
            )
        else:
            step = diff(points, axis=axis)
    pairs = ufuncs.apply(np.add, _part(f, 1, None, i), _part(f, None, -1, i))
    return reductions.sum(divide(multiply(step, pairs), 2.0), axis=i)


@numpy_function
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Any:
    """Angles with jumps of whole periods taken out."""
    x = strong(value(p))
    i = one_axis(axis, typeof(x).ndim)
    jump = diff(x, axis=i)
    dtype = common_dtype(jump, value(period))
    whole = dtype.kind in "iu"
    half = period // 2 if whole else period / 2
    folded = subtract(ufuncs.apply(np.remainder, ufuncs.apply(np.add, jump, half), period), half)
    if not whole or period % 2 == 0:  # else no jump is half a period
        at_edge = e.bitwise_and(
            ufuncs.apply(np.equal, folded, -half), ufuncs.apply(np.greater, jump, 0)
        )
        folded = chosen(at_edge, half, folded)
    limit = period / 2 if discont is None else discont
    small = ufuncs.apply(np.less, ufuncs.apply(np.absolute, jump), limit)
    correction = chosen(small, 0, subtract(folded, jump))
    x, correction = cast(x, dtype), cast(correction, dtype)
    moved = cumulative_functions.cumsum(correction, axis=i)
    head, rest = _part(x, None, 1, i), _part(x, 1, None, i)
    return joined([head, cast(ufuncs.apply(np.add, rest, moved), dtype)], i)


# ---------------------------------------------------------------------------------- interpolation


@numpy_function
def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Linear interpolation in sorted points."""
    points, places = promote_inexact(value(x), value(xp))
    heights = strong(value(fp))
    double = np.dtype(np.complex128 if typeof(heights).dtype.kind == "c" else np.float64)
    points, places = (cast(v, np.dtype(np.float64)) for v in (points, places))
    heights = cast(heights, double)
    ends = [typeof(value(v)).dtype for v in (left, right) if v is not None]
    if double.kind != "c" and any(d.kind == "c" for d in ends):
        raise TypeError("must be real number, not complex")
    if period is not None:
        points, places, heights = _periodic(points, places, heights, abs(period))
        left = right = None
    n = typeof(places).shape[0]
    if typeof(heights).shape != (n,):
        raise ValueError("fp and xp are not of the same length.")
    if not n:
        raise ValueError("array of sample points is empty")
    if n == 1:
        found = stretch(take(heights, 0), typeof(points).shape)
    else:
        found = _between(points, places, heights)
    found = _outside(found, e.lt, points, take(places, 0), left, take(heights, 0))
    return _outside(found, e.gt, points, take(places, n - 1), right, take(heights, n - 1))


def _outside(found: Any, row: Any, points: Any, limit: Any, given: Any, height: Any) -> Any:
    return chosen(row(points, limit), height if given is None else given, found)


def _between(points: Any, places: Any, heights: Any) -> Any:
    n = typeof(places).shape[0]
    i = searchsorted(places, points, side="right")
    i = e.clamp(np.int64(1), i, np.int64(n - 1))
    before = e.sub(i, np.int64(1))
    x0, x1 = take(places, before), take(places, i)
    y0, y1 = take(heights, before), take(heights, i)
    width = e.sub(x1, x0)
    flat = e.eq(width, np.float64(0))
    slope = divide(e.sub(y1, y0), chosen(flat, 1.0, width))
    return chosen(flat, y0, ufuncs.apply(np.add, y0, multiply(slope, e.sub(points, x0))))


def _periodic(points: Any, places: Any, heights: Any, period: Any) -> tuple[Any, Any, Any]:
    points = ufuncs.apply(np.remainder, points, period)
    places = ufuncs.apply(np.remainder, places, period)
    from_known = np.argsort(known(places, "numpy.interp with period="))
    places, heights = take(places, from_known), take(heights, from_known)
    last, first = _part(places, -1, None, 0), _part(places, None, 1, 0)
    places = joined([subtract(last, period), places, ufuncs.apply(np.add, first, period)], 0)
    heights = joined([_part(heights, -1, None, 0), heights, _part(heights, None, 1, 0)], 0)
    return points, places, heights


# ---------------------------------------------------------------------------------- convolution


def _vector(x: Any) -> Any:
    x = strong(value(x))
    if typeof(x).ndim > 1:
        raise ValueError("object too deep for desired array")
    return reshape(x, new_sizes=(typeof(x).size,))


@numpy_function
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """The discrete convolution of two vectors."""
    x, y = promote(_vector(a), _vector(v))
    if typeof(y).size > typeof(x).size:
        x, y = y, x
    return _sliding(x, rev(y, dimensions=(0,)), mode)


@numpy_function
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """The cross-correlation of two vectors; the second is conjugated."""
    if not np.ndim(a) or not np.ndim(v):
        raise ValueError("object of too small depth for desired array")
    x, y = promote(_vector(a), _vector(v))
    y = LOWERINGS["conjugate"](y)
    if typeof(y).size <= typeof(x).size:
        return _sliding(x, y, mode)
    return rev(_sliding(y, x, mode), dimensions=(0,))


FEW: Final = 1 << 16  # products that are one kernel over windows, found by indices
MANY: Final = 1 << 26  # products for which there would be too many indices
_MODES: Final = {0: "valid", 1: "same", 2: "full"}


def _sliding(x: Any, y: Any, mode: Any) -> Any:
    m = typeof(y).shape[0]
    if not m:
        raise ValueError("v cannot be empty")
    mode = _MODES.get(mode, mode) if type(mode) is int else mode
    before = {"full": m - 1, "same": m // 2, "valid": 0}.get(mode)
    after = {"full": m - 1, "same": m - 1 - m // 2, "valid": 0}.get(mode)
    if before is None or after is None:
        raise DomainError(
            f"mode must be one of 'valid', 'same', or 'full' (got {shown(mode)}).",
            "Pass one of them.",
        )
    wide = pad_row(x, typeof(x).dtype.type(0), padding_config=((before, after, 0),))
    count = typeof(wide).shape[0] - m + 1
    many = count * m >= (FEW if m <= TERMS else MANY)
    if many and typeof(x).dtype.kind in "fc" and typeof(x).dtype.itemsize >= 4:
        return _correlated(wide, y, count, m)
    places = np.arange(count)[:, None] + np.arange(m)
    windows = gather(wide, following(places), axes=(0,), mode="clip")
    return dot_general(windows, y, dimension_numbers=(((1,), (0,)), ((), ())))


def _correlated(x: Any, y: Any, count: int, m: int) -> Any:
    """Where y lies wholly inside x: by as many products at once as kernels write out."""
    total: Any = None
    for first in range(0, m, TERMS):
        last = min(first + TERMS, m)
        part, weights = _part(x, first, count + last - 1, 0), _part(y, first, last, 0)
        found = conv(
            reshape(part, new_sizes=(1, 1, 1, count + last - 1 - first)),
            reshape(weights, new_sizes=(1, 1, 1, last - first)),
            strides=(1,),
            dilation=(1,),
        )
        total = found if total is None else add(total, found)
    return reshape(total, new_sizes=(count,))


# ---------------------------------------------------------------------------------- whole arrays


@numpy_function
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether all elements are close."""
    return weak(reductions.all(isclose(a, b, rtol, atol, equal_nan)))


@numpy_function
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether shapes and all elements are equal."""
    x, y = value(a1), value(a2)
    if typeof(x).shape != typeof(y).shape:
        return False
    same = ufuncs.apply(np.equal, x, y)
    if equal_nan:
        both = ufuncs.apply(np.logical_and, ufuncs.apply(np.isnan, x), ufuncs.apply(np.isnan, y))
        same = e.bitwise_or(same, both)
    return weak(reductions.all(same))


@numpy_function
def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether arrays are equal after broadcasting."""
    x, y = value(a1), value(a2)
    try:
        np.broadcast_shapes(typeof(x).shape, typeof(y).shape)
    except ValueError:
        return False
    return weak(reductions.all(ufuncs.apply(np.equal, x, y)))


@numpy_function
def i0(x: Any) -> Any:
    """The modified Bessel function of the first kind, order 0."""
    x = floating(x)
    return cast(i0_row(cast(x, np.dtype(np.float64))), typeof(x).dtype)


@numpy_function
def kaiser(M: Any, beta: Any) -> Any:
    """The Kaiser window of M points; it may be differentiated by beta."""
    n = int(M)
    if n <= 1:
        return following(np.ones(max(n, 0)))
    beta = cast(value(beta), np.dtype(np.float64))
    half = (n - 1) / 2.0
    arc = following(np.sqrt(1 - ((np.arange(n) - half) / half) ** 2))
    return divide(i0(multiply(beta, arc)), i0(beta))
