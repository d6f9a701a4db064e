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

from ftrace.core.jaxpr import Eqn, Jaxpr, Var, cached_on_jaxpr
from ftrace.core.scalar import OPS, Elementwise, Moving, Pointwise

LIMIT: Final = 4096  # operations that one kernel does for an element
SHARED: Final = LIMIT // 8  # where no kernel takes it all, what several need is not done again
LOAD: Final = 16  # an element of another array: an address that is kept, and what is there
COSTLY: Final = 48  # operations that one of the elementary functions is worth
NESTED: Final = 80  # what an arm is worth: LIMIT / NESTED of them fit on Python's stack
GUARDED: Final = frozenset(
    {"pad", "concatenate", "update_slice", "dynamic_update_slice", "dynamic_slice"}
)

Need = tuple[int, int]  # equations as bits: those that are computed, and those that are loaded
NOTHING: Final[Need] = (0, 0)


def both(a: Need, b: Need) -> Need:
    """What two need together."""
    return a[0] | b[0], a[1] | b[1]


class Weights:
    """What variables need.

    The weights of equations are written in binary, one plane of bits for each digit. `heavy` says
    whether the equations are too many for one kernel.
    """

    def __init__(self, eqns: Sequence[Eqn], produced: Mapping[Any, Any]) -> None:
        self._produced = produced
        self._needs: dict[Any, Need] = {}
        digits = [bytearray(len(eqns) // 8 + 1) for _ in range(LIMIT.bit_length())]
        for i, eqn in enumerate(eqns):
            given = sum(type(a) is Var and a not in produced for a in eqn.invars)
            weight = min(own(eqn) + LOAD * given, 2 * LIMIT - 1)
            for k, plane in enumerate(digits):
                plane[i >> 3] |= (weight >> k & 1) << (i & 7)
        self._planes = [int.from_bytes(plane, "little") for plane in digits]
        self.heavy = self.total(((1 << len(eqns)) - 1, 0)) > LIMIT

    def of(self, v: Any) -> Need:
        """What an element of a variable needs."""
        return self._needs[v]

    def total(self, need: Need) -> int:
        """The weight of what is needed."""
        computed, loaded = need
        operations = sum((computed & p).bit_count() << k for k, p in enumerate(self._planes))
        return operations + LOAD * loaded.bit_count()

    def note(self, number: int, eqn: Eqn, pulled: Collection[Any]) -> Need:
        """Take down an equation that pulls some of its operands; what it needs."""
        need = (1 << number, 0)
        for a in eqn.invars:
            if type(a) is Var and a in self._produced:
                mine = self._needs[a] if a in pulled else (0, 1 << self._produced[a][0])
                need = both(need, mine)
        self._needs.update(dict.fromkeys(eqn.outvars, need))
        return need


def own(eqn: Eqn) -> int:
    """Operations of an equation itself."""
    rule = eqn.primitive.lower
    if isinstance(rule, Elementwise):
        return _inside(rule.jaxpr(**eqn.params))
    if isinstance(rule, Moving):
        return NESTED if eqn.primitive.op in GUARDED else 1
    if isinstance(rule, Pointwise) and isinstance(rule.rule, str) and OPS[rule.rule].costly:
        return COSTLY
    return 1


@cached_on_jaxpr
def _inside(jaxpr: Jaxpr) -> int:
    return sum(map(own, jaxpr.eqns))
