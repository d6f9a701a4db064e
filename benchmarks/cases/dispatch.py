"""What one call costs on ten numbers, with inputs in the system's arrays and in NumPy's."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Case, compiled, hand, kernel, random
from benchmarks.cases.functions import over, rosenbrock, rosenbrock_value_and_grad


def _line(xp, x):
    return xp.sin(x) * 2.0 + 1.0


def _numpy_line(x):
    return np.sin(x) * 2.0 + 1.0


def _rosenbrock_loop(x):
    value = 0.0
    for i in range(x.size - 1):
        d = x[i + 1] - x[i] * x[i]
        value += 100.0 * d * d + (1.0 - x[i]) ** 2
    g = np.zeros_like(x)
    for i in range(x.size - 1):
        d = x[i + 1] - x[i] * x[i]
        g[i] += -400.0 * x[i] * d - 2.0 * (1.0 - x[i])
        g[i + 1] = 200.0 * d
    return value, g


def _pair(numpy_in):
    tag = " numpy-in" if numpy_in else ""
    yield Case(
        name=f"sin(x)*2+1{tag} n=10",
        inputs=lambda: random((10,)),
        reference=lambda x: [np.sin(x) * 2.0 + 1.0],
        body=lambda s: s.jit(over(s.np, _line)),
        own={"numba": compiled(_numpy_line), "numpy": hand(_numpy_line)},
        skip=("autograd",),
        numpy_in=numpy_in,
        quick=True,
    )
    yield Case(
        name=f"value_and_grad rosenbrock{tag} n=10",
        inputs=lambda: random((10,)),
        reference=rosenbrock_value_and_grad,
        body=lambda s: s.jit(s.value_and_grad(over(s.np, rosenbrock))),
        own={
            "numba": compiled(_rosenbrock_loop),
            "c": kernel("rosenbrock_vg", lambda x: [((), x.dtype), (x.shape, x.dtype)], 10),
        },
        numpy_in=numpy_in,
        quick=not numpy_in,
    )


CASES = [*_pair(False), *_pair(True)]
