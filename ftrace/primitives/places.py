"""Places in an array by integer arrays: what `gather` and the scatters have in common.

One form for all: `indices` are integer arrays of one shape (or rank 0), one per axis named in
`axes`; what they read or write has the index shape followed by the other axes in order. `mode`
says what an index outside `0 <= i < n` does; a negative one counts from the end once:

    raise   IndexError                 clip   the nearest valid place (negative ones too: place 0)
    wrap    modulo the axis size       drop   nothing is written there, and zero is read
    fill    (gather only) as drop, but NaN is read where the dtype has it

Here are types, evaluation and samples; the rows are in `index.py` and `scatter.py`. Boolean masks
are resolved above the rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.errors import AxisError, DtypeError, FtraceError, ShapeError
from ftrace.core.primitive import ErrorSample, Rule, Sample
from ftrace.primitives.linear import join
from ftrace.primitives.movement import Ints

GATHER_MODES: Final = ("raise", "clip", "wrap", "fill", "drop")
SCATTER_MODES: Final = ("raise", "clip", "wrap", "drop")
FEW: Final = 16  # places up to which rows are combined one by one

# ---------------------------------------------------------------------------------- types


def index_shape(indices: Sequence[ShapedArray]) -> Ints:
    """The one shape of the index operands that are not rank 0."""
    return next((i.shape for i in indices if i.shape), ())


def other_axes(ndim: int, axes: Ints) -> Ints:
    """The axes that are not indexed, in order."""
    return tuple(a for a in range(ndim) if a not in axes)


def gathered_shape(
    name: str, x: ShapedArray, indices: Sequence[ShapedArray], axes: Ints, mode: str
) -> Ints:
    """What the indices select of x; raises where indices, axes or mode do not fit."""
    if not axes or len(set(axes)) != len(axes) or any(not 0 <= a < x.ndim for a in axes):
        raise AxisError(f"{name}: {axes} are not distinct axes of {x}.", f"Use 0 .. {x.ndim - 1}.")
    if len(axes) != len(indices):
        raise AxisError(
            f"{name}: {len(indices)} index arrays for the axes {axes}.", "Give one per axis."
        )
    shape = index_shape(indices)
    for i in indices:
        if i.dtype.kind not in "iu":
            raise DtypeError(
                f"{name} was given the index {i}.", "Indices are integers: `i.astype(int)`."
            )
        if i.shape not in ((), shape):
            raise ShapeError(
                f"{name} was given index arrays of shapes {shape} and {i.shape}.",
                "Broadcast them to one shape.",
            )
    modes = GATHER_MODES if name == "gather" else SCATTER_MODES
    if mode not in modes:
        raise ShapeError(f"{name}: mode {mode!r} does not exist.", f"Use one of {modes}.")
    return shape + tuple(x.shape[a] for a in other_axes(x.ndim, axes))


def scatter_type(
    name: str, x: ShapedArray, v: ShapedArray, indices: Sequence[ShapedArray], **where: Any
) -> ShapedArray:
    """The type of a scatter, which is that of x."""
    shape = gathered_shape(name, x, indices, **where)
    if v.shape != shape:
        raise ShapeError(
            f"{name}: the values {v} for places of shape {shape} of {x}.",
            "Broadcast the values to the shape that the same gather gives.",
        )
    return aval(x.shape, join(name, x, v)[0])


# ---------------------------------------------------------------------------------- places


def out_of_range(indices: Sequence[Any], shape: Ints, axes: Ints) -> IndexError:
    """The error of indices of which some do not fit."""
    for i, a in zip(indices, axes, strict=True):
        n = shape[a]
        i = np.asarray(i)
        bad = i[(i < -n) | (i >= n)]
        if bad.size:
            what = f"Index {bad.flat[0]} is out of bounds for axis {a} with size {n}."
            fix = "Indices run from -size to size - 1; clip them, or choose another mode."
            return IndexError(str(FtraceError(what, fix)))
    return IndexError(f"Indices do not fit the axes {axes} of an array of shape {shape}.")


def _resolve(x: Any, indices: Sequence[Any], axes: Ints, mode: str) -> tuple[list[Any], Any]:
    """Indices in range, and which of them were (None: all)."""
    resolved, valid = [], None
    for i, a in zip(indices, axes, strict=True):
        n = x.shape[a]
        i = np.asarray(i)
        if mode in ("clip", "wrap") and not n and i.size:
            raise out_of_range(indices, x.shape, axes)
        if i.dtype == np.uint64:  # the others fit into intp
            limit = np.uint64(np.iinfo(np.intp).max)
            i = i % np.uint64(n or 1) if mode == "wrap" else np.minimum(i, limit)
        i = i.astype(np.intp, copy=False)
        if mode in ("clip", "wrap"):
            resolved.append(i % (n or 1) if mode == "wrap" else np.clip(i, 0, n - 1))
            continue
        i = np.where(i < 0, i + n, i)
        inside = (i >= 0) & (i < n)
        if not inside.all():
            if mode == "raise":
                raise out_of_range(indices, x.shape, axes)
            i = np.where(inside, i, 0)
            valid = inside if valid is None else valid & inside
        resolved.append(i)
    return resolved, valid


def _resolve_one(i: int, n: int, mode: str) -> int | None:
    """A single index in range; None if it is not."""
    if mode == "wrap" and n:
        return i % n
    if mode == "clip" and n:
        return min(max(i, 0), n - 1)
    i = i + n if i < 0 else i
    return i if 0 <= i < n else None


def _leading(x: Any, axes: Ints) -> Any:
    """A view with the indexed axes in front."""
    if axes == (0,) or axes == tuple(range(len(axes))):
        return x
    return np.transpose(x, axes + other_axes(x.ndim, axes))


# ---------------------------------------------------------------------------------- evaluation


def gather_impl(x: Any, *indices: Any, axes: Ints, mode: str) -> Any:
    front = _leading(x, axes)
    if mode == "raise":
        try:
            if len(indices) == 1 and front.flags.c_contiguous and _is_array(indices[0]):
                return front.take(indices[0], axis=0)  # faster than brackets
            return front[tuple(indices)]
        except IndexError:
            raise out_of_range(indices, x.shape, axes) from None
    resolved, valid = _resolve(x, indices, axes, mode)
    if valid is None:
        return front[tuple(resolved)]
    fill = x.dtype.type(np.nan if mode == "fill" and x.dtype.kind in "fc" else 0)
    if any(x.shape[a] == 0 for a in axes):
        shape = np.broadcast_shapes(*(i.shape for i in resolved))
        return np.full(shape + front.shape[len(axes) :], fill)[()]
    found = front[tuple(resolved)]
    seen = np.reshape(valid, valid.shape + (1,) * (np.ndim(found) - valid.ndim))
    return np.where(seen, found, fill)[()]


def _is_array(i: Any) -> bool:
    return type(i) is np.ndarray and i.ndim > 0 and i.dtype.kind == "i"


def scatter_impl(ufunc: Any) -> Rule:
    """The implementation of a scatter that combines with a ufunc (None: replaces)."""

    def impl(x: Any, v: Any, *indices: Any, axes: Ints, mode: str) -> Any:
        if not any(np.ndim(i) for i in indices):
            out = np.array(x)
            where = tuple(
                _resolve_one(int(i), x.shape[a], mode) for i, a in zip(indices, axes, strict=True)
            )
            if None not in where:
                front = _leading(out, axes)
                front[where] = v if ufunc is None else ufunc(front[where], v)
            elif mode != "drop":
                raise out_of_range(indices, x.shape, axes)
            return out
        resolved, valid = _resolve(x, indices, axes, mode)
        front = np.array(_leading(x, axes), order="C")
        _write(front, v, resolved, valid, ufunc)
        if axes == tuple(range(len(axes))):
            return front
        return np.transpose(front, np.argsort(axes + other_axes(x.ndim, axes)))

    return impl


def _write(front: Any, v: Any, resolved: list[Any], valid: Any, ufunc: Any) -> None:
    """Write v into the leading axes, strictly in C order, so that the last of equals wins."""
    k = len(resolved)
    places: Any = resolved[0]
    for n, i in zip(front.shape[1:k], resolved[1:], strict=True):
        places = places * n + i
    rest = front.shape[k:]
    places = places.ravel()
    if not places.size:
        return
    rows = front.reshape((prod(front.shape[:k]), *rest))
    values = np.reshape(v, (places.size, *rest))
    if valid is not None:
        kept = np.broadcast_to(valid, index_shape(resolved)).ravel()
        places, values = places[kept], values[kept]
    if ufunc is None:
        rows[places] = values
    elif not rest:
        ufunc.at(rows, places, values)
    elif places.size <= FEW:
        for i, value in zip(places, values, strict=True):
            ufunc(rows[i], value, out=rows[i : i + 1].reshape(rest))
    else:  # `ufunc.at` is several times faster on one axis
        m = prod(rest)
        places = (places[:, None] * m + np.arange(m)).ravel()
        ufunc.at(front.reshape(-1), places, values.ravel())


# ---------------------------------------------------------------------------------- samples


def index_cases() -> Iterator[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """Arrays, indices and params on which all indexing rows are tried."""
    rng = np.random.default_rng(41)
    x, cube = rng.normal(size=(4, 3)), rng.normal(size=(2, 3, 4))
    far = np.array([0, -1, 9, -9])
    for a, indices, axes, mode in (
        (x[:, 0], (np.array([2, 0, -1]),), (0,), "raise"),
        (x[:, 0], (np.array([2, 0, 2, 2]),), (0,), "raise"),
        (x[:, 0], (np.int64(-2),), (0,), "raise"),
        (x, (np.array([[1, 3, 1], [0, -1, 1]]),), (0,), "raise"),
        (x, (np.array([2, 0, 2]),), (1,), "raise"),
        (x, (np.int64(1),), (1,), "raise"),
        (x, (np.array([1, 3, 1]), np.array([0, 2, 0])), (0, 1), "raise"),
        (x, (np.int64(1), np.array([0, 2, 0])), (0, 1), "raise"),
        (cube, (np.array([1, 2]), np.array([1, 0])), (1, 0), "raise"),
        (cube, (np.array([3, 3]), np.array([1, 1])), (2, 0), "raise"),
        (np.asfortranarray(x)[::2, ::-1], (np.array([1, 0, 1]),), (0,), "raise"),
        (x, (np.zeros((0, 2), int),), (0,), "raise"),
        (np.zeros((0, 3)), (np.array([1, 1]),), (1,), "raise"),
        *((x, (far,), (0,), mode) for mode in ("clip", "wrap", "drop")),
        (x, (np.int64(7), far), (0, 1), "drop"),
        (x, (np.uint8(2), np.array([1, 2], "u8")), (0, 1), "clip"),
        *(((x * 3)[:, 0].astype(t), (np.array([1, 1, 3]),), (0,), "raise") for t in _OTHERS),
    ):
        yield a, indices, {"axes": axes, "mode": mode}


_OTHERS = ("f4", "c16", "i8", "?")


BAD_INDICES: tuple[tuple[tuple[Any, ...], Ints, str, type[Exception], str], ...] = (
    ((np.array([0]),), (2,), "raise", AxisError, "are not distinct axes"),
    ((), (), "raise", AxisError, "are not distinct axes"),
    ((np.array([0]), np.array([0])), (0, 0), "raise", AxisError, "are not distinct axes"),
    ((np.array([0]),), (0, 1), "raise", AxisError, "Give one per axis"),
    ((np.array([0.0]),), (0,), "raise", DtypeError, "Indices are integers"),
    ((np.array([True]),), (0,), "raise", DtypeError, "Indices are integers"),
    ((np.array([0]), np.array([0, 1])), (0, 1), "raise", ShapeError, "Broadcast them"),
    ((np.array([0]),), (0,), "nearest", ShapeError, "does not exist"),
)


def scatter_samples(kinds: str) -> Rule:
    """Samples of a scatter for some dtype kinds: values above and below what is there, no ties."""

    def samples() -> Iterable[Sample]:
        for x, indices, params in index_cases():
            if x.dtype.kind in kinds:
                v = np.asarray(gather_impl(x, *indices, **params))
                sign = np.where(np.arange(v.size) % 2, 1, -1)
                v = v + (sign * np.linspace(0.3, 1.4, v.size)).reshape(v.shape)
                yield Sample((x, v.astype(x.dtype)[()], *indices), params)

    return samples


def scatter_errors() -> Iterable[ErrorSample]:
    """What every scatter refuses."""
    x, i = np.ones((2, 3)), np.array([0])
    where = {"axes": (0,), "mode": "raise"}
    for indices, axes, mode, error, phrase in BAD_INDICES:
        params = {"axes": axes, "mode": mode}
        yield ErrorSample((x, np.ones((1, 3)), *indices), params, error, phrase)
    yield ErrorSample((x, np.ones(3), i), where, ShapeError, "Broadcast the values")
    yield ErrorSample((x, np.ones((1, 3), int), i), where, DtypeError, "do not promote")
    yield ErrorSample((x, np.ones((1, 3)), i), {"axes": (0,), "mode": "fill"}, ShapeError, "fill")
