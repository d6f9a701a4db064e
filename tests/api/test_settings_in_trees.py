"""Trees of parameters that hold integers, booleans, strings, functions and None."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import errors
from ftrace.control.traces import counter
from ftrace.tree_util import tree_map


@dataclasses.dataclass
class Net:
    w: Any
    layers: Any = 2
    name: Any = "net"
    act: Any = np.tanh
    flag: Any = True
    none: Any = None


NET = Net(np.array([1.0, 2.0]))


def loss(net):
    y = net.w
    for _ in range(net.layers):
        y = net.act(y)
    return np.sum(y * 2 if net.flag else y) * len(net.name)


def by_hand(w):
    return loss(Net(w))


def same(net, w):
    np.testing.assert_allclose(net.w, w)
    assert (net.layers, net.name, net.act, net.flag, net.none) == (None,) * 5


@pytest.mark.parametrize(
    "gradient",
    [
        ftrace.grad(loss),
        ftrace.jit(ftrace.grad(loss)),
        ftrace.grad(ftrace.jit(loss)),
        ftrace.grad(ftrace.checkpoint(loss)),
        ftrace.jacrev(loss),
        ftrace.jacfwd(loss),
        lambda net: ftrace.vjp(loss, net)[1](1.0)[0],
        lambda net: ftrace.value_and_grad(loss)(net)[1],
    ],
)
def test_what_has_no_derivative_stays_as_it_is_and_its_gradient_is_none(gradient):
    same(gradient(NET), ftrace.grad(by_hand)(NET.w))


def test_tangents_of_what_stays_are_none():
    tangent = Net(np.ones(2), None, None, None, None, None)
    expected = np.sum(ftrace.grad(by_hand)(NET.w))
    np.testing.assert_allclose(ftrace.jvp(loss, (NET,), (tangent,))[1], expected)
    np.testing.assert_allclose(ftrace.linearize(loss, NET)[1](tangent), expected)
    y, dy = ftrace.jvp(
        lambda p: p["x"] * len(p["s"]), ({"x": 3.0, "s": "ab"},), ({"x": 1.0, "s": None},)
    )
    assert (y, dy) == (6.0, 2.0)


def test_integers_of_containers_stay_whatever_they_are():
    def f(p):
        return np.sum(p["w"] * p["n"]) * (2 if p["b"] else 3)

    for n in (3, np.int64(3), np.array([3, 3])):
        found = ftrace.grad(f)({"w": np.ones(2), "n": n, "b": False})
        assert (found["n"], found["b"], found["w"].tolist()) == (None, None, [9.0, 9.0])
    assert ftrace.grad(lambda p: p[0] * p[1])((3, 1.5)) == (None, 3.0)
    assert ftrace.hessian(lambda p: p["x"] ** p["n"])({"x": 3.0, "n": 2})["x"]["x"] == 2.0


def test_an_integer_that_is_an_argument_is_differentiated_or_refused():
    assert ftrace.grad(lambda x: x * x)(3) == 6.0
    for x in (np.array([1, 2]), np.int64(3), True):
        with pytest.raises(errors.DtypeError, match="pass floats"):
            ftrace.grad(lambda x: np.sum(x * x))(x)


def test_arguments_without_any_float_are_refused():
    with pytest.raises(errors.DtypeError, match="hold no float"):
        ftrace.grad(lambda p: p["n"] * 1.0)({"n": 3, "s": "a"})


def test_under_jit_strings_and_functions_are_static():
    f = ftrace.jit(lambda p: p["act"](p["x"]) * len(p["names"][0]))
    for act in (np.sin, np.cos, np.sin):
        for name in ("a", "bcd", "a"):
            assert f({"x": 2.0, "act": act, "names": [name]}) == act(2.0) * len(name)
    with pytest.raises(errors.DtypeError, match=r"p\['names'\]\[0\]"):
        f({"x": 2.0, "act": np.sin, "names": [{1, 2}]})


def test_a_string_that_is_an_argument_names_both_cures():
    with pytest.raises(errors.DtypeError, match=r"(?s)static.*container"):
        ftrace.jit(lambda x, s: x * len(s))(2.0, "ab")


def test_integers_under_jit_are_traced_until_python_needs_them():
    before = counter.count
    step = ftrace.jit(lambda p: {"w": p["w"] * p["n"], "n": p["n"] + 1})
    p = {"w": np.ones(2), "n": 1}
    for _ in range(4):
        p = step(p)
    assert (p["n"], p["w"].tolist(), counter.count - before) == (5, [24.0, 24.0], 1)

    def shaped(p):
        y = p["x"]
        for w in [1.0] * p["n"]:
            y = y * 2 * w
        return y.reshape(p["n"], -1)

    f = ftrace.jit(shaped)
    for n in (2, 4, 1, 2):
        p = {"x": np.ones(4), "n": n}
        assert f(p).tolist() == shaped(p).tolist()


def test_what_stays_is_returned_as_it_was():
    for transformed in (
        ftrace.jit(lambda n: n),
        ftrace.jit(lambda n: dataclasses.replace(n, w=n.w * 1)),
    ):
        found = transformed(NET)
        assert (found.layers, found.name, found.act, found.flag) == (2, "net", np.tanh, True)
    assert ftrace.vmap(lambda p: p)({"x": np.ones(2), "s": "ab"})["s"] == "ab"

    @ftrace.jit
    def update(net):
        return tree_map(
            lambda g, p: p if g is None else p - 0.1 * g,
            ftrace.grad(loss)(net),
            net,
            is_leaf=lambda g: g is None,
        )

    found = update(NET)
    np.testing.assert_allclose(found.w, NET.w - 0.1 * ftrace.grad(by_hand)(NET.w))
    assert (found.name, found.act) == ("net", np.tanh)
