"""Laws of following a batch through programs: fewer batch elements give their own results.

Whatever a program is, if batch elements are said to stay apart in it, then the same program of some
of them, in another order, gives their part of the results.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.jaxpr import Jaxpr, eval_jaxpr
from ftrace.core.kinds import way
from ftrace.core.lower import Pointwise
from ftrace.interpreters.batching import Axis, batch_jaxpr
from ftrace.interpreters.staging import trace_closed
from ftrace.lowering.fusion.inline import without_calls
from ftrace.lowering.loops.batch_axes import BatchAxes, narrowed
from ftrace.primitives.spectra import eigvalsh
from tests.laws.cases import assert_close, over_cases
from tests.laws.test_vmap import dims_of, stacked, subsets

CHOSEN = [3, 0, 2]
SIZE = 5


def of_some(jaxpr: Jaxpr, args: Sequence[Any], n: int) -> bool:
    """Whether batch elements stay apart; if so, what some of them give is compared."""
    plain = without_calls(jaxpr)
    axes = BatchAxes(n, plain.invars)
    if not all(map(axes.takes, plain.eqns)):
        return False
    fewer = narrowed(jaxpr, n, len(CHOSEN))
    part = [
        x if axes.of(v) is None else np.take(x, CHOSEN, axis=axes.of(v))
        for v, x in zip(plain.invars, args, strict=True)
    ]
    found = eval_jaxpr(fewer, part)
    for a, x, y in zip(plain.outvars, eval_jaxpr(jaxpr, args), found, strict=True):
        axis = axes.of(a)
        expected = x if axis is None else np.take(x, CHOSEN, axis=axis)
        assert typeof(y).dtype == typeof(expected).dtype
        assert_close(y, expected)
    return True


@over_cases()
def test_mapped_rows(case):
    """What vmap made: batch elements are found apart, or at least never meet unnoticed."""
    one = trace_closed(case.flat, case.avals)
    sizes = {m for a in case.avals for m in a.shape}
    for dims in {d for chosen in subsets(case) for d in dims_of(case, chosen)[:2]}:
        batched, _ = batch_jaxpr(one, Axis(SIZE), dims, False)
        args = [stacked(x, d, SIZE) for x, d in zip(case.args, dims, strict=True)]
        apart = of_some(batched, args, SIZE)
        assert apart or way(case.row, Pointwise) is None or SIZE in sizes


@over_cases()
def test_rows_that_nobody_mapped(case):
    """An axis that only has the length of a batch: it is none, or stands for one."""
    one = trace_closed(case.flat, case.avals)
    for n in {n for a in case.avals for n in a.shape if n > max(CHOSEN)}:
        of_some(one, case.args, n)


def test_rows_of_a_matrix_are_no_batch_of_matrices():
    """A gufunc's core axes may be counted from the last one."""
    a = np.random.default_rng(0).normal(size=(SIZE, SIZE))

    def values(a):
        return [eigvalsh(a, low=True)]

    assert not of_some(trace_closed(values, [typeof(a)]), [a], SIZE)
    stack = np.stack([k * a for k in range(SIZE)])
    assert of_some(trace_closed(values, [typeof(stack)]), [stack], SIZE)
