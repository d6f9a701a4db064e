"""`jit`: static arguments, methods, keywords, promotion, by-reference arrays, switches."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import errors
from ftrace.control.traces import counter

X = np.array([0.5, -1.0, 2.0])


def traced_by(action):
    before = counter.count
    action()
    return counter.count - before


# ---------------------------------------------------------------------------------- static


def power(x, n=2, *, times=1):
    return sum(x**n for _ in range(times))


@pytest.mark.parametrize(
    "options",
    [
        {"static_argnums": 1, "static_argnames": "times"},
        {"static_argnums": (1,), "static_argnames": ("times",)},
        {"static_argnames": ("n", "times")},
        {"static_argnums": -1, "static_argnames": "times"},
    ],
)
def test_static_arguments_are_python_values(options):
    f = ftrace.jit(power, **options)
    np.testing.assert_array_equal(f(X), X**2)
    np.testing.assert_array_equal(f(X, 3), X**3)
    np.testing.assert_array_equal(f(X, n=3, times=2), 2 * X**3)
    np.testing.assert_array_equal(f(x=X, n=3), X**3)


def test_a_static_value_is_part_of_the_signature_with_its_type():
    f = ftrace.jit(lambda x, kind: (type(kind).__name__ == "bool") + x, static_argnums=1)
    assert [f(0.0, 1), f(0.0, True), f(0.0, 1)] == [0.0, 1.0, 0.0]


def test_static_arguments_may_be_any_hashable_object():
    f = ftrace.jit(lambda fun, x, axes: fun(x, axis=axes), static_argnums=(0, 2))
    np.testing.assert_array_equal(f(np.sum, np.ones((2, 3)), (0, 1)), 6.0)
    np.testing.assert_array_equal(f(np.max, np.ones((2, 3)), 0), np.ones(3))


def test_static_arguments_under_grad():
    f = ftrace.jit(lambda x, n: x**n, static_argnums=1)
    assert ftrace.grad(f)(3.0, 2) == 6.0
    assert ftrace.value_and_grad(f)(3.0, 3) == (27.0, 27.0)


def test_variadic_parameters_may_be_static():
    f = ftrace.jit(lambda x, *ns: x + sum(ns), static_argnums=(1, 2))
    assert f(1.0, 2, 3) == 6.0
    g = ftrace.jit(lambda x, **options: x * options["k"], static_argnames="k")
    assert g(2.0, k=3) == 6.0


def test_jit_is_a_decorator_with_and_without_options():
    @ftrace.jit
    def f(x):
        return x + 1.0

    @ftrace.jit(static_argnums=1)
    def g(x, n):
        return x * n

    assert f(1.0) == 2.0
    assert g(3.0, 2) == 6.0


def test_donation_and_lift_are_accepted():
    f = ftrace.jit(lambda x, y: x + y, donate_argnums=(0,), lift=False)
    x = X.copy()
    np.testing.assert_array_equal(f(x, X), 2 * X)
    np.testing.assert_array_equal(x, X)


def test_inline_records_the_equations_themselves():
    f = ftrace.jit(lambda x: np.sin(x) * x, inline=True)
    names = [e.primitive.name for e in ftrace.make_jaxpr(lambda x: f(x) + 1.0)(X).eqns]
    assert names == ["sin", "mul", "add"]
    called = ftrace.jit(lambda x: np.sin(x) * x)
    names = [e.primitive.name for e in ftrace.make_jaxpr(lambda x: called(x) + 1.0)(X).eqns]
    assert names == ["jit", "add"]
    np.testing.assert_array_equal(f(X), called(X))


# ---------------------------------------------------------------------------------- calls


@dataclass
class Model:
    w: Any
    b: Any

    @ftrace.jit
    def predict(self, x):
        return np.tanh(x @ self.w + self.b)

    @ftrace.jit(static_argnums=2)
    def repeated(self, x, n):
        for _ in range(n):
            x = x * self.b
        return x


def test_a_method_of_a_dataclass_gets_self_as_a_container():
    model = Model(np.ones((3, 2)), 0.5)
    np.testing.assert_allclose(model.predict(X), np.tanh(X @ np.ones((3, 2)) + 0.5))
    other = Model(np.zeros((3, 2)), 0.25)
    assert traced_by(lambda: other.predict(X)) == 0
    np.testing.assert_allclose(other.predict(X), np.tanh(0.25) * np.ones(2))
    np.testing.assert_allclose(model.repeated(X, 3), X / 8)


def test_a_gradient_through_a_jitted_method():
    gradient = ftrace.grad(lambda m: np.sum(m.predict(X)))(Model(np.zeros((3, 2)), 0.0))
    np.testing.assert_allclose(gradient.w, np.stack([X, X], 1))
    assert gradient.b == 2.0


def test_keyword_and_default_arguments():
    @ftrace.jit
    def f(x, scale=2.0, *, shift=0.0):
        return x * scale + shift

    assert f(3.0) == 6.0
    assert f(3.0, 4.0) == 12.0
    assert f(3.0, scale=4.0, shift=1.0) == 13.0
    assert f(shift=1.0, x=3.0) == 7.0


def test_containers_go_in_and_come_out():
    @ftrace.jit
    def f(tree):
        return {"sum": tree["a"] + tree["b"][0], "none": None, "list": [tree["b"]]}

    out = f({"a": 1.0, "b": (X, 2)})
    np.testing.assert_array_equal(out["sum"], X + 1)
    assert out["none"] is None
    np.testing.assert_array_equal(out["list"][0][0], X)
    assert out["list"][0][1] == 2


def test_none_arguments_are_part_of_the_signature():
    f = ftrace.jit(lambda x, y=None: x if y is None else x + y)
    assert f(1.0) == 1.0
    assert f(1.0, 2.0) == 3.0
    assert f(1.0, None) == 1.0


# ---------------------------------------------------------------------------------- promotion

DTYPES = ["?", "i1", "u1", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
SCALARS = [True, 2, 2.5, 1j]


@pytest.mark.sampled(3, each="left")
@pytest.mark.parametrize("right", [*DTYPES, *SCALARS], ids=str)
@pytest.mark.parametrize("left", DTYPES)
def test_promotion_under_jit_is_numpys(left, right):
    x = np.ones(2, left)
    y = np.ones(2, right) if isinstance(right, str) else right
    for f in (np.add, np.multiply, lambda a, b: a * b, lambda a, b: np.where(a == 1, a, b)):
        expected, actual = f(x, y), ftrace.jit(f)(x, y)
        np.testing.assert_array_equal(actual, expected, strict=True)
        assert ftrace.eval_shape(f, x, y).dtype == expected.dtype


@pytest.mark.parametrize("left", SCALARS, ids=str)
@pytest.mark.parametrize("right", SCALARS, ids=str)
def test_python_scalars_stay_weak_through_jit(left, right):
    f = ftrace.jit(lambda a, b: a * b)
    assert f(left, right) == left * right
    small = np.float32(2.0)
    product = ftrace.jit(lambda a, b, x: (a * b) * x)(left, right, small)
    assert type(product) is type((left * right) * small)


def test_scalar_results_are_numpy_scalars():
    f = ftrace.jit(lambda x: (np.sum(x), np.sum(x > 0), np.max(x) > 1))
    total, count, large = f(X)
    assert [type(total), type(count), type(large)] == [np.float64, np.int64, np.bool_]
    assert type(ftrace.jit(lambda x: x * 2)(np.float32(1.5))) is np.float32


# ---------------------------------------------------------------------------------- captures


def test_arrays_captured_by_a_staged_derivative_are_read_at_every_call():
    w = np.ones(3)
    functions = {
        "gradient": ftrace.jit(ftrace.grad(lambda x: np.sum(w * x * x))),
        "gradient of an argument": ftrace.jit(
            lambda x: ftrace.grad(lambda v: np.sum(v * v * x))(w)
        ),
        "jacobian": ftrace.jit(lambda x: np.sum(ftrace.jacfwd(lambda y: y * y * w)(x), axis=0)),
        "vjp": ftrace.jit(lambda x: ftrace.vjp(lambda y: y * y * w, x)[1](np.ones(3))[0]),
        "checkpoint": ftrace.jit(ftrace.grad(ftrace.checkpoint(lambda x: np.sum(w * x * x)))),
    }
    for scale in (1.0, 5.0):
        w[:] = scale
        for name, f in functions.items():
            np.testing.assert_array_equal(f(np.ones(3)), 2 * scale * np.ones(3), err_msg=name)


def test_an_aux_result_that_is_a_captured_array_is_read_at_every_call():
    w = np.ones(3)
    f = ftrace.jit(ftrace.value_and_grad(lambda x: (x * x, w), has_aux=True))
    g = ftrace.jit(ftrace.vmap(lambda x: (x, w), out_axes=(0, None)))
    for scale in (1.0, 5.0):
        w[:] = scale
        for found in (f(3.0)[0][1], g(np.ones(2))[1]):
            np.testing.assert_array_equal(found, scale * np.ones(3))
            assert not np.may_share_memory(found, w)


def test_a_plain_array_written_while_it_is_traced_is_refused():
    def f(x):
        buffer, total = np.zeros(3), 0.0
        for i in range(3):
            buffer[:] = i
            total = total + x * buffer
        return np.sum(total)

    np.testing.assert_array_equal(ftrace.grad(f)(X), [3.0, 3.0, 3.0])
    for staged in (ftrace.jit(f), ftrace.jit(ftrace.grad(f)), ftrace.make_jaxpr(f)):
        with pytest.raises(errors.MutationError, match="while the function that reads it"):
            staged(X)


def test_a_traced_array_may_be_written_while_it_is_traced():
    @ftrace.jit
    def f(x):
        buffer, total = fnp.zeros(3), 0.0
        for i in range(3):
            buffer[:] = i
            total = total + x * buffer
        return total

    np.testing.assert_array_equal(f(X), 3 * X)


# ---------------------------------------------------------------------------------- switches


def test_disable_jit_runs_plain_python():
    f = ftrace.jit(lambda x: x + 1.0 if x > 0 else x, lift=False)
    with pytest.raises(errors.TracerBoolConversionError):
        f(1.0)
    with ftrace.disable_jit():
        assert f(1.0) == 2.0
        assert ftrace.grad(f)(1.0) == 1.0
        with ftrace.disable_jit(False), pytest.raises(errors.TracerBoolConversionError):
            f(1.0)
    with pytest.raises(errors.TracerBoolConversionError):
        f(1.0)


def test_a_jitted_function_shows_its_jaxpr_and_forgets_its_traces():
    f = ftrace.jit(lambda x: np.sin(x) * x)
    assert [e.primitive.name for e in f.trace(X).eqns] == ["sin", "mul"]
    spec = ftrace.ShapeDtypeStruct((3,), float)
    assert [e.primitive.name for e in f.trace(spec).eqns] == ["sin", "mul"]
    assert traced_by(lambda: f(X)) == 0
    f.clear_cache()
    assert traced_by(lambda: f(X)) == 1


def test_ensure_compile_time_eval_computes_now():
    @ftrace.jit
    def f(x):
        with ftrace.ensure_compile_time_eval():
            n = int(fnp.sum(fnp.ones(3)))
        return x * n

    assert f(2.0) == 6.0
    assert [e.primitive.name for e in f.trace(2.0).eqns] == ["mul"]


def test_named_call_appears_under_its_name():
    f = ftrace.named_call(lambda x: np.sin(x), name="layer")
    assert f(0.5) == np.sin(0.5)
    (eqn,) = ftrace.make_jaxpr(f)(X).eqns
    assert eqn.params["name"] == "layer"
    assert ftrace.grad(f)(0.5) == pytest.approx(np.cos(0.5), rel=1e-15)


def test_block_until_ready_returns_what_it_was_given():
    tree = {"a": X, "b": (1.0, None)}
    assert ftrace.block_until_ready(tree) is tree


def test_results_own_their_memory():
    x = X.copy()
    a, b, c, d = ftrace.jit(lambda v: (v, v, v[::-1], X))(x)
    for y in (a, b, c, d):
        assert y.flags.writeable
        assert not np.may_share_memory(y, x)
        assert not np.may_share_memory(y, X)
    assert not np.may_share_memory(a, b)
