"""Forward mode in several directions at once: one primal and a tangent for each direction.

A loop is run once for all directions, and so is a branch; every other row is pushed once for each
direction that reaches it, with symbolic zeros for what does not. The primal work that this
repeats is the same work, which a kernel does once (it shares equal operations).
"""

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.control.rows.scan import fixpoint
from ftrace.core import trace as core
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.jaxpr import Jaxpr, cached_on_jaxpr, eval_jaxpr
from ftrace.core.kinds import way
from ftrace.core.lower import Branch, Iteration
from ftrace.core.primitive import Primitive
from ftrace.core.scan_layout import cut, select_by
from ftrace.core.trace import Trace, Tracer, ctx
from ftrace.core.zero import ZERO
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import instantiate

Tangents = tuple[Any, ...]  # one for each value, or for each direction
Masks = tuple[tuple[bool, ...], ...]  # for each direction, which values have a tangent


class DirectionsTracer(Tracer):
    """A primal and its tangents."""

    __slots__ = ("primal", "tangents")
    slots = ("owner", "primal", "tangents")

    def __init__(self, trace: Trace, primal: Any, tangents: Tangents) -> None:
        self.owner = trace
        self.primal = primal
        self.tangents = tangents

    @property
    def aval(self) -> ShapedArray:
        return typeof(self.primal)


core.register(DirectionsTracer)


class DirectionsTrace(Trace):
    """Pushes every row in all directions."""

    __slots__ = ("count",)
    name = "differentiation"

    def __init__(self, parent: Trace, count: int) -> None:
        self.parent = parent
        self.alive = True
        self.count = count

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        ctx.trace = self.parent
        pairs = [self.unpack(a) for a in args]
        primals = [p for p, _ in pairs]
        columns = tuple(zip(*(ts for _, ts in pairs), strict=True))
        live = sum(any(t is not ZERO for t in column) for column in columns)
        many = _together(primitive, len(primals), params) if live > 1 else None
        if many is not None:
            ys, found = many(primitive, primals, columns, **params)
        else:
            ys, found = self._one_by_one(primitive, primals, columns, params)
        outs = [
            DirectionsTracer(self, y, ts)
            for y, ts in zip(ys, zip(*found, strict=True), strict=True)
        ]
        return outs if primitive.multiple else outs[0]

    def _one_by_one(
        self, primitive: Primitive, primals: Sequence[Any], columns: Any, params: dict[str, Any]
    ) -> tuple[Sequence[Any], list[Sequence[Any]]]:
        def flat(*values: Any) -> Sequence[Any]:
            out = primitive(*values, **params)
            return out if primitive.multiple else [out]

        ys: Sequence[Any] | None = None
        found: list[Sequence[Any]] = []
        for column in columns:
            if all(t is ZERO for t in column):
                found.append(())
                continue
            new, ts = jvp_flat(flat, primals, column)
            ys = new if ys is None else ys
            found.append(ts)
        ys = flat(*primals) if ys is None else ys
        return ys, [ts or (ZERO,) * len(ys) for ts in found]

    def unpack(self, value: Any) -> tuple[Any, Tangents]:
        """Primal and tangents of a value; what runs is a jaxpr, which captured no other tracer."""
        if isinstance(value, DirectionsTracer):
            return value.primal, value.tangents
        return value, (ZERO,) * self.count


def push_directions(
    fn: Callable[..., Sequence[Any]], primals: Sequence[Any], columns: Sequence[Tangents]
) -> tuple[list[Any], list[Tangents]]:
    """Push tangents of several directions through a function of flat values.

    Args:
        fn: flat values to flat values.
        primals: where.
        columns: for each direction a tangent, or `ZERO`, for each primal.

    Returns:
        The results, and for each direction their tangents.
    """
    trace = DirectionsTrace(ctx.trace, len(columns))
    rows = zip(*columns, strict=True)
    inputs = [DirectionsTracer(trace, p, ts) for p, ts in zip(primals, rows, strict=True)]
    try:
        outs = [trace.unpack(y) for y in core.run(trace, fn, *inputs)]
    finally:
        trace.alive = False
    return [y for y, _ in outs], list(zip(*(ts for _, ts in outs), strict=True))


@cached_on_jaxpr
def directions_jaxpr(jaxpr: Jaxpr, masks: Masks, force: Masks | None = None) -> tuple[Jaxpr, Masks]:
    """The jaxpr of (primals, live tangents) -> (results, nonzero tangents), and which are.

    Tangents come direction by direction. `force` marks those that are made real even if zero.
    """
    nonzero: list[tuple[bool, ...]] = []

    def pushed(*args: Any) -> list[Any]:
        n = len(jaxpr.invars)
        primals, rest = args[:n], iter(args[n:])
        columns = [tuple(next(rest) if m else ZERO for m in mask) for mask in masks]
        ys, found = push_directions(lambda *xs: eval_jaxpr(jaxpr, xs), primals, columns)
        if force is not None:
            found = [_forced(ts, ys, flags) for ts, flags in zip(found, force, strict=True)]
        nonzero[:] = [tuple(t is not ZERO for t in ts) for ts in found]
        return [*ys, *_live(found)]

    avals = jaxpr.in_avals
    more = [a for mask in masks for a in select_by(avals, mask, True)]
    return trace_closed(pushed, [*avals, *more]), tuple(nonzero)


def _forced(ts: Tangents, ys: Sequence[Any], flags: Sequence[bool]) -> Tangents:
    return tuple(instantiate(t, y) if f else t for t, y, f in zip(ts, ys, flags, strict=True))


def _live(columns: Sequence[Sequence[Any]]) -> list[Any]:
    return [t for column in columns for t in column if t is not ZERO]


def _masks(columns: Sequence[Sequence[Any]]) -> Masks:
    return tuple(tuple(t is not ZERO for t in column) for column in columns)


def _spread(values: Sequence[Any], masks: Masks) -> list[Tangents]:
    """Tangents in the order of `_live` as columns."""
    supply = iter(values)
    return [tuple(next(supply) if m else ZERO for m in mask) for mask in masks]


def _cond(row: Primitive, primals: Any, columns: Any, *, branches: tuple[Jaxpr, ...]) -> Any:
    index, *operands = primals
    inner = [column[1:] for column in columns]
    masks = _masks(inner)
    found = [directions_jaxpr(b, masks)[1] for b in branches]
    nonzero = tuple(
        tuple(map(any, zip(*(f[k] for f in found), strict=True))) for k in range(len(masks))
    )
    pushed = tuple(directions_jaxpr(b, masks, nonzero)[0] for b in branches)
    outs = row(index, *operands, *_live(inner), branches=pushed)
    n = len(branches[0].outvars)
    return outs[:n], _spread(outs[n:], nonzero)


def _while(
    row: Primitive,
    primals: Any,
    columns: Any,
    *,
    cond: Jaxpr,
    body: Jaxpr,
    n_consts: int,
    **params: Any,
) -> Any:
    consts, carry = primals[:n_consts], primals[n_consts:]
    t_consts = [column[:n_consts] for column in columns]
    fixed, start = _masks(t_consts), _masks([column[n_consts:] for column in columns])
    count, n_carry = len(fixed), len(carry)

    def together(moving: Sequence[bool]) -> Masks:
        pieces = cut(tuple(moving), (n_carry,) * count)
        return tuple(f + tuple(m) for f, m in zip(fixed, pieces, strict=True))

    flat = fixpoint(
        [m for mask in start for m in mask],
        lambda m: [x for mask in directions_jaxpr(body, together(m))[1] for x in mask],
    )
    masks = together(flat)
    moving = tuple(mask[n_consts:] for mask in masks)
    pushed, _ = directions_jaxpr(body, masks, moving)
    sizes = (n_consts, sum(map(sum, fixed)), n_carry, sum(flat))

    def new_body(*args: Any) -> list[Any]:
        c, tc, x, tx = cut(args, sizes)
        of_consts, of_carry = _spread(tc, fixed), _spread(tx, moving)
        ts = [t for a, b in zip(of_consts, of_carry, strict=True) for t in _live([a, b])]
        return eval_jaxpr(pushed, (*c, *x, *ts))

    def new_cond(*args: Any) -> list[Any]:
        c, _, x, _ = cut(args, sizes)
        return eval_jaxpr(cond, (*c, *x))

    avals = body.in_avals
    c_avals, x_avals = avals[:n_consts], avals[n_consts:]
    tc_avals = [a for mask in fixed for a in select_by(c_avals, mask, True)]
    tx_avals = [a for mask in moving for a in select_by(x_avals, mask, True)]
    everything = [*c_avals, *tc_avals, *x_avals, *tx_avals]
    started = [
        _forced(column[n_consts:], carry, mask)
        for column, mask in zip(columns, moving, strict=True)
    ]
    outs = row(
        *consts,
        *_live(t_consts),
        *carry,
        *_live(started),
        cond=trace_closed(new_cond, everything),
        body=trace_closed(new_body, everything),
        n_consts=n_consts + sizes[1],
        **{**params, "each": None},
    )
    return outs[:n_carry], _spread(outs[n_carry:], moving)


def _together(row: Primitive, operands: int, params: dict[str, Any]) -> Callable[..., Any] | None:
    """How a row is pushed once for all directions: a branch, or a loop with a condition."""
    if way(row, Branch) is not None:
        return _cond
    loop = way(row, Iteration)
    found = None if loop is None else loop.layout(operands, **params)
    return None if found is None or found.cond is None or found.records else _while
