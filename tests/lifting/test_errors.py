"""What cannot be staged says where, why, and what to write instead."""

import bisect
import heapq
import inspect
import itertools
import re
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.errors import DtypeError, LiftError, UnexpectedTracerError

GLOBAL_LIST: list[Any] = []
COUNT = 0


CAPTURED = np.ones(3)


def refused(f: Callable[..., Any], *words: str, line: str, args: Any = (2.0,)) -> None:
    """`jit(lift(f))` raises a LiftError with these words, at the line that holds `line`."""
    with pytest.raises(LiftError) as caught:
        ftrace.jit(ftrace.lift(f))(*args)
    for word in words:
        assert word in caught.value.what, caught.value.what
    assert caught.value.fix
    lines, first = inspect.getsourcelines(f)
    expected = [first + i for i, text in enumerate(lines) if line in text]
    found = re.search(r"test_errors\.py:(\d+)", caught.value.where)
    assert found is not None
    assert int(found[1]) in expected, caught.value.where


def test_a_variable_bound_on_one_side_and_read():
    def f(x):
        if x > 1:
            y = x
        return y  # read here

    refused(
        f, "`y` is bound on one side", f"line {f.__code__.co_firstlineno + 2}", line="read here"
    )


def an_arm(x):
    if x > 1:
        y = x
    if x > 3:
        return x + y  # read here
    return x


def an_arm_in_a_loop(x):
    while x < 10:
        if x > 1:
            y = x
        x = x + 1
        if x > 3:
            x = x + y  # read here
    return x


def all_there_is(x):
    while True:
        if x > 1:
            y = x
        x = x + 1
        if x > 3:
            return x + y  # read here


def test_a_variable_bound_on_one_side_and_read_in_a_later_decision():
    for f in (an_arm, an_arm_in_a_loop, all_there_is):
        refused(f, "`y` is bound on one side", line="read here", args=(4.0,))


def test_a_class_made_on_one_side_and_read():
    def f(x):
        if x > 1:

            class C:
                pass

        return C  # read here

    line = f.__code__.co_firstlineno + 3
    refused(f, "`C` is bound on one side", f"line {line}", line="read here")


def test_a_variable_deleted_on_one_side_and_read():
    def f(x):
        y = x
        if x > 1:
            del y
        return y  # read here

    refused(f, "`y` is bound on one side", line="read here")


def test_a_name_that_a_turn_may_leave_unbound():
    def f(x):
        for k in range(3):
            if x > 0:
                y = x
                break
            x += 1
            if k == 2:
                y = -1.0
        return y  # read here

    refused(f, "`y` is bound on one side", line="read here")


def test_a_cell_bound_on_one_side_and_read():
    def f(x):
        if x > 1:
            y = x
        return (lambda: y)()  # read here

    refused(f, "`y` is bound on one side", line="read here")


def test_a_one_sided_variable_names_the_first_decision_in_a_nest():
    def f(x):
        if x > 1:
            if x > 2:
                y = x
            z = y  # read here
        else:
            z = x
        return z

    refused(f, "`y` is bound on one side", line="read here")


def test_an_array_on_one_side_and_none_on_the_other():
    def f(x):
        y = None
        if x > 1:  # decides
            y = x
        return y

    refused(f, "`y` is f64*[]", "None", line="decides")


def test_a_number_or_none():
    def by_expression(x):
        y = x if x > 1 else None  # decides
        return 0.0 if y is None else y

    def by_statement(x):
        y = None
        if x > 1:  # decides
            y = x
        return x if y is None else y

    def by_return(x):
        if x > 1:  # decides
            return x
        return None

    for f in (by_expression, by_statement, by_return):
        for transform in (ftrace.jit, ftrace.vmap, lambda f: ftrace.jit(ftrace.grad(f))):
            with pytest.raises(LiftError, match=r"(?s)None on the other.*numpy\.nan") as caught:
                transform(f)(np.full(2, 2.0) if transform is ftrace.vmap else 2.0)
            assert "# decides" in caught.value.where


def test_different_shapes():
    def f(x):
        if x > 1:  # decides
            y = np.ones(3) * x
        else:
            y = x
        return y

    first = f.__code__.co_firstlineno
    refused(f, "`y` is f64[3]", "f64*[]", f"line {first + 2}", f"line {first + 4}", line="decides")


def test_different_strings():
    def f(x):
        kind = "a" if x > 1 else "b"  # decides
        return kind == "a"

    refused(f, "the returned value is 'a'", "'b'", line="decides")


def test_different_containers():
    def f(x):
        if x > 1:  # decides
            y = (x, x)
        else:
            y = [x, x]
        return y[0]

    refused(f, "`y` is a tuple", "list", line="decides")


def test_different_results():
    def f(x):
        if x > 1:  # decides
            return x, x
        return x

    refused(f, "the returned value is", line="decides")


def test_the_truth_of_an_array():
    def f(x):
        if np.ones(3) * x > 1:  # decides
            return x
        return -x

    refused(f, "bool[3]", "one truth value", line="decides")


def test_a_carry_that_changes_its_shape():
    def f(x):
        y = x
        while (y > 1).all() if np.ndim(y) else y > 1:
            y = np.ones(3) * y
        return y

    refused(f, "`y` is f64*[]", "f64[3]", line="while")


def test_a_carry_that_changes_its_structure():
    def f(x):
        y = (x,)
        while y[0] > 1:  # turns
            y = (*y, x)
        return y[0]

    refused(f, "`y` is", "after a turn", line="turns")


def test_a_carry_that_was_none():
    def f(x):
        last = None
        while x > 1:  # turns
            last = x
            x = x / 2
        return x if last is None else last

    refused(f, "`last` is None", line="turns")


def test_a_variable_of_a_loop_that_may_not_turn():
    def f(x):
        while x > 1:
            y = x
            x = x / 2
        return y  # read here

    refused(f, "`y` is bound only in the loop", "may not iterate", line="read here")


def test_a_list_that_grows_in_an_arm():
    def f(x):
        xs = []
        if x > 1:  # decides
            xs.append(x)
        return x

    refused(f, "`xs` is a list of 1 on one side", "a list of 0 on the other", line="decides")


def test_a_set_that_grows_in_an_arm():
    def f(x):
        xs = {1}
        if x > 1:  # decides
            xs.add(2)
        return x

    refused(f, "`xs`, a set from outside, is changed", line="decides")


def test_a_dict_that_gets_keys_in_a_loop():
    def f(x):
        d = {"n": 0}
        while x > 1:  # turns
            d["m"] = 1
            x = x / 2
        return x

    refused(f, "`d['m']` is not there before a loop", line="turns")


def test_a_container_in_a_container():
    def f(x):
        d = {"n": [1]}
        if x > 1:  # decides
            d["n"].append(2)
        return x

    refused(f, "`d['n']` is a list of 2 on one side", line="decides")


def test_a_container_made_in_the_arm_is_its_own():
    def f(x):
        y = x
        if x > 1:
            parts = []
            parts.append(x)
            parts.append(2.0)
            y = parts[0] * parts[1]
        return y

    assert ftrace.jit(ftrace.lift(f))(3.0) == 6.0


class Thing:
    def __init__(self) -> None:
        self.n = 0


def test_an_attribute_of_what_outlives_the_call():
    thing = Thing()

    def f(x):
        if x > 1:
            thing.n = 3
        return x

    with pytest.raises(UnexpectedTracerError, match=r"overwrites `thing\.n`, which outlives"):
        ftrace.jit(f)(2.0)
    assert thing.n == 0


def test_an_attribute_that_is_new_in_one_arm():
    def f(x):
        thing = Thing()
        if x > 1:  # decides
            thing.m = x
        return thing.m

    refused(f, "`thing.m` is f64*[] on one side", "not bound on the other", line="decides")


def test_an_attribute_that_is_new_in_a_loop():
    def f(x):
        thing = Thing()
        while x > 1:  # turns
            thing.m = x
            x = x / 2
        return x

    refused(f, "`thing.m` is not there before a loop", line="turns")


def test_a_global_list_in_an_arm():
    def f(x):
        if x > 1:  # decides
            GLOBAL_LIST.append(1)
        return x

    refused(f, "`GLOBAL_LIST` is a list of 1 on one side", line="decides")
    assert not GLOBAL_LIST


def test_a_global_in_an_arm():
    def f(x):
        global COUNT
        if x > 1:
            COUNT = 1  # assigned
        return x

    refused(f, "The global `COUNT`", line="assigned")


def test_the_variable_of_another_function():
    def counter():
        n = 0

        def count():
            nonlocal n
            n += 1

        return count

    count = counter()

    def f(x):
        if x > 1:
            count()
        return x

    with pytest.raises(UnexpectedTracerError, match="overwrites `n`, which outlives"):
        ftrace.jit(f)(2.0)


def test_a_plain_array_in_an_arm():
    out = np.zeros(3)

    def f(x):
        if x > 1:
            out[0] = 1.0  # written
        return out.sum() * x

    refused(f, "`out` is written", line="written")


def test_a_plain_array_in_an_arm_of_an_arm():
    out = np.zeros(3)

    def f(x):
        try:
            if x > 1:  # noqa: SIM102
                if x > 2:
                    out[0] = 1.0  # written
        except ValueError:  # is not what the user's own code raised
            return x
        return out.sum() * x

    refused(f, "`out` is written", line="written")
    assert out.flags.writeable


@pytest.mark.parametrize(
    "write",
    [
        lambda a: np.subtract.at(a, [0, 1], 1.0),
        lambda a: np.negative.at(a[::-1], 0),
        lambda a: memoryview(a).__setitem__(0, 5.0),
        lambda a: np.random.default_rng(0).random(out=a),
    ],
)
def test_a_plain_array_that_numpy_writes_in_an_arm(write):
    def f(x):
        a = CAPTURED * CAPTURED
        if x > 1:
            write(a)
        return a.sum() * x

    with pytest.raises(LiftError, match="is written where a traced value decides"):
        ftrace.jit(f)(-2.0)


def test_a_plain_array_is_writeable_afterwards():
    out = np.zeros(3)

    def f(x):
        if x > 1:
            return x
        return x + out[0]

    ftrace.jit(ftrace.lift(f))(2.0)
    assert out.flags.writeable


def test_a_condition_in_a_comprehension():
    def f(x):
        return sorted([i for i in range(3) if x > i])  # here

    refused(f, "in a comprehension", line="here")


def test_yield_in_an_arm():
    def generate(x):
        if x > 1:
            yield x

    lifted = ftrace.lift(generate)
    with pytest.raises(LiftError, match="`yield` stands under a condition"):
        ftrace.jit(lambda x: list(lifted(x)))(2.0)


def test_walrus_that_may_not_run():
    def f(x):
        if x > 1 and (y := x) > 2:  # here
            return x
        return -x

    refused(f, "`y := ...`", line="here")


def test_return_out_of_a_with():
    def f(x):
        with np.errstate(all="ignore"):
            if x > 1:  # decides
                return x
        return -x

    refused(f, "out of the `with`", line="decides")


def test_return_out_of_a_try():
    def f(x):
        try:
            if x > 1:  # decides
                return x
        finally:
            x = 3
        return -x

    refused(f, "out of the `try`", line="decides")


def test_break_out_of_a_with_in_a_loop():
    def f(x):
        while True:
            with np.errstate(all="ignore"):
                x = x / 2
                if x < 1:  # decides
                    break
        return x

    refused(f, "out of the `with`", line="decides")


def test_while_else_whose_test_binds():
    def f(x):
        while (y := x) > 1:  # turns
            x = x / 2
        else:
            x = y
        return x

    refused(f, "binds a name", line="turns")


def test_recursion_with_a_known_end_and_an_early_one():
    def go(n, x):
        if n == 0:
            return x
        if x > 100:
            return x
        return go(n - 1, x * 1.5)

    xs = np.array([0.7, 90.0])
    np.testing.assert_allclose(ftrace.vmap(lambda x: go(20, x))(xs), [go(20, x) for x in xs])
    np.testing.assert_allclose(ftrace.jit(lambda x: go(20, x))(0.7), go(20, 0.7))


def test_recursion_that_a_traced_value_ends():
    def fib(n):
        if n < 2:  # decides
            return n
        return fib(n - 1) + fib(n - 2)

    refused(fib, "calls itself", line="decides")


def test_range_of_a_float():
    def f(x):
        for i in range(x):
            x = x + i
        return x

    with pytest.raises(DtypeError, match=r"range\(\) needs integers"):
        ftrace.jit(ftrace.lift(f))(2.0)


def test_items_of_different_types():
    def f(x):
        for item in [1.0, "a"]:  # turns
            if x > 1:
                break
        return x

    refused(f, "different types", line="turns")


def test_without_source_a_loop_is_refused():
    scope: dict[str, Any] = {}
    exec("def f(x):\n    while x > 1:\n        x = x / 2\n    return x", scope)
    with pytest.raises(LiftError, match="cannot be read") as caught:
        ftrace.jit(ftrace.lift(scope["f"]))(8.0)
    assert "6 times" in caught.value.what


def test_lift_needs_a_function():
    with pytest.raises(DtypeError, match="lift needs a function"):
        ftrace.lift(3)


def test_errors_of_ftrace_keep_the_users_line():
    def f(x):
        y = x
        if x > 1:
            y = np.dot(np.ones(3) * x, np.ones(4))  # here
        return y

    with pytest.raises(ftrace.errors.ShapeError) as caught:
        ftrace.jit(ftrace.lift(f))(2.0)
    assert "# here" in caught.value.where


# ---------------------------------------------------------------------------------- run time


def test_assert_is_checked_when_it_runs():
    def f(x):
        assert x > 1, f"x must exceed 1, and is {x}"
        return x * x

    compiled = ftrace.jit(ftrace.lift(f))
    assert compiled(2.0) == 4.0
    assert ftrace.grad(compiled)(2.0) == 4.0
    with pytest.raises(AssertionError, match=r"x must exceed 1, and is 0\.5") as caught:
        compiled(0.5)
    assert any("test_errors.py" in note for note in caught.value.__notes__)


def test_assert_under_vmap_checks_each_member():
    def f(x):
        assert x > 1
        return x * x

    mapped = ftrace.vmap(ftrace.lift(f))
    np.testing.assert_array_equal(mapped(np.array([2.0, 3.0])), [4.0, 9.0])
    with pytest.raises(AssertionError):
        mapped(np.array([2.0, 0.5]))


def test_assert_in_an_arm_is_checked_where_it_is_taken():
    def f(x):
        if x > 1:
            assert x < 3, "too large"
            return x
        return -x

    compiled = ftrace.jit(ftrace.lift(f))
    assert compiled(0.0) == 0.0
    assert compiled(2.0) == 2.0
    with pytest.raises(AssertionError, match="too large"):
        compiled(5.0)


def test_raise_in_an_arm_raises_when_it_is_taken():
    def f(x):
        if x < 0:
            raise ValueError("negative")
        return x * 2

    compiled = ftrace.jit(ftrace.lift(f))
    assert compiled(3.0) == 6.0
    with pytest.raises(ValueError, match="negative"):
        compiled(-3.0)
    mapped = ftrace.vmap(ftrace.lift(f))
    np.testing.assert_array_equal(mapped(np.array([1.0, 2.0])), [2.0, 4.0])
    with pytest.raises(ValueError, match="negative"):
        mapped(np.array([1.0, -2.0]))


def test_raise_in_a_loop():
    def f(x):
        n = 0
        while x > 1:
            x = x / 2
            n += 1
            if n > 5:
                raise RuntimeError("too many turns")
        return x

    compiled = ftrace.jit(ftrace.lift(f))
    assert compiled(8.0) == 1.0
    with pytest.raises(RuntimeError, match="too many turns"):
        compiled(1e9)


def test_raise_within_a_try_is_caught_there():
    def f(x):
        if x > 1:
            try:
                raise ValueError
            except ValueError:
                y = x * x
        else:
            y = x
        return y

    assert ftrace.jit(ftrace.lift(f))(3.0) == 9.0


def test_dicts_whose_keys_come_in_another_order():
    """Python goes over a dict in the order of its making, which a traced value would decide."""

    def statement(x):
        if x > 0:  # decides
            r = {"a": x, "b": 2 * x}
        else:
            r = {"b": 3 * x, "a": 4 * x}
        return list(r.values())

    def expression(x):
        r = ({"b": x, "a": 2 * x}, 1) if x > 0 else ({"a": 3 * x, "b": 4 * x}, 1)  # decides
        return r[0]

    def helper(x):
        if x > 0:  # decides
            return {"a": x, "b": 2 * x}
        return {"b": 3 * x, "a": 4 * x}

    def loop(x):
        r, n = {"a": x, "b": 2 * x}, 0
        while n < x:  # decides
            r = {"b": r["a"], "a": r["b"]}
            n = n + 1
        return list(r.values())

    def item(x):
        return [{"a": x, "b": x}, {"b": x, "a": x}][int(x > 0)]  # decides

    words = "the keys ['a', 'b']", "the keys ['b', 'a']"
    for f in (statement, expression, helper, loop):
        refused(f, *words, line="decides")
        with pytest.raises(LiftError, match="the keys"):
            ftrace.vmap(f)(np.array([1.0, -1.0]))
    refused(item, "not built alike", line="decides")


def test_dicts_of_one_order_and_those_that_nothing_reads_are_merged():
    def f(x):
        r = {"b": x, "a": 2 * x} if x > 0 else {"b": 3 * x, "a": 4 * x}
        if x > 1:
            unread = {"a": x, "b": x}
        else:
            unread = {"b": x, "a": x}
        return next(iter(r.values())), r

    for x in (1.5, -1.5):
        assert repr(ftrace.jit(f)(x)) == repr(f(x))


class Counting:
    """An iterator of a user."""

    def __init__(self):
        self.n = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 1
        return float(self.n)


def twofold(x):
    yield from (x, 2 * x, 3 * x)


ITERATORS = [
    lambda x: iter([1.0, 2.0, 3.0]),
    lambda x: iter((x, 2 * x)),
    lambda x: reversed([1.0, 2.0]),
    lambda x: iter({"a": x, "b": 2 * x}.values()),
    lambda x: (a * x for a in (1.0, 2.0)),
    lambda x: map(float, (1.0, 2.0)),
    lambda x: itertools.count(1),
    lambda x: itertools.chain([1.0], [2.0, 3.0]),
    lambda x: itertools.cycle((1.0, 2.0)),
    lambda x: iter(range(5)),
    lambda x: iter(deque([1.0, 2.0])),
    twofold,
]


@pytest.mark.parametrize("made", ITERATORS)
def test_an_iterator_advanced_where_a_traced_value_decides(made):
    """The arm that is not taken would take the item all the same."""

    def f(x):
        it = made(x)
        if x > 0:
            x = x + next(it)
        return x + next(it)

    def g(x):
        it = zip(made(x), made(x), strict=False)
        y = next(it)[0] if x > 0 else x
        return y + next(it)[1]

    def h(x):
        it, n = made(x), 0
        while n < x:
            n = n + 1
            y = next(it)
        return x + next(it)

    for broken in (f, g, h):
        for way in (ftrace.jit, lambda f: lambda x: ftrace.vmap(f)(np.array([x, -x]))):
            with pytest.raises(LiftError, match="is changed where a traced value decides"):
                way(broken)(1.5)


@pytest.mark.parametrize("made", ITERATORS)
def test_an_iterator_advanced_on_both_sides(made):
    """The second would begin where the first has left off."""

    def both(x):
        it = made(x)
        if x > 0:
            y = next(it)
        else:
            y = -next(it)
        return y

    def either(x):
        it = made(x)
        return next(it) if x > 0 else -next(it)

    for broken in (both, either):
        with pytest.raises(LiftError, match="is changed where a traced value decides"):
            ftrace.jit(broken)(1.5)


class Source:
    def __init__(self, it):
        self.it = it

    def ask(self, x):
        it = self.it
        if x > 0:
            return next(it)
        return x


def advance(it, x):
    if x > 0:
        next(it)


def it_is_given(it, x):
    advance(it, x)
    return next(it) + x


def it_is_given_and_asked(it, x):
    y = (lambda it: next(it) if x > 0 else 0.0)(it)
    return y + next(it)


def it_is_captured(it, x):
    def inner():
        return next(it) if x > 0 else x

    return inner() + next(it)


def an_object_has_it(it, x):
    source = Source(it)
    return source.ask(x) + next(source.it)


@pytest.mark.parametrize(
    "f", [it_is_given, it_is_given_and_asked, it_is_captured, an_object_has_it]
)
@pytest.mark.parametrize("made", ITERATORS)
def test_an_iterator_that_others_hold_advanced_where_a_traced_value_decides(f, made):
    """The function does not go on with it; its caller, an object or another function may."""
    with pytest.raises(LiftError, match="is changed where a traced value decides"):
        ftrace.jit(lambda x: f(made(x), x))(1.5)


def test_an_iterator_of_a_users_class_that_a_method_changes_is_an_object_with_attributes():
    class Steps(Counting):
        def reset(self, x):
            if x > 0:
                self.n = self.n * 2

    def f(x):
        it = Steps()
        y = next(it) + next(it)
        it.reset(x)
        while y < x + 30:
            y = y + next(it)
        return y + next(it)

    for x in (1.5, -1.5):
        assert ftrace.jit(f)(x) == f(x)


def test_an_iterator_of_a_users_class_is_an_object_with_attributes():
    def f(x):
        it = Counting()
        if x > 0:
            x = x + next(it)
        y = next(it) if x > 2 else -next(it)
        return x + 10 * y + 100 * next(it)

    for x in (1.5, 0.5, -1.5):
        assert ftrace.jit(f)(x) == f(x)


@pytest.mark.parametrize("made", [*ITERATORS, lambda x: Counting()])
def test_an_iterator_that_nobody_goes_on_with_may_be_advanced(made):
    def last(x):
        it = made(x)
        y = next(it)
        if x > 1:
            y = y + next(it)
        return y + x

    def returned(x):
        it = made(x)
        return next(it) + x if x > 0 else x

    def between(x):
        it = made(x)
        y = next(it)
        z = y + x if x > 0 else y - x
        return z + next(it)

    for f in (last, returned, between):
        for x in (1.5, -1.5):
            assert ftrace.jit(f)(x) == f(x)


def test_a_queue_changed_where_a_traced_value_decides():
    def f(x):
        q = deque([1.0, 2.0])
        if x > 0:  # decides
            x = x + q.popleft()
        return x + q.popleft()

    refused(f, "`q` is a deque of 1 on one side", line="decides")


class Plain:
    def __init__(self, v):
        self.v = v


def test_objects_that_a_decision_chooses_are_refused_with_what_to_do():
    def f(x):
        r = Plain(x) if x > 0 else Plain(-x)
        return r.v

    with pytest.raises(LiftError, match=r"choose the values, `P\(a if c else b\)`"):
        ftrace.jit(f)(0.5)


def test_a_loop_that_a_traced_value_ends_over_an_iterator_that_others_hold():
    def by_name(x):
        it = iter([1.0, 2.0, 3.0])
        for v in it:  # the loop
            if v > x:
                break
        return next(it)

    def by_item(x):
        held = [iter([1.0, 2.0, 3.0])]
        for v in held[0]:  # the loop
            if v > x:
                break
        return next(held[0])

    for f in (by_name, by_item):
        refused(
            f,
            "how many items are taken of an iterator that others hold",
            line="the loop",
            args=(1.5,),
        )


def pushed(x):
    heap = []
    for v in x:
        heapq.heappush(heap, v)
    return heap[0]


def listed(x):
    pairs = [(v, 1) for v in x]
    pairs.sort()
    return pairs[0][0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: 1.0 * ((x[0], x[1]) < (x[1], x[0])),
        lambda x: max((v, i) for i, v in enumerate(x))[0],
        lambda x: sorted([(v, 1) for v in x])[0][0],
        lambda x: x * bisect.bisect([1.0, 2.0], x[0]),
        pushed,
        listed,
    ],
)
def test_what_python_compares_by_itself_is_named(f):
    with pytest.raises(ftrace.errors.TracerBoolConversionError) as caught:
        ftrace.jit(f)(np.array([1.5, 0.5, 2.5]))
    assert "Tuples and lists are compared by Python itself" in caught.value.fix
    assert "argsort" in caught.value.fix
