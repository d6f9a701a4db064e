"""What depends on the rank of matrices, in numpy.linalg: `pinv`, `lstsq`, `matrix_rank`.

Derivatives of the first two are those along matrices of the same rank, full or deficient.
"""

from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.device import free
from ftrace.core.dtypes import real_dtype
from ftrace.core.errors import MatrixError
from ftrace.numpy import reductions
from ftrace.numpy import ufuncs as u
from ftrace.numpy.linalg_functions import common, inexact_64, linalg_function
from ftrace.numpy.promote import cast, stretch, value
from ftrace.numpy.spectral_functions import descending, eigvalsh, svdvals
from ftrace.primitives.diagonals import epsilon
from ftrace.primitives.least_squares import least_squares
from ftrace.primitives.least_squares import pinv as pinv_row
from ftrace.primitives.shape import expand_dims, reshape
from ftrace.primitives.stacks import check_matrices, product

_NOT_GIVEN: Any = np._NoValue  # pyright: ignore[reportAttributeAccessIssue]


@linalg_function
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = _NOT_GIVEN) -> Any:
    """The pseudo-inverse, by singular values greater than `rcond` times the greatest.

    Its derivative is that along matrices of the same rank; where a tangent changes the rank, the
    pseudo-inverse jumps. A Hermitian one is read from its lower triangle.
    """
    if rcond is not None and rtol is not _NOT_GIVEN:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    a = inexact_64(a)
    check_matrices("pinv", typeof(a))
    shape, real = typeof(a).shape, real_dtype(typeof(a).dtype)
    if rcond is None:
        rcond = 1e-15 if rtol is _NOT_GIVEN else rtol
        rcond = max(shape[-2:]) * epsilon(real) if rcond is None else rcond
    cutoff = stretch(cast(value(rcond), real), shape[:-2])
    return pinv_row(a, cutoff, hermitian=bool(hermitian))


@linalg_function
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The shortest x for which a x is closest to b, the residuals, the rank of a, singular values.

    Residuals are sums of squares where a has more rows than columns, else there are none. Where the
    rank is deficient NumPy gives none, and they are given here, as that is a question of values.
    """
    (a, b), dtype = common(a, b)
    shape, is_vector = typeof(a).shape, typeof(b).ndim == 1
    b = expand_dims(b, dimensions=(1,)) if is_vector else b
    for x in (a, b):
        if typeof(x).ndim != 2:
            raise MatrixError(
                f"lstsq was given an array of {typeof(x).ndim} axes.",
                "Array must be two-dimensional: map over others with vmap.",
            )
    if shape[0] != typeof(b).shape[0]:
        raise MatrixError(
            f"lstsq was given matrices of shapes {shape} and {typeof(b).shape}.",
            "Incompatible dimensions: b has a row for each row of a.",
        )
    real = real_dtype(typeof(a).dtype)
    rcond = epsilon(real) * max(shape) if rcond is None else rcond
    x, rank, s = least_squares(a, b, stretch(cast(value(rcond), real), ()))
    if shape[0] > shape[1]:
        left = u.apply(np.absolute, u.apply(np.subtract, b, product(a, x)))
        residuals = reductions.sum(u.apply(np.square, left), axis=0)
    else:
        residuals = free(np.zeros(0, real))
    x = reshape(x, new_sizes=(shape[1],)) if is_vector else x
    result = real_dtype(dtype)
    return cast(x, dtype), cast(residuals, result), rank, cast(s, result)


@linalg_function
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """The number of singular values greater than `tol`, or than `rtol` times the greatest."""
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    a = inexact_64(A)
    shape = typeof(a).shape
    if len(shape) < 2:
        return cast(reductions.any(u.apply(np.not_equal, a, 0)), np.dtype(np.int64))
    s = descending(eigvalsh(a)) if hermitian else svdvals(a)
    if tol is None:
        rtol = max(shape[-2:]) * epsilon(typeof(s).dtype) if rtol is None else _column(rtol)
        largest = reductions.max(s, axis=-1, keepdims=True, initial=0)
        tol = u.apply(np.multiply, largest, rtol)
    else:
        tol = _column(tol)
    return reductions.count_nonzero(u.apply(np.greater, s, tol), axis=-1)


def _column(x: Any) -> Any:
    """Numbers for matrices, to go with their singular values."""
    x = value(x)
    return expand_dims(x, dimensions=(typeof(x).ndim,)) if typeof(x).ndim else x
