"""Which known values a checkpoint keeps for its backward pass, and what that makes it repeat.

Everything here is about one jaxpr of known equations and the values of it that the derivative
reads (`wanted`). What is kept cuts the graph: the rest is recomputed from the inputs and the cut.
The work that keeping a value saves is that of all equations which only it needs, the subtree it
dominates in the graph of what is recomputed. A policy chooses here, a budget in `budgets.py`.
"""

from collections.abc import Collection, Sequence
from math import prod
from typing import Any, Final

from ftrace.control.remat.peak_memory import total
from ftrace.control.remat.policies import ByName, Policy
from ftrace.core.avals import ShapedArray
from ftrace.core.jaxpr import Atom, Eqn, Jaxpr, Var, cached_on_jaxpr, subjaxprs
from ftrace.core.kinds import layout, way
from ftrace.core.lower import Elementwise, Gufunc, Pointwise, Product
from ftrace.core.scalar import OPS

READ: Final = -1  # in the dominator tree: the root, where the derivative reads


def allowed(jaxpr: Jaxpr, policy: Policy) -> set[int]:
    """The equations whose results a policy lets keep."""
    refused: set[Atom] = set()
    if isinstance(policy, ByName) and policy.nameless:
        for e in jaxpr.eqns:
            if e.primitive.label is not None and not policy(e.primitive, **e.params):
                refused.update(e.invars)
    return {
        i
        for i, e in enumerate(jaxpr.eqns)
        if refused.isdisjoint(e.outvars)
        and policy(e.primitive, *(a.aval for a in e.invars), **e.params)
    }


class Graph:
    """The equations of a jaxpr by number, and who makes what."""

    def __init__(self, jaxpr: Jaxpr, wanted: Sequence[Atom]) -> None:
        self.eqns = jaxpr.eqns
        self.makers = {v: i for i, e in enumerate(jaxpr.eqns) for v in e.outvars}
        self.wanted = {v for v in wanted if type(v) is Var}
        self.works = [work(e) for e in jaxpr.eqns]

    def cut(self, keep: Collection[int]) -> tuple[set[int], list[Var]]:
        """The equations that run again, and the variables kept, if those of `keep` may be."""
        again: set[int] = set()
        kept: set[Var] = set()
        queue: list[Any] = list(self.wanted)
        while queue:
            v = queue.pop()
            i = self.makers.get(v)
            if i is None or i in again:
                continue
            if i in keep:
                kept.add(v)
                continue
            again.add(i)
            queue.extend(self.eqns[i].invars)
        return again, [v for e in self.eqns for v in e.outvars if v in kept]

    def dominators(self, again: set[int]) -> tuple[dict[int, int], dict[int, float]]:
        """Of each equation that runs again: the one that all ways from it to the derivative pass.

        Also how many bytes of its results are read.
        """
        readers: dict[Any, list[int]] = {v: [READ] for v in self.wanted}
        parents: dict[int, int] = {}
        depths = {READ: 0}
        sizes: dict[int, float] = {}
        for i in sorted(again, reverse=True):
            read = [v for v in self.eqns[i].outvars if v in readers]
            sizes[i] = total(v.aval for v in read)
            ways = [r for v in read for r in readers[v]]
            above = ways[0]
            for other in ways[1:]:
                while above != other:
                    if depths[above] >= depths[other]:
                        above = parents[above]
                    else:
                        other = parents[other]
            parents[i], depths[i] = above, depths[above] + 1
            for v in self.eqns[i].invars:
                readers.setdefault(v, []).append(i)
        return parents, sizes

    def gains(self, again: set[int], parents: dict[int, int]) -> dict[int, float]:
        """The work that keeping the results of each equation would save."""
        found = {i: self.works[i] for i in again}
        for i in sorted(again):
            if parents[i] != READ:
                found[parents[i]] += found[i]
        return found


@cached_on_jaxpr
def late_jaxpr(jaxpr: Jaxpr, known: int) -> Jaxpr:
    """A backward program that computes again each value only when it is first read.

    Args:
        jaxpr: of known inputs and cotangents.
        known: how many known inputs lead.
    """
    pulled: set[Any] = set(jaxpr.invars[known:])
    steps: set[int] = set()  # of the backward walk; they stay in their order
    for i, e in enumerate(jaxpr.eqns):
        if not pulled.isdisjoint(e.invars):
            steps.add(i)
            pulled.update(e.outvars)
    last = len(jaxpr.eqns)
    first: dict[Any, int] = {}  # the first step that needs a variable
    due = [last] * last
    for i in reversed(range(last)):
        e = jaxpr.eqns[i]
        due[i] = i if i in steps else min(first.get(v, last) for v in e.outvars)
        for a in e.invars:
            first[a] = min(first.get(a, last), due[i])
    order = sorted(range(last), key=lambda i: (due[i], i))
    eqns = [jaxpr.eqns[i] for i in order]
    return Jaxpr(jaxpr.invars, eqns, jaxpr.outvars, jaxpr.constvars, jaxpr.consts, jaxpr.names)


# ---------------------------------------------------------------------------------- work

_COSTLY: Final = 20  # of a transcendental function or a division, in additions
_SHORT: Final = 4  # of a few operations
_CALL: Final = 50  # of a row that no kernel does
_TURNS: Final = 100  # of a loop whose length is not known


def work(eqn: Eqn) -> float:
    """About how much computing an equation is, in additions."""
    inner = [work(e) for _, jaxpr in subjaxprs(eqn.params) for e in jaxpr.eqns]
    if inner:
        return sum(inner) * _turns(eqn)
    sizes = [a.aval.size for a in (*eqn.invars, *eqn.outvars) if isinstance(a.aval, ShapedArray)]
    product = way(eqn.primitive, Product)
    if product is not None:
        (axes, _), _ = product.dims(**eqn.params)
        shape = eqn.invars[0].aval.shape
        return 2 * eqn.outvars[0].aval.size * prod(shape[i] for i in axes)
    return _each(eqn.primitive.lower) * max(sizes, default=0)


def _turns(eqn: Eqn) -> int:
    """How many times the jaxprs of an equation run."""
    loop = layout(eqn)
    if loop is not None:
        return _TURNS if loop.length is None else loop.length
    if way(eqn.primitive, Elementwise) is not None:
        return max((a.aval.size for a in eqn.outvars), default=0)
    return 1


def _each(lower: Any) -> int:
    """The work for one element."""
    if lower is None or isinstance(lower, Gufunc):
        return _CALL
    if not isinstance(lower, Pointwise):
        return 1
    if not isinstance(lower.rule, str):
        return _SHORT
    return _COSTLY if OPS[lower.rule].costly else 1
