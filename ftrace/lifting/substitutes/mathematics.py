"""`math` on traced values: every function of the module as the operation it means.

A result is a Python number, as `math` gives it (a weak scalar), but for float32 and float16, in
which the value stays: a kernel of float32 shall not compute in float64. Where `math` raises
(`math.sqrt(-1)`, `math.exp(1000)`), so does the traced function, for the member whose result is not
a number or infinite and whose operands are not: CPython's own rule, and its own text. Overflow in
float32 and float16 gives infinity, as in NumPy.
"""

import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace import lax
from ftrace.control.rows.raising import fail_where
from ftrace.core import dtypes
from ftrace.core.avals import typeof
from ftrace.core.errors import DtypeError, LiftError
from ftrace.core.trace import Tracer
from ftrace.interpreters.quiet import quietly
from ftrace.lifting.substitutes.python import holds_tracer, integer, weak

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


def _rounded(plain: Callable[..., Any], function: Callable[..., Any]) -> Callable[[Any], Any]:
    """floor, ceil and trunc: an int."""

    def traced(x: Any) -> Any:
        if typeof(x).dtype.kind in "biu":
            return weak(_integer(x), dtypes.int64)
        return integer(plain, function(_real(x)), x)

    return traced


def _test(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: weak(function(_real(x)))


def _refused(name: str, instead: str) -> Callable[..., Any]:
    def traced(*xs: Any) -> Any:
        raise LiftError(f"math.{name} of a traced value has no rule.", instead)

    return traced


def _log(x: Any, base: Any = None) -> Any:
    found = fnp.log(_real(x))
    if base is None:
        return _number(found)
    below = fnp.log(_real(base))
    for part, whole in ((x, found), (base, below)):
        _fail_unless_finite("log", math.log, (x, base), (part,), whole)
    fail_where(fnp.equal(base, 1), (x, base), math.log, ZeroDivisionError)
    return _number(found / below)


def _hypot(*xs: Any) -> Any:
    return _number(functools.reduce(fnp.hypot, map(_real, xs), 0.0))


def _dist(p: Iterable[Any], q: Iterable[Any]) -> Any:
    return _hypot(*(_float(x) - _float(y) for x, y in zip(p, q, strict=True)))


def _float(x: Any) -> Any:
    """An operand of `math` as a float: NumPy's integers, subtracted as they are, wrap."""
    return float(x) if issubclass(type(x), np.integer | np.bool) else _real(x)


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
    return weak(fnp.equal(a, b) | (finite & (fnp.abs(a - b) <= near)))


def _isqrt(n: Any) -> Any:
    root = fnp.sqrt(n * 1.0).astype(np.int64)
    root = root - (root * root > n)
    return root + ((root + 1) * (root + 1) <= n)


def _factorial(n: Any) -> Any:
    def throw(value: int) -> None:
        raise DtypeError(
            f"math.factorial({value}) is an int of more than 64 bits; a traced Python int has 64.",
            "Use scipy.special.gammaln, or make the argument static.",
        )

    fail_where(fnp.less(n, 0), (n,), math.factorial, ValueError)
    fail_where(fnp.greater(n, MAX_FACTORIAL), (n,), throw)
    table = fnp.array([math.factorial(i) for i in range(MAX_FACTORIAL + 1)])
    return table[fnp.clip(n, 0, MAX_FACTORIAL)]


def _fail_unless_finite(
    name: str, plain: Callable[..., Any], given: Sequence[Any], xs: Sequence[Any], y: Any
) -> None:
    """Raise as CPython does where a result is not a number or infinite, and no operand is.

    Args:
        name: the function's name.
        plain: the function, which says whether there is an error, and which.
        given: its arguments.
        xs: the operands that the result depends on.
        y: the result.
    """
    infinite = fnp.isinf(y)
    for x in xs:
        infinite = infinite & fnp.isfinite(x)
    # what stays narrower than Python's numbers has an infinity of its own, as in NumPy: a kernel of
    # float32 need not fold a flag for each `math.exp`
    wide = typeof(y).dtype == dtypes.float64
    overflow = infinite if wide and name in _OVERFLOWING else False
    if name in _POLES:
        pole = infinite & fnp.less_equal(xs[0], 0)
        overflow, infinite = (infinite & ~pole if wide else False), pole
    if name not in _OVERFLOWING or name in _POLES:
        nan = fnp.isnan(y)
        for x in xs:
            nan = nan & ~fnp.isnan(x)
        fail_where(nan | infinite, given, plain, ValueError)
    if overflow is not False:
        fail_where(overflow, given, plain, OverflowError)


def _raising(name: str, traced: Callable[..., Any]) -> Callable[..., Any]:
    plain = getattr(math, name)

    def function(*xs: Any) -> Any:
        with quietly():
            found = traced(*xs)
        if name != "log" or len(xs) == 1:
            _fail_unless_finite(name, plain, xs, xs, found)
        return found

    return function


def _raising_integer(name: str, traced: Callable[..., Any], bad: Any) -> Callable[..., Any]:
    plain = getattr(math, name)

    def function(x: Any) -> Any:
        fail_where(bad(x), (x,), plain, ValueError)
        return traced(x)

    return function


_RAISING: Final = (
    *("sin", "cos", "tan", "sinh", "cosh", "exp", "exp2", "expm1", "log", "log2", "log10"),
    *("log1p", "sqrt", "asin", "acos", "acosh", "atanh", "gamma", "lgamma", "fmod", "remainder"),
    *("pow", "ldexp"),
)
_OVERFLOWING: Final = ("sinh", "cosh", "exp", "exp2", "expm1", "pow", "ldexp", "gamma", "lgamma")
_POLES: Final = ("pow", "gamma", "lgamma")  # that overflow, or are infinite at 0 and below

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
        table[name] = _rounded(getattr(math, name), getattr(fnp, name))
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
    table |= {name: _raising(name, table[name]) for name in _RAISING if hasattr(math, name)}
    for name in ("isqrt", "factorial"):
        table[name] = _raising_integer(name, table[name], lambda n: fnp.less(n, 0))
    return {getattr(math, name): fn for name, fn in table.items() if hasattr(math, name)}


def _folded(function: Callable[..., Any], *xs: Any) -> Any:
    return functools.reduce(function, xs, 0 if function is fnp.gcd else 1)


ITERATED: Final = {math.fsum: _fsum}
"""Of one iterable, which may be an iterator over traced values."""

MATH: Final = _table()
"""What each function of `math` is on traced values. `math.prod` works as it is."""
