"""Pseudo-inverses and least squares: `pinv`, `least_squares`.

Their derivatives are those along matrices of the same rank, in closed form: full or deficient, no
singular value is divided by another, and derivatives of any order are the same rows again. Where a
tangent changes the rank there is no derivative: the pseudo-inverse jumps.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import DtypeError, MatrixError, ShapeError
from ftrace.core.primitive import ErrorSample, Primitive, Sample
from ftrace.core.zero import ZERO
from ftrace.primitives.arithmetic import sub
from ftrace.primitives.diagonals import half, real_of
from ftrace.primitives.linear import NO_TRANSPOSE, add
from ftrace.primitives.movement import zeros
from ftrace.primitives.singular_values import rectangular_stacks, singular_tangents
from ftrace.primitives.stacks import (
    adjoint,
    check_matrices,
    check_stacks,
    gate_stacks,
    in_front,
    matrices,
    product,
)


def _check_cutoff(name: str, a: ShapedArray, cutoff: ShapedArray) -> None:
    expected = real_of(a, a.shape[:-2])
    if (cutoff.shape, cutoff.dtype) != (expected.shape, expected.dtype):
        raise ShapeError(
            f"{name} was given {a} and the cutoff {cutoff}.",
            f"There is one for each matrix: {expected}.",
        )


# ---------------------------------------------------------------------------------- pinv


def _pinv_type(a: ShapedArray, cutoff: ShapedArray, *, hermitian: bool = False) -> ShapedArray:
    check_matrices("pinv", a)
    if hermitian and a.shape[-1] != a.shape[-2]:
        raise MatrixError(f"pinv was given {a} as Hermitian.", "A Hermitian matrix is square.")
    _check_cutoff("pinv", a, cutoff)
    return aval((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)


def _pinv_jvp(primals: Any, tangents: Any, *, hermitian: bool = False) -> Any:
    (a, cutoff), (t, _) = primals, tangents
    p = pinv(a, cutoff, hermitian=hermitian)
    if t is ZERO:
        return p, ZERO
    if hermitian:
        below = half(t, True)
        t = add(below, adjoint(below))
        below = half(a, True)
        a = add(below, adjoint(below))
    ph, th = adjoint(p), adjoint(t)
    left = product(p, product(ph, sub(th, product(product(th, a), p))))
    right = product(product(sub(th, product(p, product(a, th))), ph), p)
    return p, sub(add(left, right), product(p, product(t, p)))


# ---------------------------------------------------------------------------------- least squares


def _lstsq_type(
    a: ShapedArray, b: ShapedArray, cutoff: ShapedArray
) -> tuple[ShapedArray, ShapedArray, ShapedArray]:
    check_matrices("least_squares", a, b)
    check_stacks("least_squares", a, b)
    _check_cutoff("least_squares", a, cutoff)
    *stack, m, n = a.shape
    if b.shape[-2] != m:
        raise ShapeError(
            f"least_squares was given {a} and the right-hand side {b}.",
            "b has a row for each row of the matrix.",
        )
    return (
        aval((*stack, n, b.shape[-1]), a.dtype),
        aval(tuple(stack), np.dtype(np.int32)),
        real_of(a, (*stack, min(m, n))),
    )


def _lstsq_impl(a: Any, b: Any, cutoff: Any) -> list[Any]:
    """Matrix by matrix, as numpy.linalg.lstsq takes one."""
    stack, (m, n) = a.shape[:-2], a.shape[-2:]
    x = np.empty((*stack, n, b.shape[-1]), a.dtype)
    rank = np.empty(stack, np.int32)
    s = np.empty((*stack, min(m, n)), cutoff.dtype)
    for i in np.ndindex(stack):
        x[i], _, rank[i], s[i] = np.linalg.lstsq(a[i], b[i], rcond=cutoff[i])
    return [x, rank[()], s]


def _lstsq_jvp(primals: Any, tangents: Any) -> Any:
    (a, b, cutoff), (ta, tb, _) = primals, tangents
    x, rank, s = least_squares(a, b, cutoff)
    if ta is ZERO and tb is ZERO:
        return (x, rank, s), (ZERO, ZERO, ZERO)
    p = pinv(a, cutoff)
    if ta is ZERO:
        return (x, rank, s), (product(p, tb), ZERO, ZERO)
    tah, ph = adjoint(ta), adjoint(p)
    moved = product(ta, x)
    change = sub(zeros(typeof(b)) if tb is ZERO else tb, moved)
    change = add(change, product(ph, product(tah, sub(b, product(a, x)))))
    free = product(tah, product(ph, x))
    dx = add(product(p, sub(change, product(a, free))), free)
    return (x, rank, s), (dx, ZERO, singular_tangents(a, ta))


# ---------------------------------------------------------------------------------- the rows


def _cutoff(a: Any) -> Any:
    return np.full(a.shape[:-2], 1e-6, a.real.dtype)[()]


def _pinv_samples() -> Iterable[Sample]:
    for a in rectangular_stacks(88):
        yield Sample((a, _cutoff(a)), {})
    a = matrices(np.random.default_rng(88), 3, 3)
    yield Sample((a, _cutoff(a)), {"hermitian": True})


def _pinv_errors() -> Iterable[ErrorSample]:
    a, c = np.ones((2, 3)), np.float64(0)
    yield ErrorSample((a[0], c), {}, MatrixError, "have two axes")
    yield ErrorSample((a, np.zeros(2)), {}, ShapeError, "one for each matrix")
    yield ErrorSample((a, c), {"hermitian": True}, MatrixError, "is square")
    yield ErrorSample((a.astype("i8"), c), {}, DtypeError, "not defined for int64")


def _lstsq_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(89)
    for i, a in enumerate(rectangular_stacks(89)):
        b = matrices(rng, *a.shape[:-1], 1 + i % 2, dtype=a.dtype.str[1:])
        yield Sample((a, b, _cutoff(a)), {})


def _lstsq_errors() -> Iterable[ErrorSample]:
    a, c = np.ones((2, 3)), np.float64(0)
    yield ErrorSample((a, a[:1], c), {}, ShapeError, "a row for each row")
    yield ErrorSample((a, a, np.zeros(2)), {}, ShapeError, "one for each matrix")


pinv = Primitive(
    name="pinv",
    impl=lambda a, cutoff, hermitian=False: np.linalg.pinv(a, rtol=cutoff, hermitian=hermitian),
    type=_pinv_type,
    jvp=_pinv_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda *args, **params: in_front(pinv)(*args, **params),
    gate=gate_stacks(0),
    zeros=True,
    samples=_pinv_samples,
    errors=_pinv_errors,
    doc="Pseudo-inverses of matrices, by singular values greater than `cutoff` times the greatest.",
)

least_squares = Primitive(
    name="least_squares",
    impl=_lstsq_impl,
    type=_lstsq_type,
    jvp=_lstsq_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda *args, **params: in_front(least_squares)(*args, **params),
    gate=gate_stacks(0, 1),
    zeros=True,
    multiple=True,
    samples=_lstsq_samples,
    errors=_lstsq_errors,
    doc="The shortest x for which a x is closest to b, the rank of a, and its singular values.",
)
