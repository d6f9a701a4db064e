"""Determinants: `det`, `slogdet`, and the cofactors that are the slope of `det`.

Values are those of numpy.linalg. First and second derivatives of `det` need no inverse, so that
they are right at singular matrices, too, and near them; third ones, which do, are refused there.
"""

from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import DomainError, ShapeError
from ftrace.core.lower import Gufunc
from ftrace.core.primitive import ErrorSample, Linear, Primitive, Sample, Unsupported
from ftrace.core.zero import ZERO
from ftrace.primitives.arithmetic import complex as join_parts
from ftrace.primitives.arithmetic import imag, mul, real, sub
from ftrace.primitives.diagonals import epsilon
from ftrace.primitives.linear import NO_TRANSPOSE, add, broadcast_in_dim, reduce_sum
from ftrace.primitives.movement import zeros
from ftrace.primitives.small_systems import small
from ftrace.primitives.stacks import (
    check_matrices,
    check_square,
    gate_stacks,
    in_front,
    mask_of_stacks,
    matrices,
    numpys_loop,
    product,
    refused_as_nan,
    square_errors,
    square_stacks,
    swapped,
)
from ftrace.primitives.systems import inv

# ---------------------------------------------------------------------------------- det


def _samples(seed: int) -> Any:
    return lambda: [Sample((a,), {}) for a in square_stacks(seed)]


def _same_type(a: ShapedArray) -> ShapedArray:
    check_square("cofactor", a)
    return aval(a.shape, a.dtype)


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
    samples=_samples(93),
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
    return cofactor(*primals), cofactor_slope(*primals, *tangents)


cofactor = Primitive(
    name="cofactor",
    impl=_cofactor_impl,
    type=_same_type,
    jvp=_cofactor_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims: in_front(cofactor)(axis, values, dims),
    lower=small("cofactor"),
    samples=_samples(94),
    errors=square_errors(lambda x: ()),
    doc="The derivative of the determinant by each element: signed minors.",
)


def _beside_type(name: str) -> Any:
    def type_rule(a: ShapedArray, b: ShapedArray) -> ShapedArray:
        check_square(name, a)
        check_matrices(name, a, b)
        if a.shape != b.shape:
            raise ShapeError(f"{name} was given {a} and {b}.", "There is one for each element.")
        return aval(a.shape, a.dtype)

    return type_rule


def slope_of_cofactors(xp: Any, a: Any, t: Any) -> Any:
    """By singular values, without division: of two rows and columns a minor loses two values.

    Args:
        xp: NumPy, or CuPy, whose arrays a and t are.
        a, t: matrices, and their tangents.
    """
    lost = ~xp.isfinite(a).all(axis=(-2, -1), keepdims=True)
    a = xp.where(lost, a.dtype.type(0), a)
    u, s, v = map(xp.asarray, xp.linalg.svd(a))
    unit = (xp.linalg.det(u) * xp.linalg.det(v))[..., None, None]
    m = xp.matmul(xp.matmul(xp.swapaxes(u, -1, -2).conj(), t), xp.swapaxes(v, -1, -2).conj())
    others = _products_of_others(xp, s)
    on = xp.matmul(others.astype(m.dtype), xp.diagonal(m, axis1=-2, axis2=-1)[..., None])
    diagonal = xp.eye(a.shape[-1], dtype=np.bool_)
    found = xp.where(diagonal, on, -others * xp.swapaxes(m, -1, -2))
    found = unit * xp.matmul(xp.matmul(u.conj(), found), v.conj())
    return xp.where(lost, a.dtype.type(np.nan), found)


def _products_of_others(xp: Any, s: Any) -> Any:
    """The product of all values but i and j at row i and column j; 0 on the diagonal.

    Of the values between i and j it is a running product from i on.
    """
    one = xp.ones_like(s[..., :1])
    before = xp.cumprod(xp.concatenate([one, s[..., :-1]], axis=-1), axis=-1)
    after = xp.cumprod(xp.concatenate([one, s[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    square = xp.ones_like(s[..., None, :] * s[..., :, None])
    later = xp.triu(square, 1) == 1  # j > i
    running = xp.cumprod(xp.where(later, s[..., None, :], square), axis=-1)
    between = xp.concatenate([square[..., :1], running[..., :-1]], axis=-1)
    found = before[..., :, None] * between * after[..., None, :]
    upper = xp.where(later, found, xp.zeros_like(found))
    return upper + xp.swapaxes(upper, -1, -2)


def _slope_jvp(primals: Any, tangents: Any) -> Any:
    (a, t), (ta, tt) = primals, tangents
    y, terms = cofactor_slope(a, t), []
    if tt is not ZERO:
        terms.append(cofactor_slope(a, tt))
    if ta is not ZERO and typeof(a).shape[-1] > 2:  # else there is no third derivative
        terms.append(_bent(a, t, moved_beside(ta, a)))
    return y, reduce(add, terms) if terms else ZERO


def _bent(a: Any, t: Any, ta: Any) -> Any:
    """The change of `cofactor_slope(a, t)` with a, by the inverse."""
    inverse, y, dy = inv(a), cofactor(a), cofactor_slope(a, ta)
    n = len(typeof(a).shape)

    def spread(x: Any) -> Any:
        shape = typeof(a).shape
        return broadcast_in_dim(x, shape=shape, broadcast_dimensions=tuple(range(n - 2)))

    left, right = product(t, inverse), product(ta, inverse)
    whole, crossed = spread(_dotted(swapped(inverse), t)), spread(_dotted(swapped(left), right))
    first = sub(mul(whole, dy), mul(crossed, y))
    turned = product(swapped(product(left, right)), y)
    return add(first, sub(turned, product(swapped(left), dy)))


def _slope_transpose(ct: Any, a: Any, t: Any) -> Any:
    if type(a) is Linear:
        return Unsupported("cofactor_slope is linear in the second operand only.")()
    return [None, cofactor_slope(a, ct)]


def _slope_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(97)
    for a in square_stacks(97):
        yield Sample((a, matrices(rng, *a.shape, dtype=a.dtype.str[1:])), {})


def _slope_errors() -> Iterable[ErrorSample]:
    yield from square_errors(lambda x: (x,))()
    yield ErrorSample((np.eye(3), np.eye(2)), {}, ShapeError, "one for each element")


cofactor_slope = Primitive(
    name="cofactor_slope",
    impl=lambda a, t: slope_of_cofactors(np, a, t) if a.size else t.copy(),
    type=_beside_type("cofactor_slope"),
    jvp=_slope_jvp,
    transpose=_slope_transpose,
    batch=lambda *args, **params: in_front(cofactor_slope)(*args, **params),
    mask=mask_of_stacks((2,), (2, 2)),
    zeros=True,
    linear_in=(1,),
    samples=_slope_samples,
    errors=_slope_errors,
    doc="The change of cofactors with the elements of a matrix, singular ones, too.",
)


def _moved_impl(t: Any, a: Any) -> Any:
    if t.size:
        _check_invertible(t, a)
    return t.copy()


def _check_invertible(t: Any, a: Any) -> None:
    """Raise if a matrix that is all but singular moves, or is asked to."""
    moved = (t != 0).any(axis=(-2, -1)) & np.isfinite(a).all(axis=(-2, -1))
    if not moved.any():
        return
    s = np.linalg.svd(np.where(moved[..., None, None], a, a.dtype.type(0)), compute_uv=False)
    bad = moved & (s[..., -1] <= epsilon(a.dtype) ** (1 / 3) * s[..., 0])
    if bad.any():
        *member, _ = (*(int(k) for k in np.argwhere(bad)[0]), 0)
        of = f" {tuple(member)}" if member else ""
        raise DomainError(
            f"The third derivative of det was asked for at a matrix{of} that is singular, or all "
            "but singular: it is computed by the inverse.",
            "First and second derivatives are exact there; write small determinants out as sums "
            "of products.",
        )


def _moved_jvp(primals: Any, tangents: Any) -> Any:
    (t, a), (tt, _) = primals, tangents
    return moved_beside(t, a), ZERO if tt is ZERO else moved_beside(tt, a)


def _moved_transpose(ct: Any, t: Any, a: Any) -> Any:
    if type(a) is Linear:
        return Unsupported("moved_beside is linear in the first operand only.")()
    return [moved_beside(ct, a), None]


moved_beside = Primitive(
    name="moved_beside",
    impl=_moved_impl,
    type=_beside_type("moved_beside"),
    jvp=_moved_jvp,
    transpose=_moved_transpose,
    batch=lambda *args, **params: in_front(moved_beside)(*args, **params),
    mask=mask_of_stacks((2,), (2, 2)),
    gate=gate_stacks(0),
    zeros=True,
    linear_in=(0,),
    samples=_slope_samples,
    errors=_slope_errors,
    doc="Tangents and cotangents as they are; they must be zero at matrices that are "
    "all but singular.",
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
    samples=_samples(95),
    errors=square_errors(lambda x: ()),
    doc="The determinant as its sign, or phase, and the logarithm of its size.",
)
