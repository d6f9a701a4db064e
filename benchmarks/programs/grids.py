"""Stencils, pictures, automata: arrays of which neighbours are read."""

from __future__ import annotations

import numpy as np

from benchmarks.programs.program import Program, generator


def _advection(s, speed, field):
    """A wave that is carried along, by upwind steps."""
    xp = s.np

    def step(u, _):
        left = xp.concatenate([u[-1:], u[:-1]])
        right = xp.concatenate([u[1:], u[:1]])
        return u - 0.2 * speed * (u - left) + 0.1 * (left + right - 2.0 * u)

    return xp.sum(s.scan(step, field, 200) ** 3)


def _advection_inputs():
    return 0.5 + generator().random(256), np.sin(np.linspace(0.0, 6.0, 256))


def _gray_scott(s, rates, u, v):
    """A reaction that spreads, with periodic borders."""
    xp = s.np

    def laplacian(a):
        ends = xp.roll(a, 1, 0) + xp.roll(a, -1, 0) + xp.roll(a, 1, 1) + xp.roll(a, -1, 1)
        return ends - 4.0 * a

    def step(state, _):
        u, v = state
        r = u * v * v
        u = u + 0.16 * laplacian(u) - r + rates[0] * (1.0 - u)
        return u, v + 0.08 * laplacian(v) + r - (rates[0] + rates[1]) * v

    return xp.sum(s.scan(step, (u, v), 40)[1])


def _dish():
    rng = generator()
    return np.array([0.04, 0.06]), rng.random((64, 64)), rng.random((64, 64))


def _smoothing(s, weights, volume):
    """A volume that is smoothed five times with weights that are learned."""
    xp, a = s.np, volume
    for _ in range(5):
        inner = weights[0] * a[1:-1, 1:-1, 1:-1]
        inner = inner + weights[1] * (a[:-2, 1:-1, 1:-1] + a[2:, 1:-1, 1:-1])
        inner = inner + weights[2] * (a[1:-1, :-2, 1:-1] + a[1:-1, 2:, 1:-1])
        inner = inner + weights[3] * (a[1:-1, 1:-1, :-2] + a[1:-1, 1:-1, 2:])
        a = xp.pad(inner, 1)
    return xp.sum(a * a)


def _volume():
    return np.array([0.4, 0.1, 0.1, 0.1]), generator().random((24, 24, 24))


def _variation(s, picture, noisy):
    """The total variation of a picture, and its distance from a noisy one."""
    xp = s.np
    dx, dy = picture[1:, :-1] - picture[:-1, :-1], picture[:-1, 1:] - picture[:-1, :-1]
    return xp.sum(xp.sqrt(dx * dx + dy * dy + 1e-3)) + 2.0 * xp.sum((picture - noisy) ** 2)


def _two_pictures():
    rng = generator()
    return rng.random((128, 128)), rng.random((128, 128))


def _filter(s, weights, picture):
    """A picture filtered by five times five weights, with its rectified sum."""
    xp, n = s.np, picture.shape[0] - 4
    out = xp.zeros((n, n))
    for i in range(5):
        for j in range(5):
            out = out + weights[i, j] * picture[i : i + n, j : j + n]
    return xp.mean(xp.maximum(out, 0.0) ** 2)


def _filter_inputs():
    rng = generator()
    return rng.normal(size=(5, 5)), rng.normal(size=(100, 100))


def _affine(s, motion, picture, fixed):
    """The misfit of a picture that is moved, turned and stretched."""
    xp, n = s.np, picture.shape[0]
    y, x = xp.arange(n - 40.0)[:, None] + 20.0, xp.arange(n - 40.0)[None, :] + 20.0
    v = y + motion[0] + motion[1] * y + motion[2] * x
    u = x + motion[3] + motion[4] * y + motion[5] * x
    top, left = xp.floor(v), xp.floor(u)
    i, j = top.astype(int), left.astype(int)
    v, u = v - top, u - left
    above = picture[i, j] * (1.0 - u) + picture[i, j + 1] * u
    below = picture[i + 1, j] * (1.0 - u) + picture[i + 1, j + 1] * u
    return xp.mean((above * (1.0 - v) + below * v - fixed[20 : n - 20, 20 : n - 20]) ** 2)


def _affine_inputs():
    rng = generator()
    motion = np.array([1.3, 0.01, -0.02, -0.7, 0.015, 0.005])
    return motion, rng.random((128, 128)), rng.random((128, 128))


def _life(s, boards):
    """Conway's rule on several boards."""
    xp = s.np

    def play(board):
        def step(b, _):
            rows = b + xp.roll(b, 1, 0) + xp.roll(b, -1, 0)
            count = rows + xp.roll(rows, 1, 1) + xp.roll(rows, -1, 1) - b
            return xp.where((count == 3) | ((b == 1) & (count == 2)), 1, 0)

        return xp.sum(s.scan(step, board, 30))

    return s.vmap(play)(boards)


def _mixed(s, words):
    """Sixteen rounds of a generator of random bits, and their sum."""
    xp, x = s.np, words
    for _ in range(16):
        x = x ^ (x << 13)
        x = x ^ (x >> 7)
        x = x ^ (x << 17)
    return xp.sum(x)


def _pressure(s, source, start):
    """Jacobi iterations for the pressure of a flow, until they change little."""
    xp = s.np

    def going(state):
        return (state[1] > 1e-3) & (state[2] < 100)

    def step(state):
        p, _, k = state
        around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        new = xp.pad(0.25 * (around - source[1:-1, 1:-1]), 1)
        return new, xp.max(xp.abs(new - p)), k + 1

    return s.while_loop(going, step, (start, 1.0, 0))[0]


def _flow():
    return 0.1 * generator().normal(size=(48, 48)), np.zeros((48, 48))


def _spline(s, control, x):
    """A curve of cubic pieces between control points, at many places."""
    xp = s.np
    i = xp.floor(x).astype(int)
    t = x - xp.floor(x)
    a = (1.0 - t) ** 3
    b = 3.0 * t**3 - 6.0 * t**2 + 4.0
    c = -3.0 * t**3 + 3.0 * t**2 + 3.0 * t + 1.0
    y = a * control[i] + b * control[i + 1] + c * control[i + 2] + t**3 * control[i + 3]
    return xp.sum((y / 6.0 - xp.sin(x)) ** 2)


def _curve():
    rng = generator()
    return rng.normal(size=24), 20.0 * rng.random(10000)


PROGRAMS: dict[str, Program] = {
    "advection 256x200": Program(_advection, _advection_inputs, (0, 1)),
    "reaction 64x64x40": Program(_gray_scott, _dish),
    "smoothing 24^3": Program(_smoothing, _volume, (0, 1)),
    "total variation 128^2": Program(_variation, _two_pictures),
    "filter 5x5 of 100^2": Program(_filter, _filter_inputs, (0, 1)),
    "affine warp 128^2": Program(_affine, _affine_inputs),
    "life 8x48x48x30": Program(_life, lambda: (generator().integers(0, 2, (8, 48, 48)),), ()),
    "random bits 100000": Program(
        _mixed, lambda: (generator().integers(1, 2**60, 100000).astype(np.int64),), ()
    ),
    "pressure 48x48": Program(_pressure, _flow, ()),
    "spline 10000": Program(_spline, _curve),
}
