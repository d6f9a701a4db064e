"""What members do not do in an arm that they do not take, and in a loop that they have left.

Under `vmap` all members evaluate every arm, and each iteration until the last member is done; what
they compute beside their own way is thrown away. It must not raise an error about an index, nor
iterate for ever. So such a jaxpr gets a boolean as its first input: where it is false, loops do not
iterate and indices are 0.
"""

from collections.abc import Sequence
from typing import Any, Final

from ftrace.core.avals import aval
from ftrace.core.dtypes import bool_
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var, cached_on_jaxpr, eval_jaxpr
from ftrace.interpreters.staging import trace_closed
from ftrace.primitives.compare import bitwise_and, select

_INDEXED: Final = {
    **{"gather": 1, "scatter": 2, "scatter_add": 2},
    **dict.fromkeys(("scatter_mul", "scatter_min", "scatter_max"), 2),
}  # row -> where its indices begin


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
    op, params = e.primitive.op, e.params
    if op in _INDEXED:
        return params["mode"] == "raise" and any(type(i) is Var for i in e.invars[_INDEXED[op] :])
    return op == "while" or any(map(is_gated, _inside(op, params)))


def _inside(op: str, params: dict[str, Any]) -> Sequence[Jaxpr]:
    """The jaxprs of a row that evaluates them."""
    if op == "cond":
        return params["branches"]
    if op == "scan" and params["loop"].again is None:
        return [params["body"]]
    return [params["jaxpr"]] if op == "jit" else []


@cached_on_jaxpr
def _gated(jaxpr: Jaxpr) -> Jaxpr:
    active = _boolean()
    eqns: list[Eqn] = []
    for e in jaxpr.eqns:
        eqns += _equations(e, active) if _asks(e) else [e]
    consts = jaxpr.constvars, jaxpr.consts, jaxpr.names
    return Jaxpr((active, *jaxpr.invars), eqns, jaxpr.outvars, *consts)


def _equations(e: Eqn, active: Var) -> list[Eqn]:
    op, p = e.primitive.op, e.params
    if op in _INDEXED:
        return _indexed(e, active)
    operands = [active, *e.invars]
    if op == "while":
        n = p["n_consts"] + 1
        new = {"cond": _going(p["cond"]), "body": gated(p["body"]), "n_consts": n, "each": None}
    elif op == "cond":
        operands = [e.invars[0], active, *e.invars[1:]]
        new = {"branches": tuple(map(gated, p["branches"]))}
    elif op == "scan":
        first = int(p["loop"].length is None)
        operands = [*e.invars[:first], active, *e.invars[first:]]
        new = {"body": gated(p["body"]), "loop": p["loop"].with_more(1, 0)}
    else:
        new = {"jaxpr": gated(p["jaxpr"])}
    return [Eqn(e.primitive, operands, {**p, **new}, e.outvars, e.source)]


def _indexed(e: Eqn, active: Var) -> list[Eqn]:
    first = _INDEXED[e.primitive.op]
    eqns: list[Eqn] = []
    indices: list[Any] = []
    for i in e.invars[first:]:
        found = i
        if type(i) is Var:
            found = Var(aval(i.aval.shape, i.aval.dtype))
            zero = Literal(i.aval.dtype.type(0))
            eqns.append(Eqn(select, [active, i, zero], {}, [found], e.source))
        indices.append(found)
    return [*eqns, Eqn(e.primitive, [*e.invars[:first], *indices], e.params, e.outvars, e.source)]


def _going(cond: Jaxpr) -> Jaxpr:
    """The condition of a loop, false for a member that is not active."""
    whole = gated(cond)

    def going(active: Any, *args: Any) -> list[Any]:
        return [bitwise_and(active, *eval_jaxpr(whole, (active, *args)))]

    return trace_closed(going, whole.in_avals)
