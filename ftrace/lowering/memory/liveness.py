"""Liveness: lifetimes of variables in a list of items, and which results may reuse a place.

plan.py asks where a variable is read last, which operand a result may overwrite, and which slot a
loop may start in. Nothing here makes a slot.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ftrace.core.jaxpr import Eqn, Literal, Var
from ftrace.core.kinds import is_joined, is_reshape, layout, way
from ftrace.core.lower import Scattering
from ftrace.lowering.fusion.fuse import Item
from ftrace.lowering.fusion.groups import Group, Target, only_at

Slots = dict[Any, int]
Parts = dict[Any, tuple[Any, int]]


class Lives(NamedTuple):
    """Where variables of a region lie, and how long.

    Attributes:
        aliases: reshapes -> what they are other names for.
        memory: these, and parts -> the variable in whose memory they lie.
        parts: what is made in a part of another variable's memory -> that, and the first byte.
        made: what the region makes.
        last: the last item that reads each variable.
        places: (last use, slot) of what lies in the arena now.
    """

    aliases: dict[Any, Any]
    memory: dict[Any, Any]
    parts: Parts
    made: set[Any]
    last: dict[Any, int]
    places: list[tuple[int, int]]

    @classmethod
    def of(cls, items: Sequence[Item], outs: Sequence[Any]) -> "Lives":
        """Those of a list of items that gives these results."""
        aliases = aliases_of(items)
        new = {v for item in items for v in made(item)} - aliases.keys()
        parts = parts_of(items, new, outs, aliases)
        memory = {**aliases, **{v: whole for v, (whole, _) in parts.items()}}
        return cls(aliases, memory, parts, new, last_uses(items, outs, memory), [])


def made(item: Item) -> list[Any]:
    """The variables that an item makes."""
    return list(item.where) if isinstance(item, Group) else list(item.outvars)


def in_place(
    item: Item, var: Any, slots: Slots, dying: set[int], aliases: dict[Any, Any]
) -> int | None:
    """The slot of an operand that a result may overwrite.

    It must not be read again, and each of its elements only where the result's element is
    computed from it: then it is loaded before the store. A loop goes on where it starts.
    """
    if not isinstance(item, Group):
        starts = (slots[a] for a, v in _carried(item, aliases) if v is var)
        return next((slot for slot in starts if slot in dying), None)
    target = item.where[var][1]
    for v in target.reads:
        alike = v.aval.shape == var.aval.shape and v.aval.dtype == var.aval.dtype
        if alike and slots.get(v) in dying and _at_once(item, target, v, aliases):
            return slots[v]
    return None


def overwrites(
    items: Sequence[Item],
    var: Any,
    holders: Sequence[Any],
    last: dict[Any, int],
    aliases: dict[Any, Any],
) -> bool:
    """Whether a result can be left where these variables lie: nobody reads them later.

    A chain of scatters changes them in place.
    """
    for number, item in enumerate(items):
        if isinstance(item, Group) and var in item.where:
            target = item.where[var][1]
            at_once = all(v in target.reads and _at_once(item, target, v, aliases) for v in holders)
            return all(last.get(v, -1) < number + at_once for v in holders)
        if isinstance(item, Eqn) and var in item.outvars and way(item.primitive, Scattering):
            base = next((a for a, _ in _carried(item, aliases)), None)
            if base in holders:
                return len(holders) == 1 and last[base] == number
            alone = base is not None and last[base] == number
            return alone and overwrites(items, base, holders, last, aliases)
    return False


def _at_once(group: Group, target: Target, var: Any, aliases: dict[Any, Any]) -> bool:
    """Whether elements of what a target reads are read where it is, and nowhere else.

    Then each is loaded before the target's own is stored. Who reads the same memory as another
    variable, in another shape or a part of it, reads it elsewhere.
    """
    nest, memory = group.nest(target), _chain(var, aliases)[-1]
    if not all(_same_place(group, t, var, nest) for t in group.targets):
        return False
    return all(v is var or _chain(v, aliases)[-1] is not memory for v in _read(group))


def _same_place(group: Group, target: Target, var: Any, nest: tuple[int, ...]) -> bool:
    """Whether a target reads a variable, if it does, just where it is itself, and in any case.

    Its axes lie in the loops as `nest` says: those of the variable are passed in one order.
    """
    places = target.reads.get(var)
    if not places:
        return not target.folds
    return (
        not target.folds
        and group.nest(target) == nest
        and all(certain and only_at({i: certain}, target.axes) for i, certain in places.items())
    )


def aliases_of(items: Sequence[Item]) -> dict[Any, Any]:
    """Reshapes of stored arrays: the same memory under another variable."""
    return {e.outvars[0]: e.invars[0] for e in items if isinstance(e, Eqn) and is_reshape(e)}


def parts_of(
    items: Sequence[Item], made: set[Any], outs: Sequence[Any], aliases: dict[Any, Any]
) -> Parts:
    """What is made in a part of another variable's memory: that variable, and the first byte.

    Results of the region have places of their own, and so has what is joined with itself.
    """
    found: Parts = {}
    elsewhere = {v for out in outs for v in _chain(out, aliases)}
    for e in items:
        if isinstance(e, Eqn) and is_joined(e):
            start = 0
            for a in e.invars:
                if type(a) is Var and a in made and a not in elsewhere and a not in found:
                    found[a] = e.outvars[0], start
                start += a.aval.size * a.aval.dtype.itemsize
    return found


def written_as(
    items: Sequence[Item], out: Any, made: set[Any], aliases: dict[Any, Any]
) -> list[Any]:
    """The variable that can be made in the place of a result; or none.

    It is the result, or what that is another name for, if a kernel writes it: kernels know shapes
    from variables, others from slots.
    """
    found = _chain(out, aliases)[-1:]
    if found == [out]:
        return [v for v in found if v in made]
    return [v for v in found if any(isinstance(item, Group) and v in item.where for item in items)]


def starts(
    items: Sequence[Item],
    slots: Slots,
    made: set[Any],
    last: dict[Any, int],
    aliases: dict[Any, Any],
) -> Slots:
    """For what loops start from, if nothing else reads it, the slots of the region's results.

    Nothing reads or writes such a slot before the loop.
    """
    found: Slots = {}
    for number, item in reversed([*enumerate(items)]):
        for init, out in _carried(item, aliases):
            place = found.get(out, slots.get(out))
            if init in made and last[init] == number and place is not None:
                found[init] = place
    return found


def _carried(item: Item, aliases: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """What an item starts from and nothing else of it reads, and the results in their place.

    These are what a loop carries, and what a scatter changes.
    """
    if isinstance(item, Group):
        return []
    loop = layout(item)
    if loop is not None:
        inits = loop.carry(item.invars)
    elif way(item.primitive, Scattering):
        inits = item.invars[:1]
    else:
        return []
    read = [_chain(a, aliases)[-1] for a in item.invars if type(a) is not Literal]
    return [
        (a, v)
        for a, v in zip(inits, item.outvars, strict=False)
        if type(a) is not Literal and read.count(_chain(a, aliases)[-1]) == 1
    ]


def last_uses(
    items: Sequence[Item], outs: Sequence[Any], aliases: dict[Any, Any]
) -> dict[Any, int]:
    """The last item that reads each variable, beyond those that make it; outputs live on."""
    found: dict[Any, int] = {}
    for number, item in enumerate(items):
        for v in _read(item):
            found.update((w, number) for w in _chain(v, aliases))
    for v in outs:
        found.update((w, len(items)) for w in _chain(v, aliases))
    return found


def _chain(v: Any, aliases: dict[Any, Any]) -> list[Any]:
    """A variable, and what it is another name for."""
    if type(v) is Literal:
        return []
    return [v, *_chain(aliases[v], aliases)] if v in aliases else [v]


def _read(item: Item) -> list[Any]:
    """The variables that an item reads, beyond those it makes."""
    if isinstance(item, Group):
        return [v for t in item.targets for v in t.reads if v not in item.where]
    return list(item.invars)
