"""Laws of random functions: jit, vmap, grad change no bits and give the derivatives meant.

Also of the layout of bits: prefixes, keys as arrays, counters of more than 32 bits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import ftrace
from ftrace import grad, hessian, jit, jvp, random, vmap
from ftrace.config import update
from ftrace.random import trials
from ftrace.random.programs import program
from ftrace.random.quantiles import log, normal_quantile
from ftrace.random.threefry import joined, threefry, words_of

pytestmark = pytest.mark.slow

KEY = random.PRNGKey(3)
LOGITS = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]))
COVARIANCE = np.array([[2.0, 0.5], [0.5, 1.0]])

SAMPLERS: dict[str, Callable[[Any], Any]] = {
    "split": lambda k: random.split(k, 3),
    "fold_in": lambda k: random.fold_in(k, 5),
    "bits": lambda k: random.bits(k, (2, 3)),
    "uniform": lambda k: random.uniform(k, (2, 3), np.float32),
    "uniform between": lambda k: random.uniform(k, (2, 3), float, np.zeros((2, 1)), np.ones(3)),
    "randint": lambda k: random.randint(k, (2, 3), 0, 7),
    "randint between": lambda k: random.randint(k, (2, 3), np.arange(3), 9, np.int32),
    "bernoulli": lambda k: random.bernoulli(k, np.array([0.1, 0.5, 0.9])),
    "rademacher": lambda k: random.rademacher(k, (5,), np.float32),
    "normal": lambda k: random.normal(k, (2, 3)),
    "normal float16": lambda k: random.normal(k, (2, 3), np.float16),
    "normal complex": lambda k: random.normal(k, (3,), np.complex128),
    "exponential": lambda k: random.exponential(k, (4,)),
    "gumbel": lambda k: random.gumbel(k, (4,)),
    "laplace": lambda k: random.laplace(k, (4,)),
    "logistic": lambda k: random.logistic(k, (4,)),
    "triangular": lambda k: random.triangular(k, 0.0, np.ones(2), 3.0, (3, 2)),
    "categorical": lambda k: random.categorical(k, LOGITS, shape=(4, 2)),
    "permutation": lambda k: random.permutation(k, np.arange(8).reshape(4, 2)),
    "choice": lambda k: random.choice(k, np.arange(12).reshape(4, 3), (2,), replace=False),
    "scalar": lambda k: random.uniform(k),
    "empty": lambda k: random.normal(k, (0, 3)),
}
ROUNDED: dict[str, Callable[[Any], Any]] = {  # these call functions that round differently
    "truncated_normal": lambda k: random.truncated_normal(k, -1.0, np.array([1.0, 2.0]), (3, 2)),
    "gamma": lambda k: random.gamma(k, np.array([0.3, 1.0, 5.0]), (2, 3)),
    "beta": lambda k: random.beta(k, 0.5, 3.0, (4,)),
    "dirichlet": lambda k: random.dirichlet(k, np.array([0.5, 1.0, 2.0]), (2,)),
    "poisson": lambda k: random.poisson(k, np.array([0.5, 5.0, 50.0])),
    "binomial": lambda k: random.binomial(k, 100, np.array([0.01, 0.4, 0.9])),
    "multinomial": lambda k: random.multinomial(k, 10, np.array([0.2, 0.8])),
    "multivariate_normal": lambda k: random.multivariate_normal(k, np.ones(2), COVARIANCE),
    "wald": lambda k: random.wald(k, 2.0, (4,)),
    "ball": lambda k: random.ball(k, 3, 2.0, (2,)),
}
ALL = {**SAMPLERS, **ROUNDED}


def assert_same(found: Any, expected: Any, exact: bool) -> None:
    assert (expected.dtype, np.shape(expected)) == (found.dtype, np.shape(found))
    if exact:
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_compiled_samples_are_those_of_numpy(name: str) -> None:
    """Every equation by itself on NumPy, and one kernel, give the same."""
    found = ALL[name](KEY)
    with update(compile=False):
        expected = ALL[name](KEY)
    assert_same(found, expected, name in SAMPLERS)


@pytest.mark.parametrize("name", ALL)
def test_jitted_samples_are_the_eager_ones(name: str) -> None:
    assert_same(jit(ALL[name])(KEY), ALL[name](KEY), name in SAMPLERS)


@pytest.mark.parametrize("name", ALL)
def test_samples_mapped_over_keys_are_those_of_each_key(name: str) -> None:
    keys = random.split(KEY, 3)
    expected = np.stack([ALL[name](k) for k in keys])
    assert_same(vmap(ALL[name])(keys), expected, name in SAMPLERS)


def test_compiled_samples_mapped_over_keys_and_parameters_are_those_of_each() -> None:
    keys, scales = random.split(KEY, 3), np.array([0.5, 1.0, 2.0])
    f = jit(vmap(lambda k, s: random.rayleigh(k, s, (4,))))
    expected = np.stack([random.rayleigh(k, s, (4,)) for k, s in zip(keys, scales, strict=True)])
    np.testing.assert_array_equal(f(keys, scales), expected)


# ---------------------------------------------------------------------------------- layout


def test_a_prefix_of_a_longer_array_has_the_same_bits() -> None:
    long = random.bits(KEY, (100,), np.uint32)
    np.testing.assert_array_equal(random.bits(KEY, (7,), np.uint32), long[:7])
    np.testing.assert_array_equal(random.bits(KEY, (4, 25), np.uint32), long.reshape(4, 25))


def test_counters_have_two_words() -> None:
    high, low = program(lambda i: np.stack(words_of(i)))(np.uint64((5 << 32) + 6))
    assert (high, low) == (5, 6)


def test_threefry_gives_the_published_words() -> None:
    """The known answers of the authors' library, Random123."""
    hashed = program(lambda k, c: np.stack(threefry((k[0], k[1]), (c[0], c[1]))))
    ones, pi = np.full(2, 0xFFFFFFFF, np.uint32), (0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3)
    zeros, pi = np.zeros(2, np.uint32), np.array(pi, np.uint32)
    assert list(hashed(zeros, zeros)) == [0x6B200159, 0x99BA4EFE]
    assert list(hashed(ones, ones)) == [0x1CB996FC, 0xBB002BE7]
    assert list(hashed(pi[:2], pi[2:])) == [0xC4923A9C, 0x483DF7A0]


def test_words_are_joined_high_word_first() -> None:
    join = program(lambda a, b, *, dtype: joined((a, b), dtype))
    a, b = np.uint32(0x01020304), np.uint32(0x10203040)
    assert join(a, b, dtype=np.dtype(np.uint64)) == 0x0102030410203040
    assert join(a, b, dtype=np.dtype(np.uint32)) == 0x11223344
    assert join(a, b, dtype=np.dtype(np.uint8)) == 0x44


def test_keys_are_arrays_that_programs_take_and_give() -> None:
    def walk(key: Any) -> Any:
        def step(key: Any, _: Any) -> Any:
            key, sub = random.split(key)
            return key, random.normal(sub)

        return ftrace.lax.scan(step, key, None, length=4)[1]

    key, expected = KEY, []
    for _ in range(4):
        key, sub = random.split(key)
        expected.append(random.normal(sub))
    np.testing.assert_array_equal(jit(walk)(KEY), expected)
    np.testing.assert_array_equal(random.clone(KEY), KEY)
    np.testing.assert_array_equal(random.wrap_key_data(random.key_data(KEY)), KEY)
    assert random.clone(KEY) is not KEY


def test_traced_seeds_and_numbers_give_the_keys_of_plain_ones() -> None:
    for seed in (0, 7, -1, 2**40 + 3):
        np.testing.assert_array_equal(jit(random.PRNGKey)(np.int64(seed)), random.PRNGKey(seed))
    np.testing.assert_array_equal(
        jit(random.fold_in)(KEY, np.int64(9)), random.fold_in(KEY, np.uint8(9))
    )
    np.testing.assert_array_equal(
        vmap(random.fold_in, in_axes=(None, 0))(KEY, np.arange(3)),
        np.stack([random.fold_in(KEY, i) for i in range(3)]),
    )
    np.testing.assert_array_equal(random.PRNGKey(2**64 - 1), random.PRNGKey(-1))


def test_a_later_sample_of_the_same_signature_is_not_traced_again() -> None:
    random.uniform(KEY, (17,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ftrace.random.programs.trace_to_jaxpr", None)
        random.uniform(random.PRNGKey(99), (17,))
        with pytest.raises(TypeError, match="not callable"):
            random.uniform(KEY, (18,))


def test_a_program_may_use_arrays() -> None:
    plus = program(lambda x: x + np.arange(3.0))
    np.testing.assert_array_equal(plus(np.ones(3)), [1.0, 2.0, 3.0])


# ---------------------------------------------------------------------------------- quantiles


@pytest.mark.parametrize(("dtype", "ulps"), [(np.float32, 1.0), (np.float64, 1.0)])
def test_compiled_logarithms_are_within_a_unit_of_the_last_place(dtype: Any, ulps: float) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.random(10_000), np.exp(rng.uniform(-80, 80, 10_000)), [1.0, 0.5]])
    x = np.append(x.astype(dtype), np.finfo(dtype).tiny)
    expected = np.log(x.astype(np.longdouble))
    error = abs(program(log)(x) - expected) / np.spacing(abs(expected).astype(dtype))
    assert error[expected != 0].max() < ulps
    assert program(log)(np.ones(1, dtype))[0] == 0.0


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 5e-7), (np.float64, 2e-15)])
def test_compiled_normal_quantiles_are_the_inverse_of_erf(dtype: Any, tolerance: float) -> None:
    rng = np.random.default_rng(1)
    edge = np.exp(rng.uniform(np.log(np.finfo(dtype).eps / 2), -1, 10_000))
    u = np.concatenate([rng.uniform(-1, 1, 10_000), 1 - edge, edge - 1]).astype(dtype)
    u = u[abs(u) < 1]
    expected = np.sqrt(2) * special.erfinv(u.astype(float))
    np.testing.assert_allclose(program(normal_quantile)(u), expected, rtol=tolerance)


def test_normal_samples_reach_as_far_as_the_uniforms_below_them() -> None:
    ends = np.array([-1 + 2**-53, 1 - 2**-52])
    np.testing.assert_allclose(
        program(normal_quantile)(ends), np.sqrt(2) * special.erfinv(ends), rtol=1e-14
    )


# ---------------------------------------------------------------------------------- derivatives

# samples that are a smooth function of their parameters at a fixed key
PATHWISE: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "uniform": (lambda k, a, b: random.uniform(k, (5,), float, a, b), (-1.0, 2.0)),
    "normal": (lambda k, m, s: m + s * random.normal(k, (5,)), (1.0, 2.0)),
    "truncated_normal": (lambda k, a, b: random.truncated_normal(k, a, b, (5,)), (-1.0, 2.0)),
    "lognormal": (lambda k, s: random.lognormal(k, s, (5,)), (0.5,)),
    "pareto": (lambda k, b: random.pareto(k, b, (5,)), (2.5,)),
    "rayleigh": (lambda k, s: random.rayleigh(k, s, (5,)), (2.0,)),
    "weibull_min": (lambda k, s, c: random.weibull_min(k, s, c, (5,)), (2.0, 3.0)),
    "triangular": (lambda k, a, m, b: random.triangular(k, a, m, b, (5,)), (0.0, 1.0, 3.0)),
    "double_sided_maxwell": (
        lambda k, m, s: random.double_sided_maxwell(k, m, s, (5,)),
        (1.0, 2.0),
    ),
}


@pytest.mark.parametrize("name", PATHWISE)
def test_samples_differentiate_by_their_parameters_at_a_fixed_key(name: str) -> None:
    f, at = PATHWISE[name]
    total = lambda *x: (np.sin(f(KEY, *x)) * np.arange(1.0, 6)).sum()  # noqa: E731
    for i in range(len(at)):
        h = 1e-5

        def moved(by: float, i: int = i) -> Any:
            return total(*(x + by * (j == i) for j, x in enumerate(at)))

        slope = (moved(h) - moved(-h)) / (2 * h)
        np.testing.assert_allclose(grad(total, argnums=i)(*at), slope, rtol=1e-7, atol=1e-7)
        bend = (moved(1e-4) - 2 * moved(0) + moved(-1e-4)) / 1e-8
        second = grad(grad(total, argnums=i), argnums=i)(*at)
        np.testing.assert_allclose(second, bend, rtol=1e-3, atol=1e-4)


# samples by rejection: the derivative is that of the quantile at the sample's own probability
IMPLICIT: dict[str, tuple[Callable[..., Any], Callable[[float], Any], float]] = {
    **{
        f"gamma {a}": (lambda k, a: random.gamma(k, a, (6,)), stats.gamma, a)
        for a in (0.2, 1.0, 2.5, 60.0)
    },
    "loggamma": (
        lambda k, a: np.exp(random.loggamma(k, a, (6,))),
        stats.gamma,
        0.7,
    ),
    "chisquare": (lambda k, df: random.chisquare(k, df, (6,)), stats.chi2, 3.0),
    "wald": (lambda k, m: random.wald(k, m, (6,)), stats.invgauss, 2.0),
}


@pytest.mark.parametrize("name", IMPLICIT)
def test_rejected_samples_differentiate_as_the_quantile_does(name: str) -> None:
    f, distribution, at = IMPLICIT[name]
    x = f(KEY, at)
    p = distribution(at).cdf(x)
    sure = (p > 1e-3) & (p < 1 - 1e-3)
    assert sure.sum() > 3
    h = 1e-3 * at
    near = [distribution(at + i * h).ppf(p) for i in (-2, -1, 0, 1, 2)]
    slope = (near[0] - 8 * near[1] + 8 * near[3] - near[4]) / (12 * h)
    bend = (-near[0] + 16 * near[1] - 30 * near[2] + 16 * near[3] - near[4]) / (12 * h * h)
    push = lambda a: jvp(lambda a: f(KEY, a), (a,), (1.0,))[1]  # noqa: E731
    np.testing.assert_allclose(push(at)[sure], slope[sure], rtol=1e-6)
    np.testing.assert_allclose(jit(push)(at), push(at), rtol=1e-12)
    second = jvp(push, (at,), (1.0,))[1]
    np.testing.assert_allclose(second[sure], bend[sure], rtol=2e-3, atol=1e-6)
    backward = grad(lambda a: (f(KEY, a) * np.arange(1.0, 7)).sum())
    np.testing.assert_allclose(backward(at), push(at) @ np.arange(1.0, 7), rtol=1e-12)


@pytest.mark.parametrize(
    ("f", "mean", "slope"),
    [
        (lambda k, a: random.gamma(k, a, (20_000,)), lambda a: a, 2.0),
        (lambda k, a: random.beta(k, a, 3.0, (20_000,)), lambda a: a / (a + 3), 2.0),
        (lambda k, a: random.beta(k, 3.0, a, (20_000,)), lambda a: 3 / (a + 3), 2.0),
        (
            lambda k, a: random.dirichlet(k, a * np.array([1.0, 0, 0]) + 1, (20_000,))[:, 0],
            lambda a: (a + 1) / (a + 3),
            2.0,
        ),
        (lambda k, a: random.t(k, a, (20_000,)) ** 2, lambda a: a / (a - 2), 9.0),
        (lambda k, a: random.f(k, 5.0, a, (20_000,)), lambda a: a / (a - 2), 9.0),
        (lambda k, m: random.wald(k, m, (20_000,)), lambda m: m, 0.5),
        (
            lambda k, p: abs(random.generalized_normal(k, p, (20_000,))) ** 2,
            lambda p: special.gamma(3 / p) / special.gamma(1 / p),
            2.0,
        ),
    ],
)
def test_compiled_mean_derivatives_are_derivatives_of_the_mean(
    f: Callable[..., Any], mean: Callable[[float], float], slope: float
) -> None:
    at, h = slope, 1e-4
    expected = (mean(at + h) - mean(at - h)) / (2 * h)
    found = jit(grad(lambda a: f(KEY, a).mean()))(at)
    np.testing.assert_allclose(found, expected, rtol=0.08, atol=0.01)


def test_covariances_differentiate_symmetrically() -> None:
    f = lambda c: np.sin(random.multivariate_normal(KEY, np.ones(2), c, (3,))).sum()  # noqa: E731
    found = grad(f)(COVARIANCE)
    np.testing.assert_allclose(found, found.T, rtol=1e-12)
    v = np.array([[0.3, -0.7], [-0.7, 0.2]])
    h = 1e-5
    expected = (f(COVARIANCE + h * v) - f(COVARIANCE - h * v)) / (2 * h)
    np.testing.assert_allclose((found * v).sum(), expected, rtol=1e-6)
    several = grad(lambda c: np.sin(random.multivariate_normal(KEY, np.ones(2), c)).sum())
    found = several(np.stack([COVARIANCE, 2 * COVARIANCE, COVARIANCE + np.eye(2)]))
    np.testing.assert_allclose(found, np.swapaxes(found, 1, 2), rtol=1e-12)


def test_counts_and_choices_have_no_derivative_and_members_have() -> None:
    x = np.array([1.0, 2.0, 4.0])
    found = grad(lambda x: (random.choice(KEY, x, (50,)) ** 2).sum())(x)
    counts = np.bincount(random.choice(KEY, 3, (50,)), minlength=3)
    np.testing.assert_allclose(found, 2 * x * counts)
    order = random.permutation(KEY, 3)
    found = grad(lambda x: (random.permutation(KEY, x) * np.array([1.0, 10, 100])).sum())(x)
    np.testing.assert_array_equal(found[order], [1.0, 10.0, 100.0])
    assert grad(lambda p: random.binomial(KEY, 30, p, (5,)).sum())(0.3) == 0.0


def test_a_hessian_of_an_expectation_by_samples() -> None:
    loss = lambda v: (np.exp(v[0]) * random.normal(KEY, (400,)) - v[1]) ** 2  # noqa: E731
    found = jit(hessian(lambda v: loss(v).mean()))(np.array([0.1, 0.2]))
    z = random.normal(KEY, (400,))
    e = np.exp(0.1)
    mixed = -2 * e * z.mean()
    expected = [[(4 * e * e * z * z - 2 * e * z * 0.2).mean(), mixed], [mixed, 2.0]]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        lambda k: random.uniform(k, (30, 4)),
        lambda k: random.normal(k, (30,), np.float32) * 2 + 1,
        lambda k: random.randint(k, (30,), 0, 7, np.int32),
        lambda k: random.gamma(k, 2.5, (30,)) + random.exponential(k, (30,)),
    ],
)
def test_a_compiled_sampler_is_one_kernel(f: Callable[[Any], Any]) -> None:
    lowered = jit(f).lower(KEY)
    assert len(lowered.kernels) == 1


def test_the_least_of_uniform_numbers_gives_a_finite_deviate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trials, "unit", lambda *at: np.float64(0))
    assert -9 < trials.deviate((np.uint32(0), np.uint32(0)), 0) < -8
