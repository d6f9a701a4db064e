"""Following inputs through a program: what passes as a derivative, and what cuts it.

Two facts flow forward through the equations of a jaxpr: which inputs reach a value through
derivatives, and which *cuts* lie on the other ways to it. What an equation lets through is asked
of its row's own jvp rule, on abstract values: the answer is that of the transformations. Calls,
branches and loops are followed into, a loop iteration by iteration until its flow repeats; a
`while` counts as turning at least once. `checking.py` makes reports of it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any, Final

from ftrace.core.avals import ShapedArray
from ftrace.core.dtypes import bool_, is_inexact
from ftrace.core.errors import CustomRuleError, RuleError
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var, subjaxprs
from ftrace.core.kinds import layout, loses
from ftrace.core.lower import Layout
from ftrace.core.primitive import Primitive, smooth
from ftrace.core.source import Location
from ftrace.interpreters.abstract import AbstractInterpreter
from ftrace.interpreters.jvp import jvp_jaxpr


@dataclass(frozen=True, slots=True)
class Flow:
    """What is known of a value.

    Attributes:
        reach: the inputs (bits) that it depends on by derivatives.
        cuts: the numbers of the cuts on other ways to it.
    """

    reach: int = 0
    cuts: frozenset[int] = frozenset()

    def __or__(self, other: "Flow") -> "Flow":
        return Flow(self.reach | other.reach, self.cuts | other.cuts)


NOTHING: Final = Flow()


@dataclass(frozen=True, slots=True)
class Cut:
    """Where derivatives end.

    Attributes:
        kind, what: of the finding, and a sentence.
        place, path: the user's line, and iterations and branches when it ran first.
        via: the inputs (bits) that would have come through it.
        fatal: whether taking a derivative raises, even where others lead past it.
        decides: whether what ran depends on it.
    """

    kind: str
    what: str
    place: Location | None
    path: tuple[str, ...] = ()
    via: int = 0
    fatal: bool = False
    decides: bool = False


class Cuts:
    """Cuts by their numbers, each once."""

    def __init__(self) -> None:
        self.cuts: list[Cut] = []
        self._numbers: dict[Any, int] = {}

    def number(self, key: Any, via: int, cut: Cut) -> int:
        """The number of a cut, which now has these inputs too."""
        number = self._numbers.setdefault(key, len(self.cuts))
        known = self.cuts[number] if number < len(self.cuts) else cut
        self.cuts[number : number + 1] = [replace(known, via=known.via | via)]
        return number


class Walk(AbstractInterpreter[Flow], Cuts):
    """The flow through a program, and the cuts in it."""

    ruled = True

    def constant(self, value: Any) -> Flow:
        """Nothing flows out of a constant."""
        return NOTHING

    def chosen(self, index: Flow, results: tuple[Flow, ...]) -> Flow:
        """All that flows through an arm."""
        return _governed(reduce(or_, results), index)

    def through(self, eqn: Eqn, operands: list[Flow], place: Location | None) -> list[Flow]:
        """The flow to the results; without any, nothing is looked into."""
        if all(f == NOTHING for f in operands):
            return [NOTHING] * len(eqn.outvars)
        return super().through(eqn, operands, place)

    def equation(self, eqn: Eqn, operands: list[Flow], place: Location | None) -> list[Flow]:
        """The flow through a loop or a row."""
        loop = layout(eqn)
        if loop is not None:
            return self._loop(loop, eqn, operands, place)
        outs = self._row(eqn, operands, place)
        if loses(eqn) == "rule":  # its rule decides, not what it is made of
            return outs
        whole = reduce(or_, operands)
        for _, inner in subjaxprs(eqn.params):
            found = self.jaxpr(inner, [whole] * len(inner.invars), place)
            inside = reduce(or_, found, NOTHING).cuts
            outs = [replace(f, cuts=f.cuts | inside) for f in outs]
        return outs

    def _loop(
        self, loop: Layout, eqn: Eqn, operands: list[Flow], place: Location | None
    ) -> list[Flow]:
        consts, start, xs = loop.consts(operands), loop.carry(operands), loop.xs(operands)
        n = len(start)
        if loop.length == 0:
            return [*start, *(NOTHING for _ in eqn.outvars[n:])]

        def iteration(carry: Sequence[Flow]) -> list[Flow]:
            return self.jaxpr(loop.body, [*consts, *carry, *xs], place)

        before, after = _iterations(iteration, start, loop.length)
        left = _united(after)
        last = left if loop.length is None else after[-1]
        outs = [*last[:n], *[NOTHING] * loop.records, *left[n:]]
        if loop.cond is None:
            return outs
        (going,) = self.jaxpr(loop.cond, [*consts, *_united(before)], place)
        return [_governed(f, going) for f in outs]

    def _row(self, eqn: Eqn, operands: list[Flow], place: Location | None) -> list[Flow]:
        """An equation whose row's jvp rule says what passes."""
        reach = [0] * len(eqn.outvars)
        own: list[frozenset[int]] = [frozenset()] * len(eqn.outvars)
        for i, (f, a) in enumerate(zip(operands, eqn.invars, strict=True)):
            if not (f.reach and is_inexact(a.aval.dtype)):
                continue
            try:
                passes = _passes(eqn, i)
                fatal = None
            except (RuleError, CustomRuleError) as error:
                passes, fatal = (False,) * len(eqn.outvars), error
            for k, (v, through) in enumerate(zip(eqn.outvars, passes, strict=True)):
                if through:
                    reach[k] |= f.reach
                else:
                    own[k] |= {self._cut(eqn, v.aval, f.reach, place, fatal)}
        chooses = [a.aval.dtype == bool_ for a in eqn.invars]
        data = cuts_of(f for f, c in zip(operands, chooses, strict=True) if not c)
        control = Flow(0, cuts_of(f for f, c in zip(operands, chooses, strict=True) if c))
        flows = [Flow(r, c | data) for r, c in zip(reach, own, strict=True)]
        return [_governed(f, control) for f in flows]

    def _cut(self, eqn: Eqn, out: ShapedArray, via: int, place: Location | None, error: Any) -> int:
        kind, what = (
            kind_of(eqn.primitive, eqn.params, out) if error is None else _refusal(eqn, error)
        )
        return self.number((id(eqn), kind), via, Cut(kind, what, place, fatal=error is not None))


def _iterations(
    iteration: Callable[[Sequence[Flow]], list[Flow]], start: Sequence[Flow], n: int | None = None
) -> tuple[list[list[Flow]], list[list[Flow]]]:
    """What enters and what leaves the iterations of a loop, the last iteration last.

    From some iteration on the flow of a loop goes in circles, mostly of one iteration; these are
    left out. Without a number of iterations this is all that can happen.
    """
    before, after = [list(start)], list[list[Flow]]()
    while len(after) != n:
        after.append(iteration(before[-1]))
        carry = after[-1][: len(start)]
        if carry in before:
            circle = after[before.index(carry) :]
            return before, after + circle[: (n - len(after)) % len(circle) if n else 0]
        before.append(carry)
    return before, after


def _united(iterations: Sequence[Sequence[Flow]]) -> list[Flow]:
    """The flow of each value over all iterations."""
    return [reduce(or_, flows) for flows in zip(*iterations, strict=True)]


def _governed(out: Flow, control: Flow) -> Flow:
    """A result that a predicate or an index chooses; what cuts that counts if nothing else does."""
    return control if out == NOTHING else out


def cuts_of(flows: Iterable[Flow]) -> frozenset[int]:
    """The cuts of all of these."""
    return frozenset[int]().union(*(f.cuts for f in flows))


def _passes(eqn: Eqn, position: int) -> tuple[bool, ...]:
    """Which results get a tangent if only one operand has one, by the row's jvp rule."""
    atoms: list[Any] = [a if type(a) is Literal else Var(a.aval) for a in eqn.invars]
    invars = [a for a in atoms if type(a) is Var]
    outs = [Var(v.aval) for v in eqn.outvars]
    alone = Jaxpr(invars, [Eqn(eqn.primitive, atoms, eqn.params, outs, eqn.source)], outs)
    return jvp_jaxpr(alone, tuple(v is atoms[position] for v in invars))[1]


def kind_of(row: Primitive, params: dict[str, Any], out: ShapedArray) -> tuple[str, str]:
    """What a row that gives no tangent does, as the kind of a finding and a sentence."""
    name = row.name
    if row.host is not None:
        return "opaque call", f"{row.host(**params)} gives {out}, which has no tangent."
    if out.dtype == bool_:
        return "comparison", f"{name} gives a truth value."
    if not is_inexact(out.dtype):
        return "integer path", f"{name} makes {out} of floats."
    if row.decides is smooth:
        return name, f"{name} makes its argument a constant."
    return "piecewise constant", f"{name} is constant but for jumps: its derivative is zero."


def _refusal(eqn: Eqn, error: RuleError | CustomRuleError) -> tuple[str, str]:
    return "missing rule" if eqn.primitive.host is None else "opaque call", error.what
