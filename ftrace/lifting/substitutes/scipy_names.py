"""SciPy's functions, classes and methods in lifted code: those of the same name that can be traced.

Much of SciPy makes plain arrays of its arguments and hands them to compiled code. What
`ftrace.scipy`, `ftrace.sparse` and `ftrace.implicit` have under the same name takes its place where
something is traced; there is no list of names. What they lack is lifted as users' functions are.
SciPy is not imported: a user who calls its functions brings them along.
"""

import importlib
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FrameType, FunctionType, MethodType, TracebackType
from typing import Any, Final

from ftrace.core import source
from ftrace.core.errors import ConcretizationTypeError, UnexpectedTracerError
from ftrace.core.trace import ctx, forget, refused
from ftrace.lifting.substitutes.array_functions import apply_where, lazy_select
from ftrace.lifting.substitutes.python import holds_tracer, is_unknown

_FUNCTIONS: Final = (FunctionType, BuiltinFunctionType)
_DISPATCHING: Final = "uarray"  # the functions of scipy.fft are objects of its
_SPARSE: Final = "scipy.sparse."
_NO: Final[tuple[Any, dict[str, Any]]] = ((), {})
_SOLVERS: Final = ("scipy.integrate", "scipy.optimize", "scipy.sparse.linalg")
"""Where functions call others, of which nobody knows what they return."""
_CALLS: Final = "ftrace.implicit.scipy_calls"
_OF_DISTRIBUTIONS: Final = frozenset(
    {"pdf", "logpdf", "pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf"}
)


def counterpart(fn: Any, lifted: Callable[[Any], Any]) -> Callable[..., Any] | None:
    """What to call instead of a function, class or method of SciPy; None of any other.

    Args:
        fn: whatever is called.
        lifted: what lifts a function that is called in its turn.
    """
    kind = type(fn)
    if kind is MethodType:
        return _method(fn, lifted) if _is_scipys(type(fn.__self__)) else None
    if kind in _FUNCTIONS or kind.__module__ == _DISPATCHING or issubclass(kind, type):
        return _named(fn) if _is_scipys(fn) else None
    if not _is_scipys(kind):
        return None
    return _object(fn) or (_named(fn) if hasattr(fn, "__name__") else None)


def _is_scipys(x: Any) -> bool:
    home = x.__module__
    return type(home) is str and home.startswith("scipy.")


def _named(fn: Any) -> Callable[..., Any] | None:
    if fn.__name__ == "apply_where" and ".array_api_extra." in fn.__module__:
        return _where_unknown(fn)
    if fn.__name__ == "_lazyselect":
        return _where_traced(fn, lazy_select, _NO)
    for theirs in _homes(fn):
        if theirs in _SOLVERS:
            ours = getattr(importlib.import_module(_CALLS), fn.__name__, None)
            if ours is not None:
                return _where_solved(fn, ours)
        ours = _face(theirs, fn.__name__)
        if ours is not None:
            return _where_traced(fn, ours, _NO)
    return None


def _homes(fn: Any) -> Iterator[str]:
    """The public modules of SciPy that have a function or class under its name."""
    name, parts = fn.__name__, fn.__module__.split(".")
    for n in range(len(parts), 1, -1):
        found = getattr(sys.modules.get(".".join(parts[:n])), name, None)
        if parts[n - 1][0] != "_" and (found is fn or getattr(found, "__wrapped__", None) is fn):
            yield ".".join(parts[:n])


def _face(theirs: str, name: str) -> Any:
    """What ftrace has under the name of something in a module of SciPy."""
    if theirs == "scipy.sparse":
        return getattr(importlib.import_module("ftrace.sparse"), name, None)
    found: Any = importlib.import_module("ftrace.scipy")
    for part in (*theirs.split(".")[1:], name):
        found = getattr(found, part, None)
        if found is None:
            return None
    return found


def advice(trace: TracebackType | None) -> str:
    """What to do about an error that passed through a function of SciPy's; "" for any other."""
    place = None
    while trace is not None:
        frame, instruction = trace.tb_frame, trace.tb_lasti
        found = _told(frame)
        if found:
            return f"In {found[0]}, called at {source.describe(place)}.\n{found[1]}"
        if not (source.is_internal(frame.f_code.co_filename) or _module(frame)[0] == "scipy"):
            place = frame.f_code, instruction
        trace = trace.tb_next
    return ""


def _module(frame: FrameType) -> list[str]:
    return str(frame.f_globals.get("__name__")).split(".")


def _told(frame: FrameType) -> tuple[str, str] | None:
    """The public function of SciPy's that a frame runs, and what to call instead."""
    name, parts = frame.f_code.co_name, _module(frame)
    if parts[0] != "scipy":
        return None
    if is_foreign_operator(frame):
        fix = "ftrace.sparse.as_sparse(A) meets traced arrays: use it in the place of A."
        return f"scipy.sparse's {name}", fix
    for n in range(len(parts), 1, -1):
        theirs = ".".join(parts[:n])
        public = getattr(sys.modules.get(theirs), name, None)
        if callable(public) and not any(part[0] == "_" for part in (*parts[:n], name)):
            ours = _told_name(theirs, name)
            if ours:
                fix = f"{ours} takes traced arrays: call it in the place of SciPy's function."
            else:
                fix = (
                    "It takes plain values: call it outside of the traced function, or say what "
                    "its derivative is, with ftrace.external."
                )
            return f"{theirs}.{name}", fix
    return None


def _told_name(theirs: str, name: str) -> str:
    """The public name of what ftrace has; "" for nothing."""
    if theirs in _SOLVERS and hasattr(importlib.import_module("ftrace.implicit"), name):
        return f"ftrace.implicit.{name}"
    if _face(theirs, name) is None:
        return ""
    return f"ftrace.{theirs.removeprefix('scipy.') if theirs == 'scipy.sparse' else theirs}.{name}"


def _where_solved(plain: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """Ours, where an argument is traced, or what a function among them returns."""

    def solve(*args: Any, **given: Any) -> Any:
        if any(map(is_traced, (args, given))):
            return ours(*args, **given)
        before = refused.get(ctx.trace)
        try:
            found = plain(*args, **given)
        except (ConcretizationTypeError, UnexpectedTracerError):
            pass
        except Exception:  # compiled code may raise another one, or none, where a call failed
            if refused.get(ctx.trace) is before:
                raise
        else:
            if refused.get(ctx.trace) is before:
                return found
        forget(before)
        return ours(*args, **given)

    return solve


def _method(fn: MethodType, lifted: Callable[[Any], Any]) -> Callable[..., Any] | None:
    """A method of a sparse matrix, an interpolator, or a distribution with its parameters."""
    holder: Any = fn.__self__
    adopt: Any = traceable if is_sparse(holder) else _adoption(type(holder))
    if adopt is traceable or (adopt is not None and _is_public(adopt.__self__, fn.__name__)):
        return _where_traced(
            fn, lambda *args, **given: getattr(adopt(holder), fn.__name__)(*args, **given), _NO
        )
    distribution = holder.dist if hasattr(holder, "args") else holder
    bound = (holder.args, holder.kwds) if distribution is not holder else ((), {})
    own = type(distribution).__name__.removesuffix("_gen")
    ours = _face("scipy.stats", getattr(distribution, "name", own))
    if ours is None and fn.__name__ in _OF_DISTRIBUTIONS:
        adopt = importlib.import_module("ftrace.scipy.stats.adopted_distributions").adopted
        ours = adopt(distribution, lifted)
    method = None if ours is None else getattr(ours, fn.__name__, None)
    return None if method is None else _where_traced(fn, method, bound)


def _where_unknown(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Our `apply_where`, if it is not known which elements are chosen."""

    def call(cond: Any, *args: Any, **options: Any) -> Any:
        return (apply_where if is_unknown(cond) else plain)(cond, *args, **options)

    return call


def _is_public(cls: type, name: str) -> bool:
    """Whether a class has a public method: one of ours that SciPy's object has, too."""
    return (name[0] != "_" or name == "__call__") and hasattr(cls, name)


def _object(x: Any) -> Callable[..., Any] | None:
    """A callable object, such as an interpolator, whose class has a traced counterpart."""
    adopt = _adoption(type(x))
    if adopt is None:
        return None
    return _where_traced(x, lambda *args, **given: adopt(x)(*args, **given), _NO)


def _adoption(kind: type) -> Callable[[Any], Any] | None:
    """What makes one of our objects of an object of SciPy's of some class."""
    faces = (_face(theirs, kind.__name__) for theirs in _homes(kind))
    return next((face.from_scipy for face in faces if hasattr(face, "from_scipy")), None)


def is_sparse(x: Any) -> bool:
    """Whether it is a sparse matrix of SciPy's."""
    return str(type(x).__module__).startswith(_SPARSE) and hasattr(type(x), "tocsr")


def is_foreign_operator(frame: FrameType) -> bool:
    """Whether a frame runs an operator of SciPy's sparse matrices."""
    home = str(frame.f_globals.get("__name__"))
    return home.startswith(_SPARSE) and frame.f_code.co_name.startswith("__")


def traceable(x: Any) -> Any:
    """A sparse matrix of SciPy's as one that multiplies traced values; anything else as it is."""
    return importlib.import_module("ftrace.sparse").as_sparse(x) if is_sparse(x) else x


def is_traced(x: Any) -> bool:
    """Whether a value is or holds a traced one, a sparse matrix with traced data included."""
    return holds_tracer(x) or any(
        hasattr(type(part), "__traced__") for part in (x if type(x) is tuple else (x,))
    )


def _where_traced(
    plain: Callable[..., Any], ours: Callable[..., Any], bound: tuple[Any, dict[str, Any]]
) -> Callable[..., Any]:
    """Ours, of what is bound too, where something is traced."""
    more, options = bound

    def call(*args: Any, **given: Any) -> Any:
        if any(map(is_traced, (args, given, tuple(more), options))):
            return ours(*args, *more, **given, **options)
        return plain(*args, **given)

    return call
