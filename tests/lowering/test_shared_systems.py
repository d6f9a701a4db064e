"""Systems with one matrix: which of them share its factors, and that solutions stay the same."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.cpu import blas_loops
from ftrace.cpu.foreign import gufuncs
from ftrace.cpu.runtime import blas
from ftrace.primitives.factored import lu_factors, solve_factored

rng = np.random.default_rng(0)
solve = fnp.linalg.solve


def loops(f, *args):
    """The names of loops that factor or solve, in order."""
    names = [s.loop.name.partition(":")[0] for s in ftrace.jit(f).lower(*args).program.loops]
    return [name for name in names if name in ("solve", "getrf", "getrs")]


def matrix(*shape, dtype="f8"):
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)


def turned(a):
    return fnp.swapaxes(a, -1, -2)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(
    ("batch", "n", "k"), [((), 20, 1), ((3,), 33, 5), ((), 100, 101), ((2, 2), 18, 2), ((), 17, 0)]
)
def test_solutions_by_factors_are_those_of_solve(batch, n, k, dtype):
    a, b = matrix(*batch, n, n, dtype=dtype), matrix(*batch, n, k, dtype=dtype)

    def f(a, b):
        ahead = ftrace.jvp(lambda b: solve(turned(a), b), (b,), (3 * b,))
        _, back = ftrace.vjp(lambda b: solve(a, b), b)
        return *ahead, *back(b), solve(turned(turned(a)), 2 * b)

    if dtype in ("f8", "c16") and k:
        assert sorted(loops(f, a, b)) == ["getrf"] * 2 + ["getrs"] * 5
    assert ftrace.jit(f).lower(a, b).cost().callbacks == 0
    for found, expected in zip(ftrace.jit(f)(a, b), f(a, b), strict=True):
        scale = np.abs(expected).max(initial=1.0)
        np.testing.assert_allclose(found, expected, atol=1e3 * np.finfo(dtype).eps * scale)
        assert found.dtype == expected.dtype


def test_the_gradient_of_a_system_factors_once():
    a, b = matrix(40, 40), matrix(40)

    def f(a, b):
        return fnp.sum(solve(a, b) ** 2)

    gradient = ftrace.grad(f, argnums=(0, 1))
    assert loops(gradient, a, b) == ["getrf", "getrs", "getrs"]
    for found, expected in zip(ftrace.jit(gradient)(a, b), gradient(a, b), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert loops(lambda a, b: ftrace.jvp(f, (a, b), (a + 1.0, b)), a, b) == [
        "getrf",
        "getrs",
        "getrs",
    ]
    twice = ftrace.grad(lambda b: ftrace.grad(f, argnums=1)(a, b)[0])
    assert loops(twice, b).count("getrf") == 1
    np.testing.assert_allclose(ftrace.jit(twice)(b), twice(b), rtol=1e-7)


def test_only_systems_with_the_same_matrix_share_factors():
    a, b = matrix(20, 20), matrix(20, 2)
    assert loops(lambda a, b: solve(a, b), a, b) == ["solve"]
    assert loops(lambda a, b: (solve(a, b), solve(a + 1.0, b)), a, b) == ["solve", "solve"]
    assert loops(lambda a, b: (solve(a, b), solve(turned(a) + 0 * a, b)), a, b) == ["solve"] * 2
    found = loops(lambda a, b: (solve(a, b), solve(a, 2 * b), solve(a + 1.0, b)), a, b)
    assert sorted(found) == ["getrf", "getrs", "getrs", "solve"]
    stack = matrix(20, 20, 20)
    assert loops(lambda a, b: (solve(a, b), solve(turned(a), b)), a, b) == ["solve", "solve"]
    found = loops(
        lambda a, b: (solve(a, b), solve(fnp.swapaxes(a, 0, 1), b)), stack, matrix(20, 20, 1)
    )
    assert found == ["solve", "solve"]
    # kernels solve small ones
    assert loops(lambda a, b: (solve(a, b), solve(a, 2 * b)), a[:4, :4], b[:4]) == []

    def body(c, _):
        return solve(a, solve(a, c)), None

    assert loops(lambda b: lax.scan(body, b, None, length=3), b) == ["getrf", "getrs", "getrs"]


def test_a_singular_matrix_is_refused_as_by_solve():
    a, b = matrix(20, 20), np.ones((20, 1))
    f = ftrace.jit(lambda a, b: (solve(a, b), solve(a, 2 * b)))
    f(a, b)
    a[:, 3] = 0.0
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        f(a, b)


NEARLY = np.array(
    [
        [2.0, -1, -2, 1, 0, 0],
        [2, 2, -2, 1, 1, 0],
        [2, -1, 3, 3, -3, 0],
        [3, 0, -3, 0, 0, 0],
        [3, 3, 2, 2, -2, 0],
        [0, 0, 0, 0, 0, 1],
    ]
)


def is_refused(f, *args):
    try:
        f(*args)
    except np.linalg.LinAlgError:
        return True
    return False


@pytest.mark.parametrize("seed", range(12))
def test_who_is_refused_is_a_matter_of_each_matrix_and_not_of_the_transposed_one(seed):
    """Elimination of a singular matrix may meet a pivot of zero where that of its transpose not."""
    n = 20
    a = np.eye(n)
    a[:6, :6] = NEARLY if not seed else np.random.default_rng(seed).integers(-3, 4, (6, 6))
    if seed % 3 == 1:
        a[2] = a[4]
    b = np.ones((n, 1))
    for f in (
        lambda a, b: (solve(a, b), solve(turned(a), b)),
        lambda a, b: (solve(turned(a), b), solve(turned(a), 2 * b)),
        lambda a, b: ftrace.value_and_grad(lambda b: solve(turned(a), b).sum())(b)[0],
        lambda a, b: ftrace.value_and_grad(lambda b: solve(a, b).sum())(b)[0],
    ):
        assert is_refused(ftrace.jit(f), a, b) == is_refused(f, a, b)


def test_values_have_the_accuracy_of_their_own_matrix():
    """Elimination of this matrix grows by 2**59, that of the transposed one does not."""
    n = 60
    w = np.eye(n) - np.tril(np.ones((n, n)), -1)
    w[:, -1] = 1
    x = rng.normal(size=n)
    b = w.T @ x
    np.testing.assert_allclose(np.linalg.solve(w.T, b), x, rtol=1e-8)
    for f in (
        lambda a, b: (solve(a, b), solve(a.T, b))[1],
        lambda a, b: (solve(a.T, b), solve(a.T, 2 * b))[0],
        lambda a, b: ftrace.jvp(lambda b: solve(a.T, b), (b,), (b,))[0],
        lambda a, b: ftrace.vjp(lambda b: solve(a.T, b), b)[0],
        lambda a, b: ftrace.jvp(lambda b: solve(a.T, b), (b,), (b,))[1],
    ):
        np.testing.assert_allclose(ftrace.jit(f)(w, b), x, rtol=1e-8)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_loops_and_rows_give_the_same(dtype):
    a, b = matrix(3, 6, 6, dtype=dtype), matrix(3, 6, 2, dtype=dtype)
    a[1, 2] = 0
    factors, pivots = ftrace.jit(lu_factors)(a)
    expected = lu_factors.impl(a)
    close = {"rtol": 1e-3 if dtype in ("f4", "c8") else 1e-10}
    np.testing.assert_allclose(factors, expected[0], **close)
    np.testing.assert_array_equal(pivots[::2], expected[1][::2])
    assert np.isnan(factors[1]).all()
    for transposed in (False, True):
        f = ftrace.jit(lambda *x, t=transposed: solve_factored(*x, transposed=t))
        found = f(factors, pivots, b)
        np.testing.assert_allclose(
            found[::2], solve_factored.impl(*expected, b, transposed=transposed)[::2], **close
        )
        assert np.isnan(found[1]).all()


def test_without_a_library_the_rows_are_evaluated_by_python(monkeypatch):
    monkeypatch.setattr(blas, "library", lambda: None)
    a, b = matrix(21, 21), matrix(21, 1)
    caches = (blas_loops._loop, blas_loops.address, gufuncs.find)
    try:
        for cache in caches:
            cache.cache_clear()
        f = ftrace.jit(lambda a, b: ftrace.vjp(lambda b: solve(a, b), b)[1](b * 0.5))
        g = ftrace.jit(lambda a, b: (solve(a, b * 0.5), solve(a, b)))
        assert g.lower(a, b).cost().callbacks == 3
        np.testing.assert_allclose(f(a, b)[0], np.linalg.solve(a.T, b * 0.5), rtol=1e-9)
        np.testing.assert_allclose(g(a, b)[1], np.linalg.solve(a, b), rtol=1e-9)
    finally:
        for cache in caches:
            cache.cache_clear()
