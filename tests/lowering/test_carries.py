"""Where a turn of a loop leaves what it carries: at once in its place, or beside it and then there.

Simulated in both orders, followed byte by byte, and compared with the loop in Python.
"""

import numpy as np
import pytest

from ftrace import jit, lax
from ftrace.lowering.program.program import WINDOW, Copy, Repeat, Scan, every
from ftrace.tree import leaves
from tests.lowering.test_plan import checked

RNG = np.random.default_rng(11)
X, Y = RNG.normal(size=(4, 4)), RNG.normal(size=(4, 4))
XS = RNG.normal(size=(3, 4, 4))


def later(c, x):
    """The old value is sorted when the new one is known."""
    new = np.sort(c, axis=0) * 0.5 + x
    return new, np.sort(c - np.sort(new, axis=0), axis=1)


def other_place(c, x):
    return c.T * 0.5 + np.sort(x, axis=0), None


def same_place(c, x):
    return c * 0.5 + np.sort(x, axis=0), None


def sums(c, x):
    """The group that makes the new value also folds the old one."""
    y = np.sort(x, axis=0)
    new = c * 0.5 + y
    return new, np.sum(c * y, axis=1)


def normalised(c, x):
    """Two passes over a row, which read it twice."""
    c = c + np.sort(x, axis=1)
    return c / np.sum(c * c, axis=1, keepdims=True), None


def exchanged(c, x):
    a, b = c
    return (b, np.sort(a, axis=0) + x), None


def crossed(c, x):
    a, b = c
    y = np.sort(x, axis=0)
    return (a + b * 0.5 + y, b - a * 0.5 * y), a


def each_from_the_other(c, x):
    """The first one is known before the second one has read what it replaces."""
    a, b = c
    y = np.sort(x, axis=0)
    return (b * 0.5 + y, a * 0.5 - y), None


def one_twice(c, x):
    a, b = c
    new = a * 0.5 + b + np.sort(x, axis=0)
    return (new, new), b


def unchanged(c, x):
    a, b = c
    return (a, b * 0.5 + a + np.sort(x, axis=0)), None


def constant(c, x):
    a, n = c
    return (a * n + np.sort(x, axis=0), 2.0), n


def old_one_left(c, x):
    return c * 0.5 + np.sort(x, axis=0), c


def in_a_loop(c, x):
    """The new value is where an inner loop ends; what that starts from reads the old one."""
    start = np.sort(c, axis=0) + x
    end = lax.scan(lambda z, _: (np.sort(z * 0.5 + c, axis=1), None), start, None, length=3)[0]
    return end, np.sum(c)


# name -> turn, what is carried first, copies of matrices in a turn
TURNS = {
    "read later": (later, (X,), 2),
    "read at another place": (other_place, (X,), 1),
    "read where it is written": (same_place, (X,), 0),
    "folded beside it": (sums, (X,), 1),
    "read twice": (normalised, (X,), 1),
    "exchanged": (exchanged, (X, Y), 3),
    "both read both": (crossed, (X, Y), None),
    "each reads the other": (each_from_the_other, (X, Y), None),
    "one result twice": (one_twice, (X, Y), None),
    "unchanged": (unchanged, (X, Y), 0),
    "a number that is written there": (constant, (X, 3.0), None),
    "the old one is a result": (old_one_left, (X,), 2),
    "an inner loop": (in_a_loop, (X,), None),
}


@pytest.mark.parametrize("name", TURNS)
def test_a_turn_of_a_scan(name):
    turn, start, copies = TURNS[name]
    one = len(start) == 1
    f = lambda xs, *start: lax.scan(turn, start[0] if one else start, xs)  # noqa: E731
    program = checked(f, XS, *start)
    (loop, *_) = [s for s in every(program.steps) if isinstance(s, Scan)]
    found = [s for s in loop.body if isinstance(s, Copy)]
    found = [s for s in found if program.slots[s.source].place != WINDOW]  # for a row of Python
    sizes = [program.slots[s.target].aval.size for s in found]
    if copies is not None:
        assert sum(n > 1 for n in sizes) == copies
    pairs = zip(leaves(jit(f)(XS, *start)), leaves(f(XS, *start)), strict=True)
    for y, e in pairs:
        np.testing.assert_allclose(y, e, rtol=1e-12)


def test_a_turn_of_a_while():
    def f(x):
        def turn(c):
            i, y = c
            return i + 1, y * 0.5 + np.sort(x, axis=0)

        return lax.while_loop(lambda c: c[0] < 5, turn, (0, x))

    program = checked(f, X)
    (loop,) = [s for s in every(program.steps) if isinstance(s, Repeat)]
    sizes = [program.slots[s.target].aval.size for s in loop.body if isinstance(s, Copy)]
    assert max(sizes, default=1) == 1
    for y, e in zip(jit(f)(X), f(X), strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-12)
