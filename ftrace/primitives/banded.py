"""Banded systems, SciPy's: `banded_solve`, and `definite_banded_solve` of Hermitian matrices.

A banded matrix is given by its diagonals as in `scipy.linalg.solve_banded`: a[i, j] lies at
ab[u + i - j, j]. Elements of ab that belong to none are not read, and have no derivative.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import ShapeError
from ftrace.core.lazy import lazy
from ftrace.core.primitive import ErrorSample, Primitive, Sample
from ftrace.core.zero import ZERO
from ftrace.primitives.arithmetic import mul, neg, sub
from ftrace.primitives.linear import add, broadcast_in_dim
from ftrace.primitives.shape import concatenate
from ftrace.primitives.slicing import along, pad
from ftrace.primitives.stacks import (
    apart,
    beside,
    check_matrices,
    check_stacks,
    conjugated,
    each_matrix,
    in_front,
    mask_of_columns,
    matrices,
    refuse_matrix,
    swapped,
)

_solve_banded = lazy("scipy.linalg", "solve_banded")
_solveh_banded = lazy("scipy.linalg", "solveh_banded")


def _moved(x: Any, by: int) -> Any:
    """Along the axis before the last: zeros come in where elements leave at the other end."""
    n = len(typeof(x).shape)
    config = tuple((by, -by, 0) if i == n - 2 else (0, 0, 0) for i in range(n))
    return pad(x, typeof(x).dtype.type(0), padding_config=config) if by else x


def _diagonal(ab: Any, row: int, by: int = 0) -> Any:
    """A row of bands as a column, moved along the matrix."""
    return _moved(swapped(along(ab, typeof(ab).ndim - 2, row, row + 1)), by)


def _bands(columns: list[Any]) -> Any:
    """Bands from their rows, given as columns."""
    return swapped(concatenate(*columns, dimension=typeof(columns[0]).ndim - 1))


def band_product(ab: Any, x: Any, upper: int) -> Any:
    """A banded matrix times columns."""
    shape = typeof(x).shape
    n, found = len(shape), None
    for row in range(typeof(ab).shape[-2]):
        column = _diagonal(ab, row)
        kept = tuple(range(n))
        term = mul(broadcast_in_dim(column, shape=shape, broadcast_dimensions=kept), x)
        term = _moved(term, row - upper)
        found = term if found is None else add(found, term)
    return found


def band_transposed(ab: Any, upper: int) -> Any:
    """The bands of the transposed matrix."""
    rows = typeof(ab).shape[-2]
    return _bands([_diagonal(ab, r, r - upper) for r in reversed(range(rows))])


def whole_bands(ab: Any, lower: bool) -> Any:
    """All bands of a Hermitian matrix of which those of one half are given."""
    last = typeof(ab).shape[-2] - 1
    half = [_diagonal(ab, r) for r in range(last + 1)]  # by distance from the diagonal
    half = half if lower else half[::-1]
    other = [conjugated(c) for c in half]
    main = mul(add(half[0], other[0]), 0.5)
    sign = 1 if lower else -1
    other = [_moved(c, sign * d) for d, c in enumerate(other)]
    above, below = (other, half) if lower else (half, other)
    return _bands([*above[:0:-1], main, *below[1:]])


def _banded_type(name: str, ab: ShapedArray, b: ShapedArray, rows: int) -> ShapedArray:
    check_matrices(name, ab, b)
    check_stacks(name, ab, b)
    if ab.shape[-2] != rows or ab.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"{name} was given {ab} and {b} for {rows} diagonals.",
            "The first has a row for each diagonal, and b a row for each column of it.",
        )
    return aval(b.shape, b.dtype)


def _banded_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    return _system_jvp(banded_solve, lambda t: t, params["upper"], primals, tangents, params)


def _system_jvp(row: Any, whole: Any, upper: int, primals: Any, tangents: Any, params: Any) -> Any:
    (ab, b), (ta, tb) = primals, tangents
    x = row(ab, b, **params)
    if ta is ZERO:
        return x, row(ab, tb, **params)
    change = band_product(whole(ta), x, upper)
    return x, row(ab, neg(change) if tb is ZERO else sub(tb, change), **params)


def _banded_transpose(ct: Any, ab: Any, b: Any, *, lower: int, upper: int) -> Any:
    refuse_matrix("banded_solve", ab)
    return None, banded_solve(band_transposed(ab, upper), ct, lower=upper, upper=lower)


def _banded_batch(row: Any) -> Any:
    def batch(axis: Any, values: Any, dims: Any, **params: Any) -> Any:
        (ab, b), (da, db) = values, dims
        if da is not None:
            return in_front(row())(axis, values, dims, **params)
        found = row()(ab, beside(b, db, -1), **params)
        return apart(found, axis.size, -1, (b, db))

    return batch


def _banded_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(104)
    for i, (lower, upper, shape, dtype) in enumerate(
        (
            (1, 2, (4,), "f8"),
            (1, 1, (5,), "f8"),
            (0, 0, (3,), "f8"),
            (2, 0, (2, 3), "f8"),
            (1, 1, (0,), "f8"),
            (1, 1, (3,), "c16"),
            (1, 0, (2,), "f4"),
        )
    ):
        *batch, n = shape
        ab = rng.normal(size=(*batch, lower + upper + 1, n)).astype(dtype)
        ab[..., upper, :] += 5
        b = matrices(rng, *batch, n, 2, dtype=dtype)
        yield Sample((ab[..., ::-1] if i else ab, b), {"lower": lower, "upper": upper})


def _banded_errors() -> Iterable[ErrorSample]:
    params = {"lower": 1, "upper": 1}
    ab, b = np.ones((3, 4)), np.ones((4, 2))
    yield ErrorSample((ab[1:], b), params, ShapeError, "for 3 diagonals")
    yield ErrorSample((ab, b[1:]), params, ShapeError, "for 3 diagonals")
    yield ErrorSample((ab, b[None]), params, ShapeError, "of different sizes")


def _solved_bands(ab: Any, b: Any, lower: int, upper: int) -> Any:
    return each_matrix(
        lambda ab, b: _solve_banded((lower, upper), ab, b, check_finite=False), ab, b
    )


banded_solve = Primitive(
    name="banded_solve",
    impl=_solved_bands,
    type=lambda ab, b, *, lower, upper: _banded_type("banded_solve", ab, b, lower + upper + 1),
    jvp=_banded_jvp,
    transpose=_banded_transpose,
    batch=_banded_batch(lambda: banded_solve),
    mask=mask_of_columns,
    zeros=True,
    linear_in=(1,),
    samples=_banded_samples,
    errors=_banded_errors,
    doc="The solution of a banded system, with `lower` and `upper` diagonals beside the main one; "
    "NaN where it is singular.",
)


def _definite_transpose(ct: Any, ab: Any, b: Any, *, lower: bool) -> Any:
    refuse_matrix("definite_banded_solve", ab)
    return None, definite_banded_solve(conjugated(ab), ct, lower=lower)


def _definite_jvp(primals: Any, tangents: Any, *, lower: bool) -> Any:
    upper = typeof(primals[0]).shape[-2] - 1
    whole = lambda t: whole_bands(t, lower)  # noqa: E731
    return _system_jvp(definite_banded_solve, whole, upper, primals, tangents, {"lower": lower})


def _definite_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(105)
    for i, (lower, rows, shape, dtype) in enumerate(
        (
            (True, 3, (4,), "f8"),
            (False, 2, (5,), "f8"),
            (True, 1, (3,), "f8"),
            (False, 3, (2, 3), "f8"),
            (True, 2, (0,), "f8"),
            (False, 2, (3,), "c16"),
            (True, 2, (3,), "c16"),
            (True, 2, (2,), "f4"),
        )
    ):
        *batch, n = shape
        ab = rng.normal(size=(*batch, rows, n)).astype(dtype)
        ab = ab + 1j * rng.normal(size=ab.shape) if dtype == "c16" else ab
        ab[..., 0 if lower else rows - 1, :] += 9
        b = matrices(rng, *batch, n, 2, dtype=dtype)
        yield Sample((ab[..., ::-1] if i else ab, b), {"lower": lower})


definite_banded_solve = Primitive(
    name="definite_banded_solve",
    impl=lambda ab, b, lower: each_matrix(
        lambda ab, b: _solveh_banded(ab, b, lower=lower, check_finite=False), ab, b
    ),
    type=lambda ab, b, *, lower: _banded_type(
        "definite_banded_solve", ab, b, ab.shape[-2] if ab.ndim > 1 else 1
    ),
    jvp=_definite_jvp,
    transpose=_definite_transpose,
    batch=_banded_batch(lambda: definite_banded_solve),
    mask=mask_of_columns,
    zeros=True,
    linear_in=(1,),
    samples=_definite_samples,
    errors=lambda: [
        ErrorSample((np.ones((2, 4)), np.ones((3, 2))), {"lower": True}, ShapeError, "diagonals")
    ],
    doc="The solution of a banded system whose matrix is Hermitian and positive definite, of which "
    "the diagonals of one half are given; NaN where it is not definite.",
)
