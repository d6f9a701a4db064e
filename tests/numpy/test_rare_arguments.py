"""Arguments that are rare: keys, ways to copy, powers of zero, places of nothing."""

from typing import Any

import numpy as np
import pytest

from ftrace import jit
from ftrace import numpy as fnp

V = np.array([0.3, -1.2, 2.5, 0.0])


def test_a_float_of_rank_0_is_no_index() -> None:
    for key in (np.array(1.0), np.float64(1.0)):
        with pytest.raises(IndexError):
            jit(lambda x, key=key: x[key])(V)
    assert jit(lambda x: x[np.array(2)])(V) == 2.5


def test_a_tuple_in_a_key_is_an_array_of_its_traced_parts() -> None:
    f = jit(lambda x, i: (x[(i, 2),], x[[i, 2]]))
    for found in f(V, 1):
        np.testing.assert_array_equal(found, [-1.2, 2.5])


@pytest.mark.parametrize("mode", ["ALWAYS", "IF_NEEDED"])
def test_ways_to_copy_have_two_names(mode: str) -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        z = np.array(y, copy=np._CopyMode[mode])
        z[0] = 9.0
        return y

    np.testing.assert_array_equal(jit(f)(V), f(V))


def test_zero_to_a_positive_power_is_no_division_by_zero() -> None:
    def f(x: float, y: float) -> float:
        try:
            return x**y
        except ZeroDivisionError:
            return -1.0

    for x, y in ((0.0, 2.0), (0.0, -2.0), (3.0, -1.0), (0.0, 0.0)):
        assert jit(f)(x, y) == f(x, y)


@pytest.mark.parametrize("wanted", ["O", "W"])
def test_what_must_own_its_memory_is_a_copy_of_a_view(wanted: str) -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        z = np.require(y[1:], requirements=wanted)
        z[0] = 9.0
        return y

    np.testing.assert_array_equal(jit(f)(V), f(V))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_nothing_has_no_places(shape: tuple[int, ...]) -> None:
    found = jit(lambda x: fnp.nonzero(x, size=2, fill_value=7))(np.ones(shape))
    assert len(found) == len(shape)
    for places in found:
        np.testing.assert_array_equal(places, [7, 7])
