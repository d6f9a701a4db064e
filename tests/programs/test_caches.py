"""What is traced and run how often: counted."""

import gc
import weakref

import numpy as np
import pytest

import ftrace
from ftrace.control.traces import counter
from ftrace.cpu.runtime import native_launch
from tests.counting import CountedSin


def through_jit(f):
    return ftrace.jit(f)


def through_cond(f):
    return lambda x: ftrace.lax.cond(np.bool_(True), f, lambda y: y, x)


def through_custom_jvp(f):
    g = ftrace.custom_jvp(f)
    g.defjvp(lambda p, t: ftrace.jvp(f, p, t))
    return g


def through_custom_vjp(f):
    g = ftrace.custom_vjp(f)
    g.defvjp(lambda x: ftrace.vjp(f, x), lambda pull, ct: pull(ct))
    return g


def through_custom_vjp_by_hand(f):
    g = ftrace.custom_vjp(f)
    g.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * (np.cos(x) * x + np.sin(x)),))
    return g


VARIANTS = {
    "plain": (lambda f: f, 1),
    "jit": (through_jit, 1),
    "cond": (through_cond, 1),
    "checkpoint": (ftrace.checkpoint, 2),
    "custom_jvp": (through_custom_jvp, 1),
    "custom_vjp": (through_custom_vjp_by_hand, 1),
    "jit of jit": (lambda f: ftrace.jit(ftrace.jit(f)), 1),
    "cond of jit": (lambda f: through_cond(ftrace.jit(f)), 1),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_grad_runs_the_known_primal_the_expected_number_of_times(name):
    variant, expected = VARIANTS[name]
    counted = CountedSin()
    f = variant(lambda x: counted.row(x) * x)
    gradient = ftrace.grad(lambda x: np.sum(f(x) * np.array([1.0, 2.0, 3.0])))
    x = np.array([0.3, 0.7, -0.4])
    np.testing.assert_allclose(gradient(x), (np.cos(x) * x + np.sin(x)) * [1, 2, 3])
    assert counted.runs == expected


def test_jvp_through_checkpoint_runs_the_primal_once():
    counted = CountedSin()
    f = ftrace.checkpoint(lambda x: counted.row(x) * x)
    ftrace.jvp(f, (2.0,), (1.0,))
    assert counted.runs == 1


def traced_by(action):
    before = counter.count
    action()
    return counter.count - before


def test_grad_of_jit_twice_traces_once():
    f = ftrace.jit(lambda x: np.sum(np.sin(x) * x))
    x = np.ones(3)
    assert traced_by(lambda: ftrace.grad(f)(x)) == 1
    assert traced_by(lambda: ftrace.grad(f)(x)) == 0


def test_a_new_jit_of_the_same_function_finds_its_trace():
    def f(x):
        return np.sum(np.sin(x) * x)

    assert traced_by(lambda: ftrace.jit(f)(np.ones(3))) == 1
    assert traced_by(lambda: ftrace.jit(f)(np.ones(3))) == 0
    assert traced_by(lambda: ftrace.jit(ftrace.grad(f))(np.ones(3))) == 1
    assert traced_by(lambda: ftrace.jit(ftrace.grad(f))(np.ones(3))) == 0


def test_nested_transformations_of_a_jitted_function_derive_their_jaxprs_once():
    f = ftrace.jit(lambda x: np.sin(x) * x)
    x = np.float64(0.5)
    second = ftrace.grad(ftrace.grad(f))
    second(x)
    jaxpr = f.trace(x)
    derived = len(jaxpr.cache)
    second(x)
    ftrace.vmap(ftrace.grad(f))(np.ones(2))
    mapped = len(jaxpr.cache)
    ftrace.vmap(ftrace.grad(f))(np.ones(2))
    assert len(f.trace(x).cache) == mapped >= derived


def test_a_jit_that_captured_a_tracer_is_traced_each_time_and_right():
    def outer(x):
        return np.sum(ftrace.jit(lambda y: y * x * np.array([1.0, 2.0, 3.0]))(x))

    for _ in range(2):
        np.testing.assert_allclose(
            ftrace.grad(outer)(np.array([1.5, 1.75, -2 / 3])), [3.0, 7.0, -4.0]
        )


def test_a_different_shape_dtype_or_static_argument_is_another_trace():
    f = ftrace.jit(lambda x, n: x * n, static_argnums=1)
    assert traced_by(lambda: f(np.ones(3), 2)) == 1
    assert traced_by(lambda: f(np.ones(4), 2)) == 1
    assert traced_by(lambda: f(np.ones(4, np.float32), 2)) == 1
    assert traced_by(lambda: f(np.ones(4), 3)) == 1
    assert traced_by(lambda: f(np.ones(4), 3)) == 0


def test_rebinding_a_closure_cell_costs_one_trace():
    scale = 2.0
    f = ftrace.jit(lambda x: x * scale)
    assert f(3.0) == 6.0
    scale = 4.0
    assert traced_by(lambda: f(3.0)) == 1
    assert f(3.0) == 12.0
    assert traced_by(lambda: f(3.0)) == 0


def test_a_dropped_function_leaves_no_trace_behind():
    def make():
        def f(x):
            return np.sin(x) * x

        ftrace.jit(f)(1.0)
        ftrace.grad(ftrace.jit(f))(1.0)
        return weakref.ref(f)

    reference = make()
    gc.collect()
    assert reference() is None


WEIGHTS = np.arange(6.0).reshape(2, 3)


def test_attributes_that_are_new_objects_each_time_cost_no_retrace():
    f = ftrace.jit(lambda x: x @ WEIGHTS.T + WEIGHTS.shape[0] * WEIGHTS.real.sum())
    assert traced_by(lambda: f(np.ones(3))) == 1
    assert traced_by(lambda: f(np.ones(3))) == 0


def test_nested_wrappers_keep_their_own_functions():
    f = ftrace.jit(lambda x: x * x * x)
    second = ftrace.jit(ftrace.grad(ftrace.jit(ftrace.grad(f))))
    assert second(2.0) == 12.0
    assert ftrace.grad(second)(2.0) == 6.0


def test_a_function_keeps_so_many_traces_and_drops_those_not_used_for_longest():
    f = ftrace.jit(lambda x, n: x * n, static_argnums=1)
    traced = []

    def call(n):
        before = counter.count
        assert f(2.0, n) == 2.0 * n
        traced.append(counter.count - before)

    with ftrace.config.update(kept_traces=3):
        for n in (1, 2, 3, 1, 4):  # drops 2, since 1 was used again
            call(n)
        assert traced == [1, 1, 1, 0, 1]
        for n in (1, 3, 4, 2):
            call(n)
        assert traced[5:] == [0, 0, 0, 1]
        shapes = ftrace.jit(np.sin)
        for n in range(1, 9):
            shapes(np.ones(n))
    assert len(f._traces._entries) == len(shapes._traces._entries) == 3


def test_compiled_code_dies_with_its_function_or_its_trace():
    def codes():
        native_launch._recent.clear()
        gc.collect()
        return set(native_launch._modules)

    before = codes()
    f = ftrace.jit(lambda x, n: np.tanh(x) * np.cosh(x) ** n, static_argnums=1)
    with ftrace.config.update(compile=True, kept_traces=1):
        f(2.0, 2)
        first = codes() - before
        f(2.0, 5)
        second = codes() - before
        f(2.0, 5)
    assert len(first) == len(second) == 1
    assert first != second
    del f
    assert codes() == before
