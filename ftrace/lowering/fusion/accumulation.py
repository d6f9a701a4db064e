"""Sums of scatters into zeros become scatters into one array.

The derivative of a read at computed places is a scatter into zeros, and where several reads meet
their sum is taken: `total + scatter(zeros, v, places)` passes over three whole arrays for a few
elements. Here it is `scatter(total, v, places)`, which changes `total` in place where nobody needs
it any more (liveness.py), so that a loop of n reads costs n, not n * n. Terms add up in another
order than before: `(total + v) + w` for `total + (v + w)`.
"""

from collections import Counter
from typing import Any

import numpy as np

from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var
from ftrace.core.kinds import way
from ftrace.core.lower import Moving, Pointwise, Scattering


def accumulated(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr with scatters into one array; itself where there is nothing to change."""
    if not any(map(_adds_at_places, jaxpr.eqns)):
        return jaxpr
    found = _Accumulation(jaxpr)
    for eqn in jaxpr.eqns:
        found.take(eqn)
    if not found.changed:
        return jaxpr
    eqns = [e for e in found.eqns if e is not None]
    return Jaxpr(jaxpr.invars, eqns, jaxpr.outvars, jaxpr.constvars, jaxpr.consts, jaxpr.names)


class _Accumulation:
    """The equations so far.

    Attributes:
        eqns: these; None where one was moved behind others.
        changed: whether one was.
    """

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.eqns: list[Eqn | None] = []
        self.changed = False
        self._uses = Counter(a for e in jaxpr.eqns for a in e.invars if type(a) is Var)
        self._uses.update(a for a in jaxpr.outvars if type(a) is Var)
        self._zeros: set[Var] = set()
        self._chains: dict[Any, list[int]] = {}  # a sum of scatters into zeros -> their places

    def take(self, eqn: Eqn) -> None:
        """The next equation."""
        if _is_zeros(eqn):
            self._zeros.add(eqn.outvars[0])
        elif _adds_at_places(eqn):
            base, out = eqn.invars[0], eqn.outvars[0]
            if base in self._zeros:
                self._chains[out] = [len(self.eqns)]
            elif base in self._chains and self._uses[base] == 1:
                self._chains[out] = [*self._chains.pop(base), len(self.eqns)]
        elif _is_sum(eqn):
            for total, part in (eqn.invars, eqn.invars[::-1]):
                if part in self._chains and self._uses[part] == 1 and total is not part:
                    self._move(eqn.outvars[0], total, part)
                    return
        self.eqns.append(eqn)

    def _move(self, out: Var, total: Any, part: Any) -> None:
        """Put the scatters that make a part of a sum behind, onto the rest of it."""
        self.changed = True
        links = self._chains.pop(part)
        before = self._chains.pop(total, None) if self._uses[total] == 1 else None
        first = len(self.eqns)
        base = total
        for number in links:
            link = self.eqns[number]
            assert link is not None
            self.eqns[number] = None
            made = out if number == links[-1] else Var(out.aval)
            self._uses[made] += made is not out
            operands = [base, *link.invars[1:]]
            self.eqns.append(Eqn(link.primitive, operands, link.params, [made], link.source))
            base = made
        if before is not None:
            self._chains[out] = [*before, *range(first, len(self.eqns))]


def _adds_at_places(eqn: Eqn) -> bool:
    scattering = way(eqn.primitive, Scattering)
    return scattering is not None and scattering.combine(**eqn.params) == "add"


def _is_sum(eqn: Eqn) -> bool:
    rule = eqn.primitive.lower
    if not isinstance(rule, Pointwise) or rule.rule != "add":
        return False
    return all(type(a) is Var and a.aval == eqn.outvars[0].aval for a in eqn.invars)


def _is_zeros(eqn: Eqn) -> bool:
    """Whether every element is the literal 0."""
    moved = eqn.invars if way(eqn.primitive, Moving) else ()
    return bool(moved) and all(type(a) is Literal and _is_zero(a.value) for a in moved)


def _is_zero(value: Any) -> bool:
    """Whether a number is 0, and no part of it is -0.0."""
    return value == 0 and not np.signbit(np.real(value)) and not np.signbit(np.imag(value))
