"""Special functions in a wider type, where scipy's are less exact than what is tested."""

from collections.abc import Callable

import numpy as np
from scipy import special

from tests.cpu.ulp import TRUTH, WIDER

Array = np.ndarray


def _bessel(n: int, x: Array) -> Array:
    """The power series, all terms positive; for |x| <= 100."""
    half = x / 2
    term = total = np.ones_like(x) if n == 0 else half
    for k in range(1, 260):
        term = term * (half * half) / (k * (k + n))
        total = total + term
    return total


def _digamma(x: Array) -> Array:
    """Upwards to where the asymptotic series holds; for x > -30."""
    total = np.zeros_like(x)
    for k in range(60):
        total -= 1 / (x + k)
    y = x + 60
    series = np.zeros_like(y)
    for denominator in (240, -252, 120, -12):  # of Bernoulli's numbers over their index
        series = (series - 1 / x.dtype.type(denominator)) / (y * y)
    found = total + np.log(y) - 1 / (2 * y) - series
    return np.where((x < 0) & (x == np.rint(x)), np.nan, found)


def _log_ndtr(x: Array) -> Array:
    tail = TRUTH["erfc"](np.abs(x) / np.sqrt(x.dtype.type(2))) / 2
    return np.where(x < 0, np.log(tail), np.log1p(-tail))


# functions and the ends between which they are right
WIDE: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "i0": (lambda x: _bessel(0, x), -100, 100),
    "i1": (lambda x: _bessel(1, x), -100, 100),
    "i0e": (lambda x: _bessel(0, x) * np.exp(-np.abs(x)), -100, 100),
    "i1e": (lambda x: _bessel(1, x) * np.exp(-np.abs(x)), -100, 100),
    "digamma": (_digamma, -30, 1e6),
    "log_ndtr": (_log_ndtr, -35, 35),
}
SCIPY: dict[str, Callable[[Array], Array]] = {
    "lgamma": special.gammaln,
    "gamma": special.gamma,
    "erf_inv": special.erfinv,
    "ndtri": special.ndtri,
}


def inputs(op: str, dtype: str, count: int, seed: int) -> Array:
    """Points where the truth is known, most of them where the function changes."""
    rng = np.random.default_rng(seed)
    low, high = WIDE[op][1:] if op in WIDE else (-1, 1) if op == "erf_inv" else (0, 1)
    if op in ("lgamma", "gamma"):
        low, high = (-30, 34) if dtype == "f4" else (-150, 170)
    parts = [rng.uniform(max(low, -e), min(high, e), count) for e in (0.1, 1, 3, 12, 100, 1e6)]
    parts += [np.exp(-rng.uniform(0, 60, count)), np.linspace(max(low, -35), min(high, 35), count)]
    found = np.concatenate(parts)
    if op == "digamma":  # the truth is exact in absolute terms only
        found = found[np.abs(found - 1.4616321) > 0.02]
    return found[(found >= low) & (found <= high)].astype(dtype)


def truth(op: str, x: Array) -> Array:
    """The value, in the next wider type, or scipy's in float64."""
    with np.errstate(all="ignore"):
        if op in WIDE:
            return np.asarray(WIDE[op][0](x.astype(WIDER[x.dtype.str[1:]])))
        return np.asarray(SCIPY[op](x.astype("f8")))
