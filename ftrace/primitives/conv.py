"""`conv`: every convolution of two arrays, as a correlation of stacked groups without padding.

Operands are (group, batch, channel, space...) and (group, out channel, channel, space...), the
result is (group, batch, out channel, space...). Layouts, padding, dilation of the operand and
JAX's two group counts are moves before and after it (`lax/convolution.py`), and with groups as an
axis of their own the row is closed: both transposes are the row again with axes swapped, and a
mapped axis joins groups, batch or out channels. Evaluation gathers windows and multiplies
matrices (BLAS), a group and a bounded number of batch members at a time; compiled programs call a
loop that gathers while it multiplies (`cpu/window_text.py`).
"""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.dtypes import float32
from ftrace.core.errors import AxisError, DtypeError, ShapeError
from ftrace.core.lower import Cores, Expansion, Gufunc, GufuncCall
from ftrace.core.primitive import ErrorSample, Linear, Primitive, Sample, Unsupported
from ftrace.core.zero import ZERO
from ftrace.primitives.arithmetic import complex, imag, mul, neg, real
from ftrace.primitives.compare import gt
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.dot import dot_general
from ftrace.primitives.few_terms import sum_of_products
from ftrace.primitives.linear import (
    add,
    broadcast_in_dim,
    broadcast_rank0,
    check_kinds,
    join,
    move_axis,
    reduce_sum,
)
from ftrace.primitives.movement import Ints, outside_zero, zeros
from ftrace.primitives.shape import concatenate, reshape, rev
from ftrace.primitives.slicing import slice
from ftrace.primitives.windows import check_windows, count, spread_back, strided_windows

GATHERED: Final = 1 << 20  # elements of windows that are written out at a time
TERMS: Final = 64  # products of an element that are written out, or elements
MOST: Final = 1  # channels that are made so: of more, each reads the windows again
SHARING: Final = 2  # elements that read one window: of more a loop keeps it in registers
LONG: Final = 64  # products of an element that are summed by a kernel of their own

# ---------------------------------------------------------------------------------- type


def _conv_type(lhs: ShapedArray, rhs: ShapedArray, *, strides: Ints, dilation: Ints) -> ShapedArray:
    if lhs.ndim != rhs.ndim or lhs.ndim < 3:
        raise AxisError(
            f"conv was given {lhs} and {rhs}, which must have one rank, at least 3.",
            "Axes are (group, batch, channel, space...) and (group, out, channel, space...).",
        )
    check_windows("conv", rhs, rhs.ndim - 3, strides=strides, dilation=dilation)
    for axis, what in ((0, "groups"), (2, "channels")):
        if lhs.shape[axis] != rhs.shape[axis]:
            raise ShapeError(
                f"conv: {lhs} has {lhs.shape[axis]} {what} and {rhs} has {rhs.shape[axis]}.",
                "They must agree.",
            )
    if 0 in rhs.shape[3:]:
        raise ShapeError(f"conv: the kernel {rhs} has an empty window.", "Use sizes of at least 1.")
    dtype, _ = join("conv", lhs, rhs)
    check_kinds("conv", "iufc", lhs)
    space = map(count, lhs.shape[3:], rhs.shape[3:], strides, dilation)
    return aval((lhs.shape[0], lhs.shape[1], rhs.shape[1], *space), dtype)


# ---------------------------------------------------------------------------------- evaluation


def _conv_impl(lhs: Any, rhs: Any, strides: Ints, dilation: Ints) -> Any:
    kernel = rhs.shape[3:]
    views = strided_windows(lhs, 3, kernel, strides, dilation)
    groups, batch, channels = lhs.shape[:3]
    space = views.shape[3 : 3 + len(kernel)]
    out = np.empty((groups, batch, rhs.shape[1], *space), lhs.dtype)
    each = channels * prod(kernel) * prod(space)
    step = max(1, GATHERED // max(each, 1))
    for g in range(groups):
        matrix = rhs[g].reshape(rhs.shape[1], channels * prod(kernel))
        for b in range(0, batch, step):
            members = views[g, b : b + step]
            found = np.matmul(matrix, _gathered(members, len(kernel)))
            found = found.reshape(rhs.shape[1], len(members), *space)
            out[g, b : b + step] = found.swapaxes(0, 1)
    return out


def _gathered(views: Any, ndim: int) -> Any:
    """Windows (batch, channel, place..., inside...) as a matrix (channel inside, batch place).

    It is written with the longer of places and insides innermost; BLAS takes either order.
    """
    n = views.ndim
    places, inside = tuple(range(2, 2 + ndim)), tuple(range(2 + ndim, n))
    rows, columns = (1, *inside), (0, *places)
    height, width = (prod(views.shape[i] for i in axes) for axes in (rows, columns))
    if prod(views.shape[i] for i in places) >= prod(views.shape[i] for i in inside):
        return views.transpose(*rows, *columns).reshape(height, width)
    return views.transpose(*columns, *rows).reshape(width, height).T


# ---------------------------------------------------------------------------------- kernels


def _expanded(lhs: Any, rhs: Any, *, strides: Ints, dilation: Ints) -> Any:
    """By slices, where few numbers are multiplied for an element, or there are few elements.

    What has no loop becomes what has one: half floats are added up in float32 (as NumPy's products
    do), and complex numbers are twice as many channels.
    """
    a, out = typeof(lhs), conv.type(typeof(lhs), typeof(rhs), strides=strides, dilation=dilation)
    kernel, channels = typeof(rhs).shape[3:], a.shape[2]
    terms, count = channels * prod(kernel), prod(out.shape)
    apart = any(n != 1 for n in (*strides, *dilation))  # then slices are gathers
    if not count or not terms:
        return None
    if a.dtype.kind == "f" and a.dtype.itemsize < float32.itemsize:
        x, y = (convert_element_type(v, new_dtype=float32) for v in (lhs, rhs))
        return convert_element_type(
            conv(x, y, strides=strides, dilation=dilation), new_dtype=a.dtype
        )
    found = None if a.dtype.itemsize < 4 or apart else _written_out(lhs, rhs, out, terms, count)
    if found is None and a.dtype.kind == "c":
        return _by_parts(lhs, rhs, strides, dilation)
    return found


def _written_out(lhs: Any, rhs: Any, out: ShapedArray, terms: int, count: int) -> Any:
    if terms <= TERMS and out.shape[2] <= MOST:
        return _by_terms(lhs, rhs, out)
    _, batch, outs, *space = out.shape
    if typeof(lhs).shape[3:] == typeof(rhs).shape[3:]:  # one window, which is everything
        x, w = (reshape(v, new_sizes=(*typeof(v).shape[:2], terms)) for v in (lhs, rhs))
        y = dot_general(x, w, dimension_numbers=(((2,), (2,)), ((0,), (0,))))
        return reshape(y, new_sizes=out.shape)
    if terms >= LONG and (
        count <= TERMS or (prod(space) <= TERMS // SHARING and batch * outs <= SHARING)
    ):
        return _by_places(lhs, rhs, out)
    return None


def _by_parts(lhs: Any, rhs: Any, strides: Ints, dilation: Ints) -> Any:
    """Real and imaginary parts as channels, and as out channels."""
    a, b = real(rhs), imag(rhs)
    weights = concatenate(
        concatenate(a, neg(b), dimension=2), concatenate(b, a, dimension=2), dimension=1
    )
    parts = concatenate(real(lhs), imag(lhs), dimension=2)
    found = conv(parts, weights, strides=strides, dilation=dilation)
    shape, outs = typeof(found).shape, typeof(rhs).shape[1]

    def half(first: int) -> Any:
        start = (0, 0, first, *(0,) * len(strides))
        limit = (*shape[:2], first + outs, *shape[3:])
        return slice(found, start_indices=start, limit_indices=limit, strides=(1,) * len(shape))

    return complex(half(0), half(outs))


def _by_terms(lhs: Any, rhs: Any, out: ShapedArray) -> Any:
    """A sum of products of slices, one for each channel and each place in a window."""
    groups, batch, outs, *space = out.shape
    ndim = len(space)
    factors: list[Any] = []
    for c, *inside in np.ndindex(typeof(rhs).shape[2:]):
        limit = [k + n for k, n in zip(inside, space, strict=True)]
        piece = slice(
            lhs,
            start_indices=(0, 0, c, *inside),
            limit_indices=(groups, batch, c + 1, *limit),
            strides=(1,) * (3 + ndim),
        )
        piece = reshape(piece, new_sizes=(groups, batch, *space))
        weight = slice(
            rhs,
            start_indices=(0, 0, c, *inside),
            limit_indices=(groups, outs, c + 1, *(k + 1 for k in inside)),
            strides=(1,) * (3 + ndim),
        )
        weight = reshape(weight, new_sizes=(groups, outs))
        along = (0, 1, *range(3, 3 + ndim))
        for x, dims in ((piece, along), (weight, (0, 2))):
            factors.append(broadcast_in_dim(x, shape=out.shape, broadcast_dimensions=dims))
    return sum_of_products(*factors)


def _by_places(lhs: Any, rhs: Any, out: ShapedArray) -> Any:
    """A fold for each place of the windows."""
    groups, batch, outs, *space = out.shape
    kernel, channels = typeof(rhs).shape[3:], typeof(rhs).shape[2]
    size = channels * prod(kernel)
    weights = reshape(rhs, new_sizes=(groups, outs, size))
    whole = groups, batch, outs, size
    found: list[Any] = []
    for place in np.ndindex(*space):
        limit = [p + n for p, n in zip(place, kernel, strict=True)]
        window = slice(
            lhs,
            start_indices=(0, 0, 0, *place),
            limit_indices=(groups, batch, channels, *limit),
            strides=(1,) * (3 + len(kernel)),
        )
        window = reshape(window, new_sizes=(groups, batch, size))
        terms = mul(
            *(
                broadcast_in_dim(x, shape=whole, broadcast_dimensions=dims)
                for x, dims in ((window, (0, 1, 3)), (weights, (0, 2, 3)))
            )
        )
        found.append(reshape(reduce_sum(terms, axes=(3,)), new_sizes=(groups, batch, outs, 1)))
    return reshape(concatenate(*found, dimension=3), new_sizes=out.shape)


def _conv_call(avals: Sequence[ShapedArray], *, strides: Ints, dilation: Ints) -> GufuncCall | None:
    """A loop of `cpu/window_loops.py`; the first axis of all arrays is the stack of groups."""
    lhs, rhs = avals
    rank = len(strides)
    out = conv.type(lhs, rhs, strides=strides, dilation=dilation)
    left, inside, places = ("".join(f",{name}{i}" for i in range(rank)) for name in ("x", "k", "y"))
    signature = f"(b,c{left}),(o,c{inside})->(b,o{places})"
    name = ":".join(",".join(map(str, numbers)) for numbers in (strides, dilation))
    axes = tuple(range(1, 3 + rank))
    given, made = (Cores(0, axes), Cores(1, axes)), (Cores(0, axes),)
    products = prod(out.shape) * prod(rhs.shape[2:])
    return GufuncCall("windows", name, signature, given, made, operations=max(products, 1))


# ---------------------------------------------------------------------------------- derivatives


def _conv_jvp(primals: Any, tangents: Any, **windows: Ints) -> Any:
    x, y = primals
    tx, ty = tangents
    z = conv(x, y, **windows)
    terms = []
    if tx is not ZERO:
        terms.append(conv(tx, y, **windows))
    if ty is not ZERO:
        terms.append(conv(x, ty, **windows))
    return z, terms[0] if len(terms) == 1 else add(*terms)


def _swapped(x: Any) -> Any:
    """Axes 1 and 2, batch or out channels and channels, exchanged."""
    return move_axis(x, 2, 1)


def _conv_transpose(ct: Any, lhs: Any, rhs: Any, *, strides: Ints, dilation: Ints) -> Any:
    if type(lhs) is Linear and type(rhs) is Linear:
        return Unsupported("conv is not linear in both of its operands together.")()
    if type(lhs) is Linear:
        return _lhs_cotangent(ct, lhs.aval, rhs, strides, dilation), None
    return None, _rhs_cotangent(ct, lhs, rhs.aval, strides, dilation)


def _conv_mask(mask: Any, lhs: Any, rhs: Any, **windows: Ints) -> Any:
    """What of the linear operand meets a result that was read: those are counted."""

    def ones(x: Any) -> Any:
        if type(x) is Linear:
            return Linear(aval(x.aval.shape, float32))
        shape = (x if type(x) is ShapedArray else typeof(x)).shape
        return broadcast_rank0(np.float32(1), shape)

    read = convert_element_type(mask, new_dtype=float32)
    found = _conv_transpose(read, ones(lhs), ones(rhs), **windows)
    return tuple(None if c is None else gt(c, np.float32(0)) for c in found)


def _conv_clear(mask: Any, lhs: Any, rhs: Any, **windows: Ints) -> Any:
    """The known operand is zero where it meets no result in the mask."""
    if type(lhs) is Linear:
        _, met = _conv_mask(mask, lhs.aval, Linear(typeof(rhs)), **windows)
        return lhs, outside_zero(met, rhs)
    met, _ = _conv_mask(mask, Linear(typeof(lhs)), rhs.aval, **windows)
    return outside_zero(met, lhs), rhs


def _lhs_cotangent(ct: Any, lhs: ShapedArray, rhs: Any, strides: Ints, dilation: Ints) -> Any:
    """The cotangents spread to their places, correlated with the kernel turned around."""
    kernel = typeof(rhs).shape[3:]
    places = spread_back(ct, lhs.shape[3:], kernel, strides, dilation, 3)
    turned = rev(rhs, dimensions=tuple(range(3, lhs.ndim))) if kernel else rhs
    return conv(places, _swapped(turned), strides=(1,) * len(kernel), dilation=dilation)


def _rhs_cotangent(ct: Any, lhs: Any, rhs: ShapedArray, strides: Ints, dilation: Ints) -> Any:
    """What was read, correlated with the cotangents: strides and dilation change roles."""
    a, places = typeof(lhs), typeof(ct).shape[3:]
    if 0 in places:
        return zeros(aval(rhs.shape, a.dtype))
    read = tuple(
        (m - 1) * s + (k - 1) * d + 1
        for m, k, s, d in zip(places, rhs.shape[3:], strides, dilation, strict=True)
    )
    if read != a.shape[3:]:
        limits = (*a.shape[:3], *read)
        zero, one = (0,) * a.ndim, (1,) * a.ndim
        lhs = slice(lhs, start_indices=zero, limit_indices=limits, strides=one)
    found = conv(_swapped(lhs), _swapped(ct), strides=dilation, dilation=strides)
    return _swapped(found)


# ---------------------------------------------------------------------------------- batching


def _joined(x: Any, dim: Any, axis: int) -> Any:
    """A mapped axis merged into an axis of the member, in front of it."""
    x = move_axis(x, dim, axis)
    shape = typeof(x).shape
    merged = shape[axis] * shape[axis + 1]
    return reshape(x, new_sizes=(*shape[:axis], merged, *shape[axis + 2 :]))


def _conv_batch(axis: Any, values: Any, dims: Any, **windows: Ints) -> Any:
    (x, y), (dx, dy) = values, dims
    if dx is not None and dy is not None:
        at, joined = 0, (_joined(x, dx, 0), _joined(y, dy, 0))
    elif dx is not None:
        at, joined = 1, (_joined(x, dx, 1), y)
    else:
        at, joined = 2, (x, _joined(y, dy, 1))
    z = conv(*joined, **windows)
    shape = typeof(z).shape
    mapped, d = (y, dy) if at == 2 else (x, dx)
    member = [n for i, n in enumerate(typeof(mapped).shape) if i != d]
    sizes = (axis.size, member[1 if at else 0])
    return reshape(z, new_sizes=(*shape[:at], *sizes, *shape[at + 1 :])), at


# ---------------------------------------------------------------------------------- the row


def _conv_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(52)

    def operands(lhs: Ints, rhs: Ints, dtype: str = "f8") -> tuple[Any, Any]:
        pair = [rng.normal(size=shape) * 2 for shape in (lhs, rhs)]
        if dtype == "c16":
            pair = [x + 1j * rng.normal(size=x.shape) for x in pair]
        return tuple(np.asarray(x).astype(dtype) for x in pair)  # type: ignore[return-value]

    for lhs, rhs, strides, dilation in (
        ((1, 2, 3, 6), (1, 2, 3, 3), (1,), (1,)),
        ((2, 1, 2, 8), (2, 3, 2, 2), (3,), (2,)),
        ((1, 2, 1, 4, 5), (1, 2, 1, 2, 3), (1, 2), (1, 1)),
        ((2, 2, 2, 5, 4), (2, 1, 2, 2, 2), (2, 1), (2, 3)),
        ((1, 1, 1, 3, 3, 3), (1, 2, 1, 2, 1, 3), (1, 1, 1), (1, 1, 1)),
        ((2, 3, 2), (2, 4, 2), (), ()),
        ((1, 1, 2, 5), (1, 2, 2, 4), (1,), (1,)),
        ((1, 1, 1, 2), (1, 1, 1, 3), (1,), (1,)),
        ((1, 2, 1, 5, 19), (1, 2, 1, 4, 17), (1, 2), (1, 1)),
        ((2, 1, 2, 3), (2, 5, 2, 2), (1,), (1,)),
        ((1, 0, 2, 3), (1, 2, 2, 2), (1,), (1,)),
        ((1, 2, 0, 3), (1, 2, 0, 2), (1,), (1,)),
    ):
        yield Sample(operands(lhs, rhs), {"strides": strides, "dilation": dilation})
    x, y = operands((6, 2, 1, 1), (2, 2, 3, 1))
    params = {"strides": (1,), "dilation": (1,)}
    yield Sample((x.T[:, :, :, ::2], y.T[..., ::-1]), params)
    for dtype in ("f4", "i8", "u1", "c16"):
        yield Sample(operands((1, 2, 2, 5), (1, 3, 2, 2), dtype), params)


def _conv_errors() -> Iterable[ErrorSample]:
    x, y = np.ones((2, 2, 3, 4)), np.ones((2, 5, 3, 2))
    params = {"strides": (1,), "dilation": (1,)}
    yield ErrorSample((x, y[0]), params, AxisError, "must have one rank")
    yield ErrorSample((x[0, 0], y[0, 0]), params, AxisError, "at least 3")
    yield ErrorSample((x[:1], y), params, ShapeError, "has 1 groups")
    yield ErrorSample((x, y[:, :, :1]), params, ShapeError, "has 3 channels")
    yield ErrorSample((x, y[..., :0]), params, ShapeError, "empty window")
    yield ErrorSample((x, y), params | {"strides": (1, 1)}, AxisError, "one entry per axis")
    yield ErrorSample((x, y), params | {"dilation": (0,)}, ShapeError, "must be positive")
    yield ErrorSample((x, y.astype("f4")), params, DtypeError, "do not promote")
    yield ErrorSample((x > 0, y > 0), params, DtypeError, "not defined for bool")


conv = Primitive(
    name="conv",
    impl=_conv_impl,
    type=_conv_type,
    jvp=_conv_jvp,
    transpose=_conv_transpose,
    batch=_conv_batch,
    lower=(Expansion(_expanded), Gufunc(_conv_call)),
    mask=_conv_mask,
    clear=_conv_clear,
    zeros=True,
    linear_in=(0, 1),
    bilinear=True,
    samples=_conv_samples,
    errors=_conv_errors,
    doc="Correlation of groups of arrays: out[g, b, o, i] = sum over c, k of lhs[g, b, c, "
    "i * strides + k * dilation] rhs[g, o, c, k], for windows that lie inside lhs.",
)
