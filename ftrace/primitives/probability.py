"""Rows of probability and information: distribution functions and entropies, with kernels.

Values are SciPy's; kernels compute in float64, as SciPy does, and fuse with their neighbours. What
has no kernel, and is SciPy's alone, is in scipy_functions.py.
"""

import math
from collections.abc import Callable
from typing import Any, Final

from ftrace.core.avals import ShapedArray
from ftrace.core.lower import Pointwise
from ftrace.primitives.elementwise import div, exp, log, log1p, mul, neg, square, steep_mul, sub
from ftrace.primitives.families import REAL, Reals, binary, unary
from ftrace.primitives.linear import add
from ftrace.primitives.special import POSITIVE, logistic, of_scipy

ROOT_HALF: Final = math.sqrt(0.5)
ROOT_HALF_HIGH: Final = 0.7071067690849304  # its first 26 bits
ROOT_HALF_LOW: Final = 1.210161710447897e-08  # the rest
DENSITY_AT_0: Final = 1 / math.sqrt(2 * math.pi)
SMALL: Final = Reals(0.3, 1)
LARGE: Final = Reals(2, 4)

# ---------------------------------------------------------------------------------- kernels


def _in_double(rule: Callable[..., Any]) -> Pointwise:
    """A way to compute an element by `rule: (builder, *float64 values) -> float64 value`."""

    def lowered(b: Any, out: ShapedArray, *xs: Any) -> Any:
        return b.convert(rule(b, *(b.cast(x, "f8") for x in xs)), out.dtype)

    return Pointwise(lowered, "f")


def _number(b: Any, value: float) -> Any:
    return b.lit(value, "f8")


def _ndtr_element(b: Any, x: Any) -> Any:
    """erfc(z) / 2 of z = -x / sqrt(2), where the tail feels how z was rounded.

    The error d of z is known from a product of halves; erfc(z + d) is erfc(z) (1 - h d), and h,
    the hazard, close to z + sqrt(z**2 + 4 / pi).
    """
    z = b.op("mul", x, _number(b, -ROOT_HALF))
    bits = b.op("and", b.let("bitcast", (x,), "i8"), b.lit(-(1 << 27), "i8"))
    high = b.let("bitcast", (bits,), "f8")
    left = b.op("mul", _number(b, ROOT_HALF_HIGH), b.op("sub", x, high))
    left = b.op("add", left, b.op("mul", _number(b, ROOT_HALF_LOW), x))
    whole = b.op("add", b.op("mul", _number(b, ROOT_HALF_HIGH), high), z)
    error = b.op("neg", b.op("add", whole, left))
    square_root = b.op("sqrt", b.op("add", b.op("mul", z, z), _number(b, 4 / math.pi)))
    value = b.op("mul", _number(b, 0.5), b.op("erfc", z))
    change = b.op("mul", b.op("mul", value, b.op("add", z, square_root)), error)
    tail = b.op("and", b.op("gt", z, _number(b, 1)), b.op("lt", z, _number(b, 28)))
    return b.op("select", tail, b.op("sub", value, change), value)


def _logit_element(b: Any, x: Any) -> Any:
    """2 atanh(2x - 1) in the middle, where log(x / (1 - x)) is near 0."""
    one, two = _number(b, 1), _number(b, 2)
    middle = b.op("lt", b.op("abs", b.op("sub", x, _number(b, 0.5))), _number(b, 0.25))

    def inner() -> Any:
        return b.op("mul", two, b.op("atanh", b.op("sub", b.op("mul", two, x), one)))

    return b.when(middle, inner, lambda: b.op("log", b.op("div", x, b.op("sub", one, x))))


def _log_expit_element(b: Any, x: Any) -> Any:
    rest = b.op("log1p", b.op("exp", b.op("neg", b.op("abs", x))))
    return b.op("sub", b.op("min", x, _number(b, 0)), rest)


def _outside(b: Any, zero: Any, value: float, *xs: Any) -> Any:
    """0 where `zero`, NaN where an operand is, else an infinity."""
    found = b.op("select", zero, _number(b, 0), _number(b, value))
    for x in xs:
        found = b.op("select", b.op("ne", x, x), x, found)
    return found


def _entr_element(b: Any, x: Any) -> Any:
    zero = _number(b, 0)
    edge = _outside(b, b.op("eq", x, zero), -math.inf, x)
    return b.op("select", b.op("gt", x, zero), b.op("neg", b.op("mul", x, b.op("log", x))), edge)


def _xlog1py_element(b: Any, x: Any, y: Any) -> Any:
    zero = _number(b, 0)
    none = b.op("and", b.op("eq", x, zero), b.op("eq", y, y))
    return b.op("select", none, zero, b.op("mul", x, b.op("log1p", y)))


def _positive(b: Any, x: Any, y: Any) -> Any:
    zero = _number(b, 0)
    return b.op("and", b.op("gt", x, zero), b.op("gt", y, zero))


def _divergence_edge(b: Any, x: Any, y: Any) -> Any:
    """The value where not both operands are positive."""
    zero = _number(b, 0)
    empty = b.op("and", b.op("eq", x, zero), b.op("ge", y, zero))
    return _outside(b, empty, math.inf, x, y)


def _rel_entr_element(b: Any, x: Any, y: Any) -> Any:
    """x log(x / y), where the quotient is near 1, or no number of its own, in another way."""
    ratio = b.op("div", x, y)

    def inside(low: float, high: float) -> Any:
        above = b.op("gt", ratio, _number(b, low))
        return b.op("and", above, b.op("lt", ratio, _number(b, high)))

    def near() -> Any:
        return b.op("log1p", b.op("div", b.op("sub", x, y), y))

    def far() -> Any:
        return b.op("sub", b.op("log", x), b.op("log", y))

    def usual() -> Any:
        return b.when(inside(2.3e-308, math.inf), lambda: b.op("log", ratio), far)

    value = b.op("mul", x, b.when(inside(0.5, 2.0), near, usual))
    return b.op("select", _positive(b, x, y), value, _divergence_edge(b, x, y))


def _kl_div_element(b: Any, x: Any, y: Any) -> Any:
    whole = b.op("mul", x, b.op("log", b.op("div", x, y)))
    value = b.op("add", b.op("sub", whole, x), y)
    edge = _divergence_edge(b, x, y)
    zero = _number(b, 0)
    empty = b.op("and", b.op("eq", x, zero), b.op("ge", y, zero))
    edge = b.op("select", empty, y, edge)
    return b.op("select", _positive(b, x, y), value, edge)


# ---------------------------------------------------------------------------------- rows

ndtr = unary(
    "ndtr",
    of_scipy("ndtr"),
    REAL,
    jvp=lambda t, y, x: mul(t, mul(exp(mul(square(x), -0.5)), DENSITY_AT_0)),
    points=(0.0,),
    lower=_in_double(_ndtr_element),
    doc="The normal distribution function, elementwise.",
)
logit = unary(
    "logit",
    of_scipy("logit"),
    REAL,
    jvp=lambda t, y, x: div(t, mul(x, sub(1.0, x))),
    domain=Reals(0.1, 0.9),
    points=(0.5,),
    lower=_in_double(_logit_element),
    doc="log(x / (1 - x)), the inverse of logistic.",
)
log_expit = unary(
    "log_expit",
    of_scipy("log_expit"),
    REAL,
    jvp=lambda t, y, x: mul(t, logistic(neg(x))),
    points=(0.0,),
    lower=_in_double(_log_expit_element),
    doc="The logarithm of logistic(x), precise for all x.",
)
entr = unary(
    "entr",
    of_scipy("entr"),
    REAL,
    jvp=lambda t, y, x: neg(steep_mul(t, add(log(x), 1.0))),
    domain=POSITIVE,
    lower=_in_double(_entr_element),
    doc="-x log(x), which is 0 at 0 and -inf below.",
)
xlog1py = binary(
    "xlog1py",
    of_scipy("xlog1py"),
    REAL,
    jvp=(
        lambda t, z, x, y: steep_mul(t, log1p(y)),
        lambda t, z, x, y: steep_mul(t, div(x, add(y, 1.0))),
    ),
    domains=(Reals(), POSITIVE),
    lower=_in_double(_xlog1py_element),
    doc="x log(1 + y), which is 0 where x is 0.",
)
rel_entr = binary(
    "rel_entr",
    of_scipy("rel_entr"),
    REAL,
    jvp=(
        lambda t, z, x, y: steep_mul(t, add(log(div(x, y)), 1.0)),
        lambda t, z, x, y: neg(steep_mul(t, div(x, y))),
    ),
    domains=(SMALL, LARGE),
    lower=_in_double(_rel_entr_element),
    doc="x log(x / y), the summand of relative entropy; inf outside of its domain.",
)
kl_div = binary(
    "kl_div",
    of_scipy("kl_div"),
    REAL,
    jvp=(
        lambda t, z, x, y: steep_mul(t, log(div(x, y))),
        lambda t, z, x, y: steep_mul(t, sub(1.0, div(x, y))),
    ),
    domains=(SMALL, LARGE),
    lower=_in_double(_kl_div_element),
    doc="x log(x / y) - x + y; inf outside of its domain.",
)
