"""Methods that no call names, replaced in a class or added to a subclass after the first call."""

import operator
from collections.abc import Callable
from functools import partialmethod
from typing import Any

import numpy as np
import pytest

import ftrace

Program = tuple[str, Callable[..., Any], Callable[[Any, Any], Any], Callable[..., Any]]


def _with(o: Any, x: Any) -> Any:
    with o as factor:
        return x * factor


def _set(o: Any, name: str, value: Any) -> None:
    object.__setattr__(o, name, value)


# a special method, what it is first, what reads it, what it is afterwards
PROGRAMS: tuple[Program, ...] = (
    ("__len__", lambda o: 2, lambda o, x: x * len(o), lambda o: 3),
    ("__bool__", lambda o: True, lambda o, x: x if o else -x, lambda o: False),
    ("__bool__", lambda o: True, lambda o, x: x * ((o and 2.0) or 3.0), lambda o: False),
    ("__bool__", lambda o: True, lambda o, x: x * (3 - (not o)), lambda o: False),
    ("__contains__", lambda o, k: True, lambda o, x: x if 1 in o else -x, lambda o, k: False),
    ("__iter__", lambda o: iter([2.0]), lambda o, x: sum(v * x for v in o), lambda o: iter([3.0])),
    ("__getitem__", lambda o, k: 2.0, lambda o, x: x * o[1], lambda o, k: 3.0),
    ("__neg__", lambda o: 2.0, lambda o, x: x * -o, lambda o: 3.0),
    ("__add__", lambda o, y: 2.0, lambda o, x: x * (o + 1), lambda o, y: 3.0),
    ("__radd__", lambda o, y: 2.0, lambda o, x: x * (1 + o), lambda o, y: 3.0),
    ("__iadd__", lambda o, y: 2.0, lambda o, x: x * operator.iadd(o, 1), lambda o, y: 3.0),
    ("__rmul__", lambda o, y: y * 2.0, lambda o, x: x * o, lambda o, y: y * 3.0),
    ("__matmul__", lambda o, y: y * 2.0, lambda o, x: o @ x, lambda o, y: y * 3.0),
    ("__eq__", lambda o, y: True, lambda o, x: x if o == 1 else -x, lambda o, y: False),
    ("__lt__", lambda o, y: True, lambda o, x: x if o < 1 else -x, lambda o, y: False),
    ("__gt__", lambda o, y: True, lambda o, x: x if 1 < o else -x, lambda o, y: False),  # noqa: SIM300
    ("__hash__", lambda o: 2, lambda o, x: x * hash(o), lambda o: 3),
    ("__call__", lambda o, x: x * 2.0, lambda o, x: o(x), lambda o, x: x * 3.0),
    ("__enter__", lambda o: 2.0, _with, lambda o: 3.0),
    ("__getattr__", lambda o, name: 2.0, lambda o, x: x * o.gain, lambda o, name: 3.0),
    ("__getattribute__", lambda o, name: 2.0, lambda o, x: x * o.gain, lambda o, name: 3.0),
    ("__float__", lambda o: 2.0, lambda o, x: x * float(o), lambda o: 3.0),
    ("__index__", lambda o: 1, lambda o, x: x * [2.0, 4.0, 8.0][o], lambda o: 2),
    ("__abs__", lambda o: 2.0, lambda o, x: x * abs(o), lambda o: 3.0),
    ("__reversed__", lambda o: [2.0], lambda o, x: x * next(iter(reversed(o))), lambda o: [3.0]),
    ("__str__", lambda o: "ab", lambda o, x: x * len(str(o)), lambda o: "abc"),
    ("__format__", lambda o, f: "ab", lambda o, x: x * len(f"{o}"), lambda o, f: "abc"),
    (
        "__init__",
        lambda o: _set(o, "gain", 2.0),
        lambda o, x: x * type(o)().gain,
        lambda o: _set(o, "gain", 3.0),
    ),
    (
        "__array__",
        lambda o, dtype=None, copy=None: np.array(2.0),
        lambda o, x: x * np.asarray(o),
        lambda o, dtype=None, copy=None: np.array(3.0),
    ),
    (
        "gain",
        partialmethod(lambda o, k: k, 2.0),
        lambda o, x: x * o.gain(),
        partialmethod(lambda o, k: k, 3.0),
    ),
)


@pytest.mark.parametrize("place", ["base", "subclass"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p[0])
def test_a_special_method_that_is_replaced_or_overridden_is_seen(
    program: Program, place: str
) -> None:
    name, before, read, after = program
    base = type("Base", (), {name: before, "__exit__": lambda o, *error: None})
    sub = type("Sub", (base,), {})
    made = sub()
    f = ftrace.jit(lambda x: read(made, x))
    assert f(2.0) == read(made, 2.0)
    first = float(f(2.0))
    setattr(base if place == "base" else sub, name, after)
    assert f(2.0) == read(made, 2.0) != first


def test_a_class_that_gets_a_truth_is_seen() -> None:
    class Plain:
        pass

    made = Plain()
    f = ftrace.jit(lambda x: x if made else -x)
    assert f(2.0) == 2.0
    Plain.__len__ = lambda o: 0  # type: ignore[attr-defined]
    assert f(2.0) == -2.0
    Plain.__bool__ = lambda o: True  # type: ignore[attr-defined]
    assert f(2.0) == 2.0


def test_what_a_metaclass_says_is_seen() -> None:
    class Meta(type):
        def __call__(cls, *args: Any) -> float:
            return 2.0

        def __getattr__(cls, name: str) -> float:
            return 2.0

    class Made(metaclass=Meta):
        def __class_getitem__(cls, key: int) -> float:
            return 2.0

    f = ftrace.jit(lambda x: x * Made() * Made.gain * Made[0])
    assert f(1.0) == 8.0
    Meta.__call__ = lambda cls, *args: 3.0  # type: ignore[method-assign]
    assert f(1.0) == 12.0
    Meta.__getattr__ = lambda cls, name: 3.0  # type: ignore[method-assign]
    assert f(1.0) == 18.0
    Made.__class_getitem__ = classmethod(lambda cls, key: 3.0)  # type: ignore[method-assign]
    assert f(1.0) == 27.0


def test_what_a_descriptor_is_and_does_is_seen() -> None:
    class Reading:
        def __get__(self, holder: Any, kind: Any) -> float:
            return 2.0

    class Holder:
        gain = Reading()

    holder = Holder()
    f = ftrace.jit(lambda x: x * holder.gain)
    assert f(1.0) == 2.0
    Reading.__get__ = lambda self, holder, kind: 3.0  # type: ignore[method-assign]
    assert f(1.0) == 3.0
    holder.__dict__["gain"] = 5.0
    assert f(1.0) == 5.0
    Reading.__set__ = lambda self, holder, value: None  # type: ignore[attr-defined]
    assert f(1.0) == 3.0
    Holder.gain = 7.0  # type: ignore[assignment]
    assert f(1.0) == 5.0


def test_a_class_of_dicts_that_says_what_is_missing_is_watched() -> None:
    class Defaults(dict[str, float]):
        def __missing__(self, key: str) -> float:
            return 2.0

    found = Defaults()
    f = ftrace.jit(lambda x: x * found["gain"])
    assert f(1.0) == 2.0
    Defaults.__missing__ = lambda self, key: 3.0  # type: ignore[method-assign]
    assert f(1.0) == 3.0
    found["gain"] = 5.0
    assert f(1.0) == 5.0
