"""What a loop reads by its counter is read along arrays: same values, errors and derivatives.

Ids: C7, C16, E19 (indexing by loop counters), B8.
"""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.core.jaxpr import subjaxprs

N = 12
X = np.linspace(-1.0, 1.5, N)
M = np.arange(1.0, 3 * N + 1.0).reshape(N, 3) / 10.0

BODIES = {
    "itself": (0, N, lambda x, m, i, s: s + x[i] * x[i]),
    "neighbours": (1, N - 1, lambda x, m, i, s: s * 0.5 + x[i + 1] * x[i - 1] - x[i]),
    "a neighbour behind the end": (0, N, lambda x, m, i, s: s * 0.9 + x[i - 1] * x[i]),
    "from the end": (0, N, lambda x, m, i, s: np.sin(s) + x[N - 1 - i] * x[i]),
    "by negative numbers": (0, N, lambda x, m, i, s: s * x[-1 - i] + x[i - N]),
    "up to the end and on": (0, N, lambda x, m, i, s: s * 0.5 + x[i - N + 1]),
    "clipped": (0, N, lambda x, m, i, s: s * 0.5 + np.take(x, i - N, mode="clip") * x[i]),
    "every second": (0, N // 2, lambda x, m, i, s: s * x[2 * i] + x[2 * i + 1]),
    "every third, backwards": (0, 4, lambda x, m, i, s: s + x[11 - 3 * i] ** 2),
    "an affine one of an affine one": (0, 5, lambda x, m, i, s: s + x[2 * (i + 1) - 1] * s),
    "twice the counter": (0, 5, lambda x, m, i, s: s + x[i * 2 + 1] * x[2 * i]),
    "by an array": (0, 4, lambda x, m, i, s: s + x[np.arange(3) + i].sum()),
    "not affine": (0, 4, lambda x, m, i, s: s + x[i * i]),
    "two counters' product": (1, 4, lambda x, m, i, s: s + x[(i + 1) * (i - 1)]),
    "the counter, too": (0, N, lambda x, m, i, s: s + i * x[i]),
    "rows": (0, N, lambda x, m, i, s: s + (m[i] * np.arange(3.0)).sum() * x[0]),
    "rows and columns": (0, N, lambda x, m, i, s: s + m[i, 1] * x[i]),
    "columns": (0, 3, lambda x, m, i, s: s + (m[:, i] ** 2).sum()),
    "numbers that wrap": (0, N, lambda x, m, i, s: s + x[(i * 40).astype(np.int8) % N]),
    "smaller integers": (0, N, lambda x, m, i, s: s + x[i.astype(np.int8)] * 2.0),
    "in one arm": (
        0, N, lambda x, m, i, s: s + lax.cond(x[i] > 0.0, lambda: x[i] * s, lambda: x[N - 1 - i]),
    ),
    "where": (0, N, lambda x, m, i, s: s + np.where(x[i] > 0.2, np.sqrt(abs(x[i])), 0.0)),
    "in a loop in a loop": (
        0, 3,
        lambda x, m, i, s: lax.fori_loop(
            0, 4, lambda j, t: t * 0.9 + x[j] * m[i, 2] + x[i], s
        ),
    ),
    "by both counters": (
        0, 3, lambda x, m, i, s: lax.fori_loop(0, 4, lambda j, t: t * 0.9 + x[3 * j + i - 1], s),
    ),
    "once": (4, 5, lambda x, m, i, s: s + x[i] ** 3),
    "never": (4, 4, lambda x, m, i, s: s + x[i] ** 3),
    "from below zero": (-3, 3, lambda x, m, i, s: s * 0.7 + x[i] * x[i + 3]),
}  # fmt: skip


def looped(name):
    low, high, body = BODIES[name]
    return lambda x, m: lax.fori_loop(low, high, lambda i, s: body(x, m, i, s), x[0] * 1.0)


def plainly(name):
    low, high, body = BODIES[name]

    def f(x, m):
        s = x[0] * 1.0
        for i in range(low, high):
            s = body(x, m, np.int64(i), s)
        return s

    return f


WAYS = {
    "value": lambda f: f,
    "gradient": lambda f: ftrace.grad(f, (0, 1)),
    "forward": lambda f: lambda x, m: ftrace.jvp(f, (x, m), (np.cos(x), m)),
    "Hessian": lambda f: ftrace.hessian(f),
    "mapped": lambda f: (
        lambda x, m: ftrace.vmap(ftrace.grad(f), (0, None))(fnp.stack([x, x * 0.5]), m)
    ),
    "checkpoint": lambda f: ftrace.grad(ftrace.checkpoint(f)),
}


@pytest.mark.sampled(3, each="name")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BODIES)
def test_loops_are_those_of_python(name, way, compiled):
    wanted = WAYS[way](plainly(name))(X, M)
    f = WAYS[way](looped(name))
    found = (ftrace.jit(f) if compiled else f)(X, M)
    for a, b in zip(ftrace.tree.leaves(found), ftrace.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
        assert np.asarray(a).dtype == np.asarray(b).dtype


def names(f, *args):
    def walk(jaxpr):
        for e in jaxpr.eqns:
            yield e.primitive.name
            for _, inner in subjaxprs(e.params):
                yield from walk(inner)

    return set(walk(ftrace.make_jaxpr(f)(*args)))


SLICED = (
    "itself", "neighbours", "from the end", "by negative numbers", "every second",
    "every third, backwards",
    "twice the counter", "an affine one of an affine one", "the counter, too", "rows",
    "where", "once",
)  # fmt: skip


@pytest.mark.parametrize("name", SLICED)
def test_no_index_is_computed(name):
    found = names(ftrace.grad(looped(name)), X, M)
    assert not found & {"gather", "scatter_add"}


def test_arrays_that_are_read_along_are_no_constants():
    (loop,) = [
        e.params["loop"]
        for e in ftrace.make_jaxpr(looped("itself"))(X, M).eqns
        if "loop" in e.params
    ]
    assert (loop.n_consts, loop.n_carry) == (0, 1)


@pytest.mark.parametrize(
    "name", ["a neighbour behind the end", "up to the end and on", "clipped", "not affine"]
)
def test_what_wraps_or_jumps_is_gathered(name):
    assert "gather" in names(looped(name), X, M)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_one_place_too_far_is_an_error(compiled):
    def f(x):
        return lax.fori_loop(0, N, lambda i, s: s + x[i + 1], 0.0)

    with pytest.raises(IndexError):
        (ftrace.jit(f) if compiled else f)(X)


def test_many_iterations_are_counted():
    n = 70_000
    x = np.linspace(0.0, 1.0, n)

    def f(x):
        return lax.fori_loop(0, n - 1, lambda i, s: s + (x[i + 1] - x[i]) ** 2 * i, 0.0)

    steps = np.diff(x) * np.arange(n - 1.0)
    wanted = 2.0 * (np.append(0.0, steps) - np.append(steps, 0.0))
    np.testing.assert_allclose(ftrace.jit(ftrace.grad(f))(x), wanted, atol=1e-12)
    assert not names(ftrace.grad(f), x) & {"gather", "scatter_add"}


def test_captured_arrays_are_read_at_each_call():
    weights = np.arange(4.0)
    f = ftrace.jit(lambda y: lax.fori_loop(0, 3, lambda i, s: s + weights[i + 1] * y, 0.0))
    assert f(1.0) == 6.0
    weights[2] = 10.0
    assert f(1.0) == 14.0


def test_an_array_that_the_loop_carries_is_read_as_it_is_now():
    def f(x):
        def turn(i, y):
            return fnp.at(y)[i + 1].set(y[i] + x[i])

        return lax.fori_loop(0, N - 1, turn, x * 0.0).sum()

    def plain(x):
        y = np.zeros(N)
        for i in range(N - 1):
            y[i + 1] = y[i] + x[i]
        return y.sum()

    assert np.isclose(ftrace.jit(f)(X), plain(X))
    np.testing.assert_allclose(
        ftrace.jit(ftrace.grad(f))(X), np.append(np.arange(N - 1.0, 0.0, -1.0), 0.0)
    )
