"""Users' derivative rules as rows: `custom_jvp` and `custom_vjp`.

The rows' params are functions of flat values: Python functions while a program runs eagerly,
jaxprs once it is staged (the `stage` column, `flat_rules.py`). Values that the functions close over
are leading operands (`closures.py`). A `custom_vjp`'s jvp runs `fwd` and binds the linear row
`custom_lin`, whose transpose is the user's `bwd`. Neither row needs a `partial` column: unknowns
are always tangents.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from ftrace.control.rules.custom_lin import custom_lin, summed
from ftrace.control.rules.flat_rules import (
    FUN,
    NOTHING,
    Closed,
    Flat,
    at_front,
    batched,
    evaluated,
    fun_effects,
    fun_impl,
    fun_transpose,
    fun_type,
    gated_call,
    lazy,
    staged,
    with_flag,
)
from ftrace.core.avals import ShapedArray, strengthen, typeof
from ftrace.core.jaxpr import Eqn, Var
from ftrace.core.primitive import Primitive
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import Axis
from ftrace.interpreters.tangents import instantiate

Count = int | Callable[[], int]  # how many results; known only after an eager `fwd` has run


# ---------------------------------------------------------------------------------- custom_jvp


def _custom_jvp_jvp(
    primals: Any,
    tangents: Any,
    *,
    fun: Flat,
    rule: Flat,
    closed: Closed = NOTHING,
    symbolic: bool = False,
) -> Any:
    closed.check(fun, primals, tangents)
    if symbolic:
        active = tuple(t is not ZERO for t in tangents)
        outs = rule(*primals, *(t for t in tangents if t is not ZERO), active=active)
    else:
        outs = rule(*primals, *map(instantiate, tangents, primals))
    n = len(outs) // 2
    ys, ts = outs[:n], outs[n:]
    return ys, [t if typeof(y).dtype.kind in "fc" else ZERO for y, t in zip(ys, ts, strict=True)]


def _custom_jvp_batch(
    axis: Axis, values: Any, dims: Any, *, fun: Flat, rule: Flat, **params: Any
) -> Any:
    values, ds = at_front(axis, values, dims)
    t_dims = [
        None if typeof(v).dtype.kind not in "fc" else d for v, d in zip(values, ds, strict=True)
    ]

    def rule_dims(active: Any = None) -> list[Any]:
        there = active or (True,) * len(ds)
        return [*ds, *(d for d, on in zip(t_dims, there, strict=True) if on)]

    outs = custom_jvp_call(
        *values,
        fun=batched(fun, axis, lambda: ds),
        rule=batched(rule, axis, rule_dims),
        **params,
    )
    return outs, [0] * len(outs)


def _custom_jvp_stage(args: Any, params: Any) -> Any:
    avals = [typeof(a) for a in args]

    def rule_avals(active: Any = None) -> list[ShapedArray]:
        there = active or (True,) * len(avals)
        return [*avals, *(strengthen(a) for a, on in zip(avals, there, strict=True) if on)]

    fun, rule = staged(params["fun"], avals), lazy(params["rule"], rule_avals)
    return args, {**params, "fun": fun, "rule": rule}


def _custom_jvp_gate(e: Eqn, active: Var) -> list[Eqn] | None:
    def rule(on: Any, /, *args: Any, **static: Any) -> list[Any]:
        if static:
            static["active"] = static["active"][1:]
        else:
            args = (*args[:n], *args[n + 1 :])  # without a tangent of `on`
        return evaluated(own, on, *args, **static)

    own, n = e.params["rule"], len(e.invars)
    return gated_call(e, active, rule=rule, closed=with_flag(e))


custom_jvp_call = Primitive(
    name="custom_jvp",
    impl=fun_impl,
    type=fun_type,
    jvp=_custom_jvp_jvp,
    transpose=fun_transpose,
    batch=_custom_jvp_batch,
    stage=_custom_jvp_stage,
    gate=_custom_jvp_gate,
    mask="call",
    zeros=True,
    effects=fun_effects,
    lower=FUN,
    multiple=True,
    doc="A call of a function with a user's jvp rule.",
)


# ---------------------------------------------------------------------------------- custom_vjp


def _custom_vjp_jvp(
    primals: Any, tangents: Any, *, fwd: Flat, bwd: Flat, n_out: Count, **params: Any
) -> Any:
    closed = params.get("closed", NOTHING)
    closed.check(params["fun"], primals, tangents)
    tangents = tangents[closed.total :]
    active = tuple(t is not ZERO for t in tangents)
    outs = fwd(*primals, **({"active": active} if params.get("symbolic") else {}))
    n = n_out() if callable(n_out) else n_out
    ys, residuals = outs[:n], outs[n:]
    if not any(active):  # only rules read what is differentiated
        return ys, [ZERO] * n
    live = [t for t in tangents if t is not ZERO]
    extra = {key: params[key] for key in ("symbolic", "push") if key in params}
    out_avals = tuple(strengthen(typeof(y)) for y in ys)
    ts = custom_lin(*residuals, *live, bwd=bwd, active=active, out_avals=out_avals, **extra)
    return ys, [t if a.dtype.kind in "fc" else ZERO for t, a in zip(ts, out_avals, strict=True)]


def _custom_vjp_batch(axis: Axis, values: Any, dims: Any, **params: Any) -> Any:
    values, ds = at_front(axis, values, dims)
    own = ds[params.get("closed", NOTHING).total :]
    rules = {
        "fun": batched(params["fun"], axis, lambda: ds),
        "fwd": batched(params["fwd"], axis, lambda active=None: ds),
        "bwd": summed(params["bwd"], axis, None, own),
    }
    if "push" in params:
        rules["push"] = _batched_push(params["push"], axis, own)
    outs = custom_vjp_call(*values, **{**params, **rules})
    return outs, [0] * len(outs)


def _batched_push(push: Flat, axis: Axis, dims: Any) -> Flat:
    """A forward rule over residuals mapped at axis 0 and the tangents that are there."""

    def over_axis(*args: Any, active: tuple[bool, ...]) -> list[Any]:
        live = [d for d, on in zip(dims, active, strict=True) if on]
        ds = [0] * (len(args) - len(live)) + live
        return batched(push, axis, lambda active: ds)(*args, active=active)

    return over_axis


def _custom_vjp_stage(args: Any, params: Any) -> Any:
    avals = [typeof(a) for a in args]
    fun = staged(params["fun"], avals)
    fwd = lazy(params["fwd"], lambda active=None: avals)
    n_out = len(fun.jaxpr.outvars)
    own = avals[params.get("closed", NOTHING).total :]

    def residual_avals(**static: Any) -> Any:
        return staged(fwd, avals, **static).jaxpr.out_avals[n_out:]

    def backward_avals(active: Any = None, live: Any = None) -> list[ShapedArray]:
        residuals = residual_avals(**({} if active is None else {"active": active}))
        there = live or (True,) * n_out
        outs = map(strengthen, fun.jaxpr.out_avals)
        return [*residuals, *(a for a, on in zip(outs, there, strict=True) if on)]

    def push_avals(active: Any) -> list[ShapedArray]:
        live = [strengthen(a) for a, on in zip(own, active, strict=True) if on]
        return [*residual_avals(), *live]

    lazily = {"fwd": fwd, "bwd": lazy(params["bwd"], backward_avals)}
    if "push" in params:
        lazily["push"] = lazy(params["push"], push_avals)
    return args, {**params, **lazily, "fun": fun, "n_out": n_out}


def _custom_vjp_gate(e: Eqn, active: Var) -> list[Eqn] | None:
    params = e.params
    n = len(params["fun"].jaxpr.outvars)

    def fwd(on: Any, /, *args: Any, **static: Any) -> list[Any]:
        outs = evaluated(params["fwd"], on, *args, **static)
        return [*outs[:n], on, *outs[n:]]

    rules = {"fwd": fwd, "bwd": partial(evaluated, params["bwd"]), "closed": with_flag(e)}
    if "push" in params:
        rules["push"] = partial(evaluated, params["push"])
    return gated_call(e, active, **rules)


custom_vjp_call = Primitive(
    name="custom_vjp",
    impl=fun_impl,
    type=fun_type,
    jvp=_custom_vjp_jvp,
    transpose=fun_transpose,
    batch=_custom_vjp_batch,
    stage=_custom_vjp_stage,
    gate=_custom_vjp_gate,
    mask="call",
    zeros=True,
    effects=fun_effects,
    lower=FUN,
    multiple=True,
    doc="A call of a function with a user's backward rule.",
)
