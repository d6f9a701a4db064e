"""`reduce_window`: reductions over sliding windows with JAX's signature.

Sums, maxima and minima are rows (`primitives/windows.py`); any other computation combines
strided slices of the padded operand, one axis after the other.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from ftrace.core.avals import typeof
from ftrace.core.primitive import Primitive
from ftrace.core.tree import tree_unflatten
from ftrace.lax.binding import Ints, own, shape_of
from ftrace.lax.dimension_numbers import Pads, dilated, explicit_pads, padtype_to_pads, positive
from ftrace.lax.monoids import Computation, Values, filled, operands_of
from ftrace.primitives import arithmetic, linear, windows
from ftrace.primitives.slicing import along, pad

_ROWS: Final[dict[Primitive, tuple[Primitive, str]]] = {
    linear.add: (windows.reduce_window_sum, "biufc"),
    arithmetic.max: (windows.reduce_window_max, "biuf"),
    arithmetic.min: (windows.reduce_window_min, "biuf"),
}


def reduce_window(  # noqa: PLR0913 - JAX's signature
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Combine the elements of every window of an array.

    The derivative of a maximum or minimum is that of the first such element of the window. Any
    computation but a sum, maximum or minimum is applied along the last axis from left to right,
    then along the axis before it, and so on; it must be associative, and costs one slice for each
    element of each side of the window.

    Args:
        operand: an array, or a container of arrays of one shape.
        init_value: a scalar for each of them, which padding repeats and results start with.
        computation: (earlier, later) -> combined, on scalars, or on containers like `operand`.
        window_dimensions: the size of windows along each axis.
        window_strides: their steps.
        padding: "SAME", "SAME_LOWER", "VALID", or (low, high) for each axis.
        base_dilation: distance to which elements of the operand are pulled apart.
        window_dilation: distance of the elements inside a window.

    Returns:
        A container like `operand`, with one element for each window.

    Raises:
        ShapeError: sizes or paddings that do not fit.
        TreeError: containers that differ.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> x = np.array([1.0, 3.0, 2.0, 0.0])
        >>> lax.reduce_window(x, -np.inf, lax.max, (2,), (2,), "VALID")
        array([3., 2.])
        >>> lax.reduce_window(x, 0.0, lax.add, (3,), (1,), "SAME")
        array([4., 6., 5., 2.])
    """
    name = "reduce_window"
    values, inits, tree, combine = operands_of(name, operand, init_value, computation)
    sizes = shape_of(values[0])
    ndim = len(sizes)
    window = positive(name, "window_dimensions", window_dimensions, ndim)
    strides = positive(name, "window_strides", window_strides, ndim)
    apart = positive(name, "base_dilation", base_dilation, ndim)
    spread = positive(name, "window_dilation", window_dilation, ndim)
    if isinstance(padding, str):
        pads = tuple(padtype_to_pads(sizes, dilated(window, spread), strides, padding))
    else:
        pads = explicit_pads(name, padding, ndim)
    padded = tuple(_padded(x, init, pads, apart) for x, init in zip(values, inits, strict=True))
    results = _windows(combine, padded, inits, (window, strides, spread))
    return tree_unflatten(tree, [own(y, *values, *inits) for y in results])


def _padded(x: Any, init: Any, pads: Pads, apart: Ints) -> Any:
    """The initial value around and between the elements."""
    edges = zip(pads, apart, strict=True)
    config = tuple((low, high, step - 1) for (low, high), step in edges)
    if config == ((0, 0, 0),) * len(config):
        return x
    pad.type(typeof(x), typeof(init), padding_config=config)
    return pad(x, init, padding_config=config)


def _windows(
    combine: Computation, values: Values, inits: Values, sizes: tuple[Ints, Ints, Ints]
) -> Values:
    window, strides, spread = sizes
    shape = shape_of(values[0])
    counts = tuple(map(windows.count, shape, window, strides, spread))
    starts = tuple(filled(init, counts) for init in inits)
    if 0 in counts:
        return starts
    row, kinds = _ROWS.get(combine.row, (None, "")) if combine.row else (None, "")
    if row is not None and typeof(values[0]).dtype.kind in kinds:
        results: Values = (row(values[0], window=window, strides=strides, dilation=spread),)
    else:
        results = values
        for axis in reversed(range(len(window))):
            step = window[axis], strides[axis], spread[axis]
            results = _along_axis(combine, results, axis, counts[axis], step)
    return results if combine.starts_at(inits[0]) else combine(starts, results)


def _along_axis(
    combine: Computation, values: Values, axis: int, count: int, step: tuple[int, int, int]
) -> Values:
    """The elements of windows along one axis combined from left to right."""
    window, stride, spread = step

    def element(k: int) -> Values:
        limit = k * spread + (count - 1) * stride + 1
        return tuple(along(x, axis, k * spread, limit, stride) for x in values)

    found = element(0)
    for k in range(1, window):
        found = combine(found, element(k))
    return found
