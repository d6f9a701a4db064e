"""`jacobian_operator`: the Jacobian of a function as an operator of SciPy's, without its matrix."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.api.calls import check_callable
from ftrace.api.derivatives.autodiff import linearize, vjp
from ftrace.core.errors import ShapeError
from ftrace.core.lazy import lazy

_linear_operator = lazy("scipy.sparse.linalg", "LinearOperator")


def jacobian_operator(fun: Callable[[Any], Any], x: Any) -> Any:
    """The Jacobian of `fun` at x as a `scipy.sparse.linalg.LinearOperator`.

    Args:
        fun: a function of a vector to a vector.
        x: shape (n,), where it is linearized, once.

    Returns:
        An operator of shape (m, n): `J @ v` runs the linearized function (`linearize`), `J.T @ w`
        the pullback (`vjp`), so that SciPy's Krylov solvers, `svds`, `lsqr` and `eigs` take it.

    Raises:
        ShapeError: x or the result is no vector.

    Example:
        >>> import numpy as np, scipy.sparse.linalg, ftrace
        >>> J = ftrace.sparse.jacobian_operator(lambda x: x[1:] * x[0], np.array([2.0, 3.0, 5.0]))
        >>> J @ np.array([1.0, 0.0, 1.0]), J.T @ np.array([1.0, 1.0])
        (array([3., 7.]), array([8., 2., 2.]))
    """
    check_callable(fun, "jacobian_operator")
    x = np.asarray(x)
    y, push = linearize(fun, x)
    if x.ndim != 1 or np.ndim(y) != 1:
        raise ShapeError(
            f"jacobian_operator: x has shape {x.shape} and the result {np.shape(y)}.",
            "Both must be vectors; ftrace.flatten_util.ravel_pytree flattens containers.",
        )
    pull: list[Any] = []

    def back(w: Any) -> Any:
        if not pull:
            pull.append(vjp(fun, x)[1])
        return np.conj(pull[0](np.conj(np.asarray(w, y.dtype)).reshape(-1))[0])

    return _linear_operator(
        (y.size, x.size),
        matvec=lambda v: push(np.asarray(v, x.dtype).reshape(-1)),
        rmatvec=back,
        dtype=y.dtype,
    )
