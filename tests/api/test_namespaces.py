"""Namespaces and deques among arguments and results of every transformation (D4)."""

import collections
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import lax


def model(p: Any) -> Any:
    return np.sum(p.act(p.w) ** 2) * p.times + p.b


def parameters() -> SimpleNamespace:
    return SimpleNamespace(w=np.array([0.5, -1.0]), b=1.0, times=3, name="s", act=np.tanh)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_are_namespaces_and_leave_settings_alone(compiled: bool) -> None:
    gradient: Any = ftrace.grad(model)
    got = (ftrace.jit(gradient) if compiled else gradient)(parameters())
    y = np.tanh(parameters().w)
    np.testing.assert_allclose(got.w, 6 * y * (1 - y * y), rtol=1e-12)
    assert vars(got).keys() == vars(parameters()).keys()
    assert got.b == 1.0
    assert got.name is got.act is None


def test_transformations_take_and_give_them() -> None:
    p, times = SimpleNamespace(w=2.0, b=3.0), lambda p: p.w * p.b
    assert ftrace.jvp(times, (p,), (SimpleNamespace(w=1.0, b=0.0),)) == (6.0, 3.0)
    rows = SimpleNamespace(w=np.arange(3.0), b=2.0)
    got = ftrace.vmap(times, in_axes=(SimpleNamespace(w=0, b=None),))(rows)
    np.testing.assert_array_equal(got, [0.0, 2.0, 4.0])
    carry, ys = lax.scan(
        lambda c, x: (SimpleNamespace(a=c.a + x), collections.deque([c.a])),
        SimpleNamespace(a=0.0),
        np.arange(4.0),
    )
    assert carry.a == 6.0
    np.testing.assert_array_equal(ys[0], [0.0, 0.0, 1.0, 3.0])
    made = ftrace.jit(lambda x: collections.deque([x, 2 * x], maxlen=3))(1.0)
    assert (list(made), made.maxlen) == ([1.0, 2.0], 3)
    assert list(ftrace.grad(lambda d: d[0] * d[1])(collections.deque([2.0, 3.0]))) == [3.0, 2.0]


def test_the_order_of_names_is_kept() -> None:
    out = ftrace.jit(lambda p: p)(SimpleNamespace(b=1.0, a=2.0))
    assert list(vars(out)) == ["b", "a"]
    seen = []
    ftrace.jit(lambda p: seen.append(list(vars(p))) or p.a)(SimpleNamespace(b=1.0, a=2.0))
    assert seen == [["b", "a"]]


def test_captured_ones_are_read_at_each_call() -> None:
    p, d = SimpleNamespace(k=2.0), collections.deque([2.0], 3)
    f: Any = ftrace.jit(lambda x: x * p.k * d[0])
    assert f(1.0) == 4.0
    p.k, d[0] = 3.0, 5.0
    assert f(1.0) == 15.0
    d.appendleft(7.0)
    assert f(1.0) == 21.0
