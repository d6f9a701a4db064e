"""`scan(checkpoint="binomial")`: what is kept, what runs again, the derivatives."""

import functools
import tracemalloc

import numpy as np
import pytest

import ftrace
from ftrace import grad, hessian, jacfwd, jacrev, jit, jvp, lax, linearize, vjp, vmap
from ftrace.control.remat.revolve import revolve
from ftrace.core.binomial import repeated
from tests.counting import CountedSin


@pytest.mark.parametrize("n", [1, 2, 9, 30])
@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_derivative_runs_the_turns_that_the_schedule_says(n, slots):
    counted = CountedSin()

    def f(x):
        return lax.scan(
            lambda c, _: (counted.row(c) * x, None), x, length=n, checkpoint="binomial", slots=slots
        )[0]

    grad(f)(0.7)
    # a turn back needs the cosine, which is no sine, but x * sin needs the sine for the cotangent
    assert counted.runs == n + repeated(n, slots) + n


def test_the_memory_of_a_derivative_is_that_of_the_slots():
    x, n = np.linspace(0.1, 1.0, 20_000), 100

    def peak(**options):
        def f(x):
            return lax.scan(lambda c, _: (np.sin(c) * x, None), x, length=n, **options)[0].sum()

        grad(f)(x)
        tracemalloc.start()
        try:
            grad(f)(x)
            return tracemalloc.get_traced_memory()[1] / x.nbytes
        finally:
            tracemalloc.stop()

    assert peak() > n
    few, more = (peak(checkpoint="binomial", slots=s) for s in (3, 20))
    assert few < 3 + 15
    assert few + 10 < more < 20 + 15


# ---------------------------------------------------------------------------------- derivatives

W = np.array([[1.0, 0.3, -0.2], [0.1, 0.9, 0.4], [-0.5, 0.2, 1.1]])
V = np.array([1.0, -2.0, 0.5])
X = np.array([0.5, -0.8, 1.3])


def carried(x, **options):
    """A carry alone, and a captured operand."""
    c, _ = lax.scan(lambda c, _: (np.tanh(W @ c) + 0.3 * x, None), x, length=5, **options)
    return np.sum(c * V)


def everything(x, **options):
    """Containers, an integer in the carry, xs and ys with tangents and without, what is known."""

    def step(c, t):
        a, b = c["a"] * t[0] + b_of(c, x), np.sin(c["b"]) * t[1] + c["i"] * x[0]
        return {"a": a, "b": b, "i": c["i"] + 1}, (a * t[1], b * x, c["i"])

    def b_of(c, x):
        return np.cos(c["b"] * V)[1] * x[2]

    init = {"a": x[0], "b": x * 0.5, "i": 0}
    xs = (np.linspace(0.2, 0.9, 6), np.sin(x * np.arange(1.0, 7.0)[:, None]))
    c, (p, q, i) = lax.scan(step, init, xs, **options)
    weights = np.arange(1.0, 7.0)[:, None]
    return c["a"] + np.sum(c["b"] * V) + np.sum(p * weights * V) + np.sum(q * i[:, None])


def backwards(x, **options):
    return everything(x, reverse=True, **options)


def last_only(x, **options):
    """Nothing but a y, of the first turn, has a cotangent."""
    _, y = lax.scan(lambda c, t: (c * x, np.exp(c) * t), x, np.linspace(0.5, 1, 4), **options)
    return np.sum(y[1] * V)


def once(x, **options):
    return lax.scan(lambda c, t: (np.sin(c) * t, None), x, X[:1], **options)[0] @ V


def never(x, **options):
    c, y = lax.scan(lambda c, t: (np.sin(c) * t, c * t), x, X[:0], **options)
    return np.sum(c * c * V) + np.sum(y)


PROGRAMS = [carried, everything, backwards, last_only, once, never]
WAYS = {
    "value": lambda f: f,
    "jit": jit,
    "grad": grad,
    "jit of grad": lambda f: jit(grad(f)),
    "grad of jit": lambda f: grad(jit(f)),
    "jvp": lambda f: lambda x: jvp(f, (x,), (V,))[1],
    "linearize": lambda f: lambda x: linearize(f, x)[1](V),
    "vjp": lambda f: lambda x: vjp(f, x)[1](2.0)[0],
    "vmap": lambda f: lambda x: vmap(f)(np.stack([x, 1.1 * x])),
    "vmap of grad": lambda f: lambda x: vmap(grad(f))(np.stack([x, 1.1 * x])),
    "jit of vmap of grad": lambda f: lambda x: jit(vmap(grad(f)))(np.stack([x, 1.1 * x])),
    "grad of vmap": lambda f: lambda x: grad(lambda v: vmap(f)(v) @ X[:2])(np.stack([x, 1.1 * x])),
    "hessian": hessian,
    "jit of hessian": lambda f: jit(hessian(f)),
    "jacrev of jacrev": lambda f: jacrev(jacrev(f)),
    "jacrev of jacfwd": lambda f: jacrev(jacfwd(f)),
    "vmap of hessian": lambda f: lambda x: vmap(hessian(f))(np.stack([x, 1.1 * x])),
    "grad by the cotangent": lambda f: (
        lambda x: grad(lambda ct: vjp(f, x)[1](ct)[0] @ np.sin(V) * ct)(2.0)
    ),
    "grad of checkpoint": lambda f: grad(ftrace.checkpoint(f)),
}


@pytest.mark.sampled(3, each="program")
@pytest.mark.slow
@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_scan_that_keeps_few_states_is_the_scan(program, way, slots):
    found = WAYS[way](functools.partial(program, checkpoint="binomial", slots=slots))(X)
    np.testing.assert_allclose(found, WAYS[way](program)(X), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("program", PROGRAMS)
def test_its_gradient_is_that_of_differences(program):
    f = functools.partial(program, checkpoint="binomial", slots=2)
    step = 1e-6
    expected = [(f(X + step * e) - f(X - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(grad(f)(X), expected, rtol=1e-8, atol=1e-8)


def test_gradients_are_the_callers_own():
    xs = np.ones((3, 2))
    y, pull = vjp(
        lambda c, xs: lax.scan(lambda c, x: (c + x, c), c, xs, checkpoint="binomial"),
        np.ones(2),
        xs,
    )
    cts = (np.ones(2), np.ones((3, 2)))
    found = pull(cts)
    np.testing.assert_array_equal(found[0], [4.0, 4.0])
    np.testing.assert_array_equal(found[1], [[3.0, 3.0], [2.0, 2.0], [1.0, 1.0]])
    for a in found:
        assert a.flags.writeable
        assert not any(np.shares_memory(a, b) for b in (xs, *y, *cts))


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_transpose_of_its_pullback_is_its_derivative(program):
    f = functools.partial(program, checkpoint="binomial", slots=2)
    _, pull = vjp(f, X)
    (back,) = ftrace.linear_transpose(lambda ct: pull(ct)[0], 2.0)(V)
    np.testing.assert_allclose(back, jvp(program, (X,), (V,))[1], rtol=1e-12)


@pytest.mark.parametrize("n", [0, 3])
def test_results_of_its_rows_are_new_arrays(n):
    def pulled(x, ct):
        f = lambda x: lax.scan(  # noqa: E731 - a short program
            lambda c, _: (np.sin(c) * x, None), x, length=n, checkpoint="binomial"
        )[0]
        return vjp(f, x)[1](ct)[0]

    jaxpr = ftrace.make_jaxpr(pulled)(X, V)
    (eqn,) = (e for e in jaxpr.eqns if e.primitive is revolve)
    operands = [np.full(a.aval.shape, 0.5, a.aval.dtype) for a in eqn.invars]
    for y in eqn.primitive(*operands, **eqn.params):
        assert not any(np.shares_memory(y, x) for x in operands)


def test_a_loop_of_many_turns_is_the_loop():
    """Its turns are compiled."""
    n = 300

    def f(x, **options):
        return lax.scan(
            lambda c, t: (np.sin(c) * t + x, None), x, np.linspace(0.1, 1, n), **options
        )[0]

    np.testing.assert_allclose(
        grad(lambda x: f(x, checkpoint="binomial"))(0.4), grad(f)(0.4), 1e-12
    )


# ---------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"checkpoint": "all"}, "checkpoint is 'binomial' or None, not 'all'"),
        ({"checkpoint": "binomial", "slots": 0}, "slots is 0; at least the first state is kept"),
    ],
)
def test_an_unknown_way_to_keep_states_is_named(options, words):
    with pytest.raises(ValueError, match=words):
        lax.scan(lambda c, x: (c, x), 1.0, np.ones(3), **options)
