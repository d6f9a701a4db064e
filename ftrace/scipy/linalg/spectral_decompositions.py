"""Eigenvalues, singular values and orthogonal factors of scipy.linalg.

What values decide about (how many eigenvalues lie in an interval, whether eigenvalues are real) has
no shape or dtype while a program is traced: such options raise `RuleError`, and `eig` is complex.
"""

from collections.abc import Sequence
from typing import Any

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import DomainError, RuleError, ShapeError
from ftrace.numpy.linear_equations import factored as cholesky_factor
from ftrace.numpy.linear_equations import solved
from ftrace.numpy.promote import value
from ftrace.primitives import eigenvalues, orthogonal, singular_values, spectra
from ftrace.primitives.diagonals import half
from ftrace.primitives.matrix_roots import factored
from ftrace.primitives.stacks import adjoint
from ftrace.scipy.borrowing import scipys
from ftrace.scipy.linalg.matrix_operands import (
    as_complex,
    floating,
    rectangular,
    square,
    triangular,
)


def _refuse(function: str, option: str, instead: str) -> None:
    raise RuleError(f"{function} was called with {option}, which is not supported.", instead)


def _some(x: Any, subset: Any, n: int) -> Any:
    """The entries of a last axis from one number to another, both included."""
    if subset is None:
        return x
    low, high = (int(k) for k in subset)
    if not 0 <= low <= high < n:
        raise DomainError(
            f"The eigenvalues {low} to {high} are asked of {n}.",
            "subset_by_index is (first, last), counted from 0.",
        )
    return x[..., low : high + 1]


# ---------------------------------------------------------------------------------- Hermitian


def _whole(a: Any, lower: bool) -> Any:
    """The Hermitian matrix that one triangle says."""
    below = half(a, lower)
    return below + adjoint(below)


def _reduced(a: Any, b: Any, lower: bool, kind: int) -> tuple[Any, Any]:
    """The Hermitian matrix of a problem with two, and the factor of the second."""
    factor = cholesky_factor(b, lower)
    factor = factor if lower else adjoint(factor)
    a = _whole(a, lower)
    if kind == 1:
        left = triangular(factor, a, True)
        return adjoint(triangular(factor, adjoint(left), True)), factor
    if kind not in (2, 3):
        raise DomainError(f"The type of the problem is {kind}.", "It is 1, 2 or 3.")
    return adjoint(factor) @ a @ factor, factor


@scipys("scipy.linalg")
def eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: str | None = None,
) -> Any:
    """The eigenvalues and eigenvectors of Hermitian matrices, or of a problem with two of them.

    Args:
        a, b: shape (..., n, n); b positive definite.
        lower: which triangle is read.
        eigvals_only: whether only eigenvalues are returned.
        type: of a problem with b: 1 for a v = w b v, 2 for a b v = w v, 3 for b a v = w v.
        subset_by_index: (first, last) of the eigenvalues that are returned.
        subset_by_value: refused.
        overwrite_a, overwrite_b, check_finite, driver: not looked at.

    Returns:
        Eigenvalues (..., n), ascending, and eigenvectors in columns, or eigenvalues alone. Traced,
        vectors are those of `numpy.linalg.eigh`, whose signs and phases may be others than SciPy's.

    Raises:
        MatrixError: a is not square; RuleError: subset_by_value.
        numpy.linalg.LinAlgError: b is not positive definite; when the function runs.
        DomainError: a derivative that does not exist; see `numpy.linalg.eigh`.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda a: ftrace.scipy.linalg.eigh(a, eigvals_only=True, subset_by_index=(1, 1))
        >>> ftrace.jit(f)(np.diag([3.0, 1.0]))
        array([3.])
    """
    if subset_by_value is not None:
        _refuse("eigh", "subset_by_value=", "Use subset_by_index: how many there are is static.")
    a, *others = square("eigh", a) if b is None else square("eigh", a, b)
    factor = None
    if others:
        a, factor = _reduced(a, others[0], lower, type)
        lower = True
    n = typeof(a).shape[-1]
    if eigvals_only:
        return _some(spectra.eigvalsh(a, low=lower), subset_by_index, n)
    w, v = spectra.eigh(a, low=lower)
    v = _some(v, subset_by_index, n)
    if factor is not None:
        v = factor @ v if type == 3 else triangular(adjoint(factor), v, False)
    return _some(w, subset_by_index, n), v


@scipys("scipy.linalg")
def eigvalsh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: str | None = None,
) -> Any:
    """The eigenvalues of Hermitian matrices; arguments and errors are those of `eigh`.

    Args:
        a, b: shape (..., n, n); b positive definite.
        lower, type, subset_by_index, subset_by_value: as for `eigh`.
        overwrite_a, overwrite_b, check_finite, driver: not looked at.

    Returns:
        Eigenvalues (..., n), ascending.

    Raises:
        MatrixError, RuleError, numpy.linalg.LinAlgError: as for `eigh`.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.eigvalsh)(np.array([[2.0, 0.0], [1.0, 2.0]]))
        array([1., 3.])
    """
    return eigh(
        a,
        b,
        lower=lower,
        eigvals_only=True,
        type=type,
        subset_by_index=subset_by_index,
        subset_by_value=subset_by_value,
    )


@scipys("scipy.linalg")
def eigh_tridiagonal(
    d: Any,
    e: Any,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: Any = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:
    """The eigenvalues and eigenvectors of a real symmetric tridiagonal matrix.

    Args:
        d: the diagonal, shape (n,).
        e: beside it, shape (n - 1,).
        eigvals_only: whether only eigenvalues are returned.
        select: "a" for all, "i" for those that `select_range` numbers; "v" is refused.
        select_range: (first, last).
        check_finite, tol, lapack_driver: not looked at.

    Returns:
        Eigenvalues, ascending, and eigenvectors in columns, or eigenvalues alone.

    Raises:
        RuleError: select="v".

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda d: ftrace.scipy.linalg.eigh_tridiagonal(d, np.ones(1), eigvals_only=True)
        >>> ftrace.jit(f)(np.array([2.0, 2.0]))
        array([1., 3.])
    """
    if select not in ("a", "i"):
        _refuse("eigh_tridiagonal", f"select={select!r}", "Use 'a', or 'i' with select_range.")
    d, e = floating(d, e)
    if typeof(d).ndim != 1 or typeof(e).shape != (typeof(d).shape[0] - 1,):
        raise ShapeError(
            f"eigh_tridiagonal was given d {typeof(d).shape} and e {typeof(e).shape}.",
            "Both are vectors; d has one element more.",
        )
    a = fnp.diag(d) + fnp.diag(e, -1)
    subset = select_range if select == "i" else None
    return eigh(a, eigvals_only=eigvals_only, subset_by_index=subset)


# ---------------------------------------------------------------------------------- general


@scipys("scipy.linalg")
def eig(
    a: Any,
    b: Any = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """The eigenvalues of square matrices, and their left and right eigenvectors in columns.

    Args:
        a: shape (..., n, n).
        b: refused here; see `eigvals`.
        left, right: which vectors are returned.
        overwrite_a, overwrite_b, check_finite: not looked at.
        homogeneous_eigvals: refused.

    Returns:
        Complex eigenvalues (..., n), then left and right eigenvectors, as far as asked for.

    Raises:
        MatrixError: a is not square; RuleError: an option that is refused.

    Example:
        >>> import numpy as np, ftrace
        >>> w, v = ftrace.jit(ftrace.scipy.linalg.eig)(np.diag([2.0, 1.0]))
        >>> w
        array([2.+0.j, 1.+0.j])
    """
    if b is not None or homogeneous_eigvals:
        option = "homogeneous_eigvals=True" if b is None else "a second matrix"
        _refuse("eig", option, "Use eig(solve(b, a)), or eigvals(a, b).")
    w, v = eigenvalues.eig(*square("eig", a))
    found = [w]
    if left:
        others = adjoint(fnp.linalg.inv(v))
        size = fnp.linalg.norm(others, axis=-2, keepdims=True)
        found.append(others / size)
    if right:
        found.append(v)
    return tuple(found) if len(found) > 1 else w


@scipys("scipy.linalg")
def eigvals(
    a: Any,
    b: Any = None,
    overwrite_a: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """The eigenvalues of square matrices, or of the problem a v = w b v.

    Args:
        a, b: shape (..., n, n); b not singular.
        overwrite_a, check_finite: not looked at.
        homogeneous_eigvals: refused.

    Returns:
        Complex eigenvalues (..., n).

    Raises:
        MatrixError: a is not square; RuleError: homogeneous_eigvals.
        numpy.linalg.LinAlgError: b is singular; when the function runs.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.eigvals)(np.array([[0.0, -1.0], [1.0, 0.0]]))
        array([0.+1.j, 0.-1.j])
    """
    if homogeneous_eigvals:
        _refuse("eigvals", "homogeneous_eigvals=True", "Leave it out.")
    if b is None:
        return eigenvalues.eigvals(*square("eigvals", a))
    a, b = square("eigvals", a, b)
    return eigenvalues.eigvals(solved(b, a))


@scipys("scipy.linalg")
def schur(
    a: Any,
    output: str = "real",
    lwork: int | None = None,
    overwrite_a: bool = False,
    sort: Any = None,
    check_finite: bool = True,
) -> Any:
    """The Schur form T and the unitary Z of square matrices a = Z T Z^H, without derivatives.

    Args:
        a: shape (..., n, n).
        output: "real" or "complex", of real matrices.
        sort: refused.
        lwork, overwrite_a, check_finite: not looked at.

    Returns:
        T and Z, of a's shape.

    Raises:
        MatrixError: a is not square; RuleError: sort, or a derivative; DomainError: another output.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.schur)(np.diag([1.0, 2.0]))[0]
        array([[1., 0.],
               [0., 2.]])
    """
    if sort is not None:
        _refuse("schur", "sort=", "Leave it out.")
    if output not in ("real", "r", "complex", "c"):
        raise DomainError(f"The output is {output!r}.", "It is 'real' or 'complex'.")
    (a,) = square("schur", a)
    _check_room(lwork, [3 * n for n in typeof(a).shape[-1:]])
    if output in ("complex", "c"):
        return tuple(factored(as_complex(a), name="complex schur"))
    return tuple(factored(a, name="schur"))


def _check_room(lwork: int | None, least: Sequence[int]) -> None:
    """Refuse what LAPACK would refuse as its working space."""
    if lwork is not None and lwork != -1 and lwork < max(1, *least):
        raise DomainError(f"lwork is {lwork}.", "Leave it out.")


@scipys("scipy.linalg")
def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> Any:
    """The complex Schur form of matrices from the real one, without derivatives.

    Args:
        T, Z: shape (..., n, n), as `schur` gives them.
        check_finite: not looked at.

    Returns:
        T, upper triangular, and Z, both complex.

    Raises:
        MatrixError: T is not square; RuleError: a derivative.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda t: ftrace.scipy.linalg.rsf2csf(t, np.eye(2))[0]
        >>> np.diag(ftrace.jit(f)(np.array([[0.0, -1.0], [1.0, 0.0]]))).imag.round(6)
        array([ 1., -1.])
    """
    t, z = map(as_complex, square("rsf2csf", T, Z))
    if typeof(z).shape[-2:] != typeof(t).shape[-2:]:
        raise ShapeError("rsf2csf was given T and Z of other sizes.", "Give both one size.")
    found, turn = factored(t, name="complex schur")
    return found, z @ turn


@scipys("scipy.linalg")
def hessenberg(
    a: Any, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The Hessenberg form H of square matrices a = Q H Q^H, without derivatives.

    Args:
        a: shape (..., n, n).
        calc_q: whether Q is returned, too.
        overwrite_a, check_finite: not looked at.

    Returns:
        H, or H and Q.

    Raises:
        MatrixError: a is not square; RuleError: a derivative.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.hessenberg)(np.diag([1.0, 2.0]))
        array([[1., 0.],
               [0., 2.]])
    """
    h, q = factored(*square("hessenberg", a), name="hessenberg")
    return (h, q) if calc_q else h


# ---------------------------------------------------------------------------------- orthogonal


@scipys("scipy.linalg")
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """The factors U, s and V^H of matrices, s descending; or s alone.

    Args:
        a: shape (..., m, n).
        full_matrices: whether U and V are square.
        compute_uv: whether they are returned.
        overwrite_a, check_finite, lapack_driver: not looked at.

    Returns:
        U, s and V^H, or s.

    Raises:
        MatrixError: fewer than two axes; DomainError: a derivative that does not exist; see
            `numpy.linalg.svd`.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda a: ftrace.scipy.linalg.svd(a, compute_uv=False)
        >>> ftrace.jit(f)(np.diag([1.0, 2.0]))
        array([2., 1.])
    """
    a = rectangular("svd", a)
    if not compute_uv:
        return singular_values.svdvals(a)
    return tuple(singular_values.svd(a, full=full_matrices))


@scipys("scipy.linalg")
def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The singular values of matrices, descending.

    Args:
        a: shape (..., m, n).
        overwrite_a, check_finite: not looked at.

    Returns:
        Singular values (..., min(m, n)).

    Raises:
        MatrixError: fewer than two axes.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.svdvals)(np.diag([1.0, 2.0]))
        array([2., 1.])
    """
    return singular_values.svdvals(rectangular("svdvals", a))


@scipys("scipy.linalg")
def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """The factors Q, with orthonormal columns, and R, upper triangular.

    Args:
        a: shape (..., m, n).
        mode: "full": Q is square; "economic": it has min(m, n) columns; "r": R alone.
        pivoting: refused.
        overwrite_a, lwork, check_finite: not looked at.

    Returns:
        Q and R, or a tuple of R.

    Raises:
        MatrixError: fewer than two axes; RuleError: pivoting, mode "raw".
        DomainError: another mode, or a derivative that does not exist; see `numpy.linalg.qr`.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(lambda a: abs(ftrace.scipy.linalg.qr(a)[1]))(np.diag([1.0, 2.0]))
        array([[1., 0.],
               [0., 2.]])
    """
    if pivoting or mode == "raw":
        option = "pivoting=True" if pivoting else "mode='raw'"
        _refuse("qr", option, "Use svd for the rank, and 'full' or 'economic' for Q and R.")
    if mode not in ("full", "economic", "r"):
        raise DomainError(f"The mode is {mode!r}.", "It is 'full', 'economic' or 'r'.")
    _check_room(lwork, typeof(value(a)).shape[-1:])
    q, r = orthogonal.qr(rectangular("qr", a), complete=mode != "economic")
    return (r,) if mode == "r" else (q, r)
