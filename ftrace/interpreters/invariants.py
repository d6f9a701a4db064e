"""Loop-invariant code motion: the elements and sums of a loop's constants are taken before it.

It is done where loops are bound, before they are differentiated: the derivative of an element that
a body reads of an array is then a number that the loop carries, not an array to which every
iteration adds, and a loop that reads numbers alone is one kernel. Only what is linear is moved, as
its derivative depends on no value: a loop that never runs has none, even of a root of zero. What
would take more memory than its operands stays. Other invariants of numbers leave loops when kernels
are written. Source: Muchnick, Advanced Compiler Design and Implementation (1997), 13.2.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ftrace.core.jaxpr import Eqn, Jaxpr, Var, cached_on_jaxpr, eval_jaxpr
from ftrace.core.lower import Moving, Pointwise, Reduction

LINEAR: Final = ("add", "sub", "neg")  # operations


class _Parts(NamedTuple):
    """A body cut in two: `before` takes the constants and gives `left`, which `eqns` read."""

    before: Jaxpr
    left: tuple[Var, ...]
    eqns: tuple[Eqn, ...]


@cached_on_jaxpr
def _parts(body: Jaxpr, n_consts: int) -> _Parts:
    """A body, and what its first inputs alone decide."""
    known: set[Any] = {*body.invars[:n_consts], *body.constvars}
    able = [_decided(eqn, known) for eqn in body.eqns]
    read = {a for eqn, yes in zip(body.eqns, able, strict=True) if not yes for a in eqn.invars}
    read.update(body.outvars)
    moved: list[Eqn] = []
    wanted: set[Any] = set()  # by those that are moved
    for eqn, yes in zip(reversed(body.eqns), reversed(able), strict=True):
        if not yes:
            continue
        if wanted.isdisjoint(eqn.outvars) and not _is_worth_it(eqn):
            read.update(eqn.invars)
            continue
        moved.append(eqn)
        wanted.update(eqn.invars)
    moved.reverse()
    left = tuple(v for eqn in moved for v in eqn.outvars if v in read)
    inside = {id(eqn) for eqn in moved}
    return _Parts(
        Jaxpr(body.invars[:n_consts], moved, left, body.constvars, body.consts),
        left,
        tuple(eqn for eqn in body.eqns if id(eqn) not in inside),
    )


def _decided(eqn: Eqn, known: set[Any]) -> bool:
    """Whether an equation is decided by what is known, is linear, and does not grow."""
    given = [a for a in eqn.invars if type(a) is Var]
    rule = eqn.primitive.lower
    linear = (
        isinstance(rule, Moving)
        or (isinstance(rule, Reduction) and rule.fold == "sum")
        or (isinstance(rule, Pointwise) and rule.rule in LINEAR)
    )
    found = linear and bool(given) and known.issuperset(given)
    found = found and eqn.outvars[0].aval.size <= max(a.aval.size for a in given)
    if found:
        known.update(eqn.outvars)
    return found


def _is_worth_it(eqn: Eqn) -> bool:
    """Whether the result is better than the operands: computed from them, smaller, or a number."""
    out, largest = eqn.outvars[0].aval, max(a.aval.size for a in eqn.invars)
    return not isinstance(eqn.primitive.lower, Moving) or out.size < largest or not out.shape


def moved_before(consts: Sequence[Any], *bodies: Jaxpr) -> tuple[list[Any], tuple[Jaxpr, ...]]:
    """A loop's constants and bodies, what is the same in all iterations being constants.

    Args:
        consts: the constants, which are the first inputs of every body.
        bodies: what is done in each iteration.
    """
    n = len(consts)
    cuts = [_parts(body, n) for body in bodies]
    if not any(cut.left for cut in cuts):
        return list(consts), bodies
    read = {a for cut in cuts for eqn in cut.eqns for a in eqn.invars if type(a) is Var}
    read.update(a for body in bodies for a in body.outvars if type(a) is Var)
    kept = [any(body.invars[i] in read for body in bodies) for i in range(n)]
    values = [x for x, k in zip(consts, kept, strict=True) if k]
    for cut in cuts:
        values += eval_jaxpr(cut.before, consts)
    left = [v for cut in cuts for v in cut.left]
    found: list[Jaxpr] = []
    for body, cut in zip(bodies, cuts, strict=True):
        names = [v for v, k in zip(body.invars[:n], kept, strict=True) if k] + left
        inputs = (*names, *body.invars[n:])
        found.append(Jaxpr(inputs, cut.eqns, body.outvars, body.constvars, body.consts))
    return values, tuple(found)
