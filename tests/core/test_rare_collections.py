"""Collections of garbage are rarer in a trace, and what the user has set holds behind it."""

import gc

import numpy as np
import pytest

import ftrace
from ftrace.core.rare_collections import PATIENT, rare_collections


@pytest.fixture(autouse=True)
def thresholds():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_a_trace_is_patient_and_leaves_the_thresholds_as_they_were():
    seen = []

    def f(x, fail=False):
        seen.append(gc.get_threshold())
        if fail:
            raise KeyError
        return x * 2.0

    ftrace.jit(f)(np.ones(3))
    with pytest.raises(KeyError):
        ftrace.jit(f, static_argnames="fail")(np.ones(3), fail=True)
    assert seen == [PATIENT, PATIENT]
    assert gc.get_threshold() == (700, 10, 10)


def test_blocks_nest_and_users_settings_win():
    with rare_collections():
        with rare_collections():
            pass
        assert gc.get_threshold() == PATIENT
    assert gc.get_threshold() == (700, 10, 10)
    with rare_collections():
        gc.set_threshold(5, 5, 5)
    assert gc.get_threshold() == (5, 5, 5)
    for never in ((0, 10, 10), (10**6, 10, 10)):
        gc.set_threshold(*never)
        with rare_collections():
            assert gc.get_threshold()[0] == never[0]
