"""erf and erfc.

erfc(x) = e**(-x**2) u P(u) with u = 1 / (x + 3) for x >= 1/2 (a variable of the kind Shepherd and
Laframboise 1981 use), where x**2, u, e**r and P keep their rounding errors, and the sum of those
corrects the product once. erf(x) = x + x P(x**2) up to 1, and 1 - erfc(x) beyond.
"""

from typing import Final

from ftrace.cpu.mathematics.exponential import (
    EXP,
    LOG2_E,
    long_polynomial,
    reduced,
    rounded,
    scaled,
)
from ftrace.cpu.mathematics.pieces import (
    copysign,
    fast_two_sum,
    minimum,
    residual,
    two_product,
    two_sum,
)
from ftrace.cpu.text import Text, Value

# P(u) of erfc for 1/2 <= x <= TOP: relative error 2**-25.9, 2**-59.4
ERFC: Final = {
    "f4": (
        0.5643444,
        1.6833823,
        5.026967,
        9.477982,
        57.63583,
        -65.81178,
        483.9191,
        -142.17474,
        -489.67725,
    ),
    "f8": (
        0.5641895835432488,
        1.6925687517019936,
        4.795611344917898,
        12.69427336248016,
        30.889020700161158,
        67.29187637202486,
        124.29481702087361,
        178.57241920002906,
        -27.307592311684793,
        961.9049314081374,
        -16766.982799791796,
        128096.05547843844,
        -925927.4921114793,
        5331883.603132161,
        -24396418.06257501,
        89000710.71113631,
        -250320562.33199686,
        521973771.421346,
        -775731887.1192905,
        776941422.3651059,
        -471135612.1333862,
        131055165.12056424,
    ),
}
# erf(x)/x - 1 in x**2 <= 1: relative error of erf 2**-28.6, 2**-56.3
ERF: Final = {
    "f4": (
        0.12837917,
        -0.37612626,
        0.112835586,
        -0.02685186,
        0.005183384,
        -0.0007957886,
        7.65638e-05,
    ),
    "f8": (
        0.1283791670955126,
        -0.3761263890318375,
        0.11283791670954857,
        -0.026866170645072823,
        0.005223977624780168,
        -0.0008548326978701065,
        0.000120553310353653,
        -1.4925593469254912e-05,
        1.6460972201737579e-06,
        -1.6350018584029534e-07,
        1.4657834453177425e-08,
        -1.1365487813281252e-09,
        5.944956037617548e-11,
    ),
}
TOP: Final = {"f4": 10.5, "f8": 27.5}  # erfc is 0 from there


def _complement(text: Text, x: Value) -> Value:
    """erfc(x) of x >= 1/2."""
    x = minimum(text, text.like(x, TOP[x.dtype]), x)
    one = text.like(x, 1.0)
    # u = 1 / (x + 3), with its remainder
    below, below_left = two_sum(text, text.like(x, 3.0), x)
    u = text.div(one, below)
    change = text.fma(text.fneg(u), below_left, residual(text, one, u, below))
    first, *others = ERFC[x.dtype]
    rest = text.mul(u, long_polynomial(text, u, tuple(others)))
    p, p_left = two_sum(text, text.like(x, first), rest)
    # e**(-x**2), x**2 as a pair
    square, square_left = two_product(text, x, x)
    power = text.fneg(square)
    with_magic, n = rounded(text, power, LOG2_E)
    r, left = reduced(text, power, n)
    tail = text.fma(text.mul(r, r), long_polynomial(text, r, EXP[x.dtype]), r)
    e, e_left = fast_two_sum(text, one, tail)
    change = text.add(change, text.sub(left, square_left))
    eu, eu_left = two_product(text, e, u)
    small = text.fma(e_left, u, eu_left)
    small = text.fma(eu, change, small)
    small = text.fma(eu, p_left, text.mul(small, p))
    return scaled(text, text.fma(eu, p, small), with_magic, n)


def _small_tail(text: Text, x: Value) -> Value:
    """erf(x) - x, of |x| <= 1."""
    return text.mul(x, long_polynomial(text, text.mul(x, x), ERF[x.dtype]))


def erf(text: Text, x: Value) -> Value:
    """x + x P(x**2) up to |x| = 1, then 1 - erfc|x| with the sign of x."""
    size, one = text.fabs(x), text.like(x, 1.0)
    outer = text.sub(one, _complement(text, size))
    near = text.compare("olt", size, one)
    value = text.select(near, text.add(x, _small_tail(text, x)), outer)
    return copysign(text, value, x)


def erfc(text: Text, x: Value) -> Value:
    """1 - erf(x) up to |x| = 1/2, then erfc|x| or 2 - erfc|x|."""
    size, one = text.fabs(x), text.like(x, 1.0)
    outer = _complement(text, size)
    negative = text.compare("olt", x, text.like(x, 0.0))
    outer = text.select(negative, text.sub(text.like(x, 2.0), outer), outer)
    total, left = fast_two_sum(text, one, text.fneg(x))
    inner = text.add(total, text.sub(left, _small_tail(text, x)))
    return text.select(text.compare("olt", size, text.like(x, 0.5)), inner, outer)
