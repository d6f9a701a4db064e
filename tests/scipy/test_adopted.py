"""SciPy's distributions without a counterpart of ours: its values, where traced, and slopes."""

from typing import Any

import numpy as np
import pytest
import scipy.stats

import ftrace
from ftrace.core.config import update
from ftrace.core.errors import TracerIntegerConversionError
from tests.scipy.agreeing import CHECKS

CONTINUOUS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("arcsine", "halfcauchy", "halflogistic", "halfnorm", "hypsecant"), ()),
    **dict.fromkeys(("levy", "maxwell", "moyal", "rayleigh", "anglit"), ()),
    **{"alpha": (3.5,), "burr12": (10.0, 4.0), "burr": (10.5, 4.3), "chi": (4.5,), "fisk": (3.1,)},
    **{"dweibull": (2.1,), "exponnorm": (1.5,), "exponpow": (2.7,), "exponweib": (2.9, 1.95)},
    **{"fatiguelife": (1.3,), "foldcauchy": (1.5,), "foldnorm": (1.2,), "genextreme": (-0.1,)},
    **{"gengamma": (4.4, 3.1), "genlogistic": (0.4,), "genpareto": (0.1,), "gompertz": (0.9,)},
    **{"halfgennorm": (0.7,), "invgauss": (0.15,), "invweibull": (1.6,), "johnsonsb": (4.3, 3.2)},
    **{"johnsonsu": (2.6, 2.3), "loggamma": (0.4,), "loglaplace": (3.3,), "loguniform": (0.1, 1.3)},
    **{"lomax": (1.9,), "mielke": (10.4, 4.6), "nakagami": (5.0,), "powerlaw": (1.7,)},
    **{"powernorm": (4.5,), "rice": (0.8,), "skewcauchy": (0.5,), "skewnorm": (4.0,)},
    **{"trapezoid": (0.2, 0.8), "triang": (0.15,), "truncexpon": (4.7,), "weibull_max": (2.9,)},
    **{"crystalball": (2.0, 3.0), "norminvgauss": (1.3, 0.5), "vonmises_line": (2.0,)},
}
DISCRETE: dict[str, tuple[float, ...]] = {
    **{"boltzmann": (1.4, 19), "dlaplace": (0.8,), "logser": (0.6,)},
    **{"planck": (0.5,), "randint": (7, 31), "zipf": (6.5,), "nhypergeom": (20, 7, 12)},
}
DENSITY = ("skewnorm", "vonmises_line", "norminvgauss", "crystalball")
"""Of which the other functions are compiled code, or integrals."""
MASS = ("zipf", "logser", "nhypergeom", "boltzmann")


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    """Staged programs are interpreted: what is compiled has tests of its own."""
    with update(compile=False), np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name: str) -> None:
    theirs, parameters = getattr(scipy.stats, name), CONTINUOUS[name]
    inside = theirs.ppf([0.1, 0.45, 0.83], *parameters)
    at = np.append(inside * 1.3 + 0.2, [-1e3, 1e3, np.nan])
    methods = ("pdf", "logpdf", "cdf", "sf", "ppf")
    for method in methods[: 2 if name in DENSITY else 4 if name == "invgauss" else 5]:
        f, x = getattr(theirs, method), np.array([0.2, 0.6]) if method == "ppf" else inside
        places = np.array([-0.1, 0.0, 0.3, 1.0]) if method == "ppf" else at
        found = ftrace.jit(lambda x, *p, f=f: f(x, *p, loc=0.2, scale=1.3))(places, *parameters)
        expected = f(places, *parameters, loc=0.2, scale=1.3)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        CHECKS["jvp"](lambda x, f=f: f(x, *parameters), (x,))
        CHECKS["vmap"](lambda x, *p, f=f: f(x, *p), (x, *parameters))
    CHECKS["jvp"](lambda s: theirs.logpdf(inside, *parameters, 0.0, s), (1.1,))
    CHECKS["vjp"](lambda x: theirs(*parameters).logpdf(x), (inside,))
    CHECKS["jvp"](ftrace.grad(lambda x: np.sum(theirs.logpdf(x, *parameters))), (inside,))


def test_densities_at_the_ends_of_supports() -> None:
    for name, *parameters in (
        ("alpha", 3.57),
        ("invgauss", 0.145),
        ("johnsonsb", 4.3, 3.2),
        ("levy_l",),
        ("powerlaw", 0.66),
        ("powerlaw", 1.66),
        ("wald",),
        ("rice", 1.2),
    ):
        theirs = getattr(scipy.stats, name)
        at = np.array([v for v in theirs.support(*parameters) if np.isfinite(v)] + [-0.4, np.nan])
        for method in (theirs.pdf, theirs.logpdf):
            found = ftrace.jit(lambda x, f=method, p=parameters: f(x, *p))(at)
            np.testing.assert_allclose(found, method(at, *parameters), rtol=1e-9)


def test_frozen_distributions() -> None:
    for made in (lambda b: scipy.stats.rice(b, 0.1), lambda b: scipy.stats.rice(b=b, scale=2.0)):
        CHECKS["vjp"](lambda x, b, made=made: made(b).logpdf(x), (np.array([0.3, 2.0]), 1.2))
        fixed: Any = made(1.2)
        for method in (fixed.pdf, fixed.logpdf, fixed.cdf, fixed.sf):
            CHECKS["jit"](lambda x, f=method: f(x), (np.array([0.3, 2.0]),))


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name: str) -> None:
    theirs, parameters = getattr(scipy.stats, name), DISCRETE[name]
    at = np.array([-1.0, 0.0, 1.0, 2.5, 3.0, 9.0])
    for method in ("pmf", "logpmf") if name in MASS else ("pmf", "logpmf", "cdf", "sf"):
        f = getattr(theirs, method)
        found = ftrace.jit(lambda k, f=f: f(k, *parameters))(at)
        np.testing.assert_allclose(found, f(at, *parameters), rtol=1e-9, atol=1e-12)


def test_slopes_by_parameters() -> None:
    for name in ("genpareto", "rice", "skewnorm", "exponnorm", "lomax", "johnsonsu", "gengamma"):
        theirs, parameters = getattr(scipy.stats, name), CONTINUOUS[name]
        x = theirs.ppf([0.2, 0.7], *parameters)
        for check in CHECKS.values():
            check(lambda *p, x=x, f=theirs.logpdf: f(x, *p, 0.0, 1.2), parameters)
    for check in CHECKS.values():
        check(lambda p: scipy.stats.logser.logpmf(np.array([1, 2, 4]), p), (0.6,))


def test_a_distribution_that_holds_another_object_is_no_frozen_one() -> None:
    urn = scipy.stats.nchypergeom_fisher
    with pytest.raises(TracerIntegerConversionError, match="int"):
        ftrace.jit(lambda k: urn.pmf(k, 140, 80, 60, 0.5))(np.arange(40.0, 43.0))
