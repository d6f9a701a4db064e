"""What derivatives of compiled programs read and write, counted on their plans.

The gradient of a fused elementwise program reads its inputs once and writes its gradients once,
whether it is one program (`jit(grad(f))`) or two (`grad(jit(f))`).
"""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import grad, jit, lax, vjp
from ftrace.core.jaxpr import eval_jaxpr
from tests.api.ways import differences

N = 300
X, Y = np.random.default_rng(3).uniform(0.5, 1.5, (2, N))


def product(x, y):
    return fnp.sin(x) * y + fnp.exp(x * y)


def chain(x, y):
    z = x
    for _ in range(8):
        z = fnp.tanh(z * y) + x
    return z


def chosen(x, y):
    return fnp.where(x > y, fnp.log(x) * y, fnp.sqrt(y) + x * x)


def stretched(x, y):
    return fnp.tanh(x[:, None] * y[None, :4]) * x[:, None]


ELEMENTWISE = [product, chain, chosen]


def programs(f, *args):
    """The compiled programs that a function calls, in order."""
    jaxpr = ftrace.make_jaxpr(f)(*args)
    return [e.params["jaxpr"] for e in jaxpr.eqns if e.primitive.name == "jit"]


def cost(jaxpr):
    return jit(lambda *xs: eval_jaxpr(jaxpr, xs)).lower(*jaxpr_args(jaxpr)).cost()


def jaxpr_args(jaxpr):
    return [np.ones(a.shape, a.dtype) for a in jaxpr.in_avals]


@pytest.mark.parametrize("f", ELEMENTWISE)
def test_one_program_reads_inputs_once_and_writes_gradients_once(f):
    found = jit(grad(lambda x, y: fnp.sum(f(x, y)), argnums=(0, 1))).lower(X, Y).cost()
    assert found.kernels == 1
    assert found.bytes == 8 * N * 4


@pytest.mark.parametrize("f", ELEMENTWISE)
def test_two_programs_pass_nothing_between_them(f):
    def both(x, y, ct):
        out, pull = vjp(jit(f), x, y)
        return out, pull(ct)

    forward, backward = programs(both, X, Y, X)
    assert cost(forward).bytes == 8 * N * 3  # two inputs, the result
    masks = 2 * N if f is chosen else 0  # where an untaken side's cotangent is nothing at all
    assert cost(backward).bytes == 8 * N * 5 + masks  # two inputs, a cotangent, two gradients
    assert cost(forward).kernels == cost(backward).kernels == 1


@pytest.mark.parametrize("f", [*ELEMENTWISE, stretched])
def test_derivatives_stay_what_they_are(f):
    weights = np.cos(np.arange(f(X, Y).size, dtype=float)).reshape(f(X, Y).shape)

    def total(g):
        return lambda x, y: fnp.sum(g(x, y) * weights)

    want = grad(total(f), argnums=(0, 1))(X, Y)
    for got in (grad(total(jit(f)), argnums=(0, 1)), jit(grad(total(jit(f)), argnums=(0, 1)))):
        for a, b in zip(got(X, Y), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_second_derivatives_through_two_programs():
    def total(g):
        return lambda x: fnp.sum(g(x, Y[:3]) * np.array([1.0, -2.0, 0.5]))

    want = differences(grad(total(chain)), X[:3])
    got = ftrace.hessian(total(jit(chain)))(X[:3])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_what_a_kernel_cannot_compute_on_the_way_is_stored():
    m = np.random.default_rng(4).standard_normal((N, N))

    def f(x):
        return fnp.tanh(m @ x)

    forward, backward = programs(lambda x, ct: vjp(jit(f), x)[1](ct), X, X)
    assert forward.out_avals[-1].shape == (N,)
    names = [e.primitive.name for e in backward.eqns]
    assert names.count("dot_general") == 1


@pytest.mark.at_once
def test_a_long_way_is_not_gone_again_for_one_value():
    """Twenty transcendentals cost more than writing and reading one array."""

    def f(x):
        z = x
        for _ in range(20):
            z = fnp.sin(lax.stop_gradient(z)) + 0.5
        return z * x

    forward, backward = programs(lambda x, ct: vjp(jit(f), x)[1](ct), X, X)
    assert len(forward.outvars) == 2  # the result, and what the derivative reads
    assert [e.primitive.name for e in backward.eqns] == ["mul"]


def test_a_tape_of_unknown_length_is_stored():
    def f(x):
        return lax.while_loop(lambda s: fnp.sum(s) < 100.0, lambda s: fnp.sin(s) + s * 1.5, x)

    want = differences(f, X[:2])
    np.testing.assert_allclose(ftrace.jacrev(jit(f))(X[:2]), want, rtol=1e-6, atol=1e-6)
