"""Bessel's, Airy's and spherical Bessel functions of scipy.special, as values of `Function`.

Source: NIST Digital Library of Mathematical Functions, chapters 9 and 10.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.primitives import elementwise as e
from ftrace.primitives.elementwise import div, mul, neg, sub
from ftrace.primitives.linear import add
from ftrace.primitives.scipy_functions import (
    ANY,
    POSITIVE,
    TWO,
    Function,
    half,
    of_integer,
    plus,
    times,
)
from ftrace.primitives.special import (
    bessel_jv,
)


def _neighbours(f: Any, v: Any, x: Any, sign: float) -> Any:
    """(f(v - 1, x) + sign f(v + 1, x)) / 2."""
    return half(add(f(plus(v, -1.0), x), mul(f(plus(v, 1.0), x), sign)))


def _of_order(name: str, doc: str, rule: Callable[..., Any]) -> Function:
    def slope(z: Any, v: Any, x: Any) -> Any:
        return rule(made, z, v, x)

    made = Function(name, doc, (None, slope), (2, POSITIVE))
    return made


def _waves(f: Any, z: Any, v: Any, x: Any) -> Any:
    return _neighbours(f, v, x, -1.0)


def _falling(f: Any, z: Any, v: Any, x: Any) -> Any:
    return neg(_neighbours(f, v, x, 1.0))


yv: Final = _of_order("yv", "Bessel function of the second kind of real order.", _waves)
yn: Final = _of_order("yn", "Bessel function of the second kind of integer order.", _waves)
jve: Final = _of_order("jve", "jv(v, x) exp(-|imag x|): jv of real numbers.", _waves)
yve: Final = _of_order("yve", "yv(v, x) exp(-|imag x|): yv of real numbers.", _waves)
kv: Final = _of_order("kv", "Modified Bessel function of the second kind.", _falling)
kn: Final = _of_order("kn", "The same of integer order.", _falling)
kve: Final = _of_order("kve", "exp(x) kv(v, x).", lambda f, z, v, x: add(z, _falling(f, z, v, x)))
j0: Final = Function(
    "j0", "Bessel function of the first kind, order 0.", (lambda z, x: neg(j1(x)),), (ANY,)
)
j1: Final = Function(
    "j1",
    "Bessel function of the first kind, order 1.",
    (lambda z, x: half(sub(j0(x), bessel_jv(TWO, x))),),
    (ANY,),
)
y0: Final = Function(
    "y0", "Bessel function of the second kind, order 0.", (lambda z, x: neg(y1(x)),), (POSITIVE,)
)
y1: Final = Function(
    "y1",
    "Bessel function of the second kind, order 1.",
    (lambda z, x: half(sub(y0(x), yv(TWO, x))),),
    (POSITIVE,),
)
k0: Final = Function(
    "k0",
    "Modified Bessel function of the second kind, order 0.",
    (lambda z, x: neg(k1(x)),),
    (POSITIVE,),
)
k1: Final = Function(
    "k1",
    "Modified Bessel function of the second kind, order 1.",
    (lambda z, x: neg(half(add(k0(x), kv(TWO, x)))),),
    (POSITIVE,),
)
k0e: Final = Function("k0e", "exp(x) k0(x).", (lambda z, x: sub(z, k1e(x)),), (POSITIVE,))
k1e: Final = Function(
    "k1e",
    "exp(x) k1(x).",
    (lambda z, x: sub(z, half(add(k0e(x), kve(TWO, x)))),),
    (POSITIVE,),
)
airy_ai: Final = Function("airy_0", "Airy's Ai.", (lambda z, x: airy_aip(x),), (ANY,), position=0)
airy_aip: Final = Function(
    "airy_1", "The derivative of Ai.", (lambda z, x: mul(x, airy_ai(x)),), (ANY,), position=1
)
airy_bi: Final = Function("airy_2", "Airy's Bi.", (lambda z, x: airy_bip(x),), (ANY,), position=2)
airy_bip: Final = Function(
    "airy_3", "The derivative of Bi.", (lambda z, x: mul(x, airy_bi(x)),), (ANY,), position=3
)


def _spherical(kind: str, doc: str, signs: tuple[float, float]) -> Function:
    """(a n f(n - 1) + b (n + 1) f(n + 1)) / (2 n + 1), of whole n >= 0; signs are a and b."""
    a, b = signs

    def slope(z: Any, n: Any, x: Any) -> Any:
        below, above = e.max(plus(n, -1.0), 0.0), plus(n, 1.0)
        both = add(times(n, a, made(below, x)), times(above, b, made(above, x)))
        return div(both, plus(mul(n, 2.0), 1.0))

    name = f"spherical_{kind}"
    made = Function(name, doc, (None, slope), (2, POSITIVE), impl=of_integer(name))
    return made


spherical_jn: Final = _spherical("jn", "Spherical Bessel function of the first kind.", (1.0, -1.0))
spherical_yn: Final = _spherical("yn", "Spherical Bessel function of the second kind.", (1.0, -1.0))
spherical_in: Final = _spherical(
    "in", "Modified spherical Bessel function of the first kind.", (1.0, 1.0)
)
spherical_kn: Final = _spherical(
    "kn", "Modified spherical Bessel function of the second kind.", (-1.0, -1.0)
)
ZEROTH: Final = np.int64(0)
