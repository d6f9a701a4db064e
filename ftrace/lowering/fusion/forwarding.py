"""What one pass over a row leaves for the next one.

A softmax needs exp(x - max) twice: to add it up, and to divide it. The second pass writes a result
of the same shape, so the first one can leave the exponential there: it is read back from the
cache, and overwritten. What is left is the most expensive value that both passes compute. The pass
that computes it may in turn read there what one before it left.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ftrace.core.jaxpr import Var
from ftrace.core.lower import Pointwise
from ftrace.lowering.fusion.backward_slice import Producers
from ftrace.lowering.fusion.groups import Group, Target
from ftrace.lowering.fusion.weights import COSTLY, EXACT, LIMIT, own


class Kept(NamedTuple):
    """A value that pass `made` leaves where pass `used` writes a target.

    Attributes:
        var: the value.
        made, source: the pass that computes it, and the target for which it does.
        used, target: the pass that reads it, and the target for which it does.
        place: the result where it lies.
        again: whether it lies there for a later pass, and this one reads it, too.
    """

    var: Any
    made: int
    source: Target
    used: int
    target: Target
    place: Target
    again: bool = False


def kept(group: Group, producers: Producers, slots: Mapping[Any, int]) -> list[Kept]:
    """The values that passes of a group leave for later ones, at most one at a time per result."""
    found: list[Kept] = []
    for used, later in enumerate(group.passes):
        for target in later.targets:
            if len(later.inner) == 1 and not target.inner and target.var in slots:
                one = _latest(group, producers, used, target, target)
                while one is not None:
                    found += [one, *_between(group, one)]
                    one = _latest(group, producers, one.made, one.source, target)
    return found


def _between(group: Group, one: Kept) -> list[Kept]:
    """The passes before the one that a value is left for that read it, too."""
    found: list[Kept] = []
    for number in range(one.made + 1, one.used):
        reader = _computed(group, number, one.used, one.target).get(one.var)
        if reader is not None:
            found.append(one._replace(used=number, target=reader, again=True))
    return found


def _latest(
    group: Group, producers: Producers, used: int, target: Target, place: Target
) -> Kept | None:
    """What an earlier pass leaves for a target, where a result will be: of the latest that can."""
    passes = [_computed(group, made, used, target) for made in range(used)]
    for there in reversed(passes):
        var = _dearest(producers, there, target, place)
        if var is not None:
            first = next(k for k, there in enumerate(passes) if var in there)
            return Kept(var, first, passes[first][var], used, target, place)
    return None


def _computed(group: Group, made: int, used: int, target: Target) -> dict[Any, Target]:
    """What a pass computes where a target of another one lies, and for which of its targets."""
    earlier = group.passes[made]
    if earlier.inner != group.passes[used].inner:
        return {}
    return {
        v: source
        for source in reversed(earlier.targets)
        if source.domain == target.domain and source.index == target.index
        for v, index in source.slice
        if index == source.index
    }


def _dearest(
    producers: Producers, there: Mapping[Any, Target], target: Target, place: Target
) -> Any:
    """The value that a target shares with a pass that costs most; None where none is expensive."""
    costs: dict[Any, int] = {}
    best, most = None, COSTLY
    for v, index in target.slice if there else ():
        if v is target.var or index != target.index or v not in there:
            continue
        operands = {a for a in producers[v][1].invars if type(a) is Var}
        costs[v] = min(_cost(producers, v) + sum(costs.get(a, 0) for a in operands), LIMIT)
        fits = v.aval == place.var.aval and v.aval.dtype.kind == "f"
        if fits and costs[v] >= most:
            best, most = v, costs[v]
    return best


def _cost(producers: Producers, var: Any) -> int:
    """Operations that a value is worth by itself, where it is computed element by element."""
    eqn = producers[var][1]
    rule = eqn.primitive.lower
    if not isinstance(rule, Pointwise):
        return 0
    return EXACT.get(rule.rule, own(eqn)) if isinstance(rule.rule, str) else own(eqn)
