"""ftrace.scipy.stats: SciPy's values inside of supports, at their ends and outside, and slopes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

import ftrace
from ftrace.core.errors import DomainError
from ftrace.scipy import stats

INF, NAN = np.inf, np.nan
LINE = np.array([-40.0, -3.2, -0.7, 0.1, 0.9, 4.1, 40.0, INF, -INF, NAN])
HALF_LINE = np.array([0.0, -1.0, 1e-5, 0.3, 1.1, 2.7, 9.0, 60.0, INF, -INF, NAN])
UNIT = np.array([0.0, 1.0, -0.1, 1.1, 1e-6, 0.2, 0.5, 0.9, NAN])
CIRCLE = np.array([-0.1, 0.3, 2.2, 3.1, 3.3, 5.9, 6.4, NAN])
Q = np.array([0.0, 1.0, -0.1, 1.1, 1e-9, 0.02, 0.4, 0.5, 0.7, 0.98, NAN])

# name -> (places, parameters)
CONTINUOUS: dict[str, tuple[Any, tuple[float, ...]]] = {
    "norm": (LINE, ()),
    "uniform": (UNIT, ()),
    "expon": (HALF_LINE, ()),
    "gamma": (HALF_LINE, (2.3,)),
    "beta": (UNIT, (1.7, 2.4)),
    "cauchy": (LINE, ()),
    "chi2": (HALF_LINE, (3.2,)),
    "t": (LINE, (4.5,)),
    "f": (HALF_LINE, (3.5, 6.0)),
    "laplace": (LINE, ()),
    "logistic": (LINE, ()),
    "lognorm": (HALF_LINE, (0.8,)),
    "pareto": (np.r_[0.5, 1.02, HALF_LINE], (2.6,)),
    "truncnorm": (LINE, (-1.5, 2.0)),
    "gumbel_r": (LINE[1:], ()),
    "gumbel_l": (LINE[1:], ()),
    "weibull_min": (HALF_LINE, (1.6,)),
    "gennorm": (LINE, (1.4,)),
    "invgamma": (HALF_LINE, (2.2,)),
    "vonmises": (CIRCLE, (1.9,)),
    "wrapcauchy": (CIRCLE, (0.4,)),
}
METHODS = ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf")
SHORT = {"vonmises": ("pdf", "logpdf")}
PLACES = [(0.0, 1.0), (0.4, 1.7)]  # loc, scale

# where SciPy's own formula is another one, or differs
CASES = [(n, m) for n in CONTINUOUS for m in SHORT.get(n, METHODS)]


def quiet(f: Callable[..., Any], *args: Any) -> Any:
    with np.errstate(all="ignore"):
        return f(*args)


@pytest.mark.sampled(2, each="name")
@pytest.mark.parametrize(("name", "method"), CASES)
def test_continuous_distributions_have_scipys_values(name: str, method: str) -> None:
    x, parameters = CONTINUOUS[name]
    ours, theirs = (getattr(getattr(s, name), method) for s in (stats, scipy.stats))
    for loc, scale in PLACES:
        at = Q if method in ("ppf", "isf") else x * scale + loc
        expected = quiet(theirs, at, *parameters, loc, scale)
        tolerance = {"rtol": 2e-12, "atol": 1e-14 if method[:3] != "log" else 1e-13}
        found = ours(at, *parameters, loc, scale)
        np.testing.assert_allclose(found, expected, **tolerance)
        compiled = ftrace.jit(ours)(at, *parameters, loc, scale)
        np.testing.assert_allclose(compiled, expected, **tolerance)


INNER = {"pareto": 2.3, "beta": 0.35, "uniform": 0.35, "wrapcauchy": 2.5, "truncnorm": 0.6}
CLOSED = {  # methods whose slope by a parameter has no closed form: which parameters
    "gamma": (0,),
    "beta": (0, 1),
    "chi2": (0,),
    "t": (0,),
    "f": (0, 1),
    "gennorm": (0,),
    "invgamma": (0,),
}


@pytest.mark.sampled(2, each="name")
@pytest.mark.parametrize(("name", "method"), CASES)
def test_slopes_agree_with_differences(name: str, method: str) -> None:
    """By the place, the parameters, and location and scale."""
    parameters = CONTINUOUS[name][1]
    quantile = method in ("ppf", "isf")
    x = 0.3 if quantile else INNER.get(name, 0.8) * 1.3 + 0.2
    args = (x, *parameters, 0.2, 1.3)
    ours = getattr(getattr(stats, name), method)
    density = method in ("pdf", "logpdf")
    h = 1e-6
    closed = () if density else CLOSED.get(name, ())
    by = tuple(i for i in range(len(args)) if i - 1 not in closed)
    for i, found in zip(by, ftrace.jit(ftrace.grad(ours, by))(*args), strict=True):
        up, down = ((*args[:i], args[i] + s, *args[i + 1 :]) for s in (h, -h))
        expected = (ours(*up) - ours(*down)) / (2 * h)
        np.testing.assert_allclose(found, expected, 1e-6, 1e-8, err_msg=f"by argument {i}")


@pytest.mark.parametrize("name", CONTINUOUS)
def test_logarithms_of_densities_have_second_derivatives(name: str) -> None:
    parameters = CONTINUOUS[name][1]
    slope = ftrace.grad(lambda x: getattr(stats, name).logpdf(x, *parameters))
    x, h = INNER.get(name, 0.8), 1e-5
    expected = (slope(x + h) - slope(x - h)) / (2 * h)
    np.testing.assert_allclose(ftrace.grad(slope)(x), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_single_precision_stays(name: str) -> None:
    x, parameters = CONTINUOUS[name]
    at = x.astype("f4")
    for method in SHORT.get(name, METHODS):
        found = getattr(getattr(stats, name), method)(at, *parameters)
        assert found.dtype == np.float32
    compiled = ftrace.jit(lambda x: getattr(stats, name).logpdf(x, *parameters))(at)
    assert compiled.dtype == np.float32


@pytest.mark.parametrize("name", CONTINUOUS)
def test_outside_of_the_support_slopes_are_zero_and_not_nan(name: str) -> None:
    parameters = CONTINUOUS[name][1]
    low, high = getattr(scipy.stats, name).support(*parameters)
    outside = [v for v in (low - 0.5, high + 0.5) if np.isfinite(v)]
    for v in outside:
        assert ftrace.grad(getattr(stats, name).pdf)(v, *parameters) == 0
        assert ftrace.grad(getattr(stats, name).logpdf, 0)(v, *parameters) == 0


def test_parameters_that_make_no_distribution_give_nan() -> None:
    assert np.isnan(stats.norm.logpdf(0.0, 0.0, -1.0))
    assert np.isnan(ftrace.jit(stats.norm.cdf)(0.0, 0.0, 0.0))
    assert np.isnan(stats.gamma.pdf(1.0, -2.0))
    assert np.isnan(ftrace.jit(stats.beta.ppf)(0.5, -1.0, 1.0))
    assert np.isnan(stats.truncnorm.pdf(0.0, 2.0, 1.0))
    assert np.isnan(stats.binom.pmf(1, 2.5, 0.5))
    assert np.isnan(ftrace.jit(stats.poisson.logpmf)(1, -1.0))


def test_parameters_have_names() -> None:
    assert stats.gamma.logpdf(1.5, a=2.0, scale=3.0) == stats.gamma.logpdf(1.5, 2.0, 0.0, 3.0)
    with pytest.raises(TypeError, match="gamma was not given a"):
        stats.gamma.logpdf(1.5)
    with pytest.raises(TypeError, match="norm has the parameters loc, scale, each once"):
        stats.norm.logpdf(1.5, mean=2.0)
    with pytest.raises(TypeError, match="norm has the parameters loc, scale: 3 given"):
        stats.norm.logpdf(1.5, 1.0, 2.0, 3.0)


def test_tails_are_precise() -> None:
    x = np.array([-30.0, 9.0, 30.0])
    for name in ("norm", "logistic", "laplace", "cauchy", "gumbel_r"):
        for method in ("sf", "logsf"):
            found = ftrace.jit(getattr(getattr(stats, name), method))(x)
            expected = getattr(getattr(scipy.stats, name), method)(x)
            np.testing.assert_allclose(found, expected, rtol=1e-12)
    found = stats.truncnorm.logpdf(np.array([20.5, 25.0]), 20.0, 30.0)
    np.testing.assert_allclose(
        found, scipy.stats.truncnorm.logpdf(np.array([20.5, 25.0]), 20, 30), rtol=1e-12
    )


# ---------------------------------------------------------------------------------- integers

K = np.array([-1.0, 0, 1, 2, 3, 4, 5, 9, 1.5, INF, -INF, NAN])
DISCRETE: dict[str, tuple[float, ...]] = {
    "bernoulli": (0.3,),
    "binom": (4, 0.35),
    "nbinom": (2.5, 0.4),
    "betabinom": (4, 1.5, 2.5),
    "geom": (0.3,),
    "poisson": (2.7,),
}
MASSES = ("pmf", "logpmf", "cdf", "sf", "logcdf", "logsf")
INTEGERS = [(n, m) for n in DISCRETE for m in MASSES if n != "betabinom" or m in ("pmf", "logpmf")]


@pytest.mark.parametrize(("name", "method"), INTEGERS)
def test_discrete_distributions_have_scipys_values(name: str, method: str) -> None:
    parameters = DISCRETE[name]
    ours, theirs = (getattr(getattr(s, name), method) for s in (stats, scipy.stats))
    for loc in (0, 1):
        expected = quiet(theirs, K, *parameters, loc)
        for f in (ours, ftrace.jit(ours)):
            found = f(K, *parameters, loc)
            np.testing.assert_allclose(found, expected, rtol=2e-12, atol=1e-14)
    whole = np.arange(5)
    np.testing.assert_allclose(
        ours(whole, *parameters), theirs(whole, *parameters), rtol=2e-12, atol=1e-14
    )


@pytest.mark.parametrize(("name", "method"), INTEGERS)
def test_slopes_by_probabilities_agree_with_differences(name: str, method: str) -> None:
    parameters = DISCRETE[name]
    i, h = len(parameters) - 1, 1e-6
    f = lambda p: getattr(getattr(stats, name), method)(2.0, *parameters[:i], p)  # noqa: E731
    if name == "bernoulli":
        f = lambda p: getattr(stats.bernoulli, method)(0.0, p)  # noqa: E731
    p = parameters[i]
    expected = (f(p + h) - f(p - h)) / (2 * h)
    np.testing.assert_allclose(ftrace.grad(f)(p), expected, rtol=1e-6, atol=1e-9)


# ---------------------------------------------------------------------------------- vectors


def test_multinomial() -> None:
    p = np.array([0.2, 0.3, 0.5])
    x = np.array([[1, 2, 3], [0, 0, 6], [1, 1, 1], [-1, 4, 3]])
    expected = scipy.stats.multinomial.logpmf(x, 6, p)
    np.testing.assert_allclose(stats.multinomial.logpmf(x, 6, p), expected, rtol=1e-13)
    found = ftrace.jit(stats.multinomial.pmf)(x, 6, p)
    np.testing.assert_allclose(found, np.exp(expected), rtol=1e-13)
    slope = ftrace.grad(lambda p: stats.multinomial.logpmf(x[0], 6, p))(p)
    np.testing.assert_allclose(slope, x[0] / p)


def test_dirichlet() -> None:
    alpha = np.array([1.5, 2.5, 3.0])
    x = np.array([[0.2, 0.3], [0.3, 0.3], [0.5, 0.4]])
    expected = scipy.stats.dirichlet.logpdf(x, alpha)
    np.testing.assert_allclose(stats.dirichlet.logpdf(x, alpha), expected, rtol=1e-12)
    np.testing.assert_allclose(
        ftrace.jit(stats.dirichlet.logpdf)(x[:2], alpha), expected, rtol=1e-12
    )
    assert stats.dirichlet.pdf(np.array([0.2, 0.2, 0.2]), alpha) == 0
    h, f = 1e-6, lambda a: stats.dirichlet.logpdf(x[:, 0], a)
    step = h * np.array([1, 0, 0])
    expected = (f(alpha + step) - f(alpha - step)) / (2 * h)
    np.testing.assert_allclose(ftrace.grad(f)(alpha)[0], expected, rtol=1e-7)


# ---------------------------------------------------------------------------------- by SciPy's name


def log_likelihood(mu: Any, sigma: Any, data: Any) -> Any:
    return np.sum(scipy.stats.norm.logpdf(data, loc=mu, scale=sigma))


def frozen_likelihood(mu: Any, sigma: Any, data: Any) -> Any:
    return np.sum(scipy.stats.norm(mu, sigma).logpdf(data))


@pytest.mark.parametrize("f", [log_likelihood, frozen_likelihood])
def test_scipys_distributions_of_traced_values_become_ours(f: Callable[..., Any]) -> None:
    data = np.array([0.3, -1.2, 2.5])
    expected = np.sum(data - 0.4) / 1.69, np.sum((data - 0.4) ** 2) / 1.3**3 - 3 / 1.3
    for slopes in (ftrace.grad(f, (0, 1)), ftrace.jit(ftrace.grad(f, (0, 1)))):
        np.testing.assert_allclose(slopes(0.4, 1.3, data), expected, rtol=1e-13)
    np.testing.assert_allclose(ftrace.jit(f)(0.4, 1.3, data), f(0.4, 1.3, data), rtol=1e-14)


def test_what_has_no_counterpart_is_lifted_as_it_is() -> None:
    slope = ftrace.grad(lambda x: scipy.stats.levy.logpdf(x))(1.3)
    h = 1e-6
    ends = scipy.stats.levy.logpdf(1.3 + h), scipy.stats.levy.logpdf(1.3 - h)
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * h), rtol=1e-8)
    xs = np.array([1.3, -1.0, 0.4])  # one is outside of what the distribution takes
    wanted = scipy.stats.levy.logpdf(xs)
    np.testing.assert_allclose(ftrace.jit(lambda x: scipy.stats.levy.logpdf(x))(1.3), wanted[0])
    np.testing.assert_allclose(ftrace.vmap(lambda x: scipy.stats.levy.logpdf(x))(xs), wanted)


def test_distributions_of_plain_values_stay_scipys() -> None:
    def f(x: Any) -> Any:
        weight = scipy.stats.norm.cdf(0.3)
        assert type(weight) is np.float64
        return scipy.stats.norm.cdf(x) * weight

    assert ftrace.jit(f)(0.2) == pytest.approx(
        scipy.stats.norm.cdf(0.2) * scipy.stats.norm.cdf(0.3)
    )


X3 = np.random.default_rng(4).normal(size=(2, 4, 3))
SPREAD = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.0]])


@pytest.mark.parametrize("cov", [SPREAD, np.array([2.0, 1.0, 0.5])])
def test_normal_vectors(cov: Any) -> None:
    mean = np.array([0.1, -0.4, 0.8])
    ours, theirs = stats.multivariate_normal, scipy.stats.multivariate_normal
    for f in (ours.logpdf, lambda *a: theirs.logpdf(*a)):
        np.testing.assert_allclose(ftrace.jit(f)(X3, mean, cov), theirs.logpdf(X3, mean, cov))
    np.testing.assert_allclose(ours.pdf(X3, mean, cov), theirs.pdf(X3, mean, cov))
    slope = ftrace.grad(lambda c: np.sum(theirs.logpdf(X3, mean, c)))(cov)
    h, step = 1e-6, np.zeros_like(cov)
    step[0] = 1.0
    if cov.ndim == 2:
        step = step + step.T
    ends = [np.sum(theirs.logpdf(X3, mean, cov + s * h * step)) for s in (1, -1)]
    np.testing.assert_allclose(np.sum(slope * step), (ends[0] - ends[1]) / (2 * h), rtol=1e-6)


def test_normal_vectors_of_one_number_and_bad_ones() -> None:
    x = np.array([0.3, 1.2])
    np.testing.assert_allclose(
        ftrace.jit(lambda x: stats.multivariate_normal.logpdf(x, 0.2, 1.7))(x),
        scipy.stats.multivariate_normal.logpdf(x, 0.2, 1.7),
    )
    with pytest.raises(ftrace.errors.ShapeError, match="multivariate_normal was given x"):
        stats.multivariate_normal.logpdf(np.ones(3), np.ones(2), np.eye(2))
    with pytest.raises(ftrace.errors.RuleError, match="no singular covariance"):
        stats.multivariate_normal.logpdf(np.ones(2), np.ones(2), np.eye(2), allow_singular=True)


@pytest.mark.parametrize("method", ["scott", "silverman", 0.4])
def test_the_density_of_samples(method: Any) -> None:
    data, w, at = X3[:, :, 0], np.array([1.0, 2.0, 1.0, 0.5]), X3[:, :3, 1]
    theirs = scipy.stats.gaussian_kde(data, method, w)
    np.testing.assert_allclose(stats.gaussian_kde(data, method, w)(at), theirs(at), rtol=1e-9)

    def f(at: Any) -> Any:
        return theirs(at)

    np.testing.assert_allclose(ftrace.jit(f)(at), theirs(at), rtol=1e-9)
    slope = ftrace.grad(lambda d: np.sum(scipy.stats.gaussian_kde(d, method, w)(at)))(data)
    h = 1e-6
    ends = [np.sum(scipy.stats.gaussian_kde(data + s * h, method, w)(at)) for s in (1, -1)]
    np.testing.assert_allclose(np.sum(slope), (ends[0] - ends[1]) / (2 * h), rtol=1e-6, atol=1e-9)


def test_ranks_and_standard_errors() -> None:
    x = np.array([3.0, 1.0, 3.0, 0.5, 1.0])
    for method in ("average", "min", "max", "ordinal"):
        found = ftrace.jit(lambda x: stats.rankdata(x, method))(x)  # noqa: B023 - called at once
        np.testing.assert_array_equal(found, scipy.stats.rankdata(x, method))
    for axis in (0, 1, None):
        found = ftrace.jit(lambda x: stats.sem(x, axis))(X3)  # noqa: B023 - called at once
        np.testing.assert_allclose(found, scipy.stats.sem(X3, axis), rtol=1e-12)


@pytest.mark.parametrize("samples", [[], [1.0], [[1.0]]])
def test_a_density_of_fewer_than_two_samples_is_refused(samples: Any) -> None:
    def density(samples: Any) -> Any:
        return stats.gaussian_kde(samples)(np.array([0.2]))

    for f in (density, ftrace.jit(density)):
        with pytest.raises(ValueError, match="should have multiple elements"):
            f(np.array(samples))


def test_bad_frequencies_are_refused() -> None:
    x = np.array([1.0, 2.0, 3.0])
    for f in (stats.chisquare, stats.power_divergence):
        with pytest.raises(ValueError, match="sums of the observed"):
            ftrace.jit(lambda x, f=f: f(x, np.ones(3)))(x)
    found = ftrace.jit(lambda x: stats.chisquare(x, np.ones(3), sum_check=False))(x)
    expected = scipy.stats.chisquare(x, np.ones(3), sum_check=False)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.raises(DomainError, match="no lambda_='none'"):
        ftrace.jit(lambda x: stats.power_divergence(x, lambda_="none"))(x)
