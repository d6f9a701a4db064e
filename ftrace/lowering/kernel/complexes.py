"""Complex arithmetic from the parts: what a kernel does for complex operands.

Products and quotients are NumPy's own formulas (the quotient scales by the larger part of the
divisor, R. L. Smith, Algorithm 116, CACM 5, 1962), so that results agree bit for bit. Exponentials
are C99's `cexp` (Annex G.6.3.1) within the errors of the real functions. Operations that are not
listed here run on the library.
"""

from collections.abc import Callable
from math import exp, inf
from typing import Any, Final, NamedTuple

from ftrace.lowering.kernel.ir import Atom

Operation = Callable[..., Any]


class ComplexParts(NamedTuple):
    """A complex scalar."""

    re: Atom
    im: Atom


def _mul(b: Any, x: ComplexParts, y: ComplexParts) -> ComplexParts:
    re = b.op("sub", b.op("mul", x.re, y.re), b.op("mul", x.im, y.im))
    return ComplexParts(re, b.op("add", b.op("mul", x.re, y.im), b.op("mul", x.im, y.re)))


def _eq(b: Any, x: ComplexParts, y: ComplexParts) -> Atom:
    return b.op("and", b.op("eq", x.re, y.re), b.op("eq", x.im, y.im))


def _div(b: Any, x: ComplexParts, y: ComplexParts) -> ComplexParts:
    """Scaled by the larger part of the divisor; by zero, each part is divided by 0.0."""
    re, im = b.op("abs", y.re), b.op("abs", y.im)
    real = b.op("ge", re, im)
    large, small = b.op("select", real, y.re, y.im), b.op("select", real, y.im, y.re)
    zero = b.op("eq", large, b.lit(0.0, y.re.dtype))
    ratio = b.op("div", small, b.op("select", zero, b.lit(1.0, y.re.dtype), large))
    scale = b.op("add", large, b.op("mul", small, ratio))
    scale = b.op("div", b.lit(1.0, y.re.dtype), b.op("select", zero, re, scale))
    first, second = b.op("select", real, x.re, x.im), b.op("select", real, x.im, x.re)
    found = b.op("add", first, b.op("mul", second, ratio))
    turned = b.op("mul", first, ratio)
    rest = b.op("select", real, b.op("sub", second, turned), b.op("sub", turned, second))
    by_zero = b.op("div", x.re, re), b.op("div", x.im, re)
    return ComplexParts(
        b.op("select", zero, by_zero[0], b.op("mul", found, scale)),
        b.op("select", zero, by_zero[1], b.op("mul", rest, scale)),
    )


_OVERFLOWS: Final = {"f8": 709.0, "f4": 88.0}  # above, exp may be infinite where its parts are not
_TINY: Final = 1e-30  # an angle that is its sine, where that of a subnormal one might be zero


def _exp(b: Any, z: ComplexParts) -> ComplexParts:
    dtype = z.re.dtype
    zero, one, most = (b.lit(v, dtype) for v in (0.0, 1.0, _OVERFLOWS[dtype]))
    power, scales = z.re, []
    for _ in range(2):  # as often as a subnormal sine can lift it
        high = b.op("gt", power, most)
        power = b.op("select", high, b.op("sub", power, most), power)
        scales.append(b.op("select", high, b.lit(exp(_OVERFLOWS[dtype]), dtype), one))
    size = b.op("exp", power)
    # at an infinite real part, an angle that is infinite or NaN leaves infinity, or zeros
    angle = b.op("eq", b.op("sub", z.im, z.im), zero)
    odd = b.op("and", b.op("not", angle), b.op("eq", b.op("abs", z.re), b.lit(inf, dtype)))
    falls = b.op("and", odd, b.op("lt", z.re, zero))
    cos = b.op("select", odd, one, b.op("cos", z.im))
    sin = b.op("select", falls, b.op("copysign", one, z.im), b.op("sin", z.im))
    tiny = b.op("lt", b.op("abs", z.im), b.lit(_TINY, dtype))
    sin = b.op("select", tiny, z.im, sin)
    re, im = cos, sin
    for factor in (*scales, size):
        re, im = b.op("mul", re, factor), b.op("mul", im, factor)
    return ComplexParts(
        re,
        b.op("select", b.op("eq", z.im, zero), z.im, im),
    )


OPERATIONS: Final[dict[str, Operation]] = {
    "add": lambda b, x, y: ComplexParts(b.op("add", x.re, y.re), b.op("add", x.im, y.im)),
    "sub": lambda b, x, y: ComplexParts(b.op("sub", x.re, y.re), b.op("sub", x.im, y.im)),
    "neg": lambda b, x: ComplexParts(b.op("neg", x.re), b.op("neg", x.im)),
    "mul": _mul,
    "div": _div,
    "exp": _exp,
    "abs": lambda b, x: b.op("hypot", x.re, x.im),
    "eq": _eq,
    "ne": lambda b, x, y: b.op("not", _eq(b, x, y)),
    "select": lambda b, c, x, y: ComplexParts(
        b.op("select", c, x.re, y.re), b.op("select", c, x.im, y.im)
    ),
}
