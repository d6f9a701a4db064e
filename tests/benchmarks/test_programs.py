"""The programs that no case was tuned to: plain NumPy, ftrace and compiled ftrace agree."""

from functools import partial

import numpy as np
import pytest

import ftrace
from benchmarks.case import leaves
from benchmarks.cases.unseen import wanted
from benchmarks.programs import PROGRAMS
from benchmarks.systems import Ftrace, System

BATCHED = ("arms", "life", "changes")  # by `vmap`, which NumPy has not


def test_there_are_forty_of_four_kinds() -> None:
    assert len(PROGRAMS) == 40


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_agree_with_plain_numpy(name: str) -> None:
    program = PROGRAMS[name]
    inputs = program.inputs()
    system = Ftrace()
    value, *gradients = leaves(ftrace.jit(wanted(system, program))(*inputs))
    assert all(np.isfinite(g).all() for g in (value, *gradients))
    if not name.startswith(BATCHED) and "pressure" not in name:
        np.testing.assert_allclose(value, program.function(System(), *inputs), rtol=1e-9)
    for g, number in zip(gradients, program.wrt, strict=True):
        rng = np.random.default_rng(number)
        direction = rng.normal(size=g.shape)
        f = partial(program.function, system)

        def along(t, number=number, direction=direction, f=f):
            moved = [x + t * direction if k == number else x for k, x in enumerate(inputs)]
            return f(*moved)

        slope = ftrace.jit(lambda: ftrace.jvp(along, (0.0,), (1.0,))[1])()
        np.testing.assert_allclose(np.sum(g * direction), slope, rtol=1e-6, atol=1e-9)
