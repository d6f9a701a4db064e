"""Random unrolled loops: carries with delays, numbers that change, elements of arrays, lists."""

import numpy as np

import ftrace.numpy as fnp

OPERATIONS = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: np.sin(a) * 0.5 + b,
    lambda a, b: np.where(a > b, a, 0.25 * b),
    lambda a, b: np.maximum(a, b) - 0.125 * a,
    lambda a, b: a / (2.0 + b * b),
)


class RandomLoop:
    """A loop of a few iterations over carries; equal for equal seeds.

    Call it with a vector `x` and a matrix `w` of as many rows as there are iterations.
    """

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.turns = int(rng.integers(4, 10))
        self.carries = int(rng.integers(1, 4))
        self.kinds = [str(rng.choice(KINDS)) for _ in range(int(rng.integers(2, 7)))]
        self.choices = rng.integers(0, 1 << 30, (len(self.kinds), 4))
        self.numbers = rng.normal(size=(self.turns, len(self.kinds)))
        self.appends = rng.random() < 0.4
        self.inner = int(rng.integers(2, 6)) if rng.random() < 0.3 else 0
        self.odd = rng.random() < 0.15
        self.last = rng.random() < 0.3
        self.first = rng.random() < 0.2
        shape = [(), (3,), (2, 3)][int(rng.integers(0, 3))]
        self.x = rng.normal(size=shape) if shape else np.float64(rng.normal())
        self.rows = rng.normal(size=(self.turns, *shape))

    def __call__(self, x, w):
        state = [x + 0.1 * k for k in range(self.carries)]
        self.before, self.kept, out = [list(state), list(state)], None, []
        self.w, self.buffer = w, w * 0.5
        for i in range(self.turns):
            now = list(state)
            for step in range(len(self.kinds)):
                self.work(i, step, state, now)
            if self.odd and i == self.turns // 2:
                state[0] = state[0] + 1.0
            if self.kept is None and self.first:
                self.kept = state[0]
            self.before = [self.before[1], now]
            if self.appends:
                out.append(state[0])
        total = np.sum(state[0] if self.last else sum(state)) + np.sum(self.buffer)
        return total + (np.sum(fnp.stack(out) ** 2) if out else 0.0)

    def work(self, i, step, state, now):
        """One operation of an iteration, and the inner loop behind the first."""
        choice = self.choices[step]
        a, operation = choice[0] % self.carries, OPERATIONS[choice[2] % len(OPERATIONS)]
        state[a] = operation(state[a], self.other(i, step, state, now, operation)) * 0.5
        for _ in range(self.inner if step == 0 else 0):
            state[a] = np.sin(state[a]) + 0.5 * state[a]

    def other(self, i, step, state, now, operation):
        """The second operand."""
        kind, choice = self.kinds[step], self.choices[step]
        b = choice[1] % self.carries
        if kind == "written":
            value = operation(state[choice[0] % self.carries], self.buffer[i - 1])
            self.buffer = fnp.at(self.buffer)[i].set(value)
        if (kind == "kept" and self.kept is None) or (kind == "parity" and i % 2 == 0):
            kind = "plain"
        return {
            "plain": lambda: state[b],
            "delayed": lambda: self.before[choice[3] % 2][b],
            "number": lambda: float(self.numbers[i, step]),
            "row": lambda: self.w[i],
            "row from the end": lambda: self.w[self.turns - 1 - i],
            "row of pairs": lambda: self.w[i // 2],
            "kept": lambda: self.kept,
            "written": lambda: self.buffer[i],
            "parity": lambda: now[b] * 0.75,
        }[kind]()


KINDS = (
    *("plain", "plain", "delayed", "number", "row", "row from the end", "row of pairs"),
    *("kept", "written", "parity"),
)
