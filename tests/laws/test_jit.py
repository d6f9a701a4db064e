"""Laws of jit: it changes no number, and it commutes with the other transformations."""

from typing import Any

import ftrace
from ftrace.core.zero import ZERO
from tests.laws.cases import (
    DIFFERENTIABLE,
    Case,
    assert_all_close,
    assert_type,
    directions,
    over_cases,
    random_like,
)
from tests.laws.test_squares import MAPPABLE, batched_args, jvp_of, pullback_of, vmapped


@over_cases()
def test_jit_is_the_function(case: Case) -> None:
    expected = case.flat(*case.args)
    compiled = ftrace.jit(case.flat)
    for results in (compiled(*case.args), compiled(*case.args)):
        assert_all_close(results, expected)
        for y, a in zip(results, case.types(*case.avals), strict=True):
            assert_type(y, a)


def tangents_for(case: Case) -> list[Any]:
    """A tangent for each operand, 0.0 where it has none."""
    found = directions(case, case.differentiable, case.rng())
    return [0.0 if t is ZERO else t for t in found]


@over_cases(DIFFERENTIABLE)
def test_jvp_of_jit_is_jit_of_jvp(case: Case) -> None:
    args = [*case.args, *tangents_for(case)]
    expected = jvp_of(case, case.flat)(*args)
    assert_all_close(jvp_of(case, ftrace.jit(case.flat))(*args), expected)
    assert_all_close(ftrace.jit(jvp_of(case, case.flat))(*args), expected)


@over_cases(DIFFERENTIABLE)
def test_grad_of_jit_is_jit_of_grad(case: Case) -> None:
    rng = case.rng()
    cts = [random_like(rng, a) for a in case.types(*case.avals)]
    expected = pullback_of(case, case.flat, cts)(*case.args)
    assert_all_close(pullback_of(case, ftrace.jit(case.flat), cts)(*case.args), expected)
    assert_all_close(ftrace.jit(pullback_of(case, case.flat, cts))(*case.args), expected)


@over_cases(MAPPABLE)
def test_vmap_of_jit_is_jit_of_vmap(case: Case) -> None:
    args, dims = batched_args(case)
    expected = vmapped(case.flat, dims)(*args)
    assert_all_close(vmapped(ftrace.jit(case.flat), dims)(*args), expected)
    assert_all_close(ftrace.jit(vmapped(case.flat, dims))(*args), expected)
