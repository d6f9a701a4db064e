"""Reductions, running reductions, sorting and products with JAX's signatures.

Each is one row with its static parameters by position. Results have the operands' dtype: unlike
NumPy's, a sum of small integers is not widened.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.core.errors import ShapeError
from ftrace.core.primitive import Primitive
from ftrace.lax.binding import (
    Ints,
    as_dtype,
    axes_of,
    axis_of,
    bind,
    dtype_of,
    int_of,
    ints,
    shape_of,
)
from ftrace.lax.making import broadcasted_iota, rev
from ftrace.lax.slices import slice_in_dim
from ftrace.numpy.precision import check_precision
from ftrace.primitives import cumulative, linear, reduce
from ftrace.primitives import dot as contracting
from ftrace.primitives import sort as sorting


def _reduction(row: Primitive) -> Callable[[Any, Sequence[int]], Any]:
    def reduction(operand: Any, axes: Sequence[int]) -> Any:
        found = axes_of(row.name, axes, len(shape_of(operand)))
        return bind(row, operand, axes=tuple(sorted(found)))

    reduction.__name__ = reduction.__qualname__ = row.name
    reduction.__doc__ = (
        f"{row.doc}\n\nArgs:\n    operand: an array.\n    axes: the axes that are reduced away."
    )
    return reduction


reduce_sum = _reduction(linear.reduce_sum)
reduce_prod = _reduction(reduce.reduce_prod)
reduce_max = _reduction(reduce.reduce_max)
reduce_min = _reduction(reduce.reduce_min)
reduce_and = _reduction(reduce.reduce_and)
reduce_or = _reduction(reduce.reduce_or)
reduce_xor = _reduction(reduce.reduce_xor)


def _running(row: Primitive) -> Callable[..., Any]:
    def running(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
        found = axis_of(row.name, axis, len(shape_of(operand)))
        return bind(row, operand, axis=found, reverse=bool(reverse))

    running.__name__ = running.__qualname__ = row.name
    running.__doc__ = (
        f"{row.doc}\n\nArgs:\n    operand: an array.\n    axis: the axis.\n"
        "    reverse: run from the end to the front."
    )
    return running


cumsum = _running(cumulative.cumsum)
cumprod = _running(cumulative.cumprod)
cummax = _running(cumulative.cummax)
cummin = _running(cumulative.cummin)
cumlogsumexp = _running(cumulative.cumlogsumexp)


def argmax(operand: Any, axis: int, index_dtype: Any = np.int64) -> Any:
    """The index of the first maximum along an axis; of the first NaN where there is one.

    Args:
        operand: an array of real numbers.
        axis: the axis.
        index_dtype: of the result.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.argmax(np.array([1.0, 3.0, 3.0]), 0, np.int32)
        np.int32(1)
    """
    axis = axis_of("argmax", axis, len(shape_of(operand)))
    return bind(reduce.argmax, operand, axis=axis, index_dtype=dtype_of(index_dtype))


def argmin(operand: Any, axis: int, index_dtype: Any = np.int64) -> Any:
    """The index of the first minimum along an axis; of the first NaN where there is one.

    Args:
        operand: an array of real numbers.
        axis: the axis.
        index_dtype: of the result.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.argmin(np.array([[1.0, 3.0], [0.0, 5.0]]), 0)
        array([1, 0])
    """
    axis = axis_of("argmin", axis, len(shape_of(operand)))
    return bind(reduce.argmin, operand, axis=axis, index_dtype=dtype_of(index_dtype))


# ---------------------------------------------------------------------------------- sorting


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Ascending order along an axis, NaN last.

    Args:
        operand: an array, or a tuple of arrays of one shape that are reordered together.
        dimension: the axis.
        is_stable: keep the order of equal elements.
        num_keys: how many of the arrays decide; the first decides first.

    Returns:
        An array, or a tuple of them.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.sort((np.array([2, 1]), np.array([10.0, 20.0])))
        (array([1, 2]), array([20., 10.]))
    """
    together = isinstance(operand, tuple | list)
    operands = tuple(operand) if together else (operand,)
    axis = axis_of("sort", dimension, len(shape_of(operands[0])))
    params = {"dimension": axis, "is_stable": is_stable, "num_keys": num_keys}
    found = bind(sorting.sort, *operands, **params)
    return tuple(found) if together else found[0]


def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Any, Any]:
    """Sort keys, and values in the order of the keys.

    Args:
        keys, values: arrays of one shape.
        dimension: the axis.
        is_stable: keep the order of equal keys.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.sort_key_val(np.array([2, 1]), np.array([10.0, 20.0]))
        (array([1, 2]), array([20., 10.]))
    """
    return sort((keys, values), dimension, is_stable)


def top_k(operand: Any, k: int, axis: int = -1) -> tuple[Any, Any]:
    """The k largest elements along an axis in descending order, and their indices.

    Args:
        operand: an array of real numbers; NaN counts as largest.
        k: how many.
        axis: the axis.

    Returns:
        `(values, indices)`; of equal elements the one with the lower index comes first.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.top_k(np.array([1.0, 3.0, 2.0, 3.0]), 2)
        (array([3., 3.]), array([1, 3]))
    """
    shape = shape_of(operand)
    axis = axis_of("top_k", axis, len(shape))
    k = int_of(k, "k of lax.top_k")
    if not 0 <= k <= shape[axis]:
        raise ShapeError(
            f"lax.top_k was asked for {k} elements of an axis of size {shape[axis]}.",
            "k is from 0 to the size of the axis.",
        )
    places = broadcasted_iota(np.int64, shape, axis)
    found = sort((rev(operand, (axis,)), rev(places, (axis,))), axis)
    values, indices = (slice_in_dim(rev(x, (axis,)), 0, k, axis=axis) for x in found)
    return values, indices


# ---------------------------------------------------------------------------------- products

Numbers = tuple[tuple[Ints, Ints], tuple[Ints, Ints]]


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The sum of products over contracting axes, for each member of the batch axes.

    Args:
        lhs, rhs: arrays of one dtype.
        dimension_numbers: `((lhs contracting, rhs contracting), (lhs batch, rhs batch))`.
        precision: as in JAX; the product has full precision in any case.
        preferred_element_type: convert both to this dtype first.

    Returns:
        An array with the batch axes, the free axes of `lhs`, then those of `rhs`.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> a, b = np.ones((5, 2, 3)), np.ones((5, 3, 4))
        >>> lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,)))).shape
        (5, 2, 4)
    """
    check_precision("dot_general", precision)
    try:
        (lc, rc), (lb, rb) = dimension_numbers
    except (TypeError, ValueError):
        raise ShapeError(
            f"lax.dot_general was given dimension_numbers={dimension_numbers!r}.",
            "Give ((summed axes of lhs, of rhs), (batch axes of lhs, of rhs)), each a tuple.",
        ) from None
    numbers: Numbers = (ints(lc), ints(rc)), (ints(lb), ints(rb))
    if preferred_element_type is not None:
        wanted = dtype_of(preferred_element_type)
        lhs, rhs = (as_dtype(x, wanted) for x in (lhs, rhs))
    return bind(contracting.dot_general, lhs, rhs, dimension_numbers=numbers)


def dot(lhs: Any, rhs: Any, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The product of vectors and matrices.

    Args:
        lhs, rhs: arrays of rank 1 or 2 and of one dtype.
        precision: as in JAX; the product has full precision in any case.
        preferred_element_type: convert both to this dtype first.

    Raises:
        ShapeError: other ranks, or sizes that do not meet.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> float(lax.dot(np.array([1.0, 2.0]), np.array([3.0, 4.0])))
        11.0
    """
    left, right = shape_of(lhs), shape_of(rhs)
    if len(left) not in (1, 2) or len(right) not in (1, 2) or left[-1] != right[0]:
        raise ShapeError(
            f"lax.dot was given arrays of shapes {left} and {right}.",
            "It multiplies vectors and matrices whose inner sizes agree; use lax.dot_general for "
            "more axes.",
        )
    numbers = (((len(left) - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, numbers, precision, preferred_element_type)


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """The product of matrices in the last two axes, for each member of the axes before them.

    Args:
        lhs, rhs: arrays of one dtype, of equal rank, with equal leading axes.
        precision: as in JAX; the product has full precision in any case.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.batch_matmul(np.ones((5, 2, 3)), np.ones((5, 3, 4))).shape
        (5, 2, 4)
    """
    left, right = shape_of(lhs), shape_of(rhs)
    if len(left) != len(right) or len(left) < 2:
        raise ShapeError(
            f"lax.batch_matmul was given arrays of shapes {left} and {right}.",
            "Give arrays of one rank, at least 2.",
        )
    batch = tuple(range(len(left) - 2))
    numbers = (((len(left) - 1,), (len(left) - 2,)), (batch, batch))
    return dot_general(lhs, rhs, numbers, precision)
