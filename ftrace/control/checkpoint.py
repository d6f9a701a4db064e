"""The `checkpoint` row: a call of a jaxpr whose intermediates are recomputed, not kept.

Its known half is the primal alone and leaves no residuals; its linear half takes the primals
again and recomputes inside the backward pass. The primal therefore runs twice in reverse mode.
"""

from typing import Any

from ftrace.control.jit import (
    call_batch,
    call_effects,
    call_jvp,
    call_transpose,
    call_type,
    jit_call,
)
from ftrace.core.errors import RuleError
from ftrace.core.jaxpr import Jaxpr, eval_jaxpr
from ftrace.core.primitive import Primitive
from ftrace.interpreters.captures import owned
from ftrace.interpreters.dce import dce_jaxpr
from ftrace.interpreters.partial import Half, Split, partial_jaxpr


def _checkpoint_impl(*args: Any, jaxpr: Jaxpr) -> list[Any]:
    return owned(eval_jaxpr(jaxpr, args), (*args, *jaxpr.consts))


def _checkpoint_partial(known: tuple[bool, ...], *, jaxpr: Jaxpr) -> Split:
    if jaxpr.effects:
        raise RuleError(
            f"checkpoint would repeat the effects {sorted(jaxpr.effects)} of its function.",
            "Move them out of the checkpointed function.",
        )
    split = partial_jaxpr(jaxpr, known)
    n_known = sum(split.out_known)
    n_residuals = len(split.known.outvars) - n_known
    primal, needed = dce_jaxpr(split.known, (True,) * n_known + (False,) * n_residuals)
    linear, used = dce_jaxpr(jaxpr, tuple(not k for k in split.out_known))
    indices = [i for i, k in enumerate(known) if k]
    return Split(
        Half(
            jit_call,
            {"jaxpr": primal, "name": "checkpoint"},
            tuple(i for i, u in zip(indices, needed, strict=True) if u),
        ),
        Half(checkpoint_call, {"jaxpr": linear}, tuple(i for i, u in enumerate(used) if u)),
        split.out_known,
    )


def _bind(*args: Any, **params: Any) -> Any:
    return checkpoint_call(*args, **params)


def _bind_jit(*args: Any, jaxpr: Jaxpr) -> Any:
    return jit_call(*args, jaxpr=jaxpr, name="checkpoint")


checkpoint_call = Primitive(
    name="checkpoint",
    impl=_checkpoint_impl,
    type=call_type,
    jvp=call_jvp(_bind),
    transpose=call_transpose(_bind_jit),
    batch=call_batch(_bind),
    partial=_checkpoint_partial,
    mask="call",
    zeros=True,
    effects=call_effects,
    multiple=True,
    doc="A call of a jaxpr whose intermediates are recomputed in the backward pass.",
)
