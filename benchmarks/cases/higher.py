"""Second and third derivatives: dense Hessian, Hessian-vector product, coloured Hessian."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Case, kernel, random
from benchmarks.cases.functions import over, rosenbrock, rosenbrock_hessian_bands

DENSE, LONG, SPARSE = 100, 100_000, 10_000


def _dense(x):
    diagonal, above = rosenbrock_hessian_bands(x)
    return [np.diag(diagonal) + np.diag(above, 1) + np.diag(above, -1)]


def _product(x, v):
    diagonal, above = rosenbrock_hessian_bands(x)
    out = diagonal * v
    out[:-1] += above * v[1:]
    out[1:] += above * v[:-1]
    return [out]


def _coloured(s):
    """Three products with every third unit vector give all of a tridiagonal matrix."""
    hvp = s.hvp(over(s.np, rosenbrock))
    return s.jit(lambda x, *seeds: [hvp(x, v) for v in seeds])


def _seeds(k):
    return [(np.arange(k) % 3 == colour).astype(np.float64) for colour in range(3)]


def _scalar(xp, x):
    return xp.sin(x) * xp.exp(-0.5 * x * x)


def _third(x):
    s, c, e = np.sin(x), np.cos(x), np.exp(-0.5 * x * x)
    return [np.asarray(e * (c * (3.0 * x * x - 4.0) - s * (x**3 - 6.0 * x)))]


CASES = [
    Case(
        name=f"hessian rosenbrock k={DENSE}",
        inputs=lambda: random((DENSE,)),
        reference=_dense,
        body=lambda s: s.jit(s.hessian(over(s.np, rosenbrock))),
        own={
            "c": kernel("rosenbrock_hessian", lambda x: [((DENSE, DENSE), x.dtype)], DENSE),
        },
        quick=True,
    ),
    Case(
        name="hvp rosenbrock k=1e5",
        inputs=lambda: random((LONG,), (LONG,)),
        reference=_product,
        body=lambda s: s.jit(s.hvp(over(s.np, rosenbrock))),
        own={"c": kernel("rosenbrock_hvp", lambda x, v: [(x.shape, x.dtype)], LONG)},
        parallel=True,
        quick=True,
        moved=24 * LONG,
    ),
    Case(
        name="third derivative scalar",
        inputs=lambda: (np.float64(0.7),),
        reference=_third,
        body=lambda s: s.jit(s.nested_grad(s.nested_grad(s.nested_grad(over(s.np, _scalar))))),
        quick=True,
    ),
    Case(
        name="sparse hessian, hand-coloured 3 hvps k=1e4",
        inputs=lambda: (*random((SPARSE,)), *_seeds(SPARSE)),
        reference=lambda x, *seeds: [_product(x, v)[0] for v in seeds],
        body=_coloured,
        own={"c": kernel("rosenbrock_coloured", lambda x, *_: [(x.shape, x.dtype)] * 3, SPARSE)},
    ),
]
