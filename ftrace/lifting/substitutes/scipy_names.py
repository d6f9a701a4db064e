"""SciPy's functions in lifted code: special functions, matrices, distributions and solvers.

They make plain arrays of their arguments, which fails where one is traced; lifted, they are those
of `ftrace.scipy` and `ftrace.implicit`. SciPy is not imported: a user who calls its functions
brings them along.
"""

import importlib
import sys
from collections.abc import Callable
from types import FrameType, FunctionType, MethodType, TracebackType
from typing import Any, Final

from ftrace.core.errors import ConcretizationTypeError, UnexpectedTracerError
from ftrace.core.trace import ctx, forget, refused
from ftrace.lifting.substitutes.python import holds_tracer


def counterpart(fn: Any) -> Callable[..., Any] | None:
    """What to call instead of a function or method of SciPy; None of any other."""
    kind = type(fn)
    if kind.__module__ == _DISPATCHING:
        return _function(fn)
    if kind is not FunctionType and kind is not MethodType:
        return _constructor(fn) if issubclass(kind, type) else None
    home = (fn if kind is FunctionType else type(fn.__self__)).__module__
    if type(home) is not str or not home.startswith("scipy."):
        return None
    return _function(fn) if kind is FunctionType else _method(fn)


_DISPATCHING: Final = "uarray"  # the functions of scipy.fft are objects of its
_SPARSE: Final = "scipy.sparse."
_NO: Final[tuple[Any, dict[str, Any]]] = ((), {})
_HOMES: Final = {
    "scipy.fft": ("ftrace.scipy.fft", False),
    "scipy.sparse": ("ftrace.sparse", False),
    "scipy.special": ("ftrace.scipy.special", False),
    "scipy.linalg": ("ftrace.scipy.linalg", False),
    "scipy.integrate": ("ftrace.implicit.scipy_calls", True),
    "scipy.optimize": ("ftrace.implicit.scipy_calls", True),
    "scipy.sparse.linalg": ("ftrace.implicit.scipy_calls", True),
}
"""By module of SciPy: the module with the same names, and whether its functions call others."""


def _function(fn: Any) -> Callable[..., Any] | None:
    name = fn.__name__
    for theirs, (home, calls) in _HOMES.items():
        if getattr(sys.modules.get(theirs), name, None) is fn:
            ours = getattr(importlib.import_module(home), name, None)
            if ours is None:
                return None
            return _where_solved(fn, ours) if calls else _where_traced(fn, ours, _NO)
    return None


def counterpart_named(trace: TracebackType | None) -> str:
    """The function of ours for a function of SciPy's that an error passed through; "" for none."""
    while trace is not None:
        frame, trace = trace.tb_frame, trace.tb_next
        home = str(frame.f_globals.get("__name__"))
        name = frame.f_code.co_name
        for theirs, (ours, calls) in _HOMES.items():
            if calls or not home.startswith(f"{theirs}."):
                continue
            public = getattr(sys.modules.get(theirs), name, None)
            if public is not None and hasattr(importlib.import_module(ours), name):
                return f"{ours}.{name}"
    return ""


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


def _method(fn: MethodType) -> Callable[..., Any] | None:
    """A method of a sparse matrix, or of a distribution, perhaps with its parameters."""
    holder: Any = fn.__self__
    if is_sparse(holder):
        return _where_traced(fn, lambda *args: getattr(traceable(holder), fn.__name__)(*args), _NO)
    distribution = getattr(holder, "dist", holder)
    bound = (holder.args, holder.kwds) if distribution is not holder else ((), {})
    name = type(distribution).__name__.removesuffix("_gen")
    ours = getattr(importlib.import_module("ftrace.scipy.stats"), name, None)
    method = getattr(ours, fn.__name__, None)
    return None if method is None else _where_traced(fn, method, bound)


def _constructor(cls: type) -> Callable[..., Any] | None:
    """A class of sparse matrices, where its data are traced."""
    if not str(cls.__module__).startswith(_SPARSE):
        return None
    ours = getattr(importlib.import_module("ftrace.sparse"), cls.__name__, None)
    return None if ours is None else _where_traced(cls, ours, _NO)


def is_sparse(x: Any) -> bool:
    """Whether it is a sparse matrix of SciPy's."""
    return str(type(x).__module__).startswith(_SPARSE)


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
