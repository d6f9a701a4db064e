"""SciPy's functions in lifted code: special functions that are no ufuncs, and distributions.

They make plain arrays of their arguments, which fails where one is traced; lifted, they are those
of `ftrace.scipy`. SciPy is not imported: a user who calls its functions brings them along.
"""

import importlib
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from ftrace.lifting.substitutes.python import holds_tracer


def counterpart(fn: Any) -> Callable[..., Any] | None:
    """What to call instead of a function or method of SciPy; None of any other."""
    kind = type(fn)
    if kind is not FunctionType and kind is not MethodType:
        return None
    home = (fn if kind is FunctionType else type(fn.__self__)).__module__
    if type(home) is not str or not home.startswith("scipy."):
        return None
    return _function(fn) if kind is FunctionType else _method(fn)


def _function(fn: FunctionType) -> Callable[..., Any] | None:
    name = fn.__name__
    if getattr(sys.modules.get("scipy.special"), name, None) is not fn:
        return None
    ours = getattr(importlib.import_module("ftrace.scipy.special"), name, None)
    return None if ours is None else _where_traced(fn, ours, ((), {}))


def _method(fn: MethodType) -> Callable[..., Any] | None:
    """A method of a distribution, or of one with its parameters."""
    holder: Any = fn.__self__
    distribution = getattr(holder, "dist", holder)
    bound = (holder.args, holder.kwds) if distribution is not holder else ((), {})
    name = type(distribution).__name__.removesuffix("_gen")
    ours = getattr(importlib.import_module("ftrace.scipy.stats"), name, None)
    method = getattr(ours, fn.__name__, None)
    return None if method is None else _where_traced(fn, method, bound)


def _where_traced(
    plain: Callable[..., Any], ours: Callable[..., Any], bound: tuple[Any, dict[str, Any]]
) -> Callable[..., Any]:
    """Ours, of what is bound too, where something is traced."""
    more, options = bound

    def call(*args: Any, **given: Any) -> Any:
        if any(map(holds_tracer, (args, given, tuple(more), options))):
            return ours(*args, *more, **given, **options)
        return plain(*args, **given)

    return call
