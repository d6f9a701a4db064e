"""Plain arrays that become traced keep their memory layout: what shares memory still does."""

import numpy as np
import pytest

import ftrace

K = np.array([1.17, 1.5, 2.0, 3.0])


def backwards_ravel(x):
    a = (K * 1.0)[::-1]
    b = a.ravel()
    b[:] = x[0]
    a[1] += x[0]
    return a, b


def real_part(x):
    a = (1j * K).real
    b = np.ascontiguousarray(a)
    np.matmul(np.ones(1), x, out=b)
    a[1] += x[0]
    return a, b


def imaginary_part_reshaped(x):
    a = (1j * K).imag
    b = a.reshape(2, 2)
    b[:] = x[0]
    a[1] += x[0]
    return a, b


def gaps(x):
    a = np.repeat(K, 2)[::2]
    b = a.reshape(-1)
    c = a.ravel()
    b[1] = x[0]
    c[2] = x[0]
    a[0] += x[0]
    return a, b, c


def columns(x):
    a = np.outer(K, K).T[::2]
    b = a.ravel("F")
    c = np.asfortranarray(a)
    b[:2] = x[0]
    c[0, 0] = 7.0 * x[0]
    a[1, 1] += x[0]
    return a, b, c


def one_of_two_paths(x):
    a = (1j * K).real
    if K.size > 2:
        b = np.ascontiguousarray(a)
        np.multiply(np.ones(4), x[0], out=b)
    else:
        a[1] += 1
    return a


PROGRAMS = [backwards_ravel, real_part, imaginary_part_reshaped, gaps, columns, one_of_two_paths]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_what_shares_memory_still_does(f):
    for x in ([0.04], np.array([0.04])):
        expected = f(x)
        found = ftrace.jit(f)(x)
        mapped = ftrace.vmap(f)(np.array([[0.04], [0.04]]))
        pairs = [(found, expected), (ftrace.tree.map(lambda y: y[1], mapped), expected)]
        for mine, plain in pairs:
            for y, e in zip(ftrace.tree.leaves(mine), ftrace.tree.leaves(plain), strict=True):
                np.testing.assert_array_equal(y, e)
