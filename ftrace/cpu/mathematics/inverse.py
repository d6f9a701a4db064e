"""asin, acos, atan and atan2.

asin has an odd polynomial up to 1/2; above, asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)). atan has
one up to 1/2; between 1/2 and 1, atan(a) = pi/4 + atan((a - 1) / (a + 1)), where a - 1 is exact,
and above, atan(a) = pi/2 - atan(1/a). Multiples of pi/4 are added as pairs.
"""

from typing import Final

from ftrace.cpu.llvm.text import Text, Typed
from ftrace.cpu.mathematics.exponential import long_polynomial
from ftrace.cpu.mathematics.pieces import INFINITY, as_bits, copysign, fast_two_sum

QUARTER_PI: Final = {
    "f4": (0.7853981852531433, -2.1855694143368964e-08),
    "f8": (0.7853981633974483, 3.061616997868383e-17),
}
# (asin(s) - s) / s**3 in s**2 <= 1/4: relative error of asin 2**-27.6, 2**-55.7
ASIN: Final = {
    "f4": (
        0.16666752,
        0.074953064,
        0.045469828,
        0.024180174,
        0.042167973,
    ),
    "f8": (
        0.16666666666665403,
        0.07500000000338751,
        0.04464285682682987,
        0.030381959201116825,
        0.02237175646166954,
        0.0173597294132672,
        0.013884985741505255,
        0.012170889254370959,
        0.006520565925535742,
        0.01954893990320116,
        -0.016257289884590465,
        0.03193530475881,
    ),
}
# (atan(t) - t) / t**3 in t**2 <= 1/4: relative error of atan 2**-27.5, 2**-57.8
ATAN: Final = {
    "f4": (
        -0.33333233,
        0.19994168,
        -0.14174204,
        0.10155696,
        -0.051247153,
    ),
    "f8": (
        -0.3333333333333298,
        0.19999999999903015,
        -0.1428571427637308,
        0.11111110658957427,
        -0.09090896225584402,
        0.0769207358778226,
        -0.06663807104910799,
        0.058582741042859626,
        -0.051218917049539944,
        0.041861752612434744,
        -0.027429543287149152,
        0.010112987505483841,
    ),
}
HUGE: Final = {"f4": 2.0**100, "f8": 2.0**1000}  # sums of two stay finite below


def _turned(text: Text, count: Typed, t: Typed, tail: Typed) -> Typed:
    """count pi/4 + t + tail, where |t| <= pi/4 unless count is 0."""
    high, low = QUARTER_PI[t.dtype]
    base = text.mul(count, text.like(t, high))
    total, left = fast_two_sum(text, base, t)
    return text.add(total, text.add(text.fma(count, text.like(t, low), left), tail))


def _arcsine_parts(text: Text, x: Typed) -> tuple[Typed, Typed, Typed]:
    """Whether |x| > 1/2; s = |x| or sqrt((1 - |x|) / 2); asin(s) - s."""
    size = text.fabs(x)
    large = text.compare("ogt", size, text.like(x, 0.5))
    other = text.mul(text.sub(text.like(x, 1.0), size), text.like(x, 0.5))
    z = text.select(large, other, text.mul(x, x))
    s = text.select(large, text.intrinsic("sqrt", (other,)), size)
    return large, s, text.mul(text.mul(s, z), long_polynomial(text, z, ASIN[x.dtype]))


def asin(text: Text, x: Typed) -> Typed:
    """asin|x| with the sign of x; polynomials of degree 11 (f4) and 25 (f8)."""
    large, s, tail = _arcsine_parts(text, x)
    factor = text.select(large, text.like(x, -2.0), text.like(x, 1.0))
    count = text.select(large, text.like(x, 2.0), text.like(x, 0.0))
    value = _turned(text, count, text.mul(s, factor), text.mul(tail, factor))
    return copysign(text, value, x)


def acos(text: Text, x: Typed) -> Typed:
    """pi/2 - asin(x) near 0, 2 asin(s) near 1, pi - 2 asin(s) near -1."""
    large, s, tail = _arcsine_parts(text, x)
    zero, two = text.like(x, 0.0), text.like(x, 2.0)
    negative = text.compare("olt", x, zero)
    outer = text.select(negative, text.like(x, 4.0), zero)
    count = text.select(large, outer, two)
    size = text.select(large, two, text.like(x, 1.0))
    # 2 near 1, -2 near -1; else minus the sign of x
    up = text.compare("oge", x, zero)
    factor = text.select(text.op("xor", up, large), text.fneg(size), size)
    return _turned(text, count, text.mul(s, factor), text.mul(tail, factor))


def _angle(text: Text, small: Typed, large: Typed) -> tuple[Typed, Typed, Typed]:
    """atan(small / large) for 0 <= small <= large as count pi/4 + t + tail, count 0 or 1."""
    near = text.compare("ogt", text.add(small, small), large)
    above = text.select(near, text.sub(small, large), small)
    below = text.select(near, text.add(small, large), large)
    t = text.div(above, below)
    z = text.mul(t, t)
    tail = text.mul(text.mul(z, t), long_polynomial(text, z, ATAN[t.dtype]))
    return text.select(near, text.like(t, 1.0), text.like(t, 0.0)), t, tail


def _flipped(text: Text, where: Typed, angle: tuple[Typed, Typed, Typed], base: Typed) -> Typed:
    """base pi/4 - angle where asked, else base pi/4 + angle."""
    sign = text.select(where, text.like(base, -1.0), text.like(base, 1.0))
    count, t, tail = (text.mul(part, sign) for part in angle)
    return _turned(text, text.add(base, count), t, tail)


def atan(text: Text, x: Typed) -> Typed:
    """atan|x| with the sign of x; polynomials of degree 11 (f4) and 25 (f8)."""
    size, one = text.fabs(x), text.like(x, 1.0)
    steep = text.compare("ogt", size, one)
    small, large = text.select(steep, one, size), text.select(steep, size, one)
    base = text.select(steep, text.like(x, 2.0), text.like(x, 0.0))
    return copysign(text, _flipped(text, steep, _angle(text, small, large), base), x)


def atan2(text: Text, y: Typed, x: Typed) -> Typed:
    """The angle of (x, y): atan of the smaller over the larger, and multiples of pi/2."""
    zero, one, two = (text.like(x, c) for c in (0.0, 1.0, 2.0))
    a, b = text.fabs(x), text.fabs(y)
    steep = text.compare("ogt", b, a)
    small, large = text.select(steep, a, b), text.select(steep, b, a)
    huge = text.compare("ogt", large, text.like(x, HUGE[x.dtype]))
    factor = text.select(huge, text.like(x, 0.25), one)
    # both infinite: as 1 over 1; both zero: as 0 over 1
    endless = text.compare("oeq", small, text.like(x, INFINITY))
    nothing = text.compare("oeq", large, zero)
    small = text.select(endless, one, text.mul(small, factor))
    large = text.select(text.op("or", endless, nothing), one, text.mul(large, factor))
    bits = as_bits(text, x)
    left = text.compare("slt", bits, text.like(bits, 0))
    base = text.select(steep, two, text.select(left, text.like(x, 4.0), zero))
    down = text.op("xor", steep, left)
    value = copysign(text, _flipped(text, down, _angle(text, small, large), base), y)
    return text.select(text.compare("uno", x, y), text.add(x, y), value)
