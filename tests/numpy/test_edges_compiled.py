"""Edge values of integers and floats in compiled kernels: what NumPy gives on this machine.

Where C leaves a result undefined (floats that an integer dtype does not hold) NumPy's loops do not
agree with each other, and nothing is demanded.
"""

from typing import Any

import numpy as np
import pytest

import ftrace

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
FLOATS = [np.float16, np.float32, np.float64]


def _same(got: Any, want: Any) -> None:
    """Equal in value, dtype and sign of zero."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    if want.dtype.kind == "f":
        signs = np.isnan(want) | (np.signbit(got) == np.signbit(want))
        np.testing.assert_array_equal(signs, True)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisions_of_integers_by_zero_and_of_the_least_are_numpys(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    v = np.unique(np.clip(np.array([-7, -2, -1, 0, 1, 2, 7]), limits.min, limits.max))
    v = np.array([limits.min, limits.min + 1, *v, limits.max - 1, limits.max], dtype)
    x, y = np.repeat(v, len(v)), np.tile(v, len(v))

    def all_of(x: Any, y: Any) -> Any:
        return (
            *(x // y, x % y, *divmod(x, y), np.fmod(x, y), 1 // y, 1 % y, x // 0, x % 0, x // 3),
            *(np.reciprocal(x), np.gcd(x, y), np.lcm(x, y), x / y, 1 / y, x % 7, -x, abs(x)),
        )

    with np.errstate(all="ignore"):
        want = all_of(x, y)
        got = ftrace.jit(all_of)(x, y)
        single = ftrace.jit(lambda x: (np.reciprocal(x), dtype(1) // x, dtype(1) % x))
        zero = dtype(0)
        for one, other in zip(single(zero), (np.reciprocal(zero), zero, zero), strict=True):
            _same(one, other)
    for one, other in zip(got, want, strict=True):
        _same(one, other)


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeros_and_nans_of_extremes_and_clip_are_numpys(dtype: Any) -> None:
    v = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], dtype)
    x, y = np.repeat(v, len(v)), np.tile(v, len(v))
    zero, minus = dtype(0.0), dtype(-0.0)

    def all_of(x: Any, y: Any) -> Any:
        return (
            *(np.maximum(x, y), np.minimum(x, y), np.maximum(x, zero), np.minimum(minus, x)),
            *(np.clip(x, minus, zero), np.clip(x, zero, 2), np.clip(x, -2, minus), x.clip(minus)),
        )

    def numbers(x: Any, y: Any) -> Any:  # NumPy gives either zero of two
        return np.fmax(x, y) + 0, np.fmin(x, y) + 0

    for f in (all_of, numbers):
        want = f(x, y)
        for got in (ftrace.jit(f)(x, y), ftrace.vmap(f)(x, y)):
            for one, other in zip(got, want, strict=True):
                _same(one, other)


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_become_integers_as_in_numpy_where_they_fit(dtype: Any) -> None:
    v = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        -2.5,
        126.9,
        127.9,
        -128.9,
        255.9,
        32767,
        -32768,
        65504,
        2.0**31,
    ]
    v += [2.0**32 - 2**9, 2.0**53, -(2.0**53), 2.0**62, 2.0**63, 2.0**63 + 2**40]
    with np.errstate(over="ignore"):
        x = np.array(v, dtype)
    for integer in INTEGERS:
        limits = np.iinfo(integer)
        fits = [limits.min <= float(z) < limits.max + 1 for z in x]
        chosen = np.tile(x[fits], 5)
        _same(ftrace.jit(lambda x, to=integer: x.astype(to))(chosen), chosen.astype(integer))
