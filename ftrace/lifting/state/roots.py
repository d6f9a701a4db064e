"""Whose function it is: the user's own inside wrappers, and what belongs to libraries.

Here is what every call of `jit` and `vmap` needs; the rest of lifting is loaded when something is
lifted for the first time.
"""

import functools
import os
import types
from typing import Any, Final

import numpy as np

from ftrace.core import source
from ftrace.core.lazy import lazy
from ftrace.core.trace import ctx

STANDARD: Final = (source.PACKAGE, source.STANDARD, "<frozen")
"""Where ftrace and the standard library lie."""
_check_chosen = lazy("ftrace.lifting.state.watching", "check_chosen")
_INSTALLED: Final = ("site-packages", "dist-packages")


def innermost(fn: Any) -> types.FunctionType | None:
    """The user's function inside ftrace's wrappers, partials, methods and decorators, if any."""
    if type(fn) is types.FunctionType and not fn.__dict__:
        return fn
    found = None
    while fn is not None:
        if type(fn) is types.FunctionType and (found is None or not is_library(fn)):
            found = fn
        fn = _inside(fn)
    return found


def _inside(fn: Any) -> Any:
    """The function that a callable wraps, or None."""
    layer = getattr(fn, "__ftrace__", None)
    if layer is not None:
        return layer[0]
    for kind, name in _HOLDERS:
        if issubclass(type(fn), kind):
            return getattr(fn, name)
    inner = getattr(fn, "__wrapped__", None)
    return inner if inner is not None or type(fn) is types.FunctionType else call_of(type(fn))


_HOLDERS: Final = (
    (functools.partial, "func"),
    (types.MethodType, "__func__"),
    (np.vectorize, "pyfunc"),
    (type, "__init__"),
)


def is_library(fn: types.FunctionType) -> bool:
    """Whether a function belongs to ftrace, the standard library or an installed package."""
    file = fn.__code__.co_filename
    return file.startswith(STANDARD) or is_installed(file)


_DENIED: Final = frozenset(
    (
        *("ftrace", "numpy", "cupy", "cupyx", "cupy_backends"),
        *("jax", "jaxlib", "torch", "numba", "llvmlite"),
    )
)
_OVER_ARRAYS: Final = ("numpy.polynomial.",)
"""What of array libraries is Python over arrays, as users' own functions are."""


def is_over_arrays(module: Any) -> bool:
    """Whether a module is an array library's Python over arrays."""
    return str(module).startswith(_OVER_ARRAYS)


def is_denied(file: str, module: str) -> bool:
    """Whether code is never lifted: the standard library, array libraries, compiled code."""
    if module.partition(".")[0] in _DENIED:
        return not is_over_arrays(module)
    return file.startswith(STANDARD) and not is_installed(file)


def is_unseen(file: str, module: str) -> bool:
    """Whether code is not looked into: what is never lifted, and what SciPy has over arrays.

    That is lifted where an error passed through it.
    """
    return module.partition(".")[0] in ("numpy", "scipy") or is_denied(file, module)


class lifting:  # noqa: N801 - used like a function
    """Context manager: users' functions that ftrace calls are lifted as a territory says."""

    __slots__ = ("_before", "_territory")

    def __init__(self, territory: Any) -> None:
        self._territory = territory

    def __enter__(self) -> None:
        self._before = ctx.lift
        ctx.lift = self._territory

    def __exit__(self, *error: object) -> None:
        ctx.lift = self._before
        if self._before is None and ctx.chosen is not None:
            chosen, ctx.chosen = ctx.chosen, None
            if error[0] is None:
                _check_chosen(chosen)


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package."""
    return any(f"{os.sep}{part}{os.sep}" in file for part in _INSTALLED)


def call_of(kind: type) -> types.FunctionType | None:
    """The `__call__` that a class defines in Python."""
    method = getattr(kind, "__call__", None)  # noqa: B004
    return method if isinstance(method, types.FunctionType) else None
