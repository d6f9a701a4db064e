"""Dead code: equations whose results nobody reads and that have no effects."""

from collections.abc import Sequence

from ftrace.core.jaxpr import Atom, Eqn, Jaxpr, Var, cached_on_jaxpr


def dce_equations(eqns: Sequence[Eqn], outs: Sequence[Atom]) -> list[Eqn]:
    """The equations needed for `outs`, in order."""
    needed: set[Atom] = set(outs)
    kept: list[Eqn] = []
    for eqn in reversed(eqns):
        if needed.isdisjoint(eqn.outvars) and (eqn.primitive.effects is None or not eqn.effects):
            continue
        if eqn.primitive.prune is not None and not needed.issuperset(eqn.outvars):
            eqn = eqn.primitive.prune(eqn, [v in needed for v in eqn.outvars])
        kept.append(eqn)
        needed.update(eqn.invars)
    kept.reverse()
    return kept


@cached_on_jaxpr
def dce_jaxpr(jaxpr: Jaxpr, used: tuple[bool, ...]) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The jaxpr of the used outputs only, and which inputs it still needs."""
    outs = [v for v, u in zip(jaxpr.outvars, used, strict=True) if u]
    eqns = dce_equations(jaxpr.eqns, outs)
    read = {v for e in eqns for v in e.invars if type(v) is Var} | set(outs)
    needed = tuple(v in read for v in jaxpr.invars)
    consts = [(v, c) for v, c in zip(jaxpr.constvars, jaxpr.consts, strict=True) if v in read]
    invars = [v for v, n in zip(jaxpr.invars, needed, strict=True) if n]
    return Jaxpr(invars, eqns, outs, [v for v, _ in consts], [c for _, c in consts]), needed
