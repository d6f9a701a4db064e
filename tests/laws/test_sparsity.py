"""Laws of sparsity: `ftrace.sparse` finds all places where the derivative of a row is not zero."""

from typing import Any

import numpy as np
import pytest

from ftrace.core import trace as core
from ftrace.core.avals import strengthen, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.trace import EVAL
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.sparse.dependence import DependenceTrace
from ftrace.sparse.dependence_rules import Dependent
from tests.laws.cases import DIFFERENTIABLE, Case, over_cases
from tests.laws.test_squares import jvp_of

MOST = 80  # elements of the operands: each costs an evaluation
SMALL = [
    c
    for c in DIFFERENTIABLE
    if sum(c.avals[i].size for i in c.differentiable) in range(1, MOST + 1)
]


def predicted(case: Case, jaxpr: Any, tangents: list[Any], at_point: bool) -> list[Any]:
    """For each result's tangent the places that interpretation finds, as booleans."""
    count = sum(np.size(t) for t in tangents)
    trace = DependenceTrace(EVAL, count)
    eye, start = np.eye(count, dtype=bool), 0
    given: list[Any] = []
    for x in case.args:
        a = typeof(x)
        known = at_point or not is_inexact(a.dtype)
        given.append(x if known else Dependent(trace, a, trace.nothing(a)))
    for t in tangents:
        a, end = typeof(t), start + np.size(t)
        given.append(Dependent(trace, a, type(trace.nothing(a))(eye[start:end])))
        start = end
    try:
        outs = core.run(trace, lambda: eval_jaxpr(jaxpr, given))
    finally:
        trace.alive = False
    return [
        y.places.toarray() if isinstance(y, Dependent) else np.zeros((np.size(y), count), bool)
        for y in outs
    ]


def measured(case: Case, jaxpr: Any, tangents: list[Any]) -> list[Any]:
    """Where the derivative is not zero: one direction for each element of the operands."""
    columns: list[list[Any]] = []
    for k, t in enumerate(tangents):
        for i in range(np.size(t)):
            unit = [np.zeros_like(x) for x in tangents]
            unit[k].reshape(-1)[i] = 1
            with np.errstate(all="ignore"):
                outs = eval_jaxpr(jaxpr, [*case.args, *(u if u.ndim else u[()] for u in unit)])
            columns.append([np.asarray(y).reshape(-1) != 0 for y in outs])
    return [np.stack(column, axis=1) for column in zip(*columns, strict=True)]


@pytest.mark.parametrize("at_point", [False, True], ids=["anywhere", "at a point"])
@over_cases(SMALL)
def test_no_element_is_missed(case, at_point):
    avals = [strengthen(case.avals[i]) for i in case.differentiable]
    tangents = [np.zeros(a.shape, a.dtype) for a in avals]
    n = len(case.types(*case.avals))

    def pushed(*flat: Any) -> list[Any]:
        supply = iter(flat[len(case.args) :])
        every = [next(supply) if i in case.differentiable else None for i in range(len(case.args))]
        return jvp_of(case, case.flat)(*flat[: len(case.args)], *every)[n:]

    jaxpr, _ = trace_to_jaxpr(pushed, [*case.avals, *avals])
    found = predicted(case, jaxpr, tangents, at_point)
    for mine, real in zip(found, measured(case, jaxpr, tangents), strict=True):
        assert mine.shape == real.shape
        assert not (real & ~mine).any(), np.argwhere(real & ~mine)[:5]
