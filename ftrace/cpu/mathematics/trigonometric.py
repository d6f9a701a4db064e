"""sin, cos and tan.

x = n pi + r (sin) or (n + 1/2) pi + r (cos) with |r| <= pi/2: one odd polynomial serves both, and
n's parity is the sign. pi/2 is subtracted in three parts with fused multiply-adds, each of which
rounds once; without them in four parts, short enough that their products with n are exact (Cody
and Waite). Beyond `FAR`, a branch that no vector of usual arguments takes goes to far.py.
"""

from typing import Final

from ftrace.cpu.mathematics.exponential import long_polynomial
from ftrace.cpu.mathematics.pieces import (
    FORMATS,
    as_bits,
    copysign,
    fast_two_sum,
    negate_where_odd,
    polynomial,
    residual,
)
from ftrace.cpu.text import Text, Value

FAR: Final = {
    True: {"f4": 2.0**15, "f8": 2.0**30},
    False: {"f4": 2.0**11, "f8": 2.0**20},
}
HALF_PI: Final = {
    True: {
        "f4": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
        "f8": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
    },
    False: {
        "f4": (1.5703125, 0.0004837512969970703, 7.549533620476723e-08, 2.5633440682570896e-12),
        "f8": (
            1.5707963267341256,
            6.077100506303966e-11,
            2.0222662487111665e-21,
            8.4784276603689e-32,
        ),
    },
}
# (sin(r) - r) / r**3 in r**2, |r| <= pi/2: relative error of sin 2**-27.3, 2**-59.9
SIN: Final = {
    "f4": (-0.1666666, 0.008333069, -0.00019809777, 2.6060957e-06),
    "f8": (
        -0.16666666666666666,
        0.008333333333333207,
        -0.00019841269841212476,
        2.755731921159002e-06,
        -2.5052106911751693e-08,
        1.605894181964276e-10,
        -7.643055666453981e-13,
        2.7219804819520797e-15,
    ),
}

ONE_OVER_PI: Final = 0.3183098861837907


def less_half_pi(text: Text, x: Value, n: Value) -> Value:
    """x - n pi/2, to the last place or nearly so even where it cancels."""
    parts = [text.like(x, -p) for p in HALF_PI[text.host.fma][x.dtype]]
    r = text.fma(n, parts[0], x)
    if text.host.fma:
        return text.fma(n, parts[2], text.fma(n, parts[1], r))
    second = text.mul(n, parts[1])
    total, left = fast_two_sum(text, r, second)
    total = text.add(total, text.fma(n, parts[2], left))
    return text.fma(n, parts[3], total)


def _odd(text: Text, r: Value) -> Value:
    square = text.mul(r, r)
    tail = long_polynomial(text, square, SIN[r.dtype])
    return text.fma(text.mul(square, r), tail, r)


def _near(text: Text, x: Value, cosine: bool) -> Value:
    form = FORMATS[x.dtype]
    magic = text.like(x, form.magic)
    if cosine:
        # n = round(x / pi - 1/2), and x - (2 n + 1) pi/2
        shifted = text.fma(x, text.like(x, ONE_OVER_PI), text.like(x, -0.5))
        with_magic = text.add(shifted, magic)
        n = text.sub(with_magic, magic)
        n = text.add(text.add(n, n), text.like(x, 1.0))
    else:
        with_magic = text.fma(x, text.like(x, ONE_OVER_PI), magic)
        n = text.sub(with_magic, magic)
        n = text.add(n, n)
    bits = as_bits(text, with_magic)
    if cosine:
        bits = text.add(bits, text.like(bits, 1))
    return negate_where_odd(text, _odd(text, less_half_pi(text, x, n)), bits)


def sin(text: Text, x: Value) -> Value:
    """sin(x) = (-1)**n sin(r), a polynomial of degree 9 (f4) or 17 (f8) in r."""
    return _near(text, x, False)


def cos(text: Text, x: Value) -> Value:
    """cos(x) = -(-1)**n sin(r) with r = x - (n + 1/2) pi."""
    return _near(text, x, True)
