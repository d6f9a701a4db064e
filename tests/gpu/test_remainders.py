"""Eager quotients and remainders of CuPy arrays: NumPy's bits, as those of kernels are."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from ftrace import jit
from ftrace.gpu.eager import cupy_library
from ftrace.primitives.table import by_name
from tests.gpu.emulation.device import HostDevice
from tests.gpu.hosted import here, there

ROWS = ["mod", "floor_divide", "rem"]
FLOATS = [
    *(0.0, -0.0, 0.1, -0.1, 0.3, 1.0, -1.0, 1.5, 2.0, 3.0, 5.0, -5.0, 1e-300, 1e300),
    *(np.inf, -np.inf, np.nan, 2.0**53 + 2, 2.0**53 - 1, 2.0**31, 5e-324),
]
COUNT = 100_000


def operands(dtype: str) -> tuple[Any, Any]:
    """Pairs of edges, and random numbers up to a hundred thousand pairs."""
    rng, kind = np.random.default_rng(7), np.dtype(dtype)
    if kind.kind == "f":
        with np.errstate(over="ignore"):
            edges = np.array(FLOATS).astype(kind)
        sizes = 10.0 ** rng.integers(-4, 5, (2, COUNT))
        more = (rng.normal(size=(2, COUNT)) * sizes).astype(kind)
        more[:, ::7] = np.round(more[:, ::7])
    else:
        info = np.iinfo(kind)
        near = [0, 1, 2, 3, 7, 2**53 + 1, 2**31]
        every = [info.min, info.min + 1, info.max, info.max - 1, *near, *(-n for n in near)]
        edges = np.array([n for n in every if info.min <= n <= info.max], kind)
        more = rng.integers(info.min, info.max, (2, COUNT), kind, endpoint=True)
        more[1, ::3] = rng.integers(-9 if info.min else 0, 9, len(more[1, ::3]))
    x, y = (np.array(z, kind) for z in zip(*product(edges, edges), strict=True))
    return np.concatenate([x, more[0, len(x) :]]), np.concatenate([y, more[1, len(y) :]])


def evaluated(name: str, *args: Any) -> Any:
    (found,) = cupy_library.evaluate(by_name[name], args, {})
    return here(found)


def assert_same_bits(found: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    fine = found == expected
    if found.dtype.kind == "f":
        fine = fine & (np.signbit(found) == np.signbit(expected))
        fine |= np.isnan(found) & np.isnan(expected)
    assert fine.all(), np.flatnonzero(~fine)[:5]


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i1", "u8", "u1"])
@pytest.mark.parametrize("name", ROWS)
def test_a_hundred_thousand_pairs_are_numpys(
    name: str, dtype: str, host_device: HostDevice
) -> None:
    x, y = operands(dtype)
    assert len(x) == COUNT
    with np.errstate(all="ignore"):
        expected = by_name[name].impl(x, y)
    found = evaluated(name, there(x), there(y))
    assert_same_bits(found, expected)
    row = by_name[name]
    assert_same_bits(here(jit(lambda x, y: row(x, y))(there(x), there(y))), expected)


@pytest.mark.parametrize("name", ROWS)
def test_numbers_and_steps(name: str, host_device: HostDevice) -> None:
    x = np.linspace(-3, 3, 24).reshape(4, 6)
    row = by_name[name].impl
    for y in (0.7, np.float64(-0.7)):
        assert_same_bits(evaluated(name, there(x), y), row(x, y))
        assert_same_bits(evaluated(name, y, there(x)), row(y, x))
    assert_same_bits(evaluated(name, there(x).T, there(x.T.copy())), row(x.T, x.T))
    assert_same_bits(evaluated(name, there(x)[::2, ::-1], there(x)[::2]), row(x[::2, ::-1], x[::2]))
    assert_same_bits(evaluated(name, there(np.float64(5)), 0.3), row(np.float64(5), 0.3))
    assert evaluated(name, there(np.ones((0, 3))), 2.0).shape == (0, 3)
    weak = evaluated(name, there(np.ones(3, "f4")), 0.3)
    assert_same_bits(weak, row(np.ones(3, "f4"), np.float32(0.3)))
