"""The options of the public derivatives: arguments, structure, modes, chunks, complex numbers."""

import inspect
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.errors import DtypeError, FtraceError, ShapeError, TreeError
from tests.counting import CountedSin

X = np.array([0.3, 0.7, -0.4, 1.2, 0.5])


def area(width, height=2.0, *, scale=1.0):
    return width * height * scale


@pytest.mark.parametrize(
    ("argnums", "expected"),
    [(0, 6.0), (1, 3.0), (-1, 3.0), ((0, 1), (6.0, 3.0)), ("width", 6.0), ("height", 3.0)],
)
def test_argnums_are_positions_tuples_or_names(argnums, expected):
    gradient = ftrace.grad(area, argnums)(3.0, 6.0)
    assert gradient == expected
    value, again = ftrace.value_and_grad(area, argnums)(3.0, 6.0)
    assert (value, again) == (18.0, expected)


def test_argnums_may_name_arguments_passed_by_keyword():
    assert ftrace.grad(area, "scale")(3.0, 6.0, scale=2.0) == 18.0
    assert ftrace.grad(area, ("scale", "height"))(3.0, height=6.0, scale=2.0) == (18.0, 6.0)


@pytest.mark.parametrize("argnums", [2, -3, "depth"])
def test_argnums_that_the_call_does_not_have_are_refused(argnums):
    with pytest.raises(TreeError, match="argnums"):
        ftrace.grad(area, argnums)(3.0, 6.0)


def test_aux_is_returned_as_it_is():
    def f(x):
        return np.sum(x * x), {"x": x, "name": "squares", "n": 3}

    gradient, aux = ftrace.grad(f, has_aux=True)(X)
    np.testing.assert_array_equal(gradient, 2 * X)
    assert aux["name"] == "squares"
    np.testing.assert_array_equal(aux["x"], X)
    (value, aux), gradient = ftrace.value_and_grad(f, has_aux=True)(X)
    assert value == np.sum(X * X)
    assert aux["n"] == 3
    y, dy, aux = ftrace.jvp(f, (X,), (np.ones(5),), has_aux=True)
    assert (y, dy, aux["name"]) == (value, np.sum(2 * X), "squares")
    y, pull, aux = ftrace.vjp(f, X, has_aux=True)
    np.testing.assert_array_equal(pull(1.0)[0], 2 * X)
    assert aux["n"] == 3
    jacobian, aux = ftrace.jacfwd(f, has_aux=True)(X)
    np.testing.assert_array_equal(jacobian, 2 * X)
    assert aux["name"] == "squares"
    jacobian, aux = ftrace.jacrev(f, has_aux=True)(X)
    np.testing.assert_array_equal(jacobian, 2 * X)
    np.testing.assert_array_equal(aux["x"], X)


Point = namedtuple("Point", ["x", "y"])


@dataclass
class Model:
    """A user's own dataclass, not registered anywhere."""

    weights: Any
    bias: Any
    name: str = field(default="linear", metadata={"static": True})


def test_gradients_have_the_containers_of_the_arguments():
    def loss(model, data):
        return np.sum((model.weights * data["x"] + model.bias - data["y"].x) ** 2)

    model = Model(np.array([1.0, 2.0]), 0.5, "mine")
    data = OrderedDict(x=np.array([1.0, -1.0]), y=Point(np.zeros(2), None))
    gradient, by_data = ftrace.grad(loss, (0, 1))(model, data)
    assert type(gradient) is Model
    assert gradient.name == "mine"
    np.testing.assert_allclose(gradient.weights, [3.0, 3.0])
    np.testing.assert_allclose(gradient.bias, 0.0)
    assert type(by_data) is OrderedDict
    assert type(by_data["y"]) is Point
    assert by_data["y"].y is None


def test_signatures_and_names_survive():
    for transform in (ftrace.grad, ftrace.value_and_grad, ftrace.vmap, ftrace.jit, ftrace.jacfwd):
        wrapped = transform(area)
        assert inspect.signature(wrapped) == inspect.signature(area)
        assert wrapped.__name__ == "area"


def test_python_integers_count_as_floats():
    assert ftrace.grad(lambda x: x**3)(2) == 12.0
    assert ftrace.jacfwd(lambda x: x * x)(3) == 6.0
    assert ftrace.jacrev(lambda x: x * x)(3) == 6.0


@pytest.mark.parametrize("bad", [np.arange(3), np.array([True]), np.int64(2)])
def test_integer_arrays_are_refused_with_the_fix(bad):
    with pytest.raises(DtypeError, match="astype"):
        ftrace.grad(lambda x: np.sum(x * 1.0))(bad)


def test_integer_arrays_may_be_allowed_and_get_none():
    gradient = ftrace.grad(lambda p: np.sum(p["x"] * p["n"]), allow_int=True)(
        {"x": np.ones(3), "n": np.arange(3)}
    )
    np.testing.assert_array_equal(gradient["x"], [0, 1, 2])
    assert gradient["n"] is None


@pytest.mark.parametrize("nothing", [0, None, 0.0])
def test_jvp_takes_zero_or_none_for_integers(nothing):
    y, dy = ftrace.jvp(lambda x, n: x * n, (3.0, 2), (1.0, nothing))
    assert (y, dy) == (6.0, 2.0)


@pytest.mark.parametrize("transform", [ftrace.jit, ftrace.vmap])
def test_jvp_refuses_a_traced_tangent_for_an_integer(transform):
    with pytest.raises(DtypeError, match=r"tangents\[0\] is .*i64.*no tangent"):
        transform(lambda n, t: ftrace.jvp(lambda n: n * 2.0, (n,), (t,)))(np.arange(3), np.ones(3))


def test_jvp_refuses_a_tangent_for_an_integer():
    with pytest.raises(DtypeError, match="no tangent"):
        ftrace.jvp(lambda x, n: x * n, (3.0, 2), (1.0, 1))


def test_tangents_with_one_more_axis_go_through_in_one_pass():
    counted = CountedSin()
    f = lambda x, n: counted.row(x) * x * n  # noqa: E731 - a short program
    directions = np.random.default_rng(1).normal(size=(4, 5))
    y, tangents = ftrace.jvp(f, (X, 2), (directions, None))
    assert counted.runs == 1
    np.testing.assert_allclose(y, 2 * np.sin(X) * X)
    single = [ftrace.jvp(f, (X, 2), (d, None))[1] for d in directions]
    np.testing.assert_array_equal(tangents, np.stack(single))


@pytest.mark.parametrize(
    ("primals", "tangents", "error", "words"),
    [
        ((1.0,), (1.0, 2.0), TreeError, "at tangents: expected a tuple of 1, got a tuple of 2"),
        (({"a": 1.0},), ({"b": 1.0},), TreeError, r"at tangents\[0\]: .* missing 'a'; unexpected"),
        ((np.ones(3),), (np.ones(2),), ShapeError, r"tangents\[0\] has shape \(2,\), and primals"),
        ((np.ones(3, "f4"),), (np.ones(3),), DtypeError, r"tangents\[0\] has dtype float64, and"),
    ],
)
def test_primals_and_tangents_must_match(primals, tangents, error, words):
    with pytest.raises(error, match=words):
        ftrace.jvp(lambda x: x, primals, tangents)


def test_pullback_takes_none_for_no_contribution():
    _, pull = ftrace.vjp(lambda x: (x * 2.0, x * x), 3.0)
    assert pull((None, 1.0)) == (6.0,)
    assert pull((1.0, None)) == (2.0,)
    assert pull(None) == (0.0,)
    with pytest.raises(TreeError, match="ct"):
        pull(1.0)


def test_pullback_checks_shapes_and_dtypes():
    _, pull = ftrace.vjp(np.sin, X)
    with pytest.raises(ShapeError, match=r"ct has shape \(\), and the result it belongs to is f64"):
        pull(1.0)
    with pytest.raises(DtypeError, match="ct is complex, and the result it belongs to is f64"):
        pull(X + 1j)


def test_pushforward_and_pullback_are_functions_that_transform():
    _, push = ftrace.linearize(lambda x: np.sin(x) * x, X)
    basis = np.eye(5)
    jacobian = np.diag(np.cos(X) * X + np.sin(X))
    np.testing.assert_allclose(ftrace.vmap(push)(basis), jacobian)
    np.testing.assert_allclose(ftrace.jit(push)(basis[1]), jacobian[1])
    _, pull = ftrace.vjp(lambda x: np.sin(x) * x, X)
    np.testing.assert_allclose(ftrace.vmap(lambda ct: pull(ct)[0])(basis), jacobian)
    np.testing.assert_allclose(ftrace.linear_transpose(push, X)(basis[2])[0], jacobian[2])


def test_linear_transpose_of_a_matrix_product_is_the_product_with_its_transpose():
    a = np.arange(6.0).reshape(2, 3)
    transposed = ftrace.linear_transpose(lambda x: a @ x, ftrace.ShapeDtypeStruct((3,), float))
    np.testing.assert_array_equal(transposed(np.array([1.0, 2.0]))[0], a.T @ [1.0, 2.0])
    with pytest.raises(FtraceError, match="not linear"):
        ftrace.linear_transpose(np.sin, 1.0)(1.0)


@pytest.mark.parametrize(("chunk", "passes"), [(None, 1), (1, 5), (2, 3), (3, 2), (5, 1), (9, 1)])
def test_jacfwd_takes_ceil_k_over_n_passes_and_the_primal_once_a_pass(chunk, passes):
    counted = CountedSin()
    jacobian = ftrace.jacfwd(lambda x: counted.row(x) * x, chunk_size=chunk)(X)
    np.testing.assert_allclose(jacobian, np.diag(np.cos(X) * X + np.sin(X)), rtol=1e-14)
    assert counted.runs == passes


@pytest.mark.parametrize("chunk", [None, 1, 2, 3, 5, 9])
def test_jacrev_runs_the_primal_once_whatever_the_chunk(chunk):
    counted = CountedSin()
    jacobian = ftrace.jacrev(lambda x: counted.row(x) * x, chunk_size=chunk)(X)
    np.testing.assert_allclose(jacobian, np.diag(np.cos(X) * X + np.sin(X)), rtol=1e-14)
    assert counted.runs == 1


@pytest.mark.parametrize(("chunk", "passes"), [(None, 1), (2, 3), (4, 2)])
def test_hessian_takes_ceil_k_over_n_passes(chunk, passes):
    counted = CountedSin()
    hessian = ftrace.hessian(lambda x: np.sum(counted.row(x) * x), chunk_size=chunk)(X)
    np.testing.assert_allclose(hessian, np.diag(2 * np.cos(X) - X * np.sin(X)), atol=1e-14)
    assert counted.runs == passes


@pytest.mark.parametrize("transform", [ftrace.jacfwd, ftrace.jacrev])
def test_jacobian_blocks_have_result_and_input_shapes(transform):
    def f(p):
        return {"outer": np.outer(p[0], p[1]), "sum": np.sum(p[0])}

    blocks = transform(f)((np.arange(2.0), np.arange(3.0)))
    assert blocks["outer"][0].shape == (2, 3, 2)
    assert blocks["outer"][1].shape == (2, 3, 3)
    assert blocks["sum"][0].shape == (2,)
    np.testing.assert_array_equal(blocks["sum"][1], np.zeros(3))
    np.testing.assert_array_equal(blocks["outer"][1][1], np.eye(3))


def test_forward_and_reverse_jacobians_agree_on_rosenbrock_and_ackley():
    def rosenbrock(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    def ackley(x):
        mean_square, mean_cos = np.mean(x**2), np.mean(np.cos(2 * np.pi * x))
        return -20 * np.exp(-0.2 * np.sqrt(mean_square)) - np.exp(mean_cos) + 20 + np.e

    for f in (rosenbrock, ackley):
        np.testing.assert_allclose(ftrace.jacfwd(f)(X), ftrace.grad(f)(X), rtol=1e-11)
        np.testing.assert_allclose(
            ftrace.jacfwd(ftrace.jacfwd(f))(X), ftrace.hessian(f)(X), rtol=1e-9
        )
        v = np.arange(5.0)
        np.testing.assert_allclose(ftrace.hvp(f, (X,), (v,)), ftrace.hessian(f)(X) @ v, rtol=1e-9)


@pytest.mark.parametrize(
    ("f", "z", "expected"),
    [
        (lambda z: np.real(z), 3 + 4j, 1),
        (lambda z: np.imag(z), 3 + 4j, -1j),
        (lambda z: np.abs(z) ** 2, 3 + 4j, 6 - 8j),
        (lambda z: np.real(z * z), 3 + 4j, 6 + 8j),
        (lambda z: np.abs(z), 3 + 4j, 0.6 - 0.8j),
        (lambda z: np.real(z * np.conj(z)), 3 + 4j, 6 - 8j),
        (lambda z: np.real(np.exp(z)), 0.5 + 0.2j, np.exp(0.5 + 0.2j)),
    ],
)
def test_gradients_of_real_functions_of_complex_numbers_follow_the_convention(f, z, expected):
    np.testing.assert_allclose(ftrace.grad(f)(z), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("f", "derivative"),
    [
        (np.sin, np.cos),
        (np.exp, np.exp),
        (np.log, lambda z: 1 / z),
        (np.sqrt, lambda z: 0.5 / np.sqrt(z)),
        (lambda z: z**3, lambda z: 3 * z**2),
        (lambda z: z ** (1.5 + 0.5j), lambda z: (1.5 + 0.5j) * z ** (0.5 + 0.5j)),
        (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    ],
)
def test_holomorphic_derivatives(f, derivative):
    z = 0.7 + 0.4j
    np.testing.assert_allclose(ftrace.grad(f, holomorphic=True)(z), derivative(z), rtol=1e-12)
    np.testing.assert_allclose(ftrace.jvp(f, (z,), (1.0 + 0j,))[1], derivative(z), rtol=1e-12)
    # Cauchy-Riemann: the derivative along i is i times the one along 1
    along_i = ftrace.jvp(f, (z,), (1j,))[1]
    np.testing.assert_allclose(along_i, 1j * derivative(z), rtol=1e-12)


def test_complex_results_need_holomorphic():
    with pytest.raises(DtypeError, match="holomorphic"):
        ftrace.grad(np.exp)(1j)
    with pytest.raises(DtypeError, match="complex"):
        ftrace.grad(np.exp, holomorphic=True)(1.0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_gradients_keep_the_dtype(dtype):
    x = np.ones(3, dtype)
    assert ftrace.grad(lambda x: np.sum(np.sin(x) * 2.0 + x / 3))(x).dtype == dtype
    assert ftrace.jit(ftrace.grad(lambda x: np.sum(x * x)))(x).dtype == dtype
    assert ftrace.jacfwd(lambda x: x * x)(x).dtype == dtype
    assert type(ftrace.grad(lambda x: x * x)(dtype(2))) is dtype


@pytest.mark.parametrize("transform", [ftrace.grad, ftrace.jacfwd, ftrace.jacrev, ftrace.jit])
def test_rank_zero_results_are_numpy_scalars(transform):
    assert isinstance(transform(lambda x: np.sin(x) * x)(np.float64(1.0)), np.float64)


def test_functions_of_no_differentiable_use_have_zero_gradients():
    np.testing.assert_array_equal(ftrace.grad(lambda x: 3.0 + 0 * np.sum(X))(X), np.zeros(5))
    np.testing.assert_array_equal(ftrace.grad(lambda x: np.sum(np.floor(x)))(X), np.zeros(5))
    np.testing.assert_array_equal(ftrace.jacfwd(lambda x: np.ones(2))(X), np.zeros((2, 5)))


@pytest.mark.parametrize("bad", [np.ones(2), (1.0, 2.0), None, {"a": 1.0}])
def test_gradients_need_one_scalar(bad):
    with pytest.raises((ShapeError, TreeError), match="scalar"):
        ftrace.grad(lambda x: bad)(1.0)
