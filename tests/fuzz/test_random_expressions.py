"""Random expressions of every dtype: jit, vmap and jvp give NumPy's value, dtype and shape."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
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


PRECISE = OPERANDS.map(
    lambda operands: [
        replace(o, dtype="c16" if o.dtype[0] == "c" else "f8") if o.dtype[0] in "fc" else o
        for o in operands
    ]
)


@given(EXPRESSIONS, PRECISE, SEEDS)
def test_forward_and_reverse_mode_agree(
    expression: list[Application], operands: list[Operand], seed: int
) -> None:
    values = drawn(operands, seed)
    assume(any(np.asarray(v).dtype.kind in "fc" for v in values))
    assume(not any(step.name in ("narrow sum", "to float32") for step in expression))
    expected = numpys(expression, values)
    assume(np.asarray(expected).dtype in (np.float64, np.complex128))
    tangents = [v if np.asarray(v).dtype.kind in "fc" else None for v in drawn(operands, seed + 1)]
    f = partial(evaluate, expression)
    with silence():
        _, t = ftrace.jvp(f, tuple(values), tuple(tangents))
        _, pull = ftrace.vjp(f, *values)
        w = np.random.default_rng(seed).normal(size=np.shape(t)).astype(np.asarray(t).dtype)[()]
        cts = pull(w)
        forward = np.sum(w * t).real
        terms = [np.sum(c * v) for c, v in zip(cts, tangents, strict=True) if v is not None]
    assume(np.isfinite(forward) and np.abs(forward) < 1e8)
    for c, v in zip(cts, values, strict=True):
        assert (c is None) == (np.asarray(v).dtype.kind not in "fc")
        assert c is None or (np.shape(c), np.asarray(c).dtype) == (
            np.shape(v),
            np.asarray(v).dtype,
        )
    size = sum(np.abs(term) for term in terms) + np.sum(np.abs(w * t)) + 1.0
    np.testing.assert_allclose(sum(terms).real, forward, rtol=0, atol=1e-12 * size)
