"""Where a machine that waits for values looks at the flags of errors."""

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.core.kinds import way
from ftrace.core.lower import Refusal
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from ftrace.lowering.program.program import BranchStep, Callback, Launch, Repeat

X, INDICES = np.linspace(0.5, 1.5, 60).reshape(10, 6), np.array([3, -1, 0])


def steps_of(f, *args, waits=True):
    """The types of a program's steps; an error's look is one of "look"."""
    machine = Machine(64, lazy=False, waits=waits)
    program = plan(ftrace.make_jaxpr(f)(*args), machine)
    refusing = {n for n, call in enumerate(program.callbacks) if way(call.eqn.primitive, Refusal)}

    def name(step):
        if type(step) is BranchStep and any(
            type(s) is Callback and s.number in refusing for arm in step.arms for s in arm
        ):
            return "look"
        return {Launch: "kernel", Callback: "row"}.get(type(step), type(step).__name__)

    return [name(s) for s in program.steps]


def test_kernels_and_rows_that_end_are_started_before_errors_are_looked_for():
    f = lambda x, i: np.sort(x[i] * 2.0)  # noqa: E731
    waiting, other = steps_of(f, X, INDICES), steps_of(f, X, INDICES, waits=False)
    assert waiting.index("look") > waiting.index("row")
    assert waiting[-1] == "look"
    assert other.index("look") < other.index("row")
    assert sorted(waiting) == sorted(other)


def test_errors_stay_in_their_order():
    def f(x, i):
        return x[i].sum(), x[:, i].sum(), (x[i] * 2.0)[0]

    found = steps_of(f, X, INDICES)
    assert found[-1] == "look"
    with pytest.raises(IndexError, match="axis 1 with size 6"):
        ftrace.jit(f)(X, np.array([7]))
    with pytest.raises(IndexError, match="axis 0 with size 10"):
        ftrace.jit(f)(X, np.array([12]))


def test_loops_start_when_no_error_is_left():
    """With a clipped index a loop might not end."""

    def f(x, i):
        y = x[i] * 2.0
        return lax.while_loop(lambda c: c.sum() < 100.0, lambda c: c @ x.T @ x, y) + 1.0

    found = steps_of(f, X, INDICES)
    assert found.index("look") < found.index("Repeat")
    assert Repeat.__name__ in found


def test_a_loop_in_a_kernel_starts_when_no_error_is_left():
    turns = ftrace.vectorize(lambda v: lax.while_loop(lambda c: c < 3.0, lambda c: c + v, v))

    def f(x, i, k):
        return turns(x[i][:, k])

    found = steps_of(f, X, INDICES, np.array([1, 1]))
    assert found[-1] == "kernel"
    assert "look" in found


def test_what_is_seen_happens_when_no_error_is_left():
    seen = []

    def f(x, i):
        y = x[i]
        ftrace.debug.callback(seen.append, y[0, 0])
        return y * 2.0

    found = steps_of(f, X, INDICES)
    assert found.index("look") < found.index("row")
