"""What rows of linear algebra share: matrices lie in the last two axes, stacks of them in front.

Helpers for rules are made of rows (`product`, `adjoint`, `triangle`); `refused_as_nan` evaluates a
function of NumPy's which raises where one matrix of a stack is refused. No rows here.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import reduce
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import DtypeError, MatrixError, ShapeError
from ftrace.core.jaxpr import Eqn, Literal, Var
from ftrace.core.lower import Cores, GufuncCall
from ftrace.core.primitive import ErrorSample, Linear, Rule, Unsupported
from ftrace.primitives.arithmetic import conj
from ftrace.primitives.compare import bitwise_or, eq, ge, select
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.create import iota
from ftrace.primitives.dot import dot_general
from ftrace.primitives.linear import add, broadcast_in_dim, check_kinds, move_axis, transpose
from ftrace.primitives.movement import Ints, place
from ftrace.primitives.reduce import reduce_or
from ftrace.primitives.shape import reshape
from ftrace.primitives.slicing import slice

# ---------------------------------------------------------------------------------- types


def check_matrices(name: str, *avals: ShapedArray) -> None:
    """Raise unless operands are stacks of matrices in a precision that LAPACK has.

    Raises:
        MatrixError: fewer than two axes.
        DtypeError: another kind of numbers, half precision, or unequal dtypes.
    """
    first = avals[0]
    for a in avals:
        check_kinds(name, "fc", a)
        if a.dtype == np.float16:
            raise DtypeError(
                f"{name} is not defined for float16 operands.", "Use float32: x.astype('f4')."
            )
        if a.ndim < 2:
            raise MatrixError(
                f"{name} was given {a}, and matrices have two axes.",
                "Make a vector a matrix with one column: x[:, None].",
            )
        if a.dtype != first.dtype:
            raise DtypeError(
                f"{name} was given {first.dtype} and {a.dtype}.", "Primitives do not promote."
            )


def check_square(name: str, a: ShapedArray) -> None:
    """Raise unless an operand is a stack of square matrices.

    Raises:
        DtypeError: see `check_matrices`.
        MatrixError: fewer than two axes, or the last two are not equal.
    """
    check_matrices(name, a)
    if a.shape[-1] != a.shape[-2]:
        raise MatrixError(
            f"{name} was given {a}: the last 2 dimensions of the array must be square.",
            "Only square matrices have it.",
        )


def check_stacks(name: str, a: ShapedArray, b: ShapedArray) -> None:
    """Raise `ShapeError` unless two operands have the same axes before the last two."""
    if a.shape[:-2] != b.shape[:-2]:
        raise ShapeError(
            f"{name} was given stacks {a} and {b} of different sizes.",
            "Primitives do not broadcast.",
        )


# ---------------------------------------------------------------------------------- rules


def swapped(x: Any) -> Any:
    """The matrices transposed."""
    n = len(typeof(x).shape)
    return transpose(x, permutation=(*range(n - 2), n - 1, n - 2))


def conjugated(x: Any) -> Any:
    """The conjugate; what is real as it is."""
    return conj(x) if typeof(x).dtype.kind == "c" else x


def adjoint(x: Any) -> Any:
    """The matrices transposed and conjugated."""
    return swapped(conjugated(x))


def product(a: Any, b: Any) -> Any:
    """The matrix products of two stacks."""
    n = len(typeof(a).shape) - 2
    batch = tuple(range(n))
    return dot_general(a, b, dimension_numbers=(((n + 1,), (n,)), (batch, batch)))


def triangle(x: Any, lower: bool, k: int = 0) -> Any:
    """The matrices with zeros outside of a triangle: where j - i <= k, or >= k."""
    shape = typeof(x).shape
    rows = iota(dtype=dtypes.int64, shape=shape[-2:], dimension=0)
    columns = iota(dtype=dtypes.int64, shape=shape[-2:], dimension=1)
    shifted = add(rows, k) if k else rows
    kept = ge(shifted, columns) if lower else ge(columns, shifted)
    n = len(shape)
    if n > 2:
        kept = broadcast_in_dim(kept, shape=shape, broadcast_dimensions=(n - 2, n - 1))
    return select(kept, x, typeof(x).dtype.type(0))


def numpys_loop(a: ShapedArray, name: str, signature: str) -> GufuncCall | None:
    """A loop of numpy.linalg as what computes a row of matrices.

    Args:
        a: the type of the first operand; NumPy's functions, and so `impl`, convert single
            precision to double and back.
        name, signature: of the gufunc, whose operands and results are matrices, or numbers: ().
    """
    if a.dtype.char not in "dD":
        return None
    given, made = (
        tuple(Cores(k, (-2, -1) if core else ()) for k, core in enumerate(side[1:-1].split("),(")))
        for side in signature.split("->")
    )
    return GufuncCall("numpy.linalg._umath_linalg", name, signature, given, made)


def refuse_matrix(name: str, a: Any) -> None:
    """In a transpose rule of a system: only the right-hand side has a cotangent.

    Raises:
        RuleError: the matrix is what it is asked for.
    """
    if type(a) is Linear:
        Unsupported(f"{name} is not linear in its matrix.")()


def first_element(x: Any) -> Any:
    """The element of matrices in the first row and column."""
    shape = typeof(x).shape
    n = len(shape)
    limits = (*shape[:-2], 1, 1)
    found = slice(x, start_indices=(0,) * n, limit_indices=limits, strides=(1,) * n)
    return reshape(found, new_sizes=shape[:-2])


def in_front(row: Rule) -> Rule:
    """The `batch` of a row whose operands are stacks: the mapped axis is one more in front."""

    def batch(axis: Any, values: Any, dims: Any, **params: Any) -> Any:
        placed = [place(axis, v, d, 0) for v, d in zip(values, dims, strict=True)]
        found = row(*placed, **params)
        return (found, [0] * len(found)) if type(found) in (list, tuple) else (found, 0)

    return batch


def mask_of_stacks(results: Ints, operands: Ints) -> Rule:
    """The `mask` of a row of stacks: a matrix of an operand meets the result for the same one.

    Args:
        results, operands: how many axes one of each has, 2 for a matrix, 1 for a vector.
    """

    def reach(masks: Any, *xs: Any, **params: Any) -> list[Any]:
        several = masks if type(masks) is list else [masks]
        alive: list[Any] = []
        for m, rank in zip(several, results, strict=True):
            if m is not None:
                n = len(typeof(m).shape)
                alive.append(reduce_or(m, axes=tuple(range(n - rank, n))))
        taken = reduce(bitwise_or, alive)
        batch = len(typeof(taken).shape)
        return [
            broadcast_in_dim(
                taken, shape=x.aval.shape, broadcast_dimensions=tuple(range(x.aval.ndim - rank))
            )
            if type(x) is Linear and x.aval.ndim - rank == batch
            else None
            for x, rank in zip(xs, operands, strict=True)
        ]

    return reach


def mask_of_columns(mask: Any, a: Any, b: Any, *, left_side: bool = True, **params: Any) -> Any:
    """The `mask` of systems and products: a column of b meets that of the result, a matrix all.

    With `left_side` False it is a row. A mapped axis may lie among them (`beside`).
    """
    if type(a) is Linear:
        return mask_of_stacks((2,), (2, 2))(mask, a, b)
    n = len(typeof(mask).shape)
    across = n - 2 if left_side else n - 1
    kept = tuple(d for d in range(n) if d != across)
    alive = reduce_or(mask, axes=(across,))
    return None, broadcast_in_dim(alive, shape=b.aval.shape, broadcast_dimensions=kept)


def gate_stacks(*positions: int, units: Ints = ()) -> Rule:
    """The `gate` of a row that refuses some numbers: operands are zero where it is not active.

    Args:
        units: operands that are unit matrices there, as zeros are refused, or warned of.
    """

    def gate(e: Eqn, active: Var) -> list[Eqn]:
        eqns: list[Eqn] = []
        operands = list(e.invars)
        for k in (*positions, *units):
            x = operands[k].aval
            other: Any = Literal(x.dtype.type(0))
            if k in units:
                made = _unit_matrices(x, e.source)
                eqns += made
                (other,) = made[-1].outvars
            new = Var(aval(x.shape, x.dtype))
            eqns.append(Eqn(select, [active, operands[k], other], {}, [new], e.source))
            operands[k] = new
        return [*eqns, Eqn(e.primitive, operands, e.params, e.outvars, e.source)]

    return gate


def _unit_matrices(x: ShapedArray, place: Any) -> list[Eqn]:
    """The equations that make unit matrices of a type."""
    row, column = (Var(aval(x.shape, dtypes.int64)) for _ in range(2))
    same, unit = Var(aval(x.shape, dtypes.bool_)), Var(aval(x.shape, x.dtype))
    counts = {"dtype": dtypes.int64, "shape": x.shape}
    return [
        Eqn(iota, [], {**counts, "dimension": x.ndim - 2}, [row], place),
        Eqn(iota, [], {**counts, "dimension": x.ndim - 1}, [column], place),
        Eqn(eq, [row, column], {}, [same], place),
        Eqn(convert_element_type, [same], {"new_dtype": x.dtype}, [unit], place),
    ]


def beside(x: Any, d: int, axis: int) -> Any:
    """A mapped axis laid into an axis of the matrices, -1 or -2: more columns, or rows."""
    at = len(typeof(x).shape) - 1 + axis
    x = move_axis(x, d, at)
    shape = typeof(x).shape
    return reshape(x, new_sizes=(*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))


def apart(x: Any, size: int, axis: int, like: Any) -> tuple[Any, int]:
    """What `beside` laid together: the operand, and its mapped axis.

    Args:
        size: of the mapped axis.
        axis: of the matrices, -1 or -2.
        like: the operand before, which says how many columns or rows a member has.
    """
    shape, own = typeof(x).shape, typeof(like[0]).shape
    at = len(shape) + axis
    count = [n for i, n in enumerate(own) if i != like[1]][axis]
    return reshape(x, new_sizes=(*shape[:at], size, count, *shape[at + 1 :])), at


# ---------------------------------------------------------------------------------- evaluation


def refused_as_nan(function: Rule, *stacks: Any) -> Any:
    """A function of NumPy's of stacks of matrices; NaN where it refuses a matrix.

    Its result has the shape and dtype of the last operand.
    """
    try:
        return function(*stacks)
    except np.linalg.LinAlgError:
        if stacks[0].shape[-1] != stacks[0].shape[-2]:
            raise
    out = np.full_like(
        stacks[-1], complex(np.nan, np.nan) if stacks[-1].dtype.kind == "c" else np.nan
    )
    for place_ in np.ndindex(out.shape[:-2]):
        with suppress(np.linalg.LinAlgError):
            out[place_] = function(*(x[place_] for x in stacks))
    return out


def each_matrix(function: Any, *stacks: Any) -> Any:
    """A function of matrices for each member of stacks; NaN where it refuses one.

    Its result has the shape and dtype of the last operand.
    """
    last = stacks[-1]
    out = np.empty(last.shape, last.dtype)
    for i in np.ndindex(last.shape[:-2]) if last.size else ():
        try:
            out[i] = function(*(x[i] for x in stacks))
        except np.linalg.LinAlgError:
            out[i] = np.nan
    return out


# ---------------------------------------------------------------------------------- samples


def matrices(rng: "np.random.Generator", *shape: int, dtype: str = "f8") -> Any:
    """Random matrices, far from singular where they are square."""
    x = rng.normal(size=shape)
    if dtype[0] == "c":
        x = x + 1j * rng.normal(size=shape)
    if shape[-1] == shape[-2]:
        x = x + 3 * np.eye(shape[-1])[::-1]
    return x.astype(dtype)


def square_stacks(seed: int, few: bool = False) -> Iterable[Any]:
    """One matrix and stacks of them, none with n = 0, views, and each dtype; or few of these."""
    rng = np.random.default_rng(seed)
    yield matrices(rng, 6, 3).T[:, ::2]
    yield matrices(rng, 2, 2, 2)
    yield np.zeros((0, 0))
    for dtype in ("c16", "f4"):
        yield matrices(rng, 2, 2, dtype=dtype)
    if not few:
        yield matrices(rng, 1, 1)
        yield matrices(rng, 2, 2, dtype="c8")


def square_errors(more: Callable[[Any], tuple[Any, ...]], **params: Any) -> Rule:
    """Inputs that a row of square matrices refuses.

    Args:
        more: the operands behind a first one.
        **params: the row's.
    """

    def errors() -> Iterable[ErrorSample]:
        for x, error, phrase in (
            (np.ones((2, 3)), MatrixError, "must be square"),
            (np.ones(3), MatrixError, "have two axes"),
            (np.eye(2, dtype="i8"), DtypeError, "not defined for int64"),
            (np.eye(2, dtype="f2"), DtypeError, "not defined for float16"),
        ):
            yield ErrorSample((x, *more(x)), params, error, phrase)

    return errors
