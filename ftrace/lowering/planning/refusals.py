"""Errors that values decide, on a machine that waits for its values.

A flag is looked at where the error is raised, and then nothing is started until everything before
is done. So what does not depend on the error is started first: indices are clipped anyhow.
"""

from collections.abc import Sequence

from ftrace.core.jaxpr import Eqn, subjaxprs
from ftrace.core.kinds import branches, layout, way
from ftrace.core.lower import Refusal
from ftrace.lowering.fusion.backward_slice import Producers
from ftrace.lowering.fusion.fuse import Item
from ftrace.lowering.fusion.groups import Group


def looked_at_late(items: Sequence[Item], producers: Producers) -> list[Item]:
    """The items with each error as late as it can be, in the order of the errors.

    An error stays before loops, which might not end without it, before branches, which wait too,
    and before what has effects.
    """
    found: list[Item] = []
    held: list[Item] = []
    for item in items:
        if not isinstance(item, Group) and way(item.primitive, Refusal):
            held.append(item)
            continue
        if not _is_plain(item, producers):
            found += held
            held = []
        found.append(item)
    return found + held


def _is_plain(item: Item, producers: Producers) -> bool:
    """Whether an item ends, whatever its operands are, and nobody sees that it ran."""
    if not isinstance(item, Group):
        return _ends(item)
    made = (t.var for t in item.targets), (v for t in item.targets for v, _ in t.slice)
    return all(_ends(t.eqn) for t in item.targets) and all(
        _ends(producers[v][1]) for vs in made for v in vs if v in producers
    )


def _ends(eqn: Eqn) -> bool:
    if eqn.effects or layout(eqn) is not None or branches(eqn):
        return False
    return all(_ends(e) for _, jaxpr in subjaxprs(eqn.params) for e in jaxpr.eqns)
