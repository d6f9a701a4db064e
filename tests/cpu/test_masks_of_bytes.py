"""Bytes beside doubles: eight lanes under a mask, where a mask register has sixteen."""

import numpy as np
import pytest

import ftrace
from ftrace.cpu.llvm.machine_code import host

ROWS = np.cos(np.arange(9.0)).reshape(3, 3)
wide = pytest.mark.skipif(
    host().vector_bytes < 64, reason="only processors with AVX-512 have mask registers"
)


def chosen(a, x):
    if x > 1:
        return a.T
    if x > 0:
        return a
    return a[:, ::-1]


def through_views_of_views(x):
    a = np.arange(9.0).reshape(3, 3) * x
    v = chosen(a, x)
    v[1, 2] += x
    w = chosen(v, x - 1)
    w[2] *= 2
    return np.sum(a * ROWS)


@pytest.mark.parametrize("x", [-1.3, 0.6, 2.2])
def test_more_masks_than_registers(x):
    f = through_views_of_views
    expected = (f(x + 1e-6) - f(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(ftrace.jit(ftrace.grad(f))(x), expected, rtol=1e-6)


@wide
def test_no_mask_of_eight_bytes():
    text = ftrace.jit(ftrace.grad(through_views_of_views)).lower(0.6).as_text()
    assert "masked.load.v16i8" in text
    assert "masked.store.v16i8" in text
    assert "masked.load.v8i8" not in text
    assert "masked.store.v8i8" not in text
