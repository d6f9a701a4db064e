"""Algebraic Riccati equations, whose solutions are the optimal feedback of linear systems.

SciPy solves them when the program runs. Derivatives come of Newton's method about its solution: a
step that starts at a solution has no slope by its start, so that two of them, which are linear
equations, have derivatives up to third order.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import RuleError
from ftrace.core.lazy import lazy
from ftrace.numpy.promote import promote_inexact, value
from ftrace.primitives.stacks import adjoint
from ftrace.scipy.borrowing import at_run_time, scipys
from ftrace.scipy.linalg.matrix_functions import solve_continuous_lyapunov, solve_discrete_lyapunov

_STEPS = 2
_continuous: Callable[..., Any] = solve_continuous_lyapunov.__wrapped__  # type: ignore[attr-defined]
_discrete: Callable[..., Any] = solve_discrete_lyapunov.__wrapped__  # type: ignore[attr-defined]


def _started(name: str, matrices: Any, more: tuple[Any, Any], balanced: bool) -> list[Any]:
    """The four matrices, and SciPy's solution.

    Raises:
        RuleError: an equation of more matrices.
    """
    if any(v is not None for v in more):
        raise RuleError(
            f"{name} was given e= or s= of traced values.",
            "Bring the equation into the form without: A - B R^-1 S^H, Q - S R^-1 S^H.",
        )
    a, b, q, r = promote_inexact(*map(value, matrices))
    wide = np.result_type(typeof(a).dtype, np.float64)  # SciPy's solutions are in double precision
    a, b, q, r = (fnp.astype(v, wide) for v in (a, b, q, r))
    like = np.zeros(typeof(a).shape, typeof(a).dtype)
    solve = lazy("scipy.linalg", name)
    return [a, b, q, r, at_run_time(solve, a, b, q, r, balanced=balanced, like=like)]


@scipys("scipy.linalg", asked=False)  # with matrices that are not Hermitian
def solve_continuous_are(
    a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True
) -> Any:
    """The solution x of a^H x + x a - x b r^-1 b^H x + q = 0 that stabilises a - b r^-1 b^H x.

    Args:
        a: shape (n, n).
        b: shape (n, m).
        q: shape (n, n), Hermitian.
        r: shape (m, m), Hermitian and regular.
        e, s: as they are by default.
        balanced: whether the equation is scaled first.

    Returns:
        x, of shape (n, n).

    Raises:
        RuleError: other e or s.
        numpy.linalg.LinAlgError: there is no such solution; when the function runs.
        ValueError: matrices that do not fit.

    Source:
        D. L. Kleinman, "On an iterative technique for Riccati equation computations", 1968.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.linalg import solve_continuous_are
        >>> one = np.eye(1)
        >>> ftrace.grad(lambda q: solve_continuous_are(0 * one, one, q, one)[0, 0])(4.0 * one)
        array([[0.25]])
    """
    a, b, q, r, x = _started("solve_continuous_are", (a, b, q, r), (e, s), balanced)
    for _ in range(_STEPS):
        back = fnp.linalg.solve(r, adjoint(b) @ x)
        x = _continuous(adjoint(a - b @ back), -(q + adjoint(back) @ r @ back))
    return x


@scipys("scipy.linalg", asked=False)  # with matrices that are not Hermitian
def solve_discrete_are(
    a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True
) -> Any:
    """The solution x of a^H x a - x - a^H x b (r + b^H x b)^-1 b^H x a + q = 0 that stabilises.

    Args:
        a, b, q, r, e, s, balanced: as in `solve_continuous_are`.

    Returns:
        x, of shape (n, n).

    Raises:
        RuleError: other e or s.
        numpy.linalg.LinAlgError: there is no such solution; when the function runs.
        ValueError: matrices that do not fit.

    Source:
        G. A. Hewer, "An iterative technique for the computation of the steady state gains for the
        discrete optimal regulator", 1971.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.linalg import solve_discrete_are
        >>> one = np.eye(1)
        >>> ftrace.jit(lambda q: solve_discrete_are(one, one, q, one))(one).round(6)
        array([[1.618034]])
    """
    a, b, q, r, x = _started("solve_discrete_are", (a, b, q, r), (e, s), balanced)
    for _ in range(_STEPS):
        back = fnp.linalg.solve(r + adjoint(b) @ x @ b, adjoint(b) @ x @ a)
        x = _discrete(adjoint(a - b @ back), q + adjoint(back) @ r @ back)
    return x
