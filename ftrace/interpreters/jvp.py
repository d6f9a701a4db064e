"""Forward mode: `JVPTrace` carries a primal and a tangent through every primitive.

The row's rule does the work, with the parent as current trace; a tangent that is symbolically
zero costs nothing. The same trace serves eager arrays, staged jaxprs and reverse mode (over
`PartialTrace`, see `linearize.py`).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ftrace.core import hooks, source
from ftrace.core import trace as core
from ftrace.core.avals import SCALAR_AVALS, ShapedArray, typeof
from ftrace.core.device import LIBRARIES
from ftrace.core.dtypes import is_inexact
from ftrace.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var, cached_on_jaxpr, eval_jaxpr
from ftrace.core.primitive import LINEAR, NONDIFFERENTIABLE, Primitive, Unsupported
from ftrace.core.trace import Trace, Tracer, ctx
from ftrace.core.zero import ZERO
from ftrace.interpreters.captures import Captures
from ftrace.interpreters.dce import dce_equations
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import instantiate


class Waiting:
    """In the place of a tangent: the variable whose derivative is taken later.

    Attributes:
        var: the variable, in what is recorded.
        active: whether it may have a tangent.
        found: the primal and its tangent, once they are known.
    """

    __slots__ = ("active", "found", "var")

    def __init__(self, var: Var, active: bool) -> None:
        self.var = var
        self.active = active
        self.found: Any = None


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

    @property
    def has_tangent(self) -> bool:
        """Whether a change of the arguments may change it."""
        t = self.tangent
        return t.active if type(t) is Waiting else t is not ZERO

    def known(self, exact: bool) -> Any:
        if exact and self.has_tangent:
            return core.UNKNOWN
        primal = self.primal
        return primal.known(exact) if isinstance(primal, Tracer) else primal

    def __repr__(self) -> str:
        text = super().__repr__()
        number = "" if self.aval.shape or not self.has_tangent else _dual(self)
        return f"{text[:-1]}, {number}>" if number and "?" not in number else text


_MOST: Final = 8  # partials that are shown


def _dual(x: Any) -> str:
    """A number with its partials: `(1.0 + 0.5*eps[1,1])`, eps[d, k] the k-th one of level d."""
    if type(x) is JVPTracer:
        if x.tangent is ZERO:
            return _dual(x.primal)
        level, trace = 0, x.owner
        while trace is not None:
            level += isinstance(trace, JVPTrace)
            trace = trace.parent
        each = x.tangent.each() if isinstance(x.tangent, Tracer) else None
        partials = [x.tangent] if each is None else each
        terms = [f"{_dual(t)}*eps[{level},{k}]" for k, t in enumerate(partials[:_MOST], 1)]
        more = ["..."] if len(partials) > _MOST else []
        return f"({' + '.join([_dual(x.primal), *terms, *more])})"
    if isinstance(x, Tracer):
        x = x.known(exact=True)
    if x is core.UNKNOWN or np.ndim(x):
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

    def unpacked(self, values: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Primals and tangents of all results: nothing runs under this trace any more."""
        return [self.unpack(y) for y in values]


START: Final = 500  # operations: fewer are no long program, whatever they are


class DeferringJVPTrace(JVPTrace):
    """Differentiates a program that is staged: long ones when they are known, and not before.

    Nothing needs a tangent before the function has returned. So from the `START`-th operation on
    the primal alone is staged, and the operation recorded. In the end what was recorded, from the
    first operation on, is one jaxpr; if it repeats itself, as an unrolled Python loop does, it is
    shortened first (`core/hooks.py: shorten`), and one iteration is differentiated in the place of
    all. What was staged on the way is then read by nobody. What is not shortened, or meets an
    operation that cannot wait, is differentiated as it was recorded, in the same order.
    """

    __slots__ = ("_done", "_early", "_eqns", "_first", "_inputs", "_outs", "_waits")

    def __init__(self, parent: Trace, captures: Captures | None = None) -> None:
        super().__init__(parent, captures)
        self._done = 0  # operations that were differentiated at once
        self._waits = False
        self._first: list[Eqn] = []  # these operations; none once the others have been done, too
        self._early: dict[Any, tuple[JVPTracer, Var]] = {}  # their results
        self._eqns: list[Eqn] = []  # operations whose tangents wait
        self._outs: list[Waiting] = []
        self._inputs: dict[Any, tuple[Any, Var]] = {}

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if self._waits:
            if not _cannot_wait(primitive, params):
                return self._record(primitive, args, params)
            self._catch_up()
        elif self._done == START:
            self._done += 1
            self._waits = True
            return self.process(primitive, args, params)
        self._done += 1
        if self._outs:
            args = tuple(map(self._found, args))
        found = super().process(primitive, args, params)
        if self._done <= START and not _cannot_wait(primitive, params):
            self._note(primitive, args, params, found if primitive.multiple else [found])
        return found

    # --- recording

    def _note(
        self, primitive: Primitive, args: Any, params: dict[str, Any], found: Sequence[JVPTracer]
    ) -> None:
        """Record an operation that has been differentiated."""
        atoms = [
            Literal(a) if type(a) in SCALAR_AVALS else self._input(self._key(a), a) for a in args
        ]
        outs = [Var(typeof(y.primal)) for y in found]
        self._early.update((self._key(y), (y.fresh(), v)) for y, v in zip(found, outs, strict=True))
        self._first.append(Eqn(primitive, atoms, params, outs, source.location(2)))

    def _key(self, a: Any) -> Any:
        """The addresses of what a value is."""
        if type(a) is JVPTracer and a.owner is self:
            return id(a.primal), id(a.tangent)
        return tuple(id(getattr(a, s)) for s in a.slots) if isinstance(a, Tracer) else id(a)

    def _record(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        primals: list[Any] = []
        atoms: list[Atom] = []
        active = False
        for a in args:
            if type(a) is JVPTracer and a.owner is self:
                primals.append(a.primal)
                t = a.tangent
                active |= a.has_tangent
                atoms.append(t.var if type(t) is Waiting else self._input(self._key(a), a))
            elif type(a) in SCALAR_AVALS:
                primals.append(a)
                atoms.append(Literal(a))
            else:
                own = self._enter(a)
                primals.append(own)
                atoms.append(self._input(self._key(a), own))
        ctx.trace = self.parent
        active &= primitive.jvp is not NONDIFFERENTIABLE
        y = primitive(*primals, **params)
        found = [self._result(p, active) for p in (y if primitive.multiple else (y,))]
        outs = [x.tangent.var for x in found]
        self._eqns.append(Eqn(primitive, atoms, params, outs, source.location(2)))
        return found if primitive.multiple else found[0]

    def _input(self, key: Any, value: Any) -> Var:
        """The variable of a value from before. It is kept: a key is made of addresses."""
        known = self._early.get(key) or self._inputs.get(key)
        if known is None:
            value = value.fresh() if isinstance(value, Tracer) else value
            known = self._inputs[key] = value, Var(typeof(value))
        return known[1]

    def _result(self, primal: Any, active: bool) -> JVPTracer:
        a = typeof(primal)
        waiting = Waiting(Var(a), active and is_inexact(a.dtype))
        self._outs.append(waiting)
        return JVPTracer(self, primal, waiting)

    # --- the end

    def _given(self) -> list[tuple[Any, Var]]:
        """What the operations that wait are given."""
        return [*self._inputs.values(), *self._early.values()]

    def _found(self, a: Any) -> Any:
        """An operand with the tangent that it was waiting for."""
        if type(a) is JVPTracer and a.owner is self and type(a.tangent) is Waiting:
            return a.tangent.found
        return a

    def _catch_up(self) -> None:
        """Differentiate what was recorded, in its order; nothing waits from now on."""
        self._waits = False
        env = self._replayed(self._eqns)
        for waiting in self._outs:
            waiting.found = env[waiting.var]
        self._first, self._early, self._eqns, self._inputs = [], {}, [], {}

    @source.replaying
    def _replayed(self, eqns: Sequence[Eqn]) -> dict[Any, Any]:
        env: dict[Any, Any] = {v: x for x, v in self._given()}
        for eqn in eqns:
            operands = tuple(env[a] if type(a) is Var else a.value for a in eqn.invars)
            found = super().process(eqn.primitive, operands, eqn.params)
            env.update(zip(eqn.outvars, found if eqn.primitive.multiple else (found,), strict=True))
        return env

    def unpacked(self, values: Sequence[Any]) -> list[tuple[Any, Any]]:
        if self._waits:
            wanted = [x.tangent for x in values if _waits_for(x, self)]
            outs = [w.var for w in wanted]
            given = list(self._inputs.values())
            whole = _recorded(given, [*self._first, *self._eqns], outs)
            jaxpr = hooks.shorten(whole)
            if jaxpr is whole:
                given = self._given()
                jaxpr = _recorded(given, self._eqns, outs)
            self._waits = False
            found = core.run(self, eval_jaxpr, jaxpr, [x for x, _ in given])
            for waiting, x in zip(wanted, found, strict=True):
                waiting.found = x
        return super().unpacked([self._found(x) for x in values])


def _recorded(given: Sequence[tuple[Any, Var]], eqns: Sequence[Eqn], outs: list[Var]) -> Jaxpr:
    return Jaxpr([v for _, v in given], dce_equations(eqns, outs), outs)


def _waits_for(x: Any, trace: Trace) -> bool:
    return type(x) is JVPTracer and x.owner is trace and type(x.tangent) is Waiting


def _cannot_wait(primitive: Primitive, params: dict[str, Any]) -> bool:
    """Whether an operation calls the user's functions or has effects, or is refused on its line."""
    if primitive.stage is not None or type(primitive.jvp) is Unsupported:
        return True
    return primitive.effects is not None and bool(primitive.effects(**params))


def jvp_trace(parent: Trace, captures: Captures | None = None) -> JVPTrace:
    """The trace that differentiates a function; what it leaves is for `parent`."""
    return (DeferringJVPTrace if core.is_staged(parent) else JVPTrace)(parent, captures)


def jvp_flat(
    fn: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    waits: bool = True,
) -> tuple[list[Any], list[Any]]:
    """Push tangents through a function of flat values; tangents in and out may be `ZERO`.

    Without `waits` each operation is differentiated at once, however many there are.
    """
    trace = jvp_trace(ctx.trace) if waits else JVPTrace(ctx.trace)
    inputs = [JVPTracer(trace, p, t) for p, t in zip(primals, tangents, strict=True)]
    for x, p in zip(inputs, primals, strict=True):
        core.freeze(x, p)
    try:
        outs = trace.unpacked(core.run(trace, fn, *inputs))
    finally:
        trace.alive = False
    return [p for p, _ in outs], [t for _, t in outs]


def jvp_jaxpr(
    jaxpr: Jaxpr, active: tuple[bool, ...], force: tuple[bool, ...] | None = None
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The jaxpr of (primals, active tangents) -> (results, nonzero tangents), and which are.

    `force` marks results whose tangent is made real even where it is zero.
    """
    return jvp_as_it_is(hooks.shorten(jaxpr), active, force)


@cached_on_jaxpr
def jvp_as_it_is(
    jaxpr: Jaxpr, active: tuple[bool, ...], force: tuple[bool, ...] | None = None
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The same of a jaxpr whose equations all stay, however many there are."""
    nonzero: list[bool] = []

    def pushed(*args: Any) -> list[Any]:
        primals, rest = args[: len(active)], iter(args[len(active) :])
        tangents = [next(rest) if a else ZERO for a in active]
        ys, ts = jvp_flat(lambda *xs: eval_jaxpr(jaxpr, xs), primals, tangents, waits=False)
        if force is not None:
            ts = [instantiate(t, y) if f else t for t, y, f in zip(ts, ys, force, strict=True)]
        nonzero[:] = [t is not ZERO for t in ts]
        return [*ys, *(t for t in ts if t is not ZERO)]

    avals = [*jaxpr.in_avals, *(a for a, on in zip(jaxpr.in_avals, active, strict=True) if on)]
    return trace_closed(pushed, avals), tuple(nonzero)
