"""Programs of one number under every transformation, against plain Python."""

from typing import Any

import numpy as np

import ftrace


def values_agree(fn: Any, xs: Any) -> None:
    """Compiled, mapped and vectorized values are those of Python."""
    wanted = [fn(float(x)) for x in xs]
    np.testing.assert_allclose([ftrace.jit(fn)(x) for x in xs], wanted, rtol=1e-12)
    np.testing.assert_allclose(ftrace.vmap(fn)(xs), wanted, rtol=1e-12)
    np.testing.assert_allclose(ftrace.vectorize(fn)(xs), wanted, rtol=1e-12)


def derivatives_agree(fn: Any, xs: Any) -> None:
    """Gradients, compiled and mapped, are central differences of Python's values."""
    wanted = [(fn(float(x) + 1e-6) - fn(float(x) - 1e-6)) / 2e-6 for x in xs]
    gradient: Any = ftrace.grad(lambda x: fn(x) * 1.0)
    np.testing.assert_allclose([gradient(x) for x in xs], wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose([ftrace.jit(gradient)(x) for x in xs], wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ftrace.vmap(gradient)(xs), wanted, rtol=1e-6, atol=1e-6)
