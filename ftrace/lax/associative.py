"""`associative_scan`: all prefixes of a sequence combined, in logarithmic depth."""

from collections.abc import Callable
from typing import Any

from ftrace.control.functions import frozen
from ftrace.core.avals import typeof
from ftrace.core.errors import DtypeError, ShapeError, TreeError
from ftrace.core.trace import lifted
from ftrace.core.tree import PyTreeDef, paths, tree_flatten, tree_mismatch, tree_unflatten
from ftrace.lax.binding import as_dtype, axis_of, own, shape_of
from ftrace.primitives.shape import concatenate, rev
from ftrace.primitives.slicing import along, pad, update_slice

Values = list[Any]


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """All prefixes of a sequence combined with an associative function.

    Neighbours are combined, the sequence of half the length is scanned, and every second prefix
    is completed from it: about twice as many combinations as there are elements, in a number of
    steps that grows with the logarithm of the length.

    Args:
        fn: (earlier, later) -> combined, associative, on containers like `elems` whose arrays
            have any length along `axis`.
        elems: an array, or a container of arrays that have one length along `axis`.
        reverse: combine from the end.
        axis: the axis of the sequence.

    Returns:
        A container like `elems`; element k is the combination of elements 0 to k.

    Raises:
        ShapeError: lengths that differ, or `fn` returns other shapes than it was given.
        TreeError: `fn` returns other containers than it was given.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.associative_scan(np.maximum, np.array([2.0, 1.0, 4.0, 3.0]))
        array([2., 2., 4., 4.])
    """
    if not callable(fn):
        raise DtypeError(
            f"lax.associative_scan was given {fn!r} as its function.", "Give a function of two."
        )
    leaves, tree = tree_flatten(elems)
    if not leaves:
        raise TreeError("lax.associative_scan was given no arrays.", "Give at least one.")
    axis = axis_of("associative_scan", axis, len(shape_of(leaves[0])))
    length = shape_of(leaves[0])[axis]
    for x, path in zip(leaves, paths(tree, "elems"), strict=True):
        if shape_of(x)[axis : axis + 1] != (length,):
            raise ShapeError(
                f"lax.associative_scan was given {typeof(x)} for {path}, and {typeof(leaves[0])} "
                "before it.",
                f"All arrays have one length along axis {axis}.",
            )
    values = [rev(x, dimensions=(axis,)) if reverse else x for x in leaves]
    found = _prefixes(lambda a, b: _combined(fn, tree, a, b), values, axis)
    found = [rev(y, dimensions=(axis,)) if reverse else y for y in found]
    return tree_unflatten(tree, [own(y, *leaves) for y in found])


def _combined(fn: Callable[..., Any], tree: PyTreeDef, earlier: Values, later: Values) -> Values:
    pair = (tree_unflatten(tree, map(frozen, values)) for values in (earlier, later))
    result = lifted(fn)(*pair)
    leaves, found = tree_flatten(result)
    if found != tree:
        raise TreeError(
            "The function of lax.associative_scan returned other containers than it was given "
            f"{tree_mismatch(tree, found, 'result')}.",
            "Return the structure of one of its arguments.",
        )
    for y, x, path in zip(leaves, earlier, paths(tree, "result"), strict=True):
        a, b = typeof(y), typeof(x)
        if a.shape != b.shape or (a.dtype != b.dtype and not a.weak):
            raise ShapeError(
                f"The function of lax.associative_scan returned {a} for {path}, and was given {b}.",
                "It must return the shapes and dtypes it is given, for any length of the axis.",
            )
    return [as_dtype(y, typeof(x).dtype) for y, x in zip(leaves, earlier, strict=True)]


def _prefixes(combine: Callable[[Values, Values], Values], values: Values, axis: int) -> Values:
    n = shape_of(values[0])[axis]
    if n < 2:
        return values

    def every_second(xs: Values, start: int, stop: int) -> Values:
        return [along(x, axis, start, stop, 2) for x in xs]

    def part(xs: Values, start: int, stop: int) -> Values:
        return [along(x, axis, start, stop) for x in xs]

    pairs = combine(every_second(values, 0, n - 1), every_second(values, 1, n))
    odd = _prefixes(combine, pairs, axis)
    first = part(values, 0, 1)
    if n == 2:
        return [_interleaved(a, b, n, axis) for a, b in zip(first, odd, strict=True)]
    before = part(odd, 0, (n - 1) // 2)
    later = combine(before, every_second(values, 2, n))
    even = [concatenate(a, b, dimension=axis) for a, b in zip(first, later, strict=True)]
    return [_interleaved(a, b, n, axis) for a, b in zip(even, odd, strict=True)]


def _interleaved(even: Any, odd: Any, n: int, axis: int) -> Any:
    """n elements along an axis, alternating between two arrays."""
    a = typeof(even)
    gaps = [(0, 1 - n % 2, 1) if i == axis else (0, 0, 0) for i in range(a.ndim)]
    spread = pad(even, a.dtype.type(0), padding_config=tuple(gaps))
    shape = typeof(spread).shape
    return update_slice(
        spread,
        odd,
        start_indices=tuple(int(i == axis) for i in range(a.ndim)),
        limit_indices=shape,
        strides=tuple(2 if i == axis else 1 for i in range(a.ndim)),
    )
