"""Gradients of Rosenbrock's and Ackley's functions, compiled and eager, by input size."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.case import Case, compiled, kernel, random
from benchmarks.cases.functions import ackley, ackley_grad, over, rosenbrock, rosenbrock_grad

SIZES = (10, 100, 1000, 10_000, 100_000)
QUICK = {(10, "jit"), (10, "eager"), (1000, "eager")}


def rosenbrock_loop(x):
    """The gradient in one pass, for numba."""
    g = np.empty_like(x)
    g[0] = 0.0
    for i in range(x.size - 1):
        d = x[i + 1] - x[i] * x[i]
        g[i] += -400.0 * x[i] * d - 2.0 * (1.0 - x[i])
        g[i + 1] = 200.0 * d
    return g


def ackley_loop(x):
    """The gradient in two passes, for numba."""
    squares = waves = 0.0
    for v in x:
        squares += v * v
        waves += math.cos(2.0 * math.pi * v)
    root = math.sqrt(squares / x.size)
    bowl = 4.0 * math.exp(-0.2 * root) / (x.size * root)
    wave = math.exp(waves / x.size) * 2.0 * math.pi / x.size
    g = np.empty_like(x)
    for i in range(x.size):
        g[i] = bowl * x[i] + wave * math.sin(2.0 * math.pi * x[i])
    return g


FUNCTIONS = {
    "ackley": (ackley, ackley_grad, ackley_loop),
    "rosenbrock": (rosenbrock, rosenbrock_grad, rosenbrock_loop),
}


def _case(name, k, mode):
    program, reference, loop = FUNCTIONS[name]
    c = kernel(f"{name}_grad", lambda x: [(x.shape, x.dtype)], k)
    jit = mode == "jit"
    return Case(
        name=f"grad {name} {mode} k={k}",
        inputs=lambda: random((k,), low=0.1),
        reference=lambda x: [reference(x)],
        body=lambda s: (s.jit if jit else lambda f: f)(s.grad(over(s.np, program))),
        own={"numba": compiled(loop), "c": c} if jit else {"c": c},
        skip=("autograd",) if jit else ("torchc",),
        parallel=k >= 10_000,
        quick=(k, mode) in QUICK,
        moved=16 * k,
    )


CASES = [_case(f, k, mode) for mode in ("jit", "eager") for f in FUNCTIONS for k in SIZES]
