"""What lifted code computes of plain numbers has a value while it is traced, as in Python."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.errors import ConcretizationTypeError, MutationError

PROGRAMS: list[Callable[[Any], Any]] = []


def program(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A program that is traced again lifted: its first statement decides by a traced value."""

    def lifted(x: Any) -> Any:
        if x[0] > 0:
            x = x + 1
        return f(x)

    lifted.__name__ = f.__name__
    PROGRAMS.append(lifted)
    return lifted


@program
def a_shape_that_is_filled(x: Any) -> Any:
    shape = np.zeros(2, dtype=int)
    shape[0], shape[1] = len(x), 2
    return x[:, None] * np.ones(tuple(shape))


@program
def a_shape_that_is_an_array(x: Any) -> Any:
    shape = np.array([len(x), 2])
    shape[1:] += 1
    return np.ones(shape) * x[0]


@program
def the_largest_of_some_shapes(x: Any) -> Any:
    shapes = np.ones((2, 2), dtype=int)
    shapes[0, 1:] = x.shape
    return np.broadcast_to(x, tuple(np.max(shapes, axis=0)))


@program
def axes_that_are_sorted(x: Any) -> Any:
    axes = np.atleast_1d([-1, 0])
    axes[axes < 0] += 2
    axes = np.sort(axes)
    if len(np.unique(axes)) != len(axes):
        raise ValueError("axes")
    return np.transpose(np.outer(x, x + 1), np.argsort(axes))


@program
def the_last_axis_by_an_array(x: Any) -> Any:
    order = np.arange(1)
    order[[0, -1]] = [-1, 0]
    return x.transpose(*order) * 2


@program
def a_decision_by_a_counter(x: Any) -> Any:
    count, total = np.zeros(1, int), x.sum()
    for _ in range(3):
        count[0] += 1
        if count[0] == 2:
            total = total * 2
    return total, count


@program
def a_mask_of_plain_numbers(x: Any) -> Any:
    mask = np.zeros(3, bool)
    mask[1:] = True
    return x[mask], x[~np.isnan(np.ones(3))]


@program
def a_number_that_a_branch_changes(x: Any) -> Any:
    count = np.zeros(1, int)
    if x[1] > 0:
        count[0] = 1
    if count[0] > 0:
        x = x * 2
    return x


@program
def a_number_that_a_loop_changes(x: Any) -> Any:
    count, odd = np.zeros(2, int), 0
    while np.abs(x[0]) < 10:
        x = x * 2
        count[0] += 1
        if count[0] % 2:
            odd += 1
    return count, odd


@program
def a_table_that_a_loop_reads(x: Any) -> Any:
    table = np.zeros(3)
    table[1] = 2.0
    for k in range(3):
        if table[k] > 1:
            x = x + table[k]
    return x


@program
def contiguous_memory(x: Any) -> Any:
    weights = np.zeros((3, 2))
    weights[0] = 2.0
    if not weights.flags.contiguous or weights.T.flags["C"]:
        raise ValueError("memory")
    return x @ weights


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("x", [[1.0, 2.0, 3.0], [-1.0, -2.0, 3.0]], ids=["positive", "negative"])
def test_what_no_argument_decides_is_known(f: Any, x: Any) -> None:
    x = np.array(x)
    want = ftrace.tree_util.tree_leaves(f(x))
    for found in (
        ftrace.jit(f)(x),
        ftrace.tree_util.tree_map(lambda y: y[0], ftrace.vmap(f)(x[None])),
        ftrace.jvp(f, (x,), (x,))[0],
    ):
        for got, expected in zip(ftrace.tree_util.tree_leaves(found), want, strict=True):
            np.testing.assert_allclose(got, expected)


SIZES = np.array([1, 2])


def sized(x: Any) -> Any:
    if x[0] > 0:
        x = x + 1
    sizes = np.zeros(2, int)
    sizes += SIZES
    return x[0] * np.ones(int(sizes[0]))


def test_a_captured_array_that_was_asked_is_compared_at_each_call() -> None:
    f = ftrace.jit(sized)
    assert f(np.ones(3)).shape == (1,)
    SIZES[0] = 4
    try:
        assert f(np.ones(3)).shape == (4,)
    finally:
        SIZES[0] = 1


def test_a_captured_array_that_changes_after_it_was_asked_is_refused() -> None:
    held = np.array([1, 2])

    def f(x: Any) -> Any:
        if x[0] > 0:
            x = x + 1
        table = np.zeros(2, int)
        table[:] = held
        n = int(table[0])
        _change(held)
        return x * n

    with pytest.raises(MutationError, match="was changed while"):
        ftrace.jit(ftrace.lift(f))(np.ones(3))


def _change(array: Any) -> None:
    memoryview(array)[0] = 7


def test_what_an_argument_decides_is_not_known() -> None:
    def f(x: Any) -> Any:
        if x[0] > 0:
            x = x + 1
        sizes = np.zeros(2, int)
        sizes[0] = x[0].astype(int)
        return np.ones(tuple(sizes))

    with pytest.raises(ConcretizationTypeError):
        ftrace.jit(f)(np.ones(3))


def test_a_callback_is_not_called_for_its_value() -> None:
    calls = []

    def told(n: Any) -> Any:
        calls.append(n)
        return n

    def f(x: Any) -> Any:
        if x[0] > 0:
            x = x + 1
        count = np.zeros(1, int)
        count[0] = 3
        n = ftrace.pure_callback(told, np.int64(0), count[0])
        return np.ones(n) * x[0]

    with pytest.raises(ConcretizationTypeError):
        ftrace.jit(f)(np.ones(3))
    assert not calls


def test_a_loop_that_may_not_end_is_not_run_for_its_value() -> None:
    def f(x: Any) -> Any:
        if x[0] > 0:
            x = x + 1
        count = np.zeros(1, int)
        count[0] = 3
        n = ftrace.lax.while_loop(lambda i: i < 5, lambda i: i + 1, count[0])
        return np.ones(n) * x[0]

    with pytest.raises(ConcretizationTypeError):
        ftrace.jit(f)(np.ones(3))


def test_large_constants_are_not_computed_while_tracing() -> None:
    def f(x: Any) -> Any:
        if x[0] > 0:
            x = x + 1
        return np.ones(int(np.sum(np.zeros(1 << 17)))) * x[0]

    with pytest.raises(ConcretizationTypeError):
        ftrace.jit(f)(np.ones(3))
