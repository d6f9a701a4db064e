"""`lax.linalg`: eigenvalues, singular values and orthogonal factors, with JAX's signatures.

Derivatives are those of `numpy.linalg`: exact, or refused, where values are equal. Which algorithm
computes is NumPy's choice: the arguments that choose one are taken and have no effect.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import DomainError, RuleError
from ftrace.lax.binding import bind
from ftrace.primitives import eigenvalues, matrix_roots, orthogonal, singular_values, spectra
from ftrace.primitives.stacks import adjoint, check_square


class EigImplementation(Enum):
    """What computes `eig` in JAX; without effect here."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(Enum):
    """What computes `eigh` in JAX; without effect here."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class SvdAlgorithm(Enum):
    """What computes `svd` in JAX; without effect here."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def _range(subset: Any, n: int) -> slice:
    """The places from one number to another, which is not included."""
    if subset is None:
        return slice(None)
    first, last = (int(k) for k in subset)
    if not 0 <= first <= last <= n:
        raise DomainError(
            f"subset_by_index is {subset!r}, of {n} values.", "It is (start, end), counted from 0."
        )
    return slice(first, last)


def eigh(
    x: Any,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> Any:
    """The eigenvectors and eigenvalues of Hermitian matrices.

    Args:
        x: shape (..., n, n).
        lower: which triangle is read, unless the input is symmetrized.
        symmetrize_input: take (x + x^H) / 2, so that the derivative is Hermitian.
        sort_eigenvalues: without effect: they always are.
        subset_by_index: (start, end) of the eigenvalues that are returned.
        implementation: without effect.

    Returns:
        Eigenvectors in columns, and eigenvalues, ascending.

    Raises:
        MatrixError: x is not square. DomainError: a derivative that does not exist; see
            `numpy.linalg.eigh`.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.grad(lambda x: ftrace.lax.linalg.eigh(x)[1][0])(np.array([[2.0, 1], [1, 2]]))
        array([[ 0.5, -0.5],
               [-0.5,  0.5]])
    """
    check_square("eigh", typeof(x))
    if symmetrize_input:
        x = (x + adjoint(x)) / 2
    w, v = bind(spectra.eigh, x, low=lower)
    kept = _range(subset_by_index, typeof(x).shape[-1])
    return v[..., kept], w[..., kept]


def eig(
    x: Any,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> Any:
    """The complex eigenvalues of square matrices, left and right eigenvectors of norm 1.

    Args:
        x: shape (..., n, n).
        compute_left_eigenvectors, compute_right_eigenvectors: which are returned.
        enable_eigvec_derivs, implementation, use_magma: without effect; eigenvectors always have
            derivatives, under LAPACK's normalisation.

    Returns:
        A list of the eigenvalues and of the eigenvectors that are asked for, in columns; x^H u is
        conj(w) u for a left one.

    Raises:
        MatrixError: x is not square. DomainError: a derivative that does not exist.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.lax.linalg.eig)(np.diag([2.0, 1.0]))[0]
        array([2.+0.j, 1.+0.j])
    """
    check_square("eig", typeof(x))
    w, v = bind(eigenvalues.eig, x)
    found = [w]
    if compute_left_eigenvectors:
        left = adjoint(fnp.linalg.inv(v))
        found.append(left / fnp.linalg.norm(left, axis=-2, keepdims=True))
    if compute_right_eigenvectors:
        found.append(v)
    return found


def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """The factors U, s and V^H of matrices, s descending; or s alone.

    Args:
        x: shape (..., m, n).
        full_matrices: whether U and V are square.
        compute_uv: whether they are returned.
        subset_by_index: (start, end) of the singular values, and of their vectors; then
            full_matrices must be false.
        algorithm: without effect.

    Returns:
        U, s and V^H, or s.

    Raises:
        MatrixError: fewer than two axes. DomainError: a derivative that does not exist.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda x: ftrace.lax.linalg.svd(x, compute_uv=False, subset_by_index=(0, 1))
        >>> ftrace.grad(lambda x: f(x)[0])(np.diag([1.0, 2.0]))
        array([[0., 0.],
               [0., 1.]])
    """
    kept = _range(subset_by_index, min(typeof(x).shape[-2:]))
    if not compute_uv:
        return bind(singular_values.svdvals, x)[..., kept]
    if full_matrices and subset_by_index is not None:
        raise DomainError(
            "svd was asked for some singular values and for square factors.",
            "Pass full_matrices=False.",
        )
    u, s, vh = bind(singular_values.svd, x, full=full_matrices)
    if subset_by_index is None:
        return u, s, vh
    return u[..., kept], s[..., kept], vh[..., kept, :]


def qr(
    x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None
) -> Any:
    """The factors Q, with orthonormal columns, and R, upper triangular.

    Args:
        x: shape (..., m, n).
        pivoting: refused.
        full_matrices: whether Q is square.
        use_magma: without effect.

    Returns:
        Q and R.

    Raises:
        MatrixError: fewer than two axes; RuleError: pivoting. DomainError: a derivative that does
            not exist; see `numpy.linalg.qr`.

    Example:
        >>> import numpy as np, ftrace
        >>> q, r = ftrace.jit(ftrace.lax.linalg.qr)(np.diag([1.0, 2.0]))
        >>> abs(r)
        array([[1., 0.],
               [0., 2.]])
    """
    if pivoting:
        raise RuleError(
            "qr was called with pivoting=True, which is not supported.", "Use svd for the rank."
        )
    return tuple(bind(orthogonal.qr, x, complete=full_matrices))


def schur(
    x: Any,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> Any:
    """The Schur form U and the unitary Q of square matrices x = Q U Q^H, without derivatives.

    Args:
        x: shape (..., n, n).
        compute_schur_vectors: whether Q is returned.
        sort_eig_vals, select_callable: without effect, as in JAX.

    Returns:
        U and Q, or a tuple of U.

    Raises:
        MatrixError: x is not square; RuleError: a derivative.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.lax.linalg.schur)(np.diag([1.0, 2.0]))[0]
        array([[1., 0.],
               [0., 2.]])
    """
    u, q = bind(matrix_roots.factored, x, name="schur")
    return (u, q) if compute_schur_vectors else (u,)


def hessenberg(a: Any) -> Any:
    """Square matrices as Hessenberg forms and reflections, without derivatives.

    Args:
        a: shape (..., n, n).

    Returns:
        The Hessenberg form, with the vectors of reflections below its first subdiagonal, and their
        factors of shape (..., n - 1): see `householder_product`.

    Raises:
        MatrixError: a is not square; RuleError: a derivative.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.lax.linalg.hessenberg)(np.diag([1.0, 2.0]))[0]
        array([[1., 0.],
               [0., 2.]])
    """
    return tuple(bind(matrix_roots.factored, a, name="packed hessenberg"))


def tridiagonal(a: Any, *, lower: bool = True) -> Any:
    """Hermitian matrices as tridiagonal ones and reflections, without derivatives.

    Args:
        a: shape (..., n, n).
        lower: which triangle is read, and holds the vectors of reflections.

    Returns:
        What LAPACK leaves in a; the diagonal (..., n); what is beside it, (..., n - 1); and the
        factors of the reflections.

    Raises:
        MatrixError: a is not square; RuleError: a derivative.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.lax.linalg.tridiagonal)(np.array([[2.0, 1.0], [1.0, 2.0]]))[1]
        array([2., 2.])
    """
    name = "lower tridiagonal" if lower else "upper tridiagonal"
    return tuple(bind(matrix_roots.factored, a, name=name))
