"""Results that are other names for what a kernel writes."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.lowering.program.program import Copy
from tests.lowering.programs import planned


@pytest.mark.parametrize(
    ("f", "copies"),
    [
        (lambda x: fnp.tile(x, 3), 0),
        (lambda x: (x[:, None] * x[:4]).ravel(), 0),
        (lambda x: ((y := x[:, None] * x[:4]).ravel(), y.reshape(4, -1), y), 2),
        (lambda x: (x.reshape(2, -1), x), 2),
        (lambda x: ((y := (x[:, None] * x[:4])).ravel(), y.sum(1) + y[:, 1] + x), 0),
        (lambda x: lax.cond(x[0] > 0, lambda x: fnp.tile(x, 2), lambda x: fnp.repeat(x, 2), x), 0),
    ],
)
def test_what_is_reshaped_is_written_where_the_result_is(f, copies):
    x = np.arange(1.0, 9.0)
    program = planned(f, x)

    def count(steps):
        found = 0
        for step in steps:
            inner = getattr(step, "body", ()), getattr(step, "cond", ()), *getattr(step, "arms", ())
            found += isinstance(step, Copy) + sum(map(count, inner))
        return found

    assert count(program.steps) == copies
    for got, want in zip(
        ftrace.tree_util.tree_leaves(ftrace.jit(f)(x)),
        ftrace.tree_util.tree_leaves(f(x)),
        strict=True,
    ):
        np.testing.assert_array_equal(got, want)


def test_what_a_loop_carries_is_reshaped_beside_what_it_reads():
    x = np.arange(1.0, 5001.0)
    for f in (
        lambda x: lax.fori_loop(0, 3, lambda i, x: (x.reshape(4, -1).T * 2).ravel() + x, x),
        lambda x: lax.fori_loop(0, 3, lambda i, x: (x.reshape(4, -1).T * 2).ravel(), x),
        lambda x: lax.fori_loop(
            0, 3, lambda i, p: ((p[1].reshape(4, -1).T + 1).ravel(), p[0]), (x, x)
        ),
        lambda x: lax.scan(
            lambda c, a: ((c.reshape(4, -1).T * a).ravel(), fnp.tile(c * a, 2)), x, x[:5]
        ),
    ):
        leaves = ftrace.tree_util.tree_leaves
        for got, want in zip(leaves(ftrace.jit(f)(x)), leaves(f(x)), strict=True):
            np.testing.assert_array_equal(got, want)
