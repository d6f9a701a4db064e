"""Known and unknown: `PartialTrace` runs what is known and records what depends on unknowns.

The unknowns are always tangents, so this is no general partial evaluator: known work goes to the
parent, an operation on unknowns is recorded whole, with the known operands beside it as literals
(the residuals). A row that holds jaxprs splits itself (its `partial` column), so that its known
half runs exactly once. `close` turns a recording into a jaxpr whose residuals are inputs.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ftrace.core import source
from ftrace.core import trace as core
from ftrace.core.avals import SCALAR_AVALS, ShapedArray, typeof
from ftrace.core.device import LIBRARIES, is_array
from ftrace.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var, cached_on_jaxpr, eval_jaxpr
from ftrace.core.primitive import Primitive
from ftrace.core.records import record
from ftrace.core.trace import Trace, Tracer, ctx
from ftrace.interpreters.captures import Captures
from ftrace.interpreters.dce import dce_equations
from ftrace.interpreters.staging import trace_closed

RES: Final = -1  # in `Split.linear` positions: where the residuals go


def known_result(i: int) -> int:
    """In `Split.linear` positions: result `i` of the known half, where RES then leaves it out."""
    return RES - 1 - i


@record
class Half:
    """A row to bind, its params, and which original operands it takes.

    In the linear half RES stands for the residuals, `known_result(i)` for a known result.
    """

    row: Primitive
    params: dict[str, Any]
    positions: tuple[int, ...]


@record
class Split:
    """What a row's `partial` column answers: plain data, no values.

    `known` returns the known outputs, then the residuals; `linear` returns the others.
    """

    known: Half
    linear: Half
    out_known: tuple[bool, ...]


class PartialTracer(Tracer):
    """An unknown: a variable of the linear recording."""

    __slots__ = ("binder",)
    slots = ("owner", "binder")

    def __init__(self, trace: Trace, var: Var) -> None:
        self.owner = trace
        self.binder = var

    @property
    def aval(self) -> ShapedArray:
        return self.binder.aval

    @property
    def is_on_device(self) -> bool:
        return self.owner.on_device


core.register(PartialTracer)


class PartialTrace(Trace):
    """Known operations go to the parent, the others are recorded."""

    __slots__ = ("captures", "eqns", "on_device")
    name = "linearization"

    def __init__(self, parent: Trace, captures: Captures | None = None) -> None:
        self.parent = parent
        self.alive = True
        self.eqns: list[Eqn] = []
        self.captures = captures
        self.on_device = False  # whether one of the arguments is an array there

    @property
    def home(self) -> Trace:
        return self.parent.home

    def unknown(self, aval: ShapedArray) -> PartialTracer:
        return PartialTracer(self, Var(aval))

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        for a in args:
            if type(a) is PartialTracer and a.owner is self:
                break
        else:
            ctx.trace = self.parent
            if primitive.effects is not None:  # someone may look out for it
                return primitive(*args, **params)
            return self.parent.process(primitive, args, params)
        if primitive.partial is not None:
            known = tuple(not self.owns(a) for a in args)
            if any(known):
                return self._split(primitive.partial(known, **params), args)
        return self.record(primitive, args, params)

    def owns(self, a: Any) -> bool:
        return type(a) is PartialTracer and a.owner is self

    def record(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        atoms: list[Any] = []
        for a in args:
            cls = type(a)
            if cls is PartialTracer and a.owner is self:
                atoms.append(a.binder)
            elif cls in SCALAR_AVALS:
                atoms.append(Literal(a))
            elif issubclass(type(a), np.ndarray) or cls in LIBRARIES:
                atoms.append(Literal(a if self.captures is None else self.captures.protect(a)))
            else:
                if isinstance(a, Tracer) and not core.is_within(a.owner, self.parent):
                    raise core.leaked(a, primitive.name)
                atoms.append(Literal(a))
        result = primitive.type(*[a.aval for a in atoms], **params)
        # evaluation shows nobody the equation, and does not wait for its line
        place = None if self.parent is core.EVAL else source.location(2)
        if primitive.multiple:
            outs = [Var(a) for a in result]
            self.eqns.append(Eqn(primitive, atoms, params, outs, place))
            return [PartialTracer(self, v) for v in outs]
        out = Var(result)
        self.eqns.append(Eqn(primitive, atoms, params, (out,), place))
        return PartialTracer(self, out)

    def _split(self, split: Split, args: tuple[Any, ...]) -> Any:
        known, linear = split.known, split.linear
        ctx.trace = self.parent
        done = known.row(*[args[i] for i in known.positions], **known.params)
        ctx.trace = self
        n = sum(split.out_known)
        outs = iter(done[:n])
        named = {RES - 1 - i for i in linear.positions if i < RES}
        residuals = [x for i, x in enumerate(done) if i >= n and i not in named]
        operands: list[Any] = []
        for i in linear.positions:
            if i == RES:
                operands.extend(residuals)
            else:
                operands.append(args[i] if i > RES else done[RES - 1 - i])
        rest = iter(self.record(linear.row, operands, linear.params))
        return [next(outs) if k else next(rest) for k in split.out_known]

    def lift(self, value: Any) -> Any:
        return value


def close(
    eqns: Sequence[Eqn], invars: Sequence[Var], outs: Sequence[Atom], *, arrays: bool
) -> tuple[Jaxpr, list[Any]]:
    """A recording as a jaxpr of (residuals, unknowns), and the residuals.

    Args:
        eqns, invars, outs: the recording.
        arrays: whether plain arrays become residuals too (else consts of the jaxpr).
    """
    residuals: dict[int, tuple[Any, Var]] = {}
    consts: dict[int, tuple[Any, Var]] = {}

    def atom(a: Any) -> Atom:
        if type(a) is Var or not (is_array(a.value) or isinstance(a.value, Tracer)):
            return a
        table = residuals if arrays or isinstance(a.value, Tracer) else consts
        found = table.get(id(a.value))
        if found is None:
            found = table[id(a.value)] = (a.value, Var(typeof(a.value)))
        return found[1]

    closed = [
        Eqn(e.primitive, [atom(a) for a in e.invars], e.params, e.outvars, e.source)
        for e in dce_equations(eqns, outs)
    ]
    outs = [atom(a) for a in outs]
    jaxpr = Jaxpr(
        [*(v for _, v in residuals.values()), *invars],
        closed,
        outs,
        [v for _, v in consts.values()],
        [c for c, _ in consts.values()],
    )
    return jaxpr, [r for r, _ in residuals.values()]


@record
class SplitJaxpr:
    """The two halves of a jaxpr.

    `known` gives known outputs and new residuals; `linear` takes residuals, then the `forwarded`
    known inputs (indices into the original inputs), then the unknown inputs.
    """

    known: Jaxpr
    linear: Jaxpr
    out_known: tuple[bool, ...]
    forwarded: tuple[int, ...]


@cached_on_jaxpr
def partial_jaxpr(jaxpr: Jaxpr, known: tuple[bool, ...]) -> SplitJaxpr:
    """Split a jaxpr into what needs only the known inputs, and the rest."""
    found: list[Any] = []
    indices = [i for i, k in enumerate(known) if k]

    def known_part(*args: Any) -> list[Any]:
        trace = PartialTrace(ctx.trace)
        supply = iter(args)
        inputs = [
            next(supply) if k else trace.unknown(a)
            for k, a in zip(known, jaxpr.in_avals, strict=True)
        ]
        outs = core.run(trace, eval_jaxpr, jaxpr, inputs)
        trace.alive = False
        unknown_in = [x.binder for x, k in zip(inputs, known, strict=True) if not k]
        unknown_out = [y.binder for y in outs if trace.owns(y)]
        linear, residuals = close(trace.eqns, unknown_in, unknown_out, arrays=False)
        by_id = {id(a): i for a, i in zip(args, indices, strict=True)}
        forwarded = [id(r) in by_id for r in residuals]
        order = sorted(range(len(residuals)), key=lambda i: forwarded[i])
        n = len(residuals)
        linear = Jaxpr(
            [*(linear.invars[i] for i in order), *linear.invars[n:]],
            linear.eqns,
            linear.outvars,
            linear.constvars,
            linear.consts,
        )
        found[:] = [
            linear,
            tuple(not trace.owns(y) for y in outs),
            tuple(by_id[id(residuals[i])] for i in order if forwarded[i]),
        ]
        new = [residuals[i] for i in order if not forwarded[i]]
        return [*(y for y in outs if not trace.owns(y)), *new]

    known_jaxpr = trace_closed(known_part, [jaxpr.in_avals[i] for i in indices])
    linear, out_known, forwarded = found
    return SplitJaxpr(known_jaxpr, linear, out_known, forwarded)


def split_as(jaxpr: Jaxpr, known: tuple[bool, ...], out_known: tuple[bool, ...]) -> SplitJaxpr:
    """Split a jaxpr with exactly these outputs known, which are among those that can be.

    An output that could be known and shall not be becomes a residual, which `linear` returns.
    """
    split = partial_jaxpr(jaxpr, known)
    n = sum(split.out_known)
    owns = iter(split.known.outvars[:n])
    by_output: list[Any] = [next(owns) if k else None for k in split.out_known]
    triples = list(zip(by_output, split.out_known, out_known, strict=True))
    kept = [v for v, _, k in triples if k]
    demoted = [v for v, own, k in triples if own and not k]
    known_half = with_results(split.known, [*kept, *demoted, *split.known.outvars[n:]])
    binders = [Var(v.aval) for v in demoted]
    supply, linear = iter(binders), iter(split.linear.outvars)
    outs = [next(supply) if own else next(linear) for _, own, k in triples if not k]
    linear_half = with_results(split.linear, outs, [*binders, *split.linear.invars])
    return SplitJaxpr(known_half, linear_half, out_known, split.forwarded)


def with_results(jaxpr: Jaxpr, outs: Sequence[Atom], invars: Sequence[Var] | None = None) -> Jaxpr:
    """The same equations with other results (and inputs)."""
    taken = jaxpr.invars if invars is None else invars
    return Jaxpr(taken, jaxpr.eqns, outs, jaxpr.constvars, jaxpr.consts)
