"""Plain arrays that become traced keep their memory layout: what shares memory still does."""

from itertools import product

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


# ---------------------------------------------------------------- what arms and loops make

MADE = {
    "transposed": lambda n: np.full((3, 2), n).T,
    "in C order": lambda n: np.full((2, 3), n),
    "columns with gaps": lambda n: np.full((2, 6), n)[:, ::2],
    "backwards": lambda n: np.full((2, 3), n)[::-1],
    "in F order": lambda n: np.full((2, 3), n, order="F"),
    "a matrix of a stack": lambda n: np.full((2, 3, 4), n)[..., 1],
}
ROWS = {
    "a row": lambda n: np.full(3, n),
    "with gaps": lambda n: np.full(6, n)[::2],
    "of a matrix": lambda n: np.full((2, 3), n)[1],
    "a column": lambda n: np.full((3, 2), n)[:, 0],
    "reversed": lambda n: np.full(3, n)[::-1],
}
READ = {
    "ravel": lambda a: a.ravel(),
    "reshape": lambda a: a.reshape(-1),
    "the transpose's": lambda a: a.T.reshape(-1),
    "as one row": lambda a: a.reshape(1, -1)[0],
    "F": lambda a: np.asfortranarray(a).ravel(),
}


def in_arms(first, second, read):
    def f(x, y):
        a = first(x) if x > 0 else second(x * 2)
        read(a)[1] = y
        return a

    return f


def in_statements(first, second, read):
    def f(x, y):
        if x > 0:
            a = first(x)
            a *= 2.0
        else:
            a = second(y)
        b = read(a)
        b[1] += y
        return a, b

    return f


def in_iterations(first, second, read):
    def f(x, y):
        a = first(y)
        while x > 0:
            a = second(x + y)
            x = x - 1.0
        read(a)[1] = y
        return a

    return f


def before_iterations_end(first, second, read):
    def f(x, y):
        a, total = first(y), 0.0
        while x > 0:
            read(a)[1] = y * x
            total = total + a.sum()
            a = second(x + y)
            x = x - 0.5
        return a, total

    return f


WRITES = [in_arms, in_statements, in_iterations, before_iterations_end]


@pytest.mark.parametrize("write", WRITES, ids=lambda w: w.__name__)
@pytest.mark.parametrize("made", [MADE, ROWS], ids=["matrices", "rows"])
def test_views_that_regions_make_keep_their_layout(made, write):
    """Right, or refused where two layouts meet; of one layout in both arms it is right."""
    leaves = ftrace.tree.leaves
    refused = 0
    for (first, one), (second, other), (what, read) in product(
        made.items(), made.items(), READ.items()
    ):
        f = write(one, other, read)
        compiled = ftrace.jit(f)
        try:
            for x in (1.0, -1.0):
                for got, wanted in zip(leaves(compiled(x, 5.0)), leaves(f(x, 5.0)), strict=True):
                    np.testing.assert_array_equal(got, wanted, f"{first}, {second}, {what}")
        except ftrace.errors.MutationError:
            refused += 1
            assert first != second or write not in (in_arms, in_statements), f"{first}, {what}"
    assert refused < len(made) ** 2 * len(READ)
