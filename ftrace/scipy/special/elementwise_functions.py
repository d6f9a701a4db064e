"""scipy.special's ufuncs as functions of ftrace.scipy.special, from one table.

With no trace running they are SciPy's; else the rows of `ftrace.numpy.scipy_special`, which SciPy's
own ufuncs reach, too: `scipy.special.ndtr(t)` and this file's `ndtr(t)` give the same jaxpr.
"""

import importlib
from collections.abc import Callable
from typing import Any, Final

from ftrace.core.device import LIBRARIES
from ftrace.core.lazy import once
from ftrace.core.trace import EVAL, ctx, running
from ftrace.numpy.promote import document, untraced
from ftrace.numpy.scipy_special import DOCS, ROWS, traced


def elementwise(name: str) -> Callable[..., Any]:
    """The function of this package for a ufunc of SciPy."""

    @once
    def pair() -> tuple[Any, Callable[..., Any]]:
        ufunc = getattr(importlib.import_module("scipy.special"), name)
        return ufunc, traced(ufunc, ROWS[name])

    def function(*operands: Any, **options: Any) -> Any:
        ufunc, ours = pair()
        if running and ctx.trace is not EVAL:
            return ours(*operands, **options)
        if LIBRARIES:
            return untraced(ufunc, ours, operands, options)
        return ufunc(*operands, **options)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "ftrace.scipy.special"
    function.__doc__ = document(DOCS[name], f"scipy.special.{name}")
    return function


FUNCTIONS: Final = {name: elementwise(name) for name in DOCS}
FUNCTIONS["digamma"] = FUNCTIONS["psi"]
FUNCTIONS["jn"] = FUNCTIONS["jv"]
"""The functions of this package by their names, but for those with a file of their own."""
