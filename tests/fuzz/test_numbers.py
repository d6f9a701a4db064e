"""Random programs of numbers are right, or refused by name (`numbers.py`)."""

import os

import pytest

import ftrace
from tests.fuzz import numbers

FAST = os.environ.get("FTRACE_LAWS") == "fast"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", range(1 if FAST else 4))
def test_programs_are_right_or_refused(tmp_path, part):
    found = [numbers.check(seed, str(tmp_path)) for seed in range(part * 15, part * 15 + 15)]
    assert {*found} <= {"right", "refused", "raises"}
    assert found.count("right") > 8


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_wrong_result_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(ftrace, "jit", lambda f: lambda x, y: f(x + 0.01, y))
    assert any(numbers.check(seed, str(tmp_path)).startswith("jit of ") for seed in range(8))
