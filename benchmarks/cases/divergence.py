"""Twelve masks and two prices of an arm: does a native `if` cost what the taken arms cost?

An arm that is cheap or dear is taken where the mask says so; value and derivative, float32. Beside
the `if` stands the same program with `where`, which JAX has to compute on both sides. Read next:
`newton.py`, where lanes differ in how often they loop.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.case import Case, built, kernel

SIDE = 1024
SEED = 7


def _masks():
    """The patterns: shapes (1, n) along the contiguous axis, (n, 1) per row, (n, n) per element."""
    n, rng = SIDE, np.random.default_rng(SEED)
    at = np.arange(n)
    along = {
        "none": np.zeros(n),
        "all": np.ones(n),
        "random": rng.random(n) < 0.5,
        "random 10%": rng.random(n) < 0.1,
        "random 1%": rng.random(n) < 0.01,
        "alternating": at % 2,
        "runs of 8": np.repeat(rng.random(n // 8) < 0.5, 8),
        "runs of 32": np.repeat(rng.random(n // 32) < 0.5, 32),
        "runs of 128": np.repeat(rng.random(n // 128) < 0.5, 128),
        "halves": at < n // 2,
    }
    masks = {name: mask.reshape(1, n) for name, mask in along.items()}
    masks["rows"] = rng.random((n, 1)) < 0.5
    masks["random elements"] = rng.random((n, n)) < 0.5
    return {name: mask.astype(np.float32) for name, mask in masks.items()}


def _cheap(x, m):
    if m > 0.5:
        return x * x + 1.0
    return 0.5 * x


def _dear(x, m):
    if m > 0.5:
        return math.exp(math.tanh(x))
    return 0.5 * x


def _cheap_where(xp, x, m):
    return xp.where(m > 0.5, x * x + 1.0, 0.5 * x)


def _dear_where(xp, x, m):
    return xp.where(m > 0.5, xp.exp(xp.tanh(x)), 0.5 * x)


def _reference(price):
    def run(x, m):
        t = np.tanh(x)
        y, d = (x * x + 1.0, 2.0 * x) if price == "cheap" else (np.exp(t), np.exp(t) * (1 - t * t))
        return [np.where(m > 0.5, y, 0.5 * x), np.where(m > 0.5, d, 0.5)]

    return run


def _slopes(s, f):
    def run(x, m):
        return s.value_and_pull(lambda x: f(x, m))(s.np.zeros_like(x) + 1.0, x)

    return s.jit(run)


def _inputs(mask):
    x = np.random.default_rng(SEED).uniform(0.5, 1.5, (SIDE, SIDE)).astype(np.float32)
    return x, _masks()[mask]


def _case(price, form, mask):
    f, where = {"cheap": (_cheap, _cheap_where), "dear": (_dear, _dear_where)}[price]
    by_where = built(lambda s: _slopes(s, lambda x, m: where(s.np, x, m)))
    if form == "if":
        shape = _masks()[mask].shape
        steps = [0 if shape[0] == 1 else shape[1], 0 if shape[1] == 1 else 1]
        own = {
            "ftrace": built(lambda s: _slopes(s, s.vectorize(f))),
            "jax": by_where,
            "c": kernel(f"diverge_{price}", lambda x, m: [(x.shape, x.dtype)] * 2, SIDE, *steps),
        }
    else:
        own = {"ftrace": by_where}
    return Case(
        name=f"{price} arm by {form}, {mask}",
        inputs=lambda: _inputs(mask),
        reference=_reference(price),
        own=own,
        tolerance=1e-6,
        moved=12 * SIDE * SIDE,
    )


PATTERNS = tuple(_masks())
CASES = [
    _case(price, form, mask)
    for price in ("cheap", "dear")
    for form in ("if", "where")
    for mask in PATTERNS
]
