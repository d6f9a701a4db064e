"""Places of extremes: the first of equals, the first NaN, and what is as small as can be."""

import numpy as np
import pytest

import ftrace
from ftrace.lowering.planning import thread_sharing

rng = np.random.default_rng(11)
SIZES = (1, 2, 7, 31, 32, 33, 64, 65, 127, 128, 300, 5000)
SPECIAL = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0])


def lines(dtype, n):
    """Vectors with many equal elements, all equal ones, and those with what is not finite."""
    kind = np.dtype(dtype).kind
    yield rng.integers(0, 3, n).astype(dtype)
    yield np.arange(n).astype(dtype)
    yield np.arange(n)[::-1].astype(dtype)
    if kind in "iu":
        bounds = np.iinfo(dtype)
        for value in (bounds.min, bounds.max):
            yield np.full(n, value, dtype)
        yield rng.choice(np.array([bounds.min, bounds.max], dtype), n)
    if kind == "b":
        for value in (False, True):
            yield np.full(n, value)
    if kind in "fc":
        for value in SPECIAL:
            yield np.full(n, value, dtype)
            x = rng.integers(-2, 3, n).astype(dtype)
            x[rng.integers(n)] = value
            yield x
        yield rng.choice(SPECIAL[2:], n).astype(dtype)
        yield rng.choice(SPECIAL, n).astype(dtype)
        yield rng.choice([-np.inf, np.nan], n, p=(0.99, 0.01)).astype(dtype)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "u2", "i1", "u1", "?", "c16"])
def test_of_vectors(dtype):
    for function in (np.argmax, np.argmin):
        f = ftrace.jit(function)
        for n in SIZES:
            for x in lines(dtype, n):
                assert f(x) == function(x), x


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1", "?"])
@pytest.mark.parametrize("shape", [(5, 70), (70, 5), (3, 4, 130), (130, 3, 2)])
def test_along_each_axis(dtype, shape):
    for function in (np.argmax, np.argmin):
        for axis in range(-len(shape), len(shape)):
            f = ftrace.jit(
                lambda x, f=function, a=axis: (f(x, axis=a), f(x, axis=a, keepdims=True))
            )
            for x in lines(dtype, int(np.prod(shape))):
                x = x.reshape(shape)
                one, kept = f(x)
                np.testing.assert_array_equal(one, function(x, axis=axis))
                np.testing.assert_array_equal(kept, function(x, axis=axis, keepdims=True))


@pytest.mark.parametrize("n", [1023, 1024, 1025, 70_001])
def test_shared_by_threads(monkeypatch, n):
    monkeypatch.setattr(thread_sharing, "WORTH", 0.0)
    monkeypatch.setattr(thread_sharing, "EACH", 1.0)
    for dtype in ("f8", "f4", "i8", "i1"):
        with ftrace.config.update(threads=3):
            f = ftrace.jit(lambda x: (np.argmax(x), np.argmin(x), np.max(x)))
            for x in lines(dtype, n):
                best, least, _ = f(x)
                assert (best, least) == (np.argmax(x), np.argmin(x))


def test_of_what_is_computed_and_chosen():
    x = rng.normal(size=1000)
    for y in (x, np.where(x > 0, x, -np.inf), np.where(x > 9, x, -np.inf), x[:0].sum() + x):
        f = ftrace.jit(lambda y: np.argmax(np.where(y > 0.5, np.exp(y), -np.inf)))
        assert f(y) == np.argmax(np.where(y > 0.5, np.exp(y), -np.inf))


def test_in_lanes_and_loops():
    x = rng.integers(0, 4, (40, 6, 9)).astype(float)
    x[3, 2], x[5, 1, 4] = -np.inf, np.nan
    f = ftrace.jit(ftrace.vmap(lambda a: np.argmin(np.sort(a, 1)[:, ::-1], axis=1)))
    np.testing.assert_array_equal(f(x), np.argmin(np.sort(x, 2)[:, :, ::-1], axis=2))


def test_a_step_compares_values_once():
    text = ftrace.jit(np.argmax).lower(np.ones(100)).llvm
    steps = text[: text.index("fcmp oeq")]  # of the fold of lanes, behind the loop
    assert "fcmp ugt" in steps
    assert "icmp slt <" not in steps  # no indices are compared
