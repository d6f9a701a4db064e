"""Perturbation confusion: nested derivatives whose right answers differ from every mix-up.

Each program has an asymmetric answer: taking a tangent of the wrong level, or losing one, gives
another number. Derivatives are taken in every mode, outside and inside, in every pair.
"""

import gc
import threading
from functools import partial

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace.core.errors import UnexpectedTracerError
from ftrace.core.trace import Tracer


def by_grad(f, x):
    return ftrace.grad(f)(x)


def by_jvp(f, x):
    return ftrace.jvp(f, (x,), (1.0,))[1]


def by_vjp(f, x):
    return ftrace.vjp(f, x)[1](1.0)[0]


def by_linearize(f, x):
    return ftrace.linearize(f, x)[1](1.0)


def by_vmap(f, x):
    points = fnp.stack([x * 1.0, x + 0.5])
    return ftrace.vmap(ftrace.grad(f))(points)[0]


def by_vmapped_jvp(f, x):
    points = fnp.stack([x - 0.5, x * 1.0])
    return ftrace.vmap(lambda p: ftrace.jvp(f, (p,), (1.0,))[1])(points)[1]


def by_grad_of_jit(f, x):
    return ftrace.grad(ftrace.jit(f))(x)


def by_jit_of_grad(f, x):
    return ftrace.jit(ftrace.grad(f))(x)


def by_custom_jvp(f, x):
    g = ftrace.custom_jvp(f)
    g.defjvp(lambda p, t: ftrace.jvp(f, p, t))
    return ftrace.grad(g)(x)


def by_custom_vjp(f, x):
    g = ftrace.custom_vjp(f)
    g.defvjp(lambda y: (f(y), ftrace.grad(f)(y)), lambda d, ct: (ct * d,))
    return ftrace.grad(g)(x)


def by_checkpoint(f, x):
    return ftrace.grad(ftrace.checkpoint(f))(x)


def by_jacfwd(f, x):
    return ftrace.jacfwd(f)(x)


def by_cond(f, x):
    return ftrace.grad(lambda y: ftrace.lax.cond(y > -1e9, f, lambda z: 0.0 * z, y))(x)


MODES = {
    "grad": by_grad,
    "jvp": by_jvp,
    "vjp": by_vjp,
    "linearize": by_linearize,
    "vmap": by_vmap,
    "vmap-jvp": by_vmapped_jvp,
    "grad-jit": by_grad_of_jit,
    "jit-grad": by_jit_of_grad,
    "custom_jvp": by_custom_jvp,
    "custom_vjp": by_custom_vjp,
    "checkpoint": by_checkpoint,
    "jacfwd": by_jacfwd,
    "cond": by_cond,
}
modes = pytest.mark.parametrize("outer", MODES)
inner_modes = pytest.mark.parametrize("inner", MODES)

# program(d, x) uses d(f, x) for the inner derivative; the second entry is its exact derivative
PROGRAMS = {
    "product of x and an inner slope": (
        lambda d, x: x * d(lambda y: x * y * y, x + 1.0),  # 2 x^2 (x + 1)
        lambda x: 6 * x**2 + 4 * x,
    ),
    "slope of a sum, the classic": (
        lambda d, x: x * d(lambda y: x + y, 1.0) * 3.0,  # 3 x
        lambda x: 3.0,
    ),
    "an inner function that ignores its own variable's level": (
        lambda d, x: x * d(lambda y: np.sin(x) * y, x),  # x sin x
        lambda x: np.sin(x) + x * np.cos(x),
    ),
    "inner slope at a point that depends on x": (
        lambda d, x: d(lambda y: y**3 * x, 2.0 * x),  # 12 x^3
        lambda x: 36 * x**2,
    ),
    "two different inner slopes": (
        lambda d, x: d(lambda y: x * y**2, 3.0) * d(lambda z: z * np.exp(x), 1.0),  # 6 x e^x
        lambda x: 6 * np.exp(x) * (1 + x),
    ),
}


@pytest.mark.sampled(3, each="program")
@modes
@inner_modes
@pytest.mark.parametrize("program", PROGRAMS)
def test_nested_derivatives_in_every_pair_of_modes(outer, inner, program):
    body, derivative = PROGRAMS[program]
    x = 1.25
    value = MODES[outer](partial(body, MODES[inner]), x)
    np.testing.assert_allclose(value, derivative(x), rtol=1e-12)


@modes
def test_three_levels_deep(outer):
    d = by_jvp

    def f(x):
        return x * d(lambda y: y * ftrace.grad(lambda z: x * y * z * z)(x + y), 2.0 * x)

    # the innermost slope is 2 x y (x + y); the middle one, of 2 x y^2 (x + y), at y = 2x: 32 x^3
    np.testing.assert_allclose(MODES[outer](f, 0.7), 4 * 32 * 0.7**3, rtol=1e-12)


@modes
def test_grad_of_grad_of_grad_is_the_third_derivative(outer):
    f = MODES[outer]
    third = f(lambda x: by_grad(lambda y: by_jvp(lambda z: np.sin(z) * z, y), x), 1.3)
    np.testing.assert_allclose(third, -3 * np.sin(1.3) - 1.3 * np.cos(1.3), rtol=1e-12)


class Shifted:
    """A callable object that carries a traced value."""

    def __init__(self, shift):
        self.shift = shift

    def __call__(self, y):
        return self.shift + y


@modes
@inner_modes
def test_a_callable_object_that_carries_the_outer_variable(outer, inner):
    value = MODES[outer](lambda x: x * MODES[inner](Shifted(x), 1.0), 1.0)
    np.testing.assert_allclose(value, 1.0)


@pytest.mark.parametrize("inner", ["grad", "jvp", "vjp", "vmap", "grad-jit", "checkpoint"])
def test_a_closure_that_keeps_an_inner_variable_is_refused(inner):
    """Reassigning an outer variable inside the inner derivative lets a dead tracer escape."""

    def f(x):
        kept = x

        def g(y):
            nonlocal kept
            kept = kept * y
            return kept * 1.0

        return x * MODES[inner](g, 2.0) + kept

    with pytest.raises(UnexpectedTracerError):
        ftrace.grad(f)(1.0)


def test_lagrangian_and_hamiltonian_of_an_oscillator_agree():
    """dH/dq from the Legendre transform of a Lagrangian: derivatives of a derivative's inverse."""
    mass, stiffness = 2.0, 3.0

    def lagrangian(q, v):
        return 0.5 * mass * v * v - 0.5 * stiffness * q * q

    def hamiltonian(q, p):
        v = p / mass
        momentum = ftrace.grad(lagrangian, 1)(q, v)
        return momentum * v - lagrangian(q, v)

    dq, dp = ftrace.grad(hamiltonian, (0, 1))(0.7, 1.1)
    np.testing.assert_allclose([dq, dp], [stiffness * 0.7, 1.1 / mass])


def test_a_derivative_at_a_point_does_not_see_the_outer_variable_through_a_returned_function():
    """Manzyuk's higher-order case: the inner derivative of a function-returning function."""

    def shift(offset):
        return lambda f: lambda x: f(x + offset)

    def derivative_of_shift(f, y):
        return ftrace.jvp(lambda offset: shift(offset)(f)(y), (0.0,), (1.0,))[1]

    # d/do f(y + o) at o = 0, applied twice, is the second derivative
    second = derivative_of_shift(lambda z: derivative_of_shift(np.exp, z), 0.5)
    np.testing.assert_allclose(second, np.exp(0.5))


def test_vmap_inside_vmap_over_different_axes():
    x = np.arange(6.0).reshape(2, 3)
    got = ftrace.vmap(lambda row: ftrace.vmap(lambda a: a * row.sum() + row[0])(row))(x)
    np.testing.assert_allclose(got, x * x.sum(1, keepdims=True) + x[:, :1])


def test_vmap_of_a_function_that_closes_over_an_outer_mapped_value():
    x, y = np.array([1.0, 2.0]), np.array([10.0, 20.0, 30.0])
    got = ftrace.vmap(lambda a: ftrace.vmap(lambda b: a * b + a)(y))(x)
    np.testing.assert_allclose(got, x[:, None] * y + x[:, None])


def test_a_leaked_tracer_is_refused_when_used_returned_or_differentiated_again():
    leaked = []
    ftrace.grad(lambda x: (leaked.append(x), x * x)[1])(3.0)
    for use in (
        lambda: leaked[0] + 1.0,
        lambda: np.sin(leaked[0]),
        lambda: ftrace.grad(lambda x: x * leaked[0])(1.0),
        lambda: ftrace.jit(lambda x: x * leaked[0])(1.0),
        lambda: ftrace.vmap(lambda x: x * leaked[0])(np.ones(2)),
        lambda: ftrace.grad(lambda x: leaked[0])(1.0),
        lambda: ftrace.jvp(lambda x: leaked[0], (1.0,), (1.0,)),
    ):
        with pytest.raises(UnexpectedTracerError):
            use()


@pytest.mark.parametrize(
    "transform",
    [
        ftrace.grad,
        ftrace.jit,
        lambda f: lambda x: ftrace.vmap(f)(np.array([x])),
        lambda f: lambda x: ftrace.jvp(f, (x,), (1.0,)),
        lambda f: lambda x: ftrace.vjp(f, x),
        lambda f: ftrace.grad(ftrace.checkpoint(f)),
        lambda f: lambda x: ftrace.make_jaxpr(f)(x),
    ],
)
def test_a_function_that_raises_leaves_no_trace_behind(transform):
    def f(x):
        np.sin(x)
        raise KeyError("the user's own")

    for _ in range(3):
        with pytest.raises(KeyError):
            transform(f)(1.0)
    assert ftrace.core.trace.ctx.trace is ftrace.core.trace.EVAL
    np.testing.assert_allclose(ftrace.grad(lambda x: x * x)(3.0), 6.0)


def test_each_thread_has_its_own_current_trace():
    results, errors = {}, []

    def work(k):
        try:
            for _ in range(50):
                results[k] = ftrace.grad(lambda x: ftrace.jit(np.sin)(x * k))(0.3)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in (1.0, 2.0, 3.0)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    for k, v in results.items():
        np.testing.assert_allclose(v, k * np.cos(0.3 * k))


def test_a_thread_started_inside_a_transformed_function_is_told_so():
    caught = []

    def f(x):
        def work():
            try:
                np.sin(x)
            except UnexpectedTracerError as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x * x

    assert ftrace.grad(f)(3.0) == 6.0
    assert "another thread" in str(caught[0])


def test_a_generator_that_outlives_its_transformation_is_refused():
    def values(x):
        yield x * 2.0
        yield x * 3.0

    kept = []

    def f(x):
        kept.append(values(x))
        return next(kept[0])

    assert ftrace.grad(f)(1.0) == 2.0
    with pytest.raises(UnexpectedTracerError):
        next(kept[0])


def test_a_generator_consumed_inside_its_transformation_works():
    def f(x):
        return sum(v for v in (x * k for k in (1.0, 2.0, 3.0)))

    assert ftrace.grad(f)(1.0) == 6.0


def tracers_in_memory():
    gc.collect()
    return {id(o) for o in gc.get_objects() if isinstance(o, Tracer)}


def test_no_tracer_is_alive_after_a_transformation():
    before = tracers_in_memory()  # of earlier tests, whose tracebacks may still be kept
    ftrace.grad(lambda x: np.sum(np.sin(x) * x))(np.ones(3))
    ftrace.jit(lambda x: np.sum(np.sin(x) * x))(np.ones(3))
    ftrace.vmap(ftrace.grad(ftrace.jit(np.sin)))(np.ones(3))
    assert tracers_in_memory() <= before


@modes
@inner_modes
def test_a_rule_may_differentiate_a_function_that_closes_over_its_tangent(outer, inner):
    """Inside the rule the tangent is an unknown of the outer reverse mode, foreign to the inner."""
    cube = ftrace.custom_jvp(lambda x: x**3)
    cube.defjvp(lambda p, t: (p[0] ** 3, MODES[inner](lambda y: y**3 * t[0], p[0])))
    value = MODES[outer](lambda x: cube(x) * x, 1.25)
    np.testing.assert_allclose(value, 4 * 1.25**3, rtol=1e-12)
