"""`jvp`, `linearize`, `vjp` and `linear_transpose`: arguments, tangents, cotangents, results."""

import numpy as np
import pytest

import ftrace
from ftrace import errors
from ftrace.errors import DtypeError

X = np.array([0.5, -1.0, 2.0])
V = np.array([1.0, 3.0, -2.0])


def f(x):
    return np.sin(x) * x, np.sum(x**3)


def push(x, v):
    return (np.cos(x) * x + np.sin(x)) * v, np.sum(3 * x**2 * v)


def pull(x, cts):
    return cts[0] * (np.cos(x) * x + np.sin(x)) + cts[1] * 3 * x**2


# ---------------------------------------------------------------------------------- jvp


def test_jvp_gives_value_and_tangent_in_the_results_containers():
    y, t = ftrace.jvp(f, (X,), (V,))
    assert type(y) is tuple
    assert type(t) is tuple
    for actual, expected in zip((*y, *t), (*f(X), *push(X, V)), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-14)


def test_lists_of_arguments_are_accepted():
    assert ftrace.jvp(lambda a, b: a * b, [2.0, 3.0], [1.0, 10.0]) == (6.0, 23.0)


@pytest.mark.parametrize("nothing", [0, None, 0.0, np.zeros((), int)])
def test_an_integer_primal_takes_zero_or_none(nothing):
    y, t = ftrace.jvp(lambda x, n: x**n, (3.0, np.int64(2)), (1.0, nothing))
    assert (y, t) == (9.0, 6.0)


def test_none_is_a_zero_tangent():
    assert ftrace.jvp(lambda a, b: a * b, (2.0, 3.0), (None, 1.0)) == (6.0, 2.0)
    _y, t = ftrace.jvp(lambda p: p["a"] * p["b"], ({"a": X, "b": X},), ({"a": V, "b": None},))
    np.testing.assert_array_equal(t, V * X)


def test_integer_results_have_zero_tangents_of_their_dtype():
    y, t = ftrace.jvp(lambda x: (np.argmax(x), x > 0, x), (X,), (V,))
    assert y[0] == 2
    assert t[0] == 0
    assert t[0].dtype == np.int64
    np.testing.assert_array_equal(t[1], np.zeros(3, bool), strict=True)
    np.testing.assert_array_equal(t[2], V)


def test_a_constant_result_has_a_zero_tangent():
    _y, t = ftrace.jvp(lambda x: (np.ones(2), 3.0), (X,), (V,))
    np.testing.assert_array_equal(t[0], np.zeros(2))
    assert t[1] == 0.0


def test_jvp_with_aux():
    y, t, aux = ftrace.jvp(lambda x: (x * x, {"x": x, "note": "text"}), (3.0,), (1.0,), True)
    assert (y, t) == (9.0, 6.0)
    assert aux == {"x": 3.0, "note": "text"}


def test_python_numbers_are_converted_as_tangents_and_arrays_of_integers_are_not():
    with pytest.raises(DtypeError, match=r"tangents\[0\] has dtype int64, and primals"):
        ftrace.jvp(np.sin, (X,), (np.array([1, 0, 2]),))
    _, t = ftrace.jvp(np.sin, (np.float32(0.5),), (1,))
    assert type(t) is np.float32


# a batch of tangents: all have one leading axis more than their primals


def batched(g, primals, tangents):
    single = [
        ftrace.jvp(g, primals, ftrace.tree.map(lambda t, k=k: t[k], tangents))[1]
        for k in range(len(ftrace.tree.leaves(tangents)[0]))
    ]
    return ftrace.tree.map(lambda *ts: np.stack(ts), *single)


def test_a_batch_of_tangents_is_as_many_single_ones():
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(3, 2)), "b": rng.normal(size=2)}
    tangents = {"w": rng.normal(size=(5, 3, 2)), "b": rng.normal(size=(5, 2))}

    def g(p, s):
        return np.tanh(X @ p["w"] + p["b"]) * s, np.sum(p["b"]), np.ones(2)

    primals, ts = (params, 2.0), (tangents, rng.normal(size=5))
    y, t = ftrace.jvp(g, primals, ts)
    np.testing.assert_array_equal(y[0], g(*primals)[0])
    expected = batched(g, primals, ts)
    assert [v.shape for v in t] == [(5, 2), (5,), (5, 2)]
    for actual, wanted in zip(t, expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-14, atol=1e-300)


def test_a_batch_of_tangents_beside_an_integer():
    _y, t = ftrace.jvp(lambda x, n: x * n, (X, np.int64(3)), (np.eye(3), 0))
    np.testing.assert_array_equal(t, 3 * np.eye(3))


def test_a_batch_of_tangents_of_scalars():
    y, t = ftrace.jvp(lambda a, b: a * b, (2.0, 5.0), (np.array([1.0, 0.0]), np.array([0.0, 1.0])))
    assert y == 10.0
    np.testing.assert_array_equal(t, [5.0, 2.0])


def test_tangents_of_which_only_some_are_batched_are_refused():
    with pytest.raises(errors.ShapeError, match=r"tangents\[0\]"):
        ftrace.jvp(lambda a, b: a * b, (X, X), (np.eye(3), V))
    with pytest.raises(errors.ShapeError, match=r"tangents\[0\] has shape \(2, 3\)"):
        ftrace.jvp(lambda a, b: a * b, (X, X), (np.ones((2, 3)), np.ones((4, 3))))


def test_a_batch_goes_through_once():
    counted = []

    def g(x):
        counted.append(None)
        return np.sin(x)

    ftrace.jvp(g, (X,), (np.eye(3),))
    assert len(counted) == 1


# ---------------------------------------------------------------------------------- linearize


def test_linearize_gives_a_linear_function_that_can_be_used_again():
    y, pushforward = ftrace.linearize(f, X)
    for actual, expected in zip(y, f(X), strict=True):
        np.testing.assert_array_equal(actual, expected)
    for scale in (1.0, -2.0, 0.0):
        for actual, expected in zip(pushforward(scale * V), push(X, scale * V), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-14)


def test_a_pushforward_can_be_transformed():
    _, pushforward = ftrace.linearize(lambda x: np.sin(x) * x, X)
    jacobian = ftrace.vmap(pushforward)(np.eye(3))
    np.testing.assert_allclose(jacobian, np.diag(np.cos(X) * X + np.sin(X)), rtol=1e-14)
    np.testing.assert_allclose(ftrace.jit(pushforward)(V), pushforward(V), rtol=1e-15)
    gradient = ftrace.grad(lambda v: np.sum(pushforward(v)))(V)
    np.testing.assert_allclose(gradient, np.cos(X) * X + np.sin(X), rtol=1e-14)


def test_linearize_of_several_arguments_with_aux():
    y, pushforward, aux = ftrace.linearize(
        lambda a, n: (a[0] * a[1] * n, {"n": n}), (2.0, 3.0), np.int64(5), has_aux=True
    )
    assert y == 30.0
    assert aux == {"n": 5}
    assert pushforward((1.0, 10.0), 0) == 5 * (3.0 + 20.0)
    assert pushforward((1.0, 10.0), None) == 5 * (3.0 + 20.0)


def test_linearize_does_not_see_later_writes():
    x = X.copy()
    _, pushforward = ftrace.linearize(lambda y: y * y, x)
    x[:] = 0.0
    np.testing.assert_array_equal(pushforward(V), 2 * X * V)


# ---------------------------------------------------------------------------------- vjp


def test_vjp_gives_one_cotangent_for_each_primal():
    y, pullback = ftrace.vjp(lambda a, b: {"p": a * b, "s": a + b}, 2.0, 3.0)
    assert y == {"p": 6.0, "s": 5.0}
    assert pullback({"p": 1.0, "s": 10.0}) == (13.0, 12.0)
    assert pullback({"p": 0.0, "s": 1.0}) == (1.0, 1.0)


def test_none_is_no_cotangent():
    _, pullback = ftrace.vjp(lambda x: (x * x, {"y": 3 * x}), X)
    np.testing.assert_array_equal(pullback((np.ones(3), {"y": None}))[0], 2 * X)
    np.testing.assert_array_equal(pullback((None, {"y": V}))[0], 3 * V)
    np.testing.assert_array_equal(pullback(None)[0], np.zeros(3))


def test_an_integer_primal_gets_none():
    _y, pullback = ftrace.vjp(lambda x, n: x * n, 2.0, np.int64(3))
    assert pullback(1.0) == (3.0, None)


def test_an_integer_result_takes_any_cotangent_that_says_nothing():
    _y, pullback = ftrace.vjp(lambda x: (np.argmax(x), np.sum(x)), X)
    np.testing.assert_array_equal(pullback((None, 2.0))[0], [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(pullback((0, 2.0))[0], [2.0, 2.0, 2.0])


def test_vjp_with_aux():
    y, pullback, aux = ftrace.vjp(lambda x: (np.sum(x * x), (x, "text")), X, has_aux=True)
    assert y == np.sum(X * X)
    assert aux[1] == "text"
    np.testing.assert_array_equal(pullback(0.5)[0], X)


def test_a_pullback_can_be_used_again_and_transformed():
    _, pullback = ftrace.vjp(lambda x: np.sin(x) * x, X)
    slope = np.cos(X) * X + np.sin(X)
    np.testing.assert_allclose(pullback(V)[0], slope * V, rtol=1e-14)
    np.testing.assert_allclose(pullback(V)[0], slope * V, rtol=1e-14)
    np.testing.assert_allclose(ftrace.vmap(pullback)(np.eye(3))[0], np.diag(slope), rtol=1e-14)
    np.testing.assert_allclose(ftrace.jit(pullback)(V)[0], slope * V, rtol=1e-14)


def test_cotangents_may_be_python_numbers_or_of_another_width():
    _, pullback = ftrace.vjp(lambda x: np.sum(x * x), np.ones(2, np.float32))
    assert pullback(1)[0].dtype == np.float32
    assert pullback(np.float64(2.0))[0].dtype == np.float32


def test_a_complex_result_takes_a_real_cotangent():
    _y, pullback = ftrace.vjp(lambda z: z * z, 1.0 + 2.0j)
    assert pullback(1.0) == (2.0 + 4.0j,)
    assert type(pullback(1.0)[0]) is np.complex128


def test_the_results_of_a_pullback_own_their_memory():
    _, pullback = ftrace.vjp(lambda x, y: (x, y), X, X)
    ct = np.ones(3)
    a, b = pullback((ct, ct))
    assert not np.may_share_memory(a, b)
    assert not np.may_share_memory(a, ct)
    assert a.flags.writeable


# ---------------------------------------------------------------------------------- transpose


def test_linear_transpose_of_a_matrix_product():
    A = np.arange(6.0).reshape(2, 3)
    transposed = ftrace.linear_transpose(lambda x: A @ x, X)
    np.testing.assert_array_equal(transposed(np.array([1.0, -2.0]))[0], A.T @ [1.0, -2.0])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * 2 if x.sum() > 0 else x * 3,
        lambda x: np.where(x > 0, x, -x),
        lambda x: x[x.astype(int)],
        lambda x: ftrace.lax.while_loop(lambda c: c.sum() < 3, lambda c: c * 2, x),
    ],
)
def test_what_linear_operands_decide_is_not_transposed(f):
    with pytest.raises(errors.RuleError, match=r"depends on the linear operands|cotangents"):
        ftrace.linear_transpose(f, X)(X)


def test_linear_transpose_takes_structs_and_containers():
    spec = {"a": ftrace.ShapeDtypeStruct((3,), np.float32), "b": np.float64(0)}
    transposed = ftrace.linear_transpose(lambda p: (np.sum(p["a"]), p["b"] * 3.0), spec)
    (found,) = transposed((np.float32(2.0), 1.0))
    np.testing.assert_array_equal(found["a"], np.full(3, 2.0, np.float32), strict=True)
    assert found["b"] == 3.0


def test_linear_transpose_of_an_argument_that_is_not_used():
    assert ftrace.linear_transpose(lambda a, b: 2.0 * a, 1.0, 1.0)(5.0) == (10.0, 0.0)


def test_linear_transpose_twice_is_the_function():
    def g(x):
        return 3.0 * x[::-1] + np.cumsum(x)

    once = ftrace.linear_transpose(g, X)
    twice = ftrace.linear_transpose(lambda ct: once(ct)[0], X)
    np.testing.assert_allclose(twice(V)[0], g(V), rtol=1e-15)


def test_linear_transpose_reads_captured_values():
    def outer(s):
        return ftrace.linear_transpose(lambda x: s * s * x, 1.0)(5.0)[0]

    assert outer(3.0) == 45.0
    assert ftrace.grad(outer)(3.0) == 30.0
    assert ftrace.jit(outer)(3.0) == 45.0


@pytest.mark.parametrize(
    "g",
    [lambda x: x * x, lambda x: x @ x, lambda x: np.exp(x), lambda x: 1.0 / x, np.abs],
    ids=["square", "dot", "exp", "reciprocal", "abs"],
)
def test_what_is_not_linear_cannot_be_transposed(g):
    y = g(X)
    with pytest.raises(errors.RuleError, match="cannot be transposed"):
        ftrace.linear_transpose(g, X)(np.ones_like(y)[()])


def test_hvp_is_the_hessian_times_a_vector():
    def energy(x, s):
        return np.sum(np.sin(x) * x * s) + s**3

    product = ftrace.hvp(energy, (X, 2.0), (V, 0.5))
    hessian = ftrace.hessian(energy, (0, 1))(X, 2.0)
    np.testing.assert_allclose(product[0], hessian[0][0] @ V + hessian[0][1] * 0.5, rtol=1e-13)
    np.testing.assert_allclose(product[1], hessian[1][0] @ V + hessian[1][1] * 0.5, rtol=1e-13)
    np.testing.assert_array_equal(ftrace.hvp(lambda x: np.sum(x**3), (X,), (V,)), 6 * X * V)


def test_a_result_of_none_has_a_cotangent_of_none():
    for fun in (lambda x: (x, None), lambda x: {"a": x, "b": None}):
        y, pull = ftrace.vjp(fun, 2.0)
        ct = ftrace.tree.map(lambda _: 3.0, y)
        assert pull(ct) == (3.0,)
        assert ftrace.linear_transpose(fun, 2.0)(ct) == (3.0,)
    pull = ftrace.vjp(lambda x: (x, None), 2.0)[1]
    assert pull((None, None)) == (0.0,)
    for wrong in ((3.0, 1.0), ((3.0,), None), (3.0,)):
        with pytest.raises(ftrace.errors.TreeError, match="cotangent that differs"):
            pull(wrong)
