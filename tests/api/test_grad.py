"""`grad` and `value_and_grad`: every option, and what the results look like."""

import inspect
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import errors


def f(a, b, c=2.0):
    return a * a * b + np.sin(c) * b


def partials(a, b, c=2.0):
    return 2 * a * b, a * a + np.sin(c), np.cos(c) * b


A, B, C = 1.5, -0.5, 0.25
EXPECTED = dict(zip("abc", partials(A, B, C), strict=True))

# ---------------------------------------------------------------------------------- argnums


@pytest.mark.parametrize(
    ("argnums", "names"),
    [
        (0, "a"),
        (1, "b"),
        (-1, "c"),
        ((0,), ("a",)),
        ((0, 1), ("a", "b")),
        ((2, 0), ("c", "a")),
        ([1, 2], ("b", "c")),
        ("b", "b"),
        (("c", "a"), ("c", "a")),
        ((0, "b"), ("a", "b")),
    ],
)
def test_argnums_choose_arguments_by_position_or_name(argnums, names):
    gradient = ftrace.grad(f, argnums)(A, B, C)
    value, same = ftrace.value_and_grad(f, argnums)(A, B, C)
    assert value == f(A, B, C)
    assert same == gradient
    if isinstance(names, tuple):
        assert type(gradient) is tuple
        np.testing.assert_allclose(gradient, [EXPECTED[n] for n in names], rtol=1e-15)
    else:
        np.testing.assert_allclose(gradient, EXPECTED[names], rtol=1e-15)


def test_a_name_finds_an_argument_passed_by_keyword():
    np.testing.assert_allclose(ftrace.grad(f, "c")(A, B, c=C), EXPECTED["c"], rtol=1e-15)
    found = ftrace.grad(f, ("b", "a"))(b=B, a=A, c=C)
    np.testing.assert_allclose(found, [EXPECTED["b"], EXPECTED["a"]], rtol=1e-15)


def test_other_arguments_may_be_anything():
    def g(x, mode, n):
        return x**n if mode == "power" else x

    assert ftrace.grad(g)(2.0, "power", 3) == 12.0
    assert ftrace.grad(g)(2.0, mode="none", n=3) == 1.0


def test_a_keyword_only_parameter_can_be_named():
    def g(x, *, scale):
        return x * scale * scale

    assert ftrace.grad(g, "scale")(3.0, scale=2.0) == 12.0


def test_variadic_arguments_are_counted():
    def g(*xs):
        return xs[0] * xs[1] * xs[2]

    assert ftrace.grad(g, (0, 2))(2.0, 3.0, 5.0) == (15.0, 6.0)


# ---------------------------------------------------------------------------------- has_aux


class Note:
    """A value that is no array."""

    def __init__(self, text):
        self.text = text


def test_aux_is_returned_beside_the_gradient():
    def g(x):
        y = np.sin(x)
        return y * x, {"sin": y, "note": "text", "count": 3}

    (value, aux), gradient = ftrace.value_and_grad(g, has_aux=True)(2.0)
    assert value == np.sin(2.0) * 2.0
    assert aux == {"sin": np.sin(2.0), "note": "text", "count": 3}
    assert type(aux["sin"]) is np.float64
    assert gradient == np.cos(2.0) * 2.0 + np.sin(2.0)
    assert ftrace.grad(g, has_aux=True)(2.0) == (gradient, aux)


def test_aux_may_be_any_object():
    _, aux = ftrace.grad(lambda x: (x * x, Note("kept")), has_aux=True)(2.0)
    assert aux.text == "kept"
    _, aux = ftrace.grad(lambda x: (x * x, None), has_aux=True)(2.0)
    assert aux is None


def test_aux_of_nested_gradients_is_plain_at_the_end():
    def inner(x):
        return x**3, x * 10.0

    def outer(x):
        slope, aux = ftrace.grad(inner, has_aux=True)(x)
        return slope, aux

    curvature, aux = ftrace.grad(outer, has_aux=True)(2.0)
    assert (curvature, aux) == (12.0, 20.0)
    assert isinstance(aux, float)


# ---------------------------------------------------------------------------------- integers


def test_python_integers_count_as_floats():
    gradient = ftrace.grad(lambda x: x**3)(2)
    assert gradient == 12.0
    assert type(gradient) is np.float64
    with pytest.raises(errors.DtypeError, match="hold no float"):  # inside containers they stay
        ftrace.grad(lambda p: p[0] * p[1] * 1.0)([2, 5])


def test_integers_of_containers_get_none_with_and_without_allow_int():
    params = {"w": np.array([1.0, 2.0]), "steps": np.array([1, 2]), "on": True}

    def g(p):
        return np.sum(p["w"] * p["steps"]) if p["on"] else 0.0

    for allow_int in (False, True):
        gradient = ftrace.grad(g, allow_int=allow_int)(params)
        np.testing.assert_array_equal(gradient["w"], [1.0, 2.0])
        assert gradient["steps"] is None
        assert gradient["on"] is None


def test_allow_int_alone_gives_none():
    assert ftrace.grad(lambda i: np.sum(i * 2.0), allow_int=True)(np.arange(3)) is None


# ---------------------------------------------------------------------------------- complex

Z = 0.7 - 1.3j
# f, and JAX's gradient df/dx - i df/dy at z = x + iy for real-valued f
COMPLEX = {
    "real part": (lambda z: np.real(z), lambda z: 1.0),
    "imaginary part": (lambda z: np.imag(z), lambda z: -1.0j),
    "squared modulus": (lambda z: np.real(z * np.conj(z)), lambda z: 2 * np.conj(z)),
    "modulus": (np.abs, lambda z: np.conj(z) / np.abs(z)),
    "angle": (lambda z: np.arctan2(np.imag(z), np.real(z)), lambda z: -1j / z),
    "real part of a square": (lambda z: np.real(z**2), lambda z: 2 * z),
    "imaginary part of exp": (lambda z: np.imag(np.exp(z)), lambda z: -1j * np.exp(z)),
    "real part of conj": (lambda z: np.real(np.conj(z)), lambda z: 1.0),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_the_gradient_of_a_real_function_of_a_complex_number_follows_jax(name):
    g, expected = COMPLEX[name]
    gradient = ftrace.grad(g)(Z)
    assert type(gradient) is np.complex128
    np.testing.assert_allclose(gradient, expected(Z), rtol=1e-14)
    h = 1e-6
    dx = (g(Z + h) - g(Z - h)) / (2 * h)
    dy = (g(Z + 1j * h) - g(Z - 1j * h)) / (2 * h)
    np.testing.assert_allclose(gradient, dx - 1j * dy, atol=1e-8)


@pytest.mark.parametrize(
    ("g", "derivative"),
    [
        (lambda z: z * z, lambda z: 2 * z),
        (np.exp, np.exp),
        (np.sin, np.cos),
        (lambda z: 1 / z, lambda z: -1 / z**2),
        (np.sqrt, lambda z: 0.5 / np.sqrt(z)),
        (np.log, lambda z: 1 / z),
    ],
)
def test_holomorphic_gives_the_complex_derivative(g, derivative):
    np.testing.assert_allclose(ftrace.grad(g, holomorphic=True)(Z), derivative(Z), rtol=1e-14)
    jacobian = ftrace.jacfwd(g, holomorphic=True)(np.array([Z, 2j]))
    np.testing.assert_allclose(jacobian, np.diag([derivative(Z), derivative(2j)]), rtol=1e-14)


def test_complex_arrays_and_real_parameters_together():
    def g(w, z):
        return np.sum(np.abs(w * z) ** 2)

    w, z = np.array([2.0, -1.0]), np.array([1 + 1j, 3 - 2j])
    dw, dz = ftrace.grad(g, (0, 1))(w, z)
    assert dw.dtype == np.float64
    np.testing.assert_allclose(dw, 2 * w * np.abs(z) ** 2)
    np.testing.assert_allclose(dz, 2 * w**2 * np.conj(z))


# ---------------------------------------------------------------------------------- results


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
def test_a_gradient_has_the_dtype_of_its_argument(dtype):
    x = np.array([1.0, 2.0], dtype)
    value, gradient = ftrace.value_and_grad(lambda v: np.sum(np.real(v * v)))(x)
    assert gradient.dtype == dtype
    assert value.dtype == np.zeros(1, dtype).real.dtype
    scalar = ftrace.grad(lambda v: np.real(v * v))(dtype(3.0))
    assert type(scalar) is dtype


def test_rank_0_results_are_numpy_scalars():
    value, gradient = ftrace.value_and_grad(lambda x: np.sum(x * x))(np.array(3.0))
    assert type(value) is np.float64
    assert type(gradient) is np.float64


def test_python_scalars_do_not_widen_float32():
    gradient = ftrace.grad(lambda x: np.sum(2 * x * 0.5 + 1.0))(np.ones(2, np.float32))
    assert gradient.dtype == np.float32
    gradient = ftrace.grad(lambda x, s: np.sum(x * s))(np.ones(2, np.float32), 2.0)
    assert gradient.dtype == np.float32


def test_results_own_their_memory():
    x = np.array([1.0, 2.0])
    gradient = ftrace.grad(lambda v: np.sum(v * x))(x)
    (_, aux), other = ftrace.value_and_grad(lambda v: (np.sum(v), (v, x)), has_aux=True)(x)
    for y in (gradient, other, *aux):
        assert y.flags.writeable
        assert y.base is None
        assert not np.may_share_memory(y, x)
    gradient[:] = 9.0
    np.testing.assert_array_equal(x, [1.0, 2.0])


# ---------------------------------------------------------------------------------- containers

Pair = namedtuple("Pair", ["left", "right"])


@dataclass
class Layer:
    w: Any
    b: Any
    name: str = field(default="layer", metadata={"static": True})


TREES = {
    "dict": {"x": 2.0, "y": 3.0},
    "tuple": (2.0, 3.0),
    "list": [2.0, 3.0],
    "namedtuple": Pair(2.0, 3.0),
    "ordered dict": OrderedDict(y=2.0, x=3.0),
    "dataclass": Layer(2.0, 3.0, "named"),
    "nested": {"a": [2.0], "b": (None, {"c": 3.0})},
}


@pytest.mark.parametrize("name", TREES)
def test_a_gradient_has_the_containers_of_its_argument(name):
    tree = TREES[name]

    def g(t):
        first, second = ftrace.tree.leaves(t)
        return first * first * second

    gradient = ftrace.grad(g)(tree)
    assert type(gradient) is type(tree)
    assert ftrace.tree.structure(gradient) == ftrace.tree.structure(tree)
    assert ftrace.tree.leaves(gradient) == [12.0, 4.0]


def test_a_dataclass_keeps_its_static_fields():
    gradient = ftrace.grad(lambda layer: np.sum(layer.w * layer.b))(Layer(np.ones(2), 3.0, "mine"))
    assert gradient.name == "mine"
    np.testing.assert_array_equal(gradient.w, [3.0, 3.0])
    assert gradient.b == 2.0


# ---------------------------------------------------------------------------------- signatures


def documented(x: float, *rest: int, scale: float = 2.0, **more: str) -> float:
    """What it computes."""
    return x * scale


TRANSFORMS = [
    ftrace.grad,
    ftrace.value_and_grad,
    ftrace.jit,
    ftrace.vmap,
    ftrace.jacfwd,
    ftrace.jacrev,
    ftrace.hessian,
    ftrace.checkpoint,
    ftrace.named_call,
    ftrace.custom_jvp,
    ftrace.custom_vjp,
    ftrace.make_jaxpr,
]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: t.__name__)
def test_name_signature_and_documentation_survive(transform):
    wrapped = transform(documented)
    assert inspect.signature(wrapped) == inspect.signature(documented)
    assert wrapped.__name__ == "documented"
    assert wrapped.__module__ == documented.__module__
    assert "What it computes." in wrapped.__doc__


def test_a_gradient_of_a_numpy_function_needs_no_signature():
    assert ftrace.grad(np.sin)(0.0) == 1.0
    assert ftrace.grad(np.add, (0, 1))(1.0, 2.0) == (1.0, 1.0)


def test_methods_and_partials_can_be_differentiated():
    from functools import partial

    class Model:
        def __init__(self, scale):
            self.scale = scale

        def __call__(self, x):
            return self.scale * x * x

        def energy(self, x):
            return self(x)

    model = Model(3.0)
    assert ftrace.grad(model)(2.0) == 12.0
    assert ftrace.grad(model.energy)(2.0) == 12.0
    assert ftrace.grad(partial(lambda k, x: k * x, 5.0))(2.0) == 5.0


def test_decorators_can_be_stacked():
    @ftrace.grad
    @ftrace.jit
    @ftrace.grad
    def third(x):
        return x**3

    assert third(2.0) == 12.0
