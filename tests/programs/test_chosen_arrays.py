"""Plain arrays that a traced decision makes one of two, and that are written through another name.

What is decided has copied their elements: a later write, which NumPy would show in it, is an error
where lifting does not see that the array is written.
"""

import numpy as np
import pytest

import ftrace
from ftrace.errors import MutationError

W = np.array([-1.0, -0.92, -1.18])
FLAGS = np.array([True, False, True])


def an_arm(y, late):
    a = W * 1.0
    view = a[:-1]
    if y:
        a = np.ones(3)
    if late:
        view[0] = 0.5
    return a


def an_expression(y, late):
    a = W * 1.0
    b = np.ones(3) if y else a
    if late:
        a *= 2.0
    return b


def a_loop(y, late):
    a = W * 1.0
    view, n = a[::-1], 0
    while y and n < 2:
        n += 1
        a = np.ones(3)
    if late:
        view[:] = 0.5
    return a


def a_loop_of_decisions(y, late):
    a = W * 1.0
    view = a[:-1]
    for e in [0.5, 0.7]:
        if y:
            a = np.ones(3)
        if late:
            view[0] = e
    return a


def chosen_by(y, a):
    return np.ones(3) if y else a


def a_helper(y, late):
    a = W * 1.0
    b = chosen_by(y, a)
    if late:
        np.add(a, 1.0, out=a)
    return b


def large(y, late):
    a = np.tile(W, 40_000)
    b = np.ones(a.shape) if y else a
    if late:
        a[-1] = 0.5
    return b[-3:]


def large_by_a_view(y, late):
    a = np.tile(W, 40_000)
    view = a[-5:]
    b = np.ones(a.shape) if y else a
    if late:
        view[-1] = 0.5
    return b[-3:]


def an_iteration(y, late):
    a, b, n = np.ones(3), W * 1.0, 0
    while y and n < 2:
        n += 1
        a = b
    if late:
        b[1:] = 0.5
    return a


FUNCTIONS = (
    an_arm, an_expression, a_loop, an_iteration, a_loop_of_decisions, a_helper, large,
    large_by_a_view,
)  # fmt: skip
FOLLOWED = (an_expression, large)  # the array is written by its own name, which lifting sees
SOMETIMES = (an_iteration,)  # which a trace of its own does not
WAYS = {
    "vmap": lambda f, late: ftrace.vmap(lambda y: f(y, late))(FLAGS),
    "jit": lambda f, late: np.stack([ftrace.jit(lambda y: f(y, late))(y) for y in FLAGS]),
    "jit of vmap": lambda f, late: ftrace.jit(ftrace.vmap(lambda y: f(y, late)))(FLAGS),
    "lift under vmap": lambda f, late: ftrace.vmap(ftrace.lift(lambda y: f(y, late)))(FLAGS),
    "vmap in vmap": lambda f, late: ftrace.vmap(ftrace.vmap(lambda y: f(y, late)))(FLAGS[None])[0],
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("f", FUNCTIONS)
def test_a_write_after_the_decision_is_seen_or_an_error(f, way):
    try:
        found = way(f, True) if f in FOLLOWED + SOMETIMES else None
    except MutationError:
        assert f in SOMETIMES
        found = None
    if found is not None:
        np.testing.assert_array_equal(found, np.stack([f(y, True) for y in FLAGS]))
    else:
        with pytest.raises(MutationError, match=r"written after a decision|was changed while"):
            way(f, True)
    np.testing.assert_array_equal(way(f, False), np.stack([f(y, False) for y in FLAGS]))


def before_and_elsewhere(y):
    scratch, a = np.zeros(3), W * 1.0
    a[0] = 0.5
    out = np.ones(3) if y else a
    for k in range(2):
        scratch[:] = k
        out = out + scratch
    return out


def test_writes_before_the_decision_and_to_others_are_right():
    expected = np.stack([before_and_elsewhere(y) for y in FLAGS])
    np.testing.assert_array_equal(ftrace.vmap(before_and_elsewhere)(FLAGS), expected)


def test_an_error_leaves_nothing_behind():
    def fails(y):
        an_expression(y, False)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ftrace.vmap(ftrace.lift(fails))(FLAGS)
    for f in FUNCTIONS:
        np.testing.assert_array_equal(
            WAYS["vmap"](f, False), np.stack([f(y, False) for y in FLAGS])
        )


def stored_in_itself(x):
    a, b = x * 1.0, x * 2.0
    y = a if x.sum() > 0 else b
    y[:] = y
    y[0] = 7.0
    return np.stack([a, b, y])


def stored_backwards(x):
    a, b = x * 1.0, x * 2.0
    y = a if x.sum() > 0 else b
    y[::-1] = y
    return np.stack([a, b, y])


def copied_in_an_arm(x):
    y, z = x * 1.0, x * 2.0
    if x.sum() > 0:
        np.copyto(y, z)
    z[0] = 7.0
    return np.stack([y, z])


def rows_at_traced_places(x):
    a, n = np.outer(x, x) * 1.0, int(x[1] > -1)
    row = a[n + 1] if x[0] > 0 else a[:, n]
    row[0] = 9.0
    a[0, 1] = 5.0
    return np.stack([*a, row * 1.0])


@pytest.mark.parametrize(
    "f", [stored_in_itself, stored_backwards, copied_in_an_arm, rows_at_traced_places]
)
def test_writes_to_and_from_what_was_chosen_are_numpys(f):
    xs = np.stack([W, -W])
    expected = np.stack([f(x) for x in xs])
    np.testing.assert_array_equal(np.stack([ftrace.jit(f)(x) for x in xs]), expected)
    np.testing.assert_array_equal(ftrace.vmap(f)(xs), expected)


def test_what_two_layouts_share_is_not_known():
    def flat(x, late):
        a = np.outer(x, x).copy()
        found = (a if x[0] > 0 else a.T).ravel()
        if late:
            found[1] = 9.0
        return np.concatenate([a.ravel(), found])

    for x in (W, -W):
        np.testing.assert_array_equal(ftrace.jit(lambda x: flat(x, False))(x), flat(x, False))
        with pytest.raises(MutationError, match="a memory layout that is not known"):
            ftrace.jit(lambda x: flat(x, True))(x)


def test_what_nothing_shares_can_be_written():
    def f(x):
        a = (np.outer(x, x) + np.outer(x, W).T)[:, :0]
        b = a.reshape(0, 3)
        a[...] = b[...] = 1.0
        return b.sum(axis=0)

    np.testing.assert_array_equal(ftrace.jit(f)(W), f(W))
