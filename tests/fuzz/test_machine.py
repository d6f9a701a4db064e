"""The machine that finds wrong results: its programs run, and it notices, shrinks and survives.

What it found stands in `test_found.py`.
"""

import ast
import functools
import os

import numpy as np
import pytest

from tests.fuzz import planted
from tests.fuzz.checking import CHECKS, HALVES, check, quiet
from tests.fuzz.comparing import Case, Mismatch, Raised, compare, outcome_of
from tests.fuzz.machine import Tally, Worker
from tests.fuzz.modules import BORDER, program
from tests.fuzz.shrinking import shrink

SEED = 1
FAST = os.environ.get("FTRACE_LAWS") == "fast"
SIMPLE = f"""
def f(x):
    BODY
def arguments(k):
    return ([0.3, -0.5, 0.75][k],), {{}}
{BORDER}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where programs are written."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def found(folder, body):
    return {(o.check, o.verdict) for o in check(folder, SIMPLE.replace("BODY", body)) if o.finding}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("part", range(1 if FAST else 5))
def test_programs_are_right_or_loud(folder, part):
    tally = Tally()
    for number in range(part * 28, part * 28 + 28):
        text = program(SEED, number)
        if FAST or part > 0:  # interpreted
            text = text.replace(", True\nSTATIC", ", False\nSTATIC")
        families = HALVES[number % 2]  # the other half of the ways: python -m tests.fuzz
        tally.add(number, text, check(folder, text, families=families))
    assert not {k: [(f.number, f.outcome) for f in v] for k, v in tally.findings.items()}
    assert tally.refused <= 0.25  # of few programs; 6 % of thousands
    assert tally.comparisons >= 6 * tally.programs


def test_halves_of_the_ways_are_all_of_them():
    assert {f for half in HALVES for f in half} == set(CHECKS)


def test_a_seed_always_gives_the_same_programs():
    assert [program(3, n) for n in range(20)] == [program(3, n) for n in range(20)]
    assert len({program(s, n) for s in (1, 2) for n in range(50)}) == 100


def test_plain_python_runs_the_programs_and_they_write_no_argument(folder):
    for number in range(60):
        with quiet():
            case = Case(folder, program(7, number))
            module = case.plain()
            module.change(0)
            args, kwargs = module.arguments(0)
            before = repr(args)
            outcome_of(functools.partial(module.f, *args, **kwargs))
        errors = [e.error for e in case.expected if isinstance(e, Raised)]
        assert all(isinstance(e, ValueError | AssertionError) for e in errors)
        assert repr(args) == before


def test_what_is_right_is_no_finding(folder):
    assert found(folder, "return x * x if x > 0 else -x") == set()


def test_an_answer_of_a_trace_alone_is_found_by_every_check(folder):
    wrong = (
        "import ftrace\n    return x * (3.0 if isinstance(x, ftrace.core.trace.Tracer) else 2.0)"
    )
    names = {name for name, verdict in found(folder, wrong) if verdict == "mismatch"}
    assert {"jit 0", "jit 1", "vmap", "jit(vmap)", "vectorize", "jvp", "grad"} <= names


def test_an_error_from_inside_is_a_crash_and_one_of_ours_a_refusal(folder):
    body = "import ftrace\n    return {}['a'] if isinstance(x, ftrace.Tracer) else x"
    assert ("jvp", "crash") in found(folder, body)
    refused = SIMPLE.replace("BODY", "return x * np.unique(np.array([x, 0.3])).shape[0]")
    assert {o.verdict for o in check(folder, refused, "jit 0")} == {"refused"}


def test_kinks_are_no_findings(folder):
    assert found(folder, "return abs(x - 0.3) + max(x, 0.3) + (x > 0.3) * 1.0") == set()


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (np.float32(1.0), np.float64(1.0)),
        (np.int32(1), np.int64(1)),
        (np.float64(1.0), True),
        (np.ones(2), np.ones((1, 2))),
        ([1.0], (1.0,)),
        (1.0, 1.001),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0])),
    ],
)
def test_values_dtypes_shapes_and_structures_are_compared(actual, expected):
    compare(expected, expected)
    with pytest.raises(Mismatch):
        compare(actual, expected)


def right(worker):
    return {o.verdict for o in worker.ask(SIMPLE.replace("BODY", "return x"))} == {"right"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "reason"),
    [("import os; os.abort()", "ended with code -6"), ("while True: pass", "no end")],
)
def test_a_process_that_dies_or_hangs_is_found(body, reason):
    text = SIMPLE.replace("BODY", f"if isinstance(x, ftrace.Tracer):\n        {body}\n    return x")
    worker = Worker()
    try:
        assert right(worker)  # and the process has started
        (outcome,) = worker.ask(text, seconds=4)
        assert outcome.finding
        assert reason in outcome.reason
        assert right(worker)
    finally:
        worker.end()


def test_a_finding_shrinks_to_a_few_lines():
    text = next(t for n in range(200) if "np.sort(" in (t := program(5, n)))
    small = shrink(text, lambda t: "np.sort(" in t, 20.0)
    assert "np.sort(" in small
    assert small.count("\n") < 16 < text.count("\n")


def test_planted_bugs_are_changes_of_the_sources_as_they_are():
    assert all(bug.fits for bug in planted.BUGS), [b.name for b in planted.BUGS if not b.fits]
    for bug in planted.BUGS:
        text = (planted.ROOT / bug.file).read_text(encoding="utf-8")
        ast.parse(text.replace(bug.before, bug.after))
