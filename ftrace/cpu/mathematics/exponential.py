"""exp, exp2, expm1 and logistic.

x = n ln 2 + r with |r| <= ln(2)/2, e**r from a polynomial, and a scaling by 2**n in two steps, so
that subnormal results are rounded once and overflow happens by itself. n is rounded by adding
1.5 * 2**fraction, which leaves it in the low bits for the exponent. ln 2 is subtracted in two
parts, the first short enough that its product with n is exact on every host (Cody and Waite 1980).
Polynomials are minimax fits of our own; the bounds named are of the polynomial alone.
"""

from typing import Final

from ftrace.cpu.llvm.text import Text, Typed
from ftrace.cpu.llvm.vector_idioms import in_registers, scale
from ftrace.cpu.mathematics.pieces import (
    FORMATS,
    clamp,
    copysign,
    fast_two_sum,
    polynomial,
    power_of_two,
    residual,
    two_chains,
)

LOG2_E: Final = 1.4426950408889634
LN2: Final = {  # high part with trailing zeros, low part
    "f4": (0.693359375, -2.12194440e-4),
    "f8": (0.6931471803691238, 1.9082149292705877e-10),
}
RANGE: Final = {"f4": (-104.0, 89.0), "f8": (-746.0, 710.0)}  # beyond: 0 and infinity
RANGE_2: Final = {"f4": (-151.0, 129.0), "f8": (-1076.0, 1025.0)}
# (e**r - 1 - r) / r**2 on |r| <= ln(2)/2: relative error of e**r 2**-28.2, 2**-56.3
EXP: Final = {
    "f4": (0.49999994, 0.16666517, 0.041668102, 0.008369192, 0.0013838881),
    "f8": (
        0.5000000000000011,
        0.16666666666666413,
        0.04166666666653017,
        0.00833333333349432,
        0.001388888894362763,
        0.0001984126950687706,
        2.4801493101844786e-05,
        2.755758611525158e-06,
        2.7630247234896177e-07,
        2.500014045134761e-08,
    ),
}
# (2**r - 1) / r on |r| <= 1/2: relative error of 2**r 2**-26.3, 2**-57.4
EXP2: Final = {
    "f4": (0.6931472, 0.24022594, 0.055503663, 0.009625445, 0.0013387932, 0.000133324),
    "f8": (
        0.6931471805599453,
        0.2402265069591013,
        0.055504108664822256,
        0.009618129107594369,
        0.0013333558146383108,
        0.00015403530456854645,
        1.525273380276724e-05,
        1.3215435390256033e-06,
        1.0178087996736649e-07,
        7.073767425833162e-09,
        4.44976582232003e-10,
    ),
}


def long_polynomial(text: Text, x: Typed, coefficients: tuple[float, ...]) -> Typed:
    """One chain for a short polynomial, two for a long one."""
    if len(coefficients) < 7:
        return polynomial(text, x, coefficients)
    return two_chains(text, x, coefficients)


def rounded(text: Text, x: Typed, scale: float) -> tuple[Typed, Typed]:
    """The integer n nearest to x * scale: as n + magic + bias, and as n."""
    form = FORMATS[x.dtype]
    magic = text.like(x, form.magic + form.bias)
    with_magic = text.fma(x, text.like(x, scale), magic)
    return with_magic, text.sub(with_magic, magic)


def reduced(text: Text, x: Typed, n: Typed) -> tuple[Typed, Typed]:
    """x - n ln 2 as a rounded value and what rounding left out."""
    high, low = LN2[x.dtype]
    first = text.fma(n, text.like(x, -high), x)
    part = text.mul(n, text.like(x, low))
    r = text.sub(first, part)
    return r, text.sub(text.sub(first, r), part)


def scaled(text: Text, x: Typed, with_magic: Typed, n: Typed) -> Typed:
    """x * 2**n for |x| near 1 and any n, rounded once."""
    if in_registers(text, x):
        return scale(text, x, n)
    form = FORMATS[x.dtype]
    magic = text.like(x, form.magic + form.bias)
    half = text.fma(n, text.like(x, 0.5), magic)
    bits = text.convert("bitcast", half, form.bits)
    whole = text.convert("bitcast", with_magic, form.bits)
    # bits(magic + bias + n) - bits(magic + bias + h) = n - h, and the bias once more
    rest = text.sub(text.add(whole, text.like(whole, form.bias)), bits)
    return text.mul(text.mul(x, power_of_two(text, bits)), power_of_two(text, rest))


def exp(text: Text, x: Typed) -> Typed:
    """e**x: n, r and e**r = 1 + (r + r**2 P(r)), P of degree 4 (f4) or 9 (f8)."""
    x = clamp(text, x, *RANGE[x.dtype])
    with_magic, n = rounded(text, x, LOG2_E)
    high, low = LN2[x.dtype]
    r = text.fma(n, text.like(x, -high), x)
    r = text.fma(n, text.like(x, -low), r)
    tail = long_polynomial(text, r, EXP[x.dtype])
    value = text.add(text.fma(text.mul(r, r), tail, r), text.like(r, 1.0))
    return scaled(text, value, with_magic, n)


def exp2(text: Text, x: Typed) -> Typed:
    """2**x: n = round(x), r = x - n exactly, 2**r = 1 + r P(r), P of degree 5 or 10."""
    x = clamp(text, x, *RANGE_2[x.dtype])
    with_magic, n = rounded(text, x, 1.0)
    r = text.sub(x, n)
    tail = long_polynomial(text, r, EXP2[x.dtype])
    return scaled(text, text.fma(tail, r, text.like(r, 1.0)), with_magic, n)


def expm1_parts(text: Text, x: Typed, n: Typed) -> tuple[Typed, Typed]:
    """e**r - 1 for r = x - n ln 2, as r and a correction to it."""
    r, left = reduced(text, x, n)
    tail = long_polynomial(text, r, EXP[x.dtype])
    return r, text.fma(text.mul(r, r), tail, left)


def expm1(text: Text, x: Typed) -> Typed:
    """e**x - 1 = 2**n (e**r - 1) + (2**n - 1), where the sum keeps its rounding error.

    The scale is 2**(n - 1), doubled at the end, so that the largest results do not overflow.
    """
    form = FORMATS[x.dtype]
    low = -19.0 if x.dtype == "f4" else -40.0
    inside = clamp(text, x, low, RANGE[x.dtype][1])
    with_magic, n = rounded(text, inside, LOG2_E)
    r, tail = expm1_parts(text, inside, n)
    bits = text.convert("bitcast", with_magic, form.bits)
    scale = power_of_two(text, text.sub(bits, text.like(bits, 1)))
    offset = text.sub(scale, text.like(x, 0.5))
    large = text.mul(r, scale)
    total, left = fast_two_sum(text, offset, large)
    total = text.add(total, text.fma(tail, scale, left))
    small = text.compare("oeq", n, text.like(n, 0.0))
    value = text.select(small, text.add(r, tail), text.add(total, total))
    return copysign(text, value, x)


def logistic(text: Text, x: Typed) -> Typed:
    """1 / (1 + e**-x) with e**-|x|, so that nothing overflows; the quotient is corrected once."""
    one = text.like(x, 1.0)
    e = exp(text, text.fneg(text.fabs(x)))
    below = text.add(one, e)
    left = text.sub(e, text.sub(below, one))
    above = text.select(text.compare("oge", x, text.like(x, 0.0)), one, e)
    inverse = text.div(one, below)
    quotient = text.mul(above, inverse)
    rest = text.fma(text.fneg(quotient), left, residual(text, above, quotient, below))
    return text.fma(rest, inverse, quotient)
