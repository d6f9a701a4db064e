"""Functions of matrices by their spectra: `sqrtm`, `logm`, `funm`, `polar`; exact at equal values.

The derivative of f(A) at a Hermitian matrix holds divided differences of f, which become slopes of
f where eigenvalues are equal, instead of the quotients that derivatives of eigenvectors hold.
"""

from collections.abc import Callable
from typing import Any

import ftrace.numpy as fnp
from ftrace.control.closures import Closure
from ftrace.control.rules.custom_derivatives import custom_jvp_call
from ftrace.core.avals import typeof
from ftrace.core.errors import DomainError, RuleError
from ftrace.core.zero import ZERO
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.tangents import instantiate
from ftrace.primitives import eigenvalues, matrix_roots, singular_values, spectra
from ftrace.primitives.diagonals import epsilon, half
from ftrace.primitives.matrix_equations import sylvester
from ftrace.primitives.stacks import adjoint, check_matrices
from ftrace.scipy.borrowing import scipys
from ftrace.scipy.linalg.matrix_operands import as_complex, floating, square


@scipys("scipy.linalg")
def sqrtm(A: Any, disp: bool | None = None, blocksize: Any = None) -> Any:
    """The principal square root of matrices; complex, as whether it is real depends on values.

    SciPy's own function, which is called where nothing is traced, gives real numbers where it can.

    Args:
        A: shape (..., n, n).
        disp: without an estimate of the error, which False asks for.
        blocksize: not looked at.

    Returns:
        The complex roots, of A's shape.

    Raises:
        MatrixError: A is not square. RuleError: disp=False.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda a: ftrace.scipy.linalg.sqrtm(a).real.sum()
        >>> ftrace.grad(f)(4 * np.eye(2))
        array([[0.25, 0.25],
               [0.25, 0.25]])
    """
    _check_displayed("sqrtm", disp)
    (a,) = square("sqrtm", A)
    return matrix_roots.sqrtm(as_complex(a))


@scipys("scipy.linalg")
def logm(A: Any, disp: bool | None = None) -> Any:
    """The principal logarithm of matrices; complex, as whether it is real depends on values.

    Args:
        A: shape (..., n, n).
        disp: without an estimate of the error, which False asks for.

    Returns:
        The complex logarithms, of A's shape.

    Raises:
        MatrixError: A is not square. RuleError: disp=False.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda a: ftrace.scipy.linalg.logm(a).real.sum()
        >>> ftrace.grad(f)(4 * np.eye(2))
        array([[0.25, 0.25],
               [0.25, 0.25]])
    """
    _check_displayed("logm", disp)
    (a,) = square("logm", A)
    return matrix_roots.logm(as_complex(a))


def _check_displayed(name: str, disp: bool | None) -> None:
    if disp is not None and not disp:
        raise RuleError(
            f"{name} was asked for an estimate of its error, too (disp=False).",
            f"Leave out disp=, and take {name}(A) alone.",
        )


# ---------------------------------------------------------------------------------- any function


def _slopes(func: Callable[[Any], Any], w: Any) -> tuple[Any, Any]:
    """Divided differences of a function at all pairs of numbers, and its values."""
    values = func(w)
    (_,), (slope,) = jvp_flat(lambda x: [func(x)], [w], [fnp.ones_like(w)])
    slope = instantiate(slope, values)
    gap = w[..., None, :] - w[..., :, None]
    size = fnp.max(abs(w), axis=-1, keepdims=True, initial=1e-300)[..., None]
    close = abs(gap) <= epsilon(typeof(w).dtype) ** (1 / 3) * size
    rise = values[..., None, :] - values[..., :, None]
    between = (slope[..., None, :] + slope[..., :, None]) / 2
    return fnp.where(close, between, rise / fnp.where(close, 1.0, gap)), values


def _of_hermitian(func: Callable[[Any], Any], a: Any) -> Any:
    closure = Closure([func])
    n = len(closure.values)

    def fun(a: Any, *captured: Any) -> list[Any]:
        (f,) = closure.bind(captured)
        w, v = spectra.eigh(a, low=True)
        return [v * f(w)[..., None, :] @ adjoint(v)]

    def rule(a: Any, *rest: Any) -> list[Any]:
        captured, t, moved = rest[:n], rest[n], rest[n + 1 :]
        w, v = spectra.eigh(a, low=True)
        (f,) = closure.bind(captured)
        divided, values = _slopes(f, w)
        below = half(t, True)
        inside = divided * (adjoint(v) @ (below + adjoint(below)) @ v)
        found = v @ inside @ adjoint(v)
        if captured:
            _, (change,) = jvp_flat(lambda *c: [closure.bind(c)[0](w)], captured, moved)
            if change is not ZERO:
                found = found + v * change[..., None, :] @ adjoint(v)
        return [v * values[..., None, :] @ adjoint(v), found]

    return custom_jvp_call(a, *closure.values, fun=fun, rule=rule)[0]


def funm(
    A: Any,
    func: Callable[[Any], Any],
    disp: bool = True,
    *,
    hermitian: bool = False,
) -> Any:
    """A function of matrices, by that of their eigenvalues.

    Args:
        A: shape (..., n, n).
        func: function of the array of eigenvalues, element by element; of NumPy's functions. It may
            close over traced values, which have derivatives, too.
        disp: without an estimate of the error, which False asks for.
        hermitian: A is Hermitian, and its lower triangle is read. Eigenvalues are real, and the
            derivative is exact where they are equal or close; with False it is refused there.

    Returns:
        f(A), of A's shape; complex unless `hermitian`. With nothing traced, and unless `hermitian`,
        it is SciPy's.

    Raises:
        MatrixError: A is not square. RuleError: disp=False. DomainError: a derivative at equal
            eigenvalues: the first one unless `hermitian`, the second one in any case.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda a: ftrace.scipy.linalg.funm(a, np.exp, hermitian=True).sum()
        >>> ftrace.grad(f)(np.zeros((2, 2)))
        array([[1., 0.],
               [2., 1.]])
    """
    if hermitian:
        _check_displayed("funm", disp)
        (a,) = square("funm", A)
        return _of_hermitian(func, a)
    return _general(A, func, disp)


def _general(A: Any, func: Callable[[Any], Any], disp: bool) -> Any:
    return _scipys_funm(A, func, disp=disp)


def _traced_funm(A: Any, func: Callable[[Any], Any], disp: bool = True) -> Any:
    _check_displayed("funm", disp)
    (a,) = square("funm", A)
    w, v = eigenvalues.eig(a)
    return v * func(w)[..., None, :] @ fnp.linalg.inv(v)


_traced_funm.__name__ = "funm"
_scipys_funm = scipys("scipy.linalg")(_traced_funm)


# ---------------------------------------------------------------------------------- polar


def _unitary(a: Any) -> Any:
    """The unitary factor of matrices with at least as many rows as columns, of full rank."""

    def fun(a: Any) -> list[Any]:
        u, _, vh = singular_values.svd(a, full=False)
        return [u @ vh]

    def rule(a: Any, t: Any) -> list[Any]:
        u = fun(a)[0]
        p = adjoint(u) @ a
        p = (p + adjoint(p)) / 2
        moved = adjoint(t) @ a
        dp = sylvester(p, p, moved + adjoint(moved))
        return [u, adjoint(fnp.linalg.solve(p, adjoint(t - u @ dp)))]

    return custom_jvp_call(a, fun=fun, rule=rule)[0]


@scipys("scipy.linalg")
def polar(a: Any, side: str = "right") -> Any:
    """The factors U, with orthonormal columns or rows, and P, Hermitian: a = U P, or a = P U.

    Args:
        a: shape (..., m, n).
        side: "right" for U P, "left" for P U.

    Returns:
        U and P.

    Raises:
        MatrixError: fewer than two axes; DomainError: another side.
        numpy.linalg.LinAlgError: a derivative where the rank is deficient.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.polar)(np.diag([2.0, -3.0]))[1].round(12) + 0.0
        array([[2., 0.],
               [0., 3.]])
    """
    if side not in ("right", "left"):
        raise DomainError(f"The side is {side!r}.", "It is 'right' or 'left'.")
    (a,) = floating(a)
    check_matrices("polar", typeof(a))
    m, n = typeof(a).shape[-2:]
    u = _unitary(a) if m >= n else adjoint(_unitary(adjoint(a)))
    p = adjoint(u) @ a if side == "right" else a @ adjoint(u)
    return u, (p + adjoint(p)) / 2
