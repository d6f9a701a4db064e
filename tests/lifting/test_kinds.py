"""Questions of type about what a traced value has chosen: answered where all classes agree."""

import functools
import math

import numpy as np
import pytest

import ftrace
from ftrace.errors import LiftError

X = np.float64(2.0)


def arm(t):
    return t if t > 1.0 else 1.0


def extreme(t):
    return max(t, 1)


def turned(t):
    y = 1
    while y < t:
        y = y * 2.5
    return y


def late(t):
    k = 0
    while True:
        y = 1 if t > 5 else 2.5
        k += 1
        if k > t:
            return y


def item(t):
    return [1, 2.5][(t > 1) * 1]


def nested(t):
    return (arm(t) if t > 3 else t) + 0.0 if t > 9 else arm(t)


VALUES = [arm, extreme, turned, late, item, nested]
QUESTIONS = {
    "type": lambda y: type(y) is float,
    "hasattr": lambda y: hasattr(y, "is_integer") and hasattr(y, "dtype"),
    "dispatch": lambda y: number(y),
    "getattr": lambda y: getattr(y, "is_integer", None) and getattr(y, "dtype", None),
}
AGREED = {
    "isinstance": (lambda y: isinstance(y, (int, float)), True),
    "hasattr": (lambda y: hasattr(y, "real"), True),
    "is": (lambda y: y is None, False),
    "a text": (lambda y: isinstance(y, str), False),
    "a scalar": (lambda y: np.isscalar(y), True),
    "getattr": (lambda y: getattr(y, "shape", ()) == (), True),
    "no getattr": (lambda y: getattr(y, "at", None) is None, True),
}


@functools.singledispatch
def number(y):
    return True


@number.register
def _(y: float):
    return False


@number.register
def _(y: np.float64):
    return True


def asked(value, question, t):
    return t * 3 if question(value(t)) else t * 2


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", AGREED)
def test_what_all_classes_answer_alike_is_answered(value, name):
    question, right = AGREED[name]
    f = functools.partial(asked, value, question)
    assert ftrace.jit(f)(X) == ftrace.vmap(f)(np.stack([X, X]))[0] == (6.0 if right else 4.0)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", QUESTIONS)
def test_what_they_answer_differently_is_refused(value, name):
    f = functools.partial(asked, value, QUESTIONS[name])
    with pytest.raises(LiftError, match="whose class a traced value decides"):
        ftrace.jit(f)(X)
    with pytest.raises(LiftError, match="whose class a traced value decides"):
        ftrace.vmap(f)(np.stack([X, X]))


@pytest.mark.parametrize("value", [extreme, turned, late, item])
def test_numbers_of_which_some_are_ints(value):
    f = functools.partial(asked, value, lambda y: isinstance(y, int))
    with pytest.raises(LiftError, match=r"isinstance.* whose class a traced value decides"):
        ftrace.jit(f)(X)


def test_answers_of_math_are_bools():
    def f(t):
        kinds = type(math.isnan(t)) is type(math.isfinite(t)) is type(math.isclose(t, 1)) is bool
        return t * 3 if kinds else t * 2

    for way in (ftrace.jit(f), ftrace.grad(f), ftrace.vmap(f)):
        assert np.max(way(np.ones(2) if way.__ftrace__[1][0] == "vmap" else X)) in (3.0, 6.0)


def test_items_of_a_sorted_list_are_of_the_classes_of_all():
    def f(t):
        return sorted([t, 1.0])[0] * 3 if type(sorted([t, 1.0])[0]) is float else t * 2

    assert ftrace.jit(f)(2.0) == f(2.0) == 3.0
    with pytest.raises(LiftError, match="whose class a traced value decides"):
        ftrace.jit(f)(X)


def test_gradients_know_which_it_is():
    def f(t):
        return t * 3 if type(max(t, 1.0)) is float else t * 2

    assert ftrace.grad(f)(2.0) == 3.0
    assert ftrace.jit(f)(2.0) == 6.0  # two floats


def test_the_class_of_a_chosen_item_is_that_of_all_items():
    def f(i):
        return 3.0 if type([1.0, 2.0][i]) is float else 2.0

    assert ftrace.jit(f)(np.int64(1)) == f(np.int64(1)) == 3.0


def test_identity_of_small_ints_is_refused():
    def f(t):
        one = 1
        return t * 3 if (t * 1) is one else t * 2

    with pytest.raises(LiftError, match="one object for small ones"):
        ftrace.jit(f)(1)
    assert ftrace.jit(f)(1.0) == 2.0  # a float is no int
    assert ftrace.jit(f)(np.int64(1)) == 2


# ---------------------------------------------------------------------------------- vectorize

ROW = np.array([1.5, -2.0])


def triple(a):
    return a * 3 if type(a) is float else a * 2


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.vectorize(triple)(x),
        lambda x: np.vectorize(triple)(x.astype(np.float32)),
        lambda x: np.vectorize(triple)(2.0) * x,
        lambda x: np.vectorize(triple)([1.0, 2.0]) * x,
        lambda x: np.vectorize(triple)(x[0]) * x,
        lambda x: np.vectorize(triple, otypes=[np.float32])(x),
        lambda x: np.vectorize(lambda a: 1 if a > 0 else 2.5, otypes=[float])(x),
        lambda x: np.vectorize(lambda a: a if isinstance(a, int) else a * 2)(x.astype(int)) * x,
        lambda x: np.vectorize(lambda a, n: a * n if type(n) is int else a)(x, 2),
        lambda x: np.vectorize(lambda a: a > 0)(x),
        lambda x: np.vectorize(lambda v: v.sum() * 2, signature="(n)->()")(np.stack([x, x])),
        lambda x: x * (2 if isinstance(np.vectorize(triple)(x[0]), np.ndarray) else 3),
    ],
)
def test_elements_that_np_vectorize_gives_are_python_numbers(f):
    right = f(ROW)
    for found in (ftrace.jit(f)(ROW), ftrace.jit(ftrace.lift(f))(ROW)):
        np.testing.assert_array_equal(found, right, strict=True)
    np.testing.assert_array_equal(ftrace.jvp(f, (ROW,), (ROW,))[0], right, strict=True)


def test_np_vectorize_of_results_of_several_types_needs_otypes():
    def f(x):
        return np.vectorize(lambda a: 1 if a > 0 else 2.5)(x)

    with pytest.raises(LiftError, match="otypes"):
        ftrace.jit(f)(ROW)
