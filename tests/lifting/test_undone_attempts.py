"""A `try` that meets a traced error begins anew: what it wrote into plain arrays is undone."""

import numpy as np
import pytest

import ftrace

W = np.array([1.83, -0.5])


def by_out(y):
    a = 1.5 * W
    try:
        np.multiply(a, 1.5, out=a)
        b = [0.3][y]
    except IndexError:
        b = 0.0
    return a + b


def by_a_view(y):
    a = 1.5 * W
    view = a[::-1]
    try:
        view *= 1.5
        b = [0.3][y]
    except IndexError:
        b = 0.0
    return a[0] + b


def behind_the_error(y):
    a = 1.5 * W
    view = a[::-1]
    try:
        b = [0.3][y]
        view += 1.0
    except IndexError:
        b = 0.0
    return a[0] + b


def in_a_list(y):
    arrays = [np.ones(2), np.full(3, 2.0)]
    try:
        np.add(arrays[1], 1.0, out=arrays[1])
        b = [0.3, 0.4][y]
    except IndexError:
        b = arrays[1].sum()
    return b + arrays[1][0]


WAYS = {
    "jit": lambda f: [ftrace.jit(f)(y) for y in (0, 1, 2)],
    "vmap": lambda f: ftrace.vmap(f)(np.arange(3)),
    "jit of vmap": lambda f: ftrace.jit(ftrace.vmap(f))(np.arange(3)),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("f", [by_out, by_a_view, in_a_list])
def test_what_an_attempt_wrote_is_written_once(f, way):
    expected = np.stack([f(y) for y in (0, 1, 2)])
    np.testing.assert_array_equal(np.stack(way(f)), expected)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_stands_behind_the_error_is_not_written_in_silence(way):
    """Whether `view += 1.0` happens depends on the traced error; the array is none that can."""
    with pytest.raises((ftrace.errors.FtraceError, ValueError), match=r"written|read-only"):
        way(behind_the_error)
