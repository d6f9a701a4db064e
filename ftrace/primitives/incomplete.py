"""The incomplete gamma and beta functions, in every operand: `igamma`, `betainc` and their kin.

A derivative by a parameter is a moment: the integral of the density times powers of a logarithm's
distance from its mean. Moments are closed under differentiation. In the logarithm, or the logit,
of the variable the density is log-concave, so that Gauss and Legendre's rule over all that counts
of it is precise.

Source: NIST Digital Library of Mathematical Functions, chapters 5 and 8.
"""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any, Final

import numpy as np

from ftrace.core.lazy import lazy
from ftrace.core.primitive import Rule
from ftrace.primitives import elementwise as e
from ftrace.primitives.elementwise import div, exp, log, mul, neg, select, steep_mul, sub
from ftrace.primitives.linear import add
from ftrace.primitives.probability import xlog1py
from ftrace.primitives.scipy_functions import POSITIVE, UNIT, Function, plus, times, total
from ftrace.primitives.special import (
    digamma,
    gamma_density,
    polygamma,
    with_parameter,
    xlogy,
)

Densities = Callable[[Any], Any]
_psi, _gammaln, _betaln = (lazy("scipy.special", name) for name in ("psi", "gammaln", "betaln"))

# ---------------------------------------------------------------------------------- quadrature


@cache
def gauss(n: int) -> tuple[Any, Any]:
    """Nodes and weights of Gauss and Legendre's rule, found at the first call."""
    return np.polynomial.legendre.leggauss(n)


_LOST: Final = 42.0  # exp(-42) is below rounding
_BREAKS: Final = (-37.0, 0.0, 37.0)  # beyond the outer ones densities are powers


def nodes(density: Densities, mode: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Nodes, along a new last axis, and weights for the integral of a log-concave function.

    Args:
        density: the logarithm of it.
        mode: where that is greatest.
        low, high: the bounds of the integral, which may be infinite.
    """
    top = np.clip(mode, low, high)
    ends = [_end(density, top, low, -1.0), _end(density, top, high, 1.0)]
    parts = [np.clip(b, *ends) for b in (-np.inf, *_BREAKS, np.inf)]
    at, weights = gauss(64)
    middles = [(a + b)[..., None] / 2 for a, b in pairwise(parts)]
    radii = [(b - a)[..., None] / 2 for a, b in pairwise(parts)]
    return (
        np.concatenate([m + r * at for m, r in zip(middles, radii, strict=True)], axis=-1),
        np.concatenate([r * weights for r in radii], axis=-1),
    )


def _end(density: Densities, top: Any, bound: Any, side: float) -> Any:
    """Where nothing is left of the density, or the bound before that."""
    least = density(top) - _LOST
    far = np.ones_like(top)
    for _ in range(60):
        far = np.where(density(top + side * far) > least, far * 2, far)
    near = np.zeros_like(far)
    for _ in range(40):
        middle = (near + far) / 2
        more = density(top + side * middle) > least
        near, far = np.where(more, middle, near), np.where(more, far, middle)
    end = top + side * far
    return np.maximum(end, bound) if side < 0 else np.minimum(end, bound)


def _sides(once: Any, high: Any, mode: Any) -> tuple[Any, Any, Any]:
    """Bounds and sign of a moment: of the first, whose whole is 0, the tail beyond the mode.

    The sign of an empty integral is 0.
    """
    beyond = once & (high > mode)
    infinite = np.full_like(high, np.inf)
    low = np.where(beyond, high, -infinite)
    high = np.where(beyond, infinite, high)
    empty = high <= low
    sign = np.where(empty, 0.0, np.where(beyond, -1.0, 1.0))
    return np.where(empty, mode - 1, low), np.where(empty, mode, high), sign


def _gamma_moment(i: Any, a: Any, x: Any) -> Any:
    i, a, x = np.broadcast_arrays(*(np.asarray(v, float) for v in (i, a, x)))
    high, mode = np.log(x), np.log(a)
    low, high, sign = _sides(i == 1, high, mode)
    u, w = nodes(lambda u: _power(a, u), mode, low, high)
    powers = (u - _psi(a)[..., None]) ** i[..., None]
    scaled = np.exp(_power(a[..., None], u) - _gammaln(a)[..., None])
    return sign * np.sum(w * powers * scaled, axis=-1)


def _power(a: Any, u: Any) -> Any:
    return a * u - np.exp(np.minimum(u, 700.0))


def _beta_moment(i: Any, j: Any, a: Any, b: Any, x: Any) -> Any:
    i, j, a, b, x = np.broadcast_arrays(*(np.asarray(v, float) for v in (i, j, a, b, x)))
    high, mode = np.log(x) - np.log1p(-x), np.log(a) - np.log(b)
    low, high, sign = _sides(i + j == 1, high, mode)
    u, w = nodes(lambda u: -a * np.logaddexp(0, -u) - b * np.logaddexp(0, u), mode, low, high)
    first, second = -np.logaddexp(0, -u), -np.logaddexp(0, u)
    whole = _psi(a + b)[..., None]
    powers = (first - _psi(a)[..., None] + whole) ** i[..., None]
    powers = powers * (second - _psi(b)[..., None] + whole) ** j[..., None]
    scaled = np.exp(a[..., None] * first + b[..., None] * second - _betaln(a, b)[..., None])
    return sign * np.sum(w * powers * scaled, axis=-1)


def quietly(f: Rule) -> Rule:
    """A function of NumPy arrays that is NaN outside its domain, without a warning."""

    def evaluate(*xs: Any) -> Any:
        with np.errstate(all="ignore"):
            return f(*xs)

    return evaluate


def _lower(i: Any, f: Rule) -> Any:
    """i f(i - 1), and 0 where i is 0."""
    return mul(i, f(e.max(plus(i, -1.0), 0.0)))


def _inside(x: Any, y: Any) -> Any:
    """y, and 0 at the lower end, where the density is 0 and logarithms are infinite."""
    return select(e.gt(x, 0.0), y, mul(x, 0.0))


# ---------------------------------------------------------------------------------- gamma, 8.2


def _by_shape(z: Any, i: Any, a: Any, x: Any) -> Any:
    spread = mul(_lower(i, lambda k: gamma_moment(k, a, x)), polygamma(np.int64(1), a))
    return sub(gamma_moment(plus(i, 1.0), a, x), spread)


def _moment_end(z: Any, i: Any, a: Any, x: Any) -> Any:
    inside = select(e.gt(x, 0.0), x, plus(mul(x, 0.0), 1.0))
    return _inside(x, mul(gamma_density(a, inside), e.pow(sub(log(inside), digamma(a)), i)))


gamma_moment: Final = Function(
    "gamma_moment",
    "The integral of the gamma density of a times (log t - digamma(a))**i up to x, of i, a, x.",
    (None, _by_shape, _moment_end),
    (1, POSITIVE, POSITIVE),
    impl=quietly(_gamma_moment),
    own=True,
)


def gamma_by_shape(a: Any, x: Any) -> Any:
    """The derivative of igamma by a."""
    return gamma_moment(np.int64(1), a, x)


igamma = with_parameter(
    "igamma",
    lazy("scipy.special", "gammainc"),
    lambda t, z, a, x: steep_mul(t, gamma_density(a, x)),
    doc="The regularised lower incomplete gamma function: igamma(a, x).",
    by_parameter=lambda t, z, a, x: steep_mul(t, gamma_by_shape(a, x)),
)
igammac = with_parameter(
    "igammac",
    lazy("scipy.special", "gammaincc"),
    lambda t, z, a, x: neg(steep_mul(t, gamma_density(a, x))),
    doc="The regularised upper incomplete gamma function: igammac(a, x).",
    by_parameter=lambda t, z, a, x: neg(steep_mul(t, gamma_by_shape(a, x))),
)

# ---------------------------------------------------------------------------------- beta, 8.17

betaln: Final = Function(
    "betaln",
    "The logarithm of the absolute value of beta(a, b).",
    (
        lambda z, a, b: sub(digamma(a), digamma(add(a, b))),
        lambda z, a, b: sub(digamma(b), digamma(add(a, b))),
    ),
    (POSITIVE, POSITIVE),
)


def beta_density(a: Any, b: Any, x: Any) -> Any:
    """The derivative of betainc(a, b, x) by x."""
    ones = xlogy(plus(a, -1.0), x), xlog1py(plus(b, -1.0), neg(x))
    return exp(sub(add(*ones), betaln(a, b)))


def _by_one(z: Any, i: Any, j: Any, a: Any, b: Any, x: Any) -> Any:
    one = np.int64(1)
    apart = sub(polygamma(one, a), polygamma(one, add(a, b)))
    first = mul(_lower(i, lambda k: beta_moment(k, j, a, b, x)), apart)
    second = mul(_lower(j, lambda k: beta_moment(i, k, a, b, x)), polygamma(one, add(a, b)))
    return total(beta_moment(plus(i, 1.0), j, a, b, x), neg(first), second)


def _by_other(z: Any, i: Any, j: Any, a: Any, b: Any, x: Any) -> Any:
    one = np.int64(1)
    apart = sub(polygamma(one, b), polygamma(one, add(a, b)))
    first = mul(_lower(i, lambda k: beta_moment(k, j, a, b, x)), polygamma(one, add(a, b)))
    second = mul(_lower(j, lambda k: beta_moment(i, k, a, b, x)), apart)
    return total(beta_moment(i, plus(j, 1.0), a, b, x), first, neg(second))


def _beta_end(z: Any, i: Any, j: Any, a: Any, b: Any, x: Any) -> Any:
    within = e.bitwise_and(e.gt(x, 0.0), e.lt(x, 1.0))
    safe = select(within, x, plus(mul(x, 0.0), 0.5))
    whole = digamma(add(a, b))
    first = e.pow(add(sub(log(safe), digamma(a)), whole), i)
    second = e.pow(add(sub(e.log1p(neg(safe)), digamma(b)), whole), j)
    return select(within, times(beta_density(a, b, safe), first, second), mul(x, 0.0))


beta_moment: Final = Function(
    "beta_moment",
    "The integral up to x of the beta density of a and b times powers i and j of log t and "
    "log(1 - t), each less its mean; of i, j, a, b, x.",
    (None, None, _by_one, _by_other, _beta_end),
    (1, 0, POSITIVE, POSITIVE, UNIT),
    impl=quietly(_beta_moment),
    own=True,
)


def beta_by_first(a: Any, b: Any, x: Any) -> Any:
    """The derivative of betainc(a, b, x) by a."""
    return beta_moment(np.int64(1), np.int64(0), a, b, x)


def beta_by_second(a: Any, b: Any, x: Any) -> Any:
    """The derivative of betainc(a, b, x) by b."""
    return beta_moment(np.int64(0), np.int64(1), a, b, x)


betainc: Final = Function(
    "betainc",
    "The regularised incomplete beta function of a, b and x.",
    (
        lambda z, a, b, x: beta_by_first(a, b, x),
        lambda z, a, b, x: beta_by_second(a, b, x),
        lambda z, a, b, x: beta_density(a, b, x),
    ),
    (POSITIVE, POSITIVE, UNIT),
)
betaincc: Final = Function(
    "betaincc",
    "1 - betainc(a, b, x).",
    (
        lambda z, a, b, x: neg(beta_by_first(a, b, x)),
        lambda z, a, b, x: neg(beta_by_second(a, b, x)),
        lambda z, a, b, x: neg(beta_density(a, b, x)),
    ),
    (POSITIVE, POSITIVE, UNIT),
)

# ---------------------------------------------------------------------------------- inverses


def inverse(
    name: str, doc: str, slopes: tuple[Rule | None, ...], position: int, samples: Any, **more: Any
) -> Function:
    """The inverse of a function in one operand, in whose place its value is given.

    Args:
        name, doc, samples, more: as in `Function`.
        slopes: for each operand `(*operands) -> derivative of the function`, or None.
        position: which operand it is solved for.
    """
    solved: Any = slopes[position]

    def by(i: int) -> Rule | None:
        slope = slopes[i]
        if slope is None or solved is None:
            return None

        def rule(z: Any, *xs: Any) -> Any:
            at = (*xs[:position], z, *xs[position + 1 :])
            if i == position:
                return div(1.0, solved(*at))
            return neg(div(slope(*at), solved(*at)))

        return rule

    return Function(name, doc, tuple(map(by, range(len(slopes)))), samples, **more)


def complement(slopes: tuple[Rule | None, ...]) -> tuple[Rule | None, ...]:
    """The derivatives of 1 less a function."""

    def turned(slope: Rule | None) -> Rule | None:
        return None if slope is None else lambda *xs: neg(slope(*xs))

    return tuple(map(turned, slopes))


GAMMA: Final = (gamma_by_shape, gamma_density)
BETA: Final = (beta_by_first, beta_by_second, beta_density)

gammaincinv: Final = inverse(
    "gammaincinv", "The inverse of gammainc(a, x) in x.", GAMMA, 1, (POSITIVE, UNIT)
)
gammainccinv: Final = inverse(
    "gammainccinv", "The inverse of gammaincc(a, x) in x.", complement(GAMMA), 1, (POSITIVE, UNIT)
)
betaincinv: Final = inverse(
    "betaincinv", "The inverse of betainc(a, b, x) in x.", BETA, 2, (POSITIVE, POSITIVE, UNIT)
)
betainccinv: Final = inverse(
    "betainccinv",
    "The inverse of betaincc(a, b, x) in x.",
    complement(BETA),
    2,
    (POSITIVE, POSITIVE, UNIT),
)
