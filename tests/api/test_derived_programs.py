"""Derived programs have no products by a literal one or zero, and compute what repeats once.

(C9: constants folded, zero tangents symbolic; C16: repeated expressions, products in any order.)
"""

import numpy as np
import pytest

import ftrace
from ftrace.core.jaxpr import Literal, subjaxprs

X = np.array([0.3, 0.8, 1.7])
FUNCTIONS = {
    "product": lambda x: np.sin(x) * x,
    "square": lambda x: x * x + x,
    "weights": lambda x: 5.0 * x + 2.0,
    "exp": lambda x: np.exp(x) ** 3,
    "tanh": np.tanh,
    "root": np.sqrt,
    "quotient": lambda x: 1 / x,
    "power 0": lambda x: x**0.0 * np.cos(x),
    "power 1": lambda x: x**1.0 * np.cos(x),
    "power 2": lambda x: x**2.0,
    "integer powers": lambda x: x**0 + x**1 + x**2 + x**3,
    "logaddexp": lambda x: np.logaddexp(x, 1.0),
    "hypot": lambda x: np.hypot(x, 3.0),
    "mean": lambda x: np.mean(np.stack([x, x * x])),
}
DERIVATIVES = {
    "grad": ftrace.grad,
    "second": lambda f: ftrace.grad(ftrace.grad(f)),
    "third": lambda f: ftrace.grad(ftrace.grad(ftrace.grad(f))),
    "hessian": ftrace.hessian,
    "jvp": lambda f: lambda x: ftrace.jvp(f, (x,), (x,))[1],
    "jvp of grad": lambda f: lambda x: ftrace.jvp(ftrace.grad(f), (x,), (x,))[1],
}


def factors(jaxpr):
    """The literal operands of its products, and of those of the jaxprs in it."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.bilinear:
            yield from (a.value for a in eqn.invars if type(a) is Literal)
        for _, inner in subjaxprs(eqn.params):
            yield from factors(inner)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("point", [0.7, np.float64(0.7), np.float32(0.7)], ids=["weak", "64", "32"])
def test_no_product_by_a_literal_one_or_zero(name, derivative, point):
    f = DERIVATIVES[derivative](FUNCTIONS[name])
    jaxpr = ftrace.make_jaxpr(f)(point)
    assert not {0, 1} & set(factors(jaxpr))
    found, wanted = ftrace.jit(f)(point), f(point)
    assert found.dtype == wanted.dtype == np.result_type(point)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_gradient_of_one_product_is_the_other_factor():
    jaxpr = ftrace.make_jaxpr(ftrace.grad(lambda x, y: x * y))(np.float64(2.0), np.float64(3.0))
    assert not jaxpr.eqns
    assert jaxpr.outvars[0] is jaxpr.invars[1]


@pytest.mark.parametrize("power", [0, 1, 0.0, 1.0])
@pytest.mark.parametrize("x", [0.0, np.inf, np.nan, -2.0])
def test_powers_of_order_zero_and_one_have_their_slopes_everywhere(power, x):
    g = ftrace.grad(lambda x: x**power)
    assert g(x) == ftrace.jit(g)(x) == power
    assert ftrace.grad(g)(x) == 0.0
    slope = ftrace.jvp(lambda x: x**power, (X,), (X,))[1]
    np.testing.assert_array_equal(slope, X if power else np.zeros(3))


def test_products_in_any_order_are_computed_once():
    def f(x, y):
        return np.sin(x * y) + np.cos(y * x)

    g = ftrace.jit(ftrace.grad(lambda x, y: np.sum(f(x, y))))
    (kernel,) = g.lower(X, X).kernels
    lines = [line.split("=", 1)[1].split() for line in kernel.splitlines() if " = " in line]
    operations = [(op, *sorted(args)) for op, *args in lines]
    assert len(operations) == len(set(operations))
    assert sum(op == "mul" for op, *_ in operations) == 4  # one of them for x y and y x
    np.testing.assert_allclose(g(X, X), X * (np.cos(X * X) - np.sin(X * X)), rtol=1e-14)
