"""Legendre functions, spherical harmonics, n-th derivatives of Bessel functions and their kin.

SciPy's functions of these names are no ufuncs: they are called from here, or in lifted code by
SciPy's own names. Degrees and orders are integers.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.errors import DomainError, ShapeError
from ftrace.numpy.promote import static_int
from ftrace.primitives import scipy_polynomials as rows
from ftrace.scipy.borrowing import prepared, scipys
from ftrace.scipy.special import composed_functions
from ftrace.scipy.special.elementwise_functions import FUNCTIONS

# ---------------------------------------------------------------------------------- Legendre


def _jet(functions: Any, diff_n: Any, *xs: Any) -> Any:
    """A function and its derivatives, along a new first axis."""
    order = static_int(diff_n, "diff_n")
    if not 0 <= order <= 2:
        raise ValueError(f"diff_n is only implemented for orders 0, 1, and 2, received: {order}.")
    args = prepared(*xs)
    return fnp.stack([f(*args) for f in functions[: order + 1]])


def _degrees(n: Any, ndim: int) -> Any:
    return np.arange(static_int(n, "a degree") + 1).reshape(-1, *[1] * ndim)


def _degrees_and_orders(n: Any, m: Any, ndim: int) -> tuple[Any, Any]:
    """Columns of degrees, and rows of orders 0 to m, then -m to -1."""
    whole = abs(static_int(m, "an order"))
    orders = [*range(whole + 1), *range(-whole, 0)]
    return _degrees(n, ndim + 1), np.array(orders).reshape(-1, *[1] * ndim)


@scipys("scipy.special")
def legendre_p(n: Any, z: Any, *, diff_n: int = 0) -> Any:
    """Legendre's polynomial of degree n, and derivatives, along a new first axis.

    Args:
        n: degrees, integers.
        z: an array of real numbers.
        diff_n: up to which derivative, 0 to 2.

    Returns:
        An array of shape (diff_n + 1, ...).

    Example:
        >>> from ftrace.scipy.special import legendre_p
        >>> legendre_p(2, 0.5, diff_n=1)
        array([-0.125,  1.5  ])
    """
    return _jet(
        (
            rows.eval_legendre,
            lambda n, z: _lowered(n, 1, lambda k: rows.eval_gegenbauer(k, 1.5, z)),
            lambda n, z: 3.0 * _lowered(n, 2, lambda k: rows.eval_gegenbauer(k, 2.5, z)),
        ),
        diff_n,
        n,
        z,
    )


def _lowered(n: Any, by: int, f: Callable[[Any], Any]) -> Any:
    return fnp.where(fnp.less(n, by), 0.0, f(fnp.maximum(n - by, 0.0)))


@scipys("scipy.special")
def legendre_p_all(n: Any, z: Any, *, diff_n: int = 0) -> Any:
    """Legendre's polynomials of degrees 0 to n: `legendre_p` of shape (diff_n + 1, n + 1, ...).

    Args:
        n: the highest degree, a Python integer.
        z, diff_n: as in `legendre_p`.

    Example:
        >>> from ftrace.scipy.special import legendre_p_all
        >>> legendre_p_all(2, 0.5)
        array([[ 1.   ,  0.5  , -0.125]])
    """
    return legendre_p(_degrees(n, np.ndim(z)), z, diff_n=diff_n)


@scipys("scipy.special")
def assoc_legendre_p(
    n: Any, m: Any, z: Any, *, branch_cut: Any = 2, norm: bool = False, diff_n: int = 0
) -> Any:
    """The associated Legendre polynomial of degree n and order m, and derivatives.

    Args:
        n, m: degrees and orders, integers.
        z: an array of real numbers.
        branch_cut: 2 or 3, as in SciPy.
        norm: normalise it.
        diff_n: up to which derivative, 0 to 2.

    Returns:
        An array of shape (diff_n + 1, ...).

    Example:
        >>> from ftrace.scipy.special import assoc_legendre_p
        >>> assoc_legendre_p(1, 0, 0.5)
        array([0.5])
    """
    return _jet(rows.NORMED if norm else rows.ASSOCIATED, diff_n, n, m, z, branch_cut)


@scipys("scipy.special")
def assoc_legendre_p_all(
    n: Any, m: Any, z: Any, *, branch_cut: Any = 2, norm: bool = False, diff_n: int = 0
) -> Any:
    """`assoc_legendre_p` of all degrees and orders, of shape (diff_n + 1, n + 1, 2 m + 1, ...).

    Args:
        n, m: the highest degree and order, Python integers.
        z, branch_cut, norm, diff_n: as in `assoc_legendre_p`.

    Example:
        >>> from ftrace.scipy.special import assoc_legendre_p_all
        >>> assoc_legendre_p_all(1, 1, 0.5).shape
        (1, 2, 3)
    """
    whole = _degrees_and_orders(n, m, np.ndim(z))
    return assoc_legendre_p(*whole, z, branch_cut=branch_cut, norm=norm, diff_n=diff_n)


@scipys("scipy.special")
def sph_legendre_p(n: Any, m: Any, theta: Any, *, diff_n: int = 0) -> Any:
    """The spherical Legendre polynomial of degree n and order m of an angle, and derivatives.

    Args:
        n, m: degrees and orders, integers.
        theta: polar angles.
        diff_n: up to which derivative, 0 to 2.

    Returns:
        An array of shape (diff_n + 1, ...).

    Example:
        >>> from ftrace.scipy.special import sph_legendre_p
        >>> sph_legendre_p(0, 0, 0.5).round(6)
        array([0.282095])
    """
    return _jet(rows.SPHERICAL, diff_n, n, m, theta)


@scipys("scipy.special")
def sph_legendre_p_all(n: Any, m: Any, theta: Any, *, diff_n: int = 0) -> Any:
    """`sph_legendre_p` of all degrees and orders, of shape (diff_n + 1, n + 1, 2 m + 1, ...).

    Args:
        n, m: the highest degree and order, Python integers.
        theta, diff_n: as in `sph_legendre_p`.

    Example:
        >>> from ftrace.scipy.special import sph_legendre_p_all
        >>> sph_legendre_p_all(1, 1, 0.5).shape
        (1, 2, 3)
    """
    return sph_legendre_p(*_degrees_and_orders(n, m, np.ndim(theta)), theta, diff_n=diff_n)


@scipys("scipy.special")
def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, *, diff_n: int = 0) -> Any:
    """The spherical harmonic of degree n and order m, with its gradient and Hessian if asked for.

    Args:
        n, m: degrees and orders, integers.
        theta: polar angles, without the poles where derivatives are asked for.
        phi: azimuthal angles.
        diff_n: up to which derivative, 0 to 2.

    Returns:
        An array; for diff_n > 0 a tuple of arrays of shapes (...), (..., 2), (..., 2, 2).

    Example:
        >>> from ftrace.scipy.special import sph_harm_y
        >>> f"{float(sph_harm_y(0, 0, 0.5, 0.5).real):.6f}"
        '0.282095'
    """
    y = sph_legendre_p(n, m, theta, diff_n=diff_n)
    turn = fnp.exp(1j * fnp.multiply(m, phi))
    value = y[0] * turn
    if diff_n == 0:
        return value
    by_phi = 1j * fnp.asarray(m)
    gradient = fnp.stack([y[1] * turn, by_phi * value], axis=-1)
    if diff_n == 1:
        return value, gradient
    mixed = by_phi * y[1] * turn
    first, second = [y[2] * turn, mixed], [mixed, by_phi**2 * value]
    rows_of = [fnp.stack(row, axis=-1) for row in (first, second)]
    return value, gradient, fnp.stack(rows_of, axis=-2)


@scipys("scipy.special")
def sph_harm_y_all(n: Any, m: Any, theta: Any, phi: Any, *, diff_n: int = 0) -> Any:
    """`sph_harm_y` of all degrees and orders, with new first axes of sizes n + 1 and 2 m + 1.

    Args:
        n, m: the highest degree and order, Python integers.
        theta, phi, diff_n: as in `sph_harm_y`.

    Example:
        >>> from ftrace.scipy.special import sph_harm_y_all
        >>> sph_harm_y_all(1, 1, 0.5, 0.5).shape
        (2, 3)
    """
    ndim = max(np.ndim(theta), np.ndim(phi))
    return sph_harm_y(*_degrees_and_orders(n, m, ndim), theta, phi, diff_n=diff_n)


# ---------------------------------------------------------------------------------- Bessel


def _nth(name: str, function: str, kind: str, sign: float) -> Callable[..., Any]:
    """The n-th derivative of a Bessel function, by those of orders v - n to v + n.

    Source: NIST Digital Library of Mathematical Functions, 10.6.7 and 10.29.5.
    """

    def derivative(v: Any, z: Any, n: int = 1) -> Any:
        f, times = FUNCTIONS[function], static_int(n, "n")
        if times < 0:
            raise ValueError(f"The order of a derivative is not negative, not {times}.")
        parts = [
            math.comb(times, k) * sign**k * f(fnp.add(v, 2 * k - times), z)
            for k in range(times + 1)
        ]
        return sum(parts[1:], parts[0]) * ((-1.0 if name == "kvp" else 1.0) / 2.0) ** times

    derivative.__name__ = derivative.__qualname__ = name
    derivative.__doc__ = f"""The n-th derivative of {kind}.

    Args:
        v: real orders, without a derivative.
        z: an array of numbers.
        n: which derivative, a Python integer.

    Example:
        >>> from ftrace.scipy.special import {name}
        >>> complex({name}(0, 1.0)) == complex({name}(0.0, 1.0, 1))
        True
    """
    return scipys("scipy.special")(derivative)


jvp: Final = _nth("jvp", "jv", "the Bessel function of the first kind", -1.0)
yvp: Final = _nth("yvp", "yv", "the Bessel function of the second kind", -1.0)
ivp: Final = _nth("ivp", "iv", "the modified Bessel function of the first kind", 1.0)
kvp: Final = _nth("kvp", "kv", "the modified Bessel function of the second kind", 1.0)
h1vp: Final = _nth("h1vp", "hankel1", "Hankel's function of the first kind", -1.0)
h2vp: Final = _nth("h2vp", "hankel2", "Hankel's function of the second kind", -1.0)


def bessel_jn(z: Any, *, v: int, n_iter: int = 50) -> Any:
    """Bessel functions of the first kind of orders 0 to v, along a new first axis.

    Args:
        z: an array of real numbers.
        v: the highest order, a Python integer.
        n_iter: without effect: the values are SciPy's.

    Example:
        >>> from ftrace.scipy.special import bessel_jn
        >>> bessel_jn(0.0, v=1)
        array([1., 0.])
    """
    return FUNCTIONS["jv"](np.arange(static_int(v, "v") + 1).reshape(-1, *[1] * np.ndim(z)), z)


def _sequence(f: Callable[..., Any], n: Any, x: Any) -> tuple[Any, Any]:
    """x f(k, x) and its derivatives for degrees 0 to n, at least 1 (10.51.2)."""
    top = static_int(n, "n")
    _scalar(x)
    degrees = np.arange(top + 1)
    values = f(degrees, x)
    return x * values, values + x * f(degrees, x, derivative=True)


def _scalar(x: Any) -> None:
    if np.ndim(x) != 0:
        raise ShapeError(
            f"SciPy's functions of a sequence of orders take a number, not shape {np.shape(x)}.",
            "Use ftrace.vmap.",
        )


@scipys("scipy.special")
def riccati_jn(n: Any, x: Any) -> Any:
    """The Ricatti-Bessel functions x j_k(x) of degrees 0 to n, and their derivatives.

    Args:
        n: the highest degree, a Python integer.
        x: a real number.

    Example:
        >>> from ftrace.scipy.special import riccati_jn
        >>> riccati_jn(1, 1.0)[0].round(6)
        array([0.841471, 0.301169])
    """
    return _sequence(composed_functions.spherical_jn, n, x)


@scipys("scipy.special")
def riccati_yn(n: Any, x: Any) -> Any:
    """The Ricatti-Bessel functions x y_k(x) of degrees 0 to n, and their derivatives.

    Args:
        n, x: as in `riccati_jn`.

    Example:
        >>> from ftrace.scipy.special import riccati_yn
        >>> riccati_yn(1, 1.0)[0].round(6)
        array([-0.540302, -1.381773])
    """
    return _sequence(composed_functions.spherical_yn, n, x)


def _orders(v: Any, x: Any) -> Any:
    """The orders from v's fraction on up to v, two at least."""
    _scalar(x)
    whole = int(v)
    if v < 0:
        raise DomainError(f"The last order is {v}, below 0.", "Use ftrace.vmap and the ufunc.")
    return v - whole + np.arange(max(whole, 1) + 1)


@scipys("scipy.special")
def lmbda(v: Any, x: Any) -> Any:
    """The Jahnke-Emden functions of orders up to v, and their derivatives (10.16.9).

    Args:
        v: the highest order, a Python number that is not negative.
        x: a real number.

    Example:
        >>> from ftrace.scipy.special import lmbda
        >>> lmbda(1, 1.0)[0].round(6)
        array([0.765198, 0.880101])
    """
    orders = _orders(v, x)
    at = fnp.multiply(x, x) * -0.25
    slopes = FUNCTIONS["hyp0f1"](orders + 2.0, at) * x * (-0.5 / (orders + 1.0))
    return FUNCTIONS["hyp0f1"](orders + 1.0, at), slopes


@scipys("scipy.special")
def pbdv_seq(v: Any, x: Any) -> Any:
    """Parabolic cylinder functions D of orders up to v, and their derivatives.

    Args:
        v: the last order, a Python number.
        x: a real number.

    Example:
        >>> from ftrace.scipy.special import pbdv_seq
        >>> pbdv_seq(1, 1.0)[0].round(6)
        array([0.778801, 0.778801])
    """
    return FUNCTIONS["pbdv"](_orders(v, x), x)


@scipys("scipy.special")
def pbvv_seq(v: Any, x: Any) -> Any:
    """Parabolic cylinder functions V of orders up to v, and their derivatives.

    Args:
        v, x: as in `pbdv_seq`.

    Example:
        >>> from ftrace.scipy.special import pbvv_seq
        >>> pbvv_seq(1, 1.0)[0].shape
        (2,)
    """
    return FUNCTIONS["pbvv"](_orders(v, x), x)


# ---------------------------------------------------------------------------------- polynomials


@scipys("scipy.special")
def assoc_laguerre(x: Any, n: Any, k: Any = 0.0) -> Any:
    """The generalised Laguerre polynomial of degree n and parameter k.

    Args:
        x: an array of real numbers.
        n: degrees, integers.
        k: parameters, without a derivative.

    Example:
        >>> from ftrace.scipy.special import assoc_laguerre
        >>> float(assoc_laguerre(1.0, 1))
        0.0
    """
    return FUNCTIONS["eval_genlaguerre"](n, k, x)


@scipys("scipy.special")
def diric(x: Any, n: Any) -> Any:
    """Dirichlet's kernel, sin(n x / 2) / (n sin(x / 2)), continued to multiples of 2 pi.

    Args:
        x: an array of real numbers.
        n: positive integers.

    Example:
        >>> from ftrace.scipy.special import diric
        >>> float(diric(0.0, 3))
        1.0
    """
    x, n = prepared(x, n)
    return fnp.where(
        fnp.greater(n, 0) & fnp.equal(n, fnp.floor(n)),
        rows.eval_chebyu(fnp.maximum(n - 1.0, 0.0), fnp.cos(x / 2.0)) / fnp.maximum(n, 1.0),
        np.nan,
    )
