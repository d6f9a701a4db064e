"""erf and erfc.

erfc(x) = e**(-x**2) u P(u) with u = 1 / (x + 3) for x >= 3/4 (a variable of the kind Shepherd and
Laframboise 1981 use), where x**2, u, e**r and P keep their rounding errors, and the sum of those
corrects the product once. Up to 1, erf(x) = x + x P(x**2).
"""

from typing import Final

from ftrace.cpu.llvm.text import Text, Typed
from ftrace.cpu.mathematics.exponential import (
    EXP,
    LOG2_E,
    exp,
    long_polynomial,
    reduced,
    rounded,
    scaled,
)
from ftrace.cpu.mathematics.pieces import (
    copysign,
    corrected_product,
    fast_two_sum,
    minimum,
    residual,
    two_product,
    two_sum,
)

# P of erfc in u - 5/64, 3/4 <= x <= TOP: relative error 2**-27.2, 2**-56
ERFC: Final = {
    "f4": (
        0.73312265,
        2.7482228,
        9.303419,
        27.845224,
        72.01985,
        136.88101,
        273.34497,
        -275.54956,
        -733.0032,
    ),
    "f8": (
        0.7331226684489197,
        2.748224102590665,
        9.303093833119965,
        27.866553861394088,
        71.398105284879,
        146.27230936814559,
        198.1318149375246,
        2.8056465501846946,
        -811.8058080414182,
        -1906.221601056373,
        75.44629938472423,
        11050.956213957592,
        20163.081492095003,
        -39494.10819829704,
        -199977.47362194964,
        -88073.01163123429,
        2086629.70550696,
        3224170.866562093,
        -36680783.8717957,
        80538579.99082838,
        -61497493.00326016,
    ),
}
ERFC_LOW: Final = {
    "f4": 1.864035426051467e-08,
    "f8": -4.838362361502728e-17,
}  # what rounding P's constant left out
SHIFT: Final = 0.078125
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


def _series(text: Text, x: Typed, u: Typed, u_left: Typed) -> tuple[Typed, Typed]:
    """P(u + u_left) as a pair: the last two steps of Horner's rule keep their errors."""
    t = text.sub(u, text.like(x, SHIFT))
    first, second, *others = ERFC[x.dtype]
    rest = text.mul(t, long_polynomial(text, t, tuple(others)))
    slope, slope_left = two_sum(text, text.like(x, second), rest)
    product, left = two_product(text, t, slope)
    p, p_left = two_sum(text, text.like(x, first), product)
    left = text.fma(t, slope_left, text.fma(u_left, slope, left))
    return p, text.add(text.add(p_left, text.like(x, ERFC_LOW[x.dtype])), left)


def _complement(text: Text, x: Typed) -> Typed:
    """erfc(x) of x >= 3/4."""
    x = minimum(text, text.like(x, TOP[x.dtype]), x)
    one = text.like(x, 1.0)
    # u = 1 / (x + 3), with its remainder
    below, below_left = two_sum(text, text.like(x, 3.0), x)
    u = text.div(one, below)
    change = text.fma(text.fneg(u), below_left, residual(text, one, u, below))
    p, p_left = _series(text, x, u, text.mul(u, change))
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
    return scaled(text, corrected_product(text, eu, p, small), with_magic, n)


def _small_tail(text: Text, x: Typed) -> Typed:
    """erf(x) - x, of |x| <= 1."""
    return text.mul(x, long_polynomial(text, text.mul(x, x), ERF[x.dtype]))


def erf(text: Text, x: Typed) -> Typed:
    """x + x P(x**2) up to |x| = 1, then 1 - erfc|x| with the sign of x."""
    size, one = text.fabs(x), text.like(x, 1.0)
    limited = minimum(text, text.like(x, TOP[x.dtype]), size)
    u = text.div(one, text.add(limited, text.like(x, 3.0)))
    p = long_polynomial(text, text.sub(u, text.like(x, SHIFT)), ERFC[x.dtype])
    power = exp(text, text.fneg(text.mul(limited, limited)))
    outer = text.sub(one, text.mul(power, text.mul(u, p)))
    near = text.compare("olt", size, one)
    value = text.select(near, text.add(x, _small_tail(text, x)), outer)
    return copysign(text, value, x)


def erfc(text: Text, x: Typed) -> Typed:
    """1 - erf(x) up to |x| = 3/4, then erfc|x| or 2 - erfc|x|."""
    size, one = text.fabs(x), text.like(x, 1.0)
    outer = _complement(text, size)
    negative = text.compare("olt", x, text.like(x, 0.0))
    outer = text.select(negative, text.sub(text.like(x, 2.0), outer), outer)
    total, left = fast_two_sum(text, one, text.fneg(x))
    inner = text.add(total, text.sub(left, _small_tail(text, x)))
    return text.select(text.compare("olt", size, text.like(x, 0.75)), inner, outer)
