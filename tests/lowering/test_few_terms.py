"""Small matrix products are sums of products, written out: values, dtypes, kernels."""

import numpy as np
import pytest

import ftrace
from ftrace.lowering.fusion.small_products import FEW
from ftrace.primitives.few_terms import program, sum_of_products

rng = np.random.default_rng(2)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "u1"])
def test_products_of_few_terms_are_numpys_compiled(dtype: str) -> None:
    for left, right in (((2, 3), (3, 4)), ((5, 2, FEW), (5, FEW, 3)), ((1, 2), (2, 1))):
        a, b = ((9 * rng.normal(size=shape)).astype(dtype) for shape in (left, right))
        found, expected = ftrace.jit(np.matmul)(a, b), np.matmul(a, b)
        assert found.dtype == expected.dtype
        eps = 0 if dtype[0] in "iu" else 8 * np.finfo(dtype).eps
        np.testing.assert_allclose(found, expected, rtol=eps, atol=eps * 200)


def test_terms_are_added_in_their_order_compiled() -> None:
    a = np.array([[1e16, 1.0, -1e16]] * 2)
    assert (ftrace.jit(np.matmul)(a, np.ones((3, 2))) == 0).all()
    xs = [np.full(2, x) for x in (1e16, 1.0, 1.0, 1.0, -1e16, 1.0)]
    assert (sum_of_products.impl(*xs) == 0).all()
    assert len(program(3, np.dtype("f8")).eqns) == 5


def test_a_chain_of_small_products_computes_each_once_compiled() -> None:
    a = rng.normal(size=(4, 4))
    f = ftrace.jit(lambda a: a @ a @ a.T @ a)
    np.testing.assert_allclose(f(a), a @ a @ a.T @ a, rtol=1e-12)
    cost = f.lower(a).cost()
    assert cost.operations == 3 * 16 * 7
    assert (cost.products, cost.callbacks) == (0, 0)


def test_one_term_is_a_multiplication_whatever_the_size_compiled() -> None:
    a, b = rng.normal(size=(300, 4, 1)), rng.normal(size=(300, 1, 5))
    f = ftrace.jit(np.matmul)
    np.testing.assert_array_equal(f(a, b), a * b)
    assert f.lower(a, b).cost().products == 0


def test_a_sum_of_no_terms_is_zero():
    f = ftrace.jit(lambda a, b: a @ b + 1.0)
    np.testing.assert_array_equal(f(np.ones((3, 0)), np.ones((0, 2))), np.ones((3, 2)))
    stacks = ftrace.jit(ftrace.vmap(np.matmul))(np.ones((5, 3, 0)), np.ones((5, 0, 2)))
    np.testing.assert_array_equal(stacks, np.zeros((5, 3, 2)))
