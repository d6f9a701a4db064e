"""Products of arrays: matmul, dot, tensordot and their kin, all through `dot_general`.

`einsum` is in `einsum.py`. Batch axes are broadcast as NumPy does; an operand without batch axes
is never broadcast, so that it reaches BLAS as one matrix.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.core.arguments import BARE
from ftrace.core.avals import typeof
from ftrace.core.device import LIBRARIES
from ftrace.core.dtypes import canonical
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.trace import EVAL, ctx, running
from ftrace.numpy import ufuncs
from ftrace.numpy.lowerings import LOWERINGS, constant_like
from ftrace.numpy.promote import (
    broadcast_shape,
    cast,
    common_dtype,
    document,
    many_axes,
    numpy_function,
    one_axis,
    promote,
    static_int,
    stretch,
    strong,
    unsupported,
    untraced,
    value,
)
from ftrace.numpy.refusing import refusal
from ftrace.numpy.shaping import index_axis
from ftrace.primitives.dot import dot_general
from ftrace.primitives.linear import move_axis
from ftrace.primitives.shape import concatenate, expand_dims, reshape

NO_BATCH: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())


def _check_ranks(name: str, operands: Sequence[Any], ranks: Sequence[int]) -> None:
    for i, (x, rank) in enumerate(zip(operands, ranks, strict=True)):
        if typeof(x).ndim < rank:
            raise ShapeError(
                f"{name}: operand {i} has {typeof(x).ndim} axes, and at least {rank} are needed.",
                "Multiply numbers with `*`, and make a vector a matrix with x[:, None].",
            )


def _refusing(ufunc: np.ufunc, computed: Callable[..., Any]) -> Callable[..., Any]:
    """An implementation that fails, where it does, with the ufunc's own error."""

    def traced(*operands: Any, **options: Any) -> Any:
        try:
            return computed(*operands, **options)
        except BARE as error:
            found = refusal(error, ufunc, computed, operands, options)
            if found is error:
                raise
            raise found from None

    return traced


def _as_kind(name: str, x: Any, dtype: np.dtype[Any]) -> Any:
    """An operand in the dtype that `dtype=` asks for, which must hold what it is."""
    own = typeof(x).dtype
    if not np.can_cast(own, dtype, "same_kind"):
        raise DtypeError(f"{name} cannot take {own} as {dtype}.", "Convert it: `x.astype(dtype)`.")
    return cast(x, dtype)


def _gufunc(name: str, *ranks: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The public function of a generalised ufunc from its two-operand implementation.

    Args:
        name: of the ufunc.
        ranks: the axes that each operand must have.
    """
    ufunc = getattr(np, name, None)

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        def computed(x1: Any, x2: Any, /, out: Any = None, **options: Any) -> Any:
            dtype = options.pop("dtype", None)
            axis = {"axis": options.pop("axis")} if "axis" in options else {}
            if options:
                raise unsupported(name, f"{next(iter(options))}=")
            operands = _strong_pair(x1, x2)
            _check_ranks(name, operands, ranks)
            if dtype is not None:
                operands = [_as_kind(name, x, canonical(dtype)) for x in operands]
            return ufuncs.finish(np.add, fn(*operands, **axis), out)

        traced = computed if ufunc is None else _refusing(ufunc, computed)

        def function(x1: Any, x2: Any, /, *outs: Any, **options: Any) -> Any:
            if ufunc is not None and (not running or ctx.trace is EVAL):
                if LIBRARIES:
                    return untraced(ufunc, traced, (x1, x2, *outs), options)
                return ufunc(x1, x2, *outs, **options)
            return traced(x1, x2, *outs, **options)

        function.__name__ = function.__qualname__ = name
        function.__doc__ = document(fn.__doc__, f"numpy.{name}")
        if ufunc is not None:
            ufuncs.UFUNCS[ufunc] = traced
        return function

    return decorate


def _strong_pair(x: Any, y: Any) -> list[Any]:
    x, y = strong(value(x)), strong(value(y))  # numbers are arrays here, as for NumPy
    if typeof(x).dtype is typeof(y).dtype:
        return [x, y]
    dtype = common_dtype(x, y)
    return [cast(x, dtype), cast(y, dtype)]


def contract(x: Any, y: Any, axes_x: tuple[int, ...], axes_y: tuple[int, ...]) -> Any:
    """`dot_general` without batch axes."""
    _check_sizes(x, y, axes_x, axes_y)
    return dot_general(x, y, dimension_numbers=((axes_x, axes_y), NO_BATCH))


def _check_sizes(x: Any, y: Any, axes_x: tuple[int, ...], axes_y: tuple[int, ...]) -> None:
    shape_x, shape_y = typeof(x).shape, typeof(y).shape
    for i, j in zip(axes_x, axes_y, strict=True):
        if shape_x[i] != shape_y[j]:
            raise ShapeError(
                f"A product of shapes {shape_x} and {shape_y} sums over axis {i} of size "
                f"{shape_x[i]} and axis {j} of size {shape_y[j]}.",
                "The summed axes must have equal sizes: transpose or reshape an operand.",
            )


@_gufunc("matmul", 1, 1)
def matmul(x: Any, y: Any) -> Any:
    """The matrix product, broadcasting leading axes."""
    nx, ny = typeof(x).ndim, typeof(y).ndim
    if ny <= 2:
        return contract(x, y, (nx - 1,), (max(ny - 2, 0),))
    if nx == 1:
        return contract(x, y, (0,), (ny - 2,))
    if nx == 2:
        found = contract(y, x, (ny - 2,), (1,))
        return move_axis(found, ny - 1, ny - 2)
    return _batched_matmul(x, y)


def _batched_matmul(x: Any, y: Any) -> Any:
    shape_x, shape_y = typeof(x).shape, typeof(y).shape
    batch = broadcast_shape(shape_x[:-2], shape_y[:-2])
    x = stretch(x, (*batch, *shape_x[-2:]))
    y = stretch(y, (*batch, *shape_y[-2:]))
    n = len(batch)
    _check_sizes(x, y, (n + 1,), (n,))
    same = tuple(range(n))
    return dot_general(x, y, dimension_numbers=(((n + 1,), (n,)), (same, same)))


@_gufunc("vecdot", 1, 1)
def vecdot(x: Any, y: Any, axis: int = -1) -> Any:
    """The product of vectors along one axis; the first is conjugated."""
    x = move_axis(x, one_axis(axis, typeof(x).ndim), typeof(x).ndim - 1)
    y = move_axis(y, one_axis(axis, typeof(y).ndim), typeof(y).ndim - 1)
    return _rowwise(LOWERINGS["conjugate"](x), y)


def _rowwise(x: Any, y: Any) -> Any:
    """Sum over the last axis of both, all others broadcast together."""
    _check_sizes(x, y, (typeof(x).ndim - 1,), (typeof(y).ndim - 1,))
    if typeof(x).ndim == 1 or typeof(y).ndim == 1:
        return contract(x, y, (typeof(x).ndim - 1,), (typeof(y).ndim - 1,))
    shape = broadcast_shape(typeof(x).shape, typeof(y).shape)
    x, y = stretch(x, shape), stretch(y, shape)
    n = len(shape) - 1
    batch = tuple(range(n))
    return dot_general(x, y, dimension_numbers=(((n,), (n,)), (batch, batch)))


@_gufunc("matvec", 2, 1)
def matvec(x: Any, y: Any) -> Any:
    """Matrices times vectors."""
    last = typeof(y).ndim
    return _drop(matmul(x, expand_dims(y, dimensions=(last,))), -1)


@_gufunc("vecmat", 1, 2)
def vecmat(x: Any, y: Any) -> Any:
    """Conjugated vectors times matrices."""
    row = expand_dims(LOWERINGS["conjugate"](x), dimensions=(typeof(x).ndim - 1,))
    return _drop(matmul(row, y), -2)


def _drop(x: Any, axis: int) -> Any:
    shape = list(typeof(x).shape)
    del shape[axis]
    return reshape(x, new_sizes=tuple(shape))


@numpy_function
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """The product over the last axis of `a` and the second to last of `b`."""
    x, y = _strong_pair(a, b)
    nx, ny = typeof(x).ndim, typeof(y).ndim
    if not nx or not ny:
        return ufuncs.finish(np.matmul, ufuncs.apply(np.multiply, x, y), out)
    return ufuncs.finish(np.matmul, contract(x, y, (nx - 1,), (max(ny - 2, 0),)), out)


@numpy_function
def inner(a: Any, b: Any, /) -> Any:
    """The product over the last axes."""
    x, y = _strong_pair(a, b)
    nx, ny = typeof(x).ndim, typeof(y).ndim
    if not nx or not ny:
        return ufuncs.apply(np.multiply, x, y)
    return contract(x, y, (nx - 1,), (ny - 1,))


@numpy_function
def vdot(a: Any, b: Any, /) -> Any:
    """The product of all elements; the first operand is conjugated."""
    x, y = _strong_pair(a, b)
    return contract(LOWERINGS["conjugate"](_flat(x)), _flat(y), (0,), (0,))


def _flat(x: Any) -> Any:
    return reshape(x, new_sizes=(typeof(x).size,))


@numpy_function
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """All products of an element of `a` with one of `b`."""
    x, y = _strong_pair(a, b)
    x = reshape(x, new_sizes=(typeof(x).size, 1))
    y = reshape(y, new_sizes=(1, typeof(y).size))
    return ufuncs.finish(np.matmul, ufuncs.apply(np.multiply, x, y), out)


@numpy_function
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """The product over any axes."""
    x, y = _strong_pair(a, b)
    nx, ny = typeof(x).ndim, typeof(y).ndim
    if np.ndim(axes) == 0 and not isinstance(axes, tuple | list):
        n = static_int(axes, "axes of tensordot")
        n = max(n, 0)
        if n > min(nx, ny):
            raise IndexError(
                f"tensordot was to sum over {n} axes of arrays with {nx} and {ny} axes"
            )
        axes_x, axes_y = tuple(range(nx - n, nx)), tuple(range(n))
    else:
        left, right = axes
        axes_x = many_axes(tuple(left) if np.ndim(left) else (left,), nx)
        axes_y = many_axes(tuple(right) if np.ndim(right) else (right,), ny)
    if len(axes_x) != len(axes_y):
        raise ShapeError(f"tensordot: axes {axes} differ in number.", "Name them in pairs.")
    return contract(x, y, axes_x, axes_y)


@numpy_function
def kron(a: Any, b: Any) -> Any:
    """The Kronecker product."""
    x, y = _strong_pair(a, b)
    rank = max(typeof(x).ndim, typeof(y).ndim)
    shape_x = (1,) * (rank - typeof(x).ndim) + typeof(x).shape
    shape_y = (1,) * (rank - typeof(y).ndim) + typeof(y).shape
    x = reshape(x, new_sizes=tuple(n for size in shape_x for n in (size, 1)))
    y = reshape(y, new_sizes=tuple(n for size in shape_y for n in (1, size)))
    product = ufuncs.apply(np.multiply, x, y)
    full = tuple(m * n for m, n in zip(shape_x, shape_y, strict=True))
    return reshape(product, new_sizes=full)


@numpy_function
def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """The cross product of vectors of 2 or 3 components."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promote(value(a), value(b))
    first = _components(x, axisa)
    second = _components(y, axisb)

    def minor(i: int, j: int) -> Any:
        pairs = ufuncs.apply(np.multiply, first[i], second[j])
        return ufuncs.apply(np.subtract, pairs, ufuncs.apply(np.multiply, first[j], second[i]))

    if len(first) == len(second) == 2:
        return minor(0, 1)
    first, second = (
        [*c, constant_like(c[0], typeof(c[0]).dtype, 0)] if len(c) == 2 else c
        for c in (first, second)
    )
    parts = [minor(1, 2), minor(2, 0), minor(0, 1)]
    at = one_axis(axisc, typeof(parts[0]).ndim + 1)
    return concatenate(*[expand_dims(p, dimensions=(at,)) for p in parts], dimension=at)


def _components(x: Any, axis: int) -> list[Any]:
    axis = one_axis(axis, typeof(x).ndim)
    n = typeof(x).shape[axis]
    if n not in (2, 3):
        raise ShapeError(
            f"cross was given vectors of {n} components.", "They must have 2 or 3 of them."
        )
    return [index_axis(x, i, axis) for i in range(n)]
