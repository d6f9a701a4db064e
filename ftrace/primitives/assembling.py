"""A cotangent put together from the slices that were read of an array.

`x[0] * x[1] + x[2]` reads three slices. Padded to the size of x and added, their cotangents would
cost n * n for n reads of n elements. Here they are kept apart until somebody needs the sum. Then a
few are padded and added; many slices along one axis cut it into segments, each is the sum of what
was read there, and the result is their concatenation.
"""

from functools import reduce
from math import prod
from typing import Any, Final

import numpy as np

from ftrace.core.avals import aval, typeof
from ftrace.core.primitive import Rule
from ftrace.core.zero import Masked, Reads
from ftrace.primitives.compare import bitwise_or
from ftrace.primitives.linear import add
from ftrace.primitives.movement import whole_mask, zeros
from ftrace.primitives.overwriting import everywhere
from ftrace.primitives.shape import concatenate
from ftrace.primitives.slicing import pad_to, slice_of

FEW: Final = 4  # slices that are padded rather than put side by side
_KNOWN: Final = 1 << 16  # parts between slices of which it is found out whether all were read


def together(a: Any, b: Any) -> Reads | None:
    """What two cotangents of an array are made of; None if neither is made of slices."""
    first, second = _reads(a), _reads(b)
    if first is None and second is None:
        return None
    if first is None or second is None:
        reads, rest = (second, a) if first is None else (first, b)
        if reads is None or (type(rest) is Masked and not rest.read):
            return None
        return Reads(reads.shape, reads.parts, _sum(reads.rest, rest))
    parts = first.parts  # nobody else has it: a sum is made where two cotangents end
    for region, ct in second.parts.items():
        parts[region] = _sum(parts[region], ct) if region in parts else ct
    return Reads(first.shape, parts, _sum(first.rest, second.rest))


def _reads(ct: Any) -> Reads | None:
    return ct.reads if type(ct) is Masked else None


def _sum(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    both = add(_plain(a), _plain(b))
    if type(a) is not Masked or type(b) is not Masked:
        return both
    return Masked(both, lambda: bitwise_or(a.mask, b.mask), True, None, True)


def _plain(ct: Any) -> Any:
    """The value of what was read at computed places: zeros where nothing was."""
    return ct.value if type(ct) is Masked else ct


def is_whole(ct: Masked) -> bool:
    """Whether it is known that every element was read."""
    reads = ct.reads
    if reads is None or any(type(part) is Masked for part in reads.parts.values()):
        return False
    if reads.rest is not None and type(reads.rest) is not Masked:
        return True
    if sum(prod(len(range(*cut)) for cut in region) for region in reads.parts) < prod(reads.shape):
        return False
    cuts = [{0, n} for n in reads.shape]
    for region in reads.parts:
        for axis, (start, limit, step) in zip(cuts, region, strict=True):
            axis.update((start, limit) if step == 1 else range(limit + 1))
    if prod(map(len, cuts)) > _KNOWN:
        return False
    places = [{cut: k for k, cut in enumerate(sorted(axis))} for axis in cuts]
    read = np.zeros([len(axis) - 1 for axis in cuts], bool)
    for region in reads.parts:
        read[
            tuple(
                slice(at[start], at[limit], step)
                for at, (start, limit, step) in zip(places, region, strict=True)
            )
        ] = True
    return bool(read.all())


def covered(reads: Reads) -> Any:
    """Where the array was read."""
    rest = reads.rest
    if rest is not None and type(rest) is not Masked:
        return everywhere(reads.shape)
    masks = {
        region: whole_mask(ct) if type(ct) is Masked else everywhere(typeof(ct).shape)
        for region, ct in reads.parts.items()
    }
    found = assembled(Reads(reads.shape, masks), bitwise_or)
    return found if rest is None else bitwise_or(found, rest.mask)


def assembled(reads: Reads, add: Rule = add) -> Any:
    """The cotangent of the whole array; terms meet by `add`."""
    reads = reads._replace(parts={region: _plain(ct) for region, ct in reads.parts.items()})
    axis = _axis(reads)
    segments = None if axis is None else _segments(reads, axis, add)
    if axis is None or segments is None:
        found = reduce(add, (pad_to(ct, reads.shape, r) for r, ct in reads.parts.items()))
    else:
        found = concatenate(*segments, dimension=axis) if len(segments) > 1 else segments[0]
    return found if reads.rest is None else add(_plain(reads.rest), found)


def _axis(reads: Reads) -> int | None:
    """The one axis along which many slices differ, all of stride 1 and whole along the others."""
    if len(reads.parts) < FEW:
        return None
    whole = tuple((0, n, 1) for n in reads.shape)
    axes = {k for region in reads.parts for k, cut in enumerate(region) if cut != whole[k]}
    if len(axes) != 1:
        return None
    (axis,) = axes
    return axis if all(region[axis][2] == 1 for region in reads.parts) else None


def _segments(reads: Reads, axis: int, add: Rule) -> list[Any] | None:
    """The parts between the ends of slices; None if slices overlap so much that pads cost less."""
    bounds = {region[axis][:2]: ct for region, ct in reads.parts.items()}
    size = reads.shape[axis]
    cuts = sorted({0, size, *(end for cut in bounds for end in cut)})
    place = {cut: k for k, cut in enumerate(cuts)}
    terms: list[list[Any]] = [[] for _ in cuts[1:]]
    if sum(place[end] - place[start] for start, end in bounds) > FEW * len(bounds):
        return None
    for (start, end), ct in bounds.items():
        for k in range(place[start], place[end]):
            terms[k].append(_within(ct, axis, cuts[k] - start, cuts[k + 1] - start))
    return [
        reduce(add, found) if found else _nothing(reads, axis, cuts[k + 1] - cuts[k])
        for k, found in enumerate(terms)
    ]


def _within(ct: Any, axis: int, start: int, end: int) -> Any:
    """A part of the cotangent of a slice."""
    shape = typeof(ct).shape
    if (start, end) == (0, shape[axis]):
        return ct
    return slice_of(
        ct, tuple((start, end, 1) if k == axis else (0, n, 1) for k, n in enumerate(shape))
    )


def _nothing(reads: Reads, axis: int, size: int) -> Any:
    """Zeros where nothing was read."""
    dtype = typeof(next(iter(reads.parts.values()))).dtype
    shape = (*reads.shape[:axis], size, *reads.shape[axis + 1 :])
    return zeros(aval(shape, dtype))
