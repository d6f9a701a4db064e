"""Tangents and cotangents as values: zeros made real, sums, masks made real.

Everything here is built from rows, so it works under any trace.
"""

from typing import Any

from ftrace.core import device
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.tapes import TURNS
from ftrace.core.zero import ZERO, Masked
from ftrace.primitives.assembling import assembled, covered, together
from ftrace.primitives.compare import bitwise_or
from ftrace.primitives.linear import add, broadcast_in_dim
from ftrace.primitives.movement import plain as materialise


def zeros(aval: ShapedArray) -> Any:
    """Zeros of an aval; a NumPy scalar for rank 0, a tape of no iterations for a tape."""
    zero = aval.dtype.type(0)
    if not aval.shape:
        return zero
    shape = tuple(0 if n is TURNS else n for n in aval.shape)
    return broadcast_in_dim(zero, shape=shape, broadcast_dimensions=())


def zeros_like(x: Any) -> Any:
    """Zeros of a value's type, where it is."""
    return device.follow(zeros(typeof(x)), x)


def instantiate(tangent: Any, primal: Any) -> Any:
    """The tangent itself, or real zeros of the primal's type for a symbolic zero."""
    return zeros_like(primal) if tangent is ZERO else tangent


def add_cotangents(a: Any, b: Any) -> Any:
    """The sum where two cotangents meet; it is masked only where both are."""
    reads = together(a, b)
    if reads is not None:
        found = Masked(lambda: assembled(reads), lambda: covered(reads), True, None, True, reads)
        found.fixed = all(type(c) is not Masked or c.fixed for c in (a, b))
        return found
    if type(a) is Masked and type(b) is Masked and not _differ(a, b):
        zeroed = a.zeroed and b.zeroed
        branch = a.branch or b.branch
        if not zeroed and a.mask is b.mask:
            found = Masked(add(a.value, b.value), a.mask)
            found.branch = branch
            return found
        both = add(a.value, b.value) if zeroed else add(materialise(a), materialise(b))
        holes = b.holes if a.holes is None else a.holes
        either = lambda: bitwise_or(a.mask, b.mask)  # noqa: E731
        found = Masked(both, either, True, holes, a.read and b.read)
        found.computed = a.computed or b.computed
        found.fixed, found.branch = a.fixed and b.fixed, branch
        return found
    return add(materialise(a), materialise(b))


def _differ(a: Masked, b: Masked) -> bool:
    """Whether one was read at computed places, and the mask of the other says more than that."""
    return (a.computed and not b.read) or (b.computed and not a.read)
