"""What one pass over a row leaves for the next: expensive values are computed once."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp

X = np.linspace(-2.0, 3.0, 12).reshape(3, 4)


def softmax(x, axis=-1):
    e = fnp.exp(x - fnp.max(x, axis=axis, keepdims=True))
    return e / fnp.sum(e, axis=axis, keepdims=True)


def kernels(f, *args):
    return "\n".join(ftrace.jit(f).lower(*args).kernels)


def test_the_exponential_of_a_softmax_is_computed_once_and_read_back():
    text = kernels(softmax, X)
    assert text.count(" = exp ") == 1
    assert text.count("o2[v1, ") == 3  # left, read back, overwritten
    np.testing.assert_allclose(ftrace.jit(softmax)(X), softmax(X), rtol=1e-14)


def test_cheap_values_are_computed_again():
    text = kernels(lambda x: (x - 1.0) * fnp.sum(x - 1.0, axis=1, keepdims=True), X)
    assert text.count(" = sub ") == 2


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_what_is_left_has_the_type_and_shape_of_the_result(dtype):
    def f(x):  # the result is float32, the expensive value is not always
        e = fnp.exp(x)
        return (e / fnp.sum(e, axis=1, keepdims=True)).astype(np.float32)

    x = X.astype(dtype)
    assert kernels(f, x).count(" = exp ") == (1 if dtype == "f4" else 2)
    np.testing.assert_allclose(ftrace.jit(f)(x), f(x), rtol=1e-6)


def test_a_result_that_was_wanted_elsewhere_is_not_overwritten_early():
    def f(x):
        e = fnp.exp(x)
        y = e / fnp.sum(e, axis=1, keepdims=True)
        return e, y, fnp.sum(y * x, axis=1)

    for found, wanted in zip(ftrace.jit(f)(X), f(X), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-13)


@pytest.mark.parametrize("axes", [(1, 2), (0, 2), (0, 1)])
def test_softmax_over_two_axes(axes):
    x = np.random.default_rng(4).normal(size=(3, 4, 5))
    found = ftrace.jit(lambda x: softmax(x, axes))(x)
    np.testing.assert_allclose(found, softmax(x, axes), rtol=1e-13)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (0, 3), (3, 0), (2, 3, 4)])
def test_softmax_of_any_shape(shape):
    x = np.random.default_rng(3).normal(size=shape)
    if x.shape[-1]:
        np.testing.assert_allclose(ftrace.jit(softmax)(x), softmax(x), rtol=1e-13)
    for axis in range(x.ndim):
        if x.shape[axis]:
            found = ftrace.jit(lambda x, axis=axis: softmax(x, axis))(x)
            np.testing.assert_allclose(found, softmax(x, axis), rtol=1e-13)


def pulled(f):
    """The value and the gradients with a cotangent, of one program."""

    def g(ct, *args):
        y, pull = ftrace.vjp(f, *args)
        return y, pull(ct)

    return g


def logsumexp(x):
    top = fnp.max(x, axis=1, keepdims=True)
    return fnp.log(fnp.sum(fnp.exp(x - top), axis=1)) + top[:, 0]


def test_a_pass_reads_what_the_one_before_left_where_it_leaves_something_itself():
    ct = np.linspace(1.0, 2.0, 3)
    text = kernels(pulled(logsumexp), ct, X)
    assert text.count(" = exp ") == 1
    assert text.count("o2[v1, ") == 5  # e left and read, its multiple left and read, overwritten
    value, (slope,) = ftrace.jit(pulled(logsumexp))(ct, X)
    np.testing.assert_allclose(value, logsumexp(X), rtol=1e-14)
    np.testing.assert_allclose(slope, ct[:, None] * softmax(X), rtol=1e-13)


def test_a_value_that_two_results_need_lies_where_both_will_be():
    text = kernels(pulled(softmax), X, X)
    assert text.count(" = exp ") == 1
    value, (slope,) = ftrace.jit(pulled(softmax))(X, X)
    y = softmax(X)
    np.testing.assert_allclose(value, y, rtol=1e-14)
    wanted = y * (X - fnp.sum(X * y, axis=1, keepdims=True))
    np.testing.assert_allclose(slope, wanted, rtol=1e-11, atol=1e-14)


def test_the_most_expensive_value_is_left_not_the_last_one():
    def f(x):
        e = fnp.exp(x)
        total = fnp.sum(e, axis=1, keepdims=True)
        half = 1.0 / (x + 9.0)
        inner = fnp.sum(e * half / total, axis=1, keepdims=True)
        return (half + inner) * e

    text = kernels(f, X)
    assert text.count(" = exp ") == 1
    np.testing.assert_allclose(ftrace.jit(f)(X), f(X), rtol=1e-13)
