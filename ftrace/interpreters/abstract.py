"""Abstract interpretation: facts about values that flow forwards through a jaxpr.

A subclass says what is known of a constant, what an equation makes of what is known of its
operands, and what is known of a value that is one of several. What is the same for all facts is
here: calls are entered, and branches joined (Cousot and Cousot 1977, "Abstract interpretation").
"""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from ftrace.core.jaxpr import Eqn, Jaxpr, Literal
from ftrace.core.kinds import branches, called, loses
from ftrace.core.source import Location

T = TypeVar("T")


class AbstractInterpreter(Generic[T]):
    """Follows facts through programs; calls with a user's rule are entered unless `ruled`."""

    ruled = False

    def constant(self, value: Any) -> T:
        """What is known of a literal or a constant."""
        raise NotImplementedError

    def equation(self, eqn: Eqn, operands: list[T], place: Location | None) -> list[T]:
        """What is known of the results of an equation that is no call and no branch."""
        raise NotImplementedError

    def chosen(self, index: T, results: tuple[T, ...]) -> T:
        """What is known of a result, given what each arm of a branch says."""
        raise NotImplementedError

    def jaxpr(self, jaxpr: Jaxpr, inputs: Sequence[T], place: Location | None = None) -> list[T]:
        """What is known of the results of a program; `place` is that of the call."""
        env: dict[Any, T] = dict(zip(jaxpr.invars, inputs, strict=True))
        env.update(
            (v, self.constant(c)) for v, c in zip(jaxpr.constvars, jaxpr.consts, strict=True)
        )

        def of(atom: Any) -> T:
            return self.constant(atom.value) if type(atom) is Literal else env[atom]

        for eqn in jaxpr.eqns:
            results = self.through(eqn, [of(a) for a in eqn.invars], eqn.source or place)
            env.update(zip(eqn.outvars, results, strict=True))
        return [of(a) for a in jaxpr.outvars]

    def through(self, eqn: Eqn, operands: list[T], place: Location | None) -> list[T]:
        """What is known of the results of an equation."""
        inner = called(eqn)
        if inner is not None and not (self.ruled and loses(eqn) == "rule"):
            return self.jaxpr(inner, operands, place)
        if arms := branches(eqn):
            found = [self.jaxpr(arm, operands[1:], place) for arm in arms]
            return [self.chosen(operands[0], each) for each in zip(*found, strict=True)]
        return self.equation(eqn, operands, place)
