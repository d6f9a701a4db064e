"""`where=` of ufuncs and of `np.copyto`: NumPy's results, layouts, dtypes, derivatives."""

import numpy as np
import pytest

import ftrace
from ftrace.errors import DtypeError

X = np.array([-1.5, 2.0, 0.7])
K = np.array([True, False, True])
M = np.arange(6.0).reshape(2, 3)


def positive(x):
    return np.add(x, 1.0, where=x > 0, out=x.copy())


def divided(x):
    out = np.zeros(3)
    np.divide(1.0, x - 2.0, where=x != 2.0, out=out)  # 1/0 is not taken
    return out


def broadcast(x):  # mask, operands and result each of another shape
    return np.multiply(x, x, np.ones((2, 3)), where=K)


def column(x):
    return np.multiply(x, M, where=(M > 2.0)[:, :1], out=M * x)


def reversed_view(x):
    out = x * 1.0
    np.exp(x, out=out[::-1], where=[True, True, False])
    return out


def overlapping(x):
    a = x * 1.0
    np.add(a[:-1], a[1:], out=a[1:], where=a[1:] > 0)
    return a


def two_results(x):
    a, b = x * 0.0, x * 0.0
    np.divmod(x, 0.6, out=(a, b), where=x > 0)
    return a + b


def narrower(x):
    return np.add(x, 1.0, where=x > 0, out=np.zeros(3, np.float32))


def plain_operands(x):
    p = np.ones(3)
    np.add(p, 1.0, where=x > 0, out=p)
    return p * x


def copied(x):
    a = x * M
    np.copyto(a, x, where=K)
    np.copyto(a[:, ::-1], 7.0, where=M > 4)
    return a


def nothing(x):
    return np.add(x, 1.0, where=False, out=x.copy())


FUNCTIONS = (
    positive, divided, broadcast, column, reversed_view, overlapping, two_results, narrower,
    plain_operands, copied, nothing,
)  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_where_is_numpys_under_every_transformation(f):
    expected = f(X)
    batch = np.stack([X, -X, X[::-1]])
    for found in (ftrace.jit(f)(X), ftrace.vmap(f)(batch)[0], ftrace.jvp(f, (X,), (X,))[0]):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(ftrace.vmap(f)(batch)[2], f(X[::-1]), rtol=1e-6)


@pytest.mark.parametrize("f", [f for f in FUNCTIONS if f is not narrower], ids=lambda f: f.__name__)
def test_derivatives_pass_where_the_mask_is_true_and_where_it_is_not(f):
    h = 1e-6
    differences = np.stack([(f(X + h * e) - f(X - h * e)) / (2 * h) for e in np.eye(3)], -1)
    differences[~np.isfinite(differences)] = 0.0
    if f is divided:  # x != 2 is true on both sides of 2
        differences[1] = 0.0
    for g in (
        ftrace.jacfwd(f),
        ftrace.jacrev(f),
        ftrace.jit(ftrace.jacrev(f)),
        ftrace.jacrev(ftrace.jit(f)),
    ):
        np.testing.assert_allclose(g(X), differences, atol=1e-6)


def test_copyto_converts_as_numpy_does():
    def f(x, **options):
        a = np.zeros(3, np.int64) + (x > 5)
        np.copyto(a, x, **options)
        return a

    for options in ({}, {"where": K}):
        with pytest.raises(DtypeError, match="cannot be stored"):
            ftrace.jit(f)(X, **options)
        unsafe = {"casting": "unsafe", **options}
        np.testing.assert_array_equal(ftrace.jit(lambda x, u=unsafe: f(x, **u))(X), f(X, **unsafe))
