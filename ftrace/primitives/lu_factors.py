"""LU factorisation with row exchanges, by LAPACK's getrf of SciPy: `lu`, and orders of rows."""

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.lazy import lazy
from ftrace.core.primitive import NONDIFFERENTIABLE, ErrorSample, Primitive, Sample, smooth
from ftrace.core.zero import ZERO
from ftrace.primitives.compare import eq
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.create import iota
from ftrace.primitives.linear import NO_TRANSPOSE, add, broadcast_in_dim, check_kinds
from ftrace.primitives.slicing import pad, slice
from ftrace.primitives.sort import take_along
from ftrace.primitives.stacks import (
    check_matrices,
    in_front,
    matrices,
    product,
    square_errors,
    square_stacks,
    triangle,
)
from ftrace.primitives.triangular import triangular_solve

_getrf = {c: lazy("scipy.linalg.lapack", f"{n}getrf") for c, n in zip("fdFD", "sdcz", strict=True)}


def _lu_type(a: ShapedArray) -> tuple[ShapedArray, ...]:
    check_matrices("lu", a)
    *batch, m, n = a.shape
    index = np.dtype(np.int32)
    return aval(a.shape, a.dtype), aval((*batch, min(m, n)), index), aval((*batch, m), index)


def _lu_impl(a: Any) -> list[Any]:
    *batch, m, n = a.shape
    out = np.empty(a.shape, a.dtype)
    pivots = np.empty((*batch, min(m, n)), np.int32)
    factor = _getrf[a.dtype.char]
    for i in np.ndindex(*batch) if a.size else ():
        out[i], pivots[i], _ = factor(a[i])
    return [out, pivots, permuted(pivots, m)]


def permuted(pivots: Any, size: int, xp: Any = np) -> Any:
    """The order of rows after exchanges one by one, of plain arrays."""
    shape = (*pivots.shape[:-1], size)
    rows = xp.array(xp.broadcast_to(xp.arange(size, dtype=pivots.dtype), shape))
    rows = xp.reshape(rows, (prod(shape[:-1]), size))
    each = xp.arange(rows.shape[0])
    for k in range(pivots.shape[-1]):
        j = xp.reshape(pivots[..., k], each.shape)
        first, other = rows[:, k] + 0, rows[each, j]
        rows[:, k] = other
        rows[each, j] = first
    return xp.reshape(rows, shape)


def _widened(x: Any, before: int, rows: int, columns: int) -> Any:
    """Zeros around matrices: so many rows and columns in front, or behind."""
    n = len(typeof(x).shape) - 2
    at = [(0, 0, 0)] * n
    edges = ((before, 0, 0),) * 2 if before else ((0, rows, 0), (0, columns, 0))
    return pad(x, typeof(x).dtype.type(0), padding_config=(*at, *edges))


def identity(n: int, like: Any) -> Any:
    """Identity matrices, as many as a stack has, of its dtype."""
    a = typeof(like)
    rows, columns = (iota(dtype=dtypes.int64, shape=(n, n), dimension=d) for d in (0, 1))
    found = convert_element_type(eq(rows, columns), new_dtype=a.dtype)
    if a.ndim == 2:
        return found
    shape = (*a.shape[:-2], n, n)
    return broadcast_in_dim(found, shape=shape, broadcast_dimensions=(a.ndim - 2, a.ndim - 1))


def _part(x: Any, rows: int, columns: int) -> Any:
    """The first rows and columns of matrices."""
    shape = typeof(x).shape
    limits = (*shape[:-2], rows, columns)
    return slice(
        x, start_indices=(0,) * len(shape), limit_indices=limits, strides=(1,) * len(shape)
    )


def _lu_jvp(primals: Any, tangents: Any) -> Any:
    """With square l and u, dl = l tril(s, -1) and du = triu(s) u, where l s u is the tangent."""
    (a,), (t,) = primals, tangents
    both, pivots, order = lu(a)
    shape = typeof(a).shape
    m, n = shape[-2:]
    k = min(m, n)
    nd = len(shape)
    places = broadcast_in_dim(order, shape=shape, broadcast_dimensions=tuple(range(nd - 1)))
    t = take_along(t, places, nd - 2)
    lower = _widened(triangle(_part(both, m, k), True, -1), 0, 0, m - k)
    lower = add(lower, identity(m, a))
    upper = _widened(triangle(_part(both, k, n), False), 0, n - k, 0)
    if n > k:
        upper = add(upper, _widened(identity(n - k, a), k, 0, 0))
    how = {"transpose_a": False, "conjugate_a": False}
    s = triangular_solve(lower, t, left_side=True, lower=True, unit_diagonal=True, **how)
    s = triangular_solve(upper, s, left_side=False, lower=False, unit_diagonal=False, **how)
    found = add(product(lower, triangle(s, True, -1)), product(triangle(s, False), upper))
    return [both, pivots, order], [found, ZERO, ZERO]


def _lu_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(98)
    for a in square_stacks(98):
        yield Sample((a,), {})
    for shape in ((2, 4), (4, 2)):
        yield Sample((matrices(rng, *shape),), {})


lu = Primitive(
    name="lu",
    impl=_lu_impl,
    type=_lu_type,
    jvp=_lu_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims: in_front(lu)(axis, values, dims),
    multiple=True,
    decides=lambda v, y, p: y[2],
    samples=_lu_samples,
    errors=lambda: [e for e in square_errors(lambda x: ())() if "square" not in e.phrase],
    doc="The factors of a[order] = l u in one matrix, rows exchanged one by one, and the order.",
)


def _pivots_type(pivots: ShapedArray, *, permutation_size: int) -> ShapedArray:
    check_kinds("lu_pivots_to_permutation", "i", pivots)
    if not pivots.ndim or pivots.shape[-1] > permutation_size:
        raise ShapeError(
            f"lu_pivots_to_permutation: {pivots} exchanges rows of {permutation_size}.",
            "The size is that of the matrix, and there are at most as many pivots.",
        )
    return aval((*pivots.shape[:-1], permutation_size), pivots.dtype)


def _pivot_samples() -> Iterable[Sample]:
    for pivots, size in (
        (np.array([2, 1, 2]), 3),
        (np.array([[1, 1], [0, 3]]), 4),
        (np.array([2, 2], "i4"), 3),
        (np.zeros((2, 0), "i4"), 2),
        (np.array([[[1, 2, 2, 3]], [[0, 3, 2, 3]]])[..., :3], 4),
    ):
        yield Sample((pivots,), {"permutation_size": size})


def _pivot_errors() -> Iterable[ErrorSample]:
    size = {"permutation_size": 2}
    yield ErrorSample((np.zeros(3, "i4"),), size, ShapeError, "exchanges rows of 2")
    yield ErrorSample((np.zeros(2),), size, DtypeError, "not defined for float64")


lu_pivots_to_permutation = Primitive(
    name="lu_pivots_to_permutation",
    impl=lambda pivots, permutation_size: permuted(pivots, permutation_size),
    type=_pivots_type,
    jvp=NONDIFFERENTIABLE,
    decides=smooth,
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims, **params: in_front(lu_pivots_to_permutation)(
        axis, values, dims, **params
    ),
    samples=_pivot_samples,
    errors=_pivot_errors,
    doc="The order of rows that exchanges one by one lead to.",
)
