"""Recording loops in blocks of batch elements: when, and that results stay the same."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import grad, jit, lax, passes, value_and_grad, vmap
from ftrace.core.config import update
from ftrace.gpu.gpu_backend import MACHINE
from ftrace.lowering.loops.loop_blocks import FEWEST, SIZE

rng = np.random.default_rng(0)
MANY = FEWEST * SIZE
TABLE = rng.uniform(0.01, 0.05, 7)
MATRIX = np.array([[1.0, 0.1, 0.05], [0.0, 1.02, 0.1], [0.2, 0.1, 0.9]])


def inputs(n=MANY):
    return rng.uniform(0.5, 1.0, n), 1 + rng.exponential(0.4, n)


X, C = inputs()


def grow(x, c, p=1.01):
    total = 0.0 * x
    while x < c:
        total = total + np.sin(x) * x
        x = x * p + 0.02 * np.sin(x) + 0.01
    return total + x


def branching(x, c):
    while x < c:
        if x > 1.2:
            x = x * 1.02
            continue
        x = x + 0.01 * np.cos(x)
    return x * x


def newton(x, c):
    def step(s):
        return s - 1 + c / np.exp(s)

    return lax.while_loop(lambda s: abs(np.exp(s) - c) > 1e-10, step, x)


def rotating(x, c, m=MATRIX):
    v = np.array([x, 2 * x, 3 * x])
    while v[0] < c:
        v = m @ v + 0.02 * np.sin(v[::-1])
    return (v * v).sum()


def looking_up(x, c):
    i = 0
    while x < c:
        x = x * 1.01 + TABLE[i % 7] * np.sin(x)
        i += 1
    return x


def shifting(x, c):
    v = np.zeros(4)
    v[0] = x
    while v[0] < c:
        v[1:] = v[:-1] * 0.9
        v[0] = v[0] * 1.02 + 0.1 * v[3] + 0.01
    return v.sum()


def growing_complex(x, c):
    def step(z):
        return z * (1.01 + 0.02j) + 0.01 * np.sin(z)

    _, back = ftrace.vjp(lambda z: lax.while_loop(lambda z: abs(z) < c, step, z), x + 0.1j * x)
    return back(1 + 0.5j)[0]


def in_blocks(f, *args):
    """Whether a program takes batch elements in blocks."""
    return "block" in jit(f).lower(*args).passes


def check(f, *args, tolerance=1e-12):
    """In blocks results are those of the program that is not compiled."""
    assert in_blocks(f, *args)
    found = ftrace.tree_util.tree_leaves(jit(f)(*args))
    with update(compile=False):
        expected = ftrace.tree_util.tree_leaves(jit(f)(*args))
    for x, y in zip(found, expected, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


BODIES = [grow, branching, newton, rotating, looking_up, shifting]


@pytest.mark.parametrize("f", BODIES, ids=lambda f: f.__name__)
def test_gradients_of_many(f):
    check(vmap(grad(f)), X, C)


@pytest.mark.parametrize("f", [grow, branching, rotating], ids=lambda f: f.__name__)
def test_a_gradient_of_a_sum_over_many(f):
    check(grad(lambda x, c: vmap(f)(x, c).sum(), argnums=(0, 1)), X, C)


@pytest.mark.parametrize("n", [MANY, MANY + 1, 600, 1009, 1021])
def test_sizes_with_and_without_a_rest(n):
    x, c = inputs(n)
    check(vmap(value_and_grad(grow)), x, c)
    check(grad(lambda p: vmap(lambda x, c: grow(x, c, p))(x, c).mean()), 1.01)


def test_what_all_share_has_the_sum_of_derivatives():
    w = np.array([1.0, 2.0, 3.0])

    def wide(x, c, w):
        def step(s):
            return s[0] * 1.01 + 0.01, s[1] + np.sin(w * s[0]).sum()

        return lax.while_loop(lambda s: s[0] < c, step, (x, 0.0 * x))[1]

    check(grad(lambda w: vmap(lambda x, c: wide(x, c, w))(X, C).sum()), w)
    check(grad(lambda m: vmap(lambda x, c: rotating(x, c, m))(X, C).sum()), MATRIX)
    check(grad(lambda t: vmap(lambda x, c: rotating(x * t[0], c, t[1]))(X, C).sum()), (1.1, MATRIX))


def test_losses_between_the_loop_and_its_derivative():
    def squares(p, x):
        return fnp.mean((vmap(lambda x, c: grow(x, c, p))(x, C) - 3.0) ** 2)

    check(grad(squares, argnums=(0, 1)), 1.01, X)
    check(vmap(value_and_grad(lambda x, c: (grow(x, c), x * 2), has_aux=True)), X, C)
    check(lambda x: ftrace.linearize(lambda x: vmap(grow)(x, C), x)[1](x), X)


def test_two_loops_and_a_loop_in_a_loop_over_blocks():
    check(vmap(grad(lambda x, c: newton(newton(x, c), 2 * c))), X, C)
    step = vmap(grad(grow))
    check(lambda x: lax.scan(lambda s, _: (s + 1e-3 * step(s, C), s.sum()), x, None, length=3), X)


def test_more_results_for_each():
    check(vmap(ftrace.jacrev(lambda x, c: np.stack([grow(x, c), grow(2 * x, c)]))), X, C)
    check(vmap(ftrace.jacfwd(grad(grow))), X, C)


def test_two_mapped_axes():
    x, c = inputs(2 * MANY)
    check(vmap(vmap(grad(grow))), x.reshape(-1, 2), c.reshape(-1, 2))
    check(vmap(vmap(grad(grow), in_axes=(0, None)), in_axes=(None, 0)), X[:5], C)


@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_types(dtype):
    if dtype == "c16":
        check(vmap(growing_complex), X, C)
    else:
        check(vmap(grad(grow)), X.astype(dtype), C.astype(dtype), tolerance=2e-5)


@pytest.mark.parametrize("limit", [0.0, 1.5, 1e300])
def test_equal_numbers_of_iterations(limit):
    """None at all, the same for each, and as many as doubling from 1 to 1e300 takes."""

    def doubling(x, c):
        return np.sqrt(lax.while_loop(lambda s: s < c, lambda s: s * 2 + np.exp(-s), x))

    check(vmap(grad(doubling)), X, np.full(MANY, limit))


def test_the_longest_ones_anywhere():
    for place in (0, 7, MANY - 1):
        c = np.where(np.arange(MANY) == place, 50.0, 1.05)
        check(vmap(grad(grow)), X, c)


def test_derivatives_that_are_not_finite_stay_with_their_own():
    def root(x, c):
        return np.sqrt(
            lax.while_loop(lambda s: s < c, lambda s: s * 1.01 + 0.01 * np.cos(s) ** 2, x) - 0.5
        )

    x = np.where(np.arange(MANY) % 9 == 0, 0.5, X)
    found = jit(vmap(grad(root)))(x, np.where(x == 0.5, 0.2, C))
    np.testing.assert_array_equal(np.isinf(found), x == 0.5)
    check(vmap(grad(root)), x, np.where(x == 0.5, 0.2, C))


# ---------------------------------------------------------------------------------- left as it is


def test_few_batch_elements():
    assert not in_blocks(vmap(grad(grow)), X[:-1], C[:-1])
    assert not in_blocks(grad(grow), 1.0, 2.0)


def normalized(x):
    v = vmap(grow)(x, C)
    return (v / v.max()).sum()


def logarithm(x):
    return np.log(vmap(grow)(x, C).sum())


def by_count(x):
    def step(s):
        return s[0] * 1.01 + 0.01 * np.sin(s[0]), s[1] + 1

    def loop(x, c):
        return lax.while_loop(lambda s: s[0] < c, step, (x, 0))

    v, k = vmap(loop)(x, C)
    return (v / k.max()).sum()


def among_all(x):
    weights = np.linspace(0.0, 1e-9, MANY)

    def step(s, c):
        return s * 1.01 + 0.01 + (weights * s).sum()

    return vmap(lambda x, c: lax.while_loop(lambda s: s < c, lambda s: step(s, c), x))(x, C).sum()


def nested(x):
    def inner(x, c):
        while x < c:
            y = x
            while y > 0.3:
                y = y * 0.5
            x = x + 0.1 * y
        return x

    return vmap(inner)(x, C).sum()


def until_all_end(x):
    """A loop of the user's own: no batch element stays where it ended."""

    def step(s):
        return s * 1.2 + 0.1 * np.sin(s)

    return lax.while_loop(lambda s: np.any(s < C), step, x).sum()


def newton_of_all(x):
    def step(s):
        return s - 1 + C / np.exp(s) + 1e-3 * np.sin(s)

    return lax.while_loop(lambda s: np.any(abs(np.exp(s) - C) > 0.1), step, x).sum()


def going_on_behind_their_end(x):
    """Chosen by the loop's own condition, but not what was carried before."""

    def step(state):
        s, c = state
        return np.where(s < c, s * 1.2 + 0.1 * np.sin(s), s * 1.01 + 0.01 * np.cos(s)), c

    return lax.while_loop(lambda state: np.any(state[0] < state[1]), step, (x, C))[0].sum()


@pytest.mark.parametrize(
    "f",
    [
        *(normalized, logarithm, by_count, among_all, nested, until_all_end, newton_of_all),
        going_on_behind_their_end,
    ],
    ids=lambda f: f.__name__,
)
def test_batch_elements_that_meet(f):
    assert not in_blocks(grad(f), X)
    found = jit(grad(f))(X)
    with update(compile=False):
        np.testing.assert_allclose(found, jit(grad(f))(X), rtol=1e-12, atol=1e-12)


def test_a_longest_loop_that_weighs_tangents():
    def loop(x, c, p):
        def step(s):
            return s[0] * p + 0.01 * np.sin(s[0]), s[1] + 1

        return lax.while_loop(lambda s: s[0] < c, step, (x, 0))

    def f(p):
        y, push = ftrace.linearize(lambda p: vmap(lambda x, c: loop(x, c, p))(X, C), p)
        return push(1.0 / y[1].max())[0]

    found = jit(f)(1.01)
    with update(compile=False):
        np.testing.assert_allclose(found, jit(f)(1.01), rtol=1e-12)


def test_cheap_loops_are_left_as_they_are():
    assert not in_blocks(
        vmap(grad(lambda x, c: lax.while_loop(lambda s: s < c, lambda s: s * 4, x))), X, C
    )


def test_second_derivatives_read_tapes_twice():
    assert not in_blocks(vmap(grad(grad(grow))), X, C)


# ---------------------------------------------------------------------------------- around it


def test_errors_of_batch_elements_are_raised():
    def careful(x, c):
        while x < c:
            if x > 40:
                raise ValueError("too far")
            x = x * 1.1 + 0.01 * np.cos(x) ** 2
        return x

    check(vmap(grad(careful)), X, C)
    with pytest.raises(ValueError, match="too far"):
        jit(vmap(grad(careful)))(X, np.where(np.arange(MANY) == 77, 100.0, C))


def test_passes_of_users_see_equations_once():
    def swapped(jaxpr):
        found = passes.replacing("sin", np.cos)(passes.replacing("cos", fnp.tan)(jaxpr))
        return passes.replacing("tan", np.sin)(found)

    def f(x, c):  # a sine behind the loop, its cosine before the way back
        return grad(lambda x: np.sin(vmap(grow)(x, c)).sum())(x)

    with passes.inserted(swapped, after="dce", name="swapped"):
        assert in_blocks(f, X, C)
        found, expected = jit(f)(X, C), jit(f)(X[1:], C[1:])
    assert not in_blocks(f, X[1:], C[1:])
    np.testing.assert_allclose(found[1:], expected, rtol=1e-12)
    assert np.abs(expected - jit(f)(X, C)[1:]).max() > 0.1


def test_a_gpu_has_no_blocks():
    assert all(p.name != "block" or not p.on(MACHINE) for p in passes.default())
