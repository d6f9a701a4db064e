"""Indexing by arrays as kernels do it: indices brought into range, and the error beside it.

What an index outside of an array means is decided before the array is read: it is clipped, wrapped,
looked at for an error, or noted so that something else is chosen. The read that is left,
`gather_clipped`, is a load at a computed place. These rows are made when a program is lowered, when
no transformation will follow; `gather` itself is in `index.py`.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ftrace.core.avals import aval, typeof
from ftrace.core.dtypes import int64
from ftrace.core.lower import Moving, Refusal
from ftrace.core.primitive import NONDIFFERENTIABLE, RAISES, Primitive, Unsupported
from ftrace.primitives import elements
from ftrace.primitives.arithmetic import min as min_row
from ftrace.primitives.arithmetic import mod
from ftrace.primitives.compare import bitwise_and, bitwise_not, ge, lt, select
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.linear import add, broadcast_in_dim
from ftrace.primitives.movement import Ints
from ftrace.primitives.places import gather_impl, gathered_shape, index_shape, out_of_range
from ftrace.primitives.reduce import reduce_or

_LATE: Final = Unsupported("The row is made when a program is lowered, after all transformations.")


def gathered(x: Any, *indices: Any, axes: Ints, mode: str) -> Any:
    """`gather` by rows that have kernels; None where an axis is empty."""
    shape = typeof(x).shape
    if any(not shape[a] for a in axes):
        return None
    places, inside = _places(indices, [shape[a] for a in axes], mode)
    if mode == "raise":
        index_error(bitwise_not(_all(inside)), *indices, axes=axes, shape=shape)
    y = gather_clipped(x, *places, axes=axes)
    if mode not in ("fill", "drop"):
        return y
    a = typeof(y)
    fill = a.dtype.type(np.nan if mode == "fill" and a.dtype.kind in "fc" else 0)
    within = range(len(typeof(inside).shape))
    return select(broadcast_in_dim(inside, shape=a.shape, broadcast_dimensions=(*within,)), y, fill)


def _places(indices: Sequence[Any], sizes: Sequence[int], mode: str) -> tuple[list[Any], Any]:
    """Indices that count from the front, and which of them are in range (None: it is no matter)."""
    places: list[Any] = []
    inside: Any = None
    common = index_shape([typeof(i) for i in indices])
    for i, n in zip(indices, sizes, strict=True):
        i = _as_int64(i, n if mode == "wrap" else 0)
        if mode == "wrap":
            places.append(mod(i, n))
            continue
        if mode != "clip":
            i = select(lt(i, 0), add(i, n), i)
            own = bitwise_and(ge(i, 0), lt(i, n))
            if not typeof(own).shape and common:
                own = broadcast_in_dim(own, shape=common, broadcast_dimensions=())
            inside = own if inside is None else bitwise_and(inside, own)
        places.append(i)
    return places, inside


def _as_int64(i: Any, wrapped: int) -> Any:
    """An index as int64; a greater one as the greatest, or, where it wraps around, wrapped."""
    if typeof(i).dtype == np.uint64:
        most = np.uint64(np.iinfo(np.int64).max)
        i = mod(i, np.uint64(wrapped)) if wrapped else min_row(i, most)
    return convert_element_type(i, new_dtype=int64)


def _all(inside: Any) -> Any:
    axes = tuple(range(len(typeof(inside).shape)))
    return bitwise_not(reduce_or(bitwise_not(inside), axes=axes)) if axes else inside


def _refused(bad: Any, *indices: Any, axes: Ints, shape: Ints) -> list[Any]:
    if bad:
        raise out_of_range(indices, shape, axes)
    return []


index_error: Final = Primitive(
    name="index_error",
    impl=_refused,
    type=lambda *avals, **where: (),
    jvp=NONDIFFERENTIABLE,
    transpose=_LATE,
    batch=_LATE,
    effects=lambda **where: frozenset({RAISES}),
    lower=Refusal(),
    multiple=True,
    doc="Raise the error of indices that are out of range, where the first operand holds.",
)

gather_clipped: Final = Primitive(
    name="gather_clipped",
    impl=lambda x, *indices, axes: gather_impl(x, *indices, axes=axes, mode="clip"),
    type=lambda x, *indices, axes: aval(
        gathered_shape("gather", x, indices, axes, "clip"), x.dtype
    ),
    jvp=_LATE,
    transpose=_LATE,
    batch=_LATE,
    lower=Moving(elements.gather, "computed"),
    calm=True,
    doc="x at the places that `indices` give along `axes`, the nearest ones where there is none.",
)
