"""Rows that rearrange whole arrays: reshape, squeeze, expand_dims, rev, concatenate, split.

All are linear movement: their transposes are each other, and a mask crosses as they move it.
Slices and padding are in `slicing.py`, indexing by values in `index.py` and `dynamic.py`.
"""

import builtins
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import AxisError, DtypeError, ShapeError
from ftrace.core.lower import Moving
from ftrace.core.primitive import LINEAR, ErrorSample, Linear, Primitive, Sample
from ftrace.core.zero import Masked
from ftrace.primitives import elements
from ftrace.primitives.linear import join, move_axis
from ftrace.primitives.movement import (
    Ints,
    bring_together,
    check_dimensions,
    whole_mask,
    zeros,
)
from ftrace.primitives.slicing import along


def _reshaped(x: Any, shape: Sequence[int]) -> Any:
    """A view where NumPy can make one, never the operand itself; a scalar for rank 0."""
    y = np.reshape(x, shape)
    return y if shape else y[()]


def _reshape_back(ct: Any, x: Linear, **_: Any) -> Any:
    return (reshape(ct, new_sizes=x.aval.shape),)


# ---------------------------------------------------------------------------------- reshape


def _reshape_type(x: ShapedArray, *, new_sizes: Ints) -> ShapedArray:
    target = aval(new_sizes, x.dtype)
    if target.size != x.size or any(n < 0 for n in new_sizes):
        raise ShapeError(
            f"reshape: {x.size} elements of {x} do not fill the shape {new_sizes}.",
            "The number of elements must stay the same.",
        )
    return target


def _same_order(operands: Sequence[ShapedArray], result: ShapedArray) -> bool:
    """Whether a reshape only adds or removes axes of size 1."""
    return [n for n in operands[0].shape if n != 1] == [n for n in result.shape if n != 1]


def _reshape_batch(axis: Any, values: Any, dims: Any, *, new_sizes: Ints) -> Any:
    x = move_axis(values[0], dims[0], 0)
    return reshape(x, new_sizes=(axis.size, *new_sizes)), 0


def _reshape_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(31)
    for x, new_sizes in (
        (rng.normal(size=6), (2, 3)),
        (rng.normal(size=(2, 3)), (3, 2)),
        (rng.normal(size=(2, 3)), (2, 3)),
        (rng.normal(size=(4, 3)).T[:, ::2], (6,)),
        (rng.normal(size=(1, 1)), ()),
        (np.float64(2.5), (1, 1)),
        (np.float64(2.5), ()),
        (np.zeros((0, 3)), (3, 0, 2)),
        *((np.arange(6).astype(name), (3, 2)) for name in ("i8", "?", "c16", "f4")),
    ):
        yield Sample((x,), {"new_sizes": new_sizes})


reshape = Primitive(
    name="reshape",
    lower=Moving(elements.reshape, "axes", when=_same_order, memory=True),
    impl=lambda x, new_sizes: _reshaped(x, new_sizes),
    type=_reshape_type,
    jvp=LINEAR,
    transpose=_reshape_back,
    batch=_reshape_batch,
    mask="move",
    linear_in=(0,),
    samples=_reshape_samples,
    errors=lambda: [
        ErrorSample((np.ones(6),), {"new_sizes": n}, ShapeError, "6 elements")
        for n in ((4,), (-2, -3))
    ],
    doc="The same elements in C order in another shape.",
)


# ---------------------------------------------------------------------------------- size 1


def _without(shape: Ints, dimensions: Ints) -> Ints:
    return tuple(n for i, n in enumerate(shape) if i not in dimensions)


def _squeeze_type(x: ShapedArray, *, dimensions: Ints) -> ShapedArray:
    check_dimensions("squeeze", dimensions, x.ndim, x)
    if any(x.shape[d] != 1 for d in dimensions):
        raise ShapeError(
            f"squeeze: axes {dimensions} of {x} do not all have size 1.", "Drop axes of size 1."
        )
    return aval(_without(x.shape, dimensions), x.dtype)


def _squeeze_batch(axis: Any, values: Any, dims: Any, *, dimensions: Ints) -> Any:
    (d,) = dims
    shifted = tuple(i if i < d else i + 1 for i in dimensions)
    return squeeze(values[0], dimensions=shifted), d - sum(i < d for i in shifted)


def _squeeze_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(32)
    for x, dimensions in (
        (rng.normal(size=(1, 3)), (0,)),
        (rng.normal(size=(2, 1, 3, 1)), (1, 3)),
        (rng.normal(size=(1, 1)), (1, 0)),
        (rng.normal(size=3), ()),
        (np.float64(1.5), ()),
        (rng.normal(size=(4, 1, 3))[::2], (1,)),
        (np.zeros((1, 0)), (0,)),
        *((np.ones((2, 1), name), (1,)) for name in ("i8", "?", "c16", "f4")),
    ):
        yield Sample((x,), {"dimensions": dimensions})


def _squeeze_errors() -> Iterable[ErrorSample]:
    x = np.ones((1, 2))
    yield ErrorSample((x,), {"dimensions": (1,)}, ShapeError, "do not all have size 1")
    yield ErrorSample((x,), {"dimensions": (2,)}, AxisError, "not distinct axes")
    yield ErrorSample((x,), {"dimensions": (0, 0)}, AxisError, "not distinct axes")


squeeze = Primitive(
    name="squeeze",
    lower=Moving(elements.squeeze, "axes", memory=True),
    impl=lambda x, dimensions: _reshaped(x, _without(np.shape(x), dimensions)),
    type=_squeeze_type,
    jvp=LINEAR,
    transpose=_reshape_back,
    batch=_squeeze_batch,
    mask="move",
    linear_in=(0,),
    samples=_squeeze_samples,
    errors=_squeeze_errors,
    doc="Drop the axes `dimensions`, which have size 1.",
)


def _with_ones(shape: Ints, dimensions: Ints) -> Ints:
    rest = iter(shape)
    ndim = len(shape) + len(dimensions)
    return tuple(1 if i in dimensions else next(rest) for i in range(ndim))


def _expand_type(x: ShapedArray, *, dimensions: Ints) -> ShapedArray:
    check_dimensions("expand_dims", dimensions, x.ndim + len(dimensions), x)
    return aval(_with_ones(x.shape, dimensions), x.dtype)


def _expand_batch(axis: Any, values: Any, dims: Any, *, dimensions: Ints) -> Any:
    (d,) = dims
    ndim = len(typeof(values[0]).shape) + len(dimensions)
    at = [i for i in range(ndim) if i not in dimensions][d]
    shifted = tuple(i if i < at else i + 1 for i in dimensions)
    return expand_dims(values[0], dimensions=shifted), at


def _expand_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(33)
    for x, dimensions in (
        (rng.normal(size=3), (0,)),
        (rng.normal(size=3), (1,)),
        (rng.normal(size=(2, 3)), (0, 2, 4)),
        (rng.normal(size=(2, 3)), ()),
        (np.float64(1.5), (0, 1)),
        (np.float64(1.5), ()),
        (rng.normal(size=(4, 3))[::2, ::-1], (1,)),
        (np.zeros((0, 2)), (1,)),
        *((np.ones(2, name), (1,)) for name in ("i8", "?", "c16", "f4")),
    ):
        yield Sample((x,), {"dimensions": dimensions})


expand_dims = Primitive(
    name="expand_dims",
    lower=Moving(elements.expand_dims, "axes", memory=True),
    impl=lambda x, dimensions: _reshaped(x, _with_ones(np.shape(x), dimensions)),
    type=_expand_type,
    jvp=LINEAR,
    transpose=_reshape_back,
    batch=_expand_batch,
    mask="move",
    linear_in=(0,),
    samples=_expand_samples,
    errors=lambda: [
        ErrorSample((np.ones(2),), {"dimensions": d}, AxisError, "not distinct axes")
        for d in ((2,), (0, 0))
    ],
    doc="New axes of size 1, which are the axes `dimensions` of the result.",
)


# ---------------------------------------------------------------------------------- rev


def _rev_type(x: ShapedArray, *, dimensions: Ints) -> ShapedArray:
    check_dimensions("rev", dimensions, x.ndim, x)
    return aval(x.shape, x.dtype)


def _rev_impl(x: Any, dimensions: Ints) -> Any:
    if not dimensions:
        return _reshaped(x, np.shape(x))
    backwards = builtins.slice(None, None, -1)
    return x[tuple(backwards if i in dimensions else builtins.slice(None) for i in range(x.ndim))]


def _rev_batch(axis: Any, values: Any, dims: Any, *, dimensions: Ints) -> Any:
    (d,) = dims
    return rev(values[0], dimensions=tuple(i if i < d else i + 1 for i in dimensions)), d


def _rev_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(34)
    for x, dimensions in (
        (rng.normal(size=3), (0,)),
        (rng.normal(size=(2, 3)), (1,)),
        (rng.normal(size=(2, 3)), (0, 1)),
        (rng.normal(size=3), ()),
        (np.float64(1.5), ()),
        (rng.normal(size=(4, 3))[::2, ::-1], (1,)),
        (np.zeros((0, 2)), (0,)),
        *((np.arange(3).astype(name), (0,)) for name in ("i8", "?", "c16", "f4")),
    ):
        yield Sample((x,), {"dimensions": dimensions})


rev = Primitive(
    name="rev",
    lower=Moving(elements.rev, "shifted"),
    impl=_rev_impl,
    type=_rev_type,
    jvp=LINEAR,
    transpose=lambda ct, x, dimensions: (rev(ct, dimensions=dimensions),),
    batch=_rev_batch,
    mask="move",
    linear_in=(0,),
    samples=_rev_samples,
    errors=lambda: [
        ErrorSample((np.ones(2),), {"dimensions": (1,)}, AxisError, "not distinct axes")
    ],
    doc="Reverse the order of the elements along the axes `dimensions`; a view.",
)


# ---------------------------------------------------------------------------------- joining


def _concatenate_type(*xs: ShapedArray, dimension: int) -> ShapedArray:
    if not xs:
        raise ShapeError("concatenate was given no arrays.", "Give at least one.")
    first = xs[0]
    check_dimensions("concatenate", (dimension,), first.ndim, first)
    rest = _without(first.shape, (dimension,))
    for x in xs:
        if x.ndim != first.ndim or _without(x.shape, (dimension,)) != rest:
            raise ShapeError(
                f"concatenate along axis {dimension}: {x} does not fit {first}.",
                "All other axes must have equal sizes.",
            )
    size = sum(x.shape[dimension] for x in xs)
    dtype = join("concatenate", *xs)[0]
    return aval((*first.shape[:dimension], size, *first.shape[dimension + 1 :]), dtype)


def _concatenate_transpose(ct: Any, *xs: Any, dimension: int) -> Any:
    found: list[Any] = []
    start = 0
    for x in xs:
        linear = type(x) is Linear
        limit = start + (x.aval if linear else typeof(x)).shape[dimension]
        found.append(along(ct, dimension, start, limit) if linear else None)
        start = limit
    return found


def _concatenate_batch(axis: Any, values: Any, dims: Any, *, dimension: int) -> Any:
    values, d = bring_together(axis, values, dims)
    return concatenate(*values, dimension=dimension if dimension < d else dimension + 1), d


def _concatenate_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(35)
    a = rng.normal(size=(2, 3))
    yield Sample((a[0], a[1]), {"dimension": 0})
    yield Sample((a, a[:1] * 2, a * 3), {"dimension": 0})
    yield Sample((a, a[:, :2] * 2), {"dimension": 1})
    yield Sample((a,), {"dimension": 1})
    yield Sample((a.T, a.T[::2, ::-1]), {"dimension": 0})
    yield Sample((np.zeros((2, 0)), a), {"dimension": 1})
    for name in ("i8", "?", "c16", "f4"):
        yield Sample((a[0].astype(name), (a[1] * 3).astype(name)), {"dimension": 0})


def _concatenate_errors() -> Iterable[ErrorSample]:
    a = np.ones((2, 3))
    yield ErrorSample((), {"dimension": 0}, ShapeError, "no arrays")
    yield ErrorSample((a, a[:1]), {"dimension": 1}, ShapeError, "does not fit")
    yield ErrorSample((a, a[0]), {"dimension": 0}, ShapeError, "does not fit")
    yield ErrorSample((a, a), {"dimension": 2}, AxisError, "not distinct axes")
    yield ErrorSample((a, a.astype(int)), {"dimension": 0}, DtypeError, "do not promote")


concatenate = Primitive(
    name="concatenate",
    lower=Moving(elements.concatenate, "choice", joins=lambda dimension: dimension),
    impl=lambda *xs, dimension: np.concatenate(xs, axis=dimension),
    type=_concatenate_type,
    jvp=LINEAR,
    transpose=_concatenate_transpose,
    batch=_concatenate_batch,
    mask="move",
    linear_in=(0, 1, 2),
    samples=_concatenate_samples,
    errors=_concatenate_errors,
    doc="Join arrays along the existing axis `dimension`.",
)


# ---------------------------------------------------------------------------------- splitting


def _split_type(x: ShapedArray, *, sizes: Ints, axis: int) -> tuple[ShapedArray, ...]:
    check_dimensions("split", (axis,), x.ndim, x)
    if sum(sizes) != x.shape[axis] or any(n < 0 for n in sizes):
        raise ShapeError(
            f"split: sizes {sizes} do not make up axis {axis} of {x}.",
            f"They must be >= 0 and sum to {x.shape[axis]}.",
        )
    return tuple(aval((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in sizes)


def _split_impl(x: Any, sizes: Ints, axis: int) -> list[Any]:
    before = (builtins.slice(None),) * axis
    ends = accumulate(sizes)
    return [x[(*before, builtins.slice(j - n, j))] for n, j in zip(sizes, ends, strict=True)]


def _split_transpose(cts: list[Any], x: Linear, sizes: Ints, axis: int) -> Any:
    """Parts without cotangent are zeros; where a part is masked, the whole has a mask."""
    avals = _split_type(x.aval, sizes=sizes, axis=axis)
    parts = [_masked(ct, a) for ct, a in zip(cts, avals, strict=True)]
    whole = concatenate(*(part.value for part in parts), dimension=axis)
    if all(ct is not None and type(ct) is not Masked for ct in cts):
        return (whole,)
    zeroed, read = (all(getattr(p, name) for p in parts) for name in ("zeroed", "read"))
    masks = lambda: concatenate(*map(whole_mask, parts), dimension=axis)  # noqa: E731
    found = Masked(whole, masks, zeroed, read=read)
    found.fixed, found.branch = all(p.fixed for p in parts), any(p.branch for p in parts)
    return (found,)


def _masked(ct: Any, a: ShapedArray) -> Masked:
    if type(ct) is Masked:
        return ct
    found = Masked(zeros(a), np.False_, True, read=True)
    if ct is not None:
        found = Masked(ct, np.True_, True, read=True)
    found.fixed = True
    return found


def _split_batch(mapped: Any, values: Any, dims: Any, *, sizes: Ints, axis: int) -> Any:
    (d,) = dims
    parts = split(values[0], sizes=sizes, axis=axis if axis < d else axis + 1)
    return parts, [d] * len(sizes)


def _split_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(36)
    yield Sample((rng.normal(size=5),), {"sizes": (2, 3), "axis": 0})
    yield Sample((rng.normal(size=(2, 4)),), {"sizes": (1, 0, 3), "axis": 1})
    yield Sample((rng.normal(size=(4, 3))[::2, ::-1],), {"sizes": (1, 1), "axis": 0})
    yield Sample((np.zeros((0, 3)),), {"sizes": (3,), "axis": 1})
    for name in ("i8", "?", "c16", "f4"):
        yield Sample((np.arange(4).astype(name),), {"sizes": (1, 3), "axis": 0})


def _split_errors() -> Iterable[ErrorSample]:
    x = np.ones(4)
    yield ErrorSample((x,), {"sizes": (1, 2), "axis": 0}, ShapeError, "do not make up axis 0")
    yield ErrorSample((x,), {"sizes": (5, -1), "axis": 0}, ShapeError, "must be >= 0")
    yield ErrorSample((x,), {"sizes": (4,), "axis": 1}, AxisError, "not distinct axes")


split = Primitive(
    name="split",
    lower=Moving(elements.split, "shifted"),
    impl=_split_impl,
    type=_split_type,
    jvp=LINEAR,
    transpose=_split_transpose,
    batch=_split_batch,
    mask="call",
    linear_in=(0,),
    samples=_split_samples,
    errors=_split_errors,
    doc="Parts of the given sizes along `axis`, in order; views.",
    multiple=True,
)
