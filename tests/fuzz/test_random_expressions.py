"""Random expressions of every dtype: jit, vmap and jvp give NumPy's value, dtype and shape."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

import ftrace
from tests.fuzz.expressions import EXPRESSIONS, OPERANDS, Application, Operand, evaluate

SEEDS = st.integers(0, 10_000)
FAILURES = (TypeError, ValueError, IndexError, AttributeError)


@contextmanager
def silence() -> Iterator[None]:
    """No warnings about numbers: overflow, empty means."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def numpys(expression: list[Application], operands: list[Any]) -> Any:
    """NumPy's answer; an expression that NumPy refuses is passed over."""
    with silence():
        try:
            return evaluate(expression, *operands)
        except FAILURES:
            assume(False)


def same(actual: Any, expected: Any) -> None:
    """Equal in dtype and shape; in value up to the rounding of sums of another order."""
    assert not (isinstance(actual, np.ndarray) and actual.ndim == 0)  # a NumPy scalar instead
    a, e = np.asarray(actual), np.asarray(expected)
    assert a.dtype == e.dtype
    assert a.shape == e.shape
    if e.dtype.kind in "fc":
        tolerance = 64 * np.finfo(e.dtype).eps
        np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(a, e)


def drawn(operands: list[Operand], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [o.draw(rng) for o in operands]


@given(EXPRESSIONS, OPERANDS, SEEDS)
def test_jit_is_eager(expression: list[Application], operands: list[Operand], seed: int) -> None:
    values = drawn(operands, seed)
    expected = numpys(expression, values)
    with silence():
        actual = ftrace.jit(partial(evaluate, expression))(*values)
    same(actual, expected)


@given(EXPRESSIONS, OPERANDS, SEEDS)
def test_a_differentiated_value_is_the_value(
    expression: list[Application], operands: list[Operand], seed: int
) -> None:
    values = drawn(operands, seed)
    expected = numpys(expression, values)
    tangents = [np.ones_like(v)[()] if np.asarray(v).dtype.kind in "fc" else None for v in values]
    with silence():
        actual, tangent = ftrace.jvp(partial(evaluate, expression), tuple(values), tuple(tangents))
    same(actual, expected)
    assert np.shape(tangent) == np.shape(expected)
    assert np.asarray(tangent).dtype == np.asarray(expected).dtype


@given(EXPRESSIONS, OPERANDS, st.lists(st.booleans(), min_size=3, max_size=3), SEEDS)
def test_vmap_is_the_loop(
    expression: list[Application], operands: list[Operand], mapped: list[bool], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    members = 2
    axes = tuple(0 if m and not o.scalar else None for m, o in zip(mapped, operands, strict=False))
    assume(any(axis == 0 for axis in axes))
    values = [
        o.draw(rng, () if axis is None else (members,))
        for o, axis in zip(operands, axes, strict=True)
    ]
    expected = [
        numpys(expression, [v if d is None else v[i] for v, d in zip(values, axes, strict=True)])
        for i in range(members)
    ]
    with silence():
        actual = ftrace.vmap(partial(evaluate, expression), in_axes=axes)(*values)
    same(actual, np.stack(expected))
