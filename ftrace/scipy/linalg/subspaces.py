"""What rank and subspaces decide in scipy.linalg: pseudo-inverses, least squares, bases, angles.

How many columns a basis has depends on values: `null_space` and `orth` work where these are known
(under `grad`, not under `jit` and `vmap`).
"""

from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.dtypes import real_dtype
from ftrace.core.errors import MatrixError
from ftrace.numpy.promote import known
from ftrace.primitives import orthogonal, singular_values
from ftrace.primitives.convert import stop_gradient
from ftrace.primitives.diagonals import epsilon
from ftrace.primitives.least_squares import least_squares
from ftrace.primitives.least_squares import pinv as pinv_row
from ftrace.primitives.stacks import adjoint, check_matrices, check_square
from ftrace.scipy.borrowing import scipys
from ftrace.scipy.linalg.matrix_operands import floating, rectangular


def _cutoff(a: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """How small singular values are left out, relative to the greatest, and all of them."""
    s = stop_gradient(singular_values.svdvals(a))
    shape = typeof(a).shape
    if rtol is None:
        rtol = max(shape[-2:]) * epsilon(typeof(a).dtype) if atol is None else 0.0
    greatest = fnp.max(s, axis=-1, initial=0)
    absolute = 0.0 if atol is None else atol / fnp.where(greatest > 0, greatest, 1)
    cutoff = fnp.broadcast_to(fnp.asarray(rtol + absolute), shape[:-2])
    return fnp.astype(cutoff, real_dtype(typeof(a).dtype)), s


def _inverse(a: Any, atol: Any, rtol: Any, return_rank: bool, hermitian: bool) -> Any:
    cutoff, s = _cutoff(a, atol, rtol)
    found = pinv_row(a, cutoff, hermitian=hermitian)
    if not return_rank:
        return found
    least = (cutoff * fnp.max(s, axis=-1, initial=0))[..., None]
    return found, fnp.count_nonzero(s > least, axis=-1)


@scipys("scipy.linalg")
def pinv(
    a: Any,
    *,
    atol: Any = None,
    rtol: Any = None,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Any:
    """The pseudo-inverse of matrices, with the derivative along matrices of the same rank.

    Args:
        a: shape (..., m, n).
        atol, rtol: singular values of at most atol + rtol times the greatest are left out; rtol is
            max(m, n) times the rounding unit if neither is given.
        return_rank: whether the number of the others is returned, too.
        check_finite: not looked at.

    Returns:
        The pseudo-inverse, of shape (..., n, m), perhaps with the rank.

    Raises:
        MatrixError: fewer than two axes.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.pinv)(np.diag([2.0, 0.0]))
        array([[0.5, 0. ],
               [0. , 0. ]])
    """
    return _inverse(rectangular("pinv", a), atol, rtol, return_rank, False)


@scipys("scipy.linalg")
def pinvh(
    a: Any,
    atol: Any = None,
    rtol: Any = None,
    lower: bool = True,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Any:
    """The pseudo-inverse of Hermitian matrices, of which one triangle is read.

    Args:
        a: shape (..., n, n).
        atol, rtol, return_rank, check_finite: as for `pinv`.
        lower: which triangle.

    Returns:
        The pseudo-inverse, of a's shape, perhaps with the rank.

    Raises:
        MatrixError: a is not square.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.pinvh)(np.diag([2.0, 0.0]))
        array([[0.5, 0. ],
               [0. , 0. ]])
    """
    a = rectangular("pinvh", a)
    check_square("pinvh", typeof(a))
    return _inverse(a if lower else adjoint(a), atol, rtol, return_rank, True)


@scipys("scipy.linalg")
def lstsq(
    a: Any,
    b: Any,
    cond: Any = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: str | None = None,
) -> Any:
    """The shortest x for which a x is closest to b, residuals, the rank and singular values of a.

    Args:
        a: shape (m, n).
        b: shape (m,) or (m, k).
        cond: singular values of at most this times the greatest are left out; the rounding unit by
            default.
        overwrite_a, overwrite_b, check_finite, lapack_driver: not looked at.

    Returns:
        x, (n,) or (n, k); sums of squares of b - a x for each column, empty where m <= n; the rank;
        the singular values. SciPy gives no residuals at deficient rank: they are here.

    Raises:
        MatrixError: a is no matrix; ShapeError: b has other rows.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda b: ftrace.scipy.linalg.lstsq(np.ones((3, 1)), b)[0]
        >>> ftrace.jit(f)(np.array([1.0, 2.0, 6.0]))
        array([3.])
    """
    a, b = floating(a, b)
    if typeof(a).ndim != 2:
        raise MatrixError(f"lstsq was given {typeof(a)}.", "It takes one matrix: use vmap.")
    vector = typeof(b).ndim == 1
    right = b[:, None] if vector else b
    real = real_dtype(typeof(a).dtype)
    cutoff = fnp.astype(fnp.asarray(epsilon(real) if cond is None else cond), real)
    x, rank, s = least_squares(a, right, cutoff[()])
    m, n = typeof(a).shape
    left = fnp.sum(abs(right - a @ x) ** 2, axis=0) if m > n else fnp.zeros(0, real)
    if vector:
        x, left = x[:, 0], left[0] if m > n else left
    return x, left, rank, s


# ---------------------------------------------------------------------------------- bases


def _rank(s: Any, shape: Any, rcond: Any, what: str) -> int:
    rcond = epsilon(typeof(s).dtype) * max(shape) if rcond is None else rcond
    values = known(s, f"The number of columns of {what}")
    return int(np.sum(values > np.max(values, initial=0) * rcond))


@scipys("scipy.linalg")
def null_space(
    A: Any,
    rcond: Any = None,
    *,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """An orthonormal basis of what a matrix maps to zero; its projector has a derivative.

    Args:
        A: shape (m, n).
        rcond: relative size of singular values that are zero; max(m, n) rounding units by default.
        overwrite_a, check_finite, lapack_driver: not looked at.

    Returns:
        The basis in columns, of shape (n, n - rank).

    Raises:
        ConcretizationTypeError: the rank is not known, as under `jit`.
        DomainError: a derivative of what depends on the basis.

    Example:
        >>> import numpy as np, ftrace
        >>> def f(a):
        ...     z = ftrace.scipy.linalg.null_space(a)
        ...     return (z @ z.T)[0, 1]
        >>> ftrace.grad(f)(np.array([[2.0, 0.0]]))
        array([[ 0. , -0.5]])
    """
    a = rectangular("null_space", A)
    _, s, vh = singular_values.svd(a, full=True)
    rank = _rank(s, typeof(a).shape, rcond, "a null space")
    return adjoint(vh[rank:])


@scipys("scipy.linalg")
def orth(A: Any, rcond: Any = None) -> Any:
    """An orthonormal basis of the range of a matrix; its projector has a derivative.

    Args:
        A: shape (m, n).
        rcond: relative size of singular values that are zero; max(m, n) rounding units by default.

    Returns:
        The basis in columns, of shape (m, rank).

    Raises:
        ConcretizationTypeError: the rank is not known, as under `jit`.
        DomainError: a derivative of what depends on the basis.

    Example:
        >>> import numpy as np, ftrace
        >>> def f(a):
        ...     z = ftrace.scipy.linalg.orth(a)
        ...     return (z @ z.T)[0, 1]
        >>> ftrace.grad(f)(np.array([[2.0], [0.0]]))
        array([[0. ],
               [0.5]])
    """
    a = rectangular("orth", A)
    u, s, _ = singular_values.svd(a, full=False)
    return u[:, : _rank(s, typeof(a).shape, rcond, "a basis of the range")]


@scipys("scipy.linalg")
def subspace_angles(A: Any, B: Any) -> Any:
    """The angles between the ranges of two matrices, whose columns are independent.

    Args:
        A: shape (m, n).
        B: shape (m, k).

    Returns:
        Angles, descending, of shape (min(n, k),).

    Raises:
        MatrixError: A or B is no matrix; DomainError: a derivative where columns are dependent.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda a: ftrace.scipy.linalg.subspace_angles(a, np.array([[1.0], [0.0]]))
        >>> ftrace.jit(f)(np.array([[1.0], [1.0]])).round(6)
        array([0.785398])
    """
    a, b = floating(A, B)
    for x in (a, b):
        check_matrices("subspace_angles", typeof(x))
    qa, qb = (orthogonal.qr(x, complete=False)[0] for x in (a, b))
    cosines = singular_values.svdvals(adjoint(qa) @ qb, kinks=True)
    if typeof(a).shape[-1] < typeof(b).shape[-1]:
        qa, qb = qb, qa
    sines = singular_values.svdvals(qb - qa @ (adjoint(qa) @ qb), kinks=True)
    cosines = fnp.clip(cosines[::-1], -1.0, 1.0)
    wide = cosines**2 < 0.5
    by_sine = fnp.arcsin(fnp.where(wide, 0.0, fnp.clip(sines, -1.0, 1.0)))
    return fnp.where(wide, fnp.arccos(fnp.where(wide, cosines, 0.0)), by_sine)


@scipys("scipy.linalg")
def norm(
    a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True
) -> Any:
    """A norm of vectors or matrices, as `numpy.linalg.norm`.

    Args:
        a: an array.
        ord: which norm.
        axis: one axis of vectors, or two of matrices.
        keepdims: whether these axes stay, with size 1.
        check_finite: not looked at.

    Returns:
        The norms.

    Raises:
        ValueError: a norm that there is not.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.norm)(np.array([3.0, 4.0]))
        np.float64(5.0)
    """
    return fnp.linalg.norm(*floating(a), ord=ord, axis=axis, keepdims=keepdims)
