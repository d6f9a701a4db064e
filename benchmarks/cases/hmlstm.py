"""The HM-LSTM cell of Revels et al. (2018): value and four partials of three branches.

ftrace runs the scalar function with a native `if`; the others, which cannot, the same cell with
`where`. Read next: `arity.py`, the paper's other program.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.case import Case, built, compiled, kernel
from benchmarks.cases.functions import hmlstm, hmlstm_inputs, hmlstm_partials, over

SIZES = (512, 1024, 2048)
CONTROLS = ("random", "runs", "rows", "copy")
TOLERANCE = 1e-6


def sigmoid(x):
    """Of one number."""
    return 1.0 / (1.0 + math.exp(-x))


def update(c, f, i, g, z1, z2):
    """The cell, one element at a time, as the paper writes it."""
    if z1 == 0.0 and z2 == 1.0:
        new = sigmoid(f) * c + sigmoid(i) * math.tanh(g)
    elif z1 == 0.0 and z2 == 0.0:
        new = c
    else:
        new = sigmoid(i) * math.tanh(g)
    return new


def _pulled(s, cell):
    def run(c, f, i, g, z1, z2):
        ones = s.np.zeros_like(c) + 1.0
        return s.value_and_pull(lambda *cfig: cell(*cfig, z1, z2))(ones, c, f, i, g)

    return s.jit(run)


def native(s):
    """Value and partials through `vjp(vectorize(update))`, compiled as one program."""
    return _pulled(s, s.vectorize(update))


def _forward(s, cell):
    """The first of two calls: the value and what the second one needs."""
    return lambda c, f, i, g, z1, z2: s.mod.vjp(lambda *a: cell(*a, z1, z2), c, f, i, g)


def _forward_native(s):
    forward = _forward(s, s.vectorize(update))
    return lambda *args: forward(*args)[0]


def _forward_jax(s):
    forward = s.jit(_forward(s, over(s.np, hmlstm)))
    return lambda *args: forward(*args)[0]


def _backward_native(s, *args):
    value, pull = _forward(s, s.vectorize(update))(*args)
    ones = s.np.ones_like(value)
    return lambda: pull(ones)


def _backward_jax(s, *args):
    value, pull = s.jit(_forward(s, over(s.np, hmlstm)))(*args)
    apply, ones = s.jit(lambda pull, ct: pull(ct)), s.np.ones_like(value)
    return lambda: apply(pull, ones)


def _loop(c, f, i, g, z1, z2):
    one = np.float32(1.0)
    h, dc, df = np.zeros_like(c), np.zeros_like(c), np.zeros_like(c)
    di, dg = np.zeros_like(c), np.zeros_like(c)
    last_row, last_column = z1.shape[0] - 1, z1.shape[1] - 1
    for r in range(c.shape[0]):
        for k in range(c.shape[1]):
            at = min(r, last_row), min(k, last_column)
            if z1[at] != one and z2[at] != one:
                h[r, k], dc[r, k] = c[r, k], one
                continue
            si, tg = one / (one + math.exp(-i[r, k])), np.float32(math.tanh(g[r, k]))
            h[r, k] = si * tg
            di[r, k], dg[r, k] = si * (one - si) * tg, si * (one - tg * tg)
            if z1[at] != one:
                sf = one / (one + math.exp(-f[r, k]))
                h[r, k] += sf * c[r, k]
                dc[r, k], df[r, k] = sf, sf * (one - sf) * c[r, k]
    return h, dc, df, di, dg


def _c(name, count, n, control):
    steps = (1, 0) if control == "rows" else (0, 1)
    return kernel(name, lambda c, *_: [(c.shape, c.dtype)] * count, n, *steps)


def _partials_case(n, control):
    return Case(
        name=f"value+4 partials {control} n={n}",
        inputs=lambda: hmlstm_inputs(n, control),
        reference=hmlstm_partials,
        body=lambda s: _pulled(s, over(s.np, hmlstm)),
        own={
            "ftrace": built(native),
            "numba": compiled(_loop),
            "c": _c("hmlstm", 5, n, control),
            "csimd": _c("hmlstm_simd", 5, n, control),
        },
        skip=() if control == "random" else ("torchc",),
        tolerance=TOLERANCE,
        parallel=control == "random",
        quick=n == 512 and control == "random",
        moved=36 * n * n,
    )


def _value_case(n, control):
    return Case(
        name=f"value only {control} n={n}",
        inputs=lambda: hmlstm_inputs(n, control),
        reference=lambda *args: hmlstm_partials(*args)[:1],
        body=lambda s: s.jit(over(s.np, hmlstm)),
        own={
            "ftrace": built(lambda s: s.vectorize(update)),
            "c": _c("hmlstm_value", 1, n, control),
            "csimd": _c("hmlstm_value_simd", 1, n, control),
        },
        skip=("torchc",),
        tolerance=TOLERANCE,
        moved=20 * n * n,
    )


def _where_case(n):
    """What the native function gains over `where` in the same system, differentiated in reverse."""
    return Case(
        name=f"value+4 partials random by where n={n}",
        inputs=lambda: hmlstm_inputs(n),
        reference=hmlstm_partials,
        own={"ftrace": built(lambda s: _pulled(s, over(s.np, hmlstm)))},
        tolerance=TOLERANCE,
        moved=36 * n * n,
    )


def _two_calls(n):
    """Forward and backward apart: what a program pays that does not compile them together."""
    yield Case(
        name=f"forward call random n={n}",
        inputs=lambda: hmlstm_inputs(n),
        reference=lambda *args: hmlstm_partials(*args)[:1],
        own={"ftrace": built(_forward_native), "jax": built(_forward_jax)},
        tolerance=TOLERANCE,
        moved=20 * n * n,
    )
    yield Case(
        name=f"backward call random n={n}",
        inputs=lambda: hmlstm_inputs(n),
        reference=lambda *args: hmlstm_partials(*args)[1:],
        own={"ftrace": _backward_native, "jax": _backward_jax},
        tolerance=TOLERANCE,
        moved=36 * n * n,
    )


CASES = [
    *(_partials_case(n, "random") for n in SIZES),
    *(_partials_case(1024, control) for control in CONTROLS[1:]),
    *(_value_case(n, "random") for n in SIZES),
    *(_value_case(1024, control) for control in CONTROLS[1:]),
    *(_where_case(n) for n in SIZES),
    *_two_calls(1024),
]
