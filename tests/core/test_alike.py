"""Recordings of two runs: what makes them one computation, and what does not."""

import functools
import types
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.control.functions import flatten_call, stage_function
from ftrace.core.avals import typeof
from ftrace.interpreters.alike import Recording, are_alike, follow, recorded

X = np.array([1.0, 2.0])
Y = np.array([3.0, 4.0])


def _of(f: Any, *args: Any) -> Recording:
    leaves, tree = flatten_call(args or (1.0, 2.0))
    staged = stage_function(f, tree, [typeof(x) for x in leaves])
    return Recording.of(staged.jaxpr, staged.captured)


def _called(host: Any) -> Any:
    return lambda x, y: ftrace.pure_callback(host, ftrace.ShapeDtypeStruct((), np.float64), x) + y


def _scaled(k: Any) -> Any:
    return lambda v: v * k


class _Scale:
    __slots__ = ("k",)

    def __init__(self, k: Any) -> None:
        self.k = k

    def __call__(self, v: Any) -> Any:
        return v * self.k


def _with_default(k: Any) -> Any:
    def host(v: Any, scale: Any = k, *, shift: Any = k) -> Any:
        return v * scale + shift

    return host


MAKERS = {
    "a number": lambda k: lambda x, y: x * k + y,
    "an array": lambda k: lambda x, y: (x * (X * k)).sum() + y,
    "a closure": lambda k: _called(_scaled(k)),
    "a default": lambda k: _called(_with_default(k)),
    "a partial": lambda k: _called(functools.partial(np.multiply, k)),
    "an object": lambda k: _called(_Scale(k)),
    "a method": lambda k: _called(_Scale(k).__call__),
    "a namespace": lambda k: _called(_scaled(types.SimpleNamespace(k=k))),
    "a dict": lambda k: _called(_scaled({"k": [k]})),
    "a set": lambda k: _called(_scaled({k})),
    "a closure of a closure": lambda k: _called(_scaled(_scaled(k))),
    "an array of a closure": lambda k: _called(_scaled(X * k)),
    "objects in an array": lambda k: _called(_scaled(np.array([k, "a"], dtype=object))),
    "a call": lambda k: ftrace.jit(lambda x, y: x * k + y),
    "a rule": lambda k: ftrace.custom_vjp(lambda x, y: x * k + y),
}


def _ruled(f: Any) -> Any:
    if isinstance(f, type(ftrace.custom_vjp(np.sin))):
        f.defvjp(lambda x, y: (f(x, y), x), lambda x, ct: (ct, ct))
    return f


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_is_made_anew_of_the_same_is_alike(make: Any) -> None:
    a, b, c = (_of(_ruled(make(k))) for k in (2.0, 2.0, 3.0))
    assert are_alike(a, b)
    assert not are_alike(a, c)


DIFFERENT = {
    "operands": (lambda x, y: x - y, lambda x, y: y - x),
    "rows": (lambda x, y: x + y, lambda x, y: x * y),
    "more": (lambda x, y: x + y, lambda x, y: x + y + y),
    "results": (lambda x, y: (x, y), lambda x, y: (y, x)),
    "fewer results": (lambda x, y: (x, y), lambda x, y: x),
    "params": (lambda x, y: X.sum() + x + y, lambda x, y: Y.sum() + x + y),
    "a sign": (lambda x, y: x * 0.0 + y, lambda x, y: x * -0.0 + y),
    "a type": (lambda x, y: (1, x + y), lambda x, y: (1.0, x + y)),
    "host code": (_called(lambda v: v * 2), _called(lambda v: v * 3)),
}


@pytest.mark.parametrize(("f", "g"), DIFFERENT.values(), ids=DIFFERENT)
def test_what_computes_something_else_is_not(f: Any, g: Any) -> None:
    assert are_alike(_of(f), _of(f))
    assert not are_alike(_of(f), _of(g))


def test_a_captured_array_is_compared_as_it_was() -> None:
    array = X.copy()

    def f(x: Any, y: Any) -> Any:
        return (x * array).sum() + y

    before = _of(f)
    array[0] = 7.0
    assert not are_alike(before, _of(f))
    array[0] = 1.0
    assert are_alike(before, _of(f))


def test_traced_values_of_another_transformation_are_compared_by_identity() -> None:
    def outer(a: Any, b: Any) -> Any:
        first, second = (lambda x, y, v=v: x * v + y for v in (a, b))
        assert are_alike(_of(first), _of(first))
        assert not are_alike(_of(first), _of(second))
        return a

    ftrace.jit(outer)(1.0, 2.0)
    ftrace.vmap(outer)(X, Y)
    ftrace.grad(outer)(1.0, 2.0)


def test_a_run_that_is_followed_gives_its_results_and_the_same_recording() -> None:
    def run(values: list[Any]) -> Any:
        x, k = values
        return [ftrace.numpy.sin(x) * float(k), k], [0, None]

    (ys, dims), recording = follow(run, [X, 3.0], [0, None])
    np.testing.assert_array_equal(ys[0], np.sin(X) * 3.0)
    assert type(ys[0]) is np.ndarray
    assert (ys[1], dims) == (3.0, [0, None])
    assert are_alike(recording, recorded(run, [X, 3.0], [0, None]))
    assert not are_alike(recording, recorded(run, [X, 4.0], [0, None]))


def test_effects_are_recorded_and_do_not_take_place() -> None:
    seen: list[Any] = []

    def run(values: list[Any]) -> Any:
        ftrace.io_callback(seen.append, None, 5.0)
        return values, [0]

    recording = recorded(run, [X], [0])
    assert not seen
    assert len(recording.eqns) == 1
    assert are_alike(recording, follow(run, [X], [0])[1])
    assert len(seen) == 1
