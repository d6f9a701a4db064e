"""Code that is not ours and refuses traced values: its bare errors are named."""

import datetime
import json
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.errors import DtypeError


def decimal(x: Any) -> Any:
    return x * float(Decimal(x))


def difference(x: Any) -> Any:
    return x * datetime.timedelta(seconds=x).total_seconds()


def text(x: Any) -> Any:
    return x * json.loads(json.dumps({"x": x}))["x"]


def joined(x: Any) -> Any:
    return x * len("a" + x)


def helper(x: Any) -> Any:
    return decimal(x) + 1.0


def kept(x: Any, y: Any = 1.5) -> Any:
    return x * float(Decimal(y)) * json.loads(json.dumps(y))


def broken(x: Any) -> Any:
    return x * json.loads(json.dumps(object()))


PROGRAMS = [
    (decimal, "to Decimal", "Decimal(x)"),
    (difference, "timedelta", "timedelta(seconds=x)"),
    (text, "JSON", "json.dumps"),
    (joined, "concatenate str", '"a" + x'),
    (helper, "to Decimal", "Decimal(x)"),
]
TRANSFORMS: dict[str, Any] = {
    "jit": lambda f: ftrace.jit(f)(2.0),
    "jit without lifting": lambda f: ftrace.jit(f, lift=False)(2.0),
    "grad": lambda f: ftrace.grad(f)(2.0),
    "jvp": lambda f: ftrace.jvp(f, (2.0,), (1.0,)),
    "vmap": lambda f: ftrace.vmap(f)(np.ones(2)),
    "vectorize": lambda f: ftrace.vectorize(f)(np.ones(2)),
    "map": lambda f: lax.map(f, np.ones(2)),
    "vmap of grad": lambda f: ftrace.vmap(ftrace.grad(f))(np.ones(2)),
    "under a decision": lambda f: ftrace.jit(lambda x: f(x) if x > 0 else x)(2.0),
}


@pytest.mark.parametrize("way", TRANSFORMS)
@pytest.mark.parametrize(("f", "words", "line"), PROGRAMS)
def test_code_that_refuses_traced_values(f: Any, words: str, line: str, way: str) -> None:
    with pytest.raises(DtypeError, match=rf"(?s)code that refuses it: .*{words}") as caught:
        TRANSFORMS[way](f)
    assert line in caught.value.where
    assert "ftrace.pure_callback" in caught.value.fix
    assert type(caught.value.__cause__) is TypeError


@pytest.mark.parametrize("way", TRANSFORMS)
def test_plain_values_pass_and_plain_errors_stay(way: str) -> None:
    TRANSFORMS[way](kept)
    with pytest.raises(TypeError, match="object is not JSON") as caught:
        TRANSFORMS[way](broken)
    assert type(caught.value) is TypeError


def test_the_cures_of_the_error() -> None:
    def by_callback(x: Any) -> Any:
        return x * ftrace.pure_callback(lambda v: np.float64(Decimal(float(v))), x, x)

    assert ftrace.jit(by_callback)(2.0) == 4.0
    assert ftrace.jit(decimal, static_argnums=0)(2.0) == 4.0


def caught_decimal(x: Any) -> Any:
    try:
        return x * float(Decimal(x))
    except TypeError:
        return x


def caught_text(x: Any) -> Any:
    try:
        text = json.dumps({"x": x})
    except Exception:
        return x
    return x * len(text)


def caught_difference(x: Any) -> Any:
    try:
        return difference(x)
    except:  # noqa: E722
        return x


def caught_elsewhere(x: Any) -> Any:
    try:
        return helper(x)
    except (ValueError, TypeError):
        return x


@pytest.mark.parametrize("way", TRANSFORMS)
@pytest.mark.parametrize(
    "f",
    [caught_decimal, caught_text, caught_difference, caught_elsewhere],
    ids=lambda f: f.__name__,
)
def test_what_a_handler_makes_of_such_an_error_is_no_result(f: Any, way: str) -> None:
    with pytest.raises(DtypeError, match="code that refuses it"):
        TRANSFORMS[way](f)


def caught_of_all(x: Any) -> Any:
    try:
        n = len(json.dumps(None + x))
    except TypeError:
        n = 2
    try:
        if n == 2:
            raise TypeError(f"{x!r}: not {n}")
    except TypeError:
        n = 3
    try:
        return x * n * float(Decimal("1.5"))
    except TypeError:
        return x


def test_errors_that_plain_numbers_raise_as_well_are_handled() -> None:
    for x in (2.0, -1.0):
        assert ftrace.jit(caught_of_all)(x) == caught_of_all(x)
        assert ftrace.grad(caught_of_all)(x) == 4.5
    np.testing.assert_array_equal(ftrace.vmap(caught_of_all)(np.ones(2)), [4.5, 4.5])
    assert ftrace.jit(caught_of_all, lift=False)(2.0) == 9.0
    assert ftrace.grad(caught_of_all, lift=False)(2.0) == 4.5


def test_without_lifting_errors_are_noticed_in_eager_derivatives_and_a_tracer_of_calls_stays() -> (
    None
):
    with pytest.raises(DtypeError, match="code that refuses it"):
        ftrace.grad(caught_decimal, lift=False)(2.0)
    before = sys.gettrace()
    told = []
    sys.settrace(lambda *event: told.append(event))
    try:
        ftrace.grad(lambda x: caught_decimal(2.0) * x, lift=False)(2.0)
    finally:
        sys.settrace(before)
    assert told
    assert sys.gettrace() is before
