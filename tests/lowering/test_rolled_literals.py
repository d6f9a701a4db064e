"""Literals in arms and bodies: what a loop differs in is handed to its branches."""

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.control.rows.raising import Thrower
from ftrace.core.check import check_jaxpr
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.lowering.rolling import literals, roll
from ftrace.lowering.rolling.listing import Naming
from ftrace.tree import leaves
from tests.lowering.test_rolling import agree, loops, opened_jaxpr, same_bits

RNG = np.random.default_rng(11)
V = RNG.normal(size=40)


def last_above(x):
    """Another number in one arm."""
    last, count = -1.0, 0
    for t in range(40):
        if x[t] > 0.3:
            last, count = t * 1.0, count + 1
    return last + x[0] * count


def in_both_arms(x):
    c = x[0]
    for t in range(40):
        if c > x[t]:
            c = c * (1.0 + 0.01 * t)
            c = c - x[t]
        else:
            c = c + 0.5 * t
    return c


def in_nested_arms(x):
    c, k = x[0], 0.0
    for t in range(40):
        if c > x[t]:
            if x[t] < 0.1:
                k = t * 2.0
            c = c - 0.25
        else:
            c = c + 0.125 * t
    return c + k


def the_same_in_some(x):
    """Two of three literals differ, and one of these in every other iteration alone."""
    c = x[0]
    for t in range(40):
        c = np.tanh(c * 3.0) + x[t] if c > t // 2 else c + (t % 2) * 0.5
    return c


def spiking(x):
    """Loops in loops; what differs between outer iterations lies in bodies of inner loops."""
    v, s, last = np.zeros(5), np.zeros(5), np.full(5, -9.0)
    for t in range(12):
        for i in range(5):
            v[i] += 0.1 * (x[i] - v[i]) + 0.05 * s.sum()
            if v[i] > 0.2 and t - last[i] > 3:
                v[i], s[i], last[i] = 0.0, 1.0, t
            else:
                s[i] *= 0.8
    return v + s + last


def of_types(x):
    """Literals of other types in the arms of the same branch."""
    n, c = 0, x[0]
    for t in range(40):
        up = x[t] > 0
        n = lax.cond(up, lambda n, t=t: n + t, lambda n: n - 1, n)
        c = lax.cond(up, lambda c: c * 0.5, lambda c, t=t: c + float(t), c)
    return c, n


def one_arm_twice(x):
    c = x[0]
    for t in range(40):

        def arm(c, t=t):
            return c * 0.5 + float(t)

        c = lax.cond(x[t] > 0, arm, arm, c)
    return c


PROGRAMS = (
    last_above,
    in_both_arms,
    in_nested_arms,
    the_same_in_some,
    spiking,
    of_types,
    one_arm_twice,
)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_branches_with_other_numbers_are_repeats(f):
    same, found = agree(ftrace.lift(f), V)
    assert same
    assert found == 1


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_compiled_values_and_derivatives_are_those_of_python(f):
    lifted = ftrace.lift(f)
    for y, e in zip(leaves(ftrace.jit(lifted)(V)), leaves(f(V)), strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-13)

    def total(x):
        return sum(np.sum(y) for y in leaves(lifted(x)))

    wanted = ftrace.grad(total)(V)
    np.testing.assert_allclose(ftrace.jit(ftrace.grad(total))(V), wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_handing_in_changes_no_bit(f):
    plain = opened_jaxpr(ftrace.lift(f), V)
    handed = literals.handed_in(plain.eqns, Naming())
    assert handed != list(plain.eqns)
    found = type(plain)(plain.invars, handed, plain.outvars, plain.constvars, plain.consts)
    check_jaxpr(found)
    assert same_bits(*(eval_jaxpr(j, [V]) for j in (plain, found)))


def test_what_differs_in_more_than_numbers_stays_apart():
    def f(x):
        c = x[0]
        for t in range(40):
            if c > x[t]:
                c = np.sin(c) * t if t % 3 == 0 else c - x[t]
        return c

    plain = opened_jaxpr(ftrace.lift(f), V)
    assert len(loops(roll.roll(plain, 4))) == 1  # of three branches each


def test_equal_branches_stay_as_they_are():
    def f(x):
        c = x[0]
        for t in range(40):
            c = c * 0.5 if c > x[t] else c + 0.25
        return c

    plain = opened_jaxpr(ftrace.lift(f), V)
    assert literals.handed_in(plain.eqns, Naming()) == list(plain.eqns)


# ---------------------------------------------------------------------------------- while loops


def insertion_sort(x):
    a = x.copy()
    for i in range(1, 12):
        key, j = a[i], i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return a


def searched(x, q):
    """Each search waits for the errors of those before it."""
    out = np.zeros(12)
    for k in range(12):
        low, high = 0, 40
        while low < high:
            middle = (low + high) // 2
            if x[middle] < q[k]:
                low = middle + 1
            else:
                high = middle
        out[k] = low
    return out


def test_while_loops_of_a_python_loop_are_repeats():
    x, q = np.sort(V), RNG.normal(size=12)
    for f, args in ((insertion_sort, (V,)), (searched, (x, q))):
        low = ftrace.jit(f).lower(*args)
        assert any("became a loop" in note for note in low.rolled)
        np.testing.assert_array_equal(ftrace.jit(f)(*args), f(*args))
    stack = np.stack([V, V[::-1], -V])
    found = ftrace.jit(ftrace.vmap(insertion_sort))(stack)
    np.testing.assert_array_equal(found, [insertion_sort(x) for x in stack])


def test_the_first_error_of_while_loops_in_a_row_is_raised():
    """The loops behind it do not start, though they would not end."""

    def f(x, starts):
        total = 0.0
        for k in range(8):
            i = starts[k]
            while x[i] < 0.5:
                i = i + 1
                total = total + x[i]
        return total

    x = np.where(np.arange(20) % 5 == 4, 1.0, 0.25)
    starts = np.arange(8)
    low = ftrace.jit(f).lower(x, starts)
    assert any("became a loop" in note for note in low.rolled)
    assert ftrace.jit(f)(x, starts) == f(x, starts)
    for place, wrong in ((5, 20), (2, 31)):
        starts[place] = wrong
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds"):
            ftrace.jit(f)(x, starts)
        with pytest.raises(IndexError, match="out of bounds"):
            ftrace.vmap(f)(np.stack([x, x * 0.5]), np.stack([starts, starts * 0]))


def test_questions_about_errors_cost_the_same_however_many_there_were():
    def size(n):
        def f(x, starts):
            total = 0.0
            for k in range(n):
                i = starts[k]
                while x[i] < 0.5:
                    i = i + 1
                total = total + i
            return total

        jaxpr = ftrace.jit(f).trace(V, np.zeros(n, int))
        return sum(len(e.invars) for e in jaxpr.eqns)

    assert size(32) - size(24) == size(16) - size(8)


def test_a_loop_asks_for_all_errors_before_it():
    """A batch element that had any does not start it."""

    def f(x, i, j):
        total = x[i]
        total = total + x[j]
        while total < 3.0:
            total = total + 1.0
        return total

    jaxpr = ftrace.jit(f).trace(V, 3, 5)
    (loop,) = (e for e in jaxpr.eqns if e.primitive.name == "while")
    makers = {v: e for e in jaxpr.eqns for v in e.outvars}
    asked = [e for a in loop.invars if (e := makers.get(a)) and e.primitive.name == "or"]
    booleans = {e.invars[0] for e in jaxpr.eqns if e.primitive.name == "raise_where"}
    assert len(booleans) == 2
    assert any(booleans <= set(e.invars) for e in asked)


def test_errors_are_equal_that_say_the_same_of_one_line():
    here = last_above.__code__, 0

    def thrower(size, kinds=(IndexError,), tells=None, place=here):
        def throw(value):
            raise IndexError(f"{value} of {size}")

        return Thrower(throw, kinds, place, tells)

    one = thrower(3)
    assert one == thrower(3)
    assert hash(one) == hash(thrower(3))
    others = (thrower(4), thrower(3, (KeyError,)), thrower(3, tells=True), thrower(3, place=None))
    assert all(one != other for other in others)
