"""Staging: `JaxprTrace` records every primitive as an equation; nothing is computed.

`trace_to_jaxpr` runs a function of flat values once on abstract inputs. Tracers of outer
transformations that it captured come back as leading inputs; arrays it captured become the
jaxpr's consts, by reference. A tracer of anything else is a leak.
"""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from ftrace.core import device, hooks, pretty, source
from ftrace.core import trace as core
from ftrace.core.avals import SCALAR_AVALS, ShapedArray, typeof
from ftrace.core.check import check_jaxpr
from ftrace.core.config import changes, config
from ftrace.core.errors import JaxprError, MutationError
from ftrace.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from ftrace.core.primitive import Primitive
from ftrace.core.trace import Trace, Tracer, ctx
from ftrace.interpreters.captures import COPY_LIMIT, digest, owner
from ftrace.interpreters.constant_values import ConstantValues
from ftrace.interpreters.dce import dce_equations

new = object.__new__


class JaxprTracer(Tracer):
    """An abstract value: a variable of the jaxpr being recorded."""

    __slots__ = ("atom", "aval")
    slots = ("owner", "atom", "aval")

    def __init__(self, trace: Trace, atom: Atom, aval: ShapedArray) -> None:
        self.owner = trace
        self.atom = atom
        # a slot where the base has a property: it is read twice per staged operation
        self.aval = aval  # pyright: ignore

    def known(self, exact: bool) -> Any:
        atom = self.atom
        return atom.value if type(atom) is Literal else self.owner.constants.value(atom)

    @property
    def is_on_device(self) -> bool:
        return self.atom in self.owner.on_device


core.register(JaxprTracer)
hooks.print_jaxpr.give(pretty.to_text)


class JaxprTrace(Trace):
    """Appends one equation per primitive, typed by the row."""

    __slots__ = (
        "cells",
        "constants",
        "consts",
        "eqns",
        "errors",
        "hoisted",
        "on_device",
        "ranges",
        "snapshots",
    )
    name = "jit"
    stages = True

    def __init__(self, parent: Trace) -> None:
        self.parent = parent
        self.alive = True
        self.eqns: list[Eqn] = []
        self.cells: dict[int, Any] | None = None  # of a region of lifted code: what it wrote
        self.hoisted: dict[int, tuple[Tracer, Var]] = {}
        self.on_device: set[Atom] = set()  # what is an array of a device, as far as that is known
        self.consts: dict[int, tuple[Any, Var]] = {}
        self.snapshots: dict[Var, Any] = {}  # what each const held when it was first read
        self.constants = ConstantValues(self)
        # equations that were asked for errors, the last of them, and whether one holds (raising.py)
        self.errors: tuple[int, Eqn | None, Any] = (0, None, None)
        self.ranges: Any = None  # of integers (value_ranges.py), once somebody asks

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if primitive.stage is not None:
            args, params = primitive.stage(args, params)
        atoms: list[Atom] = []
        avals: list[ShapedArray] = []
        for a in args:
            if type(a) is JaxprTracer and a.owner is self:
                atoms.append(a.atom)
                avals.append(a.aval)
            else:
                atom = self.atom(a)
                atoms.append(atom)
                avals.append(atom.aval)
        result = primitive.type(*avals, **params)
        place = source.location(3)
        if primitive.multiple:
            outs = [Var(a) for a in result]
            self.eqns.append(Eqn(primitive, atoms, params, outs, place))
            if self.on_device and not self.on_device.isdisjoint(atoms):
                self.on_device.update(outs)
            return [JaxprTracer(self, v, v.aval) for v in outs]
        out = Var(result)
        self.eqns.append(Eqn(primitive, atoms, params, (out,), place))
        if self.on_device and not self.on_device.isdisjoint(atoms):
            self.on_device.add(out)
        return JaxprTracer(self, out, result)

    def atom(self, a: Any) -> Atom:
        """The atom of an operand from outside: a literal, a const, or a hoisted tracer."""
        if type(a) in SCALAR_AVALS:
            return Literal(a)
        if isinstance(a, Tracer):
            return self._hoist(a)
        if device.is_array(a):
            found = self.consts.get(id(a))
            if found is None:
                found = self.consts[id(a)] = (a, Var(typeof(a)))
                self.snapshots[found[1]] = _content(a)
                self.notice(a, found[1])
            elif a.nbytes <= COPY_LIMIT or config.settings.check_captures:
                self.check(a, found[1])
            return found[1]
        return Literal(a)  # refuses what is neither array nor number

    def check(self, array: Any, var: Var) -> None:
        """Raise if a captured array no longer holds what the trace first read."""
        if _content(array) == self.snapshots[var]:
            return
        raise MutationError(
            f"A plain array ({var.aval}) was changed while the function that reads it was being "
            "traced: the recorded program would see its last content everywhere.",
            "Make it with ftrace.numpy (fnp.zeros, fnp.array), whose writes are traced, or "
            "use `array.copy()` where it is read.",
        )

    def _hoist(self, a: Tracer) -> Atom:
        if core.moved:
            a = core.now(a)
        if type(a) is JaxprTracer and a.owner is self:
            return a.atom
        if not a.owner.alive or not core.is_within(a.owner, self.parent):
            raise core.leaked(a, "jit")
        found = self.hoisted.get(id(a))
        if found is None:
            found = self.hoisted[id(a)] = (a, Var(a.aval))
            self.notice(a, found[1])
        return found[1]

    def notice(self, value: Any, var: Atom) -> None:
        """Remember where a value is."""
        if device.LIBRARIES and core.is_on_device(value):
            self.on_device.add(var)

    def lift(self, value: Any) -> JaxprTracer:
        atom = self.atom(value)
        return JaxprTracer(self, atom, atom.aval)


def trace_to_jaxpr(
    fn: Callable[..., Sequence[Any]],
    avals: Sequence[ShapedArray],
    names: tuple[str, ...] = (),
    values: Sequence[Any] = (),
) -> tuple[Jaxpr, list[Tracer]]:
    """Stage a function of flat values.

    Args:
        fn: the function.
        avals: the types of its arguments.
        names: of the arguments, for printing.
        values: the arguments, if there are some: of rank 0 they are arrays or scalars.

    Returns:
        The jaxpr, whose leading inputs are the captured tracers, and these tracers.
    """
    trace = JaxprTrace(ctx.trace)
    invars = [Var(a) for a in avals]
    inputs = [JaxprTracer(trace, v, v.aval) for v in invars]
    for x, v in zip_longest(inputs, values):
        core.freeze(x, v)
    if device.LIBRARIES:
        for x, v in zip(inputs, values, strict=False):
            trace.notice(v, x.atom)
    try:
        outs = [trace.atom(y) for y in core.run(trace, fn, *inputs)]
    finally:
        trace.alive = False
    if ctx.operands is not None and trace.consts:
        _note_operands(trace)
    captured = [t for t, _ in trace.hoisted.values()]
    hoisted = [v for _, v in trace.hoisted.values()]
    eqns = dce_equations(trace.eqns, outs)
    consts = _read_consts(trace, eqns, outs) if trace.consts else []
    jaxpr = Jaxpr(
        [*hoisted, *invars],
        eqns,
        outs,
        [v for _, v in consts],
        [a for a, _ in consts],
        names,
    )
    if (config.defaults if changes() is None else config.settings).check_jaxprs:
        check_jaxpr(jaxpr)
    return jaxpr, captured


def _note_operands(trace: JaxprTrace) -> None:
    """Say where equations read captured arrays: what Python read of them is something else."""
    asked = trace.constants.asked
    owners = {v: id(owner(a)) for a, v in trace.consts.values() if v not in asked}
    for eqn in trace.eqns:
        for v in eqn.invars:
            if type(v) is Var and v in owners:
                ctx.operands.add((owners[v], eqn.source))


def _read_consts(trace: JaxprTrace, eqns: list[Eqn], outs: list[Atom]) -> list[tuple[Any, Var]]:
    """The captured arrays that something still reads."""
    read = {v for e in eqns for v in e.invars if type(v) is Var} | set(outs)
    found = [(a, v) for a, v in trace.consts.values() if v in read]
    for a, v in found:
        trace.check(a, v)
    return found


def _content(array: Any) -> Any:
    """What tells whether an array was written: its bytes, or a digest of them if it is large.

    Nothing for an array of a device: looking would wait for it.
    """
    if device.on_device(array):
        return None
    return array.tobytes() if array.nbytes <= COPY_LIMIT else digest(array)


def trace_closed(fn: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray]) -> Jaxpr:
    """Stage a function that captures no tracers: what transforms one jaxpr into another."""
    jaxpr, captured = core.run(core.EVAL, trace_to_jaxpr, fn, avals)
    if captured:
        raise JaxprError("a jaxpr transformation captured a tracer.")
    return jaxpr


def hoist_consts(jaxpr: Jaxpr) -> tuple[Jaxpr, tuple[Any, ...]]:
    """The same jaxpr with its captured arrays as leading inputs, and these arrays."""
    if not jaxpr.consts:
        return jaxpr, ()
    closed = Jaxpr([*jaxpr.constvars, *jaxpr.invars], jaxpr.eqns, jaxpr.outvars, names=jaxpr.names)
    return closed, jaxpr.consts
