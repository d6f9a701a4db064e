"""Rows of linear algebra on CuPy arrays: cuSOLVER and cuBLAS by way of CuPy, a stack at a time.

CuPy tells nothing of matrices that it could not factor. Solutions of singular systems are not
finite then; a Cholesky factor that is none is NaN here, as on the host.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.gpu.eager.library_arrays import Rule
from ftrace.primitives.determinants import slope_of_cofactors
from ftrace.primitives.lu_factors import permuted

Module = Callable[[], Any]


def called(name: str) -> Rule:
    """A function of `cupy.linalg`."""
    return lambda xp, *operands: getattr(xp.linalg, name)(*operands)


def slogdet(xp: Any, a: Any) -> list[Any]:
    return [xp.asarray(y) for y in xp.linalg.slogdet(a)]


def cofactor(xp: Any, a: Any) -> Any:
    """As on the host, but both ways, as a choice would wait for the numbers."""
    if not a.size:
        return xp.array(a, order="C")
    inverse = xp.swapaxes(xp.linalg.inv(a), -1, -2)
    found = xp.linalg.det(a)[..., None, None] * inverse
    u, s, v = map(xp.asarray, xp.linalg.svd(a))
    unit = xp.linalg.det(u) * xp.linalg.det(v)
    others = xp.where(xp.eye(a.shape[-1], dtype=np.bool_), 1, s[..., None, :]).prod(axis=-1)
    other = xp.matmul((unit[..., None] * others)[..., None, :] * u.conj(), v.conj())
    fine = xp.isfinite(found).all(axis=(-2, -1), keepdims=True)
    return xp.where(fine, found, other)


def cofactor_slope(xp: Any, a: Any, t: Any) -> Any:
    return slope_of_cofactors(xp, a, t) if a.size else xp.array(t, order="C")


def cholesky(xp: Any, a: Any, lower: bool) -> Any:
    if not a.size:
        return xp.array(a, order="C")
    x = xp.linalg.cholesky(a if lower else xp.swapaxes(a.conj(), -1, -2))
    fine = (xp.diagonal(x, axis1=-2, axis2=-1).real > 0).all(axis=-1)[..., None, None]
    x = xp.where(fine, x, xp.asarray(np.nan, x.dtype))
    return x if lower else xp.swapaxes(x.conj(), -1, -2)


def triangular_solve(module: Module) -> Rule:
    """`cupyx.scipy.linalg.solve_triangular`; a system from the right is that of the transposed."""

    def evaluate(xp: Any, a: Any, b: Any, left_side: bool, **how: bool) -> Any:
        if not b.size:
            return xp.array(b, order="C")
        a = a.conj() if how["conjugate_a"] else a
        turned = how["transpose_a"] == left_side
        if not left_side:
            b = xp.swapaxes(b, -1, -2)
        options = {name: how[name] for name in ("lower", "unit_diagonal")}
        x = module().solve_triangular(a, b, trans=int(turned), **options)
        return x if left_side else xp.swapaxes(x, -1, -2)

    return evaluate


def triangular_product(
    xp: Any, a: Any, b: Any, left_side: bool, lower: bool, unit_diagonal: bool, **how: bool
) -> Any:
    a = xp.tril(a) if lower else xp.triu(a)
    if unit_diagonal:
        a = xp.where(xp.eye(a.shape[-1], dtype=np.bool_), xp.asarray(1, a.dtype), a)
    a = a.conj() if how["conjugate_a"] else a
    a = xp.swapaxes(a, -1, -2) if how["transpose_a"] else a
    return xp.matmul(a, b) if left_side else xp.matmul(b, a)


def triangular_inv(module: Module) -> Rule:
    """By a system with the identity."""

    def evaluate(xp: Any, a: Any, lower: bool) -> Any:
        if not a.size:
            return xp.array(a, order="C")
        one = xp.zeros(a.shape, a.dtype) + xp.eye(a.shape[-1], dtype=a.dtype)
        x = module().solve_triangular(a, one, lower=lower)
        return (xp.tril if lower else xp.triu)(x)

    return evaluate


def lu(module: Module) -> Rule:
    """`cupyx.scipy.linalg.lu_factor` of each matrix."""

    def evaluate(xp: Any, a: Any) -> list[Any]:
        *batch, m, n = a.shape
        both, pivots = xp.array(a, order="C"), xp.zeros((*batch, min(m, n)), np.int32)
        for i in np.ndindex(*batch) if a.size else ():
            both[i], pivots[i] = module().lu_factor(a[i], check_finite=False)
        return [both, pivots, pivots_to_order(xp, pivots, m)]

    return evaluate


def pivots_to_order(xp: Any, pivots: Any, permutation_size: int) -> Any:
    return permuted(pivots, permutation_size, xp)


def lu_factors(module: Module) -> Rule:
    def evaluate(xp: Any, a: Any) -> list[Any]:
        both, pivots, _ = lu(module)(xp, a)
        fine = (xp.diagonal(both, axis1=-2, axis2=-1) != 0).all(axis=-1)[..., None, None]
        both = xp.where(fine, both, xp.asarray(np.nan, both.dtype))
        return [xp.array(xp.swapaxes(both, -1, -2), order="C"), pivots.astype(np.int64) + 1]

    return evaluate


def solve_factored(module: Module) -> Rule:
    def evaluate(xp: Any, factors: Any, pivots: Any, b: Any, transposed: bool) -> Any:
        if not b.size:
            return xp.array(b, order="C")
        order = permuted(pivots - 1, b.shape[-2], xp)
        both = xp.swapaxes(factors, -1, -2)
        lower = {"lower": True, "unit_diagonal": True}
        upper = {"lower": False, "unit_diagonal": False}
        x = b if transposed else xp.take_along_axis(b, order[..., None], axis=-2)
        for triangle in (upper, lower) if transposed else (lower, upper):
            x = module().solve_triangular(both, x, trans=int(transposed), **triangle)
        if not transposed:
            return x
        return xp.take_along_axis(x, xp.argsort(order, axis=-1)[..., None], axis=-2)

    return evaluate


# ---------------------------------------------------------------------------------- equations


def _each(xp: Any, function: Rule, x: Any) -> Any:
    """A function of single matrices for a stack."""
    out = xp.zeros(x.shape, x.dtype)
    for i in np.ndindex(*x.shape[:-2]) if x.size else ():
        out[i] = function(x[i])
    return out


def expm(module: Module) -> Rule:
    """`cupyx.scipy.linalg.expm` of each matrix."""
    return lambda xp, a: _each(xp, module().expm, a)


def expm_frechet(module: Module) -> Rule:
    """The corner of the exponential of ((a, e), (0, a)), with e of a's size so that it is exact."""

    def evaluate(xp: Any, a: Any, e: Any) -> Any:
        if not a.size:
            return xp.array(a, order="C")
        size = abs(e).max(axis=(-2, -1), keepdims=True)
        size = xp.where(size > 0, size / (1 + abs(a).max(axis=(-2, -1), keepdims=True)), 1)
        n = a.shape[-1]
        above = xp.concatenate([a, e / size.astype(a.dtype)], axis=-1)
        below = xp.concatenate([xp.zeros_like(a), a], axis=-1)
        whole = _each(xp, module().expm, xp.concatenate([above, below], axis=-2))
        return whole[..., :n, n:] * size

    return evaluate


def sylvester(xp: Any, a: Any, b: Any, q: Any) -> Any:
    """As one system with a m n by m n matrix: CuPy has no Schur form."""
    m, n = q.shape[-2:]
    left = a[..., :, None, :, None] * xp.eye(n, dtype=a.dtype)[:, None, :]
    turned = xp.swapaxes(b, -1, -2)[..., None, :, None, :]
    right = xp.eye(m, dtype=a.dtype)[:, None, :, None] * turned
    system = xp.reshape(left + right, (*q.shape[:-2], m * n, m * n))
    x = xp.linalg.solve(system, xp.reshape(q, (*q.shape[:-2], m * n, 1)))
    return xp.reshape(x, q.shape)


def _whole(xp: Any, ab: Any, lower: int, upper: int) -> Any:
    """A matrix of its diagonals; where it is square."""
    i, j = np.indices((ab.shape[-1],) * 2)
    diagonal = upper + i - j
    inside = (diagonal >= 0) & (diagonal <= lower + upper)
    places = xp.asarray(np.where(inside, diagonal, 0)), xp.asarray(j)
    return xp.where(xp.asarray(inside), ab[(..., *places)], xp.asarray(0, ab.dtype))


def banded_solve(xp: Any, ab: Any, b: Any, lower: int, upper: int) -> Any:
    """By the whole matrix: CuPy has no banded systems."""
    if not b.size:
        return xp.array(b, order="C")
    return xp.linalg.solve(_whole(xp, ab, lower, upper), b)


def definite_banded_solve(xp: Any, ab: Any, b: Any, lower: bool) -> Any:
    """The same; NaN where the matrix has no Cholesky factor."""
    if not b.size:
        return xp.array(b, order="C")
    count = ab.shape[-2] - 1
    half = _whole(xp, ab, count * lower, count * (not lower))
    main = xp.eye(ab.shape[-1], dtype=np.bool_)
    whole = half + xp.where(main, 0, xp.swapaxes(half.conj(), -1, -2))
    whole = xp.where(main, half.real, whole)
    fine = xp.isfinite(cholesky(xp, whole, True)).all(axis=(-2, -1), keepdims=True)
    x = xp.linalg.solve(whole, b)
    return xp.where(fine, x, xp.asarray(np.nan, x.dtype))


def _inverted(xp: Any, a: Any, cutoff: Any) -> Any:
    """Factors of the pseudo-inverse, the singular values and which of them count."""
    u, s, vh = (xp.asarray(x) for x in xp.linalg.svd(a, full_matrices=False))
    if not s.size:
        return vh, u, s, s > 0
    counts = s > xp.asarray(cutoff)[..., None] * s.max(axis=-1, keepdims=True)
    inverse = xp.where(counts, 1 / xp.where(counts, s, 1), 0 * s)  # NaN stays NaN
    v = xp.swapaxes(vh.conj(), -1, -2) * inverse[..., None, :].astype(a.dtype)
    return v, xp.swapaxes(u.conj(), -1, -2), s, counts


def pinv(xp: Any, a: Any, cutoff: Any, hermitian: bool = False) -> Any:
    if hermitian:
        below = xp.tril(a, -1)
        on = xp.where(xp.eye(a.shape[-1], dtype=np.bool_), a.real, 0)
        a = below + xp.swapaxes(below.conj(), -1, -2) + on
    if not a.size:
        return xp.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    v, uh, _, _ = _inverted(xp, a, cutoff)
    return xp.matmul(v, uh)


def least_squares(xp: Any, a: Any, b: Any, cutoff: Any) -> list[Any]:
    if not a.size:
        shape = (*a.shape[:-2], a.shape[-1], b.shape[-1])
        stack, k = a.shape[:-2], min(a.shape[-2:])
        none = xp.zeros((*stack, k), a.real.dtype)
        return [xp.zeros(shape, a.dtype), xp.zeros(stack, np.int32), none]
    v, uh, s, counts = _inverted(xp, a, cutoff)
    return [xp.matmul(v, xp.matmul(uh, b)), counts.sum(axis=-1), s]


def lacking(xp: Any, *operands: Any, **params: Any) -> Any:
    raise AttributeError("nor has cupyx.scipy.linalg")
