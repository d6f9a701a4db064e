"""Training steps and loops: an MLP, an LSTM, a tiny recurrence, a vmapped Newton iteration."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Case, compiled, hand, kernel, random
from benchmarks.cases.functions import mlp_inputs, mlp_loss, mlp_value_and_grad, over, sigmoid

RATE = 0.1
LSTM = (200, 32, 64)
TINY = (1000, 16)
ROOTS = 100_000


def _sgd(s):
    both = s.value_and_grad(over(s.np, mlp_loss), tuple(range(6)))

    def step(*args):
        loss, grads = both(*args)
        return loss, [p - RATE * g for p, g in zip(args[:6], grads, strict=True)]

    return s.jit(step)


def _sgd_by_hand(*args):
    loss, *grads = mlp_value_and_grad(*args)
    rate = args[0].dtype.type(RATE)
    return [loss, *(p - rate * g for p, g in zip(args[:6], grads, strict=True))]


def _lstm_inputs():
    steps, batch, hidden = LSTM
    xs, wx, wh, b = random((steps, batch, hidden), (hidden, 4 * hidden), (hidden, 4 * hidden),
                           (4 * hidden,), dtype=np.float32, low=-0.2, high=0.2)  # fmt: skip
    return wx, wh, b, xs


def _lstm(s):
    size = LSTM[2]

    def loss(wx, wh, b, xs):
        def step(carry, x):
            h, c = carry
            gates = x @ wx + h @ wh + b
            i, f, o, g = (gates[:, k * size : (k + 1) * size] for k in range(4))
            c = sigmoid(s.np, f) * c + sigmoid(s.np, i) * s.np.tanh(g)
            return sigmoid(s.np, o) * s.np.tanh(c), c

        zero = s.np.zeros_like(xs[0])
        h, _ = s.scan(step, (zero, zero), xs)
        return s.np.sum(h * h)

    return s.jit(s.value_and_grad(loss, (0, 1, 2)))


def _lstm_by_hand(wx, wh, b, xs):
    size = LSTM[2]
    h = c = np.zeros_like(xs[0])
    tape = []
    for x in xs:
        gates = x @ wx + h @ wh + b
        ifo, g = sigmoid(np, gates[:, : 3 * size]), np.tanh(gates[:, 3 * size :])
        i, f, o = (ifo[:, k * size : (k + 1) * size] for k in range(3))
        before, c = c, f * c + i * g
        t = np.tanh(c)
        tape.append((x, h, before, i, f, o, g, t))
        h = o * t
    value, dh, dc = np.sum(h * h), 2.0 * h, np.zeros_like(c)
    dwx, dwh, db = np.zeros_like(wx), np.zeros_like(wh), np.zeros_like(b)
    for x, h, before, i, f, o, g, t in reversed(tape):
        dc = dc + dh * o * (1.0 - t * t)
        parts = (dc * g * i * (1 - i), dc * before * f * (1 - f), dh * t * o * (1 - o))
        d = np.concatenate([*parts, dc * i * (1 - g * g)], axis=1)
        dwx, dwh, db = dwx + x.T @ d, dwh + h.T @ d, db + d.sum(axis=0)
        dh, dc = d @ wh.T, dc * f
    return [value, dwx, dwh, db]


def _tiny(s):
    def loss(w, h, xs):
        return s.np.sum(s.scan(lambda h, x: s.np.tanh(w * h + x), h, xs))

    return s.jit(s.value_and_grad(loss, (0, 1)))


def _tiny_by_hand(w, h, xs):
    dw, dh = np.zeros_like(w), np.ones_like(h)
    for x in xs:
        new = np.tanh(w * h + x)
        slope = 1.0 - new * new
        dw, dh, h = slope * (h + w * dw), slope * w * dh, new
    return [np.sum(h), dw, dh]


def _newton(s):
    if hasattr(s, "lax"):

        def root(a):
            return s.while_loop(
                lambda r: abs(r * r - a) > 1e-9 * a, lambda r: 0.5 * (r + a / r), 0.5 * a + 0.5
            )

        one = s.jvp(root)
        return s.jit(s.vmap(lambda a: one((a,), (a * 0.0 + 1.0,))))

    def roots(a):
        r = 0.5 * a + 0.5
        busy = abs(r * r - a) > 1e-9 * a
        while s.np.any(busy):
            r = s.np.where(busy, 0.5 * (r + a / r), r)
            busy = abs(r * r - a) > 1e-9 * a
        return r

    every = s.jvp(roots)
    return lambda a: every((a,), (s.np.zeros_like(a) + 1.0,))


def _newton_loop(a):
    root, slope = np.empty_like(a), np.empty_like(a)
    for i in range(a.size):
        r, d = 0.5 * a[i] + 0.5, 0.5
        while abs(r * r - a[i]) > 1e-9 * a[i]:
            q = a[i] / r
            d = 0.5 * (d + (1.0 - q * d) / r)
            r = 0.5 * (r + q)
        root[i], slope[i] = r, d
    return root, slope


CASES = [
    Case(
        name="MLP SGD step b128 784-512-512-10",
        inputs=mlp_inputs,
        reference=lambda *args: _sgd_by_hand(*(a.astype(np.float64) for a in args)),
        body=_sgd,
        own={"numpy": hand(_sgd_by_hand)},
        tolerance=1e-4,
        parallel=True,
        quick=True,
    ),
    Case(
        name="LSTM scan value_and_grad T200 b32 h64",
        inputs=_lstm_inputs,
        reference=lambda *args: _lstm_by_hand(*(a.astype(np.float64) for a in args)),
        body=_lstm,
        own={"numpy": hand(_lstm_by_hand)},
        skip=("torchc",),
        tolerance=1e-3,
        parallel=True,
    ),
    Case(
        name="tiny scan value_and_grad T1000 x16",
        inputs=lambda: random(TINY[1:], TINY[1:], TINY),
        reference=_tiny_by_hand,
        body=_tiny,
        own={
            "c": kernel(
                "tiny_scan", lambda w, h, xs: [((), w.dtype)] + [(w.shape, w.dtype)] * 2, *TINY
            )
        },
        skip=("torchc",),
    ),
    Case(
        name="Newton sqrt vmapped while, value+jvp 1e5",
        inputs=lambda: random((ROOTS,), low=0.1, high=50.0),
        reference=lambda a: [np.sqrt(a), 0.5 / np.sqrt(a)],
        body=_newton,
        own={
            "numba": compiled(_newton_loop),
            "c": kernel("newton", lambda a: [(a.shape, a.dtype)] * 2, ROOTS),
        },
        skip=("torchc",),
        tolerance=1e-6,
        parallel=True,
    ),
]
