"""What runs in the arms of compiled kernels, counted by code that is planted in them.

An expensive operation is executed for no vector in which no lane takes its arm; one that runs for
other lanes changes no bit of a lane that does not take it.
"""

import math

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import grad, jit, lax, vectorize
from ftrace.cpu.mathematics import functions_table

N = 1024


@pytest.fixture
def counted(monkeypatch):
    """A function that makes an operation count the vectors it runs for."""

    def plant(op):
        total = np.zeros(1, "i8")
        place = f"ptr inttoptr (i64 {total.ctypes.data} to ptr)"
        plain = functions_table.SPELLINGS[op]

        def spelled(text, *args):
            before, after = text.fresh(), text.fresh()
            text.line(f"%{before} = load i64, {place}")
            text.line(f"%{after} = add i64 %{before}, 1")
            text.line(f"store i64 %{after}, {place}")
            return plain(text, *args)

        monkeypatch.setitem(functions_table.SPELLINGS, op, spelled)
        return total

    return plant


def cell(x):
    """Three ways, the middle one expensive; its `exp` is shared with the last one."""
    return lax.cond(
        x > 2.0,
        lambda: fnp.exp(x) * 0.5,
        lambda: lax.cond(x > 1.0, lambda: fnp.exp(x) + fnp.log(x), lambda: x * x),
    )


def looping(x):
    def shrink():
        return lax.while_loop(lambda s: s > 1.0, lambda s: fnp.exp(-s) + s * 0.5, x)

    return lax.cond(x > 1.5, shrink, lambda: x + 1.0)


def many(x):
    """More conditions than truth tables tell apart."""
    for k in range(9):
        x = lax.cond(x > 10.0 + k, lambda x: fnp.exp(x * 0.01), lambda x: x + 0.001, x)
    return x


def many_in_a_loop(x):
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, many(s[1])), (0, x))[1]


def at(*places, value):
    x = np.linspace(0.1, 0.9, N)
    x[list(places)] = value
    return x


@pytest.mark.parametrize("f", [cell, looping, many, many_in_a_loop])
def test_a_dear_arm_runs_for_no_vector_that_does_not_take_it(f, counted):
    total = counted("exp")
    g = vectorize(f)
    g(at(value=0.0))
    assert total[0] == 0
    g(at(5, value=30.0))
    once = int(total[0])
    assert once > 0
    g(at(5, 700, value=30.0))
    assert total[0] == 3 * once  # two vectors now


@pytest.mark.parametrize("f", [cell, looping, many])
def test_neither_does_its_derivative(f, counted):
    total = counted("exp")
    derivative = jit(grad(lambda x: fnp.sum(vectorize(f)(x))))
    derivative(at(value=0.0))
    assert total[0] == 0
    derivative(at(5, value=30.0))
    assert total[0] > 0


def test_shared_work_is_done_once(counted):
    total = counted("exp")
    vectorize(cell)(np.full(N, 3.0))
    alone = int(total[0])
    total[0] = 0
    x = np.full(N, 3.0)
    x[::2] = 1.5  # both arms in every vector
    vectorize(cell)(x)
    assert total[0] == alone


def test_a_settled_condition_skips_whole_rows(counted):
    total = counted("exp")
    f = vectorize(lambda z, x: lax.cond(z > 0, lambda: fnp.exp(x), lambda: x))
    z = np.zeros((8, 1))
    f(z, np.ones((8, N)))
    assert total[0] == 0
    z[3] = 1.0
    f(z, np.ones((8, N)))
    one_row = int(total[0])
    f(np.ones((8, 1)), np.ones((8, N)))
    assert total[0] == 9 * one_row


@pytest.mark.parametrize("f", [cell, looping, many])
def test_other_lanes_change_no_bit(f):
    g = vectorize(f)
    x = np.random.default_rng(1).uniform(0.1, 40.0, N)
    alone = np.array([g(np.full(64, v))[0] for v in x[:40]])
    np.testing.assert_array_equal(g(x)[:40], alone)


def test_an_untaken_logarithm_reaches_nothing():
    f = vectorize(lambda x: lax.cond(x > 0, lambda: fnp.log(x), lambda: 2.0 * x))
    x = np.array([-1.0, 0.0, 3.0, -np.inf, np.nan])
    with np.errstate(all="raise"):
        np.testing.assert_allclose(f(x), [-2.0, 0.0, math.log(3.0), -np.inf, np.nan], rtol=1e-15)
        slope = jit(grad(lambda x: fnp.sum(f(x))))(x[:3])
        np.testing.assert_array_equal(slope, [2.0, 2.0, 1 / 3.0])


def test_integers_in_an_untaken_arm_do_not_trap():
    f = vectorize(lambda n, d: lax.cond(d != 0, lambda: n // d, lambda: n))
    n, d = np.array([7, -8, 9]), np.array([2, 0, -1])
    np.testing.assert_array_equal(f(n, d), [3, -8, -9])
    lowest = np.iinfo("i8").min
    np.testing.assert_array_equal(f(np.array([lowest]), np.array([-1])), [lowest])


def test_a_loop_that_never_ends_elsewhere_ends_here():
    def f(x):
        """Below zero the loop would not end."""
        return lax.cond(
            x >= 0.0, lambda: lax.while_loop(lambda s: s != 0.0, lambda s: s - 1.0, x), lambda: x
        )

    x = np.array([3.0, -1.0, 0.0, -np.inf, 7.0])
    np.testing.assert_array_equal(vectorize(f)(x), [0.0, -1.0, 0.0, -np.inf, 0.0])
    assert ftrace.vmap(f)(np.array([3.0])).tolist() == [0.0]
