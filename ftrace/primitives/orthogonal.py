"""The factors Q and R of matrices: `qr`.

The derivative keeps R triangular with a real diagonal, as LAPACK makes it. Of a wide matrix the
first columns decide, the others are Q R. Where R has a zero on its diagonal there is no derivative;
the columns that complete Q may be looked at as a space only.
"""

from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.primitive import Primitive, Sample
from ftrace.primitives.arithmetic import abs as absolute
from ftrace.primitives.arithmetic import neg, real, sub
from ftrace.primitives.compare import eq, gt, select
from ftrace.primitives.diagonals import along_rows, diagonal, like, where_places
from ftrace.primitives.linear import NO_TRANSPOSE, add, broadcast_rank0
from ftrace.primitives.outside import free, regular, where_zero
from ftrace.primitives.shape import concatenate
from ftrace.primitives.singular_values import columns, rectangular_errors, rectangular_stacks
from ftrace.primitives.stacks import (
    adjoint,
    check_matrices,
    gate_stacks,
    in_front,
    product,
    swapped,
)
from ftrace.primitives.triangular import triangular_solve


def _type(a: ShapedArray, *, complete: bool) -> tuple[ShapedArray, ShapedArray]:
    check_matrices("qr", a)
    *stack, m, n = a.shape
    k = m if complete else min(m, n)
    return aval((*stack, m, k), a.dtype), aval((*stack, k, n), a.dtype)


def _impl(a: Any, complete: bool) -> tuple[Any, Any]:
    q, r = np.linalg.qr(a, "complete" if complete else "reduced")
    return q, r


def _turning(m: Any) -> Any:
    """The anti-Hermitian matrix with the same elements below the diagonal, and there, imaginary."""
    a = typeof(m)
    below = select(where_places(gt, a.shape), m, a.dtype.type(0))
    found = sub(below, adjoint(below))
    if a.dtype.kind != "c":
        return found
    imaginary = sub(m, like(real(m), m))
    return select(where_places(eq, a.shape), imaginary, found)


def _over(t: Any, r: Any) -> Any:
    """t times the inverse of a triangle, 0 for one that has none: then t is 0, or it raises."""
    shape = typeof(r).shape
    if not shape[-1]:
        return t
    d = absolute(diagonal(r))
    lost = along_rows(where_zero(d), shape)
    one = typeof(r).dtype.type(1)
    safe = select(lost, select(where_places(eq, shape), one, broadcast_rank0(one, shape)), r)
    how = {"transpose_a": False, "conjugate_a": False, "unit_diagonal": False}
    return triangular_solve(safe, regular(t, d), left_side=False, lower=False, **how)


def _jvp(primals: Any, tangents: Any, *, complete: bool) -> Any:
    (a,), (t,) = primals, tangents
    q, r = qr(a, complete=complete)
    *stack, m, n = typeof(a).shape
    k = min(m, n)
    first = columns(q, 0, k)
    r_all = r if typeof(r).shape[-2] == k else _top(r, k)
    r1 = columns(r_all, 0, k)
    x = _over(columns(t, 0, k), r1)
    inside = product(adjoint(first), x)
    turning = _turning(inside)
    dq = add(product(first, sub(turning, inside)), x)
    dr = product(sub(inside, turning), r1)
    last = typeof(a).ndim - 1
    if n > k:
        rest = columns(r_all, k, n)
        moved = sub(product(adjoint(first), columns(t, k, n)), product(turning, rest))
        dr = concatenate(dr, moved, dimension=last)
    if complete and m > k:
        others = columns(q, k, m)
        c = product(adjoint(others), x)
        dq = concatenate(dq, free(neg(product(first, adjoint(c))), others), dimension=last)
        nothing = broadcast_rank0(typeof(a).dtype.type(0), (*stack, m - k, n))
        dr = concatenate(dr, nothing, dimension=last - 1)
    return (q, r), (dq, dr)


def _top(r: Any, k: int) -> Any:
    """The first k rows of matrices."""
    return swapped(columns(swapped(r), 0, k))


qr = Primitive(
    name="qr",
    impl=_impl,
    type=_type,
    jvp=_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda *args, **params: in_front(qr)(*args, **params),
    gate=gate_stacks(0),
    multiple=True,
    samples=lambda: (
        Sample((a,), {"complete": i == 1}) for i, a in enumerate(rectangular_stacks(86))
    ),
    errors=rectangular_errors(complete=False),
    doc="Matrices as Q R: Q with orthonormal columns, or (`complete`) square, R upper triangular "
    "with a real diagonal.",
)
