"""The `checkpoint` row: a call of a jaxpr whose intermediates are recomputed, not kept.

Its known half is the primal and the values that its policy keeps (none without one); its linear
half takes these and the primals, and recomputes the rest inside the backward pass. What is not
kept therefore runs twice in reverse mode.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ftrace.control.jit import (
    call_batch,
    call_effects,
    call_jvp,
    call_transpose,
    call_type,
    jit_call,
)
from ftrace.control.policies import Policy
from ftrace.control.saving import Budget, late_jaxpr, open_calls, saved_values
from ftrace.core.errors import RuleError
from ftrace.core.jaxpr import Jaxpr, Var, cached_on_jaxpr, eval_jaxpr
from ftrace.core.primitive import Linear, Primitive
from ftrace.core.trace import ctx
from ftrace.interpreters.batching import BatchTrace
from ftrace.interpreters.captures import owned
from ftrace.interpreters.dce import dce_equations, dce_jaxpr
from ftrace.interpreters.partial import RES, Half, Split, SplitJaxpr, partial_jaxpr
from ftrace.interpreters.staging import trace_closed


def _checkpoint_impl(*args: Any, jaxpr: Jaxpr, policy: Any = None) -> list[Any]:
    return owned(eval_jaxpr(jaxpr, args), (*args, *jaxpr.consts))


@dataclass(frozen=True, slots=True)
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
    if jaxpr.effects:
        raise RuleError(
            f"checkpoint would repeat the effects {sorted(jaxpr.effects)} of its function.",
            "Move them out of the checkpointed function.",
        )
    halves = _split(jaxpr, known, _per_member(policy))
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
def _split(jaxpr: Jaxpr, known: tuple[bool, ...], policy: Policy | Budget | None) -> _Halves:
    split = partial_jaxpr(jaxpr, known)
    n = sum(split.out_known)
    flat = split.known if policy is None else open_calls(split.known)
    saved = [] if policy is None else saved_values(flat, flat.outvars[n:], policy)
    if saved:
        linear = _recomputing(jaxpr, known, split, flat, saved)
        linear, used = dce_jaxpr(linear, (True,) * len(linear.outvars))
        saved = [v for v, u in zip(saved, used, strict=False) if u]
    else:
        linear, used = dce_jaxpr(jaxpr, tuple(not k for k in split.out_known))
    outs = [*flat.outvars[:n], *saved]
    primal = Jaxpr(flat.invars, flat.eqns, outs, flat.constvars, flat.consts)
    primal, needed = dce_jaxpr(primal, (True,) * len(outs))
    return _Halves(primal, needed, linear, used[-len(known) :], split.out_known)


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
    jvp=call_jvp(_bind),
    transpose=_checkpoint_transpose,
    batch=call_batch(_bind),
    partial=_checkpoint_partial,
    mask="call",
    zeros=True,
    effects=call_effects,
    multiple=True,
    doc="A call of a jaxpr whose intermediates are recomputed in the backward pass.",
)
