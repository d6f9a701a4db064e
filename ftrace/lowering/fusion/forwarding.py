"""What one pass over a row leaves for the next one.

A softmax needs exp(x - max) twice: to add it up, and to divide it. The second pass writes a result
of the same shape, so the first one can leave the exponential there: it is read back from the
cache, and overwritten. Which value is left is the last expensive one that both passes compute.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ftrace.core.lower import Pointwise
from ftrace.core.scalar import OPS
from ftrace.lowering.fusion.backward_slice import Producers
from ftrace.lowering.fusion.groups import Group, Target


class Kept(NamedTuple):
    """A value that pass `made` leaves where pass `used` writes a target.

    Attributes:
        var: the value.
        made, source: the pass that computes it, and the target for which it does.
        used, target: the pass that reads it, and whose result overwrites it.
    """

    var: Any
    made: int
    source: Target
    used: int
    target: Target


def kept(group: Group, producers: Producers, slots: Mapping[Any, int]) -> list[Kept]:
    """The values that passes of a group leave for later ones, at most one per result."""
    found: list[Kept] = []
    for used, later in enumerate(group.passes):
        for target in later.targets:
            if len(later.inner) == 1 and not target.inner and target.var in slots:
                for made in reversed(range(used)):
                    one = _left(group, producers, made, used, target)
                    if one is not None:
                        found.append(one)
                        break
    return found


def _left(group: Group, producers: Producers, made: int, used: int, target: Target) -> Kept | None:
    """The last value that a target shares with an earlier pass, if it is worth keeping."""
    earlier = group.passes[made]
    if earlier.inner != group.passes[used].inner:
        return None
    aval = target.var.aval
    wanted = [v for v, index in target.slice if index == target.index and v is not target.var]
    for source in earlier.targets:
        if source.domain != target.domain or source.index != target.index:
            continue
        there = {v for v, index in source.slice if index == source.index}
        shared = [v for v in wanted if v in there]
        like = [v for v in shared if v.aval == aval and aval.dtype.kind == "f"]
        if like and any(_costly(producers, v) for v in shared):
            return Kept(like[-1], made, source, used, target)
    return None


def _costly(producers: Producers, var: Any) -> bool:
    rule = producers[var][1].primitive.lower
    return isinstance(rule, Pointwise) and isinstance(rule.rule, str) and OPS[rule.rule].costly
