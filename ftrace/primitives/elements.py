"""How elements of results come from elements of operands: the rules of `lower` columns.

Rules for `Pointwise` take `(builder, out, *values, **params)`, rules for `Moving` take
`(builder, index, out, *operands, **params)`, where an operand gives an element with `x.at(index)`.
The builder is `lowering/kernel/builder.py`'s, given as an argument: rows never import what lies
above them. Rows whose name is a `ScalarOp` need nothing here.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ftrace.core.avals import ShapedArray

Ints = tuple[int, ...]
FEW = 8  # parts that are tried one after the other

# ---------------------------------------------------------------------------------- pointwise


def same(b: Any, out: ShapedArray, x: Any, **params: Any) -> Any:
    """The operand itself."""
    return x


def convert(b: Any, out: ShapedArray, x: Any, **params: Any) -> Any:
    """The operand as another dtype."""
    return b.convert(x, out.dtype)


def bits_as(b: Any, out: ShapedArray, x: Any, *, new_dtype: Any) -> Any:
    """The bits of the operand as another dtype of its size."""
    to = f"{new_dtype.kind}{new_dtype.itemsize}"
    return x if x.dtype == to else b.let("bitcast", (x,), to)


def square(b: Any, out: ShapedArray, x: Any) -> Any:
    """x x."""
    return b.op("mul", x, x)


def rsqrt(b: Any, out: ShapedArray, x: Any) -> Any:
    """1 / sqrt(x)."""
    return b.op("div", b.lit(1, x.dtype), b.op("sqrt", x))


def sign(b: Any, out: ShapedArray, x: Any) -> Any:
    """-1, 0 or 1; NaN stays."""
    zero, one, less = (b.lit(n, x.dtype) for n in (0, 1, -1 if x.dtype[0] != "u" else 1))
    y = b.op("select", b.op("gt", x, zero), one, zero)
    if x.dtype[0] == "u":
        return y
    y = b.op("select", b.op("lt", x, zero), less, y)
    return b.op("select", b.op("ne", x, x), x, y) if x.dtype[0] == "f" else y


def isnan(b: Any, out: ShapedArray, x: Any) -> Any:
    """x != x."""
    return b.op("ne", x, x)


def isfinite(b: Any, out: ShapedArray, x: Any) -> Any:
    """x - x is a number."""
    if x.dtype[0] != "f":
        return b.lit(True, "b1")
    y = b.op("sub", x, x)
    return b.op("eq", y, y)


def isinf(b: Any, out: ShapedArray, x: Any) -> Any:
    """Neither finite nor NaN."""
    if x.dtype[0] != "f":
        return b.lit(False, "b1")
    y = b.op("sub", x, x)
    return b.op("and", b.op("ne", y, y), b.op("eq", x, x))


def integer_pow(b: Any, out: ShapedArray, x: Any, *, y: int) -> Any:
    """Products up to the fourth power, as the row evaluates it; then `pow`."""
    if y in (2, 3, 4):
        two = b.op("mul", x, x)
        return two if y == 2 else b.op("mul", two, x if y == 3 else two)
    if x.dtype[0] == "f":
        return b.cast(b.op("pow", x, b.lit(y, x.dtype)), x.dtype)
    z, power = b.lit(1, x.dtype), x  # whole numbers wrap around, in any order
    while y:
        z = b.op("mul", z, power) if y & 1 else z
        y >>= 1
        power = b.op("mul", power, power) if y else power
    return z


def clamp(b: Any, out: ShapedArray, low: Any, x: Any, high: Any) -> Any:
    """Between two bounds."""
    low, x, high = (b.convert(v, out.dtype) for v in (low, x, high))
    return b.op("min", b.op("max", x, low), high)


def real(b: Any, out: ShapedArray, x: Any) -> Any:
    """The real part."""
    return getattr(x, "re", x)


def imag(b: Any, out: ShapedArray, x: Any) -> Any:
    """The imaginary part."""
    return x.im


def conj(b: Any, out: ShapedArray, x: Any) -> Any:
    """The conjugate."""
    return x._replace(im=b.op("neg", x.im)) if hasattr(x, "im") else x


def make_complex(b: Any, out: ShapedArray, x: Any, y: Any) -> Any:
    """A complex number from its parts."""
    return b.complex(x, y, out.dtype)


def logaddexp(b: Any, out: ShapedArray, x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)) without overflow; equal infinities stay."""
    x, y = b.convert(x, out.dtype), b.convert(y, out.dtype)
    less = b.op("neg", b.op("abs", b.op("sub", x, y)))
    far = b.op("log1p", b.op("exp", less))
    equal = b.op("add", x, b.lit(0.6931471805599453, x.dtype))
    return b.op("select", b.op("eq", x, y), equal, b.op("add", b.op("max", x, y), far))


def cumlogsumexp(b: Any, out: ShapedArray, state: Any, x: Any) -> Any:
    """The log of a running sum of exponentials, m + log(1 + r), and what is carried: m and r.

    m is the greatest element so far, r the sum of exp(y - m) over the others. No iteration waits
    for a logarithm; equal infinities stay.
    """
    (m, r), x = state, b.cast(x, state[0].dtype)
    one = b.lit(1, m.dtype)
    far = b.op("exp", b.op("neg", b.op("abs", b.op("sub", x, m))))
    e = b.op("select", b.op("eq", x, m), one, far)
    greater = b.op("mul", b.op("add", r, one), e)
    r = b.op("select", b.op("gt", x, m), greater, b.op("add", r, e))
    m = b.op("max", m, x)
    return b.convert(b.op("add", m, b.op("log1p", r)), out.dtype), [m, r]


def xlogy(b: Any, out: ShapedArray, x: Any, y: Any) -> Any:
    """x log(y), and 0 where x is 0 and y is a number."""
    x, y = b.convert(x, out.dtype), b.convert(y, out.dtype)
    zero = b.lit(0, x.dtype)
    none = b.op("and", b.op("eq", x, zero), b.op("eq", y, y))
    return b.op("select", none, zero, b.op("mul", x, b.op("log", y)))


# ---------------------------------------------------------------------------------- moving


def transpose(b: Any, index: Any, out: ShapedArray, x: Any, *, permutation: Ints) -> Any:
    """Axes in another order."""
    source = [b.origin] * len(index)
    for position, axis in enumerate(permutation):
        source[axis] = index[position]
    return x.at(tuple(source))


def broadcast(
    b: Any, index: Any, out: ShapedArray, x: Any, *, shape: Ints, broadcast_dimensions: Ints
) -> Any:
    """Axes of size 1 stay at their origin, new ones are left out."""
    return x.at(
        tuple(
            b.origin if n == 1 else index[d]
            for n, d in zip(x.aval.shape, broadcast_dimensions, strict=True)
        )
    )


def squeeze(b: Any, index: Any, out: ShapedArray, x: Any, *, dimensions: Ints) -> Any:
    """Axes of size 1 left out."""
    rest = iter(index)
    gone = {d % len(x.aval.shape) for d in dimensions}
    return x.at(tuple(b.origin if i in gone else next(rest) for i in range(len(x.aval.shape))))


def expand_dims(b: Any, index: Any, out: ShapedArray, x: Any, *, dimensions: Ints) -> Any:
    """New axes of size 1."""
    new = {d % len(index) for d in dimensions}
    return x.at(tuple(c for i, c in enumerate(index) if i not in new))


def reshape(b: Any, index: Any, out: ShapedArray, x: Any, *, new_sizes: Ints) -> Any:
    """Axes of size 1 come and go; the order of all others stays."""
    rest = iter([c for c, n in zip(index, new_sizes, strict=True) if n != 1])
    return x.at(tuple(b.origin if n == 1 else next(rest) for n in x.aval.shape))


def rev(b: Any, index: Any, out: ShapedArray, x: Any, *, dimensions: Ints) -> Any:
    """Axes from their other end."""
    return x.at(
        tuple(
            b.flip(c, out.shape[i]) if i in dimensions and out.shape[i] != 1 else c
            for i, c in enumerate(index)
        )
    )


def slice_(
    b: Any,
    index: Any,
    out: ShapedArray,
    x: Any,
    *,
    start_indices: Ints,
    limit_indices: Ints,
    strides: Ints,
) -> Any:
    """start + stride i along every axis."""
    return x.at(
        tuple(
            b.shift(b.scale(c, step), start)
            for c, start, step in zip(index, start_indices, strides, strict=True)
        )
    )


def _all(b: Any, conditions: Sequence[Any]) -> Any:
    found = conditions[0]
    for c in conditions[1:]:
        found = b.op("and", found, c)
    return found


def _window(b: Any, c: Any, n: int, low: int, step: int) -> tuple[list[Any], Any]:
    """Conditions for `c = low + step i` with 0 <= i < n, and i."""
    conditions = [b.inside(c, low, low + (n - 1) * step + 1 if n else low)]
    moved = b.shift(c, -low)
    if step == 1:
        return conditions, moved
    place, by = b.position(moved), b.size(step)
    conditions.append(b.op("eq", b.op("rem", place, by), b.lit(0, "i8")))
    return conditions, b.gathered(b.op("floor_divide", place, by))


def pad(b: Any, index: Any, out: ShapedArray, x: Any, value: Any, *, padding_config: Any) -> Any:
    """The operand's element inside, the padding value around and between."""
    conditions: list[Any] = []
    source: list[Any] = []
    for c, n, (low, high, interior) in zip(index, x.aval.shape, padding_config, strict=True):
        if low == high == interior == 0:
            source.append(c)
            continue
        found, moved = _window(b, c, n, low, interior + 1)
        conditions += found
        source.append(moved)
    if not conditions:
        return b.convert(x.at(tuple(source)), out.dtype)
    return b.when(
        _all(b, conditions),
        lambda: b.convert(x.at(tuple(source)), out.dtype),
        lambda: b.convert(value.at(()), out.dtype),
    )


def concatenate(b: Any, index: Any, out: ShapedArray, *xs: Any, dimension: int) -> Any:
    """The operand in which the coordinate falls; of many it is found by bisection."""
    starts = [0, *accumulate(x.aval.shape[dimension] for x in xs)]

    def among(first: int, end: int) -> Any:
        if end - first == 1:
            c = index[dimension]
            c = b.origin if starts[end] - starts[first] == 1 else b.shift(c, -starts[first])
            at = tuple(c if i == dimension else index[i] for i in range(len(index)))
            return b.convert(xs[first].at(at), out.dtype)
        middle = first + 1 if end - first <= FEW else (first + end) // 2
        return b.when(
            b.inside(index[dimension], starts[first], starts[middle]),
            lambda: among(first, middle),
            lambda: among(middle, end),
        )

    return among(0, len(xs))


def split(
    b: Any, index: Any, out: ShapedArray, x: Any, *, sizes: Ints, axis: int, position: int
) -> Any:
    """One part of several along an axis."""
    start = sum(sizes[:position])
    c = index[axis] if x.aval.shape[axis] == 1 else b.shift(index[axis], start)
    return x.at(tuple(c if i == axis else d for i, d in enumerate(index)))


def update_slice(
    b: Any,
    index: Any,
    out: ShapedArray,
    x: Any,
    v: Any,
    *,
    start_indices: Ints,
    limit_indices: Ints,
    strides: Ints,
) -> Any:
    """The new element inside the slice, the old one outside."""
    conditions: list[Any] = []
    source: list[Any] = []
    where = zip(index, v.aval.shape, x.aval.shape, start_indices, strides, strict=True)
    for c, m, n, start, step in where:
        if m == n:
            source.append(c)
            continue
        found, moved = _window(b, c, m, start, step)
        conditions += found
        source.append(moved if m != 1 else b.origin)
    if not conditions:
        return b.convert(v.at(tuple(source)), out.dtype)
    return b.when(
        _all(b, conditions),
        lambda: b.convert(v.at(tuple(source)), out.dtype),
        lambda: b.convert(x.at(index), out.dtype),
    )


def _starts(b: Any, starts: Sequence[Any], sizes: Ints, shape: Ints) -> list[Any]:
    """Clamped starts of a window."""
    found = []
    for s, m, n in zip(starts, sizes, shape, strict=True):
        start = b.cast(s.at(()), "i8")
        start = b.op("max", start, b.lit(0, "i8"))
        found.append(b.op("min", start, b.size(n - m)))
    return found


def dynamic_slice(
    b: Any, index: Any, out: ShapedArray, x: Any, *starts: Any, slice_sizes: Ints
) -> Any:
    """A window that starts where scalars say."""
    source = []
    shape = x.aval.shape
    for c, s, m, n in zip(
        index, _starts(b, starts, slice_sizes, shape), out.shape, shape, strict=True
    ):
        source.append(c if m == n else b.gathered(b.op("add", b.position(c), s)))
    return x.at(tuple(source))


def dynamic_update_slice(b: Any, index: Any, out: ShapedArray, x: Any, v: Any, *starts: Any) -> Any:
    """The new element inside the window, the old one outside."""
    conditions: list[Any] = []
    source: list[Any] = []
    first = _starts(b, starts, v.aval.shape, x.aval.shape)
    for c, s, m, n in zip(index, first, v.aval.shape, x.aval.shape, strict=True):
        if m == n:
            source.append(c)
            continue
        place = b.op("sub", b.position(c), s)
        conditions += [b.op("ge", place, b.lit(0, "i8")), b.op("lt", place, b.size(m))]
        source.append(b.gathered(place) if m != 1 else b.origin)
    if not conditions:
        return b.convert(v.at(tuple(source)), out.dtype)
    return b.when(
        _all(b, conditions),
        lambda: b.convert(v.at(tuple(source)), out.dtype),
        lambda: b.convert(x.at(index), out.dtype),
    )


def gather(b: Any, index: Any, out: ShapedArray, x: Any, *indices: Any, axes: Ints) -> Any:
    """The element at the nearest place that there is."""
    before = max(len(i.aval.shape) for i in indices)
    rest = iter(index[before:])
    source = []
    for axis, n in enumerate(x.aval.shape):
        if axis not in axes:
            source.append(next(rest))
        elif n == 1:
            source.append(b.origin)
        else:
            i = b.cast(indices[axes.index(axis)].at(index[:before]), "i8")
            i = b.op("min", b.op("max", i, b.lit(0, "i8")), b.size(n - 1))
            source.append(b.gathered(i))
    return x.at(tuple(source))


def iota(b: Any, index: Any, out: ShapedArray, *, dtype: Any, shape: Ints, dimension: int) -> Any:
    """The coordinate itself."""
    return b.convert(b.position(index[dimension]), out.dtype)
