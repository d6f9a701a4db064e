"""Cotangents of products come out as the operands lie, and sums of what is masked are zeros."""

from collections import Counter

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax

RNG = np.random.default_rng(5)


def rows_of(f, *args) -> Counter:
    """How often each primitive is in a program."""
    return Counter(e.primitive.name for e in ftrace.make_jaxpr(f)(*args).eqns)


def pulled(dims):
    """The pullback of a product, for both operands."""

    def f(x, y, ct):
        return ftrace.vjp(lambda x, y: lax.dot_general(x, y, dims), x, y)[1](ct)

    return f


@pytest.mark.parametrize(
    ("left", "right", "dims", "transposes"),
    [
        ((3, 4), (4, 5), (((1,), (0,)), ((), ())), 0),
        ((4, 3), (4, 5), (((0,), (0,)), ((), ())), 0),
        ((3, 4), (5, 4), (((1,), (1,)), ((), ())), 0),
        ((4, 3), (5, 4), (((0,), (1,)), ((), ())), 0),
        ((2, 3, 4), (2, 4, 5), (((2,), (1,)), ((0,), (0,))), 0),
        ((2, 4, 3), (2, 5, 4), (((1,), (2,)), ((0,), (0,))), 0),
        ((7, 3, 4), (4, 5), (((2,), (0,)), ((), ())), 0),
        ((4,), (4, 5), (((0,), (0,)), ((), ())), 0),
        ((3, 4), (4,), (((1,), (0,)), ((), ())), 0),
        ((3, 4, 6), (4, 6, 5), (((1, 2), (0, 1)), ((), ())), 0),
        ((3, 4, 6), (6, 4, 5), (((1, 2), (1, 0)), ((), ())), 2),
        ((3, 2, 4), (2, 4, 5), (((2,), (1,)), ((1,), (0,))), 1),
    ],
)
def test_a_product_is_pulled_back_without_transposing(left, right, dims, transposes):
    x, y = RNG.normal(size=left), RNG.normal(size=right)
    ct = RNG.normal(size=lax.dot_general(x, y, dims).shape)
    f = pulled(dims)
    assert rows_of(f, x, y, ct)["transpose"] == transposes
    of_x, of_y = f(x, y, ct)
    dx, dy = RNG.normal(size=left), RNG.normal(size=right)
    np.testing.assert_allclose((of_x * dx).sum(), (lax.dot_general(dx, y, dims) * ct).sum())
    np.testing.assert_allclose((of_y * dy).sum(), (lax.dot_general(x, dy, dims) * ct).sum())


def test_sums_of_what_is_masked_are_not_masked_again():
    """The gradient of a bias in front of a rectifier: zeros are added up, and nothing is chosen."""

    def f(b, x):
        return fnp.sum(fnp.where(x + b > 0, x * b, 0.0))

    b, x = RNG.normal(size=5), RNG.normal(size=(4, 5))
    x[:, 2] = -1e3
    found = ftrace.grad(f)(b, x)
    assert found[2] == 0
    np.testing.assert_allclose(found, np.where(x + b > 0, x, 0).sum(0))
    assert rows_of(ftrace.grad(f), b, x)["reduce_or"] == 0


def test_what_is_behind_such_a_sum_is_still_masked():
    """The sum's zeros meet an infinite slope: they contribute nothing where nothing was taken."""

    def f(b):
        spread = fnp.broadcast_to(fnp.sqrt(b), (3, 2))
        return fnp.sum(fnp.where(np.array([True, False]), spread, 0.0))

    np.testing.assert_allclose(ftrace.grad(f)(np.array([4.0, 0.0])), [0.75, 0.0])
    np.testing.assert_allclose(ftrace.jit(ftrace.grad(f))(np.array([4.0, 0.0])), [0.75, 0.0])
