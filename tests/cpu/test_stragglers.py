"""Lanes that take many more turns than the others are run apart, and nobody can tell."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import jit, lax, vectorize
from ftrace.cpu.mathematics import functions_table
from ftrace.cpu.threads import thread_pool

LONG = 1e60


def root(x):
    return lax.while_loop(lambda z: abs(z * z - x) > 1e-12 * x, lambda z: 0.5 * (z + x / z), x)


def around(x, w):
    """Work and a branch before and after the loop, of which the last needs another operand."""
    y = fnp.where(x > 2.0, x * w, x + w)
    z = root(y)
    return lax.cond(w > 0.5, lambda: fnp.log(z) + w, lambda: z * w), z > 1.5


def alone(f, *args):
    """Every element in a call of its own."""
    columns = [f(*(np.full(1, a[i]) for a in args)) for i in range(len(args[0]))]
    if isinstance(columns[0], tuple):
        return tuple(np.concatenate(c) for c in zip(*columns, strict=True))
    return np.concatenate(columns)


def inputs(n, places):
    x = np.random.default_rng(n).uniform(1.0, 4.0, n)
    x[[p for p in places if p < n]] = LONG
    return x


PLACES = {
    "none": (),
    "first": (0,),
    "last of a vector": (31, 63),
    "far apart": (5, 70, 71, 200),
    "one vector": tuple(range(64, 96)),
    "every ninth": tuple(range(0, 300, 9)),
    "all": tuple(range(300)),
}


@pytest.mark.parametrize("n", [1, 3, 31, 32, 33, 64, 97, 300])
@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_every_element_is_what_it_is_alone(n, places):
    x = inputs(n, places)
    np.testing.assert_array_equal(vectorize(root)(x), alone(vectorize(root), x))
    np.testing.assert_allclose(vectorize(root)(x), np.sqrt(x), rtol=1e-12)


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_what_comes_before_and_after_the_loop(places):
    x, w = inputs(300, places), np.random.default_rng(2).uniform(0.1, 1.0, 300)
    f = vectorize(around)
    for got, want in zip(f(x, w), alone(f, x, w), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_derivatives(places):
    x = inputs(300, places)
    f = jit(lambda x: ftrace.jvp(vectorize(root), (x,), (np.ones_like(x),)))
    value, slope = f(x)
    np.testing.assert_array_equal(value, vectorize(root)(x))
    np.testing.assert_array_equal(slope, alone(lambda x: f(x)[1], x))
    np.testing.assert_allclose(slope, 0.5 / np.sqrt(x), rtol=1e-7)
    total = jit(ftrace.grad(lambda x: fnp.sum(vectorize(root)(x))))(x)
    np.testing.assert_array_equal(total, slope)


def test_rows_of_a_matrix_and_columns_that_are_broadcast():
    x = inputs(300, PLACES["every ninth"]).reshape(3, 100)
    w = np.array([[0.3], [0.6], [0.9]])
    f = vectorize(around)
    for got, want in zip(f(x, w), f(x, np.broadcast_to(w, x.shape).copy()), strict=True):
        np.testing.assert_array_equal(got, want)


def test_strided_and_backward_operands():
    x = inputs(600, PLACES["every ninth"])
    np.testing.assert_array_equal(vectorize(root)(x[::-2]), vectorize(root)(x[::-2].copy()))


def test_a_vmapped_loop():
    x = inputs(300, PLACES["far apart"])
    np.testing.assert_array_equal(jit(ftrace.vmap(root))(x), alone(vectorize(root), x))


def test_small_types():
    def halvings(x):
        return lax.while_loop(lambda s: s[0] > 1, lambda s: (s[0] // 2, s[1] + 1), (x, x * 0))[1]

    for dtype in ("i2", "i4", "u8", "f4"):
        x = np.full(500, 3, dtype)
        x[::41] = 30000
        np.testing.assert_array_equal(vectorize(halvings)(x), np.where(x == 3, 1, 14))


@pytest.mark.parametrize("every", [9, 11, 14, 40])
def test_more_long_lanes_than_a_vector_holds(every):
    x = inputs(4096, range(0, 4096, every))
    vectorize(root)(x[::-1].copy())  # leaves other numbers in the memory of the result
    np.testing.assert_allclose(vectorize(root)(x), np.sqrt(x), rtol=1e-12)


@pytest.mark.by_size
@pytest.mark.parametrize("read", [1, 3])
def test_long_lanes_do_not_hold_up_the_others(monkeypatch, read):
    """Vectors that turn are counted by code planted in `exp`: few beyond what the lanes need.

    One thread runs all: each range of a shared loop ends with lanes of its own.
    """
    total = np.zeros(1, "i8")
    place = f"ptr inttoptr (i64 {total.ctypes.data} to ptr)"
    plain = functions_table.SPELLINGS["exp"]

    def spelled(text, *args):
        before, after = text.fresh(), text.fresh()
        text.line(f"%{before} = load i64, {place}")
        text.line(f"%{after} = add i64 %{before}, 1")
        text.line(f"store i64 %{after}, {place}")
        return plain(text, *args)

    monkeypatch.setitem(functions_table.SPELLINGS, "exp", spelled)
    monkeypatch.setattr(thread_pool, "threads", lambda: 1)

    def halvings(x):
        def halved(state):
            s, n, total = state
            return s * 0.5 + 0.0 * fnp.exp(-s), n + 1.0, total + s

        return lax.while_loop(lambda s: s[0] > 1.0, halved, (x, 0.0, 0.0))[:read]

    x = np.full(4096, 60.0)  # six turns
    vectorize(halvings)(x)
    plainly = int(total[0])
    total[0] = 0
    x[::40] = 1e60  # two hundred
    vectorize(halvings)(x)
    members = 4096 / (plainly / 6)
    assert total[0] < 2.2 * plainly + 2 * 206 * (103 / members + 1)


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_what_a_kernel_overwrites_is_computed_once(places):
    """What the loop starts from replaces, where it lies, what it is computed from."""
    x, order = inputs(300, places), np.arange(300)[::-1].copy()

    def f(x):
        y = x[order]
        u = y * 2.0
        return np.sort(u), vectorize(root)(u)

    for _ in range(2):
        in_order, roots = jit(f)(x)
        np.testing.assert_array_equal(in_order, np.sort(x * 2.0))
        np.testing.assert_array_equal(roots, vectorize(root)(x[::-1] * 2.0))
