"""Linear algebra and FFT: a Gaussian process, small systems, a filter, a spectrum, a blur."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Case, hand, kernel, random
from benchmarks.cases.functions import over

POINTS, BATCH, STEPS, PIXELS, ORDER = 500, 10_000, 100, 128, 100


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


def _kalman(xp, noise, observed, f, h, eye):
    """Minus the log likelihood of a series under a filter of two states and two observations."""
    q, r = xp.exp(noise[0]) * eye, xp.exp(noise[1]) * eye
    x, p, loss = observed[0], eye, 0.0
    for i in range(STEPS):
        x, p = f @ x, f @ p @ f.T + q
        s, e = h @ p @ h.T + r, observed[i] - h @ x
        gain = xp.linalg.solve(s, h @ p).T
        loss = loss + 0.5 * (xp.log(xp.linalg.det(s)) + e @ xp.linalg.solve(s, e))
        x, p = x + gain @ e, p - gain @ h @ p
    return loss


def _kalman_inputs():
    (observed,) = random((STEPS, 2), low=-1.0)
    turn = np.array([[0.9, 0.2], [-0.2, 0.9]])
    return np.array([-1.0, -0.5]), observed, turn, np.array([[1.0, 0.5], [0.0, 1.0]]), np.eye(2)


def _kalman_reference(noise, *rest):
    step = 1e-5 * np.eye(2)
    slopes = [_kalman(np, noise + d, *rest) - _kalman(np, noise - d, *rest) for d in step]
    return [_kalman(np, noise, *rest), np.array(slopes) / 2e-5]


def _blurred(xp, x, kernel, y):
    """The misfit of a blurred picture."""
    blurred = xp.fft.irfft2(xp.fft.rfft2(x) * xp.fft.rfft2(kernel), s=x.shape)
    return xp.sum((blurred - y) ** 2)


def _blurred_by_hand(x, kernel, y):
    k = np.fft.rfft2(kernel)
    e = np.fft.irfft2(np.fft.rfft2(x) * k, s=x.shape) - y
    return [np.sum(e * e), np.fft.irfft2(np.fft.rfft2(2.0 * e) * np.conj(k), s=x.shape)]


def _spectral(xp, a):
    """A function of the eigenvalues and of one eigenvector that has no sign."""
    w, v = xp.linalg.eigh((a + a.T) / 2.0)
    return xp.sum(w * w * w) + xp.sum(v[:, 0] * v[:, 0] * w)


def _spectral_reference(a):
    a = (a + a.T) / 2.0
    w, v = np.linalg.eigh(a)
    within = (v[:, :1].T * w) @ v[:, :1]  # of the weighted norm of the first eigenvector
    gap = np.where(np.arange(len(w)) == 0, np.inf, w[0] - w)
    turned = v @ ((v.T @ (w * v[:, 0])) / gap)
    slope = (v * (3.0 * w * w + v[:, 0] ** 2)) @ v.T
    slope = slope + (np.outer(turned, v[:, 0]) + np.outer(v[:, 0], turned))
    return [np.sum(w**3) + within[0, 0], slope]


def _singular(xp, a):
    """A function of the singular values and of the orthogonal factor of the polar form."""
    u, s, vh = xp.linalg.svd(a, full_matrices=False)
    return xp.sum(xp.sin(s)) + xp.sum(a * (u @ vh))


def _singular_reference(a):
    u, s, vh = np.linalg.svd(a)
    return [np.sum(np.sin(s)) + np.sum(s), (u * (np.cos(s) + 1.0)) @ vh]


def _seed_matrix():
    return random((ORDER, ORDER), low=-1.0)


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
    Case(
        name=f"Kalman filter value_and_grad {STEPS} steps",
        inputs=_kalman_inputs,
        reference=_kalman_reference,
        body=lambda s: s.jit(s.value_and_grad(over(s.np, _kalman))),
        tolerance=1e-6,
    ),
    Case(
        name=f"FFT deconvolution value_and_grad {PIXELS}x{PIXELS}",
        inputs=lambda: random(*3 * ((PIXELS, PIXELS),)),
        reference=_blurred_by_hand,
        body=lambda s: s.jit(s.value_and_grad(over(s.np, _blurred))),
        own={"numpy": hand(_blurred_by_hand)},
        skip=("torchc",),
    ),
    Case(
        name=f"eigh value_and_grad {ORDER}x{ORDER}",
        inputs=_seed_matrix,
        reference=_spectral_reference,
        body=lambda s: s.jit(s.value_and_grad(over(s.np, _spectral))),
        own={"numpy": hand(_spectral_reference)},
        tolerance=1e-7,
        parallel=True,
    ),
    Case(
        name=f"svd value_and_grad {ORDER}x{ORDER}",
        inputs=_seed_matrix,
        reference=_singular_reference,
        body=lambda s: s.jit(s.value_and_grad(over(s.np, _singular))),
        own={"numpy": hand(_singular_reference)},
        tolerance=1e-7,
        parallel=True,
    ),
]
