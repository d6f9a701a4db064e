"""Traces and tracers: the stackless core.

There is one current trace per thread (`ctx.trace`). A transformation makes a trace whose
`parent` is the trace current at that moment, runs the user's function under it with `run`, and
the trace dies when the function returns. A primitive applied anywhere goes to the current
trace's one verb, `process`; a rule always runs with the parent as the current trace. Nesting is
structure (parent pointers), identity is the tag: nothing is numbered and nothing can invert.

A foreign tracer can only travel down to the parent, so one check at the bottom (`EVAL`, and the
staging trace) catches every leak. See `primitive.py` for `bind`, `interpreters/` for the traces.
"""

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from ftrace.core import advice, avals, device, errors, hooks, source
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
    brief,
)
from ftrace.core.printed import keep_from_printing
from ftrace.core.traced_text import TracedText

FEW: Final = 20  # numbers that are all shown


def numbers(value: Any) -> str:
    """An array in a message: a list, summarised as NumPy does where it is long."""
    array = np.asarray(value)
    if array.size <= FEW:
        return repr(array.tolist())
    return brief(np.array2string(array, separator=", ", threshold=FEW))


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


class Frozen:
    """The alias slot of arguments: an object that may not be written."""

    __slots__ = ("holds_array",)

    def __init__(self, holds_array: bool) -> None:
        self.holds_array = holds_array  # of rank 0: whether it is an array, and no scalar


FROZEN: Final = Frozen(False)
FROZEN_ARRAY: Final = Frozen(True)


def freeze(x: "Tracer", value: Any) -> None:
    """Make a tracer an argument: it stands for a value of the caller, and may not be written."""
    x.alias = FROZEN_ARRAY if value.__class__ is np.ndarray else FROZEN


def is_on_device(x: Any) -> bool:
    """Whether a value, traced or not, is an array of a device."""
    return x.is_on_device if isinstance(x, Tracer) else device.on_device(x)


def holds_array(x: Any) -> bool:
    """Whether a value, traced or not, is an array: of rank 0, no scalar."""
    if not isinstance(x, Tracer):
        return device.is_array(x)
    cls = stands_for(x)
    return cls is np.ndarray or cls in device.LIBRARIES


def is_cell(x: Any) -> bool:
    """Whether `x += 1` writes into a value, traced or not, instead of making a new one.

    Of rank 0 that are arrays, and no scalars; on a device, where results are arrays, only those
    that NumPy would make arrays, too: `loss += term` means the same everywhere.
    """
    if not isinstance(x, Tracer):
        return device.is_array(x)
    return bool(x.aval.shape) or getattr(x, "alias", FROZEN).holds_array


def _is_writable(x: "Tracer") -> bool:
    """Whether writes of the user's function may reach a traced array."""
    return is_cell(x) and type(getattr(x, "alias", None)) is not Frozen


def stands_for(x: "Tracer") -> type:
    """The type of a traced value where it is not traced."""
    if device.LIBRARIES and x.is_on_device:
        return next(iter(device.LIBRARIES))
    if is_cell(x):
        return np.ndarray
    a = x.aval
    return _PYTHON[a.dtype.kind] if a.weak else a.dtype.type


class Tracer:
    """A value inside a transformation. Behaves as the array it stands for.

    A tracer object is also a *cell*: writing `x[i] = v` replaces the object's slots by those of
    the functionally updated value. `alias` says whose view it is, is left unset on all others,
    and is `Frozen` on arguments. Of rank 0 are arrays and NumPy's scalars alike: the alias says
    which (`holds_array`). Operators and methods are installed by `numpy/protocols.py`.
    """

    __slots__ = ("__weakref__", "alias", "owner")
    __array_priority__ = 1000
    owner: Any
    alias: Any

    @property
    def aval(self) -> ShapedArray:
        raise NotImplementedError

    # What isinstance, singledispatch and class patterns ask. ftrace itself asks for the real type:
    # `issubclass(type(x), np.ndarray)`, as tests/core demand. CuPy's C code asks, too, whether an
    # operand is one of NumPy's or CuPy's arrays, and reads the memory of one that says yes.
    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The type of the value where it is not traced; the tracer's own for an array of a GPU."""
        cls = stands_for(self)
        return type(self) if cls in device.LIBRARIES else cls

    @property
    def is_on_device(self) -> bool:
        """Whether the value is an array of a device, as far as that is known."""
        below = self.slots[1:2]  # the slot of the value that is traced
        return bool(below) and is_on_device(getattr(self, *below))

    def known(self, exact: bool) -> Any:
        """The concrete value, or UNKNOWN; `exact` also demands that no derivative is lost."""
        return UNKNOWN

    def each(self) -> list[Any] | None:
        """The numbers of all members, where it has several and they are known."""
        return None

    def fresh(self) -> Any:
        """A new object for the same value: what crosses a boundary is never the user's cell."""
        x = now(self) if moved else self
        new = object.__new__(type(x))
        for slot in x.slots:
            setattr(new, slot, getattr(x, slot))
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
        value = now(self).known(exact=False)
        if value is UNKNOWN:
            answer = hooks.decide(self)
            if answer is not None:
                return answer
            raise TracerBoolConversionError(
                f"Python asked whether {self!r} is true, which is not known while "
                f"{self.owner.name} traces the function.",
                "Use ftrace.lax.cond, ftrace.lax.while_loop or numpy.where, or make the argument "
                "static (static_argnums)." + _lift_advice(TracerBoolConversionError),
            )
        return bool(device.to_host(value))

    def _exactly(self, wanted: str, error: type[ConcretizationTypeError], fix: str) -> Any:
        value = now(self).known(exact=True)
        if value is UNKNOWN:
            if now(self).known(exact=False) is UNKNOWN:
                why = f"which has none while {self.owner.name} traces the function"
            else:
                why = "which would drop its derivative"
            what = f"{wanted} needs the plain value of {self!r}, {why}."
            raise error(what, fix + _lift_advice(error))
        return value

    def _numbers(self, wanted: str) -> Any:
        value = self._exactly(wanted, TracerArrayConversionError, advice.FLOAT_FIX)
        return np.asarray(device.to_host(value))

    def exactly(self, wanted: str) -> Any:
        """The Python number, where it is known and no derivative is lost."""
        value = self._exactly(wanted, ConcretizationTypeError, advice.NUMBER_FIX)
        return np.asarray(device.to_host(value)).item()

    def __int__(self) -> int:
        return int(
            device.to_host(self._exactly("int()", TracerIntegerConversionError, advice.INT_FIX))
        )

    __trunc__ = __int__

    def __index__(self) -> int:
        wanted, fix = "A shape, a range or a list index", advice.INT_FIX
        if self.aval.dtype.kind in "fc":
            wanted, fix = "A repeated list, or an index,", advice.LIST_FIX
        value = self._exactly(wanted, TracerIntegerConversionError, fix)
        return device.to_host(value).__index__()

    def __float__(self) -> float:
        return float(self._numbers("float()"))

    def __complex__(self) -> complex:
        return complex(self._numbers("complex()"))

    def item(self, *place: Any) -> Any:
        """The Python scalar, where it is known and no derivative is lost."""
        return self._numbers("item()").item(*place)

    def tolist(self) -> Any:
        """The nested list, where it is known and no derivative is lost."""
        return self._numbers("tolist()").tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        try:
            value = self._exactly(
                "Making a plain array", TracerArrayConversionError, advice.ARRAY_FIX
            )
        except TracerArrayConversionError as error:
            keep_from_printing(error)
            raise
        if not copy and ctx.restarts is not None and ctx.lift is None and _is_writable(self):
            raise TracerArrayConversionError(  # lifted, np.asarray gives the array itself
                f"A plain array was asked of {self!r}, which {self.owner.name} traces: writes to "
                "one would not reach the other.",
                advice.ARRAY_FIX + _lift_advice(TracerArrayConversionError),
            )
        if device.on_device(value):
            raise DeviceError(
                f"A NumPy array was asked of {self.aval!r}, whose elements are on a GPU.",
                "Stay on the GPU with ftrace.numpy, or move the argument before the call: "
                "ftrace.device_get(x).",
            )
        found = np.array(value, dtype=dtype)
        if not copy and _is_writable(self):
            found.flags.writeable = False  # what is written to a copy would not reach the array
        return found

    def __hash__(self) -> int:
        if is_cell(self):
            raise TypeError(f"unhashable type: '{stands_for(self).__module__}.ndarray'")
        value = self._exactly("A hash", ConcretizationTypeError, advice.HASH_FIX)
        return hash(np.asarray(device.to_host(value)).item())

    def __reduce_ex__(self, protocol: Any) -> Any:
        value = self._exactly("pickle", ConcretizationTypeError, advice.PICKLE_FIX)
        return value.__reduce_ex__(protocol)

    def __format__(self, spec: str) -> str:
        value = self.known(exact=False)
        if value is UNKNOWN:
            raise ConcretizationTypeError(
                f"A text was asked of {self!r}, which has no value while {self.owner.name} traces "
                "the function.",
                'Write ftrace.debug.print("x = {}", x), which prints at every run, or repr(x).',
            )
        text = format(device.to_host(value), spec)
        return text if self.known(exact=True) is not UNKNOWN else TracedText(text)

    def __str__(self) -> str:
        return format(self)

    def __repr__(self) -> str:
        value = self.known(exact=False)
        text = "" if value is UNKNOWN else f", value={numbers(device.to_host(value))}"
        return f"{type(self).__name__}<{self.aval!r}{text}>"


_PYTHON: Final = {"b": bool, "i": int, "f": float, "c": complex}


def _lift_advice(error: type[ConcretizationTypeError]) -> str:
    """What lifting could do about a value that is not known: nothing where it has been done."""
    counts = error is TracerIntegerConversionError
    if ctx.lift is None or ctx.lift is as_it_is:
        does = "lets them index lists and bound loops" if counts else "does this for you"
        how = "." if ctx.lift is None else ": leave out lift=False."
        return f" In functions of your own ftrace.lift(f) {does}{how}"
    if counts:
        return ""
    others = error is TracerBoolConversionError and source.asks_for_others(2)
    return advice.COMPARED if others else advice.NOT_REWRITTEN


# id of a cell -> what it holds in the region of lifted code that wrote it
# (lifting/state/local_state.py); empty as a rule. The cell itself keeps what it holds outside.
moved: Final[dict[int, Tracer]] = {}


def now(x: Any) -> Any:
    """What stands for a cell in the running region."""
    return moved.get(id(x), x)


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
    lift: Any = (
        None  # how users' functions are lifted (lifting/lifted_calls.py), while lifted code runs
    )
    operands: Any = None  # a set, for (id of an array's owner, place) of what equations read
    chosen: Any = None  # (array, digest) of plain arrays that are one side of a traced decision
    restarts: Any = None  # who would start again lifted (lifting/restart.py), while one may


ctx: Final = _Context()
running: Final[set[Trace]] = set()  # of all threads; while it is empty `ctx.trace` is EVAL


def lifted(fn: Any) -> Any:
    """A user's function as it is to be called now: lifted, if lifted code called ftrace."""
    return fn if ctx.lift is None else ctx.lift(fn)


def as_it_is(fn: Any) -> Any:
    """The function itself: what `ctx.lift` is under `lift=False`."""
    return fn


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


SHALLOW: Final = 16  # transformations inside each other for which Python's stack is enough
FRAMES: Final = 30  # that one of them takes at most, with what is done later for what it staged
DEEPEST: Final = 400
BYTES: Final = 20 << 10  # of the C stack that one of them may take


def _make_room(depth: int) -> None:
    """Let Python's stack grow with the transformations inside each other, if the C stack bears it.

    A function that calls itself takes one frame a call, a jitted one fifteen: what plain Python
    runs must run here, too. The limit stays, as what was staged is walked through later.
    """
    wanted = 1000 + FRAMES * min(depth, DEEPEST)
    if sys.getrecursionlimit() < wanted and _stack_size() > BYTES * min(depth, DEEPEST):
        sys.setrecursionlimit(wanted)


def _stack_size() -> int:
    """Bytes of this thread's C stack, as far as that can be known."""
    own = threading.current_thread() is not threading.main_thread()
    if own and (threading.stack_size() or sys.platform != "linux"):
        return threading.stack_size()
    try:
        import resource
    except ImportError:  # Windows: a megabyte
        return 0
    size = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return 8 << 20 if size == resource.RLIM_INFINITY else size


def run(trace: Trace, fn: Callable[..., Any], *args: Any) -> Any:
    """Call `fn` with `trace` as the current trace; restore whatever happens.

    The caller ends the trace (`trace.alive = False`) once it has unpacked the results.

    Raises:
        FtraceError: `fn` was refused something because it is traced, and caught that.
    """
    before = ctx.trace
    ctx.trace = trace
    entered = trace is not EVAL and trace not in running
    if entered:
        running.add(trace)
        device.watch()
        if len(running) > SHALLOW:
            _make_room(len(running))
    try:
        result = fn(*args)
        if entered and refused and trace in refused:
            raise caught(refused[trace])
        return result
    except Exception as error:
        meant = meant_by(error, trace)
        if meant is error:
            raise
        raise meant from None
    finally:
        ctx.trace = before
        if entered:
            running.discard(trace)
            if refused:
                remember(refused.pop(trace, None))


# ---------------------------------------------------------------------------------- refusals

refused: Final[dict[Trace, FtraceError]] = {}
"""The first error by which a running trace refused something; empty unless that happened."""


def remember(error: FtraceError | None) -> None:
    """Remember an error of tracing: who catches it must not return a result."""
    if error is not None and ctx.trace in running:
        refused.setdefault(ctx.trace, error)


errors.made = remember


@contextmanager
def attempting() -> Generator[None]:
    """What is refused inside the block is not remembered: whoever attempts it knows another way."""
    before = refused.get(ctx.trace)
    try:
        yield
    except Exception:
        forget(before)
        raise


def forget(before: FtraceError | None) -> None:
    """Forget what the current trace was refused since `refused.get(ctx.trace)` was `before`."""
    if before is None:
        refused.pop(ctx.trace, None)


def caught(error: FtraceError) -> FtraceError:
    """An error that the traced function caught, once more."""
    error.add_note(
        "The traced function caught this error, and what it computed instead may not be what it "
        "computes on plain values. isinstance(x, ftrace.Tracer) tells whether a value is traced."
    )
    return error


def meant_by(error: Exception, trace: Trace) -> Exception:
    """What an error of a traced function comes from."""
    if isinstance(error, UnexpectedTracerError):
        first = refused.get(trace, error)  # the function may have gone on after one that it caught
        return error if isinstance(first, UnexpectedTracerError) else first
    if isinstance(error, FtraceError):
        return error
    if isinstance(error, ValueError) and isinstance(error.__cause__, FtraceError):
        return error.__cause__  # NumPy hides ours: plain[0] = tracer
    return refused.get(trace, error)


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
