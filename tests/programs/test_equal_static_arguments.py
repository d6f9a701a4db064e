"""Static arguments that their class takes for equal, and that hold different things."""

import dataclasses

import numpy as np
import pytest

import ftrace
from ftrace import jit, vectorize


class Settings:
    """Compared by a name alone."""

    def __init__(self, name, scale):
        self.name, self.scale = name, scale

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)


class Slotted(Settings):
    __slots__ = ("bias",)

    def __init__(self, name, scale):
        super().__init__(name, 2.0)
        self.bias = scale

    scale = property(lambda self: self.bias, lambda self, value: None)


class Text(str):
    __slots__ = ("__dict__",)


@dataclasses.dataclass(frozen=True)
class Partly:
    name: str
    scale: float = dataclasses.field(compare=False)


@dataclasses.dataclass(unsafe_hash=True)
class Changing:
    name: str
    scale: float = dataclasses.field(compare=False)


class Deep(Settings):
    def __init__(self, name, scale):
        super().__init__(name, scale)
        self.layers = [{"inner": Settings("b", np.array([scale]))}]


def named(kind, name, scale):
    made = kind(name)
    made.scale = scale
    return made


MAKERS = {
    "a class": Settings,
    "slots": Slotted,
    "a subclass of str": lambda name, scale: named(Text, name, scale),
    "a frozen dataclass": Partly,
    "a dataclass": Changing,
    "in a tuple": lambda name, scale: (1, Settings(name, scale)),
}


def scaled(x, c):
    return x * (c[1].scale if isinstance(c, tuple) else c.scale)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_equal_objects_that_hold_different_things_have_traces_of_their_own(make):
    f = jit(scaled, static_argnums=1)
    assert [f(2.0, make("a", s)) for s in (3.0, 5.0, 3.0)] == [6.0, 10.0, 6.0]
    g = vectorize(scaled, static_argnums=1)
    assert [g(np.array([2.0]), make("a", s))[0] for s in (3.0, 5.0)] == [6.0, 10.0]


def test_what_objects_hold_is_compared_in_depth():
    f = jit(lambda x, c: x * c.layers[0]["inner"].scale[0], static_argnums=1)
    assert [f(2.0, Deep("a", s)) for s in (3.0, 5.0)] == [6.0, 10.0]


def test_an_object_that_changes_after_an_equal_one_was_traced():
    f = jit(scaled, static_argnums=1)
    first, second = Settings("a", 3.0), Settings("a", 3.0)
    assert f(2.0, first) == f(2.0, second) == 6.0
    second.scale = 7.0
    assert f(2.0, second) == 14.0
    assert f(2.0, first) == 6.0


def test_equal_objects_that_hold_the_same_share_a_trace():
    traced = []

    def f(x, c):
        traced.append(0)
        return x * c.scale * c.shape(1.0)

    def made():
        c = Settings("a", 3.0)
        c.sizes, c.shape, c.owner = [1, (2, 3)], lambda v: v, c
        return c

    g = jit(f, static_argnums=1)
    for _ in range(3):
        assert g(2.0, made()) == 6.0
    assert len(traced) == 1


def test_objects_without_an_equality_of_their_own_are_compared_by_identity():
    class Plain:
        scale = 3.0

    f = ftrace.jit(scaled, static_argnums=1)
    assert f(2.0, Plain()) == f(2.0, Plain()) == 6.0
