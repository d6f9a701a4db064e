"""Laws of staging: a jaxpr computes what the function does, has one text, and is well typed."""

from typing import Any

from ftrace.core.check import check_jaxpr
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.pretty import to_text
from ftrace.core.zero import ZERO
from ftrace.interpreters.jvp import jvp_flat, jvp_jaxpr
from ftrace.interpreters.linearize import linearize_flat
from ftrace.interpreters.staging import trace_to_jaxpr
from tests.laws.cases import (
    DIFFERENTIABLE,
    Case,
    assert_all_close,
    assert_type,
    directions,
    materialised,
    over_cases,
    random_like,
)


@over_cases()
def test_evaluating_the_jaxpr_is_calling_the_function(case: Case) -> None:
    jaxpr, captured = trace_to_jaxpr(case.flat, case.avals)
    assert not captured
    check_jaxpr(jaxpr)
    results = eval_jaxpr(jaxpr, case.args)
    assert_all_close(results, case.flat(*case.args), 0.0)
    for y, a in zip(results, jaxpr.out_avals, strict=True):
        assert_type(y, a)


@over_cases()
def test_two_traces_print_the_same(case: Case) -> None:
    first, _ = trace_to_jaxpr(case.flat, case.avals)
    second, _ = trace_to_jaxpr(case.flat, case.avals)
    assert to_text(first) == to_text(second)
    assert case.row.name in to_text(first)


@over_cases(DIFFERENTIABLE)
def test_the_staged_jvp_is_the_jvp(case: Case) -> None:
    tangents = directions(case, case.differentiable, case.rng())
    jaxpr, _ = trace_to_jaxpr(case.flat, case.avals)
    active = tuple(t is not ZERO for t in tangents)
    pushed, nonzero = jvp_jaxpr(jaxpr, active)
    results = eval_jaxpr(pushed, [*case.args, *(t for t in tangents if t is not ZERO)])
    ys, ts = jvp_flat(case.flat, case.args, tangents)
    assert nonzero == tuple(t is not ZERO for t in ts)
    assert_all_close(results, [*ys, *(t for t in ts if t is not ZERO)])


@over_cases(DIFFERENTIABLE)
def test_the_staged_pullback_is_the_pullback(case: Case) -> None:
    rng = case.rng()
    cts = [random_like(rng, a) for a in case.types(*case.avals)]

    def pulled(*args: Any) -> list[Any]:
        _, tape = linearize_flat(case.flat, args, outlives=False)
        live = [None if a is None else ct for a, ct in zip(tape.outs, cts, strict=True)]
        found = tape.pull(live)
        active = [args[i] for i in case.differentiable]
        chosen = [found[i] for i in case.differentiable]
        return materialised([ZERO if c is None else c for c in chosen], active)

    jaxpr, _ = trace_to_jaxpr(pulled, case.avals)
    assert_all_close(eval_jaxpr(jaxpr, case.args), pulled(*case.args))
