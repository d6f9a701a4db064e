"""`vmap`: which axes go in, where they come out, names and sizes of axes."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import errors, lax

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3))
W = RNG.normal(size=(3, 2))


def loop(f, *members, axis=0):
    return np.stack([f(*m) for m in zip(*members, strict=True)], axis=axis)


# ---------------------------------------------------------------------------------- in_axes


def test_every_argument_is_mapped_over_axis_0_by_default():
    np.testing.assert_allclose(ftrace.vmap(np.dot)(X, X), loop(np.dot, X, X), rtol=1e-14)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_an_integer_maps_all_arguments_over_that_axis(axis):
    x = RNG.normal(size=(4, 4, 4))
    members = [np.take(x, i, axis) for i in range(4)]
    actual = ftrace.vmap(lambda a, b: a @ b, in_axes=axis)(x, x)
    np.testing.assert_allclose(actual, loop(np.matmul, members, members), rtol=1e-15)


def test_none_leaves_an_argument_whole():
    actual = ftrace.vmap(lambda x, w: x @ w, in_axes=(0, None))(X, W)
    np.testing.assert_allclose(actual, X @ W, rtol=1e-15)
    actual = ftrace.vmap(lambda x, w: x @ w, in_axes=[None, 1])(X, W)
    np.testing.assert_allclose(actual, (X @ W).T, rtol=1e-15)


def test_in_axes_follow_containers():
    params = {"w": RNG.normal(size=(3, 2, 4)), "b": np.ones(2)}

    def f(p, x):
        return x[0] @ p["w"] + p["b"] * x[1]

    actual = ftrace.vmap(f, in_axes=({"w": 2, "b": None}, (0, -1)))(params, (X, np.arange(4.0)))
    expected = [X[i] @ params["w"][:, :, i] + params["b"] * i for i in range(4)]
    np.testing.assert_allclose(actual, expected, rtol=1e-15)


def test_one_entry_stands_for_a_whole_container():
    tree = {"a": X, "b": (X, X[:, 0])}
    actual = ftrace.vmap(lambda t, s: t["a"] @ t["b"][0] * t["b"][1] * s, in_axes=(0, None))(
        tree, 2.0
    )
    np.testing.assert_allclose(actual, 2 * np.sum(X * X, 1) * X[:, 0], rtol=1e-14)


def test_keyword_arguments_are_mapped_over_axis_0():
    actual = ftrace.vmap(lambda x, scale: x * scale, in_axes=1)(X, scale=np.array([1.0, 2, 3]))
    np.testing.assert_array_equal(actual, X.T * np.array([[1.0], [2], [3]]))


def test_default_arguments_are_not_mapped():
    np.testing.assert_array_equal(ftrace.vmap(lambda x, s=2.0: x * s)(X), 2 * X)


def test_integers_and_booleans_are_mapped_too():
    x = np.array([[1, 2], [3, 4]], np.int8)
    actual = ftrace.vmap(lambda v, on: np.where(on, v, -v))(x, np.array([True, False]))
    np.testing.assert_array_equal(actual, np.array([[1, 2], [-3, -4]], np.int8), strict=True)


# ---------------------------------------------------------------------------------- out_axes


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_out_axes_say_where_the_axis_appears(axis):
    actual = ftrace.vmap(lambda x: np.outer(x, x), out_axes=axis)(X)
    assert actual.shape[axis] == 4
    np.testing.assert_array_equal(actual, loop(lambda x: np.outer(x, x), X, axis=axis))


def test_out_axes_follow_containers():
    def f(x):
        return {"outer": np.outer(x, x), "parts": (x, np.sum(x)), "constant": 2.0}

    axes = {"outer": 2, "parts": (1, 0), "constant": None}
    actual = ftrace.vmap(f, out_axes=axes)(X)
    np.testing.assert_array_equal(actual["outer"], np.einsum("ni,nj->ijn", X, X))
    np.testing.assert_array_equal(actual["parts"][0], X.T)
    np.testing.assert_allclose(actual["parts"][1], X.sum(1))
    assert actual["constant"] == 2.0


def test_a_result_that_is_not_mapped_is_repeated_or_returned_once():
    repeated = ftrace.vmap(lambda x: np.ones(2))(X)
    np.testing.assert_array_equal(repeated, np.ones((4, 2)))
    assert repeated.flags.writeable
    once = ftrace.vmap(lambda x: np.ones(2), out_axes=None)(X)
    np.testing.assert_array_equal(once, np.ones(2))
    np.testing.assert_array_equal(ftrace.vmap(lambda x: 3)(X), [3, 3, 3, 3])


# ---------------------------------------------------------------------------------- axis_size


def test_axis_size_maps_a_function_of_nothing():
    actual = ftrace.vmap(lambda: lax.axis_index("i") * 10, axis_name="i", axis_size=3)()
    np.testing.assert_array_equal(actual, [0, 10, 20])
    actual = ftrace.vmap(lambda x: x * 2, in_axes=None, axis_size=2)(np.ones(3))
    np.testing.assert_array_equal(actual, np.full((2, 3), 2.0))


def test_an_empty_axis_is_mapped():
    actual = ftrace.vmap(lambda x: np.sin(x) @ W)(np.zeros((0, 3)))
    assert actual.shape == (0, 2)


# ---------------------------------------------------------------------------------- axis_name


def test_collectives_reduce_over_the_named_axis():
    def f(x):
        return x / lax.psum(x, "i"), x - lax.pmean(x, "i"), lax.axis_index("i"), lax.psum(1, "i")

    x = np.array([1.0, 3.0, 4.0])
    share, centred, index, count = ftrace.vmap(f, axis_name="i")(x)
    np.testing.assert_allclose(share, x / 8)
    np.testing.assert_allclose(centred, x - x.mean())
    np.testing.assert_array_equal(index, [0, 1, 2])
    np.testing.assert_array_equal(count, [3, 3, 3])


def test_collectives_of_containers():
    def f(p):
        return lax.psum(p, "i")

    actual = ftrace.vmap(f, axis_name="i", out_axes=None)({"a": X, "b": (X[:, 0],)})
    np.testing.assert_allclose(actual["a"], X.sum(0))
    np.testing.assert_allclose(actual["b"][0], X[:, 0].sum())


def test_nested_axes_are_told_apart_by_name():
    def f(x):
        return lax.psum(x, "rows"), lax.psum(x, "columns"), lax.axis_index("rows")

    inner = ftrace.vmap(f, axis_name="columns")
    rows, columns, index = ftrace.vmap(inner, axis_name="rows")(X)
    np.testing.assert_allclose(rows, np.broadcast_to(X.sum(0), X.shape))
    np.testing.assert_allclose(columns, np.broadcast_to(X.sum(1)[:, None], X.shape))
    np.testing.assert_array_equal(index, np.broadcast_to(np.arange(4)[:, None], X.shape))


def test_collectives_are_differentiated_and_staged():
    x = np.array([1.0, 3.0, 4.0])

    def loss(v):
        shares = ftrace.vmap(lambda y: y / lax.psum(y, "i"), axis_name="i")(v)
        return np.sum(shares * np.array([1.0, 2.0, 5.0]))

    weights, total = np.array([1.0, 2.0, 5.0]), x.sum()
    expected = weights / total - np.sum(weights * x) / total**2
    np.testing.assert_allclose(ftrace.grad(loss)(x), expected)
    np.testing.assert_allclose(ftrace.jit(ftrace.grad(loss))(x), expected)
    np.testing.assert_allclose(ftrace.grad(ftrace.jit(loss))(x), expected)


def test_a_jitted_function_with_a_collective_runs_under_vmap():
    f = ftrace.jit(lambda x: x - lax.pmean(x, "i"))
    np.testing.assert_allclose(ftrace.vmap(f, axis_name="i")(X), X - X.mean(0))


def test_a_collective_without_its_axis_is_refused():
    with pytest.raises(errors.AxisError, match="'i'"):
        lax.psum(1.0, "i")


# ---------------------------------------------------------------------------------- nesting


def test_nested_vmap_maps_pairs():
    actual = ftrace.vmap(ftrace.vmap(np.dot, (None, 0)), (0, None))(X, X)
    np.testing.assert_allclose(actual, X @ X.T, rtol=1e-14)


def test_vmap_of_grad_gives_gradients_of_each_member():
    def loss(w, x):
        return np.sum(np.tanh(x @ w))

    actual = ftrace.vmap(ftrace.grad(loss), (None, 0))(W, X)
    expected = np.stack([np.outer(x, 1 - np.tanh(x @ W) ** 2) for x in X])
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_results_own_their_memory():
    x = X.copy()
    a, b, c = ftrace.vmap(lambda v: (v, v, v[::-1]))(x)
    for y in (a, b, c):
        assert y.flags.writeable
        assert not np.may_share_memory(y, x)
    assert not np.may_share_memory(a, b)


def test_writes_in_a_mapped_function_are_traced():
    def f(x):
        out = fnp.zeros(4)
        out[1:] = x
        out[0] += x[0] * 2
        return out

    np.testing.assert_array_equal(ftrace.vmap(f)(X), loop(f, X))


def test_rank_0_members_are_numpy_scalars_where_they_come_out_alone():
    seen = []
    ftrace.vmap(lambda x: seen.append((x.shape, x.dtype)) or x)(np.ones(3, np.float32))
    assert seen == [((), np.float32)]
    once = ftrace.vmap(lambda x: np.float32(2), out_axes=None)(X)
    assert type(once) is np.float32


@pytest.mark.parametrize("name", ["in_axes", "out_axes"])
def test_a_bool_is_no_axis(name):
    x = np.ones((2, 3))
    for axes in (True, False):
        with pytest.raises(errors.FtraceError, match=f"{name} of vmap"):
            ftrace.vmap(lambda x: x, **{name: axes})(x)
