"""Factorisations of scipy.linalg with triangular factors, and systems with these.

`cholesky`, `cho_factor`, `cho_solve`, `lu`, `lu_factor`, `lu_solve`, `solve_triangular`.
"""

from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import DomainError
from ftrace.numpy.linear_equations import factored
from ftrace.numpy.promote import value
from ftrace.primitives.linear import broadcast_in_dim
from ftrace.primitives.lu_factors import identity, lu_pivots_to_permutation
from ftrace.primitives.lu_factors import lu as lu_row
from ftrace.primitives.sort import take_along
from ftrace.primitives.stacks import check_matrices
from ftrace.scipy.borrowing import scipys
from ftrace.scipy.linalg.matrix_operands import (
    floating,
    on_columns,
    refuse_zeros,
    square,
    triangular,
)

TRANS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


def transposition(trans: Any) -> int:
    """0, 1 or 2 for what SciPy calls `trans`.

    Raises:
        DomainError: it is something else.
    """
    if not issubclass(type(trans), int | str) or trans not in TRANS:
        raise DomainError(f"trans is {trans!r}.", "It is 0, 1 or 2, or 'N', 'T' or 'C'.")
    return TRANS[trans]


# ---------------------------------------------------------------------------------- Cholesky


@scipys("scipy.linalg")
def cholesky(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The Cholesky factor of Hermitian positive definite matrices.

    Args:
        a: shape (..., n, n); the upper triangle is read, or the lower one if `lower`. The
            derivative is zero for what is not read.
        lower: whether the factor is the lower one, l with l l^H = a; else it is u with u^H u = a.
        overwrite_a, check_finite: not looked at.

    Returns:
        The factor, of a's shape.

    Raises:
        numpy.linalg.LinAlgError: a matrix is not positive definite; when the function runs.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.linalg import cholesky
        >>> ftrace.grad(lambda a: cholesky(a).sum())(np.diag([1.0, 4.0]))
        array([[0.5 , 1.  ],
               [0.  , 0.25]])
    """
    (a,) = square("cholesky", a)
    return factored(a, bool(lower))


@scipys("scipy.linalg")
def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, bool]:
    """The Cholesky factor of matrices, for `cho_solve`.

    Args:
        a: shape (..., n, n); the upper triangle is read, or the lower one if `lower`.
        lower: which factor is wanted.
        overwrite_a, check_finite: not looked at.

    Returns:
        The factor and `lower`. SciPy leaves what it was given in the other triangle of the factor,
        here that is zero.

    Raises:
        numpy.linalg.LinAlgError: a matrix is not positive definite; when the function runs.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.linalg import cho_factor, cho_solve
        >>> solve = lambda a, b: cho_solve(cho_factor(a), b)
        >>> ftrace.jit(solve)(np.diag([2.0, 4.0]), np.ones(2))
        array([0.5 , 0.25])
    """
    (a,) = square("cho_factor", a)
    return factored(a, bool(lower)), lower


@scipys("scipy.linalg")
def cho_solve(
    c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """The solution of a x = b by the Cholesky factor of a.

    Args:
        c_and_lower: what `cho_factor` returns: the factor, of shape (..., n, n), and whether it is
            the lower one.
        b: shape (n,) or (..., n, k).
        overwrite_b, check_finite: not looked at.

    Returns:
        x, of b's shape.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.linalg import cho_solve
        >>> f = lambda c, b: cho_solve((c, True), b)
        >>> ftrace.jit(f)(np.diag([1.0, 2.0]), np.array([3.0, 4.0]))
        array([3., 1.])
    """
    c, lower = c_and_lower
    c, b = square("cho_solve", c, b)
    first, second = (0, 2) if lower else (2, 0)

    def solve(c: Any, b: Any) -> Any:
        return triangular(c, triangular(c, b, lower, first), lower, second)

    return on_columns(c, b, solve)


@scipys("scipy.linalg")
def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """The solution of a x = b for a triangle of a.

    Args:
        a: shape (..., n, n); the upper triangle is read, or the lower one if `lower`.
        b: shape (n,) or (..., n, k).
        trans: 0 or "N" for a x = b, 1 or "T" for a^T x = b, 2 or "C" for a^H x = b.
        lower: which triangle is read.
        unit_diagonal: whether the diagonal is taken to be 1, and not read.
        overwrite_b, check_finite: not looked at.

    Returns:
        x, of b's shape.

    Raises:
        numpy.linalg.LinAlgError: the diagonal has a zero; when the function runs.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.linalg import solve_triangular
        >>> a = np.array([[2.0, 1.0], [7.0, 4.0]])
        >>> ftrace.grad(lambda b: solve_triangular(a, b).sum())(np.ones(2))
        array([0.5  , 0.125])
    """
    a, b = square("solve_triangular", a, b)
    if not unit_diagonal:
        refuse_zeros(fnp.diagonal(a, axis1=-2, axis2=-1))
    how = transposition(trans), bool(unit_diagonal)
    return on_columns(a, b, lambda a, b: triangular(a, b, bool(lower), *how))


# ---------------------------------------------------------------------------------- LU


@scipys("scipy.linalg")
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """The LU factorisation with row exchanges, for `lu_solve`.

    Args:
        a: shape (..., m, n).
        overwrite_a, check_finite: not looked at.

    Returns:
        Both factors in one matrix of a's shape, and the row that each row was exchanged with.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.linalg import lu_factor, lu_solve
        >>> f = lambda a, b: lu_solve(lu_factor(a), b)
        >>> ftrace.jit(f)(np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([4.0, 3.0]))
        array([3., 2.])
    """
    (a,) = floating(a)
    check_matrices("lu_factor", typeof(a))
    both, pivots, _ = lu_row(a)
    return both, pivots


def _in_order(x: Any, order: Any) -> Any:
    """The rows of matrices in orders, one for each matrix."""
    shape = typeof(x).shape
    n = len(shape)
    places = broadcast_in_dim(order, shape=shape, broadcast_dimensions=tuple(range(n - 1)))
    return take_along(x, places, n - 2)


@scipys("scipy.linalg")
def lu_solve(
    lu_and_piv: Any, b: Any, trans: Any = 0, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """The solution of a x = b by the LU factorisation of a.

    Args:
        lu_and_piv: what `lu_factor` returns, of shapes (..., n, n) and (..., n).
        b: shape (n,) or (..., n, k).
        trans: 0 for a x = b, 1 for a^T x = b, 2 for a^H x = b.
        overwrite_b, check_finite: not looked at.

    Returns:
        x, of b's shape.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.linalg import lu_factor, lu_solve
        >>> f = lambda a: lu_solve(lu_factor(a), np.ones(2), trans=1).sum()
        >>> ftrace.grad(f)(np.diag([1.0, 2.0]))
        array([[-1.  , -0.5 ],
               [-0.5 , -0.25]])
    """
    both, pivots = lu_and_piv
    both, b = square("lu_solve", both, b)
    order = lu_pivots_to_permutation(value(pivots), permutation_size=typeof(both).shape[-1])
    trans = transposition(trans)

    def solve(both: Any, b: Any) -> Any:
        batch = typeof(b).shape[:-2]
        rows = fnp.broadcast_to(order, (*batch, typeof(b).shape[-2]))
        if trans == 0:
            y = triangular(both, _in_order(b, rows), True, unit=True)
            return triangular(both, y, False)
        y = triangular(both, b, False, trans)
        y = triangular(both, y, True, trans, unit=True)
        return _in_order(y, fnp.argsort(rows, axis=-1))

    return on_columns(both, b, solve)


@scipys("scipy.linalg")
def lu(
    a: Any,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> tuple[Any, ...]:
    """The LU factorisation a = p l u with row exchanges.

    Args:
        a: shape (..., m, n).
        permute_l: return (p l, u).
        overwrite_a, check_finite: not looked at.
        p_indices: return p as the order of rows, a = l[p] u, instead of a matrix.

    Returns:
        p, l and u, with k = min(m, n) columns and rows in l and u; (p l, u) if `permute_l`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.linalg import lu
        >>> p, l, u = ftrace.jit(lu)(np.array([[1.0, 2.0], [4.0, 5.0]]))
        >>> p @ l @ u
        array([[1., 2.],
               [4., 5.]])
    """
    (a,) = floating(a)
    check_matrices("lu", typeof(a))
    both, _, order = lu_row(a)
    m, n = typeof(a).shape[-2:]
    k = min(m, n)
    low = fnp.tril(both[..., :, :k], -1) + fnp.eye(m, k, dtype=typeof(a).dtype)
    high = fnp.triu(both[..., :k, :])
    back = fnp.argsort(order, axis=-1)
    if permute_l:
        return _in_order(low, back), high
    if p_indices:
        return back.astype(np.int32), low, high
    real = fnp.real(a) if typeof(a).dtype.kind == "c" else a
    return _in_order(identity(m, real), back), low, high
