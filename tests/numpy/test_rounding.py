"""`round` of traced values answers as `round` of what they stand for."""

from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.errors import DtypeError

_rng = np.random.default_rng(5)
_TIES = [1.115, 0.285, 2.675, 1.005, 5.015, 0.145, 1e22, 2.5, -2.5, 0.5, 1e300, -1.115, 4.35, 25.0]
_FLOATS = [
    *_TIES,
    *(float(v) for v in _rng.integers(-(10**6), 10**6, 300) / 1000.0),
    *(float(v) for v in (2 * _rng.integers(0, 10**6, 300) + 1) / 2000.0),
    *(float(v) for v in _rng.normal(size=100) * 10.0 ** _rng.integers(-20, 20, 100)),
]


@pytest.mark.parametrize("n", [-2, -1, 0, 1, 2, 3, 7, 15, 22])
def test_a_float_is_rounded_to_the_decimal_that_python_finds(n: int) -> None:
    compiled = ftrace.jit(lambda x: round(x, n))
    slope = ftrace.grad(lambda x: round(x, n) + x)
    for x in _FLOATS:
        assert compiled(x) == round(x, n), x
        assert type(compiled(x)) is float
    assert slope(1.26) == 1.0
    assert ftrace.grad(lambda x: round(x, n) * x)(2.5) == round(2.5, n)


def test_decimals_beyond_what_powers_of_ten_hold() -> None:
    compiled = ftrace.jit(lambda x: (round(x, 30), round(x, -25), round(x, 400)))
    for x in _FLOATS:
        wanted = (round(x, 30), round(x, -25), round(x, 400))
        np.testing.assert_allclose(compiled(x), wanted, rtol=3e-16)


def test_every_kind_of_number_rounds_to_its_own_kind() -> None:
    numbers: list[Any] = [2.567, 7, True, np.float64(2.567), np.float32(2.567), np.int64(17)]
    for x in numbers:
        for n in (None, 0, 1, -1):
            wanted = round(x, n)
            for way in (ftrace.jit, lambda f: ftrace.jit(ftrace.lift(f))):
                found = way(lambda x, n=n: round(x, n))(x)
                assert (type(found), found) == (type(wanted), wanted), (x, n)


def test_arrays_do_not_round_as_in_numpy() -> None:
    for x in (np.array([1.26, 2.5, 3.5]), np.array([15, 25]), np.zeros((2, 0))):
        for n in (None, 1):
            for f in (lambda x, n=n: round(x, n), lambda x, n=n: round(x.sum(keepdims=True), n)):
                for way in (lambda f: f, ftrace.jit, lambda f: ftrace.jit(ftrace.lift(f))):
                    with pytest.raises(TypeError, match="ndarray doesn't define __round__ method"):
                        way(f)(x)


def test_complex_numbers_do_not_round() -> None:
    for x in (1.5 + 1j, np.complex128(2.5)):
        for n in (None, 1):
            with pytest.raises(TypeError, match="doesn't define __round__"):
                ftrace.jit(lambda x, n=n: round(x, n))(x)


def test_truth_values_round_as_in_numpy() -> None:
    x = np.array([True, False])
    found = ftrace.jit(np.round)(x)
    np.testing.assert_array_equal(found, np.round(x), strict=True)
    with pytest.raises(DtypeError, match="decimals of truth values"):
        ftrace.jit(lambda x: np.round(x, 1))(x)
