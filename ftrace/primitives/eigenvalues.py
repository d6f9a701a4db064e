"""Eigenvalues and eigenvectors of any square matrices: `eig`, `eigvals`. Results are complex.

Eigenvectors are NumPy's: of norm 1, the largest component real, and so are their derivatives. The
derivative solves systems with the matrix of eigenvectors; at equal eigenvalues, see `ties.py`.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.lower import Gufunc
from ftrace.core.primitive import Primitive, Sample
from ftrace.primitives.arithmetic import abs as absolute
from ftrace.primitives.arithmetic import complex as join_parts
from ftrace.primitives.arithmetic import div, imag, mul, neg, real
from ftrace.primitives.compare import eq, select
from ftrace.primitives.create import iota
from ftrace.primitives.diagonals import along_rows, like, scaled
from ftrace.primitives.gaps import split
from ftrace.primitives.linear import NO_TRANSPOSE, add, reduce_sum
from ftrace.primitives.numpy_loops import linalg_loop
from ftrace.primitives.reduce import argmax
from ftrace.primitives.stacks import (
    check_square,
    conjugated,
    gate_stacks,
    in_front,
    matrices,
    product,
    square_errors,
)
from ftrace.primitives.systems import solve
from ftrace.primitives.ties import turned


def _complex(a: ShapedArray, shape: tuple[int, ...]) -> ShapedArray:
    return aval(shape, dtypes.complex_dtype(a.dtype))


# ---------------------------------------------------------------------------------- eig


def _eig_type(a: ShapedArray, *, generic: bool = False) -> tuple[ShapedArray, ShapedArray]:
    check_square("eig", a)
    return _complex(a, a.shape[:-1]), _complex(a, a.shape)


def _eig_impl(a: Any, generic: bool = False) -> tuple[Any, Any]:
    dtype = dtypes.complex_dtype(a.dtype)
    w, v = (x.astype(dtype) for x in np.linalg.eig(a))
    if not generic:
        return w, v
    other = turned(v, w)
    return w, v if other is v else _normal(other)


def _normal(v: Any) -> Any:
    """Columns of norm 1 with a real largest component."""
    at = np.argmax(np.abs(v), axis=-2)[..., None, :]
    largest = np.take_along_axis(v, at, axis=-2)
    size = np.abs(largest)
    v = v * np.where(size == 0, 1, np.conj(largest) / np.where(size == 0, 1, size))
    norm = np.sqrt((np.abs(v) ** 2).sum(axis=-2, keepdims=True))
    return (v / np.where(norm == 0, 1, norm)).astype(v.dtype)


def _eig_jvp(primals: Any, tangents: Any, *, generic: bool = False) -> Any:
    (a,), (t,) = primals, tangents
    w, v = eig(a, generic=True)
    values, turning = split(product(solve(v, like(t, v)), v), w, kind="general")
    z = product(v, turning)
    if not typeof(v).size:
        return (w, v), (values, z)
    return (w, v), (values, add(z, scaled(v, neg(_lost(v, z)))))


def _lost(v: Any, z: Any) -> Any:
    """How much of V a tangent must lose to keep norms 1 and largest components real."""
    shape, rows = typeof(v).shape, typeof(v).ndim - 2
    at = argmax(absolute(v), axis=rows, index_dtype=dtypes.int64)
    number = iota(dtype=dtypes.int64, shape=shape, dimension=rows)
    largest = eq(number, along_rows(at, shape))

    def there(x: Any) -> Any:
        return reduce_sum(select(largest, x, typeof(x).dtype.type(0)), axes=(rows,))

    along = reduce_sum(real(mul(conjugated(v), z)), axes=(rows,))
    return join_parts(along, div(imag(there(z)), real(there(v))))


# ---------------------------------------------------------------------------------- eigvals


def _eigvals_type(a: ShapedArray) -> ShapedArray:
    check_square("eigvals", a)
    return _complex(a, a.shape[:-1])


def _eigvals_jvp(primals: Any, tangents: Any) -> Any:
    (a,), (t,) = primals, tangents
    w, v = eig(a, generic=True)
    values, _ = split(product(solve(v, like(t, v)), v), w, kind="general")
    return w, values


# ---------------------------------------------------------------------------------- the rows


def _samples() -> Iterable[Sample]:
    rng = np.random.default_rng(87)
    yield Sample((matrices(rng, 3, 3),), {})
    yield Sample((matrices(rng, 2, 2, 2),), {})
    yield Sample((matrices(rng, 2, 2, dtype="c16").T,), {})
    yield Sample((np.zeros((0, 0)),), {})
    yield Sample((matrices(rng, 2, 2, dtype="f4"),), {})


eig = Primitive(
    name="eig",
    impl=_eig_impl,
    type=_eig_type,
    jvp=_eig_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda *args, **params: in_front(eig)(*args, **params),
    gate=gate_stacks(0),
    lower=Gufunc(
        lambda avals, generic=False: (
            None if generic else linalg_loop("eig", "(m,m)->(m),(m,m)", avals)
        )
    ),
    multiple=True,
    samples=_samples,
    errors=square_errors(lambda x: ()),
    doc="Complex eigenvalues of matrices, and eigenvectors in columns, of norm 1 and with a real "
    "largest component; `generic`: those of equal values are turned to general position.",
)

eigvals = Primitive(
    name="eigvals",
    impl=lambda a: np.linalg.eigvals(a).astype(dtypes.complex_dtype(a.dtype)),
    type=_eigvals_type,
    jvp=_eigvals_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda *args, **params: in_front(eigvals)(*args, **params),
    gate=gate_stacks(0),
    lower=Gufunc(lambda avals: linalg_loop("eigvals", "(m,m)->(m)", avals)),
    samples=_samples,
    errors=square_errors(lambda x: ()),
    doc="Complex eigenvalues of matrices.",
)
