"""Indexing by arrays as native code does it: indices in range, and the error beside it.

What an index outside of an array means is decided before the array is touched: it is clipped,
wrapped, looked at for an error, or noted so that something else is chosen. The read that is left,
`gather_clipped`, is a load at a computed place; the write, `scatter_at`, changes an array at places
counted in its leading axes, in place where nobody needs it any more. These rows are made when a
program is lowered, when no transformation will follow; `gather` and the scatters are in `index.py`
and `scatter.py`.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from ftrace.core.avals import aval, typeof
from ftrace.core.device import to_host
from ftrace.core.dtypes import int64
from ftrace.core.lower import Moving, Refusal, Scattering
from ftrace.core.primitive import NONDIFFERENTIABLE, RAISES, Primitive, Rule, Unsupported
from ftrace.primitives import elements
from ftrace.primitives.arithmetic import min as min_row
from ftrace.primitives.arithmetic import mod, mul
from ftrace.primitives.compare import bitwise_and, bitwise_not, clamp, eq, lt, select
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.linear import add, broadcast_in_dim, transpose
from ftrace.primitives.movement import Ints
from ftrace.primitives.places import (
    gather_impl,
    gathered_shape,
    index_shape,
    other_axes,
    out_of_range,
    scatter_impl,
)
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


def scattered(combine: str) -> Rule:
    """A scatter by rows that have native code: places in the indexed axes, counted in order."""

    def rule(x: Any, v: Any, *indices: Any, axes: Ints, mode: str) -> Any:
        a = typeof(x)
        sizes = [a.shape[i] for i in axes]
        if not all(sizes):
            return None
        places, inside = _places(indices, sizes, mode)
        if mode == "raise":
            index_error(bitwise_not(_all(inside)), *indices, axes=axes, shape=a.shape)
        if len(axes) == 1 and mode in ("raise", "drop"):
            place = _as_int64(indices[0], 0)  # the scatter counts from the end itself
        else:
            place = _counted(places, sizes, mode)
            place = select(inside, place, prod(sizes)) if mode == "drop" else place
        order = (*axes, *other_axes(len(a.shape), axes))
        moved = order != tuple(range(len(order)))
        front = transpose(x, permutation=order) if moved else x
        v = v if typeof(v) == aval(typeof(v).shape, a.dtype) else _converted(v, a.dtype)
        y = scatter_at(front, v, place, combine=combine)
        back = tuple(int(i) for i in np.argsort(order))
        return transpose(y, permutation=back) if moved else y

    return rule


def _converted(v: Any, dtype: Any) -> Any:
    return convert_element_type(v, new_dtype=dtype)


def _counted(places: Sequence[Any], sizes: Sequence[int], mode: str) -> Any:
    """The number of a place in several axes, by indices of the common shape."""
    common = index_shape([typeof(i) for i in places])
    number: Any = None
    for i, n in zip(places, sizes, strict=True):
        i = clamp(0, i, n - 1) if mode == "clip" else i
        if common and not typeof(i).shape:
            i = broadcast_in_dim(i, shape=common, broadcast_dimensions=())
        number = i if number is None else add(mul(number, n), i)
    return number


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
            own = eq(clamp(0, i, n - 1), i)  # what is read is clipped all the same
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
    if to_host(bad):
        raise out_of_range([to_host(i) for i in indices], shape, axes)
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

_UFUNCS: Final = {
    "set": None, "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


def _scatter_impl(x: Any, v: Any, places: Any, *, combine: str) -> Any:
    shape, count = np.shape(x), np.size(places)
    lead = len(shape) - (np.ndim(v) - np.ndim(places))
    rows = np.reshape(x, (prod(shape[:lead]), *shape[lead:]))
    updates = np.reshape(v, (count, *shape[lead:]))
    where = {"axes": (0,), "mode": "drop"}
    return np.reshape(
        scatter_impl(_UFUNCS[combine])(rows, updates, np.reshape(places, (count,)), **where),
        shape,
    )


scatter_at: Final = Primitive(
    name="scatter_at",
    impl=_scatter_impl,
    type=lambda x, v, places, *, combine: x,
    jvp=_LATE,
    transpose=_LATE,
    batch=_LATE,
    lower=Scattering(lambda combine: combine),
    calm=True,
    doc="x with updates at places that are counted in its leading axes, in row-major order; "
    "negative ones count from the end, and those that there are not are left out.",
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
