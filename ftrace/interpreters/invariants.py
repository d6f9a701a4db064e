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


class _Cut(NamedTuple):
    """What leaves the bodies of a loop: which constants they still read, what comes before."""

    kept: tuple[bool, ...]
    before: tuple[Jaxpr, ...]
    bodies: tuple[Jaxpr, ...]


@cached_on_jaxpr
def _cut(body: Jaxpr, n_consts: int, *others: Jaxpr) -> _Cut:
    """Bodies with the same constants, without what these alone decide; remembered, as they are."""
    bodies = (body, *others)
    moved = [_moved(b, n_consts) for b in bodies]
    if not any(before.outvars for before, _ in moved):
        return _Cut((True,) * n_consts, (), bodies)
    read = {a for _, eqns in moved for eqn in eqns for a in eqn.invars if type(a) is Var}
    read.update(a for b in bodies for a in b.outvars if type(a) is Var)
    kept = tuple(any(b.invars[i] in read for b in bodies) for i in range(n_consts))
    left = [v for before, _ in moved for v in before.outvars if type(v) is Var]
    found: list[Jaxpr] = []
    for b, (_, eqns) in zip(bodies, moved, strict=True):
        names = [v for v, k in zip(b.invars[:n_consts], kept, strict=True) if k] + left
        found.append(Jaxpr((*names, *b.invars[n_consts:]), eqns, b.outvars, b.constvars, b.consts))
    return _Cut(kept, tuple(before for before, _ in moved), tuple(found))


def _moved(body: Jaxpr, n_consts: int) -> tuple[Jaxpr, list[Eqn]]:
    """What a body's first inputs alone decide, as a jaxpr of them, and the other equations."""
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
    left = [v for eqn in moved for v in eqn.outvars if v in read]
    gone = {id(eqn) for eqn in moved}
    rest = [eqn for eqn in body.eqns if id(eqn) not in gone]
    return Jaxpr(body.invars[:n_consts], moved, left, body.constvars, body.consts), rest


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
    cut = _cut(bodies[0], len(consts), *bodies[1:])
    values = [x for x, k in zip(consts, cut.kept, strict=True) if k]
    for before in cut.before:
        values += eval_jaxpr(before, consts)
    return values, cut.bodies
