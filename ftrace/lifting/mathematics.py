"""`math` on traced values: every function of the module as the operation it means.

A result is a Python number, as `math` gives it (a weak scalar), but for float32 and float16, in
which the value stays: a kernel of float32 shall not compute in float64. Where `math` raises
(`math.sqrt(-1)`), traced values give NaN or infinity, as NumPy's do.
"""

import functools
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace import lax
from ftrace.core import dtypes
from ftrace.core.avals import typeof
from ftrace.core.errors import LiftError
from ftrace.core.trace import Tracer
from ftrace.lifting.python import holds_tracer, weak

MAX_FACTORIAL: Final = 20  # the largest whose value is an int64


def _real(x: Any) -> Any:
    """An operand as `math` takes it: a real scalar.

    Raises:
        TypeError: an array or a complex number, as in `math`.
    """
    a = typeof(x)
    if a.shape:
        raise TypeError(
            f"math's functions take scalars, and were given a traced array of shape {a.shape}; "
            "NumPy's of the same name take arrays"
        )
    if a.dtype.kind == "c":
        raise TypeError("must be real number, not complex; cmath's functions take complex ones")
    if isinstance(x, Tracer) and a.dtype.kind in "biu":
        return weak(x, dtypes.float64)
    return x


def _integer(x: Any) -> Any:
    a = typeof(x)
    if a.shape or a.dtype.kind not in "biu":
        raise TypeError(f"math's function takes integers, and was given {a}")
    return x


def _number(x: Any) -> Any:
    """A result as a Python float, if it is no narrower one."""
    return weak(x) if typeof(x).dtype == dtypes.float64 else x


def _of_reals(function: Callable[..., Any]) -> Callable[..., Any]:
    def traced(*xs: Any) -> Any:
        return _number(function(*map(_real, xs)))

    return traced


def _of_integers(function: Callable[..., Any]) -> Callable[..., Any]:
    def traced(*xs: Any) -> Any:
        return weak(function(*map(_integer, xs)), dtypes.int64)

    return traced


def _rounded(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """floor, ceil and trunc: an int."""

    def traced(x: Any) -> Any:
        if typeof(x).dtype.kind in "biu":
            return weak(_integer(x), dtypes.int64)
        return weak(function(_real(x)), dtypes.int64)

    return traced


def _test(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: function(_real(x))


def _refused(name: str, instead: str) -> Callable[..., Any]:
    def traced(*xs: Any) -> Any:
        raise LiftError(f"math.{name} of a traced value has no rule.", instead)

    return traced


def _log(x: Any, base: Any = None) -> Any:
    found = fnp.log(_real(x))
    return _number(found if base is None else found / fnp.log(_real(base)))


def _hypot(*xs: Any) -> Any:
    return _number(functools.reduce(fnp.hypot, map(_real, xs), 0.0))


def _dist(p: Iterable[Any], q: Iterable[Any]) -> Any:
    return _hypot(*(x - y for x, y in zip(p, q, strict=True)))


def _fsum(items: Any) -> Any:
    if not isinstance(items, Tracer):
        items = list(items)
        if not holds_tracer(items):
            return math.fsum(items)
        items = fnp.stack(list(map(_real, items)))
    return _number(fnp.sum(items, dtype=np.float64))


def _frexp(x: Any) -> Any:
    fraction, exponent = fnp.frexp(_real(x))
    return _number(fraction), weak(exponent, dtypes.int64)


def _modf(x: Any) -> Any:
    fraction, whole = fnp.modf(_real(x))
    return _number(fraction), _number(whole)


def _ldexp(x: Any, i: Any) -> Any:
    return _number(fnp.ldexp(_real(x), i))


def _remainder(x: Any, y: Any) -> Any:
    """IEEE 754's: x - n*y for the integer n nearest to x/y, even in a tie (as CPython does)."""
    size, step = fnp.abs(x), fnp.abs(y)
    low = fnp.fmod(size, step)
    high = step - low
    tie = low - 2.0 * fnp.fmod(0.5 * (size - low), step)
    found = fnp.where(low < high, low, fnp.where(low > high, -high, tie))
    found = fnp.copysign(1.0, x) * found
    return fnp.where(fnp.isinf(y) & fnp.isfinite(x), x, found)


def _isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    a, b = _real(a), _real(b)
    near = fnp.maximum(rel_tol * fnp.maximum(fnp.abs(a), fnp.abs(b)), abs_tol)
    finite = fnp.isfinite(a) & fnp.isfinite(b)
    return fnp.equal(a, b) | (finite & (fnp.abs(a - b) <= near))


def _isqrt(n: Any) -> Any:
    root = fnp.sqrt(n * 1.0).astype(np.int64)
    root = root - (root * root > n)
    return root + ((root + 1) * (root + 1) <= n)


def _factorial(n: Any) -> Any:
    table = fnp.array([math.factorial(i) for i in range(MAX_FACTORIAL + 1)])
    return table[fnp.where(n < 0, MAX_FACTORIAL + 1, n)]  # out of range, as Python raises


_SAME: Final = (
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log2", "log10"),
    *("log1p", "sqrt", "cbrt", "fabs", "degrees", "radians", "copysign", "fmod", "nextafter"),
)
_RENAMED: Final = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "atan2": "arctan2",
}


def _floating(row: Callable[..., Any]) -> Callable[..., Any]:
    """A row of strong floats."""
    return lambda x: row(fnp.asarray(x, dtype=typeof(x).dtype))


def _table() -> dict[Any, Callable[..., Any]]:
    table = {name: _of_reals(getattr(fnp, name)) for name in _SAME}
    table |= {name: _of_reals(getattr(fnp, fn)) for name, fn in _RENAMED.items()}
    for name in ("gamma", "lgamma", "erf", "erfc"):
        table[name] = _of_reals(_floating(getattr(lax, name)))
    for name in ("floor", "ceil", "trunc"):
        table[name] = _rounded(getattr(fnp, name))
    for name in ("isnan", "isinf", "isfinite"):
        table[name] = _test(getattr(fnp, name))
    for name in ("gcd", "lcm"):
        table[name] = _of_integers(functools.partial(_folded, getattr(fnp, name)))
    table |= {
        "pow": _of_reals(fnp.power),
        "ulp": _of_reals(lambda x: fnp.spacing(fnp.abs(x))),
        "remainder": _of_reals(_remainder),
        "hypot": _hypot,
        "dist": _dist,
        "log": _log,
        "fsum": _fsum,
        "frexp": _frexp,
        "modf": _modf,
        "ldexp": _ldexp,
        "isclose": _isclose,
        "isqrt": _of_integers(_isqrt),
        "factorial": _of_integers(_factorial),
        "sumprod": lambda p, q: sum(map(operator.mul, p, q)),
        "fma": _refused("fma", "Write x * y + z, which rounds twice."),
        "comb": _refused("comb", "Write it with math.lgamma, or make the arguments static."),
        "perm": _refused("perm", "Write it with math.lgamma, or make the arguments static."),
    }
    return {getattr(math, name): fn for name, fn in table.items() if hasattr(math, name)}


def _folded(function: Callable[..., Any], *xs: Any) -> Any:
    return functools.reduce(function, xs, 0 if function is fnp.gcd else 1)


ITERATED: Final = {math.fsum: _fsum}
"""Of one iterable, which may be an iterator over traced values."""

MATH: Final = _table()
"""What each function of `math` is on traced values. `math.prod` works as it is."""
