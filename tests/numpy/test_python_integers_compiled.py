"""Python's integers under jit: right as far as 64 bits go, and an error of ours beyond.

Every program is compared with itself in plain Python.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.config import update
from ftrace.errors import DtypeError

BOTH = {
    "a sum": lambda n, m: n + m,
    "a difference": lambda n, m: n - m,
    "a product": lambda n, m: n * m,
    "a quotient": lambda n, m: n // m,
    "a remainder": lambda n, m: n % m,
    "quotient and remainder": divmod,
    "a fraction": lambda n, m: n / m,
    "a shift": lambda n, m: (n << 3) >> 1,
    "a power": lambda n, m: n**2 + m**3,
    "a negative power": lambda n, m: n**-1 + m**-2,
    "sums of booleans": lambda n, m: (n > 0) + (m > 0) - (n < m),
    "products of booleans": lambda n, m: (n > 0) * (m > 0) + (n > m) * 3,
    "signs of booleans": lambda n, m: (-(n > 0), +(m > 0), abs(n > m), ~(n > m)),
    "bits": lambda n, m: (n & m, n | 5, n ^ m, ~n),
    "bits of booleans": lambda n, m: ((n > 0) & (m > 0), (n > 0) | (m < 0), (n > 0) ^ (m > 0)),
    "comparisons beyond 64 bits": lambda n, m: (n < 2**70, m == 2**70, n > -(2**70), m != 10**400),
    "a float with a wide integer": lambda n, m: n * 1.5 + 2.0**70 * m,
}


@pytest.fixture(scope="module")
def everything() -> Any:
    return ftrace.jit(lambda n, m: [f(n, m) for f in BOTH.values()])


@pytest.mark.parametrize(
    ("n", "m"), [(7, 2), (-7, 2), (7, -2), (1, 1), (2**31, 3), (2**20, -5), (-(2**31), 2**20)]
)
def test_operators_of_python_integers_are_pythons(everything: Any, n: int, m: int) -> None:
    found = everything(n, m)
    for name, f, got in zip(BOTH, BOTH.values(), found, strict=True):
        assert got == f(n, m), name
        assert type(got) is type(f(n, m)), name


def _factorial(n: int) -> int:
    product = 1
    while n > 1:
        product = product * n
        n = n - 1
    return product


def _swallowed(n: int) -> int:
    try:
        return n * n
    except Exception:
        return 0


def _swallowed_beside_another(n: int) -> int:
    try:
        r = n * n
        if n < 0:
            raise ValueError
    except Exception:
        r = 0
    return r


TOO_WIDE: dict[str, tuple[Callable[[int], Any], int, int]] = {
    "a square": (lambda n: n * n, 2**31, 2**40),
    "a negative product": (lambda n: n * -3, 2**61, 2**62),
    "a sum": (lambda n: n + n, 2**61, 2**62),
    "a difference": (lambda n: -n - n, 2**61, 2**62),
    "a literal power": (lambda n: n**3, 2**20, 2**30),
    "a traced power": (lambda n: 3**n, 39, 41),
    "a shift": (lambda n: n << 3, 2**59, 2**61),
    "a traced shift": (lambda n: 1 << n, 61, 64),
    "a loop": (_factorial, 20, 25),
    "in a float": (lambda n: 1.5 * (n * n), 2**31, 2**40),
    "what a try might swallow": (_swallowed, 2**31, 2**40),
    "what a rewritten try might swallow": (_swallowed_beside_another, 2**31, 2**40),
    "sum()": (lambda n: sum([n, n, n]), 2**60, 2**62),
    "a large literal": (lambda n: n + 2**62, 5, 2**62),
}


@pytest.mark.parametrize("name", TOO_WIDE)
def test_a_result_of_more_than_64_bits_is_an_error(name: str) -> None:
    f, fits, large = TOO_WIDE[name]
    jitted = ftrace.jit(f)
    assert jitted(fits) == f(fits)
    with pytest.raises(DtypeError, match="int of more than 64 bits; a traced Python int has 64"):
        jitted(large)
    assert jitted(fits) == f(fits)


def test_negative_counts_and_exponents_and_divisors_of_zero_are_errors() -> None:
    cases: list[tuple[Callable[[int], Any], int, int, type[Exception]]] = [
        (lambda n: 1 << n, 0, -1, ValueError),
        (lambda n: 8 >> n, 0, -1, ValueError),
        (lambda n: 2**n, 0, -1, DtypeError),
        (lambda n: 0**n, 0, -1, ZeroDivisionError),
        (lambda n: 7 // n, 1, 0, ZeroDivisionError),
        (lambda n: 7 % n, 1, 0, ZeroDivisionError),
        (lambda n: divmod(7, n), 1, 0, ZeroDivisionError),
    ]
    for f, good, bad, error in cases:
        jitted = ftrace.jit(f)
        assert jitted(good) == f(good)
        assert jitted(2) == f(2)
        with pytest.raises(error):
            jitted(bad)


def test_of_floats_zero_divides_as_in_numpy_unless_a_handler_may_catch_that() -> None:
    def caught(x: float) -> float:
        try:
            return x**-1.0
        except ZeroDivisionError:
            return 7.0

    with np.errstate(all="ignore"):
        for x in (3, -3):
            divided = ftrace.jit(lambda x, y: x // y)(x, 0.0)
            assert divided == np.floor_divide(x, 0.0)
        assert ftrace.jit(lambda x: x**-1.0)(0.0) == math.inf
    for x in (0.0, 4.0):
        assert ftrace.jit(caught)(x) == caught(x)


@pytest.mark.parametrize("n", [2**63, -(2**63) - 1, 2**63 - 1, 10**400])
@pytest.mark.parametrize("compiled", [True, False])
def test_an_argument_that_does_not_fit_is_named(n: int, compiled: bool) -> None:
    def f(x: float, n: int) -> float:
        return x * n

    with update(compile=compiled):
        jitted = ftrace.jit(f)
        for _ in range(2):
            with pytest.raises(DtypeError, match=r"of f is the int .*has 64 bits"):
                jitted(1.0, n)
        assert jitted(1.0, 2**40) == 2.0**40
        with pytest.raises(DtypeError, match=r"is the int .*has 64 bits"):
            jitted(1.0, n)
        with pytest.raises(DtypeError, match="n of f is the int"):
            ftrace.grad(jitted)(1.0, n)
        with pytest.raises(DtypeError, match=r"d\['n'\] of .* is the int"):
            ftrace.jit(lambda d: d["n"] + 1)({"n": n})
        with pytest.raises(DtypeError, match="is the int"):
            ftrace.vectorize(f)(np.ones(2), n)
    assert ftrace.grad(f)(1.0, 2**70) == 2.0**70


def test_constants_that_do_not_fit_are_named() -> None:
    with pytest.raises(DtypeError, match="is the int 1180591620717411303424"):
        ftrace.jit(lambda n: n + 2**70)(3)
    with pytest.raises(DtypeError, match="is the int 1180591620717411303424"):
        ftrace.jit(lambda n: n & 2**70)(3)


def _stored(x: Any, place: Any, n: Any) -> Any:
    y = x.copy()
    y[place] = n
    return y


def _on_diagonal(x: Any, n: int) -> Any:
    np.fill_diagonal(x, n)
    return x


MEETING: dict[str, tuple[Callable[..., Any], int]] = {
    "a sum": (operator.add, 300),
    "a product": (operator.mul, -300),
    "a maximum": (np.maximum, 300),
    "a power": (operator.pow, 300),
    "filling": (np.full_like, 300),
    "a choice": (lambda x, n: np.where(np.arange(3) < 1, x, 0 * x + n), -129),
    "a store": (lambda x, n: _stored(x, 0, n), 300),
    "a store of a list": (lambda x, n: _stored(x, slice(2), [1, n]), 300),
    "a list": (lambda x, n: np.array([[n, 1]], dtype=x.dtype), 128),
    "a diagonal": (lambda x, n: _on_diagonal(np.outer(x, x), n), 128),
}


@pytest.mark.parametrize("name", MEETING)
def test_an_integer_that_does_not_fit_into_an_array_is_numpys_error(name: str) -> None:
    f, n = MEETING[name]
    x = np.array([1, 5, 7], np.int8)
    jitted = ftrace.jit(f)
    np.testing.assert_array_equal(jitted(x, 2), f(x, 2))
    with pytest.raises(OverflowError, match=f"Python integer {n} out of bounds for int8"):
        f(x, n)
    with pytest.raises(OverflowError, match=f"Python integer {n} out of bounds for int8"):
        jitted(x, n)
    added, x = ftrace.jit(operator.add), x.astype(np.uint64)
    np.testing.assert_array_equal(added(x, 2), x + 2)
    with pytest.raises(OverflowError, match="out of bounds for uint64"):
        added(x, -1)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_comparisons_with_integers_that_do_not_fit_are_numpys(dtype: Any) -> None:
    x = np.array([1, 5, 100], dtype)
    compared = ftrace.jit(lambda x, n: (x < n, n <= x, x == n, x > n, n >= x, x != n))
    for n in (-1, 5, 300, 2**40):
        plain = (x < n, n <= x, x == n, x > n, n >= x, x != n)
        np.testing.assert_array_equal(compared(x, n), plain)


def test_counters_need_no_question() -> None:
    """What adds little to an argument cannot leave 64 bits."""
    for f in (lambda n: n + 1, lambda n: 3 - n, lambda n: n + (n > 0), lambda n: n // 2 & 7):
        assert not ftrace.make_jaxpr(f)(3).effects
    assert ftrace.make_jaxpr(lambda n: n + 2**16)(3).effects


def test_what_a_handler_catches_is_not_asked_for_its_width() -> None:
    def f(x: float) -> int:
        try:
            return int(x) * 4
        except OverflowError:
            return -1

    jitted = ftrace.jit(f)
    for x in (math.inf, -math.inf, 2.5):
        assert jitted(x) == f(x)
    with pytest.raises(DtypeError, match="more than 64 bits"):
        jitted(2.0**62)


def test_numpys_integers_wrap_as_in_numpy() -> None:
    with np.errstate(over="ignore"):
        n = np.int64(2**40)
        assert ftrace.jit(lambda n: n * n)(n) == n * n == 0
        np.testing.assert_array_equal(ftrace.vmap(lambda n: n * n)(np.array([2**40])), [0])
        assert ftrace.jit(np.add)(2**62, 2**62) == np.add(2**62, 2**62)


def test_conversions_of_floats_are_refused_beyond_64_bits_and_no_handler_catches_that() -> None:
    def f(x: float) -> int:
        try:
            return int(x)
        except (OverflowError, ValueError):
            return -1

    jitted = ftrace.jit(f)
    for x in (3.7, -3.7, 2.0**62, math.inf, math.nan):
        assert jitted(x) == f(x)
    with pytest.raises(DtypeError, match=r"int\(1e\+30\) is an int of 100 bits"):
        jitted(1e30)
