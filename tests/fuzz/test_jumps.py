"""Random programs of jumps over containers are right, or refused by name (`jumps.py`)."""

import os

import pytest

import ftrace
from tests.fuzz import jumps

FAST = os.environ.get("FTRACE_LAWS") == "fast"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("part", range(1 if FAST else 6))
def test_programs_are_right_or_refused(tmp_path, part):
    found = [jumps.check(seed, str(tmp_path)) for seed in range(part * 30, part * 30 + 30)]
    assert {*found} <= {"right", "refused", "raises"}
    assert found.count("right") > 10


def test_a_wrong_result_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(ftrace, "jit", lambda f: lambda x: f(x + 0.01))
    assert any(jumps.check(seed, str(tmp_path)).startswith("jit: ") for seed in range(5))
