"""What lowering knows of a primitive is what the primitive says: a copy of it is lowered alike."""

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.lowering.kernel.show import text
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from ftrace.primitives.table import ALL
from tests.laws.cases import samples_of
from tests.renaming import Renaming


def lowered(jaxpr):
    """The kernels of a jaxpr and the kinds of its steps."""
    program = plan(jaxpr, Machine(64))
    return [text(k.kernel) for k in program.launches], [type(s).__name__ for s in program.steps]


@pytest.mark.parametrize("row", ALL, ids=lambda row: row.name)
def test_a_copy_of_a_primitive_is_lowered_alike(row):
    for sample in samples_of(row):
        jaxpr = ftrace.make_jaxpr(lambda *a, s=sample: row(*a, **s.params))(*sample.args)
        assert lowered(Renaming().jaxpr(jaxpr)) == lowered(jaxpr)


def collatz(n):
    return lax.while_loop(
        lambda c: c[0] != 1,
        lambda c: (lax.cond(c[0] % 2 == 0, lambda k: k // 2, lambda k: 3 * k + 1, c[0]), c[1] + 1),
        (n, 0),
    )[1]


def averaged(x):
    """A loop over arrays with a branch, a product and a call in it."""

    def turn(c):
        i, y = c
        z = ftrace.jit(np.tanh)(y) + x @ x
        return i + 1, lax.cond(i > 1, lambda v: v[::-1], lambda v: v * 2, z)

    return lax.while_loop(lambda c: c[0] < 3, turn, (0, x))[1]


def running(x):
    return lax.scan(lambda c, v: (c * 0.5 + v, np.sin(c) + v), x[0] * 0, x)


CONTROL = {
    "collatz": (collatz, 27),
    "mapped": (ftrace.vmap(collatz), np.arange(1, 5)),
    "arrays": (averaged, np.linspace(0.5, 1.5, 3)),
    "scan": (running, np.linspace(0.5, 1.5, 8)),
    "backwards": (ftrace.grad(lambda x: running(x)[1].sum()), np.linspace(0.5, 1.5, 8)),
    "gradient of while": (ftrace.jit(lambda x: ftrace.grad(lambda y: averaged(y).sum())(x)), None),
    "vectorize": (ftrace.vectorize(lambda x: x if x > 0 else -x * np.exp(x)), np.ones(3)),
    "checkpoint": (ftrace.grad(lambda x: ftrace.checkpoint(averaged)(x).sum()), np.ones(3)),
}


@pytest.mark.parametrize("name", CONTROL)
def test_a_program_of_copies_is_lowered_alike(name):
    fn, x = CONTROL[name]
    jaxpr = ftrace.make_jaxpr(fn)(np.linspace(0.5, 1.5, 3) if x is None else x)
    kernels, steps = lowered(jaxpr)
    assert kernels
    assert lowered(Renaming().jaxpr(jaxpr)) == (kernels, steps)
