"""Mapped loops over numbers: one kernel, in which each member takes its own number of turns."""

import numpy as np
import pytest

import ftrace
from ftrace import jit, jvp, lax, vmap
from ftrace.lowering.kernel.ir import While
from ftrace.lowering.kernel.traversal import inside
from tests.lowering.programs import planned
from tests.lowering.simulate import simulate

XS = np.linspace(0.5, 90.0, 37)


def newton(x):
    step = lambda z: z - (z * z - x) / (2.0 * z)  # noqa: E731
    return lax.while_loop(lambda z: np.abs(z * z - x) > 1e-12 * x, step, x * 1.0)


def counted(x):
    """An integer, a boolean and a float go round; a captured array gives a bound to all."""
    body = lambda c: (c[0] + 1, c[1] * 1.5 + c[0], c[1] > 30.0)  # noqa: E731
    n, y, late = lax.while_loop(lambda c: (c[1] < 80.0) & (c[0] < 9), body, (0, x, np.bool_(False)))
    return y + n, late


def nested(x):
    inner = lambda y: lax.while_loop(lambda z: z < 9.0, lambda z: z * 1.7 + 0.1, y)  # noqa: E731
    return lax.while_loop(
        lambda c: c[0] < x * 0.05, lambda c: (c[0] + 1.0, inner(c[1]) / 4.0), (0.0, x)
    )[1]


PROGRAMS = {
    "newton": newton,
    "counted": counted,
    "nested": nested,
    "tangents": lambda x: jvp(newton, (x,), (1.0,)),
    "second tangents": lambda x: jvp(lambda y: jvp(newton, (y,), (1.0,))[1], (x,), (1.0,)),
}


def loops(program):
    """The kernels of a program that hold a While."""
    kernels = [launch.kernel for launch in program.launches]
    return [k for k in kernels if any(isinstance(s, While) for s in inside(k.body))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_member_turns_by_itself_in_one_kernel(name):
    f = vmap(PROGRAMS[name])
    program = planned(f, XS)
    assert len(loops(program)) == 1
    expected = ftrace.tree.leaves(f(XS))
    compiled = ftrace.tree.leaves(jit(f)(XS))
    for reverse in (False, True):
        found = simulate(program, [XS], reverse=reverse)
        for a, b, c in zip(found, expected, compiled, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
            np.testing.assert_allclose(c, b, rtol=1e-12)


def test_the_order_of_the_transformations_does_not_matter():
    one = vmap(lambda x: jvp(newton, (x,), (1.0,))[1])
    other = lambda xs: jvp(vmap(newton), (xs,), (np.ones_like(xs),))[1]  # noqa: E731
    assert len(loops(planned(other, XS))) == 1
    np.testing.assert_allclose(jit(other)(XS), jit(one)(XS), rtol=1e-15)


def test_what_is_the_same_for_all_members_is_read_once():
    def f(bound, xs):
        return vmap(lambda x: lax.while_loop(lambda y: y < bound, lambda y: y * 1.3 + bound, x))(xs)

    (kernel,) = loops(planned(f, 50.0, XS))
    assert sorted(len(b.steps) for b in kernel.buffers) == [0, 1, 1]
    np.testing.assert_allclose(jit(f)(50.0, XS), f(50.0, XS), rtol=1e-13)


def test_members_that_are_arrays_turn_together():
    f = vmap(lambda x: lax.while_loop(lambda y: np.sum(y) < 9.0, lambda y: y * 1.5, x))
    xs = np.linspace(0.1, 1.0, 90).reshape(30, 3)
    assert loops(planned(f, xs)) == []
    np.testing.assert_allclose(jit(f)(xs), f(xs), rtol=1e-13)


def test_a_loop_with_a_row_of_python_turns_together():
    f = vmap(
        lambda n: lax.while_loop(lambda c: c < 99, lambda c: c + lax.population_count(c) + 1, n)
    )
    ns = np.arange(1, 30)
    program = planned(f, ns)
    assert loops(program) == []
    assert program.callbacks
    np.testing.assert_array_equal(jit(f)(ns), f(ns))


def test_complex_members_turn_together():
    f = vmap(lambda z: lax.while_loop(lambda w: np.abs(w) < 9.0, lambda w: w * w + z, z))
    zs = np.array([1.5 + 0.5j, 0.9 - 1.2j, 2.0j])
    np.testing.assert_allclose(jit(f)(zs), f(zs), rtol=1e-13)


def test_no_members_and_one():
    f = jit(vmap(newton))
    assert f(np.zeros(0)).shape == (0,)
    np.testing.assert_allclose(f(np.array([2.0])), [np.sqrt(2.0)], rtol=1e-14)


def test_places_of_windows_are_used_again():
    """A row of Python in a scan reads copies of windows, whose places are free for the next row."""

    def f(*xs):
        def step(c, rows):
            for row in rows:
                c = c + np.sort(row)[::-1][0]
            return c, None

        return lax.scan(step, 0.0, xs)[0]

    xs = [np.linspace(0.0, 1.0 + k, 4000).reshape(4, 1000) for k in range(6)]
    room = jit(f).lower(*xs).cost().arena
    assert room < 8 * 8000  # six sorted rows, and one copy of a row
    np.testing.assert_allclose(jit(f)(*xs), sum(x.max(1).sum() for x in xs), rtol=1e-14)
