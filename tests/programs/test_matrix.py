"""Every transformation of every transformation equals plain Python; `make matrix` prints it all."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace.core.errors import MutationError
from tests.programs.matrix import FUNCTIONS, TOLERANCE, TRANSFORMATIONS, X, difference

FEW = ("while",)  # a loop, a counter and products; the others are slow tests


@pytest.mark.sampled(3, each="outer")
@pytest.mark.parametrize("inner", TRANSFORMATIONS)
@pytest.mark.parametrize("outer", TRANSFORMATIONS)
def test_a_pair_equals_plain_python(outer, inner):
    for name in FEW:
        assert difference(outer, inner, name) <= TOLERANCE, name


@pytest.mark.sampled(6, each="outer")
@pytest.mark.slow
@pytest.mark.parametrize("inner", TRANSFORMATIONS)
@pytest.mark.parametrize("outer", TRANSFORMATIONS)
@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - set(FEW)))
def test_a_pair_equals_plain_python_on_all_functions(outer, inner, name):
    assert difference(outer, inner, name) <= TOLERANCE


def test_a_rule_that_fills_an_array_made_of_tangents():
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        out = 0.0 * t
        out[0] = t[0] * 2.0
        return np.sin(x) * x, out + t

    f = ftrace.custom_jvp(lambda x: np.sin(x) * x)
    f.defjvp(rule)
    np.testing.assert_allclose(ftrace.grad(lambda x: np.sum(f(x)))(X), [3.0, 1.0, 1.0])


def test_a_rule_that_writes_a_tangent_into_a_known_array_is_told_what_to_do():
    def rule(primals, tangents):
        out = fnp.zeros(3)
        out[0] = tangents[0][0]
        return primals[0], out

    f = ftrace.custom_jvp(lambda x: x * 1.0)
    f.defjvp(rule)
    with pytest.raises(MutationError, match=r"0\.0 \* t"):
        ftrace.jit(ftrace.grad(lambda x: np.sum(f(x))))(X)
