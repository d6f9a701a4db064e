"""Trees as vectors: `ftrace.tree.Vector`, shapes, and random numbers with a tree's structure."""

import dataclasses

import numpy as np
import pytest

import ftrace
from ftrace import errors, random
from ftrace.tree import Vector

KEY = random.PRNGKey(3)


def plain(v):
    return ftrace.tree.map(lambda x: np.asarray(x).tolist(), v.tree)


def test_arithmetic_of_the_proposal():
    v, w = Vector({"x": 3, "y": [-4, 5]}), Vector({"x": 2, "y": [1, 2]})
    assert plain(v + w) == {"x": 5, "y": [-3, 7]}
    assert plain(v * 10) == {"x": 30, "y": [-40, 50]}
    assert plain(v * {"x": 2, "y": 10}) == plain({"x": 2, "y": 10} * v) == {"x": 6, "y": [-40, 50]}
    assert plain(abs(v)) == {"x": 3, "y": [4, 5]}
    assert plain(-v // w) == {"x": -2, "y": [4, -3]}
    assert plain(2**w - w**2 % 3) == {"x": 3, "y": [1, 3]}
    assert plain(v / w) == {"x": 1.5, "y": [-4.0, 2.5]}
    assert plain(v > w) == {"x": True, "y": [False, True]}
    assert v @ w == w @ {"x": 3, "y": [-4, 5]} == 6 - 4 + 10
    assert v.sum() == np.sum(v) == 4


def test_ufuncs_and_arrays():
    v = Vector({"x": np.array([3.0, 4.0]), "y": np.array([[1.0], [2.0]])})
    np.testing.assert_array_equal(np.exp(v)["y"], np.exp(v["y"]))
    quotient, rest = np.divmod(v, 2)
    assert plain(quotient * 2 + rest) == plain(v)
    assert plain(np.array([1.0, 10.0]) * v) == {"x": [3.0, 40.0], "y": [[1.0, 10.0], [2.0, 20.0]]}
    assert plain(np.float64(2.0) * v) == plain(v + v) == plain(np.add(v, v))
    assert plain(np.maximum({"x": 3.5, "y": 0.0}, v))["x"] == [3.5, 4.0]
    assert plain(v.map(np.sum, ))["x"] == 7.0  # fmt: skip


@dataclasses.dataclass
class Params:
    w: object
    b: object


def test_parts():
    v = Vector(Params(np.ones(2), {"c": 1.0}))
    assert v.w.tolist() == [1.0, 1.0]
    assert type(v.b) is Vector
    assert v.b["c"] == 1.0
    pair = Vector([1.0, (2.0, 3.0)])
    assert len(pair) == 2
    assert [type(p) for p in pair] == [float, Vector]
    assert Vector(pair).tree is pair.tree
    assert list(Vector({"a": 1})) == ["a"]
    assert list(Vector({("a", "b"): 1})) == [("a", "b")]
    assert {"a": np.ones(2), "b": 3.0} @ Vector({"a": np.array([1.0, 2.0]), "b": 4.0}) == 15.0


def loss(v):
    return np.sum(np.sin(v["w"]) * v["b"]) + v["b"] ** 2


def test_a_step_along_the_gradient_is_one_line():
    start = Vector({"w": np.arange(3.0), "b": 0.5})

    def step(v):
        return v - 0.1 * ftrace.grad(loss)(v)

    gradient = ftrace.grad(loss)(start)
    assert type(gradient) is Vector
    np.testing.assert_allclose(gradient["w"], np.cos(start["w"]) * 0.5)
    expected = {name: start[name] - 0.1 * gradient[name] for name in "wb"}
    for way in (step, ftrace.jit(step)):
        found = way(start)
        np.testing.assert_allclose(found["w"], expected["w"])
        np.testing.assert_allclose(found["b"], expected["b"])
    many = ftrace.vmap(lambda s: step(start * s))(np.array([1.0, 2.0]))
    np.testing.assert_allclose(many["w"][0], expected["w"])


def test_random_trees():
    shapes = {"x": (2, 2), "y": 4, "z": [(), np.int64(3)]}
    tree = random.normal(KEY, shapes, np.float32)
    assert ftrace.tree.shape(tree) == {"x": (2, 2), "y": (4,), "z": [(), (3,)]}
    assert ftrace.tree.leaves(tree)[0].dtype == np.float32
    loc = {"x": 100.0, "y": np.array([1.0, 2.0, 3.0, 4.0]), "z": -5.0}
    moved = random.normal(KEY, shapes, loc=loc, scale=2.0)
    base = random.normal(KEY, shapes)
    np.testing.assert_allclose(moved["y"], loc["y"] + 2.0 * base["y"])
    np.testing.assert_allclose(moved["z"][1], -5.0 + 2.0 * base["z"][1])
    one = random.normal(KEY, (5,), loc=3.0, scale=np.arange(5.0))
    np.testing.assert_allclose(one, 3.0 + np.arange(5.0) * random.normal(KEY, (5,)))
    by_loc = ftrace.grad(lambda m: random.normal(KEY, shapes, loc=m)["y"].sum())(1.0)
    assert by_loc == 4.0
    v = Vector({"w": np.ones(2, np.float32), "b": 1j})
    like = random.normal_like(KEY, v)
    assert type(like) is Vector
    assert like["w"].dtype == np.float32
    assert np.asarray(like["b"]).dtype == complex
    again = random.normal(KEY, ftrace.tree.shape(Vector(tree)), np.float32)
    np.testing.assert_array_equal(again["x"], tree["x"])


def test_a_leapfrog_step_of_hamiltonian_monte_carlo():
    """It keeps the energy to second order, and runs back when the momentum is turned round."""
    q = Vector({"w": np.array([0.3, -0.2]), "b": 0.5})

    def potential(q):
        return 0.5 * (q @ q) + np.sum(np.cos(q["w"]))

    def leapfrog(q, p, eps):
        p = p - eps / 2 * ftrace.grad(potential)(q)
        q = q + eps * p
        return q, p - eps / 2 * ftrace.grad(potential)(q)

    p = random.normal_like(KEY, q)
    q1, p1 = ftrace.jit(leapfrog)(q, p, 0.01)
    energy = [potential(x) + 0.5 * (y @ y) for x, y in ((q, p), (q1, p1))]
    assert abs(energy[1] - energy[0]) < 1e-5
    q2, p2 = leapfrog(q1, -p1, 0.01)
    assert abs(q2 - q).sum() + abs(p2 + p).sum() < 1e-14


def test_mistakes():
    v = Vector({"x": 3.0, "y": [1.0, 2.0]})
    for other in ({"x": 1}, Vector([1, 2]), {"x": 1, "y": [1, 2, 3]}):
        with pytest.raises(errors.TreeError, match="not built alike"):
            v + other
    with pytest.raises(errors.RuleError, match="reduce"):
        np.add.reduce(v)
    with pytest.raises(errors.RuleError, match="out="):
        np.exp(v, out=np.zeros(2))
    with pytest.raises(errors.RuleError, match="as a whole"):
        np.sum(v, axis=0)
    with pytest.raises(errors.DtypeError, match="holds several"):
        np.asarray(v)
    with pytest.raises(errors.TreeError, match="ambiguous"):
        bool(v == v)
    with pytest.raises(TypeError, match="unhashable"):
        hash(v)
    with pytest.raises(AttributeError, match="no attribute 'z'"):
        v.z  # noqa: B018
    with pytest.raises(errors.DtypeError, match="normal samples are floats"):
        random.normal_like(KEY, {"a": 1})
    with pytest.raises(errors.TreeError):
        random.normal(KEY, {"x": 2}, loc={"y": 1.0})
