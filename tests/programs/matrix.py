"""The composition matrix: every transformation of every transformation, on seventeen functions.

`make matrix` prints it. A transformation here turns a function of three numbers into another
one, so that pairs are compositions; beside it stands the same in plain Python: derivatives by
`jvp` of the plain function along unit vectors, mapping and loops as Python loops, and nothing
where a transformation changes no value. Features that come later add rows.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import ftrace
import ftrace.numpy as fnp
from ftrace import lax

Function = Callable[[Any], Any]

X = np.array([0.6, -0.9, 1.4])
V = np.array([1.0, -2.0, 0.5])
W = np.array([[1.0, 0.3, -0.2], [0.1, 0.9, 0.4], [-0.5, 0.2, 1.1]])
MEMBERS = np.array([[1.0, 1.0, 1.0], [0.8, 1.1, 0.9]])
TURNS = np.array([0.7, 1.1])
TOLERANCE = 1e-9


# ---------------------------------------------------------------------------------- functions


def filled(x):
    out = fnp.zeros(4)
    out[0] = x[0]
    out[1:] = x * x
    out[2] *= np.sin(out[1])
    return np.sum(out * np.arange(1.0, 5.0))


def branching(x):
    return np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)), x * x * x) @ V


def looping(x):
    y = x
    for k in range(3):
        y = np.sin(y) + k * x[::-1]
    return np.sum(y * V)


def recurrent(x):
    c, ys = lax.scan(lambda c, t: (np.tanh(W @ c * t), c[0] * t), x, TURNS)
    return np.sum(c * V) + np.sum(ys * TURNS)


def iterated(x):
    return (
        lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, np.sin(c[1]) * x + c[1]), (0, x))[1]
        @ V
    )


FUNCTIONS: dict[str, Function] = {
    "polynomial": lambda x: x[0] ** 3 * x[1] + x[2] ** 2 * x[0],
    "exponentials": lambda x: np.sum(np.exp(x * V * 0.3) / (1.0 + np.exp(-x))),
    "product": lambda x: np.sin(W @ x) @ (x * V),
    "quadratic form": lambda x: x @ W @ x + np.sum(np.outer(x, x * x) * W),
    "softmax": lambda x: np.exp(x - np.max(x))[1] / np.sum(np.exp(x - np.max(x))) * x[2],
    "norm": lambda x: np.sqrt(np.sum(x * x) + 1.0) * x[1],
    "branch": branching,
    "index": lambda x: x[[2, 0, 0]] @ V * x[1] + np.prod(x[:2]),
    "reshape": lambda x: np.sum(
        np.concatenate([x, x[::-1] ** 2]).reshape(2, 3).T @ np.array([1.0, 2.0]) * x
    ),
    "cumulative": lambda x: np.cumsum(np.sin(x) * x) @ V,
    "mutation": filled,
    "loop": looping,
    "scan": recurrent,
    "while": iterated,
    "binomial scan": lambda x: (
        lax.scan(lambda c, t: (np.tanh(W @ c * t), None), x, TURNS, checkpoint="binomial", slots=1)[
            0
        ]
        @ V
    ),
    "switch": lambda x: lax.switch(1, [lambda y: y[0], lambda y: np.sin(y) @ V, np.sum], x),
    "cond": lambda x: lax.cond(x[0] > 0, lambda y: y[0] * y @ V, lambda y: np.sum(y), x),
}


# ---------------------------------------------------------------------------------- transformations


def _custom_jvp(f):
    g = ftrace.custom_jvp(f)
    g.defjvp(lambda p, t: ftrace.jvp(f, p, t))
    return g


def _custom_vjp(f):
    g = ftrace.custom_vjp(f)
    g.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * ftrace.grad(f)(x),))
    return g


def _custom_rule(f):
    return ftrace.custom_rule(f, vjp=lambda ct, y, x: (ct * ftrace.grad(f)(x),))


def _scan(f):
    def run(x):
        c, ys = lax.scan(lambda c, t: (c * 0.5 + f(x * t), c * t), 0.3, TURNS)
        return c + np.sum(ys)

    return run


def _scan_plain(f):
    def run(x):
        c, total = 0.3, 0.0
        for t in TURNS:
            c, total = c * 0.5 + f(x * t), total + c * t
        return c + total

    return run


def _while(f):
    def run(x):
        step = lambda c: (c[0] + 1, c[1] * 0.5 + f(x + 0.1 * c[1]))  # noqa: E731
        return lax.while_loop(lambda c: c[0] < 2, step, (0, 0.3))[1]

    return run


def _while_plain(f):
    def run(x):
        c = 0.3
        for _ in range(2):
            c = c * 0.5 + f(x + 0.1 * c)
        return c

    return run


def _vectorize(f):
    """After a kernel with a branch and a loop."""

    def bend(x, v):
        y = lax.while_loop(lambda y: y > 1.5, lambda y: y * 0.5 + 0.1 * v, x)
        return lax.cond(x > 0.0, lambda: y + 0.1 * np.sin(x * v), lambda: y * 0.9)

    return lambda x: f(ftrace.vectorize(bend)(x, V))


def _vectorize_plain(f):
    def bent(x):
        y = np.where(x > 1.5, x * 0.5 + 0.1 * V, x)  # one turn at most, where this is used
        return f(np.where(x > 0, y + 0.1 * np.sin(x * V), y * 0.9))

    return bent


def _inside(f):
    """At every place of an array, over a captured vector."""

    def run(x):
        return ftrace.vectorize(lambda t, w: w * f(x * t))(TURNS, np.array([0.3, 1.0])).sum()

    return run


def _custom_gradient(f):
    @ftrace.custom_gradient
    def g(x):
        y, pull = ftrace.vjp(f, x)
        return y, lambda ct: pull(ct)

    return g


def _along(f, x):
    """The gradient of a plain function, by jvp along unit vectors."""
    return [ftrace.jvp(f, (x,), (e,))[1] for e in np.eye(3)]


def _weighted(parts, weights):
    return sum(w * p for w, p in zip(weights, parts, strict=True))


def _gradient(f):
    return lambda x: _weighted(_along(f, x), V)


def _second(f):
    return lambda x: sum(
        _weighted(_along(lambda y, e=e: ftrace.jvp(f, (y,), (e,))[1], x), row)
        for e, row in zip(np.eye(3), W, strict=True)
    )


def _pushed(f):
    return lambda x: ftrace.jvp(f, (x,), (V,))[1]


def _same(f):
    return f


TRANSFORMATIONS: dict[
    str, tuple[Callable[[Function], Function], Callable[[Function], Function]]
] = {
    "grad": (lambda f: lambda x: np.sum(ftrace.grad(f)(x) * V), _gradient),
    "jvp": (_pushed, _pushed),
    "vjp": (lambda f: lambda x: np.sum(ftrace.vjp(f, x)[1](1.0)[0] * V), _gradient),
    "linearize": (lambda f: lambda x: ftrace.linearize(f, x)[1](V), _pushed),
    "jacfwd": (lambda f: lambda x: np.sum(ftrace.jacfwd(f)(x) * V), _gradient),
    "hessian": (lambda f: lambda x: np.sum(ftrace.hessian(f)(x) * W), _second),
    "vmap": (
        lambda f: lambda x: ftrace.vmap(f)(x * MEMBERS) @ np.array([1.0, -0.4]),
        lambda f: lambda x: f(x * MEMBERS[0]) - 0.4 * f(x * MEMBERS[1]),
    ),
    "jit": (ftrace.jit, _same),
    "checkpoint": (ftrace.checkpoint, _same),
    "custom_jvp": (_custom_jvp, _same),
    "custom_vjp": (_custom_vjp, _same),
    "custom_rule": (_custom_rule, _same),
    "cond": (lambda f: lambda x: lax.cond(x[0] > -9.0, f, lambda y: np.sum(y), x), _same),
    "scan": (_scan, _scan_plain),
    "while": (_while, _while_plain),
    "vectorize": (_vectorize, _vectorize_plain),
    "inside vectorize": (_inside, lambda f: lambda x: 0.3 * f(x * 0.7) + f(x * 1.1)),
    "custom_gradient": (_custom_gradient, _same),
}


def difference(outer: str, inner: str, name: str) -> float:
    """How far a composition is from the same in plain Python, relative to it."""
    f = FUNCTIONS[name]
    (a, a_plain), (b, b_plain) = TRANSFORMATIONS[outer], TRANSFORMATIONS[inner]
    expected = a_plain(b_plain(f))(X)
    found = a(b(f))(X)
    return float(abs(found - expected) / max(1.0, abs(expected)))


def main() -> int:
    """Print the matrix: how many functions a pair gets right."""
    names = list(TRANSFORMATIONS)
    width = max(map(len, names)) + 1
    print(f"{'outer of inner':<{width + 4}}" + "".join(f"{n:>{width}}" for n in names))
    wrong: list[str] = []
    started = time.perf_counter()
    for outer in names:
        row = f"{outer:<{width + 4}}"
        for inner in names:
            right = 0
            for name in FUNCTIONS:
                try:
                    off = difference(outer, inner, name)
                except Exception as error:
                    wrong.append(f"{outer} of {inner}, {name}: {type(error).__name__}: {error}")
                    continue
                if off <= TOLERANCE:
                    right += 1
                else:
                    wrong.append(f"{outer} of {inner}, {name}: off by {off:.1e}")
            row += f"{f'{right}/{len(FUNCTIONS)}':>{width}}"
        print(row, flush=True)
    print("\n".join(wrong))
    total = len(names) ** 2 * len(FUNCTIONS)
    print(f"{total - len(wrong)} of {total} right in {time.perf_counter() - started:.0f} s")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
