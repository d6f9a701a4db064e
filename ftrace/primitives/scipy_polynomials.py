"""Orthogonal polynomials of scipy.special, as `Function`s of whole degrees, and Legendre functions.

Source: NIST Digital Library of Mathematical Functions, chapters 14 and 18.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.core.lazy import lazy
from ftrace.core.primitive import Rule
from ftrace.primitives import elementwise as e
from ftrace.primitives.elementwise import div, mul, neg, select, square, sub
from ftrace.primitives.families import Reals
from ftrace.primitives.linear import add
from ftrace.primitives.scipy_functions import (
    ANY,
    UNIT,
    Function,
    half,
    of_integer,
    plus,
    several,
    times,
    total,
)

# ---------------------------------------------------------------------------------- 18.9


def _lower(n: Any, f: Callable[[Any], Any]) -> Any:
    """f(n - 1), and 0 where n is 0."""
    value = f(e.max(plus(n, -1.0), 0.0))
    return select(e.lt(n, 1.0), mul(value, 0.0), value)


def _polynomial(name: str, doc: str, rule: Rule, more: tuple[int, ...] = ()) -> Function:
    partials = (None, *(None for _ in more), rule)
    return Function(name, doc, partials, (2, *more, ANY), impl=of_integer(name))


eval_gegenbauer: Final = _polynomial(
    "eval_gegenbauer",
    "Gegenbauer's polynomial of n and alpha at x.",
    lambda z, n, a, x: times(_lower(n, lambda k: eval_gegenbauer(k, plus(a, 1.0), x)), a, 2.0),
    (1,),
)
eval_legendre: Final = _polynomial(
    "eval_legendre",
    "Legendre's polynomial of degree n at x.",
    lambda z, n, x: _lower(n, lambda k: eval_gegenbauer(k, 1.5, x)),
)
eval_chebyu: Final = _polynomial(
    "eval_chebyu",
    "Chebyshev's polynomial of the second kind.",
    lambda z, n, x: mul(_lower(n, lambda k: eval_gegenbauer(k, 2.0, x)), 2.0),
)
eval_chebyt: Final = _polynomial(
    "eval_chebyt",
    "Chebyshev's polynomial of the first kind.",
    lambda z, n, x: mul(n, eval_chebyu(e.max(plus(n, -1.0), 0.0), x)),
)
eval_hermite: Final = _polynomial(
    "eval_hermite",
    "The physicist's Hermite polynomial.",
    lambda z, n, x: times(n, 2.0, eval_hermite(e.max(plus(n, -1.0), 0.0), x)),
)
eval_hermitenorm: Final = _polynomial(
    "eval_hermitenorm",
    "The probabilist's Hermite polynomial.",
    lambda z, n, x: mul(n, eval_hermitenorm(e.max(plus(n, -1.0), 0.0), x)),
)
eval_genlaguerre: Final = _polynomial(
    "eval_genlaguerre",
    "The generalised Laguerre polynomial of n and alpha at x.",
    lambda z, n, a, x: neg(_lower(n, lambda k: eval_genlaguerre(k, plus(a, 1.0), x))),
    (1,),
)
eval_laguerre: Final = _polynomial(
    "eval_laguerre",
    "Laguerre's polynomial of degree n at x.",
    lambda z, n, x: neg(_lower(n, lambda k: eval_genlaguerre(k, 1.0, x))),
)


# ---------------------------------------------------------------------------------- of these


def _jacobi_slope(z: Any, n: Any, a: Any, b: Any, x: Any) -> Any:
    """18.9.15."""
    below = _lower(n, lambda k: eval_jacobi(k, plus(a, 1.0), plus(b, 1.0), x))
    return half(mul(plus(total(n, a, b), 1.0), below))


eval_jacobi: Final = _polynomial(
    "eval_jacobi", "Jacobi's polynomial of n, alpha and beta at x.", _jacobi_slope, (1, 2)
)
eval_sh_jacobi: Final = _polynomial(
    "eval_sh_jacobi",
    "The shifted Jacobi polynomial of n, p and q at x, whose highest coefficient is 1.",
    lambda z, n, p, q, x: mul(
        n, _lower(n, lambda k: eval_sh_jacobi(k, plus(p, 2.0), plus(q, 1.0), x))
    ),
    (3, 2),
)


def _shifted(x: Any) -> Any:
    return plus(mul(x, 2.0), -1.0)


def _slope(f: Function, n: Any, x: Any) -> Any:
    return f.partials[-1](None, n, x)  # type: ignore[misc]


def _of_shifted(name: str, of: Function) -> Function:
    doc = f"{of.name}(n, 2 x - 1)."
    return _polynomial(name, doc, lambda z, n, x: mul(_slope(of, n, _shifted(x)), 2.0))


eval_sh_legendre: Final = _of_shifted("eval_sh_legendre", eval_legendre)
eval_sh_chebyt: Final = _of_shifted("eval_sh_chebyt", eval_chebyt)
eval_sh_chebyu: Final = _of_shifted("eval_sh_chebyu", eval_chebyu)
eval_chebys: Final = _polynomial(
    "eval_chebys", "eval_chebyu(n, x / 2).", lambda z, n, x: half(_slope(eval_chebyu, n, half(x)))
)
eval_chebyc: Final = _polynomial(
    "eval_chebyc", "2 eval_chebyt(n, x / 2).", lambda z, n, x: _slope(eval_chebyt, n, half(x))
)

# ---------------------------------------------------------------------------------- 14.2

INSIDE: Final = Reals(-0.8, 0.8)


def _legendre_slope(z: Any, m: Any, v: Any, x: Any) -> Any:
    """14.10.5, and the limits at the ends."""
    inside = e.lt(e.abs(x), 1.0)
    at = select(inside, x, mul(x, 0.0))
    below = mul(add(v, m), lpmv(m, plus(v, -1.0), at))
    found = div(sub(below, times(v, at, lpmv(m, v, at))), sub(1.0, square(at)))
    return select(inside, found, _legendre_end(m, v, x))


def _legendre_end(m: Any, v: Any, x: Any) -> Any:
    """The slope at 1 of order 0, 2 and above; infinite of order 1, and at -1 of no whole degree."""
    whole = times(v, plus(v, 1.0))
    second = times(whole, plus(v, -1.0), plus(v, 2.0), -0.25)
    end = select(e.eq(m, 0.0), half(whole), select(e.eq(m, 2.0), second, mul(whole, 0.0)))
    odd = e.ne(e.floor(half(v)), half(v))
    turned = select(e.lt(x, 0.0), select(odd, end, neg(end)), end)
    known = e.bitwise_and(e.ne(m, 1.0), e.bitwise_or(e.gt(x, 0.0), e.eq(v, e.floor(v))))
    return select(known, turned, mul(whole, math.nan))


lpmv: Final = Function(
    "lpmv",
    "The associated Legendre function of whole order m, real degree v, at x.",
    (None, None, _legendre_slope),
    (1, 3, INSIDE),
)


def _jets(
    name: str, doc: str, curve: Rule, options: int, at: Reals, **given: Any
) -> list[Function]:
    """A Legendre function of n, m and x with its slope and curvature; `curve` is the third."""
    plain = lazy("scipy.special", name)

    def evaluate(n: Any, m: Any, x: Any, *more: Any) -> Any:
        whole = (np.asarray(v).astype(np.int64) for v in (n, m))
        cut = [np.asarray(v).astype(np.int64) for v in more]
        options = {"branch_cut": cut[0]} if cut else {}
        return plain(*whole, x, diff_n=2, **options, **given)

    jets: list[Function] = []

    def rule(k: int) -> Rule:
        if k < 2:
            return lambda z, *xs: jets[k + 1](*xs)
        return lambda z, *xs: curve(*(f(*xs) for f in jets), *xs)

    rest = (None,) * options
    samples = (3, 1, at, *(2,) * options)
    label = f"{name}_normed_jet" if given.get("norm") else f"{name}_jet"
    jets += several(
        label,
        doc,
        samples,
        *((None, None, rule(k), *rest) for k in range(3)),
        impl=evaluate,
        own=True,
    )
    return jets


def _third(w: Any, s: Any, c: Any, n: Any, m: Any, x: Any, *cut: Any) -> Any:
    """The derivative of 14.2.2."""
    rest = sub(1.0, square(x))
    order = div(square(m), rest)
    force = mul(s, plus(sub(order, mul(n, plus(n, 1.0))), 2.0))
    return div(total(times(x, c, 4.0), force, div(times(w, x, order, 2.0), rest)), rest)


def _third_by_angle(w: Any, s: Any, c: Any, n: Any, m: Any, x: Any) -> Any:
    """The derivative of 14.2.2 in x = cos(theta): w'' + cot w' + (n (n + 1) - m**2 / sin**2) w."""
    sine, cosine = e.sin(x), e.cos(x)
    order = div(square(m), square(sine))
    force = sub(add(order, div(1.0, square(sine))), mul(n, plus(n, 1.0)))
    turn = div(times(w, order, cosine, 2.0), sine)
    return sub(sub(mul(s, force), div(mul(cosine, c), sine)), turn)


ASSOCIATED: Final = _jets(
    "assoc_legendre_p", "The associated Legendre polynomial.", _third, 1, INSIDE
)
NORMED: Final = _jets(
    "assoc_legendre_p", "The normalised associated one.", _third, 1, INSIDE, norm=True
)
SPHERICAL: Final = _jets(
    "sph_legendre_p", "The spherical Legendre polynomial of an angle.", _third_by_angle, 0, UNIT
)
