"""Laws of transposition: each declared operand directly, and masked cotangents across the row."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ftrace.core.avals import aval, typeof
from ftrace.core.dtypes import bool_, is_inexact
from ftrace.core.errors import RuleError
from ftrace.core.jaxpr import Eqn, Literal, Var
from ftrace.core.primitive import LINEAR, Linear
from ftrace.core.zero import Masked
from ftrace.interpreters.tangents import materialise, zeros
from ftrace.interpreters.transpose import _crossed, _is_any, backward_pass
from tests.laws.cases import (
    DIFFERENTIABLE,
    Case,
    assert_close,
    assert_type,
    inner,
    over_operands,
    precision,
    random_like,
)

TRANSPOSABLE = [
    c
    for c in DIFFERENTIABLE
    if c.row.linear_in and all(is_inexact(a.dtype) for a in c.types(*c.avals))
]


def linear_operands(case: Case) -> list[int]:
    """The operands of this sample that the row is linear in."""
    return [i for i in case.row.linear_in if i in case.differentiable]


def choices(case: Case) -> Iterator[tuple[int, ...]]:
    """Each declared operand alone; all together where the row is linear in all together."""
    found = linear_operands(case)
    for i in found:
        yield (i,)
    if len(found) > 1 and case.row.jvp == LINEAR:
        yield tuple(found)


def linear_map(case: Case, operands: tuple[int, ...], vs: list[Any]) -> list[Any]:
    """The row as a linear map of some operands, the others as in the sample."""

    def at(values: list[Any]) -> list[Any]:
        args = list(case.args)
        for i, v in zip(operands, values, strict=True):
            args[i] = v
        return case.flat(*args)

    zeros = [np.zeros_like(v) if np.ndim(v) else np.asarray(v).dtype.type(0) for v in vs]
    return [a - b for a, b in zip(at(vs), at(zeros), strict=True)]


def equation(case: Case, operands: tuple[int, ...]) -> tuple[Eqn, list[Var]]:
    """The row as the only equation of a linear program."""
    invars: list[Any] = [
        Var(aval(a.shape, a.dtype)) if i in operands else Literal(x)
        for i, (a, x) in enumerate(zip(case.avals, case.args, strict=True))
    ]
    types = case.row.type(*(a.aval for a in invars), **case.sample.params)
    outs = [Var(a) for a in (types if case.row.multiple else (types,))]
    return Eqn(case.row, invars, case.sample.params, outs, None), [invars[i] for i in operands]


def pull(case: Case, operands: tuple[int, ...], cts: list[Any]) -> list[Any]:
    """Cotangents of some operands by the interpreters' backward walk."""
    eqn, variables = equation(case, operands)
    return backward_pass([eqn], variables, eqn.outvars, cts)


def whole(ct: Any, a: Any) -> Any:
    """A cotangent as an array; it is None where nothing of the operand is left."""
    return zeros(a) if ct is None else materialise(ct)


@over_operands(TRANSPOSABLE, choices)
def test_transpose_is_that_of_the_linear_map(case: Case, operands: tuple[int, ...]) -> None:
    rng = case.rng()
    args: list[Any] = list(case.args)
    for i in operands:
        args[i] = Linear(aval(case.avals[i].shape, case.avals[i].dtype))
    cts = [random_like(rng, v.aval) for v in equation(case, operands)[0].outvars]
    found = case.row.transpose(cts if case.row.multiple else cts[0], *args, **case.sample.params)
    assert len(found) == len(args), "one cotangent or None for each operand"
    assert all(c is None for i, c in enumerate(found) if i not in operands)
    pulled = [whole(found[i], args[i].aval) for i in operands]
    for i, ct in zip(operands, pulled, strict=True):
        assert_type(ct, case.avals[i], f"cotangent of operand {i}")
    vs = [random_like(rng, args[i].aval) for i in operands]
    forward = linear_map(case, operands, vs)
    tolerance = 10 * precision([*vs, *forward]) * (1 + sum(np.size(y) for y in forward))
    assert_close(inner(vs, pulled), inner(forward, cts), tolerance)


@over_operands(TRANSPOSABLE, lambda c: ((i,) for i in c.differentiable if i not in c.row.linear_in))
def test_an_operand_that_the_row_is_not_linear_in_has_no_cotangent(
    case: Case, operands: tuple[int, ...]
) -> None:
    args: list[Any] = [
        Linear(aval(a.shape, a.dtype)) if i in operands else x
        for i, (a, x) in enumerate(zip(case.avals, case.args, strict=True))
    ]
    cts = [random_like(case.rng(), a) for a in case.types(*case.avals)]
    with pytest.raises(RuleError, match="linear in"):
        case.row.transpose(cts if case.row.multiple else cts[0], *args, **case.sample.params)


def masked_cotangents(
    case: Case, operands: tuple[int, ...], live: float
) -> tuple[list[Masked], list[Any]]:
    """Cotangents with NaN wherever they are masked, and the same with zeros there."""
    rng = case.rng()
    masked: list[Masked] = []
    plain: list[Any] = []
    for out in equation(case, operands)[0].outvars:
        value = np.asarray(random_like(rng, out.aval))
        mask = np.asarray(rng.random(value.shape) < live)
        dtype = out.aval.dtype
        masked.append(Masked(np.where(mask, value, np.nan).astype(dtype)[()], mask[()]))
        plain.append(np.where(mask, value, 0).astype(dtype)[()])
    return masked, plain


@over_operands(TRANSPOSABLE, choices)
def test_a_masked_cotangent_equals_one_with_zeros(case: Case, operands: tuple[int, ...]) -> None:
    masked, plain = masked_cotangents(case, operands, 0.5)
    found = pull(case, operands, masked)
    expected = pull(case, operands, plain)
    for i, ct, e in zip(operands, found, expected, strict=True):
        if ct is None:
            assert e is None
            continue
        assert_close(materialise(ct), materialise(e))
        assert_type(materialise(ct), case.avals[i], f"cotangent of operand {i}")


@over_operands([c for c in TRANSPOSABLE if c.row.mask], choices)
def test_a_mask_that_kills_everything_arrives(case: Case, operands: tuple[int, ...]) -> None:
    masked, _ = masked_cotangents(case, operands, 0.0)
    for ct in pull(case, operands, masked):
        if ct is not None:
            assert type(ct) is Masked
            assert not np.any(ct.mask)
            assert not np.any(materialise(ct))


@over_operands([c for c in TRANSPOSABLE if c.row.mask == "move"], choices)
def test_movement_rows_move_the_mask(case: Case, operands: tuple[int, ...]) -> None:
    masked, plain = masked_cotangents(case, operands, 0.5)
    ones = [
        np.asarray(m.mask).astype(np.asarray(p).dtype)[()]
        for m, p in zip(masked, plain, strict=True)
    ]
    found, expected = pull(case, operands, masked), pull(case, operands, ones)
    for i, ct, e in zip(operands, found, expected, strict=True):
        assert typeof(ct.mask) == aval(case.avals[i].shape, bool_)
        np.testing.assert_array_equal(ct.mask, e != 0)


READ = [c for c in TRANSPOSABLE if c.row.mask and not c.row.multiple]


@over_operands(READ, choices)
def test_a_mask_of_what_was_read_hides_no_cotangent(case: Case, operands: tuple[int, ...]) -> None:
    """Each element that a read result depends on stays in the mask, wherever a row moves it."""
    (masked,), (plain,) = masked_cotangents(case, operands, 0.4)
    eqn, _ = equation(case, operands)
    read = Masked(plain, masked.mask, True, read=True)
    args = [Linear(a.aval) if type(a) is Var else a.value for a in eqn.invars]
    found, expected = _crossed(eqn, read, args, _is_any), pull(case, operands, [plain])
    for i, e in zip(operands, expected, strict=True):
        ct = found[i]
        if type(ct) is Masked:
            hidden = ~np.broadcast_to(ct.mask, case.avals[i].shape)
            assert not np.any(np.asarray(whole(e, case.avals[i]))[hidden])
        assert_close(whole(ct, case.avals[i]), whole(e, case.avals[i]))


def is_of_stacks(case: Case) -> bool:
    """Whether a rule of a mask knows only which matrices of a stack meet."""
    name = getattr(case.row.mask, "__qualname__", "")
    return "mask_of_stacks" in name or "mask_of_columns" in name


@over_operands([c for c in READ if callable(c.row.mask) and not is_of_stacks(c)], choices)
def test_a_rule_of_a_mask_names_what_meets_what_was_read(
    case: Case, operands: tuple[int, ...]
) -> None:
    """Nothing else is in the mask: it is where numbers above zero, moved back, are above zero."""
    rng = case.rng()
    (out,) = case.types(*case.avals)
    mask = np.asarray(rng.random(out.shape) < 0.3)
    args: list[Any] = [
        Linear(aval(a.shape, a.dtype))
        if i in operands
        else rng.uniform(1, 2, a.shape).astype(a.dtype)[()]
        for i, a in enumerate(case.avals)
    ]
    found = case.row.mask(mask, *args, **case.sample.params)
    expected = case.row.transpose(mask.astype(out.dtype), *args, **case.sample.params)
    for i in operands:
        np.testing.assert_array_equal(found[i], np.asarray(expected[i]) != 0)


@over_operands([c for c in READ if c.row.clear and not is_of_stacks(c)], choices)
def test_known_operands_outside_of_branches_add_nothing(
    case: Case, operands: tuple[int, ...]
) -> None:
    """NaN, where a known element meets no result of a branch that was taken, is not seen."""
    rng = case.rng()
    (out,) = case.types(*case.avals)
    mask = np.asarray(rng.random(out.shape) < 0.2)
    (linear,) = operands
    other = 1 - linear
    roles: list[Any] = [rng.uniform(1, 2, a.shape).astype(a.dtype)[()] for a in case.avals]
    roles[other] = Linear(case.avals[other])
    met = np.asarray(
        case.row.transpose(mask.astype(out.dtype), *roles, **case.sample.params)[other]
    )
    eqn, _ = equation(case, operands)
    args = [Linear(a.aval) if type(a) is Var else a.value for a in eqn.invars]
    ct = Masked(rng.normal(size=out.shape).astype(out.dtype), mask)
    ct.branch = True
    known, found = args[other], []
    if case.row.clear(mask, *args, **case.sample.params)[other] is known:
        return  # the cotangent does not sum over its elements
    for missing in (0, np.nan):
        args[other] = np.where(met != 0, known, known.dtype.type(missing))[()]
        found.append(materialise(_crossed(eqn, ct, args, None)[linear]))
    np.testing.assert_array_equal(*found)


@over_operands([c for c in TRANSPOSABLE if is_of_stacks(c)], choices)
def test_matrices_meet_the_results_for_themselves(case: Case, operands: tuple[int, ...]) -> None:
    """Of three equal stacks the results for the second are taken: so are its operands, whole."""
    avals = [aval((3, *a.shape), a.dtype) for a in case.avals]
    args: list[Any] = [
        Linear(a) if i in operands else np.stack([x] * 3)
        for i, (a, x) in enumerate(zip(avals, case.args, strict=True))
    ]
    masks = [
        np.stack([np.zeros(a.shape, bool), np.ones(a.shape, bool), np.zeros(a.shape, bool)])
        for a in case.types(*case.avals)
    ]
    given = [masks[0], *(None for _ in masks[1:])] if case.row.multiple else masks[0]
    found = case.row.mask(given, *args, **case.sample.params)
    for i in operands:
        assert found[i].shape == avals[i].shape
        assert not found[i][0].any()
        assert not found[i][2].any()
        assert found[i][1].all() or case.avals[i].size == 0 or masks[0].size == 0
