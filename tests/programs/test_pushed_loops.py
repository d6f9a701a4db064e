"""Reverse mode of a `while` over numbers: forwards in its own kernel, or by recorded iterations."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.control.rows.while_loop import PUSHED


def rows(jaxpr):
    """The names of the rows of a jaxpr and of those inside."""
    found = []
    for eqn in jaxpr.eqns:
        found.append(eqn.primitive.name)
        for value in eqn.params.values():
            if hasattr(value, "eqns"):
                found += rows(value)
    return found


def is_pushed(f, *args):
    """Whether no iteration is recorded: the way back has no loop over a tape."""
    names = rows(ftrace.make_jaxpr(f)(*args))
    assert ("scan" in names) != ("sum_partials" in names)
    return "sum_partials" in names


def skewed(x, rate=0.1):
    """As many iterations as x says."""
    return lax.while_loop(
        lambda s: s[1] < x * 10,
        lambda s: (fnp.sin(s[0]) * 0.9 + rate * x, s[1] + 1.0),
        (x * 0.5, 0.0),
    )[0]


X = np.random.default_rng(0).exponential(2.0, 50)


def test_a_loop_over_numbers_stores_no_iteration():
    assert is_pushed(ftrace.grad(skewed), 2.0)
    assert is_pushed(ftrace.vmap(ftrace.grad(skewed)), X)
    assert is_pushed(ftrace.grad(lambda x: ftrace.vmap(skewed)(x).sum()), X)
    assert is_pushed(ftrace.grad(lambda r: ftrace.vmap(skewed, in_axes=(0, None))(X, r).sum()), 0.1)


@pytest.mark.parametrize("jit", [False, True])
def test_gradients_are_those_of_forward_mode(jit):
    wrap = ftrace.jit if jit else lambda f: f
    expected = ftrace.vmap(ftrace.jacfwd(skewed))(X)
    for f in (
        ftrace.vmap(ftrace.grad(skewed)),
        ftrace.grad(lambda x: ftrace.vmap(skewed)(x).sum()),
        lambda x: np.array([ftrace.grad(skewed)(v) for v in x]),
    ):
        found = (f if "array" in f.__code__.co_names else wrap(f))(X)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    both = wrap(ftrace.grad(lambda r: ftrace.vmap(skewed, in_axes=(0, None))(X, r).sum()))
    each = ftrace.vmap(ftrace.jacfwd(skewed, argnums=1), in_axes=(0, None))(X, 0.1)
    np.testing.assert_allclose(both(0.1), each.sum(), rtol=1e-12)


def test_derivatives_of_any_order():
    x = np.array([0.31, 1.72])
    for order in (ftrace.grad(ftrace.grad(skewed)), ftrace.grad(ftrace.jacfwd(skewed))):
        found = ftrace.jit(ftrace.vmap(order))(x)
        step = 1e-6
        slope = ftrace.vmap(ftrace.jacfwd(skewed))
        np.testing.assert_allclose(
            found, (slope(x + step) - slope(x - step)) / (2 * step), rtol=1e-6
        )


def test_no_iteration_leaves_what_it_began_with():
    assert ftrace.grad(skewed)(-1.0) == 0.5
    assert ftrace.jit(ftrace.grad(skewed))(-1.0) == 0.5


def coupled(*xs):
    """A loop that carries each of its operands."""

    def body(s):
        k, *v = s
        return (k + 1, *[0.5 * v[i] + v[i - 1] * v[i] for i in range(len(v))])

    return sum(lax.while_loop(lambda s: s[0] < 3, body, (0, *xs))[1:])


@pytest.mark.parametrize("count", [PUSHED, PUSHED + 1])
def test_loops_with_many_tangents_record(count):
    xs = [0.1 * (i + 1) for i in range(count)]
    gradient = ftrace.grad(coupled, argnums=tuple(range(count)))
    assert is_pushed(gradient, *xs) == (count <= PUSHED)
    expected = ftrace.jacfwd(coupled, argnums=tuple(range(count)))(*xs)
    np.testing.assert_allclose(gradient(*xs), expected, rtol=1e-12)


def test_arrays_complex_numbers_and_callbacks_are_recorded():
    x = np.array([0.2, 0.4])
    loop = lambda x: lax.while_loop(lambda s: s.sum() < 3.0, lambda s: s * s + s, x).sum()  # noqa: E731
    assert not is_pushed(ftrace.grad(loop), x)
    z = lambda x: lax.while_loop(lambda s: abs(s) < 3.0, lambda s: s * s + s, x + 0.5j).real  # noqa: E731
    assert not is_pushed(ftrace.grad(z), 0.3)
    np.testing.assert_allclose(ftrace.grad(z)(0.3), ftrace.jacfwd(z)(0.3), rtol=1e-12)
    table = np.array([0.5, 0.25, 0.125])
    read = lambda x: lax.while_loop(  # noqa: E731
        lambda s: s[1] < 3, lambda s: (s[0] * fnp.asarray(table)[s[1]], s[1] + 1), (x, 0)
    )[0]
    np.testing.assert_allclose(ftrace.grad(read)(2.0), table.prod())
    seen = []

    def told(s):
        ftrace.debug.callback(lambda v: seen.append(float(v)), s)
        return 2.0 * s

    g = ftrace.grad(lambda x: lax.while_loop(lambda s: s < 3.0, told, x))
    assert (g(1.0), seen) == (4.0, [1.0, 2.0])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_dtypes_are_kept(dtype):
    x = np.dtype(dtype).type(1.5)

    def f(x):
        return lax.while_loop(lambda s: s < 10.0, lambda s: 2.0 * s, x) * 3

    value, slope = ftrace.value_and_grad(f)(x)
    assert (value.dtype, slope.dtype) == (dtype, dtype)
    assert (float(value), float(slope)) == (36.0, 24.0)


def test_a_constant_that_nobody_reads_is_dropped():
    jaxpr = ftrace.make_jaxpr(ftrace.grad(skewed))(2.0)
    (outer,) = [e for e in jaxpr.eqns if e.primitive.name == "vectorize"]
    (loop,) = [e for e in outer.params["jaxpr"].eqns if e.primitive.name == "while"]
    body, cond = loop.params["body"], loop.params["cond"]
    n = loop.params["n_consts"]
    read = {v for j in (body, cond) for e in j.eqns for v in e.invars}
    for a, b in zip(body.invars[:n], cond.invars[:n], strict=True):
        assert a in read or b in read
