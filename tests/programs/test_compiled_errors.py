"""Errors of compiled programs name the user's line, not the line of the call."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp


def picks(x, i):
    y = fnp.sin(x)
    return y[i] * 2  # the line that fails


def test_an_index_out_of_range_in_compiled_code_names_the_line_that_was_traced():
    with pytest.raises(IndexError, match="the line that fails") as caught:
        ftrace.jit(picks)(np.arange(3.0), 7)
    assert "Index 7 is out of bounds" in str(caught.value)


def test_an_error_after_a_failed_call_names_its_own_line():
    with pytest.raises(IndexError):
        ftrace.jit(picks)(np.arange(3.0), 7)
    with pytest.raises(ftrace.errors.ShapeError, match="another line"):
        fnp.reshape(ftrace.vmap(lambda x: fnp.reshape(x, (5,)))(np.ones((2, 3))), 1)  # another line
