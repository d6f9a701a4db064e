"""Several systems with one matrix: `lu_factors` once, and `solve_factored` for each.

A derivative of `solve` solves with the matrix of the value, or with its transpose. These rows take
the place of such systems when a program is lowered (lowering/fusion/shared_systems.py), when no
transformation will follow. They are LAPACK's `gesv` in two parts.
"""

from typing import Any, Final

import numpy as np

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.dtypes import int64
from ftrace.core.lazy import lazy
from ftrace.core.lower import Cores, Gufunc, GufuncCall
from ftrace.core.primitive import Primitive, Unsupported
from ftrace.primitives.lu_factors import lu, permuted

_LATE: Final = Unsupported("The row is made when a program is lowered, after all transformations.")
_trtrs = {c: lazy("scipy.linalg.lapack", f"{n}trtrs") for c, n in zip("fdFD", "sdcz", strict=True)}


def _factors_type(a: ShapedArray) -> tuple[ShapedArray, ...]:
    return aval(a.shape, a.dtype), aval(a.shape[:-1], int64)


def _factors_impl(a: Any) -> list[Any]:
    both, pivots, _ = lu.impl(a)
    singular = (np.diagonal(both, axis1=-2, axis2=-1) == 0).any(axis=-1)
    both[singular] = np.nan
    return [np.ascontiguousarray(np.swapaxes(both, -1, -2)), pivots.astype(int64) + 1]


lu_factors: Final = Primitive(
    name="lu_factors",
    impl=_factors_impl,
    type=_factors_type,
    jvp=_LATE,
    transpose=_LATE,
    batch=_LATE,
    multiple=True,
    lower=Gufunc(
        lambda avals: GufuncCall(
            "blas",
            "getrf:",
            "(n,n)->(n,n),(n)",
            (Cores(0, (-2, -1)),),
            (Cores(0, (-2, -1)), Cores(1, (-1,))),
        )
    ),
    doc="The LU factors of matrices, transposed, and with which row each was exchanged, from 1 on; "
    "NaN where a matrix is singular.",
)


def _solve_impl(factors: Any, pivots: Any, b: Any, *, transposed: bool) -> Any:
    """Of `factors`, the triangle below holds the transposed upper factor."""
    n = b.shape[-2]
    order = permuted(pivots - 1, n)
    x = np.empty(b.shape, b.dtype)
    system = _trtrs[b.dtype.char]
    for i in np.ndindex(*b.shape[:-2]) if b.size else ():
        lower, upper = factors[i].T, factors[i].T
        if transposed:
            y, _ = system(upper, b[i], lower=False, trans=1)
            y, _ = system(lower, y, lower=True, trans=1, unitdiag=1)
            x[i][order[i]] = y
        else:
            y, _ = system(lower, b[i][order[i]], lower=True, unitdiag=1)
            x[i], _ = system(upper, y, lower=False)
    return x


solve_factored: Final = Primitive(
    name="solve_factored",
    impl=_solve_impl,
    type=lambda factors, pivots, b, *, transposed: aval(b.shape, b.dtype),
    jvp=_LATE,
    transpose=_LATE,
    batch=_LATE,
    lower=Gufunc(
        lambda avals, transposed: GufuncCall(
            "blas",
            f"getrs:{'T' if transposed else 'N'}",
            "(n,n),(n),(n,k)->(n,k)",
            (Cores(0, (-2, -1)), Cores(1, (-1,)), Cores(2, (-2, -1))),
            (Cores(0, (-2, -1)),),
        )
    ),
    doc="The solution of systems by the factors of their matrices, or of the transposed matrices.",
)
