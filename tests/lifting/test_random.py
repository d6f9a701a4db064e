"""Random programs with nested loops, jumps and decisions: lifted they are themselves."""

import numpy as np
import pytest

import ftrace
from tests.lifting.random_programs import random_program

XS = np.array([0.31, 1.73, -0.9])


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_a_random_program(seed: int) -> None:
    f = random_program(seed)
    lifted = ftrace.lift(f)
    expected = [f(x) for x in XS]
    np.testing.assert_array_equal([lifted(x) for x in XS], expected)
    np.testing.assert_allclose([ftrace.jit(lifted)(x) for x in XS], expected)
    np.testing.assert_allclose(ftrace.vmap(lifted)(XS), expected)


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_the_derivative_of_a_random_program(seed: int) -> None:
    f = random_program(seed)
    compiled = ftrace.jit(ftrace.lift(f))
    expected = [ftrace.grad(f)(x) for x in XS]
    np.testing.assert_allclose([ftrace.grad(compiled)(x) for x in XS], expected, atol=1e-12)
    tangents = ftrace.vmap(lambda x: ftrace.jvp(compiled, (x,), (1.0,))[1])(XS)
    np.testing.assert_allclose(tangents, expected, atol=1e-12)
