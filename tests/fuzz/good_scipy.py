"""Calls that make sense of SciPy's functions, of sparse matrices, and of ftrace's smaller modules.

What SciPy makes and calls later is one function here: an interpolator with its places, a method of
a distribution or of a sparse matrix, so that its data may be traced. SciPy's own are beside ours.
"""

import importlib
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse
import scipy.stats

import ftrace
import ftrace.sparse
from ftrace import checkpoint_policies, custom_batching, custom_derivatives, dtypes, flatten_util
from ftrace.scipy import stats

MODULES = (
    *("cluster.vq", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal"),
    "spatial.distance",
)
VECTORS = ("braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine")
VECTORS += ("euclidean", "hamming", "jensenshannon", "minkowski", "sqeuclidean")
NAMES = {
    "cluster.vq": ("vq",),
    # not splint, not squareform: SciPy's end the process on some arguments
    "interpolate": ("barycentric_interpolate", "griddata", "interpn", "splev", "splrep"),
    "spatial.distance": (*VECTORS, "cdist", "mahalanobis", "pdist", "seuclidean"),
}
X = np.array([1.0, 2.0, 3.0])
LONG = np.sin(np.arange(16.0)) + 2.0
M = np.arange(9.0).reshape(3, 3) + 4.0 * np.eye(3)
SPD = M @ M.T + np.eye(3)
KNOTS, HEIGHTS = np.arange(6.0), np.array([0.0, 1.0, 0.5, 2.0, 1.5, 1.0])
PLACES = np.array([0.5, 2.25, 4.0])
BANDED = np.array([[0.0, 1.0, 1.0], [4.0, 5.0, 6.0], [1.0, 1.0, 0.0]])
INDICES, ENDS = np.array([0, 2, 1]), np.array([0, 2, 3, 3])
KEY = ftrace.random.PRNGKey(0)

Good = tuple[str, str, tuple[Any, ...], dict[str, Any]]


def curve(t: Any) -> Any:
    """A function of a number."""
    return t * t - 2.0


def decay(t: Any, y: Any) -> Any:
    """The right side of an equation."""
    return -y


def decay_of(y: Any, t: Any) -> Any:
    """The right side of an equation, as `odeint` takes it."""
    return -y


def grid_points() -> Any:
    """Nine points in a square."""
    return np.stack(np.meshgrid(X, X), -1).reshape(-1, 2)


def line(x: Any, a: Any, b: Any) -> Any:
    """A model for `curve_fit`."""
    return a * x + b


def squares(x: Any) -> Any:
    """A number from an array."""
    return (x * x).sum()


def residuals(x: Any) -> Any:
    """An array from an array."""
    return x - 1.0


def scaled(r: Any, x: Any) -> Any:
    """A function that is linear in its second argument."""
    return r * x


# ---------------------------------------------------------------------- what is made, then called


class Interpolators:
    """The interpolators of a module as functions: heights first, so that they are traced."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def cubic(self, y: Any, x: Any, at: Any, axis: Any = 0, bc_type: Any = "not-a-knot") -> Any:
        """A cubic spline."""
        return self.module.CubicSpline(x, y, axis, bc_type)(at)

    def slope(self, y: Any, x: Any, at: Any, nu: Any = 1, extrapolate: Any = None) -> Any:
        """Its derivative at places."""
        return self.module.CubicSpline(x, y)(at, nu, extrapolate)

    def derivative(self, y: Any, x: Any, at: Any, nu: Any = 1) -> Any:
        """The spline that is its derivative."""
        return self.module.CubicSpline(x, y).derivative(nu)(at)

    def antiderivative(self, y: Any, x: Any, at: Any, nu: Any = 1) -> Any:
        """The spline that is its integral."""
        return self.module.CubicSpline(x, y).antiderivative(nu)(at)

    def area(self, y: Any, x: Any, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """Its integral between two places."""
        return self.module.CubicSpline(x, y).integrate(a, b, extrapolate)

    def pchip(self, y: Any, x: Any, at: Any, axis: Any = 0, extrapolate: Any = None) -> Any:
        """A monotone one."""
        return self.module.PchipInterpolator(x, y, axis, extrapolate)(at)

    def akima(self, y: Any, x: Any, at: Any, axis: Any = 0, method: Any = "akima") -> Any:
        """Akima's."""
        return self.module.Akima1DInterpolator(x, y, axis, method=method)(at)

    def hermite(self, y: Any, x: Any, dydx: Any, at: Any, axis: Any = 0) -> Any:
        """Hermite's."""
        return self.module.CubicHermiteSpline(x, y, dydx, axis)(at)

    def pieces(self, c: Any, x: Any, at: Any, nu: Any = 0, extrapolate: Any = None) -> Any:
        """A polynomial in pieces."""
        return self.module.PPoly(c, x, extrapolate)(at, nu)

    def bspline(self, c: Any, t: Any, k: Any, at: Any, nu: Any = 0) -> Any:
        """A spline by its basis."""
        return self.module.BSpline(t, c, k)(at, nu)

    def made_bspline(self, y: Any, x: Any, at: Any, k: Any = 3, bc_type: Any = None) -> Any:
        """The one through samples."""
        return self.module.make_interp_spline(x, y, k, bc_type=bc_type)(at)

    def through(self, y: Any, x: Any, at: Any, nu: Any = 0, k: Any = 3, ext: Any = 0) -> Any:
        """One of FITPACK's classes."""
        return self.module.InterpolatedUnivariateSpline(x, y, k=k, ext=ext)(at, nu)

    def nearest(self, y: Any, x: Any, t: Any, at: Any, w: Any = None, k: Any = 3) -> Any:
        """The nearest one to samples."""
        return self.module.LSQUnivariateSpline(x, y, t, w, k=k)(at)

    def rectangle(self, z: Any, x: Any, y: Any, at: Any, dx: Any = 0, kx: Any = 3) -> Any:
        """A spline of two variables."""
        return self.module.RectBivariateSpline(x, y, z, kx=kx)(at, at, dx)

    def radial(self, d: Any, y: Any, x: Any, kernel: Any = "linear", smoothing: Any = 0.0) -> Any:
        """A sum of radial functions."""
        return self.module.RBFInterpolator(y, d, None, smoothing, kernel)(x)

    def linear(self, y: Any, x: Any, at: Any, kind: Any = "linear", axis: Any = -1) -> Any:
        """Lines between samples."""
        return self.module.interp1d(x, y, kind, axis)(at)

    def filled(self, y: Any, x: Any, at: Any, bounds_error: Any = False, fill: Any = 0.0) -> Any:
        """Lines between samples, with what is given outside."""
        return self.module.interp1d(x, y, bounds_error=bounds_error, fill_value=fill)(at)

    def grid(self, values: Any, points: Any, at: Any, method: Any = "linear") -> Any:
        """On a grid."""
        return self.module.RegularGridInterpolator(points, values, method)(at)


def interpolators(module: Any) -> SimpleNamespace:
    """These functions of a module, which are its methods."""
    made = Interpolators(module)
    return SimpleNamespace(**{n: getattr(made, n) for n in vars(Interpolators) if n[0] != "_"})


_METHODS = ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf", "pmf", "logpmf")


def distributions(module: Any) -> SimpleNamespace:
    """Methods of the distributions, and the other functions of a module."""
    found = {}
    for name in [n for n in dir(stats) if not n.startswith("_")]:
        own, theirs = getattr(stats, name), getattr(module, name, None)
        for method in _METHODS:
            if not inspect.ismodule(own) and hasattr(own, method) and not isinstance(own, type):
                found[f"{name}.{method}"] = getattr(theirs, method)

    def density(data: Any, at: Any, bw_method: Any = None, weights: Any = None) -> Any:
        return module.gaussian_kde(data, bw_method, weights)(at)

    return SimpleNamespace(**found, sem=module.sem, rankdata=module.rankdata, density=density)


def _of_matrix(module: Any, act: Callable[..., Any]) -> Callable[..., Any]:
    def call(data: Any, *args: Any, **options: Any) -> Any:
        return act(module.csr_array((data, INDICES, ENDS), (3, 3)), *args, **options)

    return call


def matrices(module: Any) -> SimpleNamespace:
    """Methods and operators of a sparse matrix, as functions of its data."""
    methods = (
        *("dot", "multiply", "power", "astype", "diagonal", "trace", "sum", "mean", "toarray"),
        *("transpose", "conjugate", "copy", "tocsc", "tocoo"),
    )
    acts = {
        "matmul": lambda A, x: A @ x,
        "rmatmul": lambda A, x: x @ A,
        "add": lambda A, x: A + x,
        "subtract": lambda A, x: A - x,
        "rsubtract": lambda A, x: x - A,
        "times": lambda A, x: A * x,
        "divide": lambda A, x: A / x,
        "getitem": lambda A, i: A[i],
        "both": lambda A, B: A @ module.csr_array((B, INDICES, ENDS), (3, 3)),
        **{n: lambda A, *a, n=n, **k: getattr(A, n)(*a, **k) for n in methods},
    }
    return SimpleNamespace(**{n: _of_matrix(module, act) for n, act in acts.items()})


def updates() -> SimpleNamespace:
    """The methods of `x.at[i]`."""
    names = ("set", "add", "multiply", "divide", "power", "min", "max", "get")

    def of(name: str) -> Callable[..., Any]:
        def act(x: Any, i: Any, *args: Any, **options: Any) -> Any:
            return getattr(ftrace.numpy.at(x)[i], name)(*args, **options)

        act.__qualname__ = name
        return act

    return SimpleNamespace(**{name: of(name) for name in names})


def initialised(name: str) -> Callable[..., Any]:
    """An initializer of `nn`, made and called."""
    make = getattr(ftrace.nn.initializers, name)
    if name in ("zeros", "ones"):
        return make

    def call(key: Any, shape: Any, *args: Any, **options: Any) -> Any:
        return make(*args, **options)(key, shape)

    call.__qualname__ = name
    first = [*inspect.signature(call).parameters.values()][:2]
    both = [*first, *inspect.signature(make).parameters.values()]
    call.__signature__ = inspect.Signature(both)  # type: ignore[attr-defined]
    return call


INITIALIZERS = (
    *("constant", "glorot_normal", "he_uniform", "lecun_normal", "normal", "ones", "orthogonal"),
    *("truncated_normal", "uniform", "variance_scaling", "zeros"),
)
SMALLER = SimpleNamespace(
    ravel_pytree=flatten_util.ravel_pytree,
    sequential_vmap=custom_batching.sequential_vmap,
    linear_call=custom_derivatives.linear_call,
    zero_from_primal=custom_derivatives.zero_from_primal,
    issubdtype=dtypes.issubdtype,
    result_type=dtypes.result_type,
    canonicalize_dtype=dtypes.canonicalize_dtype,
    scalar_type_of=dtypes.scalar_type_of,
    save_only_these_names=checkpoint_policies.save_only_these_names,
    save_from_both_policies=checkpoint_policies.save_from_both_policies,
    callback=ftrace.debug.callback,
    print=ftrace.debug.print,
    blame=ftrace.debug.blame,
)
SEGMENTS = SimpleNamespace(
    **{n: getattr(ftrace.ops, f"segment_{n}") for n in ("sum", "prod", "min", "max")}
)


def _scipy_module(package: str, name: str) -> Any:
    """What a module defines, without what it imports."""
    module = importlib.import_module(f"{package}.{name}")
    names = NAMES.get(name) or [n for n in dir(module) if not n.startswith("_")]
    kept = {n: getattr(module, n) for n in names if not inspect.ismodule(getattr(module, n))}
    return SimpleNamespace(**kept)


OURS: dict[str, Any] = {
    **{f"scipy.{n}": _scipy_module("ftrace.scipy", n) for n in MODULES},
    "interpolators": interpolators(importlib.import_module("ftrace.scipy.interpolate")),
    "stats": distributions(stats),
    "sparse": ftrace.sparse,
    "matrices": matrices(ftrace.sparse),
    "lax.linalg": ftrace.lax.linalg,
    "initializers": SimpleNamespace(**{n: initialised(n) for n in INITIALIZERS}),
    "smaller": SMALLER,
    "segments": SEGMENTS,
    "updates": updates(),
}


def _items_of(x: Any, i: Any, *args: Any, **options: Any) -> Any:
    """NumPy's words on an index, but for those out of range, and on what is stored there."""
    try:
        y = np.array(x)
        if args and np.ndim(args[0]) == 0:
            y.dtype.type(args[0])
        y[i] = args[0] if args else y[i]
    except IndexError as error:
        if "out of bounds" not in str(error):
            raise


SCIPYS: dict[str, Any] = {
    **{f"scipy.{n}": _scipy_module("scipy", n) for n in MODULES},
    "interpolators": interpolators(importlib.import_module("scipy.interpolate")),
    "stats": distributions(scipy.stats),
    "sparse": scipy.sparse,
    "matrices": matrices(scipy.sparse),
    "updates": SimpleNamespace(**dict.fromkeys(vars(OURS["updates"]), _items_of)),
    "smaller": SimpleNamespace(result_type=np.result_type, issubdtype=np.issubdtype),
}


# ---------------------------------------------------------------------------------- the calls


def _call(family: str, name: str, *args: Any, **kwargs: Any) -> Good:
    return family, name, args, kwargs


def _all(family: str, calls: list[tuple[Any, ...]]) -> list[Good]:
    return [_call(family, *call) for call in calls]


def _linalg() -> list[Good]:
    square = ("cholesky", "det", "eig", "eigvals", "expm", "hessenberg", "inv", "logm", "lu")
    square += ("lu_factor", "orth", "pinv", "polar", "qr", "schur", "sqrtm", "svd", "svdvals")
    calls: list[tuple[Any, ...]] = [(name, M) for name in square]
    calls += [(name, SPD) for name in ("cholesky", "cho_factor", "eigh", "eigvalsh", "pinvh")]
    calls += [
        ("block_diag", X, M), ("cho_solve", (np.linalg.cholesky(SPD), True), X), ("circulant", X),
        ("companion", X), ("convolution_matrix", X, 4), ("eigh_tridiagonal", X, X[:2]),
        ("expm_frechet", M, M), ("fiedler", X), ("fiedler_companion", X), ("funm", M, np.exp),
        ("hankel", X), ("hankel", X, X), ("leslie", X, X[:2]), ("lstsq", M, X), ("norm", M),
        ("lu_solve", (M, np.array([0, 1, 2])), X), ("norm", M, 2, 0), ("null_space", M[:2]),
        ("rsf2csf", np.triu(M), np.eye(3)), ("solve", M, X), ("solve", SPD, X),
        ("solve_banded", (1, 1), BANDED, X), ("solveh_banded", BANDED[:2], X),
        ("solve_continuous_lyapunov", M, M), ("solve_discrete_lyapunov", M / 20, M),
        ("solve_sylvester", M, M, M), ("solve_toeplitz", X, X), ("solve_triangular", M, X),
        ("subspace_angles", M[:, :1], M[:, 1:]), ("toeplitz", X), ("toeplitz", X, X),
        ("dft", 3), ("hadamard", 4), ("helmert", 3), ("hilbert", 3), ("invhilbert", 3),
        ("pascal", 3), ("invpascal", 3),
    ]  # fmt: skip
    return _all("scipy.linalg", calls)


def _signals() -> list[Good]:
    sos = np.array([[0.2, 0.4, 0.2, 1.0, -0.5, 0.1]])
    calls: list[tuple[Any, ...]] = [
        ("convolve", LONG, X), ("convolve2d", M, M[:2, :2]), ("correlate", LONG, X),
        ("correlate2d", M, M[:2, :2]), ("csd", LONG, LONG, 1.0, "hann", 8), ("detrend", LONG),
        ("fftconvolve", LONG, X), ("lfilter", X, X, LONG), ("oaconvolve", LONG, X),
        ("periodogram", LONG), ("sosfilt", sos, LONG), ("welch", LONG, 1.0, "hann", 8),
        ("medfilt", LONG, 3), ("resample_poly", LONG, 2, 3), ("upfirdn", X, LONG, 2, 3),
    ]  # fmt: skip
    return _all("scipy.signal", calls)


def _transforms() -> list[Good]:
    one = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "dct", "idct", "dst", "idst")
    many = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn", "hfft2")
    many += ("hfftn", "ihfft2", "ihfftn", "dctn", "idctn", "dstn", "idstn")
    calls: list[tuple[Any, ...]] = [(name, LONG) for name in one] + [(name, M) for name in many]
    calls += [("fftshift", X), ("ifftshift", X), ("fftfreq", 4), ("rfftfreq", 4)]
    return _all("scipy.fft", calls)


def _images() -> list[tuple[Any, ...]]:
    return [
        ("affine_transform", M, np.eye(2)), ("convolve", M, M), ("correlate", M, M),
        ("correlate1d", M, X), ("gaussian_filter", M, 1.0), ("gaussian_filter1d", M, 1.0),
        ("gaussian_laplace", M, 1.0), ("laplace", M), ("prewitt", M), ("sobel", M),
        *((name, M, 3) for name in ("maximum_filter", "maximum_filter1d", "median_filter")),
        *((name, M, 3) for name in ("minimum_filter", "minimum_filter1d")),
        *((name, M, 3) for name in ("uniform_filter", "uniform_filter1d")),
        ("map_coordinates", M, np.array([[0.5, 1.5], [1.0, 1.0]])), ("rank_filter", M, 2, 3),
        ("percentile_filter", M, 20, 3), ("rotate", M, 30), ("shift", M, 0.5),
        ("spline_filter", M), ("spline_filter1d", M), ("zoom", M, 2),
        *((f"grey_{name}", M, 3) for name in ("erosion", "dilation", "opening", "closing")),
        *((name, M, 3) for name in ("white_tophat", "black_tophat", "morphological_gradient")),
        *((f"fourier_{name}", M, 1.0) for name in ("gaussian", "uniform", "ellipsoid", "shift")),
        *((name, M) for name in ("sum_labels", "mean", "variance", "median", "extrema")),
    ]  # fmt: skip


def _distances() -> list[tuple[Any, ...]]:
    return [
        *((name, X, LONG[:3]) for name in VECTORS), ("seuclidean", X, X + 1.0, X),
        ("mahalanobis", X, X + 1.0, SPD), ("cdist", M, M[:2]), ("pdist", M),
    ]  # fmt: skip


def _others() -> list[Good]:
    grid = (np.arange(3.0), np.arange(3.0))
    integrals: list[tuple[Any, ...]] = [
        ("cumulative_simpson", LONG), ("cumulative_trapezoid", LONG),
        ("fixed_quad", curve, 0.0, 1.0), ("newton_cotes", 3),
        ("quad", curve, 0.0, 1.0), ("quad_vec", curve, 0.0, 1.0),
        ("romb", np.append(LONG, 1.0)), ("simpson", LONG), ("trapezoid", LONG),
    ]  # fmt: skip
    return [
        *_all("scipy.integrate", integrals),
        _call("scipy.cluster.vq", "vq", M, M[:2]),
        _call("scipy.interpolate", "splev", PLACES, (np.arange(10.0), np.ones(6), 3)),
        _call("scipy.interpolate", "splrep", KNOTS, HEIGHTS),
        _call("scipy.interpolate", "barycentric_interpolate", KNOTS, HEIGHTS, PLACES),
        _call("scipy.interpolate", "griddata", grid_points(), M.ravel(), M[:, :2] / 9.0),
        _call("scipy.optimize", "nnls", M, X),
        _call("scipy.optimize", "linear_sum_assignment", M),
        _call("scipy.linalg", "solve_continuous_are", M, M, SPD, SPD),
        _call("scipy.interpolate", "interpn", grid, M, np.array([[0.5, 1.5], [1.0, 1.0]])),
        *_all("scipy.ndimage", _images()),
        *_all("scipy.spatial.distance", _distances()),
        *_all("scipy.optimize", [("rosen", X), ("rosen_der", X), ("rosen_hess", X)]),
        _call("scipy.optimize", "rosen_hess_prod", X, X),
        _call("scipy.optimize", "minimize", squares, X, method="BFGS"),
    ]


def _interpolators() -> list[Good]:
    grid = (np.arange(3.0), np.arange(3.0))
    calls: list[tuple[Any, ...]] = [
        *[(n, HEIGHTS, KNOTS, PLACES) for n in ("cubic", "slope", "derivative", "antiderivative")],
        *[(n, HEIGHTS, KNOTS, PLACES) for n in ("pchip", "akima", "linear", "made_bspline")],
        ("area", HEIGHTS, KNOTS, 0.5, 2.0), ("filled", HEIGHTS, KNOTS, PLACES),
        ("hermite", HEIGHTS, KNOTS, HEIGHTS, PLACES),
        ("pieces", np.ones((3, 5)), KNOTS, PLACES),
        ("bspline", HEIGHTS, np.arange(10.0), 3, PLACES + 2.5), ("cubic", M, X, PLACES[:2]),
        ("through", HEIGHTS, KNOTS, PLACES), ("nearest", HEIGHTS, KNOTS, [2.5], PLACES),
        ("rectangle", np.outer(HEIGHTS, HEIGHTS), KNOTS, KNOTS, PLACES),
        ("radial", HEIGHTS, KNOTS[:, None], PLACES[:, None]),
        ("grid", M, grid, np.array([[0.5, 1.5], [1.0, 1.0]])), ("linear", M, X, X, "linear", 0),
    ]  # fmt: skip
    return _all("interpolators", calls)


_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "beta": (2.0, 3.0), "chi2": (3.0,), "f": (2.0, 3.0), "gamma": (2.0,), "gennorm": (2.0,),
    "invgamma": (2.0,), "lognorm": (1.0,), "pareto": (2.0,), "t": (3.0,), "truncnorm": (-1.0, 2.0),
    "vonmises": (1.0,), "weibull_min": (2.0,), "wrapcauchy": (0.5,), "bernoulli": (0.5,),
    "betabinom": (5, 2.0, 3.0), "binom": (5, 0.5), "geom": (0.5,), "nbinom": (5, 0.5),
    "poisson": (2.0,), "dirichlet": (X,), "multinomial": (6, X / 6.0),
    "multivariate_normal": (X, SPD),
}  # fmt: skip


def _stats() -> list[Good]:
    found = [_call("stats", "sem", LONG), _call("stats", "rankdata", LONG)]
    found.append(_call("stats", "density", LONG, PLACES))
    for name in vars(OURS["stats"]):
        if "." in name:
            kind = name.partition(".")[0]
            at = X / 6.0 if kind == "dirichlet" else X / 4.0 if "pf" in name else X
            found.append(_call("stats", name, at, *_PARAMETERS.get(kind, ())))
    return found


def _sparse() -> list[Good]:
    csr, coo = (X, INDICES, ENDS), (X, (np.array([0, 1, 2]), INDICES))
    calls: list[tuple[Any, ...]] = [
        *[(f"csr_{kind}", csr, (3, 3)) for kind in ("array", "matrix")],
        *[(f"csc_{kind}", csr, (3, 3)) for kind in ("array", "matrix")],
        ("coo_array", coo, (3, 3)), ("coo_matrix", coo, (3, 3)), ("diags", [X, X[:2]], [0, 1]),
        ("diags_array", X), ("jacobian_operator", residuals, X),
        ("as_sparse", scipy.sparse.eye_array(3).tocsr()),
    ]  # fmt: skip
    acts: list[tuple[Any, ...]] = [
        *[(n, X, X) for n in ("matmul", "rmatmul", "dot", "multiply", "times", "divide", "both")],
        *[(n, X, M) for n in ("matmul", "add", "subtract", "rsubtract", "multiply", "times")],
        *[(n, X) for n in ("sum", "mean", "diagonal", "trace", "toarray", "transpose", "copy")],
        *[(n, X) for n in ("conjugate", "tocsc", "tocoo")], ("power", X, 2),
        ("astype", X, np.float32), ("sum", X, 0), ("mean", X, 1), ("diagonal", X, 1),
    ]  # fmt: skip
    return _all("sparse", calls) + _all("matrices", acts)


def _clients() -> list[Good]:
    calls: list[tuple[Any, ...]] = [
        ("odeint", decay_of, X, np.array([0.0, 0.5, 1.0])), ("quad", curve, 0.0, 1.0),
        ("solve_ivp", decay, (0.0, 1.0), X), ("least_squares", residuals, X),
        ("curve_fit", line, KNOTS, HEIGHTS), ("root_scalar", curve, (), "brentq", (0.0, 2.0)),
        ("minimize_scalar", curve, (-1.0, 1.0)),
    ]  # fmt: skip
    return _all("implicit", calls)


_GIVEN = {"constant": (2.0,), "variance_scaling": (1.0, "fan_in", "normal")}


def _rest() -> list[Good]:
    factors: list[tuple[Any, ...]] = [
        *[(n, SPD) for n in ("cholesky", "eig", "eigh", "hessenberg", "lu", "qr", "schur", "svd")],
        ("cholesky_update", np.triu(M), X), ("householder_product", M, X), ("tridiagonal", SPD),
        ("lu_pivots_to_permutation", np.array([1, 2, 2]), 3), ("symmetric_product", M, SPD),
        ("triangular_solve", M, M), ("tridiagonal_solve", X, X, X, M),
    ]  # fmt: skip
    small: list[tuple[Any, ...]] = [
        ("ravel_pytree", {"a": X, "b": M}), ("sequential_vmap", residuals),
        ("linear_call", scaled, scaled, X, X), ("zero_from_primal", X),
        ("issubdtype", np.float32, np.floating), ("result_type", X, 1),
        ("canonicalize_dtype", np.float32), ("scalar_type_of", 1.0), ("callback", residuals, X),
        ("save_only_these_names", "a", "b"), ("print", "{}", X), ("blame", squares, X),
        ("save_from_both_policies", *[checkpoint_policies.dots_saveable] * 2),
    ]  # fmt: skip
    places = [(n, X, 1, 2.0) for n in ("set", "add", "multiply", "divide", "power", "min", "max")]
    spread = [(n, M, np.array([0, 2]), X) for n in ("set", "add")]
    return [
        *_all("lax.linalg", factors),
        *_all("smaller", small),
        *[_call("initializers", n, KEY, (3, 4), *_GIVEN.get(n, ())) for n in INITIALIZERS],
        *[_call("segments", n, X, INDICES, 3) for n in vars(SEGMENTS)],
        *_all("updates", [*places, *spread, ("get", X, 1)]),
    ]


GOOD: list[Good] = [
    *(_linalg() + _signals() + _transforms() + _others() + _interpolators() + _stats()),
    *(_sparse() + _clients() + _rest()),
]
