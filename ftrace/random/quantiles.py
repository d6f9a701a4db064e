"""The logarithm and the normal quantile, of nothing but + - * / and sqrt, comparisons and bits.

A library's `log` differs in the last bit from one processor to the next, and so would samples. All
operations here are rounded exactly, on NumPy, in kernels of the CPU and of a GPU: a normal sample
is the same everywhere. Nothing differentiates by these arguments, which are random bits.

Sources: FreeBSD's msun (`e_log.c`, `e_logf.c`); M. Wichura, Algorithm AS 241 (1988).
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.dtypes import float32
from ftrace.numpy.promote import cast
from ftrace.primitives.convert import bitcast_convert_type

Numbers = Sequence[float]
_INT: Final = np.dtype(np.int32)
_ROOT_HALF: Final = 0.5**0.5


class _Log(NamedTuple):
    """Coefficients of log in a dtype: ln 2 in two parts, and a polynomial in s^2."""

    high: float
    low: float
    series: Numbers


_LOG: Final = {
    4: _Log(
        float.fromhex("0x1.62e3p-1"),
        float.fromhex("0x1.2fefa2p-17"),
        [
            float.fromhex(x)
            for x in ("0xaaaaaap-24", "0xccce13p-25", "0x91e9eep-25", "0xf89e26p-26")
        ],
    ),
    8: _Log(
        6.93147180369123816490e-01,
        1.90821492927058770002e-10,
        [
            *(6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01),
            *(2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01),
            1.479819860511658591e-01,
        ],
    ),
}


def polynomial(x: Any, coefficients: Numbers) -> Any:
    """The sum of c[i] x^i, by Horner's rule in x's dtype."""
    number = typeof(x).dtype.type
    *rest, last = map(number, coefficients)
    total = x * last
    for c in rest[:0:-1]:
        total = (total + c) * x
    return total + rest[0]


def log(x: Any) -> Any:
    """The logarithm of a positive float32 or float64 that is not subnormal."""
    dtype = typeof(x).dtype
    info, parts, number = np.finfo(dtype), _LOG[dtype.itemsize], dtype.type
    word = np.dtype(f"i{dtype.itemsize}")
    bits = bitcast_convert_type(x, new_dtype=word)
    # x = 2^k (1 + f), where 1 + f lies between the roots of 1/2 and 2
    k = (bits - number(_ROOT_HALF).view(word)) >> word.type(info.nmant)
    fraction = bits - (k << word.type(info.nmant))
    f = bitcast_convert_type(fraction, new_dtype=dtype) - number(1)
    s = f / (f + number(2))
    z = s * s
    half = f * f * number(0.5)
    k = cast(cast(k, _INT), dtype)
    rest = s * (half + z * polynomial(z, parts.series)) + k * number(parts.low)
    return k * number(parts.high) - ((half - rest) - f)


class _Quantile(NamedTuple):
    """Numerators and denominators of AS 241: near 0, in the tails, far out."""

    centre: tuple[Numbers, Numbers]
    tail: tuple[Numbers, Numbers]
    far: tuple[Numbers, Numbers] | None


_SINGLE: Final = _Quantile(
    (
        (3.3871327179, 50.434271938, 159.29113202, 59.109374720),
        (1.0, 17.895169469, 78.757757664, 67.187563600),
    ),
    (
        (1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103),
        (1.0, 0.73700164250, 0.12021132975),
    ),
    None,  # no float32 below 1 is that near to it
)
_DOUBLE: Final = _Quantile(
    (
        (
            *(3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3),
            *(1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4),
            *(3.3430575583588128105e4, 2.5090809287301226727e3),
        ),
        (
            *(1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3),
            *(2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4),
            5.2264952788528545610e3,
        ),
    ),
    (
        (
            *(1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0),
            *(3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1),
            *(2.27238449892691845833e-2, 7.74545014278341407640e-4),
        ),
        (
            *(1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1),
            *(1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4),
            1.05075007164441684324e-9,
        ),
    ),
    (
        (
            *(6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0),
            *(2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3),
            *(2.71155556874348757815e-5, 2.01033439929228813265e-7),
        ),
        (
            *(1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2),
            *(7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7),
            2.04426310338993978564e-15,
        ),
    ),
)


def _ratio(x: Any, parts: tuple[Numbers, Numbers]) -> Any:
    return polynomial(x, parts[0]) / polynomial(x, parts[1])


def normal_quantile(u: Any) -> Any:
    """sqrt(2) erf_inv(u): the normal deviate below which lies (1 + u) / 2, for |u| < 1."""
    dtype = typeof(u).dtype
    number = dtype.type
    parts = _SINGLE if dtype == float32 else _DOUBLE
    q = u * number(0.5)
    centre = q * _ratio(number(0.180625) - q * q, parts.centre)
    r = np.sqrt(-log((number(1) - abs(u)) * number(0.5)))
    tail = _ratio(r - number(1.6), parts.tail)
    if parts.far is not None:
        tail = np.where(r <= number(5), tail, _ratio(r - number(5), parts.far))
    tail = np.where(u < number(0), -tail, tail)
    return np.where(abs(q) <= number(0.425), centre, tail)
