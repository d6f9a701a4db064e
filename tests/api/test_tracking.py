"""`track`, `gradient_of`, `with_gradient` (D15, E2, E3, E8, E9, E12, E22)."""

import copy
import pickle
import tracemalloc

import numpy as np
import pytest

import ftrace
from ftrace import errors
from ftrace.core.trace import EVAL, ctx

X = np.array([0.5, -1.0, 2.0])
A = np.arange(6.0).reshape(2, 3) / 5 - 0.5


# ---------------------------------------------------------------------------------- with_gradient


def test_the_papers_numbers():
    r = ftrace.with_gradient(lambda a: np.sin(3 * a), a=1.2)
    assert abs(r.value - -0.4425204) < 1e-7
    assert abs(r.gradient - -2.690275) < 1e-6
    r = ftrace.with_gradient(lambda a, b: a * b + a**2, a=3.0, b=8.0)
    assert r.gradient == {"a": 14.0, "b": 3.0}
    assert r.value == 33.0


@pytest.mark.parametrize("wrap", [lambda f: f, ftrace.jit], ids=["eager", "jit"])
def test_the_gradient_has_a_form_for_each_kind_of_value_and_variable(wrap):
    def of(f, x):
        return wrap(lambda x: ftrace.with_gradient(f, x=x))(x).gradient

    assert of(lambda x: x * x, 3.0) == 6.0
    np.testing.assert_array_equal(of(lambda x: np.sum(x * x), x=X), 2 * X)
    np.testing.assert_array_equal(of(lambda x: A @ x, X), A)
    by_list = of(lambda x: x[0] * np.sum(x[1]), [2.0, X])
    assert by_list[0] == np.sum(X)
    np.testing.assert_array_equal(by_list[1], np.full(3, 2.0))
    of_list = of(lambda x: [x**2, {"s": np.sum(x)}], X)
    np.testing.assert_array_equal(of_list[0], np.diag(2 * X))
    np.testing.assert_array_equal(of_list[1]["s"], np.ones(3))
    both = of(lambda x: [x["a"] * 2, x["b"] * x["a"]], {"a": 1.0, "b": X})
    np.testing.assert_array_equal(both[1]["a"], X)
    np.testing.assert_array_equal(both[1]["b"], np.eye(3))


def test_positional_arguments_stay_where_others_are_named():
    r = ftrace.with_gradient(lambda w, x: w @ x, A, x=X)
    np.testing.assert_array_equal(r.gradient, A)
    r = ftrace.with_gradient(lambda w, x: np.sum(w @ x), A, X)
    np.testing.assert_allclose(r.gradient[1], np.sum(A, 0), rtol=1e-15, atol=1e-15)
    r = ftrace.with_gradient(lambda a, b: [a * b, {"s": a}], a=2.0, b=3.0)
    assert r.gradient == [{"a": 3.0, "b": 2.0}, {"s": {"a": 1.0, "b": 0.0}}]


def test_a_result_has_second_derivatives():  # E22
    r = ftrace.with_gradient(lambda a: np.sin(3 * a), a=1.2)
    np.testing.assert_allclose(r.hessian, -9 * np.sin(3.6), rtol=1e-14)
    r = ftrace.with_gradient(lambda a, b: a * b + a**2, a=3.0, b=8.0)
    assert r.hessian == {"a": {"a": 2.0, "b": 1.0}, "b": {"a": 1.0, "b": 0.0}}
    assert ftrace.with_gradient(np.multiply, 3.0, 4.0).hessian == ((0.0, 1.0), (1.0, 0.0))
    r = ftrace.with_gradient(lambda a, b: [a["x"] * np.sum(b) ** 2], a={"x": 3.0}, b=X)
    second = r.hessian[0]
    np.testing.assert_allclose(second["a"]["x"]["b"], 2 * np.sum(X) * np.ones(3))
    np.testing.assert_allclose(second["b"]["b"], 6 * np.ones((3, 3)))
    assert second["a"]["x"]["a"]["x"] == 0.0
    rows = ftrace.with_gradient(lambda x: x**3, x=X).hessian
    assert rows.shape == (3, 3, 3)
    np.testing.assert_allclose(np.einsum("iii->i", rows), 6 * X)


def test_second_derivatives_of_a_result_in_transformed_functions():
    def second(x):
        return ftrace.with_gradient(np.sin, x).hessian

    for transformed in (second, ftrace.jit(second)):
        np.testing.assert_allclose(transformed(0.5), -np.sin(0.5), rtol=1e-14)
    np.testing.assert_allclose(ftrace.grad(second)(0.5), -np.cos(0.5), rtol=1e-14)
    mixed = ftrace.jit(lambda x: ftrace.with_gradient(lambda a, b: a * b**2, a=x, b=x).hessian)
    assert mixed(3.0) == {"a": {"a": 0.0, "b": 6.0}, "b": {"a": 6.0, "b": 6.0}}


def test_second_derivatives_are_those_at_the_call():
    x, w = X.copy(), X.copy()
    r = ftrace.with_gradient(lambda x: np.sum(x**3), x)
    other = ftrace.with_gradient(lambda x: np.sum(w * x**3), x)
    x[:] = 7.0
    w[:] = 1.0
    np.testing.assert_allclose(r.hessian, np.diag(6 * X))
    with pytest.raises(errors.DerivativeError, match="another value"):
        _ = other.hessian


@pytest.mark.parametrize("change", [1e-9, -3e-12])
def test_a_small_change_of_what_is_read_is_found(change):
    w = np.full(3, 1e-9)
    r = ftrace.with_gradient(lambda x: np.sum(w * x**3), X)
    w += change
    with pytest.raises(errors.DerivativeError, match="another value"):
        _ = r.hessian
    w = np.full(3, 1.0)
    r = ftrace.with_gradient(lambda x: np.sum(w * (x - X)), X)
    w[:] = 2.0
    with pytest.raises(errors.DerivativeError, match="another gradient"):
        _ = r.hessian


def test_results_that_cancel_and_are_written_have_hessians():
    big = np.random.default_rng(0).standard_normal(1000)
    r = ftrace.with_gradient(lambda x: np.sum(np.sin(x)) - np.sum(np.sin(x[::-1])), big)
    r.gradient[:] = 3.0
    np.testing.assert_allclose(r.hessian, np.zeros((1000, 1000)), atol=1e-15)


def test_arguments_that_stay_are_not_copied_and_not_changed():
    w = np.ones((500, 500))
    x = np.ones(500)
    tracemalloc.start()
    try:
        r = ftrace.with_gradient(lambda w, x: np.sum(w[0] * x**3), w, x=x)
        assert tracemalloc.get_traced_memory()[0] < w.nbytes // 2
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(r.hessian, 6 * np.eye(500))
    r = ftrace.with_gradient(lambda w, x: np.sum(w[0] * x**3), w, x=x)
    w[1, 1] = 7.0
    with pytest.raises(errors.MutationError, match="that stays was changed"):
        _ = r.hessian


def test_second_derivatives_with_settings_in_containers():
    for setting in (3, "text"):
        r = ftrace.with_gradient(
            lambda a, b: b * np.sum(a["x"] ** 2), a={"x": X, "n": setting}, b=2.0
        )
        second = r.hessian
        assert second["a"]["n"] is None
        np.testing.assert_allclose(second["a"]["x"]["a"]["x"], 4 * np.eye(3))
        np.testing.assert_allclose(second["b"]["a"]["x"], 2 * X)


def test_a_result_that_was_taken_apart_says_where_its_hessian_is():
    r = ftrace.with_gradient(np.sin, 1.0)
    with ftrace.track(x=1.0) as t:
        tracked = t.result_of(np.sin(t.x))
    mapped = ftrace.vmap(lambda x: ftrace.with_gradient(np.sin, x))(X)
    for apart in (tracked, mapped, pickle.loads(pickle.dumps(r)), copy.copy(r)):
        with pytest.raises(errors.DerivativeError, match="nest `track` blocks"):
            _ = apart.hessian
    assert pickle.loads(pickle.dumps(r)) == r


def test_decisions_are_lifted_in_with_gradient():
    def f(a):
        if a > 0:
            return np.sqrt(a)
        return a * 0.0

    g = ftrace.jit(ftrace.vmap(lambda a: ftrace.with_gradient(f, a=a).gradient))
    np.testing.assert_allclose(g(np.array([4.0, -1.0])), [0.25, 0.0])


def test_with_gradient_of_nothing_is_named():
    with pytest.raises(errors.DtypeError, match="nothing to differentiate by"):
        ftrace.with_gradient(lambda: 1.0)
    with pytest.raises(errors.DtypeError, match="function first"):
        ftrace.with_gradient(1.0, a=2.0)
    with pytest.raises(errors.DtypeError, match="no derivative"):
        ftrace.with_gradient(lambda a: a * 1.0, a=np.arange(3))


# ---------------------------------------------------------------------------------- track


def test_the_gradient_of_an_expression_where_it_stands():
    with ftrace.track(a=7.0) as t:
        r = t.a**2
        result = t.result_of(r)
        assert (t.gradient_of(r), ftrace.gradient_of(r)) == (14.0, 14.0)
    assert (result.value, result.gradient) == (49.0, 14.0)
    with ftrace.track(x=2.0) as t:
        assert t.gradient_of(np.log(t.x)) == 0.5
    with ftrace.track(a=3.0, b=8.0) as t:
        assert t.gradient_of(t.a * t.b + t.a**2) == {"a": 14.0, "b": 3.0}
        assert t.gradient_of(t.b * 2) == {"a": 0.0, "b": 2.0}
        assert t.gradient_of(5.0) == {"a": 0.0, "b": 0.0}
        assert t.gradient_of(3) is None


def test_blocks_nest():
    with ftrace.track(a=7.0) as t:
        with ftrace.track(a=t.a) as inner:
            slope = inner.gradient_of(inner.a**3)
            assert slope == 3 * 49.0
        assert ftrace.gradient_of(slope) == 42.0
    with ftrace.track(x=X) as t:
        with ftrace.track(x=t.x) as inner:
            g = inner.gradient_of(np.sum(inner.x**3 * inner.x[0]))
        second = t.gradient_of(g)
    wanted = ftrace.hessian(lambda x: np.sum(x**3 * x[0]))(X)
    np.testing.assert_allclose(second, wanted, rtol=1e-14)


def test_perturbations_of_nested_blocks_are_not_confused():
    with ftrace.track(x=1.0) as t:
        with ftrace.track(y=1.0) as inner:
            slope = inner.gradient_of(t.x + inner.y)
        assert t.gradient_of(t.x * slope) == 1.0


def test_gradients_are_asked_for_in_called_functions():
    def called(y):
        return ftrace.gradient_of(np.sin(y) * 2)

    with ftrace.track(a=0.5) as t:
        assert called(t.a * 3) == pytest.approx(6 * np.cos(1.5), rel=1e-15)


def test_values_are_arrays_and_containers():
    with ftrace.track(x=X, p={"w": A, "n": 3}) as t:
        y = t.p["w"] @ t.x
        g = t.gradient_of({"y": y, "s": np.sum(y) * t.p["n"]})
        v = t.value_of([y, np.sum(y)])
    np.testing.assert_array_equal(g["y"]["x"], A)
    np.testing.assert_array_equal(g["y"]["p"]["w"], np.einsum("ij,k->ijk", np.eye(2), X))
    np.testing.assert_allclose(g["s"]["x"], 3 * np.sum(A, 0), rtol=1e-15, atol=1e-15)
    assert g["s"]["p"]["n"] is None
    assert type(v[0]) is np.ndarray
    assert v[0].flags.writeable
    np.testing.assert_array_equal(v[0], A @ X)


def distance(vx, vy, dt=0.01, g=9.8):
    x = y = 0.0
    while True:
        last_x, last_y = x, y
        x, y = x + vx * dt, y + vy * dt
        if y < 0:
            return (x * last_y - last_x * y) / (last_y - y)
        vy = vy - g * dt


def test_native_loops_and_decisions_by_values():
    with ftrace.track(a=0.7) as t:
        found = t.gradient_of(distance(np.cos(t.a), np.sin(t.a)))
    wanted = ftrace.grad(lambda a: distance(np.cos(a), np.sin(a)))(0.7)
    assert found == wanted


def test_blocks_in_transformed_functions():
    def f(x):
        with ftrace.track(y=x) as t:
            return t.gradient_of(np.sum(np.sin(t.y) * x))

    wanted = np.cos(X) * X
    np.testing.assert_allclose(f(X), wanted, rtol=1e-15)
    np.testing.assert_allclose(ftrace.jit(f)(X), wanted, rtol=1e-15)
    np.testing.assert_allclose(ftrace.vmap(f)(np.stack([X, X]))[1], wanted, rtol=1e-15)
    slope = ftrace.jacfwd(f)(X)
    np.testing.assert_allclose(slope, np.diag(np.cos(X) - np.sin(X) * X), rtol=1e-14)
    np.testing.assert_allclose(ftrace.jacrev(f)(X), slope, rtol=1e-14)


def test_in_place_writes_are_followed_and_variables_may_not_be_written():
    with ftrace.track(x=X) as t:
        y = t.x * 1.0
        y[0] = t.x[1] ** 2
        np.testing.assert_array_equal(t.gradient_of(np.sum(y)), [0.0, 2 * X[1] + 1, 1.0])
    with pytest.raises(errors.MutationError), ftrace.track(x=X) as t:
        t.x[0] = 1.0


def test_what_a_block_has_read_stays_as_it_was():
    small, big = np.ones(3), np.ones((100, 100))
    with ftrace.track(x=X, s=2.0) as t:
        y = np.sum(t.x * small) + np.sum(big * t.s * t.s)
        small[:] = 5.0
        with pytest.raises((ValueError, errors.MutationError)):
            big[0, 0] = 2.0
        np.testing.assert_array_equal(t.gradient_of(y)["x"], np.ones(3))
    big[0, 0] = 2.0
    assert big.flags.writeable


def test_complex_variables_have_the_gradient_of_grad():
    z = X + 1j
    with ftrace.track(z=z) as t:
        found = t.gradient_of(np.sum(np.abs(t.z) ** 2))
    with pytest.raises(errors.DtypeError, match="complex value"), ftrace.track(z=z) as t:
        t.gradient_of(t.z * 1j)
    np.testing.assert_array_equal(found, ftrace.grad(lambda z: np.sum(np.abs(z) ** 2))(z))


def test_nothing_is_left_of_a_block_that_raises():
    with pytest.raises(ZeroDivisionError), ftrace.track(x=1.0):
        1 / 0  # noqa: B018
    assert ctx.trace is EVAL
    with pytest.raises(errors.UnexpectedTracerError, match="outside of a `track` block"):
        ftrace.gradient_of(1.0)


def test_what_is_asked_in_the_wrong_place_is_named():
    inside = pytest.raises(errors.UnexpectedTracerError, match="inside of a differentiation")
    with inside, ftrace.track(x=1.0) as t:
        ftrace.grad(lambda z: t.gradient_of(z * t.x))(1.0)
    with inside, ftrace.track(x=1.0) as t, ftrace.track(x=2.0):
        t.gradient_of(t.x * 2)
    with (
        pytest.raises(AttributeError, match="has no variable 'z'; it has x"),
        ftrace.track(x=1.0) as t,
    ):
        t.z  # noqa: B018
    with ftrace.track(x=1.0) as t:
        y = t.x * 2
    with pytest.raises(errors.UnexpectedTracerError, match="not open"):
        t.gradient_of(y)
    with pytest.raises(errors.UnexpectedTracerError):
        y + 1
    with pytest.raises(errors.UnexpectedTracerError, match="not open"):
        ftrace.track(x=1.0).gradient_of(1.0)


def test_wrong_variables_are_named():
    with pytest.raises(errors.DtypeError, match="no variable"):
        ftrace.track()
    with pytest.raises(errors.DtypeError, match="method of the block"):
        ftrace.track(gradient_of=1.0)
    with pytest.raises(errors.DtypeError, match="which is i64"), ftrace.track(n=np.arange(3)):
        pass
    with pytest.raises(errors.DtypeError, match="not an array"), ftrace.track(n="x"):
        pass
    assert ctx.trace is EVAL
