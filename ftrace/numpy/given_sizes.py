"""What `size=` means: results whose length is given, where it would depend on values.

JAX's keyword: what is there comes first, the rest is cut off or filled. So `nonzero`, `unique` and
their kin work under `jit` and `vmap`. Sets are taken of sorted values: each of the first of equal
ones is at a place, and places are what `size` counts.
"""

from typing import Any, NamedTuple

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.device import following
from ftrace.core.errors import RuleError
from ftrace.numpy import ufuncs
from ftrace.numpy.lowerings import truth
from ftrace.numpy.masking import rank
from ftrace.numpy.promote import cast, new_shape, stretch, strong, value
from ftrace.primitives import elementwise as e
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.create import iota
from ftrace.primitives.cumulative import cumsum
from ftrace.primitives.index import gather, scatter, scatter_add
from ftrace.primitives.linear import move_axis, reduce_sum
from ftrace.primitives.shape import concatenate, expand_dims, reshape
from ftrace.primitives.slicing import slice as slice_row
from ftrace.primitives.sort import sort

INDEX = np.dtype(np.intp)


class Places(NamedTuple):
    """The first places where a mask holds: `at` has 0 where `is_one` says that there is none."""

    at: Any
    is_one: Any


def places(mask: Any, size: Any) -> Places:
    """The first `size` places where a vector of booleans holds."""
    (n,), (count,) = typeof(mask).shape, new_shape((size,))
    here = iota(dtype=INDEX, shape=(n,), dimension=0)
    to = e.select(mask, rank(mask), stretch(INDEX.type(count), (n,)))
    at = scatter(following(np.zeros(count, INDEX)), here, to, axes=(0,), mode="drop")
    total = reduce_sum(convert_element_type(mask, new_dtype=INDEX), axes=(0,))
    return Places(at, e.lt(iota(dtype=INDEX, shape=(count,), dimension=0), total))


def _filled(x: Any, found: Places, fill_value: Any) -> Any:
    """`x` where there is a place, a number elsewhere."""
    dtype = typeof(x).dtype
    fill = stretch(cast(value(fill_value), dtype), typeof(x).shape)
    one = found.is_one
    if typeof(x).ndim > 1:
        one = reshape(one, new_sizes=(*typeof(one).shape, *(1,) * (typeof(x).ndim - 1)))
    return e.select(stretch(one, typeof(x).shape), x, fill)


def nonzero(x: Any, size: Any, fill_value: Any = None) -> tuple[Any, ...]:
    """The indices of the first elements that are not zero, filled up with one number an axis."""
    mask = truth(strong(value(x)))
    shape = typeof(mask).shape
    found = places(reshape(mask, new_sizes=(typeof(mask).size,)), size)
    fills = fill_value if type(fill_value) is tuple else (fill_value,) * len(shape)
    rest, indices = found.at, []
    for n in reversed(shape):
        indices.append(e.mod(rest, INDEX.type(max(n, 1))))
        rest = e.floor_divide(rest, INDEX.type(max(n, 1)))
    return tuple(
        _filled(i, found, 0 if f is None else f)
        for i, f in zip(reversed(indices), fills, strict=True)
    )


def argwhere(x: Any, size: Any, fill_value: Any = None) -> Any:
    """The same as rows."""
    found = nonzero(x, size, fill_value)
    if not found:
        raise RuleError("argwhere(size=) of an array of rank 0 has no rule.", "Use atleast_1d(x).")
    return concatenate(*[expand_dims(i, dimensions=(1,)) for i in found], dimension=1)


def taken(x: Any, mask: Any, size: Any, fill_value: Any = None, axis: int = 0) -> Any:
    """The first parts of an array along an axis for which a mask holds."""
    n = typeof(x).shape[axis]
    short = typeof(mask).shape[0]
    if short < n:
        rest = stretch(np.False_, (n - short,))
        mask = concatenate(mask, rest, dimension=0)
    found = places(mask, size)
    y = gather(x, found.at, axes=(axis,), mode="clip")  # along the first axis
    y = _filled(y, found, 0 if fill_value is None else fill_value)
    return move_axis(y, 0, axis) if axis else y


class Distinct(NamedTuple):
    """Distinct elements in order, with the index of the first, the number of each, and counts."""

    values: Any
    index: Any
    inverse: Any
    counts: Any
    is_one: Any


def unique(x: Any, size: Any, fill_value: Any, equal_nan: bool) -> Distinct:
    """The first distinct elements of an array, filled up with the least one or a number."""
    shape, n = typeof(x).shape, typeof(x).size
    flat = reshape(x, new_sizes=(n,))
    here = iota(dtype=INDEX, shape=(n,), dimension=0)
    ordered, perm = sort(flat, here, dimension=0, is_stable=True, num_keys=1)
    is_new = _is_new(ordered, equal_nan)
    found = places(is_new, size)
    group = cumsum(convert_element_type(is_new, new_dtype=INDEX), axis=0, reverse=False)
    group = e.sub(group, stretch(INDEX.type(1), (n,)))
    if n:
        values = gather(ordered, found.at, axes=(0,), mode="clip")
        index = gather(perm, found.at, axes=(0,), mode="clip")
    else:
        values = stretch(typeof(x).dtype.type(0), typeof(found.at).shape)
        index = found.at
    if fill_value is not None:
        values = _filled(values, found, fill_value)
    empty = following(np.zeros(typeof(found.at).shape, INDEX))
    counts = scatter_add(empty, stretch(INDEX.type(1), (n,)), group, axes=(0,), mode="drop")
    inverse = scatter(following(np.zeros(n, INDEX)), group, perm, axes=(0,), mode="drop")
    return Distinct(values, index, reshape(inverse, new_sizes=shape), counts, found.is_one)


def _is_new(ordered: Any, equal_nan: bool) -> Any:
    """Which of sorted elements differ from the one before."""
    (n,) = typeof(ordered).shape
    if n < 2:
        return stretch(np.True_, (n,))
    before, after = (
        slice_row(ordered, start_indices=(i,), limit_indices=(n - 1 + i,), strides=(1,))
        for i in (0, 1)
    )
    differ = e.ne(after, before)
    if equal_nan and typeof(ordered).dtype.kind in "fc":
        both = (ufuncs.apply(np.isnan, v) for v in (after, before))
        differ = e.bitwise_and(differ, e.bitwise_not(e.bitwise_and(*both)))
    return concatenate(stretch(np.True_, (1,)), differ, dimension=0)
