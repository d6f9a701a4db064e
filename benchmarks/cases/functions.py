"""Programs that several groups use, over any NumPy-like namespace, with NumPy references.

A program takes the namespace first and is bound with `over`. References are hand-written
derivatives in float64. Read next: the groups beside this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np


def over(xp: Any, program: Callable[..., Any]) -> Callable[..., Any]:
    """A program over one namespace, as a fresh function (so that nothing cached applies)."""

    def f(*args: Any) -> Any:
        return program(xp, *args)

    return f


def rosenbrock(xp, x):
    """Sum of 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2."""
    a, b = x[:-1], x[1:]
    d, e = b - a * a, 1.0 - a
    return xp.sum(100.0 * (d * d) + e * e)


def rosenbrock_grad(x):
    """Its gradient."""
    a, d = x[:-1], x[1:] - x[:-1] ** 2
    g = np.zeros_like(x)
    g[:-1] = -400.0 * a * d - 2.0 * (1.0 - a)
    g[1:] += 200.0 * d
    return g


def rosenbrock_value_and_grad(x):
    """Value and gradient."""
    return [np.asarray(rosenbrock(np, x)), rosenbrock_grad(x)]


def rosenbrock_hessian_bands(x):
    """The diagonal and the superdiagonal of the Hessian."""
    diagonal = np.zeros_like(x)
    diagonal[:-1] = 1200.0 * x[:-1] ** 2 - 400.0 * x[1:] + 2.0
    diagonal[1:] += 200.0
    return diagonal, -400.0 * x[:-1]


def ackley(xp, x):
    """Ackley's function with a=20, b=0.2, c=2 pi."""
    root = xp.sqrt(xp.mean(x * x))
    waves = xp.mean(xp.cos(2.0 * math.pi * x))
    return -20.0 * xp.exp(-0.2 * root) - xp.exp(waves) + 20.0 + math.e


def ackley_grad(x):
    """Its gradient."""
    k, root = len(x), np.sqrt(np.mean(x * x))
    waves = np.exp(np.mean(np.cos(2.0 * np.pi * x)))
    bowl = 4.0 * np.exp(-0.2 * root) / (k * root)
    return bowl * x + waves * (2.0 * np.pi / k) * np.sin(2.0 * np.pi * x)


def sigmoid(xp, x):
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + xp.exp(-x))


def hmlstm(xp, *cell):
    """The HM-LSTM cell: update, copy or flush, chosen per row by z1 and z2."""
    c, f, i, g, z1, z2 = cell
    new = sigmoid(xp, i) * xp.tanh(g)
    return xp.where(z1 == 1.0, new, xp.where(z2 == 1.0, sigmoid(xp, f) * c + new, c))


def hmlstm_partials(c, f, i, g, z1, z2):
    """Value and the partials by c, f, i, g."""
    sf, si, tg = sigmoid(np, f), sigmoid(np, i), np.tanh(g)
    flush, update = z1 == 1.0, (z1 != 1.0) & (z2 == 1.0)
    new = flush | update
    value = np.where(flush, si * tg, np.where(update, sf * c + si * tg, c))
    return [
        value,
        np.where(flush, 0.0, np.where(update, sf, np.ones_like(c))),
        np.where(update, sf * (1.0 - sf) * c, 0.0),
        np.where(new, si * (1.0 - si) * tg, 0.0),
        np.where(new, si * (1.0 - tg * tg), 0.0),
    ]


def hmlstm_inputs(n, control="random"):
    """Four n by n matrices and the two switches, float32.

    The paper's `random` control changes along the contiguous axis, its first three being FLUSH,
    COPY and UPDATE; `runs` change every 32 elements, `rows` once a row; `copy` is all COPY.
    """
    rng = np.random.default_rng(7)
    cell = [rng.standard_normal((n, n)).astype(np.float32) for _ in range(4)]
    return (*cell, *hmlstm_switches(n, control, rng))


def hmlstm_switches(n, control, rng):
    """The two switches of `hmlstm_inputs`."""
    length, repeats = (-(-n // 32), 32) if control == "runs" else (n, 1)
    switches = np.repeat(rng.integers(0, 2, (2, length)), repeats, axis=1)[:, :n]
    if control == "copy":
        switches[:] = 0
    elif control == "random":
        switches[:, :3] = (1, 0, 0), (0, 0, 1)
    shape = (n, 1) if control == "rows" else (1, n)
    return tuple(s.reshape(shape).astype(np.float32) for s in switches)


MLP = (784, 512, 512, 10)


def mlp_inputs(batch=128):
    """Three layers' weights and biases, a batch and one-hot labels, float32."""
    rng = np.random.default_rng(7)
    layers = []
    for a, b in pairwise(MLP):
        layers += [rng.standard_normal((a, b)) / math.sqrt(a), np.zeros(b)]
    x, y = rng.random((batch, MLP[0])), np.eye(MLP[-1])[rng.integers(0, MLP[-1], batch)]
    return tuple(a.astype(np.float32) for a in (*layers, x, y))


def mlp_loss(xp, *args):
    """Mean cross-entropy of a three-layer perceptron."""
    w1, b1, w2, b2, w3, b3, x, y = args
    h = xp.tanh(x @ w1 + b1)
    h = xp.tanh(h @ w2 + b2)
    logits = h @ w3 + b3
    top = xp.max(logits, axis=1, keepdims=True)
    log_norm = xp.log(xp.sum(xp.exp(logits - top), axis=1, keepdims=True)) + top
    return -xp.mean(xp.sum(y * (logits - log_norm), axis=1))


def mlp_value_and_grad(*args):
    """The loss and its six gradients, by hand."""
    w1, b1, w2, b2, w3, b3, x, y = args
    h1 = np.tanh(x @ w1 + b1)
    h2 = np.tanh(h1 @ w2 + b2)
    logits = h2 @ w3 + b3
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    loss = -np.mean(np.sum(y * np.log(p), axis=1))
    d3 = (p - y) / len(x)
    d2 = (d3 @ w3.T) * (1.0 - h2 * h2)
    d1 = (d2 @ w2.T) * (1.0 - h1 * h1)
    pairs = [(x, d1), (h1, d2), (h2, d3)]
    return [loss, *(g for a, d in pairs for g in (a.T @ d, d.sum(axis=0)))]


def chain(xp, x, length):
    """`length` cheap operations, one after the other."""
    for k in range(length // 3):
        x = x * 0.99
        x = x + 0.01 * (k % 5)
        x = x - 0.3 * (x * x) if k % 4 == 3 else x * 0.5
    return x


def chain_with_slope(x, length):
    """The chain and its derivative, element by element."""
    slope = np.ones_like(x)
    for k in range(length // 3):
        x, slope = x * 0.99 + 0.01 * (k % 5), slope * 0.99
        if k % 4 == 3:
            x, slope = x - 0.3 * (x * x), slope * (1.0 - 0.6 * x)
        else:
            x, slope = x * 0.5, slope * 0.5
    return x, slope


def summed_chain(length):
    """The sum of the chain over its elements, as a program."""
    return lambda xp, x: xp.sum(chain(xp, x, length))
