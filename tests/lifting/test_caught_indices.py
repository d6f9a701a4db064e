"""Errors of indices out of range and of negative powers: each member catches its own."""

import numpy as np
import pytest

import ftrace
from ftrace.errors import ShapeError

NUMBERS = np.array([0, 1, 2, 3, 5, -1, -4])
PROGRAMS = []


def program(f):
    PROGRAMS.append(f)
    return f


@program
def read(i):
    a = np.arange(3.0) * i
    try:
        return a[i]
    except IndexError:
        return -1.0


@program
def read_at_several_places(i):
    a = np.arange(3.0) * i
    try:
        y = a[[0, i]].sum()
    except IndexError:
        y = -1.0
    return y


@program
def taken(i):
    a = np.arange(3.0) * i
    try:
        y = np.take(a, i) + np.take_along_axis(a, np.array([0, 1]) * i, 0)[1]
    except IndexError:
        y = -1.0
    return y


@program
def written(i):
    a = np.arange(3.0) * i
    try:
        a[i] = 5
    except IndexError:
        a[0] = -1
    return a


@program
def written_in_part(i):
    a = np.arange(3.0) * i
    try:
        a[i] += 5
        a[i + 1] += 1
    except IndexError:
        a[0] -= 1
    return a


@program
def nothing_of_several_written(i):
    a = np.arange(3.0) * i
    try:
        a[[0, i]] = 5
    except IndexError:
        a[1] = -1
    return a


@program
def written_in_a_plane(i):
    a = np.arange(9.0).reshape(3, 3) * i
    try:
        a[i - 1, i] = 7
        a[:, i + 1] = 3
    except IndexError:
        a[0] = -1
    return a


@program
def exchanged(i):
    a = np.arange(3.0) * i
    try:
        a[i - 1], a[i] = a[1], a[0]
    except IndexError:
        a[0] -= 1
    return a


def put_three(a, i):
    for k in range(3):
        a[i + k] = 1.0


@program
def written_by_a_helper(i):
    a = np.arange(3.0) * i
    try:
        put_three(a, i)
    except (ValueError, IndexError):
        a[0] -= 1
    return a


@program
def written_by_functions(i):
    a = np.arange(3.0) * i
    try:
        np.add.at(a, [i, i], 1)
        np.put(a, [i + 1], 3.0)
    except IndexError:
        a[0] -= 1
    return a


@program
def by_unsigned_numbers(i):
    a, k = np.arange(3.0), np.abs(i).astype(np.uint8)
    try:
        a[k] = a[k + 1]
    except IndexError:
        a[0] = -1
    return a


@program
def counted_on(i):
    a, n = np.arange(3.0), 0
    while True:
        try:
            a[i + n] += 1
        except IndexError:
            break
        n += 1
    return a * 10 + n


@program
def in_another_try(i):
    a = np.arange(3.0)
    try:
        try:
            a[i] = 9
        except ZeroDivisionError:
            a[1] = 8
        finally:
            a += 1
    except LookupError:
        a[0] = -7
    return a


@program
def powers(i):
    try:
        y = (np.array([2, 3]) ** i).sum()
    except ValueError:
        y = -1
    return y


@program
def powers_in_an_arm(i):
    return 2**i if i >= 0 else i


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["jit", "vmap", "jit(vmap)"])
def test_as_python(f, kind):
    expected = [f(i) for i in NUMBERS]
    if kind == "jit":
        found = list(map(ftrace.jit(f), NUMBERS))
    else:
        found = (ftrace.vmap(f) if kind == "vmap" else ftrace.jit(ftrace.vmap(f)))(NUMBERS)
    np.testing.assert_array_equal(found, expected)


def written_through(x, i):
    a = np.zeros(3) + x
    try:
        a[i] = x * x
        a[i + 1] = x**3
    except IndexError:
        a[0] += 5 * x
    return a.sum()


@pytest.mark.parametrize(("i", "slope"), [(0, 1 + 4 + 12), (2, 2 + 4 + 5), (4, 3 + 5)])
def test_derivatives_of_what_was_written(i, slope):
    for way in (
        ftrace.grad,
        lambda f: ftrace.jit(ftrace.grad(f)),
        lambda f: ftrace.grad(ftrace.jit(f)),
    ):
        assert way(written_through)(2.0, i) == pytest.approx(slope)
    numbers = np.array([i, 0, 4])
    found = ftrace.vmap(ftrace.grad(written_through), in_axes=(None, 0))(2.0, numbers)
    np.testing.assert_allclose(found, [slope, 17, 8])


def test_an_error_that_is_not_caught_is_raised():
    def f(i):
        a = np.arange(3.0) * i
        try:
            a[i] = 1
        except ZeroDivisionError:
            a[0] = 2
        return a

    for way in (ftrace.jit(f), lambda i: ftrace.vmap(f)(np.array([0, i]))):
        with pytest.raises(IndexError, match="3 is out of bounds for axis 0 with size 3"):
            way(3)


def test_what_tracing_refuses_is_no_error_of_numpys():
    def f(i):
        try:
            return np.bincount(np.array([0, 1]) * i, minlength=4)[1]
        except ValueError:
            return -1

    assert [ftrace.jit(f)(i) for i in (0, 1, 3, -1)] == [0, 1, 0, -1]
    for way in (ftrace.jit(f), lambda i: ftrace.vmap(f)(np.array([0, i]))):
        with pytest.raises(ShapeError, match="no integer may be 4 or more"):
            way(4)
