"""Arrays from outside that names of a loop show, and names that only some ends of it need.

Each program against itself in plain Python; what NumPy decides by a layout is refused.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ftrace import jit
from ftrace.errors import FtraceError, MutationError

PROGRAMS: list[Callable[[float, int], Any]] = []


def program(f: Callable[[float, int], Any]) -> Callable[[float, int], Any]:
    PROGRAMS.append(f)
    return f


@program
def written_until_it_breaks(a, n):
    b = np.zeros(3) * a
    x = b
    for i in range(n):
        x[0] = x[0] + a
        if x[0] > 3:
            break
        x[1] = i
    return b


@program
def rebound_where_it_breaks(a, n):
    b, c = np.zeros(3) * a, np.ones(3) * a
    x = b
    for i in range(n):
        x[0] = x[0] + a
        if x[0] > 3:
            x = c
            break
        x[1] = i
    return b, c


@program
def shown_from_behind(a, n):
    b = np.zeros(3) * a
    x, k = b, 0
    while k < n:
        x[0] = x[0] + k + 1
        x = b[::-1]
        k = k + 1
    return b


@program
def written_by_another_name(a, n):
    b = np.zeros(3) * a
    x, total, k = b, 0.0, 0
    while k < n:
        b[0] = b[0] + 1
        total = total + x[0]
        x = b
        k = k + 1
    return total


@program
def chosen_before_and_written(a, n):
    b, c = np.zeros(3) * a, np.ones(3) * a
    x = b if a > 1 else c
    k = 0
    while k < n:
        x[0] = x[0] + 1
        k = k + 1
    return b, c


@program
def chosen_before_and_rebound_late(a, n):
    b, c = np.zeros(3) * a, np.ones(3) * a
    x = b if a > 1 else c
    for i in range(n):
        x[0] = x[0] + 1
        if i > 1:
            x = c
    return b, c


@program
def read_by_else(a, n):
    t, k = 0.0, 0
    while k < n:
        t = a * k
        k = k + 1
    else:
        y = t * 2
    return y


@program
def ends_by_what_is_tried(a, n):
    t = r = 0.0
    for i in range(n):
        try:
            t = math.log(a - i)
            if t < 0:
                r = t
                break
        except ValueError:
            r = -5.0
            break
    return t, r


@program
def items_of_what_may_fail(a, n):
    def values(v):
        if v < 1:
            raise ValueError("below")
        return [v, v + 1]

    t = 0.0
    try:
        for v in values(a):
            t = t + v
    except ValueError:
        t = -1.0
    return t


@program
def items_side_by_side(a, n):
    t = 0.0
    try:
        for i, v in zip(range(3), [a, a + 1, a - 1], strict=True):
            t = t + i / v
    except ZeroDivisionError:
        t = -t - 1
    return t


@program
def divided_in_place(a, n):
    t = 5.0
    try:
        t /= a - 1
    except ZeroDivisionError:
        t = t - 3.0
    return t


@program
def two_that_may_fail(a, n):
    try:
        t = 10 * math.log(a - 0.5) + math.log(a)
    except ValueError:
        t = -1.0
    return t


@program
def shown_in_part_by_another(a, n):
    b, c = np.zeros(3) * a, np.ones(3) * a
    x, y, k = b, b[1:], 0
    while k < n:
        x[0] = x[0] + 1
        y = x[1:]
        x = c
        y[0] = y[0] + 2
        k = k + 1
    return b, c


@program
def broken_at_once(a, n):
    x, k = np.ones(3) * a, 0
    while k < n:
        x = x + 1
        k = k + 2
        break
    return k


@program
def bound_in_turns_alone(a, n):
    for i in range(3):
        y = a * i
        if y > n:
            z = y
        else:
            z = -y
    return y, z


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("a", [0.25, 1.0, 2.0])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_it_is_as_in_python(f: Any, a: float, n: int) -> None:
    found, expected = jit(f)(a, n), f(a, n)
    for x, y in zip(np.atleast_1d(found), np.atleast_1d(expected), strict=True):
        np.testing.assert_allclose(x, y)


def test_what_only_turns_make_of_a_number_is_not_known_behind_them() -> None:
    def f(a: float, n: int) -> bool:
        t, k = a, 0
        while k < n:
            t = np.sin(t)
            k = k + 1
        return isinstance(t, np.float64)

    assert (f(2.0, 0), f(2.0, 1)) == (False, True)
    with pytest.raises(FtraceError):
        jit(f)(2.0, 1)


def test_what_may_share_memory_with_an_array_from_outside_is_not_written() -> None:
    def f(a: Any, n: int) -> Any:
        x = a * 2.0
        y, k = np.zeros(6) * x[0, 0], 0
        while k < n:
            y[0] = 1.0
            y = x.reshape(-1)
            k = k + 1
        return x, y

    with pytest.raises(MutationError, match="share its memory"):
        jit(f)(np.ones((2, 3)), 2)
