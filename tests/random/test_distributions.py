"""Samples have the distribution they are named after: Kolmogorov-Smirnov and chi-square tests.

Keys are fixed, so nothing here is a matter of luck: a test that passes passes always.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ftrace import random, vmap

N = 100_000
KEY = random.PRNGKey(7)
LEAST = 1e-3  # the probability below which a test fails

CONTINUOUS: dict[str, tuple[Callable[..., Any], Any]] = {
    "uniform": (lambda k, s, d: random.uniform(k, s, d, -1.0, 3.0), stats.uniform(-1, 4)),
    "normal": (random.normal, stats.norm),
    "truncated_normal": (
        lambda k, s, d: random.truncated_normal(k, -1.0, 2.0, s, d),
        stats.truncnorm(-1, 2),
    ),
    "lognormal": (lambda k, s, d: random.lognormal(k, 0.5, s, d), stats.lognorm(0.5)),
    "exponential": (random.exponential, stats.expon),
    "gumbel": (random.gumbel, stats.gumbel_r),
    "laplace": (random.laplace, stats.laplace),
    "logistic": (random.logistic, stats.logistic),
    "cauchy": (random.cauchy, stats.cauchy),
    "maxwell": (random.maxwell, stats.maxwell),
    "pareto": (lambda k, s, d: random.pareto(k, 2.5, s, d), stats.pareto(2.5)),
    "rayleigh": (lambda k, s, d: random.rayleigh(k, 2.0, s, d), stats.rayleigh(scale=2)),
    "weibull_min": (
        lambda k, s, d: random.weibull_min(k, 2.0, 3.0, s, d),
        stats.weibull_min(3, scale=2),
    ),
    "triangular": (
        lambda k, s, d: random.triangular(k, 1.0, 2.0, 5.0, s, d),
        stats.triang(0.25, loc=1, scale=4),
    ),
    "wald": (lambda k, s, d: random.wald(k, 2.0, s, d), stats.invgauss(2.0)),
    **{
        f"gamma {a}": (lambda k, s, d, a=a: random.gamma(k, a, s, d), stats.gamma(a))
        for a in (0.05, 0.7, 1.0, 2.5, 300.0)
    },
    "chisquare": (lambda k, s, d: random.chisquare(k, 3.0, s, d), stats.chi2(3)),
    "f": (lambda k, s, d: random.f(k, 3.0, 5.0, s, d), stats.f(3, 5)),
    "t": (lambda k, s, d: random.t(k, 3.0, s, d), stats.t(3)),
    "beta": (lambda k, s, d: random.beta(k, 0.5, 2.0, s, d), stats.beta(0.5, 2)),
    "generalized_normal": (
        lambda k, s, d: random.generalized_normal(k, 1.5, s, d),
        stats.gennorm(1.5),
    ),
    "double_sided_maxwell": (
        lambda k, s, d: abs(random.double_sided_maxwell(k, 1.0, 2.0, s, d) - 1),
        stats.maxwell(scale=2),
    ),
}


FAST = {"uniform", "normal", "exponential", "gumbel", "gamma 2.5"}
IN_DOUBLE = ("gamma", "chisquare", "f", "t", "beta", "generalized_normal")  # whatever is asked for
CASES = [
    pytest.param(name, dtype, marks=() if name in FAST else pytest.mark.slow)
    for name in CONTINUOUS
    for dtype in (np.float32, np.float64)
    if dtype is np.float64 or name.split()[0] not in IN_DOUBLE
]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_compiled_continuous_samples_follow_their_distribution(name: str, dtype: Any) -> None:
    draw, distribution = CONTINUOUS[name]
    x = draw(KEY, (N,), dtype)
    assert (dtype, (N,)) == (x.dtype, x.shape)
    assert stats.kstest(x.astype(float), distribution.cdf).pvalue > LEAST


COUNTS: dict[str, tuple[Callable[..., Any], Any]] = {
    "randint": (lambda k, s: random.randint(k, s, -3, 10), stats.randint(-3, 10)),
    "bernoulli": (lambda k, s: random.bernoulli(k, 0.3, s).astype(int), stats.bernoulli(0.3)),
    "rademacher": (lambda k, s: (random.rademacher(k, s) + 1) // 2, stats.bernoulli(0.5)),
    "categorical": (
        lambda k, s: random.categorical(k, np.log(np.array([0.3, 0.7])), shape=s),
        stats.bernoulli(0.7),
    ),
    "choice": (lambda k, s: random.choice(k, 9, s), stats.randint(0, 9)),
    "weighted choice": (
        lambda k, s: random.choice(k, 2, s, p=np.array([0.2, 0.8])),
        stats.bernoulli(0.8),
    ),
    **{
        f"poisson {m}": (lambda k, s, m=m: random.poisson(k, m, s), stats.poisson(m))
        for m in (0.1, 5.0, 10.0, 40.0)
    },
    "geometric": (lambda k, s: random.geometric(k, 0.2, s), stats.geom(0.2)),
    **{
        f"binomial {n} {p}": (
            lambda k, s, n=n, p=p: random.binomial(k, n, p, s),
            stats.binom(n, p),
        )
        for n, p in ((5, 0.3), (20, 0.9), (100, 0.4), (1000, 0.97))
    },
}


@pytest.mark.parametrize("name", COUNTS)
def test_compiled_counts_follow_their_distribution(name: str) -> None:
    draw, distribution = COUNTS[name]
    x = draw(KEY, (N,))
    values, found = np.unique(x, return_counts=True)
    expected = N * distribution.pmf(values)
    often = expected > 10
    rest = N - found[often].sum(), N - expected[often].sum()
    assert rest[1] > -1e-6 * N
    pairs = np.append(found[often], rest[0]), np.append(expected[often], max(rest[1], 1e-9))
    if rest[0] == 0:
        pairs = found[often], expected[often] * (N / expected[often].sum())
    assert stats.chisquare(*pairs).pvalue > LEAST


@pytest.mark.slow
def test_compiled_multinomial_counts_add_up_and_covary() -> None:
    p = np.array([0.2, 0.3, 0.5])
    x = random.multinomial(KEY, 10, p, shape=(N, 3))
    assert {10.0} == set(x.sum(axis=1))
    np.testing.assert_allclose(x.mean(axis=0), 10 * p, atol=0.03)
    np.testing.assert_allclose(np.cov(x.T), 10 * (np.diag(p) - np.outer(p, p)), atol=0.05)


def test_compiled_dirichlet_samples_lie_on_the_simplex() -> None:
    alpha = np.array([0.5, 1.0, 2.5])
    x = random.dirichlet(KEY, alpha, (N,))
    np.testing.assert_allclose(x.sum(axis=1), 1.0, rtol=1e-12)
    for i in range(3):  # each part is a beta variable
        other = stats.beta(alpha[i], alpha.sum() - alpha[i])
        assert stats.kstest(x[:, i], other.cdf).pvalue > LEAST


def test_compiled_dirichlet_samples_of_tiny_parameters_are_corners() -> None:
    x = random.dirichlet(KEY, np.full(3, 1e-5), (1000,))
    np.testing.assert_allclose(x.max(axis=1), 1.0, atol=1e-2)
    assert np.ptp(np.bincount(x.argmax(axis=1))) < 120


def test_compiled_loggamma_reaches_below_the_smallest_float() -> None:
    y = random.loggamma(KEY, 1e-4, (N,))
    assert np.isfinite(y).all()
    assert y.min() < -10_000
    # log P(x < e^y) = a y for a so small a parameter: uniform again
    assert stats.kstest(np.exp(1e-4 * y), "uniform").pvalue > LEAST


def test_compiled_normal_vectors_have_their_covariance() -> None:
    mean, cov = np.array([1.0, -2.0, 0.5]), np.array([[2.0, 0.5, 0], [0.5, 1, 0.3], [0, 0.3, 3]])
    x = random.multivariate_normal(KEY, mean, cov, (N,))
    np.testing.assert_allclose(x.mean(axis=0), mean, atol=0.02)
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.04)
    whitened = np.linalg.solve(np.linalg.cholesky(cov), (x - mean).T)
    assert min(stats.kstest(row, stats.norm.cdf).pvalue for row in whitened) > LEAST


def test_normal_vectors_of_an_indefinite_covariance_are_nan() -> None:
    with np.errstate(invalid="ignore"):
        x = random.multivariate_normal(KEY, np.zeros(2), np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert np.isnan(x).any()


@pytest.mark.parametrize(("n", "m"), [(3, 3), (4, 2), (2, 5)])
def test_orthogonal_matrices_are_orthonormal(n: int, m: int) -> None:
    q = random.orthogonal(KEY, n, (2,), m=m)
    assert (2, n, m) == q.shape
    gram = q @ np.swapaxes(q, 1, 2) if n < m else np.swapaxes(q, 1, 2) @ q
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(min(n, m)), gram.shape), atol=1e-14)


@pytest.mark.slow
def test_compiled_orthogonal_matrices_point_everywhere() -> None:
    q = random.orthogonal(KEY, 3, (20_000,))
    assert stats.kstest(q[:, 0, 0], stats.uniform(-1, 2).cdf).pvalue > LEAST  # Archimedes
    np.testing.assert_allclose((np.linalg.det(q) > 0).mean(), 0.5, atol=0.02)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.5])
def test_compiled_points_of_a_ball_are_uniform(p: float) -> None:
    x = random.ball(KEY, 3, p, (N,))
    radius = (abs(x) ** p).sum(axis=1) ** (1 / p)
    assert stats.kstest(radius**3, "uniform").pvalue > LEAST
    np.testing.assert_allclose((x > 0).mean(axis=0), 0.5, atol=0.01)


def test_permutations_are_equally_frequent() -> None:
    found = vmap(lambda k: random.permutation(k, 3))(random.split(KEY, 6000))
    counts = np.unique(found, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > LEAST


def test_sampling_without_replacement_takes_each_member_once() -> None:
    assert list(range(9)) == sorted(random.choice(KEY, 9, (9,), replace=False))
    p = np.array([0.1, 0.0, 0.4, 0.5])
    with np.errstate(divide="ignore"):
        assert {0, 2, 3} == set(random.choice(KEY, 4, (3,), replace=False, p=p))
    found = random.categorical(KEY, np.log(np.array([0.2, 0.3, 0.5])), shape=(3,), replace=False)
    assert {0, 1, 2} == set(found)


def test_members_without_a_chance_are_not_chosen_whatever_the_key() -> None:
    p = np.array([0.1, 0.0, 0.4, 0.5])
    for seed in range(20):
        with np.errstate(divide="ignore"):
            found = random.choice(random.PRNGKey(seed), 4, (3,), replace=False, p=p)
        assert {0, 2, 3} == set(found)


def test_samples_are_moved_and_stretched_by_numbers() -> None:
    x = random.normal(KEY, (3,))
    np.testing.assert_array_equal(random.normal(KEY, (3,), loc=1.0, scale=2.0), 1.0 + 2.0 * x)
    np.testing.assert_array_equal(random.normal(KEY, (3,), loc=1, scale=0), np.ones(3))


def test_neighbouring_keys_and_elements_are_not_correlated() -> None:
    x = np.stack([random.normal(random.PRNGKey(i), (2000,)) for i in range(20)])
    between = np.corrcoef(x) - np.eye(20)
    assert abs(between).max() < 4.5 / np.sqrt(2000)
    assert abs(np.corrcoef(x[:, :-1].ravel(), x[:, 1:].ravel())[0, 1]) < 4 / np.sqrt(x.size)


# What JAX's table has not: a sum of 3,000 samples or rows of them, each with a weight of its own.
PINNED: dict[str, tuple[Callable[[int], Any], float]] = {
    "poisson": (
        lambda n: random.poisson(KEY, np.array([5.0, 10.0, 40.0])[:, None], (3, n)),
        -171.42223539917399,
    ),
    "binomial": (
        lambda n: random.binomial(
            KEY, np.array([[20], [100], [1000]]), np.array([[0.9], [0.4], [0.97]]), (3, n)
        ),
        1502.9335356621611,
    ),
    "multinomial": (
        lambda n: random.multinomial(KEY, 30, np.array([0.2, 0.3, 0.5]), shape=(n, 3)),
        -19.855180643195666,
    ),
    "gamma": (
        lambda n: random.gamma(KEY, np.array([0.05, 0.7, 2.5, 300.0])[:, None], (4, n)),
        -273.05269962103273,
    ),
    "beta": (lambda n: random.beta(KEY, 0.5, 2.0, (n,)), 4.047329990518098),
    "t": (lambda n: random.t(KEY, 3.0, (n,)), 36.128735047689645),
    "f": (lambda n: random.f(KEY, 3.0, 5.0, (n,)), -4.853065618907891),
    "dirichlet": (
        lambda n: random.dirichlet(KEY, np.array([0.2, 0.3, 0.5]), (n,)),
        -2.4972360365869513,
    ),
    "generalized_normal": (
        lambda n: random.generalized_normal(KEY, 1.5, (n,)),
        -44.910390263259906,
    ),
    "ball": (lambda n: random.ball(KEY, 3, 2.0, (n,)), -18.284499542476567),
}


@pytest.mark.parametrize("name", PINNED)
def test_compiled_samples_of_a_key_stay_the_same(name: str) -> None:
    draw, expected = PINNED[name]
    x = draw(3000).ravel()
    np.testing.assert_allclose((x * np.sin(np.arange(x.size))).sum(), expected, rtol=1e-8)


def test_compiled_counts_far_from_their_mean_are_drawn() -> None:
    x = random.poisson(random.PRNGKey(99), 10.0, (400,))
    assert (x.max(), x.argmax()) == (29, 315)  # six deviations: one sample of a million
