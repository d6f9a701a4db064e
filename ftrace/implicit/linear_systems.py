"""Linear systems: `solve`, `spsolve`, `cg`, `gmres`, `bicgstab`, each a `custom_linear_solve`.

The matrix is what SciPy would get, or a traced version of it: a function, a dense array, or the
three arrays of a CSR matrix, whose data may be traced (a SciPy matrix cannot hold traced values).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.api.compiled.devices import check_on_host
from ftrace.control.rules.host_calls import solver_call
from ftrace.control.rules.linear_solve import custom_linear_solve
from ftrace.core.avals import typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import DomainError, DtypeError, ShapeError, SolverError
from ftrace.core.lazy import lazy
from ftrace.core.trace import Tracer

_SINGULAR = (
    "Check the matrix. In a derivative of `root` or `minimize` it is the Jacobian of the equation: "
    "where that is singular the solution has no derivative."
)
_KRYLOV = {name: lazy("scipy.sparse.linalg", name) for name in ("cg", "gmres", "bicgstab")}
_linear_operator = lazy("scipy.sparse.linalg", "LinearOperator")
_csc_array = lazy("scipy.sparse", "csc_array")
_splu = lazy("scipy.sparse.linalg", "splu")


def solve(A: Any, b: Any) -> Any:
    """Solve the dense system A x = b by LU, as `numpy.linalg.solve`.

    Args:
        A: shape (n, n).
        b: shape (n,) or (n, k).

    Returns:
        x, of b's shape.

    Raises:
        ShapeError: A is not square, or b does not fit.
        SolverError: A is singular.

    Example:
        >>> import numpy as np, ftrace
        >>> A, b = np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 9.0])
        >>> ftrace.implicit.solve(A, b)
        array([1., 2.])
        >>> ftrace.grad(lambda b: ftrace.implicit.solve(A, b).sum())(b)
        array([0.375, 0.25 ])
    """
    matrix, b = _floats("solve", fnp.asarray(A), fnp.asarray(b))
    _check_square("solve", matrix.shape)
    if b.ndim not in (1, 2) or b.shape[0] != matrix.shape[0]:
        raise _unfit("solve", matrix.shape[0], b)

    def plain(A: Any, rhs: Any) -> list[Any]:
        try:
            return [np.linalg.solve(A, rhs)]
        except np.linalg.LinAlgError as error:
            raise SolverError(
                f"solve: the matrix of shape {A.shape} is singular.", _SINGULAR
            ) from error

    def solver(A: Any) -> Any:
        return lambda _, rhs: solver_call(A, rhs, fun=plain, out_avals=(typeof(rhs),))[0]

    return custom_linear_solve(lambda x: matrix @ x, b, solver(matrix), solver(matrix.T))


def spsolve(A: Any, b: Any) -> Any:
    """Solve the sparse system A x = b by LU, as `scipy.sparse.linalg.spsolve`.

    Args:
        A: a SciPy sparse matrix, or the three arrays `(data, indices, indptr)` of a CSR matrix. The
            data may be traced, the other two are plain integers.
        b: shape (n,).

    Returns:
        x, of shape (n,); derivatives with respect to `data` and `b`.

    Raises:
        ShapeError: A is not square, or b does not fit.
        SolverError: A is singular.

    Example:
        >>> import numpy as np, ftrace
        >>> indices, indptr, b = np.array([0, 0, 1]), np.array([0, 1, 3]), np.array([2.0, 9.0])
        >>> f = lambda data: ftrace.implicit.spsolve((data, indices, indptr), b).sum()
        >>> ftrace.grad(f)(np.array([2.0, 1.0, 4.0]))
        array([-0.375, -0.25 , -0.5  ])
    """
    if not isinstance(A, tuple) and not _is_sparse(A):
        raise DtypeError(
            f"spsolve: A is a {type(A).__name__}, not a SciPy sparse matrix or the CSR arrays "
            "(data, indices, indptr).",
            "Use ftrace.implicit.solve for a dense matrix, gmres for a function.",
        )
    data, indices, indptr = _csr("spsolve", A)
    n = len(indptr) - 1
    data, b = _floats("spsolve", data, fnp.asarray(b))
    if b.shape != (n,):
        raise _unfit("spsolve", n, b)

    def solver(trans: str) -> Any:
        def plain(data: Any, rhs: Any) -> list[Any]:
            transposed = _csc_array((data, indices, indptr), shape=(n, n))
            try:
                return [_splu(transposed).solve(rhs, trans)]
            except RuntimeError as error:
                raise SolverError(f"spsolve: {error}.", _SINGULAR) from error

        return lambda _, rhs: solver_call(data, rhs, fun=plain, out_avals=(typeof(rhs),))[0]

    return custom_linear_solve(_csr_product(data, indices, indptr), b, solver("T"), solver("N"))


def cg(
    A: Any,
    b: Any,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, int]:
    """Solve A x = b by conjugate gradients, as `scipy.sparse.linalg.cg`, started at 0.

    Args:
        A: symmetric (Hermitian) positive definite: a linear function, a dense matrix, a SciPy
            sparse matrix, or CSR arrays `(data, indices, indptr)`.
        b: shape (n,).
        rtol, atol, maxiter, M: SciPy's; M, an approximation of the inverse, is plain.

    Returns:
        `(x, 0)`, as SciPy does on success. The derivatives are solves to the same tolerance.

    Raises:
        ShapeError: A is not square, or b does not fit.
        SolverError: no convergence.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda d: ftrace.implicit.cg(lambda x: d * x, np.ones(2))[0].sum()
        >>> ftrace.grad(f)(np.array([1.0, 2.0])).round(6)
        array([-1.  , -0.25])
    """
    return _krylov("cg", A, b, M, rtol=rtol, atol=atol, maxiter=maxiter)


def gmres(  # noqa: PLR0913 - SciPy's signature
    A: Any,
    b: Any,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, int]:
    """Solve A x = b by generalised minimal residuals, as `scipy.sparse.linalg.gmres`.

    Args:
        A: any regular matrix, in one of the forms of `cg`.
        b: shape (n,).
        rtol, atol, restart, maxiter, M: SciPy's; M, an approximation of the inverse, is plain.

    Returns:
        `(x, 0)`. Reverse mode runs the same solver on the transposed map.

    Raises:
        ShapeError: A is not square, or b does not fit.
        SolverError: no convergence.

    Example:
        >>> import numpy as np, ftrace
        >>> A = np.array([[2.0, 0.0], [1.0, 4.0]])
        >>> f = lambda b: ftrace.implicit.gmres(A, b)[0].sum()
        >>> ftrace.grad(f)(np.array([2.0, 9.0])).round(6)
        array([0.375, 0.25 ])
    """
    if restart is not None and restart < 1:
        raise DomainError(f"gmres: restart is {restart}.", "Give a number of at least 1.")
    return _krylov("gmres", A, b, M, rtol=rtol, atol=atol, restart=restart, maxiter=maxiter)


def bicgstab(
    A: Any,
    b: Any,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, int]:
    """Solve A x = b by stabilised biconjugate gradients, as `scipy.sparse.linalg.bicgstab`.

    Args:
        A: any regular matrix, in one of the forms of `cg`.
        b: shape (n,).
        rtol, atol, maxiter, M: SciPy's; M, an approximation of the inverse, is plain.

    Returns:
        `(x, 0)`. Reverse mode runs the same solver on the transposed map.

    Raises:
        ShapeError: A is not square, or b does not fit.
        SolverError: no convergence.

    Example:
        >>> import numpy as np, ftrace
        >>> A = np.array([[2.0, 0.0], [1.0, 4.0]])
        >>> f = lambda b: ftrace.implicit.bicgstab(A, b)[0].sum()
        >>> ftrace.grad(f)(np.array([2.0, 9.0])).round(6)
        array([0.375, 0.25 ])
    """
    return _krylov("bicgstab", A, b, M, rtol=rtol, atol=atol, maxiter=maxiter)


def _krylov(name: str, A: Any, b: Any, M: Any, **options: Any) -> tuple[Any, int]:
    matvec, b = _map(name, A, fnp.asarray(b))
    (n,) = b.shape

    def solver(M: Any) -> Any:
        def run(matvec: Any, rhs: Any) -> Any:
            check_on_host(name, (rhs,))
            rhs = np.asarray(rhs)  # refused by tracers: the solver runs on the host
            operator = _linear_operator((n, n), matvec=matvec, dtype=rhs.dtype)
            x, info = _KRYLOV[name](operator, rhs, M=M, **options)
            if info:
                why = f"no convergence within {info} iterations" if info > 0 else "a breakdown"
                raise SolverError(
                    f"{name} stopped with {why}, at tolerance rtol={options['rtol']}.",
                    "Allow more iterations (maxiter=), precondition (M=), or check that the matrix "
                    f"is one for {name}.",
                )
            return np.asarray(x, rhs.dtype)

        return run

    backward = solver(None if M is None else M.T)
    symmetric = name == "cg" and b.dtype.kind == "f"
    return custom_linear_solve(matvec, b, solver(M), backward, symmetric), 0


# ---------------------------------------------------------------------------------- matrices


def _map(name: str, A: Any, b: Any) -> tuple[Callable[[Any], Any], Any]:
    """A matrix in any form as a function, and the right-hand side as floats of its dtype."""
    if hasattr(A, "matvec") and not _is_sparse(A):
        raise DtypeError(
            f"{name}: A is a {type(A).__name__}, and nothing is known about what it is made of.",
            "Pass the function that multiplies, or the matrix itself.",
        )
    if b.ndim != 1:
        raise ShapeError(
            f"{name}: b must have one axis, and has shape {b.shape}.",
            "Solve for one right-hand side; vmap solves for several.",
        )
    if isinstance(A, tuple) or _is_sparse(A):
        data, indices, indptr = _csr(name, A)
        n = len(indptr) - 1
        data, b = _floats(name, data, b)
        product: Any = _csr_product(data, indices, indptr)
    elif callable(A) and not isinstance(A, Tracer):
        (b,) = _floats(name, b)
        n, product = b.shape[0], A
    else:
        matrix, b = _floats(name, fnp.asarray(A), b)
        _check_square(name, matrix.shape)
        n, product = matrix.shape[0], lambda x: matrix @ x
    if b.shape != (n,):
        raise _unfit(name, n, b)
    return product, b


def _is_sparse(A: Any) -> bool:
    return hasattr(A, "tocsr")


def _csr(name: str, A: Any) -> tuple[Any, Any, Any]:
    """Data, column indices and row pointers of a square matrix."""
    if isinstance(A, tuple):
        if len(A) != 3:
            raise ShapeError(
                f"{name}: a matrix of {len(A)} arrays.", "CSR arrays are (data, indices, indptr)."
            )
        data, indices, indptr = A
        data, indices, indptr = fnp.asarray(data), np.asarray(indices), np.asarray(indptr)
        n = len(indptr) - 1
        shape = (n, max(n, int(indices.max(initial=-1)) + 1))
    else:
        rows = A.tocsr()
        data, indices, indptr, shape = rows.data, rows.indices, rows.indptr, rows.shape
    _check_square(name, shape)
    if data.shape != indices.shape or indptr[-1] != len(indices):
        raise ShapeError(
            f"{name}: CSR arrays with {data.shape} data, {indices.shape} indices and the last row "
            f"ending at {indptr[-1]}.",
            "There is one column index for each datum, and indptr ends at their number.",
        )
    return data, indices, indptr


def _csr_product(data: Any, indices: Any, indptr: Any) -> Callable[[Any], Any]:
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))

    def product(x: Any) -> Any:
        return fnp.at(fnp.zeros_like(x))[rows].add(data * x[indices])

    return product


def _floats(name: str, *arrays: Any) -> tuple[Any, ...]:
    """Arrays as floats of their common dtype."""
    dtype = np.result_type(*(x.dtype for x in arrays))
    if dtype.kind in "biu":
        dtype = np.dtype(np.float64)
    if not is_inexact(dtype):
        raise DtypeError(
            f"{name}: {dtype} is no dtype of numbers.", "Pass float or complex arrays."
        )
    return tuple(x if x.dtype == dtype else x.astype(dtype) for x in arrays)


def _check_square(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ShapeError(
            f"{name}: the matrix has shape {shape}, not as many rows as columns.",
            "Pass a square matrix; vmap solves stacks of them.",
        )


def _unfit(name: str, n: int, b: Any) -> ShapeError:
    return ShapeError(
        f"{name}: the matrix has {n} rows, and b has shape {b.shape}.",
        f"b must have length {n}.",
    )
