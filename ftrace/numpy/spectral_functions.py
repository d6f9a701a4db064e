"""Eigenvalues and singular values of numpy.linalg: `eigh`, `eigvalsh`, `svd`, `svdvals`.

Values are NumPy's to the last bit. Derivatives exist where eigenvalues lie apart, and where equal
ones are treated as one; elsewhere they raise `DomainError` when the function runs: see
decision record 039.
"""

from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.dtypes import real_dtype
from ftrace.numpy import shaping, sorting, ufuncs
from ftrace.numpy.linalg_functions import common, linalg_function
from ftrace.numpy.promote import cast
from ftrace.primitives import singular_values, spectra
from ftrace.primitives.shape import expand_dims
from ftrace.primitives.stacks import adjoint

EighResult = type(np.linalg.eigh(np.ones((1, 1))))
SVDResult = type(np.linalg.svd(np.ones((1, 1))))


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
    (a,), dtype = common(a)
    w, v = spectra.eigh(a, low=_reads_lower(UPLO))
    return EighResult(cast(w, real_dtype(dtype)), cast(v, dtype))


@linalg_function
def eigvalsh(a: Any, UPLO: Any = "L") -> Any:
    """The eigenvalues of Hermitian matrices, ascending; one triangle is read.

    The derivative of one of several equal eigenvalues is one of its generalised gradients, as that
    of `max` is; symmetric functions of them have their own.
    """
    (a,), dtype = common(a)
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
        return _hermitian(*eigh(a)) if compute_uv else _descending(eigvalsh(a))
    if not compute_uv:
        return svdvals(a)
    (a,), dtype = common(a)
    u, s, vh = singular_values.svd(a, full=bool(full_matrices))
    return SVDResult(cast(u, dtype), cast(s, real_dtype(dtype)), cast(vh, dtype))


def _descending(w: Any) -> Any:
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
    """The singular values of matrices, descending: of one of several equal ones, see `eigvalsh`."""
    (x,), dtype = common(x)
    return cast(singular_values.svdvals(x), real_dtype(dtype))


def values_along(x: Any, axes: tuple[int, int]) -> Any:
    """The singular values of the matrices that lie in two axes, in a last one."""
    ndim = typeof(x).ndim
    return svdvals(shaping.moveaxis(x, axes, (ndim - 2, ndim - 1)))
