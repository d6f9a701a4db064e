"""`jit` and `vmap` lift by themselves: when, how often, and what they say when they cannot."""

import functools
import math
import subprocess
import sys
import threading

import numpy as np
import pytest

import ftrace
from ftrace.control.traces import counter
from ftrace.core.errors import (
    LiftError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)

X = np.array([1.5, -2.0])


def relu(x):
    return x if x > 0 else 0.1 * x


def newton(x):
    z = x
    while abs(z * z - x) > 1e-12:
        z = 0.5 * (z + x / z)
    return z


# ---------------------------------------------------------------------------------- values


def test_jit_lifts_a_branch():
    assert [ftrace.jit(relu)(x) for x in X] == [relu(x) for x in X]


def test_vmap_lifts_a_branch_and_a_loop():
    np.testing.assert_array_equal(ftrace.vmap(relu)(X), [relu(x) for x in X])
    np.testing.assert_allclose(ftrace.vmap(newton)(np.array([2.0, 9.0])), [2**0.5, 3.0])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: ftrace.jit(ftrace.vmap(ftrace.grad(f))),
        lambda f: ftrace.vmap(ftrace.jit(ftrace.grad(f))),
        lambda f: ftrace.vmap(ftrace.grad(ftrace.jit(f))),
        lambda f: ftrace.jit(lambda x: ftrace.vmap(ftrace.grad(f))(x)),
        lambda f: ftrace.jit(ftrace.vmap(ftrace.grad(functools.partial(f)))),
        lambda f: ftrace.jacrev(lambda x: ftrace.vmap(f)(x).sum()),
        lambda f: ftrace.jit(ftrace.jacrev(lambda x: ftrace.vmap(f)(x).sum())),
    ],
)
def test_transformations_are_looked_through(wrap):
    def f(x):
        return math.sin(x) if x > 0 else x * x

    np.testing.assert_allclose(wrap(f)(X), [math.cos(1.5), -4.0])


def test_a_hessian_of_a_jitted_function():
    def f(x):
        return x**3 if x > 0 else -(x**2)

    assert ftrace.hessian(ftrace.jit(f))(2.0) == 12.0
    assert ftrace.hessian(f, lift=True)(-2.0) == -2.0


def test_methods_partials_and_callables_are_lifted():
    class Model:
        def __init__(self, slope):
            self.slope = slope

        def __call__(self, x):
            return self.predict(x, 2.0)

        def predict(self, x, factor):
            return x * factor if x > 0 else self.slope * x

        @ftrace.jit
        def jitted(self, x):
            return self.predict(x, 3.0)

    model = Model(0.1)
    np.testing.assert_allclose(ftrace.vmap(model)(X), [3.0, -0.2])
    assert ftrace.jit(model.predict)(-1.0, 5.0) == -0.1
    np.testing.assert_allclose(
        ftrace.vmap(functools.partial(model.predict, factor=4.0))(X), [6, -0.2]
    )


def test_builtins_are_lifted_themselves():
    assert ftrace.jit(math.sin)(0.5) == math.sin(0.5)
    assert ftrace.jit(functools.partial(math.pow, 2.0))(2.0) == 4.0
    assert type(ftrace.jit(float)(2)) is float
    np.testing.assert_array_equal(ftrace.vmap(int)(np.array([1.5, -2.5])), [1, -2])


def test_static_arguments_stay_python():
    @functools.partial(ftrace.jit, static_argnums=1, static_argnames="mode")
    def f(x, n, mode="up"):
        out = x
        for _ in range(n):
            out = math.sin(out) if mode == "up" else -out
        return out if x > 0 else 0.0 * x

    assert f(0.5, 2) == math.sin(math.sin(0.5))
    assert f(0.5, 3, mode="down") == -0.5


@pytest.mark.parametrize("transform", [ftrace.checkpoint, ftrace.jit])
def test_helpers_behind_other_wrappers_are_lifted(transform):
    helper = transform(relu)

    def f(x):
        return helper(x) * math.exp(x)

    np.testing.assert_allclose(ftrace.jit(ftrace.grad(f))(-1.0), 0.0, atol=1e-16)


# ---------------------------------------------------------------------------------- how often


def test_tracing_happens_twice_once_and_then_never():
    ran = []

    def f(x):
        ran.append(len(ran))
        return x if x > 0 else -x

    g = ftrace.jit(f)
    assert g(1.0) == 1.0
    assert ran == [0, 1]
    assert g(-2.0) == 2.0
    assert ran == [0, 1]
    g(np.float32(1.0))  # a new signature starts lifted
    assert ran == [0, 1, 2]


def test_the_record_is_of_the_function_not_of_the_wrapper():
    ran = []

    def f(x):
        ran.append(len(ran))
        return x if x > 0 else -x

    ftrace.vmap(f)(X)
    assert ran == [0, 1]
    ftrace.vmap(f)(X)
    ftrace.jit(ftrace.grad(f))(1.0)
    assert ran == [0, 1, 2, 3]


def test_nested_transformations_restart_once():
    ran = []

    def f(x):
        ran.append("f")
        return x if x > 0 else -x

    def outer(x):
        ran.append("outer")
        return ftrace.vmap(f)(x).sum()

    assert ftrace.jit(outer)(X) == 3.5
    assert ran == ["outer", "f", "outer", "f"]


def test_the_second_call_of_a_lifted_function_traces_nothing():
    f = ftrace.jit(ftrace.vmap(ftrace.grad(relu)))
    f(X)
    before = counter.count
    f(X)
    f(-X)
    assert counter.count == before


def test_effects_of_the_first_attempt_are_not_kept(capsys):
    def g(x):
        ftrace.debug.print("g")
        return x if x > 0 else -x

    @ftrace.jit
    def f(x):
        ftrace.debug.print("f")
        return ftrace.vmap(g)(x)

    f(X)
    shown = capsys.readouterr().out.split()
    f(X)
    again = capsys.readouterr().out.split()
    assert shown == again
    assert shown.count("f") == 1


def test_lifting_is_loaded_when_something_is_lifted():
    code = """
import sys, numpy as np, ftrace
assert ftrace.jit(ftrace.vmap(ftrace.grad(lambda x: x * x)))(np.ones(2))[0] == 2.0
assert not {"ftrace.lifting.lifted_calls", "ftrace.lifting.syntax.rewriting"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_functions_that_need_nothing_run_once():
    ran = []

    def f(x):
        ran.append(0)
        return np.sin(x)

    ftrace.jit(f)(1.0)
    ftrace.vmap(f)(X)
    assert len(ran) == 2


def test_other_threads_are_not_lifted_meanwhile():
    found = []

    def other():
        found.append(ftrace.core.trace.ctx.lift)

    def f(x):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return x if x > 0 else -x

    ftrace.jit(f)(1.0)
    assert found == [None, None]


# ---------------------------------------------------------------------------------- switched off


@pytest.mark.parametrize("transform", [ftrace.jit, ftrace.vmap])
def test_lift_false_leaves_the_error(transform):
    with pytest.raises(TracerBoolConversionError, match=r"ftrace\.lift") as caught:
        transform(relu, lift=False)(X if transform is ftrace.vmap else 1.0)
    for way in ("lax.cond", "numpy.where", "static", "ftrace.lift(f)"):
        assert way in str(caught.value)


def test_lift_false_holds_for_what_is_inside():
    with pytest.raises(TracerBoolConversionError):
        ftrace.jit(lambda x: ftrace.vmap(relu)(x), lift=False)(X)


def test_the_setting_switches_it_off_everywhere():
    with ftrace.config.update(lift=False):
        with pytest.raises(TracerBoolConversionError):
            ftrace.jit(lambda x: x if x > 0 else -x)(1.0)
        assert ftrace.jit(ftrace.lift(lambda x: x if x > 0 else -x))(-1.0) == 1.0


def test_an_asked_for_lift_holds_inside_lift_false():
    assert ftrace.jit(ftrace.lift(relu), lift=False)(-1.0) == relu(-1.0)


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda x: np.array([x, 1.0]), TracerArrayConversionError, "ftrace.lift"),
        (lambda x: math.sin(x), TracerArrayConversionError, "ftrace.lift"),
        (lambda x: np.zeros(int(x)), TracerIntegerConversionError, "static_argnums"),
    ],
)
def test_the_errors_name_both_ways(f, error, words):
    with pytest.raises(error, match=words):
        ftrace.jit(f, lift=False)(1.0)


# ---------------------------------------------------------------------------------- failures


def test_a_function_that_wrote_to_a_captured_array_is_not_restarted():
    counts = np.zeros(2)

    def f(x):
        counts[0] += 1
        return x if x > 0 else -x

    for calls in (1, 2):
        with pytest.raises(LiftError, match="`counts`, a captured array") as caught:
            ftrace.jit(f)(1.0)
        assert counts.tolist() == [calls, 0]
        assert isinstance(caught.value.__cause__, TracerBoolConversionError)
    assert ftrace.jit(ftrace.lift(f))(-1.0) == 1.0
    assert counts.tolist() == [3, 0]


def test_an_array_that_a_partial_function_wrote():
    counts = np.zeros(1)

    def f(factor, x):
        counts[0] += 1
        return factor * (x if x > 0 else -x)

    with pytest.raises(LiftError, match="`counts`"):
        ftrace.jit(functools.partial(f, 2.0))(1.0)


def test_a_jitted_partial_sees_a_rebound_name():
    factor = 2.0

    def f(a, x):
        return a * x * factor

    g = ftrace.jit(functools.partial(f, 3.0))
    assert g(1.0) == 6.0
    factor = 5.0
    assert g(1.0) == 15.0


def test_an_array_of_the_object_counts_as_captured():
    class Counting:
        def __init__(self):
            self.counts = np.zeros(1)

        def step(self, x):
            self.counts += 1
            return x if x > 0 else -x

    with pytest.raises(LiftError, match=r"`self\.counts`, a captured array"):
        ftrace.vmap(Counting().step)(X)


def test_an_error_after_the_restart_is_the_users():
    def f(x):
        y = x if x > 0 else -x
        raise ValueError(f"mine: {y.shape}")

    with pytest.raises(ValueError, match="mine") as caught:
        ftrace.jit(f)(1.0)
    assert caught.value.__context__ is None
    frames = [frame.name for frame in caught.traceback]
    assert frames[-1] == "f"


def test_what_lifting_cannot_help_keeps_its_error_each_time():
    def f(x):
        return np.zeros(x) if x > 0 else np.zeros(2)

    for _ in range(2):
        with pytest.raises((TracerIntegerConversionError, LiftError)) as caught:
            ftrace.jit(f)(1)
        assert "test_restart.py" in str(caught.value)
        assert caught.value.__cause__ is None


def test_an_error_of_lifting_keeps_its_cause():
    def f(x):
        y = x if x > 0 else -x
        raise LiftError(f"mine: {y.shape}", "Help.") from KeyError("why")

    with pytest.raises(LiftError, match="mine") as caught:
        ftrace.jit(f)(1.0)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_caught_failure_restarts_all_the_same():
    def f(x):
        try:
            return x if x > 0 else -x
        except TracerBoolConversionError:
            return 10.0 * x

    assert ftrace.jit(f)(-2.0) == 2.0
