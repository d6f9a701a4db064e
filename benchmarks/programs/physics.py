"""Forces, rotations, trajectories, fields."""

from __future__ import annotations

import numpy as np

from benchmarks.programs.program import Program, generator


def _lennard_jones(s, x):
    """The energy of pairs of atoms that attract and repel each other."""
    xp = s.np
    d = x[:, None, :] - x[None, :, :]
    r2 = xp.sum(d * d, -1) + xp.eye(x.shape[0])
    q = 1.0 / (r2 * r2 * r2)
    return xp.sum((q * q - q) * (1.0 - xp.eye(x.shape[0]))) * 2.0


def _lattice():
    grid = np.stack(np.meshgrid(*[np.arange(6.0)] * 3, indexing="ij"), -1).reshape(-1, 3)
    return (1.1 * grid[:200] + 0.05 * generator().normal(size=(200, 3)),)


def _coulomb(s, charges, x):
    """The energy of charges that screen each other."""
    xp = s.np
    d = x[:, None, :] - x[None, :, :]
    r = xp.sqrt(xp.sum(d * d, -1) + 0.1)
    return 0.5 * xp.sum(charges[:, None] * charges[None, :] * xp.exp(-r) / r)


def _charges():
    rng = generator()
    return rng.normal(size=300), 4.0 * rng.normal(size=(300, 3))


def _lorenz(s, parameters, states):
    """An ensemble of Lorenz systems by fourth-order Runge-Kutta steps."""
    xp, h = s.np, 0.01

    def field(state):
        x, y, z = state[:, 0], state[:, 1], state[:, 2]
        dx = parameters[0] * (y - x)
        return xp.stack([dx, x * (parameters[1] - z) - y, x * y - parameters[2] * z], 1)

    def step(state, _):
        k1 = field(state)
        k2 = field(state + 0.5 * h * k1)
        k3 = field(state + 0.5 * h * k2)
        k4 = field(state + h * k3)
        return state + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)

    return xp.mean(s.scan(step, states, 60) ** 2)


def _ensemble():
    return np.array([10.0, 28.0, 8.0 / 3.0]), generator().normal(size=(500, 3)) + 1.0


def _pendulums(s, lengths, angles):
    """Pendulums on a row of springs, by leapfrog."""
    xp = s.np

    def step(state, _):
        q, p = state
        left = xp.concatenate([q[:1], q[:-1]])
        right = xp.concatenate([q[1:], q[-1:]])
        p = p + 0.02 * (left + right - 2.0 * q - xp.sin(q) / lengths)
        return q + 0.02 * p, p

    q, p = s.scan(step, (angles, 0.0 * angles), 200)
    return xp.sum(p * p) + xp.sum(1.0 - xp.cos(q))


def _row_of_pendulums():
    rng = generator()
    return 1.0 + rng.random(64), rng.normal(size=64)


def _quaternions(s, q, points, targets):
    """How well a rotation takes points to targets."""
    xp = s.np
    q = q / xp.sqrt(xp.sum(q * q))
    w, v = q[0], q[1:]
    t = 2.0 * xp.cross(v[None, :], points)
    turned = points + w * t + xp.cross(v[None, :], t)
    return xp.mean(xp.sum((turned - targets) ** 2, -1))


def _clouds():
    rng = generator()
    points = rng.normal(size=(20000, 3))
    return np.array([0.9, 0.1, -0.3, 0.2]), points, points[:, [1, 2, 0]]


def _arm(s, angles, goals):
    """How far the ends of many planar arms of six joints are from their goals."""
    xp = s.np

    def miss(a, goal):
        total = xp.cumsum(a)
        end = xp.stack([xp.sum(xp.cos(total)), xp.sum(xp.sin(total))])
        return xp.sum((end - goal) ** 2) + 0.01 * xp.sum(a * a)

    return xp.sum(s.vmap(miss)(angles, goals))


def _arms():
    rng = generator()
    return 0.5 * rng.normal(size=(2000, 6)), 2.0 * rng.normal(size=(2000, 2))


def _torsions(s, x, quadruples):
    """The energy of the angles between planes through four atoms each."""
    xp = s.np
    a, b, c, d = (x[quadruples[:, k]] for k in range(4))
    u, v, w = b - a, c - b, d - c
    n, m = xp.cross(u, v), xp.cross(v, w)
    up = xp.sum(n * m, -1)
    down = xp.sqrt(xp.sum(n * n, -1) * xp.sum(m * m, -1) + 1e-12)
    return xp.sum((1.0 - up / down) ** 2)


def _molecule():
    rng = generator()
    quadruples = np.stack([rng.permutation(1000)[:4] for _ in range(2000)])
    return rng.normal(size=(1000, 3)), quadruples


def _kepler(s, eccentricity, mean):
    """The eccentric anomaly by eight Newton steps."""
    xp, e = s.np, mean
    for _ in range(8):
        e = e - (e - eccentricity * xp.sin(e) - mean) / (1.0 - eccentricity * xp.cos(e))
    return xp.sum(xp.cos(e))


def _orbits():
    rng = generator()
    return 0.8 * rng.random(20000), 2.0 * np.pi * rng.random(20000)


def _spins(s, angles, couplings):
    """The mean magnetisation of a product of four-by-four matrices, one for each site."""
    xp = s.np

    def step(m, row):
        angle, coupling = row[0], row[1:]
        rotation = xp.cos(angle) * xp.eye(4) + xp.sin(angle) * xp.reshape(coupling, (4, 4))
        m = rotation @ m
        return m / xp.sqrt(xp.sum(m * m))

    rows = xp.concatenate([angles[:, None], couplings], 1)
    return xp.sum(s.scan(step, xp.eye(4) + 0.0 * angles[0], rows)[0])


def _chain_of_spins():
    rng = generator()
    return rng.normal(size=100), rng.normal(size=(100, 16))


def _circuit(s, angles):
    """The probability of the first state after rotations and controlled phases of five qubits."""
    xp, n = s.np, 5
    one = xp.asarray(np.eye(1, 2**n).reshape((2,) * n)) + 0j
    phase = xp.asarray(np.array([[1.0, 1.0], [1.0, -1.0]]))
    state = one
    for layer in range(4):
        for q in range(n):
            c, sn = xp.cos(angles[layer, q]), xp.sin(angles[layer, q])
            turn = xp.stack([xp.stack([c, -sn]), xp.stack([sn, c])]) + 0j
            state = xp.moveaxis(xp.tensordot(turn, state, ((1,), (q,))), 0, q)
        for q in range(n - 1):
            shape = [2 if i in (q, q + 1) else 1 for i in range(n)]
            state = state * xp.reshape(phase, shape)
    return xp.real(state[0, 0, 0, 0, 0] * xp.conj(state[0, 0, 0, 0, 0]))


PROGRAMS: dict[str, Program] = {
    "Lennard-Jones 200": Program(_lennard_jones, _lattice),
    "screened charges 300": Program(_coulomb, _charges, (0, 1)),
    "Lorenz ensemble 500x60": Program(_lorenz, _ensemble),
    "pendulums 64x200": Program(_pendulums, _row_of_pendulums),
    "quaternion fit 20000": Program(_quaternions, _clouds),
    "arms 2000x6": Program(_arm, _arms),
    "torsions 2000": Program(_torsions, _molecule),
    "Kepler 20000": Program(_kepler, _orbits),
    "matrix chain 100x4x4": Program(_spins, _chain_of_spins),
    "circuit 5 qubits": Program(_circuit, lambda: (generator().normal(size=(4, 5)),)),
}
