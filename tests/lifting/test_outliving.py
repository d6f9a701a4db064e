"""State that outlives a trace, names that are looked up by text, iterators that loops share."""

import types

import numpy as np
import pytest

import ftrace
from ftrace import jit, vectorize, vmap
from ftrace.errors import LiftError, UnexpectedTracerError

TOTAL = 0.0
X = np.array([2.0, 0.5, 4.0])


class Holder:
    def __init__(self):
        self.value = 1.0
        self.inner = {"a": [3.0]}

    def add(self, x):
        self.value = self.value + x
        return self.value


def of_a_variable():
    count = 1.0

    def f(x):
        nonlocal count
        if x > 1:
            count = count + x
        return count

    return f, lambda: count, "`count`"


def of_a_global():
    def f(x):
        global TOTAL
        TOTAL = TOTAL + x
        return TOTAL

    return f, lambda: TOTAL, "`TOTAL`"


def of_a_list():
    items = [0.0, 5.0]

    def f(x):
        items[1] = items[1] + x
        return items[1]

    return f, lambda: items[1], r"`items\[1\]`"


def of_a_dict_in_a_helper():
    table = {"a": 1.0}

    def store(x):
        table["a"] *= x

    def f(x):
        store(x)
        return table["a"]

    return f, lambda: table["a"], r"`table\['a'\]`"


def of_an_attribute():
    holder = Holder()

    def f(x):
        return holder.add(x) * 2

    return f, lambda: holder.value, "`holder.value`"


def deep_inside():
    holder = Holder()

    def f(x):
        holder.inner["a"][0] = x
        return x

    return f, lambda: holder.inner["a"][0], r"`holder.inner\['a'\]\[0\]`"


def deep_among_functions_that_name_one_another():
    count = 1.0

    def last(x):
        nonlocal count
        count = count + x
        return count

    def around(g):
        return lambda x: g(x)

    call = last
    for _ in range(8):
        call = around(call)

    def first(x):
        return (first, second, third) if x is None else call(x)

    def second():
        return first, second, third

    def third():
        return first, second, third

    return first, lambda: count, "`count`"


STATES = [
    of_a_variable,
    of_a_global,
    of_a_list,
    of_a_dict_in_a_helper,
    of_an_attribute,
    deep_inside,
    deep_among_functions_that_name_one_another,
]


@pytest.mark.parametrize("state", STATES, ids=lambda s: s.__name__)
def test_state_that_a_traced_value_overwrites_is_named_and_put_back(state):
    f, now, words = state()
    before = now()
    for way, kind, x in (
        (jit, UnexpectedTracerError, 2.0),
        (vmap, UnexpectedTracerError, X),
        (lambda f: jit(vmap(f)), UnexpectedTracerError, X),
        (vectorize, LiftError, X),
        (lambda f: jit(vectorize(f)), LiftError, X),
    ):
        for _ in range(2):
            with pytest.raises(kind, match=f"overwrites {words}"):
                way(f)(x)
            assert now() == before
    assert isinstance(f(2.0), float)


def test_a_method_that_overwrites_its_object_is_named():
    holder = Holder()
    with pytest.raises(UnexpectedTracerError, match=r"overwrites `self\.value`"):
        jit(holder.add)(1.0)
    assert holder.value == 1.0


def test_state_of_plain_values_is_refused_between_the_elements_of_a_kernel_only():
    counts, array = [0], np.zeros(2)

    def f(x):
        counts[0] += 1
        return x * counts[0]

    def g(x):
        array[0] += 1
        return x * array[0]

    assert jit(f)(2.0) == 2.0
    assert counts == [1]
    with pytest.raises(LiftError, match=r"`counts\[0\]`"):
        vectorize(f)(X)
    assert counts == [1]
    with pytest.raises(LiftError, match="`array`"):
        vectorize(g)(X)
    assert array[0] == 0.0


def test_what_grows_and_what_was_nothing_may_keep_a_value_for_whoever_looks_at_it():
    seen, last = [], None

    def f(x):
        nonlocal last
        seen.append(x)
        last = x
        return x * 2

    assert jit(f)(2.0) == 4.0
    with pytest.raises(UnexpectedTracerError):
        np.sin(seen[0])
    np.testing.assert_array_equal(vectorize(lambda x: x + len(seen))(X), X + 1)


# ---------------------------------------------------------------------------------- names by text


def by_locals(x):
    if x > 1:
        x = x * 2
    return locals()["x"]


def by_vars(x):
    y = 1.0
    if x > 1:
        y = x * 2
    return vars()["y"] + vars()["x"]


def by_eval(x):
    y = x
    while y > 1:
        y = y / 2
    return eval("x * 10 + y")


def by_eval_in_an_arm(x):
    y = x + 1
    if x > 1:
        y = eval("x + y")
    else:
        z = y * 3
        y = eval("z - x")
    return y


def by_exec(x):
    if x > 1:
        x = x * 2
    found = {}
    exec("r = x + 1", {"x": x}, found)
    return found["r"]


@pytest.mark.parametrize("f", [by_locals, by_vars, by_eval, by_eval_in_an_arm, by_exec])
def test_names_that_are_looked_up_by_text_have_their_values(f):
    for x in X:
        assert jit(f)(float(x)) == f(float(x))
    np.testing.assert_array_equal(vmap(f)(X), [f(x) for x in X])


# ---------------------------------------------------------------------------------- iterators


def two_loops(x, it):
    total = 0.0
    for v in it:
        total += v
        if v * x > 3:
            break
    for v in it:
        total += 10 * v
    return total


ITERATORS = {
    "iter": lambda: iter([1.0, 2.0, 3.0, 4.0]),
    "generator": lambda: (v * 2 for v in (1.0, 2.0, 3.0)),
    "map": lambda: map(abs, [1.0, -2.0, 3.0]),
    "array": lambda: iter(np.arange(4.0)),
}


@pytest.mark.parametrize("make", ITERATORS.values(), ids=ITERATORS)
def test_an_iterator_that_others_may_go_on_with_is_refused_where_a_value_ends_its_loop(make):
    def f(x):
        return two_loops(x, make())

    with pytest.raises(LiftError, match="how many items are taken of an iterator that others hold"):
        jit(f)(2.0)

    def known(x):  # Python decides
        it = make()
        total = x
        for v in it:
            total = total + v
            if v > 1:
                break
        return total + sum(it) if x > 0 else total

    assert jit(known)(2.0) == known(2.0)
    assert jit(known)(-2.0) == known(-2.0)


def test_pairs_of_one_iterator_are_refused_where_a_value_ends_the_loop():
    def f(x):
        it = iter([1.0, 2.0, 3.0, 4.0])
        total = 0.0
        for a, b in zip(it, it, strict=True):
            if total > x:
                break
            total += a * b
        return total

    with pytest.raises(LiftError, match="iterator"):
        jit(f)(1.0)


def test_iterators_without_a_name_are_theirs_of_the_loop():
    def f(x):
        total = 0.0
        for i, v in enumerate(v * 2 for v in (1.0, 2.0, 3.0)):
            if v > x:
                break
            total += v * i
        return total

    for x in X:
        assert jit(f)(float(x)) == f(float(x))


# ---------------------------------------------------------------------------------- pairs


def ends_with_the_shorter(x):
    """The longer one stands first: Python takes an item of it more."""
    total = 0.0
    for a, b in zip([1.0, 2.0, 3.0, 4.0], (10.0, 20.0), strict=False):
        if total > x:
            break
        total += a * b
    return total


def array_and_list(x):
    total = 0.0
    for i, (a, b) in enumerate(zip(np.arange(5.0), [10.0, 20.0, 30.0], strict=False)):
        total += a * b * i
        if total > x * 20:
            return -total
    return total


def all_three_jumps(x):
    n, total = 0, 0.0
    while n < 9:
        n += 1
        if n % 2:
            continue
        if total > 10 * x:
            break
        if n * x > 20:
            return -total - n
        total += n * x
    return total + 1000


def all_three_jumps_in_a_for(x):
    total = 0.0
    for i in range(7):
        if i * x < 1:
            continue
        total += i
        if total > 12:
            return total * x
        if i > x + 2:
            break
    else:
        total = total - 500
    return total


@pytest.mark.parametrize(
    "f", [ends_with_the_shorter, array_and_list, all_three_jumps, all_three_jumps_in_a_for]
)
def test_pairs_of_features(f):
    for x in (0.1, 0.5, 1.0, 2.0, 3.5, 9.0):
        assert jit(f)(x) == pytest.approx(f(x))
    xs = np.array([0.1, 0.5, 1.0, 2.0, 3.5, 9.0])
    np.testing.assert_allclose(vectorize(f)(xs), [f(x) for x in xs])
    np.testing.assert_allclose(vmap(f)(xs), [f(x) for x in xs])


def test_masked_cotangents_of_two_results_meet_on_one_input():
    @vectorize
    def both(x):
        return np.sqrt(x), np.log(x)

    def loss(x):
        root, logarithm = both(x)
        one = np.where(x > 1, root, 0.0)
        other = np.where(x > 3, logarithm, 2.0 * x)
        return (one * np.array([1.0, 2.0, 3.0, 4.0]) + other).sum()

    x = np.array([0.0, 2.0, 4.0, 1.0])
    expected = [2.0, 2 / (2 * np.sqrt(2.0)) + 2, 3 / (2 * 2.0) + 1 / 4.0, 2.0]
    for way in (ftrace.grad, lambda f: jit(ftrace.grad(f)), lambda f: ftrace.grad(jit(f))):
        np.testing.assert_allclose(way(loss)(x), expected)


def test_what_an_inner_trace_stores_of_a_trace_that_goes_on_is_left_there():
    box = types.SimpleNamespace(value=1.0)

    def f(x):
        def inner(y):
            box.value = x
            return y * 2.0

        result = ftrace.jit(inner)(x) * box.value
        box.value = 1.0
        return result

    assert ftrace.grad(f)(3.0) == 12.0
    assert ftrace.jit(f)(3.0) == 18.0
