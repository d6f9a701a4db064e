"""ftrace.nn: values by plain NumPy, derivatives at smooth points and at kinks, dtypes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import ftrace
from ftrace import nn, random
from ftrace.core.errors import DomainError, ShapeError
from ftrace.nn import initializers

X = np.array([-7.3, -2.5, -0.9, -0.3, 0.2, 0.6, 1.7, 2.9, 6.8, 30.0])
ROOT = np.sqrt(2 / np.pi)

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "log_sigmoid": lambda x: -np.log1p(np.exp(-x)),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "sparse_plus": lambda x: np.where(x < -1, 0, np.where(x > 1, x, (x + 1) ** 2 / 4)),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "soft_sign": lambda x: x / (1 + abs(x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "tanh": np.tanh,
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "celu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "selu": lambda x: (
        1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))
    ),
    "gelu": lambda x: x * (1 + np.tanh(ROOT * (x + 0.044715 * x**3))) / 2,
}
OTHERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "gelu, exact": (lambda x: nn.gelu(x, approximate=False), lambda x: x * scipy.special.ndtr(x)),
    "celu of 2": (
        lambda x: nn.celu(x, 2.0),
        lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0) / 2)),
    ),
    "elu of 3": (
        lambda x: nn.elu(x, 3.0),
        lambda x: np.where(x > 0, x, 3 * np.expm1(np.minimum(x, 0))),
    ),
    "squareplus of 1": (lambda x: nn.squareplus(x, 1), lambda x: (x + np.sqrt(x * x + 1)) / 2),
    "log1mexp": (lambda x: nn.log1mexp(abs(x)), lambda x: np.log(1 - np.exp(-abs(x)))),
}
CALLS = {name: (getattr(nn, name), f) for name, f in ACTIVATIONS.items()} | OTHERS


@pytest.mark.parametrize("name", CALLS)
def test_activations_have_their_values_and_derivatives(name: str) -> None:
    f, reference = CALLS[name]
    expected = reference(X)
    np.testing.assert_allclose(f(X), expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(ftrace.jit(f)(X), expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(ftrace.vmap(f)(X), expected, rtol=1e-13, atol=1e-15)
    slope = ftrace.vmap(ftrace.grad(f))
    h = 1e-5
    np.testing.assert_allclose(slope(X), (reference(X + h) - reference(X - h)) / (2 * h), atol=1e-8)
    second = (slope(X + h) - slope(X - h)) / (2 * h)
    np.testing.assert_allclose(ftrace.vmap(ftrace.grad(ftrace.grad(f)))(X), second, atol=1e-8)


@pytest.mark.parametrize("name", CALLS)
def test_activations_keep_single_precision(name: str) -> None:
    f, reference = CALLS[name]
    x = X.astype("f4")
    for found in (f(x), ftrace.jit(f)(x), ftrace.vmap(ftrace.grad(f))(x)):
        assert found.dtype == np.float32
    np.testing.assert_allclose(f(x), reference(X), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "x", "slope"),
    [
        ("relu", 0.0, 0.0),
        ("relu6", 0.0, 0.0),
        ("relu6", 6.0, 0.0),
        ("elu", 0.0, 1.0),
        ("leaky_relu", 0.0, 1.0),
        ("softplus", 1000.0, 1.0),
        ("softplus", -1000.0, 0.0),
        ("silu", -1000.0, 0.0),
        ("squareplus", 0.0, 0.5),
        ("selu", -1000.0, 0.0),
        ("log_sigmoid", -1000.0, 1.0),
        ("log1mexp", 1e-300, 1e300),
        ("log1mexp", 800.0, 0.0),
    ],
)
def test_derivatives_at_kinks_and_far_out(name: str, x: float, slope: float) -> None:
    assert ftrace.grad(getattr(nn, name))(x) == pytest.approx(slope, rel=1e-12, abs=1e-300)


def test_relu_of_integers_and_nan() -> None:
    np.testing.assert_array_equal(
        nn.relu(np.array([-1, 2], "i1")), np.array([0, 2], "i1"), strict=True
    )
    assert np.isnan(nn.relu(np.nan))


def test_glu_multiplies_halves() -> None:
    x = np.arange(8.0).reshape(2, 4)
    np.testing.assert_allclose(nn.glu(x), x[:, :2] / (1 + np.exp(-x[:, 2:])))
    np.testing.assert_allclose(nn.glu(x, 0), x[:1] / (1 + np.exp(-x[1:])))
    with pytest.raises(ShapeError, match="an axis of size 3, which has no halves"):
        nn.glu(np.ones(3))


# ---------------------------------------------------------------------------------- along axes

Y = np.array([[0.5, -1.0, 3.0], [700.0, 701.0, -np.inf]])
MASK = np.array([[True, False, True], [True, True, True]])


@pytest.mark.parametrize("axis", [-1, 0, None, (0, 1)])
def test_softmax_and_its_kin(axis: Any) -> None:
    for f in (nn.softmax, ftrace.jit(nn.softmax, static_argnums=1)):
        np.testing.assert_allclose(f(Y, axis), scipy.special.softmax(Y, axis), rtol=1e-14)
    np.testing.assert_allclose(
        nn.log_softmax(Y, axis), scipy.special.log_softmax(Y, axis), rtol=1e-14
    )
    np.testing.assert_allclose(nn.logsumexp(Y, axis), scipy.special.logsumexp(Y, axis), rtol=1e-14)
    count = Y.size // np.size(nn.logsumexp(Y, axis))
    expected = scipy.special.logsumexp(Y, axis) - np.log(count)
    np.testing.assert_allclose(nn.logmeanexp(Y, axis), expected, rtol=1e-14)


def test_masks_leave_elements_out() -> None:
    masked = np.where(MASK, Y, -np.inf)
    np.testing.assert_allclose(nn.softmax(Y, where=MASK), scipy.special.softmax(masked, 1))
    np.testing.assert_allclose(nn.log_softmax(Y, where=MASK), scipy.special.log_softmax(masked, 1))
    expected = scipy.special.logsumexp(masked, 1)
    np.testing.assert_allclose(nn.logsumexp(Y, 1, where=MASK), expected)
    np.testing.assert_allclose(nn.logmeanexp(Y, 1, where=MASK), expected - np.log([2, 3]))
    slopes = ftrace.grad(lambda y: nn.logsumexp(y, where=MASK[0]))(Y[0])
    np.testing.assert_allclose(slopes, scipy.special.softmax(masked[0]))


def test_standardize() -> None:
    x = np.random.default_rng(0).normal(3, 2, (4, 5))
    mean, variance = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 1e-5)
    np.testing.assert_allclose(nn.standardize(x), expected, rtol=1e-12)
    np.testing.assert_allclose(nn.standardize(x, mean=mean), expected, rtol=1e-12)
    np.testing.assert_allclose(nn.standardize(x, 1, mean, variance), expected, rtol=1e-12)
    np.testing.assert_allclose(
        ftrace.jit(lambda x: nn.standardize(x, where=x > 0))(x)[0],
        (x[0] - x[0][x[0] > 0].mean()) / np.sqrt(x[0][x[0] > 0].var() + 1e-5),
        rtol=1e-12,
    )


def test_one_hot() -> None:
    x = np.array([[0, 2], [-1, 3]])
    found = ftrace.jit(lambda x: nn.one_hot(x, 3))(x)
    expected = np.where(((x >= 0) & (x < 3))[..., None], np.eye(3)[x % 3], 0)
    np.testing.assert_array_equal(found, expected, strict=True)
    np.testing.assert_array_equal(nn.one_hot(x, 3, axis=0), np.moveaxis(expected, -1, 0))
    assert nn.one_hot(x, 3, dtype=np.int8).dtype == np.int8


# ---------------------------------------------------------------------------------- attention


def attended(q: Any, k: Any, v: Any, seen: Any = None, bias: Any = 0.0) -> Any:
    """Attention, head by head."""
    out = np.zeros((*q.shape[:3], v.shape[-1]))
    share = q.shape[2] // k.shape[2]
    for b, n in np.ndindex(q.shape[0], q.shape[2]):
        scores = q[b, :, n] @ k[b, :, n // share].T / np.sqrt(q.shape[-1])
        scores = scores + np.broadcast_to(bias, (*q.shape[::2][:2], *scores.shape))[b, n]
        if seen is not None:
            scores = np.where(np.broadcast_to(seen, (len(q), *scores.shape))[b], scores, -np.inf)
        out[b, :, n] = scipy.special.softmax(scores, -1) @ v[b, :, n // share]
    return out


def qkv(heads: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(2)
    shapes = ((2, 3, 4, 5), (2, 6, heads, 5), (2, 6, heads, 5))
    return tuple(rng.normal(size=shape) for shape in shapes)  # type: ignore[return-value]


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention_is_a_weighted_mean(heads: int) -> None:
    q, k, v = qkv(heads)
    f = ftrace.jit(nn.dot_product_attention)
    np.testing.assert_allclose(f(q, k, v), attended(q, k, v), rtol=1e-12)
    np.testing.assert_allclose(f(q[0], k[0], v[0]), attended(q, k, v)[0], rtol=1e-12)
    bias = np.random.default_rng(3).normal(size=(1, 4, 3, 6))
    np.testing.assert_allclose(f(q, k, v, bias), attended(q, k, v, bias=bias), rtol=1e-12)


def test_attention_sees_what_it_is_told_to() -> None:
    q, k, v = qkv(2)
    rows, columns = np.arange(3)[:, None], np.arange(6)

    def check(seen: Any, **options: Any) -> None:
        found = nn.dot_product_attention(q, k, v, **options)
        np.testing.assert_allclose(found, attended(q, k, v, seen), rtol=1e-12)

    check(rows >= columns, is_causal=True)
    check((rows <= columns + 1) & (rows >= columns), local_window_size=(1, 0))
    check((rows <= columns + 2) & (rows >= columns - 2), local_window_size=2)
    lengths = np.array([4, 2])
    check(columns[None, None] < lengths[:, None, None], key_value_seq_lengths=lengths)
    mask = np.random.default_rng(1).random((2, 1, 3, 6)) < 0.7
    check(mask[:, 0], mask=mask)
    found = nn.dot_product_attention(q, k, v, query_seq_lengths=np.array([2, 3]))
    assert not found[0, 2].any()
    np.testing.assert_allclose(found[1], attended(q, k, v)[1], rtol=1e-12)


def test_attention_refuses_shapes_that_do_not_fit() -> None:
    q, k, v = qkv(2)
    with pytest.raises(ShapeError, match="dot_product_attention was given shapes"):
        nn.dot_product_attention(q[:, :, :3], k, v)


def test_attention_has_derivatives() -> None:
    q, k, v = qkv(2)
    f = lambda q: np.sum(np.sin(nn.dot_product_attention(q, k, v, is_causal=True)))  # noqa: E731
    d = np.random.default_rng(8).normal(size=q.shape)
    slope = np.sum(ftrace.jit(ftrace.grad(f))(q) * d)
    assert slope == pytest.approx((f(q + 1e-5 * d) - f(q - 1e-5 * d)) / 2e-5, rel=1e-7)


def test_scaled_matmul_scales_blocks() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3, 8)), rng.normal(size=(2, 5, 8))
    a, b = rng.random((2, 3, 2)), rng.random((2, 5, 4))
    expected = (x * np.repeat(a, 4, -1)) @ (y * np.repeat(b, 2, -1)).swapaxes(1, 2)
    found = nn.scaled_matmul(x, y, a, b, preferred_element_type=np.float64)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


# ---------------------------------------------------------------------------------- initializers

KEY = random.key(3)
SHAPE = (400, 300)
VARIANCES = {
    "glorot_uniform": 2 / 700,
    "glorot_normal": 2 / 700,
    "xavier_uniform": 2 / 700,
    "xavier_normal": 2 / 700,
    "lecun_uniform": 1 / 400,
    "lecun_normal": 1 / 400,
    "he_uniform": 2 / 400,
    "he_normal": 2 / 400,
    "kaiming_uniform": 2 / 400,
    "kaiming_normal": 2 / 400,
}


@pytest.mark.parametrize("name", VARIANCES)
def test_initializers_have_their_variance(name: str) -> None:
    found = getattr(initializers, name)()(KEY, SHAPE)
    assert found.shape == SHAPE
    assert found.var() == pytest.approx(VARIANCES[name], rel=0.02)
    assert abs(found.mean()) < 4 * np.sqrt(VARIANCES[name] / found.size)
    assert getattr(initializers, name)()(KEY, (3, 2), np.float32).dtype == np.float32


def test_fans_count_the_receptive_field() -> None:
    init = initializers.variance_scaling(3.0, "fan_out", "uniform", in_axis=0, out_axis=1)
    found = init(KEY, (20, 30, 5, 4))
    assert found.var() == pytest.approx(3 / (30 * 20), rel=0.05)
    geometric = initializers.variance_scaling(1.0, "fan_geo_avg", "normal")(KEY, SHAPE)
    assert geometric.var() == pytest.approx(1 / np.sqrt(400 * 300), rel=0.02)


def test_simple_initializers() -> None:
    np.testing.assert_array_equal(initializers.constant(2.5)(KEY, (2, 3)), np.full((2, 3), 2.5))
    assert initializers.zeros(KEY, (2,), np.float32).dtype == np.float32
    np.testing.assert_array_equal(initializers.ones(KEY, (2,)), np.ones(2))
    x = initializers.uniform(0.5)(KEY, (10000,))
    assert 0 <= x.min() < 0.01
    assert 0.49 < x.max() < 0.5
    assert initializers.normal(2.0)(KEY, (10000,)).std() == pytest.approx(2, rel=0.03)
    assert abs(initializers.truncated_normal(1.0)(KEY, (10000,))).max() < 2


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 3, 4)])
def test_orthogonal_initializers(shape: tuple[int, ...]) -> None:
    w = ftrace.jit(lambda key: initializers.orthogonal(2.0)(key, shape))(KEY).reshape(-1, shape[-1])
    small = w.T @ w if w.shape[0] >= w.shape[1] else w @ w.T
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-12)


def test_what_initializers_refuse() -> None:
    with pytest.raises(ShapeError, match=r"was given the shape \(3,\)"):
        initializers.he_normal()(KEY, (3,))
    with pytest.raises(DomainError, match="variance_scaling was given 'fan_on'"):
        initializers.variance_scaling(1.0, "fan_on", "normal")  # type: ignore[arg-type]
