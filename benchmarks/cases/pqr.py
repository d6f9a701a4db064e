"""pqR's recurrence with a cumulative sum: its Jacobian, and the gradient of its sum.

ftrace runs the recurrence as a native loop of one number, whose partials it keeps; that the
recurrence works element by element is what makes the Jacobian cheap. Read next: `projectile.py`.
"""

from __future__ import annotations

import numpy as np

from benchmarks.case import Case, built, compiled, kernel, random

STEPS = 100


def _f(system, x):
    s = system.scan(lambda s, _: s + (x * x + 1.0) / s, x * 0.0 + 1.0, STEPS)
    return 4.0 * system.np.cumsum(s, axis=0) ** 2


def _with_slopes(x):
    s, d = np.ones_like(x), np.zeros_like(x)
    for _ in range(STEPS):
        q = (x * x + 1.0) / s
        s, d = s + q, d + (2.0 * x - q * d) / s
    return np.cumsum(s), d


def _jacobian(x):
    total, d = _with_slopes(x)
    return [4.0 * total**2, np.tril(8.0 * total[:, None] * d[None, :])]


def _sum_and_grad(x):
    total, d = _with_slopes(x)
    return [np.sum(4.0 * total**2), 8.0 * np.cumsum(total[::-1])[::-1] * d]


def _loop(x):
    total, value = 0.0, 0.0
    sums, slopes = np.empty_like(x), np.empty_like(x)
    for i in range(x.size):
        s, d = 1.0, 0.0
        for _ in range(100):
            q = (x[i] * x[i] + 1.0) / s
            d += (2.0 * x[i] - q * d) / s
            s += q
        total += s
        sums[i], slopes[i] = total, d
        value += 4.0 * total * total
    tail = 0.0
    for i in range(x.size - 1, -1, -1):
        tail += sums[i]
        slopes[i] *= 8.0 * tail
    return value, slopes


def _value_and_jacobian(s):
    def f(x):
        return _f(s, x)

    jacobian = s.jacobian(f)
    return s.jit(lambda x: (f(x), jacobian(x)))


def recurrence(x):
    """A hundred steps, of one number."""
    s = 1.0
    for _ in range(STEPS):
        s = s + (x * x + 1.0) / s
    return s


def _native_value_and_jacobian(s):
    steps = s.vectorize(recurrence, residuals="cache")

    def run(x):
        value, push = s.mod.linearize(lambda x: 4.0 * s.np.cumsum(steps(x)) ** 2, x)
        return value, s.vmap(push, out_axes=1)(s.np.eye(x.size))

    return s.jit(run)


def _recurrence(n):
    return Case(
        name=f"pqR f: value+Jacobian n={n}",
        inputs=lambda: random((n,), low=3.0, high=9.0),
        reference=_jacobian,
        body=_value_and_jacobian,
        own={
            "ftrace": built(_native_value_and_jacobian),
            "c": kernel("pqr_jacobian", lambda x: [((n,), x.dtype), ((n, n), x.dtype)], n),
        },
        skip=("torchc",),
    )


def _summed(n):
    return Case(
        name=f"pqR f: value+grad of sum n={n}",
        inputs=lambda: random((n,), low=3.0, high=9.0),
        reference=_sum_and_grad,
        body=lambda s: s.jit(s.value_and_grad(lambda x: s.np.sum(_f(s, x)))),
        own={
            "numba": compiled(_loop),
            "c": kernel("pqr_sum", lambda x: [((), x.dtype), (x.shape, x.dtype)], n),
        },
        skip=("torchc",),
        parallel=n > 1000,
        quick=n == 5,
    )


CASES = [_recurrence(5), _recurrence(100), _summed(5), _summed(100_000)]
