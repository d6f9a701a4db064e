"""What CuPy has no functions for: rows, functions of the row `special`, complex operands of some.

docs/support.md says the same of the CuPy that it was made with.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

import ftrace
from ftrace.core.jaxpr import Jaxpr, JaxprFun
from ftrace.gpu.eager import cupy_library
from ftrace.gpu.eager.library_matrices import lacking as no_rule
from ftrace.primitives.scipy_functions import scipy_name

ROWS: Final = frozenset(name for name, rule in cupy_library.RULES.items() if rule is no_rule)


def has_function(function: str) -> bool:
    """Whether CuPy has what the row `special` asks for by this name."""
    return hasattr(import_module("cupyx.scipy.special"), scipy_name(function))


def lacks(row: str, params: Mapping[str, Any], dtypes: Iterable[np.dtype[Any]]) -> str:
    """What CuPy does not have of a row on operands and results of some types, or nothing."""
    if row in ROWS or (row in cupy_library._SPECIAL and any(d.kind == "c" for d in dtypes)):
        return row
    if row == "special" and not has_function(params["function"]):
        return str(params["function"])
    return ""


def lacking(f: Callable[..., Any], args: Sequence[Any]) -> set[str]:
    """What a function needs on the way to its results and CuPy does not have."""
    return set(filter(None, _lacking(ftrace.make_jaxpr(f)(*args))))


def _lacking(jaxpr: Jaxpr) -> Iterator[str]:
    for eqn in jaxpr.eqns:
        dtypes = [v.aval.dtype for v in (*eqn.invars, *eqn.outvars)]
        yield lacks(eqn.primitive.name, eqn.params, dtypes)
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                found = inner.jaxpr if isinstance(inner, JaxprFun) else inner
                if isinstance(found, Jaxpr):
                    yield from _lacking(found)
