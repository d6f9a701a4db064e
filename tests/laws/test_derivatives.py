"""Laws of derivatives: jvp against differences, to order two, and reverse against forward."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ftrace.core import dtypes
from ftrace.core.errors import RuleError
from ftrace.core.primitive import LINEAR, NONDIFFERENTIABLE
from ftrace.core.zero import ZERO
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.linearize import linearize_flat, push
from ftrace.primitives.table import by_name
from tests.laws.cases import (
    CASES,
    DIFFERENCES,
    DIFFERENTIABLE,
    LONG_STEP,
    STEP,
    Case,
    assert_all_close,
    assert_close,
    assert_type,
    difference,
    directions,
    in_double,
    inner,
    is_double,
    materialised,
    over_cases,
    over_operands,
    precision,
    random_like,
)

# Rows whose derivative is by definition not the limit of their differences.
BY_DEFINITION = {
    "stop_gradient": "it exists to have no derivative",
    "reduce_precision": "the derivative passes through the rounding",
}


def choices(case: Case) -> Iterator[tuple[int, ...]]:
    """Each operand alone, then all together."""
    for i in case.differentiable:
        yield (i,)
    if len(case.differentiable) > 1:
        yield case.differentiable


def inexact(case: Case, results: list[Any]) -> list[Any]:
    """The results that have tangents."""
    types = case.types(*case.avals)
    return [y for y, a in zip(results, types, strict=True) if dtypes.is_inexact(a.dtype)]


def tangents_of(case: Case, args: Any, tangents: Any) -> list[Any]:
    """The tangents of the results that have some, zeros made real."""
    ys, ts = jvp_flat(case.flat, args, tangents)
    return inexact(case, materialised(ts, ys))


SMOOTH = [
    c
    for c in DIFFERENTIABLE
    if c.double and c.row.jvp != LINEAR and c.row.name not in BY_DEFINITION
]


@over_operands(DIFFERENTIABLE, choices)
def test_tangents_have_the_type_of_their_primals(case: Case, operands: tuple[int, ...]) -> None:
    tangents = directions(case, operands, case.rng())
    expected = case.flat(*case.args)
    ys, ts = jvp_flat(case.flat, case.args, tangents)
    for y, t, e, a in zip(ys, ts, expected, case.types(*case.avals), strict=True):
        assert_close(y, e)
        assert_type(y, a, "primal")
        if dtypes.is_inexact(a.dtype):
            assert t is ZERO or assert_type(t, a, "tangent") is None
        else:
            assert t is ZERO, f"a tangent for a result of type {a}"


@over_cases([c for c in CASES if c.row.jvp is NONDIFFERENTIABLE and c.differentiable])
def test_rows_without_derivative_have_symbolic_zeros(case: Case) -> None:
    _, ts = jvp_flat(case.flat, case.args, directions(case, case.differentiable, case.rng()))
    assert all(t is ZERO for t in ts)


WITHOUT_DERIVATIVE = ["bessel_iv", "bessel_ive", "bessel_jv", "polygamma"]


@pytest.mark.parametrize("name", [*WITHOUT_DERIVATIVE, "zeta"])
def test_a_parameter_without_derivative_is_refused(name: str) -> None:
    one, two = np.float64(1), np.float64(2)
    with pytest.raises(RuleError, match="no derivative by its first operand"):
        jvp_flat(lambda p: [by_name[name](p, two)], [two], [one])


@over_operands(SMOOTH, choices)
def test_jvp_agrees_with_differences(case: Case, operands: tuple[int, ...]) -> None:
    tangents = directions(case, operands, case.rng())
    double = is_double(case.types(*case.avals))
    expected = difference(
        lambda *xs: inexact(case, case.flat(*xs)),
        case.args,
        tangents,
        STEP if double else LONG_STEP,
    )
    tolerance = DIFFERENCES if double else 10 * precision(expected)
    assert_all_close(tangents_of(case, case.args, tangents), expected, tolerance)


@over_operands(SMOOTH, choices)
def test_jvp_of_jvp_agrees_with_differences_of_jvp(case: Case, operands: tuple[int, ...]) -> None:
    rng = case.rng()
    first = directions(case, operands, rng)
    second = directions(case, case.differentiable, rng)

    def derivative(*xs: Any) -> list[Any]:
        return tangents_of(case, xs, first)

    expected = difference(derivative, case.args, second)
    ys, ts = jvp_flat(derivative, case.args, second)
    assert_all_close(materialised(ts, ys), expected, DIFFERENCES)


@over_cases([c for c in DIFFERENTIABLE if not c.double])
def test_single_precision_agrees_with_double(case: Case) -> None:
    tangents = directions(case, case.differentiable, case.rng())
    actual = tangents_of(case, case.args, tangents)
    args = [in_double(a) for a in case.args]
    doubled = [t if t is ZERO else in_double(t) for t in tangents]
    expected = tangents_of(case, args, doubled)
    assert_all_close(actual, expected, 20 * precision(case.args))


@over_cases([c for c in DIFFERENTIABLE if c.row.jvp == LINEAR])
def test_linear_rows_are_linear(case: Case) -> None:
    rng = case.rng()
    u, v = (directions(case, case.differentiable, rng) for _ in range(2))
    us, vs = ([0 if t is ZERO else t for t in ts] for ts in (u, v))
    both = case.flat(*[a + b for a, b in zip(us, vs, strict=True)])
    separate = zip(case.flat(*us), case.flat(*vs), strict=True)
    assert_all_close(both, [a + b for a, b in separate])


@over_operands(DIFFERENTIABLE, choices)
def test_reverse_mode_is_the_transpose_of_forward_mode(
    case: Case, operands: tuple[int, ...]
) -> None:
    rng = case.rng()
    tangents = directions(case, operands, rng)
    active = [case.args[i] for i in operands]

    def f(*xs: Any) -> list[Any]:
        args = list(case.args)
        for i, x in zip(operands, xs, strict=True):
            args[i] = x
        return case.flat(*args)

    ys, tape = linearize_flat(f, active, outlives=False)
    vs = [tangents[i] for i in operands]
    types = case.types(*case.avals)
    cts = [random_like(rng, a) for a in types]
    outs = [None if a is None else ct for a, ct in zip(tape.outs, cts, strict=True)]
    found = tape.pull(outs)
    for ct, i in zip(found, operands, strict=True):
        assert ct is None or assert_type(ct, case.avals[i], "cotangent") is None
    pairs = [(v, ct) for v, ct in zip(vs, found, strict=True) if ct is not None]
    _, ts = jvp_flat(f, active, vs)
    forward = [t for t, a in zip(materialised(ts, ys), tape.outs, strict=True) if a is not None]
    assert all(t is ZERO for t, a in zip(ts, tape.outs, strict=True) if a is None)
    tolerance = 10 * precision([*vs, *forward]) * (1 + sum(np.size(t) for t in forward))
    actual = inner([v for v, _ in pairs], [ct for _, ct in pairs])
    assert_close(actual, inner(forward, [ct for ct in outs if ct is not None]), tolerance)
    assert_all_close(push(tape, vs, ys), materialised(ts, ys))
