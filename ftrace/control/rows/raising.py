"""Errors that values decide about: the row `raise_where`, and how it leaves what is staged.

The operands are a boolean and the values that the error is made of; whoever evaluates the row asks
a `Thrower` for the error of the first member for which the boolean holds. Where an arm of a
decision, an iteration of a loop or the scalar function of a kernel holds the row, it is taken out
(`without_errors`): what decides becomes a result, and the row stands behind the `cond`, the
`while`, the kernel. So no region has the effect, lanes go on under masks, and the error comes when
all of them are done. `collecting` takes the rows of a function that Python still runs.
"""

import functools
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from ftrace.control.rows.trying import is_in_try
from ftrace.core import source
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.device import to_host
from ftrace.core.dtypes import bool_
from ftrace.core.errors import FtraceError, LiftError, TracerBoolConversionError
from ftrace.core.jaxpr import Jaxpr, cached_on_jaxpr
from ftrace.core.lower import Call, Refusal
from ftrace.core.primitive import NONDIFFERENTIABLE, RAISES, Effects, Primitive, Unsupported
from ftrace.core.records import record
from ftrace.core.sameness import held, is_same
from ftrace.core.source import Location
from ftrace.core.trace import EVAL, UNKNOWN, Tracer, ctx, remember
from ftrace.interpreters.batching import Axis, BatchTrace, place_axis
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import JaxprTracer, trace_closed
from ftrace.lowering.fusion.inline import plain
from ftrace.primitives.compare import bitwise_and, bitwise_not, bitwise_or
from ftrace.primitives.reduce import reduce_or

R = TypeVar("R")


@record(eq=False)
class Thrower:
    """What makes an error of the values of one member.

    Attributes:
        throw: a function of these values that raises it, or returns if there is none after all.
        kinds: the classes that it may raise.
        place: the user's line.
        tells_origin: whether the error has its cause and context; None: if there are none.
    """

    throw: Callable[..., Any]
    kinds: tuple[type[BaseException], ...]
    place: Location | None
    tells_origin: bool | None = None

    def _facts(self) -> Any:
        """Its line, since instructions move while the interpreter adapts them, and the rest."""
        line = self.place and (self.place[0].co_filename, source.line_of(self.place))
        return line, self.kinds, self.tells_origin

    def __eq__(self, other: object) -> bool:
        """Whether both say the same, by the same code about the same facts, of one line."""
        if type(other) is not Thrower or self._facts() != other._facts():
            return False
        return self is other or is_same(held(self.throw), held(other.throw))

    def __hash__(self) -> int:
        return hash(self._facts())

    def __call__(self, values: Sequence[Any], index: tuple[int, ...]) -> None:
        """Raise the error of one member, with its index and the user's line."""
        try:
            self.throw(*values)
        except Exception as error:
            where = f"at {source.describe(self.place)}"
            if index:
                number = index[0] if len(index) == 1 else index
                where = f"by batch element {number}, {where}"
            if not any(where in note for note in getattr(error, "__notes__", ())):
                error.add_note(f"Raised {where}")
            raise


@record(eq=False)
class Several:
    """What finds out which of several errors a member has.

    Attributes:
        throw: a function of the values of a member, and its index, that raises the first.
        kinds: the classes that it may raise.
    """

    throw: Callable[[Sequence[Any], tuple[int, ...]], None]
    kinds: tuple[type[BaseException], ...]

    def __call__(self, values: Sequence[Any], index: tuple[int, ...]) -> None:
        """Raise the error of one member."""
        self.throw(values, index)


class Noted(NamedTuple):
    """A `raise_where` that was taken out of what it stood in."""

    bad: Any
    values: Sequence[Any]
    thrower: Thrower | Several

    @property
    def effects(self) -> Effects:
        """As of an equation."""
        return _effects()


# ---------------------------------------------------------------------------------- the row


def _impl(bad: Any, *values: Any, thrower: Thrower, **params: Any) -> list[Any]:
    bad = np.asarray(to_host(bad))
    if bad.any():
        if bad.ndim and thrower.kinds:
            refuse_caught(f"An error that {int(bad.sum())} of {bad.size} batch elements have")
        values = tuple(map(to_host, values))
        for place in np.argwhere(bad):
            index = tuple(map(int, place))
            thrower([x[index] if index else x for x in values], index)
    return []


def _type(*avals: ShapedArray, **params: Any) -> tuple[ShapedArray, ...]:
    return ()


def _batch(axis: Axis, values: Any, dims: Any, *, thrower: Thrower, **params: Any) -> Any:
    placed = [place_axis(v, d, axis, 0) for v, d in zip(values, dims, strict=True)]
    return raise_where(*placed, thrower=thrower, jaxpr=None), []


def _effects(**params: Any) -> Effects:
    return frozenset({RAISES})


def _staged(args: Any, params: Any) -> Any:
    """In a program the row is a test, and a call of Python behind it."""
    avals = tuple(map(typeof, args))
    return args, {**params, "jaxpr": _program(avals, params["thrower"])}


def some(bad: Any) -> Any:
    """Whether a boolean holds for some member."""
    axes = tuple(range(len(typeof(bad).shape)))
    return reduce_or(bad, axes=axes) if axes else bad


def _program(avals: tuple[ShapedArray, ...], thrower: Thrower) -> Jaxpr:
    def program(bad: Any, *values: Any) -> list[Any]:
        return raise_now(some(bad), bad, *values, thrower=thrower)

    return trace_closed(program, avals)


_REWRITE: Final = (
    "Let ftrace rewrite the function (ftrace.lift(f), or leave out lift=False), or compute what "
    "may raise outside of the `try`."
)


def _refuse_natively(bad: Any) -> None:
    """Ask for a rewritten function where a `try` of Python's might catch an undecided error.

    Raises:
        TracerBoolConversionError: there is one.
    """
    if isinstance(bad, Tracer) and bad.known(exact=False) is UNKNOWN and is_in_try():
        raise TracerBoolConversionError(
            f"A `try` may catch an error that {bad!r} decides about, which is not known while "
            f"{ctx.trace.name} traces the function.",
            _REWRITE,
        )


def may_be_caught() -> bool:
    """Whether a `try` of the function that is being traced may catch an error."""
    return any(c.asks for c in _here.collections) or is_in_try()


def refuse_caught(what: str) -> None:
    """Refuse an error that a `try` around a call may catch, and that cannot be told to it.

    A call that transformations treat as one operation keeps its errors to itself.

    Raises:
        TracerBoolConversionError: the function with the `try` is to be rewritten.
        LiftError: it has been.
    """
    said = f"{what} may be caught by a `try` around the call of a function with a rule of its own"
    if is_in_try():
        raise TracerBoolConversionError(f"{said}, while {ctx.trace.name} traces it.", _REWRITE)
    if any(c.asks for c in _here.collections):
        raise LiftError(
            f"{said}, to which what goes on inside is not known.",
            "Catch the error inside of that function, or call it without its rule.",
        )


def _beside() -> "Collection | None":
    """What collects for a trace above, whose derivative rules are evaluated here.

    Raises:
        LiftError: what is evaluated here is for all batch elements.
    """
    found = next((c for c in reversed(_here.collections) if c.asks), None)
    t = None if found is None or ctx.trace is EVAL else found.trace
    batched = False
    while t is not None and t is not ctx.trace:
        batched = batched or isinstance(t, BatchTrace)
        t = t.parent
    if t is None:
        return None
    if batched:
        refuse_caught("An error that some batch elements have")
    return found


class _Raising(Primitive):
    """A row that `collecting` takes, where that collects for the current trace."""

    __slots__ = ()

    def __call__(self, *args: Any, **params: Any) -> Any:
        found = innermost()
        if not params["thrower"].kinds:  # no handler's affair, nor that of members it catches
            if found is not None and found.asks:
                for noted in found.found[found.asked :]:
                    args = bitwise_and(args[0], bitwise_not(noted.bad)), *args[1:]
                found = None
        else:
            _refuse_natively(args[0])
            found = found or _beside()
        if found is not None:
            found.note(Noted(args[0], args[1:], params["thrower"]))
            return []
        try:
            return Primitive.__call__(self, *args, **params)
        except FtraceError as error:
            if not params["thrower"].kinds:
                remember(error)  # values are known, so that a handler of Python's may take it
            raise


_NOT_LINEAR: Final = Unsupported("An error that a cotangent decides about has no transpose.")

raise_where: Final = _Raising(
    name="raise_where",
    impl=_impl,
    type=_type,
    jvp=NONDIFFERENTIABLE,
    transpose=_NOT_LINEAR,
    batch=_batch,
    effects=_effects,
    stage=_staged,
    lower=Call(lambda avals, jaxpr, **_: jaxpr, "rule"),
    multiple=True,
    doc="Raise an error where a boolean holds; derivatives pass by.",
)

raise_now: Final = Primitive(
    name="raise_now",
    impl=lambda some, *operands, thrower: _impl(*operands, thrower=thrower),
    type=_type,
    jvp=NONDIFFERENTIABLE,
    transpose=_NOT_LINEAR,
    batch=lambda axis, values, dims, thrower: _batch(axis, values[1:], dims[1:], thrower=thrower),
    host=lambda thrower: "an error",
    effects=_effects,
    lower=Refusal(),
    multiple=True,
    doc="What a compiled `raise_where` calls, where its first operand holds.",
)


def fail_where(
    bad: Any, values: Sequence[Any], throw: Callable[..., Any], *kinds: type[BaseException]
) -> None:
    """Raise an error where a boolean holds.

    Args:
        bad: the boolean; a traced one decides when the function runs.
        values: what the error is made of.
        throw: a function of these values, of Python numbers where they are weak, that raises it.
            Its attribute `tells_origin` says whether the error has its cause and context.
        *kinds: the classes that it may raise; none if no handler is to catch what it raises, since
            without ftrace there would be no error.
    """
    weak = [typeof(x).weak for x in values]

    def thrown(*values: Any) -> None:
        throw(
            *(
                x.item() if w and issubclass(type(x), np.generic | np.ndarray) else x
                for w, x in zip(weak, values, strict=True)
            )
        )

    tells = getattr(throw, "tells_origin", None)
    thrower = Thrower(thrown, kinds, source.location(2), tells)
    raise_where(bad, *values, thrower=thrower, jaxpr=None)


def unasked() -> Any:
    """Which members have an error since the last question; False if none has been noted."""
    found = innermost()
    bads = [] if found is None else [some(n.bad) for n in found.found[found.asked :]]
    return functools.reduce(bitwise_or, bads) if bads else False


def bind_again(found: Iterable[Noted], followed: bool) -> None:
    """Bind what was taken out of a region.

    Args:
        found: the errors.
        followed: whether the members that have them leave by an exit: nobody need ask.
    """
    own = innermost()
    quiet = own is not None and not own.is_open
    for noted in found:
        again(noted)
    if own is not None and followed and quiet:
        own.asked = len(own.found)


def follow() -> None:
    """The errors that were noted for the current trace are exits from here on."""
    own = innermost()
    if own is not None:
        own.asked = len(own.found)


def again(noted: Noted) -> None:
    """Bind the row that was taken out, here."""
    raise_where(noted.bad, *noted.values, thrower=noted.thrower, jaxpr=None)


# ---------------------------------------------------------------------------------- taking it out


class Collection:
    """The rows of one trace that were noted instead of bound; NumPy is silent after the first.

    Args:
        trace: the trace.
        asks: whether questions follow them, since a handler may catch what they raise.
    """

    def __init__(self, trace: Any, asks: bool = True) -> None:
        self.trace = trace
        self.asks = asks
        self.found: list[Noted] = []
        self.asked = 0  # how many of them were asked about: lifting/staging/catching.py
        self._silence: ExitStack | None = None

    @property
    def is_open(self) -> bool:
        """Whether some were noted since the last question."""
        return self.asked < len(self.found)

    def interrupt(self) -> None:
        """Something that is not followed natively was met."""

    def note(self, noted: Noted) -> None:
        """Take one."""
        if self._silence is None:
            self._silence = ExitStack()
            self._silence.enter_context(quietly())
        self.found.append(noted)

    def end(self) -> None:
        """NumPy speaks again."""
        if self._silence is not None:
            self._silence.close()


class _Here(threading.local):
    def __init__(self) -> None:
        self.collections: list[Collection] = []
        self.depth = 0  # of functions in which errors are exits


_here = _Here()


def begin(into: Collection) -> None:
    """Begin to collect."""
    _here.collections.append(into)


def end(into: Collection) -> None:
    """Collect no more."""
    _here.collections.remove(into)
    into.end()


def innermost() -> Collection | None:
    """What collects for the current trace."""
    own = (c for c in reversed(_here.collections) if c.trace is ctx.trace)
    return next(own, None)


def is_following() -> bool:
    """Whether errors are exits of the functions that are called now."""
    return _here.depth > 0


@contextmanager
def following() -> Generator[None]:
    """While errors are exits."""
    _here.depth += 1
    try:
        yield
    finally:
        _here.depth -= 1


def in_region(run: Callable[[], R]) -> tuple[R, bool]:
    """What a region gives; its errors can be asked about meanwhile, and are bound at its end.

    Returns:
        The result, and whether all errors are exits of the region.
    """
    if not _here.depth:
        return run(), False
    own = Collection(ctx.trace)
    with collecting(own):
        result = run()
    for noted in own.found:
        again(noted)
    return result, not own.is_open


@contextmanager
def collecting(into: Collection) -> Generator[None]:
    """While `raise_where` is noted rather than bound in a trace."""
    begin(into)
    try:
        yield
    finally:
        end(into)


def errors_last(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is mapped: the first member that has an error is told when all are done."""

    def collected(*xs: Any) -> Any:
        found = Collection(ctx.trace, asks=False)
        begin(found)
        try:
            outs = fn(*xs)
        finally:
            end(found)
        if found.found:
            again(joined(found.found))
        return outs

    return collected


def noted_in(trace: Any) -> list[list[Noted]]:
    """What is collected for a trace."""
    return [c.found for c in _here.collections if c.trace is trace]


def pending() -> Iterator[Any]:
    """The booleans of errors in the running traces: such members should do nothing more."""
    t = ctx.trace
    while t is not None:
        for found in noted_in(t):
            yield from (noted.bad for noted in found)
        if t.stages:
            bad = _bound_in(t)
            if bad is not None:
                yield bad
        t = t.parent


def _bound_in(trace: Any) -> Any:
    """Whether one of the errors holds that a trace has bound so far; None if there are none.

    It is computed from what it was at the last question, so that every question costs the same.
    """
    read, last, bad = trace.errors
    eqns = trace.eqns
    if read and (len(eqns) < read or eqns[read - 1] is not last):
        read, bad = 0, None  # some were taken back
    inside, ctx.trace = ctx.trace, trace
    try:
        for eqn in eqns[read:]:
            if eqn.primitive is raise_where:
                atom = eqn.invars[0]
                own = some(JaxprTracer(trace, atom, atom.aval))
                bad = own if bad is None else bitwise_or(bad, own)
    finally:
        ctx.trace = inside
    trace.errors = len(eqns), eqns[-1] if eqns else None, bad
    return bad


def joined(found: Sequence[Noted]) -> Noted:
    """Several errors as one: of the first member that has any, the first."""
    if len(found) == 1:
        return found[0]
    bad = found[0].bad
    for noted in found[1:]:
        bad = bitwise_or(bad, noted.bad)
    parts = [(noted.thrower, len(noted.values)) for noted in found]

    def throw(values: Sequence[Any], index: tuple[int, ...]) -> None:
        supply = iter(values)
        for thrower, count in parts:
            holds, own = next(supply), [next(supply) for _ in range(count)]
            if holds:
                thrower(own, index)

    values = [x for noted in found for x in (noted.bad, *noted.values)]
    return Noted(bad, values, Several(throw, kinds_of(t for t, _ in parts)))


def kinds_of(throwers: Iterable[Thrower | Several]) -> tuple[type[BaseException], ...]:
    """The classes that some errors may be of."""
    kinds = [t.kinds for t in throwers]
    some_are_not_to_be_caught = any(kinds) and not all(kinds)
    others = (BaseException,) if some_are_not_to_be_caught else ()
    return tuple(dict.fromkeys((*(k for found in kinds for k in found), *others)))


class Errors(NamedTuple):
    """A `raise_where` among the results of what it was taken out of.

    Attributes:
        first: the place of its boolean among the results; its values follow.
        avals: their types.
    """

    first: int
    avals: tuple[ShapedArray, ...]
    thrower: Thrower | Several

    def at(self, first: int) -> "Errors":
        """The same at another place."""
        return self._replace(first=first)

    def noted(self, results: Sequence[Any]) -> Noted:
        """The same with the results."""
        bad, *values = results[self.first : self.first + len(self.avals)]
        return Noted(bad, values, self.thrower)

    def bind(self, results: Sequence[Any]) -> None:
        """Bind the row again, to the results."""
        again(self.noted(results))


@cached_on_jaxpr
def without_errors(jaxpr: Jaxpr) -> tuple[Jaxpr, list[Errors]]:
    """A jaxpr whose `raise_where` are results instead, behind its own; and which they are."""
    if RAISES not in jaxpr.effects:
        return jaxpr, []
    jaxpr = _opened(jaxpr)
    outs: list[Any] = list(jaxpr.outvars)
    errors: list[Errors] = []
    for eqn in jaxpr.eqns:
        if eqn.primitive is raise_where:
            bad, *values = (a.aval for a in eqn.invars)
            strong = aval(bad.shape, bool_)
            errors.append(Errors(len(outs), (strong, *values), eqn.params["thrower"]))
            outs += eqn.invars
    eqns = [e for e in jaxpr.eqns if e.primitive is not raise_where]
    rest = jaxpr.constvars, jaxpr.consts, jaxpr.names
    return Jaxpr(jaxpr.invars, eqns, outs, *rest), errors


def called(call: Primitive, operands: Sequence[Any], jaxpr: Jaxpr, **params: Any) -> list[Any]:
    """A call of a jaxpr in a trace, whose errors come behind it."""
    if jaxpr.effects != frozenset({RAISES}):
        return call(*operands, jaxpr=jaxpr, **params)
    clean, errors = without_errors(jaxpr)
    outs = call(*operands, jaxpr=clean, **params)
    for e in errors:
        e.bind(outs)
    return outs[: len(jaxpr.outvars)]


def _opened(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr without calls that may raise."""
    if not any(e.primitive is not raise_where and RAISES in e.effects for e in jaxpr.eqns):
        return jaxpr
    eqns, outs, consts = plain(jaxpr)
    return Jaxpr(
        jaxpr.invars, eqns, outs, [v for v, _ in consts], [x for _, x in consts], jaxpr.names
    )
