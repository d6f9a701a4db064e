"""Reductions: prod, max, min, and, or, xor over `axes`, and argmax, argmin along one axis.

The sum is in `linear.py`, running reductions are in `cumulative.py`. Derivatives are exact where
a quotient would fail: `reduce_prod` multiplies halves together, so that zeros need no division;
`reduce_max` and `reduce_min` share the tangent equally among ties, as JAX does.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import AxisError, DtypeError, ShapeError
from ftrace.core.lower import Reduction
from ftrace.core.primitive import (
    NONDIFFERENTIABLE,
    ErrorSample,
    Primitive,
    Rule,
    Sample,
)
from ftrace.primitives import slicing
from ftrace.primitives.elementwise import div, eq, mul, select
from ftrace.primitives.linear import (
    NO_TRANSPOSE,
    add,
    batch_reduction,
    broadcast_in_dim,
    check_kinds,
    reduce_sum,
    reduced_type,
    reduction_samples,
)
from ftrace.primitives.shape import squeeze

Axes = tuple[int, ...]


def check_not_empty(name: str, x: ShapedArray, axes: Axes) -> None:
    """Raise `ShapeError` where a reduction without identity would meet no element."""
    if any(x.shape[a] == 0 for a in axes):
        raise ShapeError(
            f"{name} over axes {axes} of {x} has no elements to choose from.",
            "Check the size first, or append a starting value.",
        )


def _reduction_errors() -> Iterable[ErrorSample]:
    x = np.ones((2, 3), dtypes.int64)
    yield ErrorSample((x,), {"axes": (2,)}, AxisError, "are not distinct axes")
    yield ErrorSample((x,), {"axes": (0, 0)}, AxisError, "are not distinct axes")


def _reduction(
    name: str,
    ufunc: Any,
    kinds: str,
    *,
    jvp: Rule | str,
    doc: str,
    samples: Rule,
    identity: bool = True,
    decides: Rule | None = None,
) -> Primitive:
    """A row that reduces `axes` with a ufunc, keeping the dtype."""
    row: Primitive

    def type_rule(x: ShapedArray, *, axes: Axes) -> ShapedArray:
        check_kinds(name, kinds, x)
        shape = reduced_type(name, x, axes)
        if not identity:
            check_not_empty(name, x, axes)
        return aval(shape, x.dtype)

    def errors() -> Iterable[ErrorSample]:
        yield from _reduction_errors()
        if "f" not in kinds:
            yield ErrorSample((np.ones(3),), {"axes": (0,)}, DtypeError, "not defined for float64")
        if not identity:
            x = np.zeros((0, 2))
            yield ErrorSample((x,), {"axes": (0,)}, ShapeError, "no elements to choose from")

    row = Primitive(
        name=name,
        impl=lambda x, axes: ufunc.reduce(x, axis=axes, dtype=typeof(x).dtype),
        lower=Reduction(name.removeprefix("reduce_"), kinds.replace("c", "")),
        type=type_rule,
        jvp=jvp,
        transpose=NO_TRANSPOSE,
        batch=lambda axis, values, dims, axes: batch_reduction(row, values, dims, axes),
        samples=samples,
        errors=errors,
        decides=decides,
        doc=doc,
    )
    return row


def back(y: Any, x: Any, axes: Axes) -> Any:
    """A reduced value repeated over the axes of `x` that were reduced."""
    shape = typeof(x).shape
    if not axes:
        return y
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    return broadcast_in_dim(y, shape=shape, broadcast_dimensions=kept)


# ---------------------------------------------------------------------------------- prod


def part(x: Any, axis: int, start: int, stop: int) -> Any:
    """`x[..., start:stop, ...]` along one axis."""
    shape = typeof(x).shape
    low = tuple(start if i == axis else 0 for i in range(len(shape)))
    high = tuple(stop if i == axis else n for i, n in enumerate(shape))
    return slicing.slice(x, start_indices=low, limit_indices=high, strides=(1,) * len(shape))


Pair = tuple[Any, Any]  # a value and its tangent


def times(a: Pair, b: Pair) -> Pair:
    """The product of values with tangents."""
    return mul(a[0], b[0]), add(mul(a[1], b[0]), mul(a[0], b[1]))


def _halved(pair: Pair, axis: int) -> Pair:
    """The product along one axis, which is left with size 1; the axis is not empty."""
    left_over: list[Pair] = []
    n = typeof(pair[0]).shape[axis]
    while n > 1:
        half = n // 2
        first, second = (tuple(part(v, axis, s, s + half) for v in pair) for s in (0, half))
        if n % 2:
            left_over.append(tuple(part(v, axis, n - 1, n) for v in pair))
        pair, n = times(first, second), half
    for other in left_over:
        pair = times(pair, other)
    return pair


def _prod_jvp(primals: Any, tangents: Any, *, axes: Axes) -> Any:
    (x,), (t,) = primals, tangents
    y = reduce_prod(x, axes=axes)
    shape = typeof(x).shape
    if any(shape[a] == 0 for a in axes):
        return y, reduce_sum(t, axes=axes)
    pair = (x, t)
    for a in axes:
        pair = _halved(pair, a)
    return y, squeeze(pair[1], dimensions=tuple(sorted(axes))) if axes else pair[1]


def _prod_samples() -> Iterable[Sample]:
    yield from reduction_samples(("f4", "i8", "u1", "c16", "?"))
    yield Sample((np.zeros((0, 2)),), {"axes": (0,)})
    x = np.random.default_rng(11).normal(size=(3, 5))
    x[0, 1] = x[1, 2] = x[1, 4] = 0
    yield Sample((x,), {"axes": (1,)})
    yield Sample((x,), {"axes": (1, 0)})


reduce_prod = _reduction(
    "reduce_prod",
    np.multiply,
    "biufc",
    jvp=_prod_jvp,
    samples=_prod_samples,
    doc="Product over `axes`, in the operand's dtype. Its derivatives of every order are exact "
    "where elements are zero.",
)


# ---------------------------------------------------------------------------------- max, min


def _chooser_jvp(row: Rule) -> Rule:
    def jvp(primals: Any, tangents: Any, *, axes: Axes) -> Any:
        (x,), (t,) = primals, tangents
        y = row(x, axes=axes)
        if not axes:
            return y, t
        dtype = typeof(x).dtype
        zero, one = dtype.type(0), dtype.type(1)
        chosen = eq(x, back(y, x, axes))
        count = reduce_sum(select(chosen, one, zero), axes=axes)
        return y, div(reduce_sum(select(chosen, t, zero), axes=axes), count)

    return jvp


def _chooser_samples() -> Iterable[Sample]:
    yield from reduction_samples(("f4", "i8", "u1", "c16", "?"))
    yield Sample((np.zeros((0, 2)),), {"axes": (1,)})


reduce_max = _reduction(
    "reduce_max",
    np.maximum,
    "biufc",
    jvp=_chooser_jvp(lambda x, axes: reduce_max(x, axes=axes)),
    decides=lambda v, y, p: v[0] == np.expand_dims(y[0], p["axes"]),
    samples=_chooser_samples,
    identity=False,
    doc="Maximum over `axes`; NaN where there is one. Ties share the derivative equally.",
)
reduce_min = _reduction(
    "reduce_min",
    np.minimum,
    "biufc",
    jvp=_chooser_jvp(lambda x, axes: reduce_min(x, axes=axes)),
    decides=lambda v, y, p: v[0] == np.expand_dims(y[0], p["axes"]),
    samples=_chooser_samples,
    identity=False,
    doc="Minimum over `axes`; NaN where there is one. Ties share the derivative equally.",
)


# ---------------------------------------------------------------------------------- and, or, xor


def _bit_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(12)
    for shape, axes in (((2, 3), (1,)), ((2, 3), (0, 1)), ((2, 3, 2), (0, 2)), ((3,), ())):
        yield Sample((rng.random(shape) < 0.6,), {"axes": axes})
    yield Sample((np.bool_(True),), {"axes": ()})
    yield Sample((rng.integers(0, 99, (4, 3))[::2],), {"axes": (0,)})
    yield Sample((rng.integers(0, 99, (2, 3)).astype("u1"),), {"axes": (1,)})
    yield Sample((rng.integers(-9, 9, (2, 3)).astype("i4"),), {"axes": (1,)})
    yield Sample((np.zeros((0, 2), bool),), {"axes": (0,)})
    yield Sample((np.zeros((0, 2), int),), {"axes": (0,)})


reduce_and = _reduction(
    "reduce_and",
    np.bitwise_and,
    "biu",
    jvp=NONDIFFERENTIABLE,
    samples=_bit_samples,
    doc="Bitwise and over `axes`: whether all are true, for booleans.",
)
reduce_or = _reduction(
    "reduce_or",
    np.bitwise_or,
    "biu",
    jvp=NONDIFFERENTIABLE,
    samples=_bit_samples,
    doc="Bitwise or over `axes`: whether any is true, for booleans.",
)
reduce_xor = _reduction(
    "reduce_xor",
    np.bitwise_xor,
    "biu",
    jvp=NONDIFFERENTIABLE,
    samples=_bit_samples,
    doc="Bitwise exclusive or over `axes`: the parity of the true ones, for booleans.",
)


# ---------------------------------------------------------------------------------- argmax, argmin


def _arg_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(13)
    for x, axis in (
        (rng.normal(size=4), 0),
        (rng.normal(size=(2, 3)), 0),
        (rng.normal(size=(2, 3)), 1),
        (rng.normal(size=(2, 3, 2)), 1),
        (rng.normal(size=(3, 4)).T[::2], 1),
        (np.array([2.0, np.nan, 3.0]), 0),
        (np.array([1.0, 1.0, 1.0]), 0),
        (np.zeros((0, 3)), 1),
    ):
        yield Sample((x,), {"axis": axis, "index_dtype": dtypes.int64})
    for name in ("f4", "i8", "u1", "c16", "?"):
        x = (rng.normal(size=(2, 3)) * 3).astype(name)
        yield Sample((x,), {"axis": 1, "index_dtype": np.dtype(np.int32)})


def _arg_errors() -> Iterable[ErrorSample]:
    x, index = np.ones((0, 3)), dtypes.int64
    yield ErrorSample((x,), {"axis": 0, "index_dtype": index}, ShapeError, "no elements")
    yield ErrorSample((x,), {"axis": 2, "index_dtype": index}, AxisError, "not distinct axes")
    params = {"axis": 1, "index_dtype": dtypes.float64}
    yield ErrorSample((x,), params, DtypeError, "gives integers")


def _arg_reduction(name: str, function: Any, doc: str) -> Primitive:
    row: Primitive

    def type_rule(x: ShapedArray, *, axis: int, index_dtype: np.dtype[Any]) -> ShapedArray:
        shape = reduced_type(name, x, (axis,))
        check_not_empty(name, x, (axis,))
        if index_dtype.kind not in "iu":
            raise DtypeError(f"{name} gives integers, not {index_dtype}.", "Use int64 or int32.")
        return aval(shape, index_dtype)

    def batch(mapped: Any, values: Any, dims: Any, *, axis: int, index_dtype: Any) -> Any:
        (d,) = dims
        shifted = axis if axis < d else axis + 1
        return row(values[0], axis=shifted, index_dtype=index_dtype), d - (shifted < d)

    row = Primitive(
        name=name,
        impl=lambda x, axis, index_dtype: function(x, axis=axis).astype(index_dtype),
        lower=Reduction(name),
        type=type_rule,
        jvp=NONDIFFERENTIABLE,
        transpose=NO_TRANSPOSE,
        batch=batch,
        samples=_arg_samples,
        errors=_arg_errors,
        doc=doc,
    )
    return row


argmax = _arg_reduction(
    "argmax",
    np.argmax,
    "Index of the first maximum along `axis`; of the first NaN where there is one.",
)
argmin = _arg_reduction(
    "argmin",
    np.argmin,
    "Index of the first minimum along `axis`; of the first NaN where there is one.",
)
