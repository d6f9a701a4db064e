"""log, log2, log10 and log1p.

x = 2**k m with m in [sqrt(1/2), sqrt(2)), f = m - 1 exactly. For f8, log(1+f) = 2 atanh(s) with
s = f / (2 + f), written f - (f**2/2 - s (f**2/2 + R(s**2))) as in FreeBSD's msun; for f4 it is
f - f**2/2 + f**3 P(f), without a division. Subnormals are scaled into range first. k is read from
the exponent through the bits of 2**52 (2**23), so that no host needs conversions of 64-bit lanes.
"""

import math
from typing import Final, NamedTuple

from ftrace.cpu.llvm.text import Text, Typed
from ftrace.cpu.mathematics.exponential import LN2
from ftrace.cpu.mathematics.pieces import (
    FORMATS,
    INFINITY,
    NAN,
    as_bits,
    as_float,
    copysign,
    fast_two_sum,
    polynomial,
    truncated,
    two_chains,
    two_sum,
)

ROOT_HALF: Final = {"f4": 0x3F3504F3, "f8": 0x3FE6A09E667F3BCD}
# f8: R of the text above, relative error of the logarithm 2**-58.5;
# f4: P, on sqrt(1/2) - 1 <= f <= sqrt(2) - 1, 2**-30
LOG: Final = {
    "f4": (
        0.3333331,
        -0.24999987,
        0.20002231,
        -0.16669263,
        0.14218578,
        -0.12384071,
        0.118733555,
        -0.11791705,
        0.06916766,
    ),
    "f8": (
        0.6666666666666734,
        0.39999999999416525,
        0.28571428742072497,
        0.2222219859898107,
        0.18183563234758296,
        0.1531407349663824,
        0.1479576073931312,
    ),
}


class LogParts(NamedTuple):
    """log(1+f) = f - (half - tail), half = f**2 / 2; and k."""

    k: Typed
    f: Typed
    half: Typed
    tail: Typed


def exponent_and_bits(text: Text, bits: Typed, bias: float | Typed) -> tuple[Typed, Typed]:
    """k as a float, and the bits of m, of the bits of a positive normal number."""
    dtype = "f4" if bits.dtype == "i4" else "f8"
    form = FORMATS[dtype]
    one = form.bias << form.fraction
    moved = text.add(bits, text.like(bits, one - ROOT_HALF[dtype]))
    field = text.op("lshr", moved, text.like(bits, form.fraction))
    # the bits of 2**fraction with an integer below are that integer plus 2**fraction
    base = (form.bias + form.fraction) << form.fraction
    biased = as_float(text, text.op("or", field, text.like(bits, base)))
    offset = bias if isinstance(bias, Typed) else text.const(bias, dtype, bits.lanes)
    k = text.sub(biased, offset)
    fraction = text.op("and", moved, text.like(bits, (1 << form.fraction) - 1))
    return k, text.add(fraction, text.like(bits, ROOT_HALF[dtype]))


def series(text: Text, f: Typed) -> tuple[Typed, Typed]:
    """f**2 / 2 and tail, where log(1+f) = f - (f**2/2 - tail)."""
    half = text.mul(text.mul(f, f), text.like(f, 0.5))
    coefficients = LOG[f.dtype]
    if f.dtype == "f4":
        tail = two_chains(text, f, coefficients)
        return half, text.mul(text.mul(f, text.mul(f, f)), tail)
    s = text.div(f, text.add(f, text.like(f, 2.0)))
    z = text.mul(s, s)
    rest = text.mul(z, polynomial(text, z, coefficients))
    return half, text.mul(s, text.add(half, rest))


def decomposed(text: Text, x: Typed) -> LogParts:
    """k, f and the series of a positive x, subnormals included."""
    form = FORMATS[x.dtype]
    tiny = text.compare("olt", x, text.like(x, form.smallest))
    up = form.fraction + 2
    x = text.select(tiny, text.mul(x, text.like(x, 2.0**up)), x)
    plain = 2.0**form.fraction + form.bias
    offset = text.select(tiny, text.like(x, plain + up), text.like(x, plain))
    k, bits = exponent_and_bits(text, as_bits(text, x), offset)
    f = text.sub(as_float(text, bits), text.like(x, 1.0))
    return LogParts(k, f, *series(text, f))


def edges(text: Text, x: Typed, value: Typed) -> Typed:
    """The value of a logarithm, or what 0, negative numbers, infinity and NaN give."""
    value = text.select(text.compare("olt", x, text.like(x, INFINITY)), value, x)
    zero = text.like(x, 0.0)
    value = text.select(text.compare("oeq", x, zero), text.like(x, -INFINITY), value)
    return text.select(text.compare("olt", x, zero), text.like(x, NAN), value)


def log(text: Text, x: Typed) -> Typed:
    """As k ln 2 + f - (f**2/2 - tail); ln 2 in two parts, the first with exact products."""
    k, f, half, tail = decomposed(text, x)
    high, low = LN2[x.dtype]
    inner = text.sub(half, text.fma(k, text.like(x, low), tail))
    value = text.fma(k, text.like(x, high), text.sub(f, inner))
    return edges(text, x, value)


def _scaled_log(text: Text, x: Typed, scale: float, unit: tuple[float, float] | None) -> Typed:
    """k unit + log(1+f) scale, in extra precision; a unit of None is 1."""
    k, f, half, tail = decomposed(text, x)
    dropped = 12 if x.dtype == "f4" else 32
    first = truncated(text, text.sub(f, half), dropped)
    rest = text.add(text.sub(text.sub(f, first), half), tail)
    bits = 12 if x.dtype == "f4" else 21
    big = math.floor(scale * 2.0**bits) / 2.0**bits
    small = text.fma(first, text.like(x, scale - big), text.mul(rest, text.like(x, scale)))
    product = text.mul(first, text.like(x, big))
    if unit is not None:
        small = text.fma(k, text.like(x, unit[1]), small)
        k = text.mul(k, text.like(x, unit[0]))
    total, left = two_sum(text, k, product)
    return edges(text, x, text.add(total, text.add(left, small)))


def log2(text: Text, x: Typed) -> Typed:
    """Base 2, exact at powers of two; the leading part of f - f**2/2 has exact products."""
    return _scaled_log(text, x, 1.4426950408889634, None)


def log10(text: Text, x: Typed) -> Typed:
    """Base 10 in the same way, with the logarithm of 2 in two parts."""
    unit = {
        "f4": (0.301025390625, 4.6050389811952134e-06),
        "f8": (0.30102999566361177, 3.6942390771589308e-13),
    }
    return _scaled_log(text, x, 0.4342944819032518, unit[x.dtype])


def log_of_sum(text: Text, high: Typed, low: Typed) -> Typed:
    """log(1 + high + low) of a positive normal sum; |low| is far below high.

    f is made of 1 + high and the error of that sum, so that small sums keep every bit.
    """
    form = FORMATS[high.dtype]
    total, left = two_sum(text, text.like(high, 1.0), high)
    left = text.add(left, low)
    k, bits = exponent_and_bits(text, as_bits(text, total), 2.0**form.fraction + form.bias)
    # 2**-k from the bits of m less those of the sum
    down = text.sub(bits, as_bits(text, total))
    down = text.add(down, text.like(bits, form.bias << form.fraction))
    down = text.intrinsic("smax", (down, text.like(bits, 0)))
    near = text.sub(as_float(text, bits), text.like(high, 1.0))
    f, rest = fast_two_sum(text, near, text.mul(left, as_float(text, down)))
    half, tail = series(text, f)
    h, low_part = LN2[high.dtype]
    tail = text.add(text.fma(k, text.like(f, low_part), tail), rest)
    return text.fma(k, text.like(f, h), text.sub(f, text.sub(half, tail)))


def log1p(text: Text, x: Typed) -> Typed:
    """log(1+x) with the rounding error of 1 + x carried into f."""
    value = log_of_sum(text, x, text.like(x, 0.0))
    value = text.select(text.compare("olt", x, text.like(x, INFINITY)), value, x)
    least = text.like(x, -1.0)
    value = text.select(text.compare("oeq", x, least), text.like(x, -INFINITY), value)
    value = text.select(text.compare("olt", x, least), text.like(x, NAN), value)
    return copysign(text, value, x)
