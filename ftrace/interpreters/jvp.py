"""Forward mode: `JVPTrace` carries a primal and a tangent through every primitive.

The row's rule does the work, with the parent as current trace; a tangent that is symbolically
zero costs nothing. The same trace serves eager arrays, staged jaxprs and reverse mode (over
`PartialTrace`, see `linearize.py`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.core import trace as core
from ftrace.core.avals import SCALAR_AVALS, ShapedArray, typeof
from ftrace.core.device import LIBRARIES
from ftrace.core.jaxpr import Jaxpr, cached_on_jaxpr, eval_jaxpr
from ftrace.core.primitive import LINEAR, NONDIFFERENTIABLE, Primitive
from ftrace.core.trace import Trace, Tracer, ctx
from ftrace.core.zero import ZERO
from ftrace.interpreters.captures import Captures
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import instantiate


class JVPTracer(Tracer):
    """A primal and its tangent."""

    __slots__ = ("primal", "tangent")
    slots = ("owner", "primal", "tangent")

    def __init__(self, trace: Trace, primal: Any, tangent: Any) -> None:
        self.owner = trace
        self.primal = primal
        self.tangent = tangent

    @property
    def aval(self) -> ShapedArray:
        return typeof(self.primal)

    def known(self, exact: bool) -> Any:
        if exact and self.tangent is not ZERO:
            return core.UNKNOWN
        primal = self.primal
        return primal.known(exact) if isinstance(primal, Tracer) else primal

    def __repr__(self) -> str:
        text = super().__repr__()
        number = "" if self.aval.shape or self.tangent is ZERO else _dual(self)
        return f"{text[:-1]}, {number}>" if number and "?" not in number else text


def _dual(x: Any) -> str:
    """A number with its partial: `(1.0 + 0.5*eps[1,1])`, eps[d, k] the k-th one of level d."""
    if type(x) is JVPTracer:
        if x.tangent is ZERO:
            return _dual(x.primal)
        level, trace = 0, x.owner
        while trace is not None:
            level += type(trace) is JVPTrace
            trace = trace.parent
        return f"({_dual(x.primal)} + {_dual(x.tangent)}*eps[{level},1])"
    if isinstance(x, Tracer) or np.ndim(x):
        return "?"
    return repr(np.asarray(x).item()) if type(x) not in LIBRARIES else "?"


core.register(JVPTracer)


class JVPTrace(Trace):
    """Applies each row's jvp rule."""

    __slots__ = ("captures",)
    name = "differentiation"

    def __init__(self, parent: Trace, captures: Captures | None = None) -> None:
        self.parent = parent
        self.alive = True
        self.captures = captures

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        ctx.trace = self.parent
        primals: list[Any] = []
        tangents: list[Any] = []
        active = False
        for a in args:
            cls = type(a)
            if cls is JVPTracer and a.owner is self:
                primals.append(a.primal)
                t = a.tangent
                tangents.append(t)
                if t is not ZERO:
                    active = True
            else:
                primals.append(a if cls in SCALAR_AVALS else self._enter(a))
                tangents.append(ZERO)
        rule = primitive.jvp
        if not active or rule is NONDIFFERENTIABLE:
            y = primitive(*primals, **params)
            if primitive.multiple:
                return [JVPTracer(self, p, ZERO) for p in y]
            return JVPTracer(self, y, ZERO)
        if rule is LINEAR:
            y = primitive(*primals, **params)
            t = primitive(*map(instantiate, tangents, primals), **params)
        else:
            if not primitive.zeros and len(tangents) > 1:
                tangents = list(map(instantiate, tangents, primals))
            y, t = rule(primals, tangents, **params)  # type: ignore[operator]
        if primitive.multiple:
            return list(map(JVPTracer, (self,) * len(y), y, t))
        return JVPTracer(self, y, t)

    def _enter(self, a: Any) -> Any:
        """A foreign operand: captured cells are copied, users' arrays are recorded."""
        if isinstance(a, Tracer):
            return a.fresh()
        if self.captures is not None and (issubclass(type(a), np.ndarray) or type(a) in LIBRARIES):
            self.captures.enter(a)
        return a

    def lift(self, value: Any) -> JVPTracer:
        return JVPTracer(self, self._enter(value), ZERO)

    def unpack(self, value: Any) -> tuple[Any, Any]:
        """Primal and tangent of a result, whether or not it belongs to this trace."""
        if type(value) is JVPTracer and value.owner is self:
            return core.renew(value.primal), core.renew(value.tangent)
        return core.foreign(value, self.parent, "The result"), ZERO


def jvp_flat(
    fn: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Push tangents through a function of flat values; tangents in and out may be `ZERO`."""
    trace = JVPTrace(ctx.trace)
    inputs = [JVPTracer(trace, p, t) for p, t in zip(primals, tangents, strict=True)]
    for x, p in zip(inputs, primals, strict=True):
        core.freeze(x, p)
    try:
        outs = [trace.unpack(y) for y in core.run(trace, fn, *inputs)]
    finally:
        trace.alive = False
    return [p for p, _ in outs], [t for _, t in outs]


@cached_on_jaxpr
def jvp_jaxpr(
    jaxpr: Jaxpr, active: tuple[bool, ...], force: tuple[bool, ...] | None = None
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The jaxpr of (primals, active tangents) -> (results, nonzero tangents), and which are.

    `force` marks results whose tangent is made real even where it is zero.
    """
    nonzero: list[bool] = []

    def pushed(*args: Any) -> list[Any]:
        primals, rest = args[: len(active)], iter(args[len(active) :])
        tangents = [next(rest) if a else ZERO for a in active]
        ys, ts = jvp_flat(lambda *xs: eval_jaxpr(jaxpr, xs), primals, tangents)
        if force is not None:
            ts = [instantiate(t, y) if f else t for t, y, f in zip(ts, ys, force, strict=True)]
        nonzero[:] = [t is not ZERO for t in ts]
        return [*ys, *(t for t in ts if t is not ZERO)]

    avals = [*jaxpr.in_avals, *(a for a, on in zip(jaxpr.in_avals, active, strict=True) if on)]
    return trace_closed(pushed, avals), tuple(nonzero)
