"""Quotients and remainders of vectors of integers, which are made of floats, against NumPy's."""

import numpy as np
import pytest

import ftrace
from ftrace.cpu.llvm.division import NEAR

rng = np.random.default_rng(21)
N = 1027  # vectors, and a ragged end
TYPES = ("i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1")


def some(dtype):
    """All of a range, few, powers of two, those next to where vectors change their way, ends."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    near, below = min(most, NEAR - 1), max(least, -NEAR)
    yield rng.integers(least, most, N, dtype, endpoint=True)
    yield rng.integers(max(least, -9), 10, N).astype(dtype)
    yield rng.integers(below, near, N, dtype, endpoint=True)
    sizes = 2 ** rng.uniform(0, np.log2(near), N)
    yield (sizes * rng.choice([1, 1 if least == 0 else -1], N)).astype(dtype)
    ends = [least, most, 0, 1, most // 2, least + 1, near, below, near - 1, below + 1]
    yield rng.choice(np.array([*ends, near + (near < most)], dtype), N)


@pytest.fixture(scope="module")
def compiled():
    return ftrace.jit(lambda a, b: (a // b, a % b, np.fmod(a, b)))


def check(f, a, b):
    with np.errstate(all="ignore"):
        for got, want in zip(f(a, b), (a // b, a % b, np.fmod(a, b)), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", TYPES)
def test_of_all_sizes(compiled, dtype):
    for a in some(dtype):
        for b in some(dtype):
            check(compiled, a, b)
            for k in range(3):
                check(compiled, a, b[k])
                check(compiled, a[k], b)


@pytest.mark.parametrize("dtype", TYPES)
def test_next_to_multiples(compiled, dtype):
    most = min(int(np.iinfo(dtype).max), NEAR - 1)
    for _ in range(20):
        divisor = (2 ** rng.uniform(0, np.log2(most), N)).astype(dtype)
        times = np.floor(rng.uniform(0, most / divisor.astype(float) - 1)).clip(0).astype(dtype)
        for step in (-1, 0, 1):
            a = divisor * times + np.array(step).astype(dtype)
            check(compiled, a, divisor)
            if dtype[0] == "i":
                check(compiled, -a, divisor)
                check(compiled, a, -divisor)


@pytest.mark.parametrize("dtype", ["i1", "u1"])
def test_all_bytes(compiled, dtype):
    each = np.arange(256).astype(dtype)
    check(compiled, *(x.ravel().copy() for x in np.meshgrid(each, each)))


@pytest.mark.parametrize("dtype", ["i4", "u2", "i1"])
def test_no_element_is_divided_by_itself(dtype):
    text = ftrace.jit(lambda x: x // 7).lower(np.ones(100, dtype)).llvm
    assert "sdiv <" not in text
    assert "udiv <" not in text
