"""What CuPy has no functions for: rows, functions of the row `special`, complex operands of some.

docs/support.md says the same of the CuPy that it was made with.
"""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final

import ftrace
from ftrace.core.jaxpr import Jaxpr, JaxprFun
from ftrace.gpu.eager import cupy_library
from ftrace.gpu.eager.library_matrices import lacking as no_rule
from ftrace.primitives.scipy_functions import scipy_name

ROWS: Final = frozenset(name for name, rule in cupy_library.RULES.items() if rule is no_rule)


def has_function(function: str) -> bool:
    """Whether CuPy has what the row `special` asks for by this name."""
    return hasattr(import_module("cupyx.scipy.special"), scipy_name(function))


def lacking(f: Callable[..., Any], args: Sequence[Any]) -> set[str]:
    """What a function needs on the way to its results and CuPy does not have."""
    return set(_lacking(ftrace.make_jaxpr(f)(*args)))


def _lacking(jaxpr: Jaxpr) -> Iterator[str]:
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        is_complex = any(v.aval.dtype.kind == "c" for v in (*eqn.invars, *eqn.outvars))
        if name in ROWS or (is_complex and name in cupy_library._SPECIAL):
            yield name
        function = eqn.params.get("function")
        if name == "special" and not has_function(function):
            yield function
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                found = inner.jaxpr if isinstance(inner, JaxprFun) else inner
                if isinstance(found, Jaxpr):
                    yield from _lacking(found)
