"""Elementwise rows of powers and roots, exponentials and logarithms.

One row a function, as in elementwise.py, which offers them too. The delicate ones are `pow`, whose
derivatives at a base or exponent of 0 are guarded, and `logaddexp`, which must not subtract
infinities.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ftrace.core.avals import SCALAR_AVALS, ShapedArray
from ftrace.core.lower import Cores, Gufunc, GufuncCall, Pointwise, elementwise_call
from ftrace.core.primitive import Sample
from ftrace.core.zero import ZERO
from ftrace.primitives import elements
from ftrace.primitives.arithmetic import div, mul, steep_mul, sub
from ftrace.primitives.compare import bitwise_and, eq, select
from ftrace.primitives.families import FLOATING, NUMBER, REAL, Reals, binary, constant, unary
from ftrace.primitives.linear import add

LN2 = math.log(2)
LN10 = math.log(10)
POSITIVE = Reals(0.1, 5)

# ---------------------------------------------------------------------------------- powers


def _pow_jvp_base(t: Any, z: Any, x: Any, y: Any) -> Any:
    """y * x**(y - 1), which is 0 where y is, even at x = 0."""
    if type(y) in SCALAR_AVALS:  # a literal exponent: known here, nothing to guard
        if y == 0:
            return ZERO
        return t if y == 1 else steep_mul(t, mul(pow(x, y - 1), y))
    both = bitwise_and(eq(x, constant(0, z)), eq(y, constant(0, z)))
    lowered = select(both, constant(1, z), sub(y, constant(1, z)))
    return steep_mul(t, mul(pow(x, lowered), y))


def _pow_jvp_exponent(t: Any, z: Any, x: Any, y: Any) -> Any:
    """log(x) * x**y, which is 0 where x is."""
    base = select(eq(x, constant(0, z)), constant(1, z), x)
    return steep_mul(t, mul(log(base), z))


def _integer_pow_impl(x: Any, y: int) -> Any:
    """Products up to the fourth power: they are faster, and within 2 ULP."""
    if y == 2:
        return x * x
    if y == 3:
        return x * x * x
    if y == 4:
        z = x * x
        z *= z
        return z
    return np.power(x, y)


def _integer_pow_call(avals: Sequence[ShapedArray], y: int) -> GufuncCall:
    """NumPy's loop, given the exponent as a complex number."""
    call = elementwise_call("numpy", "power", (None, None), (0,))
    return call._replace(inputs=(Cores(0), avals[0].dtype.type(y)))


def _integer_pow_jvp(t: Any, z: Any, x: Any, y: int) -> Any:
    if y == 0:
        return ZERO
    if y == 1:
        return t
    times = mul if y > 0 else steep_mul
    return times(t, mul(integer_pow(x, y=y - 1), constant(y, x)))


def _integer_pow_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(8)
    for y in (0, 1, 2, 3, 4, 5, -1, -3):
        yield Sample((rng.uniform(0.5, 2, size=3),), {"y": y})
    for y in (0, 1, 2, 3):
        yield Sample((np.array([-0.5, 0.0, 1.5]),), {"y": y})
        yield Sample((np.float64(1.5),), {"y": y})
        for name in ("f4", "c16", "i8", "u1"):
            yield Sample((rng.uniform(1, 4, size=3).astype(name),), {"y": y})
    yield Sample((rng.uniform(0.5, 2, size=(3, 4)).T[::2],), {"y": 3})
    yield Sample((np.zeros((0, 2)),), {"y": 2})


pow = binary(
    "pow",
    np.power,
    NUMBER,
    jvp=(_pow_jvp_base, _pow_jvp_exponent),
    weak=True,
    domains=(Reals(0.5, 2), Reals(0, 3)),
    doc="x to the power y. The derivative by x at 0 is exact; that by y at x = 0 is 0.",
)
integer_pow = unary(
    "integer_pow",
    _integer_pow_impl,
    NUMBER,
    jvp=_integer_pow_jvp,
    weak=True,
    samples=_integer_pow_samples,
    lower=Pointwise(elements.integer_pow, "iuf", loop=Gufunc(_integer_pow_call)),
    doc="x to a power `y` that is a Python int.",
)
square = unary(
    "square",
    np.square,
    NUMBER,
    jvp=lambda t, y, x: mul(t, mul(x, constant(2, x))),
    lower=Pointwise(elements.square, "iufc"),
    doc="x * x, elementwise.",
)
sqrt = unary(
    "sqrt",
    np.sqrt,
    FLOATING,
    jvp=lambda t, y, x: div(mul(t, 0.5), y),
    domain=POSITIVE,
    doc="Square root, elementwise.",
)
rsqrt = unary(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    FLOATING,
    jvp=lambda t, y, x: steep_mul(mul(t, -0.5), div(y, x)),
    domain=POSITIVE,
    lower=Pointwise(elements.rsqrt, "f"),
    doc="1 / sqrt(x), elementwise.",
)
cbrt = unary(
    "cbrt",
    np.cbrt,
    REAL,
    jvp=lambda t, y, x: div(t, mul(square(y), 3.0)),
    domain=POSITIVE,
    doc="Cube root, elementwise; of negative numbers too.",
)


def _hypot_part(t: Any, z: Any, x: Any) -> Any:
    return mul(t, div(x, select(eq(z, constant(0, z)), constant(1, z), z)))


hypot = binary(
    "hypot",
    np.hypot,
    REAL,
    jvp=(lambda t, z, x, y: _hypot_part(t, z, x), lambda t, z, x, y: _hypot_part(t, z, y)),
    doc="sqrt(x**2 + y**2) without overflow. The derivative at the origin is 0.",
)

# ---------------------------------------------------------------------------------- exponentials

exp = unary(
    "exp",
    np.exp,
    FLOATING,
    jvp=lambda t, y, x: mul(t, y),
    points=(0.0,),
    doc="e to the power x, elementwise.",
)
exp2 = unary(
    "exp2",
    np.exp2,
    FLOATING,
    jvp=lambda t, y, x: mul(t, mul(y, LN2)),
    doc="2 to the power x, elementwise.",
)
expm1 = unary(
    "expm1",
    np.expm1,
    FLOATING,
    jvp=lambda t, y, x: mul(t, add(y, 1.0)),
    points=(0.0,),
    doc="exp(x) - 1, precise for small x.",
)
log = unary(
    "log",
    np.log,
    FLOATING,
    jvp=lambda t, y, x: div(t, x),
    domain=POSITIVE,
    doc="Natural logarithm, elementwise.",
)
log2 = unary(
    "log2",
    np.log2,
    FLOATING,
    jvp=lambda t, y, x: div(t, mul(x, LN2)),
    domain=POSITIVE,
    doc="Logarithm to base 2, elementwise.",
)
log10 = unary(
    "log10",
    np.log10,
    FLOATING,
    jvp=lambda t, y, x: div(t, mul(x, LN10)),
    domain=POSITIVE,
    doc="Logarithm to base 10, elementwise.",
)
log1p = unary(
    "log1p",
    np.log1p,
    FLOATING,
    jvp=lambda t, y, x: div(t, add(x, 1.0)),
    domain=Reals(-0.8, 3),
    points=(0.0,),
    doc="log(1 + x), precise for small x.",
)


def _below(x: Any, z: Any) -> Any:
    """x - z for x <= z, and 0 where they are equal, infinities included."""
    same = eq(x, z)
    zero = constant(0, z)
    return sub(select(same, zero, x), select(same, zero, z))


logaddexp = binary(
    "logaddexp",
    np.logaddexp,
    REAL,
    jvp=(
        lambda t, z, x, y: mul(t, exp(_below(x, z))),
        lambda t, z, x, y: mul(t, exp(_below(y, z))),
    ),
    lower=Pointwise(elements.logaddexp, "f"),
    doc="log(exp(x) + exp(y)) without overflow.",
)
logaddexp2 = binary(
    "logaddexp2",
    np.logaddexp2,
    REAL,
    jvp=(
        lambda t, z, x, y: mul(t, exp2(_below(x, z))),
        lambda t, z, x, y: mul(t, exp2(_below(y, z))),
    ),
    doc="log2(2**x + 2**y) without overflow.",
)
