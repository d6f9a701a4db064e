"""Random programs: what can be applied to a small stack of arrays, and how one is run.

A program is a list of steps; each takes arrays of one shape from a pool and adds one. Every step
is ordinary NumPy code that is smooth where the samples lie, so that the same program runs on plain
arrays, on tracers and in finite differences. Read next: `test_random_programs.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import ftrace
import ftrace.numpy as fnp

SHAPE = (3, 3)
WEIGHTS = np.array([[0.3, -1.1, 0.7], [1.3, 0.2, -0.4], [0.9, -0.8, 0.5]])
ORDER = np.array([2, 0, 1, 0])


def overwritten(x: Any, y: Any) -> Any:
    """In-place writes through slices, elements and index arrays."""
    out = fnp.zeros(SHAPE)
    out[0] = x[1] * 2.0
    out[1:, 1] = y[:2, 0]
    out[2, 2] = x[0, 0] * y[1, 1]
    out[np.array([0, 2]), np.array([0, 1])] += x[0, :2]
    return out


def viewed(x: Any, y: Any) -> Any:
    """A write through a view of a copy."""
    z = x.copy()
    row = z[1]
    row *= y[0]
    z.T[2] -= y[1]
    return z


UNARY: dict[str, Callable[[Any], Any]] = {
    "sin": np.sin,
    "tanh": np.tanh,
    "exp": lambda x: np.exp(-x * x),
    "log": lambda x: np.log(1.5 + x * x),
    "sqrt": lambda x: np.sqrt(1.0 + x * x),
    "power": lambda x: (1.0 + x * x) ** 0.7,
    "cube": lambda x: x**3 * 0.1,
    "transpose": lambda x: x.T,
    "reverse": lambda x: x[::-1] * 1.5,
    "roll": lambda x: np.roll(x, 1, axis=1),
    "gather": lambda x: x[ORDER][:3],
    "take": lambda x: np.take(x, [2, 2, 1], axis=1),
    "reshape": lambda x: np.reshape(np.ravel(x)[::-1], SHAPE),
    "pad": lambda x: np.pad(x[:, 1:], ((0, 0), (1, 0)), constant_values=0.5),
    "concatenate": lambda x: np.concatenate([x[1:], x[:1]]),
    "row sums": lambda x: x - np.sum(x, axis=1, keepdims=True),
    "means": lambda x: x * np.mean(x, axis=0),
    "variance": lambda x: x / (1.0 + np.var(x)),
    "cumsum": lambda x: np.cumsum(x, axis=0),
    "cumprod": lambda x: np.cumprod(np.tanh(x), axis=1),
    "prod": lambda x: x + np.prod(np.tanh(x)),
    "softmax": lambda x: np.exp(x - np.max(x)) / np.sum(np.exp(x - np.max(x))),
    "norm": lambda x: x / (1.0 + np.linalg.norm(x)),
    "sort": lambda x: np.sort(x, axis=1),
    "clip": lambda x: np.clip(x, -50.0, 50.0),
    "where": lambda x: np.where(x > 0, np.sqrt(np.abs(x) + 0.1), x * 2.0),
    "diag": lambda x: np.diag(np.diagonal(x)) + x,
    "triangle": lambda x: np.tril(x) + 0.1 * np.triu(x),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x) * 0.2,
    "select": lambda x: np.maximum(x, -x * 0.3),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - 2.0 * y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / (1.5 + y * y),
    "matmul": lambda x, y: x @ y * 0.3,
    "outer": lambda x, y: np.outer(x[0], y[:, 1]),
    "maximum": np.maximum,
    "arctan2": lambda x, y: np.arctan2(x, 1.0 + y * y),
    "hypot": lambda x, y: np.hypot(x, 1.0 + y),
    "broadcast": lambda x, y: x * y[0] + y[:, :1],
    "overwritten": overwritten,
    "viewed": viewed,
    "weights": lambda x, y: x * WEIGHTS + y @ WEIGHTS * 0.1,
}


def through_custom(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function whose jvp rule is its own derivative."""
    g = ftrace.custom_jvp(f)
    g.defjvp(lambda p, t: ftrace.jvp(f, p, t))
    return g


def through_custom_vjp(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function whose backward rule is its own pullback."""
    g = ftrace.custom_vjp(f)
    g.defvjp(lambda x: (f(x), x), lambda x, ct: ftrace.vjp(f, x)[1](ct))
    return g


def through_cond(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Two branches of one value, chosen by the data."""
    return lambda x: ftrace.lax.cond(np.sum(x) > 0, f, lambda y: f(y * 1.0), x)


def through_loop(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One turn of a loop; forward mode only."""

    def looped(x: Any) -> Any:
        return ftrace.lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, f(c[1])), (0, x))[1]

    return looped


Wrapper = Callable[[Callable[[Any], Any]], Callable[[Any], Any]]

WRAPPERS: dict[str, Wrapper] = {
    "plain": lambda f: f,
    "jit": ftrace.jit,
    "checkpoint": ftrace.checkpoint,
    "jit of checkpoint": lambda f: ftrace.jit(ftrace.checkpoint(f)),
    "cond": lambda f: lambda x: ftrace.lax.cond(np.bool_(True), f, lambda y: y * 0.0, x),
    "cond on data": through_cond,
    "cond of jit": lambda f: through_cond(ftrace.jit(f)),
    "custom vjp": through_custom_vjp,
    "rows": lambda f: lambda x: f(ftrace.vmap(lambda row: row * 1.0)(x)),
    "custom": through_custom,
}


@dataclass(frozen=True)
class Step:
    """One application: an operation, how it is wrapped, and the pool entries it takes."""

    name: str
    wrapper: str
    first: int
    second: int


STEPS = st.builds(
    Step,
    st.sampled_from([*UNARY, *BINARY]),
    st.sampled_from(["plain", *WRAPPERS]),
    st.integers(0, 7),
    st.integers(0, 7),
)
PROGRAMS = st.lists(STEPS, min_size=1, max_size=7)


def run(steps: list[Step], x: Any, *, wrapped: bool, wrapper: Wrapper | None = None) -> Any:
    """The value of a program: an array of `SHAPE`; `wrapper` goes around every function of one."""
    pool = [x, x * 0.5 + WEIGHTS]
    for step in steps:
        a, b = pool[step.first % len(pool)], pool[step.second % len(pool)]
        if step.name in UNARY:
            f = UNARY[step.name]
            around = wrapper or WRAPPERS[step.wrapper]
            pool.append(around(f)(a) if wrapped else f(a))
        else:
            pool.append(BINARY[step.name](a, b))
    return pool[-1]
