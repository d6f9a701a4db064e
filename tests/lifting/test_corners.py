"""Corners of what takes the place of Python's functions: values, dtypes and errors are Python's."""

import math
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.errors import LiftError
from tests.lifting import called_programs, corner_programs

PROGRAMS = corner_programs.PROGRAMS + called_programs.PROGRAMS
MANY = np.linspace(-1.0, 1.0, 40)


def thirds(a: Any, b: Any, s: Any) -> Any:
    total = 0
    for i in range(a, b, s):
        total = 100 * total + i
    return total


def from_two(n: Any) -> Any:
    total = 0
    for i in range(2, n):
        total = 100 * total + i
    return total


def steps_back(n: Any) -> Any:
    total = 0
    for i, j in zip(range(1, 9, n), reversed(range(9, 1, -n)), strict=False):
        total = 100 * total + 10 * i + j
    return total


def numbered(x: Any) -> Any:
    total = 0.0
    for i, v in enumerate([1.0, 2.0, 3.0], 5):
        if v > x:
            break
        total = total + i * v
    return total


def in_pairs(x: Any) -> Any:
    total = 0.0
    for a, b in zip([1.0, 2.0, 3.0], MANY[:3], strict=True):
        if a > x:
            break
        total = total + a * b
    return total


def backwards(x: Any) -> Any:
    total = 0.0
    for v in reversed([x, 2 * x, 3 * x]):
        if v < 4:
            break
        total = 10 * total + v
    return total


def of_nothing(n: Any) -> Any:
    total = n
    for i, _ in zip(range(n), [], strict=False):
        total = total + i
    return total


def until(x: Any) -> Any:
    n = 0
    while x > 1:
        x = x / 2
        n = n + 1
        if n > 4:
            break
    else:
        n = n + 100
    return n


def named(x: Any) -> Any:
    return type("Holder", (), {"v": x})().v


def of_a_list(x: Any) -> Any:
    items = [x]
    return x if hasattr(items, "append") and not hasattr(items, "shape") else -x


def narrow(x: Any, y: Any) -> Any:
    return max(x, y) * np.float32(2)


def given(x: Any) -> Any:
    return x if (x is not None) is True else -x


def placed(x: Any) -> Any:
    return x.at[0].set(2.0) if isinstance(x, ftrace.Tracer) else np.array([2.0, *x[1:]])


VALUES = [
    *[(thirds, args) for args in [(2, 11, 3), (9, 1, -3), (0, 5, 1), (3, 3, 1)]],
    *[(from_two, (n,)) for n in (1, 5)],
    *[(steps_back, (n,)) for n in (1, 4)],
    *[(numbered, (x,)) for x in (0.5, 2.5, 4.0)],
    *[(in_pairs, (x,)) for x in (0.5, 2.5, 4.0)],
    *[(backwards, (x,)) for x in (0.5, 1.5, 3.0)],
    (of_nothing, (3,)),
    *[(until, (x,)) for x in (0.5, 3.0, 1e3)],
    (named, (1.5,)),
    (of_a_list, (1.5,)),
    (narrow, (1.5, 2.5)),
    (given, (1.5,)),
    (placed, (np.array([1.0, 3.0]),)),
    *[(f, (n,)) for f in (math.floor, math.ceil, math.trunc) for n in (3, -2, True)],
    *[(math.factorial, (n,)) for n in (0, 1, 5, 20)],
    *[(f, (x,)) for f in (math.lgamma, math.gamma, math.log) for x in (np.float32(2.5), 2.5)],
    (math.pow, (2.0, 3.5)),
    (math.ulp, (2.5,)),
    (math.log, (8.0, 2.0)),
    (math.isqrt, (17,)),
    *[(bool, (x,)) for x in (0.0, 0.5, 3, True, False)],
    (lambda x: max([x], default=3.0), (1.5,)),
    (lambda x: max([], default=x), (1.5,)),
    (lambda x, y: sorted([x, y, 1.0])[0], (2.5, 1.5)),
    (lambda a: max(a) + min(a), (MANY,)),
    (lambda a: max(a, key=lambda v: -v), (MANY,)),
    (math.floor, (2**60 + 1,)),
    (int, (6e18,)),
    (np.cumprod, (np.array([2.0, 3.0]),)),
    *[(f, (x,)) for f in PROGRAMS for x in corner_programs.NUMBERS],
]


@pytest.mark.parametrize(("f", "args"), VALUES)
def test_the_value_is_that_of_python(f: Any, args: tuple[Any, ...]) -> None:
    found = ftrace.jit(ftrace.lift(lambda *xs: f(*xs)))(*args)
    expected = f(*args)
    if type(expected) is int:
        assert int(found) == expected
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    if f not in (math.lgamma, math.gamma, math.log):  # of float32 they stay float32
        assert np.asarray(found).dtype == np.asarray(expected).dtype


ERRORS = [
    (thirds, (2, 11, 0), ValueError),
    (math.factorial, (-1,), ValueError),
    (math.factorial, (np.array([1, 2]),), TypeError),
    (math.gamma, (200.0,), OverflowError),
    (math.gamma, (-1.0,), ValueError),
    (math.log, (0.0,), ValueError),
    (math.isqrt, (-1,), ValueError),
    (lambda x: int(x, 10), (1.5,), TypeError),
    (lambda x: int(x, base=10), (1.5,), TypeError),
    *[(lambda a: max(a, 1.0), (a,), ValueError) for a in (MANY, np.arange(100.0))],
    (lambda x: type(x, (), {}), (1.5,), TypeError),
    (lambda x: np.fromiter([x], float, count=3), (1.5,), ValueError),
    (corner_programs.unequal, (3.5,), ValueError),
]
REFUSED = {
    "class_of_a_mixture": "whose class a traced value decides: builtins.int or builtins.float",
    "text_at_last": "'text'",
    "text_on_one_side": "'text'",
    "text_on_the_other_side": "'text'",
    "a_test_with_an_error_and_else": "The test of a `while ... else` may raise an error",
}


@pytest.mark.parametrize(("f", "args", "error"), ERRORS)
def test_the_error_is_that_of_python(f: Any, args: tuple[Any, ...], error: Any) -> None:
    with pytest.raises(error):
        f(*args)
    with pytest.raises((error, ftrace.errors.ConcretizationTypeError)):
        ftrace.jit(ftrace.lift(lambda *xs: f(*xs)))(*args)


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_traced_value_cannot_decide_is_refused(name: str) -> None:
    f = getattr(corner_programs, name)
    with pytest.raises(LiftError, match=REFUSED[name]):
        ftrace.jit(lambda x: f(x))(2.0)
