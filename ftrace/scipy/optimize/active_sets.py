"""Problems that are solved by finding out what is active: assignments, and non-negative fits.

SciPy finds it out when the program runs; what is active does not move with small changes.
"""

from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.lazy import lazy
from ftrace.numpy.promote import value
from ftrace.scipy.borrowing import RefusedError, at_run_time, scipys


@scipys("scipy.optimize", asked=False)
def linear_sum_assignment(cost_matrix: Any, maximize: bool = False) -> Any:
    """Which column each row is assigned to, such that the sum of costs is the least.

    Args:
        cost_matrix: shape (n, m).
        maximize: whether the sum is the greatest.

    Returns:
        Indices of rows, and of the columns they are assigned to: vectors of min(n, m) integers.

    Raises:
        ValueError: another rank, or no assignment of finite costs; the latter when it runs.

    Source:
        D. F. Crouse, "On implementing 2D rectangular assignment algorithms", 2016.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.optimize import linear_sum_assignment
        >>> cost = np.array([[4.0, 1.0], [2.0, 3.0]])
        >>> ftrace.grad(lambda c: np.sum(c[linear_sum_assignment(c)]))(cost)
        array([[0., 1.],
               [1., 0.]])
    """
    return at_run_time(
        lazy("scipy.optimize", "linear_sum_assignment"), value(cost_matrix), maximize
    )


@scipys("scipy.optimize", asked=False)
def nnls(A: Any, b: Any, maxiter: int | None = None) -> Any:
    """The x that is not negative and makes |A x - b| the least.

    Args:
        A: shape (m, n); columns that are used are independent.
        b: shape (m,), or a column.
        maxiter: the most iterations.

    Returns:
        x, of shape (n,), and |A x - b|.

    Raises:
        ValueError: shapes that do not fit.
        RuntimeError: too many iterations; when it runs.

    Source:
        R. Bro and S. de Jong, "A fast non-negativity-constrained least squares algorithm", 1997.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.optimize import nnls
        >>> A = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> ftrace.jacobian(lambda b: nnls(A, b)[0])(np.array([2.0, 1.0, -1.0]))
        array([[0.5, 0.5, 0. ],
               [0. , 0. , 0. ]])
    """
    matrix, b = (fnp.astype(fnp.asarray(value(v)), float) for v in (A, b))
    b = b[:, 0] if typeof(b).ndim == 2 and typeof(b).shape[1] == 1 else b
    if typeof(matrix).ndim != 2 or typeof(b).shape != typeof(matrix).shape[:1]:
        raise RefusedError("A matrix and a vector that fit are expected.")
    n = typeof(matrix).shape[1]
    found, _ = at_run_time(
        lazy("scipy.optimize", "nnls"), matrix, b, maxiter=maxiter, like=(np.zeros(n), 0.0)
    )
    used = fnp.greater(found, 0)
    among = fnp.where(used, matrix, 0.0)
    square = among.T @ among + fnp.diag(fnp.where(used, 0.0, 1.0))
    x = fnp.linalg.solve(square, among.T @ b)
    return x, fnp.linalg.norm(matrix @ x - b)
