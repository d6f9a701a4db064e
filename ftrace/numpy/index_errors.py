"""Integer indices out of range where a `try` may catch the error: noted, as any that values decide.

Elsewhere the row raises it, which reads or writes: for all batch elements, or when a compiled
function runs. A `try` is told of one member's error, so that its indices are looked at before.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ftrace.control.rows.raising import fail_where, may_be_caught, some, unasked
from ftrace.core.avals import typeof
from ftrace.core.trace import UNKNOWN, Tracer
from ftrace.interpreters.value_ranges import value_range
from ftrace.numpy.promote import cast
from ftrace.primitives.compare import bitwise_or, clamp, ge, lt, select
from ftrace.primitives.linear import add
from ftrace.primitives.places import out_of_range

Ints = tuple[int, ...]
INDEX: Final = np.dtype(np.int64)


def for_reading(indices: Sequence[Any], axes: Ints, shape: Ints) -> tuple[tuple[Any, ...], str]:
    """Indices to read with, and their mode; those of a member that are out of range are noted."""
    if _are_inside(indices, axes, shape):
        return tuple(indices), "clip"
    if not _may_fail(indices):
        return tuple(indices), "raise"
    return tuple(i for i, _ in _looked_at(indices, axes, shape)), "raise"


def for_writing(indices: Sequence[Any], axes: Ints, shape: Ints) -> tuple[tuple[Any, ...], str]:
    """Indices to write with, and their mode: a member that has an error by now writes nothing."""
    inside = _are_inside(indices, axes, shape)
    if (inside and unasked() is False) or not _may_fail(indices):
        return tuple(indices), "clip" if inside else "raise"
    if inside:
        found = [(cast(i, INDEX), shape[a]) for i, a in zip(indices, axes, strict=True)]
    else:
        found = _looked_at(indices, axes, shape)
    stopped = unasked()
    return tuple(select(stopped, INDEX.type(n), i) for i, n in found), "drop"


def _are_inside(indices: Sequence[Any], axes: Ints, shape: Ints) -> bool:
    """Whether traced numbers are in range, counted from the start, whatever the arguments are.

    Arrays of indices are looked at in any case: what is computed for that is not computed again
    where elements are read.
    """
    if any(typeof(i).shape for i in indices) or not any(isinstance(i, Tracer) for i in indices):
        return False
    ranges = map(value_range, indices)
    sizes = (shape[a] for a in axes)
    return all(
        r is not None and r.low >= 0 and r.high < n for r, n in zip(ranges, sizes, strict=True)
    )


def _may_fail(indices: Sequence[Any]) -> bool:
    unknown = any(isinstance(i, Tracer) and i.known(exact=False) is UNKNOWN for i in indices)
    return unknown and may_be_caught()


def _looked_at(indices: Sequence[Any], axes: Ints, shape: Ints) -> list[tuple[Any, int]]:
    """Indices in range, each with its axis' size, after the error of others was noted."""
    bad: Any = None
    found: list[tuple[Any, int]] = []
    for given, axis in zip(indices, axes, strict=True):
        n, i = shape[axis], cast(given, INDEX)
        if typeof(given).dtype == np.uint64:
            outside = ge(given, np.uint64(n))
        else:
            outside = bitwise_or(lt(i, INDEX.type(-n)), ge(i, INDEX.type(n)))
        bad = some(outside) if bad is None else bitwise_or(bad, some(outside))
        from_end = select(lt(i, INDEX.type(0)), add(i, INDEX.type(n)), i)
        found.append((clamp(INDEX.type(0), from_end, INDEX.type(max(n - 1, 0))), n))

    def throw(*values: Any) -> None:
        raise out_of_range(values, shape, axes)

    fail_where(bad, indices, throw, IndexError)
    return found
