"""An arm that is not taken, a loop that does not turn or was left: nothing of them is seen.

No value, no derivative, no error, and no loop without end; each program against plain Python.
"""

from typing import Any

import numpy as np
import pytest
import scipy.optimize

import ftrace
from ftrace import lax

TABLE = np.arange(3.0)


def endless(x, y):
    if x > 0:
        s = 0.0
        while s < 3:  # without end where y is 0
            s = s + np.sqrt(y)
        return s
    return x


def endless_in_a_cond(x, y):
    def turned():
        return lax.while_loop(lambda s: s < 3, lambda s: s + np.sqrt(y), 0.0)

    return lax.cond(x > 0, turned, lambda: x)


def endless_in_a_scan(x, y):
    def turned():
        def turn(c, a):
            return lax.while_loop(lambda s: s < 3 + c, lambda s: s + np.sqrt(y), 0.0) + a, c

        return lax.scan(turn, 0.0, TABLE)[0]

    return lax.cond(x > 0, turned, lambda: x)


def endless_in_an_arm_of_an_arm(x, y):
    if x > 0:
        s = 0.0
        if x > 1:
            while s < 3:
                s = s + np.sqrt(y)
        return s + x
    return x


def endless_after_the_end(x, y):
    t, n = 0.0, x
    while n > 0:
        s = 0.0
        while s < n:  # without end for a member that is done
            s = s + n * np.sqrt(y) + (y <= 0) * 1.0
            t = t + 1.0
        n = n - 1
    return t + x


def counted_down_to_one(x, y):
    t, n = y, x
    while n > 0:
        m = n
        while m > 1 or m <= 0:  # without end for a member that is done
            m = m - 1
            t = t + 1.0
        n = n - 2
    return t


def no_turn(x, y):
    s = x
    while s > 5:
        s = s - np.sqrt(y) / y
    return s


def no_turn_of_a_scan(x, y):
    return lax.scan(lambda c, a: (c * np.log(y) * a, c), x, np.ones(0))[0]


def continued(x, y):
    s, n = x, 0
    while n < 3:
        n = n + 1
        if y <= 0:
            continue
        s = s + np.sqrt(y)
    return s


PROGRAMS = [
    *(endless, endless_in_a_cond, endless_in_a_scan, endless_in_an_arm_of_an_arm),
    *(endless_after_the_end, counted_down_to_one, no_turn, no_turn_of_a_scan, continued),
]
POINTS = [(-1.0, 0.0), (-1.0, -2.0), (2.0, 4.0), (0.5, 2.25)]
WAYS: dict[str, Any] = {
    "vmap": ftrace.vmap,
    "vmap(jit)": lambda f: ftrace.vmap(ftrace.jit(f)),
    "jit(vmap)": lambda f: ftrace.jit(ftrace.vmap(f)),
}


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("way", WAYS)
def test_values_and_derivatives_of_members_are_those_of_each_alone(f, way):
    xs, ys = np.array(POINTS).T
    with np.errstate(all="ignore"):
        expected = [f(x, y) for x, y in POINTS]
        np.testing.assert_allclose(WAYS[way](f)(xs, ys), expected, rtol=1e-13)
        if way == "vmap(jit)":
            return
        for i in (0, 1):
            alone = [ftrace.grad(f, i)(x, y) for x, y in POINTS]
            assert np.isfinite(alone).all()
            members = WAYS[way](ftrace.grad(f, i))(xs, ys)
            np.testing.assert_allclose(members, alone, rtol=1e-13)
            together = ftrace.grad(lambda x, y: WAYS[way](f)(x, y).sum(), i)(xs, ys)
            np.testing.assert_allclose(together, alone, rtol=1e-13)


def stored(x, i):
    out = np.zeros(3)
    if i < 3:
        out[i] = x
    return out


def stored_twice(x, i):
    out = np.zeros((2, 2))
    if i < 2:
        out[i, i] += x
        out[np.array([0, 1]) * i] += 1.0
    return out


def read(x, i):
    return TABLE[i] * x if i < 3 else x


def read_in_a_cond(x, i):
    return lax.cond(i < 3, lambda: x * TABLE[i], lambda: x)


def stored_while(x, i):
    out, k = np.zeros(3), 0
    while k < i and k < 3:
        out[k] = x
        k = k + 1
    return out


def read_while(x, i):
    s, k = x, 0
    while k < i:
        s = s + TABLE[k]
        k = k + 1
    return s


def stored_by_steps(x, k):
    out = np.ones(7)
    for i in range(0, 7, k):  # a member that has ended would leave 8 on the tape
        out[i] *= x
    return out


@pytest.mark.parametrize("way", WAYS)
def test_what_a_member_leaves_after_its_last_turn_is_no_index_of_the_transposed_loop(way):
    xs, steps = np.array([0.5, 1.5, 2.0]), np.array([1, 2, 4])

    def f(x, k):
        return np.sum(np.square(stored_by_steps(x, k)))

    for slope in (ftrace.grad(f), ftrace.grad(ftrace.jacfwd(f)), ftrace.jacfwd(ftrace.grad(f))):
        alone = [slope(x, int(k)) for x, k in zip(xs, steps, strict=True)]
        np.testing.assert_allclose(WAYS[way](slope)(xs, steps), alone)


@pytest.mark.parametrize("f", [stored, stored_twice, read, read_in_a_cond, stored_while])
@pytest.mark.parametrize("way", WAYS)
def test_an_index_is_asked_where_it_is_taken_alone(f, way):
    places = np.array([0, 4, 1, -1, 7, 2])
    mapped = WAYS[way](lambda i: f(1.5, i))
    plain = read if f is read_in_a_cond else f  # Python reads the table where it defines the arm
    np.testing.assert_array_equal(mapped(places), [plain(1.5, int(i)) for i in places])
    if f is not stored_while:
        with pytest.raises(IndexError):
            mapped(np.array([0, -5]))
    slopes = WAYS[way](ftrace.grad(lambda x, i: np.sum(f(x, i))))(np.full(6, 1.5), places)
    alone = [ftrace.grad(lambda x, i=int(i): np.sum(plain(x, i)))(1.5) for i in places]
    np.testing.assert_allclose(slopes, alone)


@pytest.mark.parametrize("way", WAYS)
def test_an_index_that_a_turn_takes_raises(way):
    mapped = WAYS[way](lambda i: read_while(1.5, i))
    np.testing.assert_array_equal(mapped(np.array([0, 3, 1])), [1.5, 4.5, 1.5])
    with pytest.raises(IndexError):
        mapped(np.array([0, 4]))


def asked_on_the_host(x, y):
    def root(v):
        if v < 0:
            raise ValueError("a host function of positive numbers")
        return np.sqrt(v)

    if x > 0:
        z = ftrace.pure_callback(root, np.float64(0), ftrace.stop_gradient(y))
        return x * z + y
    return x


def asked_in_a_loop(x, y):
    n = x * 1.0
    while n > 0:
        n = n - ftrace.pure_callback(positive, np.float64(0), ftrace.stop_gradient(n))
    return n + y


def positive(v):
    assert v > 0
    return np.float64(1.0)


def fitted(x, y):
    if x > 0:
        a = np.array([[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]])
        return scipy.optimize.nnls(a / y, np.array([1.0, 2.0, 3.0]))[0].sum() * x
    return x


def assigned(x, y):
    if x > 0:
        costs = np.array([[1.0, 2.0], [3.0, 1.0]]) / y
        return costs[scipy.optimize.linear_sum_assignment(costs)].sum() * x
    return x


@pytest.mark.parametrize("f", [asked_on_the_host, asked_in_a_loop, fitted, assigned])
@pytest.mark.parametrize("way", WAYS)
def test_the_host_is_not_asked_for_members_that_do_not_take_an_arm(f, way):
    xs, ys = np.array([(-1.0, -2.0), (2.0, 4.0), (0.0, 0.0), (0.5, 2.25)]).T
    with np.errstate(all="ignore"):
        expected = [f(x, y) for x, y in zip(xs, ys, strict=True)]
        np.testing.assert_allclose(WAYS[way](f)(xs, ys), expected, rtol=1e-13)
        if way == "vmap(jit)":
            return
        slopes = [ftrace.grad(f)(x, y) for x, y in zip(xs, ys, strict=True)]
        np.testing.assert_allclose(WAYS[way](ftrace.grad(f))(xs, ys), slopes, rtol=1e-13)
