"""Rows for what is orthogonal to vectors of a factor: `outside_over`, `free_basis`, `regular_for`.

A tangent of U has a part outside of the space of U's columns, which is divided by the singular
values, and the vectors that complete U to a square matrix have no order that means anything. As in
`gaps.py`, the rows tell where a derivative does not exist: at singular values of zero, and where a
function depends on the choice of the completing vectors, which only its cotangent shows.
"""

from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.primitive import ErrorSample, Linear, Primitive, Sample, Unsupported
from ftrace.core.zero import ZERO
from ftrace.primitives.arithmetic import abs as absolute
from ftrace.primitives.arithmetic import div, mul, neg
from ftrace.primitives.compare import le, select
from ftrace.primitives.diagonals import epsilon, scaled
from ftrace.primitives.linear import add, broadcast_in_dim
from ftrace.primitives.reduce import reduce_max
from ftrace.primitives.stacks import (
    adjoint,
    check_matrices,
    conjugated,
    gate_stacks,
    in_front,
    mask_of_stacks,
    matrices,
    product,
)
from ftrace.primitives.ties import CLOSE, check_free, check_outside, check_regular

# ---------------------------------------------------------------------------------- outside


def _outside_type(
    x: ShapedArray, u: ShapedArray, s: ShapedArray, *, reverse: bool = False
) -> ShapedArray:
    check_matrices("outside_over", x, u)
    if u.shape != x.shape or s != aval((*x.shape[:-2], x.shape[-1]), dtypes.real_dtype(x.dtype)):
        raise ShapeError(
            f"outside_over was given {x}, vectors {u} and singular values {s}.",
            "There is one vector and one value for each column.",
        )
    return aval(x.shape, x.dtype)


def _outside_impl(x: Any, u: Any, s: Any, reverse: bool = False) -> Any:
    if not x.size:
        return x.copy()
    inside = np.matmul(np.conj(np.swapaxes(u, -1, -2)), x)
    part = x - np.matmul(u, inside)
    return part * check_outside(x, part, s, reverse)[..., None, :]


def where_zero(s: Any) -> Any:
    """Where singular values are zero to rounding; there are some."""
    a = typeof(s)
    largest = reduce_max(absolute(s), axes=(a.ndim - 1,))
    bound = mul(largest, a.dtype.type(CLOSE * a.shape[-1] * epsilon(a.dtype)))
    kept = tuple(range(a.ndim - 1))
    bound = broadcast_in_dim(bound, shape=a.shape, broadcast_dimensions=kept)
    return le(absolute(s), bound)


def _value_reciprocals(s: Any) -> Any:
    """One over singular values, 0 where they are zero."""
    a = typeof(s)
    if not a.shape[-1]:
        return s
    zero, one = where_zero(s), a.dtype.type(1)
    return select(zero, a.dtype.type(0), div(one, select(zero, one, s)))


def _outside_jvp(primals: Any, tangents: Any, *, reverse: bool = False) -> Any:
    (x, u, s), (tx, tu, ts) = primals, tangents
    y = outside(x, u, s, reverse=reverse)
    terms = [] if tx is ZERO else [outside(tx, u, s, reverse=reverse)]
    over = _value_reciprocals(s)
    if tu is not ZERO:
        moved = product(tu, product(adjoint(u), x))
        turned_ = product(u, product(adjoint(tu), x))
        terms.append(neg(scaled(add(moved, turned_), over)))
    if ts is not ZERO:
        terms.append(neg(scaled(y, mul(ts, over))))
    return y, reduce(add, terms)


def _outside_transpose(ct: Any, x: Any, u: Any, s: Any, *, reverse: bool = False) -> Any:
    if type(u) is Linear or type(s) is Linear:
        return Unsupported("outside_over is linear in the first operand only.")()
    return [outside(ct, conjugated(u), s, reverse=not reverse), None, None]


# ---------------------------------------------------------------------------------- free


def _free_type(t: ShapedArray, u: ShapedArray, *, reverse: bool = False) -> ShapedArray:
    check_matrices("free_basis", t, u)
    if t.shape != u.shape:
        raise ShapeError(f"free_basis was given {t} for vectors {u}.", "There is one for each.")
    return aval(t.shape, t.dtype)


def _free_impl(t: Any, u: Any, reverse: bool = False) -> Any:
    if reverse and t.size:
        check_free(t, u)
    return t.copy()


def _free_jvp(primals: Any, tangents: Any, *, reverse: bool = False) -> Any:
    (t, u), (tt, _) = primals, tangents
    y = free(t, u, reverse=reverse)
    return y, ZERO if tt is ZERO else free(tt, u, reverse=False)


def _free_transpose(ct: Any, t: Any, u: Any, *, reverse: bool = False) -> Any:
    if type(u) is Linear:
        return Unsupported("free_basis is linear in the first operand only.")()
    return [free(ct, u, reverse=not reverse), None]


# ---------------------------------------------------------------------------------- regular


def _regular_type(t: ShapedArray, d: ShapedArray) -> ShapedArray:
    check_matrices("regular_for", t)
    if d.shape[:-1] != t.shape[:-2] or d.dtype != dtypes.real_dtype(t.dtype):
        raise ShapeError(
            f"regular_for was given {t} for diagonals {d}.", "There is a diagonal for each matrix."
        )
    return aval(t.shape, t.dtype)


def _regular_impl(t: Any, d: Any) -> Any:
    if d.size and t.size:
        check_regular(t, d)
    return t.copy()


def _regular_jvp(primals: Any, tangents: Any) -> Any:
    (t, d), (tt, _) = primals, tangents
    return regular(t, d), ZERO if tt is ZERO else regular(tt, d)


def _regular_transpose(ct: Any, t: Any, d: Any) -> Any:
    if type(d) is Linear:
        return Unsupported("regular_for is linear in the first operand only.")()
    return [regular(ct, d), None]


# ---------------------------------------------------------------------------------- samples


def _stacks() -> Iterable[tuple[Any, Any]]:
    rng = np.random.default_rng(83)
    for shape, dtype in (
        ((4, 2), "f8"),
        ((3, 1), "f8"),
        ((2, 3, 2), "f8"),
        ((3, 2), "c16"),
        ((2, 0), "f8"),
        ((3, 2), "f4"),
    ):
        yield matrices(rng, *shape, dtype=dtype), matrices(rng, *shape, dtype=dtype)
    yield matrices(rng, 2, 3).T, matrices(rng, 3, 2)


def _outside_samples() -> Iterable[Sample]:
    for x, u in _stacks():
        s = np.ones((*x.shape[:-2], x.shape[-1])) + np.arange(x.shape[-1])
        yield Sample((x, u, s.astype(dtypes.real_dtype(x.dtype))), {})


def _free_samples() -> Iterable[Sample]:
    for x, u in _stacks():
        yield Sample((x, u * 0), {})


def _regular_samples() -> Iterable[Sample]:
    for sample in _outside_samples():
        x, _, s = sample.args
        yield Sample((x, s), {})


def _regular_errors() -> Iterable[ErrorSample]:
    x = np.ones((2, 3, 2))
    yield ErrorSample((x, np.ones(2)), {}, ShapeError, "a diagonal for each matrix")


def _outside_errors() -> Iterable[ErrorSample]:
    x, s = np.ones((3, 2)), np.ones(2)
    yield ErrorSample((x, x[:2], s), {}, ShapeError, "one vector and one value")
    yield ErrorSample((x, x, s[:1]), {}, ShapeError, "one vector and one value")
    yield ErrorSample((x, x.astype("f4"), s), {}, DtypeError, "do not promote")


def _free_errors() -> Iterable[ErrorSample]:
    x = np.ones((3, 2))
    yield ErrorSample((x, x[:2]), {}, ShapeError, "There is one for each")
    yield ErrorSample((x, x.astype("f4")), {}, DtypeError, "do not promote")


outside = Primitive(
    name="outside_over",
    impl=_outside_impl,
    type=_outside_type,
    jvp=_outside_jvp,
    transpose=_outside_transpose,
    batch=lambda *args, **params: in_front(outside)(*args, **params),
    mask=mask_of_stacks((2,), (2, 2, 1)),
    gate=gate_stacks(0),
    zeros=True,
    linear_in=(0,),
    samples=_outside_samples,
    errors=_outside_errors,
    doc="What is left of columns without their parts along vectors, each over a singular value.",
)

free = Primitive(
    name="free_basis",
    impl=_free_impl,
    type=_free_type,
    jvp=_free_jvp,
    transpose=_free_transpose,
    batch=lambda *args, **params: in_front(free)(*args, **params),
    mask=mask_of_stacks((2,), (2, 2)),
    gate=gate_stacks(0),
    zeros=True,
    linear_in=(0,),
    samples=_free_samples,
    errors=_free_errors,
    doc="Tangents of a basis as they are; their cotangents must not depend on its choice.",
)

regular = Primitive(
    name="regular_for",
    impl=_regular_impl,
    type=_regular_type,
    jvp=_regular_jvp,
    transpose=_regular_transpose,
    batch=lambda *args, **params: in_front(regular)(*args, **params),
    mask=mask_of_stacks((2,), (2, 1)),
    gate=gate_stacks(0),
    zeros=True,
    linear_in=(0,),
    samples=_regular_samples,
    errors=_regular_errors,
    doc="Tangents and cotangents as they are; they must be zero where a diagonal has a zero.",
)
