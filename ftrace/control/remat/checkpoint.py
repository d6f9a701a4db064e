"""The `checkpoint` row: a call of a jaxpr whose intermediates are recomputed, not kept.

Its known half is the primal and the values that its policy keeps (none without one); its linear
half takes these and the primals, and recomputes the rest inside the backward pass. What is not
kept therefore runs twice in reverse mode.
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

from ftrace.control.remat.budgets import Budget, choices, looped
from ftrace.control.remat.peak_memory import peak, total
from ftrace.control.remat.policies import Policy
from ftrace.control.remat.saving import Graph, allowed, late_jaxpr
from ftrace.control.rows.gating import gate_call
from ftrace.control.rows.jit import (
    call_batch,
    call_effects,
    call_jvp,
    call_transpose,
    call_type,
    jit_call,
)
from ftrace.core.config import config
from ftrace.core.errors import BudgetError, RuleError
from ftrace.core.jaxpr import Jaxpr, Var, cached_on_jaxpr, eval_jaxpr
from ftrace.core.lower import Call
from ftrace.core.primitive import RAISES, Linear, Primitive
from ftrace.core.records import record
from ftrace.core.trace import ctx
from ftrace.interpreters.batching import BatchTrace
from ftrace.interpreters.captures import owned
from ftrace.interpreters.dce import dce_equations, dce_jaxpr
from ftrace.interpreters.jvp import jvp_as_it_is, jvp_jaxpr
from ftrace.interpreters.partial import RES, Half, Split, SplitJaxpr, partial_jaxpr
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.transpose import transpose_jaxpr
from ftrace.lowering.fusion.inline import opened


def _checkpoint_impl(*args: Any, jaxpr: Jaxpr, policy: Any = None) -> list[Any]:
    return owned(eval_jaxpr(jaxpr, args), (*args, *jaxpr.consts))


@record
class _Halves:
    """The known outputs and the kept values; the other outputs from the kept values and all inputs.

    `needed` and `used` say which inputs each half reads.
    """

    primal: Jaxpr
    needed: tuple[bool, ...]
    linear: Jaxpr
    used: tuple[bool, ...]
    out_known: tuple[bool, ...]


def _checkpoint_partial(known: tuple[bool, ...], *, jaxpr: Jaxpr, policy: Any = None) -> Split:
    repeated = jaxpr.effects - {RAISES}  # an error ends the first run
    if repeated:
        eqn = next(e for e in jaxpr.eqns if e.effects & repeated)
        raise RuleError(
            f"checkpoint would repeat the effects {sorted(repeated)} of its function: that of "
            f"{eqn.primitive.name}.",
            "Move it out of the checkpointed function.",
            place=eqn.source,
        )
    halves = _split(jaxpr, known, _per_member(policy), config.settings.compile)
    indices = [i for i, k in enumerate(known) if k]
    return Split(
        Half(
            jit_call,
            {"jaxpr": halves.primal, "name": "checkpoint"},
            tuple(i for i, u in zip(indices, halves.needed, strict=True) if u),
        ),
        Half(
            checkpoint_call,
            {"jaxpr": halves.linear, "policy": policy},
            (RES, *(i for i, u in enumerate(halves.used) if u)),
        ),
        halves.out_known,
    )


def _per_member(policy: Any) -> Any:
    """A budget is for all members of the `vmap`s around together."""
    if isinstance(policy, Budget):
        trace = ctx.trace
        while trace is not None:
            if isinstance(trace, BatchTrace):
                policy = Budget(policy.nbytes // max(trace.axis.size, 1))
            trace = trace.parent
    return policy


@cached_on_jaxpr
def _split(
    jaxpr: Jaxpr, known: tuple[bool, ...], policy: Policy | Budget | None, compiled: bool
) -> _Halves:
    if isinstance(policy, Budget):
        return _within(jaxpr, known, policy.nbytes, compiled)
    split = partial_jaxpr(jaxpr, known)
    if policy is None:
        return _halves(jaxpr, known, split, split.known, [])
    flat = opened(split.known)
    keep = allowed(flat, policy)
    graph = Graph(flat, flat.outvars[sum(split.out_known) :])
    return _halves(jaxpr, known, split, flat, graph.cut(keep)[1])


def _within(jaxpr: Jaxpr, known: tuple[bool, ...], budget: int, compiled: bool) -> _Halves:
    """The halves that fit into so many bytes and repeat the least."""
    large: list[_Halves] = []
    least = inf
    for halves in _choices(jaxpr, known, budget):
        if total(halves.primal.out_avals) > budget:
            large.append(halves)
            continue
        needed = _needed(halves, known, compiled)
        if needed <= budget:
            return halves
        least = min(least, needed)
    raise _too_small(budget, min([least, *(_needed(h, known, compiled) for h in large)]))


def _choices(jaxpr: Jaxpr, known: tuple[bool, ...], budget: int) -> Iterator[_Halves]:
    for variant in looped(jaxpr):
        split = partial_jaxpr(variant, known)
        flat = opened(split.known)
        graph = Graph(flat, flat.outvars[sum(split.out_known) :])
        for saved in choices(graph, budget):
            yield _halves(variant, known, split, flat, saved)


def _halves(
    jaxpr: Jaxpr, known: tuple[bool, ...], split: SplitJaxpr, flat: Jaxpr, saved: list[Var]
) -> _Halves:
    """The halves of a checkpoint that keeps some values of `flat`, the known part of `split`."""
    if saved:
        linear = _recomputing(jaxpr, known, split, flat, saved)
        linear, used = dce_jaxpr(linear, (True,) * len(linear.outvars))
        saved = [v for v, u in zip(saved, used, strict=False) if u]
    else:
        linear, used = dce_jaxpr(jaxpr, tuple(not k for k in split.out_known))
    outs = [*flat.outvars[: sum(split.out_known)], *saved]
    primal = Jaxpr(flat.invars, flat.eqns, outs, flat.constvars, flat.consts)
    primal, needed = dce_jaxpr(primal, (True,) * len(outs))
    return _Halves(primal, needed, linear, used[-len(known) :], split.out_known)


def _needed(halves: _Halves, known: tuple[bool, ...], compiled: bool) -> float:
    """The most bytes that a call and its derivative hold: the results and what is kept stay.

    Compiled code may be two programs, or one, in which the kernels are others.
    """
    primal, linear = halves.primal, halves.linear
    flags = tuple(k for k, u in zip(known, halves.used, strict=True) if u)
    n = len(linear.invars) - len(flags)
    unknown = (False,) * n + tuple(not k for k in flags)
    try:
        backward = transpose_jaxpr(linear, unknown, (1,) * len(linear.outvars))[0]
        backward = late_jaxpr(backward, len(unknown) - sum(unknown))
    except RuleError:  # it has a forward derivative only
        backward = linear
    cts = total(linear.out_avals)
    apart = max(peak(primal, compiled), total(primal.out_avals) + cts + peak(backward, compiled))
    if not compiled:
        return apart
    return max(apart, cts + peak(_joined(primal, backward, n), compiled))


def _joined(primal: Jaxpr, backward: Jaxpr, n: int) -> Jaxpr:
    """Both passes as one program; the first `n` inputs of the second are the last results."""
    first = len(primal.outvars) - n

    def both(*args: Any) -> list[Any]:
        outs = eval_jaxpr(primal, args[: len(primal.invars)])
        rest = args[len(primal.invars) :]
        return [*outs[:first], *eval_jaxpr(backward, [*outs[first:], *rest])]

    return trace_closed(both, [*primal.in_avals, *backward.in_avals[n:]])


def _too_small(budget: int, least: float) -> BudgetError:
    if least == inf:
        return BudgetError(
            "The memory of a function with a while_loop, which records as many iterations as "
            "its values "
            "say, cannot be held within a budget.",
            "Use lax.scan, or lax.fori_loop with bounds that are Python numbers; or call "
            "checkpoint without a budget.",
        )
    return BudgetError(
        f"checkpoint cannot hold a call and its derivative within {budget:,} bytes: the least "
        f"that any choice of what is kept takes is {least:,.0f} bytes.",
        "Pass a larger budget, or work on smaller parts: fewer members of a vmap, lax.scan with "
        'checkpoint="binomial" for long loops.',
    )


def _recomputing(
    jaxpr: Jaxpr, known: tuple[bool, ...], split: SplitJaxpr, flat: Jaxpr, saved: list[Var]
) -> Jaxpr:
    """The unknown outputs of a jaxpr from the saved values of `flat` and all inputs."""
    residuals = flat.outvars[sum(split.out_known) :]
    eqns = dce_equations([e for e in flat.eqns if set(saved).isdisjoint(e.outvars)], residuals)
    again = Jaxpr([*saved, *flat.invars], eqns, residuals, flat.constvars, flat.consts)

    def linear(*args: Any) -> list[Any]:
        kept, inputs = args[: len(saved)], args[len(saved) :]
        knowns = [x for x, k in zip(inputs, known, strict=True) if k]
        unknowns = [x for x, k in zip(inputs, known, strict=True) if not k]
        found = eval_jaxpr(again, [*kept, *knowns])
        forwarded = [inputs[i] for i in split.forwarded]
        return eval_jaxpr(split.linear, [*found, *forwarded, *unknowns])

    return trace_closed(linear, [*(v.aval for v in saved), *jaxpr.in_avals])


def _bind(*args: Any, **params: Any) -> Any:
    return checkpoint_call(*args, **params)


def _checkpoint_jvp(primals: Any, tangents: Any, *, jaxpr: Jaxpr, policy: Any = None) -> Any:
    # a policy chooses among the operations as they were written, those of loops are no choice
    derive = jvp_jaxpr if policy is None else jvp_as_it_is
    return call_jvp(_bind, derive)(primals, tangents, jaxpr=jaxpr, policy=policy)


def _checkpoint_transpose(
    cts: Any, *operands: Any, jaxpr: Jaxpr, policy: Any = None
) -> Sequence[Any]:
    known = sum(type(x) is not Linear for x in operands)

    def bind(*args: Any, jaxpr: Jaxpr) -> Any:
        ordered = jaxpr if policy is None else late_jaxpr(jaxpr, known)
        return jit_call(*args, jaxpr=ordered, name="checkpoint")

    return call_transpose(bind)(cts, *operands, jaxpr=jaxpr)


checkpoint_call = Primitive(
    name="checkpoint",
    impl=_checkpoint_impl,
    type=call_type,
    jvp=_checkpoint_jvp,
    transpose=_checkpoint_transpose,
    batch=call_batch(_bind),
    partial=_checkpoint_partial,
    mask="call",
    zeros=True,
    effects=call_effects,
    lower=Call(lambda avals, jaxpr, **_: jaxpr, "memory"),
    gate=gate_call,
    multiple=True,
    doc="A call of a jaxpr whose intermediates are recomputed in the backward pass.",
)
