"""Systems with one matrix are solved by one factorisation, and so are their derivatives.

`solve(a, b)` and its derivatives, `solve_again(a, tb)` forwards and `solve_again(a.T, ct)`
backwards, each factor their matrix, which costs n**3, before they solve, which costs n**2 for a
right-hand side. Where a program has several, they become factors and solutions by these.

Which rows a factorisation exchanges, how accurate it is, and whether it meets a pivot of zero is
another matter for the transposed matrix. So a system that the program asks for has the factors of
its own matrix, as NumPy's `solve`; a derivative takes the factors that there are.
"""

from collections import Counter
from typing import Any

from ftrace.core.jaxpr import Eqn, Jaxpr, Var
from ftrace.core.kinds import way
from ftrace.core.lower import Moving, Solving
from ftrace.primitives import elements

Side = tuple[Any, bool]  # a matrix, and whether it is meant transposed


def factored(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr in which systems share factors; itself where none can."""
    if sum(way(e.primitive, Solving) is not None for e in jaxpr.eqns) < 2:
        return jaxpr
    turned = {e.outvars[0]: e.invars[0] for e in jaxpr.eqns if _turns_matrices(e)}
    sides = _sides_by_equation(jaxpr, turned)
    users = Counter(side for _, side in sides.values())
    if max(users.values()) < 2:
        return jaxpr
    factors: dict[Side, list[Var]] = {}
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        own, side = sides.get(id(eqn), (None, None))
        system = way(eqn.primitive, Solving)
        if own is None or side is None or system is None or users[side] < 2:
            eqns.append(eqn)
            continue
        if side not in factors:
            factors[side] = [Var(a) for a in system.factors.type(eqn.invars[0].aval)]
            eqns.append(Eqn(system.factors, [eqn.invars[0]], {}, factors[side], eqn.source))
        operands, how = [*factors[side], eqn.invars[1]], {"transposed": own != side}
        eqns.append(Eqn(system.solution, operands, how, eqn.outvars, eqn.source))
    return Jaxpr(jaxpr.invars, eqns, jaxpr.outvars, jaxpr.constvars, jaxpr.consts, jaxpr.names)


def _sides_by_equation(jaxpr: Jaxpr, turned: dict[Any, Any]) -> dict[int, tuple[Side, Side]]:
    """For each system its own side, and the one whose factors it takes."""
    found: dict[int, tuple[Side, Side]] = {}
    known: set[Side] = set()
    for eqn in jaxpr.eqns:
        system = way(eqn.primitive, Solving)
        if system is None:
            continue
        own = _source(eqn.invars[0], turned)
        other = (own[0], not own[1])
        side = other if not system.leads and own not in known and other in known else own
        known.add(side)
        found[id(eqn)] = own, side
    return found


def _source(matrix: Any, turned: dict[Any, Any]) -> Side:
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
