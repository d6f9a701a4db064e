"""Functions of other people: NumPy's polynomials, SciPy's and scikit-learn's, imported as they are.

Each case is the path of a function and its arguments; arrays of floats and floats among them are
differentiated and mapped over, everything else stays. A case that is missing from all modes has its
reason beside it.
"""

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.special
import scipy.stats

from ftrace.numpy.scipy_special import ROWS
from ftrace.primitives.families import Reals
from ftrace.primitives.scipy_functions import FUNCTIONS
from tests.scipy.special_names import NONE
from tests.scipy.test_special import NAMES, domains

RNG = np.random.default_rng(0)
PLACES = np.array([0.0, 0.4, 1.1, 1.5, 2.6])

Case = tuple[str, tuple[Any, ...], dict[str, Any]]


def some(*shape: int) -> Any:
    """Numbers between 0.3 and 1.7."""
    return RNG.uniform(0.3, 1.7, shape)


def share_of_kernels(x: Any) -> Any:
    """A method of SciPy's object that has a counterpart of ours, which lacks the method."""
    return scipy.stats.gaussian_kde(PLACES).integrate_box_1d(x[0], x[1])


def polynomials() -> Iterator[Case]:
    """All bases of `numpy.polynomial`."""
    c, d, x = some(4), some(3), some(5)
    roots = np.array([-1.0, 0.2, 2.5])
    for base, prefix in (
        *(("polynomial", "poly"), ("chebyshev", "cheb"), ("legendre", "leg")),
        *(("hermite", "herm"), ("hermite_e", "herme"), ("laguerre", "lag")),
    ):
        cases: dict[str, tuple[Any, ...]] = {
            **dict.fromkeys(("der", "int", "mulx", "companion"), (c,)),
            **dict.fromkeys(("mul", "add", "sub", "div"), (c, d)),
            **{"val": (x, c), "vander": (x, 3), "val2d": (x, x + 0.1, some(3, 2))},
            **{"fromroots": (d,), "grid2d": (d, d, some(3, 2)), "fit": (PLACES, x, 2)},
            **{"pow": (d, 2), "roots": (roots,), "line": (0.5, 1.5), "trim": (c,)},
        }
        if prefix != "poly":
            cases["2poly"] = (c,)
        for name, args in cases.items():
            yield f"numpy.polynomial.{base}.{prefix}{name}", args, {}


_DOMAINS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("erfinv", "logit", "ndtri", "entr"), (some(3) / 2,)),
    **dict.fromkeys(("chdtr", "chdtrc", "pdtr", "pdtrc", "gammainc", "gammaincc"), (2, some(3))),
    **dict.fromkeys(("iv", "ive", "jv"), (2, some(3))),
    **dict.fromkeys(("fdtr", "fdtrc"), (3, 5, some(3))),
    **dict.fromkeys(("gdtr", "gdtrc"), (some(3), 2, some(3))),
    "chdtri": (3, some(3) / 2),
    "zeta": (2, some(3)),
}


# without derivatives, with them by some operands only, and of which SciPy's values are rough:
# tests/scipy/test_special_slopes.py has them
APART = {*NONE, *(name for name in ROWS if name.endswith("_cv")), "ncfdtrinc"}


def special() -> Iterator[Case]:
    """The ufuncs of scipy.special."""
    rng = np.random.default_rng(3)
    for name in sorted(set(ROWS) - APART):
        ufunc = getattr(scipy.special, name)
        domain = _DOMAINS.get(name)
        f = FUNCTIONS.get(name)
        if domain is None and (f is not None or name in NAMES):
            kind = "f8" if f is None or "f" in f.kinds else "c16"
            places = domains(name)
            domain = tuple(s.draw(rng, (3,), kind) if type(s) is Reals else s for s in places)
        args = domain or tuple(some(3) for _ in range(ufunc.nin))
        if not any(np.iscomplexobj(a) for a in args):
            yield f"scipy.special.{name}", args, {}


def scipys() -> Iterator[Case]:
    """What of SciPy is Python over arrays, or has a counterpart of ours."""
    x, c, d, many = some(5), some(4), some(3), some(9)
    for name in ("rosen", "rosen_der", "rosen_hess"):
        yield f"scipy.optimize.{name}", (x,), {}
    yield "scipy.optimize.rosen_hess_prod", (x, x + 0.1), {}
    for name in ("trapezoid", "cumulative_trapezoid", "simpson"):
        yield f"scipy.integrate.{name}", (x,), {}
        yield f"scipy.integrate.{name}", (x, PLACES), {}
        yield f"scipy.integrate.{name}", (some(3, 4),), {"axis": 0, "dx": 0.5}
    yield "scipy.integrate.cumulative_simpson", (x,), {}
    yield "scipy.integrate.romb", (x,), {}
    for name in ("fixed_quad", "quad_vec", "quad"):
        yield f"scipy.integrate.{name}", (np.sin, 0.1, 1.2), {}
    for name in ("logsumexp", "softmax", "log_softmax"):
        yield f"scipy.special.{name}", (x,), {}
    yield "scipy.special.multigammaln", (x + 3, 3), {}
    yield "scipy.special.comb", (x + 2, x), {}
    yield "scipy.special.factorial", (x,), {}
    for method in ("pdf", "logpdf", "cdf", "logcdf", "sf"):
        yield f"scipy.stats.norm.{method}", (x, 0.1, 1.2), {}
        yield f"scipy.stats.gamma.{method}", (x, 2), {}
    yield "scipy.stats.norm.ppf", (x / 3,), {}
    yield "scipy.stats.poisson.logpmf", (3, 1.4), {}
    yield "scipy.stats.multivariate_normal.logpdf", (d, c[:3], np.eye(3) + 0.1), {}
    yield "scipy.stats.sem", (many,), {}
    yield "scipy.signal.convolve", (x, d), {}
    yield "scipy.signal.correlate", (x, d), {}
    yield "scipy.signal.fftconvolve", (x, d), {}
    yield "scipy.signal.convolve2d", (some(4, 5), some(2, 2)), {}
    yield "scipy.signal.lfilter", (d, c, some(8)), {}
    yield "scipy.signal.detrend", (some(7),), {}
    yield "scipy.signal.welch", (some(32),), {"nperseg": 8}
    yield "scipy.signal.chirp", (x, 0.1, 1.0, 2.0), {}
    yield "scipy.ndimage.map_coordinates", (some(4, 5), some(2, 3) * 1.4), {"order": 1}
    yield from images()
    for name in ("cosine", "correlation", "sqeuclidean", "cityblock", "braycurtis", "canberra"):
        yield f"scipy.spatial.distance.{name}", (x, x[::-1] * 1.3), {}


def samples() -> Iterator[Case]:
    """Statistics of samples, and signals: code that decides by shapes and axes of its own making.

    Not `tvar`, which has weights where a sample holds a NaN, and None where it does not.
    """
    x, y, long = some(9), some(9), some(24)
    for name in (
        *("skew", "kurtosis", "moment", "zscore", "gmean", "hmean", "entropy", "trim_mean"),
        *("tmean", "variation", "iqr", "sem", "gstd", "median_abs_deviation"),
    ):
        yield f"scipy.stats.{name}", (x,), {"proportiontocut": 0.1} if "trim" in name else {}
    for name in ("pearsonr", "linregress", "ttest_ind", "ttest_rel", "f_oneway", "energy_distance"):
        yield f"scipy.stats.{name}", (x, y), {}
    yield "scipy.stats.ttest_1samp", (x, 0.9), {}
    yield "scipy.stats.wasserstein_distance", (x, y * 1.1), {}
    yield "scipy.stats.bartlett", (x, y), {}
    for power in (None, "log-likelihood", "neyman", "mod-log-likelihood", 0.7):
        yield "scipy.stats.power_divergence", (x,), {"lambda_": power}
    yield "scipy.stats.chisquare", (some(4, 3),), {"axis": None, "ddof": 1}
    yield "tests.scipy.imported.share_of_kernels", (x,), {}
    yield "scipy.stats.boxcox_llf", (0.4, x), {}
    for name in ("hilbert", "periodogram", "czt", "envelope"):
        yield f"scipy.signal.{name}", (long,), {}
    yield "scipy.signal.stft", (long,), {"nperseg": 8}
    yield "scipy.signal.spectrogram", (long,), {"nperseg": 8}
    yield "scipy.signal.coherence", (long, long**2), {"nperseg": 8}
    yield "scipy.signal.resample", (long, 10), {}
    yield "scipy.signal.sawtooth", (6 * long, 0.3), {}
    yield "scipy.signal.lfilter_zi", (x[:3], 1 + x[:4]), {}
    yield "scipy.signal.lfilter_zi", (x[:4], 1 + x[:2]), {}
    yield "scipy.signal.filtfilt", (x[:3], np.array([1.0, -0.5, 0.2]), long), {}
    yield "scipy.signal.oaconvolve", (long, x), {}


def images() -> Iterator[Case]:
    """What `scipy.ndimage` does with an image, and `savgol_filter`, which uses it."""
    image, weights = some(6, 7), some(3, 2)
    calls: dict[str, tuple[Any, ...]] = {
        **{"gaussian_filter": ([1, 2],), "gaussian_filter1d": (1,), "gaussian_laplace": (1,)},
        **{"uniform_filter": (3,), "uniform_filter1d": (3, 0), "laplace": (), "sobel": (0,)},
        **{"convolve": (weights,), "correlate": (weights,), "prewitt": (), "rotate": (30,)},
        **{"correlate1d": (weights[:, 0],), "convolve1d": (weights[:, 1], 0)},
        **{"zoom": (2,), "shift": (np.array([0.3, -1.2]),), "affine_transform": (some(2, 2),)},
        **{"spline_filter": (), "spline_filter1d": (4, 0), "map_coordinates": (some(2, 5) * 3,)},
        **{"median_filter": (3,), "percentile_filter": (20, 3), "rank_filter": (2, (2, 3))},
        **dict.fromkeys(("minimum_filter", "maximum_filter"), ((2, 3),)),
        **dict.fromkeys(("minimum_filter1d", "maximum_filter1d"), (3,)),
        **{"gaussian_gradient_magnitude": (1,), "generic_filter": (np.ptp, (2, 3))},
    }
    for name, more in calls.items():
        yield f"scipy.ndimage.{name}", (image, *more), {}
    yield "scipy.signal.medfilt2d", (image,), {}
    yield "scipy.signal.savgol_filter", (some(9), 5, 2), {}


def scores() -> Iterator[Case]:
    """Scores of scikit-learn."""
    y, z = some(6), some(6)
    for name in (
        *("mean_squared_error", "mean_absolute_error", "r2_score", "explained_variance_score"),
        *("root_mean_squared_error", "mean_pinball_loss", "mean_absolute_percentage_error"),
    ):
        yield f"sklearn.metrics.{name}", (y, z), {}


def resolve(path: str) -> Callable[..., Any]:
    """The function at a path."""
    parts = path.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:n]))
        except ImportError:
            continue
        for part in parts[n:]:
            found = getattr(found, part)
        return found
    raise ImportError(path)


def moving(args: tuple[Any, ...]) -> list[int]:
    """Which arguments are differentiated and mapped over."""
    return [
        i
        for i, a in enumerate(args)
        if (isinstance(a, np.ndarray) and a.dtype.kind == "f") or type(a) is float
    ]
