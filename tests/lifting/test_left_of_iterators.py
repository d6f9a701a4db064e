"""What a traced value leaves of an iterator: as in Python, or an error that says so."""

# ruff: noqa: C417 - a map is what is tested

import itertools
import math
from collections import deque

import numpy as np
import pytest

from ftrace import grad, jit, vectorize, vmap
from ftrace.errors import LiftError

POINTS = (-1.5, 0.5, 2.5)
THREE = (1.0, 2.0, 3.0)


def above(items, x):
    for v in items:
        yield v > x


class Counting:
    """An iterator of a class of its own."""

    def __init__(self, x):
        self.i, self.x = 0, x

    def __iter__(self):
        return self

    def __next__(self):
        self.i += 1
        if self.i > 3:
            raise StopIteration
        return self.i > self.x


class Given:
    """It gives the same iterator again and again."""

    def __init__(self, x):
        self.given = (v > x for v in THREE)

    def __iter__(self):
        return self.given


def a_generator(x):
    return x * 2 if any(v > x for v in THREE) else x * 3


def an_array(x):
    return x * 2 if all(v < 3 for v in np.arange(5.0) * x) else x * 3


def what_raises_behind_the_end(x):
    return x * 2 if any(x > k or math.log(3 - x - k) > 9 for k in (2.0, 0.4)) else x


def several_loops(x):
    return x * 2 if any(a * b > x for a in (1.0, 2.0) for b in (a, 3.0)) else x * 3


def a_function_that_yields(x):
    return x * (any(above(list(THREE), x)) + 1)


def a_map(x):
    return x * (any(map(lambda v: v > x, THREE)) + 1)


def a_chain(x):
    return x * (all(v > x for v in itertools.chain([1.0], iter([2.0]))) + 1)


def an_object(x):
    return x * (any(Counting(x)) + 1)


def a_loop(x):
    for v in above(THREE, x):
        if v:
            break
        x = x + 1
    return x


def endless_beside_known(x):
    for i, v in zip(itertools.count(), THREE):
        if v > x:
            break
    return v * x + i


def of_a_dict(x):
    known = {"a": x, "b": 1.0}
    found = 1.0 in {"c": x - 0.1, "d": 2 * x}.values()
    return x * any({"c": x > 0, "d": x > 1}.values()) + max(known.values()) * (1 + found)


def of_a_deque(x):
    return min(deque([x, 1.0])) * sorted(deque([x, 2.0, x * x]))[1]


class Several:
    def __init__(self, *items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


def of_an_iterable(x):
    return max(Several(x, 1.0, x * x)) * (1 + all(Several(x > 0, x > 1)))


RIGHT = (
    *(of_a_dict, of_a_deque, of_an_iterable),
    *(a_generator, an_array, what_raises_behind_the_end, several_loops, a_function_that_yields),
    *(a_map, a_chain, an_object, a_loop, endless_beside_known),
)


@pytest.mark.parametrize("f", RIGHT)
def test_an_iterator_that_nobody_else_holds_may_be_left_by_a_traced_value(f):
    wanted = [f(x) for x in POINTS]
    np.testing.assert_allclose([jit(f)(x) for x in POINTS], wanted)
    np.testing.assert_allclose(vmap(f)(np.array(POINTS)), wanted)
    np.testing.assert_allclose(vectorize(f)(np.array(POINTS)), wanted)
    for x in POINTS:
        assert grad(jit(f))(x) == pytest.approx((f(x + 1e-5) - f(x - 1e-5)) / 2e-5)


def test_what_follows_the_item_that_ends_any_is_not_computed():
    seen = []

    def f(x):
        seen.clear()
        found = any(seen.append(v) or v > x for v in THREE if v > 0)
        return x * found * len(seen)

    assert grad(f)(1.5) == 2.0 == f(1.5) / 1.5
    with pytest.raises(LiftError):
        jit(f)(1.5)


def named(x):
    it = iter(THREE)
    any(map(lambda v: v > x, it))
    return next(it, 10.0) * x


def beneath_a_generator(x):
    it = iter(THREE)
    any(v > x for v in it)
    return next(it, 10.0) * x


def a_named_generator(x):
    g = (v > x for v in THREE)
    any(g)
    return x * sum(1 for _ in g)


def comparisons(x):
    it = iter([x > 0, x > 1, x > 2])
    all(it)
    return x * len(list(it))


def beneath_a_function(x):
    it = iter(THREE)
    any(above(it, x))
    return next(it, 10.0) * x


def behind_others(x):
    it = iter(THREE)
    any(v > x for v in itertools.chain([0.0], it))
    return next(it, 10.0) * x


def read_by_the_element(x):
    it = iter(THREE)
    any(map(lambda _: next(it) > x, THREE))
    return next(it, 10.0) * x


def of_an_object(x):
    c = Counting(x)
    any(c)
    return x * c.i


def given_by_an_object(x):
    g = Given(x)
    any(v for v in g)
    return x * sum(1 for _ in g)


def given_at_once(x):
    g = Given(x)
    any(g)
    return x * sum(1 for _ in g)


def in_pairs(x):
    for a, b in zip(*[iter((*THREE, 4.0))] * 2):
        if a * b > x:
            break
    return a * b * x


def a_loop_over_a_map(x):
    it = iter(THREE)
    for v in map(abs, it):
        if v > x:
            break
    return next(it, 10.0) * x


def a_walrus(x):
    return hit if any((hit := v * x) > 1 for v in THREE) else 0.0 * x


def a_variable(x):
    n = 0

    def counted():
        nonlocal n
        for v in THREE:
            n += 1
            yield v > x

    any(counted())
    return n * x


def a_list(x):
    log = []

    def check(v):
        log.append(v)
        return v > x

    any(map(check, THREE))
    return len(log) * x


def an_array_that_is_written(x):
    a = np.zeros(3)

    def filled():
        for i in range(3):
            a[i] = 1.0
            yield a[i] * i > x

    any(filled())
    return a.sum() * x


def a_loop_over_what_counts(x):
    n = 0

    def counted():
        nonlocal n
        for v in THREE:
            n += 1
            yield v

    for v in counted():
        if v > x:
            break
    return n * x


def without_an_end(x):
    for v in itertools.count():
        if v > x:
            break
    return v * x


REFUSED = {
    named: "an iterator that others hold",
    beneath_a_generator: "an iterator that others hold",
    a_named_generator: "an iterator that others hold",
    comparisons: "an iterator that others hold",
    beneath_a_function: "an iterator that others hold",
    behind_others: "an iterator that others hold",
    read_by_the_element: "an iterator that others hold",
    of_an_object: "an iterator that others hold",
    given_by_an_object: "an iterator that others hold",
    given_at_once: "an iterator that others hold",
    in_pairs: "an iterator that others hold",
    a_loop_over_a_map: "an iterator that others hold",
    a_walrus: "The variable `hit`",
    a_variable: "The variable `n`",
    a_list: "a list from outside, is changed",
    an_array_that_is_written: "An array is written where the items of an iterator",
    a_loop_over_what_counts: "The variable `n`",
    without_an_end: "gives 100,000 and more",
}


@pytest.mark.parametrize("f", REFUSED)
def test_what_could_tell_how_many_items_were_taken_is_refused(f):
    for mode in (jit, lambda f: grad(jit(f)), lambda f: lambda x: vectorize(f)(np.full(2, x))):
        with pytest.raises(LiftError, match=REFUSED[f]):
            mode(f)(1.5)
    f(1.5)
