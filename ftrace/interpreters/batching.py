"""Batching: `BatchTrace` gives every value an axis that the user's function does not see.

Each row's `batch` column says what it does with mapped axes; operations on values that are not
mapped run once, unbatched. Axes have a size and perhaps a name, which collectives refer to.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.core import trace as core
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.jaxpr import Jaxpr, cached_on_jaxpr, eval_jaxpr
from ftrace.core.primitive import Primitive
from ftrace.core.records import record
from ftrace.core.trace import Trace, Tracer, ctx
from ftrace.interpreters.staging import trace_closed
from ftrace.primitives.linear import broadcast_in_dim, move_axis

Dim = int | None


@record
class Axis:
    """A mapped axis."""

    size: int
    name: Any = None


class BatchTracer(Tracer):
    """A value with a mapped axis `dim`; None if it is the same for every member.

    An array has no weak type: `weak` says that the members are Python numbers.
    """

    __slots__ = ("dim", "value", "weak")
    slots = ("owner", "value", "dim", "weak")

    def __init__(self, trace: Trace, value: Any, dim: Dim) -> None:
        self.owner = trace
        self.value = value
        self.dim = dim
        self.weak = False

    @property
    def aval(self) -> ShapedArray:
        a = typeof(self.value)
        d = self.dim
        return a if d is None else aval(a.shape[:d] + a.shape[d + 1 :], a.dtype, self.weak)

    def known(self, exact: bool) -> Any:
        if self.dim is not None:
            return core.UNKNOWN
        value = self.value
        return value.known(exact) if isinstance(value, Tracer) else value

    def each(self) -> list[Any] | None:
        if self.dim is None or isinstance(self.value, Tracer) or self.aval.shape:
            return None
        return list(self.value)


core.register(BatchTracer)


class BatchTrace(Trace):
    """Applies each row's batching rule."""

    __slots__ = ("axis",)
    name = "vmap"

    def __init__(self, parent: Trace, axis: Axis) -> None:
        self.parent = parent
        self.alive = True
        self.axis = axis

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        ctx.trace = self.parent
        values: list[Any] = []
        dims: list[Dim] = []
        mapped = weak = False
        for a in args:
            if type(a) is BatchTracer and a.owner is self:
                values.append(a.value)
                d = a.dim
                weak |= a.weak
                dims.append(d)
                if d is not None:
                    mapped = True
            else:
                values.append(a.fresh() if isinstance(a, Tracer) else a)
                dims.append(None)
        if mapped or self._is_named(params):
            y, dim = primitive.batch(self.axis, values, dims, **params)
        else:
            y = primitive(*values, **params)
            dim: Any = [None] * len(y) if primitive.multiple else None
        if primitive.multiple:
            several = list(map(BatchTracer, (self,) * len(y), y, dim))
            if mapped and any(x.dim is not None and not x.aval.shape for x in several):
                found = primitive.type(*map(typeof, args), **params)
                for x, a in zip(several, found, strict=True):
                    x.weak = a.weak
            return several
        made = BatchTracer(self, y, dim)
        if weak or (params and "weak_type" in params):  # a conversion to Python numbers
            made.weak = primitive.type(*map(typeof, args), **params).weak
        return made

    def _is_named(self, params: dict[str, Any]) -> bool:
        name = self.axis.name
        return name is not None and params.get("axis_name") == name

    def lift(self, value: Any) -> BatchTracer:
        return BatchTracer(self, value.fresh() if isinstance(value, Tracer) else value, None)

    def unpack(self, value: Any) -> tuple[Any, Dim]:
        """Value and mapped axis of a result, whether or not it belongs to this trace."""
        if type(value) is BatchTracer and value.owner is self:
            return core.renew(value.value), value.dim
        return core.foreign(value, self.parent, "The result"), None


def batch_flat(
    fn: Callable[..., Sequence[Any]], axis: Axis, values: Sequence[Any], dims: Sequence[Dim]
) -> tuple[list[Any], list[Dim]]:
    """Run a function of flat values with mapped axes; results with their mapped axes."""
    trace = BatchTrace(ctx.trace, axis)
    inputs = [BatchTracer(trace, v, d) for v, d in zip(values, dims, strict=True)]
    for x, v, d in zip(inputs, values, dims, strict=True):
        core.freeze(x, v if d is None else None)
    try:
        outs = [trace.unpack(y) for y in core.run(trace, fn, *inputs)]
    finally:
        trace.alive = False
    return [v for v, _ in outs], [d for _, d in outs]


def place_axis(value: Any, dim: Dim, axis: Axis, wanted: int) -> Any:
    """The value with its mapped axis at `wanted`, made by broadcasting if it has none."""
    if dim is None:
        shape = typeof(value).shape
        wanted %= len(shape) + 1
        kept = tuple(i if i < wanted else i + 1 for i in range(len(shape)))
        full = (*shape[:wanted], axis.size, *shape[wanted:])
        return broadcast_in_dim(value, shape=full, broadcast_dimensions=kept)
    return move_axis(value, dim, wanted % len(typeof(value).shape))


@cached_on_jaxpr
def batch_jaxpr(
    jaxpr: Jaxpr, axis: Axis, dims: tuple[Dim, ...], force: tuple[bool, ...] | bool
) -> tuple[Jaxpr, tuple[Dim, ...]]:
    """The jaxpr over batched values, and the mapped axes of its results.

    Args:
        jaxpr: the program of one member.
        axis: the mapped axis.
        dims: where each input has it.
        force: which outputs (or all, or none) must be mapped, at axis 0.
    """
    found: list[Dim] = []
    must = (force,) * len(jaxpr.outvars) if type(force) is bool else force

    def batched(*args: Any) -> list[Any]:
        ys, ds = batch_flat(lambda *xs: eval_jaxpr(jaxpr, xs), axis, args, dims)
        ys = [place_axis(y, d, axis, 0) if f else y for y, d, f in zip(ys, ds, must, strict=True)]
        found[:] = [0 if f else d for d, f in zip(ds, must, strict=True)]
        return ys

    avals = [_batched_aval(a, axis, d) for a, d in zip(jaxpr.in_avals, dims, strict=True)]
    return trace_closed(batched, avals), tuple(found)


def _batched_aval(a: ShapedArray, axis: Axis, d: Dim) -> ShapedArray:
    return a if d is None else aval((*a.shape[:d], axis.size, *a.shape[d:]), a.dtype)
