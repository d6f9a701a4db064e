"""Square systems: `solve`, `inv`, `det`, `slogdet` and the cofactors that are the slope of `det`.

Values are those of numpy.linalg. No row raises because of a matrix's values: where NumPy refuses a
singular matrix there is NaN, and `control/rules/singular.py` tells who asks. Derivatives are
systems with the same matrix. That of a determinant is finite at singular matrices, too: the
cofactors need no inverse.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.lower import Gufunc
from ftrace.core.primitive import ErrorSample, Primitive, Sample
from ftrace.core.zero import ZERO
from ftrace.primitives.arithmetic import complex as join_parts
from ftrace.primitives.arithmetic import imag, mul, neg, real, sub
from ftrace.primitives.linear import NO_TRANSPOSE, broadcast_in_dim, reduce_sum
from ftrace.primitives.movement import zeros
from ftrace.primitives.small_systems import small
from ftrace.primitives.stacks import (
    apart,
    beside,
    check_matrices,
    check_square,
    check_stacks,
    in_front,
    matrices,
    numpys_loop,
    product,
    refuse_matrix,
    refused_as_nan,
    square_errors,
    square_stacks,
    swapped,
)


def _same_type(name: str) -> Any:
    def type_rule(a: ShapedArray) -> ShapedArray:
        check_square(name, a)
        return aval(a.shape, a.dtype)

    return type_rule


def _square_samples(seed: int) -> Any:
    return lambda: [Sample((a,), {}) for a in square_stacks(seed)]


# ---------------------------------------------------------------------------------- solve


def system_type(name: str, a: ShapedArray, b: ShapedArray) -> ShapedArray:
    """The type of the solution of a square system with the columns of b.

    Raises:
        MatrixError, ShapeError, DtypeError: the operands do not fit.
    """
    check_square(name, a)
    check_matrices(name, a, b)
    check_stacks(name, a, b)
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"{name}: a matrix {a} has {a.shape[-1]} unknowns, and the right-hand side is {b}.",
            "b has a row for each unknown.",
        )
    return aval(b.shape, b.dtype)


def _solve_jvp(primals: Any, tangents: Any) -> Any:
    (a, b), (ta, tb) = primals, tangents
    x = solve(a, b)
    if ta is ZERO:
        return x, solve(a, tb)
    change = product(ta, x)
    return x, solve(a, neg(change) if tb is ZERO else sub(tb, change))


def _solve_transpose(ct: Any, a: Any, b: Any) -> Any:
    refuse_matrix("solve", a)
    return None, solve(swapped(a), ct)


def _solve_batch(axis: Any, values: Any, dims: Any) -> Any:
    (a, b), (da, db) = values, dims
    if da is not None:
        return in_front(solve)(axis, values, dims)
    found = solve(a, beside(b, db, -1))
    return apart(found, axis.size, -1, (b, db))


def _solve_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(91)
    for a in square_stacks(91):
        yield Sample((a, matrices(rng, *a.shape[:-1], 2, dtype=a.dtype.str[1:])), {})


def _solve_errors() -> Iterable[ErrorSample]:
    yield from square_errors(lambda x: (x,))()
    a = np.eye(3)
    yield ErrorSample((a, np.ones((2, 1))), {}, ShapeError, "has 3 unknowns")
    yield ErrorSample((a, np.ones((2, 3, 1))), {}, ShapeError, "of different sizes")
    yield ErrorSample((a, np.ones((3, 1), "f4")), {}, DtypeError, "do not promote")


solve = Primitive(
    name="solve",
    impl=lambda a, b: refused_as_nan(np.linalg.solve, a, b),
    type=lambda a, b: system_type("solve", a, b),
    jvp=_solve_jvp,
    transpose=_solve_transpose,
    batch=_solve_batch,
    zeros=True,
    linear_in=(1,),
    lower=(
        small("solve"),
        Gufunc(lambda avals: numpys_loop(avals[0], "solve", "(m,m),(m,n)->(m,n)")),
    ),
    samples=_solve_samples,
    errors=_solve_errors,
    doc="The solution x of a x = b, for the columns of b; NaN where a is singular.",
)


# ---------------------------------------------------------------------------------- inverse


def _inv_jvp(primals: Any, tangents: Any) -> Any:
    y = inv(*primals)
    return y, neg(product(product(y, tangents[0]), y))


inv = Primitive(
    name="inv",
    impl=lambda a: refused_as_nan(np.linalg.inv, a),
    type=_same_type("inv"),
    jvp=_inv_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims: in_front(inv)(axis, values, dims),
    lower=(
        small("inv"),
        Gufunc(lambda avals: numpys_loop(avals[0], "inv", "(m,m)->(m,m)")),
    ),
    samples=_square_samples(92),
    errors=square_errors(lambda x: ()),
    doc="The inverse; NaN where a is singular.",
)


# ---------------------------------------------------------------------------------- determinants


def _dotted(a: Any, b: Any) -> Any:
    """The sum of the products of the elements of two matrices."""
    n = len(typeof(a).shape)
    return reduce_sum(mul(a, b), axes=(n - 2, n - 1))


def _det_type(a: ShapedArray) -> ShapedArray:
    check_square("det", a)
    return aval(a.shape[:-2], a.dtype)


def _det_jvp(primals: Any, tangents: Any) -> Any:
    return det(*primals), _dotted(cofactor(*primals), tangents[0])


det = Primitive(
    name="det",
    impl=np.linalg.det,
    type=_det_type,
    jvp=_det_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims: in_front(det)(axis, values, dims),
    lower=(
        small("det", matrices=0),
        Gufunc(lambda avals: numpys_loop(avals[0], "det", "(m,m)->()")),
    ),
    samples=_square_samples(93),
    errors=square_errors(lambda x: ()),
    doc="The determinant.",
)


def _cofactor_impl(a: Any) -> Any:
    """det(a) inv(a)^T, whose errors cancel as both are of one factorisation; else by SVD."""
    inverse = refused_as_nan(np.linalg.inv, a)
    with np.errstate(all="ignore"):
        found = np.linalg.det(a)[..., None, None] * np.swapaxes(inverse, -1, -2)
    bad = ~np.isfinite(found).all(axis=(-2, -1)) & np.isfinite(a).all(axis=(-2, -1))
    if bad.any():
        found[bad] = _cofactors(a[bad])
    return found.astype(a.dtype, copy=False)


def _cofactors(a: Any) -> Any:
    """Cofactors of any matrices: a = u s v has those of u and v, and products of others' s."""
    u, s, v = np.linalg.svd(a)
    unit = np.linalg.det(u) * np.linalg.det(v)
    n = a.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(axis=-1)
    return (unit[..., None] * others)[..., None, :] * u.conj() @ v.conj()


def _cofactor_jvp(primals: Any, tangents: Any) -> Any:
    (a,), (t,) = primals, tangents
    y, inverse = cofactor(a), inv(a)
    n = len(typeof(a).shape)
    whole = _dotted(swapped(inverse), t)
    spread = broadcast_in_dim(
        whole, shape=typeof(a).shape, broadcast_dimensions=tuple(range(n - 2))
    )
    turned = product(swapped(product(t, inverse)), y)
    return y, sub(mul(spread, y), turned)


cofactor = Primitive(
    name="cofactor",
    impl=_cofactor_impl,
    type=_same_type("cofactor"),
    jvp=_cofactor_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims: in_front(cofactor)(axis, values, dims),
    lower=small("cofactor"),
    samples=_square_samples(94),
    errors=square_errors(lambda x: ()),
    doc="The derivative of the determinant by each element: signed minors.",
)


def _slogdet_type(a: ShapedArray) -> tuple[ShapedArray, ShapedArray]:
    check_square("slogdet", a)
    return aval(a.shape[:-2], a.dtype), aval(a.shape[:-2], np.dtype(a.dtype.char.lower()))


def _slogdet_jvp(primals: Any, tangents: Any) -> Any:
    (a,), (t,) = primals, tangents
    sign, size = slogdet(a)
    rate = _dotted(swapped(inv(a)), t)
    if typeof(a).dtype.kind == "f":
        return [sign, size], [ZERO, rate]
    turn = imag(rate)
    turned = mul(sign, join_parts(zeros(typeof(turn)), turn))
    return [sign, size], [turned, real(rate)]


slogdet = Primitive(
    name="slogdet",
    impl=lambda a: list(np.linalg.slogdet(a)),
    type=_slogdet_type,
    jvp=_slogdet_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims: in_front(slogdet)(axis, values, dims),
    multiple=True,
    lower=(
        small("slogdet", matrices=0),
        Gufunc(lambda avals: numpys_loop(avals[0], "slogdet", "(m,m)->(),()")),
    ),
    samples=_square_samples(95),
    errors=square_errors(lambda x: ()),
    doc="The determinant as its sign, or phase, and the logarithm of its size.",
)
