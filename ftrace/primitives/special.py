"""Special functions: the error function, gamma and Bessel families, through SciPy.

SciPy is imported at the first call, not before. Derivative rules stay within the rows of this
file, so they can be differentiated again: digamma leads to polygamma, Bessel functions to those
of neighbouring orders. Elementary functions are in elementwise.py.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.lazy import lazy
from ftrace.core.primitive import Primitive, Rule, Sample, Unsupported
from ftrace.primitives.elementwise import div, exp, log, log1p, mul, neg, sign, square, sub
from ftrace.primitives.families import FLOATING, REAL, Reals, binary, constant, unary
from ftrace.primitives.linear import add

POSITIVE = Reals(0.3, 4)


def _scipy(name: str) -> Rule:
    """A function of scipy.special whose result has the dtype of its (last) operand."""
    fn = lazy("scipy.special", name)

    def evaluate(*args: Any) -> Any:
        y = fn(*args)
        dtype = typeof(args[-1]).dtype
        return y if y.dtype == dtype else y.astype(dtype)

    return evaluate


# ---------------------------------------------------------------------------------- erf

TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
HALF_ROOT_PI = math.sqrt(math.pi) / 2
ROOT_TWO_PI = math.sqrt(2 * math.pi)

erf = unary(
    "erf",
    _scipy("erf"),
    FLOATING,
    jvp=lambda t, y, x: mul(t, mul(exp(neg(square(x))), TWO_OVER_ROOT_PI)),
    points=(0.0,),
    doc="The error function, elementwise.",
)
erfc = unary(
    "erfc",
    _scipy("erfc"),
    FLOATING,
    jvp=lambda t, y, x: mul(t, mul(exp(neg(square(x))), -TWO_OVER_ROOT_PI)),
    doc="1 - erf(x), precise for large x.",
)
erf_inv = unary(
    "erf_inv",
    _scipy("erfinv"),
    REAL,
    jvp=lambda t, y, x: mul(t, mul(exp(square(y)), HALF_ROOT_PI)),
    domain=Reals(-0.9, 0.9),
    points=(0.0,),
    doc="The inverse of the error function, elementwise.",
)
ndtri = unary(
    "ndtri",
    _scipy("ndtri"),
    REAL,
    jvp=lambda t, y, x: mul(t, mul(exp(mul(square(y), 0.5)), ROOT_TWO_PI)),
    domain=Reals(0.1, 0.9),
    points=(0.5,),
    doc="The inverse of the normal distribution function, elementwise.",
)
log_ndtr = unary(
    "log_ndtr",
    _scipy("log_ndtr"),
    REAL,
    jvp=lambda t, y, x: mul(t, div(exp(sub(mul(square(x), -0.5), y)), ROOT_TWO_PI)),
    domain=Reals(-5, 5),
    doc="The logarithm of the normal distribution function, elementwise.",
)


def _logistic_impl(x: Any) -> Any:
    if np.iscomplexobj(x):
        return 1 / (1 + np.exp(-x))
    return _expit(x)


_expit = _scipy("expit")
logistic = unary(
    "logistic",
    _logistic_impl,
    FLOATING,
    jvp=lambda t, y, x: mul(t, mul(y, sub(1.0, y))),
    points=(0.0,),
    doc="1 / (1 + exp(-x)), elementwise.",
)

# ---------------------------------------------------------------------------------- gamma


def _no_derivative(name: str, operand: str) -> Rule:
    return Unsupported(f"{name} has no derivative by {operand} in closed form.")


gamma = unary(
    "gamma",
    _scipy("gamma"),
    REAL,
    jvp=lambda t, y, x: mul(t, mul(y, digamma(x))),
    domain=POSITIVE,
    doc="The gamma function, elementwise.",
)
lgamma = unary(
    "lgamma",
    _scipy("gammaln"),
    REAL,
    jvp=lambda t, y, x: mul(t, digamma(x)),
    domain=POSITIVE,
    doc="The logarithm of the absolute value of the gamma function.",
)
digamma = unary(
    "digamma",
    _scipy("psi"),
    REAL,
    jvp=lambda t, y, x: mul(t, polygamma(constant(1, x), x)),
    domain=POSITIVE,
    doc="The derivative of lgamma, elementwise.",
)
polygamma = binary(
    "polygamma",
    _scipy("polygamma"),
    REAL,
    jvp=(
        _no_derivative("polygamma", "its order"),
        lambda t, z, m, x: mul(t, polygamma(add(m, 1.0), x)),
    ),
    samples=lambda: _ordered_samples((0, 1, 2, 3)),
    doc="The m-th derivative of digamma, m >= 0 a whole number in the dtype of x.",
)
zeta = binary(
    "zeta",
    lazy_zeta := _scipy("zeta"),
    REAL,
    jvp=(
        _no_derivative("zeta", "its exponent"),
        lambda t, z, x, q: neg(mul(t, mul(x, zeta(add(x, 1.0), q)))),
    ),
    samples=lambda: _ordered_samples((2, 3, 4)),
    doc="Hurwitz' zeta function: the sum of (q + k)**-x over k = 0, 1, 2, ...",
)
