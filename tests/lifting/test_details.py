"""Programs in which one detail of lifting decides, each against the same program in Python."""

import gc
import math
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import jit
from ftrace.errors import MutationError

W = np.array([-1.0, -0.92, -1.18])


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


def summed(x: float) -> float:
    if x > 1:
        x = x * 2
    return sum([x, x * 2], 5.0) + sum([x, 1.0])


def three_conditions(x: float) -> float:
    if x > 0 and x < 5 and x != 2:
        return x * 2
    if x < -5 or x == -1 or x > 7:
        return x * 3
    return x


def patterns(x: float) -> float:
    match [x, x * 2, x * 3]:
        case [a, b] if a > 0:
            return a + b
        case [a, *rest, b] if a > 1:
            return b - rest[0]
        case [a, b, c]:
            return a + b * c
    return x


def pattern_of_no_rest(x: float) -> float:
    y = x * 2 if x > 1 else x
    match [x, y]:
        case [a, *rest, b] if a > 0:
            return a + b + len(rest)
    return x


def excluded(x: float) -> Any:
    def scaled(v, k):
        return v * k if v > 1 else v - k

    f = np.vectorize(scaled, excluded=["k"])
    return f(np.array([0.5, 1.5]) * x, k=3.0)


def deleted_late(x: float) -> float:
    def helper(v):
        return v + 1

    y = x
    if x > 1:
        y = helper(y)
    return y * 2


@pytest.mark.parametrize(
    "f", [summed, three_conditions, patterns, pattern_of_no_rest, excluded, deleted_late]
)
@pytest.mark.parametrize("x", [-6.0, -1.0, 0.5, 2.0, 3.0, 8.0])
def test_lifted_statements_are_pythons(f: Any, x: float) -> None:
    expected = f(x)
    np.testing.assert_allclose(jit(f)(x), expected)
    np.testing.assert_allclose(jit(ftrace.lift(f))(x), expected)


def test_a_plain_array_chosen_in_an_arm_and_written_there():
    def written(x):
        y = x
        if x > 0:
            a = W * 1.0
            view = a[:-1]
            c = np.ones(3) if x > 1 else a
            np.copyto(view, 5.0)
            y = c.sum() + a.sum()
        return y

    def in_a_loop(x):
        n = 0
        while n < x:
            a = W * 1.0
            view = a[:-1]
            c = np.ones(3) if x > 1 else a
            np.copyto(view, 5.0)
            n = n + c.sum() + a.sum()
        return n

    for f in (written, in_a_loop):
        with pytest.raises(MutationError, match="had made it one of two"):
            ftrace.jit(ftrace.lift(f))(2.0)


def test_a_list_that_one_side_alone_binds_is_that_list() -> None:
    held = [1.0, 2.0]

    def f(x: float) -> float:
        if x > 0:
            found = held
        else:
            raise ValueError("below")
        return x * 2 if found is held else x

    assert jit(f)(1.5) == 3.0
    np.testing.assert_array_equal(ftrace.vmap(f)(np.array([1.5, 2.0])), [3.0, 4.0])


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint64, np.bool])
@pytest.mark.parametrize("traced", [(True, True), (True, False), (False, True)])
def test_a_distance_of_integers_does_not_wrap(kind, traced):
    a, b = kind(3), kind(127)
    static = tuple(i for i, t in enumerate(traced) if not t)

    def f(x, y):
        return math.dist((x, y, a), (y, x, b))

    assert jit(f, static_argnums=static)(a, b) == f(a, b)


def test_a_function_of_plain_values_is_called_with_them() -> None:
    """Of what `np.vectorize` has made before: no value is traced there."""
    seen: list[Any] = []
    noting = np.vectorize(lambda v: seen.append(v) or v, otypes=[float])
    f = jit(lambda x: x * noting([1.0, 2.0]).sum() if x > 1 else x)
    assert (f(2.0), f(0.5)) == (6.0, 0.5)
    assert {type(v) for v in seen} == {float}


def letters_turned(x: float, letters: bytearray) -> float:
    if x > 1:
        letters.reverse()
    return x + letters[0]


def test_bytes_that_change_their_places_under_a_condition_are_told() -> None:
    letters = bytearray(b"ab")
    with pytest.raises(ftrace.errors.LiftError, match="`letters`, a bytearray from outside"):
        jit(lambda x: letters_turned(x, letters))(2.0)


def test_what_only_traced_values_have_is_found_by_its_name() -> None:
    found = jit(lambda x: getattr(x, "at")[()].add(1.0) if x > 1 else x)(2.0)  # noqa: B009
    assert found == 3.0


def test_errors_that_are_kept_hold_no_values_of_the_trace() -> None:
    class Held:
        pass

    def fails() -> float:
        local = Held()
        raise ValueError(f"below, by {type(local).__name__}")

    f = jit(lambda x: fails() if x < 0 else x + 1)
    assert f(2.0) == 3.0
    gc.collect()
    assert not any(type(x) is Held for x in gc.get_objects())
    with pytest.raises(ValueError, match="below, by Held"):
        f(-2.0)
