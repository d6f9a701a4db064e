"""A product of N activations: value and N partials, to see how cost grows with arity.

ftrace runs the paper's scalar function with a native `if`, the others `where`. The number to look
at is the time per partial, which is flat where nothing spills. Read next: `divergence.py`.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.case import Case, built, kernel, random
from benchmarks.cases.functions import over

ARITIES = range(1, 21)
SELECTED = (2, 8, 20)
"""Measured also where compiling or running takes seconds."""
SIDE = 1024


def g(x):
    """The paper's g, of one number."""
    if x > 0.5:
        return x
    return -x


def product(*xs):
    """The paper's f, of N numbers."""
    result = 1.0
    for x in xs:
        result = result * math.tanh(g(x))
    return result


def product_of_arrays(xp, *xs):
    result = None
    for x in xs:
        factor = xp.tanh(xp.where(x > 0.5, x, -x))
        result = factor if result is None else result * factor
    return result


def value_and_partials(*xs):
    factors = [np.tanh(np.where(x > 0.5, x, -x)) for x in xs]
    value = np.prod(factors, axis=0)
    signs = [np.where(x > 0.5, 1.0, -1.0) for x in xs]
    slopes = [s * (1.0 - t * t) for s, t in zip(signs, factors, strict=True)]
    return [value, *(value / t * d for t, d in zip(factors, slopes, strict=True))]


def _partials(s, f):
    def run(*xs):
        return s.value_and_pull(f)(s.np.zeros_like(xs[0]) + 1.0, *xs)

    return s.jit(run)


def _outputs(*xs):
    return [(xs[0].shape, xs[0].dtype)] * (len(xs) + 1)


CASES = [
    Case(
        name=f"prod tanh(g(x_i)) value+N partials N={n}",
        inputs=lambda n=n: random(*[(SIDE, SIDE)] * n, dtype=np.float32, low=0.05),
        reference=value_and_partials,
        body=lambda s: _partials(s, over(s.np, product_of_arrays)),
        own={
            "ftrace": built(lambda s: _partials(s, s.vectorize(product))),
            "csimd": kernel("arity_simd", _outputs, SIDE * SIDE, n),
        }
        | ({"c": kernel("arity", _outputs, SIDE * SIDE, n)} if n in SELECTED else {}),
        skip=() if n in SELECTED else ("torchc",),
        tolerance=1e-5,
        parallel=n in SELECTED,
        quick=n == 2,
        moved=4 * SIDE * SIDE * (2 * n + 1),
    )
    for n in ARITIES
]
