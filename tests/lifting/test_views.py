"""Views and aliases under traced decisions: a write is seen as in plain Python, or raises."""

import numpy as np
import pytest

import ftrace
from tests.lifting import alias_programs, buffer_programs, cell_programs  # noqa: F401 - they add their own
from tests.lifting.view_programs import LOUD, PROGRAMS

CASES = [pytest.param(f, points, id=f.__name__) for f, points in PROGRAMS]


@pytest.mark.parametrize(("f", "points"), CASES)
def test_writes_are_seen_as_in_python(f, points):
    ways = {
        "jit": lambda x: ftrace.jit(f)(x),
        "vmap": lambda x: ftrace.vmap(f)(np.array([points[-1], x]))[1],
    }
    if f.__name__ in LOUD:
        ways["jvp"] = lambda x: ftrace.jvp(ftrace.jit(f), (x,), (1.0,))[0]
    for way, run in ways.items():
        for x in points:
            if f.__name__ in LOUD:
                with pytest.raises(
                    ftrace.errors.MutationError, match=r"(of line \d+|not known).*\n.*\n.*copy"
                ):
                    run(x)
            else:
                np.testing.assert_allclose(run(x), f(x), err_msg=f"{way} at {x}")


@pytest.mark.parametrize(("f", "points"), CASES)
def test_derivatives_follow_the_writes(f, points):
    if f.__name__ in LOUD:
        return
    for x in points:
        h = 1e-6
        central = (f(x + h) - f(x - h)) / (2 * h)
        y, t = ftrace.jvp(ftrace.jit(f), (x,), (1.0,))
        np.testing.assert_allclose(y, f(x), err_msg=f"value at {x}")
        np.testing.assert_allclose(t, central, rtol=1e-4, atol=1e-4)


def test_functions_called_in_an_arm_see_what_it_wrote():
    def f(x):
        c = np.ones(3) * x
        inner = ftrace.jit(lambda z: (z * c).sum())
        d = ftrace.grad(lambda z: (z * z * c).sum())
        v = ftrace.vmap(lambda z: (z * c).sum())
        s = 0.0
        if x > 1:
            c[0] = 5.0
            s = inner(2.0) + d(2.0) + v(np.array([1.0, 2.0])).sum()
        return s + inner(1.0)

    for x in (0.5, 3.5):
        c = np.array([5.0 if x > 1 else x, x, x]).sum()
        assert ftrace.jit(f)(x) == (9 * c if x > 1 else 0.0) + c


def test_a_test_that_writes_is_refused():
    def f(x):
        c = np.zeros(2) * x

        def more(k):
            c[0] += 1
            return k < x

        k = 0
        while more(k):
            k += 1
        return c

    with pytest.raises(ftrace.errors.LiftError, match="test of a loop"):
        ftrace.jit(f)(2.5)


def test_a_loop_that_exchanges_buffers_carries_only_what_is_read():
    def f(x):
        u, v = np.ones(3) * x, np.zeros(3) * x
        k = 0
        while k < x:
            v[:] = u * 2 + k
            u, v = v, u
            k += 1
        return u

    (loop,) = [
        e for e in ftrace.make_jaxpr(ftrace.lift(f))(2.5).eqns if e.primitive.name == "while"
    ]
    assert sum(bool(v.aval.shape) for v in loop.outvars) == 1


def test_an_argument_that_a_loop_carries_is_not_written():
    def f(x):
        v = x
        k = 0
        while k < x[0]:
            v[1] += 1
            v = v * 2
            k += 1
        return v

    with pytest.raises(ftrace.errors.MutationError, match=r"loop of line \d+.*an argument"):
        ftrace.jit(f)(np.array([2.0, 3.0]))
