"""A write into a plain array that a decision holds is told, whoever handles NumPy's error."""

import contextlib

import numpy as np
import pytest

import ftrace
from ftrace.errors import FtraceError

K = np.array([1.5])


class Quiet:
    def __enter__(self):
        pass

    def __exit__(self, *error):
        return True


def a_handler_in_a_loop(x, y):
    for _ in range(2):
        try:
            if y > 5:
                return x
            if y > 0:
                np.copyto(K, 2.0)
        except ValueError:
            x = x * 100
    return x * 2


def a_handler_in_an_arm(x, y):
    if y > 0:
        try:
            np.copyto(K, 2.0)
        except ValueError:
            x = x * 100
    return x * 2


def a_handler_in_a_while(x, y):
    while y > 0:
        try:
            np.copyto(K, 2.0)
            y = y - 1
        except Exception:
            x = x * 100
            break
    return x * 2


def another_handler_around_a_jump(x, y):
    for _ in range(1):
        try:
            if y > 0:
                np.copyto(K[::-1], K, where=True)
            if x > 0.25:
                return 1.5
        except ZeroDivisionError:
            pass
    return x


def suppressed(x, y):
    if y > 0:
        with contextlib.suppress(ValueError):
            np.copyto(K, 2.0)
            x = x + 1
    return x * 2


def a_manager_that_takes_all(x, y):
    while y > 0:
        with Quiet():
            K[0] = 2.0
            x = x + 1
        y = y - 1
    return x * 2


PROGRAMS = [
    a_handler_in_a_loop,
    a_handler_in_an_arm,
    a_handler_in_a_while,
    another_handler_around_a_jump,
    suppressed,
    a_manager_that_takes_all,
]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_it_is_told(f):
    ways = [ftrace.jit(f), lambda x, y: ftrace.vmap(f)(np.array([x, 1.0]), np.array([y, 1.0]))]
    for way in ways:
        K[:] = 1.5
        with pytest.raises(FtraceError, match="is written where a traced value decides"):
            way(1.5, 1.5)
        assert K[0] == 1.5
        assert K.flags.writeable


def test_a_read_only_array_of_the_users_own_is_the_handlers_affair():
    fixed = np.zeros(2)
    fixed.flags.writeable = False

    def f(x):
        for _ in range(2):
            if x > 0:
                try:
                    fixed[0] = 1.0
                except ValueError:
                    x = x + 1
        return x

    assert f(1.5) == ftrace.jit(f)(1.5) == 3.5
