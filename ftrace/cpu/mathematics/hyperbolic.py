"""sinh, cosh and tanh, and their inverses.

tanh is a polynomial near 0 and one quotient elsewhere. sinh and cosh take
e**r and e**-r from one odd and one even polynomial, and 2**n and 2**-n as scales, so that there is
neither a division nor a cancellation. The inverses are logarithms of sums kept as pairs.
"""

from typing import Final, NamedTuple

from ftrace.cpu.llvm.text import Text, Typed
from ftrace.cpu.mathematics.exponential import (
    EXP,
    LOG2_E,
    long_polynomial,
    reduced,
    rounded,
)
from ftrace.cpu.mathematics.logarithm import log_of_sum
from ftrace.cpu.mathematics.pieces import (
    FORMATS,
    INFINITY,
    NAN,
    as_bits,
    copysign,
    fast_two_sum,
    minimum,
    power_of_two,
    residual,
    two_product,
    two_sum,
)

# (sinh(r) - r) / r**3 in r**2, |r| <= ln(2)/2: relative error of sinh 2**-26.2, 2**-61.7
SINH: Final = {
    "f4": (
        0.16666543,
        0.0083665345,
    ),
    "f8": (
        0.16666666666666677,
        0.008333333333321376,
        0.00019841269886867148,
        2.7557243376585662e-06,
        2.5109354926795053e-08,
    ),
}
# (cosh(r) - 1 - r**2/2) / r**4 in r**2: error 2**-33.2, 2**-68.9
COSH: Final = {
    "f4": (
        0.04166646,
        0.0013935426,
    ),
    "f8": (
        0.041666666666666685,
        0.0013888888888873283,
        2.4801587349202174e-05,
        2.755725182548786e-07,
        2.0921761286780794e-09,
    ),
}
# (tanh(x) - x) / x**3 in x**2, |x| <= 5/8: relative error of tanh 2**-27.7, 2**-56.1
TANH: Final = {
    "f4": (
        -0.3333328068256378,
        0.13331405818462372,
        -0.05373651534318924,
        0.02062816545367241,
        -0.005692289676517248,
    ),
    "f8": (
        -0.33333333333332854,
        0.13333333333261954,
        -0.053968253931250335,
        0.02186948757721242,
        -0.008863221039788947,
        0.0035919896553419394,
        -0.0014549622278685118,
        0.000586330133213356,
        -0.00022859646561024734,
        7.718590142367994e-05,
        -1.609500651148731e-05,
    ),
}
SATURATED: Final = {"f4": 19.0, "f8": 40.0}  # tanh(x / 2) is 1 from there
TOP: Final = {"f4": 89.6, "f8": 710.6}  # beyond: sinh and cosh are infinite
BIG: Final = {"f4": 2.0**40, "f8": 2.0**100}  # asinh and acosh are log(2 |x|) from there


class ExpHalves(NamedTuple):
    """Halves of what makes sinh and cosh of n ln 2 + r.

    sinh r = odd + odd_tail, cosh r = 1 + even; total and difference are those of 2**(n - 2) and
    2**(-n - 2).
    """

    odd: Typed
    odd_tail: Typed
    even: Typed
    total: Typed
    difference: Typed


def _halves(text: Text, size: Typed) -> ExpHalves:
    form = FORMATS[size.dtype]
    size = minimum(text, text.like(size, TOP[size.dtype]), size)
    with_magic, n = rounded(text, size, LOG2_E)
    r, left = reduced(text, size, n)
    z = text.mul(r, r)
    odd_tail = text.fma(text.mul(z, r), long_polynomial(text, z, SINH[size.dtype]), left)
    even = text.mul(text.mul(z, z), long_polynomial(text, z, COSH[size.dtype]))
    even = text.fma(z, text.like(z, 0.5), even)
    bits = as_bits(text, with_magic)
    up = power_of_two(text, text.sub(bits, text.like(bits, 2)))
    least = minimum(text, text.like(n, form.bias - 3.0), n)
    back = text.sub(text.like(n, form.magic + form.bias - 2.0), least)
    down = power_of_two(text, as_bits(text, back))
    return ExpHalves(r, odd_tail, even, text.add(up, down), text.sub(up, down))


def sinh(text: Text, x: Typed) -> Typed:
    """The addition theorem for |x| = n ln 2 + r, with the sign of x; tiny x are their own."""
    h = _halves(text, text.fabs(x))
    high = text.mul(h.odd, h.total)
    total, left = two_sum(text, h.difference, high)
    if text.host.fma:
        left = text.add(left, text.fma(h.odd, h.total, text.fneg(high)))
    tail = text.fma(h.even, h.difference, text.mul(h.odd_tail, h.total))
    value = text.add(total, text.add(left, tail))
    value = text.add(value, value)
    tiny = text.compare("olt", text.fabs(x), text.like(x, 2.0**-28))
    return copysign(text, text.select(tiny, x, value), x)


def cosh(text: Text, x: Typed) -> Typed:
    """The addition theorem for |x| = n ln 2 + r."""
    h = _halves(text, text.fabs(x))
    tail = text.fma(h.even, h.total, text.mul(h.odd_tail, h.difference))
    high = text.mul(h.odd, h.difference)
    total, left = fast_two_sum(text, h.total, high)
    value = text.add(total, text.add(left, tail))
    return text.add(value, value)


def tanh(text: Text, x: Typed) -> Typed:
    """1 - 2 / (e**2|x| + 1), or |x| + |x|**3 P(x**2) up to 5/8, with the sign of x.

    The quotient is at most 0.45 and falls as 2**-n, so that what e**2|x| lacks in accuracy counts a
    third or less: ln 2 in one part is enough, though its error counts n times.
    """
    size, one = text.fabs(x), text.like(x, 1.0)
    double = minimum(text, text.like(x, SATURATED[x.dtype]), text.add(size, size))
    with_magic, n = rounded(text, double, LOG2_E)
    r = text.fma(n, text.like(x, -0.6931471805599453), double)
    tail = long_polynomial(text, r, EXP[x.dtype])
    value = text.add(text.fma(text.mul(r, r), tail, r), one)
    scale = power_of_two(text, as_bits(text, with_magic))
    large = text.sub(one, text.div(text.like(x, 2.0), text.fma(value, scale, one)))
    square = text.mul(x, x)
    part = long_polynomial(text, square, TANH[x.dtype])
    small = text.fma(text.mul(square, size), part, size)
    near = text.compare("olt", size, text.like(x, 0.625))
    return copysign(text, text.select(near, small, large), x)


def _log_of_large(text: Text, x: Typed, high: Typed, low: Typed) -> Typed:
    """log(1 + high + low), but log(2 x) where x is so large that the rest does not count."""
    large = text.compare("oge", x, text.like(x, BIG[x.dtype]))
    zero = text.like(x, 0.0)
    finite = text.compare("olt", x, text.like(x, INFINITY))
    safe = text.select(finite, x, text.like(x, 1.0))
    value = log_of_sum(text, text.select(large, safe, high), text.select(large, zero, low))
    ln2 = text.select(large, text.like(x, 0.6931471805599453), zero)
    return text.select(finite, text.add(value, ln2), x)


def asinh(text: Text, x: Typed) -> Typed:
    """log(1 + |x| + x**2 / (1 + sqrt(1 + x**2))) with the sign of x."""
    size, one = text.fabs(x), text.like(x, 1.0)
    square = text.mul(x, x)
    root = text.intrinsic("sqrt", (text.add(square, one),))
    high, low = fast_two_sum(text, size, text.div(square, text.add(root, one)))
    return copysign(text, _log_of_large(text, size, high, low), x)


def acosh(text: Text, x: Typed) -> Typed:
    """log(1 + t + sqrt(t**2 + 2 t)), t = x - 1, the root as a pair."""
    one = text.like(x, 1.0)
    t = text.sub(x, one)
    capped = minimum(text, text.like(x, BIG[x.dtype]), t)
    square, error = two_product(text, capped, capped)
    w, left = two_sum(text, text.add(capped, capped), square)
    left = text.add(left, error)
    root = text.intrinsic("sqrt", (w,))
    rest = text.add(residual(text, w, root, root), left)
    rest = text.div(rest, text.add(root, root))
    high, low = two_sum(text, root, t)
    positive = text.compare("ogt", root, text.like(x, 0.0))
    low = text.add(low, text.select(positive, rest, text.like(x, 0.0)))
    value = _log_of_large(text, x, high, low)
    return text.select(text.compare("olt", x, one), text.like(x, NAN), value)


def atanh(text: Text, x: Typed) -> Typed:
    """log(1 + 2 |x| / (1 - |x|)) / 2 with the sign of x, the quotient as a pair."""
    size, one = text.fabs(x), text.like(x, 1.0)
    below, left = fast_two_sum(text, one, text.fneg(size))
    inverse = text.div(one, below)
    double = text.add(size, size)
    quotient = text.mul(double, inverse)
    rest = text.fma(text.fneg(quotient), left, residual(text, double, quotient, below))
    high, low = fast_two_sum(text, quotient, text.mul(rest, inverse))
    value = text.mul(log_of_sum(text, high, low), text.like(x, 0.5))
    value = text.select(text.compare("olt", size, one), value, text.like(x, NAN))
    value = text.select(text.compare("oeq", size, one), text.like(x, INFINITY), value)
    return copysign(text, value, x)
