"""Functions of scipy.special about the error function, as values of `Function`.

Far out, where the textbook's derivative loses all digits, a series stands beside it.
"""

import math
from typing import Any, Final

from ftrace.core.lazy import lazy
from ftrace.core.primitive import Rule
from ftrace.primitives import elementwise as e
from ftrace.primitives.elementwise import div, exp, mul, neg, select, square, sub
from ftrace.primitives.families import Reals
from ftrace.primitives.linear import add
from ftrace.primitives.scipy_functions import (
    ANY,
    Function,
    either,
    half,
    plus,
    several,
    times,
)
from ftrace.primitives.special import (
    HALF_ROOT_PI,
    ROOT_TWO_PI,
    TWO_OVER_ROOT_PI,
    erf,
)


def _tail(v: Any) -> Any:
    """1 - 3/2 v + 15/4 v**2 - ..., which the derivatives of erfcx and dawsn have far out."""
    y: Any = 59.0625
    for c in (-13.125, 3.75, -1.5, 1.0):
        y = add(mul(v, y), c)
    return y


def _far(x: Any, near: Rule, factor: float, side: float) -> Any:
    """`near(x)`, and beyond 50 the series factor / x**2 (1 - side 3 / (2 x**2) + ...)."""

    def series(x: Any) -> Any:
        v = div(1.0, square(x))
        return mul(mul(v, factor), _tail(mul(v, side)))

    size = e.abs(x) if side < 0 else x
    return either(e.gt(size, 50.0), x, (series, 100.0), (near, 0.0))


erfcx: Final = Function(
    "erfcx",
    "exp(x**2) erfc(x).",
    (
        lambda z, x: _far(
            x,
            lambda x: sub(times(x, 2.0, erfcx(x)), TWO_OVER_ROOT_PI),
            -TWO_OVER_ROOT_PI / 2,
            1.0,
        ),
    ),
    (ANY,),
)
erfi: Final = Function(
    "erfi",
    "The imaginary error function, -i erf(i x).",
    (lambda z, x: mul(exp(square(x)), TWO_OVER_ROOT_PI),),
    (ANY,),
)
erfcinv: Final = Function(
    "erfcinv",
    "The inverse of erfc.",
    (lambda z, x: mul(exp(square(z)), -HALF_ROOT_PI),),
    (Reals(0.3, 1.7),),
)
dawsn: Final = Function(
    "dawsn",
    "Dawson's integral.",
    (lambda z, x: _far(x, lambda x: sub(1.0, times(x, 2.0, dawsn(x))), -0.5, -1.0),),
    (ANY,),
)
wofz: Final = Function(
    "wofz",
    "The Faddeeva function exp(-x**2) erfc(-i x), of complex numbers.",
    (lambda z, x: _wofz_slope(z, x),),
    (ANY,),
    kinds="c",
)


def _wofz_slope(z: Any, x: Any) -> Any:
    """7.10.2, and far out in the upper half plane the series 7.12.1, where its digits cancel."""
    far = e.bitwise_and(e.gt(e.abs(x), 50.0), e.ge(e.imag(x), 0.0))
    v = div(1.0, square(select(far, x, 100.0)))
    series = times(v, _tail(neg(v)), TWO_OVER_ROOT_PI * -0.5j)
    return select(far, series, add(times(x, -2.0, z), TWO_OVER_ROOT_PI * 1j))


def _voigt(x: Any, s: Any, g: Any) -> tuple[Any, Any, Any]:
    """Where the profile is a value of wofz, the slope there, and the scale of derivatives."""
    scale = mul(s, math.sqrt(2))
    at = div(e.complex(x, g), e.complex(scale, mul(scale, 0.0)))
    return at, _wofz_slope(wofz(at), at), mul(square(s), 2 * math.sqrt(math.pi))


def _voigt_by_sigma(z: Any, x: Any, s: Any, g: Any) -> Any:
    at, slope, scale = _voigt(x, s, g)
    turned = sub(mul(e.real(at), e.real(slope)), mul(e.imag(at), e.imag(slope)))
    return neg(add(div(z, s), div(times(turned, math.sqrt(2)), scale)))


def _voigt_by_x(z: Any, x: Any, s: Any, g: Any) -> Any:
    _, slope, scale = _voigt(x, s, g)
    return div(e.real(slope), scale)


def _voigt_by_gamma(z: Any, x: Any, s: Any, g: Any) -> Any:
    _, slope, scale = _voigt(x, s, g)
    return neg(div(e.imag(slope), scale))


voigt_profile: Final = Function(
    "voigt_profile",
    "The convolution of a normal density and a Cauchy density, of x, sigma and gamma.",
    (_voigt_by_x, _voigt_by_sigma, _voigt_by_gamma),
    (ANY, Reals(0.5, 2), Reals(0.5, 2)),
)
ndtri_exp: Final = Function(
    "ndtri_exp",
    "The inverse of log_ndtr.",
    (lambda z, y: mul(exp(add(y, half(square(z)))), ROOT_TWO_PI),),
    (Reals(-4, -0.2),),
)
owens_t: Final = Function(
    "owens_t",
    "Owen's T function of h and a.",
    (
        lambda z, h, a: times(
            exp(mul(square(h), -0.5)), erf(times(h, a, math.sqrt(0.5))), -0.5 / ROOT_TWO_PI
        ),
        lambda z, h, a: div(
            mul(exp(times(square(h), plus(square(a), 1.0), -0.5)), 1 / (2 * math.pi)),
            plus(square(a), 1.0),
        ),
    ),
    (ANY, ANY),
)
fresnel_s: Final = Function(
    "fresnel_0",
    "Fresnel's integral of sin(pi t**2 / 2).",
    (lambda z, x: e.sin(mul(square(x), math.pi / 2)),),
    (ANY,),
    position=0,
)
fresnel_c: Final = Function(
    "fresnel_1",
    "Fresnel's integral of cos(pi t**2 / 2).",
    (lambda z, x: e.cos(mul(square(x), math.pi / 2)),),
    (ANY,),
    position=1,
)

# --------------------------------------------------------------------- modified Fresnel integrals


def _parts(name: str, sign: float) -> list[Function]:
    """Real and imaginary parts of F and K: F' = -exp(s i x**2), K' = -2 s i x K - exp(..) / ..."""
    plain, c = lazy("scipy.special", name), 1 / math.sqrt(2 * math.pi)

    def evaluate(x: Any) -> Any:
        f, k = plain(x)
        return f.real, f.imag, k.real, k.imag

    # at negative x SciPy's imaginary parts (1.17) are not those of F and K
    parts: list[Function] = []
    parts += several(
        name,
        "Modified Fresnel integrals F and K, real and imaginary parts.",
        (Reals(0.2, 2),),
        (lambda z, x: neg(e.cos(square(x))),),
        (lambda z, x: mul(e.sin(square(x)), -sign),),
        (lambda z, x: sub(times(x, parts[3](x), 2 * sign), c),),
        (lambda z, x: plus(times(x, parts[2](x), -2 * sign), sign * c),),
        impl=evaluate,
    )
    return parts


modified_plus: Final = _parts("modfresnelp", 1.0)
modified_minus: Final = _parts("modfresnelm", -1.0)
