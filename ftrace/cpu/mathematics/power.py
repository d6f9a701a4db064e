"""pow, cbrt and hypot.

pow for f8 takes log|x| as a pair with a relative error near 2**-65, multiplies it with y as a pair
and exponentiates the pair. pow for f4 does the same in f8 without pairs, which is both faster and
nearly correctly rounded. Signs and C99's special cases are selected at the end.
"""

from typing import Final, NamedTuple

from ftrace.cpu.llvm.text import Text, Typed
from ftrace.cpu.mathematics.exponential import (
    EXP,
    LN2,
    LOG2_E,
    long_polynomial,
    reduced,
    rounded,
    scaled,
)
from ftrace.cpu.mathematics.logarithm import exponent_and_bits
from ftrace.cpu.mathematics.pieces import (
    FORMATS,
    INFINITY,
    NAN,
    as_bits,
    as_float,
    clamp,
    copysign,
    fast_two_sum,
    maximum,
    polynomial,
    power_of_two,
    residual,
    truncated,
    two_product,
    two_sum,
)

# (atanh(s)/s - 1 - s**2/3) / s**4 in s**2: absolute error of atanh(s)/s 2**-66.3
SERIES: Final = (
    0.20000000000001128,
    0.1428571428504983,
    0.11111111259951881,
    0.09090892184396746,
    0.07693378631613153,
    0.06628409504732438,
    0.0659816025267838,
)
THIRD: Final = (0.3333333333333333, 1.850371707708594e-17)
LOG2: Final = (  # log2((1+s)/(1-s)) / s in s**2: relative error 2**-45
    2.88539008177785,
    0.9617966941134176,
    0.57707794234432,
    0.41220925444450907,
    0.3199055733867063,
    0.2829028637357579,
)
EXP2: Final = (  # 2**r on |r| <= 1/2: relative error 2**-29
    1.0000000005548466,
    0.6931472057680735,
    0.2402264686558466,
    0.055503287109256484,
    0.009618489099782872,
    0.00133999577318027,
    0.0001534582364941663,
)
# 1 / cbrt(m), m in [1, 2): relative error 2**-14.7; and the factors for m times 1, 2, 4
ROOT: Final = (
    1.6700055152698206,
    -1.172876921942742,
    0.6954793910984244,
    -0.22123646439267383,
    0.028590806612689847,
)


class Number(NamedTuple):
    """A positive number 2**k m, m in [sqrt(1/2), sqrt(2))."""

    k: Typed
    m: Typed


def _decomposed(text: Text, x: Typed) -> Number:
    form = FORMATS[x.dtype]
    tiny = text.compare("olt", x, text.like(x, form.smallest))
    up = form.fraction + 2
    x = text.select(tiny, text.mul(x, text.like(x, 2.0**up)), x)
    plain = 2.0**form.fraction + form.bias
    offset = text.select(tiny, text.like(x, plain + up), text.like(x, plain))
    k, bits = exponent_and_bits(text, as_bits(text, x), offset)
    return Number(k, as_float(text, bits))


def _log_pair(text: Text, x: Typed) -> tuple[Typed, Typed]:
    """log x as a pair: k ln 2 + 2 s (1 + z/3 + z**2 P(z)), s = (m-1)/(m+1), z = s**2 (pairs)."""
    k, m = _decomposed(text, x)
    one = text.like(x, 1.0)
    above = text.sub(m, one)
    below, below_left = two_sum(text, m, one)
    inverse = text.div(one, below)
    s = text.mul(above, inverse)
    rest = text.fma(text.fneg(s), below_left, residual(text, above, s, below))
    s, s_left = fast_two_sum(text, s, text.mul(rest, inverse))
    z, z_left = two_product(text, s, s)
    z_left = text.fma(text.add(s, s), s_left, z_left)
    third, third_left = two_product(text, z, text.like(x, THIRD[0]))
    third_left = text.fma(z, text.like(x, THIRD[1]), third_left)
    third_left = text.fma(z_left, text.like(x, THIRD[0]), third_left)
    series = long_polynomial(text, z, SERIES)
    q, q_left = fast_two_sum(text, third, text.mul(text.mul(z, z), series))
    q_left = text.add(q_left, third_left)
    product, product_left = two_product(text, s, q)
    product_left = text.fma(s, q_left, text.fma(s_left, q, product_left))
    log, log_left = fast_two_sum(text, s, product)
    log_left = text.add(log_left, text.add(product_left, s_left))
    two = text.like(x, 2.0)
    high, low = LN2["f8"]
    total, left = two_sum(text, text.mul(k, text.like(x, high)), text.mul(log, two))
    left = text.add(left, text.fma(k, text.like(x, low), text.mul(log_left, two)))
    return fast_two_sum(text, total, left)


def _exp_pair(text: Text, x: Typed, left: Typed) -> Typed:
    """e**(x + left); far out of range where x is, and then without `left`."""
    inside = clamp(text, x, -800.0, 800.0)
    left = text.select(text.compare("oeq", inside, x), left, text.like(x, 0.0))
    with_magic, n = rounded(text, inside, LOG2_E)
    r, more = reduced(text, inside, n)
    left = text.add(left, more)
    r, left = fast_two_sum(text, r, left)
    tail = text.fma(text.mul(r, r), long_polynomial(text, r, EXP["f8"]), text.fma(r, left, left))
    value = text.add(text.like(x, 1.0), text.add(r, tail))
    return scaled(text, value, with_magic, n)


def _power(text: Text, x: Typed, y: Typed) -> Typed:
    """x**y for x > 0, f8."""
    log, log_left = _log_pair(text, x)
    y = clamp(text, y, -(2.0**70), 2.0**70)
    product, left = two_product(text, y, log)
    return _exp_pair(text, product, text.fma(y, log_left, left))


def _power_by_double(text: Text, x: Typed, y: Typed) -> Typed:
    """x**y for x > 0, f4: 2**(y log2 x), in f8 and rounded once."""
    x, y = text.convert("fpext", x, "f8"), text.convert("fpext", y, "f8")
    one = text.like(x, 1.0)
    plain = 2.0**52 + 1023
    k, bits = exponent_and_bits(text, as_bits(text, x), plain)
    m = as_float(text, bits)
    s = text.div(text.sub(m, one), text.add(m, one))
    log = text.fma(polynomial(text, text.mul(s, s), LOG2), s, k)
    y = clamp(text, y, -(2.0**70), 2.0**70)
    inside = clamp(text, text.mul(y, log), -300.0, 300.0)
    with_magic, n = rounded(text, inside, 1.0)
    value = polynomial(text, text.sub(inside, n), EXP2)
    value = text.mul(value, power_of_two(text, as_bits(text, with_magic)))
    return text.convert("fptrunc", value, "f4")


def _whole_and_odd(text: Text, y: Typed) -> tuple[Typed, Typed]:
    """Whether y is an integer, and whether it is no even integer (odd, where it is one)."""
    big = text.like(y, 2.0 ** FORMATS[y.dtype].fraction)

    def whole(v: Typed) -> Typed:
        rounded_v = text.sub(text.add(v, big), big)
        return text.op("or", text.compare("oeq", rounded_v, v), text.compare("oge", v, big))

    size = text.fabs(y)
    even = whole(text.mul(size, text.like(y, 0.5)))
    return whole(size), text.op("xor", even, text.like(even, True))


def pow_(text: Text, x: Typed, y: Typed) -> Typed:
    """x**y with C99's special cases."""
    zero, one, infinity = (text.like(x, c) for c in (0.0, 1.0, INFINITY))
    size = text.fabs(x)
    value = (_power if x.dtype == "f8" else _power_by_double)(text, size, y)
    # bases 0 and infinity
    nothing = text.compare("oeq", size, zero)
    endless = text.compare("oeq", size, infinity)
    down = text.op("xor", nothing, text.compare("olt", y, zero))
    edge = text.select(down, zero, infinity)
    value = text.select(text.op("or", nothing, endless), edge, value)
    # negative bases
    whole, odd = _whole_and_odd(text, y)
    signed = text.select(text.op("and", whole, odd), copysign(text, value, x), value)
    negative = text.compare("olt", x, zero)
    finite = text.op("and", negative, text.compare("olt", size, infinity))
    broken = text.op("and", finite, text.op("xor", whole, text.like(whole, True)))
    signed = text.select(broken, text.like(x, NAN), signed)
    signed = text.select(text.compare("uno", x, y), text.add(x, y), signed)
    trivial = text.op("or", text.compare("oeq", y, zero), text.compare("oeq", x, one))
    return text.select(trivial, one, signed)


def hypot(text: Text, x: Typed, y: Typed) -> Typed:
    """sqrt(x**2 + y**2), scaled by a power of two where squares leave the range."""
    a, b = text.fabs(x), text.fabs(y)
    larger = maximum(text, a, b)
    exponent, edge = (100, 60) if x.dtype == "f4" else (600, 500)
    one = text.like(x, 1.0)
    up, down = text.like(x, 2.0**exponent), text.like(x, 2.0**-exponent)
    small = text.compare("olt", larger, text.like(x, 2.0**-edge))
    large = text.compare("ogt", larger, text.like(x, 2.0**edge))
    factor = text.select(large, down, text.select(small, up, one))
    back = text.select(large, up, text.select(small, down, one))
    p, q = text.mul(a, factor), text.mul(b, factor)
    root = text.intrinsic("sqrt", (text.fma(p, p, text.mul(q, q)),))
    value = text.mul(root, back)
    infinity = text.like(x, INFINITY)
    endless = text.op("or", text.compare("oeq", a, infinity), text.compare("oeq", b, infinity))
    return text.select(endless, infinity, value)


def _exponent_by_three(text: Text, x: Typed) -> tuple[Typed, Typed, Typed]:
    """m in [1, 2), the remainder e - 3 t as a float, and t with the magic number and bias on it."""
    form = FORMATS[x.dtype]
    bits = as_bits(text, x)
    field = text.op("lshr", bits, text.like(bits, form.fraction))
    base = (form.bias + form.fraction) << form.fraction
    e = as_float(text, text.op("or", field, text.like(bits, base)))
    e = text.sub(e, text.like(x, 2.0**form.fraction + form.bias))
    # t = floor(e / 3) is the integer nearest to (e - 1) / 3
    shifted = text.mul(text.sub(e, text.like(x, 1.0)), text.like(x, 1 / 3))
    with_magic, t = rounded(text, shifted, 1.0)
    fraction = text.op("and", bits, text.like(bits, (1 << form.fraction) - 1))
    m = as_float(text, text.op("or", fraction, text.like(bits, form.bias << form.fraction)))
    return m, text.fma(t, text.like(x, -3.0), e), with_magic


def cbrt(text: Text, x: Typed) -> Typed:
    """The cube root of |x| = 8**t d, d in [1, 8), with the sign of x.

    An approximation of d**(-1/3), one Newton step, and a root cut to half the bits so that its
    square is exact; the last correction is of second order (as in FreeBSD's msun, by products).
    """
    form = FORMATS[x.dtype]
    size = text.fabs(x)
    tiny = text.compare("olt", size, text.like(x, form.smallest))
    up = 3 * (form.fraction // 3 + 2)
    scaled_x = text.select(tiny, text.mul(size, text.like(x, 2.0**up)), size)
    m, remainder, with_magic = _exponent_by_three(text, scaled_x)
    one, two, third = (text.like(x, c) for c in (1.0, 2.0, 1 / 3))
    first = text.compare("oeq", remainder, one)
    second = text.compare("oeq", remainder, two)
    d = text.mul(m, text.select(second, text.like(x, 4.0), text.select(first, two, one)))
    guess = text.select(
        second,
        text.like(x, 2.0 ** (-2 / 3)),
        text.select(first, text.like(x, 2.0 ** (-1 / 3)), one),
    )
    guess = text.mul(guess, polynomial(text, m, ROOT))
    cube = text.mul(text.mul(guess, guess), guess)
    guess = text.fma(text.mul(guess, third), text.fma(text.fneg(d), cube, one), guess)
    root = truncated(text, text.mul(d, text.mul(guess, guess)), form.fraction // 2 + 2)
    change = text.mul(text.sub(text.div(d, text.mul(root, root)), root), third)
    change = text.fma(text.fneg(change), text.mul(change, guess), change)
    scale = power_of_two(text, as_bits(text, with_magic))
    value = text.mul(text.add(root, change), scale)
    value = text.select(tiny, text.mul(value, text.like(x, 2.0 ** -(up // 3))), value)
    plain = text.compare("olt", text.mul(size, text.like(x, 0.0)), one)
    usual = text.op("and", plain, text.compare("one", size, text.like(x, 0.0)))
    return text.select(usual, copysign(text, value, x), x)
