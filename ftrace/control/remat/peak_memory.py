"""How much memory running a jaxpr takes, beside its arguments and the arrays it captured.

Compiled code has a plan, which says to the byte what its arena and its results are. Interpreted,
every equation makes its results and a value dies after its last reader; movements are views of
what they move. What nobody knows before it runs, the tapes of a `while`, is infinite.
"""

from collections import Counter
from math import inf
from typing import Any

from ftrace.control.remat.revolve import states, turns_of
from ftrace.control.rows.jit import BACKENDS
from ftrace.core.jaxpr import Eqn, Jaxpr, Var, cached_on_jaxpr, last_uses, subjaxprs
from ftrace.core.kinds import is_view, keeps, layout, way
from ftrace.core.lower import Elementwise, Replay
from ftrace.core.tapes import is_tape
from ftrace.lowering.fusion.inline import is_one_program
from ftrace.lowering.program.program import TAPE


def nbytes(a: Any) -> float:
    """The memory of a value; infinite where only the run knows it (the tape of a loop)."""
    return inf if is_tape(a) else a.size * a.dtype.itemsize


def total(avals: Any) -> float:
    """The memory of some values together."""
    return sum(map(nbytes, avals))


@cached_on_jaxpr
def peak(jaxpr: Jaxpr, compiled: bool) -> float:
    """The most that running a jaxpr holds at once, its results included."""
    return _planned(jaxpr) if compiled else _interpreted(jaxpr)


def _planned(jaxpr: Jaxpr) -> float:
    if not is_one_program(jaxpr):
        return inf
    program = BACKENDS["cpu"]().plan(jaxpr)
    if program.of_place(TAPE):
        return inf
    rows = max((_called(call.eqn) for call in program.callbacks), default=0)
    return program.arena + total(jaxpr.out_avals) + rows


def _called(eqn: Eqn) -> float:
    """What a row that Python runs holds before its results are in their places."""
    copies = total(a.aval for a in eqn.invars) if keeps(eqn) else 0
    return copies + max(_inside(eqn), total(v.aval for v in eqn.outvars))


def _interpreted(jaxpr: Jaxpr) -> float:
    roots: dict[Any, Any] = {}  # of a view, what it shows
    shown: Counter[Any] = Counter()  # by how many variables
    sizes: dict[Any, float] = {}  # of what is stored now
    now = most = 0.0
    for eqn, dead in zip(jaxpr.eqns, last_uses(jaxpr), strict=True):
        most = max(most, now + _inside(eqn))
        source = eqn.invars[0] if is_view(eqn) else None
        for v in eqn.outvars:
            if type(source) is Var:
                roots[v] = roots.get(source, source)
            else:
                sizes[v] = nbytes(v.aval)
                now += sizes[v]
        most = max(most, now)
        shown.update(roots.get(v, v) for v in eqn.outvars)
        for root in (roots.get(v, v) for v in dead):
            shown[root] -= 1
            if shown[root] <= 0:
                now -= sizes.pop(root, 0)
    copied = {v for v in jaxpr.outvars if v in roots}
    return max(most, now + total(v.aval for v in copied))


def _inside(eqn: Eqn) -> float:
    """What an equation holds while the jaxprs in it run, its results included."""
    results = total(v.aval for v in eqn.outvars)
    replay = way(eqn.primitive, Replay)
    if replay is not None:
        halves = eqn.params["halves"]
        return results + states(halves) + max(map(_interpreted, turns_of(halves).values()))
    inner = [_interpreted(jaxpr) for _, jaxpr in subjaxprs(eqn.params)]
    members = max((a.aval.size for a in eqn.outvars), default=0) if _is_elementwise(eqn) else 1
    return results + max(inner) * members if inner else 0


def _is_elementwise(eqn: Eqn) -> bool:
    """Whether the jaxpr inside is that of one element."""
    return way(eqn.primitive, Elementwise) is not None and layout(eqn) is None
