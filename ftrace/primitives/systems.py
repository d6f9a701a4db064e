"""Square systems: `solve`, `inv`.

Values are those of numpy.linalg. No row raises because of a matrix's values: where NumPy refuses a
singular matrix there is NaN, and `control/rules/singular.py` tells who asks. Derivatives are
systems with the same matrix.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.lower import Gufunc, Solving
from ftrace.core.primitive import ErrorSample, Primitive, Sample
from ftrace.core.zero import ZERO
from ftrace.primitives.arithmetic import neg, sub
from ftrace.primitives.factored import lu_factors, solve_factored
from ftrace.primitives.linear import NO_TRANSPOSE
from ftrace.primitives.small_systems import small
from ftrace.primitives.stacks import (
    apart,
    beside,
    check_matrices,
    check_square,
    check_stacks,
    in_front,
    mask_of_columns,
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


def _solve_jvp(row: Callable[[], Primitive]) -> Any:
    def jvp(primals: Any, tangents: Any) -> Any:
        (a, b), (ta, tb) = primals, tangents
        x = row()(a, b)
        if ta is ZERO:
            return x, solve_again(a, tb)
        change = product(ta, x)
        return x, solve_again(a, neg(change) if tb is ZERO else sub(tb, change))

    return jvp


def _solve_transpose(ct: Any, a: Any, b: Any) -> Any:
    refuse_matrix("solve", a)
    return None, solve_again(swapped(a), ct)


def _solve_batch(row: Callable[[], Primitive]) -> Any:
    def batch(axis: Any, values: Any, dims: Any) -> Any:
        (a, b), (da, db) = values, dims
        if da is not None:
            return in_front(row())(axis, values, dims)
        found = row()(a, beside(b, db, -1))
        return apart(found, axis.size, -1, (b, db))

    return batch


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


def _solve_row(name: str, row: Callable[[], Primitive], *, leads: bool, doc: str) -> Primitive:
    return Primitive(
        name=name,
        impl=lambda a, b: refused_as_nan(np.linalg.solve, a, b),
        type=lambda a, b: system_type(name, a, b),
        jvp=_solve_jvp(row),
        transpose=_solve_transpose,
        batch=_solve_batch(row),
        mask=mask_of_columns,
        zeros=True,
        linear_in=(1,),
        lower=(
            small("solve"),
            Solving(lu_factors, solve_factored, leads),
            Gufunc(lambda avals: numpys_loop(avals[0], "solve", "(m,m),(m,n)->(m,n)")),
        ),
        samples=_solve_samples,
        errors=_solve_errors,
        doc=doc,
    )


solve = _solve_row(
    "solve",
    lambda: solve,
    leads=True,
    doc="The solution x of a x = b, for the columns of b; NaN where a is singular.",
)
solve_again = _solve_row(
    "solve_again",
    lambda: solve_again,
    leads=False,
    doc="`solve` in a derivative of one, which has the same matrix or the transposed one.",
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
