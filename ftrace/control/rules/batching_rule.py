"""The `custom_vmap` row: a call of a function with a user's batching rule.

Derivatives keep the rule: the row's tangent is the same row over the tangent function, whose
batching rule is the derivative of the user's, and its transpose the same row over both transposed.
The tangent function computes the primal again, so that the row needs no `partial` column: in a
derivative the function runs twice, as under `checkpoint`.

    fun    (*operands) -> results
    rule   (axis size, which operands are mapped at axis 0, *operands) -> results, which are mapped
"""

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.control.rows.gating import gated
from ftrace.control.rules.flat_rules import (
    FUN,
    Flat,
    at_front,
    batched,
    fun_effects,
    fun_impl,
    fun_type,
    gated_call,
    staged,
)
from ftrace.core.avals import ShapedArray, aval, strengthen, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.jaxpr import Eqn, JaxprFun, Var
from ftrace.core.primitive import Linear, Primitive
from ftrace.core.trace import ctx, run
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import Axis, place_axis
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.partial import PartialTrace
from ftrace.interpreters.tangents import instantiate
from ftrace.interpreters.transpose import backward_pass, instantiate_cotangent

Rule = Callable[..., tuple[list[Any], list[bool]]]
Mask = tuple[bool, ...]


def _mapped(size: int, values: Sequence[Any], flags: Sequence[bool], wanted: Sequence[bool]) -> Any:
    """The values with an axis 0 where it is wanted."""
    axis = Axis(size)
    return [
        place_axis(v, None, axis, 0) if w and not f else v
        for v, f, w in zip(values, flags, wanted, strict=True)
    ]


# ---------------------------------------------------------------------------------- forward


def _jvp(primals: Any, tangents: Any, *, fun: Flat, rule: Rule, **params: Any) -> Any:
    ys = custom_vmap_call(*primals, fun=fun, rule=rule, **params)
    active = tuple(t is not ZERO for t in tangents)
    inexact = tuple(is_inexact(typeof(y).dtype) for y in ys)
    live = [t for t in tangents if t is not ZERO]
    pushed, pushed_rule = _pushed(fun, active, inexact), _pushed_rule(rule, active, inexact)
    avals = tuple(strengthen(typeof(y)) for y, i in zip(ys, inexact, strict=True) if i)
    ts = iter(custom_vmap_call(*primals, *live, fun=pushed, rule=pushed_rule, out_avals=avals))
    return ys, [next(ts) if i else ZERO for i in inexact]


def _spread(values: Sequence[Any], active: Mask, missing: Any) -> tuple[Sequence[Any], list[Any]]:
    """Primals, and one tangent (or what stands for none) for each."""
    live = iter(values[len(active) :])
    return values[: len(active)], [next(live) if a else missing for a in active]


def _pushed(fun: Flat, active: Mask, inexact: Mask) -> Flat:
    """The tangents of a function's inexact results."""

    def pushed(*args: Any) -> list[Any]:
        ys, ts = jvp_flat(fun, *_spread(args, active, ZERO))
        return [instantiate(t, y) for y, t, i in zip(ys, ts, inexact, strict=True) if i]

    return pushed


def _pushed_rule(rule: Rule, active: Mask, inexact: Mask) -> Rule:
    def pushed_rule(size: int, mapped: Sequence[bool], *args: Any) -> Any:
        here, there = _spread(mapped, active, False)
        both = [a or b for a, b in zip(here, there, strict=True)]
        aligned = [*both, *(b for b, a in zip(both, active, strict=True) if a)]
        outs_mapped: list[bool] = []

        def mapped_fun(*primals: Any) -> list[Any]:
            outs, outs_mapped[:] = rule(size, both, *primals)
            return outs

        args = _mapped(size, args, mapped, aligned)
        ys, ts = jvp_flat(mapped_fun, *_spread(args, active, ZERO))
        found = [instantiate(t, y) for y, t, i in zip(ys, ts, inexact, strict=True) if i]
        return found, [m for m, i in zip(outs_mapped, inexact, strict=True) if i]

    return pushed_rule


# ---------------------------------------------------------------------------------- backward


def _transpose(cts: Any, *operands: Any, fun: Flat, rule: Rule, **params: Any) -> Any:
    linear = tuple(type(x) is Linear for x in operands)
    avals = [x.aval if f else typeof(x) for x, f in zip(operands, linear, strict=True)]
    out_avals = _type(*avals, fun=fun, **params)
    full = [instantiate_cotangent(c, a) for c, a in zip(cts, out_avals, strict=True)]
    known = [x for x, f in zip(operands, linear, strict=True) if not f]
    wanted = tuple(a for a, f in zip(avals, linear, strict=True) if f)
    pulled, pulled_rule = _pulled(fun, linear, wanted), _pulled_rule(rule, linear, wanted)
    outs = custom_vmap_call(*known, *full, fun=pulled, rule=pulled_rule, out_avals=wanted)
    found = iter(outs)
    return [next(found) if f else None for f in linear]


def _pull(fn: Flat, linear: Mask, wanted: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Cotangents of the linear operands, which are `wanted`, from (known operands, cotangents)."""
    trace = PartialTrace(ctx.trace)
    known, avals = iter(args), iter(wanted)
    inputs = [trace.unknown(next(avals)) if f else next(known) for f in linear]
    outs = run(trace, fn, *inputs)
    trace.alive = False
    invars = [x.binder for x, f in zip(inputs, linear, strict=True) if f]
    atoms = [y.binder if trace.owns(y) else None for y in outs]
    found = backward_pass(trace.eqns, invars, atoms, list(known))
    return [instantiate_cotangent(c, a) for c, a in zip(found, wanted, strict=True)]


def _pulled(fun: Flat, linear: Mask, wanted: Sequence[Any]) -> Flat:
    return lambda *args: _pull(fun, linear, wanted, args)


def _pulled_rule(rule: Rule, linear: Mask, wanted: Sequence[Any]) -> Rule:
    """The transpose of a batching rule in which every tangent is mapped, and so every result.

    (A result that is not depends on none of them.)
    """

    def pulled_rule(size: int, mapped: Sequence[bool], *args: Any) -> Any:
        n = len(linear) - sum(linear)
        supply = iter(mapped[:n])
        both = [f or next(supply) for f in linear]
        wide = [aval((size, *a.shape), a.dtype) for a in wanted]

        def mapped_fun(*operands: Any) -> list[Any]:
            return rule(size, both, *operands)[0]

        args = _mapped(size, args, mapped, [*mapped[:n], *[True] * (len(args) - n)])
        return _pull(mapped_fun, linear, wide, args), [True] * sum(linear)

    return pulled_rule


# ---------------------------------------------------------------------------------- the row


def _type(*avals: ShapedArray, out_avals: Any = None, **params: Any) -> Any:
    return fun_type(*avals, **params) if out_avals is None else out_avals


def _batch(
    axis: Axis, values: Any, dims: Any, *, fun: Flat, rule: Rule, out_avals: Any = None
) -> Any:
    values, ds = at_front(axis, values, dims)
    outs, mapped = rule(axis.size, [d is not None for d in ds], *values)
    return outs, [0 if m else None for m in mapped]


def _stage(args: Any, params: Any) -> Any:
    fun = staged(params["fun"], [typeof(a) for a in args])
    return args, {"fun": fun, "rule": params["rule"]}


def _gate(e: Eqn, active: Var) -> list[Eqn] | None:
    """The user's rule does not ask who is active: the function is mapped in its place."""

    def rule(size: int, mapped: Sequence[bool], *args: Any) -> Any:
        dims = [0 if m else None for m in mapped]
        whole = JaxprFun(gated(e.params["fun"].jaxpr))
        return batched(whole, Axis(size), lambda: dims)(*args), [True] * len(e.outvars)

    return gated_call(e, active, rule=rule)


custom_vmap_call = Primitive(
    name="custom_vmap",
    impl=fun_impl,
    type=_type,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    stage=_stage,
    gate=_gate,
    zeros=True,
    effects=fun_effects,
    lower=FUN,
    multiple=True,
    doc="A call of a function with a user's batching rule.",
)
