# ruff: noqa: NPY002 - the generators that modules share
"""Random numbers that Python draws while a function is traced: each its own, or a named error."""

import functools
import random
from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import LiftError

_rng = np.random.default_rng(0)
_old = np.random.RandomState(0)
_draw = _rng.normal
_own = random.Random(0)
_table = {"rng": [_rng]}
_five = np.arange(5.0)


class Noise:
    """Holds a generator."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(3)

    def one(self) -> float:
        return self.rng.normal()


class Shared:
    """Draws from the generator that a module shares, in a property."""

    @property
    def one(self) -> float:
        return np.random.rand()


_noise = Noise()
_shared = Shared()


def _helper() -> float:
    return _rng.uniform()


DRAWS: dict[str, Any] = {
    "generator": lambda: _rng.normal(),
    "legacy": lambda: np.random.rand(),
    "legacy gauss": lambda: np.random.randn(),
    "own legacy": lambda: _old.standard_normal(),
    "python": lambda: random.random(),
    "python gauss": lambda: random.gauss(0, 1),
    "own python": lambda: _own.random(),
    "method": lambda: _draw(),
    "of an object": lambda: _noise.rng.normal(),
    "in a method": lambda: _noise.one(),
    "in a property": lambda: _shared.one,
    "in a helper": _helper,
    "in a container": lambda: _table["rng"][0].normal(),
    "partial": functools.partial(_rng.normal, 1.0),
    "jitted": ftrace.jit(_helper),
    "permutation": lambda: _rng.permutation(3)[0],
}


def _states() -> list[Any]:
    made = [_rng, _noise.rng]
    legacy = [_old.get_state(legacy=False), np.random.get_state(legacy=False)]
    return [
        *(repr(g.bit_generator.state) for g in made),
        *map(repr, legacy),
        random.getstate(),
        _own.getstate(),
    ]


def _while(draw: Any) -> Any:
    def f(x: Any) -> Any:
        total = 0.0
        while total < x:
            total = total + abs(draw()) + 0.1
        return total

    return ftrace.jit(f)(3.0)


def _for(draw: Any) -> Any:
    def f(n: Any) -> Any:
        total = 0.0
        for _ in range(n):
            total = total + draw()
        return total

    return ftrace.jit(f)(5)


def _if(draw: Any) -> Any:
    def f(x: Any) -> Any:
        if x > 0:
            return x + draw()
        return x

    return ftrace.jit(f)(-1.0)


WAYS: dict[str, Any] = {
    "vmap": lambda d: ftrace.vmap(lambda x: x + d())(_five),
    "vmap of grad": lambda d: ftrace.vmap(ftrace.grad(lambda x: x * d()))(_five),
    "jit of vmap": lambda d: ftrace.jit(ftrace.vmap(lambda x: x + d()))(_five),
    "vmap of jit": lambda d: ftrace.vmap(ftrace.jit(lambda x: x + d()))(_five),
    "vectorize": lambda d: ftrace.vectorize(lambda x: x + d())(_five),
    "np.vectorize": lambda d: ftrace.jit(lambda x: np.vectorize(lambda v: v + d())(x))(_five),
    "along an axis": lambda d: ftrace.jit(
        lambda x: np.apply_along_axis(lambda v: v + d(), 0, fnp.outer(x, x))
    )(_five),
    "scan": lambda d: lax.scan(lambda c, x: (c + d(), c * x), 0.0, _five),
    "scan under jit": lambda d: ftrace.jit(
        lambda x: lax.scan(lambda c, v: (c + d() * x, v), x, _five)
    )(1.0),
    "fori_loop": lambda d: lax.fori_loop(0, 4, lambda i, c: c + d(), 0.0),
    "while_loop": lambda d: lax.while_loop(lambda c: c < 3, lambda c: c + abs(d()) + 1, 0.0),
    "condition": lambda d: lax.while_loop(lambda c: c + 0 * d() < 3, lambda c: c + 1, 0.0),
    "map": lambda d: lax.map(lambda x: x + d(), _five),
    "map in batches": lambda d: lax.map(lambda x: x + d(), _five, batch_size=2),
    "cond": lambda d: lax.cond(True, lambda x: x + d(), lambda x: x, 1.0),
    "lifted while": _while,
    "lifted for": _for,
    "lifted if": _if,
}


@pytest.mark.parametrize("way", WAYS)
def test_one_number_for_all_is_a_named_error(way: str) -> None:
    for name in ("generator", "legacy", "python gauss", "in a method"):
        with pytest.raises(LiftError, match="random number is drawn"):
            WAYS[way](DRAWS[name])


@pytest.mark.parametrize("name", DRAWS)
def test_every_generator_is_found(name: str) -> None:
    for way in ("vmap", "scan", "vectorize"):
        with pytest.raises(LiftError, match=r"(?s)random number is drawn.*ftrace\.random"):
            WAYS[way](DRAWS[name])


@pytest.mark.parametrize("way", ["vmap", "vectorize", "scan", "while_loop", "map", "cond"])
def test_what_was_drawn_is_put_back(way: str) -> None:
    before = _states()
    for draw in DRAWS.values():
        with pytest.raises(LiftError):
            WAYS[way](draw)
    assert _states() == before


def test_a_generator_that_the_function_makes_is_its_own() -> None:
    def f(x: Any) -> Any:
        return x + np.random.default_rng(0).normal()

    wanted = np.array([f(v) for v in _five])
    np.testing.assert_array_equal(ftrace.vmap(f)(_five), wanted)
    np.testing.assert_array_equal(ftrace.vectorize(f)(_five), wanted)
    np.testing.assert_array_equal(lax.map(f, _five), wanted)


def test_a_function_without_a_loop_draws_as_in_python() -> None:
    def f(x: Any, rng: Any) -> Any:
        return x * rng.normal() + rng.uniform()

    plain, traced = np.random.default_rng(7), np.random.default_rng(7)
    compiled = ftrace.jit(lambda x: f(x, traced))
    assert [compiled(v) for v in _five] == [f(v, plain) for v in _five]


def test_a_function_that_is_traced_again_lifted_draws_once() -> None:
    def f(x: Any, rng: Any) -> Any:
        noise = rng.normal()
        if x > 2:
            return x + noise
        return x - noise

    for way in (ftrace.jit, ftrace.lift):
        plain, traced = np.random.default_rng(7), np.random.default_rng(7)
        compiled = way(lambda x, rng=traced: f(x, rng))
        assert [compiled(v) for v in _five] == [f(v, plain) for v in _five]

    def stores(x: Any, rng: Any) -> Any:
        out = np.zeros(2)
        out[0] = x * rng.normal()
        return out.sum()

    plain, traced = np.random.default_rng(7), np.random.default_rng(7)
    slope = ftrace.grad(lambda x: stores(x, traced))
    assert [slope(v) for v in _five] == [plain.normal() for _ in _five]


def test_turns_that_python_makes_draw_each() -> None:
    def f(x: Any, rng: Any) -> Any:
        for _ in range(3):
            x = x + rng.normal()
        return x

    plain, traced = np.random.default_rng(7), np.random.default_rng(7)
    compiled = ftrace.jit(lambda x: f(x, traced))
    np.testing.assert_allclose([compiled(v) for v in _five], [f(v, plain) for v in _five])


def test_a_list_that_a_bound_method_grows_in_an_arm_is_seen() -> None:
    seen: list[float] = []
    note = seen.append
    keep = functools.partial(list.append, seen)

    def f(x: Any, tell: Any) -> Any:
        if x > 0:
            tell(1.0)
            x = x * 2
        return x

    for tell in (note, keep):
        with pytest.raises(LiftError, match="a list of 1 on one side of a decision"):
            ftrace.jit(lambda x, t=tell: f(x, t))(1.0)
        seen.clear()


def test_a_generator_that_is_set_back_draws_again() -> None:
    def f(x: Any) -> Any:
        return x + np.random.rand()

    compiled = ftrace.jit(f)
    wanted = []
    for fun in (f, compiled):
        found = []
        for calls in (1, 3, 2):
            np.random.seed(0)
            found += [fun(0.0) for _ in range(calls)]
        wanted.append(found)
    assert wanted[0] == wanted[1]


def test_an_attribute_that_is_set_back_counts_again() -> None:
    class Counter:
        n = 0.0

        def __call__(self, x: Any) -> Any:
            self.n = self.n + 1.0
            return x * self.n

    plain, traced = Counter(), Counter()
    compiled = ftrace.jit(traced)
    for calls in (1, 3, 2):
        plain.n = traced.n = 0.0
        assert [compiled(2.0) for _ in range(calls)] == [plain(2.0) for _ in range(calls)]
        assert plain.n == traced.n


def test_a_list_that_is_appended_to_and_read_is_read_at_each_call() -> None:
    def summed(x: Any, seen: list[float]) -> Any:
        seen.append(1.0)
        return x * sum(seen)

    def counted(x: Any, seen: list[float]) -> Any:
        seen.append(1.0)
        return x * len(seen)

    for fun in (summed, counted):
        plain: list[float] = []
        traced: list[float] = []
        for way in (ftrace.jit, ftrace.lift, lambda f: ftrace.jit(ftrace.lift(f))):
            compiled = way(functools.partial(fun, seen=traced))
            assert [compiled(v) for v in _five] == [fun(v, plain) for v in _five]
            assert traced == plain
