"""Laws of jit: it changes no number, and it commutes with the other transformations.

What is compiled from `+ - * / sqrt`, comparisons and moves of real numbers equals NumPy's result
to the last bit; a single function that is rounded otherwise is within a few units of it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.core.jaxpr import Jaxpr, JaxprFun
from ftrace.core.scalar import OPS
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

# Operations that are rounded otherwise than NumPy does it, and rows that are made of them.
ROUNDED = {op.name for op in OPS.values() if op.costly} - {
    *("div", "sqrt", "floor_divide", "mod", "rem"),
}
ROUNDED |= {"logaddexp", "xlogy", "integer_pow", "reduce_sum", "reduce_prod"}
ROUNDED |= {"ndtr", "logit", "log_expit", "entr", "xlog1py", "rel_entr", "kl_div", "special"}
UNITS = 4  # 2 of ours, 2 of NumPy's or scipy's
SUMS = {"reduce_sum", "reduce_prod", "cumlogsumexp", "dot_general", "conv"}
# by NumPy's library, where evaluation takes SciPy's; small ones are kernels
SUMS |= {"triangular_solve", "triangular_product", "triangular_inv"}
SUMS |= {"solve", "solve_again", "inv", "det", "slogdet", "cholesky", "cofactor"}


def rows_of(jaxpr: Jaxpr) -> Iterator[str]:
    """The names of the rows of a program and of those in it; "complex" where numbers are."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        if any(v.aval.dtype.kind == "c" for v in (*eqn.invars, *eqn.outvars)):
            yield "complex"
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                found = inner.jaxpr if isinstance(inner, JaxprFun) else inner
                if isinstance(found, Jaxpr):
                    yield from rows_of(found)


def assert_agree(
    f: Callable[..., Any], args: Sequence[Any], actual: Sequence[Any], expected: Sequence[Any]
) -> None:
    """What a compiled function gives is what the function gives, as exactly as can be said."""
    assert_all_close(actual, expected)
    rows = set(rows_of(ftrace.make_jaxpr(f)(*args)))
    if "complex" in rows or rows & SUMS or (rows & ROUNDED and len(rows) > 1):
        return
    for a, e in zip(actual, expected, strict=True):
        if not rows & ROUNDED:
            np.testing.assert_array_equal(a, e)
        elif np.size(e):
            np.testing.assert_array_max_ulp(*map(np.atleast_1d, (a, e)), maxulp=UNITS)


@over_cases()
def test_jit_is_the_function(case: Case) -> None:
    expected = case.flat(*case.args)
    compiled = ftrace.jit(case.flat)
    for results in (compiled(*case.args), compiled(*case.args)):
        assert_agree(case.flat, case.args, results, expected)
        for y, a in zip(results, case.types(*case.avals), strict=True):
            assert_type(y, a)


def tangents_for(case: Case) -> list[Any]:
    """A tangent for each operand, 0.0 where it has none."""
    found = directions(case, case.differentiable, case.rng())
    return [0.0 if t is ZERO else t for t in found]


@pytest.mark.sampled(3, each="case.row")
@over_cases(DIFFERENTIABLE)
def test_jvp_of_jit_is_jit_of_jvp(case: Case) -> None:
    args = [*case.args, *tangents_for(case)]
    expected = jvp_of(case, case.flat)(*args)
    assert_all_close(jvp_of(case, ftrace.jit(case.flat))(*args), expected)
    pushed = jvp_of(case, case.flat)
    assert_agree(pushed, args, ftrace.jit(pushed)(*args), expected)


@pytest.mark.sampled(3, each="case.row")
@over_cases(DIFFERENTIABLE)
def test_grad_of_jit_is_jit_of_grad(case: Case) -> None:
    rng = case.rng()
    cts = [random_like(rng, a) for a in case.types(*case.avals)]
    expected = pullback_of(case, case.flat, cts)(*case.args)
    assert_all_close(pullback_of(case, ftrace.jit(case.flat), cts)(*case.args), expected)
    pulled = pullback_of(case, case.flat, cts)
    assert_agree(pulled, case.args, ftrace.jit(pulled)(*case.args), expected)


@pytest.mark.sampled(3, each="case.row")
@over_cases(MAPPABLE)
def test_vmap_of_jit_is_jit_of_vmap(case: Case) -> None:
    args, dims = batched_args(case)
    expected = vmapped(case.flat, dims)(*args)
    assert_all_close(vmapped(ftrace.jit(case.flat), dims)(*args), expected)
    assert_all_close(ftrace.jit(vmapped(case.flat, dims))(*args), expected)
