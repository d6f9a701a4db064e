"""The benchmark harness on a case that takes no time: checking comes before timing."""

import json
import sys

import numpy as np
import pytest

from benchmarks import plots, pool, report, run, variant
from benchmarks.case import Case, hand, mismatch
from benchmarks.cases import all_cases
from benchmarks.worker import Session

FAKE = """
import os
import numpy as np
from benchmarks.case import Case, UnsupportedError, hand

class Later(list):
    def pop(self):
        self.append(0)
        return np.arange(4.0) * 2 if len(self) < 40 else os._exit(3)

LATER = Later()

def refuse(system, *inputs):
    raise UnsupportedError("it has no double")

def crash(system, *inputs):
    raise ZeroDivisionError("on purpose")

def case(name, build, **options):
    inputs, reference = lambda: (np.arange(4.0),), lambda x: [2.0 * x]
    return Case(name=name, inputs=inputs, reference=reference, own={"numpy": build}, **options)

def all_cases():
    return {f"fake: {c.name}": c for c in (
        case("right", hand(lambda x: x + x)),
        case("wrong", hand(lambda x: x + x + 1e-3)),
        case("refused", refuse),
        case("crashed", crash),
        case("died", lambda system, *inputs: os._exit(3)),
        case("died later", lambda system, *inputs: LATER.pop),
        case("remembered", hand(lambda x: x + x), kind="memory"),
    )}
"""


@pytest.fixture
def worker(tmp_path, monkeypatch):
    (tmp_path / "fake_cases.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("FTRACE_BENCH_PYTHON", sys.executable)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = pool.Worker("numpy", 1, tmp_path / "numpy.log", cases="fake_cases")
    yield made
    made.stop()


def measured(worker, name):
    from fake_cases import all_cases as fakes

    key = f"fake: {name}"
    (record,) = run.measure(key, fakes()[key], [worker], rounds=7, limit=30.0, sample=1e-4)
    return record


def test_a_right_case_is_timed_once_a_round_and_summarised(worker):
    record = measured(worker, "right")
    assert (record["status"], len(record["times"])) == ("ok", 7)
    assert record["min"] == min(record["times"]) > 0.0
    assert record["min"] <= record["median"] <= max(record["times"])


def test_a_wrong_output_is_reported_and_never_timed(worker):
    record = measured(worker, "wrong")
    assert (record["status"], record["times"]) == ("wrong", [])
    assert "output 0 is off by" in record["reason"]


def test_what_a_system_cannot_do_is_recorded_with_its_reason(worker):
    record = measured(worker, "refused")
    assert (record["status"], record["reason"]) == ("unsupported", "it has no double")


def test_a_crash_is_recorded_and_the_worker_goes_on(worker):
    record = measured(worker, "crashed")
    assert (record["status"], record["reason"]) == ("failed", "ZeroDivisionError: on purpose")
    assert measured(worker, "right")["status"] == "ok"


@pytest.mark.parametrize("name", ["died", "died later"])
def test_a_process_that_dies_is_recorded_and_started_again(worker, name):
    record = measured(worker, name)
    assert (record["status"], "min" in record) == ("failed", False)
    assert "died" in record["reason"]
    assert measured(worker, "right")["status"] == "ok"


def test_memory_is_one_figure_in_megabytes(worker):
    record = measured(worker, "remembered")
    assert (record["unit"], len(record["times"])) == ("MB", 1)


def test_a_missing_system_is_a_statement_and_not_an_error(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n == 'numba' else find(n, *a)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    worker = pool.Worker("numba", 1, tmp_path / "numba.log")
    worker.launch()
    assert worker.greeting() == {"status": "not installed", "reason": "not installed: numba"}
    worker.stop()


def test_every_worker_gets_the_same_thread_count():
    env = pool.environment(2)
    assert {env[name] for name in pool.THREAD_VARIABLES} == {"2"}


def test_the_output_is_checked_before_anything_is_timed():
    calls = []

    def call(x):
        calls.append(len(calls))
        return x + 1.0

    case = Case(
        name="late",
        inputs=lambda: (np.zeros(2),),
        reference=lambda x: [x],
        own={"numpy": hand(call)},
    )
    from benchmarks.systems import SYSTEMS

    answer = Session(SYSTEMS["numpy"](), {"late": case}).prepare("late", 1e-4)
    assert (answer["status"], calls) == ("wrong", [0])


@pytest.mark.parametrize(
    ("actual", "expected", "phrase"),
    [
        ([np.ones(3)], [np.ones(2)], "shape (3,)"),
        ([np.ones(2)], [np.ones(2), np.ones(2)], "1 outputs"),
        ([np.array([np.nan])], [np.ones(1)], "off by nan"),
        ([np.ones(2) * (1.0 + 1e-12)], [np.ones(2)], ""),
    ],
)
def test_a_mismatch_says_what_differs(actual, expected, phrase):
    found = mismatch(actual, expected, 1e-9)
    assert phrase in found
    assert bool(found) == bool(phrase)


def test_a_case_more_than_ten_percent_slower_than_stored_is_listed(tmp_path):
    def records(ours):
        base = {"group": "g", "case": "c", "threads": 1, "moved": 0, "unit": "s", "status": "ok"}
        return [
            base | {"system": "ftrace", "min": ours, "spread": 0.0},
            base | {"system": "jax", "min": 2.0, "spread": 0.0},
        ]

    path = tmp_path / "stored.json"
    report.store(path, {}, records(1.0))
    assert report.slower_than(path, records(1.09)) == []
    assert report.slower_than(path, records(1.2)) == ["g: c (1 threads): 0.60 x jax, stored 0.50"]
    assert json.loads(path.read_text())["records"][0]["min"] == 1.0


def test_the_table_names_the_machine_and_the_best_peer(tmp_path):
    base = {"group": "g", "case": "c", "threads": 2, "moved": 0, "unit": "s", "status": "ok"}
    times = {"ftrace": 1e-6, "jax": 2e-6, "autograd": 4e-6, "c": 5e-7}
    records = [report.summarise(base | {"system": s, "times": [t]}) for s, t in times.items()]
    facts = {"cpu": "a processor", "cores": 2, "python": "3", "load": [], "copy_gb_per_s": 10.0}
    facts |= {"date": "today", "rounds": 7, "systems": {"jax": "1"}}
    text = report.markdown(facts, records)
    assert "a processor" in text
    row = "| c | 1 us | 2 us | - | - | 4 us | - | - | 500 ns | - | jax | 0.50 | 2.00 c | 0% |"
    assert row in text


def test_fewer_than_seven_rounds_are_refused(capsys):
    with pytest.raises(SystemExit):
        run.parse(["--rounds", "6"])
    assert "at least 7 rounds" in capsys.readouterr().err


def test_the_short_set_is_part_of_the_whole_and_names_are_unique():
    cases = all_cases()
    assert len(cases) == sum(len(m.CASES) for m in map(group_module, groups()))
    assert set(run.chosen(run.parse([]))) < set(run.chosen(run.parse(["--all"]))) == set(cases)


def groups():
    return sorted({key.split(": ")[0] for key in all_cases()})


def group_module(name):
    return sys.modules[f"benchmarks.cases.{name}"]


def test_every_name_switched_off_by_the_unprotected_variant_exists():
    import ftrace

    before = dict(vars(ftrace.interpreters.captures))
    slope = ftrace.grad(lambda x: x[0] * x[1:].sum())(np.arange(1.0, 4.0))
    with variant.unprotected():
        assert vars(ftrace.interpreters.captures) != before
        same = ftrace.grad(lambda x: x[0] * x[1:].sum())(np.arange(1.0, 4.0))
    assert [5.0, 1.0, 1.0] == list(slope) == list(same)
    assert vars(ftrace.interpreters.captures) == before


def test_plots_are_skipped_with_a_reason_without_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    assert "matplotlib is not installed" in plots.draw([], tmp_path)
