"""The smaller names of `lax`: barriers, choices, stacking; and older ones under everything."""

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.core.errors import DtypeError, ShapeError
from tests.lax.agreement import COMPOSITIONS, assert_agrees

RNG = np.random.default_rng(97)
X = RNG.normal(size=(3, 4))
WHICH = np.array([[0, 2, 1, 0], [1, 1, 0, 2], [2, 0, 0, 1]])

FUNCTIONS = {
    "optimization_barrier": lambda x: lax.optimization_barrier({"a": x * x, "b": (x[0],)})["a"],
    "select_n of integers": lambda x: lax.select_n(WHICH, x, x * x, np.sin(x)),
    "select_n of booleans": lambda x: lax.select_n(x > 0.1, -x, x * x),
    "select_n of a scalar": lambda x: lax.select_n(np.int32(1), x, x * x),
    "stack": lambda x: lax.stack([x, x * x], -1),
    "unstack": lambda x: lax.unstack(x, -1)[2] * lax.unstack(x, -1)[0],
    "tile": lambda x: lax.tile(x * x, (2, 3)),
    "dynamic_update_slice": lambda x: lax.dynamic_update_slice(x * x, x[1:, :2], (0, 1)),
    "dynamic_index_in_dim": lambda x: lax.dynamic_index_in_dim(x * x, -2, 1),
    "top_k": lambda x: lax.top_k(x * x, 2)[0],
    "top_k of the first axis": lambda x: lax.top_k(x * x, 2, 0)[0],
    "reduce_precision": lambda x: lax.reduce_precision(x * x, 11, 52),
    "clamp": lambda x: lax.clamp(-0.5, x * x, 0.8),
    "cumlogsumexp": lambda x: lax.cumlogsumexp(x, 1),
}


@pytest.mark.sampled(3, each="name")
@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_transformation_agrees_with_differences(composition, name):
    assert_agrees(composition, FUNCTIONS[name], X)


def test_values():
    np.testing.assert_array_equal(
        lax.select_n(WHICH, X, X * 2, X * 3), np.choose(WHICH, [X, X * 2, X * 3])
    )
    np.testing.assert_array_equal(lax.select_n(X > 0, X, -X), np.where(X > 0, -X, X))
    np.testing.assert_array_equal(lax.select_n(np.True_, X), X)
    assert not np.may_share_memory(lax.select_n(np.True_, X), X)
    np.testing.assert_array_equal(lax.stack([X, -X], 1), np.stack([X, -X], 1))
    for found, expected in zip(lax.unstack(X, 1), X.T, strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(lax.tile(X, (2, 3)), np.tile(X, (2, 3)))
    assert lax.tile(X, (0, 1)).shape == (0, 4)
    np.testing.assert_array_equal(lax.zeros_like_array(X), 0 * X)
    assert (lax.empty((2,), "f4").shape, lax.empty((2,), "f4").dtype) == ((2,), np.float32)


def test_a_side_that_select_n_does_not_choose_contributes_no_nan():
    def f(x):
        return np.sum(lax.select_n(x > 0, x, np.sqrt(x) * 2))

    np.testing.assert_array_equal(ftrace.grad(f)(np.array([0.0, 4.0])), [1.0, 0.5])


# ---------------------------------------------------------------------------------- barriers


def names(jaxpr):
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def test_a_barrier_is_kept_whole_in_programs():
    def f(x, y):
        return lax.optimization_barrier((np.sin(x), np.cos(y)))[0]

    assert names(ftrace.make_jaxpr(f)(1.0, 2.0)) == ["sin", "cos", "optimization_barrier"]


def test_a_barrier_is_kept_in_derivatives():
    def f(x):
        return np.sum(lax.optimization_barrier(x * x) * 3.0)

    assert names(ftrace.make_jaxpr(ftrace.grad(f))(X)).count("optimization_barrier") == 1
    both = names(ftrace.make_jaxpr(ftrace.value_and_grad(f))(X))
    assert both.count("optimization_barrier") == 2


def test_compiled_code_does_not_fuse_across_a_barrier():
    def kernels(f):
        return len(ftrace.jit(f).lower(X).kernels)

    fused = kernels(lambda x: np.sin(x) * 2.0)
    assert kernels(lambda x: lax.optimization_barrier(np.sin(x)) * 2.0) == fused + 1
    f = ftrace.jit(lambda x: lax.optimization_barrier({"a": np.sin(x), "b": 2.0})["a"] * 2.0)
    np.testing.assert_allclose(f(X), np.sin(X) * 2.0, rtol=1e-14)


def test_a_barrier_takes_integers_scalars_and_nothing():
    tree = {"i": np.arange(3), "f": 2.0, "n": None}
    found = lax.optimization_barrier(tree)
    np.testing.assert_array_equal(found["i"], tree["i"], strict=True)
    assert (found["f"], found["n"]) == (2.0, None)
    assert not np.may_share_memory(found["i"], tree["i"])
    assert lax.optimization_barrier(()) == ()

    def f(x):
        both = lax.optimization_barrier((x, np.arange(3)))
        return np.sum(both[0] * both[1])

    np.testing.assert_array_equal(ftrace.grad(f)(np.ones(3)), [0.0, 1.0, 2.0])


def test_a_masked_cotangent_passes_a_barrier():
    def f(x):
        a, b = lax.optimization_barrier((np.sqrt(x), x))
        return np.sum(np.where(x > 0, a, b))

    np.testing.assert_array_equal(ftrace.grad(f)(np.array([0.0, 4.0])), [1.0, 0.25])


def test_a_barrier_is_its_own_transpose():
    def f(x):
        a, b = lax.optimization_barrier((x, 2.0 * x))
        return a + 3.0 * b

    (ct,) = ftrace.linear_transpose(f, np.ones(3))(np.arange(3.0))
    np.testing.assert_array_equal(ct, [0.0, 7.0, 14.0])


MISTAKES = {
    "no cases": (lambda: lax.select_n(X > 0), ShapeError, "no cases"),
    "floats that choose": (lambda: lax.select_n(X, X, X), DtypeError, "to choose among 2 cases"),
    "booleans among three": (lambda: lax.select_n(X > 0, X, X, X), DtypeError, "among 3 cases"),
    "cases of two shapes": (lambda: lax.select_n(np.True_, X, X[0]), ShapeError, "select"),
    "nothing to stack": (lambda: lax.stack([]), ShapeError, "no arrays"),
    "shapes that do not stack": (lambda: lax.stack([X, X[0]]), ShapeError, "have one shape"),
    "too few repetitions": (lambda: lax.tile(X, (2,)), ShapeError, "1 repetitions"),
    "negative repetitions": (lambda: lax.tile(X, (2, -1)), ShapeError, "at least 0"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(name):
    f, error, phrase = MISTAKES[name]
    with pytest.raises(error, match=phrase):
        f()
