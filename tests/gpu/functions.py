"""Functions whose programs the emitter is tested on, with arguments: what users' code lowers to."""

from collections.abc import Callable
from typing import Any

import numpy as np

import ftrace

RNG = np.random.default_rng(0)


def normal(*shape: int, dtype: str = "f4") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def bits(*shape: int) -> np.ndarray:
    return RNG.integers(0, 2, shape).astype("f4")


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def planes(x: Any, y: Any) -> Any:
    """A softmax over two axes that no loop goes through as one, because of `y`."""
    e = np.exp(x * y - (x * y).max((1, 2), keepdims=True))
    return e / e.sum((1, 2), keepdims=True)


def layernorm(x: Any, gain: Any, bias: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + bias


def layernorm_gradient(x: Any, gain: Any, bias: Any) -> Any:
    def loss(*args: Any) -> Any:
        return (layernorm(*args) ** 2).sum()

    return ftrace.grad(loss, argnums=(0, 1, 2))(x, gain, bias)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def cell(z: Any, zb: Any, c: Any, f: Any, i: Any, g: Any) -> Any:
    """The HM-LSTM's new state: flush, update or copy."""
    new = sigmoid(i) * np.tanh(g)
    return np.where(z == 1, new, np.where(zb == 1, sigmoid(f) * c + new, c))


def cell_partials(*args: Any) -> Any:
    """Its value and four partial derivatives."""
    value, pull = ftrace.vjp(cell, *args)
    return value, pull(np.ones_like(value))[2:]


def cell_pullback(*args: Any) -> Any:
    return ftrace.vjp(cell, *args[:-1])[1](args[-1])


def product(*xs: Any) -> Any:
    """Of tanh(x) and tanh(-x) in turns, and its partial derivatives."""

    def value(*xs: Any) -> Any:
        y = np.tanh(xs[0])
        for k, x in enumerate(xs[1:]):
            y = y * np.tanh(x if k % 2 else -x)
        return y

    y, pull = ftrace.vjp(value, *xs)
    return y, pull(np.ones_like(y))


def newton(x: Any) -> Any:
    """Square roots, each in its own number of turns."""

    def root(a: Any) -> Any:
        y = 1.0
        while abs(y * y - a) > 1e-12 * a:
            y = 0.5 * (y + a / y)
        return y

    return ftrace.vmap(root)(x)


def scaled_pullback(x: Any, z: Any, ct: Any) -> Any:
    """A full gradient and a sum of columns in one pass."""
    return ftrace.vjp(lambda x, z: np.tanh(x * z), x, z)[1](ct)


def smooth(x: Any) -> Any:
    return np.log(np.exp(x).sum(-1))


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "softmax": (softmax, [normal(37, 50)]),
    "softmax of long rows": (softmax, [normal(3, 3000)]),
    "softmax of planes": (planes, [normal(5, 40, 30), normal(40, 1)]),
    "softmax of columns": (lambda x: softmax(x.T).T, [normal(90, 70)]),
    "layernorm": (layernorm, [normal(20, 64), normal(64), normal(64)]),
    "gradient of layernorm": (layernorm_gradient, [normal(33, 64), normal(64), normal(64)]),
    "gradient of a long layernorm": (
        layernorm_gradient,
        [normal(5, 1501), normal(1501), normal(1501)],
    ),
    "sum of columns": (lambda x: x.sum(0), [normal(300, 70)]),
    "sum of short columns": (lambda x: x.sum(0), [normal(900, 3)]),
    "sum of rows": (lambda x: x.sum(1), [normal(30, 700)]),
    "sum of short rows": (lambda x: x.sum(1), [normal(200, 24)]),
    "sum": (lambda x: x.sum(), [normal(130, 700)]),
    "sum over the middle": (lambda x: x.sum(1), [normal(5, 60, 70)]),
    "sum over both ends": (lambda x: x.sum((0, 2)), [normal(5, 60, 70, dtype="f8")]),
    "sum over the first of three": (lambda x: x.sum(0), [normal(50, 6, 7)]),
    "argmax of columns": (lambda x: np.argmax(x, 0), [normal(300, 70)]),
    "argmax of rows": (lambda x: np.argmax(x, 1), [normal(30, 70)]),
    "a vector over its sum": (lambda x: x / x.sum(), [normal(5000)]),
    "standardised": (lambda x: (x - x.mean()) / x.std(), [normal(80, 80)]),
    "row and column operands": (
        lambda x, y, z: np.sin(x) * y[:, None] + z,
        [normal(33, 64), normal(33), normal(64)],
    ),
    "sums of pairs": (lambda x, y: x[:, None] + y, [normal(33), normal(64)]),
    "a transposed operand": (lambda x, y: x.T + y, [normal(64, 48), normal(48, 64)]),
    "three axes": (lambda x, y: x * y[:, None, :], [normal(5, 7, 12), normal(5, 12)]),
    "the cell": (cell, [bits(1, 64), bits(1, 64), *(normal(64, 64) for _ in range(4))]),
    "the cell and its partials": (
        cell_partials,
        [bits(1, 64), bits(1, 64), *(normal(64, 64) for _ in range(4))],
    ),
    "the cell backwards": (
        cell_pullback,
        [bits(1, 64), bits(1, 64), *(normal(64, 64) for _ in range(5))],
    ),
    "a product and its partials": (product, [normal(40, 9) for _ in range(5)]),
    "newton": (newton, [np.exp(normal(100, dtype="f8"))]),
    "padded": (lambda x: np.pad(x, 3) * 2, [normal(40, 50)]),
    "concatenated": (lambda x, y: np.concatenate([x, y], 1) * 2, [normal(40, 50), normal(40, 20)]),
    "a small product": (
        lambda x, y: (x[:, :, None] * y[None]).sum(1),
        [normal(20, 30), normal(30, 25)],
    ),
    "gradient and sum of columns": (scaled_pullback, [normal(64, 64), normal(64), normal(64, 64)]),
    "variance of columns": (lambda x: x.var(0), [normal(90, 70)]),
    "smooth maximum": (smooth, [normal(90, 70)]),
    "half precision": (lambda x: (x * x).sum(1) + x[:, 0], [normal(40, 64).astype("f2")]),
    "complex numbers": (
        lambda x: (x * x.conj()).sum(1),
        [normal(20, 48) + 1j * normal(20, 48)],
    ),
}
