"""Sorting along one axis: `sort` orders several arrays together by the first of them.

Keys are compared lexicographically, NaN comes last (as in NumPy). The derivative follows the
elements: the permutation is found by sorting an iota along with the operands, and tangents are
gathered by it.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import AxisError, ShapeError
from ftrace.core.lower import Cores, Gufunc, GufuncCall
from ftrace.core.primitive import ErrorSample, Primitive, Sample
from ftrace.core.zero import ZERO
from ftrace.primitives.create import iota
from ftrace.primitives.index import gather
from ftrace.primitives.linear import NO_TRANSPOSE
from ftrace.primitives.movement import bring_together


def _sort_type(
    *operands: ShapedArray, dimension: int, is_stable: bool, num_keys: int
) -> tuple[ShapedArray, ...]:
    if not 1 <= num_keys <= len(operands):
        raise ShapeError(
            f"sort: {num_keys} keys among {len(operands)} operands.",
            "The first operands are the keys; there is at least one.",
        )
    first = operands[0]
    if any(x.shape != first.shape for x in operands):
        raise ShapeError(
            f"sort was given operands of shapes {', '.join(str(x.shape) for x in operands)}.",
            "Arrays that are sorted together have one shape.",
        )
    if not 0 <= dimension < first.ndim:
        raise AxisError(f"sort: {dimension} is not an axis of {first}.", "Use 0 .. ndim - 1.")
    return tuple(aval(x.shape, x.dtype) for x in operands)


def _sort_impl(*operands: Any, dimension: int, is_stable: bool, num_keys: int) -> list[Any]:
    if len(operands) == 1:
        return [np.sort(operands[0], axis=dimension, stable=is_stable)]
    order = permutation_of(operands[:num_keys], dimension, is_stable)
    return [np.take_along_axis(x, order, axis=dimension) for x in operands]


def _sort_call(
    avals: Sequence[ShapedArray], dimension: int, is_stable: bool, num_keys: int
) -> GufuncCall | None:
    """NumPy's sorting functions as a loop, by one key."""
    if num_keys != 1:
        return None
    along = tuple(Cores(k, (dimension,)) for k in range(len(avals)))
    lines = ",".join(["(n)"] * len(avals))
    name = "stable_sort" if is_stable else "sort"
    return GufuncCall("numpy", name, f"{lines}->{lines}", along, along)


def permutation_of(keys: Sequence[Any], dimension: int, is_stable: bool) -> Any:
    """The order of plain arrays along an axis, the first key deciding first."""
    if len(keys) == 1:
        return np.argsort(keys[0], axis=dimension, stable=is_stable)
    return np.lexsort(tuple(reversed(keys)), axis=dimension)


def take_along(x: Any, order: Any, dimension: int) -> Any:
    """x in a given order along one axis; the order is an array of x's shape."""
    shape = typeof(x).shape
    indices = [
        order if d == dimension else iota(dtype=dtypes.int64, shape=shape, dimension=d)
        for d in range(len(shape))
    ]
    return gather(x, *indices, axes=tuple(range(len(shape))), mode="clip")


def _sort_jvp(
    primals: Any, tangents: Any, *, dimension: int, is_stable: bool, num_keys: int
) -> Any:
    shape = typeof(primals[0]).shape
    places = iota(dtype=dtypes.int64, shape=shape, dimension=dimension)
    *ys, order = sort(*primals, places, dimension=dimension, is_stable=is_stable, num_keys=num_keys)
    return ys, [ZERO if t is ZERO else take_along(t, order, dimension) for t in tangents]


def _sort_batch(axis: Any, values: Any, dims: Any, *, dimension: int, **params: Any) -> Any:
    values, d = bring_together(axis, values, dims)
    ys = sort(*values, dimension=dimension if dimension < d else dimension + 1, **params)
    return ys, [d] * len(ys)


def _sort_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(61)
    x, ties = rng.normal(size=(4, 3)), np.array([2, 1, 2, 1])
    for operands, dimension, num_keys in (
        ((x[:, 0],), 0, 1),
        ((x,), 0, 1),
        ((x,), 1, 1),
        ((x[:, 0], x[:, 1]), 0, 1),
        ((ties, x[:, 0]), 0, 1),
        ((ties, x[:, 0], x[:, 1]), 0, 2),
        ((x, x * 2, -x), 1, 2),
        ((np.asfortranarray(x)[::2, ::-1],), 1, 1),
        ((np.zeros((0, 2)),), 0, 1),
        ((np.zeros((2, 0)), np.zeros((2, 0))), 1, 2),
        *((((x[:, 0] * 9).astype(name),), 0, 1) for name in _KINDS),
    ):
        params = {"dimension": dimension, "is_stable": True, "num_keys": num_keys}
        yield Sample(operands, params)
    yield Sample((x[:, 1],), {"dimension": 0, "is_stable": False, "num_keys": 1})


_KINDS = ("f4", "c16", "i8", "?")


def _sort_errors() -> Iterable[ErrorSample]:
    x = np.ones(3)
    for operands, dimension, num_keys, error, phrase in (
        ((x,), 1, 1, AxisError, "is not an axis"),
        ((np.float64(1),), 0, 1, AxisError, "is not an axis"),
        ((x,), 0, 2, ShapeError, "2 keys among 1"),
        ((x,), 0, 0, ShapeError, "0 keys among 1"),
        ((x, np.ones(2)), 0, 1, ShapeError, "have one shape"),
    ):
        params = {"dimension": dimension, "is_stable": True, "num_keys": num_keys}
        yield ErrorSample(operands, params, error, phrase)


sort = Primitive(
    name="sort",
    impl=_sort_impl,
    type=_sort_type,
    jvp=_sort_jvp,
    transpose=NO_TRANSPOSE,
    batch=_sort_batch,
    zeros=True,
    decides=lambda v, y, p: np.argsort(v[0], axis=p["dimension"], kind="stable"),
    calm=True,
    lower=Gufunc(_sort_call),
    samples=_sort_samples,
    errors=_sort_errors,
    multiple=True,
    doc="Operands in ascending order along `dimension`, sorted together by the first `num_keys` "
    "of them; NaN last.",
)
