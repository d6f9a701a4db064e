"""Functions whose programs are counted, compared and kept as golden texts."""

from typing import Any

import numpy as np

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.cpu.llvm.machine_code import host
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from ftrace.lowering.program.cost import Cost, cost
from ftrace.lowering.program.program import Program


def planned(f: Any, *args: Any) -> Program:
    """The program of a function; `args` may be `ShapeDtypeStruct`s."""
    return plan(ftrace.jit(f).trace(*args), Machine(host().vector_bytes))


def counted(f: Any, *args: Any) -> Cost:
    return cost(planned(f, *args))


def chain(x):
    for _ in range(10):
        x = np.sin(x) * 0.5 + x
    return x


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def logsumexp(x):
    m = np.max(x, axis=-1, keepdims=True)
    return np.log(np.sum(np.exp(x - m), axis=-1)) + m[..., 0]


def layernorm(x, gain, bias):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred**2, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * gain + bias


def layernorm_loss(x, gain, bias):
    return np.sum(layernorm(x, gain, bias) ** 2)


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def ackley(x):
    n = x.shape[0]
    near = -20 * np.exp(-0.2 * np.sqrt(np.sum(x * x) / n))
    return near - np.exp(np.sum(np.cos(2 * np.pi * x)) / n) + 20 + np.e


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cell(c, z, zb, i, f, g):
    """A cell of a hierarchical multiscale LSTM: update, copy or flush."""
    update = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return np.where(zb > 0, sigmoid(i) * np.tanh(g), np.where(z > 0, c, update))


def cell_and_partials(*args):
    value, pull = ftrace.vjp(cell, *args[:-1])
    return value, *pull(args[-1])


def product(z, w):
    return z * w - np.conj(z)


def half(x):
    return np.sin(x * x + 1) * np.float16(0.1)


def views(x):
    return x.T[1:-1, ::-2] * 2.0


def halve_until_small(x):
    return lax.while_loop(lambda c: np.sum(c * c) > 1.0, lambda c: c * 0.5, x)


def running(x):
    """Two sums that run in order, one of them of the other, and a transposed reader."""
    y = lax.cumsum(x * 2.0, axis=1, reverse=True)
    return y, lax.cumsum(y * x, axis=1, reverse=True).T + 1.0


def largest(x):
    return np.argmax(np.abs(x), axis=1)


def chosen(x):
    return lax.cond(np.sum(x) > 0, lambda y: np.sin(y), lambda y: y[::-1] * 2.0, x)


def shifted(n, f):
    """Neighbours' sums, n times."""

    def stencil(x):
        for _ in range(n):
            x = f(x[1:] + x[:-1])
        return x

    return stencil


def plane(n):
    """The same in two dimensions."""

    def stencil(x):
        for _ in range(n):
            x = 0.25 * (x[1:, 1:] + x[:-1, :-1] + x[1:, :-1] + x[:-1, 1:])
        return x

    return stencil


def updated(n):
    """Writes into one array, each reading what the last one wrote."""

    def update(x):
        x = x.copy()
        for i in range(n):
            x[i + 1 : i + 11] = x[i : i + 10] * 0.5
        return x

    return update


def filled(n):
    """An array filled row by row."""

    def fill(x):
        out = fnp.zeros((n, x.shape[0]))
        for i in range(n):
            out[i] = np.sin(x) * i
        return out

    return fill


def padded(n):
    """Concatenations around what was concatenated before."""

    def pad(x):
        for _ in range(n):
            x = np.concatenate([x[:1], x * 2, x[-1:]])
        return x

    return pad


def normalised(n):
    """Reductions of what was divided by reductions before."""

    def normalise(x):
        for _ in range(n):
            x = np.tanh(x) / np.sqrt(np.sum(x * x))
        return x

    return normalise
