"""Sums at places: bits do not depend on the order of threads, and errors are those of one rounding.

`HostDevice` runs every launch in two orders and compares all memory; exact sums are fractions.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import jit
from ftrace.gpu.eager.compiled_rows import added
from ftrace.gpu.gpu_backend import _can_scatter
from ftrace.gpu.handwritten import scatter_sums
from tests.gpu.emulation.device import HostDevice
from tests.gpu.hosted import here, there

SHAPES = [(1, 1, 700), (5, 3, 40), (40, 2, 5), (7, 1, 7), (3, 300, 2), (300, 3, 1)]


def sums(rows: Any, places: Any, values: Any) -> Any:
    """The sums of the device; operands are not written."""
    given = [there(x) for x in (rows, places, values)]
    found = here(added(*given))
    for x, y in zip(given, (rows, places, values), strict=True):
        assert here(x).tobytes() == np.ascontiguousarray(y).tobytes()
    assert (found.shape, found.dtype) == (rows.shape, rows.dtype)
    return found


def from_start(places: Any, count: int) -> Any:
    """Places of which none counts from the end; what is out of range stays so."""
    return np.where(places < 0, places + count, places)


def exact(rows: Any, places: Any, values: Any) -> list[list[Fraction]]:
    found = [[Fraction(float(x)) for x in row] for row in rows]
    for place, row in zip(from_start(places, len(found)), values, strict=True):
        if 0 <= place < len(found):
            for k, x in enumerate(row):
                found[place][k] += Fraction(float(x))
    return found


def spread(rng: Any, shape: Any, dtype: Any, decades: int) -> Any:
    """Numbers of very different sizes and both signs."""
    return (rng.normal(size=shape) * 10.0 ** rng.integers(-decades, decades + 1, shape)).astype(
        dtype
    )


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("count", "width", "updates"), SHAPES)
def test_sums_of_floats_are_rounded_like_one_sum_of_the_largest(
    count: int, width: int, updates: int, dtype: str, host_device: HostDevice
) -> None:
    rng = np.random.default_rng(count + updates)
    for decades in (0, 6):
        rows, values = (spread(rng, (n, width), dtype, decades) for n in (count, updates))
        places = rng.integers(-count - 2, count + 2, updates)
        found = sums(rows, places, values)
        largest = np.abs(rows.astype("f8"))
        start = from_start(places, count)
        inside = (start >= 0) & (start < count)
        np.maximum.at(largest, start[inside], np.abs(values[inside].astype("f8")))
        unit = np.finfo(dtype).eps
        for i, row in enumerate(exact(rows, places, values)):
            for k, x in enumerate(row):
                error = abs(Fraction(float(found[i, k])) - x)
                assert error <= unit * (abs(x) + Fraction(float(largest[i, k])) / 64), (i, k)
        untouched = ~np.isin(np.arange(count), start)
        assert found[untouched].tobytes() == rows[untouched].tobytes()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_what_cancels_leaves_what_is_left(dtype: str, host_device: HostDevice) -> None:
    """In order, 1 would be lost beside the large number."""
    large = 2.0 ** (20 if dtype == "f4" else 50)
    values = np.array([[large], [1.0], [-large], [2.0**-10]], dtype)
    found = sums(np.zeros((1, 1), dtype), np.zeros(4, int), values)
    assert found[0, 0] == 1 + 2.0**-10


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_terms_are_rounded_to_the_nearest_unit(dtype: str, host_device: HostDevice) -> None:
    """The unit is as many bits below the largest term as a sum of so many terms leaves."""
    terms = 6
    bits = (62 - terms.bit_length()) * (1 if dtype == "f4" else 2)
    for small in (0.75, 0.5, 0.25, -0.75, 1.25, 2.0**-40):
        values = np.array([0.75, -0.75, *[small * 2.0**-bits] * 4], dtype)[:, None]
        found = sums(np.zeros((1, 1), dtype), np.zeros(terms, int), values)
        units = np.sign(small) * np.floor(abs(small) + 0.5)
        assert found[0, 0] == 4 * units * 2.0**-bits


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_smallest_numbers_are_lost_beside_the_largest(
    dtype: str, host_device: HostDevice
) -> None:
    info = np.finfo(dtype)
    for size in (1.0, 1e10, float(info.max)):
        for power in range(0, -1 + int(np.log2(info.tiny)) // 7 * -7, 7):
            small = 3.0 * 2.0 ** (-power - 2)
            values = np.array([size, small, -size, small], dtype)[:, None]
            found = sums(np.zeros((1, 1), dtype), np.zeros(4, int), values)
            error = size * 2.0 ** (-50 if dtype == "f4" else -100)
            assert abs(found[0, 0] - 2 * float(values[1, 0])) <= error


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("updates", [1, 3, 400])
def test_all_sizes_of_numbers_are_added(dtype: str, updates: int, host_device: HostDevice) -> None:
    """Subnormal numbers, the largest ones, sums that overflow and such that do not."""
    info = np.finfo(dtype)
    sizes = [info.smallest_subnormal, info.smallest_normal, 1.0, info.max]
    sizes += [info.smallest_normal - info.smallest_subnormal, info.max / 2, info.eps]
    for count in (len(sizes), 50 * updates):
        rows = np.zeros((count, 1), dtype)
        places = np.tile(np.arange(len(sizes)), updates)
        values = np.tile(np.array(sizes, dtype), updates)[:, None]
        expected = np.zeros(count)
        with np.errstate(over="ignore"):
            expected[: len(sizes)] = np.array(sizes, "f8") * updates
            np.testing.assert_array_equal(sums(rows, places, values)[:, 0], expected.astype(dtype))
    up = np.array([[info.max], [info.max], [-info.max]], dtype)
    assert sums(np.zeros((1, 1), dtype), np.zeros(3, int), up)[0, 0] == info.max


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_infinities_and_nan_are_added(dtype: str, host_device: HostDevice) -> None:
    inf, nan = np.inf, np.nan
    terms = [
        [inf, 1.0], [-inf, 1.0], [inf, -inf], [nan, 1.0], [nan, inf], [inf, inf], [-inf, -inf],
        [3e38, 1.0], [0.0, -0.0], [-0.0, -0.0], [0.0, 0.0], [-0.0, 0.0],
    ]  # fmt: skip
    for start in (2.0, inf, -inf, nan, 0.0, -0.0):
        rows = np.full((len(terms), 1), start, dtype)
        values = np.array(terms, dtype).reshape(-1, 1)
        places = np.repeat(np.arange(len(terms)), 2)
        expected = rows.copy()
        with np.errstate(invalid="ignore"):
            np.add.at(expected, places, values)
            found = sums(rows, places, values)
        for a, b in ((found.real, expected.real), (found.imag, expected.imag)):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(np.signbit(a)[b == 0], np.signbit(b)[b == 0])


@pytest.mark.parametrize("dtype", ["i4", "i8", "u4", "u8"])
@pytest.mark.parametrize(("count", "width", "updates"), SHAPES)
def test_sums_of_integers_wrap(
    count: int, width: int, updates: int, dtype: str, host_device: HostDevice
) -> None:
    rng, info = np.random.default_rng(3), np.iinfo(dtype)
    rows, values = (
        rng.integers(info.min, info.max, (n, width), dtype, endpoint=True) for n in (count, updates)
    )
    places = rng.integers(-count - 2, count + 2, updates)
    start = from_start(places, count)
    inside = (start >= 0) & (start < count)
    expected = rows.copy()
    np.add.at(expected, start[inside], values[inside])
    np.testing.assert_array_equal(sums(rows, places, values), expected)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_numbers_are_added_part_by_part(dtype: str, host_device: HostDevice) -> None:
    rng = np.random.default_rng(4)
    rows, values = (
        (rng.normal(size=(n, 3)) + 1j * rng.normal(size=(n, 3))).astype(dtype) for n in (4, 9)
    )
    places = rng.integers(0, 4, 9)
    expected = rows.astype("c16")
    np.add.at(expected, places, values)
    np.testing.assert_allclose(
        sums(rows, places, values), expected, rtol=1e-6 if dtype == "c8" else 1e-14
    )


@pytest.mark.parametrize("dtype", ["f4", "i4", "c8"])
def test_operands_may_lie_as_they_like(dtype: str, host_device: HostDevice) -> None:
    rng = np.random.default_rng(5)
    rows, values = (rng.integers(-9, 9, (n, 6)).astype(dtype) for n in (8, 20))
    places = rng.integers(0, 4, 40)
    expected = rows[::2, ::-1].copy()
    np.add.at(expected, places[::2], values[:, ::-1])
    found = here(added(there(rows)[::2, ::-1], there(places)[::2], there(values)[:, ::-1]))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["f4", "i8"])
@pytest.mark.parametrize(("count", "width", "updates"), [(0, 2, 3), (3, 0, 2), (3, 2, 0)])
def test_nothing_to_add_or_to_add_to(
    count: int, width: int, updates: int, dtype: str, host_device: HostDevice
) -> None:
    rows, values = np.ones((count, width), dtype), np.ones((updates, width), dtype)
    np.testing.assert_array_equal(sums(rows, np.zeros(updates, int), values), rows)


def test_large_arrays_are_counted_in_64_bits(
    host_device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, names = np.random.default_rng(6), set()
    compiled = scatter_sums._functions

    def noted(device: Any, name: str, index: str) -> Any:
        names.add(index)
        return compiled(device, name, index)

    monkeypatch.setattr(scatter_sums, "_functions", noted)
    for large in (1, 1 << 30):
        monkeypatch.setattr(scatter_sums, "LARGE", large)
        for dtype in ("f4", "f8", "i4"):
            rows, values = (rng.integers(-9, 9, (n, 3)).astype(dtype) for n in (4, 30))
            places = rng.integers(0, 4, 30)
            expected = rows.copy()
            np.add.at(expected, places, values)
            np.testing.assert_array_equal(sums(rows, places, values), expected)
    assert names == {"unsigned", "long long"}


@pytest.mark.parametrize(("dtype", "launches"), [("i4", 1), ("f4", 4), ("f8", 4), ("c8", 4)])
def test_few_kernels_run(dtype: str, launches: int, host_device: HostDevice) -> None:
    """And in a program that is compiled nothing else does: the sum is added in place."""
    rows, values, places = np.ones((3, 2), dtype), np.ones((5, 2), dtype), np.array([0, 1, 1, 2, 0])
    before = host_device.launches
    sums(rows, places, values)
    assert host_device.launches - before == launches
    f = jit(lambda v, i: fnp.at(fnp.zeros((3, 2), dtype))[i].add(v, mode="clip"))
    given = there(values), there(places)
    f(*given)
    before = host_device.launches
    np.testing.assert_array_equal(here(f(*given)), np.array([[2, 2], [2, 2], [1, 1]], dtype))
    assert host_device.launches - before <= launches + 2  # zeros, and indices


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "c16", "i8", "i4", "u1", "?"])
def test_programs_add_at_places(dtype: str, host_device: HostDevice) -> None:
    rng = np.random.default_rng(8)
    x, v = (rng.integers(0, 5, (n, 4)).astype(dtype) for n in (6, 30))
    i = rng.integers(-6, 6, 30)
    expected = x.copy()
    np.add.at(expected, i, v)
    f = jit(lambda x, i, v: (fnp.at(x)[i].add(v), x + x))
    g = jit(lambda x, i, v: fnp.at(fnp.at(x)[:, i[:3] % 4].add(v[:6, :3]))[i].add(v))
    for _ in range(3):
        given = list(map(there, (x, i, v)))
        found, twice = f(*given)
        np.testing.assert_array_equal(here(found), expected)
        np.testing.assert_array_equal(here(twice), x + x)
        np.testing.assert_array_equal(here(given[0]), x)
        np.testing.assert_array_equal(here(g(*given)), jit(g)(x, i, v))


def test_numbers_of_four_and_eight_bytes_are_added_by_hand() -> None:
    """In any order of threads, to the same bits; there are no such kernels for products."""
    by_hand = {c for c in "?bBhHiIqQefdFD" if _can_scatter("add", np.dtype(c))}
    assert by_hand == set("iIqQfdFD")
    assert not any(_can_scatter("mul", np.dtype(c)) for c in by_hand)


def test_the_gradient_of_a_gather_adds_at_places(host_device: HostDevice) -> None:
    rng = np.random.default_rng(9)
    x, i, ct = rng.normal(size=(7, 3)), rng.integers(-7, 7, 40), rng.normal(size=(40, 3))
    expected = np.zeros((7, 3))
    np.add.at(expected, i, ct)
    f = jit(lambda x, i, ct: ftrace.vjp(lambda x: x[i], x)[1](ct)[0])
    np.testing.assert_allclose(here(f(there(x), there(i), there(ct))), expected, rtol=1e-14)
    assert not f.lower(x, i, ct).program.callbacks[1:], "the row that raises is the only one"
