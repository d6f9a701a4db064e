"""The row `custom_lin`: the linear map whose transpose a user wrote down.

A `custom_vjp`'s jvp runs `fwd` and binds this row; its transpose is the user's `bwd`. Its value,
in forward mode, is `push` where the user gave that too, else the transpose of `bwd`. The operands
are residuals, then the tangents that are there. It needs no `partial` column: unknowns are always
tangents.
"""

from collections.abc import Sequence
from typing import Any

from ftrace.control.rules.flat_rules import Flat, at_front, batched, lazy, staged
from ftrace.control.rules.linearity import check_linear
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import CustomRuleError, FtraceError
from ftrace.core.jaxpr import Jaxpr
from ftrace.core.lower import Call
from ftrace.core.primitive import Primitive
from ftrace.interpreters.batching import Axis, batch_flat, place_axis
from ftrace.interpreters.captures import owned
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.transpose import instantiate_cotangent, pull_jaxpr
from ftrace.primitives.linear import reduce_sum

OutAvals = tuple[ShapedArray, ...]


def _statics(symbolic: bool, active: tuple[bool, ...], live: tuple[bool, ...]) -> dict[str, Any]:
    return {"active": active, "live": live} if symbolic else {}


def _forward(
    operands: Sequence[Any],
    bwd: Flat,
    active: tuple[bool, ...],
    out_avals: OutAvals,
    symbolic: bool = False,
    push: Flat | None = None,
) -> list[Any]:
    """The value of the linear map: `push`, or `bwd` transposed in the cotangents."""
    if push is not None:
        return push(*operands, active=active)
    n = len(operands) - sum(active)
    residuals, tangents = operands[:n], iter(operands[n:])
    static = _statics(symbolic, active, (True,) * len(out_avals))
    try:
        jaxpr = staged(bwd, [*map(typeof, residuals), *out_avals], **static).jaxpr
        linear = (False,) * n + (True,) * len(out_avals)
        check_linear(jaxpr, linear)
        full = [next(tangents) if a else None for a in active]
        ts = pull_jaxpr(jaxpr, [*residuals, *(None for _ in out_avals)], linear, full)
    except CustomRuleError:
        raise
    except FtraceError as error:
        raise CustomRuleError(
            "Forward mode through a custom_vjp needs a backward rule that is traceable and "
            f"linear in the cotangents, and this one is not: {error.what}",
            "Give the function a custom_jvp rule, or differentiate it in reverse mode only, and "
            "outside of ftrace.vectorize, which multiplies by partial derivatives.",
        ) from error
    return [instantiate_cotangent(t, a) for t, a in zip(ts, out_avals, strict=True)]


def _lin_impl(*operands: Any, **params: Any) -> Any:
    return owned(_forward(operands, **params), operands)


def _lin_type(*avals: ShapedArray, out_avals: OutAvals, **params: Any) -> OutAvals:
    return out_avals


def _lin_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    """Second order in forward mode goes through the map, operation by operation."""
    return jvp_flat(lambda *xs: _forward(xs, **params), primals, tangents)


def _lin_transpose(
    cts: Any,
    *operands: Any,
    bwd: Flat,
    active: tuple[bool, ...],
    out_avals: OutAvals,
    symbolic: bool = False,
    push: Flat | None = None,
) -> Any:
    n = len(operands) - sum(active)
    live = tuple(c is not None or not symbolic for c in cts)
    given = [
        instantiate_cotangent(c, a) for c, a, on in zip(cts, out_avals, live, strict=True) if on
    ]
    found = bwd(*operands[:n], *given, **_statics(symbolic, active, live))
    return [None] * n + [c for c, a in zip(found, active, strict=True) if a]


def _lin_batch(axis: Axis, values: Any, dims: Any, **params: Any) -> Any:
    """Without `push` the map is opened; with it, both directions stay the user's."""
    push, active = params.get("push"), params["active"]
    if push is None:
        return batch_flat(lambda *xs: _forward(xs, **params), axis, values, dims)
    values, ds = at_front(axis, values, dims)
    n = len(values) - sum(active)
    wide = tuple(aval((axis.size, *a.shape), a.dtype) for a in params["out_avals"])
    tangents = iter(ds[n:])
    kept = [next(tangents) if a else None for a in active]
    both = {
        "bwd": summed(params["bwd"], axis, ds[:n], kept),
        "push": batched(push, axis, lambda active: ds),
    }
    outs = custom_lin(*values, **{**params, **both, "out_avals": wide})
    return outs, [0] * len(outs)


def summed(bwd: Flat, axis: Axis, residual_dims: Sequence[Any] | None, dims: Sequence[Any]) -> Flat:
    """A backward rule over mapped residuals and cotangents.

    Args:
        bwd: the rule of one member.
        axis: the mapped axis.
        residual_dims: where residuals have it; None: all of them at axis 0.
        dims: where the operands of the function have it. The cotangent of one that was not
            mapped is summed over the axis.
    """

    def over_axis(*args: Any, **static: Any) -> list[Any]:
        kept = () if residual_dims is None else tuple(residual_dims)
        from_rule = batch_flat(
            lambda *xs: bwd(*xs, **static), axis, args, kept + (0,) * (len(args) - len(kept))
        )
        ys = [place_axis(y, d, axis, 0) for y, d in zip(*from_rule, strict=True)]
        return [
            y if d is not None else reduce_sum(y, axes=(0,)) for y, d in zip(ys, dims, strict=True)
        ]

    return over_axis


def _lin_stage(args: Any, params: Any) -> Any:
    avals = [typeof(a) for a in args]
    n = len(args) - sum(params["active"])
    out_avals = params["out_avals"]

    def backward_avals(live: Any = None, **static: Any) -> list[ShapedArray]:
        there = live or (True,) * len(out_avals)
        return [*avals[:n], *(a for a, on in zip(out_avals, there, strict=True) if on)]

    lazily = {"bwd": lazy(params["bwd"], backward_avals)}
    if params.get("push") is not None:
        lazily["push"] = lazy(params["push"], lambda active: avals)
    return args, {**params, **lazily}


def _lin_opened(avals: Sequence[ShapedArray], **params: Any) -> Jaxpr:
    return trace_closed(lambda *xs: _forward(xs, **params), avals)


custom_lin = Primitive(
    name="custom_lin",
    impl=_lin_impl,
    type=_lin_type,
    jvp=_lin_jvp,
    transpose=_lin_transpose,
    batch=_lin_batch,
    stage=_lin_stage,
    lower=Call(_lin_opened, "rule"),
    zeros=True,
    multiple=True,
    doc="The linear map that a user's backward rule is the transpose of.",
)
