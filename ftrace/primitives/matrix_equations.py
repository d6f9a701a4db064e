"""`expm` and its derivative, and Sylvester equations: SciPy's, a matrix at a time.

The derivative of `expm` is a row of its own, linear in the direction.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import ShapeError
from ftrace.core.lazy import lazy
from ftrace.core.primitive import ErrorSample, Primitive, Sample
from ftrace.core.zero import ZERO
from ftrace.primitives.arithmetic import neg, sub
from ftrace.primitives.linear import NO_TRANSPOSE, add
from ftrace.primitives.movement import zeros
from ftrace.primitives.shape import concatenate
from ftrace.primitives.slicing import along
from ftrace.primitives.stacks import (
    check_matrices,
    check_square,
    check_stacks,
    each_matrix,
    gate_stacks,
    in_front,
    mask_of_stacks,
    matrices,
    product,
    refuse_matrix,
    square_errors,
    square_stacks,
    swapped,
)

_expm = lazy("scipy.linalg", "expm")
_expm_frechet = lazy("scipy.linalg", "expm_frechet")
_solve_sylvester = lazy("scipy.linalg", "solve_sylvester")


# ---------------------------------------------------------------------------------- expm


def _square_type(a: ShapedArray) -> ShapedArray:
    check_square("expm", a)
    return aval(a.shape, a.dtype)


def _expm_impl(a: Any) -> Any:
    return np.asarray(_expm(a), a.dtype) if a.size else np.empty(a.shape, a.dtype)


expm = Primitive(
    name="expm",
    impl=_expm_impl,
    type=_square_type,
    jvp=lambda primals, tangents: (expm(*primals), expm_frechet(*primals, *tangents)),
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims: in_front(expm)(axis, values, dims),
    gate=gate_stacks(0),
    samples=lambda: [Sample((a,), {}) for a in square_stacks(101, few=True)],
    errors=square_errors(lambda x: ()),
    doc="The exponential of matrices.",
)


def _frechet_type(a: ShapedArray, e: ShapedArray) -> ShapedArray:
    check_square("expm_frechet", a)
    check_matrices("expm_frechet", a, e)
    if a.shape != e.shape:
        raise ShapeError(f"expm_frechet was given {a} and {e}.", "They have one shape.")
    return aval(a.shape, a.dtype)


def blocks(a: Any, b: Any) -> Any:
    """The matrices ((a, b), (0, a))."""
    n = len(typeof(a).shape)
    above = concatenate(a, b, dimension=n - 1)
    below = concatenate(zeros(typeof(a)), a, dimension=n - 1)
    return concatenate(above, below, dimension=n - 2)


def _frechet_jvp(primals: Any, tangents: Any) -> Any:
    """The exponential of ((a, e), (0, a)) has the derivative in its corner: differentiate that."""
    (a, e), (ta, te) = primals, tangents
    y = expm_frechet(a, e)
    by_e = ZERO if te is ZERO else expm_frechet(a, te)
    if ta is ZERO:
        return y, by_e
    n, ndim = typeof(a).shape[-1], typeof(a).ndim
    whole = expm_frechet(blocks(a, e), blocks(ta, zeros(typeof(ta))))
    by_a = along(along(whole, ndim - 2, 0, n), ndim - 1, n, 2 * n)
    return y, by_a if by_e is ZERO else add(by_a, by_e)


def _frechet_transpose(ct: Any, a: Any, e: Any) -> Any:
    refuse_matrix("expm_frechet", a)
    return None, expm_frechet(swapped(a), ct)


def _frechet_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(102)
    for a in square_stacks(102, few=True):
        yield Sample((a, matrices(rng, *a.shape, dtype=a.dtype.str[1:])), {})


def _frechet_errors() -> Iterable[ErrorSample]:
    yield from square_errors(lambda x: (x,))()
    yield ErrorSample((np.eye(3), np.eye(2)), {}, ShapeError, "have one shape")


expm_frechet = Primitive(
    name="expm_frechet",
    impl=lambda a, e: each_matrix(lambda a, e: _expm_frechet(a, e, compute_expm=False), a, e),
    type=_frechet_type,
    jvp=_frechet_jvp,
    transpose=_frechet_transpose,
    batch=lambda axis, values, dims: in_front(expm_frechet)(axis, values, dims),
    mask=mask_of_stacks((2,), (2, 2)),
    gate=gate_stacks(0, 1),
    zeros=True,
    linear_in=(1,),
    samples=_frechet_samples,
    errors=_frechet_errors,
    doc="The derivative of the exponential of a along e.",
)


# ---------------------------------------------------------------------------------- Sylvester


def _sylvester_type(a: ShapedArray, b: ShapedArray, q: ShapedArray) -> ShapedArray:
    check_matrices("sylvester", a, b, q)
    for x in (a, b):
        check_square("sylvester", x)
        check_stacks("sylvester", x, q)
    if q.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ShapeError(
            f"sylvester was given {a}, {b} and {q}.", "q has a's number of rows, b's of columns."
        )
    return aval(q.shape, q.dtype)


def _sylvester_jvp(primals: Any, tangents: Any) -> Any:
    (a, b, q), (ta, tb, tq) = primals, tangents
    x = sylvester(a, b, q)
    change = tq
    for t in (ZERO if ta is ZERO else product(ta, x), ZERO if tb is ZERO else product(x, tb)):
        if t is not ZERO:
            change = neg(t) if change is ZERO else sub(change, t)
    return x, sylvester(a, b, change)


def _sylvester_transpose(ct: Any, a: Any, b: Any, q: Any) -> Any:
    refuse_matrix("sylvester", a)
    refuse_matrix("sylvester", b)
    return None, None, sylvester(swapped(a), swapped(b), ct)


def _sylvester_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(103)
    for i, a in enumerate(square_stacks(103, few=True)):
        dtype, n = a.dtype.str[1:], a.shape[-1] - (i == 0)
        wide = a.T if a.ndim == 2 else a
        wide = wide + 4 * np.eye(a.shape[-1], dtype=a.dtype)
        b = matrices(rng, *a.shape[:-2], n, n, dtype=dtype)
        q = matrices(rng, *a.shape[:-2], n, a.shape[-1], dtype=dtype).swapaxes(-1, -2)
        yield Sample((wide, b @ b + np.eye(n, dtype=dtype), q), {})


def _sylvester_errors() -> Iterable[ErrorSample]:
    yield from square_errors(lambda x: (x, x))()
    a = np.eye(2)
    yield ErrorSample((a, np.eye(3), a), {}, ShapeError, "a's number of rows")
    yield ErrorSample((a, a[None], a), {}, ShapeError, "of different sizes")


sylvester = Primitive(
    name="sylvester",
    impl=lambda a, b, q: each_matrix(_solve_sylvester, a, b, q),
    type=_sylvester_type,
    jvp=_sylvester_jvp,
    transpose=_sylvester_transpose,
    batch=lambda axis, values, dims: in_front(sylvester)(axis, values, dims),
    mask=mask_of_stacks((2,), (2, 2, 2)),
    gate=gate_stacks(2, units=(0, 1)),
    zeros=True,
    linear_in=(2,),
    samples=_sylvester_samples,
    errors=_sylvester_errors,
    doc="The solution x of a x + x b = q.",
)
