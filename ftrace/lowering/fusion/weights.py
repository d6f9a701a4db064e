"""How much a kernel computes: what keeps every kernel short.

LLVM takes time that grows with the square of a kernel's length, and Python's stack bounds how deep
expressions may be nested. So what an element needs is bounded, and so is what a group computes:
where more would be pulled into a kernel, operands are stored, which costs one pass over memory in
hundreds of operations. Programs lighter than `LIMIT` are never cut.

What a variable needs is a set of equations, kept as the bits of a number: shared expressions count
once, and joining two sets takes nanoseconds.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ftrace.core.jaxpr import Eqn, Jaxpr, Var, cached_on_jaxpr, subjaxprs
from ftrace.core.kinds import branches, element, layout
from ftrace.core.lower import Moving, Pointwise
from ftrace.core.scalar import OPS

LIMIT: Final = 4096  # operations that one kernel does for an element
SHARED: Final = LIMIT // 8  # where no kernel takes it all, what several need is not done again
LOAD: Final = 16  # an element of another array: an address that is kept, and what is there
COSTLY: Final = 48  # operations that one of the elementary functions is worth
EXACT: Final = {"div": 4, "sqrt": 4}  # those that are costly, but one instruction
NESTED: Final = 80  # what an arm is worth: LIMIT / NESTED of them fit on Python's stack

Need = tuple[int, int]  # equations as bits: those that are computed, and those that are loaded
NOTHING: Final[Need] = (0, 0)


def both(a: Need, b: Need) -> Need:
    """What two need together."""
    return a[0] | b[0], a[1] | b[1]


class Weights:
    """What variables need.

    The weights of equations are written in binary, one plane of bits for each digit. `heavy` says
    whether the equations are too many for one kernel. Where they are not, however many results
    are loaded, nothing is taken down, and everything weighs nothing.
    """

    def __init__(self, eqns: Sequence[Eqn], produced: Mapping[Any, Any]) -> None:
        self._produced = produced
        self._needs: dict[Any, Need] = {}
        self._planes: list[tuple[int, int]] = []
        weights = [self._weight(eqn) for eqn in eqns]
        total = sum(weights)
        self.heavy = total > LIMIT
        self._light = total + LOAD * len(eqns) <= LIMIT
        if not self._light:
            digits = ((k, _digit(weights, k)) for k in range(max(weights).bit_length()))
            self._planes = [(k, plane) for k, plane in digits if plane]

    def _weight(self, eqn: Eqn) -> int:
        given = [a for a in eqn.invars if type(a) is Var and a not in self._produced]
        return min(own(eqn) + LOAD * len(given), 2 * LIMIT - 1)

    def of(self, v: Any) -> Need:
        """What an element of a variable needs."""
        return self._needs.get(v, NOTHING)

    def total(self, need: Need) -> int:
        """The weight of what is needed."""
        computed, loaded = need
        total = LOAD * loaded.bit_count()
        for k, plane in self._planes:
            total += (computed & plane).bit_count() << k
        return total

    def note(self, number: int, eqn: Eqn, pulled: Collection[Any]) -> Need:
        """Take down an equation that pulls some of its operands; what it needs."""
        if self._light:
            return NOTHING
        need = (1 << number, 0)
        for a in eqn.invars:
            if type(a) is Var and a in self._produced:
                mine = self._needs[a] if a in pulled else (0, 1 << self._produced[a][0])
                need = both(need, mine)
        self._needs.update(dict.fromkeys(eqn.outvars, need))
        return need


def _digit(weights: Sequence[int], k: int) -> int:
    """One binary digit of all weights, as the bits of a number."""
    return int("".join(["01"[weight >> k & 1] for weight in reversed(weights)]), 2)


def own(eqn: Eqn) -> int:
    """Operations of an equation itself."""
    rule = eqn.primitive.lower
    if isinstance(rule, Pointwise):  # nearly all of them
        return COSTLY if isinstance(rule.rule, str) and OPS[rule.rule].costly else 1
    if isinstance(rule, Moving):
        return NESTED if rule.reads in ("choice", "computed") else 1
    if layout(eqn) is not None or branches(eqn):
        return sum(_inside(jaxpr) for _, jaxpr in subjaxprs(eqn.params))
    each = element(eqn)
    return 1 if each is None else _inside(each)


@cached_on_jaxpr
def _inside(jaxpr: Jaxpr) -> int:
    return sum(map(own, jaxpr.eqns))
