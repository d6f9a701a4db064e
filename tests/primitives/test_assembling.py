"""Cotangents of arrays that are read in slices: put together once, linear in their number."""

import numpy as np
import pytest

import ftrace
from ftrace.core.zero import Masked, Reads
from ftrace.interpreters import tangents
from ftrace.primitives import assembling

X = np.linspace(0.5, 2, 12)
WEIGHTS = np.arange(1.0, 13.0)


def elements(x):
    total = 0.0
    for i in range(len(x)):
        total = total * 0.5 + np.sin(x[i]) * x[i - 1]
    return total


def windows(x):
    return sum((k + 1) * (x[k : k + 3] ** 2).sum() for k in range(len(x) - 2))


def with_gaps(x):
    return x[1] * x[3] + x[5] ** 2 * x[10] + x[3:5].sum() ** 2


def whole_and_parts(x):
    return (x * WEIGHTS).sum() + x[0] * x[1] + x[4] * x[7] * x.prod()


def strided(x):
    return (x[::2] ** 2).sum() + (x[1::3] * x[:4]).sum() + x[0] + x[1] * x[2] + x[-1]


def two_axes(x):
    m = x.reshape(3, 4)
    return (m[0] * m[1]).sum() + (m[:, 2] ** 2).sum() + m[2, 1] * m[2, 2] + m[0, 0] * m[1, 1]


def rows(x):
    m = x.reshape(4, 3)
    return sum((m[i] * m[(i + 1) % 4]).sum() * (i + 1) for i in range(4)) + m[1:3].sum()


def iterated(x):
    return sum(k * v**2 for k, v in enumerate(x))


PROGRAMS = [
    elements, windows, with_gaps, whole_and_parts, strided, two_axes, rows, iterated,
]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
def test_gradients_agree_with_forward_mode_and_differences(f):
    expected = ftrace.jacfwd(f)(X)
    step = 1e-6
    difference = [(f(X + step * e) - f(X - step * e)) / (2 * step) for e in np.eye(12)]
    np.testing.assert_allclose(expected, difference, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ftrace.grad(f)(X), expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(ftrace.jit(ftrace.grad(f))(X), expected, rtol=1e-12, atol=1e-13)
    batch = np.stack([X, X[::-1]])
    np.testing.assert_allclose(
        ftrace.vmap(ftrace.grad(f))(batch), [ftrace.grad(f)(x) for x in batch], rtol=1e-13
    )
    second = ftrace.jacfwd(ftrace.jacfwd(f))(X)
    np.testing.assert_allclose(ftrace.hessian(f)(X), second, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ftrace.jacrev(ftrace.grad(f))(X), second, rtol=1e-12, atol=1e-12)


def test_the_number_of_rows_is_linear_in_the_number_of_reads():
    counts = [len(ftrace.make_jaxpr(ftrace.grad(elements))(np.ones(n)).eqns) for n in (20, 40, 80)]
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])
    jaxpr = ftrace.make_jaxpr(ftrace.grad(elements))(np.ones(80))
    sizes = [v.aval.size for e in jaxpr.eqns for v in e.outvars]
    assert sum(size > 1 for size in sizes) <= 2, "only the result is as large as the argument"


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
def test_what_was_read_keeps_its_dtype(dtype):
    x = X.astype(dtype)
    found = ftrace.vjp(lambda x: [x[0], x[1:5], x[2], x[7], x[5:]], x)[1](
        [x[0], x[1:5], x[2], x[7], x[5:]]
    )[0]
    expected = x.copy()
    expected[[2, 7]] *= 2
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, expected)


def reads(*regions, rest=None):
    parts = {(cut,): np.full(len(range(*cut)), k + 1.0) for k, cut in enumerate(regions)}
    return Reads((8,), parts, rest)


@pytest.mark.parametrize(
    "regions",
    [
        [(0, 1, 1)],
        [(0, 1, 1), (7, 8, 1), (3, 5, 1)],
        [(k, k + 1, 1) for k in range(8)],
        [(0, 2, 1), (1, 3, 1), (5, 8, 1), (6, 7, 1)],
        [(0, 8, 1), (2, 4, 1), (3, 5, 1), (4, 4, 1)],
        [(0, 8, 2), (1, 2, 1), (3, 4, 1), (5, 6, 1)],
        [(a, 8 - a, 1) for a in range(4)],
    ],
)
def test_slices_are_put_together_as_if_they_were_padded_and_added(regions):
    found = reads(*regions)
    expected, seen = np.zeros(8), np.zeros(8, bool)
    for ((a, b, s),), ct in found.parts.items():
        expected[a:b:s] += ct
        seen[a:b:s] = True
    np.testing.assert_array_equal(assembling.assembled(found), expected)
    np.testing.assert_array_equal(assembling.covered(found), seen)
    beside = found._replace(rest=np.arange(8.0))
    np.testing.assert_array_equal(assembling.assembled(beside), expected + np.arange(8.0))
    assert np.all(assembling.covered(beside))


def test_a_masked_cotangent_beside_reads_is_taken_where_either_is():
    mask = np.arange(8) % 2 == 0
    masked = Masked(np.full(8, np.nan), mask & False)
    found = reads((0, 1, 1), (4, 6, 1))
    value, covered = assembling.assembled(found), assembling.covered(found)
    read = Masked(value, covered, True, None, True, found)
    for a, b in ((masked, read), (read, masked)):
        both = tangents.add_cotangents(a, b)
        np.testing.assert_array_equal(tangents.materialise(both), [1, 0, 0, 0, 2, 2, 0, 0])
        np.testing.assert_array_equal(both.mask, [1, 0, 0, 0, 1, 1, 0, 0])
