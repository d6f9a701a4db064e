"""What members do not do in an arm that they do not take, and in a loop that they have left.

Under `vmap` all members evaluate every arm, and each iteration until the last member is done; what
they compute beside their own way is thrown away. It must not raise an error about an index, nor
iterate for ever. So such a jaxpr gets a boolean as its first input: where it is false, loops do not
iterate and indices are 0.
"""

from typing import Any, Final

from ftrace.core.avals import aval
from ftrace.core.dtypes import bool_
from ftrace.core.jaxpr import Eqn, Jaxpr, Var, cached_on_jaxpr, eval_jaxpr
from ftrace.interpreters.staging import trace_closed
from ftrace.primitives.compare import bitwise_and


@cached_on_jaxpr
def is_gated(jaxpr: Jaxpr) -> bool:
    """Whether something in a jaxpr asks whether its member is active."""
    return any(_asks(e) for e in jaxpr.eqns)


def gated(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr of one member, with a boolean in front: whether the member is active."""
    if is_gated(jaxpr):
        return _gated(jaxpr)
    consts = jaxpr.constvars, jaxpr.consts, jaxpr.names
    return Jaxpr((_boolean(), *jaxpr.invars), jaxpr.eqns, jaxpr.outvars, *consts)


def _boolean() -> Var:
    return Var(aval((), bool_))


def _asks(e: Eqn) -> bool:
    return _equations(e, _PROBE) is not None


def _equations(e: Eqn, active: Var) -> list[Eqn] | None:
    gate = e.primitive.gate
    return None if gate is None else gate(e, active)


@cached_on_jaxpr
def _gated(jaxpr: Jaxpr) -> Jaxpr:
    active = _boolean()
    eqns: list[Eqn] = []
    for e in jaxpr.eqns:
        eqns += _equations(e, active) or [e]
    consts = jaxpr.constvars, jaxpr.consts, jaxpr.names
    return Jaxpr((active, *jaxpr.invars), eqns, jaxpr.outvars, *consts)


_PROBE: Final = _boolean()


def going(cond: Jaxpr) -> Jaxpr:
    """The condition of a loop, false for a member that is not active."""
    whole = gated(cond)

    def goes(active: Any, *args: Any) -> list[Any]:
        return [bitwise_and(active, *eval_jaxpr(whole, (active, *args)))]

    return trace_closed(goes, whole.in_avals)


def gate_call(e: Eqn, active: Var) -> list[Eqn] | None:
    """The `gate` of a row that evaluates its param `jaxpr`."""
    inner = e.params["jaxpr"]
    if not is_gated(inner):
        return None
    params = {**e.params, "jaxpr": gated(inner)}
    return [Eqn(e.primitive, [active, *e.invars], params, e.outvars, e.source)]
