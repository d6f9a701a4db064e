"""sin, cos and tan.

x = n pi + r (sin) or (n + 1/2) pi + r (cos) with |r| <= pi/2: one odd polynomial serves both, and
n's parity is the sign. pi/2 is subtracted in three parts with fused multiply-adds, each of which
rounds once; without them in four parts, short enough that their products with n are exact (Cody
and Waite). Beyond `FAR`, a branch that no vector of usual arguments takes goes to far.py.
"""

from typing import Final

from ftrace.cpu.llvm.text import Text, Typed
from ftrace.cpu.mathematics.exponential import long_polynomial
from ftrace.cpu.mathematics.far import finish_far, reduce_far
from ftrace.cpu.mathematics.libraries import per_lane, where_any
from ftrace.cpu.mathematics.pieces import (
    FORMATS,
    as_bits,
    fast_two_sum,
    negate_where_odd,
    polynomial,
    residual,
    two_product,
    two_sum,
)

FAR: Final = {
    True: {"f4": 2.0**15, "f8": 2.0**30},
    False: {"f4": 2.0**11, "f8": 2.0**20},
}
HALF_PI: Final = {
    True: {
        "f4": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
        "f8": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
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
# (tan(r) - r) / r**3 in r**2, |r| <= pi/4: relative error of tan 2**-25.7, 2**-59.9
TAN: Final = {
    "f4": (
        0.33333156,
        0.13338846,
        0.053406864,
        0.024447259,
        0.003090812,
        0.009403415,
    ),
    "f8": (
        0.3333333333333338,
        0.1333333333332541,
        0.05396825397284692,
        0.02186948840121304,
        0.008863237887550812,
        0.003592101278023332,
        0.0014560425433335993,
        0.0005888802644249664,
        0.0002436934125716708,
        8.370980253107023e-05,
        6.694227248583088e-05,
        -2.5275037901434976e-05,
        4.8332936231848955e-05,
        -2.4122394609681944e-05,
        9.76505160171296e-06,
    ),
}

ONE_OVER_PI: Final = 0.3183098861837907


def _less_half_pi(text: Text, x: Typed, n: Typed) -> tuple[Typed, Typed | None]:
    """x - n pi/2, to the last place even where it cancels; without `fma` as a pair."""
    parts = [text.like(x, -p) for p in HALF_PI[text.host.fma][x.dtype]]
    if text.host.fma:
        r = text.fma(n, parts[1], text.fma(n, parts[0], x))
        return text.fma(n, parts[2], r), None
    first, error = two_sum(text, x, text.mul(n, parts[0]))
    total, left = fast_two_sum(text, first, text.mul(n, parts[1]))
    left = text.fma(n, parts[2], text.add(left, error))
    total, left = fast_two_sum(text, total, left)
    return fast_two_sum(text, total, text.fma(n, parts[3], left))


def _odd(text: Text, r: Typed, left: Typed | None = None) -> Typed:
    """sin(r) as r/2 + r (1/2 + r**2 (c0 + r**2 ...)): the bracket is small where r is large."""
    z = text.mul(r, r)
    half = text.like(r, 0.5)
    first, *others = SIN[r.dtype]
    rest = long_polynomial(text, z, tuple(others))
    inner = text.fma(z, text.like(r, first), half)
    inner = text.fma(text.mul(z, z), rest, inner)
    if left is None:
        return text.fma(inner, r, text.mul(r, half))
    slope = polynomial(text, z, (1.0, -0.5, 1 / 24))
    tail = text.fma(inner, r, text.mul(left, slope))
    return text.add(tail, text.mul(r, half))


def _near(text: Text, x: Typed, cosine: bool) -> Typed:
    form = FORMATS[x.dtype]
    magic = text.like(x, form.magic)
    scale = text.like(x, ONE_OVER_PI)
    if cosine:
        # n = round(x / pi - 1/2), and x - (2 n + 1) pi/2
        with_magic = text.add(text.fma(x, scale, text.like(x, -0.5)), magic)
        n = text.sub(with_magic, magic)
        n = text.add(text.add(n, n), text.like(x, 1.0))
    else:
        with_magic = text.fma(x, scale, magic)
        n = text.sub(with_magic, magic)
        n = text.add(n, n)
    bits = as_bits(text, with_magic)
    if cosine:
        bits = text.add(bits, text.like(bits, 1))
    return negate_where_odd(text, _odd(text, *_less_half_pi(text, x, n)), bits)


def _beyond(text: Text, x: Typed, near: Typed, name: str) -> Typed:
    """`near`, but for lanes with huge arguments the value of a scalar function of far.py."""
    mask = text.compare("ogt", text.fabs(x), text.like(x, FAR[text.host.fma][x.dtype]))
    symbol = f"far_{name}_{x.dtype}"
    if symbol not in text.declarations:
        _write_far(text, symbol, name, x.dtype)
    return where_any(text, mask, near, lambda: per_lane(text, symbol, x, cold=True))


def _write_far(text: Text, symbol: str, name: str, dtype: str) -> None:
    inner = Text(text.host, text.declarations)
    reduce_far(inner, dtype, moved=1 if name == "cos" else 0, doubling=1 if name == "tan" else 0)
    r, left, odd = Typed("%r", dtype, 1), Typed("%left", dtype, 1), Typed("%odd", "b1", 1)
    if name == "tan":
        value = _tangent(inner, r, left, odd)
    else:
        value = _odd(inner, r, left)
        value = inner.select(odd, inner.fneg(value), value)
    text.declare(symbol, finish_far(inner, symbol, value.name, dtype))


def sin(text: Text, x: Typed) -> Typed:
    """With x = n pi + r: (-1)**n times an odd polynomial of degree 9 (f4) or 17 (f8) in r."""
    value = _near(text, x, False)
    value = text.select(text.compare("oeq", x, text.like(x, 0.0)), x, value)
    return _beyond(text, x, value, "sin")


def cos(text: Text, x: Typed) -> Typed:
    """With x = (n + 1/2) pi + r: -(-1)**n times the polynomial of sin."""
    return _beyond(text, x, _near(text, x, True), "cos")


def _half_pi_pair(text: Text, x: Typed, n: Typed) -> tuple[Typed, Typed]:
    """x - n pi/2 and what its rounding left out."""
    parts = [text.like(x, -p) for p in HALF_PI[text.host.fma][x.dtype]]
    first = text.fma(n, parts[0], x)
    if text.host.fma:
        second, error = two_product(text, n, parts[1])
        r, left = fast_two_sum(text, first, second)
        return r, text.fma(n, parts[2], text.add(left, error))
    total, left = fast_two_sum(text, first, text.mul(n, parts[1]))
    third, more = two_sum(text, text.mul(n, parts[2]), left)
    total, left = two_sum(text, total, third)
    return total, text.add(text.fma(n, parts[3], left), more)


def _tangent(text: Text, r: Typed, left: Typed, odd: Typed) -> Typed:
    """tan(r + left), or where odd -1 over it, corrected by its remainder."""
    one = text.like(r, 1.0)
    square = text.mul(r, r)
    tail = text.mul(text.mul(square, r), long_polynomial(text, square, TAN[r.dtype]))
    near = text.add(r, tail)
    tail = text.fma(left, text.fma(near, near, one), tail)
    value, rest = fast_two_sum(text, r, tail)
    inverse = text.div(text.like(r, -1.0), value)
    change = residual(text, one, text.fneg(inverse), value)
    change = text.fma(inverse, rest, change)
    return text.select(odd, text.fma(inverse, change, inverse), value)


def tan(text: Text, x: Typed) -> Typed:
    """With x = n pi/2 + r, r a pair: a polynomial of degree 13 or 31 in r, or -1 over it."""
    form = FORMATS[x.dtype]
    magic = text.like(x, form.magic)
    with_magic = text.fma(x, text.like(x, 2 * ONE_OVER_PI), magic)
    r, left = _half_pi_pair(text, x, text.sub(with_magic, magic))
    bits = as_bits(text, with_magic)
    low = text.op("and", bits, text.like(bits, 1))
    value = _tangent(text, r, left, text.compare("ne", low, text.like(bits, 0)))
    value = text.select(text.compare("oeq", x, text.like(x, 0.0)), x, value)
    return _beyond(text, x, value, "tan")
