"""Systems of scipy.linalg that are given as they are: `solve`, `inv`, `det`, bands, Toeplitz."""

from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import DomainError, ShapeError
from ftrace.numpy.linear_equations import NOT_DEFINITE, SINGULAR, factored, inverted, solved
from ftrace.numpy.promote import cast, static_int
from ftrace.numpy.refusing import refuse
from ftrace.primitives import determinants
from ftrace.primitives.banded import banded_solve, definite_banded_solve
from ftrace.primitives.stacks import adjoint, check_matrices, conjugated, swapped, triangle
from ftrace.scipy.borrowing import scipys
from ftrace.scipy.linalg.matrix_operands import (
    floating,
    on_columns,
    refuse_zeros,
    square,
    triangular,
)
from ftrace.scipy.linalg.special_matrices import toeplitz

KINDS: Final = {
    **dict.fromkeys((None, "gen", "general", "tridiagonal", "banded"), "general"),
    **dict.fromkeys(("pos", "positive definite"), "definite"),
    **dict.fromkeys(("sym", "symmetric"), "symmetric"),
    **dict.fromkeys(("her", "hermitian"), "Hermitian"),
    **dict.fromkeys(("diag", "diagonal"), "diagonal"),
    **{kind: kind for kind in ("upper triangular", "lower triangular")},
}


def _kind(assume_a: Any) -> str:
    """What a matrix is said to be.

    Raises:
        DomainError: SciPy knows no such matrices.
    """
    if (assume_a is not None and type(assume_a) is not str) or assume_a not in KINDS:
        raise DomainError(
            f"assume_a is {assume_a!r}.", f"It is one of {', '.join(map(repr, KINDS))}."
        )
    return KINDS[assume_a]


def _whole(a: Any, kind: str, lower: bool) -> Any:
    """A symmetric or Hermitian matrix of the triangle that is read."""
    strict = triangle(a, lower, -1 if lower else 1)
    if kind == "symmetric":
        return triangle(a, lower) + swapped(strict)
    main = triangle(a, lower) - strict
    return strict + adjoint(strict) + (main + conjugated(main)) / 2


def _solved(a: Any, b: Any, kind: str, lower: bool, turned: bool) -> Any:
    """The solution for a kind of matrix; of the transposed system where it is turned."""
    if kind == "definite":
        factor = factored(a, lower)
        factor = conjugated(factor) if turned else factor
        first, second = (0, 2) if lower else (2, 0)
        return triangular(factor, triangular(factor, b, lower, first), lower, second)
    if "triangular" in kind or kind == "diagonal":
        refuse_zeros(fnp.diagonal(a, axis1=-2, axis2=-1))
        if kind == "diagonal":
            return b / fnp.diagonal(a, axis1=-2, axis2=-1)[..., None]
        return triangular(a, b, kind.startswith("lower"), int(turned))
    if kind != "general":
        a = _whole(a, kind, lower)
    return solved(swapped(a) if turned else a, b)


@scipys("scipy.linalg")
def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Any:
    """The solution x of a x = b.

    Args:
        a: shape (..., n, n).
        b: shape (n,) or (..., n, k).
        lower: which triangle of a symmetric, Hermitian or positive definite matrix is read.
        overwrite_a, overwrite_b, check_finite: not looked at.
        assume_a: what a is: "general", "symmetric", "hermitian", "positive definite", "diagonal",
            "upper triangular", "lower triangular", "tridiagonal", "banded", or SciPy's short names.
            Nothing is found out where it is None: then a is general.
        transposed: solve a^T x = b.

    Returns:
        x, of b's shape.

    Raises:
        numpy.linalg.LinAlgError: a matrix is singular, or not positive definite; when the function
            runs.
        MatrixError: a is not square.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.linalg import solve
        >>> f = lambda a: solve(a, np.ones(2), assume_a="pos").sum()
        >>> ftrace.grad(f)(np.diag([1.0, 2.0]))
        array([[-1.  , -1.  ],
               [ 0.  , -0.25]])
    """
    kind = _kind(assume_a)
    a, b = square("solve", a, b)
    how = kind, bool(lower), bool(transposed)
    return on_columns(a, b, lambda a, b: _solved(a, b, *how))


@scipys("scipy.linalg")
def inv(
    a: Any,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    assume_a: str | None = None,
    lower: bool = False,
) -> Any:
    """The inverse of matrices.

    Args:
        a: shape (..., n, n).
        overwrite_a, check_finite: not looked at.
        assume_a, lower: as of `solve`.

    Returns:
        The inverse, of a's shape.

    Raises:
        numpy.linalg.LinAlgError: a matrix is singular; when the function runs.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.grad(lambda a: ftrace.scipy.linalg.inv(a)[0, 0])(np.diag([2.0, 4.0]))
        array([[-0.25,  0.  ],
               [ 0.  ,  0.  ]])
    """
    kind = _kind(assume_a)
    (a,) = square("inv", a)
    if kind == "general":
        return inverted(a)
    one = fnp.broadcast_to(fnp.eye(typeof(a).shape[-1], dtype=typeof(a).dtype), typeof(a).shape)
    return _solved(a, one, kind, bool(lower), False)


@scipys("scipy.linalg")
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinant of matrices, in double precision.

    Args:
        a: shape (..., n, n).
        overwrite_a, check_finite: not looked at.

    Returns:
        The determinants, of shape (...). Their derivatives are finite where a is singular.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.grad(ftrace.scipy.linalg.det)(np.diag([2.0, 0.0]))
        array([[0., 0.],
               [0., 2.]])
    """
    (a,) = square("det", a)
    double = np.dtype(np.complex128 if typeof(a).dtype.kind == "c" else np.float64)
    return determinants.det(cast(a, double))


# ---------------------------------------------------------------------------------- bands


def _banded(name: str, ab: Any, b: Any, rows: int | None) -> list[Any]:
    ab, b = floating(ab, b)
    check_matrices(name, typeof(ab))
    if rows is not None and typeof(ab).shape[-2] != rows:
        raise ShapeError(
            f"{name}: ab has {typeof(ab).shape[-2]} rows for {rows} diagonals.",
            "Invalid values for the number of lower and upper diagonals: l+u+1 must equal "
            "ab.shape[0].",
        )
    return [ab, b]


def _refuse(b: Any, x: Any, words: str) -> Any:
    """A solution, where it is none NaN, though the right-hand side is finite."""
    if typeof(x).size:
        bad = fnp.isnan(x).all(axis=(-2, -1)) & fnp.isfinite(b).all(axis=(-2, -1))
        refuse(bad, np.linalg.LinAlgError, words)
    return x


@scipys("scipy.linalg")
def solve_banded(
    l_and_u: Any,
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """The solution of a banded system.

    Args:
        l_and_u: the numbers of diagonals below and above the main one.
        ab: shape (..., l + u + 1, n): a[i, j] is ab[u + i - j, j]. What belongs to no element is
            not read, and its derivative is zero.
        b: shape (n,) or (..., n, k).
        overwrite_ab, overwrite_b, check_finite: not looked at.

    Returns:
        x, of b's shape.

    Raises:
        numpy.linalg.LinAlgError: a matrix is singular; when the function runs.

    Example:
        >>> import numpy as np, ftrace
        >>> ab = np.array([[0.0, 1.0, 1.0], [4.0, 4.0, 4.0], [1.0, 1.0, 0.0]])
        >>> f = lambda ab: ftrace.scipy.linalg.solve_banded((1, 1), ab, np.array([5.0, 6.0, 5.0]))
        >>> ftrace.jit(f)(ab)
        array([1., 1., 1.])
    """
    lower, upper = (static_int(n, "the number of diagonals") for n in l_and_u)
    ab, b = _banded("solve_banded", ab, b, lower + upper + 1)

    def solve(ab: Any, b: Any) -> Any:
        return _refuse(b, banded_solve(ab, b, lower=lower, upper=upper), SINGULAR)

    return on_columns(ab, b, solve)


@scipys("scipy.linalg")
def solveh_banded(
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Any:
    """The solution of a banded system whose matrix is Hermitian and positive definite.

    Args:
        ab: shape (..., u + 1, n): the upper diagonals, a[i, j] is ab[u + i - j, j], or the lower
            ones if `lower`, a[i, j] is ab[i - j, j].
        b: shape (n,) or (..., n, k).
        overwrite_ab, overwrite_b, check_finite: not looked at.
        lower: which diagonals are given.

    Returns:
        x, of b's shape.

    Raises:
        numpy.linalg.LinAlgError: a matrix is not positive definite; when the function runs.

    Example:
        >>> import numpy as np, ftrace
        >>> ab = np.array([[0.0, 1.0, 1.0], [4.0, 4.0, 4.0]])
        >>> ftrace.jit(ftrace.scipy.linalg.solveh_banded)(ab, np.array([5.0, 6.0, 5.0]))
        array([1., 1., 1.])
    """
    ab, b = _banded("solveh_banded", ab, b, None)

    def solve(ab: Any, b: Any) -> Any:
        return _refuse(b, definite_banded_solve(ab, b, lower=bool(lower)), NOT_DEFINITE)

    return on_columns(ab, b, solve)


@scipys("scipy.linalg")
def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    """The solution of a system with a Toeplitz matrix, by LU of that matrix.

    Args:
        c_or_cr: the first column, or it and the first row, each of shape (n,).
        b: shape (n,) or (n, k).
        check_finite: not looked at.

    Returns:
        x, of b's shape. SciPy's recursion takes fewer steps for large n, and is less exact.

    Raises:
        numpy.linalg.LinAlgError: the matrix is singular; when the function runs.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda c: ftrace.scipy.linalg.solve_toeplitz(c, np.ones(2))
        >>> ftrace.jit(f)(np.array([3.0, 1.0]))
        array([0.25, 0.25])
    """
    c, r = c_or_cr if type(c_or_cr) is tuple else (c_or_cr, None)
    a, b = square("solve_toeplitz", toeplitz(c, r), b)
    return on_columns(a, b, solved)
