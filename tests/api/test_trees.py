"""`tree`, `tree_util` and `flatten_util` with values that are being transformed."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import errors, tree, tree_util
from ftrace.flatten_util import ravel_pytree

PARAMS = {"w": np.array([[1.0, 2.0], [3.0, 4.0]]), "b": (np.array([0.5, -0.5]), 2.0)}


def norm(params):
    return sum(np.sum(leaf * leaf) for leaf in tree.leaves(params))


def test_maps_and_reductions_are_differentiated():
    gradient = ftrace.grad(norm)(PARAMS)
    assert tree.structure(gradient) == tree.structure(PARAMS)
    np.testing.assert_array_equal(gradient["w"], 2 * PARAMS["w"])
    assert gradient["b"][1] == 4.0
    doubled = tree.map(lambda p, g: p * 2 - g, PARAMS, gradient)
    assert all(np.all(leaf == 0) for leaf in tree.leaves(doubled))


def test_a_step_of_gradient_descent_is_one_jitted_map():
    @ftrace.jit
    def step(params, rate):
        return tree.map(lambda p, g: p - rate * g, params, ftrace.grad(norm)(params))

    params = PARAMS
    for _ in range(3):
        params = step(params, 0.25)
    np.testing.assert_allclose(params["w"], PARAMS["w"] / 8)
    assert params["b"][1] == 0.25


def test_ravel_pytree_goes_through_grad_jit_and_vmap():
    flat, unravel = ravel_pytree(PARAMS)
    assert flat.shape == (7,)
    gradient = ftrace.grad(lambda v: norm(unravel(v)))(flat)
    np.testing.assert_array_equal(gradient, 2 * flat)
    hessian = ftrace.hessian(lambda v: norm(unravel(v)))(flat)
    np.testing.assert_array_equal(hessian, 2 * np.eye(7))
    raveled = ftrace.jit(lambda p: ravel_pytree(p)[0] * 2)(PARAMS)
    np.testing.assert_array_equal(raveled, 2 * flat)
    batch = ftrace.vmap(lambda s: ravel_pytree(tree.map(lambda x: x * s, PARAMS))[0])(
        np.arange(3.0)
    )
    np.testing.assert_array_equal(batch, np.outer(np.arange(3.0), flat))


def test_a_gradient_through_ravel_has_the_containers_of_the_parameters():
    gradient = ftrace.grad(lambda p: np.sum(ravel_pytree(p)[0] ** 3))(PARAMS)
    np.testing.assert_array_equal(gradient["b"][0], 3 * PARAMS["b"][0] ** 2)


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y


def test_a_registered_class_is_a_container():
    tree_util.register_pytree_node(
        Point, lambda p: ((p.x, p.y), None), lambda _, children: Point(*children)
    )
    gradient = ftrace.grad(lambda p: p.x * p.x * p.y)(Point(2.0, 3.0))
    assert type(gradient) is Point
    assert (gradient.x, gradient.y) == (12.0, 4.0)
    mapped = ftrace.vmap(lambda p: Point(p.y, p.x))(Point(np.arange(2.0), np.ones(2)))
    np.testing.assert_array_equal(mapped.y, [0.0, 1.0])
    assert ftrace.jit(lambda p: Point(p.y, p.x))(Point(1.0, 2.0)).x == 2.0


def test_a_class_that_is_not_registered_is_refused_with_its_path():
    class Opaque:
        pass

    with pytest.raises(errors.DtypeError, match=r"p\['o'\].*Opaque"):
        ftrace.jit(lambda p: p["x"])({"x": 1.0, "o": Opaque()})


@dataclass
class Config:
    width: Any
    name: str = field(default="a", metadata={"static": True})


def test_static_fields_are_part_of_the_signature():
    seen = []

    @ftrace.jit
    def f(c):
        seen.append(c.name)
        return c.width * 2

    for name in ("a", "b", "a"):
        assert f(Config(1.0, name)) == 2.0
    assert seen == ["a", "b"]


def test_paths_name_leaves():
    pairs, _ = tree_util.tree_flatten_with_path(ftrace.grad(norm)(PARAMS))
    assert [tree_util.keystr(path) for path, _ in pairs] == ["['b'][0]", "['b'][1]", "['w']"]


def test_none_has_no_leaves_and_comes_back():
    gradient = ftrace.grad(lambda p: p["x"] ** 2)({"x": 3.0, "nothing": None})
    assert gradient == {"x": 6.0, "nothing": None}
    assert ftrace.jit(lambda p: p)((None, {"a": None})) == (None, {"a": None})


def ranked(d):
    """A function that asks for the order of a dict."""
    return sum((i + 1) * d[k] for i, k in enumerate(d))


def by_keywords(**d):
    return ranked(d)


def test_dicts_reach_functions_in_the_callers_order_in_every_transformation():
    jitted, keywords = ftrace.jit(ranked), ftrace.jit(by_keywords)
    inside = ftrace.jit(lambda tree: ranked(tree["z"][1]["q"]))
    for d in ({"b": 1.0, "a": 2.0}, {"a": 2.0, "b": 1.0}, {"b": 1.0, "a": 2.0}):
        right = ranked(d)
        assert jitted(d) == keywords(**d) == right
        assert inside({"z": [3.0, {"q": d}], "c": d}) == right
        assert ftrace.vmap(ranked)({k: np.full(2, v) for k, v in d.items()})[1] == right
        assert ftrace.jvp(ranked, (d,), ({"a": 1.0, "b": 0.0},))[1] == [*d].index("a") + 1
        for f in (ranked, jitted):
            for g in (ftrace.grad(f), ftrace.jit(ftrace.grad(f)), ftrace.jacfwd(f)):
                assert [*g(d).items()] == [*zip(d, (1, 2), strict=True)]
            assert [*ftrace.vjp(f, d)[1](1.0)[0].items()] == [*zip(d, (1, 2), strict=True)]
        assert list(ftrace.jit(lambda d: d)(d)) == list(tree.map(abs, d)) == list(d)


def test_dicts_of_one_structure_match_whatever_their_order():
    step = lambda c, x: ({"a": c["b"], "b": c["a"] + x}, x)  # noqa: E731
    carry, _ = ftrace.lax.scan(step, {"b": 1.0, "a": 2.0}, np.arange(3.0))
    assert list(carry.items()) == [("b", 4.0), ("a", 2.0)]
    found = tree.map(lambda p, q: p - q, {"b": 1.0, "a": 2.0}, {"a": 1.0, "b": 5.0})
    assert list(found.items()) == [("b", -4.0), ("a", 1.0)]
