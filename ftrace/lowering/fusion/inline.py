"""Inlining: the equations of a jaxpr with the calls in it opened.

A `jit` inside a program is only a name for its equations; so is the function of a `custom_jvp` or
`custom_vjp` once derivatives are done with it; small products become multiplications and sums
(small_products.py). `cond` and `while` stay.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var, cached_on_jaxpr, subjaxprs
from ftrace.core.kinds import branches, called, layout, loses, way
from ftrace.core.lower import Call, Expansion, Moving, Pointwise, Product
from ftrace.core.primitive import Primitive
from ftrace.core.tapes import is_tape
from ftrace.interpreters.staging import trace_closed
from ftrace.lowering.fusion.small_products import expanded

WIDE: Final = 32  # operands that are put together at once

Opened = tuple[list[Eqn], list[Any], list[tuple[Any, Any]]]


def plain(jaxpr: Jaxpr) -> Opened:
    """As `inline` for the jaxpr's own inputs, of what is only a name: derivatives stay the same."""
    eqns: list[Eqn] = []
    consts: list[tuple[Any, Any]] = []
    return eqns, _open(jaxpr, jaxpr.invars, eqns, consts, last=False, expands=False), consts


def opened(jaxpr: Jaxpr) -> Jaxpr:
    """The same jaxpr without calls that are only names: policies and budgets see into them."""
    eqns, outs, consts = plain(jaxpr)
    return Jaxpr(jaxpr.invars, eqns, outs, [v for v, _ in consts], [c for _, c in consts])


def without_calls(jaxpr: Jaxpr) -> Jaxpr:
    """The same jaxpr with all calls opened, and rows that others compute as they are."""
    eqns: list[Eqn] = []
    consts: list[tuple[Any, Any]] = []
    outs = _open(jaxpr, jaxpr.invars, eqns, consts, last=True, expands=False)
    return Jaxpr(jaxpr.invars, eqns, outs, [v for v, _ in consts], [c for _, c in consts])


def inline(jaxpr: Jaxpr, args: Sequence[Any]) -> Opened:
    """Open the calls of a jaxpr, when no derivative will be asked for any more.

    Args:
        jaxpr: the program.
        args: atoms for its inputs.

    Returns:
        The equations, the atoms of the results, and (variable, array) of the constants.
    """
    eqns: list[Eqn] = []
    consts: list[tuple[Any, Any]] = []
    return eqns, _open(jaxpr, args, eqns, consts, last=True, expands=True), consts


def _open(
    jaxpr: Jaxpr,
    args: Sequence[Any],
    eqns: list[Eqn],
    consts: list[Any],
    *,
    last: bool,
    expands: bool,
) -> list[Any]:
    """Fill `eqns` and `consts`; `last` where derivatives are done, `expands` to other rows."""
    env: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))
    for var, array in zip(jaxpr.constvars, jaxpr.consts, strict=True):
        env[var] = Var(var.aval)
        consts.append((env[var], array))
    opens = cache(_opens_at_last) if expands else cache(_is_call)
    for eqn in jaxpr.eqns:
        operands = [a if type(a) is Literal else env[a] for a in eqn.invars]
        if not opens(eqn.primitive):
            outs = [Var(v.aval) for v in eqn.outvars]
            eqns.append(Eqn(eqn.primitive, operands, eqn.params, outs, eqn.source))
            env.update(zip(eqn.outvars, outs, strict=True))
            continue
        inner = called(eqn) if last or loses(eqn) == "nothing" else None
        if inner is None and expands:
            inner = _expansion(eqn)
        if inner is not None:
            outs = _open(inner, operands, eqns, consts, last=last, expands=expands)
            env.update(zip(eqn.outvars, outs, strict=True))
            continue
        outs = [Var(v.aval) for v in eqn.outvars]
        copy = Eqn(eqn.primitive, operands, eqn.params, outs, eqn.source)
        if expands:
            eqns.extend(expanded(copy) or (copy,))
        else:
            eqns.append(copy)
        env.update(zip(eqn.outvars, outs, strict=True))
    return [a if type(a) is Literal else env[a] for a in jaxpr.outvars]


def _is_call(row: Primitive) -> bool:
    return isinstance(row.lower, Call)


def _opens_at_last(row: Primitive) -> bool:
    """Whether equations of a row may be put in other words when derivatives are done."""
    return _is_call(row) or any(way(row, kind) for kind in (Expansion, Product))


def _expansion(eqn: Eqn) -> Jaxpr | None:
    """The equations that are put in the place of one; None where it stays."""
    way_to = way(eqn.primitive, Expansion)
    if way_to is None:
        return None

    def expanded_call(*operands: Any) -> Any:
        found = way_to.rule(*operands, **eqn.params)
        return [] if found is None else list(found) if eqn.primitive.multiple else [found]

    found = trace_closed(expanded_call, tuple(a.aval for a in eqn.invars))
    if found.out_avals != tuple(v.aval for v in eqn.outvars):
        return None
    eqns = [Eqn(e.primitive, e.invars, e.params, e.outvars, eqn.source) for e in found.eqns]
    return Jaxpr(found.invars, eqns, found.outvars, found.constvars, found.consts)


def in_chunks(eqns: Sequence[Eqn]) -> list[Eqn]:
    """The equations with none that joins many operands at once."""
    return [part for e in eqns for part in _chunks(e)]


def _chunks(eqn: Eqn) -> list[Eqn]:
    """A wide concatenation as one of several, so that each is a kernel of bounded length."""
    parts, row = eqn.invars, eqn.primitive
    if len(parts) <= WIDE or not (isinstance(row.lower, Moving) and row.lower.joins):
        return [eqn]
    found: list[Eqn] = []
    while len(parts) > WIDE:
        chunks = [parts[i : i + WIDE] for i in range(0, len(parts), WIDE)]
        parts = [Var(row.type(*(x.aval for x in chunk), **eqn.params)) for chunk in chunks]
        pairs = zip(chunks, parts, strict=True)
        found += [Eqn(row, chunk, eqn.params, [v], eqn.source) for chunk, v in pairs]
    return [*found, Eqn(eqn.primitive, parts, eqn.params, eqn.outvars, eqn.source)]


@cached_on_jaxpr
def _has_tapes(jaxpr: Jaxpr) -> bool:
    """Whether there is a tape in a jaxpr, or in one that it holds."""
    types = {v.aval for eqn in jaxpr.eqns for v in eqn.outvars}
    if any(map(is_tape, types.union(jaxpr.in_avals))):
        return True
    for eqn in jaxpr.eqns:
        if eqn.params:
            inner = called(eqn)
            held = [j for _, j in subjaxprs(eqn.params)] if inner is None else [inner]
            if any(map(_has_tapes, held)):
                return True
    return False


def is_one_program(jaxpr: Jaxpr) -> bool:
    """Whether a plan is possible: tapes are made and read by loops, and nothing else.

    Then each tape that a jaxpr gives away is one that a loop in it has made, and given away once.
    """
    if not _has_tapes(jaxpr):
        return True
    eqns, outs, _ = inline(jaxpr, [Var(a) for a in jaxpr.in_avals])
    left = [a for a in outs if is_tape(a.aval)]
    made = {v for eqn in eqns for v in eqn.outvars}
    return made.issuperset(left) and len({*left}) == len(left) and all(map(is_planned, eqns))


def is_planned(eqn: Eqn) -> bool:
    """Whether an equation without calls can be a step of a plan."""
    touched = any(is_tape(a.aval) for a in (*eqn.invars, *eqn.outvars))
    if touched and not _keeps_tapes(eqn):
        return False
    return all(is_one_program(inner) for _, inner in subjaxprs(eqn.params))


def _keeps_tapes(eqn: Eqn) -> bool:
    """Whether a step can take and give tapes: a branch, a loop around them, a sum of them."""
    loop = layout(eqn)
    if loop is not None:
        return not any(map(is_tape, loop.body.out_avals[: loop.n_carry]))
    if branches(eqn):
        return True
    per_element = way(eqn.primitive, Pointwise) is not None
    return per_element and all(is_tape(a.aval) for a in (*eqn.invars, *eqn.outvars))
