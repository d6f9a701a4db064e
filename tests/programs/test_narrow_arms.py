"""Arms that touch slices of arrays: what a branch takes and leaves, and that results are right."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.core.jaxpr import subjaxprs
from ftrace.core.source import describe

X = np.random.default_rng(0).normal(size=6)


def branches(f, *args):
    """The operands of all branches of a program, in branches too."""
    found = []

    def look(jaxpr):
        for e in jaxpr.eqns:
            if e.primitive.name == "cond":
                found.append([a.aval.shape for a in e.invars[1:]])
            for _, inner in subjaxprs(e.params):
                look(inner)

    made = ftrace.make_jaxpr(f)(*args)
    look(getattr(made, "jaxpr", made))
    return found


def equations(jaxpr):
    inner = (j for e in jaxpr.eqns for _, j in subjaxprs(e.params))
    return len(jaxpr.eqns) + sum(map(equations, inner))


def check(f, x):
    """Compiled, mapped and differentiated, a program is what NumPy makes of it."""
    expected = f(x.copy())
    np.testing.assert_allclose(ftrace.jit(f)(x), expected, rtol=1e-12)
    both = np.stack([x, -x, x[::-1]])
    np.testing.assert_allclose(ftrace.vmap(f)(both), [f(v.copy()) for v in both], rtol=1e-12)
    weights = np.cos(np.arange(np.size(expected))).reshape(np.shape(expected))

    def total(v):
        return (weights * f(v)).sum()

    slope = ftrace.jvp(total, (x,), (weights.ravel()[:1] + np.sin(x),))[1]
    direction = weights.ravel()[:1] + np.sin(x)
    for one in (ftrace.grad(total), ftrace.jit(ftrace.grad(total)), ftrace.grad(ftrace.jit(total))):
        np.testing.assert_allclose((one(x) * direction).sum(), slope, rtol=1e-9, atol=1e-12)
    step = 1e-6 * direction
    around = (total(x + step) - total(x - step)) / 2e-6
    np.testing.assert_allclose(slope, around, rtol=1e-5, atol=1e-6)


def longest(x):
    """A table by three arms."""
    n = len(x)
    y = np.sin(np.arange(n) * 1.0)
    table = np.zeros((n + 1, n + 1))
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            if abs(x[i - 1] - y[j - 1]) < 0.5:
                table[i, j] = table[i - 1, j - 1] + x[i - 1]
            elif table[i - 1, j] > table[i, j - 1]:
                table[i, j] = table[i - 1, j]
            else:
                table[i, j] = table[i, j - 1]
    return table[n, n]


def toppling(x):
    """Several writes in an arm, some to what another one has written, and none in the other."""
    g = np.outer(x, x[:4])
    for i in range(1, 5):
        if g[i, 1] > 0.1:
            g[i, 1] -= 4.0 * g[i, 2]
            g[i - 1, 1] += g[i, 1]
            g[i + 1, 1] += g[i, 1] * 2
            g[i, 1] = g[i, 1] + g[i + 1, 1]
    return g


def exchanging(x):
    """Rows, not numbers; a sum that reads them."""
    a = np.outer(x, np.arange(1.0, 4.0))
    if a[0, 0] > 0:
        a[1:3] = a[3:5] * 2
        a[0] = a[1] + a[5]
    else:
        a[5] = a[0] + 1
    return a.sum(axis=1)


def overlapping(x):
    """Slices that share elements are not told apart."""
    a = np.outer(np.sin(x), np.ones(8)).ravel()
    if x[0] > 0:
        a[1:4] = a[0:3] * 2
        a[2] = a[1]
    return a


def at_traced_places(x):
    """Places that values decide are no slices."""
    a = x * 2
    k = np.argmax(x)
    if x[0] > 0:
        a[k] = a[1] + 1
    return a


def as_a_whole(x):
    a = x * 2
    if x[1] > 0:
        a[1] = a.sum()
    return a


def both_ways(x):
    """Two results of one array."""
    a, b = x * 2, x * 3
    if x[2] > 0:
        b = a
        a = a * 1
        a[1] = b[2]
    return a + b


def by_name(x):
    """An array that one arm replaces by another."""
    a, b = x * 2, x * 3
    if x[2] > 0:
        a = b
        a[1] = a[2]
    else:
        a[0] = b[3]
    return a + b


def nested(x):
    a = x * 2
    if x[0] > 0:
        if x[1] > 0:
            a[1] = a[0]
        else:
            a[2] = a[0] * 3
        a[3] = a[1] + a[2]
    return a


def of_other_types(x):
    """A number of another type becomes one of the array's."""
    a = (x * 4).astype(np.float32)
    if x[0] > 0:
        a[1] = x[2]
        a[2] = 3
    return a.astype(float)


PROGRAMS = [
    *(longest, toppling, exchanging, overlapping, at_traced_places, as_a_whole),
    *(both_ways, by_name, nested, of_other_types),
]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_arms_do_what_they_say(f):
    if f is of_other_types:
        np.testing.assert_allclose(ftrace.jit(f)(X), f(X), rtol=1e-6)
        np.testing.assert_allclose(ftrace.grad(lambda x: f(x).sum())(X)[3:], 4.0, rtol=1e-6)
    else:
        check(f, X)


def test_arms_over_a_table_are_arms_over_numbers():
    assert all(shape == () for one in branches(longest, X) for shape in one)
    assert all(shape == () for one in branches(toppling, X) for shape in one)


def test_an_array_that_an_arm_hands_on_is_copied_as_before():
    y = lax.cond(True, lambda x: x, lambda x: x, X)
    assert not np.shares_memory(y, X)


def test_large_slices_are_not_copied_for_an_arm_that_may_not_be_taken():
    def f(x):
        a = x.copy()
        if x[-1, -1] > 0.5:
            a[:, 0] = np.sin(a[:, 1])
        return a

    assert branches(f, np.ones((1000, 8))) == [[(1000, 8)]]
    assert branches(f, np.ones((10, 8))) == [[(10, 1), (10, 1)]]


def test_equations_of_arms_keep_their_lines():
    def f(x):
        a = x.copy()
        if x[5] > 0.5:
            a[1] = a[0] * 2.0
            a[2] = np.log(a[1])
        return a

    made = ftrace.make_jaxpr(f)(X)
    (cond,) = (e for e in made.eqns if e.primitive.name == "cond")
    places = {e.primitive.name: e.source for b in cond.params["branches"] for e in b.eqns}
    assert "a[0] * 2.0" in describe(places["mul"])
    assert "np.log(a[1])" in describe(places["log"])


def test_a_long_table_is_differentiated_as_a_loop():
    x = np.random.default_rng(1).normal(size=11)  # of less equations than it takes without branches
    slope = ftrace.grad(longest)(x)
    np.testing.assert_allclose(ftrace.jit(ftrace.grad(longest))(x), slope, rtol=1e-12)
    made = ftrace.make_jaxpr(ftrace.grad(ftrace.jit(longest)))(x)
    assert equations(getattr(made, "jaxpr", made)) < 300


@pytest.mark.parametrize("seed", range(12))
def test_random_arms(seed):
    """Arms of reads and writes at random places of a table, in `lax.cond`."""
    rng = np.random.default_rng(seed)

    def some():
        if rng.random() < 0.7:
            return tuple(int(k) for k in rng.integers(0, 3, 2))
        first = int(rng.integers(0, 2))
        return int(rng.integers(0, 3)), slice(first, first + 2)

    def arm():
        steps = [(some(), some(), float(rng.normal())) for _ in range(rng.integers(0, 5))]

        def run(table, y):
            table = fnp.array(table)
            for to, source, factor in steps:
                table[to] = factor * fnp.mean(table[source]) + y[0]
            return table, table[0, 0] * y[1]

        return run

    one, other = arm(), arm()

    def f(y):
        table = fnp.reshape(fnp.sin(fnp.arange(9.0)) * y[0], (3, 3))
        table, number = lax.cond(y[0] > 0, one, other, table, y)
        return fnp.sum(table * table) + number

    for y in (np.array([0.5, 2.0]), np.array([-0.5, 2.0])):
        plain = one if y[0] > 0 else other
        table = np.sin(np.arange(9.0)).reshape(3, 3) * y[0]
        table, number = plain(table, y)
        np.testing.assert_allclose(ftrace.jit(f)(y), (table * table).sum() + number, rtol=1e-12)
        for k in range(2):
            step = 1e-6 * np.eye(2)[k]
            slope = (f(y + step) - f(y - step)) / 2e-6
            np.testing.assert_allclose(ftrace.grad(f)(y)[k], slope, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(
                ftrace.jit(ftrace.grad(f))(y)[k], slope, rtol=1e-6, atol=1e-8
            )
