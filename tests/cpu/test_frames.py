"""Calls with rows of Python inside: what lives on between calls, and what NumPy says."""

import gc
import threading
import warnings
import weakref

import numpy as np
import pytest

from ftrace.core import source
from ftrace.core.trace import EVAL, ctx
from ftrace.cpu.runtime.native_launch import KEPT_ARENA, KEPT_FRAMES, NativeProgram, compile_program
from tests.cpu.programs import X, compiled, planned, row

ANGRY = row(lambda x: np.log(x * 1))  # it warns of negative numbers


def sorted_twice(x):
    return np.sort(np.sort(x * 2.0)[::-1] + 1.0) * 0.5


def test_scratch_memory_is_used_again_and_results_are_not():
    run = compiled(sorted_twice, X)
    first = run([X])[0]
    kept = first.copy()
    frames = list(run._frames)
    second = run([-X])[0]
    assert run._frames == frames
    np.testing.assert_array_equal(first, kept)
    np.testing.assert_array_equal(second, sorted_twice(-X))


def test_arrays_of_a_call_are_forgotten_after_it():
    run = compiled(sorted_twice, X)
    x = X.copy()
    gone = weakref.ref(x), weakref.ref(run([x])[0])
    del x
    gc.collect()
    assert [g() for g in gone] == [None, None]


def test_large_scratch_memory_is_given_back():
    x = np.ones(KEPT_ARENA // 8)
    run = compiled(sorted_twice, x)
    run([x])
    assert not run._frames


def test_a_call_inside_a_call_has_scratch_memory_of_its_own():
    depth = []

    def again(x):
        depth.append(1)
        inside = run([x * 0.5])[0] if len(depth) < 8 else x
        return x + inside

    program = planned(lambda x: np.sort(row(again)(x * 2.0)) + np.sort(-x), X)[1]
    run = compile_program(program)
    assert type(run) is NativeProgram
    got = run([X])[0]

    def expected(x, n):
        doubled = x * 2.0
        inside = expected(doubled * 0.5, n + 1) if n < 8 else doubled
        return np.sort(doubled + inside) + np.sort(-x)

    np.testing.assert_allclose(got, expected(X, 1))
    assert len(run._frames) == KEPT_FRAMES


def test_a_call_that_fails_leaves_nothing_behind():
    def fails(x):
        if x[0, 0] < 0:
            raise ValueError("negative")
        return x * 1

    run = compiled(lambda x: np.sort(row(fails)(x * 2.0)) + 1.0, X + 1)
    before, state = source.here.place, np.geterr()
    for _ in range(3):
        with pytest.raises(ValueError, match="negative"):
            run([X - 1])
        assert (ctx.trace, source.here.place, np.geterr()) == (EVAL, before, state)
        np.testing.assert_array_equal(run([X + 1])[0], np.sort(X * 2.0 + 2.0) + 1.0)
    assert len(run._frames) == 1


def test_threads_do_not_share_scratch_memory():
    run = compiled(lambda x: np.sort(row(lambda x: x * 1)(x * 2.0)) + 1.0, X)
    wrong = []

    def work(i):
        expected = np.sort((X + i) * 2.0) + 1.0
        wrong.extend(i for _ in range(100) if (run([X + i])[0] != expected).any())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize(
    "fn", [lambda x: ANGRY(x) + 1.0, lambda x: ANGRY(x), lambda x: ANGRY(ANGRY(x) + 1.0)]
)
def test_numpy_does_not_warn_inside_and_warns_afterwards(fn):
    run = compiled(fn, X)
    state = np.geterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(run([X - 1])[0]).any()
    assert np.geterr() == state
    with pytest.warns(RuntimeWarning, match="invalid value"):
        np.sqrt(X - 1)


@pytest.mark.parametrize("fn", [lambda x: ANGRY(x) + 1.0, lambda x: ANGRY(x)])
def test_who_wants_errors_of_numpy_gets_them(fn):
    run = compiled(fn, X)
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError, match="invalid value"):
        run([X - 1])
    with np.errstate(invalid="raise", divide="ignore"):
        before = np.geterr()
        run([X + 1])
        assert np.geterr() == before
