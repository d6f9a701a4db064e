"""The distance of a projectile, a loop that ends when it lands: value and slope by launch angle.

The loop is the example of pqR's authors as they wrote it. One angle asks what starting a compiled
loop costs, ten thousand whether lanes that land at different times still run together. Read next:
`pqr.py`, the same authors' recurrence.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.case import Case, built, compiled, kernel

ANGLE, DT, GRAVITY = 0.8, 1e-4, 9.8
ANGLES = 10_000


def distance(angle):
    """Of one launch angle, in radians."""
    vx, vy, x, y = math.cos(angle), math.sin(angle), 0.0, 0.0
    while True:
        last_x, last_y = x, y
        x = x + vx * DT
        y = y + vy * DT
        if y < 0.0:
            return (x * last_y - last_x * y) / (last_y - y)
        vy = vy - GRAVITY * DT


def distance_after(angle):
    """The same with the result computed once the loop is left, not in it."""
    vx, vy, x, y = math.cos(angle), math.sin(angle), 0.0, 0.0
    last_x = last_y = 0.0
    while y >= 0.0:
        last_x, last_y = x, y
        x = x + vx * DT
        y = y + vy * DT
        vy = vy - GRAVITY * DT
    return (x * last_y - last_x * y) / (last_y - y)


def _eager_distance(xp, angle):
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


def _staged(s):
    derivative = s.jvp(lambda a: _staged_distance(s, a))
    return s.jit(lambda a: derivative((a,), (s.np.cos(a) * 0.0 + 1.0,)))


def _vmapped(s):
    derivative = s.jvp(s.vmap(lambda a: _staged_distance(s, a)))
    return s.jit(lambda a: derivative((a,), (s.np.ones_like(a),)))


def _native(f):
    return built(lambda s: s.jit(s.value_and_grad(s.vectorize(f))))


def _native_many(f):
    def build(s):
        derivative = s.jvp(s.vectorize(f))
        return s.jit(lambda a: derivative((a,), (s.np.ones_like(a),)))

    return built(build)


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


def _reference_many(angles):
    """Every angle until it lands, all of them in step."""
    value, slope = np.zeros_like(angles), np.zeros_like(angles)
    open_ = np.arange(angles.size)
    vx, vy, x, y = np.cos(angles), np.sin(angles), 0.0 * angles, 0.0 * angles
    dvx, dvy, dx, dy = -vy, vx, 0.0 * angles, 0.0 * angles
    while open_.size:
        lx, ly, dlx, dly = x, y, dx, dy
        x, y, dx, dy = x + vx * DT, y + vy * DT, dx + dvx * DT, dy + dvy * DT
        vy = vy - GRAVITY * DT
        down = y < 0.0
        if down.any():
            a, b = (x * ly - lx * y)[down], (ly - y)[down]
            da = (dx * ly + x * dly - dlx * y - lx * dy)[down]
            value[open_[down]] = a / b
            slope[open_[down]] = (da - a / b * (dly - dy)[down]) / b
            keep = ~down
            open_, x, y, dx, dy = open_[keep], x[keep], y[keep], dx[keep], dy[keep]
            vx, vy, dvx, dvy = vx[keep], vy[keep], dvx[keep], dvy[keep]
    return [value, slope]


LOOPS = {"return in the loop": distance, "return after the loop": distance_after}


def _single(name, body, own, skip):
    own = own | {
        "numba": compiled(_dual_loop),
        "c": kernel("projectile", lambda a: [((), a.dtype)] * 2, 1),
    }
    return Case(
        name=f"one angle, {name}, value+grad",
        inputs=lambda: (np.float64(ANGLE),),
        reference=lambda a: list(_dual_loop(float(a))),
        body=body,
        own=own,
        skip=skip,
    )


def _many(name, f):
    return Case(
        name=f"{ANGLES} angles, {name}, value+grad",
        inputs=lambda: (np.random.default_rng(7).uniform(0.3, 1.2, ANGLES),),
        reference=_reference_many,
        own={
            "ftrace": _native_many(f),
            "jax": built(_vmapped),
            "c": kernel("projectile", lambda a: [(a.shape, a.dtype)] * 2, ANGLES),
        },
        moved=24 * ANGLES,
    )


CASES = [
    _single(
        "eager loop",
        lambda s: s.value_and_grad(lambda a: _eager_distance(s.np, a)),
        {},
        ("torchc",),
    ),
    *(
        _single(name, _staged, {"ftrace": _native(f)}, ("torch", "torchc", "autograd"))
        for name, f in LOOPS.items()
    ),
    *(_many(name, f) for name, f in LOOPS.items()),
]
