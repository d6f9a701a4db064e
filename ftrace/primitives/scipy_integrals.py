"""Integrals, complete elliptic and hypergeometric functions of scipy.special, as `Function`s.

At removable singularities of the textbook's derivatives stand hypergeometric functions.

Source: NIST Digital Library of Mathematical Functions, chapters 6, 10, 15 and 19.
"""

import math
from typing import Any, Final

from ftrace.core.primitive import Rule
from ftrace.primitives import elementwise as e
from ftrace.primitives.elementwise import div, exp, log, mul, neg, select, sub
from ftrace.primitives.families import Reals
from ftrace.primitives.linear import add
from ftrace.primitives.scipy_bessel import ZEROTH, spherical_in, spherical_jn
from ftrace.primitives.scipy_functions import (
    ANY,
    POSITIVE,
    UNIT,
    Function,
    either,
    half,
    plus,
    times,
)

sine_integral: Final = Function(
    "sici_0",
    "The integral of sin(t) / t.",
    (lambda z, x: spherical_jn(ZEROTH, x),),
    (ANY,),
    position=0,
)
cosine_integral: Final = Function(
    "sici_1",
    "The integral of cos(t) / t.",
    (lambda z, x: div(e.cos(x), x),),
    (POSITIVE,),
    position=1,
)
sinh_integral: Final = Function(
    "shichi_0",
    "The integral of sinh(t) / t.",
    (lambda z, x: spherical_in(ZEROTH, x),),
    (ANY,),
    position=0,
)
cosh_integral: Final = Function(
    "shichi_1",
    "The integral of cosh(t) / t.",
    (lambda z, x: div(e.cosh(x), x),),
    (POSITIVE,),
    position=1,
)
exp1: Final = Function(
    "exp1", "The exponential integral E1.", (lambda z, x: neg(div(exp(neg(x)), x)),), (POSITIVE,)
)
expi: Final = Function(
    "expi", "The exponential integral Ei.", (lambda z, x: div(exp(x), x),), (POSITIVE,)
)


def _expn_slope(z: Any, n: Any, x: Any) -> Any:
    """-expn(n - 1, x), where SciPy has none for negative orders."""
    last = neg(mul(div(exp(neg(x)), x), plus(div(1.0, x), 1.0)))
    return select(e.lt(n, 1.0), last, neg(expn(e.max(plus(n, -1.0), 0.0), x)))


expn: Final = Function(
    "expn", "The exponential integral of order n.", (None, _expn_slope), (2, POSITIVE)
)


def _spence(z: Any, x: Any) -> Any:
    near = e.lt(e.abs(sub(x, 1.0)), 0.5)
    inner = lambda x: neg(hyp2f1(1.0, 1.0, 2.0, sub(1.0, x)))  # noqa: E731
    return either(near, x, (inner, 1.0), (lambda x: div(log(x), sub(1.0, x)), 2.0))


spence: Final = Function("spence", "The dilogarithm of 1 - x.", (_spence,), (Reals(0.6, 3),))
exprel: Final = Function(
    "exprel",
    "(exp(x) - 1) / x.",
    (lambda z, x: half(hyp1f1(2.0, 3.0, x)),),
    (ANY,),
)
wrightomega: Final = Function(
    "wrightomega",
    "The solution w of w + log(w) = x.",
    (lambda z, x: div(z, plus(z, 1.0)),),
    (ANY,),
    kinds="fc",
)

# ------------------------------------------------------------------- elliptic, hypergeometric


def _elliptic(near: Rule, far: Rule) -> Rule:
    """By a series about 0, and by the closed form elsewhere."""
    return lambda z, m: either(e.lt(e.abs(m), 0.5), m, (near, 0.0), (far, -1.0))


def _k_near(m: Any) -> Any:
    return mul(hyp2f1(1.5, 1.5, 2.0, m), math.pi / 8)


def _k_far(m: Any) -> Any:
    rest = sub(1.0, m)
    return div(sub(ellipe(m), mul(rest, ellipk(m))), times(m, 2.0, rest))


def _km1_far(p: Any) -> Any:
    m = sub(1.0, p)
    return div(sub(mul(p, ellipkm1(p)), ellipe(m)), times(m, 2.0, p))


ellipk: Final = Function(
    "ellipk",
    "The complete elliptic integral of the first kind.",
    (_elliptic(_k_near, _k_far),),
    (Reals(0.55, 0.9),),
)
ellipkm1: Final = Function(
    "ellipkm1",
    "ellipk(1 - p), precise for small p.",
    (
        lambda z, p: either(
            e.gt(p, 0.5), p, (lambda p: neg(_k_near(sub(1.0, p))), 1.0), (_km1_far, 0.25)
        ),
    ),
    (UNIT,),
)
ellipe: Final = Function(
    "ellipe",
    "The complete elliptic integral of the second kind.",
    (
        _elliptic(
            lambda m: mul(hyp2f1(0.5, 1.5, 2.0, m), -math.pi / 8),
            lambda m: div(sub(ellipe(m), ellipk(m)), mul(m, 2.0)),
        ),
    ),
    (Reals(-0.4, 0.4),),
)


hyp0f1: Final = Function(
    "hyp0f1",
    "The confluent hypergeometric limit function.",
    (None, lambda z, v, x: div(hyp0f1(plus(v, 1.0), x), v)),
    (2, ANY),
)
hyp1f1: Final = Function(
    "hyp1f1",
    "The confluent hypergeometric function 1F1.",
    (
        None,
        None,
        lambda z, a, b, x: mul(div(a, b), hyp1f1(plus(a, 1.0), plus(b, 1.0), x)),
    ),
    (1, 3, ANY),
)
hyperu: Final = Function(
    "hyperu",
    "The confluent hypergeometric function U.",
    (
        None,
        None,
        lambda z, a, b, x: neg(mul(a, hyperu(plus(a, 1.0), plus(b, 1.0), x))),
    ),
    (1, 2, POSITIVE),
)
hyp2f1: Final = Function(
    "hyp2f1",
    "The hypergeometric function 2F1.",
    (
        None,
        None,
        None,
        lambda z, a, b, c, x: mul(
            div(mul(a, b), c), hyp2f1(plus(a, 1.0), plus(b, 1.0), plus(c, 1.0), x)
        ),
    ),
    (1, 2, 4, Reals(-0.8, 0.6)),
)

# ------------------------------------------------------------------------ Wright's, 10.46


def _wright(name: str, doc: str, slope: Rule) -> Function:
    return Function(name, doc, (None, None, slope), (1, 2, POSITIVE))


wright_bessel: Final = _wright(
    "wright_bessel",
    "Wright's generalised Bessel function of a, b and x.",
    lambda z, a, b, x: wright_bessel(a, add(a, b), x),
)
log_wright_bessel: Final = _wright(
    "log_wright_bessel",
    "The logarithm of wright_bessel(a, b, x).",
    lambda z, a, b, x: exp(sub(log_wright_bessel(a, add(a, b), x), z)),
)
zetac: Final = Function("zetac", "Riemann's zeta function less one.", (None,), (3,))
