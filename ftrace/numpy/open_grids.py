"""Indices by shapes: ix_, and the indices of the triangles and of the diagonal of an array."""

from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.device import free
from ftrace.core.errors import ShapeError
from ftrace.numpy.promote import cast, known, numpy_function, static_int, strong, value
from ftrace.primitives.shape import reshape


@numpy_function
def ix_(*args: Any) -> tuple[Any, ...]:
    """Index vectors with axes of size 1, so that together they index a rectangle."""
    found = []
    for i, arg in enumerate(args):
        x = strong(value(arg))
        if typeof(x).ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if typeof(x).dtype.kind == "b":
            x = free(np.flatnonzero(known(x, "numpy.ix_ of a mask")))
        x = x if typeof(x).size else cast(x, np.dtype(np.intp))
        found.append(reshape(x, new_sizes=(*(1,) * i, typeof(x).size, *(1,) * (len(args) - i - 1))))
    return tuple(found)


def _sides(arr: Any) -> tuple[int, int]:
    shape = typeof(value(arr)).shape
    if len(shape) != 2:
        raise ValueError("input array must be 2-d")
    return shape[0], shape[1]


@numpy_function
def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, ...]:
    """The indices of the lower triangle of a matrix."""
    n, m = _sides(arr)
    return tuple(map(free, np.tril_indices(n, k=static_int(k, "k"), m=m)))


@numpy_function
def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, ...]:
    """The indices of the upper triangle of a matrix."""
    n, m = _sides(arr)
    return tuple(map(free, np.triu_indices(n, k=static_int(k, "k"), m=m)))


@numpy_function
def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array with equally long axes."""
    shape = typeof(value(arr)).shape
    if len(shape) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(shape)) != 1:
        raise ShapeError(
            f"All dimensions of input must be of equal length: the shape is {shape}.",
            "Take the indices of a square part.",
        )
    return tuple(map(free, np.diag_indices(shape[0], len(shape))))
