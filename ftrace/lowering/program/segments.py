"""Programs that give tapes away, in pieces: loops that Python runs, and what lies between them.

A jaxpr whose tapes leave it (the forward half of a differentiated `jit`), or that stacks tapes, is
no single program. The equations that touch such tapes are run one by one; each stretch between
two of them is a jaxpr of its own, which compiles.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var
from ftrace.interpreters.dce import dce_equations
from ftrace.lowering.fusion.inline import inline, is_planned


class Pieces(NamedTuple):
    """A jaxpr cut at its tapes.

    Attributes:
        invars, outs: variables of the arguments, atoms of the results.
        consts: (variable, array) of what was captured.
        steps: in order, an equation, or the jaxpr of a stretch with the variables it gives.
    """

    invars: tuple[Var, ...]
    outs: tuple[Any, ...]
    consts: tuple[tuple[Any, Any], ...]
    steps: tuple[Eqn | tuple[Jaxpr, tuple[Var, ...]], ...]


def cut_at_tapes(jaxpr: Jaxpr) -> Pieces:
    """Cut a jaxpr into equations with tapes and stretches without."""
    invars = tuple(Var(a) for a in jaxpr.in_avals)
    eqns, outs, consts = inline(jaxpr, invars)
    eqns = dce_equations(eqns, outs)
    steps: list[Any] = []
    stretch: list[Eqn] = []
    for number, eqn in enumerate(eqns):
        if is_planned(eqn):
            stretch.append(eqn)
            continue
        if stretch:
            steps.append(_closed(stretch, eqns[number:], outs))
            stretch = []
        steps.append(eqn)
    if stretch:
        steps.append(_closed(stretch, (), outs))
    return Pieces(invars, tuple(outs), tuple(consts), tuple(steps))


def _closed(
    eqns: Sequence[Eqn], later: Sequence[Eqn], outs: Sequence[Any]
) -> tuple[Jaxpr, tuple[Var, ...]]:
    """Equations as a jaxpr of what they read, and the variables that are needed later."""
    made = {v for e in eqns for v in e.outvars}
    read = dict.fromkeys(
        a for e in eqns for a in e.invars if type(a) is not Literal and a not in made
    )
    wanted = {a for e in later for a in e.invars} | set(outs)
    left = tuple(v for e in eqns for v in e.outvars if v in wanted)
    return Jaxpr(tuple(read), tuple(eqns), left), left
