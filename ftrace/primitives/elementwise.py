"""Elementwise functions: circular and hyperbolic here, all others under the same name.

One row a function: implementation, dtypes, derivative, domain of its samples. The family
(`families.py`) supplies everything else. `y` in a derivative is the primal result, free to use.
Other modules find every elementwise row here; those of powers.py, arithmetic.py and compare.py
are only imported. Special functions are in special.py.
"""
# pyright: reportUnusedImport=false

from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.primitives.arithmetic import (  # noqa: F401 - offered from here too
    abs,
    complex,
    conj,
    copysign,
    div,
    floor_divide,
    fmax,
    fmin,
    frexp,
    heaviside,
    imag,
    ldexp,
    max,
    min,
    mod,
    modf,
    mul,
    neg,
    nextafter,
    real,
    rem,
    sign,
    spacing,
    steep_mul,
    sub,
)
from ftrace.primitives.compare import (  # noqa: F401 - offered from here too
    and_,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    ceil,
    clamp,
    eq,
    floor,
    gcd,
    ge,
    gt,
    isfinite,
    isinf,
    isnan,
    lcm,
    le,
    lt,
    ne,
    not_,
    or_,
    population_count,
    round,
    select,
    shift_left,
    shift_right,
    signbit,
    trunc,
    xor,
)
from ftrace.primitives.families import FLOATING, REAL, Reals, binary, unary
from ftrace.primitives.linear import add
from ftrace.primitives.powers import (  # noqa: F401 - offered from here too
    cbrt,
    exp,
    exp2,
    expm1,
    hypot,
    integer_pow,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logaddexp2,
    pow,
    rsqrt,
    sqrt,
    square,
)

INSIDE = Reals(-0.9, 0.9)

# ---------------------------------------------------------------------------------- circular

sin = unary(
    "sin",
    np.sin,
    FLOATING,
    jvp=lambda t, y, x: mul(t, cos(x)),
    domain=Reals(-100, 100),
    doc="Sine, elementwise; `x` in radians.",
)
cos = unary(
    "cos",
    np.cos,
    FLOATING,
    jvp=lambda t, y, x: neg(mul(t, sin(x))),
    domain=Reals(-100, 100),
    doc="Cosine, elementwise; `x` in radians.",
)
tan = unary(
    "tan",
    np.tan,
    FLOATING,
    jvp=lambda t, y, x: mul(t, add(square(y), 1.0)),
    domain=Reals(-1.2, 1.2),
    doc="Tangent, elementwise; `x` in radians.",
)
asin = unary(
    "asin",
    np.arcsin,
    FLOATING,
    jvp=lambda t, y, x: div(t, _cosine_of_arc(x)),
    domain=INSIDE,
    doc="Inverse sine, elementwise, in radians.",
)
acos = unary(
    "acos",
    np.arccos,
    FLOATING,
    jvp=lambda t, y, x: neg(div(t, _cosine_of_arc(x))),
    domain=INSIDE,
    doc="Inverse cosine, elementwise, in radians.",
)
atan = unary(
    "atan",
    np.arctan,
    FLOATING,
    jvp=lambda t, y, x: div(t, add(square(x), 1.0)),
    doc="Inverse tangent, elementwise, in radians.",
)


def _cosine_of_arc(x: Any) -> Any:
    """cos(asin(x)), also next to 1 and on the complex branch cuts."""
    less = neg(sub(x, 1.0)) if typeof(x).dtype.kind == "c" else sub(1.0, x)
    return mul(sqrt(less), sqrt(add(x, 1.0)))  # -(x - 1) keeps the sign of 0j, 1 - x that of 0


def _atan2_part(t: Any, z: Any, x: Any, y: Any) -> Any:
    """t * y / (x**2 + y**2) without overflow."""
    r = hypot(x, y)
    return mul(t, div(div(y, r), r))


atan2 = binary(
    "atan2",
    np.arctan2,
    REAL,
    jvp=(_atan2_part, lambda t, z, x, y: neg(_atan2_part(t, z, y, x))),
    domains=(Reals(-2, 2), Reals(0.5, 2)),
    doc="atan(x / y) in radians, in the quadrant of the point of height x and width y.",
)

# ---------------------------------------------------------------------------------- hyperbolic

sinh = unary(
    "sinh",
    np.sinh,
    FLOATING,
    jvp=lambda t, y, x: mul(t, cosh(x)),
    points=(0.0,),
    doc="Hyperbolic sine, elementwise.",
)
cosh = unary(
    "cosh",
    np.cosh,
    FLOATING,
    jvp=lambda t, y, x: mul(t, sinh(x)),
    points=(0.0,),
    doc="Hyperbolic cosine, elementwise.",
)
tanh = unary(
    "tanh",
    np.tanh,
    FLOATING,
    jvp=lambda t, y, x: mul(mul(t, add(y, 1.0)), sub(1.0, y)),
    points=(0.0,),
    doc="Hyperbolic tangent, elementwise.",
)
asinh = unary(
    "asinh",
    np.arcsinh,
    FLOATING,
    jvp=lambda t, y, x: div(t, cosh(y)),
    doc="Inverse hyperbolic sine, elementwise.",
)
acosh = unary(
    "acosh",
    np.arccosh,
    FLOATING,
    jvp=lambda t, y, x: div(t, mul(sqrt(sub(x, 1.0)), sqrt(add(x, 1.0)))),
    domain=Reals(1.2, 4),
    doc="Inverse hyperbolic cosine, elementwise.",
)
atanh = unary(
    "atanh",
    np.arctanh,
    FLOATING,
    jvp=lambda t, y, x: div(t, mul(sub(1.0, x), add(1.0, x))),
    domain=INSIDE,
    doc="Inverse hyperbolic tangent, elementwise.",
)
