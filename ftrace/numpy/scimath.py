"""`numpy.emath`: square roots and logarithms that become complex outside of their real domain.

The dtype of a result depends on values, so these must be known: under differentiation they are,
while `jit` or `vmap` trace the error says which function has one dtype.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.dtypes import complex_dtype, to_inexact
from ftrace.core.errors import ConcretizationTypeError
from ftrace.core.trace import UNKNOWN, Tracer
from ftrace.numpy import ufuncs
from ftrace.numpy.promote import TRACED, cast, strong, value

Test = Callable[[Any], Any]


def _is_negative(x: Any) -> Any:
    return x < 0


def _is_beyond_one(x: Any) -> Any:
    return np.abs(x) > 1


def _holds(x: Any, test: Test, name: str) -> bool:
    """Whether a test holds for a known element."""
    values = x.known(exact=False) if isinstance(x, Tracer) else x
    if values is UNKNOWN:
        raise ConcretizationTypeError(
            f"numpy.emath.{name} of {x!r} is real or complex, by its values, which are not known.",
            f"Use numpy.{name} of x for real results, or of x.astype(complex) for complex ones.",
        )
    return bool(np.any(test(np.asarray(values))))


def _fixed(x: Any, test: Test, name: str) -> Any:
    """The operand, made complex if a test holds for one of its elements."""
    x = strong(value(x))
    kind = typeof(x).dtype
    if kind.kind == "c" or not _holds(x, test, name):
        return x
    narrow = kind == np.float32 or kind.itemsize < 4
    return cast(x, np.dtype(np.complex64) if narrow else complex_dtype(to_inexact(kind)))


def _unary(name: str, test: Test) -> None:
    ufunc = getattr(np, name)

    def traced(x: Any) -> Any:
        return ufuncs.apply(ufunc, _fixed(x, test, name))

    TRACED[getattr(np.emath, name)] = traced


def _logn(n: Any, x: Any) -> Any:
    x, n = (_fixed(v, _is_negative, "log") for v in (x, n))
    return ufuncs.apply(np.divide, ufuncs.apply(np.log, x), ufuncs.apply(np.log, n))


def _power(x: Any, p: Any) -> Any:
    x, p = _fixed(x, _is_negative, "power"), strong(value(p))
    if typeof(p).dtype.kind in "iu" and _holds(p, _is_negative, "power"):
        p = cast(p, np.dtype(np.float64))
    return ufuncs.apply(np.power, x, p)


def install() -> None:
    """Tell NumPy's door of these functions."""
    for name in ("sqrt", "log", "log2", "log10"):
        _unary(name, _is_negative)
    for name in ("arccos", "arcsin", "arctanh"):
        _unary(name, _is_beyond_one)
    TRACED[np.emath.logn] = _logn
    TRACED[np.emath.power] = _power
