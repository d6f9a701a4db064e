"""Functions of `lax` that few programs call: bits, ranks, approximate maxima, platforms."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.errors import DtypeError
from ftrace.core.trace import is_on_device
from ftrace.core.tree import tree_flatten
from ftrace.lax.binding import int_of, own, shape_of
from ftrace.lax.operations import population_count
from ftrace.lax.reducing import top_k
from ftrace.numpy.promote import stretch
from ftrace.primitives import elementwise as e
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.shape import reshape


def dtype(x: Any) -> np.dtype[Any]:
    """The dtype of an array, a number or a dtype.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.dtype(np.zeros(2, np.float32))
        dtype('float32')
    """
    return np.dtype(x) if isinstance(x, type | np.dtype | str) else typeof(x).dtype


def _bits(name: str, x: Any) -> np.dtype[Any]:
    found = typeof(x).dtype
    if found.kind not in "iu":
        raise DtypeError(f"lax.{name} was given {typeof(x)}.", "It takes integers.")
    return found


def clz(x: Any) -> Any:
    """The number of zero bits before the first one of an integer.

    Args:
        x: an array of integers.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.clz(np.array([1, 255, 0], np.uint8))
        array([7, 0, 8], dtype=uint8)
    """
    kind = _bits("clz", x)
    bits = kind.itemsize * 8
    plain = np.dtype(f"u{kind.itemsize}")
    y = convert_element_type(x, new_dtype=plain)
    step = 1
    while step < bits:  # all bits behind the first one are set
        y = e.bitwise_or(y, e.shift_right(y, plain.type(step)))
        step *= 2
    ones = convert_element_type(population_count(y), new_dtype=kind)
    return own(e.sub(kind.type(bits), ones), x)


def mulhi(x: Any, y: Any) -> Any:
    """The upper half of the bits of a product of integers.

    Args:
        x, y: arrays of integers of one dtype of at most 32 bits.

    Raises:
        DtypeError: no such integers.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> int(lax.mulhi(np.uint32(1 << 31), np.uint32(6)))
        3
    """
    kind = _bits("mulhi", x)
    if kind.itemsize > 4 or typeof(y).dtype != kind:
        raise DtypeError(
            f"lax.mulhi was given {typeof(x)} and {typeof(y)}.",
            "Both are integers of one dtype, of at most 32 bits.",
        )
    wide = np.dtype(f"{kind.kind}8")
    product = e.mul(*(convert_element_type(v, new_dtype=wide) for v in (x, y)))
    half = e.shift_right(product, wide.type(8 * kind.itemsize))
    return own(convert_element_type(half, new_dtype=kind), x, y)


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """An array with leading axes of size 1 up to a rank.

    Args:
        x: an array.
        rank: of the result.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.broadcast_to_rank(np.zeros(3), 3).shape
        (1, 1, 3)
    """
    shape = shape_of(x)
    missing = int_of(rank, "rank of lax.broadcast_to_rank") - len(shape)
    return own(reshape(x, new_sizes=(1,) * missing + shape) if missing > 0 else x, x)


def broadcast_like(x: Any, y: Any) -> Any:
    """An array broadcast to the shape of another.

    Args:
        x: an array.
        y: the other one.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.broadcast_like(np.float64(2.0), np.zeros(2))
        array([2., 2.])
    """
    return own(stretch(x, shape_of(y)), x)


def approx_max_k(
    operand: Any, k: int, reduction_dimension: int = -1, **hints: Any
) -> tuple[Any, Any]:
    """The k largest elements along an axis, and their indices: `top_k`, which is exact.

    Args:
        operand: an array of real numbers.
        k: how many.
        reduction_dimension: the axis.
        hints: recall_target and its kin, as in JAX; without effect.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.approx_max_k(np.array([1.0, 3.0, 2.0]), 2)
        (array([3., 2.]), array([1, 2]))
    """
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(
    operand: Any, k: int, reduction_dimension: int = -1, **hints: Any
) -> tuple[Any, Any]:
    """The k smallest elements along an axis, and their indices, exactly.

    Args:
        operand: an array of floats.
        k: how many.
        reduction_dimension: the axis.
        hints: as in JAX; without effect.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.approx_min_k(np.array([1.0, 3.0, 2.0]), 2)
        (array([1., 2.]), array([0, 2]))
    """
    values, indices = top_k(e.neg(operand), k, axis=reduction_dimension)
    return own(e.neg(values), operand), indices


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """Call the function for where the arguments are.

    Args:
        args: the arguments.
        default: the function where none is given for a platform.
        per_platform: functions by "cpu" and "cuda"; others are for platforms that are not here.

    Raises:
        KeyError: there is none.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> float(lax.platform_dependent(0.0, cpu=np.cos, default=np.sin))
        1.0
    """
    here = "cuda" if any(map(is_on_device, tree_flatten(args)[0])) else "cpu"
    chosen = per_platform.get(here, default)
    if chosen is None:
        raise KeyError(f"platform_dependent was given no function for {here!r}, and no default")
    return chosen(*args)
