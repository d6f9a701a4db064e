"""Slices whose starts are values: `dynamic_slice` reads one, `dynamic_update_slice` writes one.

Sizes are static. A start is clamped so that the slice lies inside the array, as in JAX; it counts
from the front, a negative one is 0. Each row is the other's transpose; mapped starts become the
indices of a gather or a scatter. Static slices are in `slicing.py`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.dtypes import int64
from ftrace.core.errors import AxisError, DtypeError, ShapeError
from ftrace.core.lower import Moving
from ftrace.core.primitive import ErrorSample, Linear, Primitive, Sample
from ftrace.primitives import elements
from ftrace.primitives.compare import clamp
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.create import iota
from ftrace.primitives.index import gather, scatter, tangents_of
from ftrace.primitives.linear import add, broadcast_in_dim, join, move_axis, transpose
from ftrace.primitives.movement import Ints, carry, inserted, place, zeros
from ftrace.primitives.overwriting import spread, without


def _check(name: str, x: ShapedArray, sizes: Ints, starts: Sequence[ShapedArray]) -> None:
    if len(sizes) != x.ndim or len(starts) != x.ndim:
        raise AxisError(
            f"{name}: {len(starts)} starts and {len(sizes)} sizes for {x}.", "Give one per axis."
        )
    if any(not 0 <= m <= n for m, n in zip(sizes, x.shape, strict=True)):
        raise ShapeError(
            f"{name}: a slice of shape {sizes} does not fit into {x}.",
            "No size may exceed that of the axis.",
        )
    for start in starts:
        if start.shape or start.dtype.kind not in "iu":
            raise DtypeError(f"{name}: a start is {start}.", "Starts are integers of rank 0.")


def _window(x: Any, sizes: Ints, starts: Sequence[Any]) -> tuple[slice, ...]:
    """Python slices, with the starts clamped."""
    first = [max(0, min(int(i), n - m)) for i, n, m in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(i, i + m) for i, m in zip(first, sizes, strict=True))


def _window_indices(
    axis: Any, shape: Ints, sizes: Ints, starts: Sequence[Any], dims: Sequence[int | None]
) -> tuple[Ints, list[Any]]:
    """For mapped starts: the axes that the slice does not fill, and an index array for each.

    The arrays have the shape (members, sizes of these axes).
    """
    axes = tuple(i for i, (n, m) in enumerate(zip(shape, sizes, strict=True)) if m != n)
    full = (axis.size, *(sizes[a] for a in axes))
    indices = []
    for position, a in enumerate(axes, start=1):
        start = convert_element_type(starts[a], new_dtype=int64)
        start = clamp(0, start, shape[a] - sizes[a])
        kept = () if dims[a] is None else (0,)
        start = broadcast_in_dim(start, shape=full, broadcast_dimensions=kept)
        indices.append(add(start, iota(dtype=int64, shape=full, dimension=position)))
    return axes, indices


def _with_members(axis: Any, indices: list[Any], axes: Ints, d: int | None) -> Any:
    """The same indices into an array whose mapped axis leads."""
    if d is None:
        return axes, indices
    members = iota(dtype=int64, shape=typeof(indices[0]).shape, dimension=0)
    return (0, *(a + 1 for a in axes)), [members, *indices]


def _order(ndim: int, axes: Ints) -> Ints:
    """Where each axis of a mapped slice is, when `axes` come before the others."""
    order = (*axes, *(a for a in range(ndim) if a not in axes))
    return (0, *(order.index(a) + 1 for a in range(ndim)))


# ---------------------------------------------------------------------------------- reading


def _read_type(x: ShapedArray, *starts: ShapedArray, slice_sizes: Ints) -> ShapedArray:
    _check("dynamic_slice", x, slice_sizes, starts)
    return aval(slice_sizes, x.dtype)


def _read_impl(x: Any, *starts: Any, slice_sizes: Ints) -> Any:
    return x[_window(x, slice_sizes, starts)] if starts else np.array(x)[()]


def _read_jvp(primals: Any, tangents: Any, *, slice_sizes: Ints) -> Any:
    x, *starts = primals
    y = dynamic_slice(x, *starts, slice_sizes=slice_sizes)
    return y, dynamic_slice(tangents[0], *starts, slice_sizes=slice_sizes)


def _read_transpose(ct: Any, x: Any, *starts: Any, slice_sizes: Ints) -> Any:
    def back(c: Any) -> Any:
        empty = zeros(aval(x.aval.shape, typeof(c).dtype))
        return dynamic_update_slice(empty, c, *starts)

    found = spread(ct, back, fixed=False)
    # beside other masks it is plain: in a loop a mask of computed places would be carried, which
    # costs as much as the loop
    found.computed = True
    return (found, *(None for _ in starts))


def _read_batch(axis: Any, values: Any, dims: Any, *, slice_sizes: Ints) -> Any:
    (x, *starts), (d, *start_dims) = values, dims
    if all(i is None for i in start_dims):
        sizes = inserted(slice_sizes, d, axis.size)
        return dynamic_slice(x, *inserted(tuple(starts), d, 0), slice_sizes=sizes), d
    shape = typeof(x).shape
    member = shape if d is None else shape[:d] + shape[d + 1 :]
    axes, indices = _window_indices(axis, member, slice_sizes, starts, start_dims)
    if not axes:  # the whole array, wherever it starts
        return place(axis, x, d, 0), 0
    order = _order(len(member), axes)
    axes, indices = _with_members(axis, indices, axes, d)
    y = gather(x if d is None else move_axis(x, d, 0), *indices, axes=axes, mode="clip")
    return transpose(y, permutation=order), 0


def _cases() -> Iterable[tuple[Any, Ints, tuple[Any, ...]]]:
    rng = np.random.default_rng(51)
    x = rng.normal(size=(4, 5))
    for a, sizes, starts in (
        (x[0], (2,), (1,)),
        (x[0], (3,), (99,)),
        (x[0], (3,), (-2,)),
        (x, (2, 3), (1, 2)),
        (x, (4, 1), (0, 3)),
        (x, (1, 5), (2, 0)),
        (x, (4, 5), (1, 1)),
        (x.T[::2, ::-1], (2, 2), (1, 1)),
        (x, (0, 2), (1, 1)),
        (np.zeros((0, 3)), (0, 2), (0, 2)),
        (np.zeros((0, 3)), (0, 2), (0, 1)),
        (np.float64(1.5), (), ()),
        *(((x[0] * 3).astype(name), (2,), (2,)) for name in ("i8", "?", "c16", "f4")),
    ):
        yield a, sizes, tuple(np.int64(i) for i in starts)
    yield x, (2, 2), (np.uint8(1), np.int32(9))


def _read_samples() -> Iterable[Sample]:
    for x, sizes, starts in _cases():
        yield Sample((x, *starts), {"slice_sizes": sizes})
    yield Sample((2.5,), {"slice_sizes": ()})


_BAD: tuple[tuple[Ints, tuple[Any, ...], type[Exception], str], ...] = (
    ((4,), (0,), ShapeError, "does not fit into"),
    ((2,), (), AxisError, "Give one per axis"),
    ((2,), (0.5,), DtypeError, "Starts are integers"),
    ((2,), (np.zeros(2, int),), DtypeError, "Starts are integers"),
)


def _read_errors() -> Iterable[ErrorSample]:
    for sizes, starts, error, phrase in _BAD:
        yield ErrorSample((np.ones(3), *starts), {"slice_sizes": sizes}, error, phrase)
    yield ErrorSample((np.ones(3), 0), {"slice_sizes": (1, 1)}, AxisError, "Give one per axis")


dynamic_slice = Primitive(
    name="dynamic_slice",
    lower=Moving(elements.dynamic_slice, "computed"),
    impl=_read_impl,
    type=_read_type,
    jvp=_read_jvp,
    transpose=_read_transpose,
    batch=_read_batch,
    mask="call",
    zeros=True,
    linear_in=(0,),
    samples=_read_samples,
    errors=_read_errors,
    doc="The slice of shape `slice_sizes` of x that begins at `starts`, one integer per axis; "
    "a start is clamped so that the slice lies inside x.",
)


# ---------------------------------------------------------------------------------- writing


def _write_type(x: ShapedArray, v: ShapedArray, *starts: ShapedArray) -> ShapedArray:
    _check("dynamic_update_slice", x, v.shape, starts)
    return aval(x.shape, join("dynamic_update_slice", x, v)[0])


def _write_impl(x: Any, v: Any, *starts: Any) -> Any:
    if not starts:
        return np.array(v, typeof(x).dtype)[()]
    out = np.array(x)
    out[_window(x, np.shape(v), starts)] = v
    return out


def _write_jvp(primals: Any, tangents: Any) -> Any:
    x, v, *starts = primals
    tx, tv = tangents_of(x, v, tangents)
    return dynamic_update_slice(x, v, *starts), dynamic_update_slice(tx, tv, *starts)


def _write_transpose(ct: Any, x: Any, v: Any, *starts: Any) -> Any:
    shape = v.aval.shape if type(v) is Linear else typeof(v).shape
    to_x = to_v = None
    if type(x) is Linear and shape != x.aval.shape:

        def clear(c: Any) -> Any:
            return dynamic_update_slice(c, zeros(aval(shape, typeof(c).dtype)), *starts)

        to_x = without(ct, clear)
    if type(v) is Linear:
        to_v = carry(ct, lambda c: dynamic_slice(c, *starts, slice_sizes=shape))
    return (to_x, to_v, *(None for _ in starts))


def _write_batch(axis: Any, values: Any, dims: Any) -> Any:
    (x, v, *starts), (d, v_d, *start_dims) = values, dims
    x, v = place(axis, x, d, 0), place(axis, v, v_d, 0)
    if all(i is None for i in start_dims):
        return dynamic_update_slice(x, v, 0, *starts), 0
    member, sizes = typeof(x).shape[1:], typeof(v).shape[1:]
    axes, indices = _window_indices(axis, member, sizes, starts, start_dims)
    if not axes:
        return v, 0
    order = _order(len(member), axes)
    axes, indices = _with_members(axis, indices, axes, 0)
    v = transpose(v, permutation=tuple(int(i) for i in np.argsort(order)))
    return scatter(x, v, *indices, axes=axes, mode="clip"), 0


def _write_samples() -> Iterable[Sample]:
    for x, sizes, starts in _cases():
        v = np.array(_read_impl(x, *starts, slice_sizes=sizes))
        v = v if v.dtype == bool else (v * 2 + 1).astype(v.dtype)
        yield Sample((x, v[()], *starts), {})


def _write_errors() -> Iterable[ErrorSample]:
    for sizes, starts, error, phrase in _BAD:
        yield ErrorSample((np.ones(3), np.ones(sizes), *starts), {}, error, phrase)
    yield ErrorSample((np.ones(3), np.ones(2, int), 0), {}, DtypeError, "do not promote")


dynamic_update_slice = Primitive(
    name="dynamic_update_slice",
    lower=Moving(elements.dynamic_update_slice, "choice"),
    impl=_write_impl,
    type=_write_type,
    jvp=_write_jvp,
    transpose=_write_transpose,
    batch=_write_batch,
    mask="call",
    zeros=True,
    linear_in=(0, 1),
    samples=_write_samples,
    errors=_write_errors,
    doc="A copy of x with v written where `dynamic_slice` of v's shape at `starts` would read.",
)
