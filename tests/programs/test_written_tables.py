"""Tables that are filled in place, element by element, each read by later ones."""

import numpy as np
import pytest

import ftrace


def averages(x):
    """A table of 30 by 30: what nobody reads of it is a chain of 841 masks."""
    n = 30
    table = np.zeros((n, n))
    for i in range(1, n):
        for j in range(1, n):
            table[i, j] = table[i - 1, j] * 0.5 + table[i, j - 1] * 0.5 + x
    return table[-1, -1]


def ring(x):
    d = np.zeros(20)
    for k in range(400):
        d[k % 20] = d[(k + 1) % 20] * 0.5 + d[(k + 2) % 20] * 0.25 + x
    return d[0]


def distances(x):
    n = 20
    table = np.zeros((n + 1, n + 1))
    table[0] = np.arange(n + 1)
    table[:, 0] = np.arange(n + 1)
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            kept = table[i - 1, j - 1] + abs(x * i - j * 0.1)
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, kept)
    return table[n, n]


@pytest.mark.parametrize("f", [averages, ring, distances], ids=lambda f: f.__name__)
def test_reverse_mode_is_forward_mode(f):
    _, expected = ftrace.jvp(f, (0.3,), (1.0,))
    found = [
        ftrace.grad(f)(0.3),
        ftrace.vmap(ftrace.grad(f))(np.array([0.3]))[0],
        ftrace.grad(lambda x: ftrace.vmap(f)(x).sum())(np.array([0.3]))[0],
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
