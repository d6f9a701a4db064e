"""Triangular factors and systems: `cholesky`, `lu`, `triangular_solve`.

Values of `cholesky` are those of numpy.linalg, NaN where a matrix is not positive definite; the
other two are LAPACK's and BLAS' by way of SciPy. The derivative of `cholesky` is that of what it
reads, one triangle: a symmetric tangent gives what a function of symmetric matrices would.
"""

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.lazy import lazy
from ftrace.core.lower import Gufunc
from ftrace.core.primitive import NONDIFFERENTIABLE, ErrorSample, Primitive, Sample, smooth
from ftrace.core.zero import ZERO
from ftrace.primitives.arithmetic import mul, neg, sub
from ftrace.primitives.compare import eq
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.create import iota
from ftrace.primitives.linear import NO_TRANSPOSE, add, broadcast_in_dim, check_kinds
from ftrace.primitives.slicing import pad, slice
from ftrace.primitives.sort import take_along
from ftrace.primitives.stacks import (
    adjoint,
    apart,
    beside,
    check_matrices,
    check_square,
    check_stacks,
    conjugated,
    in_front,
    matrices,
    numpys_loop,
    product,
    refuse_matrix,
    refused_as_nan,
    square_errors,
    square_stacks,
    swapped,
    triangle,
)

_getrf = {c: lazy("scipy.linalg.lapack", f"{n}getrf") for c, n in zip("fdFD", "sdcz", strict=True)}
_trsm = {c: lazy("scipy.linalg.blas", f"{n}trsm") for c, n in zip("fdFD", "sdcz", strict=True)}

# ---------------------------------------------------------------------------------- cholesky


def _cholesky_type(a: ShapedArray, *, lower: bool) -> ShapedArray:
    check_square("cholesky", a)
    return aval(a.shape, a.dtype)


def _halved(x: Any) -> Any:
    """The lower triangle with half of the diagonal: x = halved + its adjoint, if x is Hermitian."""
    return mul(add(triangle(x, True), triangle(x, True, -1)), 0.5)


def _cholesky_jvp(primals: Any, tangents: Any, *, lower: bool) -> Any:
    y = cholesky(*primals, lower=lower)
    (t,), factor = tangents, y
    if not lower:
        t, factor = adjoint(t), adjoint(factor)
    half = _halved(t)
    whole = add(half, adjoint(half))
    params = {"lower": True, "unit_diagonal": False}
    right = {"left_side": False, "transpose_a": True, "conjugate_a": True}
    left = {"left_side": True, "transpose_a": False, "conjugate_a": False}
    inner = triangular_solve(factor, whole, **right, **params)
    inner = triangular_solve(factor, inner, **left, **params)
    found = product(factor, _halved(inner))
    return y, found if lower else adjoint(found)


def _cholesky_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(96)
    for i, a in enumerate(square_stacks(96)):
        definite = a @ a.conj().swapaxes(-1, -2) + np.eye(a.shape[-1], dtype=a.dtype)
        if i == 0:  # what is not read may be anything
            unread = definite + np.triu(rng.normal(size=a.shape), 1)
            yield Sample((unread,), {"lower": True})
            yield Sample((np.asfortranarray(unread.T),), {"lower": False})
        elif definite.dtype == "c16":
            yield Sample((definite.T,), {"lower": True})
            yield Sample((definite,), {"lower": False})
        else:
            yield Sample((definite,), {"lower": True})


cholesky = Primitive(
    name="cholesky",
    impl=lambda a, lower: refused_as_nan(lambda a: np.linalg.cholesky(a, upper=not lower), a),
    type=_cholesky_type,
    jvp=_cholesky_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims, **params: in_front(cholesky)(axis, values, dims, **params),
    lower=Gufunc(
        lambda avals, lower: numpys_loop(
            avals[0], "cholesky_lo" if lower else "cholesky_up", "(m,m)->(m,m)"
        )
    ),
    samples=_cholesky_samples,
    errors=square_errors(lambda x: (), lower=True),
    doc="The triangular l with l l^H = a, or u with u^H u = a, of which one triangle is read; NaN "
    "where a is not positive definite.",
)


# ---------------------------------------------------------------------------------- systems


def _triangular_type(
    a: ShapedArray, b: ShapedArray, *, left_side: bool, **params: bool
) -> ShapedArray:
    check_square("triangular_solve", a)
    check_matrices("triangular_solve", a, b)
    check_stacks("triangular_solve", a, b)
    if a.shape[-1] != b.shape[-2 if left_side else -1]:
        raise ShapeError(
            f"triangular_solve: a matrix {a} has {a.shape[-1]} unknowns, and b is {b}.",
            f"b has a {'row' if left_side else 'column'} for each unknown.",
        )
    return aval(b.shape, b.dtype)


def _triangular_impl(
    a: Any,
    b: Any,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    """BLAS sees matrices by columns: the transposed of ours, and the system transposed."""
    if conjugate_a and not transpose_a:
        a = np.conj(a)
    solver = _trsm[a.dtype.char]
    how = int(left_side), int(not lower), (2 if conjugate_a else 1) if transpose_a else 0
    out = np.empty(b.shape, b.dtype)
    for i in np.ndindex(b.shape[:-2]) if b.size else ():
        out[i] = solver(1.0, a[i].T, b[i].T, *how, int(unit_diagonal)).T
    return out


def _read(t: Any, lower: bool, unit: bool, transpose_a: bool, conjugate_a: bool) -> Any:
    """What a triangular system reads of its matrix, as the matrix that is multiplied with."""
    t = triangle(t, lower, (-1 if lower else 1) if unit else 0)
    t = conjugated(t) if conjugate_a else t
    return swapped(t) if transpose_a else t


def _triangular_jvp(
    primals: Any, tangents: Any, *, left_side: bool, lower: bool, unit_diagonal: bool, **how: bool
) -> Any:
    (a, b), (ta, tb) = primals, tangents
    params = {"left_side": left_side, "lower": lower, "unit_diagonal": unit_diagonal, **how}
    x = triangular_solve(a, b, **params)
    if ta is ZERO:
        return x, triangular_solve(a, tb, **params)
    t = _read(ta, lower, unit_diagonal, **how)
    change = product(t, x) if left_side else product(x, t)
    change = neg(change) if tb is ZERO else sub(tb, change)
    return x, triangular_solve(a, change, **params)


def _triangular_transpose(ct: Any, a: Any, b: Any, *, transpose_a: bool, **params: bool) -> Any:
    refuse_matrix("triangular_solve", a)
    return None, triangular_solve(a, ct, transpose_a=not transpose_a, **params)


def _triangular_batch(axis: Any, values: Any, dims: Any, *, left_side: bool, **params: bool) -> Any:
    (a, b), (da, db) = values, dims
    if da is not None:
        return in_front(triangular_solve)(axis, values, dims, left_side=left_side, **params)
    along = -1 if left_side else -2
    found = triangular_solve(a, beside(b, db, along), left_side=left_side, **params)
    return apart(found, axis.size, along, (b, db))


def _triangular_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(97)
    flags = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    codes = ("10000", "11001", "01100", "00111", "11100", "01010", "10110", "11010", "01100")
    more = (matrices(rng, 2, 2, dtype="c16"), matrices(rng, 3, 3))
    for i, (a, code) in enumerate(zip((*square_stacks(97), *more), codes, strict=True)):
        a = a + 4 * np.eye(a.shape[-1], dtype=a.dtype)
        left = code[0] == "1"
        shape = (*a.shape[:-1], 2) if left else (*a.shape[:-2], 2, a.shape[-1])
        b = matrices(rng, *shape, dtype=a.dtype.str[1:])
        yield Sample(
            (a, b[..., ::-1] if i else b), {f: c == "1" for f, c in zip(flags, code, strict=True)}
        )


_PLAIN = {"lower": True, "transpose_a": False, "conjugate_a": False, "unit_diagonal": False}


def _triangular_errors() -> Iterable[ErrorSample]:
    yield from square_errors(lambda x: (x,), left_side=True, **_PLAIN)()
    a = np.eye(3)
    for left, shape in ((True, (2, 3)), (False, (3, 2))):
        params = {"left_side": left, **_PLAIN}
        yield ErrorSample((a, np.ones(shape)), params, ShapeError, "has 3 unknowns")
    yield ErrorSample((a, np.ones((2, 3, 3))), params, ShapeError, "of different sizes")
    yield ErrorSample((a, np.ones((3, 3), "f4")), params, DtypeError, "do not promote")


triangular_solve = Primitive(
    name="triangular_solve",
    impl=_triangular_impl,
    type=_triangular_type,
    jvp=_triangular_jvp,
    transpose=_triangular_transpose,
    batch=_triangular_batch,
    zeros=True,
    linear_in=(1,),
    samples=_triangular_samples,
    errors=_triangular_errors,
    doc="The solution x of op(a) x = b, or of x op(a) = b, where one triangle of a is read.",
)


# ---------------------------------------------------------------------------------- lu


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
