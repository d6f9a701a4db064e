"""The square root by Newton's method: a native `while` whose trip count differs by lane.

A share of the 200,000 lanes needs about 100 iterations instead of 6. Read next: `projectile.py`, a
loop that ends in every lane at another time.
"""

from __future__ import annotations

import numpy as np

from benchmarks.case import Case, built, compiled, kernel

LANES = 200_000
SHARES = (0.0, 0.001, 0.01, 0.05)
LONG = 1e60


def root(a):
    """Of one number, started at the number itself."""
    r = a
    while abs(r * r - a) > 1e-12 * a:
        r = 0.5 * (r + a / r)
    return r


def _inputs(share):
    rng = np.random.default_rng(7)
    a = rng.uniform(1.0, 4.0, LANES)
    a[rng.choice(LANES, int(LANES * share), replace=False)] = LONG
    return (a,)


def _vmapped(s):
    def one(a):
        return s.while_loop(
            lambda r: s.np.abs(r * r - a) > 1e-12 * a, lambda r: 0.5 * (r + a / r), a
        )

    return s.vmap(one)


def _dual(s, f):
    derivative = s.jvp(f)
    return s.jit(lambda a: derivative((a,), (s.np.ones_like(a),)))


def _primal_loop(a):
    out = np.empty_like(a)
    for i in range(a.size):
        r = a[i]
        while abs(r * r - a[i]) > 1e-12 * a[i]:
            r = 0.5 * (r + a[i] / r)
        out[i] = r
    return out


def _dual_loop(a):
    out, slope = np.empty_like(a), np.empty_like(a)
    for i in range(a.size):
        r, d = a[i], 1.0
        while abs(r * r - a[i]) > 1e-12 * a[i]:
            q = a[i] / r
            d = 0.5 * (d + (1.0 - q * d) / r)
            r = 0.5 * (r + q)
        out[i], slope[i] = r, d
    return out, slope


def _cases(share):
    common = {"inputs": lambda: _inputs(share), "tolerance": 1e-8, "relative": True}
    yield Case(
        name=f"root, {share:.1%} long lanes, value",
        reference=lambda a: [np.sqrt(a)],
        own={
            "ftrace": built(lambda s: s.vectorize(root)),
            "jax": built(lambda s: s.jit(_vmapped(s))),
            "numba": compiled(_primal_loop),
            "c": kernel("newton_root", lambda a: [(a.shape, a.dtype)], LANES),
        },
        moved=16 * LANES,
        **common,
    )
    yield Case(
        name=f"root, {share:.1%} long lanes, value+derivative",
        reference=lambda a: [np.sqrt(a), 0.5 / np.sqrt(a)],
        own={
            "ftrace": built(lambda s: _dual(s, s.vectorize(root))),
            "jax": built(lambda s: _dual(s, _vmapped(s))),
            "numba": compiled(_dual_loop),
            "c": kernel("newton_dual", lambda a: [(a.shape, a.dtype)] * 2, LANES),
        },
        moved=24 * LANES,
        **common,
    )


CASES = [case for share in SHARES for case in _cases(share)]
