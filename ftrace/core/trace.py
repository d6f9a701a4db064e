"""Traces and tracers: the stackless core.

There is one current trace per thread (`ctx.trace`). A transformation makes a trace whose
`parent` is the trace current at that moment, runs the user's function under it with `run`, and
the trace dies when the function returns. A primitive applied anywhere goes to the current
trace's one verb, `process`; a rule always runs with the parent as the current trace. Nesting is
structure (parent pointers), identity is the tag: nothing is numbered and nothing can invert.

A foreign tracer can only travel down to the parent, so one check at the bottom (`EVAL`, and the
staging trace) catches every leak. See `primitive.py` for `bind`, `interpreters/` for the traces.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.core import avals, device
from ftrace.core.avals import ShapedArray
from ftrace.core.device import PLAIN
from ftrace.core.errors import (
    ConcretizationTypeError,
    DeviceError,
    FtraceError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)


class Trace:
    """One running transformation: a parent and a verb."""

    __slots__ = ("__weakref__", "alive", "parent")
    name = "trace"
    stages = False  # whether it records a program that runs later

    def __init__(self, parent: "Trace | None") -> None:
        self.parent: Any = parent
        self.alive = True

    @property
    def home(self) -> "Trace":
        """The trace of what this one makes of known operands."""
        return self

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Apply a primitive to operands, some of which are this trace's tracers."""
        raise NotImplementedError

    def lift(self, value: Any) -> Any:
        """A new tracer of this trace for a value from outside it."""
        raise NotImplementedError


class _Unknown:
    __slots__ = ()


UNKNOWN: Final = _Unknown()  # what `known` answers when there is no value yet
FROZEN: Final = _Unknown()  # the alias slot of arguments: an object that may not be written


class Tracer:
    """A value inside a transformation. Behaves as the array it stands for.

    A tracer object is also a *cell*: writing `x[i] = v` replaces the object's slots by those of
    the functionally updated value. `alias` says whose view it is, is left unset on all others,
    and is `FROZEN` on arguments. Operators and methods are installed by `numpy/protocols.py`.
    """

    __slots__ = ("__weakref__", "alias", "owner")
    __array_priority__ = 1000
    owner: Any
    alias: Any

    @property
    def aval(self) -> ShapedArray:
        raise NotImplementedError

    def known(self, exact: bool) -> Any:
        """The concrete value, or UNKNOWN; `exact` also demands that no derivative is lost."""
        return UNKNOWN

    def fresh(self) -> Any:
        """A new object for the same value: what crosses a boundary is never the user's cell."""
        new = object.__new__(type(self))
        for slot in self.slots:
            setattr(new, slot, getattr(self, slot))
        return new

    def adopt(self, other: Any) -> None:
        """Become `other`: the write of a cell."""
        for slot in self.slots:
            setattr(self, slot, getattr(other, slot))

    slots: tuple[str, ...] = ("owner",)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        return self.aval.size

    def __bool__(self) -> bool:
        value = self.known(exact=False)
        if value is UNKNOWN:
            answer = None if decide is None else decide(self)
            if answer is not None:
                return answer
            raise TracerBoolConversionError(
                f"Python asked whether {self!r} is true, which is not known while "
                f"{self.owner.name} traces the function.",
                "Let ftrace rewrite the decision (ftrace.lift(f), or leave out lift=False), use "
                "ftrace.lax.cond, ftrace.lax.while_loop or numpy.where, or make the argument "
                "static (static_argnums).",
            )
        return bool(device.to_host(value))

    def _exactly(self, wanted: str, error: type[ConcretizationTypeError], fix: str) -> Any:
        value = self.known(exact=True)
        if value is UNKNOWN:
            if self.known(exact=False) is UNKNOWN:
                why = f"which has none while {self.owner.name} traces the function"
            else:
                why = "which would drop its derivative"
            raise error(f"{wanted} needs the plain value of {self!r}, {why}.", fix)
        return value

    def _numbers(self, wanted: str) -> Any:
        value = self._exactly(wanted, TracerArrayConversionError, _FLOAT_FIX)
        return np.asarray(device.to_host(value))

    def __int__(self) -> int:
        return int(device.to_host(self._exactly("int()", TracerIntegerConversionError, _INT_FIX)))

    __trunc__ = __int__

    def __index__(self) -> int:
        value = self._exactly(
            "A shape, a range or a list index", TracerIntegerConversionError, _INT_FIX
        )
        return device.to_host(value).__index__()

    def __float__(self) -> float:
        return float(self._numbers("float()"))

    def __complex__(self) -> complex:
        return complex(self._numbers("complex()"))

    def item(self) -> Any:
        """The Python scalar, where it is known and no derivative is lost."""
        return self._numbers("item()").item()

    def tolist(self) -> Any:
        """The nested list, where it is known and no derivative is lost."""
        return self._numbers("tolist()").tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        value = self._exactly("Making a plain array", TracerArrayConversionError, _ARRAY_FIX)
        if device.on_device(value):
            raise DeviceError(
                f"A NumPy array was asked of {self.aval!r}, whose elements are on a GPU.",
                "Stay on the GPU with ftrace.numpy, or move the argument before the call: "
                "ftrace.device_get(x).",
            )
        return np.array(value, dtype=dtype)

    def __hash__(self) -> int:
        raise TypeError(f"unhashable type: {type(self).__name__}; tracers are compared by value")

    def __repr__(self) -> str:
        value = self.known(exact=False)
        text = "" if value is UNKNOWN else f", value={np.asarray(device.to_host(value)).tolist()!r}"
        return f"{type(self).__name__}<{self.aval!r}{text}>"


_INT_FIX = (
    "Shapes and Python indices must be known: make the argument static (static_argnums), or index "
    "with numpy.take or x[i], which accept traced integers. ftrace.lift(f) lets them index lists "
    "and bound loops, unless lift=False."
)
_LIFT_FIX = " In functions of your own ftrace.lift(f) does this for you, unless lift=False."
_FLOAT_FIX = (
    "Keep it an array: numpy.sin instead of math.sin, no float() on the way, and an array made by "
    "ftrace.numpy.zeros instead of a plain one that is filled (plain[i] = t)." + _LIFT_FIX
)
_ARRAY_FIX = (
    "np.array([t, 1.0]), np.full(3, t) and plain[i] = t convert: use ftrace.numpy.array or stack, "
    "ftrace.numpy.full, and ftrace.numpy.zeros for an array that is filled later." + _LIFT_FIX
)


# (tracer) -> the truth that a run over several paths takes for it, or None: lifting/paths.py
decide: Callable[[Tracer], bool | None] | None = None


class EvalTrace(Trace):
    """The bottom: runs a primitive's implementation on plain values."""

    __slots__ = ()
    name = "evaluation"

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        for a in args:
            if type(a) not in PLAIN:
                break
        else:
            return primitive.impl(*args, **params)
        for a in args:
            if isinstance(a, Tracer):
                raise leaked(a, primitive.name)
        return device.evaluate(primitive, args, params)

    def lift(self, value: Any) -> Any:
        return value


EVAL: Final = EvalTrace(None)


class _Context(threading.local):
    trace: Any = EVAL
    lift: Any = None  # how users' functions are lifted (lifting/calls.py), while lifted code runs
    restarts: Any = None  # who would start again lifted (lifting/restart.py), while one may


ctx: Final = _Context()
running: Final[set[Trace]] = set()  # of all threads; while it is empty `ctx.trace` is EVAL


def lifted(fn: Any) -> Any:
    """A user's function as it is to be called now: lifted, if lifted code called ftrace."""
    return fn if ctx.lift is None else ctx.lift(fn)


def leaked(tracer: Tracer, where: str) -> UnexpectedTracerError:
    """The error for a tracer met where it cannot belong."""
    if tracer.owner.alive:
        what = (
            f"{where} was given {tracer.aval!r}, a traced value of a {tracer.owner.name} that does "
            "not run here: in another thread, in a custom rule that closes over the value, or "
            "under ensure_compile_time_eval."
        )
        fix = "Pass the value as an argument instead of closing over it."
    else:
        what = (
            f"{where} was given {tracer.aval!r}, a traced value of a {tracer.owner.name} that has "
            "ended: its value existed only while that ran."
        )
        fix = (
            "It escaped through a global, an attribute, a list or a closure. Return it from the "
            "transformed function instead; has_aux=True returns values beside the result."
        )
    return UnexpectedTracerError(what, fix)


def run(trace: Trace, fn: Callable[..., Any], *args: Any) -> Any:
    """Call `fn` with `trace` as the current trace; restore whatever happens.

    The caller ends the trace (`trace.alive = False`) once it has unpacked the results.
    """
    before = ctx.trace
    ctx.trace = trace
    entered = trace is not EVAL and trace not in running
    if entered:
        running.add(trace)
        device.watch()
    try:
        return fn(*args)
    except ValueError as error:
        if isinstance(error.__cause__, FtraceError):  # NumPy hides ours: plain[0] = tracer
            raise error.__cause__ from None
        raise
    finally:
        ctx.trace = before
        if entered:
            running.discard(trace)


def is_within(trace: Trace, inner: Trace) -> bool:
    """Whether `trace` is `inner` or one of its ancestors (so that its tracers may be captured)."""
    t: Any = inner
    while t is not None:
        if t is trace:
            return True
        t = t.parent
    return False


def is_staged(trace: Trace) -> bool:
    """Whether what `trace` does becomes part of a recorded program.

    Arrays of the user are then read by reference at every run of the program: a copy made now
    would freeze them at what they are while tracing.
    """
    t: Any = trace
    while t is not None:
        if t.stages:
            return True
        t = t.parent
    return False


def foreign(value: Any, parent: Trace, where: str) -> Any:
    """A result that is not the ending trace's own: a new object for it, if it may be captured."""
    if isinstance(value, Tracer):
        if not value.owner.alive or not is_within(value.owner, parent):
            raise leaked(value, where)
        return value.fresh()
    if device.is_array(value) and not is_staged(parent):
        return device.copied(value)  # the user's own array: the result must not share it
    return value


def renew(value: Any) -> Any:
    """A value that crosses a boundary: a cell that users hold never is what a trace has stored."""
    return value.fresh() if isinstance(value, Tracer) else value


def register(cls: type[Tracer]) -> None:
    """Make `typeof` know a tracer class."""
    avals.TYPEOF[cls] = _tracer_aval


def _tracer_aval(x: Any) -> ShapedArray:
    return x.aval
