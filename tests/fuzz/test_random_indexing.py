"""Random NumPy indices: reading, writing and adding under jit, vmap, jvp and vjp are NumPy's.

Reading and writing are linear, so that the tangent of a read is the read of the tangent and the
pullback is checked by the inner product.
"""

from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ftrace

SHAPES = st.sampled_from([(5,), (3, 4), (2, 3, 4), (1, 3), (4, 0), (2, 1, 3)])
SEEDS = st.integers(0, 10_000)


@st.composite
def cases(draw: Any) -> tuple[tuple[int, ...], Any]:
    """A shape and an index into an array of it."""
    shape = draw(SHAPES)
    kind = draw(st.sampled_from(["basic", "integers", "mask", "mixed"]))
    if kind == "basic":
        return shape, draw(hnp.basic_indices(shape, allow_newaxis=True))
    if kind == "integers" and 0 not in shape:
        return shape, draw(hnp.integer_array_indices(shape))
    if kind == "mask":
        return shape, draw(hnp.arrays(bool, shape[: draw(st.integers(1, len(shape)))]))
    return shape, tuple(draw(mixed(n)) for n in shape[: draw(st.integers(1, len(shape)))])


def mixed(n: int) -> Any:
    """An integer, a slice, a list of two integers, or one value in an array, for an axis of n."""
    slices = st.slices(n)
    if n == 0:
        return slices
    whole = st.integers(-n, n - 1)
    pairs = st.lists(whole, min_size=2, max_size=2)
    return st.one_of(whole, slices, pairs, st.builds(np.array, pairs), st.none())


def numbers(seed: int, shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(seed).normal(size=shape)[()]


def read(x: Any, key: Any) -> Any:
    try:
        return x[key]
    except IndexError:  # two lists beside each other that do not broadcast, and the like
        assume(False)


def written(key: Any, *, add: bool) -> Any:
    def write(x: Any, v: Any) -> Any:
        y = x.copy()
        if add:
            y[key] += v
        else:
            y[key] = v
        return y

    return write


@given(cases(), SEEDS)
def test_reading(case: tuple[tuple[int, ...], Any], seed: int) -> None:
    shape, key = case
    x, v = numbers(seed, shape), numbers(seed + 1, shape)
    expected = read(x, key)
    np.testing.assert_array_equal(ftrace.jit(lambda a: a[key])(x), expected, strict=True)
    y, t = ftrace.jvp(lambda a: a[key], (x,), (v,))
    np.testing.assert_array_equal(y, expected, strict=True)
    np.testing.assert_array_equal(t, v[key], strict=True)
    w = numbers(seed + 2, expected.shape)
    (ct,) = ftrace.vjp(lambda a: a[key], x)[1](w)
    np.testing.assert_allclose(np.sum(ct * v), np.sum(w * t), atol=1e-12)
    batch = np.stack([x, v], axis=-1)
    mapped = ftrace.vmap(lambda a: a[key], in_axes=-1)(batch)
    np.testing.assert_array_equal(mapped, np.stack([expected, v[key]]))


@given(cases(), st.booleans(), st.booleans(), SEEDS)
def test_writing(case: tuple[tuple[int, ...], Any], scalar: bool, add: bool, seed: int) -> None:
    shape, key = case
    x, dx = numbers(seed, shape), numbers(seed + 1, shape)
    found = read(x, key).shape
    cell = () if scalar else found
    v, dv = numbers(seed + 2, cell), numbers(seed + 3, cell)
    write = written(key, add=add)
    expected = write(x, v)
    np.testing.assert_array_equal(ftrace.jit(write)(x, v), expected, strict=True)
    y, t = ftrace.jvp(write, (x, v), (dx, dv))
    np.testing.assert_array_equal(y, expected, strict=True)
    np.testing.assert_allclose(t, write(dx, dv), atol=1e-15)
    w = numbers(seed + 4, shape)
    cts = ftrace.vjp(write, x, v)[1](w)
    np.testing.assert_allclose(np.sum(cts[0] * dx) + np.sum(cts[1] * dv), np.sum(w * t), atol=1e-11)
    mapped = ftrace.vmap(write)(np.stack([x, dx]), np.stack([v, dv]))
    np.testing.assert_array_equal(mapped, np.stack([expected, write(dx, dv)]))
