"""Products of several operands begin where least is to be done."""

from itertools import pairwise

import numpy as np
import pytest

import ftrace
from ftrace import numpy as fnp


@pytest.mark.parametrize("sizes", [(50, 2, 60, 1), (1, 60, 2, 50)])
def test_the_cheaper_pair_of_three_comes_first(sizes):
    args = [np.ones(pair) for pair in pairwise(sizes)]
    found = ftrace.make_jaxpr(lambda *a: fnp.einsum("ij,jk,kl->il", *a))(*args)
    made = [np.prod(v.aval.shape) for e in found.eqns for v in e.outvars]
    assert max(made) <= 60  # not 50 * 60
