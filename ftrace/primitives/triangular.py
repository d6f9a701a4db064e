"""Triangular matrices: `triangular_solve`, `triangular_product`, `triangular_inv`.

They are BLAS' and LAPACK's: by way of SciPy where Python evaluates them, and of loops over the
routines themselves in compiled programs (`cpu/blas_loops.py`). Only one triangle of a
matrix is read, and derivatives are those of what is read.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.lazy import lazy
from ftrace.core.lower import Cores, Gufunc, GufuncCall
from ftrace.core.primitive import ErrorSample, Linear, Primitive, Rule, Sample, Unsupported
from ftrace.core.zero import ZERO
from ftrace.primitives.arithmetic import neg, sub
from ftrace.primitives.linear import NO_TRANSPOSE, add
from ftrace.primitives.movement import outside_zero
from ftrace.primitives.stacks import (
    apart,
    beside,
    check_matrices,
    check_square,
    check_stacks,
    conjugated,
    in_front,
    mask_of_columns,
    matrices,
    product,
    refuse_matrix,
    square_errors,
    square_stacks,
    swapped,
    triangle,
)

_LETTERS = tuple(zip("fdFD", "sdcz", strict=True))
_trtri = {c: lazy("scipy.linalg.lapack", f"{n}trtri") for c, n in _LETTERS}
_trsm = {c: lazy("scipy.linalg.blas", f"{n}trsm") for c, n in _LETTERS}
_trmm = {c: lazy("scipy.linalg.blas", f"{n}trmm") for c, n in _LETTERS}


def _blas_loop(name: str, signature: str, operands: int) -> GufuncCall:
    """A loop of `cpu/blas_loops.py` over stacks of matrices, with one result."""
    given = tuple(Cores(k, (-2, -1)) for k in range(operands))
    return GufuncCall("blas", name, signature, given, (Cores(0, (-2, -1)),))


# ---------------------------------------------------------------------------------- systems


def _type(name: str) -> Rule:
    def type_rule(
        a: ShapedArray, b: ShapedArray, *, left_side: bool, **params: bool
    ) -> ShapedArray:
        check_square(name, a)
        check_matrices(name, a, b)
        check_stacks(name, a, b)
        if a.shape[-1] != b.shape[-2 if left_side else -1]:
            raise ShapeError(
                f"{name}: a matrix {a} has {a.shape[-1]} unknowns, and b is {b}.",
                f"b has a {'row' if left_side else 'column'} for each unknown.",
            )
        return aval(b.shape, b.dtype)

    return type_rule


def _impl(routines: dict[str, Callable[..., Any]]) -> Rule:
    """BLAS sees matrices by columns: the transposed of ours, on the other side."""

    def impl(a: Any, b: Any, left_side: bool, lower: bool, unit_diagonal: bool, **how: bool) -> Any:
        turned, conjugate = how["transpose_a"], how["conjugate_a"]
        if conjugate and not turned:
            a = np.conj(a)
        flags = int(left_side), int(not lower), 1 + conjugate if turned else 0, int(unit_diagonal)
        run, out = routines[a.dtype.char], np.empty(b.shape, b.dtype)
        for i in np.ndindex(b.shape[:-2]) if b.size else ():
            out[i] = run(1.0, a[i].T, b[i].T, *flags).T
        return out

    return impl


def _batch(row: Callable[[], Primitive]) -> Rule:
    def batch(axis: Any, values: Any, dims: Any, *, left_side: bool, **params: bool) -> Any:
        (a, b), (da, db) = values, dims
        if da is not None:
            return in_front(row())(axis, values, dims, left_side=left_side, **params)
        along = -1 if left_side else -2
        found = row()(a, beside(b, db, along), left_side=left_side, **params)
        return apart(found, axis.size, along, (b, db))

    return batch


def _loop(routine: str) -> Gufunc:
    """BLAS' routine; it does not conjugate without transposing."""

    def call(
        avals: Any, *, left_side: bool, lower: bool, unit_diagonal: bool, **how: bool
    ) -> GufuncCall | None:
        turned, conjugate = how["transpose_a"], how["conjugate_a"]
        if conjugate and not turned and avals[0].dtype.kind == "c":
            return None
        operation = "N" if not turned else "C" if conjugate else "T"
        code = f"{'RL'[left_side]}{'UL'[lower]}{operation}{'NU'[unit_diagonal]}"
        core = "(n,k)" if left_side else "(k,n)"
        return _blas_loop(f"{routine}:{code}", f"(n,n),{core}->{core}", 2)

    return Gufunc(call)


def _jvp(primals: Any, tangents: Any, **params: bool) -> Any:
    (a, b), (ta, tb) = primals, tangents
    x = triangular_solve(a, b, **params)
    if ta is ZERO:
        return x, triangular_solve(a, tb, **params)
    change = _moved(ta, x, **params)
    change = neg(change) if tb is ZERO else sub(tb, change)
    return x, triangular_solve(a, change, **params)


def _moved(t: Any, b: Any, *, lower: bool, unit_diagonal: bool, **params: bool) -> Any:
    """The product with a tangent of a triangular matrix: that of a unit diagonal is zero."""
    if unit_diagonal:
        t = triangle(t, lower, -1 if lower else 1)
    return triangular_product(t, b, lower=lower, unit_diagonal=False, **params)


def _transpose(ct: Any, a: Any, b: Any, *, transpose_a: bool, **params: bool) -> Any:
    refuse_matrix("triangular_solve", a)
    return None, triangular_solve(a, ct, transpose_a=not transpose_a, **params)


def _samples(seed: int) -> Iterable[Sample]:
    rng = np.random.default_rng(seed)
    flags = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    codes = ("10000", "11001", "01100", "00111", "11100", "01010", "10110", "11010", "01100")
    more = (matrices(rng, 2, 2, dtype="c16"), matrices(rng, 3, 3))
    for i, (a, code) in enumerate(zip((*square_stacks(seed), *more), codes, strict=True)):
        a = a + 4 * np.eye(a.shape[-1], dtype=a.dtype)
        left = code[0] == "1"
        shape = (*a.shape[:-1], 2) if left else (*a.shape[:-2], 2, a.shape[-1])
        b = matrices(rng, *shape, dtype=a.dtype.str[1:])
        params = {f: c == "1" for f, c in zip(flags, code, strict=True)}
        yield Sample((a, b[..., ::-1] if i else b), params)


_PLAIN = {"lower": True, "transpose_a": False, "conjugate_a": False, "unit_diagonal": False}


def _errors() -> Iterable[ErrorSample]:
    yield from square_errors(lambda x: (x,), left_side=True, **_PLAIN)()
    a = np.eye(3)
    for left, shape in ((True, (2, 3)), (False, (3, 2))):
        params = {"left_side": left, **_PLAIN}
        yield ErrorSample((a, np.ones(shape)), params, ShapeError, "has 3 unknowns")
    yield ErrorSample((a, np.ones((2, 3, 3))), params, ShapeError, "of different sizes")
    yield ErrorSample((a, np.ones((3, 3), "f4")), params, DtypeError, "do not promote")


triangular_solve = Primitive(
    name="triangular_solve",
    impl=_impl(_trsm),
    type=_type("triangular_solve"),
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch(lambda: triangular_solve),
    mask=mask_of_columns,
    zeros=True,
    linear_in=(1,),
    lower=_loop("trsm"),
    samples=lambda: _samples(97),
    errors=_errors,
    doc="The solution x of op(a) x = b, or of x op(a) = b, where one triangle of a is read.",
)


# ---------------------------------------------------------------------------------- products


def _product_jvp(primals: Any, tangents: Any, **params: bool) -> Any:
    (a, b), (ta, tb) = primals, tangents
    y = triangular_product(a, b, **params)
    by_a = ZERO if ta is ZERO else _moved(ta, b, **params)
    by_b = ZERO if tb is ZERO else triangular_product(a, tb, **params)
    return y, by_b if by_a is ZERO else by_a if by_b is ZERO else add(by_a, by_b)


def _product_transpose(
    ct: Any, a: Any, b: Any, *, transpose_a: bool, unit_diagonal: bool, **params: bool
) -> Any:
    if type(a) is not Linear:
        how = {"transpose_a": not transpose_a, "unit_diagonal": unit_diagonal, **params}
        return None, triangular_product(a, ct, **how)
    if type(b) is Linear or unit_diagonal:
        return Unsupported("triangular_product is not linear in all of its matrix.")()
    found = product(ct, swapped(b)) if params["left_side"] else product(swapped(b), ct)
    found = swapped(found) if transpose_a else found
    found = conjugated(found) if params["conjugate_a"] else found
    return triangle(found, params["lower"]), None


def _product_clear(mask: Any, a: Any, b: Any, *, left_side: bool, **params: bool) -> Any:
    """The cotangent of the matrix sums over the columns, or rows, of b."""
    if type(a) is not Linear:
        return a, b
    _, met = mask_of_columns(mask, None, Linear(typeof(b)), left_side=left_side)
    return a, outside_zero(met, b)


def _product_samples() -> Iterable[Sample]:
    """Without unit diagonals, in which the row is not linear in its matrix."""
    for sample in _samples(100):
        yield Sample(sample.args, {**sample.params, "unit_diagonal": False})


triangular_product = Primitive(
    name="triangular_product",
    impl=_impl(_trmm),
    type=_type("triangular_product"),
    jvp=_product_jvp,
    transpose=_product_transpose,
    batch=_batch(lambda: triangular_product),
    mask=mask_of_columns,
    clear=_product_clear,
    zeros=True,
    linear_in=(0, 1),
    bilinear=True,
    lower=_loop("trmm"),
    samples=_product_samples,
    errors=_errors,
    doc="The product op(a) b, or b op(a), where one triangle of a is read.",
)


# ---------------------------------------------------------------------------------- inverses


def _inverse_impl(a: Any, lower: bool) -> Any:
    """LAPACK sees the transposed matrix; it leaves the other triangle as it is."""
    out = np.empty(a.shape, a.dtype)
    for i in np.ndindex(a.shape[:-2]) if a.size else ():
        found, info = _trtri[a.dtype.char](a[i].T, lower=not lower)
        out[i] = np.nan if info else np.tril(found.T) if lower else np.triu(found.T)
    return out


def _inverse_type(a: ShapedArray, *, lower: bool) -> ShapedArray:
    check_square("triangular_inv", a)
    return aval(a.shape, a.dtype)


def _inverse_jvp(primals: Any, tangents: Any, *, lower: bool) -> Any:
    y = triangular_inv(*primals, lower=lower)
    return y, neg(product(product(y, triangle(tangents[0], lower)), y))


def _inverse_samples() -> Iterable[Sample]:
    for i, a in enumerate(square_stacks(99, few=True)):
        a = a + 4 * np.eye(a.shape[-1], dtype=a.dtype)
        yield Sample((a if i else np.asfortranarray(a),), {"lower": i % 2 == 0})


triangular_inv = Primitive(
    name="triangular_inv",
    impl=_inverse_impl,
    type=_inverse_type,
    jvp=_inverse_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims, **params: in_front(triangular_inv)(
        axis, values, dims, **params
    ),
    lower=Gufunc(
        lambda avals, lower: _blas_loop(f"trtri:{'L' if lower else 'U'}", "(n,n)->(n,n)", 1)
    ),
    samples=_inverse_samples,
    errors=square_errors(lambda x: (), lower=True),
    doc="The inverse of a triangular matrix, of which one triangle is read; NaN where it has none.",
)
