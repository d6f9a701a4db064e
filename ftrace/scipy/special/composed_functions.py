"""The functions of scipy.special that are no ufuncs, made of rows: sums of exponentials, counting.

SciPy converts their arguments to plain arrays. So they are called from here, or in lifted code by
SciPy's own names (ftrace/lifting/substitutes/scipy_functions.py).
"""

import math
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.errors import DtypeError
from ftrace.core.lazy import lazy
from ftrace.lax.operations import stop_gradient
from ftrace.numpy.promote import inexact, static_int
from ftrace.numpy.refusing import refuse
from ftrace.primitives import scipy_bessel, scipy_gammas
from ftrace.primitives import special as rows
from ftrace.scipy.borrowing import prepared, scipys

_plain_bernoulli = lazy("scipy.special", "bernoulli")
_plain_euler = lazy("scipy.special", "euler")

# ---------------------------------------------------------------------------------- exponentials


def highest(a: Any, axis: Any) -> Any:
    """The greatest element along axes, kept as axes of size 1; 0 where it is not finite."""
    top = stop_gradient(fnp.max(a, axis=axis, keepdims=True, initial=-np.inf))
    return fnp.where(fnp.isfinite(top), top, 0)


def log_sum_exp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, where: Any = None
) -> tuple[Any, Any]:
    """The logarithm of the absolute value of sum(b exp(a)), and its sign."""
    a = inexact(a) if b is None else prepared(a, b)[0]
    if b is not None:
        b = prepared(a, b)[1]
        a = fnp.where(fnp.equal(b, 0), -np.inf, a)
    if where is not None:
        a = fnp.where(where, a, -np.inf)
    real = fnp.real(a) if a.dtype.kind == "c" else a
    top = highest(real, axis)
    e = fnp.exp(a - top)
    if b is not None:
        e = e * b
    if b is None and a.dtype.kind == "f":
        found, sign = _one_apart(real, e, top, axis)
    else:
        total = fnp.sum(e, axis=axis, keepdims=True)
        size = fnp.abs(total)
        sign = fnp.sign(total)
        found = fnp.log(size) + top
    if keepdims:
        return found, sign
    return fnp.squeeze(found, axis=axis), fnp.squeeze(sign, axis=axis)


def _one_apart(a: Any, e: Any, top: Any, axis: Any) -> tuple[Any, Any]:
    """The logarithm as log1p of what is below the greatest elements: precise near 0."""
    first = fnp.equal(a, top)
    least = fnp.sum(fnp.where(first, e, 0), axis=axis, keepdims=True)
    rest = fnp.sum(fnp.where(first, 0, e), axis=axis, keepdims=True)
    some = fnp.greater(least, 0)
    whole = fnp.where(some, least, 1)
    near = fnp.log1p(fnp.where(some, rest, 0) / whole) + fnp.log(whole)
    far = fnp.log(fnp.where(some, 1, rest))  # all are infinite, or NaN
    return fnp.where(some, near, far) + top, fnp.where(
        fnp.isnan(rest), rest, fnp.sign(least + rest)
    )


@scipys("scipy.special")
def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """The logarithm of a sum of exponentials, without overflow.

    Args:
        a: an array of numbers.
        axis: an axis or several; None sums over all.
        b: factors of the exponentials.
        keepdims: keep axes that are summed over, with size 1.
        return_sign: give a pair, the logarithm of the absolute value and the sign.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.special import logsumexp
        >>> ftrace.grad(logsumexp)(np.array([0.0, 0.0]))
        array([0.5, 0.5])
    """
    found, sign = log_sum_exp(a, axis, b, keepdims)
    if return_sign:
        return found, sign
    if sign.dtype.kind == "c":
        return found + 1j * fnp.angle(sign)
    return found if b is None else fnp.where(fnp.less(sign, 0), np.nan, found)


@scipys("scipy.special")
def softmax(x: Any, axis: Any = None) -> Any:
    """Exponentials divided by their sum.

    Args:
        x: an array of numbers.
        axis: an axis or several; None sums over all.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.special import softmax
        >>> softmax(np.array([1.0, 1.0]))
        array([0.5, 0.5])
    """
    x = inexact(x)
    e = fnp.exp(x - highest(x, axis))
    return e / fnp.sum(e, axis=axis, keepdims=True)


@scipys("scipy.special")
def log_softmax(x: Any, axis: Any = None) -> Any:
    """The logarithm of softmax(x).

    Args:
        x: an array of numbers.
        axis: an axis or several; None sums over all.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.special import log_softmax
        >>> log_softmax(np.array([0.0, 1000.0]))
        array([-1000.,     0.])
    """
    x = inexact(x)
    below = x - highest(x, axis)
    return below - fnp.log(fnp.sum(fnp.exp(below), axis=axis, keepdims=True))


@scipys("scipy.special")
def softplus(x: Any) -> Any:
    """log(1 + exp(x)), without overflow.

    Args:
        x: an array of real numbers.

    Example:
        >>> import ftrace
        >>> from ftrace.scipy.special import softplus
        >>> float(ftrace.grad(softplus)(0.0))
        0.5
    """
    return fnp.logaddexp(x, 0.0)


# ---------------------------------------------------------------------------------- counting


def _inexactly(name: str, exact: bool) -> None:
    if exact:
        raise DtypeError(
            f"scipy.special.{name} was asked for an exact integer of a traced argument.",
            "Leave exact=True out, or make the arguments static.",
        )


@scipys("scipy.special")
def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """The number of ways to choose k of N things, also of real numbers.

    Args:
        N, k: arrays of numbers; 0 where k is above N, or one is negative.
        exact: only for arguments that are not traced.
        repetition: things may be chosen again.

    Example:
        >>> from ftrace.scipy.special import comb
        >>> float(comb(5, 2))
        10.0
    """
    _inexactly("comb", exact)
    n, k = prepared(N, k)
    if repetition:
        none = fnp.equal(k, 0) & fnp.greater_equal(n, 0)
        return fnp.where(none, 1, scipy_gammas.binom(*prepared(n + k - 1, k)))
    return fnp.where(_is_choice(n, k), scipy_gammas.binom(n, k), 0)


def _is_choice(n: Any, k: Any) -> Any:
    return fnp.less_equal(k, n) & fnp.greater_equal(n, 0) & fnp.greater_equal(k, 0)


@scipys("scipy.special")
def perm(N: Any, k: Any, exact: bool = False) -> Any:
    """The number of ways to choose k of N things in order, also of real numbers.

    Args:
        N, k: arrays of numbers; 0 where k is above N, or one is negative.
        exact: only for arguments that are not traced.

    Example:
        >>> from ftrace.scipy.special import perm
        >>> float(perm(5, 2))
        20.0
    """
    _inexactly("perm", exact)
    n, k = prepared(N, k)
    return fnp.where(_is_choice(n, k), scipy_gammas.poch(*prepared(n - k + 1, k)), 0)


@scipys("scipy.special")
def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    """n!, by the gamma function; 0 where n is negative.

    Args:
        n: an array of real numbers.
        exact: only for arguments that are not traced.
        extend: "zero"; SciPy's "complex" only for arguments that are not traced.

    Example:
        >>> from ftrace.scipy.special import factorial
        >>> float(factorial(4))
        24.0
    """
    _inexactly("factorial", exact or extend != "zero")
    (n,) = prepared(n)
    return fnp.where(fnp.less(n, 0), 0, rows.gamma(n + 1))


@scipys("scipy.special")
def multigammaln(a: Any, d: Any) -> Any:
    """The logarithm of the multivariate gamma function.

    Args:
        a: an array of real numbers above (d - 1) / 2.
        d: the dimension, a Python integer.

    Example:
        >>> from ftrace.scipy.special import multigammaln
        >>> f"{float(multigammaln(3.0, 2)):.6f}"
        '1.550195'
    """
    (a,) = prepared(a)
    d = static_int(d, "a dimension")
    words = f"condition a > 0.5 * (d-1) ({0.5 * (d - 1)}) not met"
    refuse(fnp.less_equal(a, 0.5 * (d - 1)), ValueError, words)
    parts = [rows.lgamma(a - 0.5 * i) for i in range(d)]
    return sum(parts[1:], parts[0]) + d * (d - 1) * 0.25 * math.log(math.pi)


# ---------------------------------------------------------------------------------- of an order


@scipys("scipy.special")
def polygamma(n: Any, x: Any) -> Any:
    """The n-th derivative of digamma at x.

    Args:
        n: integers, not negative; without a derivative.
        x: an array of real numbers.

    Example:
        >>> from ftrace.scipy.special import polygamma
        >>> f"{float(polygamma(1, 1.0)):.6f}"
        '1.644934'
    """
    return rows.polygamma(*prepared(n, x))


@scipys("scipy.special")
def zeta(x: Any, q: Any = None) -> Any:
    """Hurwitz' zeta function, the sum of (q + k)**-x; Riemann's where q is None.

    Args:
        x: numbers, without a derivative; Riemann's is traced for x > 1 only.
        q: an array of real numbers.

    Example:
        >>> from ftrace.scipy.special import zeta
        >>> f"{float(zeta(2.0, 1.0)):.6f}"
        '1.644934'
    """
    return rows.zeta(*prepared(x, 1.0 if q is None else q))


def _of_order(kind: str) -> Any:
    """The function and its slope, of spherical Bessel functions."""
    f = getattr(scipy_bessel, f"spherical_{kind}")
    slope: Any = f.partials[1]

    def evaluate(n: Any, z: Any, derivative: bool) -> Any:
        n, z = prepared(n, z)
        return slope(None, n, z) if derivative else f(n, z)

    return evaluate


@scipys("scipy.special")
def spherical_jn(n: Any, z: Any, derivative: bool = False) -> Any:
    """Spherical Bessel function of the first kind.

    Args:
        n: orders, integers that are not negative.
        z: an array of real numbers.
        derivative: give that of the function instead.

    Example:
        >>> from ftrace.scipy.special import spherical_jn
        >>> float(spherical_jn(0, 0.0))
        1.0
    """
    return _of_order("jn")(n, z, derivative)


@scipys("scipy.special")
def spherical_yn(n: Any, z: Any, derivative: bool = False) -> Any:
    """Spherical Bessel function of the second kind.

    Args:
        n, z, derivative: as in `spherical_jn`.

    Example:
        >>> from ftrace.scipy.special import spherical_yn
        >>> f"{float(spherical_yn(0, 1.0)):.6f}"
        '-0.540302'
    """
    return _of_order("yn")(n, z, derivative)


@scipys("scipy.special")
def spherical_in(n: Any, z: Any, derivative: bool = False) -> Any:
    """Modified spherical Bessel function of the first kind.

    Args:
        n, z, derivative: as in `spherical_jn`.

    Example:
        >>> from ftrace.scipy.special import spherical_in
        >>> f"{float(spherical_in(0, 1.0)):.6f}"
        '1.175201'
    """
    return _of_order("in")(n, z, derivative)


@scipys("scipy.special")
def spherical_kn(n: Any, z: Any, derivative: bool = False) -> Any:
    """Modified spherical Bessel function of the second kind.

    Args:
        n, z, derivative: as in `spherical_jn`.

    Example:
        >>> from ftrace.scipy.special import spherical_kn
        >>> f"{float(spherical_kn(0, 1.0)):.6f}"
        '0.577864'
    """
    return _of_order("kn")(n, z, derivative)


@scipys("scipy.special")
def lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Any:
    """The branch k of the solution w of w exp(w) = z.

    Args:
        z: an array of numbers, taken as complex ones.
        k: branches, integers.
        tol: only 1e-8 for traced arguments.

    Example:
        >>> from ftrace.scipy.special import lambertw
        >>> f"{float(lambertw(1.0).real):.6f}"
        '0.567143'
    """
    _inexactly("lambertw", tol != 1e-8)
    z = inexact(z)
    wide = np.result_type(z.dtype, np.complex64)
    return scipy_gammas.lambertw(*prepared(fnp.astype(z, wide), k))


def bernoulli(n: int) -> Any:
    """The Bernoulli numbers B0 to Bn.

    Args:
        n: a Python integer.

    Example:
        >>> from ftrace.scipy.special import bernoulli
        >>> float(bernoulli(2)[1])
        -0.5
    """
    return _plain_bernoulli(static_int(n, "n"))


def euler(n: int) -> Any:
    """The Euler numbers E0 to En.

    Args:
        n: a Python integer.

    Example:
        >>> from ftrace.scipy.special import euler
        >>> euler(4).round(12)
        array([ 1.,  0., -1.,  0.,  5.])
    """
    return _plain_euler(static_int(n, "n"))
