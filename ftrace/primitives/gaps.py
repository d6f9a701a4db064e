"""The rows that divide by gaps between eigenvalues, and tell where a derivative does not exist.

`split_ties` makes of M = V^H dA V the tangents of eigenvalues, its diagonal, and of V^H V, its
elements over the gaps. `join_ties` is its transpose. `alike_ties` is for functions of eigenvalues
alone. What they look at is in `ties.py`.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import DtypeError, MatrixError, ShapeError
from ftrace.core.primitive import ErrorSample, Linear, Primitive, Sample, Unsupported
from ftrace.core.zero import ZERO
from ftrace.primitives.arithmetic import abs as absolute
from ftrace.primitives.arithmetic import div, mul, neg, sub
from ftrace.primitives.compare import le, select
from ftrace.primitives.diagonals import along_columns, along_rows, epsilon, like
from ftrace.primitives.linear import add, broadcast_in_dim, check_kinds
from ftrace.primitives.movement import zeros
from ftrace.primitives.reduce import reduce_max
from ftrace.primitives.stacks import (
    check_square,
    gate_stacks,
    in_front,
    mask_of_stacks,
)
from ftrace.primitives.ties import (
    CLOSE,
    Kind,
    check_alike,
    check_cotangent,
    check_tangent,
    diagonal_view,
    gaps_of,
)


def differences(w: Any, kind: Kind) -> Any:
    """Element j less element i of vectors (or their sum) at row i and column j of matrices."""
    shape = (*typeof(w).shape, typeof(w).shape[-1])
    column, row = along_rows(w, shape), along_columns(w, shape)
    return add(column, row) if kind == "sums" else sub(column, row)


def gap_reciprocals(w: Any, kind: Kind) -> Any:
    """One over each gap between eigenvalues, 0 where there is none: smooth between ties."""
    a = typeof(w)
    n = a.shape[-1]
    gap = differences(w, kind)
    if not n:
        return gap
    size = reduce_max(absolute(w), axes=(a.ndim - 1,))
    bound = mul(size, typeof(size).dtype.type(CLOSE * n * epsilon(a.dtype)))
    kept = tuple(range(a.ndim - 1))
    bound = broadcast_in_dim(bound, shape=(*a.shape, n), broadcast_dimensions=kept)
    same = le(absolute(gap), bound)
    one = a.dtype.type(1)
    return select(same, a.dtype.type(0), div(one, select(same, one, gap)))


def _check_operands(name: str, m: ShapedArray, w: ShapedArray, kind: Kind) -> None:
    check_square(name, m)
    if w.shape != m.shape[:-1]:
        raise ShapeError(
            f"{name} was given matrices {m} and eigenvalues {w}.", "There is one for each row."
        )
    if w.dtype != (m.dtype if kind == "general" else dtypes.real_dtype(m.dtype)):
        raise DtypeError(
            f"{name} was given matrices {m} and eigenvalues {w}.",
            "Eigenvalues are real, except those of kind general.",
        )


def _not_linear(name: str) -> Any:
    return Unsupported(f"{name} is not linear in the eigenvalues.")()


# ---------------------------------------------------------------------------------- split


def _split_type(
    m: ShapedArray, w: ShapedArray, *, kind: Kind, square: bool = True
) -> tuple[ShapedArray, ShapedArray]:
    _check_operands("split_ties", m, w, kind)
    return aval(w.shape, w.dtype), aval(m.shape, m.dtype)


def _split_impl(m: Any, w: Any, kind: Kind, square: bool = True) -> tuple[Any, Any]:
    if not m.size:
        return w.copy(), m.copy()
    gaps = gaps_of(w, kind, square)
    check_tangent(m, gaps)
    values = np.diagonal(m, axis1=-2, axis2=-1)
    values = values if kind == "general" else np.real(values)
    return values.copy(), gaps.inverse * m


def _split_jvp(primals: Any, tangents: Any, *, kind: Kind, square: bool = True) -> Any:
    (m, w), (tm, tw) = primals, tangents
    values, turning = split(m, w, kind=kind, square=square)
    dvalues, dturning = ZERO, ZERO
    if tm is not ZERO:
        dvalues, dturning = split(tm, w, kind=kind, square=square)
    if tw is not ZERO:
        moved = mul(gap_reciprocals(w, kind), differences(tw, kind))
        bent = neg(mul(like(moved, m), turning))
        dturning = bent if dturning is ZERO else add(dturning, bent)
    return (values, turning), (dvalues, dturning)


def _split_transpose(cts: Any, m: Any, w: Any, *, kind: Kind, square: bool = True) -> Any:
    if type(w) is Linear:
        return _not_linear("split_ties")
    values, turning = cts
    values = zeros(typeof(w)) if values is None else values
    turning = zeros(m.aval) if turning is None else turning
    return [join(values, turning, w, kind=kind, square=square), None]


# ---------------------------------------------------------------------------------- join


def _join_type(
    ct: ShapedArray, k: ShapedArray, w: ShapedArray, *, kind: Kind, square: bool = True
) -> ShapedArray:
    _check_operands("join_ties", k, w, kind)
    if (ct.shape, ct.dtype) != (w.shape, w.dtype):
        raise ShapeError(
            f"join_ties was given cotangents {ct} of eigenvalues {w}.", "There is one for each."
        )
    return aval(k.shape, k.dtype)


def _join_impl(ct: Any, k: Any, w: Any, kind: Kind, square: bool = True) -> Any:
    if not k.size:
        return k.copy()
    gaps = gaps_of(w, kind, square)
    check_cotangent(ct, k, gaps)
    found = (gaps.inverse * k).copy()  # row by row
    on_diagonal = diagonal_view(found)
    on_diagonal += ct
    return found


def _join_jvp(primals: Any, tangents: Any, *, kind: Kind, square: bool = True) -> Any:
    (ct, k, w), (tct, tk, tw) = primals, tangents
    y, t = join(ct, k, w, kind=kind, square=square), ZERO
    if tct is not ZERO or tk is not ZERO:
        tct = zeros(typeof(ct)) if tct is ZERO else tct
        tk = zeros(typeof(k)) if tk is ZERO else tk
        t = join(tct, tk, w, kind=kind, square=square)
    if tw is not ZERO:
        f = gap_reciprocals(w, kind)
        moved = mul(mul(f, f), differences(tw, kind))
        bent = neg(mul(like(moved, k), k))
        t = bent if t is ZERO else add(t, bent)
    return y, t


def _join_transpose(
    ct: Any, values: Any, k: Any, w: Any, *, kind: Kind, square: bool = True
) -> Any:
    if type(w) is Linear:
        return _not_linear("join_ties")
    of_values, of_k = split(ct, w, kind=kind, square=square)
    linear = [type(x) is Linear for x in (values, k)]
    return [of_values if linear[0] else None, of_k if linear[1] else None, None]


# ---------------------------------------------------------------------------------- alike


def _alike_type(
    t: ShapedArray, w: ShapedArray, *, kind: Kind, reverse: bool = False
) -> ShapedArray:
    check_kinds("alike_ties", "f", t)
    if not t.ndim or (t.shape, t.dtype) != (w.shape, w.dtype):
        raise ShapeError(
            f"alike_ties was given tangents {t} of values {w}.", "There is one for each."
        )
    return aval(t.shape, t.dtype)


def _alike_impl(t: Any, w: Any, kind: Kind, reverse: bool = False) -> Any:
    if reverse and t.size:
        check_alike(t, gaps_of(w, kind))
    return t.copy()


def _alike_jvp(primals: Any, tangents: Any, *, kind: Kind, reverse: bool = False) -> Any:
    (t, w), (tt, _) = primals, tangents
    y = alike(t, w, kind=kind, reverse=reverse)
    return y, ZERO if tt is ZERO else alike(tt, w, kind=kind)


def _alike_transpose(ct: Any, t: Any, w: Any, *, kind: Kind, reverse: bool = False) -> Any:
    if type(w) is Linear:
        return _not_linear("alike_ties")
    return [alike(ct, w, kind=kind, reverse=not reverse), None]


# ---------------------------------------------------------------------------------- samples


def _operands(kind: Kind, shape: tuple[int, ...], dtype: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(71)
    m = rng.normal(size=(*shape, shape[-1]))
    w = np.cumsum(rng.uniform(0.5, 1, shape), axis=-1)
    if np.dtype(dtype).kind == "c":
        m = m + 1j * rng.normal(size=m.shape)
        w = w + 1j if kind == "general" else w
    w_dtype = dtype if kind == "general" else dtypes.real_dtype(np.dtype(dtype))
    return m.astype(dtype), np.asarray(w).astype(w_dtype)


def _split_samples() -> Iterable[Sample]:
    for kind, shape, dtype in (
        ("hermitian", (3,), "f8"),
        ("general", (2,), "c16"),
        ("sums", (2, 2), "f8"),
        ("singular", (2,), "f8"),
        ("hermitian", (0,), "f8"),
        ("hermitian", (2,), "f4"),
    ):
        yield Sample(_operands(kind, shape, dtype), {"kind": kind})  # type: ignore[arg-type]
    m, w = _operands("hermitian", (3,), "f8")
    yield Sample((m.T, w), {"kind": "hermitian"})


def _join_samples() -> Iterable[Sample]:
    for sample in _split_samples():
        m, w = sample.args
        yield Sample((w * 0.5 + 1, m, w), sample.params)


def _alike_samples() -> Iterable[Sample]:
    for sample in _split_samples():
        _, w = sample.args
        if w.dtype.kind == "f":
            yield Sample((w * 0.5 + 1, w), sample.params)
    w = np.arange(1.0, 5)[::-1]
    yield Sample((w, w), {"kind": "singular"})


def _alike_errors() -> Iterable[ErrorSample]:
    w = np.arange(3.0)
    yield ErrorSample((w[:2], w), {"kind": "hermitian"}, ShapeError, "one for each")
    yield ErrorSample((w, w.astype("f4")), {"kind": "hermitian"}, ShapeError, "one for each")
    yield ErrorSample((w + 0j, w), {"kind": "hermitian"}, DtypeError, "not defined for complex")


def _errors(more: int) -> Iterable[ErrorSample]:
    m, w = _operands("hermitian", (3,), "f8")
    for a, b, error, phrase in (
        (m[:2], w, MatrixError, "must be square"),
        (m, w[:2], ShapeError, "and eigenvalues"),
        (m, w.astype("f4"), DtypeError, "and eigenvalues"),
        (m.astype("i8"), w, DtypeError, "not defined for int64"),
    ):
        yield ErrorSample((b,) * more + (a, b), {"kind": "hermitian"}, error, phrase)
    if more:
        yield ErrorSample((w[:2], m, w), {"kind": "hermitian"}, ShapeError, "cotangents")


split = Primitive(
    name="split_ties",
    impl=_split_impl,
    type=_split_type,
    jvp=_split_jvp,
    transpose=_split_transpose,
    batch=lambda *args, **params: in_front(split)(*args, **params),
    mask=mask_of_stacks((1, 2), (2, 1)),
    gate=gate_stacks(0),
    zeros=True,
    linear_in=(0,),
    multiple=True,
    samples=_split_samples,
    errors=lambda: _errors(0),
    doc="The diagonal of matrices, and each element over the gap of its two eigenvalues.",
)

join = Primitive(
    name="join_ties",
    impl=_join_impl,
    type=_join_type,
    jvp=_join_jvp,
    transpose=_join_transpose,
    batch=lambda *args, **params: in_front(join)(*args, **params),
    mask=mask_of_stacks((2,), (1, 2, 1)),
    gate=gate_stacks(0, 1),
    zeros=True,
    linear_in=(0, 1),
    samples=_join_samples,
    errors=lambda: _errors(1),
    doc="Each element over the gap of its two eigenvalues, and numbers added on the diagonal.",
)

alike = Primitive(
    name="alike_ties",
    impl=_alike_impl,
    type=_alike_type,
    jvp=_alike_jvp,
    transpose=_alike_transpose,
    batch=lambda *args, **params: in_front(alike)(*args, **params),
    mask=mask_of_stacks((1,), (1, 1)),
    gate=gate_stacks(0),
    zeros=True,
    linear_in=(0,),
    samples=_alike_samples,
    errors=_alike_errors,
    doc="Tangents of values as they are; their cotangents must be alike where values are equal.",
)
