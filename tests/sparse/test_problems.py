"""Patterns and colours of twenty standard problems: as tight as elements are, in few passes (A19).

The counts are those that asdex 0.5.1 finds for the same programs, but for the arrow, which it
computes in 30 passes.
"""

import numpy as np
import pytest

import ftrace


def _zero():
    return np.zeros(1)


def bratu_line(u):
    h = 1 / (u.size + 1)
    right, left = np.concatenate([u[1:], _zero()]), np.concatenate([_zero(), u[:-1]])
    return right - 2 * u + left + h * h * np.exp(u)


def bratu_square(u):
    v = np.pad(u.reshape(8, 8), 1)
    middle = v[1:-1, 1:-1]
    around = v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2]
    return (around - 4 * middle + 0.01 * np.exp(middle)).reshape(-1)


def brusselator(w):
    u, v = w[:32], w[32:]
    of_u = np.roll(u, 1) + np.roll(u, -1) - 2 * u
    of_v = np.roll(v, 1) + np.roll(v, -1) - 2 * v
    return np.concatenate([1 + u * u * v - 4 * u + of_u, 3 * u - u * u * v + of_v])


def broyden_three(x):
    left, right = np.concatenate([_zero(), x[:-1]]), np.concatenate([x[1:], _zero()])
    return (3 - 2 * x) * x - left - 2 * right + 1


def broyden_band(x):
    n, p = x.size, np.pad(x, (5, 1))
    near = [p[5 + k : 5 + k + n] for k in (-5, -4, -3, -2, -1, 1)]
    return x * (2 + 5 * x * x) + 1 - sum(y * (1 + y) for y in near)


def arrow(x):
    return np.concatenate([np.sum(x**2)[None], x[1:] * x[0]])


def differences(x):
    return x[1:] - x[:-1] ** 2


def trigonometric(x):
    n = x.size
    return n - np.sum(np.cos(x)) + np.arange(1, n + 1) * (1 - np.cos(x)) - np.sin(x)


def convolved(x):
    return sum(x[k : x.size - 4 + k] * (k + 1.0) for k in range(5)) ** 2


def blocks(x):
    y = x.reshape(-1, 4)
    return (y @ np.ones((4, 4)) * y).reshape(-1)


def lorenz(x):
    return (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + 8


def mirrored(x):
    return x * x[::-1]


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def wood(x):
    a, b, c, d = x[0::4], x[1::4], x[2::4], x[3::4]
    first = 100 * (a * a - b) ** 2 + (a - 1) ** 2 + 90 * (c * c - d) ** 2 + (1 - c) ** 2
    return np.sum(first + 10.1 * ((b - 1) ** 2 + (d - 1) ** 2) + 19.8 * (b - 1) * (d - 1))


def grid(u):
    v = u.reshape(8, 8)
    return np.sum((v[1:] - v[:-1]) ** 4) + np.sum((v[:, 1:] - v[:, :-1]) ** 4)


def arrowhead(x):
    return np.sum(x[1:] * x[0] ** 2) + np.sum(x**4)


def powell(x):
    a, b, c, d = x[0::4], x[1::4], x[2::4], x[3::4]
    return np.sum((a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4)


def dixon(x):
    return (x[0] - 1) ** 2 + np.sum((2 * x[1:] ** 2 - x[:-1]) ** 2)


def separable(x):
    return np.sum(np.exp(x) + x**3)


def minimal_surface(u):
    v = u.reshape(8, 8)
    falling, rising = v[1:, 1:] - v[:-1, :-1], v[1:, :-1] - v[:-1, 1:]
    return np.sum(np.sqrt(1 + falling**2 + rising**2))


# function, numbers, elements of the pattern, passes
JACOBIANS = [
    (bratu_line, 40, 118, 3),
    (bratu_square, 64, 288, 7),
    (brusselator, 64, 256, 6),
    (broyden_three, 40, 118, 3),
    (broyden_band, 40, 264, 7),
    (arrow, 30, 88, 3),
    (differences, 40, 78, 2),
    (trigonometric, 20, 400, 20),
    (convolved, 40, 180, 5),
    (blocks, 40, 160, 4),
    (lorenz, 40, 160, 4),
    (mirrored, 40, 80, 2),
]
HESSIANS = [
    (rosenbrock, 40, 118, 3),
    (wood, 40, 100, 3),
    (grid, 64, 288, 5),
    (arrowhead, 30, 88, 2),
    (powell, 40, 120, 3),
    (dixon, 40, 118, 3),
    (separable, 40, 40, 1),
    (minimal_surface, 64, 484, 9),
]


def point(n):
    return np.random.default_rng(0).uniform(0.5, 1.5, n)


@pytest.mark.parametrize(("f", "n", "elements", "passes"), JACOBIANS)
def test_sparse_jacobians_of_standard_problems(f, n, elements, passes):
    x, sparse = point(n), ftrace.sparse.jacobian(f)
    dense, plan = ftrace.jacrev(f)(x), sparse.plan(x)
    np.testing.assert_array_equal(plan.pattern.toarray(), dense != 0)
    assert plan.pattern.nnz == elements
    assert plan.passes <= passes
    np.testing.assert_allclose(sparse(x).toarray(), dense, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("f", "n", "elements", "passes"), HESSIANS)
def test_sparse_hessians_of_standard_problems(f, n, elements, passes):
    x, sparse = point(n), ftrace.sparse.hessian(f)
    dense, plan = ftrace.hessian(f)(x), sparse.plan(x)
    np.testing.assert_array_equal(plan.pattern.toarray(), dense != 0)
    assert plan.pattern.nnz == elements
    assert plan.passes <= passes
    np.testing.assert_allclose(sparse(x).toarray(), dense, rtol=1e-12, atol=1e-12)


def test_looking_ahead_helps_where_neighbours_are_many():
    """Without it this graph takes six colours; with nothing else the grid above takes one more."""
    n = 30
    rng = np.random.default_rng(4)
    i, j = np.nonzero(np.triu(rng.random((n, n)) < 0.12, 1))

    def f(x):
        return np.sum(x[i] * x[j] * np.sin(x[i])) + np.sum(x**3)

    assert ftrace.sparse.hessian(f).plan(point(n)).passes <= 5
