"""The protocols by which plain NumPy drives tracers, and what is installed on `Tracer`.

`np.sin(t)` comes in through `__array_ufunc__`, `np.concatenate([t, x])` through
`__array_function__`; both find the implementations that `ftrace.numpy` uses itself. A NumPy
function without one raises `RuleError`: never an array of objects. Operators, methods and
properties are tables (`tracer_operators.py`, `methods.py`, `cells.py`) set on the class once.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ftrace.core.device import LIBRARIES
from ftrace.core.errors import RuleError, TracerArrayConversionError
from ftrace.core.trace import EVAL, Tracer, ctx, leaked, lifted
from ftrace.numpy import ufunc_methods
from ftrace.numpy.promote import DEFERRED, find_special, find_traced
from ftrace.numpy.refusing import attempt
from ftrace.numpy.temporaries import release_all, release_arguments
from ftrace.numpy.ufuncs import UFUNCS


def array_ufunc(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """NumPy's door for ufuncs and their methods."""
    if ctx.trace is EVAL:
        raise leaked(self, ufunc.__name__)
    if LIBRARIES:
        release_all(inputs, "ufunc")
    if method != "__call__":
        return ufunc_methods.call(ufunc, method, inputs, kwargs)
    function = UFUNCS.get(ufunc)
    if function is None:
        function = find_special(ufunc)
        if function is None and ufunc.__name__.endswith("(vectorized)"):
            raise TracerArrayConversionError(
                f"A function made by numpy.frompyfunc takes plain elements, not {self!r}.",
                "Use ftrace.numpy.vectorize; ftrace.lift(f) does, if f itself calls frompyfunc.",
            )
        if function is None:
            raise no_rule(ufunc.__name__)
    return function(*inputs, **kwargs)


def array_function(
    self: Any, func: Callable[..., Any], types: Any, args: Any, kwargs: Mapping[str, Any]
) -> Any:
    """NumPy's door for all its other functions."""
    if ctx.trace is EVAL:
        raise leaked(self, func.__name__)
    if LIBRARIES:
        release_arguments(args)
    if len(types) > 1 and not DEFERRED.isdisjoint(types):
        return NotImplemented  # NumPy asks the other
    function = find_traced(func)
    if function is None:
        if func.__module__.startswith("numpy.polynomial."):  # Python over arrays
            return lifted(inspect.unwrap(func))(*args, **kwargs)
        raise no_rule(f"{func.__module__}.{func.__name__}")
    return attempt(func, function, args, kwargs)


def cupy_kernel(self: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """CuPy's door: `cupy.sin(t)` is `numpy.sin(t)`."""
    function: Any = getattr(np, kernel.name.removeprefix("cupy_"), None)
    if isinstance(function, np.ufunc):
        return array_ufunc(self, function, "__call__", *args, **kwargs)
    if find_traced(function) is None:
        raise no_rule(f"The kernel {kernel.name} of CuPy")
    return array_function(self, function, (), args, kwargs)


def no_rule(name: str) -> RuleError:
    """The error for a NumPy function that has no rule."""
    return RuleError(f"{name} has no rule for traced arrays.", INSTEAD.get(name, _OWN_RULE))


_OWN_RULE: Final = "Write it with supported functions, or give it a rule with ftrace.custom_jvp."
_SHOWS: Final = "Use repr(x), or ftrace.debug.print, which prints at every run."
_OUTSIDE: Final = "Return the array from the traced function, and store the result."
_DATES: Final = "Dates are not traced: use them outside of the traced function."
_MEMORY: Final = "A traced value has no memory: ask for it outside of the traced function."
INSTEAD: Final = {
    **{f"numpy.{name}": _SHOWS for name in ("array_repr", "array_str", "array2string")},
    **{f"numpy.{name}": _OUTSIDE for name in ("save", "savez", "savez_compressed", "savetxt")},
    **{f"numpy.{name}": _DATES for name in ("busday_count", "busday_offset", "is_busday")},
    **dict.fromkeys(("isnat", "numpy.datetime_as_string"), _DATES),
    **{f"numpy.{name}": _MEMORY for name in ("shares_memory", "may_share_memory")},
}
"""What to use instead of functions that have no rule."""


def array_namespace(self: Any, *, api_version: str | None = None) -> Any:
    """The array API's door: the module whose functions understand this array.

    Raises:
        ValueError: a version of the standard that NumPy does not know either.
    """
    if api_version is not None:
        plain: Any = np.empty(0)
        plain.__array_namespace__(api_version=api_version)
    return sys.modules["ftrace.numpy"]


def install(*tables: Mapping[str, Any]) -> None:
    """Set operators, methods and properties on `Tracer`; later tables win."""
    for table in tables:
        for name, member in table.items():
            setattr(Tracer, name, member)


PROTOCOLS: dict[str, Callable[..., Any]] = {
    "__array_ufunc__": array_ufunc,
    "__array_function__": array_function,
    "__array_namespace__": array_namespace,
    "__cupy_override_elementwise_kernel__": cupy_kernel,
}
