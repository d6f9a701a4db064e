"""Programs that loop in Python: how long until the first result, and how fast they are then."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Case, random
from benchmarks.cases.functions import over

BODIES, STEPS, LONG, LAYERS, WIDTH, QUBITS, DEPTH = 5, 100, 1000, 100, 64, 6, 3


def _nbody(xp, x, v, masses):
    """The energy of motion after some steps of a leapfrog."""
    for _ in range(STEPS):
        d = x[None, :, :] - x[:, None, :]
        r2 = xp.sum(d * d, 2) + 0.01
        a = xp.sum(d * (masses[None, :] / (r2 * xp.sqrt(r2)))[:, :, None], 1)
        v = v + 0.01 * a
        x = x + 0.01 * v
    return 0.5 * xp.sum(masses[:, None] * v * v)


def _unrolled(xp, x):
    for _ in range(LONG):
        x = xp.sin(x) + 0.5 * x
    return xp.sum(x)


def _field(xp, state, rates):
    prey, hunters = state[0], state[1]
    return xp.stack([prey * (1.0 - rates[0] * hunters), hunters * (rates[1] * prey - 1.0)])


def _rk4(xp, rates, state):
    """The mean of a trajectory whose states are appended to a list."""
    h, out = 0.02, []
    for _ in range(500):
        k1 = _field(xp, state, rates)
        k2 = _field(xp, state + 0.5 * h * k1, rates)
        k3 = _field(xp, state + 0.5 * h * k2, rates)
        k4 = _field(xp, state + h * k3, rates)
        state = state + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        out.append(state)
    return xp.sum(xp.stack(out)) / 500.0


def _layers(xp, weights, x):
    for i in range(LAYERS):
        x = xp.tanh(x @ weights[i])
    return xp.sum(x * x)


def _layers_reference(weights, x):
    states = [x]
    for w in weights:
        states.append(np.tanh(states[-1] @ w))
    ct, found = 2.0 * states[-1], []
    for w, before, after in zip(weights[::-1], states[-2::-1], states[:0:-1], strict=True):
        ct = ct * (1.0 - after * after)
        found.append(before.T @ ct)
        ct = ct @ w.T
    return [np.stack(found[::-1])]


def _circuit(xp, angles):
    """The mean of the first qubit after layers of rotations and controlled changes of sign."""
    state = xp.reshape(xp.concatenate([xp.ones(1), xp.zeros(2**QUBITS - 1)]) + 0j, (2,) * QUBITS)
    signs = xp.asarray(np.array([[1.0, 1.0], [1.0, -1.0]]))
    for layer in range(DEPTH):
        for q in range(QUBITS):
            c, s = xp.cos(angles[layer, q, 0] / 2.0), xp.sin(angles[layer, q, 0] / 2.0)
            turn = xp.stack([xp.stack([c, -s]), xp.stack([s, c])])
            phase = xp.stack(
                [xp.exp(-0.5j * angles[layer, q, 1]), xp.exp(0.5j * angles[layer, q, 1])]
            )
            state = xp.moveaxis(xp.tensordot(phase[:, None] * turn, state, ((1,), (q,))), 0, q)
        for q in range(QUBITS - 1):
            shape = [2 if i in (q, q + 1) else 1 for i in range(QUBITS)]
            state = state * xp.reshape(signs, shape)
    weights = xp.real(state * xp.conj(state))
    return xp.sum(weights[0]) - xp.sum(weights[1])


def _differences(program, *args):
    """The gradient with respect to the first argument by central differences."""
    x, *rest = args
    found = np.zeros(x.size)
    for i in range(x.size):
        step = np.zeros(x.size)
        step[i] = 1e-5
        step = step.reshape(x.shape)
        found[i] = (program(np, x + step, *rest) - program(np, x - step, *rest)) / 2e-5
    return [found.reshape(x.shape)]


def _cloud():
    x, v, masses = random((BODIES, 3), (BODIES, 3), (BODIES,), low=-1.0)
    return x, 0.1 * v, masses + 1.5


PROGRAMS = {
    f"N-body {STEPS} steps": (_nbody, _cloud, None),
    f"{LONG} unrolled steps": (_unrolled, lambda: random((4,)), None),
    "RK4 500 with append": (_rk4, lambda: (np.array([1.2, 0.8]), np.array([1.0, 0.5])), None),
    f"MLP of {LAYERS} layers": (
        _layers,
        lambda: tuple(
            a / 8.0 for a in random((LAYERS, WIDTH, WIDTH), (16, WIDTH), low=-1.7, high=1.7)
        ),
        _layers_reference,
    ),
    f"circuit {QUBITS} qubits": (_circuit, lambda: random((DEPTH, QUBITS, 2)), None),
}


def _cases(name):
    program, inputs, gradient = PROGRAMS[name]

    def reference(*args):
        return gradient(*args) if gradient else _differences(program, *args)

    shared = {"inputs": inputs, "skip": ("torch", "torchc", "autograd")}
    yield Case(
        name=f"first jit({name})",
        reference=lambda *args: [program(np, *args)],
        body=lambda s: over(s.np, program),
        kind="first",
        **shared,
    )
    yield Case(
        name=f"first jit(grad({name}))",
        reference=reference,
        body=lambda s: s.grad(over(s.np, program)),
        kind="first",
        tolerance=1e-4,
        **shared,
    )
    yield Case(
        name=f"grad({name})",
        reference=reference,
        body=lambda s: s.jit(s.grad(over(s.np, program))),
        tolerance=1e-4,
        **shared,
    )


CASES = [case for name in PROGRAMS for case in _cases(name)]
