"""Cumulative functions along an axis: cumsum, cumprod, cumulative_sum, cumulative_prod."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.numpy import ufuncs
from ftrace.numpy.promote import numpy_function, one_axis, stretch
from ftrace.numpy.reductions import in_accumulator, named
from ftrace.primitives import cumulative as c
from ftrace.primitives.shape import concatenate, reshape


def cumulated(row: Callable[..., Any], x: Any, axis: Any) -> Any:
    """A cumulative row along an axis; of the flat array without one."""
    if axis is None:
        x = reshape(x, new_sizes=(typeof(x).size,))
    return row(x, axis=0 if axis is None else one_axis(axis, typeof(x).ndim), reverse=False)


@numpy_function
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Cumulative sums along an axis."""
    return ufuncs.finish(np.add, cumulated(c.cumsum, in_accumulator(a, dtype), axis), out)


@numpy_function
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Cumulative products along an axis."""
    return ufuncs.finish(np.add, cumulated(c.cumprod, in_accumulator(a, dtype), axis), out)


def _with_start(found: Any, axis: int, number: int) -> Any:
    shape = list(typeof(found).shape)
    shape[axis] = 1
    first = stretch(typeof(found).dtype.type(number), tuple(shape))
    return concatenate(first, found, dimension=axis)


def _array_api(row: Callable[..., Any], start: int) -> Callable[..., Any]:
    def cumulative(
        x: Any,
        /,
        *,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        include_initial: bool = False,
    ) -> Any:
        x = in_accumulator(x, dtype)
        if axis is None and typeof(x).ndim != 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` is required.")
        i = 0 if axis is None else one_axis(axis, typeof(x).ndim)
        found = row(x, axis=i, reverse=False)
        found = _with_start(found, i, start) if include_initial else found
        return ufuncs.finish(np.add, found, out)

    return cumulative


cumulative_sum = named(
    "cumulative_sum", "Cumulative sums along an axis, perhaps from zero.", _array_api(c.cumsum, 0)
)
cumulative_prod = named(
    "cumulative_prod",
    "Cumulative products along an axis, perhaps from one.",
    _array_api(c.cumprod, 1),
)
