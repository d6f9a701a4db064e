"""Kelvin, Struve, Hankel, scaled Airy, Mathieu and spheroidal functions of scipy.special.

Also parabolic cylinder functions and integrals of Bessel's and Airy's. Where SciPy gives a function
and its slope, the differential equation gives the slope's. All are values of `Function`.

Source: NIST Digital Library of Mathematical Functions; equations are named where they are used.
"""

import math
from typing import Any, Final

import numpy as np

from ftrace.core.lazy import lazy
from ftrace.core.primitive import Rule
from ftrace.primitives import elementwise as e
from ftrace.primitives.elementwise import div, mul, neg, select, square, sub
from ftrace.primitives.families import Reals
from ftrace.primitives.incomplete import gauss
from ftrace.primitives.linear import add
from ftrace.primitives.scipy_bessel import airy_ai, airy_bi, j0, k0, y0
from ftrace.primitives.scipy_functions import (
    ANY,
    POSITIVE,
    UNIT,
    Function,
    either,
    half,
    plus,
    polynomial,
    several,
    times,
    total,
)
from ftrace.primitives.scipy_gammas import rgamma
from ftrace.primitives.special import i0

ROOT_PI: Final = math.sqrt(math.pi)
DEGREE: Final = math.pi / 180
DEGREES: Final = Reals(10, 80)

# ---------------------------------------------------------------------------------- Kelvin, 10.61


def _kelvin(name: str, of: str) -> Function:
    return Function(name, f"Kelvin's {of}.", (lambda z, x: _SLOPES[name](x),), (POSITIVE,))


def _ratio(series: list[float], slope: Rule) -> Rule:
    """A slope over x, by its series in (x / 2)**4 near 0, times (x / 2)**2 for ber."""

    def near(x: Any) -> Any:
        u = square(half(x))
        y = polynomial(series, square(u))
        return mul(u, y) if slope is berp else y

    return lambda x: either(e.lt(e.abs(x), 1.0), x, (near, 0.0), (lambda x: div(slope(x), x), 2.0))


ber: Final = _kelvin("ber", "ber, the real part of J0(x exp(3 pi i / 4))")
bei: Final = _kelvin("bei", "bei, the imaginary part of J0(x exp(3 pi i / 4))")
ker: Final = _kelvin("ker", "ker, the real part of K0(x exp(pi i / 4))")
kei: Final = _kelvin("kei", "kei, the imaginary part of K0(x exp(pi i / 4))")
berp: Final = _kelvin("berp", "the derivative of ber")
beip: Final = _kelvin("beip", "the derivative of bei")
kerp: Final = _kelvin("kerp", "the derivative of ker")
keip: Final = _kelvin("keip", "the derivative of kei")
_FACTORIALS: Final = [float(math.factorial(k)) ** 2 for k in range(14)]
_BER: Final = [(-1) ** k * k / _FACTORIALS[2 * k] for k in range(1, 6)]
_BEI: Final = [(-1) ** k * (k + 0.5) / _FACTORIALS[2 * k + 1] for k in range(6)]
_SLOPES: Final[dict[str, Rule]] = {
    "ber": berp,
    "bei": beip,
    "ker": kerp,
    "kei": keip,
    # the differential equation, 10.61.3: x**2 w'' + x w' = i x**2 w
    "berp": lambda x: sub(neg(bei(x)), _ratio(_BER, berp)(x)),
    "beip": lambda x: sub(ber(x), _ratio(_BEI, beip)(x)),
    "kerp": lambda x: sub(neg(kei(x)), div(kerp(x), x)),
    "keip": lambda x: sub(ker(x), div(keip(x), x)),
}

# ---------------------------------------------------------------------------------- Struve, 11.4


def _struve(name: str, doc: str, sign: float) -> Function:
    """11.4.27 and 11.4.29: twice the slope is f(v - 1) -+ f(v + 1) + (x/2)**v / (...)."""

    def slope(z: Any, v: Any, x: Any) -> Any:
        rest = times(e.pow(half(x), v), rgamma(plus(v, 1.5)), 1 / ROOT_PI)
        return half(total(made(plus(v, -1.0), x), mul(made(plus(v, 1.0), x), sign), rest))

    made = Function(name, doc, (None, slope), (2, POSITIVE))
    return made


struve: Final = _struve("struve", "Struve's function H of order v.", -1.0)
modstruve: Final = _struve("modstruve", "Struve's modified function L of order v.", 1.0)
_H0_OVER_X: Final = [
    (-1) ** k * 2 / math.pi / math.prod(range(1, 2 * k + 2, 2)) ** 2 for k in range(9)
]
"""The series 11.2.1 of H0(x) / x, in x**2."""


def _struve_over(z: Any, x: Any) -> Any:
    near = lambda x: polynomial(_H0_OVER_X, square(x))  # noqa: E731
    far = lambda x: div(struve(np.int64(0), x), x)  # noqa: E731
    return neg(either(e.lt(e.abs(x), 1.0), x, (near, 0.0), (far, 2.0)))


itstruve0: Final = Function(
    "itstruve0",
    "The integral of struve(0, t) from 0 to x.",
    (lambda z, x: struve(np.int64(0), x),),
    (POSITIVE,),
)
it2struve0: Final = Function(
    "it2struve0", "The integral of struve(0, t) / t from x on.", (_struve_over,), (POSITIVE,)
)
itmodstruve0: Final = Function(
    "itmodstruve0",
    "The integral of modstruve(0, t) from 0 to x.",
    (lambda z, x: modstruve(np.int64(0), x),),
    (POSITIVE,),
)

# ---------------------------------------------------------------------------------- integrals

_TERMS: Final = [1 / math.factorial(k + 1) ** 2 for k in range(11)]


def _less_one(f: Rule, sign: float) -> Rule:
    """(1 - J0(x)) / x or (I0(x) - 1) / x, by the series 10.8.1 or 10.25.2 near 0."""
    series = [c * sign**k for k, c in enumerate(_TERMS)]

    def near(x: Any) -> Any:
        return times(x, 0.25, polynomial(series, square(half(x))))

    def far(x: Any) -> Any:
        return div(mul(plus(f(x), -1.0), sign), x)

    return lambda z, x: either(e.lt(e.abs(x), 1.0), x, (near, 0.0), (far, 2.0))


several(
    "itj0y0",
    "The integrals of J0 and Y0 from 0 to x.",
    (POSITIVE,),
    (lambda z, x: j0(x),),
    (lambda z, x: y0(x),),
)
several(
    "iti0k0",
    "The integrals of I0 and K0 from 0 to x.",
    (POSITIVE,),
    (lambda z, x: i0(x),),
    (lambda z, x: k0(x),),
)
several(
    "it2j0y0",
    "The integrals of (1 - J0(t)) / t from 0 to x and of Y0(t) / t from x on.",
    (POSITIVE,),
    (_less_one(j0, -1.0),),
    (lambda z, x: neg(div(y0(x), x)),),
)
several(
    "it2i0k0",
    "The integrals of (I0(t) - 1) / t from 0 to x and of K0(t) / t from x on.",
    (POSITIVE,),
    (_less_one(i0, 1.0),),
    (lambda z, x: neg(div(k0(x), x)),),
)
several(
    "itairy",
    "The integrals of Ai(t), Bi(t), Ai(-t) and Bi(-t) from 0 to x.",
    (UNIT,),
    (lambda z, x: airy_ai(x),),
    (lambda z, x: airy_bi(x),),
    (lambda z, x: airy_ai(neg(x)),),
    (lambda z, x: airy_bi(neg(x)),),
)
besselpoly: Final = Function(
    "besselpoly",
    "The integral of x**lambda jv(v, 2 a x) over x from 0 to 1, of a, lambda and v.",
    (
        lambda z, a, m, v: sub(
            besselpoly(a, plus(m, 1.0), plus(v, -1.0)), besselpoly(a, plus(m, 1.0), plus(v, 1.0))
        ),
        None,
        None,
    ),
    (POSITIVE, 1, 2),
)


def _root(x: Any) -> Any:
    """The root of what is positive of x."""
    some = e.gt(x, 0.0)
    return select(some, e.sqrt(select(some, x, 1.0)), mul(x, 0.0))


eai, eaip, ebi, ebip = several(
    "airye",
    "Airy's functions with derivatives, times exp(-+ 2/3 x**1.5).",
    (POSITIVE,),
    (lambda z, x: add(eaip(x), mul(e.sqrt(x), z)),),
    (lambda z, x: add(mul(x, eai(x)), mul(e.sqrt(x), z)),),
    (lambda z, x: sub(ebip(x), mul(_root(x), z)),),
    (lambda z, x: sub(mul(x, ebi(x)), mul(_root(x), z)),),
)

# ---------------------------------------------------------------------------------- Hankel, 10.6.1


def _hankel(name: str, doc: str, turn: complex) -> Function:
    def slope(z: Any, v: Any, x: Any) -> Any:
        near = half(sub(made(plus(v, -1.0), x), made(plus(v, 1.0), x)))
        return add(near, mul(z, turn)) if turn else near

    made = Function(name, doc, (None, slope), (2, POSITIVE), kinds="c")
    return made


hankel1: Final = _hankel("hankel1", "Hankel's function of the first kind, complex.", 0)
hankel2: Final = _hankel("hankel2", "Hankel's function of the second kind, complex.", 0)
hankel1e: Final = _hankel("hankel1e", "hankel1(v, z) exp(-i z).", -1j)
hankel2e: Final = _hankel("hankel2e", "hankel2(v, z) exp(i z).", 1j)

# --------------------------------------------------------------------- parabolic cylinders, 12.2


def _pair(
    name: str,
    doc: str,
    samples: tuple[Reals | int, ...],
    curve: Rule,
    operands: int = 0,
    impl: Rule | None = None,
) -> list[Function]:
    """A function of a last operand and its slope; the second derivative is `curve(y, y', ...)`."""
    nothing = (None,) * ((operands or len(samples)) - 1)
    pair: list[Function] = []
    first: Rule = lambda z, *xs: pair[1](*xs)  # noqa: E731
    second: Rule = lambda z, *xs: curve(pair[0](*xs), z, *xs)  # noqa: E731
    pair += several(name, doc, samples, (*nothing, first), (*nothing, second), impl=impl)
    return pair


def _cylinder(y: Any, slope: Any, v: Any, x: Any) -> Any:
    """12.2.4, with a = -v - 1/2."""
    return mul(y, sub(plus(mul(square(x), 0.25), -0.5), v))


_pair("pbdv", "Parabolic cylinder function D of v and x, and its slope.", (2, ANY), _cylinder)
_pair("pbvv", "Parabolic cylinder function V of v and x, and its slope.", (2, ANY), _cylinder)
_pair(
    "pbwa",
    "Parabolic cylinder function W of a and x, and its slope.",
    (1, ANY),
    lambda y, slope, a, x: mul(y, sub(a, mul(square(x), 0.25))),  # 12.14.1
)

# ---------------------------------------------------------------------------------- Mathieu, 28.2

_NODES: Final = 256


def _mean_wave(name: str) -> Rule:
    """(2 / pi) times the integral of cos(2 x) y(x)**2 over a period: a trapezoidal sum."""
    wave = lazy("scipy.special", name)

    def evaluate(m: Any, q: Any) -> Any:
        at = np.arange(_NODES) * (360 / _NODES)
        y = wave(np.asarray(m)[..., None], np.asarray(q)[..., None], at)[0]
        return np.sum(np.cos(at * (2 * DEGREE)) * y**2, axis=-1) * (4 / _NODES)

    return evaluate


def _characteristic(name: str, doc: str, wave: str) -> Function:
    """By q, as the eigenvalue of -y'' + 2 q cos(2 x) y: the mean of 2 cos(2 x)."""
    slope = Function(
        f"{name}_slope",
        f"The derivative of {name} by q.",
        (None, None),
        (2, 3),
        impl=_mean_wave(wave),
        own=True,
    )
    return Function(name, doc, (None, lambda z, m, q: slope(m, q)), ())


mathieu_a: Final = _characteristic(
    "mathieu_a", "The characteristic value of Mathieu's even functions, of m and q.", "mathieu_cem"
)
mathieu_b: Final = _characteristic(
    "mathieu_b", "The characteristic value of Mathieu's odd functions, of m and q.", "mathieu_sem"
)


def _mathieu(name: str, value: Function) -> None:
    """28.2.1 in degrees: the slope SciPy gives is by radians."""
    nothing = (None, None)
    pair: list[Function] = []

    def first(z: Any, *xs: Any) -> Any:
        return mul(pair[1](*xs), DEGREE)

    def second(z: Any, m: Any, q: Any, x: Any) -> Any:
        wave = times(q, 2.0, e.cos(mul(x, 2 * DEGREE)))
        return times(sub(wave, value(m, q)), pair[0](m, q, x), DEGREE)

    doc = "Mathieu's function of m, q and degrees x, and its slope by radians."
    pair += several(name, doc, (2, 3, DEGREES), (*nothing, first), (*nothing, second))


def _modified(name: str, value: Function) -> None:
    """28.20.1."""

    def curve(y: Any, slope: Any, m: Any, q: Any, x: Any) -> Any:
        return mul(y, sub(value(m, q), times(q, 2.0, e.cosh(mul(x, 2.0)))))

    _pair(name, "Mathieu's modified function of m, q and x, and its slope.", (2, 3, UNIT), curve)


_mathieu("mathieu_cem", mathieu_a)
_mathieu("mathieu_sem", mathieu_b)
for _kind in ("1", "2"):
    _modified(f"mathieu_modcem{_kind}", mathieu_a)
    _modified(f"mathieu_modsem{_kind}", mathieu_b)

# ---------------------------------------------------------------------- spheroidal, 30.2


def _curve(sign: float, oblate: float) -> Rule:
    """30.2.1, and radially on the axis, of an oblate spheroid at i x.

    (1 - s x**2) y'' = 2 s x y' - (l - o c**2 x**2 - m**2 / (1 - s x**2)) s y, with s = -1 for
    radial oblate functions and o = -1 for oblate ones.
    """

    def curve(y: Any, slope: Any, m: Any, n: Any, c: Any, value: Any, x: Any) -> Any:
        rest = sub(1.0, mul(square(x), sign))
        bend = mul(square(mul(c, x)), oblate * sign)
        force = times(sub(sub(value, bend), div(square(m), rest)), y, sign)
        return div(sub(times(x, slope, 2.0 * sign), force), rest)

    return curve


def _moment(wave: str) -> Rule:
    """The mean of x**2 in y(x)**2, by Gauss and Legendre's rule."""
    f = lazy("scipy.special", wave)

    def evaluate(m: Any, n: Any, c: Any) -> Any:
        at, weights = gauss(64)
        y = f(*(np.asarray(v, np.float64)[..., None] for v in (m, n, c)), at)[0]
        density = weights * y**2
        return np.sum(density * at**2, axis=-1) / np.sum(density, axis=-1)

    return evaluate


def _in_double(name: str) -> Rule:
    """SciPy's function in double precision: in single precision its iterations do not end."""
    f = lazy("scipy.special", name)
    return lambda *xs: f(*(np.asarray(x, np.float64) for x in xs))


def _spheroid(name: str, oblate: float) -> None:
    mean = Function(
        f"{name}_mean",
        f"The mean of x**2 in {name}_ang1.",
        (None, None, None),
        (1, 2, 3),
        impl=_moment(f"{name}_ang1"),
        own=True,
    )
    value = Function(
        f"{name}_cv",
        "The characteristic value of spheroidal functions, of m, n and c.",
        (None, None, lambda z, m, n, c: times(c, 2.0 * oblate, mean(m, n, c))),
        (),
        impl=_in_double(f"{name}_cv"),
    )
    for kind in ("ang1", "rad1", "rad2"):
        radial = kind != "ang1"
        curve = _curve(-1.0 if radial and oblate < 0 else 1.0, oblate)
        at = Reals(4, 6) if radial else UNIT  # SciPy's second kind is imprecise nearby
        doc = "Spheroidal function of m, n, c and x, and its slope."
        with_value = lambda y, s, m, n, c, x, f=curve: f(y, s, m, n, c, value(m, n, c), x)  # noqa: E731
        near = f"{name}_{kind}"
        _pair(near, doc, (1, 2, 1, at), with_value, impl=_in_double(near))
        # its characteristic value is no integer: tests/scipy
        _pair(f"{near}_cv", doc, (), curve, 5, _in_double(f"{near}_cv"))


_spheroid("pro", 1.0)
_spheroid("obl", -1.0)

# ---------------------------------------------------------------------------------- degrees

sindg: Final = Function("sindg", "sin of degrees.", (lambda z, x: mul(cosdg(x), DEGREE),), (ANY,))
cosdg: Final = Function("cosdg", "cos of degrees.", (lambda z, x: mul(sindg(x), -DEGREE),), (ANY,))
tandg: Final = Function(
    "tandg", "tan of degrees.", (lambda z, x: mul(plus(square(z), 1.0), DEGREE),), (ANY,)
)
cotdg: Final = Function(
    "cotdg", "cot of degrees.", (lambda z, x: mul(plus(square(z), 1.0), -DEGREE),), (DEGREES,)
)
