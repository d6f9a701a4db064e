"""Decompositions of numpy.linalg: `eigh`, `eigvalsh`, `eig`, `eigvals`, `svd`, `svdvals`, `qr`.

Values are NumPy's to the last bit. Derivatives exist where eigenvalues lie apart, and where equal
ones are treated as one; elsewhere they raise `DomainError` when the function runs: see
decision record 039.
"""

from functools import reduce
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.dtypes import complex_dtype, real_dtype
from ftrace.numpy import shaping, sorting, ufuncs
from ftrace.numpy.linalg_functions import common, linalg_function
from ftrace.numpy.promote import cast, unsupported
from ftrace.numpy.refusing import refuse
from ftrace.primitives import eigenvalues, orthogonal, singular_values, spectra
from ftrace.primitives.arithmetic import imag, real
from ftrace.primitives.compare import bitwise_and, bitwise_not, isfinite, select
from ftrace.primitives.shape import expand_dims
from ftrace.primitives.stacks import adjoint, check_matrices, check_square

EighResult = type(np.linalg.eigh(np.ones((1, 1))))
EigResult = type(np.linalg.eig(np.ones((1, 1))))
QRResult = type(np.linalg.qr(np.ones((1, 1))))
SVDResult = type(np.linalg.svd(np.ones((1, 1))))


def _matrices(name: str, a: Any) -> tuple[Any, np.dtype[Any]]:
    """Matrices in double precision, and the dtype of results."""
    (a,), dtype = common(a)
    check_matrices(name, typeof(a))
    return a, dtype


def _square(name: str, a: Any) -> tuple[Any, np.dtype[Any]]:
    a, dtype = _matrices(name, a)
    check_square(name, typeof(a))
    return a, dtype


def _finite(name: str, a: Any) -> tuple[Any, np.dtype[Any]]:
    """Square matrices that LAPACK is not to see if they hold what is not finite."""
    a, dtype = _square(name, a)
    parts = (real(a), imag(a)) if typeof(a).dtype.kind == "c" else (a,)
    fine = reduce(bitwise_and, map(isfinite, parts))
    words = "Array must not contain infs or NaNs"
    refuse(bitwise_not(fine), np.linalg.LinAlgError, words)
    return select(fine, a, typeof(a).dtype.type(0)), dtype


def _reads_lower(triangle: Any) -> bool:
    found = triangle.upper()
    if found not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return found == "L"


@linalg_function
def eigh(a: Any, UPLO: Any = "L") -> Any:
    """The eigenvalues of Hermitian matrices, ascending, and their eigenvectors in columns.

    One triangle is read, the lower one unless UPLO is "U", and the derivative is that of what is
    read: zero for the other triangle. Write `eigh((a + a.T) / 2)` for the symmetric one.

    Where eigenvalues are equal, a function of projectors on whole eigenspaces and of sums over
    equal eigenvalues has its derivative. One that depends on the choice of vectors there, or on a
    single one of equal eigenvalues, raises `DomainError`, as does forward mode there, unless the
    tangent moves them together; V f(w) V^H is exact as `ftrace.scipy.linalg.funm` and its like.
    """
    a, dtype = _square("eigh", a)
    w, v = spectra.eigh(a, low=_reads_lower(UPLO))
    return EighResult(cast(w, real_dtype(dtype)), cast(v, dtype))


@linalg_function
def eigvalsh(a: Any, UPLO: Any = "L") -> Any:
    """The eigenvalues of Hermitian matrices, ascending; one triangle is read.

    A function that weighs equal eigenvalues unequally has no derivative there and raises
    `DomainError`; symmetric functions of them have theirs.
    """
    a, dtype = _square("eigvalsh", a)
    return cast(spectra.eigvalsh(a, low=_reads_lower(UPLO)), real_dtype(dtype))


@linalg_function
def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """The factors U, s and V^H of matrices, s descending; or s alone.

    Derivatives at equal singular values are as those of `eigh`. A function of vectors that belong
    to a singular value of zero, or complete U or V to a square, may depend on their space only.
    """
    if hermitian:
        return _hermitian(*eigh(a)) if compute_uv else descending(eigvalsh(a))
    if not compute_uv:
        return svdvals(a)
    a, dtype = _matrices("svd", a)
    u, s, vh = singular_values.svd(a, full=bool(full_matrices))
    return SVDResult(cast(u, dtype), cast(s, real_dtype(dtype)), cast(vh, dtype))


def descending(w: Any) -> Any:
    """The singular values of Hermitian matrices from their eigenvalues."""
    return shaping.flip(sorting.sort(ufuncs.apply(np.absolute, w), axis=-1), -1)


def _hermitian(w: Any, v: Any) -> Any:
    """The factors of Hermitian matrices from their eigenvalues, as NumPy finds them."""
    size = ufuncs.apply(np.absolute, w)
    order = shaping.flip(sorting.argsort(size, axis=-1), -1)
    n = typeof(w).ndim
    wide = expand_dims(order, dimensions=(n - 1,))
    s = sorting.take_along_axis(size, order, -1)
    sign = sorting.take_along_axis(ufuncs.apply(np.sign, w), order, -1)
    u = sorting.take_along_axis(v, wide, -1)
    signed = ufuncs.apply(np.multiply, u, expand_dims(sign, dimensions=(n - 1,)))
    return SVDResult(u, s, adjoint(signed))


@linalg_function
def svdvals(x: Any, /) -> Any:
    """The singular values of matrices, descending.

    A function that weighs equal ones unequally, or has a kink where one is zero, raises
    `DomainError` where that is so; `norm` and `cond` choose a generalised gradient there.
    """
    return _svdvals(x, False)


def _svdvals(x: Any, kinks: bool) -> Any:
    x, dtype = _matrices("svdvals", x)
    params = {"kinks": True} if kinks else {}
    return cast(singular_values.svdvals(x, **params), real_dtype(dtype))


def values_along(x: Any, axes: tuple[int, int]) -> Any:
    """The singular values of the matrices that lie in two axes, in a last one.

    Functions of them that have kinks have a generalised gradient there.
    """
    ndim = typeof(x).ndim
    return _svdvals(shaping.moveaxis(x, axes, (ndim - 2, ndim - 1)), True)


@linalg_function
def eig(a: Any) -> Any:
    """The eigenvalues of square matrices, and eigenvectors of norm 1 in columns.

    Both are complex: NumPy gives real ones where all imaginary parts are zero, which is a question
    of values. A tangent keeps norms 1 and the largest component of each vector real, as LAPACK
    does. At equal eigenvalues see `eigh`.
    """
    a, dtype = _finite("eig", a)
    w, v = eigenvalues.eig(a)
    return EigResult(*(cast(x, complex_dtype(dtype)) for x in (w, v)))


@linalg_function
def eigvals(a: Any) -> Any:
    """The complex eigenvalues of square matrices; see `eig`."""
    a, dtype = _finite("eigvals", a)
    return cast(eigenvalues.eigvals(a), complex_dtype(dtype))


@linalg_function
def qr(a: Any, mode: Any = "reduced") -> Any:
    """The factors Q, with orthonormal columns, and R, upper triangular; or R alone.

    Derivatives exist where R has no zero on its diagonal, else they raise `DomainError`. What
    completes Q to a square may be used as a space only.
    """
    if mode == "raw":
        raise unsupported("numpy.linalg.qr", "mode='raw' (Householder's vectors)")
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"Unrecognized mode '{mode}'")
    a, dtype = _matrices("qr", a)
    q, r = orthogonal.qr(a, complete=mode == "complete")
    return cast(r, dtype) if mode == "r" else QRResult(cast(q, dtype), cast(r, dtype))
