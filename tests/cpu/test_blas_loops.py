"""Loops over routines of BLAS and LAPACK: every way to call them, and processes without them."""

import itertools
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.cpu import blas_loops
from ftrace.cpu.foreign import gufuncs
from ftrace.cpu.runtime import blas
from ftrace.lowering.machine import InnerLoop
from ftrace.primitives.triangular import triangular_inv, triangular_product, triangular_solve

FLAGS = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
rng = np.random.default_rng(0)


def stack(*shape: int, dtype: str) -> Any:
    x = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return (x if dtype[0] == "c" else x.real).astype(dtype)


def tolerance(dtype: str) -> float:
    return 1e-4 if dtype in ("f4", "c8") else 1e-12


@pytest.mark.parametrize("row", [triangular_solve, triangular_product])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_each_way_to_call_a_routine_compiled(row: Any, dtype: str) -> None:
    a = stack(3, 4, 4, dtype=dtype) + 4 * np.eye(4, dtype=dtype)
    wide, tall = stack(3, 4, 2, dtype=dtype), stack(3, 2, 4, dtype=dtype)
    ways = [dict(zip(FLAGS, f, strict=True)) for f in itertools.product((True, False), repeat=5)]
    given = [(a, wide if w["left_side"] else tall) for w in ways]

    def all_ways(a: Any, wide: Any, tall: Any) -> Any:
        return [row(a, wide if w["left_side"] else tall, **w) for w in ways]

    cost = ftrace.jit(all_ways).lower(a, wide, tall).cost()
    assert cost.callbacks == (8 if dtype[0] == "c" else 0)  # conjugated, and not transposed
    found = ftrace.jit(all_ways)(a, wide, tall)
    for way, operands, y in zip(ways, given, found, strict=True):
        expected = row.impl(*operands, **way)
        np.testing.assert_allclose(y, expected, rtol=tolerance(dtype), atol=tolerance(dtype))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_inverses_of_triangles_compiled(dtype: str) -> None:
    a = stack(2, 3, 3, dtype=dtype) + 4 * np.eye(3, dtype=dtype)
    a[1, 1, 1] = 0
    for lower in (True, False):
        f = ftrace.jit(lambda a, lower=lower: triangular_inv(a, lower=lower))
        found, half = f(a), np.tril(a[0]) if lower else np.triu(a[0])
        one = np.eye(3)
        np.testing.assert_allclose(found[0] @ half, one, atol=tolerance(dtype))
        assert np.isnan(found[1]).all()
        np.testing.assert_array_equal(found[0], np.tril(found[0]) if lower else np.triu(found[0]))
        assert f(a[:, :0, :0]).shape == (2, 0, 0)
        assert f.lower(a).cost().callbacks == 0


def test_without_a_library_python_evaluates_the_rows_compiled(monkeypatch: Any) -> None:
    monkeypatch.setattr(blas, "library", lambda: None)
    blas_loops._loop.cache_clear()
    blas_loops.address.cache_clear()
    gufuncs.find.cache_clear()
    try:
        loop = InnerLoop("blas", "trtri:L", "(n,n)->(n,n)", "d->d")
        assert gufuncs.find(loop) is None
        f = ftrace.jit(lambda a: triangular_inv(a + 0.5, lower=True))
        a = np.eye(5)
        assert f.lower(a).cost().callbacks == 1
        np.testing.assert_allclose(f(a) @ np.tril(a + 0.5), np.eye(5), atol=1e-14)
    finally:
        blas_loops._loop.cache_clear()
        blas_loops.address.cache_clear()
        gufuncs.find.cache_clear()
