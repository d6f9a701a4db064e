"""The HM-LSTM cell: value and four partials of a function with three branches, float32."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.case import Case, compiled, kernel
from benchmarks.cases.functions import hmlstm, hmlstm_inputs, hmlstm_partials, over

SIZES = (512, 1024, 2048)


def _partials(s):
    def run(c, f, i, g, z1, z2):
        cell = over(s.np, hmlstm)
        ones = s.np.zeros_like(c) + 1.0
        return s.value_and_pull(lambda *cfig: cell(*cfig, z1, z2))(ones, c, f, i, g)

    return s.jit(run)


def _loop(c, f, i, g, z1, z2):
    one = np.float32(1.0)
    h, dc, df = np.zeros_like(c), np.zeros_like(c), np.zeros_like(c)
    di, dg = np.zeros_like(c), np.zeros_like(c)
    for r in range(c.shape[0]):
        if z1[r, 0] != one and z2[r, 0] != one:
            h[r], dc[r] = c[r], one
            continue
        for k in range(c.shape[1]):
            si, tg = one / (one + math.exp(-i[r, k])), np.float32(math.tanh(g[r, k]))
            h[r, k] = si * tg
            di[r, k], dg[r, k] = si * (one - si) * tg, si * (one - tg * tg)
            if z1[r, 0] != one:
                sf = one / (one + math.exp(-f[r, k]))
                h[r, k] += sf * c[r, k]
                dc[r, k], df[r, k] = sf, sf * (one - sf) * c[r, k]
    return h, dc, df, di, dg


CASES = [
    Case(
        name=f"HM-LSTM value+4 partials n={n}",
        inputs=lambda n=n: hmlstm_inputs(n),
        reference=hmlstm_partials,
        body=_partials,
        own={
            "numba": compiled(_loop),
            "c": kernel("hmlstm", lambda c, *_: [(c.shape, c.dtype)] * 5, n),
        },
        tolerance=2e-6,
        parallel=True,
        quick=n == 512,
        moved=36 * n * n,
    )
    for n in SIZES
]
