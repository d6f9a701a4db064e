"""What a traced value makes an array of rank 0 or a number, changed in place, as in Python.

`w += 1` writes into an array, which all its names see, and makes a new number of a number.
"""

import numpy as np
import pytest

from ftrace import grad, jit
from ftrace.errors import DtypeError


def an_array_from_before(x):
    v, z = x.sum(), np.zeros(())
    w = v if x[0] > 0 else z
    t = w
    w += 1
    return w, t, z, v


def a_view(x):
    v, z = x.sum(), x * 1
    w = v if x[0] > 0 else z[1:2].reshape(())
    t = w
    w *= 3
    return w, t, z, v


def a_new_array(x):
    w = x.sum() if x[0] > 0 else np.zeros(())
    t = w
    w += 1
    return w, t


def read_before(x):
    v, z = x.sum(), np.zeros(())
    w = v if x[0] > 0 else z
    u = w * 1 if x[1] > 0 else w
    w += 1
    return w, u


def chosen_again(x):
    v, z, o = x.sum(), np.zeros(()), np.ones(())
    w = v if x[0] < 0 else z
    u = w if x[2] > 0 else o
    u += 1
    return w, u, z, o, v


def nested(x):
    z = np.zeros(())
    if x[0] > 0:
        w = x.sum() if x[1] > 0 else z
    else:
        w = x[2]
    t = w
    w += 1
    w *= 2
    return w, t, z


def nested_and_new(x):
    if x[0] > 0:
        w = x.sum() if x[1] > 0 else np.zeros(())
    else:
        w = x[2]
    t = w
    w += 1
    return w, t


def in_a_decision(x):
    z = np.zeros(2)
    w = z[1:].reshape(()) if x[0] > 0 else x[2]
    if x[2] > 0:
        w += 1
    t = w
    w *= 2
    return w, t, z


def in_a_loop(x):
    z = np.zeros(2)
    w = z[1:].reshape(()) if x[0] > 0 else x[2]
    for i in range(3):
        if x[i] > 0:
            w += x[i]
    return w, z


def in_a_while_loop(x):
    z = np.zeros(2)
    w = z[1:].reshape(()) if x[0] < 0 else x[2]
    t = w
    while w < 5:
        w += 1
    return w, z, t


def behind_a_loop(x):
    w = np.array(0.0)
    t = w
    while x.sum() < w:
        w = w + x[0]
    w += 1
    return w, t


def by_an_index(x):
    v, z = x.sum(), np.zeros(())
    w = [z, v, z, x[0]][np.argmax(x)]
    t = w
    w += 1
    return w, t, z, v


PROGRAMS = [
    by_an_index,
    an_array_from_before,
    a_view,
    a_new_array,
    read_before,
    chosen_again,
    nested,
    nested_and_new,
    in_a_decision,
    in_a_loop,
    in_a_while_loop,
    behind_a_loop,
]
X = np.array([0.3, -1.2, 2.5])
POINTS = [X, -X, X[::-1], X[[1, 0, 2]], X[[2, 0, 1]]]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_it_changes_as_in_python(f):
    jitted = jit(f)
    for x in POINTS:
        for found, right in zip(jitted(x), f(x), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-12)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_derivatives_are_those_of_differences(f):
    def total(x):
        return sum(np.sum(part) * (i + 1) for i, part in enumerate(f(x)))

    for x in POINTS:
        steps = np.eye(3) * 1e-6
        right = [(total(x + s) - total(x - s)) / 2e-6 for s in steps]
        np.testing.assert_allclose(jit(grad(total))(x), right, rtol=1e-6, atol=1e-6)


def test_another_dtype_is_refused():
    def f(x):
        w = x.sum() if x[0] > 0 else np.zeros(())
        w += 1j
        return w

    with pytest.raises(DtypeError, match="an array of rank 0 or a number"):
        jit(f)(X)
