"""Cholesky and small solves: a Gaussian process, ten thousand 4 by 4 systems."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Case, hand, kernel, random
from benchmarks.cases.functions import over

POINTS, BATCH = 500, 10_000


def _gp(xp, theta, squared, eye, y):
    k = xp.exp(theta[0]) * xp.exp(-squared * xp.exp(theta[1])) + xp.exp(theta[2]) * eye
    factor = xp.linalg.cholesky(k)
    return 0.5 * xp.sum(y * xp.linalg.solve(k, y)) + xp.sum(xp.log(xp.diag(factor)))


def _gp_by_hand(theta, squared, eye, y):
    smooth = np.exp(theta[0]) * np.exp(-squared * np.exp(theta[1]))
    k = smooth + np.exp(theta[2]) * eye
    inverse, sign = np.linalg.inv(k), np.linalg.slogdet(k)
    alpha = inverse @ y
    weight = inverse - np.outer(alpha, alpha)
    slopes = (smooth, -smooth * squared * np.exp(theta[1]), np.exp(theta[2]) * eye)
    value = 0.5 * (y @ alpha + sign.logabsdet)
    return [value, np.array([0.5 * np.sum(weight * d) for d in slopes])]


def _gp_inputs():
    (x,) = random((POINTS,))
    squared = (x[:, None] - x[None, :]) ** 2
    return np.array([0.3, 2.0, -2.0]), squared, np.eye(POINTS), np.sin(6.0 * x)


def _solve(xp, a, b):
    return xp.linalg.solve(a, b)


def _solve_by_hand(a, b):
    x = np.linalg.solve(a, b)
    db = np.linalg.solve(np.swapaxes(a, 1, 2), 2.0 * x)
    return [np.sum(x * x), -db * np.swapaxes(x, 1, 2), db]


def _systems():
    a, b = random((BATCH, 4, 4), (BATCH, 4, 1))
    return a + 4.0 * np.eye(4), b


CASES = [
    Case(
        name=f"GP marginal likelihood value_and_grad n={POINTS}",
        inputs=_gp_inputs,
        reference=_gp_by_hand,
        body=lambda s: s.jit(s.value_and_grad(over(s.np, _gp))),
        own={"numpy": hand(_gp_by_hand)},
        tolerance=1e-7,
        parallel=True,
    ),
    Case(
        name="batched 4x4 solve 1e4",
        inputs=_systems,
        reference=lambda a, b: [np.linalg.solve(a, b)],
        body=lambda s: s.jit(over(s.np, _solve)),
        own={
            "numpy": hand(np.linalg.solve),
            "c": kernel("solve4", lambda a, b: [(b.shape, b.dtype)], BATCH),
        },
        parallel=True,
    ),
    Case(
        name="batched 4x4 solve value_and_grad 1e4",
        inputs=_systems,
        reference=_solve_by_hand,
        body=lambda s: s.jit(
            s.value_and_grad(lambda a, b: s.np.sum(_solve(s.np, a, b) ** 2), (0, 1))
        ),
        own={
            "numpy": hand(_solve_by_hand),
            "c": kernel(
                "solve4_vg",
                lambda a, b: [((), a.dtype), (a.shape, a.dtype), (b.shape, b.dtype)],
                BATCH,
            ),
        },
        parallel=True,
    ),
]
