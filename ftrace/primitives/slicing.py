"""Static slices: `slice` reads one, `update_slice` writes one, `pad` is their transpose.

All bounds are parameters; starts that are values live in `dynamic.py`, index arrays in `index.py`.
The three are linear and close under transposition: a slice transposes to a pad, a pad to a pad
with negated widths and a strided slice, a write to a write of zeros and a slice.
"""

import builtins
from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import AxisError, DtypeError, ShapeError
from ftrace.core.lower import Moving
from ftrace.core.primitive import LINEAR, ErrorSample, Linear, Primitive, Sample
from ftrace.core.zero import Masked, Region
from ftrace.primitives import elements
from ftrace.primitives.compare import bitwise_and, select
from ftrace.primitives.linear import broadcast_in_dim, broadcast_rank0, join, reduce_sum
from ftrace.primitives.movement import (
    Ints,
    add_axis,
    bring_together,
    carry,
    inserted,
    place,
    plain,
    whole_mask,
    zeros,
)
from ftrace.primitives.overwriting import part, spread, without

PaddingConfig = tuple[tuple[int, int, int], ...]

# ---------------------------------------------------------------------------------- pad


def _pad_type(
    x: ShapedArray, padding_value: ShapedArray, *, padding_config: PaddingConfig
) -> ShapedArray:
    if padding_value.shape:
        raise ShapeError(
            f"pad: the padding value must have rank 0, not {padding_value}.",
            "Pad with one value; write others with an update.",
        )
    if len(padding_config) != x.ndim:
        raise AxisError(
            f"pad: {len(padding_config)} widths for {x}.", "Give (low, high, interior) per axis."
        )
    shape = tuple(
        low + high + n + max(n - 1, 0) * interior
        for n, (low, high, interior) in zip(x.shape, padding_config, strict=True)
    )
    if any(n < 0 for n in shape) or any(interior < 0 for *_, interior in padding_config):
        raise ShapeError(
            f"pad: {padding_config} would make the shape {shape} of {x}.",
            "Negative widths cut: they must not cut more than there is; interior is >= 0.",
        )
    return aval(shape, join("pad", x, padding_value)[0])


def _pad_impl(x: Any, padding_value: Any, padding_config: PaddingConfig) -> Any:
    if not padding_config:
        return np.array(x)[()]
    shape, sources, targets = [], [], []
    for n, (low, high, interior) in zip(x.shape, padding_config, strict=True):
        step = interior + 1
        size = low + high + n + max(n - 1, 0) * interior
        first = -(low // step) if low < 0 else 0  # ceil(-low / step)
        last = min(n, -((low - size) // step))  # ceil((size - low) / step)
        last = max(first, last)
        start = low + first * step
        shape.append(size)
        sources.append(builtins.slice(first, last))
        targets.append(builtins.slice(start, start + (last - first) * step, step))
    out = np.full(shape, padding_value, x.dtype)
    out[tuple(targets)] = x[tuple(sources)]
    return out


def _pad_transpose(ct: Any, x: Any, padding_value: Any, padding_config: PaddingConfig) -> Any:
    to_x = to_value = None
    if type(x) is Linear:
        cuts = any(low < 0 or high < 0 for low, high, _ in padding_config)
        move = lambda c: _unpad(c, padding_config)  # noqa: E731
        to_x = spread(ct, move) if cuts else carry(ct, move)
    if type(padding_value) is Linear:
        shape = x.aval.shape if type(x) is Linear else typeof(x).shape
        places = _padded_places(shape, padding_config) if shape else np.False_
        to_value = plain(ct)
        # A select, not sum(ct) - sum(to_x): a difference cancels and turns infinity into NaN.
        a = typeof(to_value)
        to_value = select(places, to_value, a.dtype.type(0))
        if shape:
            to_value = reduce_sum(to_value, axes=tuple(range(a.ndim)))
        if type(ct) is Masked:
            live = bitwise_and(whole_mask(ct), places)
            to_value = Masked(to_value, reduce_sum(live, axes=tuple(range(a.ndim))))  # or
            to_value.branch = ct.branch
    return to_x, to_value


def _unpad(ct: Any, padding_config: PaddingConfig) -> Any:
    """The elements that are not padding; zero for those that were cut off."""
    cut = tuple((-low, -high, 0) for low, high, _ in padding_config)
    dilated = pad(ct, typeof(ct).dtype.type(0), padding_config=cut)
    limits = typeof(dilated).shape
    strides = tuple(interior + 1 for *_, interior in padding_config)
    return slice(dilated, start_indices=(0,) * len(limits), limit_indices=limits, strides=strides)


def _padded_places(shape: Ints, padding_config: PaddingConfig) -> Any:
    """True where `pad` puts its padding value."""
    inside = broadcast_rank0(np.False_, shape)
    return pad(inside, np.True_, padding_config=padding_config)


def _pad_batch(axis: Any, values: Any, dims: Any, *, padding_config: PaddingConfig) -> Any:
    x, value = values
    d, value_d = dims
    if value_d is None:
        return pad(x, value, padding_config=inserted(padding_config, d, (0, 0, 0))), d
    x = place(axis, x, d, 0)
    shape = typeof(x).shape
    if len(shape) == 1:
        return pad(x, typeof(x).dtype.type(0), padding_config=((0, 0, 0),)), 0
    zero = typeof(x).dtype.type(0)
    padded = pad(x, zero, padding_config=((0, 0, 0), *padding_config))
    full = typeof(padded).shape
    places = add_axis(axis, _padded_places(shape[1:], padding_config), 0)
    value = broadcast_in_dim(value, shape=full, broadcast_dimensions=(0,))
    return select(places, value, padded), 0


def _pad_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(21)
    value = np.float64(0.5)
    for x, config in (
        (rng.normal(size=3), ((1, 2, 0),)),
        (rng.normal(size=3), ((-1, 2, 0),)),
        (rng.normal(size=4), ((1, -2, 2),)),
        (rng.normal(size=4), ((-2, -3, 2),)),
        (rng.normal(size=(2, 3)), ((1, 0, 1), (0, 2, 0))),
        (rng.normal(size=(4, 3))[::2, ::-1], ((0, 1, 0), (-1, 0, 1))),
        (np.zeros((0, 2)), ((1, 1, 2), (0, 0, 0))),
        (rng.normal(size=3), ((-2, -1, 0),)),
        (np.float64(1.5), ()),
    ):
        yield Sample((x, value), {"padding_config": config})
    for name in ("i8", "?", "c16", "f4"):
        x = np.asarray(rng.normal(size=3) * 3).astype(name)
        yield Sample((x, x.dtype.type(1)), {"padding_config": ((1, 1, 1),)})


def _pad_errors() -> Iterable[ErrorSample]:
    x, zero = np.ones(3), np.float64(0)
    yield ErrorSample((x, zero), {"padding_config": ((-2, -2, 0),)}, ShapeError, "would make")
    yield ErrorSample((x, zero), {"padding_config": ((0, 0, -1),)}, ShapeError, "interior is >= 0")
    yield ErrorSample((x, zero), {"padding_config": ()}, AxisError, "0 widths")
    yield ErrorSample((x, x), {"padding_config": ((0, 0, 0),)}, ShapeError, "must have rank 0")
    yield ErrorSample((x, 1j), {"padding_config": ((0, 0, 0),)}, DtypeError, "do not promote")


pad = Primitive(
    name="pad",
    lower=Moving(elements.pad, "choice"),
    impl=_pad_impl,
    type=_pad_type,
    jvp=LINEAR,
    transpose=_pad_transpose,
    batch=_pad_batch,
    mask="call",
    linear_in=(0, 1),
    samples=_pad_samples,
    errors=_pad_errors,
    doc="Put `padding_value` around and between the elements: `padding_config` has (low, high, "
    "interior) per axis, and negative low and high cut elements off.",
)


# ---------------------------------------------------------------------------------- slice


def _slices(starts: Ints, limits: Ints, strides: Ints) -> tuple[Any, ...]:
    return tuple(map(builtins.slice, starts, limits, strides))


def _slice_shape(name: str, x: ShapedArray, starts: Ints, limits: Ints, strides: Ints) -> Ints:
    if not len(starts) == len(limits) == len(strides) == x.ndim:
        raise AxisError(
            f"{name}: {len(starts)} starts, {len(limits)} limits and {len(strides)} strides for "
            f"{x}.",
            "Give one of each per axis.",
        )
    for axis, (n, i, j, k) in enumerate(zip(x.shape, starts, limits, strides, strict=True)):
        if not 0 <= i <= j <= n or k < 1:
            raise ShapeError(
                f"{name}: {i}:{j}:{k} is no slice of axis {axis} of {x}.",
                f"It needs 0 <= start <= limit <= {n} and a positive stride.",
            )
    return tuple(-((i - j) // k) for i, j, k in zip(starts, limits, strides, strict=True))


def _slice_type(
    x: ShapedArray, *, start_indices: Ints, limit_indices: Ints, strides: Ints
) -> ShapedArray:
    return aval(_slice_shape("slice", x, start_indices, limit_indices, strides), x.dtype)


def _part(start_indices: Ints, limit_indices: Ints, strides: Ints) -> tuple[Ints, Ints] | None:
    """Where a slice without gaps starts, and its shape."""
    if any(step != 1 for step in strides):
        return None
    sizes = (m - n for n, m in zip(start_indices, limit_indices, strict=True))
    return start_indices, tuple(sizes)


def _slice_impl(x: Any, start_indices: Ints, limit_indices: Ints, strides: Ints) -> Any:
    if not start_indices:
        return np.array(x)[()]
    return x[_slices(start_indices, limit_indices, strides)]


def _slice_transpose(
    ct: Any, x: Linear, start_indices: Ints, limit_indices: Ints, strides: Ints
) -> Any:
    region = tuple(zip(start_indices, limit_indices, strides, strict=True))
    return (spread(ct, lambda c: pad_to(c, x.aval.shape, region), x.aval.shape, region),)


def pad_to(ct: Any, shape: Ints, region: Region) -> Any:
    """Zeros of a shape, with the cotangent of a slice where that was read."""
    a = typeof(ct)
    config = []
    for n, m, (start, _, stride) in zip(shape, a.shape, region, strict=True):
        extent = (m - 1) * stride + 1 if m else 0
        config.append((start, n - start - extent, stride - 1))
    return pad(ct, a.dtype.type(0), padding_config=tuple(config))


def slice_of(x: Any, region: Region) -> Any:
    """A slice of an array."""
    starts, limits, strides = zip(*region, strict=True)
    return slice(x, start_indices=starts, limit_indices=limits, strides=strides)


def _slice_batch(
    axis: Any, values: Any, dims: Any, *, start_indices: Ints, limit_indices: Ints, strides: Ints
) -> Any:
    (d,) = dims
    y = slice(
        values[0],
        start_indices=inserted(start_indices, d, 0),
        limit_indices=inserted(limit_indices, d, axis.size),
        strides=inserted(strides, d, 1),
    )
    return y, d


def _slice_cases() -> Iterable[tuple[Any, dict[str, Ints]]]:
    rng = np.random.default_rng(22)
    for x, starts, limits, strides in (
        (rng.normal(size=5), (1,), (4,), (1,)),
        (rng.normal(size=5), (0,), (5,), (2,)),
        (rng.normal(size=5), (1,), (5,), (3,)),
        (rng.normal(size=5), (2,), (2,), (1,)),
        (rng.normal(size=(3, 4)), (1, 0), (3, 4), (1, 1)),
        (rng.normal(size=(3, 4)), (0, 1), (3, 4), (2, 2)),
        (rng.normal(size=(4, 6)).T[::2], (0, 1), (2, 4), (1, 2)),
        (np.zeros((0, 3)), (0, 1), (0, 2), (1, 1)),
        (np.float64(1.5), (), (), ()),
        *((np.arange(4).astype(name), (1,), (4,), (2,)) for name in ("i8", "?", "c16", "f4")),
    ):
        yield x, {"start_indices": starts, "limit_indices": limits, "strides": strides}


def _slice_errors() -> Iterable[ErrorSample]:
    for starts, limits, strides, error, phrase in _BAD_SLICES:
        params = {"start_indices": starts, "limit_indices": limits, "strides": strides}
        yield ErrorSample((np.ones(3),), params, error, phrase)


_BAD_SLICES: tuple[tuple[Ints, Ints, Ints, type[Exception], str], ...] = (
    ((0,), (4,), (1,), ShapeError, "is no slice of axis 0"),
    ((2,), (1,), (1,), ShapeError, "is no slice of axis 0"),
    ((-1,), (2,), (1,), ShapeError, "is no slice of axis 0"),
    ((0,), (2,), (0,), ShapeError, "a positive stride"),
    ((0, 0), (1, 1), (1, 1), AxisError, "one of each per axis"),
)

slice = Primitive(
    name="slice",
    lower=Moving(elements.slice_, "shifted", part=_part),
    impl=_slice_impl,
    type=_slice_type,
    jvp=LINEAR,
    transpose=_slice_transpose,
    batch=_slice_batch,
    mask="call",
    linear_in=(0,),
    samples=lambda: [Sample((x,), params) for x, params in _slice_cases()],
    errors=_slice_errors,
    doc="x[start:limit:stride] along every axis; a view.",
)


def along(x: Any, axis: int, start: int, limit: int, stride: int = 1) -> Any:
    """The part of an array from `start` to `limit` along one axis."""
    shape = typeof(x).shape
    return slice(
        x,
        start_indices=tuple(start if i == axis else 0 for i in range(len(shape))),
        limit_indices=tuple(limit if i == axis else n for i, n in enumerate(shape)),
        strides=tuple(stride if i == axis else 1 for i in range(len(shape))),
    )


# ---------------------------------------------------------------------------------- update


def _update_type(
    x: ShapedArray, v: ShapedArray, *, start_indices: Ints, limit_indices: Ints, strides: Ints
) -> ShapedArray:
    shape = _slice_shape("update_slice", x, start_indices, limit_indices, strides)
    if v.shape != shape:
        raise ShapeError(
            f"update_slice: a value {v} for a slice of shape {shape} of {x}.",
            "Broadcast the value to the slice's shape.",
        )
    return aval(x.shape, join("update_slice", x, v)[0])


def _update_impl(x: Any, v: Any, start_indices: Ints, limit_indices: Ints, strides: Ints) -> Any:
    if not start_indices:
        return np.array(v, dtype=typeof(x).dtype)[()]
    out = np.array(x)
    out[_slices(start_indices, limit_indices, strides)] = v
    return out


def _update_transpose(ct: Any, x: Any, v: Any, **where: Ints) -> Any:
    shape = v.aval.shape if type(v) is Linear else typeof(v).shape
    region = tuple(zip(*where.values(), strict=True))
    to_x = to_v = None
    if type(x) is Linear and shape != x.aval.shape:

        def clear(c: Any) -> Any:
            return update_slice(c, zeros(aval(shape, typeof(c).dtype)), **where)

        to_x = without(ct, clear, region)
    if type(v) is Linear:
        to_v = part(ct, lambda c: slice(c, **where), region)
    return to_x, to_v


def _update_batch(
    axis: Any, values: Any, dims: Any, *, start_indices: Ints, limit_indices: Ints, strides: Ints
) -> Any:
    (x, v), d = bring_together(axis, values, dims)
    y = update_slice(
        x,
        v,
        start_indices=inserted(start_indices, d, 0),
        limit_indices=inserted(limit_indices, d, axis.size),
        strides=inserted(strides, d, 1),
    )
    return y, d


def _update_samples() -> Iterable[Sample]:
    for x, params in _slice_cases():
        part = _slice_impl(x, **params)
        v = np.array(part[::-1] if np.ndim(part) else part)[()]
        yield Sample((x, v if v.dtype == bool else (v * 2 + 1).astype(v.dtype)), params)


def _update_errors() -> Iterable[ErrorSample]:
    for starts, limits, strides, error, phrase in _BAD_SLICES:
        params = {"start_indices": starts, "limit_indices": limits, "strides": strides}
        yield ErrorSample((np.ones(3), np.ones(1)), params, error, phrase)
    params = {"start_indices": (0,), "limit_indices": (2,), "strides": (1,)}
    yield ErrorSample((np.ones(3), np.ones(3)), params, ShapeError, "Broadcast the value")
    yield ErrorSample((np.ones(3), np.ones(2, int)), params, DtypeError, "do not promote")


update_slice = Primitive(
    name="update_slice",
    lower=Moving(elements.update_slice, "choice", part=_part),
    impl=_update_impl,
    type=_update_type,
    jvp=LINEAR,
    transpose=_update_transpose,
    batch=_update_batch,
    mask="call",
    linear_in=(0, 1),
    samples=_update_samples,
    errors=_update_errors,
    doc="A copy of x in which x[start:limit:stride] is v.",
)
