"""The methods of ufuncs on traced values: reduce, accumulate, outer and at.

Where a ufunc has a reduction or cumulative function of its own that is used; associative ufuncs
without one are folded in halves (log2(n) steps), the others element by element. `at` writes into
its first operand and belongs to the cells (`cells.py`); `reduceat` is in `segment_folds.py`.
"""

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.core import hooks
from ftrace.core.avals import typeof
from ftrace.core.dtypes import canonical
from ftrace.core.errors import DtypeError, RuleError
from ftrace.numpy import reductions, ufuncs
from ftrace.numpy.cumulative_functions import cumulated
from ftrace.numpy.lowerings import constant_like, truth
from ftrace.numpy.promote import (
    broadcast_shape,
    cast,
    many_axes,
    one_axis,
    stretch,
    strong,
    value,
)
from ftrace.numpy.shaping import index_axis, slice_axis
from ftrace.primitives import cumulative as c
from ftrace.primitives import elementwise as e
from ftrace.primitives.convert import copy as copy_row
from ftrace.primitives.reduce import reduce_and, reduce_or, reduce_xor
from ftrace.primitives.shape import concatenate, expand_dims, reshape

ASSOCIATIVE: Final = frozenset(
    {"logaddexp", "logaddexp2", "hypot", "gcd", "lcm", "fmax", "fmin", "logical_xor"}
)
BIT_REDUCTIONS: Final = {
    "bitwise_and": reduce_and,
    "bitwise_or": reduce_or,
    "bitwise_xor": reduce_xor,
}
REORDERABLE: Final = frozenset({*ASSOCIATIVE, *BIT_REDUCTIONS} - {"lcm"})
REDUCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "add": reductions.sum,
    "multiply": reductions.prod,
    "maximum": reductions.max,
    "minimum": reductions.min,
    "logical_and": reductions.all,
    "logical_or": reductions.any,
}
CUMULATIVE: Final = {
    "add": c.cumsum,
    "multiply": c.cumprod,
    "maximum": c.cummax,
    "minimum": c.cummin,
    "logaddexp": c.cumlogsumexp,
}


def call(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A method of a ufunc, as `__array_ufunc__` names it."""
    rule = METHODS.get(method)
    if rule is None or ufunc.nin != 2 or ufunc.nout != 1:
        raise RuleError(
            f"{ufunc.__name__}.{method} has no rule for traced arrays.",
            "Write it with indexing and the plain function.",
        )
    return rule(ufunc, *inputs, **kwargs)


def reduce(
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """`ufunc.reduce`: the axis is the first one unless it is named."""
    name = ufunc.__name__
    known = REDUCTIONS.get(name)
    if known is not None:
        options = {"axis": axis, "keepdims": keepdims, "where": where}
        options |= {"dtype": dtype} if name in ("add", "multiply") and dtype is not None else {}
        options |= {"initial": initial} if initial is not None and "l" not in name[:1] else {}
        return ufuncs.finish(ufunc, known(array, **options), out)
    x = accumulating(ufunc, array, dtype)
    if where is not True:
        if ufunc.identity is None and initial is None:
            raise ValueError(
                f"reduction operation '{name}' does not have an identity, so to use a where mask "
                "one has to specify 'initial'"
            )
        if name not in REORDERABLE:
            found = _folded_where(ufunc, x, axis, keepdims, initial, value(where))
            return ufuncs.finish(ufunc, found, out)
        x = masked(ufunc, x, where, initial)
    if name in BIT_REDUCTIONS:
        found = reductions.reduced(BIT_REDUCTIONS[name], x, axis, keepdims)
        found = found if initial is None else ufuncs.apply(ufunc, found, initial)
    else:
        found = _folded(ufunc, x, axis, keepdims, initial)
    return ufuncs.finish(ufunc, found, out)


def masked(ufunc: np.ufunc, x: Any, where: Any, initial: Any) -> Any:
    """The operand with what changes no fold in the places where a mask is false."""
    shape = broadcast_shape(typeof(x).shape, typeof(where := value(where)).shape)
    kind = typeof(ufuncs.apply(ufunc, x, x)).dtype
    unit = cast(value(initial if ufunc.identity is None else ufunc.identity), kind)
    x = cast(stretch(x, shape), kind)
    return e.select(stretch(truth(where), shape), x, stretch(unit, shape))


def _folded_where(
    ufunc: np.ufunc, x: Any, axis: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    """A fold from the first element to the last, of those for which a mask holds."""
    shape = broadcast_shape(typeof(x).shape, typeof(where).shape)
    (i,) = many_axes(axis, len(shape))
    x, mask = stretch(x, shape), stretch(truth(where), shape)
    start = ufunc.identity if initial is None else initial
    kind = typeof(ufuncs.apply(ufunc, x, x)).dtype
    found = stretch(cast(value(start), kind), (*shape[:i], *shape[i + 1 :]))
    for j in range(shape[i]):
        next_ = ufuncs.apply(ufunc, found, index_axis(x, j, i))
        found = e.select(index_axis(mask, j, i), cast(next_, kind), found)
    return expand_dims(found, dimensions=(i,)) if keepdims else found


def _folded(ufunc: np.ufunc, x: Any, axis: Any, keepdims: bool, initial: Any) -> Any:
    axes = tuple(sorted(many_axes(axis, typeof(x).ndim)))
    if len(axes) > 1 and ufunc.__name__ not in REORDERABLE:
        raise ValueError(
            f"reduction operation '{ufunc.__name__}' is not reorderable, so at most one axis may "
            "be specified"
        )
    for i in reversed(axes):
        x = _fold_axis(ufunc, x, i)
    if initial is not None:
        x = ufuncs.apply(ufunc, initial, x)
    return expand_dims(x, dimensions=axes) if keepdims else x


def _fold_axis(ufunc: np.ufunc, x: Any, axis: int) -> Any:
    n = typeof(x).shape[axis]
    if not n:
        return _empty_fold(ufunc, x, axis)
    if ufunc.__name__ not in ASSOCIATIVE:
        found = index_axis(x, 0, axis)
        for i in range(1, n):
            found = ufuncs.apply(ufunc, found, index_axis(x, i, axis))
        return found
    while n > 1:
        half = n // 2
        both = ufuncs.apply(
            ufunc, slice_axis(x, 0, half, axis), slice_axis(x, half, 2 * half, axis)
        )
        rest = [slice_axis(x, n - 1, n, axis)] if n % 2 else []
        x = concatenate(both, *rest, dimension=axis) if rest else both
        n = typeof(x).shape[axis]
    return index_axis(x, 0, axis)


def _empty_fold(ufunc: np.ufunc, x: Any, axis: int) -> Any:
    if ufunc.identity is None:
        raise ValueError(
            f"zero-size array to reduction operation {ufunc.__name__} which has no identity"
        )
    total = reductions.sum(x, axis=axis)
    dtype = typeof(ufuncs.apply(ufunc, total, total)).dtype
    return constant_like(total, dtype, ufunc.identity)


def accumulating(ufunc: np.ufunc, array: Any, dtype: Any) -> Any:
    """The operand in the dtype in which a ufunc folds: sums of integers are wide.

    Raises:
        DtypeError: where NumPy has no loop that gives what it takes.
    """
    x = strong(value(array))
    if dtype is not None:
        return cast(x, canonical(dtype))
    return cast(x, _dtype_of_fold(ufunc, typeof(x).dtype))


@functools.lru_cache(maxsize=1024)
def _dtype_of_fold(ufunc: np.ufunc, dtype: np.dtype[Any]) -> np.dtype[Any]:
    try:
        return canonical(ufunc.resolve_dtypes((None, dtype, None), reduction=True)[0])
    except TypeError as error:
        raise DtypeError(
            f"{ufunc.__name__} cannot be folded over an array of {dtype}.",
            "Convert the array: `x.astype(float)`.",
        ) from error


def accumulate(
    ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None, out: Any = None
) -> Any:
    """`ufunc.accumulate`: every prefix's reduction."""
    x = accumulating(ufunc, array, dtype)
    name = ufunc.__name__
    if name in CUMULATIVE:
        found = cumulated(CUMULATIVE[name], x, axis)
    else:
        found = _prefixes(ufunc, x, one_axis(axis, typeof(x).ndim))
    return ufuncs.finish(ufunc, found, out)


def _prefixes(ufunc: np.ufunc, x: Any, axis: int) -> Any:
    n = typeof(x).shape[axis]
    if not n:
        return copy_row(x)
    parts = [index_axis(x, 0, axis)]
    for i in range(1, n):
        parts.append(ufuncs.apply(ufunc, parts[-1], index_axis(x, i, axis)))
    dtype = typeof(parts[-1]).dtype
    wide = [expand_dims(cast(p, dtype), dimensions=(axis,)) for p in parts]
    return concatenate(*wide, dimension=axis)


def outer(ufunc: np.ufunc, a: Any, b: Any, /, **options: Any) -> Any:
    """`ufunc.outer`: all pairs of an element of `a` and one of `b`."""
    x, y = strong(value(a)), strong(value(b))  # NumPy makes arrays of Python scalars here
    rank = typeof(y).ndim
    if rank:
        x = reshape(x, new_sizes=typeof(x).shape + (1,) * rank)
    return ufuncs.UFUNCS[ufunc](x, y, **options)


def at(ufunc: np.ufunc, *operands: Any) -> None:
    """`ufunc.at`: the ufunc applied in place, once for every index."""
    hooks.write_at(ufunc, *operands)


METHODS: Final[dict[str, Callable[..., Any]]] = {
    "reduce": reduce,
    "accumulate": accumulate,
    "outer": outer,
    "at": at,
}
