"""Cotangents of arrays that are written: an element that was overwritten is not taken.

Nothing reaches it, even where a later factor is infinite or NaN (`y = sqrt(x); y[0] = 1.0` at a
negative `x[0]`). Masks are made when something asks for them: a chain of writes to separate
slices of new zeros, the common program, never does.
"""

from math import prod
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.primitive import Rule
from ftrace.core.zero import Holes, Masked, Reads, Region
from ftrace.primitives.linear import broadcast_rank0
from ftrace.primitives.movement import Ints, carry, whole_mask

_MANY = 16  # slices that are told apart


def without(ct: Any, clear: Rule, hole: Region | None = None) -> Masked:
    """The cotangent of what was in an array before a write; `clear` puts zeros where it wrote.

    Args:
        ct: the cotangent of the array after the write.
        clear: from an array (of any dtype) to one with zeros in the written places.
        hole: these places, where they are a slice.
    """
    if type(ct) is not Masked:
        shape = typeof(ct).shape
        holes = None if hole is None else (hole,)
        return Masked(clear(ct), lambda: clear(everywhere(shape)), True, holes=holes)
    holes = _joined(ct.holes, hole)
    found = Masked(clear(ct.value), lambda: clear(whole_mask(ct)), ct.zeroed, holes=holes)
    found.branch = ct.branch
    return found


def everywhere(shape: tuple[int, ...]) -> Any:
    """The mask of an array that is taken as a whole."""
    return broadcast_rank0(np.True_, shape) if shape else np.True_


def spread(
    ct: Any,
    back: Rule,
    shape: Ints = (),
    region: Region | None = None,
    fixed: bool = True,
) -> Masked:
    """The cotangent of an array of which places were read; `back` puts them there, among zeros.

    Where they are a slice, `region` of an array of this shape, that is done when it is asked for:
    slices that meet are put together at once (assembling.py).

    What was not read is not taken. That is used where another use of the array is masked, and
    where a slope may be infinite: elsewhere it would cost a mask for each slice of an intermediate
    value. `fixed` says that shapes and known indices alone decide what was read.
    """
    if type(ct) is Masked and (region is None or not ct.read):
        found = ct.with_value(back(ct.value), lambda: back(whole_mask(ct)))
        found.fixed = found.fixed and fixed
        return found

    def mask() -> Any:
        return back(everywhere(typeof(ct).shape))

    if region is None:
        found = Masked(back(ct), mask, True, None, True)
    else:
        reads = Reads(shape, {region: ct})
        if type(ct) is Masked:
            found = Masked(
                lambda: back(ct.value), lambda: back(whole_mask(ct)), True, None, True, reads
            )
            fixed = fixed and ct.fixed
        else:
            found = Masked(lambda: back(ct), mask, True, None, True, reads)
    found.fixed = fixed
    return found


def part(ct: Any, move: Rule, region: Region) -> Any:
    """The cotangent of what was written to a slice: plain, if nothing overwrote it later."""
    holes = ct.holes if type(ct) is Masked else None
    if holes is not None and all(_apart(region, hole) for hole in holes):
        return move(ct.value)
    return carry(ct, move)


def lives(ct: Masked) -> bool:
    """Whether some element is known to be taken."""
    if ct.holes is None:
        return False
    return sum(map(_size, ct.holes)) < prod(typeof(ct.value).shape)


def _size(region: Region) -> int:
    return prod(len(range(*axis)) for axis in region)


def _apart(a: Region, b: Region) -> bool:
    """Whether two slices share no place."""
    return any(
        i_end <= j or j_end <= i or (step == other and (i - j) % step)
        for (i, i_end, step), (j, j_end, other) in zip(a, b, strict=True)
    )


def _joined(holes: Holes, hole: Region | None) -> Holes:
    """Slices and one more; slices side by side become one, as a loop of writes leaves them."""
    if holes is None or hole is None or len(holes) == _MANY:
        return None
    *others, last = holes
    together = _side_by_side(hole, last)
    return (*holes, hole) if together is None else (*others, together)


def _side_by_side(a: Region, b: Region) -> Region | None:
    """The union of two slices of stride 1 that touch along one axis and agree along the others."""
    differ = [k for k, (p, q) in enumerate(zip(a, b, strict=True)) if p != q]
    if len(differ) != 1:
        return None
    (k,) = differ
    (i, i_end, step), (j, j_end, other) = a[k], b[k]
    if step != 1 or other != 1 or not (i_end == j or j_end == i):
        return None
    return (*a[:k], (min(i, j), max(i_end, j_end), 1), *a[k + 1 :])
