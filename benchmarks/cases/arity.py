"""A product of N activations: value and N partials, to see how cost grows with arity."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Case, kernel, random
from benchmarks.cases.functions import over

ARITIES = (1, 2, 4, 8, 12, 16, 20)
SIDE = 1024


def _product(xp, *xs):
    product = None
    for x in xs:
        factor = xp.tanh(xp.where(x > 0.5, x, -x))
        product = factor if product is None else product * factor
    return product


def _reference(*xs):
    factors = [np.tanh(np.where(x > 0.5, x, -x)) for x in xs]
    value = np.prod(factors, axis=0)
    signs = [np.where(x > 0.5, 1.0, -1.0) for x in xs]
    slopes = [s * (1.0 - t * t) for s, t in zip(signs, factors, strict=True)]
    return [value, *(value / t * d for t, d in zip(factors, slopes, strict=True))]


def _partials(s):
    def run(*xs):
        return s.value_and_pull(over(s.np, _product))(s.np.zeros_like(xs[0]) + 1.0, *xs)

    return s.jit(run)


CASES = [
    Case(
        name=f"prod tanh(g(x_i)) value+N partials N={n}",
        inputs=lambda n=n: random(*[(SIDE, SIDE)] * n, dtype=np.float32, low=0.05),
        reference=_reference,
        body=_partials,
        own={
            "c": kernel(
                "arity", lambda *xs: [(xs[0].shape, xs[0].dtype)] * (len(xs) + 1), SIDE * SIDE, n
            )
        },
        tolerance=1e-5,
        parallel=True,
        quick=n == 2,
        moved=4 * SIDE * SIDE * (2 * n + 1),
    )
    for n in ARITIES
]
