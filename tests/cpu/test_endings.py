"""Loops that lanes leave at different times, compiled: every lane leaves what it does alone."""

import math
import random

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import grad, jit, lax, vectorize
from ftrace.cpu.llvm.machine_code import host
from ftrace.cpu.mathematics import functions_table
from ftrace.lowering.kernel import reference
from ftrace.lowering.kernel_passes.sinking import exits
from tests.cpu.running import differences, run, with_lanes
from tests.lowering.nests import Sample
from tests.lowering.repetitions import repetition

N = 70


def check(sample, level, lanes):
    want = sample.operands()
    with np.errstate(all="ignore"):
        reference.run(sample.kernel, want, sample.scalars)
    for kernel in (sample.kernel, exits(sample.kernel)):
        one = Sample(kernel, sample.arrays, sample.scalars)
        got = run(one, host(level), with_lanes(kernel, lanes))
        for buffer in kernel.buffers:
            assert differences(got[buffer.name][0], want[buffer.name][0]) == "", buffer.name


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(16))
def test_random_loops_equal_the_reference(seed):
    level = ("native", "native", "avx2", "sse2")[seed % 4]
    check(repetition(seed), level, random.Random(seed).choice([4, 8, 16, 32]))


@pytest.mark.sampled(4)
@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_many_random_loops_equal_the_reference(seed):
    level = ("native", "native", "avx2", "sse2")[seed % 4]
    check(repetition(seed), level, random.Random(seed).choice([1, 4, 8, 16, 32]))


# --- as users write them


def landing(angle):
    """The state of two turns is looked at when it lands, and the arm is expensive."""
    vx, vy, x, y = math.cos(angle), math.sin(angle), 0.0, 0.0
    while True:
        last_x, last_y = x, y
        x = x + vx * 0.02
        y = y + vy * 0.02
        if y < 0.0:
            return math.exp((x * last_y - last_x * y) / (last_y - y))
        vy = vy - 0.2


def two_ways(x):
    """Which of two exits comes first differs; both look at what turns left."""
    y, n = x, 0.0
    while True:
        z = y
        y = y * 0.9 + 0.01 * x
        if y < 0.3:
            return math.exp(y) * n * z
        n = n + 1.0
        if n * y > 9.0:
            return math.log(y) - z


def broken(x):
    """A `break`, a `continue` and a `return`."""
    y, n = x, 0.0
    while True:
        y = y * 0.9 + 0.01
        if y < 0.2:
            break
        n = n + 1.0
        if y > 2.0:
            continue
        if n * y > 9.0:
            return math.sin(y) * n
    return y * n * x


def counted(x):
    """A loop that ends by itself where nothing is found; and one that does not turn."""
    z, total = x, 0.0
    for i in range(12):
        if z * i > 9.0:
            return math.cos(z) + total
        total = total + z
        z = z + 0.25 * x
    return total * x


def guarded(x):
    """The test and an exit in the body; where x is large it does not turn at all."""
    y, n = x, 0.0
    while y < 3.0:
        before = y
        y = y * 1.25
        if y * n > 4.0:
            return math.exp(before) * y
        n = n + 1.0
    return y - n


def nested(x):
    """The exit of the inner loop is looked at by the outer one."""
    total, y = 0.0, x
    while total < 4.0:
        z = y
        while True:
            z = z * 0.5
            if z < 0.2:
                total = total + math.exp(z) * y
                break
        y = y + 0.3
    return total * y


def after(x):
    """An exit that itself takes turns."""
    y = x
    while True:
        y = y + 0.3
        if y > 2.0:
            z = y
            while z > 0.1:
                z = z * x / (1.0 + x)
            return z * y


def deciding(x):
    """Exits in both arms, and in arms of these."""
    y, n = x, 0.0
    while True:
        y = y * 1.1
        if y < 2.5:
            if n > 6.0:
                return math.sin(y)
        elif n > 3.0:
            return y * x
        else:
            y = y - 0.125
            if y > 3.75:
                break
        n = n + 1.0
    return y + n * x


def sheltered(x):
    """An exit in an arm without another."""
    y, n = x, 0.0
    while True:
        y = y * 1.1 + 0.1
        if y > 2.0:
            y = y - 0.01
            if n > 3.0:
                return y * n
        n = n + 1.0


def manifold(x):
    """More conditions than truth tables tell apart."""
    y, n = x, 0.0
    while True:
        y = y * 0.9 + 0.01
        if y < 0.2:
            return y * n
        if y > 2.7:
            if n > 1.0:
                return y + 1.0
        elif y > 2.0:
            if n > 2.0:
                break
        elif y > 1.5 and n > 3.0:
            return y + 3.0 * x
        elif n > 5.0 and y > 0.6:
            break
        n = n + 1.0
    return y * x


FUNCTIONS = (
    landing,
    two_ways,
    broken,
    counted,
    guarded,
    nested,
    after,
    deciding,
    sheltered,
    manifold,
)
X = np.random.default_rng(3).uniform(0.35, 3.5, N)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_values_and_derivatives_are_those_of_the_function(f):
    v = vectorize(f)
    np.testing.assert_allclose(v(X), [f(float(x)) for x in X], rtol=1e-13)
    slope = jit(lambda x: ftrace.jvp(v, (x,), (np.ones_like(x),))[1])
    second = jit(lambda x: ftrace.jvp(slope, (x,), (np.ones_like(x),))[1])
    step = 1e-6
    steady = np.array([abs(f(x + step) - f(x - step)) < 1e-3 for x in X])  # no other last turn
    assert steady.sum() > N // 2
    high, low = ([f(float(x)) for x in X + s] for s in (step, -step))
    difference = (np.array(high) - low) / (2 * step)
    np.testing.assert_allclose(slope(X)[steady], difference[steady], rtol=2e-6, atol=1e-7)
    ends = slope(X + step), slope(X - step)
    difference = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(second(X)[steady], difference[steady], rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_reverse_mode_is_forward_mode(f):
    v = vectorize(f)
    forward = jit(lambda x: ftrace.jvp(v, (x,), (np.ones_like(x),))[1])(X)
    np.testing.assert_allclose(jit(grad(lambda x: v(x).sum()))(X), forward, rtol=1e-12)
    alone = [grad(vectorize(f))(x) for x in X[:8]]
    np.testing.assert_allclose(alone, forward[:8], rtol=1e-12)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_a_lane_is_what_it_is_alone(f):
    v = vectorize(f)
    np.testing.assert_array_equal(v(X), np.concatenate([v(X[i : i + 1]) for i in range(N)]))


@pytest.fixture
def exps(monkeypatch):
    """How many vectors of `exp` have run."""
    total = np.zeros(1, "i8")
    place = f"ptr inttoptr (i64 {total.ctypes.data} to ptr)"
    plain = functions_table.SPELLINGS["exp"]

    def spelled(text, *args):
        before, more = text.fresh(), text.fresh()
        text.line(f"%{before} = load i64, {place}")
        text.line(f"%{more} = add i64 %{before}, 1")
        text.line(f"store i64 %{more}, {place}")
        return plain(text, *args)

    monkeypatch.setitem(functions_table.SPELLINGS, "exp", spelled)
    return total


def test_the_exit_runs_once_however_many_turns_there_are(exps):
    x = np.linspace(0.4, 1.4, 64)  # every lane takes its own number of turns
    f = vectorize(landing)
    np.testing.assert_allclose(f(x), [landing(float(a)) for a in x], rtol=1e-13)
    assert 0 < exps[0] <= 64 // 4


@pytest.mark.parametrize("read", [1, 3])
def test_lanes_that_are_done_take_no_arms(exps, read):
    """All but two lanes of a vector end soon, where the others never come."""

    def turning(x):
        def turn(state):
            n, y, z = state
            return n + 1.0, lax.cond(n > x, lambda: fnp.exp(y), lambda: y * 0.5), z + y

        return lax.while_loop(lambda s: s[0] < x, turn, (0.0, x, 0.0))[-read:]

    x = np.full(64, 4.0)
    x[[5, 40]] = x[[6, 41]] = x[[7, 42]] = x[[8, 43]] = 30.0
    for got in vectorize(turning)(x):
        assert len(set(got)) == 2
    assert exps[0] == 0
