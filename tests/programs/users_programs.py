"""Programs of the kinds that scientists have, in plain NumPy and SciPy, nothing changed for ftrace.

Each entry of `PROGRAMS` is a function of its arguments, these, and which of them is differentiated.
"""

import dataclasses

import numpy as np
import scipy.integrate
import scipy.optimize
import scipy.sparse
from scipy.special import ndtr

RNG = np.random.default_rng(7)


def gaussian_process(theta, X, y):
    """Negative log marginal likelihood of a Gaussian process."""
    scale, length, noise = np.exp(theta)
    d = ((X[:, None] - X[None]) ** 2).sum(-1)
    K = scale**2 * np.exp(-d / (2 * length**2)) + noise**2 * np.eye(len(X))
    L = np.linalg.cholesky(K)
    alpha = np.linalg.solve(L.T, np.linalg.solve(L, y))
    return 0.5 * y @ alpha + np.log(np.diag(L)).sum() + 0.5 * len(X) * np.log(2 * np.pi)


def logistic(w, X, y):
    """Negative log posterior of logistic regression."""
    z = X @ w
    return np.sum(np.logaddexp(0.0, z) - y * z) + 0.5 * np.sum(w**2)


def leapfrog(w, X, y, momentum):
    """The energy after some steps of Hamiltonian Monte Carlo with the gradient by hand."""

    def gradient(w):
        return X.T @ (1 / (1 + np.exp(-X @ w)) - y) + w

    for _ in range(3):
        momentum = momentum - 0.05 * gradient(w)
        w = w + 0.1 * momentum
        momentum = momentum - 0.05 * gradient(w)
    return logistic(w, X, y) + 0.5 * momentum @ momentum


def heat(u0, kappa):
    """The heat equation on a square, stepped in place."""
    u = u0.copy()
    for _ in range(6):
        u[1:-1, 1:-1] += kappa * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )
    return np.sum(u**2)


def runge_kutta(theta):
    """Lotka-Volterra by RK4 with a rate that builds an array."""

    def rate(y):
        a, b, c, d = theta
        return np.array([a * y[0] - b * y[0] * y[1], c * y[0] * y[1] - d * y[1]])

    y, h = np.array([1.0, 0.5]), 0.05
    path = np.empty((4, 2))
    for i in range(4):
        k1 = rate(y)
        k2 = rate(y + h / 2 * k1)
        k3 = rate(y + h / 2 * k2)
        k4 = rate(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path[i] = y
    return np.sum(path**2)


TIMES = np.linspace(0.0, 2.0, 7)


def fit_of_an_equation(theta, data):
    """Misfit of a damped oscillator solved by SciPy."""

    def rate(t, y):
        return [y[1], -theta[0] * y[0] - theta[1] * y[1]]

    sol = scipy.integrate.solve_ivp(
        rate, (0.0, 2.0), [1.0, 0.0], t_eval=TIMES, rtol=1e-8, atol=1e-10
    )
    return np.sum((sol.y[0] - data) ** 2)


def kalman(log_q, log_r, observations):
    """Negative log likelihood by a Kalman filter."""
    F = np.array([[1.0, 0.1], [0.0, 1.0]])
    H = np.array([[1.0, 0.0]])
    Q, R = np.exp(log_q) * np.eye(2), np.exp(log_r) * np.eye(1)
    m, P, total = np.zeros(2), np.eye(2), 0.0
    for z in observations:
        m, P = F @ m, F @ P @ F.T + Q
        S = H @ P @ H.T + R
        v = z - H @ m
        K = np.linalg.solve(S, H @ P).T
        total += 0.5 * (v @ np.linalg.solve(S, v) + np.linalg.slogdet(2 * np.pi * S)[1])
        m, P = m + K @ v, P - K @ S @ K.T
    return total


def accelerations(x, mass):
    """Gravity between bodies."""
    d = x[None] - x[:, None]
    r = np.sqrt((d**2).sum(-1) + 0.01)
    return (mass[None, :, None] * d / r[..., None] ** 3).sum(1)


def bodies(x, mass):
    return np.sum(accelerations(x, mass) ** 2)


def bodies_in_time(x, mass):
    v = np.zeros_like(x)
    for _ in range(4):
        v = v + 0.01 * accelerations(x, mass)
        x = x + 0.01 * v
    return np.sum(x**2)


def arm(angles):
    total = np.cumsum(angles)
    return np.array([np.sum(np.cos(total)), np.sum(np.sin(total))])


def inverse_kinematics(target):
    """Angles of a planar arm that reach a target, by damped Gauss-Newton until they do."""
    q = np.array([0.3, 0.5, 0.4])
    error = target - arm(q)
    steps = 0
    while np.linalg.norm(error) > 1e-10 and steps < 50:
        total = np.cumsum(q)
        J = np.array([[-np.sum(np.sin(total[i:])) for i in range(3)],
                      [np.sum(np.cos(total[i:])) for i in range(3)]])  # fmt: skip
        q = q + J.T @ np.linalg.solve(J @ J.T + 1e-9 * np.eye(2), error)
        error = target - arm(q)
        steps += 1
    return np.sum(q**2)


def warp(shift, image):
    """Bilinear interpolation of a moved image."""
    h, w = image.shape
    yy, xx = np.meshgrid(np.arange(h), np.arange(w), indexing="ij")
    y = np.clip(yy + shift[0], 0, h - 1.001)
    x = np.clip(xx + shift[1], 0, w - 1.001)
    y0, x0 = np.floor(y).astype(int), np.floor(x).astype(int)
    fy, fx = y - y0, x - x0
    out = (
        image[y0, x0] * (1 - fy) * (1 - fx)
        + image[y0 + 1, x0] * fy * (1 - fx)
        + image[y0, x0 + 1] * (1 - fy) * fx
        + image[y0 + 1, x0 + 1] * fy * fx
    )
    return np.sum((out - image) ** 2)


def interpolated(values, at):
    return np.sum(np.interp(at, np.linspace(0, 1, len(values)), values) ** 2)


def black_scholes(sigma, spot, strike):
    d1 = (np.log(spot / strike) + (0.02 + sigma**2 / 2)) / sigma
    return np.sum(spot * ndtr(d1) - strike * np.exp(-0.02) * ndtr(d1 - sigma))


def asian_option(sigma, normals):
    steps = (0.02 - sigma**2 / 2) * 0.1 + sigma * np.sqrt(0.1) * normals
    paths = 100 * np.exp(np.cumsum(steps, axis=1))
    return np.mean(np.maximum(paths.mean(axis=1) - 100, 0.0)) * np.exp(-0.02)


def deconvolution(image, kernel, observed):
    blurred = np.fft.irfft2(np.fft.rfft2(image) * np.fft.rfft2(kernel), image.shape)
    edges = np.sqrt(np.diff(image, axis=0)[:, :-1] ** 2 + np.diff(image, axis=1)[:-1] ** 2 + 1e-6)
    return np.sum((blurred - observed) ** 2) + 0.01 * np.sum(edges)


def circuit(angles):
    """Energy of a variational circuit on three qubits."""
    n = 3
    state = np.zeros((2,) * n, dtype=complex)
    state[(0,) * n] = 1.0
    k = 0
    for _ in range(2):
        for q in range(n):
            c, s = np.cos(angles[k] / 2), np.sin(angles[k] / 2)
            gate = np.array([[c, -1j * s], [-1j * s, c]])
            state = np.moveaxis(np.tensordot(gate, state, axes=(1, q)), 0, q)
            k += 1
        for q in range(n - 1):
            flipped = [slice(None)] * n
            flipped[q] = 1
            part = state[tuple(flipped)]
            state = state.copy()
            state[tuple(flipped)] = np.flip(part, axis=q)
    p = np.abs(state) ** 2
    return p[0].sum() - p[1].sum() + p[:, 0].sum()


def sparse_fit(x, A, b):
    return np.sum((A @ x - b) ** 2)


@dataclasses.dataclass
class Block:
    """One layer of a transformer."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    out: np.ndarray
    w: np.ndarray


def transformer(block, x, labels):
    q, k, v = x @ block.q, x @ block.k, x @ block.v
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    h = x + weights @ v @ block.out
    h = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5)
    logits = h.mean(-2) @ block.w
    logits = logits - logits.max(-1, keepdims=True)
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -np.mean(logp[np.arange(len(labels)), labels])


def adam_step(block, x, labels, gradient):
    """One step of Adam, the gradient given, over all fields."""
    new = {}
    for field in dataclasses.fields(block):
        p, g = getattr(block, field.name), getattr(gradient, field.name)
        m, v = 0.1 * g, 0.001 * g**2
        new[field.name] = p - 0.01 * (m / 0.1) / (np.sqrt(v / 0.001) + 1e-8)
    return transformer(Block(**new), x, labels)


def recurrent(params, rows, labels):
    """A gated recurrent unit over rows."""
    h = np.zeros((rows.shape[0], params["U"].shape[0]))
    for t in range(rows.shape[1]):
        a = rows[:, t] @ params["W"] + h @ params["U"] + params["b"]
        n = h.shape[1]
        z = 1 / (1 + np.exp(-a[:, :n]))
        r = 1 / (1 + np.exp(-a[:, n : 2 * n]))
        c = np.tanh(a[:, 2 * n :] * r)
        h = z * h + (1 - z) * c
    logits = h @ params["V"]
    return np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(len(labels)), labels])


def convolutional(params, images, labels):
    """A convolution written by windows, pooling, a dense layer."""
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(1, 2))
    h = np.einsum("nijab,cab->ncij", windows, params["kernel"])
    h = np.maximum(h + params["bias"][:, None, None], 0.0)
    n, c, i, j = h.shape
    h = h.reshape(n, c, i // 2, 2, j // 2, 2).max(axis=(3, 5))
    logits = h.reshape(n, -1) @ params["dense"]
    return np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(len(labels)), labels])


def optimum(a):
    """What optimizers of SciPy find."""

    def f(x, a):
        return np.sum((x - a) ** 4) + np.sum((x[1:] - x[:-1]) ** 2)

    best = scipy.optimize.minimize(f, np.zeros(3), args=(a,), method="BFGS", tol=1e-9)
    root = scipy.optimize.brentq(lambda x: x**3 + x - a[0], -5.0, 5.0)
    return best.fun + root


def _block():
    shapes = {"q": (4, 3), "k": (4, 3), "v": (4, 3), "out": (3, 4), "w": (4, 2)}
    return Block(**{name: RNG.normal(size=shape) for name, shape in shapes.items()})


def _gru():
    shapes = {"W": (2, 9), "U": (3, 9), "b": (9,), "V": (3, 2)}
    return {name: 0.5 * RNG.normal(size=shape) for name, shape in shapes.items()}


def _cnn():
    return {
        "kernel": RNG.normal(size=(2, 3, 3)),
        "bias": np.ones(2),
        "dense": RNG.normal(size=(8, 3)),
    }


_X, _LABELS = RNG.normal(size=(9, 3)), RNG.integers(0, 2, 9)
_IMAGE = RNG.normal(size=(8, 8))
_SPARSE = scipy.sparse.csr_matrix(RNG.normal(size=(7, 5)) * (RNG.random((7, 5)) < 0.4))
_TOKENS = RNG.normal(size=(3, 5, 4))

PROGRAMS = {
    "Gaussian process": (gaussian_process, (np.zeros(3), _X, RNG.normal(size=9))),
    "logistic regression": (logistic, (np.ones(3), _X, _LABELS)),
    "Hamiltonian Monte Carlo": (leapfrog, (np.ones(3), _X, _LABELS, RNG.normal(size=3))),
    "heat equation in place": (heat, (_IMAGE, 0.1)),
    "RK4": (runge_kutta, (np.array([1.1, 0.4, 0.1, 0.4]),)),
    "solve_ivp fit": (fit_of_an_equation, (np.array([1.5, 0.2]), np.cos(TIMES))),
    "Kalman filter": (kalman, (-1.0, 0.2, RNG.normal(size=(3, 1)))),
    "N-body accelerations": (bodies, (RNG.normal(size=(5, 3)), np.ones(5))),
    "N-body in time": (bodies_in_time, (RNG.normal(size=(4, 3)), np.ones(4))),
    "inverse kinematics": (inverse_kinematics, (np.array([1.2, 1.5]),)),
    "image warp": (warp, (np.array([0.3, -0.4]), _IMAGE)),
    "interp": (interpolated, (RNG.normal(size=6), RNG.random(5))),
    "Black-Scholes": (black_scholes, (0.3, np.array([90.0, 110.0]), 100.0)),
    "Asian option": (asian_option, (0.3, RNG.normal(size=(20, 6)))),
    "FFT deconvolution": (deconvolution, (_IMAGE, RNG.random((8, 8)), RNG.normal(size=(8, 8)))),
    "quantum circuit": (circuit, (RNG.normal(size=6),)),
    "sparse least squares": (sparse_fit, (RNG.normal(size=5), _SPARSE, RNG.normal(size=7))),
    "transformer": (transformer, (_block(), _TOKENS, np.array([0, 1, 1]))),
    "Adam over a dataclass": (adam_step, (_block(), _TOKENS, np.array([0, 1, 1]), _block())),
    "GRU": (recurrent, (_gru(), RNG.normal(size=(4, 2, 2)), np.array([0, 1, 1, 0]))),
    "CNN": (convolutional, (_cnn(), RNG.normal(size=(3, 6, 6)), np.array([0, 2, 1]))),
    "scipy.optimize": (optimum, (np.array([1.0, -0.5, 2.0]),)),
    "scipy.optimize.rosen": (scipy.optimize.rosen, (np.array([0.8, 1.2, 0.7]),)),
}
