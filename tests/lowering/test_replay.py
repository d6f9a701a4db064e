"""Loops backwards with few states as plans, and tapes of tapes: what the simulation says."""

from unittest import mock

import numpy as np
import pytest

import ftrace
from ftrace import grad, jit, lax
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.tapes import Ragged
from ftrace.cpu.llvm.machine_code import host
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from ftrace.lowering.program.program import Look, Scan, every
from tests.lowering.programs import planned
from tests.lowering.simulate import simulate
from tests.lowering.test_pieces import forward_half

X = np.array([0.3, 0.9, 1.4])


def rows(length):
    return np.arange(3.0 * length).reshape(length, 3)


def few(x, rows, *, slots=2, reverse=False):
    xs = rows * x[1]
    step = lambda c, t: (np.sin(c) * x + c[::-1] * 0.1, np.cos(c * t))  # noqa: E731
    c, ys = lax.scan(step, x, xs, reverse=reverse, checkpoint="binomial", slots=slots)
    return np.sum(c) + np.sum(ys * ys)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("slots", [1, 3])
def test_the_simulation_follows_the_schedule(slots, reverse):
    f = lambda x, rows: few(x, rows, slots=slots, reverse=reverse)  # noqa: E731
    args = [X, rows(7)]
    program = planned(grad(f), *args)
    assert not program.callbacks
    with ftrace.config.update(compile=False):
        expected = grad(f)(*args)
    for backwards in (False, True):
        (found,) = simulate(program, args, reverse=backwards)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_programs_of_other_lengths_and_states_share_their_code():
    texts = {
        jit(grad(lambda x, rows: few(x, rows, slots=s))).lower(X, rows(n)).llvm  # noqa: B023
        for n, s in ((7, 2), (12, 4), (40, 3))
    }
    assert len(texts) == 1


def test_a_schedule_moves_states_and_nothing_more():
    with mock.patch("ftrace.lowering.planning.loop_kernels.small_loop", return_value=None):
        program = planned(grad(few), X, rows(7))
    looks = [s for s in every(program.steps) if isinstance(s, Look)]
    assert len(looks) == 4  # a turn, a turn back, and a state there and back
    assert [len(s.windows) for s in looks[2:]] == [1, 1]
    assert sum(isinstance(s, Scan) for s in every(program.steps)) == 2


def lists(value):
    """Tapes as the simulation knows them."""
    return [lists(x) for x in value] if isinstance(value, Ragged) else value


def test_the_simulation_knows_tapes_that_leave():
    def f(x):
        def body(e):
            grow = lambda d: (d[0] + 1, np.sin(d[1]) * x)  # noqa: E731
            return e[0] + 1, lax.while_loop(lambda d: d[0] < e[0], grow, (0, e[1]))[1]

        return np.sum(lax.while_loop(lambda e: e[0] < 4, body, (0, x))[1])

    half = forward_half(f, X)
    found = simulate(plan(half, Machine(host().vector_bytes)), [X])
    expected = eval_jaxpr(half, [X])
    stacks = [i for i, y in enumerate(expected) if isinstance(y, Ragged)]
    assert stacks
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if i not in stacks:
            np.testing.assert_allclose(a, b, rtol=1e-12)
    for i in stacks:
        for a, b in zip(found[i], lists(expected[i]), strict=True):
            np.testing.assert_allclose(np.reshape(a, np.shape(b)), b, rtol=1e-12)
