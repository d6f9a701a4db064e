"""Python numbers that traced values choose stay Python numbers for the members of `vmap`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace


def _chosen(x: Any) -> Any:
    return x * (1 if x > 0 else 2)


def _of_floats(x: Any) -> Any:
    return x * max(0.5, 0.25 if x > 0 else 0.75) ** (2 if x > 0 else 3)


def _counted(x: Any) -> Any:
    n = 0
    while abs(x) > 0.5:
        x, n = x / 2, n + 1
    return x * n


def _added(x: Any) -> Any:
    total = 0.5
    for i in range(3):
        if x > i:
            total += 1 + float(i)
    return x + total


def _wrapped(x: Any) -> Any:
    return np.int8(100) + (100 if x > 0 else 2) + (x * 0).astype(np.int8)


def _summed(x: Any) -> Any:
    return x * sum([1 if x > 0 else 0, 2]) - x * (True if x > 1 else False)  # noqa: SIM210


_WAYS: dict[str, Callable[..., Any]] = {
    "vmap": ftrace.vmap,
    "jit of vmap": lambda f: ftrace.jit(ftrace.vmap(f)),
    "vmap of jit": lambda f: ftrace.vmap(ftrace.jit(f)),
    "vmap of vmap": lambda f: lambda x: ftrace.vmap(ftrace.vmap(f))(x[:, None])[:, 0],
    "vmap of jvp": lambda f: ftrace.vmap(lambda x: ftrace.jvp(f, (x,), (x,))[0]),
}


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("f", [_chosen, _of_floats, _counted, _added, _wrapped, _summed])
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_dtypes_are_those_of_the_loop(f: Any, way: str) -> None:
    x = np.array([1.5, -2.5, 0.25], np.float32)
    right = np.array([f(v) for v in x])
    found = _WAYS[way](f)(x)
    assert found.dtype == right.dtype
    np.testing.assert_allclose(found, right, rtol=1e-6)


def test_a_chosen_int_is_an_int() -> None:
    found = []

    def f(x: Any) -> Any:
        k = 1 if x > 0 else 2
        found.append((type(k), type(k + 1), type(k > 1), isinstance(np.add(k, 1), np.int64)))
        return x * k

    ftrace.vmap(f)(np.array([1.0, -1.0]))
    assert found[-1] == (int, int, bool, True)
