"""Lists and tuples beside traced scalars: what Python does with its numbers, or a named error."""

import numpy as np
import pytest

from ftrace import grad, jit, vectorize, vmap
from ftrace.errors import FtraceError, TracerIntegerConversionError

ROW = [1.0, 2.0]


def outcome(function, *args):
    try:
        return function(*args)
    except (TypeError, ValueError, FtraceError) as error:
        return error


@pytest.mark.parametrize(
    "function",
    [
        lambda n: ROW * n,
        lambda n: n * ROW,
        lambda n: tuple(ROW) * n,
        lambda n: len(n * ROW),
        lambda n: sum(ROW * n),
    ],
)
@pytest.mark.parametrize("n", [3, np.int64(3)])
def test_what_repeats_a_list_is_to_be_known(function, n):
    with pytest.raises(TracerIntegerConversionError):
        jit(function)(n)
    with pytest.raises(TracerIntegerConversionError):
        vmap(function)(np.array([3, 3]))
    assert jit(function, static_argnums=0)(3) == pytest.approx(function(3))


def test_a_list_is_repeated_by_a_known_number():
    assert grad(lambda x, n: x * len(ROW * n))(2.0, 3) == 6.0


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ROW * x,
        lambda x: x * ROW,
        lambda x: x + ROW,
        lambda x: ROW - x,
        lambda x: x < ROW,
        lambda x: x**ROW,
        lambda x: divmod(x, ROW),
        lambda x: x == ROW,
        lambda x: x != ROW,
        lambda x: 1.0 if x == (2.0,) else 3.0,
    ],
)
@pytest.mark.parametrize("x", [2.0, np.float64(2.0), np.array([2.0, 3.0])])
def test_a_list_is_an_array_where_numpy_makes_it_one(function, x):
    want, got = outcome(function, x), outcome(jit(function), x)
    assert isinstance(got, Exception) == isinstance(want, Exception), got
    if not isinstance(want, Exception):
        np.testing.assert_array_equal(got, want)


def test_the_error_says_what_to_do():
    with pytest.raises(TracerIntegerConversionError, match=r"numpy\.asarray\(list\) \* x"):
        vectorize(lambda x: (x * ROW)[0])(np.ones(3))


def test_a_power_with_a_modulus_is_refused_by_name():
    with pytest.raises(FtraceError, match="modulo"):
        jit(lambda n: pow(n, 3, 5))(4)
