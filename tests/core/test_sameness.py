"""Static arguments are compared by type and value, through containers."""

import dataclasses
import enum
import math

import numpy as np
import pytest

import ftrace
from ftrace.control.traces import counter
from ftrace.core.sameness import Static, is_same


class Mode(enum.Enum):
    """One of two."""

    A = 1
    B = 2


@dataclasses.dataclass(frozen=True)
class Config:
    """Compared by its fields."""

    rate: float
    parts: tuple


class Loose:
    """Equal to everything."""

    def __repr__(self):
        return "Loose"

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


NAN = float("nan")
DIFFERENT = [
    (1, 1.0),
    (True, 1),
    (0.0, -0.0),
    ((1,), (1.0,)),
    ((1, (2, 0.0)), (1, (2, -0.0))),
    (complex(0.0, 0.0), complex(0.0, -0.0)),
    (complex(0.0, 0.0), complex(-0.0, 0.0)),
    (np.float64(1.0), 1.0),
    (np.float32(0.0), np.float32(-0.0)),
    (frozenset([1]), frozenset([1.0])),
    (Config(1.0, (1,)), Config(1.0, (1.0,))),
    (Config(0.0, ()), Config(-0.0, ())),
    (Mode.A, Mode.B),
    ("a", "b"),
    ((1, 2), (1, 2, 3)),
    (math.sin, math.cos),
]
SAME = [
    (NAN, float("nan")),
    ((1, NAN), (1, float("nan"))),
    (complex(NAN, 1.0), complex(float("nan"), 1.0)),
    (np.float64("nan"), np.float64("nan")),
    (Config(NAN, (1,)), Config(float("nan"), (1,))),
    (frozenset([NAN]), frozenset([float("nan")])),
    ("ab", "".join(["a", "b"])),
    (Mode.A, Mode.A),
    (math.sin, math.sin),
    (Loose(), Loose()),
    (-1.5, -1.5),
    (1 + 2j, 1 + 2j),
]


@pytest.mark.parametrize(("a", "b"), DIFFERENT, ids=repr)
def test_values_that_mean_something_else_are_told_apart(a, b):
    assert not is_same(a, b)
    assert not is_same(b, a)
    assert Static(a) != Static(b)
    assert len({Static(a), Static(b)}) == 2


@pytest.mark.parametrize(("a", "b"), SAME, ids=repr)
def test_values_that_mean_the_same_are_one_key(a, b):
    assert is_same(a, b)
    assert len({Static(a), Static(b)}) == 1


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: ftrace.jit(f, static_argnums=1),
        lambda f: lambda x, n: ftrace.jit(f, static_argnames="n")(x, n=n),
        lambda f: ftrace.jit(ftrace.checkpoint(f, static_argnums=1), static_argnums=1),
    ],
)
@pytest.mark.parametrize(("a", "b"), [d for d in DIFFERENT if not callable(d[0])], ids=repr)
def test_a_static_argument_of_another_type_or_sign_meets_no_old_trace(transform, a, b):
    seen = []

    def f(x, n):
        seen.append(n)
        return x

    g = transform(f)
    for n in (a, b, a, b):
        g(1.0, n)
    assert len(seen) == 2
    assert is_same(seen[0], a)
    assert is_same(seen[1], b)


def test_a_static_nan_is_traced_once():
    f = ftrace.jit(lambda x, n: x * n[0], static_argnums=1)
    before = counter.count
    for _ in range(3):
        assert math.isnan(f(1.0, (float("nan"),)))
    assert counter.count == before + 1
