"""Names that may show one of several arrays: writes reach the right one, under either answer."""

import gc
import weakref

import numpy as np
import pytest

import ftrace
from ftrace.core.errors import MutationError
from ftrace.lifting.state.sharing import _partners
from ftrace.numpy.views import record_of


def arrays(x):
    return np.ones(3) * x, np.zeros(3) * x, np.arange(3.0) * x


def item_by_index(x, i):
    a, b, c = arrays(x)
    v = [a, b, c][i]
    v[0] = 7.0
    return a, b, c


def views_of_both(x, i):
    a, b, _ = arrays(x)
    one, other = a[1:], b[1:]
    v = a if x > 0 else b
    v[1] = 7.0
    return a, b, one, other


def views_of_a_second_base(x, i):
    a, b, _ = arrays(x)
    one, other = b[1:], a[1:]
    v = a if i > 0 else b
    v[1] = v[2] + 7.0
    other[1] = 3.0
    return one, other, v, a, b


def chosen_before_a_loop(x, i):
    a, b, _ = arrays(x)
    v, k = a if i > 0 else b, 0.0
    while k < x * x:
        v[0] = v[0] + 5.0
        k = k + 1.0
    return a, b, v


def chosen_in_a_turn(x, i):
    a, b, c = arrays(x)
    v, k = c, 0.0
    while k < x * x + 2:
        v = a if k > i else v
        v[0] = v[0] + 1.0
        v = v if k < 2 else b
        v[1] = v[1] + 2.0
        k = k + 1.0
    return a, b, c, v


def crossing_in_a_turn(x, i):
    a, b, _ = arrays(x)
    u, v, k = a, b, 0.0
    while k < x * x + i + 2:
        u[0] = u[0] + 10.0 * v[0] + 1.0
        u = b
        k = k + 1.0
    return a, b, u, v


def swapping_in_a_turn(x, i):
    a, b, _ = arrays(x)
    u, v, k = a, b, 0.0
    while k < x * x + i + 2:
        u[0] = v[0] + 1.0
        v[1] = u[1] - 2.0
        u, v = v, u
        k = k + 1.0
    return a, b, u, v


def one_of_a_loop_for_another(x, i):
    a, b, c = arrays(x)
    u, v, k = a, c, 0.0
    while k < x * x + 2:
        if k > i:
            v = u
        v[2] = v[2] + 1.0
        u[1] = u[1] + v[2]
        u = b if k > 0 else u
        k = k + 1.0
    return a, b, c, u, v


PROGRAMS = (
    *(item_by_index, views_of_both, views_of_a_second_base, chosen_before_a_loop),
    *(chosen_in_a_turn, crossing_in_a_turn, swapping_in_a_turn),
)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_writes_reach_the_array_that_a_name_shows(f):
    compiled = ftrace.jit(f)
    for x in (1.5, -1.5):
        for i in (0, 1, -1, -2):
            got, want = compiled(x, i), f(x, i)
            for g, w in zip(got, want, strict=True):
                np.testing.assert_array_equal(g, w)


def test_a_write_through_what_nobody_can_tell_is_refused():
    with pytest.raises(MutationError, match="may after an iteration"):
        ftrace.jit(one_of_a_loop_for_another)(1.5, 0)


def test_a_write_to_a_plain_copy_that_unlifted_code_made_is_refused():
    """It would be lost: NumPy gives that code the array itself."""
    sourceless = {"np": np}
    exec("def itself(x): return np.asarray(x)", sourceless)

    def f(a):
        a = np.asarray(a)
        out = np.zeros(3)
        itself = sourceless["itself"](out)
        itself[...] = a
        return out

    x = np.arange(3.0)
    np.testing.assert_array_equal(f(x), x)
    for _ in range(2):  # the second time it starts lifted
        with pytest.raises(ValueError, match="read-only"):
            ftrace.jvp(f, (x,), (x,))


class Garbage:
    """What stands for an array in a cycle that only the garbage collector takes away."""

    alive = True

    def __init__(self):
        self.owner = self


class Collecting(Garbage):
    """The same; the collector runs while one looks whether it may still be read."""

    alive = property(lambda self: gc.collect() or True)


def test_arrays_that_share_memory_may_go_while_they_are_looked_at():
    found = []

    def f(x):
        y = x * 2.0
        partners = [Garbage(), Collecting()]
        record_of(y).partners = [(weakref.ref(p), "why") for p in partners]
        del partners
        found.extend(type(p) for p in _partners(y))
        return y

    gc.disable()
    try:
        ftrace.jit(f)(np.ones(3))
    finally:
        gc.enable()
    assert Collecting in found
    assert type(None) not in found
