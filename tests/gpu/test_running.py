"""Running sums and their kin: values of NumPy, bits that do not depend on the order of threads.

`HostDevice` runs every launch in two orders and compares all memory.
"""

from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import jit, lax
from ftrace import numpy as fnp
from ftrace.gpu.eager import compiled_rows
from ftrace.gpu.handwritten import running
from tests.gpu.emulation.device import HostDevice
from tests.gpu.hosted import here, leaves_here, there

UFUNCS = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "logaddexp": np.logaddexp,
}
KINDS = tuple(UFUNCS)
DTYPES = ("f2", "f4", "f8", "i1", "i4", "u1", "u2", "u8", "?", "c8", "c16")
CASES = [(k, d) for k in KINDS for d in DTYPES if k != "logaddexp" or d[0] == "f"]

# one lane, some lanes of a warp, several rounds, a block, several tiles, several groups of tiles
ALONG = [(3, 1), (5, 4), (40, 7), (9, 50), (3, 700), (2, 1500), (2, 4096), (2, 9001)]
ACROSS = [(3, 2), (5, 40), (16, 300), (40, 33), (700, 3), (1500, 40), (9001, 2)]


def sample(kind: str, shape: Any, dtype: str, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    if dtype[0] in "iu?":
        return rng.integers(0, 2 if dtype == "?" else 100, shape).astype(dtype)
    x = rng.normal(size=shape)
    x = np.exp(0.02 * x) if kind == "mul" else x
    if dtype[0] == "c":
        x = x + (0.02j if kind == "mul" else 1j) * rng.normal(size=shape)
    return x.astype(dtype)


def accumulated(kind: str, x: Any, axis: int, reverse: bool) -> Any:
    return compiled_rows.accumulated(kind, x, axis, reverse)


def expected(kind: str, x: Any, axis: int, reverse: bool) -> Any:
    """Floats in the widest type."""
    wide = {"f": np.float64, "c": np.complex128}.get(x.dtype.kind, x.dtype)
    x = np.flip(x, axis) if reverse else x
    found = UFUNCS[kind].accumulate(x.astype(wide), axis=axis, dtype=wide)
    return np.flip(found, axis) if reverse else found


def check(kind: str, x: Any, axis: int, reverse: bool) -> Any:
    given = there(x)
    found = here(accumulated(kind, given, axis, reverse))
    assert here(given).tobytes() == np.ascontiguousarray(x).tobytes()
    assert (found.shape, found.dtype) == (x.shape, x.dtype)
    right = expected(kind, x, axis, reverse)
    if x.dtype.kind in "fc" and kind not in ("max", "min"):
        unit = np.finfo(x.dtype).eps
        size = np.abs(x).cumsum(axis).max(initial=1.0) if kind == "add" else np.abs(right).max()
        np.testing.assert_allclose(found, right, rtol=0, atol=200 * unit * size)
    else:
        np.testing.assert_array_equal(found, right.astype(x.dtype))
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_prefixes_along_memory(kind: str, dtype: str, host_device: HostDevice) -> None:
    for number, shape in enumerate(ALONG):
        check(kind, sample(kind, shape, dtype), 1, bool(number % 2))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_prefixes_across_memory(kind: str, dtype: str, host_device: HostDevice) -> None:
    for number, shape in enumerate(ACROSS):
        check(kind, sample(kind, shape, dtype), 0, bool(number % 2))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", range(3))
def test_any_axis_in_both_directions(axis: int, reverse: bool, host_device: HostDevice) -> None:
    for shape in ((3, 400, 5), (2, 3, 8), (1, 1, 1), (400, 1, 7), (7, 1, 400)):
        check("add", sample("add", shape, "f4"), axis, reverse)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("across", [False, True])
def test_lines_of_several_groups_of_tiles(
    kind: str, across: bool, host_device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small blocks, so that a line has hundreds of tiles."""
    monkeypatch.setattr(running, "MOST", 64)
    monkeypatch.setattr(running, "DEEP", 2)
    monkeypatch.setattr(running, "GROUP", 4)
    shape = (20_000, 2) if across else (2, 200_000)
    check(kind, sample(kind, shape, "f4"), 0 if across else 1, reverse=True)
    if kind == "add":
        ones = np.ones(shape, "i8")
        check(kind, ones, 0 if across else 1, reverse=False)


def test_the_same_elements_have_the_same_prefixes_in_every_line(host_device: HostDevice) -> None:
    """Wherever the line lies, and aligned or not."""
    for n in (50, 1500, 4096):
        line = sample("add", n, "f4")
        many = here(accumulated("add", there(np.tile(line, (5, 1))), 1, False))
        assert all(row.tobytes() == many[0].tobytes() for row in many)
        one = here(accumulated("add", there(line), 0, False))
        shifted = here(accumulated("add", there(np.append(9, line).astype("f4"))[1:], 0, False))
        assert one.tobytes() == shifted.tobytes() == many[0].tobytes()


def test_operands_may_lie_as_they_like(host_device: HostDevice) -> None:
    x = sample("add", (30, 40), "f8")
    for view in (lambda a: a.T, lambda a: a[::2, ::-1], lambda a: a[1:, 3:]):
        found = here(accumulated("add", view(there(x)), 0, False))
        np.testing.assert_allclose(found, np.cumsum(view(x), 0), rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_nothing_is_accumulated_where_there_is_nothing(
    shape: tuple[int, ...], host_device: HostDevice
) -> None:
    before = host_device.launches
    found = here(accumulated("add", there(np.ones(shape)), len(shape) - 1, True))
    assert (found.shape, host_device.launches) == (shape, before)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("kind", KINDS)
def test_infinities_nan_and_zeros(kind: str, dtype: str, host_device: HostDevice) -> None:
    inf, nan = np.inf, np.nan
    for line in (
        [1, inf, 2, 3], [1, -inf, 2, 3], [1, inf, -inf, 3], [1, nan, 2, inf], [-inf, -inf, 1, -inf],
        [inf, inf, -1, 2], [-0.0, -0.0, 0.0, -0.0], [nan, nan, 1, 2], [-inf, 5, nan, -inf],
    ):  # fmt: skip
        for times in (1, 400):
            x = np.tile(np.array(line, dtype), times)
            with np.errstate(all="ignore"):
                right = UFUNCS[kind].accumulate(x.astype("f8"))
                found = here(accumulated(kind, there(x), 0, False))
            np.testing.assert_array_equal(np.isnan(found), np.isnan(right))
            np.testing.assert_array_equal(np.isinf(found), np.isinf(right.astype(dtype)))
            if kind in ("add", "mul") and times == 1:
                np.testing.assert_array_equal(np.signbit(found), np.signbit(right))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_signs_of_zeros_among_equals(kind: str, dtype: str, host_device: HostDevice) -> None:
    for line in ([0.0, -0.0], [-0.0, 0.0], [-1.0, 0.0, -0.0], [1.0, -0.0, 0.0, -0.0]):
        x = np.array(line, dtype)
        right, found = UFUNCS[kind].accumulate(x), here(accumulated(kind, there(x), 0, False))
        np.testing.assert_array_equal(np.signbit(found), np.signbit(right))


@pytest.mark.parametrize("kind", ["max", "min", "mul", "add"])
def test_complex_numbers_that_are_none(kind: str, host_device: HostDevice) -> None:
    x = np.array([1 + 1j, np.inf + 1j, 1 - 0j, 2 + 3j, 2 - 3j, complex(1, np.nan), 5], "c16")
    for part in (x[:1], x[:2], x[2:5], x):
        with np.errstate(all="ignore"):
            right = UFUNCS[kind].accumulate(part)
        found = here(accumulated(kind, there(part), 0, False))
        np.testing.assert_array_equal(np.isnan(found), np.isnan(right))
        ok = ~np.isnan(right)
        np.testing.assert_array_equal(found[ok], right[ok])


def test_integers_wrap(host_device: HostDevice) -> None:
    for dtype in ("i1", "i4", "i8", "u2", "u8"):
        info = np.iinfo(dtype)
        x = np.random.default_rng(1).integers(info.min, info.max, 3000, dtype, endpoint=True)
        for kind in ("add", "mul", "max", "min"):
            check(kind, x, 0, False)


def test_few_numbers_of_very_different_sizes_keep_their_sums(host_device: HostDevice) -> None:
    """log(exp(a) + ...) beside what is far smaller and far larger."""
    x = np.array([-745.0, 700.0, -1e300, 700.0, 1e308, 3.0, -np.inf, 1e308])
    found = here(accumulated("logaddexp", there(x), 0, False))
    np.testing.assert_allclose(found, np.logaddexp.accumulate(x), rtol=1e-15)


def test_what_tiles_tell_takes_a_few_bytes(host_device: HostDevice) -> None:
    """A sum and a flag for each tile and each group of tiles."""
    for dtype, most in (("f4", 200), ("c16", 3000)):
        sizes = 2, 200_000, 1
        scan = running.PrefixScan(host_device, "add", np.dtype(dtype), sizes, reverse=False)
        assert 0 < scan.room < most


def test_blocks_of_larger_states_have_fewer_threads() -> None:
    """Along memory and across it: else they have too few registers."""
    for state, most in ((4, 1024), (8, 512), (16, 512), (24, 512)):
        plans = running.along(10**8, min(state, 16), state), running.across(10**5, 10**5, state)
        assert [p.threads for p in plans] == [most, most]


@pytest.mark.parametrize(("n", "launches"), [(50, 1), (4096, 1), (40_000, 2)])
def test_few_kernels_run(n: int, launches: int, host_device: HostDevice) -> None:
    before = host_device.launches
    accumulated("add", there(np.ones((2, n), "f4")), 1, False)
    assert host_device.launches - before == launches


def test_sums_of_float16_are_rounded_once(host_device: HostDevice) -> None:
    x = np.full(5000, 0.25, "f2")
    found = here(accumulated("add", there(x), 0, False))
    np.testing.assert_array_equal(found, (np.arange(1, 5001) * 0.25).astype("f2"))


PROGRAMS = {
    "sum": lambda x: fnp.cumsum(x * 2.0, axis=1) + 1.0,
    "backwards": lambda x: lax.cumsum(x, axis=0, reverse=True),
    "largest": lambda x: lax.cummax(x, axis=1) * x,
    "several": lambda x: (lax.cumlogsumexp(x, axis=0), lax.cummin(fnp.cumprod(x, axis=1), axis=0)),
    "gradient": ftrace.grad(lambda x: fnp.sum(fnp.cumsum(x, axis=1) ** 2)),
    "of elements": ftrace.vmap(lambda x: fnp.cumsum(x) / x[0]),
    "complex": lambda x: fnp.cumsum(x + 1j * x, axis=0),
    "in a loop": lambda x: lax.scan(
        lambda c, row: (fnp.cumsum(c + row), fnp.cumsum(c * row)), x[0], x
    ),
    "again and again": lambda x: lax.fori_loop(0, 5, lambda _, x: fnp.cumsum(x, axis=1) / 9, x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_accumulate_without_python(name: str, host_device: HostDevice) -> None:
    f = jit(PROGRAMS[name])
    x = sample("mul", (6, 40), "f8")
    given = there(x)
    for _ in range(3):
        found, right = f(given), jit(PROGRAMS[name])(x)
        for a, b in zip(leaves_here(found), ftrace.tree.leaves(right), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)
    np.testing.assert_array_equal(here(given), x)
    assert not f.lower(given).program.callbacks


def test_eager_calls_and_programs_give_the_same_bits(host_device: HostDevice) -> None:
    x = sample("add", (3, 9001), "f4")
    found = here(jit(lambda x: fnp.cumsum(x, axis=1))(there(x)))
    assert found.tobytes() == here(accumulated("add", there(x), 1, False)).tobytes()
