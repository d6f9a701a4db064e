"""The `while` row: a loop over carried values, run by two jaxprs.

`cond` and `body` both take `(*consts, *carry)`. Forward mode and batching give another `while`:
which carries get tangents, or a mapped axis, is a fixpoint over the body. A mapped predicate
keeps the carry of every member that has finished.
"""

from typing import Any

from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.errors import DtypeError
from ftrace.core.jaxpr import Jaxpr, eval_jaxpr
from ftrace.core.primitive import Effects, Primitive, Unsupported
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import batch_jaxpr, place_axis
from ftrace.interpreters.captures import owned
from ftrace.interpreters.jvp import jvp_jaxpr
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import instantiate
from ftrace.primitives.compare import select
from ftrace.primitives.linear import broadcast_in_dim
from ftrace.primitives.reduce import reduce_or


def _while_impl(*operands: Any, cond: Jaxpr, body: Jaxpr, n_consts: int) -> list[Any]:
    consts, carry = operands[:n_consts], list(operands[n_consts:])
    while eval_jaxpr(cond, (*consts, *carry))[0]:
        carry = eval_jaxpr(body, (*consts, *carry))
    return owned(carry, (*operands, *body.consts))


def _while_type(*operands: ShapedArray, cond: Jaxpr, body: Jaxpr, n_consts: int) -> Any:
    (predicate,) = cond.out_avals
    if predicate.shape or predicate.dtype.kind != "b":
        raise DtypeError(
            f"while_loop: the condition gives {predicate}, not a boolean scalar.",
            "Compare, and reduce arrays with any() or all().",
        )
    return body.out_avals


def _while_effects(*, cond: Jaxpr, body: Jaxpr, n_consts: int) -> Effects:
    return cond.effects | body.effects


def _while_jvp(primals: Any, tangents: Any, *, cond: Jaxpr, body: Jaxpr, n_consts: int) -> Any:
    active = [t is not ZERO for t in tangents]
    fixed, moving = tuple(active[:n_consts]), tuple(active[n_consts:])
    while True:
        _, nonzero = jvp_jaxpr(body, fixed + moving, moving)
        grown = tuple(a or b for a, b in zip(moving, nonzero, strict=True))
        if grown == moving:
            break
        moving = grown
    pushed, _ = jvp_jaxpr(body, fixed + moving, moving)
    n_carry, n_fixed = len(moving), sum(fixed)
    n_moving = sum(moving)

    def split(args: Any) -> tuple[Any, ...]:
        cuts = (n_consts, n_fixed, n_carry, n_moving)
        parts, start = [], 0
        for n in cuts:
            parts.append(args[start : start + n])
            start += n
        return tuple(parts)

    def new_body(*args: Any) -> list[Any]:
        consts, t_consts, carry, t_carry = split(args)
        return eval_jaxpr(pushed, (*consts, *carry, *t_consts, *t_carry))

    def new_cond(*args: Any) -> list[Any]:
        consts, _, carry, _ = split(args)
        return eval_jaxpr(cond, (*consts, *carry))

    pairs = list(zip(tangents, primals, strict=True))
    live_consts = [t for t, _ in pairs[:n_consts] if t is not ZERO]
    live_carry = [
        instantiate(t, p) for (t, p), m in zip(pairs[n_consts:], moving, strict=True) if m
    ]
    operands = (*primals[:n_consts], *live_consts, *primals[n_consts:], *live_carry)
    avals = [typeof(x) for x in operands]
    outs = while_call(
        *operands,
        cond=trace_closed(new_cond, avals),
        body=trace_closed(new_body, avals),
        n_consts=n_consts + n_fixed,
    )
    rest = iter(outs[n_carry:])
    return outs[:n_carry], [next(rest) if m else ZERO for m in moving]


def _while_batch(
    axis: Any, values: Any, dims: Any, *, cond: Jaxpr, body: Jaxpr, n_consts: int
) -> Any:
    fixed = tuple(dims[:n_consts])
    moving = tuple(0 if d is not None else None for d in dims[n_consts:])
    while True:
        _, (p,) = batch_jaxpr(cond, axis, fixed + moving, False)
        _, out = batch_jaxpr(body, axis, fixed + moving, False)
        mapped = [
            p is not None or a is not None or b is not None
            for a, b in zip(moving, out, strict=True)
        ]
        grown = tuple(0 if m else None for m in mapped)
        if grown == moving:
            break
        moving = grown
    force = tuple(d is not None for d in moving)
    new_cond, (p,) = batch_jaxpr(cond, axis, fixed + moving, False)
    new_body, _ = batch_jaxpr(body, axis, fixed + moving, force)
    if p is not None:
        new_cond, new_body = _per_member(axis, new_cond, new_body, n_consts)
    carry = [
        v if m is None else place_axis(v, d, axis, 0)
        for v, d, m in zip(values[n_consts:], dims[n_consts:], moving, strict=True)
    ]
    outs = while_call(*values[:n_consts], *carry, cond=new_cond, body=new_body, n_consts=n_consts)
    return outs, list(moving)


def _per_member(axis: Any, cond: Jaxpr, body: Jaxpr, n_consts: int) -> tuple[Jaxpr, Jaxpr]:
    """Loop while any member goes on; a member that has finished keeps its carry."""

    def any_member(*args: Any) -> list[Any]:
        (going,) = eval_jaxpr(cond, args)
        return [reduce_or(going, axes=(0,))]

    def masked(*args: Any) -> list[Any]:
        (going,) = eval_jaxpr(cond, args)
        new = eval_jaxpr(body, args)
        return [
            select(broadcast_in_dim(going, shape=typeof(x).shape, broadcast_dimensions=(0,)), x, y)
            for x, y in zip(new, args[n_consts:], strict=True)
        ]

    return trace_closed(any_member, cond.in_avals), trace_closed(masked, body.in_avals)


while_call = Primitive(
    name="while",
    impl=_while_impl,
    type=_while_type,
    jvp=_while_jvp,
    transpose=Unsupported(
        "Reverse mode (grad, vjp) was asked to go through a while_loop, whose number of steps is "
        "not recorded.",
        "Use forward mode (jvp, jacfwd), a native Python loop, or a custom_vjp rule.",
    ),
    batch=_while_batch,
    zeros=True,
    effects=_while_effects,
    multiple=True,
    doc="Repeat a body while a condition holds.",
)
