"""Systems with one matrix, transposed or not, are solved by one factorisation.

`solve(a, b)` and its derivatives, `solve(a, tb)` forwards and `solve(a.T, ct)` backwards, each
factor their matrix, which costs n**3, before they solve, which costs n**2 for a right-hand side.
Where a program has several, they become the factors of the first matrix and solutions by these.
"""

from collections import Counter
from typing import Any

from ftrace.core.jaxpr import Eqn, Jaxpr, Var
from ftrace.core.kinds import way
from ftrace.core.lower import Moving, System
from ftrace.primitives import elements


def factored(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr in which systems share factors; itself where none can."""
    if sum(way(e.primitive, System) is not None for e in jaxpr.eqns) < 2:
        return jaxpr
    turned = {e.outvars[0]: e.invars[0] for e in jaxpr.eqns if _turns_matrices(e)}
    users: Counter[Any] = Counter()
    for eqn in jaxpr.eqns:
        if way(eqn.primitive, System) is not None:
            users[_source(eqn.invars[0], turned)[0]] += 1
    if max(users.values()) < 2:
        return jaxpr
    factors: dict[Any, list[Var]] = {}
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        system = way(eqn.primitive, System)
        if system is None:
            eqns.append(eqn)
            continue
        matrix, transposed = _source(eqn.invars[0], turned)
        if users[matrix] < 2:
            eqns.append(eqn)
            continue
        if matrix not in factors:
            factors[matrix] = [Var(a) for a in system.factors.type(matrix.aval)]
            eqns.append(Eqn(system.factors, [matrix], {}, factors[matrix], eqn.source))
        operands, how = [*factors[matrix], eqn.invars[1]], {"transposed": transposed}
        eqns.append(Eqn(system.solution, operands, how, eqn.outvars, eqn.source))
    return Jaxpr(jaxpr.invars, eqns, jaxpr.outvars, jaxpr.constvars, jaxpr.consts, jaxpr.names)


def _source(matrix: Any, turned: dict[Any, Any]) -> tuple[Any, bool]:
    """The matrix that one is, and whether it is that transposed."""
    transposed = False
    while matrix in turned:
        matrix, transposed = turned[matrix], not transposed
    return matrix, transposed


def _turns_matrices(eqn: Eqn) -> bool:
    """Whether the last two axes change places, and no others."""
    moving = way(eqn.primitive, Moving)
    if moving is None or moving.rule is not elements.transpose or type(eqn.invars[0]) is not Var:
        return False
    order = eqn.params["permutation"]
    n = len(order)
    return n > 1 and tuple(order) == (*range(n - 2), n - 1, n - 2)
