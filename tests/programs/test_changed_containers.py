"""Lists, dicts and objects that are changed beside decisions, and where a decision returns.

Each program computes what it computes in Python, on arguments that take every path; what cannot be
followed, as it is one of two containers, raises MutationError.
"""

import itertools

import numpy as np
import pytest

import ftrace
from ftrace.errors import MutationError
from ftrace.tree_util import tree_map


class Thing:
    """An object with one attribute."""

    def __init__(self, v=1.0):
        self.v = v


def a_list_appended_to_in_a_try(x):
    items = [1.0]
    a = 0.0
    try:
        items.append(2.0)
        a += 1
        if x[0] > 0:
            raise ValueError
        a += 10
    except ValueError:
        items[0] = 5.0
        a += 100
    return a, items[0], items[-1]


def an_item_in_a_handler_and_in_its_else(x):
    items = [1.0]
    a = 0.0
    try:
        a += 1
        if x[0] > 0:
            raise ValueError
        a += 10
    except ValueError:
        items[0] = 5.0
        a += 100
    else:
        items[0] = 7.0
        a += 1000
    return a, items[0] * 1.0


def an_item_and_an_array_in_a_handler(x):
    items = [1.0]
    a = 0.0
    w = np.zeros(2)
    try:
        w[0] += 1
        if x[0] > 0:
            raise ValueError
        w[1] += 1
    except ValueError:
        items[0] = 5.0
        w += x
    finally:
        a += 1
    return a, items[0] * 1.0, w


def an_item_in_the_else_of_a_loop(x):
    items = [1.0]
    a = 0.0
    for e in x:
        if e > 0.5:
            a += 1
            break
        a += e
    else:
        items[0] = 3.0
        a += 100
    return a, items[0] * 1.0


def an_item_after_a_loop_that_may_return(x):
    items = [1.0]
    a = 0.0
    for e in x:
        if e > 0.5:
            return a, items[0] * 1.0
        a += e
    items[0] = 3.0
    a += 100
    return a, items[0] * 1.0


def items_after_two_loops_that_may_return(x):
    items = [1.0]
    a = 0.0
    i = 0
    while a < x[0]:
        a += 0.3
        i += 1
        if a > x[1]:
            return a, items[0] * 1.0
    items[0] = 3.0
    for e in x:
        if e > 0.5:
            items[0] += 4
            return a, items[0] * 1.0
    return a + 1, items[0] * 1.0


def items_and_an_array_after_a_return(x):
    d = {"k": 1.0}
    w = np.zeros(3)
    if x[0] > 0:
        w[0] = 1
        if x[1] > 0:
            return w, d["k"] * 1.0
        w[1] += 2
    w[2] += 1
    d["k"] = 2.0
    w[0] += 1
    if x[1] > -1:
        d["k"] += 1
    else:
        d["j"] = 3.0
        del d["j"]
    return w, d["k"] * 1.0


def items_in_a_loop_that_may_return(x):
    d = {"k": 1.0}
    w = np.zeros(3)
    n = 0
    while x[0] > n:
        n += 1
        w[0] += 1
        if x[1] > n:
            d["k"] += 1
            continue
        w[1] += 1
        if n > 2:
            return w, d["k"] * 1.0
        d["k"] *= 2
    d["k"] -= 5
    return w, d["k"] * 1.0


def a_variable_of_a_closure_and_a_dict(x):
    d = {"k": 1.0}

    def g(a):
        nonlocal d
        if a > 0:
            if a > 1:
                return a
            a *= 2
        d = {"k": a * 1.0}
        return a + d["k"]

    return g(x[0]) + g(x[1]), d["k"] * 1.0


def an_attribute_after_a_return_and_in_a_try(x):
    b = Thing()
    a = 1.0
    if x[0] > 0:
        a += 1
        if x[1] > 0:
            return a, b.v * 1.0
        a += 1
    b.v = a
    a += 1
    try:
        if x[1] < -0.5:
            raise KeyError
        b.v += 1
        a += 1
    except KeyError:
        b.v -= 1
        if x[0] > 0.3:
            return a * 10, b.v * 1.0
    a += b.v
    return a, b.v * 1.0


def an_attribute_after_a_return(x):
    u = Thing(x * 1.0)
    u.s = -0.3
    a = 1.5
    if x[0] > -1.25:
        if x[1] > -0.3:
            return a
        a -= u.s
    u.v = x.copy()
    return a + 1


def an_item_after_a_return(x):
    a = 1.5
    items = [1]
    if x[0] > -1.25:
        if x[1] > -0.3:
            return a
        a -= 0.3
    items[0] = 2
    return a + 1


def an_attribute_in_a_handler_that_may_return(x):
    b = Thing()
    a = 1.0
    try:
        if x[1] < -0.5:
            raise KeyError
        b.v += 1
        a += 1
    except KeyError:
        b.v -= 1
        if x[0] > 0.3:
            return a * 10, b.v * 1.0
    a += b.v
    return a, b.v * 1.0


def attributes_in_a_loop_after_a_decision(x):
    b = Thing()
    a = 1.0
    if x[0] > 0:
        b.v -= 3
    b.v += 4
    for i in range(3):
        if x[1] < i:
            b.v *= 2
        b.v += 1
    return a, b.v * 1.0


def a_dict_bound_anew_where_another_arm_writes_it(x):
    d = {"k": 1.0}
    a = x[0]
    if x[1] > 0:
        try:
            if a < 0:
                raise KeyError
            d["k"] = a
        except KeyError:
            d["k"] = a + 7
    else:
        d = {"k": 2.0}
    return d["k"] * 1.0


def the_same_in_a_loop_in_a_try(x):
    d = {"k": 1.0}
    a = x[0]
    if x[1] > 0:
        try:
            if a < 0:
                raise KeyError
            n = 0
            while n < 2 and d["k"] < 2.5:
                n += 1
                d["k"] = a
        except KeyError:
            d["k"] = a + 7
    else:
        d = {"k": 3.0}
    return d["k"] * 1.0


def items_on_two_paths_of_an_arm(x):
    d = {"k": 1.0}
    a = x[0]
    if x[1] > 0:
        if a < 0:
            d["k"] = a
        else:
            d["k"] = a * 2
    else:
        d = {"k": 2.0}
    return d["k"] * 1.0


def an_item_or_a_new_dict(x):
    d = {"k": 1.0}
    a = x[0]
    if x[1] > 0:
        d["k"] = a
    else:
        d = {"k": 2.0}
    return d["k"] * 1.0


def an_item_before_an_error_of_pythons(x):
    items = [1.0]
    a = 0.0
    z = 0
    try:
        if x[0] > 0:
            items[0] = 5.0
            1 / z
    except ZeroDivisionError:
        a = 1.0
    return a, items[0] * 1.0


def an_item_and_an_error_of_a_type(x):
    items = [1.0]
    a = 0.0
    z = 0
    try:
        if x[0] > 0:
            items[0] = x[1]
            a += z[3]
    except TypeError:
        a = 1.0
    return a, items[0] * 1.0


def items_in_a_try_in_a_try(x):
    items = [1.0]
    a = 0.0
    try:
        try:
            if x[0] > 0.1:
                raise ValueError
            a -= 1
            if x[1] > 0:
                a += 1
                items[0] = 3.0
            items[0] = a
        except ValueError:
            if x[1] > 0.3:
                items[0] = a
            a += 2
        finally:
            a += 0.25
        if a < 3:
            raise ValueError
    except ValueError:
        a += 1
    if items[0] > 2:
        a += 4
    return a, items[0] * 1.0


def two_names_of_a_list_in_a_try(x):
    items = [1.0, 2.0]
    a = 0.0
    m = items
    try:
        if x[0] > 0.1:
            raise ValueError
        if x[1] > 0:
            m = items
            m[0] = 3.0
        items[0] = a
    except ValueError:
        items[0] = a + 1
    a += items[0]
    return a, items[0] * 1.0


def an_array_before_an_error(x):
    w = np.zeros(2) + x
    a = 0.0
    z = 0
    try:
        if x[0] > 0:
            w[0] = 7.0
            a = z[3]
    except TypeError:
        a = 1.0
    return a, w


def a_number_before_an_error(x):
    a = 0.0
    z = 0
    b = 1.0
    try:
        if x[0] > 0:
            b = 7.0
            a = z[3]
    except TypeError:
        a = 1.0
    return a, b


def a_new_list_that_nothing_else_shows(x):
    best = [1.0, 2.0]
    if x[0] > 0:
        best = [3.0, 4.0]
    best[0] += x[1]
    return best[0] * 1.0


def two_names_of_one_new_dict(x):
    d = {"k": [1.0]}
    if x[0] > 0:
        d = {"k": [2.0]}
        e = d
    else:
        e = d
    d["k"][0] += 1
    return e["k"][0]


RIGHT = (
    a_list_appended_to_in_a_try,
    an_item_in_a_handler_and_in_its_else,
    an_item_and_an_array_in_a_handler,
    an_item_in_the_else_of_a_loop,
    an_item_after_a_loop_that_may_return,
    items_after_two_loops_that_may_return,
    items_and_an_array_after_a_return,
    items_in_a_loop_that_may_return,
    a_variable_of_a_closure_and_a_dict,
    an_attribute_after_a_return_and_in_a_try,
    an_attribute_after_a_return,
    an_item_after_a_return,
    an_attribute_in_a_handler_that_may_return,
    attributes_in_a_loop_after_a_decision,
    a_dict_bound_anew_where_another_arm_writes_it,
    the_same_in_a_loop_in_a_try,
    items_on_two_paths_of_an_arm,
    an_item_or_a_new_dict,
    an_item_before_an_error_of_pythons,
    an_item_and_an_error_of_a_type,
    items_in_a_try_in_a_try,
    two_names_of_a_list_in_a_try,
    an_array_before_an_error,
    a_number_before_an_error,
    a_new_list_that_nothing_else_shows,
    two_names_of_one_new_dict,
)


def chosen_in_a_loop_then_changed(x):
    d = {"k": 1.0}
    e = {"k": 3.0}
    cur = e
    for v in x:
        if v > 0:
            cur = d
    d["k"] = 100.0
    return cur["k"] * 1.0


def a_copy_made_by_a_loop_then_changed(x):
    d = {"k": 1.0}
    e = {"k": 3.0}
    cur = e
    i = 0
    while i < x[0]:
        i += 1
        cur = d
    cur["k"] = 100.0
    return d["k"] * 1.0


def a_copy_while_the_other_is_shown(x):
    items = [1.0, 2.0]
    best = items
    if x[0] > 0:
        best = [3.0, 4.0]
    best[0] += x[1]
    return best[0] * 1.0, items[0] * 1.0


def a_side_after_the_choice(x):
    cand = [1.0, 2.0]
    best = [0.0, 0.0]
    if x[0] > 0:
        best = cand
    cand[0] = 9.0
    return best[0] * 1.0


def chosen_by_an_expression(x):
    c = [1.0, 2.0]
    r = c if x[0] > 0 else [4.0, 5.0]
    r[0] = 7.0
    return c[0] * 1.0


def a_list_in_a_chosen_tuple(x):
    p = (1.0, [2.0])
    q = (3.0, [4.0])
    r = p if x[0] > 0 else q
    p[1][0] = 7.0
    return r[1][0] * 1.0


def two_names_of_a_dict_one_of_them_chosen(x):
    d = {"k": 1.0}
    e = {"k": 3.0}
    a = x[0]
    if x[1] > 0:
        d["k"] = a
        e = d
    else:
        e["k"] = 2.0
    d["k"] = 100.0
    return d["k"] * 1.0 + e["k"]


def a_copy_in_a_handler_the_list_outside_of_it(x):
    items = [1.0, 2.0]
    m = items
    a = 0.5
    try:
        if x[0] > 0.5:
            raise ValueError
        items = [a, items[0]]
    except ValueError:
        items[0] = a
    return items[0] * 1.0, m[0] * 1.0


def a_side_in_a_later_decision(x):
    items = [1.0, 2.0]
    m = items
    a = 0.5
    if x[0] > 0.5:
        items = [a, items[0]]
    if x[0] < 0.2:
        items[0] = a
    return items[0] * 1.0, m[0] * 1.0


REFUSED = (
    chosen_in_a_loop_then_changed,
    a_copy_made_by_a_loop_then_changed,
    a_copy_while_the_other_is_shown,
    a_side_after_the_choice,
    chosen_by_an_expression,
    a_list_in_a_chosen_tuple,
    two_names_of_a_dict_one_of_them_chosen,
    a_copy_in_a_handler_the_list_outside_of_it,
    a_side_in_a_later_decision,
)


VALUES = [np.array(v) for v in itertools.product([-0.7, 0.4, 2.6], [-0.6, 0.2, 1.7])]


def _name(f):
    return f.__name__.replace("_", " ")


@pytest.mark.parametrize("f", RIGHT, ids=_name)
def test_compiled(f):
    jitted = ftrace.jit(f)
    for x in VALUES:
        tree_map(np.testing.assert_allclose, jitted(x), f(x))


@pytest.mark.parametrize("f", RIGHT, ids=_name)
def test_mapped(f):
    mapped = ftrace.vmap(f)(np.stack(VALUES))
    for i, x in enumerate(VALUES):
        tree_map(np.testing.assert_allclose, tree_map(lambda v: v[i], mapped), f(x))  # noqa: B023


@pytest.mark.parametrize("f", REFUSED, ids=_name)
def test_what_may_be_one_of_two_is_not_changed(f):
    with pytest.raises(MutationError, match="had made it one of two"):
        ftrace.jit(f)(VALUES[-1])
    with pytest.raises(MutationError, match="had made it one of two"):
        ftrace.vmap(f)(np.stack(VALUES))


def test_a_handler_that_ends_with_an_error_of_its_own_leaves_others_alone():
    def f(x):
        found = {"k": 1.0}
        try:
            if x[0] > 1:
                raise KeyError
        except KeyError:
            found["k"] = x[1]
            found["none"]
        return found["k"] * 1.0

    jitted = ftrace.jit(f)
    assert jitted(VALUES[0]) == 1.0
    with pytest.raises(KeyError):
        jitted(VALUES[-1])
