"""Linear equations of numpy.linalg: `solve`, `inv`, determinants, `cholesky`, tensor equations.

Values are NumPy's to the last bit. A matrix that NumPy refuses is refused here when the function
runs, compiled or not, with `numpy.linalg.LinAlgError`.
"""

from math import prod
from typing import Any

import numpy as np

from ftrace.control.rules.singular import is_singular
from ftrace.core.avals import typeof
from ftrace.core.errors import MatrixError
from ftrace.numpy import shaping
from ftrace.numpy.linalg_functions import common, linalg_function
from ftrace.numpy.promote import broadcast_shape, cast, static_int, stretch
from ftrace.numpy.refusing import refuse
from ftrace.primitives import determinants, systems
from ftrace.primitives.arithmetic import real
from ftrace.primitives.compare import bitwise_and, bitwise_not, isnan
from ftrace.primitives.definite import cholesky as cholesky_row
from ftrace.primitives.shape import expand_dims, reshape
from ftrace.primitives.stacks import check_matrices, check_square, first_element

SINGULAR = "Singular matrix"
NOT_DEFINITE = "Matrix is not positive definite"
SlogdetResult = type(np.linalg.slogdet(np.ones((1, 1))))


def stacked(a: Any, b: Any) -> list[Any]:
    """Two stacks of matrices, broadcast to one number of them."""
    shapes = [typeof(x).shape for x in (a, b)]
    batch = broadcast_shape(*(s[:-2] for s in shapes))
    return [stretch(x, (*batch, *s[-2:])) for x, s in zip((a, b), shapes, strict=True)]


def solved(a: Any, b: Any) -> Any:
    """The solutions of systems with matrices of columns, of one dtype.

    Raises:
        LinAlgError: a matrix is singular; when the function runs.
    """
    a, b = stacked(a, b)
    x = systems.solve(a, b)
    refuse(is_singular(a, x), np.linalg.LinAlgError, SINGULAR)
    return x


def inverted(a: Any) -> Any:
    """The inverses of matrices.

    Raises:
        LinAlgError: a matrix is singular; when the function runs.
    """
    check_square("inv", typeof(a))
    x = systems.inv(a)
    refuse(is_singular(a, x), np.linalg.LinAlgError, SINGULAR)
    return x


def factored(a: Any, lower: bool) -> Any:
    """The Cholesky factors of matrices, of which one triangle is read.

    Raises:
        LinAlgError: a matrix is not positive definite; when the function runs.
    """
    x = cholesky_row(a, lower=lower)
    if typeof(x).shape[-1]:
        refused = bitwise_and(isnan(_corner(x)), bitwise_not(isnan(_corner(a))))
        refuse(refused, np.linalg.LinAlgError, NOT_DEFINITE)
    return x


def _corner(x: Any) -> Any:
    """The first element of matrices, its real part: NaN in a factor where there is none."""
    found = first_element(x)
    return real(found) if typeof(x).dtype.kind == "c" else found


# ---------------------------------------------------------------------------------- functions


@linalg_function
def solve(a: Any, b: Any) -> Any:
    """The solution x of the systems a x = b: of columns, or of one vector where b has one axis."""
    (a, b), dtype = common(a, b)
    check_square("solve", typeof(a))
    if typeof(b).ndim != 1:
        check_matrices("solve", typeof(b))
        return cast(solved(a, b), dtype)
    x = solved(a, expand_dims(b, dimensions=(1,)))
    return cast(reshape(x, new_sizes=typeof(x).shape[:-1]), dtype)


@linalg_function
def inv(a: Any) -> Any:
    """The inverse of square matrices."""
    (a,), dtype = common(a)
    return cast(inverted(a), dtype)


@linalg_function
def det(a: Any) -> Any:
    """The determinant of square matrices; its derivative is finite where they are singular."""
    (a,), dtype = common(a)
    check_square("det", typeof(a))
    return cast(determinants.det(a), dtype)


@linalg_function
def slogdet(a: Any) -> Any:
    """The sign (or phase) and the logarithm of the absolute value of the determinant."""
    (a,), dtype = common(a)
    check_square("slogdet", typeof(a))
    sign, size = determinants.slogdet(a)
    return SlogdetResult(cast(sign, dtype), cast(size, np.dtype(dtype.char.lower())))


@linalg_function
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """The triangular factor of positive definite matrices.

    One triangle of them is read, the lower one unless `upper`, and the derivative is that of what
    is read: zero for the other triangle.
    """
    (a,), dtype = common(a)
    return cast(factored(a, not upper), dtype)


@linalg_function
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """The tensor x with tensordot(a, x, x.ndim) = b."""
    (a, b), dtype = common(a, b)
    ndim, shape = typeof(a).ndim, typeof(b).shape
    if axes is not None:
        last = [static_int(k, "an axis") for k in axes]
        order = [k for k in range(ndim) if k not in last]
        a = shaping.transpose(a, (*order, *last))
    of_x = typeof(a).shape[len(shape) :]
    size = prod(of_x)
    if typeof(a).size != size**2:
        raise MatrixError(
            f"tensorsolve was given a of shape {typeof(a).shape} and b of shape {shape}.",
            "Input arrays must satisfy prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim]).",
        )
    square, column = reshape(a, new_sizes=(size, size)), reshape(b, new_sizes=(size, 1))
    return cast(reshape(solved(square, column), new_sizes=of_x), dtype)


@linalg_function
def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of a as a map by tensordot from its axes before `ind` to the others."""
    (a,), dtype = common(a)
    ind, shape = static_int(ind, "ind"), typeof(a).shape
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    first, last = shape[:ind], shape[ind:]
    square = reshape(a, new_sizes=(prod(last), typeof(a).size // max(prod(last), 1)))
    return cast(reshape(inverted(square), new_sizes=(*last, *first)), dtype)
