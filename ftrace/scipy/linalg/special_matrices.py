"""Matrices of few numbers, of scipy.linalg: Toeplitz, circulant, Hankel, companion, blocks.

Those that have no array among their arguments are SciPy's own: `dft`, `hadamard`, `helmert`,
`hilbert`, `invhilbert`, `invpascal`, `pascal`.
"""

from functools import reduce
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import DomainError, ShapeError
from ftrace.core.lazy import lazy
from ftrace.numpy.promote import inexact, promote, static_int, strong, value
from ftrace.numpy.refusing import refuse
from ftrace.scipy.borrowing import scipys

dft = lazy("scipy.linalg", "dft")
hadamard = lazy("scipy.linalg", "hadamard")
helmert = lazy("scipy.linalg", "helmert")
hilbert = lazy("scipy.linalg", "hilbert")
invhilbert = lazy("scipy.linalg", "invhilbert")
invpascal = lazy("scipy.linalg", "invpascal")
pascal = lazy("scipy.linalg", "pascal")


def _vector(name: str, x: Any, least: int = 0) -> Any:
    """An operand with an axis, of so many elements at least.

    Raises:
        ShapeError: it has fewer.
    """
    x = strong(value(x))
    if not typeof(x).ndim or typeof(x).shape[-1] < least:
        raise ShapeError(
            f"{name} was given an array of shape {typeof(x).shape}.",
            f"It takes vectors of at least {least} elements.",
        )
    return x


def _offsets(m: int, n: int) -> Any:
    """i - j at each place of a matrix."""
    return np.subtract.outer(np.arange(m), np.arange(n))


@scipys("scipy.linalg")
def toeplitz(c: Any, r: Any = None) -> Any:
    """Matrices with constant diagonals.

    Args:
        c: the first column, of shape (..., m).
        r: the first row, of shape (..., n), whose first element is not read; None: c conjugated.

    Returns:
        Shape (..., m, n).

    Raises:
        ShapeError: c or r has no axis.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.toeplitz)(np.array([1.0, 2.0]), np.array([0.0, 3.0]))
        array([[1., 3.],
               [2., 1.]])
    """
    c = _vector("toeplitz", c)
    r = fnp.conj(c) if r is None else _vector("toeplitz", r)
    c, r = promote(c, r)
    m, n = typeof(c).shape[-1], typeof(r).shape[-1]
    if not m or not n:
        return fnp.zeros((*typeof(c).shape, n), typeof(c).dtype)
    values = fnp.concatenate([r[..., :0:-1], c], axis=-1)
    return fnp.take(values, _offsets(m, n) + (n - 1), axis=-1)


@scipys("scipy.linalg")
def circulant(c: Any) -> Any:
    """Matrices whose columns are a vector turned around.

    Args:
        c: the first column, of shape (..., n).

    Returns:
        Shape (..., n, n).

    Raises:
        ShapeError: c has no axis.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.circulant)(np.array([1.0, 2.0, 3.0]))
        array([[1., 3., 2.],
               [2., 1., 3.],
               [3., 2., 1.]])
    """
    c = _vector("circulant", c)
    n = typeof(c).shape[-1]
    return fnp.take(c, _offsets(n, n) % max(n, 1), axis=-1)


@scipys("scipy.linalg")
def hankel(c: Any, r: Any = None) -> Any:
    """Matrices with constant anti-diagonals.

    Args:
        c: the first column, of shape (..., m).
        r: the last row, of shape (..., n), whose first element is not read; None: zeros.

    Returns:
        Shape (..., m, n).

    Raises:
        ShapeError: c or r has no axis.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.hankel)(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
        array([[1., 2.],
               [2., 3.]])
    """
    c = _vector("hankel", c)
    r = fnp.zeros_like(c) if r is None else _vector("hankel", r)
    c, r = promote(c, r)
    m, n = typeof(c).shape[-1], typeof(r).shape[-1]
    values = fnp.concatenate([c, r[..., 1:]], axis=-1)
    return fnp.take(values, np.add.outer(np.arange(m), np.arange(n)), axis=-1)


@scipys("scipy.linalg")
def companion(a: Any) -> Any:
    """The companion matrix of a polynomial.

    Args:
        a: its coefficients, the highest first, of shape (..., n + 1) with n at least 1.

    Returns:
        Shape (..., n, n); its eigenvalues are the roots.

    Raises:
        ShapeError: there are fewer than two coefficients.
        ValueError: the first one is 0; when the function runs.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.companion)(np.array([2.0, -6.0, 4.0]))
        array([[ 3., -2.],
               [ 1.,  0.]])
    """
    a = inexact(_vector("companion", a, 2))
    refuse(a[..., 0] == 0, ValueError, "The first coefficient in `a` must not be zero.")
    first = -a[..., 1:] / a[..., :1]
    n = typeof(first).shape[-1]
    rest = np.broadcast_to(np.eye(n - 1, n, dtype=a.dtype), (*a.shape[:-1], n - 1, n))
    return fnp.concatenate([first[..., None, :], rest], axis=-2)


@scipys("scipy.linalg")
def block_diag(*arrs: Any) -> Any:
    """The matrix with some matrices on its diagonal.

    Args:
        *arrs: matrices of shape (..., m, n); a vector is one row, a number one element.

    Returns:
        Shape (..., sum of all m, sum of all n).

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(lambda x: ftrace.scipy.linalg.block_diag(x, 3.0))(np.eye(2))
        array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 3.]])
    """
    blocks = [strong(fnp.atleast_2d(a)) for a in arrs] or [fnp.zeros((1, 0))]
    dtype = reduce(np.promote_types, [typeof(b).dtype for b in blocks])
    batch = np.broadcast_shapes(*(typeof(b).shape[:-2] for b in blocks))
    width, before, rows = sum(typeof(b).shape[-1] for b in blocks), 0, []
    for b in blocks:
        m, n = typeof(b).shape[-2:]
        b = fnp.broadcast_to(b, (*batch, m, n)).astype(dtype)
        sides = [(0, 0)] * (len(batch) + 1)
        rows.append(fnp.pad(b, [*sides, (before, width - before - n)]))
        before += n
    return fnp.concatenate(rows, axis=-2)


@scipys("scipy.linalg")
def fiedler(a: Any) -> Any:
    """The distances of numbers from each other.

    Args:
        a: shape (..., n).

    Returns:
        Shape (..., n, n).

    Raises:
        ShapeError: a has no axis.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.fiedler)(np.array([1.0, 4.0]))
        array([[0., 3.],
               [3., 0.]])
    """
    a = _vector("fiedler", a)
    return fnp.abs(a[..., :, None] - a[..., None, :])


@scipys("scipy.linalg")
def fiedler_companion(a: Any) -> Any:
    """The companion matrix of a polynomial with five diagonals.

    Args:
        a: its coefficients, the highest first, of shape (n + 1,) with n at least 1.

    Returns:
        Shape (n, n); its eigenvalues are the roots.

    Raises:
        ShapeError: there are fewer than two coefficients.
        ValueError: the first one is 0; when the function runs.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.fiedler_companion)(np.array([1.0, -3.0, 2.0]))
        array([[ 3., -2.],
               [ 1.,  0.]])
    """
    a = inexact(_vector("fiedler_companion", a, 2))
    refuse(a[0] == 0, ValueError, "Leading coefficient is zero.")
    a = a / a[0]
    n = typeof(a).size - 1
    c = fnp.zeros((n, n), typeof(a).dtype)
    if n == 1:
        return fnp.reshape(-a[1], (1, 1)) + c
    c[np.arange(3, n, 2), np.arange(1, n - 2, 2)] = 1.0
    c[np.arange(2, n, 2), np.arange(1, n - 1, 2)] = -a[3::2]
    c[np.arange(0, n - 2, 2), np.arange(2, n, 2)] = 1.0
    c[np.arange(0, n - 1, 2), np.arange(1, n, 2)] = -a[2::2]
    c[0, 0] = -a[1]
    c[1, 0] = 1.0
    return c


@scipys("scipy.linalg")
def leslie(f: Any, s: Any) -> Any:
    """The matrix of a population by age.

    Args:
        f: how fertile each age is, of shape (..., n) with n at least 2.
        s: how many of each age but the last survive, of shape (..., n - 1).

    Returns:
        Shape (..., n, n).

    Raises:
        ShapeError: f and s do not fit.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(ftrace.scipy.linalg.leslie)(np.array([0.1, 2.0]), np.array([0.5]))
        array([[0.1, 2. ],
               [0.5, 0. ]])
    """
    f, s = promote(_vector("leslie", f, 2), _vector("leslie", s, 1))
    n = typeof(f).shape[-1]
    if typeof(s).shape[-1] != n - 1:
        raise ShapeError(
            f"leslie was given {n} ages and {typeof(s).shape[-1]} survivals.",
            "The length of s must be one less than the length of f.",
        )
    below = s[..., :, None] * np.eye(n - 1, n, dtype=typeof(s).dtype)
    return fnp.concatenate([f[..., None, :], below], axis=-2)


@scipys("scipy.linalg")
def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """The matrix that convolves vectors of n elements with a.

    Args:
        a: shape (m,).
        n: the number of columns.
        mode: "full", "valid" or "same", as of `numpy.convolve`.

    Returns:
        A Toeplitz matrix with n columns.

    Raises:
        ShapeError: a has no elements.
        DomainError: n is not positive, or another mode.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jit(lambda a: ftrace.scipy.linalg.convolution_matrix(a, 2))(np.array([1.0, 2.0]))
        array([[1., 0.],
               [2., 1.],
               [0., 2.]])
    """
    a, n = _vector("convolution_matrix", a, 1), static_int(n, "n")
    if n <= 0 or mode not in ("full", "valid", "same"):
        raise DomainError(
            f"convolution_matrix was given n={n} and mode={mode!r}.",
            "n must be a positive integer, and mode 'full', 'valid' or 'same'.",
        )
    m = typeof(a).shape[-1]
    column, row = fnp.pad(a, (0, n - 1)), fnp.pad(a[::-1], (0, n - 1))
    cut = 0 if mode == "full" else min(n, m) - 1
    top = cut // 2 if mode == "same" else cut
    bottom = cut - top if mode == "same" else cut
    size = m + n - 1
    return toeplitz(column[top : size - bottom], row[size - n - top : size - top])
