"""Users' derivative rules as rows: `custom_jvp` and `custom_vjp`.

The rows' params are functions of flat values: Python functions while a program runs eagerly,
jaxprs once it is staged (the `stage` column). A `custom_vjp`'s jvp runs `fwd` and binds the
linear row `custom_lin`, whose transpose is the user's `bwd` and whose value, in forward mode, is
the transpose of `bwd`. Neither row needs a `partial` column: unknowns are always tangents.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.core.avals import ShapedArray, strengthen, typeof
from ftrace.core.errors import CustomRuleError, FtraceError
from ftrace.core.jaxpr import JaxprFun
from ftrace.core.primitive import NO_EFFECTS, Effects, Primitive, Unsupported
from ftrace.core.trace import EVAL, run
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import Axis, batch_flat, place_axis
from ftrace.interpreters.captures import owned
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.interpreters.tangents import instantiate
from ftrace.interpreters.transpose import instantiate_cotangent, pull_jaxpr
from ftrace.primitives.linear import reduce_sum

Flat = Callable[..., Any]
Count = int | Callable[[], int]  # how many results; known only after an eager `fwd` has run


def staged(fn: Flat, avals: Sequence[ShapedArray]) -> JaxprFun:
    """A function of flat values as a jaxpr; one that captured tracers is refused."""
    if isinstance(fn, JaxprFun):
        return fn
    if isinstance(fn, LazyFun):
        return fn.traced()
    jaxpr, captured = trace_to_jaxpr(fn, avals)
    if captured:
        raise CustomRuleError(
            f"A function with a custom rule closes over {captured[0]!r}, a traced value.",
            "Pass it as an argument, so that the rule can say what its derivative is.",
        )
    return JaxprFun(jaxpr)


class LazyFun:
    """A rule of a staged call: traced when it is first needed.

    A rule may well call the very function it belongs to, so tracing it on sight would not end.
    """

    __slots__ = ("_avals", "_fn", "_jaxpr")

    def __init__(self, fn: Flat, avals: Callable[[], Sequence[ShapedArray]]) -> None:
        self._fn = fn
        self._avals = avals
        self._jaxpr: Any = None

    def traced(self) -> JaxprFun:
        """The rule as a jaxpr."""
        if self._jaxpr is None:
            self._jaxpr = run(EVAL, staged, self._fn, self._avals())
        return self._jaxpr

    def __call__(self, *args: Any) -> list[Any]:
        return self.traced()(*args)


def _lazy(fn: Flat, avals: Callable[[], Sequence[ShapedArray]]) -> Flat:
    return fn if isinstance(fn, LazyFun | JaxprFun) else LazyFun(fn, avals)


def _batched(fn: Flat, axis: Axis, dims: tuple[Any, ...]) -> Flat:
    """`fn` over mapped operands, every result mapped at axis 0."""

    def batched(*args: Any) -> list[Any]:
        ys, ds = batch_flat(fn, axis, args, dims)
        return [place_axis(y, d, axis, 0) for y, d in zip(ys, ds, strict=True)]

    return batched


def _fun_type(*avals: ShapedArray, fun: Any, **params: Any) -> Any:
    return fun.jaxpr.out_avals


def _fun_effects(*, fun: Any, **params: Any) -> Effects:
    return fun.jaxpr.effects if isinstance(fun, JaxprFun) else NO_EFFECTS


def _fun_impl(*args: Any, fun: Flat, **params: Any) -> list[Any]:
    return owned(fun(*args), args)


# ---------------------------------------------------------------------------------- custom_jvp


def _custom_jvp_jvp(primals: Any, tangents: Any, *, fun: Flat, rule: Flat) -> Any:
    outs = rule(*primals, *map(instantiate, tangents, primals))
    n = len(outs) // 2
    ys, ts = outs[:n], outs[n:]
    return ys, [t if typeof(y).dtype.kind in "fc" else ZERO for y, t in zip(ys, ts, strict=True)]


def _custom_jvp_batch(axis: Axis, values: Any, dims: Any, *, fun: Flat, rule: Flat) -> Any:
    ds = tuple(dims)
    values = [
        v if d is None else place_axis(v, d, axis, 0) for v, d in zip(values, ds, strict=True)
    ]
    ds = tuple(None if d is None else 0 for d in ds)
    t_dims = tuple(
        None if typeof(v).dtype.kind not in "fc" else d for v, d in zip(values, ds, strict=True)
    )
    outs = custom_jvp_call(
        *values, fun=_batched(fun, axis, ds), rule=_batched(rule, axis, ds + t_dims)
    )
    return outs, [0] * len(outs)


def _custom_jvp_stage(args: Any, params: Any) -> Any:
    avals = [typeof(a) for a in args]
    both = [*avals, *map(strengthen, avals)]
    return args, {
        "fun": staged(params["fun"], avals),
        "rule": _lazy(params["rule"], lambda: both),
    }


custom_jvp_call = Primitive(
    name="custom_jvp",
    impl=_fun_impl,
    type=_fun_type,
    jvp=_custom_jvp_jvp,
    transpose=Unsupported("custom_jvp is transposed through its rule, never itself."),
    batch=_custom_jvp_batch,
    stage=_custom_jvp_stage,
    zeros=True,
    effects=_fun_effects,
    multiple=True,
    doc="A call of a function with a user's jvp rule.",
)


# ---------------------------------------------------------------------------------- custom_vjp


def _custom_vjp_jvp(
    primals: Any, tangents: Any, *, fun: Flat, fwd: Flat, bwd: Flat, n_out: Count
) -> Any:
    outs = fwd(*primals)
    n = n_out if isinstance(n_out, int) else n_out()
    ys, residuals = outs[:n], outs[n:]
    active = tuple(t is not ZERO for t in tangents)
    live = [t for t in tangents if t is not ZERO]
    out_avals = tuple(strengthen(typeof(y)) for y in ys)
    ts = custom_lin(*residuals, *live, bwd=bwd, active=active, out_avals=out_avals)
    return ys, [t if a.dtype.kind in "fc" else ZERO for t, a in zip(ts, out_avals, strict=True)]


def _custom_vjp_batch(  # noqa: PLR0913 - a row's params
    axis: Axis, values: Any, dims: Any, *, fun: Flat, fwd: Flat, bwd: Flat, n_out: Count
) -> Any:
    values = [
        v if d is None else place_axis(v, d, axis, 0) for v, d in zip(values, dims, strict=True)
    ]
    ds = tuple(None if d is None else 0 for d in dims)
    outs = custom_vjp_call(
        *values,
        fun=_batched(fun, axis, ds),
        fwd=_batched(fwd, axis, ds),
        bwd=_batched_bwd(bwd, axis, ds),
        n_out=n_out,
    )
    return outs, [0] * len(outs)


def _batched_bwd(bwd: Flat, axis: Axis, dims: tuple[Any, ...]) -> Flat:
    """A backward rule over mapped residuals and cotangents.

    The cotangent of an operand that was not mapped is summed over the axis.
    """
    from_rule = bwd

    def batched(*args: Any) -> list[Any]:
        ys, ds = batch_flat(from_rule, axis, args, (0,) * len(args))
        ys = [place_axis(y, d, axis, 0) for y, d in zip(ys, ds, strict=True)]
        return [
            y if d is not None else reduce_sum(y, axes=(0,)) for y, d in zip(ys, dims, strict=True)
        ]

    return batched


def _custom_vjp_stage(args: Any, params: Any) -> Any:
    avals = [typeof(a) for a in args]
    fun = staged(params["fun"], avals)
    fwd = _lazy(params["fwd"], lambda: avals)
    n_out = len(fun.jaxpr.outvars)

    def backward_avals() -> list[ShapedArray]:
        residuals = staged(fwd, avals).jaxpr.out_avals[n_out:]
        return [*residuals, *map(strengthen, fun.jaxpr.out_avals)]

    bwd = _lazy(params["bwd"], backward_avals)
    return args, {"fun": fun, "fwd": fwd, "bwd": bwd, "n_out": n_out}


custom_vjp_call = Primitive(
    name="custom_vjp",
    impl=_fun_impl,
    type=_fun_type,
    jvp=_custom_vjp_jvp,
    transpose=Unsupported("custom_vjp is transposed through its rule, never itself."),
    batch=_custom_vjp_batch,
    stage=_custom_vjp_stage,
    zeros=True,
    effects=_fun_effects,
    multiple=True,
    doc="A call of a function with a user's backward rule.",
)


# ---------------------------------------------------------------------------------- custom_lin

OutAvals = tuple[ShapedArray, ...]


def _lin_forward(
    operands: Sequence[Any], bwd: Flat, active: tuple[bool, ...], out_avals: OutAvals
) -> list[Any]:
    """The value of the linear map in forward mode: `bwd`, transposed in the cotangents."""
    n = len(operands) - sum(active)
    residuals, tangents = operands[:n], iter(operands[n:])
    try:
        jaxpr = staged(bwd, [*map(typeof, residuals), *out_avals]).jaxpr
        linear = (False,) * n + (True,) * len(out_avals)
        full = [next(tangents) if a else None for a in active]
        ts = pull_jaxpr(jaxpr, [*residuals, *(None for _ in out_avals)], linear, full)
    except CustomRuleError:
        raise
    except FtraceError as error:
        raise CustomRuleError(
            "Forward mode through a custom_vjp needs a backward rule that is traceable and "
            f"linear in the cotangents, and this one is not: {error.what}",
            "Give the function a custom_jvp rule, or differentiate it in reverse mode only.",
        ) from error
    return [instantiate_cotangent(t, a) for t, a in zip(ts, out_avals, strict=True)]


def _lin_impl(*operands: Any, bwd: Flat, active: tuple[bool, ...], out_avals: OutAvals) -> Any:
    return owned(_lin_forward(operands, bwd, active, out_avals), operands)


def _lin_jvp(
    primals: Any, tangents: Any, *, bwd: Flat, active: tuple[bool, ...], out_avals: OutAvals
) -> Any:
    """Second order in forward mode goes through the transposed rule, operation by operation."""
    return jvp_flat(lambda *xs: _lin_forward(xs, bwd, active, out_avals), primals, tangents)


def _lin_transpose(
    cts: Any, *operands: Any, bwd: Flat, active: tuple[bool, ...], out_avals: OutAvals
) -> Any:
    n = len(operands) - sum(active)
    full = [instantiate_cotangent(c, a) for c, a in zip(cts, out_avals, strict=True)]
    found = bwd(*operands[:n], *full)
    live = [c for c, a in zip(found, active, strict=True) if a]
    return [None] * n + live


def _lin_batch(
    axis: Axis,
    values: Any,
    dims: Any,
    *,
    bwd: Flat,
    active: tuple[bool, ...],
    out_avals: OutAvals,
) -> Any:
    ys, ds = batch_flat(lambda *xs: _lin_forward(xs, bwd, active, out_avals), axis, values, dims)
    return ys, ds


def _lin_stage(args: Any, params: Any) -> Any:
    n = len(args) - sum(params["active"])
    avals = [*(typeof(a) for a in args[:n]), *params["out_avals"]]
    return args, {**params, "bwd": _lazy(params["bwd"], lambda: avals)}


custom_lin = Primitive(
    name="custom_lin",
    impl=_lin_impl,
    type=lambda *avals, bwd, active, out_avals: out_avals,
    jvp=_lin_jvp,
    transpose=_lin_transpose,
    batch=_lin_batch,
    stage=_lin_stage,
    zeros=True,
    multiple=True,
    doc="The linear map that a user's backward rule is the transpose of.",
)
