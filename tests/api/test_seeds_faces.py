"""Gradients by names, paths and `self`, with seeds, conjugated (A7, A11, C2, D3, D10, D12)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import ftrace
from ftrace.errors import DtypeError, ShapeError, TreeError

X = np.array([0.5, -1.0, 2.0])


# ---------------------------------------------------------------------------------- arguments


@dataclass(frozen=True)
class Model:
    w: np.ndarray
    k: float = 2.0
    name: str = "model"

    def loss(self, x, power=2):
        return np.sum(self.w * x) ** power * self.k

    def of_other(this, x):  # noqa: N805 - the name is the point
        return np.sum(this.w) * x


class Plain:
    def __init__(self):
        self.w = X
        self.kept = []

    def loss(self, x):
        return np.sum(self.w * x)


class Pair(NamedTuple):
    a: float
    b: list


def test_a_method_is_differentiated_by_its_object():
    model = Model(X)
    by_self = ftrace.grad(model.loss, argnums="self")(X)
    assert type(by_self) is Model
    s = np.sum(X * X)
    np.testing.assert_allclose(by_self.w, 2 * s * X * 2.0)
    np.testing.assert_allclose(by_self.k, s**2)
    assert by_self.name is None
    by_both = ftrace.grad(model.loss, argnums=("self", 0))(X)
    np.testing.assert_allclose(by_both[1], 2 * s * X * 2.0)
    np.testing.assert_allclose(by_both[0].w, by_self.w)
    np.testing.assert_allclose(ftrace.grad(model.of_other, "self")(3.0).w, np.full(3, 3.0))
    assert model.w is X


def test_compiled_a_method_is_differentiated_by_its_object():
    model = Model(X)
    found = ftrace.jit(ftrace.grad(model.loss, "self.w"))(X)
    np.testing.assert_allclose(found, 4 * np.sum(X * X) * X)


def test_an_object_of_any_class_is_differentiated_by_a_path():
    plain = Plain()
    np.testing.assert_array_equal(ftrace.grad(plain.loss, "self.w")(2 * X), 2 * X)
    np.testing.assert_array_equal(ftrace.grad(Plain.loss, "self.w")(plain, 2 * X), 2 * X)
    assert plain.w is X
    assert plain.kept == []


def of_paths(p, q):
    return p["a"] * p["b"].b[1] * 1.0 + q.k * np.sum(q.w)


@pytest.mark.parametrize("path", ["p['a']", "p['b'].b[1]", "p['b'].a", "q.k", " p[ 'a' ]"])
def test_a_part_of_an_argument_is_named_by_its_path(path):
    p, q = {"a": 2.0, "b": Pair(1.0, [0.0, 6.0])}, Model(np.ones(1), 3.0)
    whole = ftrace.grad(of_paths, (0, 1))(p, q)
    found = ftrace.grad(of_paths, path)(p, q)
    assert found == eval(path.strip(), {"p": whole[0], "q": whole[1]})
    assert ftrace.grad(of_paths, (path, "q.w"))(p, q)[0] == found
    np.testing.assert_allclose(ftrace.jacfwd(of_paths, path)(p, q), found)
    np.testing.assert_allclose(ftrace.jit(ftrace.grad(of_paths, path))(p, q), found)
    value, same = ftrace.value_and_grad(of_paths, path)(p=p, q=q)
    assert (value, same) == (15.0, found)
    assert p == {"a": 2.0, "b": Pair(1.0, [0.0, 6.0])}


def test_two_parts_of_one_argument():
    p = {"a": 2.0, "b": 3.0, "n": 4}
    found = ftrace.grad(lambda p: p["a"] ** 2 * p["b"] * p["n"], ("p['b']", "p['a']"))(p)
    assert [float(g) for g in found] == [16.0, 48.0]
    second = ftrace.hessian(lambda p: p["a"] ** 2 * p["b"], ("p['a']", "p['b']"))(p)
    assert np.array(second).tolist() == [[6.0, 4.0], [4.0, 0.0]]


@pytest.mark.parametrize(
    ("argnums", "words"),
    [
        ("p['c']", "there is no ['c'] in a dict"),
        ("p.a", "there is no .a in a dict"),
        ("q['a']", "names an argument that this call"),
        ("p[", "is no path"),
        ("p[i]", "is no path"),
        ("p()", "is no path"),
        (("p", "p['a']"), "twice"),
        (("p['a']", "p['a']"), "twice"),
    ],
)
def test_paths_that_lead_nowhere_are_named(argnums, words):
    with pytest.raises(TreeError) as error:
        ftrace.grad(lambda p: p["a"] * 2.0, argnums)({"a": 1.0})
    assert words in str(error.value)


def test_an_argument_left_at_its_default_is_one():
    def f(x, k=3.0, *, c=2.0, n=2):
        return x * k * c**n

    assert ftrace.grad(f, "k")(5.0) == 20.0
    assert ftrace.grad(f, "c")(5.0) == 60.0
    assert [float(g) for g in ftrace.grad(f, ("x", "c", "k"))(5.0, k=1.0)] == [4.0, 20.0, 20.0]
    assert ftrace.jit(ftrace.grad(f, "c"))(5.0) == 60.0
    np.testing.assert_array_equal(ftrace.vmap(ftrace.grad(f, "k"))(X), 4 * X)
    with pytest.raises(TreeError, match="argnums='z'"):
        ftrace.grad(f, "z")(1.0)
    with pytest.raises(TreeError, match="argnums='x'"):
        ftrace.grad(lambda x: x, "x")()


# ---------------------------------------------------------------------------------- seeds


def f(x):
    return np.sin(x) * x[0]


def test_a_seed_is_the_cotangent_of_the_value():
    w = np.array([1.0, -2.0, 0.5])
    wanted = w @ ftrace.jacrev(f)(X)
    value, found = ftrace.value_and_grad(f, seed=w)(X)
    np.testing.assert_array_equal(value, f(X))
    np.testing.assert_allclose(found, wanted, rtol=1e-15)
    value, found = ftrace.canonical_grad(f)(w, X)
    np.testing.assert_allclose(found, wanted, rtol=1e-15)
    np.testing.assert_allclose(ftrace.jit(ftrace.canonical_grad(f))(w, X)[1], wanted, rtol=1e-15)
    np.testing.assert_allclose(ftrace.jit(ftrace.value_and_grad(f, seed=w))(X)[1], wanted)
    many = ftrace.vmap(ftrace.canonical_grad(f), (0, None))(np.eye(3), X)[1]
    np.testing.assert_allclose(many, ftrace.jacrev(f)(X), rtol=1e-15)


def test_a_seed_that_is_changed_is_read_again_by_a_compiled_function():
    w = np.ones(3)
    g = ftrace.jit(ftrace.value_and_grad(f, seed=w))
    first = g(X)[1]
    w *= 2
    np.testing.assert_array_equal(g(X)[1], 2 * first)
    other = ftrace.jit(ftrace.value_and_grad(f, seed=np.zeros(3)))
    np.testing.assert_array_equal(other(X)[1], np.zeros(3))


def test_a_seed_has_the_structure_of_the_value():
    def g(x):
        return {"y": x * 2, "z": (np.sum(x), 3)}

    seed = {"y": np.ones(3), "z": (10.0, None)}
    value, gradient = ftrace.canonical_grad(g)(seed, X)
    np.testing.assert_array_equal(gradient, np.full(3, 12.0))
    assert value["z"][1] == 3
    (value, aux), gradient = ftrace.value_and_grad(lambda x: (x * 2, x), has_aux=True, seed=X)(X)
    np.testing.assert_array_equal(gradient, 2 * X)
    np.testing.assert_array_equal(aux, X)


def test_no_seed_is_no_contribution():
    np.testing.assert_array_equal(ftrace.value_and_grad(f, seed=None)(X)[1], np.zeros(3))
    assert ftrace.canonical_grad(np.sin)(None, 1.0)[1] == 0.0
    assert ftrace.canonical_grad(np.sin)(1, 0.0) == (0.0, 1.0)


def test_a_gradient_by_the_seed_is_the_directional_derivative():
    w = np.array([1.0, -2.0, 0.5])

    def along(w):
        return np.sum(ftrace.canonical_grad(f)(w, X)[1] * X)

    np.testing.assert_allclose(ftrace.grad(along)(w), ftrace.jvp(f, (X,), (X,))[1], rtol=1e-15)


def test_wrong_seeds_are_named():
    with pytest.raises(ShapeError):
        ftrace.canonical_grad(f)(np.ones(2), X)
    with pytest.raises(TreeError):
        ftrace.canonical_grad(f)((X, X), X)
    with pytest.raises(DtypeError):
        ftrace.canonical_grad(f)("1", X)
    with pytest.raises(ShapeError, match="scalar result"):
        ftrace.canonical_grad(f)(1, X)
    with pytest.raises(DtypeError, match="function first"):
        ftrace.canonical_grad(1.0)


# ---------------------------------------------------------------------------------- conjugates


def test_a_conjugated_gradient_points_uphill():
    z = X + 1j * X[::-1]

    def height(z):
        return np.sum(np.abs(z) ** 2 + np.imag(z))

    uphill = ftrace.grad(height, conj=True)(z)
    np.testing.assert_allclose(uphill, 2 * z + 1j, rtol=1e-15)
    np.testing.assert_allclose(uphill, np.conj(ftrace.grad(height)(z)), rtol=1e-15)
    assert height(z + 1e-3 * uphill) > height(z) > height(z - 1e-3 * uphill)
    _, same = ftrace.jit(ftrace.value_and_grad(height, conj=True))(z)
    np.testing.assert_allclose(same, uphill, rtol=1e-14)
    np.testing.assert_array_equal(ftrace.grad(np.sum, conj=True)(X), np.ones(3))
    both = ftrace.grad(lambda p: height(p["z"]) * p["x"], conj=True)({"z": z, "x": 2.0})
    np.testing.assert_allclose(both["z"], 2 * uphill, rtol=1e-15)
    assert type(both["x"]) is np.float64


def test_options_with_a_conjugate_are_no_other_function():
    z = 1.0 + 2.0j
    plain, conjugated = (ftrace.jit(ftrace.grad(lambda z: np.abs(z), conj=c)) for c in (0, 1))
    assert plain(z) == np.conj(conjugated(z))


# ---------------------------------------------------------------------------------- dual numbers


def test_a_nested_dual_number_shows_levels_and_partials():
    seen = []

    def inner(y):
        seen.append((repr(y), repr(np.sin(y))))
        return np.sin(y)

    def outer(x):
        seen.append(repr(x))
        return ftrace.jvp(inner, (x,), (1.0,))[1]

    assert ftrace.jvp(outer, (1.0,), (1.0,))[1] == -0.8414709848078965
    s, c = float(np.sin(1.0)), float(np.cos(1.0))
    assert seen[0] == "JVPTracer<f64*[], value=1.0, (1.0 + 1.0*eps[1,1])>"
    d, d2 = seen[1]
    assert d == "JVPTracer<f64*[], value=1.0, ((1.0 + 1.0*eps[1,1]) + 1.0*eps[2,1])>"
    assert d2.endswith(f"(({s!r} + {c!r}*eps[1,1]) + ({c!r} + {-s!r}*eps[1,1])*eps[2,1])>")


def test_a_number_with_several_partials_shows_each():  # A1, A11
    seen = []

    def f(x):
        seen.append(repr(x[1] * x[2]))
        return np.sum(x)

    ftrace.jacfwd(f)(X)
    assert seen[-1].endswith("(-2.0 + 0.0*eps[1,1] + 2.0*eps[1,2] + -1.0*eps[1,3])>")
    ftrace.jacfwd(f)(np.arange(20.0))
    assert seen[-1].endswith("0.0*eps[1,8] + ...)>")


def test_other_traced_values_show_what_is_known():
    seen = []
    ftrace.jvp(lambda x: (seen.append(repr(x)), np.sum(x))[1], (X,), (X,))
    ftrace.grad(lambda x: (seen.append(repr(x)), x)[1])(2.0)
    ftrace.jit(lambda x: ftrace.jvp(lambda y: (seen.append(repr(y)), y)[1], (x,), (x,))[1])(2.0)
    assert not any("eps" in text for text in seen)
    assert len(seen) >= 3
