"""The exponential of matrices, and equations whose unknown is a matrix, of scipy.linalg."""

from typing import Any

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import DomainError, ShapeError
from ftrace.numpy.linear_equations import inverted, solved
from ftrace.primitives.matrix_equations import expm as expm_row
from ftrace.primitives.matrix_equations import expm_frechet as expm_frechet_row
from ftrace.primitives.matrix_equations import sylvester
from ftrace.primitives.stacks import adjoint, check_square, conjugated
from ftrace.scipy.borrowing import scipys
from ftrace.scipy.linalg.matrix_operands import square

_DIRECT = 10  # up to here a discrete equation is one system of n * n unknowns, as in SciPy


@scipys("scipy.linalg")
def expm(A: Any) -> Any:
    """The exponential of matrices.

    Args:
        A: shape (..., n, n).

    Returns:
        The exponentials, of A's shape.

    Raises:
        MatrixError: A is not square.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda t: ftrace.scipy.linalg.expm(t * np.eye(2)).sum()
        >>> ftrace.jit(f)(0.0)
        np.float64(2.0)
    """
    return expm_row(*square("expm", A))


@scipys("scipy.linalg")
def expm_frechet(
    A: Any, E: Any, method: str | None = None, compute_expm: bool = True, check_finite: bool = True
) -> Any:
    """The exponential of a matrix and its derivative along another one.

    Args:
        A, E: shape (n, n).
        method, check_finite: not looked at.
        compute_expm: whether the exponential is returned, too.

    Returns:
        The exponential and its derivative along E, or the derivative alone.

    Raises:
        ShapeError: A and E differ in shape; MatrixError: A is not square.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda e: ftrace.scipy.linalg.expm_frechet(np.zeros((2, 2)), e, compute_expm=False)
        >>> ftrace.jit(f)(np.eye(2))
        array([[1., 0.],
               [0., 1.]])
    """
    a, e = square("expm_frechet", A, E)
    if typeof(a).shape != typeof(e).shape:
        raise ShapeError(
            f"expm_frechet: A has shape {typeof(a).shape} and E {typeof(e).shape}.",
            "Expected A and E to be the same shape.",
        )
    slope = expm_frechet_row(a, e)
    return (expm_row(a), slope) if compute_expm else slope


# ---------------------------------------------------------------------------------- equations


def _system(name: str, a: Any, b: Any, q: Any) -> list[Any]:
    a, b, q = square(name, a, b, q)
    check_square(name, typeof(b))
    shape = typeof(a).shape[-1], typeof(b).shape[-1]
    if typeof(q).shape[-2:] != shape:
        raise ShapeError(f"{name}: q has shape {typeof(q).shape}.", f"It has to be {shape}.")
    return [a, b, q]


@scipys("scipy.linalg")
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """The solution x of Sylvester's equation a x + x b = q.

    Args:
        a: shape (m, m).
        b: shape (n, n).
        q: shape (m, n).

    Returns:
        x, of shape (m, n).

    Raises:
        MatrixError: a or b is not square; ShapeError: q does not fit.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda a: ftrace.scipy.linalg.solve_sylvester(a, np.eye(2), np.ones((2, 2)))
        >>> ftrace.jit(f)(np.diag([1.0, 3.0]))
        array([[0.5 , 0.5 ],
               [0.25, 0.25]])
    """
    return sylvester(*_system("solve_sylvester", a, b, q))


@scipys("scipy.linalg")
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """The solution x of Lyapunov's equation a x + x a^H = q.

    Args:
        a, q: shape (n, n).

    Returns:
        x, of shape (n, n).

    Raises:
        MatrixError: a is not square; ShapeError: q does not fit.

    Example:
        >>> import numpy as np, ftrace
        >>> f = ftrace.scipy.linalg.solve_continuous_lyapunov
        >>> ftrace.jit(f)(np.diag([1.0, 3.0]), np.eye(2))
        array([[0.5       , 0.        ],
               [0.        , 0.16666667]])
    """
    a, _, q = _system("solve_continuous_lyapunov", a, a, q)
    return sylvester(a, adjoint(a), q)


@scipys("scipy.linalg")
def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Any:
    """The solution x of the discrete Lyapunov equation a x a^H - x + q = 0.

    Args:
        a, q: shape (n, n).
        method: "direct" solves one system of n n unknowns, "bilinear" a continuous equation; None
            takes the first where n is less than 10.

    Returns:
        x, of shape (n, n).

    Raises:
        MatrixError: a is not square; ShapeError: q does not fit; DomainError: another method.
        numpy.linalg.LinAlgError: the system is singular; when the function runs.

    Example:
        >>> import numpy as np, ftrace
        >>> f = ftrace.scipy.linalg.solve_discrete_lyapunov
        >>> ftrace.jit(f)(np.diag([0.5, 0.0]), np.diag([3.0, 1.0]))
        array([[4., 0.],
               [0., 1.]])
    """
    a, _, q = _system("solve_discrete_lyapunov", a, a, q)
    n = typeof(a).shape[-1]
    if method not in (None, "direct", "bilinear"):
        raise DomainError(f"The method is {method!r}.", "It is 'direct' or 'bilinear'.")
    one = fnp.eye(n, dtype=typeof(a).dtype)
    if method == "direct" or (method is None and n < _DIRECT):
        whole = fnp.eye(n * n, dtype=typeof(a).dtype) - fnp.kron(a, conjugated(a))
        return fnp.reshape(solved(whole, fnp.reshape(q, (n * n, 1))), (n, n))
    right = inverted(adjoint(a) + one)
    b = (adjoint(a) - one) @ right
    c = 2 * (inverted(a + one) @ q) @ right
    return sylvester(adjoint(b), b, -c)
