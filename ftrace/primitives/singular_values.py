"""Singular values and vectors: `svd`, `svdvals`.

With P = U^H dA V, its Hermitian part turns U and V together and is divided by differences of
singular values, the rest turns them apart and is divided by sums: no square is taken, so that no
digits are lost. What happens at equal and at zero singular values is in `ties.py`.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import DtypeError, MatrixError
from ftrace.core.lower import Gufunc
from ftrace.core.primitive import ErrorSample, Primitive, Sample
from ftrace.primitives.arithmetic import mul, neg, sub
from ftrace.primitives.compare import select
from ftrace.primitives.diagonals import real_of, real_part
from ftrace.primitives.gaps import alike, split
from ftrace.primitives.linear import NO_TRANSPOSE, add, reduce_sum
from ftrace.primitives.numpy_loops import linalg_loop
from ftrace.primitives.outside import free, outside, where_zero
from ftrace.primitives.shape import concatenate
from ftrace.primitives.slicing import slice
from ftrace.primitives.stacks import (
    adjoint,
    check_matrices,
    conjugated,
    gate_stacks,
    in_front,
    matrices,
    product,
)
from ftrace.primitives.ties import are_apart, is_zero, turned

# ---------------------------------------------------------------------------------- svd


def _svd_type(
    a: ShapedArray, *, full: bool, generic: bool = False
) -> tuple[ShapedArray, ShapedArray, ShapedArray]:
    check_matrices("svd", a)
    *stack, m, n = a.shape
    k = min(m, n)
    u, vh = (m, m if full else k), (n if full else k, n)
    return (
        aval((*stack, *u), a.dtype),
        real_of(a, (*stack, k)),
        aval((*stack, *vh), a.dtype),
    )


def _svd_impl(a: Any, full: bool, generic: bool = False) -> tuple[Any, Any, Any]:
    u, s, vh = np.linalg.svd(a, full)
    if not generic or not s.size or are_apart(s, "singular"):
        return u, s, vh
    return _in_general_position(a, u, s, vh, full)


def _in_general_position(a: Any, u: Any, s: Any, vh: Any, full: bool) -> tuple[Any, Any, Any]:
    """Vectors of equal values turned, those of zero together with what completes the factors."""
    m, k, n = u.shape[-2], s.shape[-1], vh.shape[-1]
    lost = bool(is_zero(s).any())
    if lost and not full and m != n:
        u, _, vh = np.linalg.svd(a, True)
    v = np.conj(np.swapaxes(vh, -1, -2))
    if lost:
        missing = [(0, 0)] * (s.ndim - 1)
        u = turned(u, np.pad(s, [*missing, (0, u.shape[-1] - k)]), 1)
        v = turned(v, np.pad(s, [*missing, (0, v.shape[-1] - k)]), 2)
    else:
        u, v = (np.concatenate([turned(x[..., :k], s), x[..., k:]], axis=-1) for x in (u, v))
    u, v = (u, v) if full else (u[..., :k], v[..., :k])
    return u, s, np.conj(np.swapaxes(v, -1, -2))


def columns(x: Any, start: int, stop: int) -> Any:
    """Some columns of matrices."""
    shape = typeof(x).shape
    if (start, stop) == (0, shape[-1]):
        return x
    n = len(shape) - 1
    return slice(
        x,
        start_indices=(0,) * n + (start,),
        limit_indices=(*shape[:-1], stop),
        strides=(1,) * (n + 1),
    )


def _moved(u: Any, du: Any, x: Any, s: Any) -> Any:
    """The tangent of U from that within its first columns, and from dA V.

    Args:
        u: the vectors, perhaps more than there are singular values.
        du: the tangent of the first ones, as far as it lies in their space.
        x: dA V.
        s: the singular values.
    """
    k, width = typeof(s).shape[-1], typeof(u).shape[-1]
    if typeof(u).shape[-2] == k:
        return du
    first = columns(u, 0, k)
    out = outside(x, first, s)
    du = add(du, out)
    if width == k:
        return du
    rest = columns(u, k, width)
    other = neg(product(first, product(adjoint(out), rest)))
    return concatenate(du, free(other, rest), dimension=typeof(u).ndim - 1)


def _svd_jvp(primals: Any, tangents: Any, *, full: bool, generic: bool = False) -> Any:
    (a,), (t,) = primals, tangents
    u, s, vh = svd(a, full=full, generic=True)
    v, k = adjoint(vh), typeof(s).shape[-1]
    square = typeof(a).shape[-1] == typeof(a).shape[-2]
    first, second = columns(u, 0, k), columns(v, 0, k)
    tv, tu = product(t, second), product(adjoint(t), first)
    p = product(adjoint(first), tv)
    half = _half(p)
    ph = adjoint(half)
    values, together = split(add(half, ph), s, kind="singular", square=square)
    _, apart = split(sub(half, ph), s, kind="sums", square=square)
    du = _moved(u, product(first, add(together, apart)), tv, s)
    dv = _moved(v, product(second, sub(together, apart)), tu, s)
    return (u, s, vh), (du, values, adjoint(dv))


def _half(x: Any) -> Any:
    return mul(x, typeof(x).dtype.type(0.5))


def _svd_loop(avals: Any, full: bool, generic: bool = False) -> Any:
    if generic:
        return None
    if full:
        return linalg_loop("svd_f", "(m,n)->(m,m),(p),(n,n)", avals)
    return linalg_loop("svd_s", "(m,n)->(m,p),(p),(p,n)", avals)


# ---------------------------------------------------------------------------------- svdvals


def _svdvals_type(a: ShapedArray, *, kinks: bool = False) -> ShapedArray:
    check_matrices("svdvals", a)
    return real_of(a, (*a.shape[:-2], min(a.shape[-2:])))


def _svdvals_jvp(primals: Any, tangents: Any, *, kinks: bool = False) -> Any:
    (a,), (t,) = primals, tangents
    u, s, vh = svd(a, full=False, generic=True)
    return s, _of_values(u, s, vh, t, kinks)


def singular_tangents(a: Any, t: Any) -> Any:
    """The tangents of singular values; of one that is zero it is zero, as of an absolute value."""
    u, s, vh = svd(a, full=False, generic=True)
    return _of_values(u, s, vh, t, False)


def _of_values(u: Any, s: Any, vh: Any, t: Any, kinks: bool) -> Any:
    moved = mul(conjugated(u), product(t, adjoint(vh)))
    found = reduce_sum(real_part(moved), axes=(typeof(u).ndim - 2,))
    if not typeof(s).shape[-1]:
        return found
    found = select(where_zero(s), typeof(s).dtype.type(0), found)
    return found if kinks else alike(found, s, kind="singular")


# ---------------------------------------------------------------------------------- the rows


def rectangular_stacks(seed: int) -> Iterable[Any]:
    """Tall, wide, square and empty matrices, stacks of them, views, and each dtype."""
    rng = np.random.default_rng(seed)
    yield matrices(rng, 4, 2)
    yield matrices(rng, 2, 3)
    yield matrices(rng, 2, 2, 2)
    yield matrices(rng, 2, 3)[:, ::-1].T
    yield np.zeros((3, 0))
    yield matrices(rng, 3, 2, dtype="f4")
    yield matrices(rng, 3, 2, dtype="c16")


def _svd_samples() -> Iterable[Sample]:
    for a in rectangular_stacks(82):
        yield Sample((a,), {"full": False})
    yield Sample((matrices(np.random.default_rng(85), 3, 2),), {"full": True})


def rectangular_errors(**params: Any) -> Any:
    """Inputs that a row of matrices of any shape refuses."""

    def errors() -> Iterable[ErrorSample]:
        for x, error, phrase in (
            (np.ones(3), MatrixError, "have two axes"),
            (np.ones((2, 2), int), DtypeError, "not defined for int64"),
            (np.ones((2, 2), "f2"), DtypeError, "not defined for float16"),
        ):
            yield ErrorSample((x,), params, error, phrase)

    return errors


svd = Primitive(
    name="svd",
    impl=_svd_impl,
    type=_svd_type,
    jvp=_svd_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda *args, **params: in_front(svd)(*args, **params),
    gate=gate_stacks(0),
    lower=Gufunc(_svd_loop),
    multiple=True,
    samples=_svd_samples,
    errors=rectangular_errors(full=True),
    doc="Matrices as U diag(s) V^H, s in descending order; `full`: with square U and V; `generic`: "
    "vectors of equal values are turned to general position, as derivatives want it.",
)

svdvals = Primitive(
    name="svdvals",
    impl=lambda a, kinks=False: np.linalg.svd(a, compute_uv=False),
    type=_svdvals_type,
    jvp=_svdvals_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda *args, **params: in_front(svdvals)(*args, **params),
    gate=gate_stacks(0),
    lower=Gufunc(lambda avals, kinks=False: linalg_loop("svd", "(m,n)->(p)", avals)),
    samples=lambda: (Sample((a,), {}) for a in rectangular_stacks(84)),
    errors=rectangular_errors(),
    doc="The singular values of matrices, in descending order; `kinks`: a function that weighs "
    "equal ones unequally, or one of zero, has a generalised gradient, else none.",
)
