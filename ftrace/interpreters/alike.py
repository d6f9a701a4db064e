"""Whether two runs of a function compute the same: recordings of both are compared.

`recorded` runs a function that gets batches under a `Recorder`, which computes what is known and
writes down what depends on the batches, with all effects; a jaxpr is a recording as it is. Two
recordings are alike if their equations are, one by one: the same rows, on variables that
correspond, on constants of one content, with parameters that mean the same. Functions among these
are compared by their code and by what they close over.
"""

import functools
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from ftrace.core import trace as core
from ftrace.core.avals import typeof
from ftrace.core.closure_cells import content
from ftrace.core.device import LIBRARIES, copied, is_array, to_host
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var
from ftrace.core.primitive import Primitive
from ftrace.core.records import record
from ftrace.core.sameness import SCALARS, is_same
from ftrace.core.trace import UNKNOWN, Trace, Tracer, ctx
from ftrace.interpreters.captures import COPY_LIMIT
from ftrace.interpreters.dce import dce_equations
from ftrace.interpreters.partial import PartialTrace, PartialTracer

_MOST: Final = 10_000  # parts of parameters that are compared


@record
class Recording:
    """What a run computed.

    Attributes:
        inputs: variables for its arguments, captured values first.
        eqns: equations in order, without those that nobody needs.
        outs: atoms, or values that were known.
        values: the captured values, as they were.
        layout: where results have mapped axes.
    """

    inputs: Sequence[Var]
    eqns: Sequence[Eqn]
    outs: Sequence[Any]
    values: Sequence[Any] = ()
    layout: Any = None

    @classmethod
    def of(cls, jaxpr: Jaxpr, captured: Sequence[Any]) -> "Recording":
        """A jaxpr; captured values are its leading operands."""
        values = [_kept(x) for x in (*jaxpr.consts, *captured)]
        return cls((*jaxpr.constvars, *jaxpr.invars), jaxpr.eqns, jaxpr.outvars, values)


def _kept(x: Any) -> Any:
    """A value that stays: an array that may be written is copied if it is small."""
    small = type(x) is np.ndarray and x.flags.writeable and x.nbytes <= COPY_LIMIT
    return copied(x) if small else x


class Recorder(PartialTrace):
    """Runs what is known; records the rest, and whatever has an effect, which does not happen."""

    __slots__ = ("_all",)
    name = "vmap"

    def __init__(self, parent: Trace) -> None:
        super().__init__(parent)
        self._all = core.is_staged(parent)  # whose equations are to be none but its own

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Apply a primitive to operands, some of which may be unknown."""
        effects = primitive.effects is not None and primitive.effects(**params)
        if self._all or effects or any(map(_is_unknown, args)):
            return self.record(primitive, list(map(_kept, args)), params)
        ctx.trace = self.parent
        return self.parent.process(primitive, args, params)

    def enter(self, value: Any) -> PartialTracer:
        """An unknown that stands for a value."""
        return self.unknown(typeof(value))


def _is_unknown(x: Any) -> bool:
    return isinstance(x, Tracer) and core.now(x).known(exact=True) is UNKNOWN


class FollowedTracer(PartialTracer):
    """An unknown of a recording whose value is computed beside it."""

    __slots__ = ("value",)
    slots = ("owner", "value", "binder")

    def __init__(self, trace: Trace, var: Var, value: Any) -> None:
        super().__init__(trace, var)
        self.value = value


core.register(FollowedTracer)


class Follower(Recorder):
    """Records, and runs all that it records."""

    __slots__ = ()

    def record(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Record and run."""
        unknown = [PartialTracer(self, a.binder) if self.owns(a) else a for a in args]
        noted = super().record(primitive, unknown, params)
        ctx.trace = self.parent
        result = primitive(*(a.value if self.owns(a) else a for a in args), **params)
        if primitive.multiple:
            pairs = zip(noted, result, strict=True)
            return [FollowedTracer(self, x.binder, y) for x, y in pairs]
        return FollowedTracer(self, noted.binder, result)

    def enter(self, value: Any) -> PartialTracer:
        """An unknown that stands for a value."""
        return FollowedTracer(self, Var(typeof(value)), value)

    def owns(self, a: Any) -> bool:
        """Whether a value is one of its own unknowns."""
        return type(a) is FollowedTracer and a.owner is self


_Run = Callable[[list[Any]], tuple[Sequence[Any], Any]]


def recorded(run: _Run, values: Sequence[Any], dims: Sequence[Any]) -> Recording:
    """Record a run on values of which some have a mapped axis, which are unknown.

    Args:
        run: `values -> (results, where they have mapped axes)`.
        values: the arguments.
        dims: None where one is the same for all.
    """
    return _recorded(Recorder(ctx.trace), run, values, dims)[1]


def follow(run: _Run, values: Sequence[Any], dims: Sequence[Any]) -> tuple[Any, Recording]:
    """The same of a run that takes place; what it returns, and the recording."""
    (ys, layout), recording = _recorded(Follower(ctx.trace), run, values, dims)
    return ([y.value if isinstance(y, FollowedTracer) else y for y in ys], layout), recording


def _recorded(
    trace: Recorder, run: _Run, values: Sequence[Any], dims: Sequence[Any]
) -> tuple[Any, Recording]:
    trace.on_device = bool(LIBRARIES) and any(map(core.is_on_device, values))
    given = [v if d is None else trace.enter(v) for v, d in zip(values, dims, strict=True)]
    try:
        ys, layout = core.run(trace, run, given)
    finally:
        trace.alive = False
    outs = [y.binder if trace.owns(y) else Literal(y) for y in ys]
    inputs = [x.binder for x in given if trace.owns(x)]
    eqns = dce_equations(trace.eqns, outs)
    return (ys, layout), Recording(inputs, eqns, outs, layout=tuple(layout))


def are_alike(a: Recording, b: Recording) -> bool:
    """Whether two recordings compute the same."""
    return _Match().recordings(a, b)


class _Match:
    """One comparison: which variables correspond, and which objects were compared already."""

    def __init__(self) -> None:
        self._vars: dict[Var, Var] = {}
        self._seen: dict[tuple[int, int], Any] = {}  # alive, so that no other gets its number

    def recordings(self, a: Recording, b: Recording) -> bool:
        n = len(a.values)
        return (
            a.layout == b.layout
            and len(b.values) == n
            and self._pairs(a.values, b.values)
            and self._bound(a.inputs, b.inputs)
            and self._equations(a.eqns, b.eqns)
            and self._pairs(a.outs, b.outs)
        )

    def _jaxprs(self, a: Jaxpr, b: Jaxpr) -> bool:
        return self.recordings(Recording.of(a, ()), Recording.of(b, ()))

    def _bound(self, a: Sequence[Var], b: Sequence[Var]) -> bool:
        self._vars.update(zip(a, b, strict=False))
        return len(a) == len(b) and all(x.aval == y.aval for x, y in zip(a, b, strict=True))

    def _equations(self, a: Sequence[Eqn], b: Sequence[Eqn]) -> bool:
        return len(a) == len(b) and all(map(self._equation, a, b))

    def _equation(self, a: Eqn, b: Eqn) -> bool:
        return (
            a.primitive is b.primitive
            and self._pairs(a.invars, b.invars)
            and self._value(a.params, b.params)
            and self._bound(a.outvars, b.outvars)
        )

    def _pairs(self, a: Sequence[Any], b: Sequence[Any]) -> bool:
        return len(a) == len(b) and all(map(self._value, a, b))

    def _value(self, a: Any, b: Any) -> bool:
        """Whether two atoms, operands or parts of parameters mean the same."""
        if a is b:
            return type(a) is not Var or self._vars.get(a, a) is b
        kind = type(a)
        if kind is not type(b):
            return False
        if kind is Var:
            return self._vars.get(a) is b
        if kind in SCALARS or issubclass(kind, np.generic | np.dtype | type | Primitive):
            return is_same(a, b)
        if (id(a), id(b)) in self._seen or len(self._seen) > _MOST:
            return True
        self._seen[id(a), id(b)] = a, b
        return self._objects(a, b)

    def _objects(self, a: Any, b: Any) -> bool:
        kind = type(a)
        if is_array(a):
            return _same_arrays(a, b)
        if issubclass(kind, Tracer):
            return self._tracers(a, b)
        if kind is Jaxpr:
            return self._jaxprs(a, b)
        if issubclass(kind, dict):
            return list(a) == list(b) and self._pairs(list(a.values()), list(b.values()))
        if issubclass(kind, set | frozenset):
            return bool(a == b)
        if issubclass(kind, tuple | list):
            return self._pairs(a, b)
        x, y = map(list, map(_parts, (a, b)))
        return self._remembering(x, y) if _is_own(a) else self._pairs(x, y)

    def _remembering(self, a: Sequence[Any], b: Sequence[Any]) -> bool:
        """The same for parts of an object of ftrace's, one of which may know more by its use."""
        for x, y in zip(a, b, strict=False):
            if type(x) is dict and type(y) is dict:
                same = all(self._value(x[k], y[k]) for k in x.keys() & y.keys())
            else:
                same = _is_nothing(x) or _is_nothing(y) or self._value(x, y)
            if not same:
                return False
        return True

    def _tracers(self, a: Any, b: Any) -> bool:
        """Whether two traced values of other transformations are one."""
        if a.aval != b.aval:
            return False
        if a.owner is not b.owner:  # each belongs to its own recording, in a closure
            return not (a.owner.alive or b.owner.alive)
        known = a.known(exact=True), b.known(exact=True)
        if any(x is UNKNOWN for x in known):
            return all(getattr(a, s) is getattr(b, s) for s in a.slots)
        return self._value(*known)


def _is_own(x: Any) -> bool:
    """Whether an object, or the code of a function, is ftrace's."""
    module = getattr(x if isinstance(x, types.FunctionType) else type(x), "__module__", None)
    return str(module).partition(".")[0] == "ftrace"


def _is_nothing(x: Any) -> bool:
    return x is None or (type(x) is list and not x)


def _same_arrays(a: Any, b: Any) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    x, y = np.asarray(to_host(a)), np.asarray(to_host(b))
    return x.tobytes() == y.tobytes() if x.dtype.kind != "O" else list(x.flat) == list(y.flat)


def _parts(x: Any) -> Iterable[Any]:
    """What an object consists of."""
    if isinstance(x, types.FunctionType):
        cells = (content(c) for c in x.__closure__ or ())
        return (x.__code__, *cells, x.__defaults__, x.__kwdefaults__, *vars(x).values())
    if isinstance(x, types.MethodType | types.BuiltinFunctionType):
        return (getattr(x, "__func__", x.__name__), x.__self__)
    if isinstance(x, functools.partial):
        return (x.func, x.args, x.keywords)
    if isinstance(x, types.CodeType):
        return (x.co_code, x.co_names, x.co_consts)
    slots = (s for base in type(x).__mro__ for s in _slots(base))
    own = getattr(x, "__dict__", {})
    return (*(getattr(x, s, None) for s in slots), *own.values())


def _slots(base: type) -> Iterable[str]:
    names = base.__dict__.get("__slots__", ())
    return (n for n in ((names,) if type(names) is str else names) if not n.startswith("__"))
