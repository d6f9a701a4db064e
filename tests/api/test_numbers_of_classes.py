"""Members of enumerations and other numbers of a class of their own: operands, never traced."""

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace.errors import DtypeError, LiftError


class Kind(enum.IntEnum):
    PLAIN = 1
    TWICE = 2


class Metres(float):
    pass


class Count(int):
    pass


class Phase(complex):
    pass


_NUMBERS = (Kind.TWICE, Metres(2.0), Count(2), Phase(2.0))
_OPERANDS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, n: x * n,
    lambda x, n: n - x,
    lambda x, n: np.sin(x) ** n,
    lambda x, n: np.add(n, x),
    lambda x, n: np.where(x > 1.0, x, n),
    lambda x, n: fnp.array([x, n])[1] * x,
)
_WAYS: dict[str, Callable[..., Any]] = {
    "grad": lambda f: ftrace.jvp(f, (1.5,), (0.0,))[0],
    "jit": lambda f: ftrace.jit(f)(1.5),
    "vmap": lambda f: ftrace.vmap(f)(np.array([1.5]))[0],
    "jit of vmap": lambda f: ftrace.jit(ftrace.vmap(f))(np.array([1.5]))[0],
}


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("n", _NUMBERS, ids=lambda n: type(n).__name__)
def test_they_are_operands(n: Any, way: str) -> None:
    for f in _OPERANDS:
        assert np.isclose(_WAYS[way](lambda x, f=f: f(x, n)), f(1.5, n))


def _is_it(x: Any, n: Any) -> Any:
    return x * 2 if isinstance(n, (Kind, Metres, Count, Phase)) else x


_ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "jit": lambda n: ftrace.jit(_is_it)(3.0, n),
    "jit of grad": lambda n: ftrace.jit(ftrace.grad(_is_it))(3.0, n),
    "vmap": lambda n: ftrace.vmap(_is_it, in_axes=(0, None))(np.ones(2), n),
    "vectorize": lambda n: ftrace.vectorize(_is_it)(np.ones(2), n),
    "grad": lambda n: ftrace.grad(_is_it, argnums=1)(3.0, n),
    "grad of checkpoint": lambda n: ftrace.grad(ftrace.checkpoint(_is_it))(3.0, n),
    "scan": lambda n: ftrace.lax.scan(lambda c, _: (c, None), n, None, length=2),
    "while_loop": lambda n: ftrace.lax.while_loop(lambda c: c < 0, lambda c: c, n),
    "fori_loop": lambda n: ftrace.lax.fori_loop(0, 2, lambda i, c: c, n),
    "cond": lambda n: ftrace.lax.cond(True, _is_it, _is_it, 3.0, n),
}


@pytest.mark.parametrize("way", _ARGUMENTS)
@pytest.mark.parametrize("n", _NUMBERS, ids=lambda n: type(n).__name__)
def test_they_are_no_arguments_of_what_is_traced(n: Any, way: str) -> None:
    with pytest.raises(DtypeError, match=f"{type(n).__name__} is a number of a class of its own"):
        _ARGUMENTS[way](n)


@pytest.mark.parametrize("n", _NUMBERS, ids=lambda n: type(n).__name__)
def test_they_stay_where_nothing_is_traced(n: Any) -> None:
    assert ftrace.grad(_is_it)(3.0, n) == 2.0
    assert ftrace.jit(_is_it, static_argnums=1)(3.0, n) == 6.0


def test_what_is_no_result_is_named_beside_one() -> None:
    with pytest.raises(DtypeError, match=r"result\[1\]"):
        ftrace.jit(lambda x: (Kind.TWICE, "text", x))(1.0)


def _states(x: Any) -> Any:
    state = Kind.PLAIN
    while x < 20.0:
        x = x * 2
        if state is Kind.PLAIN:
            state = Kind.TWICE
        else:
            x, state = x + 1, Kind.PLAIN
    return x + (100.0 if state is Kind.TWICE else 0.0)


def _chosen(x: Any) -> Any:
    state = Kind.PLAIN if x > 1.0 else Kind.TWICE
    return x * 2 if state is Kind.PLAIN else x


def _unchanged(x: Any) -> Any:
    state = Kind.PLAIN
    if x > 1.0:
        x, state = x * 2, Kind.PLAIN
    return x * 3 if state is Kind.PLAIN else x


@pytest.mark.parametrize("f", [_states, _chosen], ids=lambda f: f.__name__)
def test_a_traced_decision_does_not_make_numbers_of_them(f: Any) -> None:
    with pytest.raises(LiftError, match=r"Kind\.PLAIN"):
        ftrace.jit(f)(3.0)
    with pytest.raises(LiftError, match=r"Kind\.PLAIN"):
        ftrace.vmap(f)(np.array([3.0, 0.5]))


def test_the_same_member_on_both_sides_stays() -> None:
    assert ftrace.jit(_unchanged)(3.0) == _unchanged(3.0)
    assert np.array_equal(ftrace.vmap(_unchanged)(np.array([3.0, 0.5])), [18.0, 1.5])
