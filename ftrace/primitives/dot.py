"""`dot_general`: every contraction of two arrays, with JAX's dimension numbers.

`dimension_numbers = ((lhs contracting, rhs contracting), (lhs batch, rhs batch))`; the result has
the batch axes, then the free axes of the left operand, then those of the right. Evaluation goes
to BLAS through `np.matmul` without copies where there is at most one axis of each sort.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import AxisError, DtypeError, ShapeError
from ftrace.core.lower import Cores, Gufunc, GufuncCall, Product
from ftrace.core.primitive import ErrorSample, Linear, Primitive, Sample, Unsupported
from ftrace.core.zero import ZERO
from ftrace.primitives.linear import add, broadcast_in_dim, join, transpose
from ftrace.primitives.movement import outside_zero
from ftrace.primitives.reduce import reduce_or

Axes = tuple[int, ...]
DimensionNumbers = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]


def _free(ndim: int, *used: Sequence[int]) -> Axes:
    taken = set().union(*used)
    return tuple(i for i in range(ndim) if i not in taken)


# ---------------------------------------------------------------------------------- type


def _check_axes(x: ShapedArray, contract: Axes, batch: Axes) -> None:
    axes = (*contract, *batch)
    if len(set(axes)) != len(axes) or any(not 0 <= a < x.ndim for a in axes):
        raise AxisError(
            f"dot_general: contracting {contract} and batch {batch} are not distinct axes of {x}.",
            "Use 0 .. ndim - 1, each at most once.",
        )


def _dot_type(
    lhs: ShapedArray, rhs: ShapedArray, *, dimension_numbers: DimensionNumbers
) -> ShapedArray:
    (lc, rc), (lb, rb) = dimension_numbers
    _check_axes(lhs, lc, lb)
    _check_axes(rhs, rc, rb)
    for what, left, right in (("contracting", lc, rc), ("batch", lb, rb)):
        if [lhs.shape[a] for a in left] != [rhs.shape[a] for a in right]:
            raise ShapeError(
                f"dot_general: {what} axes {left} of {lhs} and {right} of {rhs} differ in size.",
                "Axes that meet must have equal sizes.",
            )
    dtype, _ = join("dot_general", lhs, rhs)
    shape = [lhs.shape[a] for a in lb]
    shape += [lhs.shape[a] for a in _free(lhs.ndim, lc, lb)]
    shape += [rhs.shape[a] for a in _free(rhs.ndim, rc, rb)]
    return aval(tuple(shape), dtype)


# ---------------------------------------------------------------------------------- evaluation


def _dot_impl(lhs: Any, rhs: Any, dimension_numbers: DimensionNumbers) -> Any:
    (lc, rc), (lb, rb) = dimension_numbers
    nl, nr = np.ndim(lhs), np.ndim(rhs)
    if not lb and len(lc) == 1 and nl <= 2 and nr <= 2:
        return np.matmul(lhs.T if lc == (0,) else lhs, rhs.T if rc == (1,) else rhs)
    lf, rf = _free(nl, lc, lb), _free(nr, rc, rb)
    left, right = np.transpose(lhs, (*lb, *lf, *lc)), np.transpose(rhs, (*rb, *rc, *rf))
    batch, rows = left.shape[: len(lb)], left.shape[len(lb) : len(lb) + len(lf)]
    inner, columns = left.shape[len(lb) + len(lf) :], right.shape[len(rb) + len(rc) :]
    m, k, n = math.prod(rows), math.prod(inner), math.prod(columns)
    left, right = left.reshape((*batch, m, k)), right.reshape((*batch, k, n))
    if not lc:
        out = np.multiply(left, right)
    elif not lf and not rf:
        out = np.einsum("...ik,...kj->...ij", left, right)
    else:
        out = np.matmul(left, right)
    return out.reshape((*batch, *rows, *columns))[()]


def _dot_call(
    avals: Sequence[ShapedArray], dimension_numbers: DimensionNumbers
) -> GufuncCall | None:
    """NumPy's loop of matrix products: of complex numbers, integers and booleans.

    It has one contracted axis, one free axis of the right operand at most, and a batch in one
    order; without a batch, free axes of the left operand are one.
    """
    (lc, rc), (lb, rb) = dimension_numbers
    lf, rf = _free(avals[0].ndim, lc, lb), _free(avals[1].ndim, rc, rb)
    ordered = all(list(axes) == sorted(axes) for axes in (lb, rb))
    inner = lb and not lf and not rf  # many inner products: `impl` has another way
    if not ordered or len(lc) != 1 or len(rf) > 1 or inner or (lb and len(lf) > 1):
        return None
    if any(a.dtype.kind == "f" for a in avals):  # it multiplies by BLAS what lies right for it
        return None
    rows, columns = (lf[-1] if lf else None), (rf[0] if rf else None)
    made = (len(lb) + len(lf) - 1 if lf else None, len(lb) + len(lf) if rf else None)
    given = Cores(0, (rows, lc[0])), Cores(1, (rc[0], columns))
    return GufuncCall("numpy", "matmul", "(n?,k),(k,m?)->(n?,m?)", given, (Cores(0, made),))


# ---------------------------------------------------------------------------------- derivatives


def _dot_jvp(primals: Any, tangents: Any, *, dimension_numbers: DimensionNumbers) -> Any:
    x, y = primals
    tx, ty = tangents
    z = dot_general(x, y, dimension_numbers=dimension_numbers)
    terms = []
    if tx is not ZERO:
        terms.append(dot_general(tx, y, dimension_numbers=dimension_numbers))
    if ty is not ZERO:
        terms.append(dot_general(x, ty, dimension_numbers=dimension_numbers))
    return z, terms[0] if len(terms) == 1 else add(*terms)


def _operand_cotangent(
    ct: Any, x: Linear, y: Any, dimension_numbers: DimensionNumbers, swapped: bool
) -> Any:
    """The cotangent of `x`, the left operand, or the right one of the swapped product.

    Which factor comes first is free: if one order leaves the axes of `x` as they are, it is that.
    """
    (xc, yc), (xb, yb) = dimension_numbers
    nb = len(xb)
    x_free, y_free = _free(x.aval.ndim, xc, xb), _free(typeof(y).ndim, yc, yb)
    first = nb if swapped else nb + len(x_free)
    of_y, batch = tuple(range(first, first + len(y_free))), tuple(range(nb))
    contracted = tuple(xc[i] for i in np.argsort(yc))
    if (*xb, *contracted, *x_free) == tuple(range(x.aval.ndim)):
        return dot_general(y, ct, dimension_numbers=((y_free, of_y), (yb, batch)))
    found = dot_general(ct, y, dimension_numbers=((of_y, y_free), (batch, yb)))
    order = tuple(int(i) for i in np.argsort((*xb, *x_free, *contracted)))
    return found if order == tuple(range(len(order))) else transpose(found, permutation=order)


def _dot_transpose(ct: Any, x: Any, y: Any, *, dimension_numbers: DimensionNumbers) -> Any:
    if type(x) is Linear and type(y) is Linear:
        return Unsupported("dot_general is not linear in both of its operands together.")()
    if type(x) is Linear:
        return _operand_cotangent(ct, x, y, dimension_numbers, False), None
    (xc, yc), (xb, yb) = dimension_numbers
    return None, _operand_cotangent(ct, y, x, ((yc, xc), (yb, xb)), True)


def _dot_mask(mask: Any, x: Any, y: Any, *, dimension_numbers: DimensionNumbers) -> tuple[Any, Any]:
    """What of the linear operand meets a result that was read: rows, or columns, of it."""
    left, right = (v.aval if type(v) is Linear else typeof(v) for v in (x, y))
    if type(x) is Linear:
        return _meeting(mask, left, right, dimension_numbers, False), None
    (xc, yc), (xb, yb) = dimension_numbers
    return None, _meeting(mask, right, left, ((yc, xc), (yb, xb)), True)


def _meeting(
    mask: Any, x: ShapedArray, y: ShapedArray, dimension_numbers: DimensionNumbers, swapped: bool
) -> Any:
    """What of `x`, the left operand, or the right one of the swapped product, meets the mask."""
    (xc, yc), (xb, yb) = dimension_numbers
    nb, x_free, y_free = len(xb), _free(x.ndim, xc, xb), _free(y.ndim, yc, yb)
    first = nb if swapped else nb + len(x_free)
    if y_free:
        mask = reduce_or(mask, axes=tuple(range(first, first + len(y_free))))
    kept = (*xb, *x_free)
    order = tuple(int(i) for i in np.argsort(kept))
    if order != tuple(range(len(order))):
        mask = transpose(mask, permutation=order)
    return broadcast_in_dim(mask, shape=x.shape, broadcast_dimensions=tuple(sorted(kept)))


def _dot_clear(mask: Any, x: Any, y: Any, *, dimension_numbers: DimensionNumbers) -> Any:
    """The cotangent of one operand sums over the free axes of the other, if it has any."""
    (xc, yc), (xb, yb) = dimension_numbers
    if type(x) is Linear:
        if not _free(typeof(y).ndim, yc, yb):
            return x, y
        numbers = (yc, xc), (yb, xb)
        return x, outside_zero(_meeting(mask, typeof(y), x.aval, numbers, True), y)
    if not _free(typeof(x).ndim, xc, xb):
        return x, y
    return outside_zero(_meeting(mask, typeof(x), y.aval, dimension_numbers, False), x), y


# ---------------------------------------------------------------------------------- batching


def _past(axes: Axes, d: int | None) -> Axes:
    """The same axes of an operand that got a mapped axis at `d`."""
    return axes if d is None else tuple(a if a < d else a + 1 for a in axes)


def _dot_batch(axis: Any, values: Any, dims: Any, *, dimension_numbers: DimensionNumbers) -> Any:
    (lc, rc), (lb, rb) = dimension_numbers
    (x, y), (dx, dy) = values, dims
    lc, lb, rc, rb = _past(lc, dx), _past(lb, dx), _past(rc, dy), _past(rb, dy)
    if dx is not None and dy is not None:
        return dot_general(x, y, dimension_numbers=((lc, rc), ((dx, *lb), (dy, *rb)))), 0
    z = dot_general(x, y, dimension_numbers=((lc, rc), (lb, rb)))
    x_free = _free(typeof(x).ndim, lc, lb)
    if dx is not None:
        return z, len(lb) + x_free.index(dx)
    return z, len(lb) + len(x_free) + _free(typeof(y).ndim, rc, rb).index(dy)


# ---------------------------------------------------------------------------------- the row


def _dot_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(16)

    def operands(lhs: Axes, rhs: Axes, dtype: str = "f8") -> tuple[Any, Any]:
        pair = [rng.normal(size=shape) * 3 for shape in (lhs, rhs)]
        if dtype == "c16":
            pair = [x + 1j * rng.normal(size=x.shape) for x in pair]
        return tuple(np.asarray(x).astype(dtype)[()] for x in pair)  # type: ignore[return-value]

    for lhs, rhs, numbers in (
        ((2, 3), (3, 4), (((1,), (0,)), ((), ()))),
        ((3,), (3,), (((0,), (0,)), ((), ()))),
        ((2, 3), (3,), (((1,), (0,)), ((), ()))),
        ((3,), (3, 2), (((0,), (0,)), ((), ()))),
        ((3, 2), (4, 3), (((0,), (1,)), ((), ()))),
        ((5, 2, 3), (5, 3, 4), (((2,), (1,)), ((0,), (0,)))),
        ((5, 3), (3, 5), (((1,), (0,)), ((0,), (1,)))),
        ((2, 5, 3), (3, 4, 5), (((2,), (0,)), ((1,), (2,)))),
        ((2, 3, 4), (4, 5, 3), (((1, 2), (2, 0)), ((), ()))),
        ((2, 3, 4), (4, 3, 2), (((0, 2), (2, 0)), ((1,), (1,)))),
        ((2, 5, 3, 4), (4, 2, 6), (((3,), (0,)), ((0,), (1,)))),
        ((2,), (3,), (((), ()), ((), ()))),
        ((2, 3), (3, 2), (((), ()), ((0, 1), (1, 0)))),
        ((), (), (((), ()), ((), ()))),
        ((), (3,), (((), ()), ((), ()))),
        ((2, 0), (0, 3), (((1,), (0,)), ((), ()))),
        ((0, 2), (2, 3), (((1,), (0,)), ((), ()))),
    ):
        yield Sample(operands(lhs, rhs), {"dimension_numbers": numbers})
    x, y = operands((4, 3), (3, 6))
    yield Sample((x[::2], y.T[::3]), {"dimension_numbers": (((1,), (1,)), ((), ()))})
    for dtype in ("f4", "i8", "u1", "c16", "?"):
        x, y = operands((2, 3), (3, 2), dtype)
        yield Sample((x, y), {"dimension_numbers": (((1,), (0,)), ((), ()))})


def _dot_errors() -> Iterable[ErrorSample]:
    x, y = np.ones((2, 3)), np.ones((4, 2))
    numbers = (((1,), (0,)), ((), ()))
    yield ErrorSample((x, y), {"dimension_numbers": numbers}, ShapeError, "differ in size")
    numbers = (((2,), (0,)), ((), ()))
    yield ErrorSample((x, y), {"dimension_numbers": numbers}, AxisError, "not distinct axes")
    numbers = (((0, 0), (1, 1)), ((), ()))
    yield ErrorSample((x, y), {"dimension_numbers": numbers}, AxisError, "contracting (0, 0)")
    numbers = (((0,), (1,)), ((), ()))
    z = y.astype(np.float32)
    yield ErrorSample((x, z), {"dimension_numbers": numbers}, DtypeError, "operands of types")


dot_general = Primitive(
    name="dot_general",
    impl=_dot_impl,
    type=_dot_type,
    jvp=_dot_jvp,
    transpose=_dot_transpose,
    batch=_dot_batch,
    mask=_dot_mask,
    clear=_dot_clear,
    zeros=True,
    lower=Product(lambda dimension_numbers, **_: dimension_numbers, Gufunc(_dot_call)),
    linear_in=(0, 1),
    bilinear=True,
    samples=_dot_samples,
    errors=_dot_errors,
    doc="Sum of products over the contracting axes, for each member of the batch axes.",
)
