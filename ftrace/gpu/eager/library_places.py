"""Rows that read and write by index, and that sort, on CuPy arrays.

What CuPy's own indexing leaves open is settled here. Which of equal places wins a write (CuPy: any)
and in which order what falls on one place is combined (atomics: any): sums are those of
`handwritten/scatter_sums.py`; else places are sorted, what belongs to one place is combined by a
scan over its run, and every element of the result reads the end of its run. So all is the same at
each run, for every dtype, and nothing waits for the device.
The exception is an index that must be in range: whether it is has to be read.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace.core.errors import FtraceError
from ftrace.gpu.eager.library_arrays import Rule
from ftrace.primitives.places import other_axes

Ints = tuple[int, ...]
# (namespace, rows, places, values) -> rows, whose elements may be in one axis
Combine = Callable[[Any, Any, Any, Any], Any]
INDEX = np.dtype(np.int64)


# ---------------------------------------------------------------------------------- places


def _out_of_range(index: int, axis: int, n: int) -> IndexError:
    what = f"Index {index} is out of bounds for axis {axis} with size {n}."
    fix = "Indices run from -size to size - 1; clip them, or choose another mode."
    return IndexError(str(FtraceError(what, fix)))


def _check(xp: Any, i: Any, axis: int, n: int) -> None:
    bad = (i < -n) | (i >= n)
    if bool(xp.any(bad)):
        first = int(xp.argmax(bad))
        raise _out_of_range(int(xp.reshape(i, (-1,))[first]), axis, n)


def _places(
    xp: Any, shape: Ints, indices: Sequence[Any], axes: Ints, mode: str
) -> tuple[Any, Any, Ints]:
    """Places in the indexed axes, counted in C order, which of them exist, and the indices' shape.

    A place that does not exist is 0, and None stands for "all exist".
    """
    places, valid = None, None
    for i, axis in zip(indices, axes, strict=True):
        n = shape[axis]
        i = xp.asarray(i)
        if i.dtype == np.uint64:  # the others fit into int64
            limit = np.uint64(np.iinfo(np.int64).max)
            i = i % np.uint64(n or 1) if mode == "wrap" else xp.minimum(i, limit)
        i = i.astype(INDEX)
        if mode in ("clip", "wrap"):
            if not n and i.size:
                raise _out_of_range(int(xp.reshape(i, (-1,))[0]), axis, n)
            i = i % max(n, 1) if mode == "wrap" else xp.minimum(xp.maximum(i, 0), max(n - 1, 0))
        else:
            if mode == "raise":
                _check(xp, i, axis, n)
            i = xp.where(i < 0, i + n, i)
            inside = (i >= 0) & (i < n)
            i = xp.where(inside, i, 0)
            if mode != "raise":
                valid = inside if valid is None else valid & inside
        places = i if places is None else places * n + i
    found = places.shape  # type: ignore[union-attr] - there is at least one index
    return places, None if valid is None else xp.broadcast_to(valid, found), found


def _along(xp: Any, flags: Any, ndim: int) -> Any:
    """Flags with axes of size 1 behind, to stand beside an array of some rank."""
    return xp.reshape(flags, flags.shape + (1,) * (ndim - flags.ndim))


def _leading(xp: Any, x: Any, axes: Ints) -> Any:
    """The indexed axes as one, in front of the others."""
    front = xp.transpose(x, axes + other_axes(x.ndim, axes))
    k = len(axes)
    return xp.reshape(front, (prod(front.shape[:k]), *front.shape[k:]))


def gather(xp: Any, x: Any, *indices: Any, axes: Ints, mode: str) -> Any:
    places, valid, shape = _places(xp, x.shape, indices, axes, mode)
    rows = _leading(xp, x, axes)
    rest = rows.shape[1:]
    fill = x.dtype.type(np.nan if mode == "fill" and x.dtype.kind in "fc" else 0)
    if not rows.shape[0]:
        return xp.full((*shape, *rest), fill, x.dtype)
    found = xp.take(rows, places, axis=0)
    return found if valid is None else xp.where(_along(xp, valid, found.ndim), found, fill)


# ---------------------------------------------------------------------------------- scatter


def by_ufunc(ufunc: str | None) -> Combine:
    """What combines with the function of this name (None: the last one wins), run by run."""

    def combined(xp: Any, rows: Any, places: Any, values: Any) -> Any:
        combine: Any = None if ufunc is None else getattr(xp, ufunc)
        places = xp.minimum(places, rows.shape[0])  # what is past the end is one more place
        return _written(xp, combine, rows, *_combined(xp, combine, places, values))

    return combined


def by_sums(added: Callable[[Any, Any, Any], Any]) -> Combine:
    """What adds by a function that knows floats and integers of four and eight bytes."""

    def combined(xp: Any, rows: Any, places: Any, values: Any) -> Any:
        width, dtype = prod(rows.shape[1:]), rows.dtype
        wide = _WIDE.get(dtype.char, dtype)
        rows, values = (
            xp.reshape(x.astype(wide, copy=False), (x.shape[0], width)) for x in (rows, values)
        )
        return added(rows, places, values).astype(dtype, copy=False)

    return combined


_WIDE = {"e": np.dtype(np.float32), **dict.fromkeys("?bBhH", np.dtype(np.uint32))}


def scatter(combined: Combine) -> Rule:
    """A scatter that combines rows with what falls on them as a function does."""

    def evaluate(xp: Any, x: Any, v: Any, *indices: Any, axes: Ints, mode: str) -> Any:
        places, valid, _ = _places(xp, x.shape, indices, axes, mode)
        rows = _leading(xp, x, axes)
        count, rest = rows.shape[0], rows.shape[1:]
        places = xp.reshape(places, (-1,))
        if not places.size or not x.size:
            return xp.array(x, order="C")
        if valid is not None:
            places = xp.where(xp.reshape(valid, (-1,)), places, count)
        values = xp.reshape(xp.asarray(v).astype(x.dtype), (places.size, *rest))
        rows = combined(xp, rows, places, values)
        order = axes + other_axes(x.ndim, axes)
        full = xp.reshape(rows, tuple(x.shape[a] for a in order))
        return xp.transpose(full, tuple(int(i) for i in np.argsort(order)))

    return evaluate


def scatter_at(by: Mapping[str, Combine]) -> Rule:
    """A scatter at places counted in the leading axes, or from the end; one past it is none."""

    def evaluate(xp: Any, x: Any, v: Any, places: Any, *, combine: str) -> Any:
        lead = x.ndim - (v.ndim - places.ndim)
        rows = xp.reshape(x, (prod(x.shape[:lead]), *x.shape[lead:]))
        if not v.size or not x.size:
            return xp.array(x, order="C")
        updates = xp.reshape(v, (places.size, *x.shape[lead:]))
        given = xp.reshape(places.astype(INDEX, copy=False), (-1,))
        given = xp.where(given < 0, given + rows.shape[0], given)
        found = by[combine](xp, rows, given, updates)
        return xp.reshape(found, x.shape)

    return evaluate


def _combined(xp: Any, combine: Any, places: Any, values: Any) -> tuple[Any, Any]:
    """Places in order, and beside the last of equal ones what all their values make together."""
    m = places.size
    keys = xp.sort(places * m + xp.arange(m, dtype=INDEX))
    places, values = keys // m, xp.take(values, keys % m, axis=0)
    step = 1
    while combine is not None and step < m:
        together = _along(xp, places[step:] == places[:-step], values.ndim)
        later = xp.where(together, combine(values[:-step], values[step:]), values[step:])
        values = xp.concatenate([values[:step], later], axis=0)
        step *= 2
    return places, values


def _written(xp: Any, combine: Any, rows: Any, places: Any, values: Any) -> Any:
    """Rows, those of the given places with what belongs there."""
    own = xp.arange(rows.shape[0], dtype=INDEX)
    last = xp.maximum(xp.searchsorted(places, own, side="right") - 1, 0)
    hit = _along(xp, xp.take(places, last) == own, rows.ndim)
    found = xp.take(values, last, axis=0)
    return xp.where(hit, found if combine is None else combine(rows, found), rows)


# ---------------------------------------------------------------------------------- windows


def _starts(xp: Any, shape: Ints, sizes: Ints, starts: Sequence[Any]) -> list[Any]:
    """Clamped starts: Python numbers where they are known, else numbers on the device."""
    found: list[Any] = []
    for i, n, m in zip(starts, shape, sizes, strict=True):
        if issubclass(type(i), xp.ndarray):
            found.append(xp.minimum(xp.maximum(i.astype(INDEX), 0), n - m))
        else:
            found.append(max(0, min(int(i), n - m)))
    return found


def read(xp: Any, x: Any, *starts: Any, slice_sizes: Ints) -> Any:
    """`dynamic_slice`."""
    for axis, (start, m) in enumerate(
        zip(_starts(xp, x.shape, slice_sizes, starts), slice_sizes, strict=True)
    ):
        if issubclass(type(start), int):
            x = x[(slice(None),) * axis + (slice(start, start + m),)]
        else:
            x = xp.take(x, start + xp.arange(m, dtype=INDEX), axis=axis)
    return x[...]


def write(xp: Any, x: Any, v: Any, *starts: Any) -> Any:
    """`dynamic_update_slice`: read back where an element lies inside, else kept."""
    v = xp.asarray(v).astype(x.dtype)
    inside = xp.ones((1,) * x.ndim, bool)
    for axis, (start, n, m) in enumerate(
        zip(_starts(xp, x.shape, v.shape, starts), x.shape, v.shape, strict=True)
    ):
        if not m:
            return xp.array(x, order="C")
        offset = xp.arange(n, dtype=INDEX) - start
        v = xp.take(v, xp.minimum(xp.maximum(offset, 0), m - 1), axis=axis)
        alone = tuple(n if a == axis else 1 for a in range(x.ndim))
        inside = inside & xp.reshape((offset >= 0) & (offset < m), alone)
    return xp.where(inside, v, x)


# ---------------------------------------------------------------------------------- sorting


def sort(xp: Any, *operands: Any, dimension: int, is_stable: bool, num_keys: int) -> list[Any]:
    """CuPy's sort is stable; several keys are sorted by one after the other, the first one last.

    It divides by the length of the axis, so nothing is asked of it where there is nothing to sort.
    """
    if not operands[0].size:
        return [xp.array(x, order="C") for x in operands]
    if len(operands) == 1:
        return [xp.sort(operands[0], axis=dimension)]
    found = list(map(xp.asarray, operands))
    for key in reversed(range(num_keys)):
        order = xp.argsort(found[key], axis=dimension, **_STABLE.get(xp.__name__, {}))
        found = [xp.take_along_axis(x, order, axis=dimension) for x in found]
    return found


_STABLE = {"numpy": {"kind": "stable"}}
