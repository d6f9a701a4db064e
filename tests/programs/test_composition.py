"""One function, written seven ways, under every composition: all must agree.

Every row that holds functions (jit, cond, checkpoint, custom_jvp, custom_vjp) is transparent to
every transformation and to their nestings. The plain variant is checked against the formula.
"""

import numpy as np
import pytest

import ftrace
from ftrace import grad, hessian, hvp, jacfwd, jacrev, jit, jvp, linearize, vjp, vmap

X = np.array([0.3, 0.7, -0.4])
V = np.array([1.0, -2.0, 0.5])
WEIGHTS = np.array([1.0, 2.0, 3.0])


def plain(x):
    return np.sin(x) * x


def through_custom_jvp():
    f = ftrace.custom_jvp(plain)
    f.defjvp(lambda p, t: (f(*p), t[0] * (np.cos(p[0]) * p[0] + np.sin(p[0]))))
    return f


def through_custom_vjp():
    f = ftrace.custom_vjp(plain)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * (np.cos(x) * x + np.sin(x)),))
    return f


VARIANTS = {
    "plain": plain,
    "jit": jit(plain),
    "jit inline": jit(plain, inline=True),
    "cond, taken": lambda x: ftrace.lax.cond(np.sum(x) < 10.0, plain, lambda y: 2.0 * y, x),
    "cond, other": lambda x: ftrace.lax.cond(np.sum(x) > 10.0, lambda y: 2.0 * y, plain, x),
    "checkpoint": ftrace.checkpoint(plain),
    "custom_jvp": through_custom_jvp(),
    "custom_vjp": through_custom_vjp(),
    "named": ftrace.named_call(plain, name="plain"),
    "while": lambda x: ftrace.lax.cond(True, ftrace.checkpoint(jit(plain)), plain, x),
}


def total(f):
    return lambda x: np.sum(f(x) * WEIGHTS)


def sum_of(g):
    return lambda x: np.sum(g(x) * WEIGHTS)


def each(f):
    """The same on every element, mapped."""
    return lambda x: vmap(f)(x)


COMPOSITIONS = {
    "value": lambda f: f(X),
    "grad": lambda f: grad(total(f))(X),
    "jvp": lambda f: jvp(f, (X,), (V,))[1],
    "vjp": lambda f: vjp(f, X)[1](V)[0],
    "linearize": lambda f: linearize(f, X)[1](V),
    "jit": lambda f: jit(f)(X),
    "jvp of grad": lambda f: jvp(grad(total(f)), (X,), (V,))[1],
    "grad of jvp": lambda f: grad(lambda x: np.sum(jvp(f, (x,), (V,))[1] * WEIGHTS))(X),
    "vmap of grad": lambda f: vmap(grad(lambda x: np.sum(f(x) * 2.0)))(X),
    "grad of vmap": lambda f: grad(total(each(f)))(X),
    "jit of grad": lambda f: jit(grad(total(f)))(X),
    "grad of jit": lambda f: grad(total(jit(f)))(X),
    "grad of grad": lambda f: grad(sum_of(grad(total(f))))(X),
    "grad of grad of jit": lambda f: grad(sum_of(grad(total(jit(f)))))(X),
    "grad of jit of grad": lambda f: grad(sum_of(jit(grad(total(f)))))(X),
    "grad of vmap of jit": lambda f: grad(total(each(jit(f))))(X),
    "jit of vmap of grad of jit": lambda f: jit(vmap(grad(lambda x: np.sum(jit(f)(x)))))(X),
    "jvp of jvp": lambda f: jvp(lambda x: jvp(f, (x,), (V,))[1], (X,), (V,))[1],
    "vmap of jvp": lambda f: vmap(lambda x: jvp(f, (x,), (1.0,))[1])(X),
    "jvp of vmap": lambda f: jvp(each(f), (X,), (V,))[1],
    "jit of jvp": lambda f: jit(lambda x: jvp(f, (x,), (V,))[1])(X),
    "vjp of jit of vmap": lambda f: vjp(jit(each(f)), X)[1](V)[0],
    "jacfwd": lambda f: jacfwd(f)(X),
    "jacrev": lambda f: jacrev(f)(X),
    "jacfwd of jit": lambda f: jacfwd(jit(f))(X),
    "jacrev of jit, in chunks": lambda f: jacrev(jit(f), chunk_size=2)(X),
    "hessian": lambda f: hessian(total(f))(X),
    "hessian of jit, in chunks": lambda f: hessian(jit(total(f)), chunk_size=2)(X),
    "hvp": lambda f: hvp(total(f), (X,), (V,)),
    "jit of hessian": lambda f: jit(hessian(total(f)))(X),
    "checkpoint of grad": lambda f: ftrace.checkpoint(grad(total(f)))(X),
    "grad of checkpoint": lambda f: grad(ftrace.checkpoint(total(f)))(X),
    "grad of checkpoint of jit of vmap": lambda f: grad(ftrace.checkpoint(jit(total(each(f)))))(X),
    "grad of cond": lambda f: grad(
        lambda x: ftrace.lax.cond(x[0] > 0, total(f), lambda y: np.sum(y), x)
    )(X),
    "vmap of cond of grad": lambda f: vmap(
        lambda x: ftrace.lax.cond(x > 0, grad(lambda y: np.sum(f(y))), lambda y: y, x)
    )(X),
    "grad of vmap of cond": lambda f: grad(
        lambda x: np.sum(vmap(lambda y: ftrace.lax.cond(y > 0, f, lambda z: z * z, y))(x) * WEIGHTS)
    )(X),
}


@pytest.mark.sampled(3, each="variant")
@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "plain"])
def test_every_variant_agrees_with_the_plain_function(variant, composition):
    expected = COMPOSITIONS[composition](plain)
    actual = COMPOSITIONS[composition](VARIANTS[variant])
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


def test_the_plain_function_has_the_derivatives_of_the_formula():
    first = np.cos(X) * X + np.sin(X)
    second = 2 * np.cos(X) - X * np.sin(X)
    np.testing.assert_allclose(COMPOSITIONS["grad"](plain), first * WEIGHTS)
    np.testing.assert_allclose(COMPOSITIONS["jvp"](plain), first * V)
    np.testing.assert_allclose(COMPOSITIONS["hessian"](plain), np.diag(second * WEIGHTS))
    np.testing.assert_allclose(COMPOSITIONS["grad of grad"](plain), second * WEIGHTS * WEIGHTS)
    np.testing.assert_allclose(COMPOSITIONS["hvp"](plain), second * WEIGHTS * V)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("variant", VARIANTS)
def test_derivatives_of_high_order_by_nesting(variant, order):
    f = VARIANTS[variant]
    for _ in range(order):
        f = grad(f)
    x = 0.9
    sin_part = [np.sin, np.cos, lambda v: -np.sin(v), lambda v: -np.cos(v)]
    expected = x * sin_part[order % 4](x) + order * sin_part[(order - 1) % 4](x)
    np.testing.assert_allclose(f(x), expected, rtol=1e-11)


def test_sin_to_order_ten_alternates():
    f = np.sin
    signs = [np.cos, lambda v: -np.sin(v), lambda v: -np.cos(v), np.sin]
    for order in range(10):
        f = ftrace.grad(f) if order % 2 else (lambda g: lambda x: jvp(g, (x,), (1.0,))[1])(f)
        np.testing.assert_allclose(f(1.0), signs[order % 4](1.0), rtol=1e-10)
