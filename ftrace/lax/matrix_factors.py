"""`lax.linalg`: Cholesky and LU factors, systems with them, reflections, with JAX's signatures.

Matrices lie in the last two axes, stacks of them in front. Nothing here raises because of the
values of a matrix: what has no factor or solution is NaN, or infinite, as in JAX.
"""

from typing import Any

import ftrace.numpy as fnp
from ftrace.control.scanning import scan
from ftrace.core.avals import typeof
from ftrace.core.errors import MatrixError, ShapeError
from ftrace.lax.binding import bind, int_of
from ftrace.lax.slices import dynamic_index_in_dim
from ftrace.primitives import definite, lu_factors, triangular
from ftrace.primitives.banded import banded_solve
from ftrace.primitives.shape import expand_dims, reshape
from ftrace.primitives.stacks import adjoint, check_matrices, check_square, product, triangle


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """The lower Cholesky factor of Hermitian positive definite matrices.

    Args:
        x: shape (..., n, n).
        symmetrize_input: factor (x + x^H) / 2, so that the derivative is Hermitian; else the lower
            triangle of x is read alone, and the derivative is that of what is read.

    Returns:
        l with l l^H = x, of x's shape; NaN where x is not positive definite.

    Raises:
        MatrixError: x is not square.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.grad(lambda x: ftrace.lax.linalg.cholesky(x)[1, 0])(np.diag([1.0, 4.0]))
        array([[0. , 0.5],
               [0.5, 0. ]])
    """
    check_square("cholesky", typeof(x))
    if symmetrize_input:
        x = (x + adjoint(x)) / 2
    return bind(definite.cholesky, x, lower=True)


def cholesky_update(r_matrix: Any, w_vector: Any) -> Any:
    """The upper Cholesky factor of r^T r + w w^T, by as many rotations as r has rows.

    Args:
        r_matrix: the upper factor r, real, of shape (n, n).
        w_vector: w, of shape (n,).

    Returns:
        The new factor, of shape (n, n).

    Raises:
        ShapeError: the shapes are others.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.lax.linalg.cholesky_update(np.diag([3.0, 1.0]), np.array([4.0, 0.0]))
        array([[5., 0.],
               [0., 1.]])
    """
    shape, own = typeof(r_matrix).shape, typeof(w_vector).shape
    if len(shape) != 2 or shape != (shape[0],) * 2 or own != shape[:1]:
        raise ShapeError(
            f"cholesky_update was given shapes {shape} and {own}.", "They are (n, n) and (n,)."
        )

    def rotated(w: Any, given: Any) -> Any:
        row, k = given
        r, x = (dynamic_index_in_dim(v, k, keepdims=False) for v in (row, w))
        size = fnp.hypot(r, x)
        cosine, sine = r / size, x / size
        return cosine * w - sine * row, cosine * row + sine * w

    return scan(rotated, w_vector, (r_matrix, fnp.arange(shape[0])))[1]


def householder_product(a: Any, taus: Any) -> Any:
    """The first columns of a product of reflections 1 - tau v v^H.

    Args:
        a: shape (..., m, n), m at least n: below the diagonal of column k lies what follows the 1
            in the vector of reflection k, as a QR factorisation of LAPACK leaves it.
        taus: shape (..., k), k at most n.

    Returns:
        The first n columns of the product of k reflections, of a's shape.

    Raises:
        ShapeError: the shapes are others.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.lax.linalg.householder_product(np.array([[0.0], [1.0]]), np.array([1.0]))
        array([[ 0.],
               [-1.]])
    """
    check_matrices("householder_product", typeof(a))
    *batch, m, n = typeof(a).shape
    k = typeof(taus).shape[-1] if typeof(taus).ndim else -1
    if m < n or not 0 <= k <= n or typeof(taus).shape[:-1] != tuple(batch):
        raise ShapeError(
            f"householder_product was given {typeof(a)} and {typeof(taus)}.",
            "a has at least as many rows as columns, and taus at most one entry for each column.",
        )
    vectors = triangle(a[..., :k], True, -1) + fnp.eye(m, k, dtype=typeof(a).dtype)
    scale = taus[..., :, None] * fnp.eye(k, dtype=typeof(a).dtype)
    mixed = taus[..., :, None] * product(adjoint(vectors), vectors)
    how = {"transpose_a": False, "conjugate_a": False, "unit_diagonal": True}
    inner = triangular.triangular_solve(mixed, scale, left_side=True, lower=False, **how)
    first = adjoint(vectors[..., :n, :])
    return fnp.eye(m, n, dtype=typeof(a).dtype) - product(product(vectors, inner), first)


def lu(x: Any) -> tuple[Any, Any, Any]:
    """The LU factorisation with exchanges of rows.

    Args:
        x: shape (..., m, n).

    Returns:
        Both factors in one matrix, without the diagonal of l, which is 1; the row that each row was
        exchanged with; and the order of rows: x[order] = l u.

    Raises:
        MatrixError: x has fewer than two axes.

    Example:
        >>> import numpy as np, ftrace
        >>> both, pivots, order = ftrace.lax.linalg.lu(np.array([[0.0, 2.0], [1.0, 3.0]]))
        >>> both, pivots, order
        (array([[1., 3.],
               [0., 2.]]), array([1, 1], dtype=int32), array([1, 0], dtype=int32))
    """
    return tuple(bind(lu_factors.lu, x))  # type: ignore[return-value]


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Any:
    """The order of rows that exchanges lead to.

    Args:
        pivots: integers of shape (..., k): what each row is exchanged with, one after the other.
        permutation_size: the number of rows, at least k.

    Returns:
        The order, of shape (..., permutation_size).

    Raises:
        ShapeError, DtypeError: too many pivots, or no integers.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.lax.linalg.lu_pivots_to_permutation(np.array([2, 1]), 3)
        array([2, 1, 0])
    """
    size = int_of(permutation_size, "permutation_size")
    return bind(lu_factors.lu_pivots_to_permutation, pivots, permutation_size=size)


def triangular_solve(  # noqa: PLR0913 - JAX's signature
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """The solution x of op(a) x = b, or of x op(a) = b, for a triangle of a.

    Args:
        a: shape (..., n, n).
        b: shape (..., n, k) if `left_side`, else (..., k, n); or (..., n).
        left_side: on which side of x the matrix is.
        lower: which triangle of a is read.
        transpose_a, conjugate_a: what op does.
        unit_diagonal: whether the diagonal is taken to be 1, and not read.

    Returns:
        x, of b's shape.

    Raises:
        ShapeError, MatrixError, DtypeError: a and b do not fit.

    Example:
        >>> import numpy as np, ftrace
        >>> a, b = np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 9.0])
        >>> ftrace.lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
        array([1., 2.])
    """
    how = {"lower": bool(lower), "transpose_a": bool(transpose_a)}
    how |= {"conjugate_a": bool(conjugate_a), "unit_diagonal": bool(unit_diagonal)}
    row, vector = triangular.triangular_solve, 1 <= typeof(b).ndim == typeof(a).ndim - 1
    if not vector:
        return bind(row, a, b, left_side=bool(left_side), **how)
    ndim = typeof(b).ndim
    columns = expand_dims(b, dimensions=(ndim if left_side else ndim - 1,))
    x = bind(row, a, columns, left_side=bool(left_side), **how)
    return reshape(x, new_sizes=typeof(b).shape)


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any) -> Any:
    """The solution of tridiagonal systems.

    Args:
        dl: the diagonal below the main one, of shape (..., n): dl[i] is a[i, i - 1], and dl[0] is
            not read.
        d: the main diagonal, of shape (..., n).
        du: the diagonal above, of shape (..., n): du[i] is a[i, i + 1], and du[n - 1] is not read.
        b: shape (..., n, k).

    Returns:
        x, of b's shape; NaN where a matrix is singular.

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> import numpy as np, ftrace
        >>> one = np.ones(3)
        >>> ftrace.lax.linalg.tridiagonal_solve(one, 4 * one, one, np.array([[5.0], [6.0], [5.0]]))
        array([[1.],
               [1.],
               [1.]])
    """
    shape = typeof(d).shape
    shapes = [typeof(v).shape for v in (dl, du)]
    if not shape or shapes != [shape, shape] or typeof(b).shape[:-1] != shape:
        given = ", ".join(str(typeof(v).shape) for v in (dl, d, du, b))
        raise ShapeError(
            f"tridiagonal_solve was given shapes {given}.",
            "The diagonals have one shape, and b an axis more.",
        )
    none = fnp.zeros_like(d[..., :1])
    above = fnp.concatenate([none, du[..., :-1]], axis=-1)
    below = fnp.concatenate([dl[..., 1:], none], axis=-1)
    return bind(banded_solve, fnp.stack([above, d, below], axis=-2), b, lower=1, upper=1)


def symmetric_product(
    a_matrix: Any,
    c_matrix: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Any:
    """alpha a a^T + beta c.

    Args:
        a_matrix: shape (..., n, k).
        c_matrix: shape (..., n, n), symmetric.
        alpha, beta: numbers.
        symmetrize_output: not looked at: all of the result is computed.

    Returns:
        The matrices, of c's shape.

    Raises:
        MatrixError: c is not square, or not of a's number of rows.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.lax.linalg.symmetric_product(np.ones((2, 3)), np.eye(2), beta=1.0)
        array([[4., 3.],
               [3., 4.]])
    """
    check_square("symmetric_product", typeof(c_matrix))
    if typeof(a_matrix).shape[:-1] != typeof(c_matrix).shape[:-1]:
        raise MatrixError(
            f"symmetric_product was given {typeof(a_matrix)} and {typeof(c_matrix)}.",
            "They have the same number of rows.",
        )
    whole = product(a_matrix, fnp.matrix_transpose(a_matrix))
    return alpha * whole + beta * c_matrix
