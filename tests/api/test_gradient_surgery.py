"""`replace_gradient`, `scale_gradient`, `reverse_gradient`, `clip_gradient`, `stop_gradient`."""

import numpy as np
import pytest

import ftrace
from ftrace import checkpoint, errors, grad, hessian, jacfwd, jit, jvp, lax, vmap

X = np.array([0.5, -1.0, 2.0])
W = np.array([0.25, -10.0, 100.0])
XX = np.stack([X, X + 0.25])


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


def weighted(f):
    return lambda x: np.sum(f(x) * W)


GRADIENTS = {
    "grad": lambda f: grad(weighted(f))(X),
    "grad of jit": lambda f: grad(jit(weighted(f)))(X),
    "jit of grad": lambda f: jit(grad(weighted(f)))(X),
    "grad of checkpoint": lambda f: grad(checkpoint(weighted(f)))(X),
    "vmap of grad": lambda f: vmap(grad(weighted(f)))(XX)[0],
    "jit of vmap of grad": lambda f: jit(vmap(grad(weighted(f))))(XX)[0],
    "grad of vmap": lambda f: grad(lambda v: np.sum(vmap(f)(v) * W))(XX)[0],
    "grad of cond": lambda f: grad(lambda x: lax.cond(x[0] > 0, weighted(f), np.sum, x))(X),
}
SURGERY = {
    "replace": (lambda x: ftrace.replace_gradient(x, np.sign), np.sign(W)),
    "scale": (lambda x: ftrace.scale_gradient(x, 0.5), 0.5 * W),
    "scale by an array": (lambda x: ftrace.scale_gradient(x, X), X * W),
    "reverse": (ftrace.reverse_gradient, -W),
    "clip": (lambda x: ftrace.clip_gradient(x, -1.0, 2.0), [0.25, -1.0, 2.0]),
    "clip from below": (lambda x: ftrace.clip_gradient(x, low=-1.0), [0.25, -1.0, 100.0]),
    "clip from above": (lambda x: ftrace.clip_gradient(x, high=1.0), [0.25, -10.0, 1.0]),
    "clip to a norm": (
        lambda x: ftrace.clip_gradient(x, max_norm=1.0),
        W / np.sqrt(np.sum(W * W)),
    ),
    "clip to a large norm": (lambda x: ftrace.clip_gradient(x, max_norm=1e3), W),
    "stop": (ftrace.stop_gradient, 0.0 * W),
}


@pytest.mark.parametrize("way", GRADIENTS)
@pytest.mark.parametrize("name", SURGERY)
def test_values_stay_and_gradients_change(name, way):
    f, expected = SURGERY[name]
    close(GRADIENTS[way](f), expected)
    for g in (f, jit(f), checkpoint(f)):
        np.testing.assert_array_equal(g(X), X)
    np.testing.assert_array_equal(vmap(f)(XX), XX)


def test_compiled_gradients_change_too():
    for f, expected in SURGERY.values():
        close(jit(grad(weighted(f)))(X), expected)
        close(jit(vmap(grad(weighted(f))))(XX)[1], expected)


def clipped_powers(x):
    """((x ** 2) ** 2 ...) ** 2, five times, with the gradient held to [-1, 1] before each."""
    for _ in range(5):
        x = ftrace.clip_gradient(x, -1.0, 1.0) ** 2
    return x


def by_hand(x):
    powers = [x]
    for _ in range(5):
        powers.append(powers[-1] ** 2)
    ct = 1.0
    for p in reversed(powers[:-1]):
        ct = np.clip(2.0 * p * ct, -1.0, 1.0)
    return ct


@pytest.mark.parametrize("x", [0.3, -0.8, 0.97, 1.0, -1.3])
def test_clipping_five_times_in_a_loop(x):
    close(clipped_powers(x), x**32)
    close(grad(clipped_powers)(x), by_hand(x))
    close(jit(grad(clipped_powers))(x), by_hand(x))
    close(grad(jit(clipped_powers))(x), by_hand(x))
    close(vmap(grad(clipped_powers))(np.array([x, 0.5])), [by_hand(x), by_hand(0.5)])
    close(grad(lambda v: np.sum(vmap(clipped_powers)(v)))(np.array([x, 0.5]))[0], by_hand(x))


def test_linear_surgery_in_forward_mode():
    for f, factor in (
        (lambda x: ftrace.scale_gradient(x, 3.0), 3.0),
        (ftrace.reverse_gradient, -1),
    ):
        for g in (f, jit(f), checkpoint(f)):
            close(jvp(g, (X,), (W,))[1], factor * W)
            close(jacfwd(g)(X), factor * np.eye(3))
            close(vmap(lambda x, g=g: jvp(g, (x,), (W,))[1])(XX), [factor * W] * 2)
            close(jit(lambda x, g=g: jvp(g, (x,), (W,))[1])(X), factor * W)


def test_linear_surgery_in_a_loop_in_forward_mode():
    def f(x):
        step = lambda c: (c[0] + 1, ftrace.scale_gradient(c[1], 2.0) * x)  # noqa: E731
        return lax.while_loop(lambda c: c[0] < 3, step, (0, x))[1]

    close(f(1.5), 1.5**4)
    # x1 = x0 x: t1 = 2 t0 x + x0; x0 = x: t = 2x + x, then 2 (3x) x + x^2, then 2 (7x^2) x + x^3
    close(jvp(f, (1.5,), (1.0,))[1], 15 * 1.5**3)
    close(jit(lambda x: jvp(f, (x,), (1.0,))[1])(1.5), 15 * 1.5**3)


def test_clipping_in_a_loop_is_refused_in_forward_mode():
    def f(x):
        step = lambda c: (c[0] + 1, ftrace.clip_gradient(c[1], -1.0, 1.0) * x)  # noqa: E731
        return lax.while_loop(lambda c: c[0] < 3, step, (0, x))[1]

    close(f(1.5), 1.5**4)
    with pytest.raises(errors.CustomRuleError, match="linear in the cotangents"):
        jvp(f, (1.5,), (1.0,))


def test_second_derivatives_are_those_of_the_changed_gradient():
    """The gradient of scale(x, 1/2) ** 3 is 3 x^2 / 2, and the gradient of that 3 x."""
    f = lambda x: ftrace.scale_gradient(x, 0.5) ** 3  # noqa: E731
    for g in (f, jit(f), checkpoint(f)):
        close(grad(g)(2.0), 6.0)
        close(grad(grad(g))(2.0), 6.0)
        close(jit(grad(grad(g)))(2.0), 6.0)
        close(hessian(g)(2.0), 6.0)
        close(vmap(hessian(g))(X), 3.0 * X)
    g = lambda x: ftrace.clip_gradient(x, -1.0, 1.0) ** 3  # noqa: E731
    close(grad(grad(g))(0.5), 3.0)  # 3 x^2 = 0.75 is inside the bounds
    close(grad(grad(g))(2.0), 0.0)  # 3 x^2 = 12 is clipped: constant


def test_bounds_and_factors_may_be_traced():
    def f(x, bound):
        return np.sum(ftrace.clip_gradient(x, -bound, bound) * W)

    close(jit(grad(f))(X, 1.0), [0.25, -1.0, 1.0])
    close(vmap(grad(f), (None, 0))(X, np.array([1.0, 20.0])), [[0.25, -1, 1], [0.25, -10, 20]])

    def g(x, c):
        return ftrace.scale_gradient(x, c) * 3.0

    close(grad(grad(g), 1)(2.0, 5.0), 3.0)
    close(grad(lambda c: grad(g)(2.0, c * c))(5.0), 30.0)
    close(jit(grad(grad(g), 1))(2.0, 5.0), 3.0)
    close(vmap(grad(g))(X, W), 3.0 * W)
    close(grad(g, 1)(2.0, 5.0), 0.0)


def test_bounds_have_no_tangent():
    f = lambda b: ftrace.clip_gradient(X, -b, b)  # noqa: E731
    for g in (f, jit(f)):
        close(jvp(g, (1.0,), (1.0,))[1], 0.0 * X)
    f = lambda b: ftrace.replace_gradient(X, lambda ct: ct + b)  # noqa: E731
    close(jvp(f, (1.0,), (1.0,))[1], 0.0 * X)
    close(
        jvp(
            lambda b: grad(lambda x: np.sum(ftrace.clip_gradient(x, -b, b) * W))(X), (1.0,), (1.0,)
        )[1],
        [0, -1, 1],
    )


def test_containers_and_integers():
    tree = {"a": X, "n": 3, "b": (2.0,)}

    def loss(change):
        def f(x, y):
            t = change({"a": x, "n": 3, "b": (y,)})
            return np.sum(t["a"] * W) + 7.0 * t["b"][0]

        return f

    for staging in (lambda f: f, jit):
        gradient = staging(grad(loss(lambda t: ftrace.scale_gradient(t, 2.0)), (0, 1)))
        close(gradient(X, 2.0)[0], 2 * W)
        close(gradient(X, 2.0)[1], 14.0)
        gradient = staging(grad(loss(lambda t: ftrace.clip_gradient(t, max_norm=1.0)), (0, 1)))
        norm = np.sqrt(np.sum(W * W) + 49.0)
        close(gradient(X, 2.0)[0], W / norm)
        close(gradient(X, 2.0)[1], 7.0 / norm)
    assert ftrace.reverse_gradient(tree)["n"] == 3
    assert ftrace.clip_gradient({"n": 3}, max_norm=1.0) == {"n": 3}


def test_the_norm_of_a_zero_cotangent():
    f = lambda x: np.sum(ftrace.clip_gradient(x, max_norm=1.0)) * 0.0  # noqa: E731
    close(grad(f)(X), np.zeros(3))
    close(grad(lambda x: np.sum(grad(f)(x)))(X), np.zeros(3))


def test_dtypes_and_complex_numbers():
    x = X.astype(np.float32)
    for f in (
        lambda x: ftrace.scale_gradient(x, 2.0),
        lambda x: ftrace.clip_gradient(x, max_norm=1.0),
        lambda x: ftrace.clip_gradient(x, -1.0, 1.0),
    ):
        assert grad(lambda x, f=f: np.sum(f(x)))(x).dtype == np.float32
        assert jit(grad(lambda x, f=f: np.sum(f(x))))(x).dtype == np.float32
    z = np.array([3.0 + 4.0j, 0.0])
    gradient = grad(lambda z: np.real(np.sum(ftrace.clip_gradient(z, max_norm=1.0) * (3 - 4j))))(z)
    close(np.sqrt(np.sum(np.abs(gradient) ** 2)), 1.0)
    close(gradient, (3 - 4j) / np.sqrt(50.0) * np.ones(2))


def test_results_have_their_own_memory():
    y = ftrace.reverse_gradient(X)
    assert not np.shares_memory(y, X)
    assert y.flags.writeable
