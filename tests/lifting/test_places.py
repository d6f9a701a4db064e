"""Items and attributes that arms and turns change, against plain Python.

Every program runs under `jit` and `vmap` and is differentiated; what it makes itself it may change
under a traced decision, and what names show stays the same object.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import grad, jit, vmap
from ftrace.errors import LiftError, UnexpectedTracerError
from ftrace.lifting.state.changed_places import Moved, PlaceName
from ftrace.lifting.state.nesting import retried

X = np.array([1.1, -2.0, 2.9, -0.5, 1.9])
PROGRAMS: list[Callable[[Any], Any]] = []


def program(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS.append(fn)
    return fn


class Thing:
    n: Any

    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)

    def add(self, v: Any) -> Any:
        self.n += v
        return self.n


@dataclass(slots=True)
class Best:
    n: float = 0.0
    best: float = 0.0


class Guarded:
    """An attribute behind a property that counts its writes."""

    def __init__(self) -> None:
        self._v, self.writes = 0.0, 0

    @property
    def v(self) -> Any:
        return self._v

    @v.setter
    def v(self, value: Any) -> None:
        self.writes += 1
        self._v = value


class Numbered:
    made = 0.0

    def __init__(self) -> None:
        type(self).made += 1


@program
def an_item(x: Any) -> Any:
    d = {"n": 0, "s": 0.0}
    for v in x:
        if v > 0:
            d["n"] += 1
            d["s"] += v
    return d["n"] * d["s"]


@program
def an_item_of_a_loop(x: Any) -> Any:
    d = {"n": 0}
    t = x[0]
    while t < 20:
        d["n"] += 1
        t = t * 1.5
    return t * d["n"]


@program
def a_loop_that_breaks(x: Any) -> Any:
    d = {"n": 0}
    t = x[0]
    while True:
        d["n"] += 1
        t = t * 1.5
        if t > 20:
            break
    return d["n"] * t


@program
def a_loop_whose_test_reads_it(x: Any) -> Any:
    o: Any = Thing(n=0)
    t = x[0]
    while o.n < 3 and t < 20:
        o.n += 1
        t = t * 1.5
    return t * o.n


@program
def a_loop_in_a_loop(x: Any) -> Any:
    o: Any = Thing(n=0.0, k=0)
    t = x[0]
    while t < 9:
        u = t
        while u < 20:
            o.add(u)
            u = u * 2
            o.k += 1
        t = t * 1.5
    return o.n * o.k


@program
def a_loop_of_a_traced_length(x: Any) -> Any:
    o: Any = Thing(n=0.0)
    for i in range(int(x[2])):
        o.add(x[i])
    return o.n


@program
def a_method_in_a_loop_that_breaks(x: Any) -> Any:
    o: Any = Thing(n=0.0)
    for v in x:
        o.add(v)
        if v > 2:
            break
    return o.n * x[0]


@program
def decisions_in_decisions(x: Any) -> Any:
    o: Any = Thing(n=0.0, m=0.0)
    for v in x:
        if v > 0:
            o.n += v
            if v > 1.5:
                o.m += v
                if v > 2.5:
                    o.n *= 2
                else:
                    o.m *= 3
        else:
            o.m -= v
    return o.n * o.m


@program
def the_best_so_far(x: Any) -> Any:
    o = Best()
    for v in x:
        if v > o.best:
            o.best = v
            o.n += 1
    return o.best * o.n


@program
def the_best_or_none(x: Any) -> Any:
    o: Any = Thing(best=None)
    for v in x:
        if o.best is None or v > o.best:
            o.best = v
    return o.best


@program
def a_list_that_grows_in_both_arms(x: Any) -> Any:
    found = []
    for v in x:
        if v > 0:
            found.append(v)
        else:
            found.append(-2 * v)
    return np.array(found)


@program
def a_list_that_shrinks_in_both_arms(x: Any) -> Any:
    xs = [x[0], x[1], x[2]]
    v = xs.pop() if x[0] > 0 else xs.pop(0)
    return v * xs[0] + len(xs)


@program
def bubble_sort(x: Any) -> Any:
    xs = list(x)
    for i in range(len(xs)):
        for j in range(len(xs) - 1 - i):
            if xs[j] > xs[j + 1]:
                xs[j], xs[j + 1] = xs[j + 1], xs[j]
    return np.array(xs)


@program
def lists_in_a_list(x: Any) -> Any:
    m = [[x[0], x[1]], [x[2], x[3]]]
    for i in range(2):
        for j in range(2):
            if m[i][j] < 0:
                m[i][j] = -m[i][j] * (i + 1)
    return np.array(m)


@program
def other_names_of_a_container(x: Any) -> Any:
    inner = [x[0]]
    d: dict[str, Any] = {"l": inner, "n": 0.0}
    e = d
    if x[0] > 0:
        d["n"] = x[1]
        inner.append(x[2])
    else:
        inner.append(x[3])
    d["l"].append(x[4])
    return sum(inner) * e["n"]


@program
def other_names_of_an_array(x: Any) -> Any:
    a = x * 1.0
    d = {"a": a}
    v = a[1:]
    if x[0] > 0:
        d["a"] += 1
    if x[1] > 0:
        d["a"] = a * 2
    d["a"][1] = 5.0
    return np.concatenate([v, a, d["a"]])


@program
def arrays_of_attributes(x: Any) -> Any:
    o: Any = Thing(a=x * 1.0, b=x * 2.0)
    t, kept = x[0], o.a
    while t < 20:
        o.a, o.b = o.b, o.a
        o.a[0] += t
        t = t * 1.5
    return np.concatenate([o.a, o.b, kept])


@program
def an_attribute_bound_anew(x: Any) -> Any:
    o: Any = Thing(y=x * 1.0)
    t = x[0]
    while t < 20:
        o.y = o.y * 0.5 + t
        t = t * 1.5
    return o.y


@program
def a_return_on_the_way(x: Any) -> Any:
    o: Any = Thing(n=0.0)

    def first() -> Any:
        for v in x:
            o.n += v
            if v > 2:
                return v
        return -1.0

    return first() * o.n


@program
def an_attribute_new_in_both_arms(x: Any) -> Any:
    o: Any = Thing()
    if x[0] > 0:
        o.v = x[1]
    else:
        o.v = x[2]
    return o.v


@program
def a_property(x: Any) -> Any:
    o = Guarded()
    if x[0] > 0:
        o.v = x[1]
    return o.v + o.writes


@program
def dicts_of_other_classes(x: Any) -> Any:
    c, d = Counter(a=0, b=0), defaultdict(float, {0: 0.0, 1: 0.0})
    for i, v in enumerate(x):
        c["a" if i < 2 else "b"] += 1
        if v > 0:
            d[i % 2] += v
            c["a"] += 1
    return c["a"] * 10.0 + c["b"] + d[0] + 2 * d[1]


@program
def attributes_of_a_class(x: Any) -> Any:
    class Total(Numbered):
        made = 0.0

    for v in x:
        if v > 0:
            Total()
    return Total.made * x[0]


@program
def a_variable_of_another_function(x: Any) -> Any:
    def counter() -> Any:
        n = 0.0

        def add(v: Any) -> Any:
            nonlocal n
            n += v
            return n

        return add

    add = counter()
    for v in x:
        if v > 0:
            add(v)
    return add(0.0)


@program
def in_expressions(x: Any) -> Any:
    o: Any = Thing(n=0.0)
    r = o.add(1.0) if x[0] > 0 else 0.0
    b = x[1] > 0 and o.add(10.0) > 0
    c = x[2] > 0 or o.add(100.0) > 0
    return r + o.n + b + c


@program
def in_comprehensions(x: Any) -> Any:
    o: Any = Thing(n=0)
    n = 0

    def count(v: Any) -> Any:
        nonlocal n
        n += 1
        return o.add(1) > 0

    kept = [o.add(1) * v if v > 0 else 0.0 for v in x]
    both = [v > 2 and count(v) for v in x]
    return sum(kept) * o.n + n + len(both)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_what_arms_and_turns_change_is_as_in_python(fn: Any) -> None:
    rows = np.stack([X, X[::-1] * 0.9, np.roll(X, 2) * 1.1])
    rows[:, 0] = np.abs(rows[:, 0])  # loops start there
    rows[:, 2] = np.abs(rows[:, 2])
    wanted = [fn(x.copy()) for x in rows]
    jitted = jit(fn)
    for x, w in zip(rows, wanted, strict=True):
        np.testing.assert_allclose(jitted(x), w, rtol=1e-12)
    np.testing.assert_allclose(vmap(fn)(rows), np.stack(wanted), rtol=1e-12)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_derivatives_of_what_arms_and_turns_change(fn: Any) -> None:
    def f(x: Any) -> Any:
        return np.sum(fn(x)) * 1.0

    steps = np.eye(5) * 1e-6
    wanted = [(f(X + s) - f(X - s)) / 2e-6 for s in steps]
    for way in (grad(f), jit(grad(f)), lambda x: vmap(grad(f))(x[None])[0]):
        np.testing.assert_allclose(way(X), wanted, rtol=1e-5, atol=1e-6)


def test_what_both_arms_show_stays_the_same_object() -> None:
    def statement(x: Any) -> Any:
        held = [1.0, 2.0]
        if x > 0:
            shown, y = held, 1.0
        else:
            shown, y = held, 2.0
        shown.append(3.0)
        return len(held) + y

    def expression(x: Any) -> Any:
        held = [1.0]
        shown = held if x > 0 else held  # noqa: RUF034 - both are one object
        shown.append(3.0)
        return len(held)

    def shared(x: Any) -> Any:
        held = [0.0]
        other = held

        def show() -> Any:
            return held

        if x > 0:
            y = 1.0
        else:
            y = 2.0
        held.append(3.0)
        return len(other) * y * len(show())

    for f in (statement, expression, shared):
        for x in (1.0, -1.0):
            assert jit(f)(x) == f(x)


def test_a_variable_that_the_second_part_of_a_condition_changes() -> None:
    def f(x: Any) -> Any:
        n = 0.0

        def count() -> Any:
            nonlocal n
            n += 1
            return x > 5

        decided = x > 0 and count()
        if x < 3 or count():
            n += 10
        return n + decided

    for x in (-1.0, 1.0, 4.0, 6.0):
        assert jit(f)(x) == f(x)


def test_the_functions_attributes_and_other_changes_are_refused() -> None:
    def f(x: Any) -> Any:
        def g() -> None:
            return None

        g.n = 0.0  # pyright: ignore[reportFunctionMemberAccess]
        if x > 0:
            g.n = x  # pyright: ignore[reportFunctionMemberAccess]
        return g.n  # pyright: ignore[reportFunctionMemberAccess]

    def g(x: Any) -> Any:
        d = {"a": 1.0, "b": 2.0}
        if x > 0:
            del d["a"]
        return len(d) * x

    for broken in (f, g):
        with pytest.raises(LiftError, match="is changed where a traced value decides"):
            jit(broken)(1.0)


def test_what_outlives_the_call_is_left_as_it_was() -> None:
    thing: Any = Thing(n=0.0)
    table = {"n": 0}

    def f(x: Any) -> Any:
        if x > 0:
            thing.add(x)
            table["n"] += 1
        return thing.n

    for way in (jit(f), lambda x: vmap(f)(np.array([x]))):
        with pytest.raises(UnexpectedTracerError, match="which outlives the call"):
            way(1.0)
    assert (thing.n, table) == (0.0, {"n": 0})


def test_a_staged_decision_is_one_equation() -> None:
    """Staging once more leaves nothing of the first time behind."""

    def f(x: Any) -> Any:
        d = {"n": 0.0}
        if x > 0:
            d["n"] = np.sin(x)
        return d["n"]

    text = str(ftrace.make_jaxpr(ftrace.lift(f))(1.0))
    assert text.count("sin") == 1
    assert text.count("cond[") == 1


def test_no_two_names_of_places_are_equal():
    one, other = PlaceName('`d["n"]`'), PlaceName('`d["n"]`')
    assert one == one
    assert not one != one  # noqa: SIM202 - both operators are asked
    assert one != other
    assert not one == other  # noqa: SIM201
    assert len({one, other, one}) == 2


@pytest.mark.parametrize("may_hold", [True, False])
def test_places_that_are_no_variables_are_not_tried_again(may_hold: bool) -> None:
    frame: Any = SimpleNamespace(hold=lambda places: None)
    tries: list[int] = []

    def stage() -> str:
        tries.append(len(tries))
        if len(tries) > 1:
            return "with them"
        raise Moved([], lambda: LiftError("It changed.", "Bind a new one."))

    if may_hold:
        assert retried(frame, stage) == "with them"
    else:
        with pytest.raises(LiftError, match="It changed"):
            retried(frame, stage, may_hold=False)
