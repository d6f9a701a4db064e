"""The `while` row: a loop over carried values, run by two jaxprs.

`cond` and `body` both take `(*consts, *carry)`. Forward mode and batching give another `while`:
which carries get tangents, or a mapped axis, is a fixpoint over the body. A mapped predicate
keeps the carry of every member that has finished.

For reverse mode the known half records: its body gives `(*carry, *y)`, and the row gives
`(*carry, number of iterations, *tapes)`, a tape for each y with an element for each iteration. The
linear half is a `scan` over these tapes.

A mapped loop whose members end at different times keeps what one member does as `each`, so that
compiled code can let every member iterate by itself.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace.control.rows.gating import gated, going, is_gated
from ftrace.control.rows.jit import Turns
from ftrace.control.rows.members import member_by_member
from ftrace.control.rows.scan import fixpoint, scan_call, split_loop
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.device import to_host, together
from ftrace.core.errors import DtypeError, RuleError
from ftrace.core.jaxpr import Eqn, Jaxpr, Var, cached_on_jaxpr, eval_jaxpr
from ftrace.core.lower import Elementwise, Iteration, Layout
from ftrace.core.primitive import Effects, Primitive, Unsupported
from ftrace.core.scan_layout import Each, ScanLoop, ScanParts, cut, select_by
from ftrace.core.tapes import stack, tape
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import batch_jaxpr, place_axis
from ftrace.interpreters.captures import owned
from ftrace.interpreters.dce import dce_equations, dce_jaxpr
from ftrace.interpreters.jvp import jvp_jaxpr
from ftrace.interpreters.partial import RES, Half, Split, known_result, with_results
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import instantiate
from ftrace.primitives.compare import select_branch
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.linear import add, broadcast_in_dim
from ftrace.primitives.reduce import reduce_or

_INTEGER = np.dtype(np.int64)


def _while_impl(
    *operands: Any, cond: Jaxpr, body: Jaxpr, n_consts: int, record: bool, each: Each | None
) -> list[Any]:
    operands = tuple(together(operands))
    consts, carry = operands[:n_consts], list(operands[n_consts:])
    n = len(carry)
    turns = 0
    left: list[list[Any]] = [[] for _ in body.outvars[n:]]
    test, turn = Turns(cond), Turns(body)
    while to_host(test((*consts, *carry))[0]):
        outs = turn((*consts, *carry))
        carry = outs[:n]
        for values, value in zip(left, outs[n:], strict=True):
            values.append(value)
        turns += 1
    carry = owned(carry, (*operands, *body.consts))
    if not record:
        return carry
    avals = body.out_avals[n:]
    tapes = [stack(values, a) for values, a in zip(left, avals, strict=True)]
    return [*carry, np.int64(turns), *tapes]


def _while_type(
    *operands: ShapedArray, cond: Jaxpr, body: Jaxpr, n_consts: int, record: bool, each: Each | None
) -> Any:
    (predicate,) = cond.out_avals
    if predicate.shape or predicate.dtype.kind != "b":
        raise DtypeError(
            f"while_loop: the condition gives {predicate}, not a boolean scalar.",
            "Compare, and reduce arrays with any() or all().",
        )
    n = len(operands) - n_consts
    outs = body.out_avals
    return (*outs[:n], aval((), _INTEGER), *map(tape, outs[n:])) if record else outs


def _while_effects(*, cond: Jaxpr, body: Jaxpr, **params: Any) -> Effects:
    return cond.effects | body.effects


# ---------------------------------------------------------------------------------- jvp


def _while_jvp(  # noqa: PLR0913 - a row's params
    primals: Any,
    tangents: Any,
    *,
    cond: Jaxpr,
    body: Jaxpr,
    n_consts: int,
    record: bool,
    each: Each | None,
) -> Any:
    n_carry = len(primals) - n_consts
    active = [t is not ZERO for t in tangents]
    fixed = tuple(active[:n_consts])
    moving = fixpoint(active[n_consts:], lambda m: jvp_jaxpr(body, fixed + m)[1][:n_carry])
    pair, nonzero = _pushed(Each(cond, body), fixed, moving)
    pairs = list(zip(tangents, primals, strict=True))
    live_consts = [t for t, _ in pairs[:n_consts] if t is not ZERO]
    live_carry = [
        instantiate(t, p) for (t, p), m in zip(pairs[n_consts:], moving, strict=True) if m
    ]
    outs = while_call(
        *primals[:n_consts],
        *live_consts,
        *primals[n_consts:],
        *live_carry,
        cond=pair.cond,
        body=pair.body,
        n_consts=n_consts + sum(fixed),
        record=record,
        each=None if each is None else _pushed(each, fixed, moving)[0],
    )
    new, t_new, count, ys, t_ys = cut(
        outs, (n_carry, sum(moving), int(record), len(nonzero) - n_carry, len(outs))
    )
    rest = iter((*t_new, *t_ys))
    ts = [next(rest) if z else ZERO for z in nonzero]
    return [*new, *count, *ys], [*ts[:n_carry], *(ZERO for _ in count), *ts[n_carry:]]


def _pushed(
    pair: Each, fixed: tuple[bool, ...], moving: tuple[bool, ...]
) -> tuple[Each, tuple[bool, ...]]:
    """Condition and body with tangents of some consts and carries; which results have one.

    Both take (consts, their tangents, carry, its tangents).
    """
    body = pair.body
    n_consts, n_carry = len(fixed), len(moving)
    force = moving + (False,) * (len(body.outvars) - n_carry)
    pushed, nonzero = jvp_jaxpr(body, fixed + moving, force)
    sizes = (n_consts, sum(fixed), n_carry, sum(moving))

    def new_body(*args: Any) -> list[Any]:
        consts, t_consts, carry, t_carry = cut(args, sizes)
        outs = eval_jaxpr(pushed, (*consts, *carry, *t_consts, *t_carry))
        new, ys, dots, t_ys = cut(outs, (n_carry, len(nonzero) - n_carry, sum(moving), len(outs)))
        return [*new, *dots, *ys, *t_ys]

    def new_cond(*args: Any) -> list[Any]:
        consts, _, carry, _ = cut(args, sizes)
        return eval_jaxpr(pair.cond, (*consts, *carry))

    consts, carry = cut(body.in_avals, (n_consts, n_carry))
    avals = [
        *consts,
        *select_by(consts, fixed, True),
        *carry,
        *select_by(carry, moving, True),
    ]
    return Each(trace_closed(new_cond, avals), trace_closed(new_body, avals)), nonzero


# ---------------------------------------------------------------------------------- batch


def _while_batch(  # noqa: PLR0913 - a row's params
    axis: Any,
    values: Any,
    dims: Any,
    *,
    cond: Jaxpr,
    body: Jaxpr,
    n_consts: int,
    record: bool,
    each: Each | None,
) -> Any:
    fixed, d_carry = tuple(dims[:n_consts]), dims[n_consts:]
    n_carry = len(d_carry)

    def places(flags: Sequence[bool]) -> tuple[Any, ...]:
        return tuple(0 if m else None for m in flags)

    def once(m: tuple[bool, ...]) -> list[bool]:
        _, (p,) = batch_jaxpr(cond, axis, fixed + places(m), False)
        _, out = batch_jaxpr(body, axis, fixed + places(m), False)
        ends = zip(out[:n_carry], body.outvars, body.invars[n_consts:], strict=False)
        # what the body only hands on is the same for all members, however often they go around
        return [d is not None or (p is not None and y is not x) for d, y, x in ends]

    moving = fixpoint([d is not None for d in d_carry], once)
    force = moving + (False,) * (len(body.outvars) - n_carry)
    new_cond, (p,) = batch_jaxpr(cond, axis, fixed + places(moving), False)
    asks = p is not None and is_gated(body)
    own = gated(body) if asks else body
    new_body, out_dims = batch_jaxpr(own, axis, (0,) * asks + fixed + places(moving), force)
    carry = [
        v if not m else place_axis(v, d, axis, 0)
        for v, d, m in zip(values[n_consts:], d_carry, moving, strict=True)
    ]
    if p is not None and axis.size and not record and (cond.effects or body.effects):
        params = {"cond": cond, "body": body, "n_consts": n_consts, "record": record}
        return member_by_member(while_call, axis, values, dims, **params, each=each)
    alone = p is not None and not record and each is None and all(moving)
    counted = p is not None and record  # every member has its own number of iterations
    if p is not None:
        new_cond, new_body = _per_member(new_cond, new_body, moving, axis.size, record, asks)
    if counted:
        zeros = broadcast_in_dim(np.int64(0), shape=(axis.size,), broadcast_dimensions=())
        carry.append(zeros)
    outs = while_call(
        *values[:n_consts],
        *carry,
        cond=new_cond,
        body=new_body,
        n_consts=n_consts,
        record=record,
        each=Each(cond, body) if alone else None,
    )
    new, turns, count, tapes = cut(outs, (n_carry, int(counted), int(record), len(outs)))
    counts = turns if counted else count
    d_tapes = [None if d is None else d + 1 for d in out_dims[n_carry:]]
    d_counts = [0 if counted else None for _ in counts]
    return [*new, *counts, *tapes], [*places(moving), *d_counts, *d_tapes]


def _per_member(
    cond: Jaxpr, body: Jaxpr, moving: tuple[bool, ...], members: int, record: bool, asks: bool
) -> tuple[Jaxpr, Jaxpr]:
    """Loop while any member goes on; a member that has finished keeps its carry.

    What is not `moving` is one value for all of them, and stays as it is.

    With `record` a last carry counts the iterations of each member. A body that `asks` is told
    first which members go on.
    """
    avals = list(body.in_avals[asks:])
    n_carry = len(moving)
    n_consts = len(avals) - n_carry
    if record:
        avals.append(aval((members,), _INTEGER))

    def any_member(*args: Any) -> list[Any]:
        (going,) = eval_jaxpr(cond, args[: n_consts + n_carry])
        return [reduce_or(going, axes=(0,))]

    def masked(*args: Any) -> list[Any]:
        consts, carry, turns = cut(args, (n_consts, n_carry, 1))
        (going,) = eval_jaxpr(cond, (*consts, *carry))
        outs = eval_jaxpr(body, (*(going,) * asks, *consts, *carry))
        kept = [
            select_branch(
                broadcast_in_dim(going, shape=typeof(x).shape, broadcast_dimensions=(0,)), x, y
            )
            if m
            else y
            for x, y, m in zip(outs[:n_carry], carry, moving, strict=True)
        ]
        more = [add(t, convert_element_type(going, new_dtype=_INTEGER)) for t in turns]
        return [*kept, *more, *outs[n_carry:]]

    return trace_closed(any_member, avals), trace_closed(masked, avals)


# ---------------------------------------------------------------------------------- partial


def _while_partial(
    known: tuple[bool, ...],
    *,
    cond: Jaxpr,
    body: Jaxpr,
    n_consts: int,
    record: bool,
    each: Each | None,
) -> Split:
    n_carry = len(known) - n_consts
    flags = ScanParts((), known[:n_consts], known[n_consts:], ())
    split = split_loop(body, flags)
    carry, ys = split.out_known[:n_carry], split.out_known[n_carry:]
    known_consts = select_by(range(n_consts), flags.consts, True)
    known_carry = select_by(range(n_consts, len(known)), carry, True)
    linear_consts = (*split.forwarded_consts, *select_by(range(n_consts), flags.consts, False))
    linear_carry = select_by(range(n_consts, len(known)), carry, False)
    return Split(
        Half(
            while_call,
            {
                "cond": _known_condition(cond, flags.consts + carry),
                "body": split.known,
                "n_consts": len(known_consts),
                "record": True,
                "each": None,
            },
            (*known_consts, *known_carry),
        ),
        Half(
            scan_call,
            {
                "body": split.linear,
                "loop": ScanLoop(None, False, len(linear_consts), len(linear_carry)),
            },
            (known_result(sum(carry)), *linear_consts, *linear_carry, RES),
        ),
        (*carry, *(True for _ in range(int(record))), *ys),
    )


def _known_condition(cond: Jaxpr, known: tuple[bool, ...]) -> Jaxpr:
    """The condition as a function of the known operands, which are all it reads."""
    slim, needed = dce_jaxpr(cond, (True,))
    if any(n and not k for n, k in zip(needed, known, strict=True)):
        raise RuleError(
            "The condition of a while_loop depends on a value that is not known in the forward "
            "pass, so that the number of iterations cannot be recorded.",
            "Stop the gradient of what the condition reads (`lax.stop_gradient`).",
        )
    binders = [v for v, k in zip(cond.invars, known, strict=True) if k]
    return Jaxpr(binders, slim.eqns, slim.outvars, slim.constvars, slim.consts)


def without_unread(
    body: Jaxpr, test: Jaxpr, used: Sequence[bool]
) -> tuple[Jaxpr, Jaxpr, list[bool]]:
    """The loop without what only keeps itself up to date.

    Args:
        body, test: (captured, carry) -> carry, and whether to go on.
        used: which of the carry are read after the loop.

    Returns:
        Both without the rest, and which of the carry are left.
    """
    n = len(used)
    own, asked = body.invars[len(body.invars) - n :], test.invars[len(test.invars) - n :]
    read = {v for e in test.eqns for v in e.invars} | set(test.outvars)
    now = [u or v in read for u, v in zip(used, asked, strict=True)]
    while True:
        outs = [v for v, u in zip(body.outvars, now, strict=True) if u]
        eqns = dce_equations(body.eqns, outs)
        read = {v for e in eqns for v in e.invars} | set(outs)
        new = [u or v in read for u, v in zip(now, own, strict=True)]
        if new == now:
            break
        now = new

    def kept(invars: Sequence[Var], mine: Sequence[Var]) -> list[Var]:
        return [*invars[: len(invars) - n], *(v for v, u in zip(mine, now, strict=True) if u)]

    body = Jaxpr(kept(body.invars, own), eqns, outs)
    return body, Jaxpr(kept(test.invars, asked), test.eqns, test.outvars), now


def _pruned(eqn: Any, used: Sequence[bool]) -> Any:
    """The equation without carries and constants that nobody reads.

    One that records its iterations stays as it is.
    """
    p, n = eqn.params, eqn.params["n_consts"]
    if p["record"] or p["each"] is not None or p["body"].consts or p["cond"].consts:
        return eqn
    body, cond, left = without_unread(p["body"], p["cond"], used)
    pairs = list(zip(body.invars[:n], cond.invars[:n], strict=True))
    read = {a for j in (body, cond) for a in (*(v for e in j.eqns for v in e.invars), *j.outvars)}
    asked = [x in read or y in read for x, y in pairs]
    if all(left) and all(asked):
        return eqn

    def kept(jaxpr: Jaxpr) -> Jaxpr:
        consts = [v for v, a in zip(jaxpr.invars[:n], asked, strict=True) if a]
        return with_results(jaxpr, jaxpr.outvars, [*consts, *jaxpr.invars[n:]])

    operands = [x for x, u in zip(eqn.invars, (*asked, *left), strict=True) if u]
    outs = [v for v, u in zip(eqn.outvars, left, strict=True) if u]
    params = {**p, "body": kept(body), "cond": kept(cond), "n_consts": sum(asked)}
    return Eqn(while_call, operands, params, outs, eqn.source)


# ---------------------------------------------------------------------------------- lower


def _layout(
    operands: int, *, cond: Jaxpr, body: Jaxpr, n_consts: int, record: bool, **_: Any
) -> Layout:
    return Layout(body, cond, n_consts, operands - n_consts, records=record)


def _element(
    avals: Sequence[ShapedArray],
    *,
    cond: Jaxpr,
    body: Jaxpr,
    n_consts: int,
    record: bool,
    each: Each | None,
) -> Jaxpr | None:
    """The loop of one batch element, or the loop itself, if all it carries are numbers."""
    one = each or Each(cond, body)
    if record or cond.effects or body.effects or any(a.shape for a in one.body.in_avals):
        return None
    return _alone(one.body, one.cond, n_consts)


@cached_on_jaxpr
def _alone(body: Jaxpr, cond: Jaxpr, n_consts: int) -> Jaxpr:
    """A loop as a jaxpr of its own."""
    invars, outvars = ([Var(a) for a in avals] for avals in (body.in_avals, body.out_avals))
    params = {"cond": cond, "body": body, "n_consts": n_consts, "record": False, "each": None}
    return Jaxpr(invars, [Eqn(while_call, [*invars], params, outvars, None)], outvars)


def _while_gate(e: Eqn, active: Var) -> list[Eqn]:
    p = e.params
    new = {
        "cond": going(p["cond"]),
        "body": gated(p["body"]),
        "n_consts": p["n_consts"] + 1,
        "each": None,
    }
    return [Eqn(e.primitive, [active, *e.invars], {**p, **new}, e.outvars, e.source)]


while_call = Primitive(
    name="while",
    impl=_while_impl,
    type=_while_type,
    jvp=_while_jvp,
    transpose=Unsupported(
        "A while_loop all of whose values are cotangents was asked for its transpose.",
        "Write a linear loop as lax.scan, whose number of iterations does not depend on values.",
    ),
    batch=_while_batch,
    partial=_while_partial,
    zeros=True,
    effects=_while_effects,
    prune=_pruned,
    lower=(Elementwise(_element), Iteration(_layout)),
    gate=_while_gate,
    multiple=True,
    doc="Repeat a body while a condition holds.",
)
