"""Programs in which one detail of lifting decides, each against the same program in Python."""

from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import jit


def put_back(x: float, n: int) -> Any:
    """At the end of a turn `x` is the object that it was before the loop."""
    first = x
    total = x * 0
    while n > 0:
        x = x * 2
        total = total + x
        x = first
        n = n - 1
    return x, total


def counted(n: int) -> Any:
    """`x` is read by nothing but its own assignment."""
    x = 0.5
    while n > 0:
        x += 1.0
        n = n - 1
    return n


def counted_in_an_arm(n: int) -> Any:
    x = 0.5
    for i in range(n):
        if i > 1:
            x += i
    return n


@pytest.mark.parametrize(
    ("f", "args"), [(put_back, (1.5, 3)), (counted, (3,)), (counted_in_an_arm, (4,))]
)
def test_compiled_details_are_pythons(f: Any, args: tuple[Any, ...]) -> None:
    np.testing.assert_array_equal(jit(f)(*args), f(*args))
    np.testing.assert_array_equal(jit(ftrace.lift(f))(*args), f(*args))


def added_after_an_arm(x: float) -> float:
    if x > 1:
        y = x * 2
    else:
        y = x * 3
    y += 1.0
    return x


@pytest.mark.parametrize("x", [0.5, 2.0])
def test_a_name_that_is_only_added_to_is_bound_after_an_arm(x: float) -> None:
    assert jit(added_after_an_arm)(x) == x
    assert jit(ftrace.lift(added_after_an_arm))(x) == x
    assert ftrace.grad(added_after_an_arm)(x) == 1.0
