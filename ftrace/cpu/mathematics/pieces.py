"""What the mathematics is built from: formats, polynomials, rounding, exact sums and products.

Nothing here knows a function such as `exp`. Error-free transformations return (high, low) pairs
whose sum is exact; a product's error takes one fused multiply-add where the host has it, and
Veltkamp's splitting where it has not (Dekker 1971), because `Text.fma` rounds twice there. Bits
are worked on in the integer type of the same width; only operations that every host has for
64-bit lanes are used (no arithmetic right shifts, no conversions between integers and floats).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ftrace.cpu.llvm.text import Text, Typed


class Format(NamedTuple):
    """An IEEE binary format.

    Attributes:
        bits: the integer type of the same width.
        fraction: bits of the fraction.
        bias: of the exponent.
        magic: 1.5 * 2**fraction; adding it rounds to an integer, left in the low bits.
        smallest: the smallest normal number.
        splitter: Veltkamp's constant.
    """

    bits: str
    fraction: int
    bias: int
    magic: float
    smallest: float
    splitter: float


FORMATS: Final = {
    "f4": Format("i4", 23, 127, 1.5 * 2.0**23, 2.0**-126, 2.0**12 + 1),
    "f8": Format("i8", 52, 1023, 1.5 * 2.0**52, 2.0**-1022, 2.0**27 + 1),
}
INFINITY: Final = float("inf")
NAN: Final = float("nan")


def polynomial(text: Text, x: Typed, coefficients: Sequence[float]) -> Typed:
    """Horner's rule; `coefficients` from the constant upwards."""
    value = text.like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        value = text.fma(value, x, text.like(x, c))
    return value


def two_chains(text: Text, x: Typed, coefficients: Sequence[float]) -> Typed:
    """A long polynomial as two shorter chains, in x squared: half the latency, one more product."""
    square = text.mul(x, x)
    odd = polynomial(text, square, coefficients[1::2])
    return text.fma(odd, x, polynomial(text, square, coefficients[0::2]))


def as_bits(text: Text, x: Typed) -> Typed:
    """The bits of a float, as an integer."""
    return text.convert("bitcast", x, FORMATS[x.dtype].bits)


def as_float(text: Text, bits: Typed) -> Typed:
    """The float with these bits."""
    return text.convert("bitcast", bits, "f4" if bits.dtype == "i4" else "f8")


def power_of_two(text: Text, biased: Typed) -> Typed:
    """2**n from an integer whose low bits are n plus the bias; higher bits are shifted out."""
    form = FORMATS["f4" if biased.dtype == "i4" else "f8"]
    return as_float(text, text.op("shl", biased, text.like(biased, form.fraction)))


def minimum(text: Text, bound: Typed, x: Typed) -> Typed:
    """min(bound, x), which is x where x is NaN; one instruction on x86."""
    return text.select(text.compare("olt", bound, x), bound, x)


def maximum(text: Text, bound: Typed, x: Typed) -> Typed:
    """max(bound, x), which is x where x is NaN."""
    return text.select(text.compare("ogt", bound, x), bound, x)


def clamp(text: Text, x: Typed, low: float, high: float) -> Typed:
    """x within [low, high]; NaN stays."""
    return maximum(text, text.like(x, low), minimum(text, text.like(x, high), x))


def copysign(text: Text, magnitude: Typed, sign: Typed) -> Typed:
    """|magnitude| with the sign of another value."""
    return text.intrinsic("copysign", (magnitude, sign))


def negate_where_odd(text: Text, x: Typed, integer: Typed) -> Typed:
    """x, negated where the lowest bit of an integer is set."""
    form = FORMATS[x.dtype]
    top = text.like(integer, form.fraction + (8 if x.dtype == "f4" else 11))
    return as_float(text, text.op("xor", as_bits(text, x), text.op("shl", integer, top)))


def truncated(text: Text, x: Typed, dropped: int) -> Typed:
    """x without its lowest `dropped` fraction bits."""
    bits = as_bits(text, x)
    return as_float(text, text.op("and", bits, text.like(bits, -(1 << dropped))))


def fast_two_sum(text: Text, a: Typed, b: Typed) -> tuple[Typed, Typed]:
    """a + b and its error, where |a| >= |b|."""
    total = text.add(a, b)
    return total, text.sub(b, text.sub(total, a))


def two_sum(text: Text, a: Typed, b: Typed) -> tuple[Typed, Typed]:
    """a + b and its error (Knuth)."""
    total = text.add(a, b)
    other = text.sub(total, a)
    return total, text.add(text.sub(a, text.sub(total, other)), text.sub(b, other))


def _split(text: Text, a: Typed) -> tuple[Typed, Typed]:
    big = text.mul(a, text.like(a, FORMATS[a.dtype].splitter))
    high = text.sub(big, text.sub(big, a))
    return high, text.sub(a, high)


def two_product(text: Text, a: Typed, b: Typed) -> tuple[Typed, Typed]:
    """a * b and its error; magnitudes must stay clear of overflow and of subnormal errors."""
    product = text.mul(a, b)
    if text.host.fma:
        return product, text.fma(a, b, text.fneg(product))
    ah, al = _split(text, a)
    bh, bl = _split(text, b)
    error = text.sub(text.mul(ah, bh), product)
    error = text.add(text.add(error, text.mul(ah, bl)), text.mul(al, bh))
    return product, text.add(error, text.mul(al, bl))


def corrected_product(text: Text, a: Typed, b: Typed, small: Typed) -> Typed:
    """a * b + small, as if rounded once, where small is far below the product."""
    if text.host.fma:
        return text.fma(a, b, small)
    product, error = two_product(text, a, b)
    return text.add(product, text.add(error, small))


def residual(text: Text, c: Typed, a: Typed, b: Typed) -> Typed:
    """c - a * b, where the product nearly cancels c."""
    if text.host.fma:
        return text.fma(text.fneg(a), b, c)
    product, error = two_product(text, a, b)
    return text.sub(text.sub(c, product), error)
