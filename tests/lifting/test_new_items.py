"""Items that dicts get under traced decisions, and queues that these change, as in Python."""

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.errors import LiftError
from tests.lifting.agreeing import derivatives_agree, values_agree

PROGRAMS: list[Callable[[Any], Any]] = []
REFUSED: list[tuple[Callable[[Any], Any], str]] = []
X = np.array([1.5, -0.2, 2.7, -4.0])


def program(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS.append(fn)
    return fn


def refused(words: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    def enter(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
        REFUSED.append((fn, words))
        return fn

    return enter


class Held:
    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)


@program
def both_arms_add_an_item(x: Any) -> Any:
    d = {"a": x}
    if x > 0:
        d["b"] = 2 * x
    else:
        d["b"] = 3.0
    return d["a"] + d["b"] + len(d)


@program
def a_dict_that_an_object_holds(x: Any) -> Any:
    s: Any = Held(d={"z": x})
    if x > 0:
        s.d["b"], s.d["c"] = 2 * x, 1.0
    elif x > -1:
        s.d["b"], s.d["c"] = 3.0, x
    else:
        s.d.update(b=x * x, c=7.0)
    first, second, third = s.d.values()
    return first + 10 * second + 100 * third


@program
def items_of_an_unrolled_loop(x: Any) -> Any:
    d: dict[Any, Any] = {}

    def put(key: int, value: Any) -> None:
        d[key] = value

    for k in range(3):
        if x > k:
            put(k, x * k)
        else:
            put(k, -x)
    return sum(d.values()) + len(d)


@program
def a_helper_adds_on_one_side(x: Any) -> Any:
    found: dict[str, Any] = {}

    def note() -> Any:
        found["r"] = x * 2
        return x

    y = note() if x > 0 else found.setdefault("r", 1.0)
    return y + found["r"]


@program
def containers_as_new_items(x: Any) -> Any:
    d: dict[str, Any] = {"n": {}}
    if x > 0:
        d["m"], d["n"]["k"] = [x, 1.0], x
    else:
        d["m"], d["n"]["k"] = [2.0, x], 0.0
    return d["m"][0] + 10 * d["m"][1] + 100 * d["n"]["k"]


@program
def a_queue_of_two(x: Any) -> Any:
    q = deque([x, 1.0], maxlen=2)
    if x > 0:
        q.append(x * 5)
    return q[0] + 2 * q[1]


@program
def a_queue_that_is_turned(x: Any) -> Any:
    q = deque([x, 1.0, 2.0])
    other = q
    if x > 0:
        q.rotate(1)
    else:
        q[0] = q.pop()
        q.appendleft(x)
    return other[0] + 10 * other[1] + 100 * q[2] + len(other)


@program
def a_queue_in_a_loop(x: Any) -> Any:
    q, n = deque([x, 1.0], 2), 0
    while q[0] + q[1] < 50:
        q.append(abs(q[0]) + q[1] + 1)
        n += 1
    return q[0] + 10 * q[1] + n


@program
def a_helper_that_appends(x: Any) -> Any:
    q = deque([x, 1.0], 2)

    def push() -> None:
        q.append(q[0] + q[1])

    for i in range(4):
        if x > i:
            push()
    return q[0] + 10 * q[1]


@program
def a_namespace_and_its_parts(x: Any) -> Any:
    s = SimpleNamespace(v=x, w=SimpleNamespace(z=1.0), q=deque([x, 3.0]))
    inner, queue = s.w, s.q
    if x > 0:
        inner.z, s.v = x, 2 * x
        s.q.rotate(1)
    else:
        s.w.z = 5.0
    return s.v + 10 * s.w.z + 100 * inner.z + 1000 * queue[0]


@program
def new_names_of_a_namespace(x: Any) -> Any:
    s: Any = SimpleNamespace(v=x)
    if x > 0:
        s.c = 2.0
    else:
        s.c = 3.0
    return s.c * s.v + len(vars(s))


@refused(r"`s\.d\['b'\]` is f64\*?\[\] on one side .* and not bound on the other")
def one_arm_adds_an_item(x: Any) -> Any:
    s: Any = Held(d={})
    if x > 0:
        s.d["b"] = 2 * x
    return s.d.get("b", 7.0)


@refused(r"`s\.d\['b'\]` is bound before `s\.d\['c'\]` on one side .* and after it on the other")
def items_in_two_orders(x: Any) -> Any:
    s: Any = Held(d={})
    if x > 0:
        s.d["b"], s.d["c"] = x, 0.0
    else:
        s.d["c"], s.d["b"] = x, 0.0
    return next(iter(s.d.values()))


@refused(r"`s\.b` is bound before `s\.c` on one side .* and after it on the other")
def attributes_in_two_orders(x: Any) -> Any:
    s: Any = Held()
    if x > 0:
        s.b, s.c = x, 0.0
    else:
        s.c, s.b = x, 0.0
    return next(iter(vars(s).values()))


@refused("An attribute of `s` is changed where a traced value decides")
def an_attribute_behind_the_others(x: Any) -> Any:
    s: Any = Held(v=x, w=1.0)
    if x > 0:
        del s.v
        s.v = 2 * x
    return next(iter(vars(s).values()))


@refused("`d`, a dict from outside, is changed")
def an_item_that_goes(x: Any) -> Any:
    d = {"a": x, "b": 1.0}
    if x > 0:
        d["a"] = d.pop("b")
    return x * len(d)


@refused(r"`q` is a deque of 3 on one side .* and a deque of 2 on the other")
def a_queue_that_grows(x: Any) -> Any:
    q = deque([x, 1.0])
    if x > 0:
        q.append(7.0)
    return sum(q)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_values_are_those_of_python(fn: Any) -> None:
    values_agree(fn, X)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_derivatives_are_those_of_python(fn: Any) -> None:
    derivatives_agree(fn, X)


@pytest.mark.parametrize(("fn", "words"), REFUSED, ids=lambda case: getattr(case, "__name__", ""))
@pytest.mark.parametrize("way", [ftrace.jit, ftrace.vmap], ids=["jit", "vmap"])
def test_what_is_refused(fn: Any, words: str, way: Any) -> None:
    with pytest.raises(LiftError, match=rf"(?s){words}"):
        way(fn)(X if way is ftrace.vmap else X[0])
