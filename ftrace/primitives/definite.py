"""Positive definite matrices: `cholesky`, whose values are those of numpy.linalg.

There is NaN where a matrix is not positive definite. The derivative is that of what is read, one
triangle: a symmetric tangent gives what a function of symmetric matrices would. It is made of
triangular products with the inverse of the factor: they take a fraction of the time of systems, and
the inverse of a triangle is as exact.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.lower import Gufunc
from ftrace.core.primitive import Primitive, Sample
from ftrace.primitives.arithmetic import mul
from ftrace.primitives.linear import NO_TRANSPOSE, add
from ftrace.primitives.small_systems import small
from ftrace.primitives.stacks import (
    adjoint,
    check_square,
    in_front,
    numpys_loop,
    refused_as_nan,
    square_errors,
    square_stacks,
    triangle,
)
from ftrace.primitives.triangular import triangular_inv, triangular_product


def _cholesky_type(a: ShapedArray, *, lower: bool) -> ShapedArray:
    check_square("cholesky", a)
    return aval(a.shape, a.dtype)


def _halved(x: Any) -> Any:
    """The lower triangle with half of the diagonal: x = halved + its adjoint, if x is Hermitian."""
    return mul(add(triangle(x, True), triangle(x, True, -1)), 0.5)


def _cholesky_jvp(primals: Any, tangents: Any, *, lower: bool) -> Any:
    y = cholesky(*primals, lower=lower)
    (t,), factor = tangents, y
    if not lower:
        t, factor = adjoint(t), adjoint(factor)
    half = _halved(t)
    whole = add(half, adjoint(half))
    inverse = triangular_inv(factor, lower=True)
    how = {"lower": True, "unit_diagonal": False}
    left = {"left_side": True, "transpose_a": False, "conjugate_a": False, **how}
    right = {"left_side": False, "transpose_a": True, "conjugate_a": True, **how}
    inner = triangular_product(inverse, triangular_product(inverse, whole, **left), **right)
    found = triangular_product(factor, _halved(inner), **left)
    return y, found if lower else adjoint(found)


def _cholesky_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(96)
    for i, a in enumerate(square_stacks(96)):
        definite = a @ a.conj().swapaxes(-1, -2) + np.eye(a.shape[-1], dtype=a.dtype)
        if i == 0:  # what is not read may be anything
            unread = definite + np.triu(rng.normal(size=a.shape), 1)
            yield Sample((unread,), {"lower": True})
            yield Sample((np.asfortranarray(unread.T),), {"lower": False})
        elif definite.dtype == "c16":
            yield Sample((definite.T,), {"lower": True})
            yield Sample((definite,), {"lower": False})
        else:
            yield Sample((definite,), {"lower": True})


cholesky = Primitive(
    name="cholesky",
    impl=lambda a, lower: refused_as_nan(lambda a: np.linalg.cholesky(a, upper=not lower), a),
    type=_cholesky_type,
    jvp=_cholesky_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims, **params: in_front(cholesky)(axis, values, dims, **params),
    lower=(
        small("cholesky"),
        Gufunc(
            lambda avals, lower: numpys_loop(
                avals[0], "cholesky_lo" if lower else "cholesky_up", "(m,m)->(m,m)"
            )
        ),
    ),
    samples=_cholesky_samples,
    errors=square_errors(lambda x: (), lower=True),
    doc="The triangular l with l l^H = a, or u with u^H u = a, of which one triangle is read; NaN "
    "where a is not positive definite.",
)
