"""sinh, cosh and tanh, and their inverses.

tanh works on e**2|x| - 1 kept as a pair, and divides once with a correction. sinh and cosh take
e**r and e**-r from one odd and one even polynomial, and 2**n and 2**-n as scales, so that there is
neither a division nor a cancellation. The inverses are logarithms of sums kept as pairs.
"""

from ftrace.cpu.mathematics.exponential import LOG2_E, expm1_parts, rounded
from ftrace.cpu.mathematics.pieces import (
    copysign,
    fast_two_sum,
    minimum,
    power_of_two,
    residual,
    as_bits,
)
from ftrace.cpu.text import Text, Value


def tanh(text: Text, x: Value) -> Value:
    """tanh|x| = (E - 1) / (E + 1), E = e**2|x|, both terms as pairs.

    1 / (E + 1) is rounded, the quotient with it corrected by its exact remainder.
    """
    top = 22.0 if x.dtype == "f4" else 44.0
    size = text.fabs(x)
    double = minimum(text, text.like(x, top), text.add(size, size))
    with_magic, n = rounded(text, double, LOG2_E)
    r, tail = expm1_parts(text, double, n)
    one = text.like(x, 1.0)
    scale = power_of_two(text, as_bits(text, with_magic))
    r, tail = text.mul(r, scale), text.mul(tail, scale)
    above, above_left = fast_two_sum(text, text.sub(scale, one), r)
    above_left = text.add(above_left, tail)
    below, below_left = fast_two_sum(text, text.add(scale, one), r)
    below_left = text.add(below_left, tail)
    inverse = text.div(one, below)
    quotient = text.mul(above, inverse)
    rest = residual(text, above, quotient, below)
    rest = text.add(rest, text.sub(above_left, text.mul(quotient, below_left)))
    return copysign(text, text.fma(rest, inverse, quotient), x)
