"""Jaxprs over scalars, written into kernels: what a `vectorize` computes for one element.

Equations become operations, `while` becomes a loop of the kernel, `cond` its arms and a select
between them: predication.py then finds out which operations each arm alone needs, so that work that
arms share is done once. An arm that holds a loop is an arm of the kernel, since it might never end
for an element that does not take it; so is one under more conditions than predication.py tells
apart.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var
from ftrace.core.kinds import branches, element, has_loops, layout
from ftrace.core.lower import Layout, Moving, Pointwise, Reduction
from ftrace.interpreters.dce import dce_equations
from ftrace.lowering.fusion.fusible import Element, pointwise
from ftrace.lowering.fusion.inline import inline
from ftrace.lowering.kernel.builder import Builder
from ftrace.lowering.kernel.complexes import ComplexParts
from ftrace.lowering.kernel.conditions import DECIDING
from ftrace.lowering.kernel.ir import Atom, KernelVar, Lit


def evaluate(b: Builder, jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    """Write a jaxpr of rank-0 values.

    Args:
        b: the kernel.
        jaxpr: what to compute.
        args: scalars for its inputs.

    Returns:
        Scalars, one for each result.
    """
    return _Evaluation(b, _conditions(jaxpr) <= DECIDING).run(jaxpr, args)


def _conditions(jaxpr: Jaxpr) -> int:
    """How many conditions decide, those in loops aside."""
    eqns, _, _ = inline(jaxpr, jaxpr.invars)
    total = 0
    for eqn in eqns:
        arms, rule = branches(eqn), eqn.primitive.lower
        total += isinstance(rule, Pointwise) and rule.rule == "select"
        total += max(len(arms) - 1, 0) + sum(map(_conditions, arms))
    return total


class _Evaluation:
    """Writes one jaxpr and those in it.

    Args:
        b: the kernel.
        few: whether predication.py can tell the conditions apart.
    """

    def __init__(self, b: Builder, few: bool) -> None:
        self.b = b
        self.few = few
        self.booleans: dict[Any, Any] = {}  # an integer scalar -> the boolean it was
        self.numbers: dict[Any, Any] = {}  # an operand of the kernel -> the number that it is
        self.chosen: dict[Any, tuple[Atom, Any, Any]] = {}  # scalar -> condition, two known ones

    def run(self, jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
        """The results of a jaxpr."""
        env: dict[Any, Any] = {}

        def read(a: Any, *_: Any) -> Any:
            return self._constant(a) if type(a) is Literal else env[a]

        inputs = [Var(a) for a in jaxpr.in_avals]
        eqns, outs, consts = inline(jaxpr, inputs)
        env.update(zip(inputs, args, strict=True))
        env.update((v, self.b.constant(np.asarray(c)[()], v.aval.dtype)) for v, c in consts)
        for eqn in dce_equations(eqns, outs):
            env.update(zip(eqn.outvars, self._eqn(eqn, read), strict=True))
        return [read(a) for a in outs]

    def _eqn(self, eqn: Eqn, read: Callable[..., Any]) -> Sequence[Any]:
        values = [read(a) for a in eqn.invars]
        rule, arms, loop = eqn.primitive.lower, branches(eqn), layout(eqn)
        if arms:
            return self._cond(values[0], values[1:], arms)
        if loop is not None:
            return self._while(loop, values)
        each = element(eqn)
        if each is not None:
            return self.run(each, values)
        if isinstance(rule, Moving):
            operands = [Element(a, read) for a in eqn.invars]
            return [rule.rule(self.b, (), eqn.outvars[0].aval, *operands, **eqn.params)]
        if isinstance(rule, Reduction):
            return [values[0]]
        assert isinstance(rule, Pointwise)
        known = self._compared(rule, eqn, values)
        if known is not None:
            return [known]
        out = pointwise(self.b, eqn, values)
        if rule.rule == "select":
            self._note(out, *values)
        kinds = [a.aval.dtype.kind for a in (*eqn.invars, *eqn.outvars)]
        if kinds in (["b", "i"], ["b", "u"]):
            self.booleans[out] = values[0]
        return [out]

    def _constant(self, literal: Literal) -> Any:
        found = self.b.constant(literal.value, literal.aval.dtype)
        if type(found) is KernelVar:
            self.numbers[found] = literal.value
        return found

    # --- which of some known numbers?

    def _note(self, out: Any, taken: Atom, a: Any, b: Any) -> None:
        """Remember how a scalar was chosen from numbers that are known."""
        if type(out) is KernelVar and all(map(self._is_known, (a, b))):
            self.chosen[out] = (taken, a, b)

    def _is_known(self, x: Any) -> bool:
        return type(x) is Lit or x in self.numbers or x in self.chosen

    def _compared(self, rule: Pointwise, eqn: Eqn, values: Sequence[Any]) -> Atom | None:
        """Whether a scalar is one of the numbers that it may be: from the conditions that chose."""
        if rule.rule not in ("eq", "ne"):
            return None
        for value, other in zip(values, eqn.invars[::-1], strict=True):
            if type(other) is Literal and value in self.chosen:
                return self._is(value, other.value, rule.rule == "eq")
        return None

    def _is(self, value: Any, number: Any, same: bool) -> Atom:
        """Whether a known scalar is a number, or is not."""
        if value not in self.chosen:
            own = value.value if type(value) is Lit else self.numbers[value]
            return self.b.lit(bool(own == number) == same, "b1")
        taken, a, b = self.chosen[value]
        then, orelse = self._is(a, number, same), self._is(b, number, same)
        if then == orelse:
            return then
        if not isinstance(then, Lit):
            if not isinstance(orelse, Lit):
                return self.b.op("select", taken, then, orelse)
            taken, then, orelse = self.b.op("not", taken), orelse, then
        if then.value:
            return self.b.op("or", taken, orelse)
        return self.b.op("and", self.b.op("not", taken), orelse)

    # --- arms

    def _cond(self, index: Any, values: Sequence[Any], branches: Sequence[Jaxpr]) -> list[Any]:
        """The results of the branch of an index; branch 0 below 0, the last one beyond the end."""
        if len(branches) == 1:
            return self.run(branches[0], values)
        first, rest = branches[0], branches[1:]

        def others() -> list[Any]:
            return self._cond(self._less(index) if len(rest) > 1 else index, values, rest)

        def this() -> list[Any]:
            return self.run(first, values)

        boolean = self.booleans.get(index)
        if boolean is not None and len(branches) == 2:
            return self._either(boolean, others, this, branches)
        taken = self.b.op("le", index, self.b.lit(0, index.dtype))
        return self._either(taken, this, others, branches)

    def _less(self, index: Any) -> Any:
        one = self.b.lit(1, index.dtype)
        return self.b.op("sub", self.b.op("max", index, one), one)

    def _either(
        self,
        taken: Atom,
        then: Callable[[], list[Any]],
        orelse: Callable[[], list[Any]],
        branches: Sequence[Jaxpr],
    ) -> list[Any]:
        if isinstance(taken, Lit):
            return then() if taken.value else orelse()
        if self.few and not any(map(has_loops, branches)):
            pairs = list(zip(then(), orelse(), strict=True))
            outs = [x if x == y else self.b.op("select", taken, x, y) for x, y in pairs]
            for out, (x, y) in zip(outs, pairs, strict=True):
                self._note(out, taken, x, y)
            return outs
        arms: list[list[Any]] = []

        def flat(arm: Callable[[], list[Any]]) -> list[Atom]:
            arms.append(arm())
            return _atoms(arms[-1])

        found = self.b.choose(taken, lambda: flat(then), lambda: flat(orelse))
        outs = _like(arms[-1], found)
        for out, x, y in zip(outs, *arms, strict=True):
            if x not in self.chosen and y not in self.chosen:  # by conditions in the arms
                self._note(out, taken, x, y)
        return outs

    # --- loops

    def _while(self, loop: Layout, values: Sequence[Any]) -> list[Any]:
        consts, inits = loop.consts(values), loop.carry(values)
        halves = [_half(v) for v in inits]

        def inside(atoms: Sequence[Atom]) -> list[Any]:
            carried = _like(inits, atoms)
            return [*consts, *(self._whole(v, h) for v, h in zip(carried, halves, strict=True))]

        def outside(carried: Sequence[Any]) -> list[Atom]:
            return _atoms([self._wide(v) for v in carried])

        def test(atoms: Sequence[Atom]) -> Atom:
            return _Evaluation(self.b, True).run(loop.cond, inside(atoms))[0]

        def turn(atoms: Sequence[Atom]) -> list[Atom]:
            few = _conditions(loop.body) <= DECIDING
            return outside(_Evaluation(self.b, few).run(loop.body, inside(atoms)))

        found = _like(inits, self.b.repeat(outside(inits), test, turn))
        return [self._whole(v, h) for v, h in zip(found, halves, strict=True)]

    def _wide(self, v: Any) -> Any:
        """float16 is no type of variables: it is carried as float32."""
        return self.b.cast(v, "f4") if _half(v) else v

    def _whole(self, v: Any, half: bool) -> Any:
        return self.b.cast(v, "f2") if half else v


def _half(v: Any) -> bool:
    return not isinstance(v, ComplexParts) and v.dtype == "f2"


def _atoms(values: Sequence[Any]) -> list[Atom]:
    """Scalars with complex ones as two."""
    return [a for v in values for a in (v if isinstance(v, ComplexParts) else (v,))]


def _like(values: Sequence[Any], atoms: Sequence[Atom]) -> list[Any]:
    """Atoms put together as the scalars of a list are."""
    supply = iter(atoms)
    return [
        ComplexParts(next(supply), next(supply)) if isinstance(v, ComplexParts) else next(supply)
        for v in values
    ]
