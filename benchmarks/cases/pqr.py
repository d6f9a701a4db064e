"""pqR's examples: a recurrence with a cumulative sum, a projectile with a data-dependent loop."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.case import Case, compiled, kernel, random

ANGLE, DT, GRAVITY = 0.8, 1e-4, 9.8
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


def _distance(xp, angle):
    """The distance travelled by a projectile, as pqR's authors wrote it."""
    vx, vy, x, y = xp.cos(angle), xp.sin(angle), 0.0, 0.0
    while True:
        last_x, last_y = x, y
        x = x + vx * DT
        y = y + vy * DT
        if y < 0:
            return (x * last_y - last_x * y) / (last_y - y)
        vy = vy - GRAVITY * DT


def _staged_distance(s, angle):
    vx, vy = s.np.cos(angle), s.np.sin(angle)
    zero = vx * 0.0

    def step(state):
        x, y, _, _, vy = state
        return (x + vx * DT, y + vy * DT, x, y, vy - GRAVITY * DT)

    start = step((zero, zero, zero, zero, vy))
    x, y, last_x, last_y, _ = s.while_loop(lambda state: state[1] >= 0.0, step, start)
    return (x * last_y - last_x * y) / (last_y - y)


def _staged_value_and_grad(s):
    derivative = s.jvp(lambda a: _staged_distance(s, a))
    return s.jit(lambda a: derivative((a,), (s.np.cos(a) * 0.0 + 1.0,)))


def _dual_loop(angle):
    vx, vy = math.cos(angle), math.sin(angle)
    dvx, dvy = -vy, vx
    x = y = dx = dy = 0.0
    while True:
        lx, ly, dlx, dly = x, y, dx, dy
        x, y, dx, dy = x + vx * DT, y + vy * DT, dx + dvx * DT, dy + dvy * DT
        if y < 0:
            above, below = x * ly - lx * y, ly - y
            slope = dx * ly + x * dly - dlx * y - lx * dy
            return above / below, (slope - above / below * (dly - dy)) / below
        vy -= GRAVITY * DT


def _recurrence(n):
    return Case(
        name=f"pqR f: value+Jacobian n={n}",
        inputs=lambda: random((n,), low=3.0, high=9.0),
        reference=_jacobian,
        body=_value_and_jacobian,
        own={"c": kernel("pqr_jacobian", lambda x: [((n,), x.dtype), ((n, n), x.dtype)], n)},
        skip=("torchc",) if n > 5 else (),
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
        parallel=n > 1000,
        quick=n == 5,
    )


def _projectile(name, body, skip):
    return Case(
        name=f"projectile {name} value+grad",
        inputs=lambda: (np.float64(ANGLE),),
        reference=lambda a: list(_dual_loop(float(a))),
        body=body,
        own={
            "numba": compiled(_dual_loop),
            "c": kernel("projectile", lambda a: [((), a.dtype), ((), a.dtype)]),
        },
        skip=skip,
    )


CASES = [
    _recurrence(5),
    _recurrence(100),
    _summed(5),
    _summed(100_000),
    _projectile(
        "native loop", lambda s: s.value_and_grad(lambda a: _distance(s.np, a)), ("torchc",)
    ),
    _projectile("lax.while_loop", _staged_value_and_grad, ("torch", "torchc", "autograd")),
]
