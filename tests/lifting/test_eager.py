"""Transformations that run the function on values lift on the same failures as `jit` does."""

import math

import numpy as np
import pytest

import ftrace
from ftrace.core.errors import (
    ConcretizationTypeError,
    LiftError,
    TracerArrayConversionError,
    TracerBoolConversionError,
)


def filled(x):
    out = np.zeros(3)
    for i in range(3):
        out[i] = x**i
    return out.sum()


def listed(x):
    return np.array([x, 2 * x, 1.0]).prod()


def turned(x):
    c, s = math.cos(x), math.sin(x)
    return (np.array([[c, -s], [s, c]]) @ np.array([1.0, 2.0]))[0]


def full(x):
    return np.full(3, x).prod()


def vectorized(x):
    return np.vectorize(lambda a: a * a if a > 0 else a)(np.array([1.0, 2.0]) * x).sum()


def converted(x):
    return float(x) ** 3


def by_a_helper(x):
    return 2 * turned(x) + (lambda v: math.sqrt(v))(x)


FUNCTIONS = {
    f.__name__: f for f in (filled, listed, turned, full, vectorized, converted, by_a_helper)
}
X = 0.7


def slope(f, order=1):
    h = 1e-4
    if order == 1:
        return (f(X + h) - f(X - h)) / (2 * h)
    return (f(X + h) - 2 * f(X) + f(X - h)) / h**2


def each(f):
    return lambda x: ftrace.vmap(f)(np.array([x, 2 * x]))[0]


FIRST = {
    "grad": ftrace.grad,
    "value_and_grad": lambda f: lambda x: ftrace.value_and_grad(f)(x)[1],
    "jvp": lambda f: lambda x: ftrace.jvp(f, (x,), (1.0,))[1],
    "jvp of two": lambda f: lambda x: ftrace.jvp(f, (x,), (np.array([0.0, 1.0]),))[1][1],
    "vjp": lambda f: lambda x: ftrace.vjp(f, x)[1](1.0)[0],
    "linearize": lambda f: lambda x: ftrace.linearize(f, x)[1](1.0),
    "jacfwd": ftrace.jacfwd,
    "jacrev": ftrace.jacrev,
    "vmap grad": lambda f: each(ftrace.grad(f)),
    "grad vmap": lambda f: ftrace.grad(each(f)),
    "jit grad": lambda f: ftrace.jit(ftrace.grad(f)),
}
SECOND = {
    "grad grad": lambda f: ftrace.grad(ftrace.grad(f)),
    "hessian": ftrace.hessian,
    "hvp": lambda f: lambda x: ftrace.hvp(f, (x,), (1.0,)),
    "vmap hessian": lambda f: each(ftrace.hessian(f)),
}


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_derivatives_of_what_numpy_and_math_do_not_trace(f):
    for name, transform in FIRST.items():
        for _ in range(2):
            np.testing.assert_allclose(transform(f)(X), slope(f), rtol=1e-5, err_msg=name)
    for name, transform in SECOND.items():
        np.testing.assert_allclose(transform(f)(X), slope(f, 2), rtol=1e-4, atol=1e-5, err_msg=name)


def test_programs_are_looked_at_lifted():
    def relu(x):
        return math.sin(x) if x > 0 else 0.0 * x

    assert "sin" in str(ftrace.make_jaxpr(relu)(1.0))
    assert ftrace.eval_shape(relu, 1.0).shape == ()
    twice = ftrace.linear_transpose(lambda x: np.array([x, 2 * x]).sum(), 1.0)
    assert twice(3.0) == (9.0,)
    with pytest.raises(TracerBoolConversionError):
        ftrace.make_jaxpr(relu, lift=False)(1.0)
    with pytest.raises(TracerArrayConversionError):
        ftrace.linear_transpose(lambda x: np.array([x, 2 * x]).sum(), 1.0, lift=False)


# ---------------------------------------------------------------------------------- how often


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_failure_runs_the_function_twice_at_any_depth_and_then_once(depth):
    runs = []

    def f(x):
        runs.append(x)
        return math.sin(x)

    f.__code__ = f.__code__.replace()  # of which nothing is recorded
    g = f
    for _ in range(depth):
        g = ftrace.grad(g)
    g(1.0)
    assert len(runs) == 2
    g(1.0)
    assert len(runs) == 3
    ftrace.grad(f)(1.0)  # the record is of the function
    assert len(runs) == 4


def test_what_cannot_be_lifted_fails_each_time_with_its_own_error():
    runs = []

    def f(x):
        runs.append(x)
        return memoryview(x)

    g = ftrace.grad(ftrace.grad(ftrace.grad(f)))
    for calls in (1, 2):
        with pytest.raises(TypeError, match="memoryview"):
            g(1.0)
        assert len(runs) == calls

    def shaped(x):
        runs.append(x)
        return np.zeros(x).sum()

    runs.clear()
    with pytest.raises(ConcretizationTypeError):
        ftrace.grad(ftrace.grad(ftrace.grad(shaped)))(3.0)
    assert len(runs) <= 4  # not twice at each level


def test_where_nothing_fails_nothing_is_lifted():
    runs = []

    def f(x):
        runs.append(x)
        return x * x if x > 0 else -x  # known under grad

    assert ftrace.jit(f)(-2.0) == 2.0  # recorded, for what stages
    runs.clear()
    assert ftrace.grad(f)(3.0) == 6.0
    assert "JVPTracer" in type(runs[0]).__name__
    assert len(runs) == 1


def test_a_captured_array_that_the_function_wrote_is_not_written_twice():
    counts = np.zeros(1)

    def f(x):
        counts[0] += 1
        return math.sin(x)

    for calls in (1, 2):
        with pytest.raises(LiftError, match="`counts`, a captured array"):
            ftrace.grad(f)(1.0)
        assert counts[0] == calls


# ---------------------------------------------------------------------------------- lift=False

REFUSED = {
    "grad": lambda f, **k: ftrace.grad(f, **k)(X),
    "value_and_grad": lambda f, **k: ftrace.value_and_grad(f, **k)(X),
    "jvp": lambda f, **k: ftrace.jvp(f, (X,), (1.0,), **k),
    "vjp": lambda f, **k: ftrace.vjp(f, X, **k),
    "linearize": lambda f, **k: ftrace.linearize(f, X, **k),
    "jacfwd": lambda f, **k: ftrace.jacfwd(f, **k)(X),
    "jacrev": lambda f, **k: ftrace.jacrev(f, **k)(X),
    "hessian": lambda f, **k: ftrace.hessian(f, **k)(X),
    "hvp": lambda f, **k: ftrace.hvp(f, (X,), (1.0,), **k),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_lift_false_leaves_the_error(call):
    def f(x):
        return math.sin(x)

    with pytest.raises(TracerArrayConversionError, match="lift=False"):
        call(f, lift=False)
    call(f)
    with pytest.raises(TracerArrayConversionError, match="lift=False"):
        call(f, lift=False)
    with ftrace.config.update(lift=False), pytest.raises(TracerArrayConversionError):
        call(f)
    with pytest.raises(TracerArrayConversionError):
        ftrace.jit(lambda x: call(f, lift=False))(X)


# ---------------------------------------------------------------------------------- loops


def relu_step(c, x):
    if x > c:
        c = c + x
    return c, c * 2


def sinking(c):
    if c > 3.0:
        return c - 3.0
    return c - 1.0


def larger(a, b):
    return a if a > b else b


ROW = np.array([1.0, -1.0, 3.0, 2.0])
LOOPS = {
    "scan": (lambda: ftrace.lax.scan(relu_step, 0.5, ROW)[0], 4.5),
    "map": (lambda: ftrace.lax.map(lambda x: x if x > 0 else -x, ROW).sum(), 7.0),
    "map of blocks": (lambda: ftrace.lax.map(abs_, ROW, batch_size=3).sum(), 7.0),
    "fori_loop": (lambda: ftrace.lax.fori_loop(0, 3, lambda i, c: sinking(c), 8.5), 1.5),
    "while_loop": (lambda: ftrace.lax.while_loop(positive, body_fun=sinking, init_val=8.5), -0.5),
    "cond": (lambda: ftrace.lax.cond(True, sinking, lambda c: c, 8.5), 5.5),
    "switch": (lambda: ftrace.lax.switch(4, [lambda c: c] * 4 + [sinking], 8.5), 5.5),
    "reduce": (lambda: ftrace.lax.reduce(ROW, -5.0, larger, (0,)), 3.0),
    "closure_convert": (lambda: ftrace.closure_convert(sinking, 8.5)[0](8.5), 5.5),
    "in grad": (lambda: ftrace.grad(lambda x: ftrace.lax.scan(relu_step, x, ROW)[0])(0.5), 1.0),
    "in a loop": (
        lambda: ftrace.lax.map(lambda x: ftrace.lax.cond(x > 0, sinking, abs_, x), ROW)[2],
        2.0,
    ),
    "types": (lambda: ftrace.lax.fori_loop(0, 2, typed, 1.0), 9.0),
}


def abs_(x):
    return x if x > 0 else -x


def positive(c):
    return c > 0 and not c < 0


def typed(i, c):
    return c * 3 if type(c) is np.float64 else c * 2


@pytest.mark.parametrize("name", LOOPS)
def test_loops_outside_of_transformations_lift_what_they_stage(name):
    call, right = LOOPS[name]
    for _ in range(2):
        assert call() == right


def test_a_loop_is_left_alone_where_nothing_may_be_lifted():
    def f(c, x):
        return (c + x if x > c else c), None

    with ftrace.config.update(lift=False), pytest.raises(TracerBoolConversionError):
        ftrace.lax.scan(f, 0.5, ROW)
    with pytest.raises(TracerBoolConversionError):
        ftrace.grad(lambda x: ftrace.lax.scan(f, x, ROW)[0], lift=False)(0.5)
